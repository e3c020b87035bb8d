//! Faults of PhasedRollouts.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::{ReleasePolicy, Verdict};
use sts_plus_planner::phased_rollout::policy::Policy;
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::phased_rollout::{Decision, Stretch, World, plan};
use sts_plus_planner::plan::Kind;
use sts_plus_planner::pod::PodRow;

use super::neighbour_that_releases_nothing;

fn with_row(world: &World, change: impl Fn(&mut RolloutRow)) -> World {
    let mut changed = world.clone();
    change(Arc::make_mut(&mut changed.rollout));
    changed
}

fn policy(world: &World) -> Option<&Policy> {
    world.rollout.spec.policy.as_ref().ok()
}

/// No check needs a pass.
pub fn skips_gates(world: &World, now: Timestamp) -> Decision {
    let changed = with_row(world, |row| {
        if let Ok(policy) = &mut row.spec.policy {
            for check in &mut policy.checks {
                check.successes = 0;
            }
        }
    });
    plan(&changed, now)
}

/// A query that fails takes the place of the last pass of a streak, so that the streak is as long afterwards as before.
pub fn streak_survives(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    let Some(gate) = &mut Arc::make_mut(&mut changed.rollout).status.rolling_pod_status else {
        return plan(world, now);
    };
    for outcome in changed.outcomes.iter_mut().filter(|one| one.judgement.verdict == Verdict::Fail) {
        let check = gate.checks.iter_mut().find(|check| check.name == outcome.check);
        if let Some(check) = check.filter(|check| check.consecutive_successful_checks > 0) {
            check.consecutive_successful_checks -= 1;
            outcome.judgement.verdict = Verdict::Pass;
        }
    }
    plan(&changed, now)
}

/// Pods that the set was created over are replaced as those that a rollout has left: without gates.
pub fn brings_adopted_back(world: &World, now: Timestamp) -> Decision {
    let Some(target) = &world.target else { return plan(world, now) };
    let (update, current) = (target.set.target(), target.set.current_revision.as_deref());
    let is_another = |pod: &Arc<PodRow>| pod.revision.as_deref() != update;
    if update != current || !target.pods.iter().any(is_another) {
        return plan(world, now);
    }
    let changed = with_row(world, |row| {
        if row.status.rolling_pod_status.is_none() {
            row.status.previous_revision = row.status.previous_revision.take().or(update.map(str::to_owned));
        }
    });
    plan(&changed, now)
}

/// A pod that the partition of another set of the group has released does not count until it is deleted.
pub fn ignores_lowered_partitions(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    changed.neighbours.iter_mut().for_each(neighbour_that_releases_nothing);
    plan(&changed, now)
}

/// A query without an answer is a pass.
pub fn error_passes(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    for outcome in &mut changed.outcomes {
        if outcome.judgement.verdict == Verdict::Error {
            outcome.judgement.verdict = Verdict::Pass;
        }
    }
    plan(&changed, now)
}

/// Each pass counts twice: half as many are enough.
pub fn passes_count_twice(world: &World, now: Timestamp) -> Decision {
    let changed = with_row(world, |row| {
        if let Ok(policy) = &mut row.spec.policy {
            for check in &mut policy.checks {
                check.successes = (check.successes + 1) / 2;
            }
        }
    });
    plan(&changed, now)
}

/// The time of a gate runs whatever it waits for.
pub fn counts_all_time(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    let limit = policy(world).and_then(|policy| policy.deadline);
    let gate = decision.status.rolling_pod_status.as_ref();
    if let (Some(limit), Some(gate), None) = (limit, gate, &decision.stretch) {
        decision.stretch = Some(Stretch::of(gate, SignedDuration::ZERO));
        let soon = now.saturating_add(limit / 10).ok();
        decision.plan.wake_at = decision.plan.wake_at.into_iter().chain(soon).min();
    }
    decision
}

/// Pods of a failed revision stay.
pub fn forgets_rollback(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    for step in &mut decision.plan.steps {
        step.writes.retain(|write| !(write.is_deletion() && write.object().kind == Kind::Pod));
    }
    decision.plan.steps.retain(|step| !step.writes.is_empty());
    decision
}

/// A frozen partition stays what a third party makes of it.
pub fn freeze_not_held(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    let is_frozen =
        policy(world).is_some_and(|policy| policy.suspended && policy.suspend == ReleasePolicy::Freeze);
    if is_frozen && !world.rollout.deleting {
        for step in &mut decision.plan.steps {
            step.writes.retain(|write| write.object().kind != Kind::StatefulSet);
        }
        decision.plan.steps.retain(|step| !step.writes.is_empty());
    }
    decision
}

/// A released set keeps its partition.
pub fn stays_held(world: &World, now: Timestamp) -> Decision {
    plan(&with_row(world, |row| row.spec.deletion = ReleasePolicy::Freeze), now)
}

/// Nothing is looked at because of the time alone.
pub fn forgets_time(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    decision.plan.wake_at = None;
    decision
}
