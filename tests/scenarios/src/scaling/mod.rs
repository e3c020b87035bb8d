//! The stage of ScalingPolicies, and their scenarios: draining, scaling up, foreign writes, groups, deletion.
//!
//! ```text
//!   scenario ──> Scaled ──> dyn Cluster
//!                  ├─ manifest: what the user writes
//!                  ├─ App: the application in the pods, which answers the hook over the pod network and counts
//!                  ├─ Operator: the one under test, with the chart's permissions and no more
//!                  └─ Observer<Seen>: policies, sets, pods; `judge`: the guarantees over all that happened
//! ```

pub mod app;
mod b9;
mod bad_input;
mod calls;
mod crash;
mod crash_locked;
mod deletion;
mod examples;
mod foreign;
mod groups;
mod guard;
mod joining;
mod judge;
mod lock;
mod loki;
pub mod manifest;
mod process;
pub mod seen;
mod sizes;
mod stage;
mod targets;
pub mod volumes;

pub use stage::{NAME, Scaled};

use crate::scenarios::Scenario;

/// Scenarios from functions of the same name.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        vec![$(crate::scenarios::Scenario {
            name: stringify!($name),
            place: crate::scenarios::Place::Shared,
            needs_binary: false,
            play: |cluster, name| Box::pin($name(cluster, name)),
        }),*]
    };
}
use scenarios;

/// The scenarios, those that take longest first.
pub fn all() -> Vec<Scenario> {
    [
        b9::all(),
        sizes::all(),
        process::all(),
        loki::all(),
        calls::all(),
        joining::all(),
        lock::all(),
        groups::all(),
        foreign::all(),
        targets::all(),
        deletion::all(),
        bad_input::all(),
        examples::all(),
        guard::all(),
        crash_locked::all(),
    ]
    .concat()
}

/// The scenarios that are played on the embedded cluster only, as there are many runs in each.
pub fn enumerations() -> Vec<Scenario> {
    [crash::all(), sizes::enumerations()].concat()
}
