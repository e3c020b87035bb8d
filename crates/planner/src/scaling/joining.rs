//! Raising the replicas: at once, or with a hook one pod after the other.

use sts_plus_api::scaling_policy::{PodRecord, RecordPhase};

use super::calls::{self, Side};
use super::fence;
use super::moves::Moves;
use super::record::{begun, is_under_way};
use super::situation::{Ending, Scene};
use super::wait::Wait;
use crate::plan::Action;
use crate::reason::Severity;

/// Calls the pod that joins, and ends the records of those that have.
pub(super) fn join(scene: &Scene<'_>, moves: &mut Moves) {
    let status = &scene.world.row.status;
    let is_changed = status.observed_generation != Some(scene.world.row.generation);
    let is_forgotten = |record: &PodRecord| match record.phase {
        RecordPhase::Failed => is_changed,
        _ => scene.index(record.ordinal) >= scene.wanted || scene.ending != Ending::None,
    };
    moves.status.joining.retain(|record| !is_forgotten(record));
    Side::Joining.each(moves, |moves, record| {
        let has_joined = record.phase == RecordPhase::Drained;
        if has_joined {
            let message = format!("{} has joined.", record.pod_name);
            moves.note(scene, Severity::Normal, "Joined", message);
        }
        !has_joined
    });
    calls::call(scene, moves, Side::Joining);
}

/// Raises the replicas to what is asked for.
pub(super) fn raise(scene: &Scene<'_>, moves: &mut Moves) {
    let (set, replicas) = (scene.set(), scene.replicas());
    if replicas >= scene.wanted || scene.ending != Ending::None {
        return;
    }
    if scene.paused {
        moves.waits.push(Wait::Paused);
        return;
    }
    let leaves = |records: &[PodRecord]| records.iter().any(is_under_way);
    let is_quiet = !leaves(&scene.world.row.status.leaving) && !leaves(&moves.status.leaving);
    // A pod that is created with the ordinal of one that leaves would count as leaving.
    if !is_quiet || set.steering.leaving.is_some() || moves.set_write.is_some() {
        return;
    }
    moves.waits.push(Wait::ScalingUp { wanted: scene.wanted, replicas });
    if !fence::allows_up_to(scene, scene.wanted) {
        return;
    }
    if scene.up.is_none() {
        moves.set_write = Some(Action::scale(set, scene.wanted));
        return;
    }
    let next = moves.status.joining.iter().find(|record| scene.index(record.ordinal) == replicas);
    if next.is_some_and(|record| calls::is_seen(scene, Side::Joining, record)) {
        moves.set_write = Some(Action::scale(set, replicas.saturating_add(1)));
    } else if moves.status.joining.is_empty() {
        let ordinal = scene.ordinal(replicas);
        let record = begun(ordinal, &scene.pod_name(ordinal), scene.up.as_deref(), scene.now);
        moves.status.joining.push(record);
    }
}
