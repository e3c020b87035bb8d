//! Which pods leave: from the highest ordinal down, as many at once as may.

use std::collections::BTreeSet;
use std::sync::Arc;

use sts_plus_api::scaling_policy::{PodRecord, RecordPhase};

use super::calls::{self, Side};
use super::claims;
use super::fence;
use super::live::Live;
use super::moves::Moves;
use super::record::{begun, bind, forget_drain, is_forced, is_under_way};
use super::situation::Scene;
use super::wait::{Wait, denied_for};
use crate::disruption::Gatekeeper;
use crate::plan::Action;
use crate::pod::PodRow;
use crate::reason::Severity;
use crate::set::{self, Strategy};

/// Ends the records of pods that are gone for good.
pub(super) fn end(scene: &Scene<'_>, moves: &mut Moves) {
    Side::Leaving.each(moves, |moves, record| {
        let is_gone = scene.index(record.ordinal) >= scene.replicas() && scene.pod(record.ordinal).is_none();
        if is_gone && !claims::delete(scene, moves, record) {
            return true;
        }
        if is_gone {
            moves.removed += 1;
            let drained = if is_forced(record) { "" } else { "drained and " };
            let message = format!("{} was {drained}removed.", record.pod_name);
            moves.note(scene, Severity::Normal, "Removed", message);
        }
        !is_gone
    });
}

/// Takes the calls of pods back that are to stay, and lets those try again that have failed when the spec is changed.
pub(super) fn take_back(scene: &Scene<'_>, moves: &mut Moves) {
    let status = &scene.world.row.status;
    let is_changed = status.observed_generation != Some(scene.world.row.generation)
        || status.desired_replicas != Some(scene.wanted);
    if scene.paused {
        return;
    }
    if is_changed {
        moves.status.leaving.retain(is_under_way);
    }
    let floor = scene.floor(&moves.status.leaving);
    let out_of_turn = out_of_turn(scene, &moves.status.leaving, floor);
    Side::Leaving.each(moves, |moves, record| {
        let index = scene.index(record.ordinal);
        let is_wanted = index < floor || out_of_turn == Some(record.ordinal);
        if !is_wanted || index >= scene.replicas() {
            return true;
        }
        let can_cancel = scene.down.as_ref().is_some_and(|hook| hook.can_cancel());
        // A record that is bound to a pod may have been called, whatever somebody has made of the annotation.
        let is_called = !record.pod_uid.is_empty();
        match record.phase {
            RecordPhase::Failed => index >= scene.wanted,
            RecordPhase::Cancelling => {
                record.deadline_exceeded &= index >= scene.wanted;
                true
            }
            RecordPhase::Requested | RecordPhase::Draining | RecordPhase::Drained => {
                record.deadline_exceeded = false;
                if !is_called || !can_cancel {
                    return calls::taken_back(scene, moves, Side::Leaving, record);
                }
                record.phase = RecordPhase::Cancelling;
                forget_drain(record);
                (record.start_time, record.attempts) = (scene.now, 0);
                moves.polls_at.remove(&*record.pod_uid);
                record.message.clear();
                record.last_error.clear();
                true
            }
        }
    });
}

/// A pod that leaves below one that has to go first, where both at once would be too many: somebody has raised the replicas in
/// the meantime. The lowest one gives way, and leaves again when it is its turn.
fn out_of_turn(scene: &Scene<'_>, leaving: &[PodRecord], floor: u32) -> Option<u32> {
    let record_at = |index: u32| leaving.iter().find(|record| scene.index(record.ordinal) == index);
    let first = (floor..scene.replicas()).rev().find(|index| record_at(*index).is_none())?;
    let under_way = || leaving.iter().filter(|record| is_under_way(record));
    let most = usize::try_from(scene.max_concurrent).unwrap_or(usize::MAX);
    let below = under_way().map(|record| record.ordinal).filter(|ordinal| scene.index(*ordinal) < first);
    below.min().filter(|_| under_way().count() >= most)
}

/// Lets pods begin to leave. Those whose ordinal the set does not have yet need leave again.
pub(super) fn begin(scene: &Scene<'_>, moves: &mut Moves) {
    let (floor, replicas) = (scene.floor(&moves.status.leaving), scene.replicas());
    let announced = scene.set().leaving();
    let is_waiting =
        |record: &PodRecord| record.phase == RecordPhase::Requested && !announced.contains(&record.ordinal);
    let beyond = scene.member.pods.iter().filter(|pod| {
        let ordinal = crate::ordinal::of_pod(&pod.name, &scene.set().name);
        let is_recorded = |ordinal| moves.status.leaving.iter().any(|record| record.ordinal == ordinal);
        ordinal.is_some_and(|ordinal| scene.index(ordinal) >= replicas && !is_recorded(ordinal))
    });
    let mut under_way = beyond.count() + moves.status.leaving.iter().filter(|it| is_under_way(it)).count();
    let most = usize::try_from(scene.max_concurrent).unwrap_or(usize::MAX);
    let domain = scene.domain();
    let mut gatekeeper = Gatekeeper::new(&domain);
    for index in (floor..replicas).rev() {
        let ordinal = scene.ordinal(index);
        let known = moves.status.leaving.iter().position(|record| record.ordinal == ordinal);
        let record = known.map(|at| moves.status.leaving.remove(at));
        if let Some(record) = record.as_ref().filter(|record| !is_waiting(record)) {
            keep(moves, record.clone());
            continue;
        }
        let is_new = record.is_none();
        if is_new && under_way >= most {
            break;
        }
        let blocked = if scene.paused { Some(Wait::Paused) } else { rollout(scene) };
        let is_locking = || !fence::may_begin(scene);
        let locking = || Wait::AddingLock { set: Arc::clone(&scene.set().name) };
        let blocked = blocked.or_else(|| is_locking().then(locking));
        if let Some(wait) = blocked {
            moves.waits.push(wait);
            if let Some(record) = record {
                keep(moves, record);
            }
            break;
        }
        let fresh = || begun(ordinal, &scene.pod_name(ordinal), scene.down.as_deref(), scene.now);
        let record = record.unwrap_or_else(fresh);
        if !begin_one(scene, moves, &mut gatekeeper, record) {
            break;
        }
        under_way += usize::from(is_new);
    }
    if let Some(at) = domain.changes_at().filter(|_| !moves.waits_on.is_empty()) {
        moves.wake(at);
    }
}

/// Keeps the records in the order of their ordinals.
fn keep(moves: &mut Moves, record: PodRecord) {
    let records = &mut moves.status.leaving;
    let at = records.partition_point(|known| known.ordinal < record.ordinal);
    records.insert(at, record);
}

/// Lets one pod begin to leave, or go on to; whether the next one may be looked at.
fn begin_one(
    scene: &Scene<'_>,
    moves: &mut Moves,
    gatekeeper: &mut Gatekeeper<'_>,
    mut record: PodRecord,
) -> bool {
    let is_old = scene.world.row.status.leaving.iter().any(|known| known.ordinal == record.ordinal);
    let Some(row) = scene.pod(record.ordinal) else {
        lack(scene, moves, record);
        return true;
    };
    if let Err(denial) = gatekeeper.ask_leave(&scene.set().name, row, scene.max_concurrent) {
        moves.denied(&denial);
        moves.waits.push(Wait::Held { pod: row.name.to_string(), reason: denied_for(&denial) });
        if is_old {
            keep(moves, record);
        }
        return false;
    }
    if let Some(why) = &scene.world.unconfirmed {
        moves.waits.push(Wait::ViewUnconfirmed { why: Arc::clone(why) });
        if is_old {
            keep(moves, record);
        }
        return false;
    }
    if scene.down.is_none() {
        record.pod_uid = row.uid.to_string();
        record.phase = RecordPhase::Drained;
        moves.permitted.insert(record.ordinal);
        keep(moves, record);
        return true;
    }
    match moves.read(scene, &row.name) {
        Live::Unknown => {
            if is_old {
                keep(moves, record);
            }
        }
        Live::Gone => lack(scene, moves, record),
        Live::Pod(pod) if scene.is_locked() && !pod.has_lock() => {
            moves.waits.push(Wait::PodNotLocked { pod: record.pod_name.clone() });
            if is_old {
                keep(moves, record);
            }
            return false;
        }
        Live::Pod(pod) => {
            // Under a lock a pod that does not run is let run first, to be called.
            if !scene.is_locked() || pod.callable {
                bind(&mut record, &pod);
            }
            moves.permitted.insert(record.ordinal);
            keep(moves, record);
        }
    }
    true
}

/// A pod that is to leave and does not exist. Its controller creates it again, and only then it can be called; without a hook
/// there is nothing to wait for.
fn lack(scene: &Scene<'_>, moves: &mut Moves, mut record: PodRecord) {
    let stays = match &scene.down {
        None => {
            record.phase = RecordPhase::Drained;
            true
        }
        Some(hook) => calls::cannot_call(scene, moves, Side::Leaving, &mut record, (hook, "does not exist")),
    };
    if stays {
        keep(moves, record);
    }
}

/// Why no pod may begin to leave because of a rollout: it would be restarted only to be removed, and nobody would know which of
/// the two takes how long. The rollout group of an ExtendedStatefulSet leaves those pods alone that are to leave, so there a
/// pod does not wait for the others.
fn rollout(scene: &Scene<'_>) -> Option<Wait> {
    let set = scene.set();
    if set.target().is_none() {
        return Some(Wait::NotObserved { set: Arc::clone(&set.name), generation: set.generation });
    }
    // Of a set that is emptied nothing is restarted for good, and its rollout may never end.
    if set.child.is_some() && (set.strategy == Strategy::OnDelete || scene.wanted == 0) {
        return None;
    }
    let is_outdated = |pod: &&Arc<PodRow>| {
        let revision = scene.member.wanted_ordinal(pod).and_then(|ordinal| set.revision_for(ordinal));
        revision.is_some_and(|revision| pod.revision.as_deref() != Some(revision))
    };
    let outdated = scene.member.pods.iter().find(is_outdated)?;
    Some(Wait::RolloutUnderWay { set: Arc::clone(&set.name), pod: outdated.name.to_string() })
}

/// Says on the set which of its pods leave.
pub(super) fn announce(scene: &Scene<'_>, moves: &mut Moves) {
    let set = scene.set();
    let announced = set.leaving();
    let is_said = |record: &&PodRecord| {
        let is_called = record.phase != RecordPhase::Requested && !record.pod_uid.is_empty();
        let is_new = is_called && scene.world.unconfirmed.is_none();
        is_under_way(record)
            && (announced.contains(&record.ordinal) || moves.permitted.contains(&record.ordinal) || is_new)
    };
    let leaving: BTreeSet<u32> =
        moves.status.leaving.iter().filter(is_said).map(|record| record.ordinal).collect();
    let value = (!leaving.is_empty()).then(|| set::leaving_value(&leaving));
    if set.steering.leaving.as_deref() != value.as_deref() && moves.set_write.is_none() {
        moves.set_write = Some(Action::announce_leaving(set, &leaving));
    }
}
