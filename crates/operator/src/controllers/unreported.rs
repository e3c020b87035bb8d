//! What is to be reported of writes whose answer was lost. Once such a write has taken effect, no later plan announces it
//! again, so it is kept until the view shows what became of the write. Losing it loses a message, nothing else.

use sts_plus_api::keys;
use sts_plus_api::phased_rollout::PhasedRolloutStatus;
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::plan::{Action, Note, Plan, Verb, When};
use sts_plus_planner::set::Strategy;

use crate::shell::cache::Store;

/// Lost writes that are remembered of one rollout: each attempt to write a status may be the one that took effect, and after
/// so many of them nobody waits for the message any more.
const MAX_LOST: usize = 8;

/// The writes for a rollout whose answer was lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Unreported {
    lost: Vec<Lost>,
}

/// A write whose answer was lost, and what to report if it took effect.
#[derive(Clone, Debug)]
struct Lost {
    effect: Effect,
    notes: Vec<Note>,
}

/// What the view shows if a write took effect.
#[derive(Clone, Debug)]
enum Effect {
    /// This status, on the rollout that had this version.
    Status { before: Box<str>, status: Box<PhasedRolloutStatus> },
    /// What the write does to a set or a pod.
    Write(Box<Action>),
}

impl Unreported {
    /// Remembers what to report of the writes of a plan that were not answered, except for what was reported already.
    pub(super) fn lost(
        &mut self,
        (plan, status): (&Plan, &PhasedRolloutStatus),
        unanswered: &[&Action],
        reported: &[&Note],
    ) {
        for action in unanswered {
            let is_status = matches!(action.verb(), Verb::ReplaceStatus { .. });
            let rest = plan.notes.iter().filter(|one| !reported.contains(one));
            let its = rest.filter(|one| is_status || one.when == When::Written(action.object().clone()));
            let notes: Vec<_> = its.cloned().collect();
            if notes.is_empty() {
                continue;
            }
            let effect = if is_status {
                let before = action.precondition().resource_version.clone().unwrap_or_default();
                Effect::Status { before, status: Box::new(status.clone()) }
            } else {
                Effect::Write(Box::new((*action).clone()))
            };
            self.lost.push(Lost { effect, notes });
            if self.lost.len() > MAX_LOST {
                self.lost.remove(0);
            }
        }
    }

    /// What is to be reported now: that of writes which the view shows to have taken effect; and what is still waited for. A
    /// write to a set or a pod has been read back before anything is planned; a status that the view does not show yet is
    /// waited for, and one that somebody else has written over is forgotten.
    pub(super) fn due(&self, rollout: &RolloutRow, store: &Store) -> (Vec<Note>, Self) {
        let (mut due, mut open) = (Vec::new(), Self::default());
        for one in &self.lost {
            match one.fate(rollout, store) {
                Fate::TookEffect => due.extend(one.notes.iter().cloned()),
                Fate::Open => open.lost.push(one.clone()),
                Fate::Undone => {}
            }
        }
        (due, open)
    }
}

/// What became of a write, by what the view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    TookEffect,
    Open,
    Undone,
}

impl Lost {
    fn fate(&self, rollout: &RolloutRow, store: &Store) -> Fate {
        match &self.effect {
            Effect::Status { status, .. } if **status == rollout.status => Fate::TookEffect,
            Effect::Status { before, .. } if *before == rollout.resource_version => Fate::Open,
            Effect::Write(action) if is_shown(action, store) => Fate::TookEffect,
            Effect::Status { .. } | Effect::Write(_) => Fate::Undone,
        }
    }
}

/// Whether the view shows what a write does: a pod that is gone or on its way out, a set with this partition and mark.
fn is_shown(action: &Action, store: &Store) -> bool {
    let uid = &*action.precondition().uid;
    match action.verb() {
        Verb::Delete | Verb::Orphan => {
            store.seen(action.object()).is_none_or(|seen| *seen.uid != *uid || seen.terminating)
        }
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
