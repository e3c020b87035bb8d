//! Scenarios of the StatefulSet controller. Names that begin with `c_` carry the id of the behaviour catalogue they come
//! from.

mod budget;
mod claiming_rows;
mod cluster;
mod decode;
mod drive;
mod history_rows;
mod invariants;
mod limits;
mod operate;
mod pod_rows;
mod random;
mod scaling;
mod server;
mod updating;
mod utility_rows;

use super::{Decision, Purpose, Task};
use crate::plan::Mode;

/// Steps of a decision, each write with what it is for.
fn steps(decided: &Decision, which: impl Fn(&Mode, &[Purpose]) -> bool) -> Vec<Vec<Task>> {
    let steps = decided.plan.steps.iter().zip(&decided.purposes);
    let steps = steps.filter(|(step, purposes)| which(&step.mode, purposes));
    let task =
        |(action, purpose): (&_, &Purpose)| Task { action: Clone::clone(action), purpose: purpose.clone() };
    steps.map(|(step, purposes)| step.writes.iter().zip(purposes).map(task).collect()).collect()
}

/// What is written to pods, claims and revisions before the status.
fn work(decided: &Decision) -> Vec<Vec<Task>> {
    steps(decided, |mode, _| *mode == Mode::Act)
}

/// What is deleted after the status.
fn trim(decided: &Decision) -> Vec<Vec<Task>> {
    steps(decided, |_, purposes| purposes.contains(&Purpose::TrimRevision))
}
