//! Lowering the replicas, past all pods that are done.

use std::sync::Arc;

use sts_plus_api::scaling_policy::{PodRecord, RecordPhase};

use super::calls::{self, Side};
use super::claims;
use super::live::Live;
use super::moves::Moves;
use super::record::{is_forced, is_of};
use super::situation::Scene;
use super::wait::Wait;
use crate::plan::Action;

/// Whether pods are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lowered {
    /// They are, or only a look at them is missing: no other pod begins to leave in this pass.
    Yes,
    No,
}

/// Lowers the replicas when all pods that have begun to leave are done: one write for all of them.
pub(super) fn lower(scene: &Scene<'_>, moves: &mut Moves) -> Lowered {
    let (replicas, set) = (scene.replicas(), scene.set());
    let floor = scene.floor(&moves.status.leaving);
    let leaving = moves.status.leaving.clone();
    let remain: Vec<_> = leaving.iter().filter(|record| scene.index(record.ordinal) < replicas).collect();
    let is_done = |record: &&PodRecord| {
        let is_seen = || calls::is_seen(scene, Side::Leaving, record);
        record.phase == RecordPhase::Drained && is_seen() && is_said(scene, record)
    };
    let is_resting =
        |record: &PodRecord| matches!(record.phase, RecordPhase::Cancelling | RecordPhase::Failed);
    if !remain.iter().all(|record| is_resting(record) || is_done(record)) {
        return Lowered::No;
    }
    let record_at = |index: u32| remain.iter().find(|record| scene.index(record.ordinal) == index);
    let drained: Vec<_> =
        (floor..replicas).rev().map_while(|index| record_at(index).copied().filter(is_done)).collect();
    let Some(count) = u32::try_from(drained.len()).ok().filter(|count| *count > 0) else {
        return Lowered::No;
    };
    if scene.paused {
        moves.waits.push(Wait::Paused);
        return Lowered::Yes;
    }
    // All are looked at, so that all are read at once.
    let others = drained.iter().filter(|record| !is_still_done(scene, moves, record)).count();
    let unknown = drained.iter().filter(|record| !claims::remember(scene, moves, record.ordinal)).count();
    let drained: Vec<PodRecord> = drained.into_iter().cloned().collect();
    let others = others.saturating_add(unknown);
    if others == 0 && !claims::retain(scene, moves, &drained) {
        return Lowered::Yes;
    }
    if others > 0 {
        return Lowered::Yes;
    }
    if let Some(why) = &scene.world.unconfirmed {
        moves.waits.push(Wait::ViewUnconfirmed { why: Arc::clone(why) });
        return Lowered::Yes;
    }
    moves.set_write = Some(Action::scale(set, replicas.saturating_sub(count)));
    Lowered::Yes
}

/// Whether the set says that the pod leaves. Of one that does not exist it need not.
fn is_said(scene: &Scene<'_>, record: &PodRecord) -> bool {
    record.pod_uid.is_empty() || scene.set().leaving().contains(&record.ordinal)
}

/// Whether the pod is the one that was called, and was not restarted since. One that is not is called again.
fn is_still_done(scene: &Scene<'_>, moves: &mut Moves, record: &PodRecord) -> bool {
    if is_forced(record) || scene.down.is_none() {
        return true;
    }
    if scene.is_locked() && record.drained_time.is_some() {
        return moves.settled.contains(&record.ordinal);
    }
    match moves.read(scene, &record.pod_name) {
        Live::Unknown => false,
        Live::Gone => true,
        Live::Pod(pod) if is_of(record, &pod) => true,
        Live::Pod(pod) => {
            Side::Leaving.each(moves, |moves, known| {
                if known.ordinal == record.ordinal {
                    calls::rebind(scene, moves, known, &pod);
                    known.hook_hash = super::record::hash(scene.down.as_deref());
                }
                true
            });
            false
        }
    }
}
