//! Letting a set go: when the rollout is deleted, suspended, or names another target.

use sts_plus_api::keys;
use sts_plus_api::phased_rollout::{Phase, ReleasePolicy};

use super::policy::Policy;
use super::wait::Wait;
use super::{Announcement, Draft, Plan, World};
use crate::plan::{Action, Batch};
use crate::reason::Severity;
use crate::set::SetRow;

/// The end of a rollout that is being deleted: its set is let go, then our finalizer.
pub(super) fn depart(world: &World) -> Plan {
    let rollout = &world.rollout;
    let mut plan = Plan { status: rollout.status.clone(), ..Plan::default() };
    if !rollout.has_finalizer() {
        return plan;
    }
    // A spec that cannot be read does not say what to do: then nothing moves.
    let policy = rollout.spec.as_ref().map_or(ReleasePolicy::Freeze, |spec| spec.deletion_policy);
    let managed = rollout.status.target.as_ref();
    let target = world.target.as_ref().map(|member| &member.set);
    for set in target.into_iter().chain(&world.former) {
        let ours = managed.is_some_and(|managed| managed.uid == *set.uid);
        let (writes, announcement) = release(world, set, policy, ours);
        plan.batches.extend(writes.into_iter().map(|action| Batch { actions: vec![action] }));
        plan.announcements.extend(announcement);
    }
    plan.batches.push(Batch { actions: vec![rollout.let_go()] });
    plan
}

/// What it takes to let a set go, and what to say of it. Another rollout that waits for the set takes it over as it
/// is, so that nothing moves in between.
fn release(
    world: &World,
    set: &SetRow,
    policy: ReleasePolicy,
    ours: bool,
) -> (Vec<Action>, Option<Announcement>) {
    let name = &*world.rollout.name;
    let successor = world.others.iter().find(|other| !other.deleting && other.target() == Some(&*set.name));
    let held = ours && world.rollout.status.partition.is_some();
    let mut writes = Vec::new();
    let message = match (held, successor, policy) {
        (false, ..) => None,
        (true, Some(successor), _) => {
            Some(format!("{} is handed over to the PhasedRollout {}", set.name, successor.name))
        }
        (true, None, ReleasePolicy::Freeze) => {
            Some(format!("{} is let go: its partition keeps its value and nothing moves", set.name))
        }
        (true, None, ReleasePolicy::Resume) => {
            writes.push(Action::give_up_partition(set));
            Some(format!("{} is let go: it rolls as Kubernetes does it, unchecked", set.name))
        }
    };
    if set.steering.phased_rollout.as_deref() == Some(name) {
        let manager = keys::MANAGER_PHASED_ROLLOUT;
        writes.push(Action::annotate(set, keys::PHASED_ROLLOUT, None, manager));
    }
    let announcement =
        message.map(|message| Announcement { severity: Severity::Normal, reason: "Released", message });
    (writes, announcement)
}

impl Draft<'_> {
    /// Another target was named: the former one is let go first.
    pub(super) fn let_former_go(&mut self, policy: &Policy) -> Option<Wait> {
        let managed = self.before().target.as_ref()?;
        if self.world.rollout.target() == Some(&managed.name) {
            return None;
        }
        let former = self.world.former.as_deref().filter(|former| *former.uid == *managed.uid);
        if let Some(former) = former {
            let (writes, announcement) = release(self.world, former, policy.deletion, true);
            self.writes.extend(writes);
            self.plan.announcements.extend(announcement);
        }
        self.forget_target();
        Some(Wait::Releasing { set: managed.name.clone() })
    }

    /// Gating is suspended: the partition is given up, or stays.
    pub(super) fn suspend(&mut self, policy: &Policy, set: &SetRow, partition: u32) -> Wait {
        self.status.rolling_pod_status = None;
        self.status.contest = None;
        if policy.suspend == ReleasePolicy::Resume {
            self.status.failure = None;
            // One that an earlier rollout has left is ours as well, and given up once; one that is not stays anyway.
            let left = partition > 0 && self.before().phase != Some(Phase::Suspended);
            if self.status.partition.take().is_some() || left {
                self.writes.push(Action::give_up_partition(set));
            }
        }
        Wait::Suspended { policy: policy.suspend }
    }
}
