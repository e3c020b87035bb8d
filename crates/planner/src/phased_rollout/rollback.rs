//! The way back: pods of a revision that failed, or was taken back, return to the one before.
//!
//! The template is the user's and is not written. With the partition at the replicas, a pod that is deleted is built
//! from the current revision again.

use std::cmp::Reverse;
use std::sync::Arc;

use sts_plus_api::phased_rollout::{OnFailure, Phase};

use super::approval::RETRY;
use super::manage::Scene;
use super::wait::Wait;
use super::{Draft, Ended};
use crate::disruption::Gatekeeper;
use crate::health::Why;
use crate::ordinal;
use crate::plan::Action;
use crate::planted::{self, Bug};
use crate::pod::PodRow;
use crate::reason::Severity;

impl Draft<'_> {
    /// Whether the revision has failed and its pods shall go back.
    pub(super) fn is_to_roll_back(&self) -> bool {
        let back = self.status.failure.as_ref().is_some_and(|failure| failure.action == OnFailure::Rollback);
        back && !planted::has(Bug::RollbackForgotten)
    }

    /// Brings the pods of a failed revision back, and then waits for another template.
    pub(super) fn roll_back(&mut self, scene: &Scene<'_>) -> Wait {
        let approval = self.approval_for(scene.update, RETRY);
        if self.is_given(&approval) {
            self.use_up(approval);
            self.status.failure = None;
            self.announce(Severity::Normal, "Approved", format!("revision {} is tried again", scene.update));
            return self.start(scene, true);
        }
        self.status.awaited_approval = Some(approval.clone());
        if let Some(wait) = self.hold(scene.set(), scene.partition, scene.set().replicas) {
            return wait;
        }
        let why = self.status.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
        if let Some(wait) = self.bring_back(scene, scene.current, &why) {
            return wait;
        }
        // The way back ends once; a pod that is down later is no rollback.
        if self.status.rollout_end_time.is_none() {
            if !scene.health.all_ready() {
                self.wake_at(scene.health.changes_at);
                return Wait::RollingBack { revision: scene.current.to_owned(), why, held: None };
            }
            self.end(Ended::RolledBack);
        }
        self.status.ungated_pods.clear();
        Wait::RolledBack {
            rollout: self.world.rollout.name.to_string(),
            approval,
            failed: scene.update.to_owned(),
            revision: scene.current.to_owned(),
        }
    }

    /// Deletes pods of another revision, as far as they may be; `None` when there are none. Pods that the set was created
    /// over are not brought back: their gates are ahead. Nothing is deleted before the partition is known to the set's own
    /// controller: it would build the same pods again.
    pub(super) fn bring_back(&mut self, scene: &Scene<'_>, revision: &str, why: &str) -> Option<Wait> {
        let set = scene.set();
        let changed = |pod: &&Arc<PodRow>| {
            pod.revision.as_deref() != Some(revision)
                && scene.member.wanted_ordinal(pod).is_some()
                && !self.is_adopted(pod)
        };
        let mut pods: Vec<_> = scene.member.pods.iter().filter(changed).collect();
        if pods.is_empty() {
            return None;
        }
        let waits =
            |held| Some(Wait::RollingBack { revision: revision.to_owned(), why: why.to_owned(), held });
        if scene.policy.paused {
            self.status.phase = Some(Phase::RollingBack);
            return Some(Wait::Paused { rollout: self.world.rollout.name.to_string() });
        }
        if !self.writes.is_empty() {
            return waits(None);
        }
        pods.retain(|pod| !pod.terminating);
        let broken = |pod: &PodRow| matches!(scene.health.why_down(&pod.name), Some(Why::Broken(_)));
        // Dead ones first: they may be deleted when others may not. The newest is the lowest: a rolling update proceeds from
        // the highest ordinal down.
        pods.sort_by(|left, right| {
            let urgency = |pod: &PodRow| Reverse((pod.is_dead(), broken(pod)));
            urgency(left).cmp(&urgency(right)).then_with(|| ordinal::natural(&left.name, &right.name))
        });
        let domain = self.domain(scene.member);
        let mut gatekeeper = Gatekeeper::new(&domain);
        for pod in pods {
            match gatekeeper.ask_back(&set.name, pod) {
                Ok(permit) => self.writes.push(Action::delete(&permit)),
                Err(denial) if self.writes.is_empty() => {
                    self.wake_at(domain.changes_at());
                    return waits(Some(self.denied(&denial)));
                }
                Err(denial) => {
                    self.denied(&denial);
                    break;
                }
            }
        }
        waits(None)
    }

    /// Replaces pods of a revision that was superseded before it worked. They are below the partition, so that nobody
    /// else does, and no gate passes while they are down. A pod that serves stays until it is reached, and so does one that
    /// the set was created over, unless it is dead: it may serve again.
    pub(super) fn replace_stuck(&mut self, scene: &Scene<'_>) {
        if scene.policy.paused || !self.writes.is_empty() {
            return;
        }
        let previous = self.status.previous_revision.clone();
        let stuck = |pod: &&Arc<PodRow>| {
            let revision = pod.revision.as_deref();
            let known = [Some(scene.update), Some(scene.current), previous.as_deref()];
            let superseded = !known.contains(&revision);
            let down = matches!(scene.health.why_down(&pod.name), Some(Why::Broken(_) | Why::NotReady));
            let lost = pod.is_dead() || !self.is_adopted(pod);
            superseded && down && lost && scene.member.wanted_ordinal(pod).is_some()
        };
        let domain = self.domain(scene.member);
        let mut gatekeeper = Gatekeeper::new(&domain);
        let pods: Vec<_> = scene.member.pods.iter().filter(stuck).collect();
        for pod in pods {
            match gatekeeper.ask_back(&scene.set().name, pod) {
                Ok(permit) => {
                    let message =
                        format!("{} is of a superseded revision and not available: it is replaced", pod.name);
                    self.write_and_announce(Action::delete(&permit), "StuckPodReplaced", message);
                }
                Err(denial) => {
                    self.denied(&denial);
                }
            }
        }
    }
}
