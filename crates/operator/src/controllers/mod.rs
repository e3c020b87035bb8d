//! The controllers: each builds its world from the caches, plans, and has the executor act.

pub mod phased_rollout;
mod probes;
pub mod rollout_group;
pub mod statefulset;
mod stretches;
#[cfg(test)]
mod test_server;
mod trouble;
mod unobserved;
mod unreported;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sts_plus_planner::set::SetRow;
use tokio::time::Instant;

use crate::shell::api::Kind;
use crate::shell::events::Regarding;

/// A set, as events name it.
fn regarding(set: &SetRow) -> Regarding {
    Regarding {
        resource: Kind::StatefulSet,
        namespace: Arc::clone(&set.namespace),
        name: Arc::clone(&set.name),
        uid: Arc::clone(&set.uid),
    }
}

/// When a point of wall-clock time will be, on the clock that timers run on, for a time of day that was read when that clock
/// showed `started`. Both are read at once, before anything is waited for: whoever sets the one later on does not move it.
fn later(started: Instant, at: Timestamp, now: Timestamp) -> Instant {
    started + Duration::try_from(at.duration_since(now)).unwrap_or_default()
}
