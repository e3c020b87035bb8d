//! What users rely on, as stories that run on any cluster.
//!
//! ```text
//!   scenario ──> Scene ──> dyn Cluster ──> real control plane, or whatever else implements it
//!                  │  the user's hands        hollow nodes, identities, counted requests
//!                  ├─ Operator: the one under test, in this process, with the chart's permissions and no more
//!                  └─ Observer: one watch over the namespace, the guarantees checked after every event
//! ```
//!
//! Phased rollouts have a scene of their own, [`gated::Gated`], since what is guaranteed about them is something else, and so has the
//! StatefulSet controller, [`native::Act`], which is compared with Kubernetes' own. All three stand on one [`stage::Stage`].
//!
//! A scenario is written once and does not know its cluster. It makes its own namespace, gives the sets, starts
//! operators, plays the user and waits for what the user would see. Whatever it asserts itself, the observer
//! asserts the guarantees of a rollout group after each event, and prints its whole timeline when one is broken
//! or the scenario fails in any other way. How a pod behaves is chosen by annotations of the hollow nodes, so a
//! rollout can be held at a chosen pod and nothing depends on speed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "this crate is a test, which clippy recognises by an attribute that it does not have"
)]

mod admission;
pub mod binary;
pub mod cluster;
mod crash;
pub mod embedded;
pub mod extended;
pub mod fixture;
pub mod gated;
mod kubectl;
pub mod native;
pub mod observer;
pub mod operator;
pub mod real;
pub mod repertoire;
pub mod rules;
pub mod scaling;
pub mod scenarios;
pub mod scene;
pub mod stage;
pub mod stale;
pub mod theatre;
pub mod view;
pub mod webhook;
