//! Drained pods under a lock: each is deleted at the version at which it was found as it was drained, unless it has exited and
//! waits for its lock. Whatever comes in its place waits for its lock, too.
//!
//! The key of the ordinal was removed, and seen to be, before the hook was called. A pod that is created later mounts the
//! ConfigMap as the node reads it then, so it finds no key. A node that is behind lets it start nevertheless: then it is not
//! held, is called again before it is removed, and finds the lock as it is.

use std::sync::Arc;

use sts_plus_api::scaling_policy::{PodRecord, RecordPhase};

use super::calls::{self, Side};
use super::fence;
use super::live::{Live, LivePod};
use super::moves::Moves;
use super::record::is_of;
use super::situation::Scene;
use super::wait::Wait;
use crate::disruption::Gatekeeper;
use crate::ordinal;
use crate::plan::Action;
use crate::pod::PodRow;

/// What is to be done about the pod of a drained ordinal.
enum Verdict {
    /// Nothing: it does not come back.
    Settled,
    /// It is deleted.
    Delete,
    /// It is waited for.
    Wait,
    /// It may have served since it was drained, and is called again.
    Again,
}

/// Deletes drained pods that would come back, and finds those that do not.
pub(super) fn remove(scene: &Scene<'_>, moves: &mut Moves) {
    if !scene.is_locked() || scene.paused {
        return;
    }
    for record in moves.status.leaving.clone() {
        let is_seen = record.phase == RecordPhase::Drained
            && record.drained_time.is_some()
            && scene.is_announced(record.ordinal)
            && calls::is_seen(scene, Side::Leaving, &record);
        if !is_seen {
            continue;
        }
        if scene.index(record.ordinal) >= scene.replicas() {
            remove_condemned(scene, moves, &record);
            continue;
        }
        match moves.read(scene, &record.pod_name) {
            Live::Unknown => {}
            Live::Gone => {
                moves.settled.insert(record.ordinal);
            }
            Live::Pod(pod) => match judge(&record, &pod) {
                Verdict::Settled => {
                    moves.settled.insert(record.ordinal);
                }
                Verdict::Wait => {}
                Verdict::Delete => delete(scene, moves, &record, &pod),
                Verdict::Again => Side::Leaving.each(moves, |moves, known| {
                    if known.ordinal == record.ordinal {
                        calls::start_again(scene, moves, known, &pod);
                    }
                    true
                }),
            },
        }
    }
}

fn judge(record: &PodRecord, pod: &LivePod<'_>) -> Verdict {
    let is_same = record.pod_uid == pod.uid;
    let is_first_exit = is_same && pod.has_exited_once_since(&record.container_restarts);
    if is_same && pod.terminates && is_first_exit {
        return Verdict::Settled;
    }
    if pod.waits_for_lock() && (is_first_exit || !is_same && pod.has_never_run()) {
        return Verdict::Settled;
    }
    if is_of(record, pod) && pod.runs {
        return Verdict::Delete;
    }
    if is_first_exit && !pod.ready() {
        // By the rule it is about to wait for its lock; without it the container is about to run again.
        return if pod.restarts_all() && !pod.runs { Verdict::Wait } else { Verdict::Delete };
    }
    Verdict::Again
}

/// Deletes a pod as it was read. Without the lock in the template its successor would run.
fn delete(scene: &Scene<'_>, moves: &mut Moves, record: &PodRecord, pod: &LivePod<'_>) {
    let row = scene.pod(record.ordinal).filter(|row| *row.uid == *pod.uid);
    let Some(row) = row.filter(|row| *row.resource_version == *pod.version()) else {
        // What was read is not what the cache has: it is about to change.
        return;
    };
    if !scene.is_lock_in_place() || !fence::locks_out(scene, record.ordinal) {
        moves.waits.push(Wait::AddingLock { set: Arc::clone(&scene.set().name) });
        return;
    }
    if let Some(why) = &scene.world.unconfirmed {
        moves.waits.push(Wait::ViewUnconfirmed { why: Arc::clone(why) });
        return;
    }
    let domain = scene.domain();
    if let Some(permit) = Gatekeeper::new(&domain).ask_drained(&scene.set().name, row) {
        moves.deletions.push(Action::delete(&permit));
        moves.settled.insert(record.ordinal);
    }
}

/// Deletes a pod that is not wanted any more and waits for its lock. Under OrderedReady the StatefulSet controller waits until
/// such a pod is Ready, unless it is the lowest one that is not.
fn remove_condemned(scene: &Scene<'_>, moves: &mut Moves, record: &PodRecord) {
    let Some(row) = scene.pod(record.ordinal).filter(|row| !row.terminating && !row.ready()) else { return };
    let is_lower = |pod: &PodRow| {
        ordinal::of_pod(&pod.name, &scene.set().name).is_some_and(|ordinal| ordinal < record.ordinal)
    };
    let is_blocked = scene.member.pods.iter().any(|pod| is_lower(pod) && !pod.ready());
    if !is_blocked || scene.set().target().is_none() {
        return;
    }
    let Live::Pod(pod) = moves.read(scene, &row.name) else { return };
    if pod.waits_for_lock() && !pod.terminates {
        delete(scene, moves, record, &pod);
    }
}
