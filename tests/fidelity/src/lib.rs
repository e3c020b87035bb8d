//! The embedded API server beside the real one.
//!
//! ```text
//! sequences/*.yaml ──> Sequence ──> Session (embedded) ──> transcript ──┐
//!                          └──────> Session (real) ──────> transcript ──┴──> differences ──> docs/fidelity.md
//! ```
//!
//! A sequence is data: requests, and watches whose events are collected. Both servers get it in a namespace of its own;
//! what differs from one run to the next (UIDs, versions, times, addresses) is made neutral, and the rest must be equal.

mod difference;
mod neutral;
pub mod report;
mod sequence;
mod session;
pub mod webhook;

pub use difference::differences;
pub use sequence::{Area, Sequence, SequenceError, Suite};
pub use session::{Server, Transcript, play};
