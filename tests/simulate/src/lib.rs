//! The operator on the embedded cluster, where one seed decides everything that goes wrong.
//!
//! ```text
//!   seed ──> Plan (faults, windows)   Cast (workloads)   People (edits, evictions, sick pods, lost nodes)
//!                 │                        │                 │
//!   operator ──> Link ─────────────────> Server <────────────┘      Prometheus (down, slow, lying)
//!   operator ──> Link ──────────┘          │
//!                                       Monitor: every state, every write, the invariants; then the goal and silence
//! ```
//!
//! Everything runs in one thread on a paused clock, so a seed gives the same trace each time, and an hour takes as long
//! as the work in it. Nothing here knows how the operator decides: the monitor sees objects and requests.

#![allow(
    clippy::indexing_slicing,
    clippy::similar_names,
    clippy::single_match_else,
    clippy::too_many_lines,
    clippy::missing_panics_doc,
    clippy::too_many_arguments,
    reason = "this crate is a test, which clippy recognises by an attribute that it does not have: JSON is looked at where it is"
)]

pub mod absence;
pub mod call;
pub mod cast;
pub mod defects;
pub mod dice;
pub mod endings;
pub mod extended;
pub mod faults;
pub mod gates;
pub mod goal;
pub mod hand;
pub mod init;
pub mod link;
pub mod monitor;
pub mod people;
pub mod planted;
pub mod prometheus;
mod refusals;
pub mod run;
pub mod scaling;
pub mod sight;
pub mod steps;
pub mod terms;
pub mod trace;
pub mod truth;
