//! Releasing a set: when the rollout is deleted, suspended, or names another target.

use std::ops::ControlFlow;

use sts_plus_api::keys;
use sts_plus_api::phased_rollout::{Phase, ReleasePolicy};

use super::policy::Policy;
use super::wait::Wait;
use super::{Decision, Draft, World};
use crate::health::Member;
use crate::plan::{Action, Note, Step, When};
use crate::planted::{self, Bug};
use crate::reason::Severity;
use crate::set::{SetRow, Strategy};

/// The end of a rollout that is being deleted: every set that it holds is released, then our finalizer. One set per pass,
/// since each is released in the lane of its own domain.
pub(super) fn depart(world: &World) -> Decision {
    let rollout = &world.rollout;
    let mut decision = Decision { status: rollout.status.clone(), ..Decision::default() };
    if !rollout.has_finalizer() {
        return decision;
    }
    let plan = &mut decision.plan;
    let mut held = world.held.iter();
    if let Some(set) = held.next() {
        let (writes, note) = release(world, set);
        plan.steps.extend(writes.into_iter().map(Step::one));
        plan.notes.push(note);
    }
    if held.next().is_none() {
        plan.steps.push(Step::one(rollout.let_go()));
    }
    decision
}

/// What it takes to release a set, and what to say of it. Another rollout that waits for the set takes it over as it is,
/// with the mark of its own, so that nothing moves in between and nothing is left if it is deleted as well.
fn release(world: &World, set: &SetRow) -> (Vec<Action>, Note) {
    let stays_held = planted::has(Bug::SetStaysHeld);
    let policy = if stays_held { ReleasePolicy::Freeze } else { world.rollout.spec.deletion };
    let marked = set.steering.phased_rollout.as_deref() == Some(&*world.rollout.name);
    // The mark may have other owners besides our apply: whoever restored a backup, or an earlier version of ours.
    let unmark = Action::annotate(set, keys::PHASED_ROLLOUT, None, keys::MANAGER_PHASED_ROLLOUT);
    let unmark = marked.then_some(unmark);
    let successor = world.others.iter().find(|other| !other.deleting && other.target() == Some(&*set.name));
    let (writes, message): (Vec<Action>, _) = match (successor, &set.strategy, policy) {
        (Some(successor), Strategy::RollingUpdate { partition }, _) => (
            vec![Action::pin(set, &successor.name, *partition)],
            format!("{} is handed over to the PhasedRollout {}", set.name, successor.name),
        ),
        (_, _, ReleasePolicy::Freeze) => (
            unmark.into_iter().collect(),
            format!("{} is released: its partition keeps its value and nothing moves", set.name),
        ),
        (_, _, ReleasePolicy::Resume) => (
            std::iter::once(Action::release(set)).chain(unmark).collect(),
            format!("{} is released: it rolls as Kubernetes does it, unchecked", set.name),
        ),
    };
    let when = writes.first().map_or(When::Done, |write| When::Written(write.object().clone()));
    (writes, world.note(Severity::Normal, "Released", message, when))
}

impl Draft<'_> {
    /// Another target was named, or a set other than the target carries our mark: it is released first, and that
    /// is all that this pass does. It breaks with what the pass has to say.
    pub(super) fn release_former(&mut self) -> ControlFlow<Option<Wait>> {
        let target = self.world.rollout.target();
        let is_other = |name: &str| target != Some(name);
        let managed = self.before().target.as_ref().filter(|managed| is_other(&managed.name));
        let held = self.world.held.iter().find(|set| is_other(&set.name));
        if let Some(set) = held {
            let (writes, note) = release(self.world, set);
            self.writes.extend(writes);
            self.decision.plan.notes.push(note);
        }
        match (managed, held) {
            // The status does not know it, and has nothing to say of it.
            (managed, Some(set)) if managed.is_none_or(|managed| managed.uid != *set.uid) => {
                ControlFlow::Break(None)
            }
            (Some(managed), _) => {
                self.forget_target();
                ControlFlow::Break(Some(Wait::Releasing { set: managed.name.clone() }))
            }
            (None, _) => ControlFlow::Continue(()),
        }
    }

    /// Gating is suspended: the partition is given up, or stays.
    pub(super) fn suspend(&mut self, policy: &Policy, member: &Member, partition: u32) -> Wait {
        let set = &member.set;
        self.status.rolling_pod_status = None;
        self.status.awaited_approval = None;
        self.status.phase = Some(Phase::Suspended);
        if policy.suspend == ReleasePolicy::Freeze {
            let own = self.frozen_at(set, partition);
            if let Some(reason) = self.release_is_held(member, partition, own) {
                return Wait::Held { reason };
            }
            if !planted::has(Bug::FreezeNotHeld)
                && let Some(contested) = self.hold(set, partition, own)
            {
                return contested;
            }
        } else {
            self.status.contest = None;
            self.status.failure = None;
            self.status.holds_every_pod = false;
            // One that an earlier rollout has left is ours as well, and given up once; one that is not stays anyway.
            let left = partition > 0 && self.before().phase != Some(Phase::Suspended);
            if self.status.partition.take().is_some() || left {
                self.writes.push(Action::give_up_partition(set, &self.world.rollout.name));
            } else if !self.is_marked(set) {
                self.writes.push(Action::mark(set, &self.world.rollout.name));
            }
        }
        Wait::Suspended { policy: policy.suspend }
    }

    /// The partition at which a suspended set is frozen: the value last decided on. Where that held every pod, and where no
    /// rollout was under way, it holds the whole set, however many replicas it gets: pods of a revision that no gate has
    /// let through would be created otherwise.
    fn frozen_at(&mut self, set: &SetRow, partition: u32) -> u32 {
        let before = self.before();
        let own = self.status.partition.and_then(|own| u32::try_from(own).ok());
        if before.phase != Some(Phase::Suspended) || self.status.target != before.target {
            let gated = before.rolling_pod_status.as_ref().map(|gate| gate.replicas);
            let replicas = gated.and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or(set.replicas);
            let under_way = self.status.previous_revision.is_some();
            self.status.holds_every_pod = !under_way || own.is_none_or(|own| own >= replicas);
        }
        let own = own.unwrap_or(partition);
        if self.status.holds_every_pod { own.max(set.replicas) } else { own }
    }
}
