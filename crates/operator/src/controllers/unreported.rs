//! What is to be reported of writes whose answer was lost. Once such a write has taken effect, no later plan announces it
//! again, so it is kept until the view shows what became of the write. Losing it loses a message, nothing else.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::{Mutex, MutexGuard};
use sts_plus_api::keys;
use sts_plus_api::phased_rollout::PhasedRolloutStatus;
use sts_plus_planner::phased_rollout::Decision;
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::plan::{Action, Note, Verb, When};
use sts_plus_planner::set::Strategy;

use crate::shell::cache::Store;

/// Lost writes that are remembered of one rollout: each attempt to write a status may be the one that took effect, and after
/// so many of them nobody waits for the message any more.
const MAX_LOST: usize = 8;

/// Per key: the writes whose answer was lost.
#[derive(Debug)]
pub(super) struct Unreported<K> {
    lost: Mutex<HashMap<K, Vec<Lost>>>,
}

/// A write whose answer was lost, and what to report if it took effect.
#[derive(Debug)]
struct Lost {
    effect: Effect,
    notes: Vec<Note>,
}

/// What the view shows if a write took effect.
#[derive(Debug)]
enum Effect {
    /// This status, on the rollout that had this version.
    Status { before: Box<str>, status: Box<PhasedRolloutStatus> },
    /// What the write does to a set or a pod.
    Write(Box<Action>),
}

impl<K> Default for Unreported<K> {
    fn default() -> Self {
        Self { lost: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash> Unreported<K> {
    /// Remembers what to report of the writes of a plan that were not answered, except for what was reported already.
    pub(super) fn lost(&self, key: &K, decision: &Decision, unanswered: &[&Action], reported: &[Note]) {
        for action in unanswered {
            let is_status = matches!(action.verb(), Verb::ReplaceStatus { .. });
            let rest = decision.plan.notes.iter().filter(|one| !reported.contains(one));
            let its = rest.filter(|one| is_status || one.when == When::Written(action.object().clone()));
            let notes: Vec<_> = its.cloned().collect();
            if notes.is_empty() {
                continue;
            }
            let effect = if is_status {
                let before = action.precondition().resource_version.clone().unwrap_or_default();
                Effect::Status { before, status: Box::new(decision.status.clone()) }
            } else {
                Effect::Write(Box::new((*action).clone()))
            };
            let mut lost = self.lock();
            let lost = lost.entry(key.clone()).or_default();
            lost.push(Lost { effect, notes });
            if lost.len() > MAX_LOST {
                lost.remove(0);
            }
        }
    }

    /// Takes what is to be reported now: that of writes which the view shows to have taken effect. A write to a set or a pod
    /// has been read back before anything is planned; a status that the view does not show yet is waited for, and one that
    /// somebody else has written over is forgotten.
    pub(super) fn due(&self, key: &K, rollout: &RolloutRow, store: &Store) -> Vec<Note> {
        let mut all = self.lock();
        let Some(lost) = all.remove(key) else { return Vec::new() };
        let (mut due, mut waiting) = (Vec::new(), Vec::new());
        for one in lost {
            match &one.effect {
                Effect::Status { status, .. } if **status == rollout.status => due.extend(one.notes),
                Effect::Status { before, .. } if *before == rollout.resource_version => waiting.push(one),
                Effect::Write(action) if is_shown(action, store) => due.extend(one.notes),
                Effect::Status { .. } | Effect::Write(_) => {}
            }
        }
        if !waiting.is_empty() {
            all.insert(key.clone(), waiting);
        }
        due
    }

    /// Drops what is remembered of a rollout: it is gone, or a later plan has reported the same.
    pub(super) fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Vec<Lost>>> {
        self.lost.lock()
    }
}

/// Whether the view shows what a write does: a pod that is gone or on its way out, a set with this partition and mark.
fn is_shown(action: &Action, store: &Store) -> bool {
    let uid = &*action.precondition().uid;
    match action.verb() {
        Verb::Delete => store.seen(action.object()).is_none_or(|seen| *seen.uid != *uid || seen.terminating),
        Verb::Apply { body, .. } => {
            let set = store.set_of_uid(&action.object().namespace, uid);
            let version = action.precondition().resource_version.as_deref();
            let partition = body.pointer("/spec/updateStrategy/rollingUpdate/partition");
            let partition = partition.and_then(serde_json::Value::as_u64);
            let mark =
                body.pointer("/metadata/annotations").and_then(|all| all.get(keys::PHASED_ROLLOUT)?.as_str());
            set.is_some_and(|set| {
                let at = match set.strategy {
                    Strategy::RollingUpdate { partition } => Some(u64::from(partition)),
                    _ => None,
                };
                Some(&*set.resource_version) != version
                    && (partition.is_none() || partition == at)
                    && set.steering.phased_rollout.as_deref() == mark
            })
        }
        _ => false,
    }
}
