//! Managing a set: hold the partition, look at the gate, take one step.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::{Failure, GateState, GateStatus, OnFailure, Phase};

use super::approval::RETRY;
use super::gate::{self, Ground, Standing, to_i32};
use super::policy::Policy;
use super::wait::Wait;
use super::{Draft, Ended};
use crate::disruption::{Allowance, DomainBudget, Gatekeeper};
use crate::health::{Health, Member};
use crate::plan::{Action, Ask};
use crate::planted::{self, Bug};
use crate::pod::PodRow;
use crate::reason::Severity;
use crate::set::SetRow;

/// Pods that the status names as ungated; a set with more of them has said enough.
const MAX_UNGATED: usize = 100;

/// Revisions of adopted pods that the status names: a set has a few, and labels that somebody makes up must not fill it.
const MAX_ADOPTED: usize = 20;

/// What the steps of a pass share.
pub(super) struct Scene<'w> {
    pub(super) policy: &'w Policy,
    pub(super) member: &'w Member,
    pub(super) health: Health,
    /// The partition as it is on the set.
    pub(super) partition: u32,
    pub(super) update: &'w str,
    pub(super) current: &'w str,
}

impl Scene<'_> {
    pub(super) fn set(&self) -> &Arc<SetRow> {
        &self.member.set
    }
}

impl Draft<'_> {
    /// Holds the partition of an observed set and rolls it, gate by gate.
    pub(super) fn manage(&mut self, policy: &Policy, member: &Member, partition: u32) -> Option<Wait> {
        let set = &member.set;
        let health = Health::of(member, self.now);
        let (Some(update), Some(current)) = (set.target(), set.current_revision.as_deref()) else {
            return self.unobserved(set, partition);
        };
        self.status.awaited_approval = None;
        self.tally(member, &health, update);
        if self.status.failure.as_ref().is_some_and(|failure| failure.revision != update) {
            self.status.failure = None;
        }
        if self.status.phase == Some(Phase::Suspended) {
            // It is no more, whatever is awaited first.
            self.status.phase = Some(Phase::Rolling);
            self.status.holds_every_pod = false;
        }
        let scene = Scene { policy, member, health, partition, update, current };
        if update == current {
            self.settle_on_pause(&scene);
        }
        let under_way = self.status.rolling_pod_status.is_some();
        let same = self.status.update_revision.as_deref() == Some(update);
        Some(match (update == current, under_way && same) {
            (true, true) if self.replaces_adopted(&scene) => self.go_on(&scene),
            (true, true) => self.verify(&scene),
            (true, false) if self.has_adopted(&scene) || self.was_rolled_unseen(&scene) => {
                self.start(&scene, false)
            }
            (true, false) => self.rest(&scene),
            (false, _) if self.is_to_roll_back() => self.roll_back(&scene),
            (false, true) => self.go_on(&scene),
            (false, false) => self.start(&scene, false),
        })
    }

    /// Whether the set was created with pods of another revision, or somebody has made them so, and no rollout was under way
    /// that could have left them. Its status then calls the update revision current, although pods have yet to be replaced;
    /// the partition keeps them all the same, as long as they are not deleted. Pods that a rollout has left are brought
    /// back first.
    fn has_adopted(&self, scene: &Scene<'_>) -> bool {
        let mut others = others(scene).peekable();
        others.peek().is_some() && (!self.was_under_way() || others.all(|pod| self.is_adopted(pod)))
    }

    /// Whether the gates of such a set are not all behind it.
    fn replaces_adopted(&self, scene: &Scene<'_>) -> bool {
        let gate = self.status.rolling_pod_status.as_ref();
        // At the final gate the partition is pinned again, unless the last pod is still to be replaced.
        let ahead = gate.is_some_and(|gate| gate.partition > 0 || scene.partition == 0);
        others(scene).any(|pod| ahead || self.is_adopted(pod))
    }

    /// Whether a pod is one of those that the set was created over.
    pub(super) fn is_adopted(&self, pod: &PodRow) -> bool {
        let revision = pod.revision.as_deref().unwrap_or_default();
        self.status.adopted_revisions.iter().any(|adopted| adopted == revision)
    }

    /// Whether every pod has got another revision since this set, or the one of its name before it, was last looked at: no
    /// gate has let them through.
    fn was_rolled_unseen(&self, scene: &Scene<'_>) -> bool {
        let before = self.before();
        let same_name = before.target.as_ref().is_some_and(|target| *target.name == *scene.set().name);
        let another = before.update_revision.as_deref().is_some_and(|revision| revision != scene.update);
        let at_rest = matches!(before.phase, Some(Phase::Updated | Phase::RolledBack));
        let replaced = scene.set().replicas > 0 && others(scene).next().is_none();
        same_name && another && at_rest && replaced
    }

    /// Whether the status says that a rollout was under way, so that pods of another revision are what it has left.
    fn was_under_way(&self) -> bool {
        self.status.rolling_pod_status.is_some()
            || self.status.previous_revision.is_some()
            || self.status.phase == Some(Phase::RollingBack)
            || planted::has(Bug::AdoptedBroughtBack)
    }

    /// The revision failed and was promoted before its pods were back: there is nothing to go back to any more.
    fn settle_on_pause(&mut self, scene: &Scene<'_>) {
        let Some(failure) = self.status.failure.as_mut() else { return };
        failure.action = OnFailure::Pause;
        // Where pods of another revision are there, their gates are ahead.
        let (partition, replicas) = (released(scene), scene.set().replicas);
        self.status
            .rolling_pod_status
            .get_or_insert_with(|| gate::begin(partition, replicas, false, self.now));
    }

    /// Nothing rolls: the partition is pinned before anything else is said, and pods of another revision, which a
    /// rollout that was taken back has left, are brought back.
    fn rest(&mut self, scene: &Scene<'_>) -> Wait {
        let was_under_way = self.was_under_way();
        let left = self.status.rolling_pod_status.take().is_some();
        let rolling_back = self.status.phase == Some(Phase::RollingBack);
        if left {
            // Also while something keeps it from going on: the way back is not over before it is reported.
            self.status.phase = Some(Phase::RollingBack);
        }
        if let Some(wait) = self.hold(scene.set(), scene.partition, scene.set().replicas) {
            return wait;
        }
        self.status.update_revision = Some(scene.update.to_owned());
        let why = "the template was changed back to it";
        if was_under_way && let Some(wait) = self.bring_back(scene, scene.update, why) {
            return wait;
        }
        if rolling_back && !scene.health.all_ready() {
            self.wake_at(scene.health.changes_at);
            return Wait::RollingBack { revision: scene.update.to_owned(), why: why.to_owned(), held: None };
        }
        if left || rolling_back {
            self.end(Ended::RolledBack);
            let message = format!("all pods are back on revision {}", scene.update);
            self.announce(Severity::Normal, "RolledBack", message);
        }
        self.status.previous_revision = None;
        self.status.adopted_revisions.clear();
        self.status.ungated_pods.clear();
        Wait::UpToDate { revision: scene.update.to_owned() }
    }

    /// A new revision: the partition is pinned where no further pod moves, and the first gate begins.
    pub(super) fn start(&mut self, scene: &Scene<'_>, approved: bool) -> Wait {
        let set = scene.set();
        let superseded = self.status.rolling_pod_status.take().is_some();
        let partition = released(scene).max(scene.partition.min(set.replicas));
        // A rollout that was suspended or rolled back has let pods through already.
        let same = self.status.update_revision.as_deref() == Some(scene.update);
        let gated_from = self.status.partition.filter(|_| same).and_then(|from| u32::try_from(from).ok());
        self.status.phase = Some(Phase::Rolling);
        self.status.update_revision = Some(scene.update.to_owned());
        let previous = if scene.update == scene.current { self.adopt(scene) } else { Some(scene.current) };
        self.status.previous_revision = previous.map(str::to_owned);
        self.status.rollout_start_time = Some(self.now);
        self.status.rollout_end_time = None;
        self.status.ungated_pods.clear();
        self.note_ungated(scene, gated_from.unwrap_or(set.replicas));
        let gate = gate::begin(partition, set.replicas, true, self.now);
        self.status.rolling_pod_status = Some(GateStatus { approved, ..gate });
        let message = if superseded {
            format!("revision {} takes the place of the one being rolled out: starts anew", scene.update)
        } else {
            format!("rolls from revision {} to revision {}", previous.unwrap_or_default(), scene.update)
        };
        self.announce(Severity::Normal, "RolloutStarted", message);
        self.go_on(scene)
    }

    /// Remembers the revisions of the pods that the set was created over. The lowest pod has what they all had: it would have
    /// been rolled last.
    fn adopt<'s>(&mut self, scene: &Scene<'s>) -> Option<&'s str> {
        for pod in others(scene).filter(|pod| !pod.terminating) {
            if !self.is_adopted(pod) && self.status.adopted_revisions.len() < MAX_ADOPTED {
                self.status.adopted_revisions.push(pod.revision.as_deref().unwrap_or_default().to_owned());
            }
        }
        let lowest = others(scene).filter_map(|pod| Some((scene.member.wanted_ordinal(pod)?, pod)));
        lowest.min_by_key(|(ordinal, _)| *ordinal).and_then(|(_, pod)| pod.revision.as_deref())
    }

    /// The rollout is under way and its revision is not the current one.
    fn go_on(&mut self, scene: &Scene<'_>) -> Wait {
        let set = scene.set();
        let Some(mut gate) = self.resume(scene) else { return self.start(scene, false) };
        if gate.replicas != to_i32(set.replicas) {
            gate = self.resized(scene, &gate);
        }
        let own = u32::try_from(gate.partition).unwrap_or(0);
        if let Some(reason) = self.release_is_held(scene.member, scene.partition, own) {
            self.status.rolling_pod_status = Some(gate);
            return Wait::Held { reason };
        }
        let contested = self.hold(set, scene.partition, own);
        self.note_ungated(scene, own);
        if let Some(wait) = contested {
            self.status.rolling_pod_status = Some(gate);
            return wait;
        }
        self.replace_stuck(scene);
        self.pass(scene, gate)
    }

    /// The gate as it was left, or the one behind it if the step was taken and not written down.
    fn resume(&mut self, scene: &Scene<'_>) -> Option<GateStatus> {
        let mut gate = self.status.rolling_pod_status.take()?;
        self.status.phase = Some(Phase::Rolling);
        let next = gate.partition.saturating_sub(1);
        if gate.status == GateState::Passed && gate.partition > 0 && to_i32(scene.partition) == next {
            gate = self.next_gate(scene, &gate);
            self.status.partition = Some(next);
        }
        Some(gate)
    }

    /// All pods are of the revision, and the set's own controller calls it current: the final gate, with the partition
    /// pinned again, so that a further template does not slip through.
    fn verify(&mut self, scene: &Scene<'_>) -> Wait {
        let set = scene.set();
        let Some(mut gate) = self.resume(scene) else { return self.rest(scene) };
        if gate.partition > 0 {
            let own = u32::try_from(gate.partition).unwrap_or(0);
            self.note_ungated(scene, own);
            gate = gate::begin(0, set.replicas, false, self.now);
        }
        if gate.replicas != to_i32(set.replicas) {
            gate = gate::begin(0, set.replicas, false, self.now);
        }
        if let Some(wait) = self.hold(set, scene.partition, set.replicas) {
            self.status.rolling_pod_status = Some(gate);
            return wait;
        }
        // A further template has come and gone before the partition was pinned: nobody else brings its pods back. One that
        // terminates is replaced anyway, as the last one of a set that was created over its pods is.
        let left = |pod: &Arc<PodRow>| pod.revision.as_deref() != Some(scene.update) && !pod.terminating;
        if scene.member.pods.iter().any(left)
            && let Some(wait) = self.bring_back(scene, scene.update, "the template was changed back to it")
        {
            self.status.rolling_pod_status = Some(gate);
            return wait;
        }
        self.pass(scene, gate)
    }

    /// Looks at the gate, and takes the step behind it if it may.
    fn pass(&mut self, scene: &Scene<'_>, mut gate: GateStatus) -> Wait {
        let needed = self.needed_approval(scene, &gate);
        let given = needed.clone().filter(|needed| self.is_given(needed));
        self.status.awaited_approval.clone_from(&needed);
        if self.status.failure.is_some() {
            let Some(approval) = given else {
                gate.status = GateState::Failed;
                self.status.rolling_pod_status = Some(gate);
                return self.failed(scene);
            };
            self.use_up(approval);
            self.status.failure = None;
            let partition = u32::try_from(gate.partition).unwrap_or(0);
            gate = gate::begin(partition, scene.set().replicas, gate.first, self.now);
            gate.approved = true;
            self.announce(Severity::Normal, "Approved", format!("revision {} is tried again", scene.update));
        } else if let Some(approval) = given {
            gate.approved = true;
            self.announce(Severity::Normal, "Approved", format!("{approval} is approved"));
            self.use_up(approval);
        }
        let rollout = &self.world.rollout;
        let ground = Ground {
            rollout: &rollout.name,
            policy: scene.policy,
            member: scene.member,
            health: &scene.health,
            revision: scene.update,
            generation: rollout.generation,
            approve: rollout.approve.as_deref(),
            needed: needed.as_deref().unwrap_or_default(),
            outcomes: &self.world.outcomes,
            under_way: &self.world.under_way,
            now: self.now,
        };
        let look = gate::look(&mut gate, &ground);
        self.wake_at(look.wake_at);
        let wait = match look.standing {
            Standing::Waits(wait) => {
                self.decision
                    .plan
                    .asks
                    .extend(look.questions.into_iter().map(|one| Ask::Query(Box::new(one))));
                wait
            }
            Standing::Failed { reason, why } => return self.fail(scene, gate, reason, why),
            Standing::Passed if gate.partition > 0 => {
                self.spend(scene, &mut gate, false);
                return self.step(scene, gate);
            }
            Standing::Passed if scene.update == scene.current => return self.complete(scene),
            Standing::Passed => Wait::NotPromoted { revision: scene.update.to_owned() },
        };
        let counts = self.counts(scene, &gate, &wait);
        if self.spend(scene, &mut gate, counts) {
            self.decision.plan.asks.retain(|ask| !matches!(ask, Ask::Query(_)));
            let seconds = scene.policy.deadline_seconds();
            let why = format!("it has not passed in the {seconds} s that it has: {wait}");
            return self.fail(scene, gate, "ProgressDeadlineExceeded", why);
        }
        self.status.rolling_pod_status = Some(gate);
        wait
    }

    /// What somebody has to write before the rollout resumes: to retry what has failed, or to approve the step behind the
    /// gate.
    fn needed_approval(&self, scene: &Scene<'_>, gate: &GateStatus) -> Option<String> {
        if self.status.failure.is_some() {
            return Some(self.approval_for(scene.update, RETRY));
        }
        if gate.approved || !gate::needs_approval(scene.policy, gate) {
            return None;
        }
        Some(self.approval_for(scene.update, &next_pod(scene, gate)?))
    }

    /// The gate has passed. It is written down first; a gate that was is followed by the step.
    fn step(&mut self, scene: &Scene<'_>, mut gate: GateStatus) -> Wait {
        let written = self.before().rolling_pod_status.as_ref().is_some_and(|before| {
            before.status == GateState::Passed
                && before.partition == gate.partition
                && before.checks == gate.checks
        });
        gate.status = GateState::Passed;
        let wait = passed(scene, &gate);
        if !written || !self.writes.is_empty() {
            self.status.rolling_pod_status = Some(gate);
            return wait;
        }
        let set = scene.set();
        let index = u32::try_from(gate.partition).unwrap_or(0).saturating_sub(1);
        let ordinal = set.first_ordinal.saturating_add(index);
        let pod = scene.member.pods.iter().find(|pod| scene.member.wanted_ordinal(pod) == Some(ordinal));
        let Some(pod) = pod else {
            // Not to be: a gate passes only while every pod is there.
            self.status.rolling_pod_status = Some(gate);
            return Wait::PodsNotAvailable { down: scene.health.summary() };
        };
        let domain = self.domain(scene.member);
        match Gatekeeper::new(&domain).ask(&set.name, pod) {
            Ok(permit) => {
                self.writes.push(Action::let_go(&permit, set, &self.world.rollout.name, index));
                let next = self.next_gate(scene, &gate);
                let wait =
                    Wait::PodNotUpdated { pod: pod.name.to_string(), revision: scene.update.to_owned() };
                self.status.partition = Some(next.partition);
                self.status.rolling_pod_status = Some(next);
                wait
            }
            Err(denial) => {
                self.wake_at(domain.changes_at());
                self.status.rolling_pod_status = Some(gate);
                Wait::Held { reason: self.denied(&denial) }
            }
        }
    }

    /// The gate behind the one that has passed.
    fn next_gate(&mut self, scene: &Scene<'_>, gate: &GateStatus) -> GateStatus {
        let partition = u32::try_from(gate.partition).unwrap_or(0).saturating_sub(1);
        self.decision.gate_took = Some(took(gate, self.now));
        self.announce(Severity::Normal, "GatePassed", passed(scene, gate).to_string());
        gate::begin(partition, u32::try_from(gate.replicas).unwrap_or(0), false, self.now)
    }

    /// The replicas have changed: the gate begins anew, at a partition that is not above them. While no pod has been
    /// let go, new ones shall not be born in the new revision either.
    fn resized(&mut self, scene: &Scene<'_>, gate: &GateStatus) -> GateStatus {
        let replicas = scene.set().replicas;
        let own = u32::try_from(gate.partition).unwrap_or(0);
        let partition = if gate.partition >= gate.replicas { replicas } else { own.min(replicas) };
        let mut anew = gate::begin(partition, replicas, gate.first, self.now);
        // An approval names the pod behind the gate.
        anew.approved = gate.approved && partition == own;
        anew
    }

    fn complete(&mut self, scene: &Scene<'_>) -> Wait {
        if let Some(gate) = &self.before().rolling_pod_status {
            self.decision.gate_took = Some(took(gate, self.now));
        }
        self.end(Ended::Completed);
        self.announce(
            Severity::Normal,
            "RolloutCompleted",
            format!("all pods are of revision {}", scene.update),
        );
        self.status.previous_revision = None;
        self.status.adopted_revisions.clear();
        Wait::UpToDate { revision: scene.update.to_owned() }
    }

    /// The gate will not pass. What is done about it is decided once and written down.
    fn fail(&mut self, scene: &Scene<'_>, mut gate: GateStatus, reason: &'static str, why: String) -> Wait {
        // No gate has let the current revision through where pods have yet to be replaced by it: there is no way back.
        let ungated = scene.update == scene.current || !self.status.adopted_revisions.is_empty();
        let action = if ungated { OnFailure::Pause } else { scene.policy.on_failure };
        gate.status = GateState::Failed;
        self.decision.ended = Some(Ended::Failed);
        self.status.failure = Some(Failure {
            revision: scene.update.to_owned(),
            reason: reason.to_owned(),
            message: why.clone(),
            time: self.now,
            action,
        });
        self.status.rolling_pod_status = Some(gate);
        self.status.awaited_approval = Some(self.approval_for(scene.update, RETRY));
        if action == OnFailure::Rollback {
            self.status.rolling_pod_status = None;
            let message = format!("revision {} has failed its gate: {why}", scene.update);
            self.announce(Severity::Warning, "GateFailed", message);
            return Wait::RollingBack { revision: scene.current.to_owned(), why, held: None };
        }
        self.failed(scene)
    }

    fn failed(&self, scene: &Scene<'_>) -> Wait {
        let restore = self.status.previous_revision.clone().filter(|_| scene.update == scene.current);
        Wait::GateFailed {
            rollout: self.world.rollout.name.to_string(),
            revision: scene.update.to_owned(),
            approval: self.status.awaited_approval.clone().unwrap_or_default(),
            why: self.status.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default(),
            restore,
        }
    }

    /// A rollout is over.
    pub(super) fn end(&mut self, ended: Ended) {
        self.decision.ended = Some(ended);
        self.status.rolling_pod_status = None;
        if self.status.rollout_start_time.is_some() {
            self.status.rollout_end_time = Some(self.now);
        }
    }

    /// Remembers pods of the new revision that no gate has let through: those below the partition.
    fn note_ungated(&mut self, scene: &Scene<'_>, below: u32) {
        let first = scene.set().first_ordinal;
        for pod in &scene.member.pods {
            let index = scene.member.wanted_ordinal(pod).map(|ordinal| ordinal.saturating_sub(first));
            let ungated = index.is_some_and(|index| index < below) && gate::is_of(pod, scene.update);
            let known = self.status.ungated_pods.iter().any(|known| **known == *pod.name);
            if ungated && !known && self.status.ungated_pods.len() < MAX_UNGATED {
                self.status.ungated_pods.push(pod.name.to_string());
            }
        }
    }

    /// What the gatekeeper has to know: the set, and the others of its group.
    pub(super) fn domain(&self, member: &Member) -> DomainBudget {
        let members = std::iter::once(member).chain(&self.world.neighbours);
        DomainBudget::of(members, Allowance::OnePod, self.now).of_sets(self.world.group_sets)
    }
}

/// The pods that are there, wanted, and of another revision than the update revision.
fn others<'s>(scene: &Scene<'s>) -> impl Iterator<Item = &'s Arc<PodRow>> {
    let (member, update) = (scene.member, scene.update);
    let other = move |pod: &&Arc<PodRow>| pod.revision.as_deref() != Some(update);
    member.pods.iter().filter(other).filter(|pod| member.wanted_ordinal(pod).is_some())
}

/// The lowest partition at which no pod moves: one above the highest index that is not of the revision yet.
fn released(scene: &Scene<'_>) -> u32 {
    let held = gate::highest_outdated(scene.member, scene.update);
    held.map_or(0, |ordinal| ordinal.saturating_sub(scene.set().first_ordinal).saturating_add(1))
}

fn passed(scene: &Scene<'_>, gate: &GateStatus) -> Wait {
    let partition = u32::try_from(gate.partition).unwrap_or(0);
    Wait::GatePassed { partition, pod: next_pod(scene, gate) }
}

/// The pod that the step behind a gate replaces; `None` at the final gate.
fn next_pod(scene: &Scene<'_>, gate: &GateStatus) -> Option<String> {
    let index = u32::try_from(gate.partition).unwrap_or(0).checked_sub(1)?;
    let ordinal = scene.set().first_ordinal.saturating_add(index);
    Some(format!("{}-{ordinal}", scene.set().name))
}

/// A clock that was set back makes it no less than nothing.
fn took(gate: &GateStatus, now: Timestamp) -> SignedDuration {
    now.duration_since(gate.start_time).max(SignedDuration::ZERO)
}
