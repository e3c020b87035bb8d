//! Faults of rollout groups.

use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_planner::pod::PodRow;
use sts_plus_planner::rollout_group::{Decision, World, plan};
use sts_plus_planner::set::{SetRow, Strategy};

use super::neighbour_that_releases_nothing;

/// A world in which each pod is another one, given its set.
fn with_pods(world: &World, change: impl Fn(&mut PodRow, &SetRow)) -> World {
    let mut changed = world.clone();
    for member in &mut changed.members {
        for pod in &mut member.pods {
            change(Arc::make_mut(pod), &member.set);
        }
    }
    changed
}

/// One pod more than the budget may be deleted.
pub fn one_too_many(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    for member in &mut changed.members {
        let steering = &mut Arc::make_mut(&mut member.set).steering;
        let budget: u32 = steering.max_unavailable.as_deref().and_then(|text| text.parse().ok()).unwrap_or(1);
        steering.max_unavailable = Some((budget + 1).to_string().into());
    }
    plan(&changed, now)
}

/// A pod that terminates counts as one that serves.
pub fn terminating_serves(world: &World, now: Timestamp) -> Decision {
    let changed = with_pods(world, |pod, set| {
        if pod.terminating {
            pod.terminating = false;
            pod.ready_since = Some(pod.ready_since.unwrap_or(Timestamp::UNIX_EPOCH));
            pod.revision = set.target().map(Into::into);
        }
    });
    plan(&changed, now)
}

/// Each zone plans as if it was alone.
pub fn ignores_zones(world: &World, now: Timestamp) -> Decision {
    let mut all = Decision::default();
    for member in &world.members {
        let alone = World { members: vec![member.clone()], ..world.clone() };
        let Decision { plan, reports } = plan(&alone, now);
        all.plan.asks.extend(plan.asks);
        all.plan.steps.extend(plan.steps);
        all.plan.notes.extend(plan.notes);
        all.plan.waits_on.extend(plan.waits_on);
        all.plan.wake_at = [all.plan.wake_at, plan.wake_at].into_iter().flatten().min();
        all.reports.extend(reports);
    }
    all
}

/// A pod that the partition of a zone has released does not count until it is deleted.
pub fn ignores_lowered_partitions(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    // The pods of the other zones are deleted by the group itself.
    let rolls = |set: &SetRow| matches!(set.strategy, Strategy::RollingUpdate { .. });
    changed.members.iter_mut().filter(|member| rolls(&member.set)).for_each(neighbour_that_releases_nothing);
    plan(&changed, now)
}

/// An outdated pod that is not Ready counts against its own replacement.
pub fn stuck_pods_count(world: &World, now: Timestamp) -> Decision {
    let changed = with_pods(world, |pod, set| {
        if !pod.ready() && !pod.terminating {
            pod.revision = set.target().map(Into::into);
        }
    });
    plan(&changed, now)
}

/// Nothing is looked at because of the time alone.
pub fn forgets_time(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    decision.plan.wake_at = None;
    decision
}
