//! Faults of the StatefulSet controller.

use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_planner::plan::Mode;
use sts_plus_planner::pod::PodRow;
use sts_plus_planner::set::Strategy;
use sts_plus_planner::statefulset::world::{Keep, Rolling, World};
use sts_plus_planner::statefulset::{Blocked, Decision, Purpose, plan};

/// The rolling update looks at no partition.
pub fn ignores_partition(world: &World, now: Timestamp) -> Result<Decision, Blocked> {
    let mut changed = world.clone();
    let set = Arc::make_mut(&mut changed.set);
    if let Strategy::RollingUpdate { partition } = &mut set.strategy {
        *partition = 0;
    }
    let spec = Arc::make_mut(&mut changed.spec);
    spec.rolling = spec.rolling.map(|rolling| Rolling { partition: 0, ..rolling });
    plan(&changed, now)
}

/// Pods that are up to date are replaced as well.
pub fn rolls_again(world: &World, now: Timestamp) -> Result<Decision, Blocked> {
    let mut changed = world.clone();
    for pod in &mut changed.pods {
        Arc::make_mut(pod).revision = Some("another".into());
    }
    plan(&changed, now)
}

/// Claims of surplus pods are deleted whatever the policy says.
pub fn deletes_claims(world: &World, now: Timestamp) -> Result<Decision, Blocked> {
    let mut changed = world.clone();
    Arc::make_mut(&mut changed.spec).retention.when_scaled = Keep::Delete;
    plan(&changed, now)
}

/// A revision that is rolled out does not become the current one, as with the strategy `OnDelete`.
pub fn never_promotes(world: &World, now: Timestamp) -> Result<Decision, Blocked> {
    let (set, mut changed) = (&world.set, world.clone());
    let is_done = |pod: &PodRow| pod.ready() && !pod.terminating && pod.revision.as_deref() == set.target();
    let is_rolled_out = world.pods.len() == set.ordinals().len() && world.pods.iter().all(|pod| is_done(pod));
    if is_rolled_out && set.target() != set.current_revision.as_deref() {
        Arc::make_mut(&mut changed.set).strategy = Strategy::OnDelete;
    }
    plan(&changed, now)
}

/// Surplus pods are not deleted.
pub fn keeps_surplus(world: &World, now: Timestamp) -> Result<Decision, Blocked> {
    let mut decision = plan(world, now)?;
    let wanted = world.set.ordinals();
    let is_surplus = |name: &str| {
        let ordinal = name.rsplit_once('-').and_then(|(_, number)| number.parse::<u32>().ok());
        ordinal.is_some_and(|ordinal| !wanted.contains(&ordinal))
    };
    for (step, purposes) in decision.plan.steps.iter_mut().zip(&mut decision.purposes) {
        let writes = std::mem::take(&mut step.writes);
        let kept = writes.into_iter().zip(std::mem::take(purposes)).filter(|(write, purpose)| {
            !(matches!(purpose, Purpose::DeletePod) && is_surplus(&write.object().name))
        });
        (step.writes, *purposes) = kept.unzip();
    }
    Ok(decision)
}

/// Pods without an owner are not adopted.
pub fn leaves_orphans(world: &World, now: Timestamp) -> Result<Decision, Blocked> {
    plan(&World { orphans: Vec::new(), ..world.clone() }, now)
}

/// A status names a revision that is not stored.
pub fn names_unstored(world: &World, now: Timestamp) -> Result<Decision, Blocked> {
    let mut decision = plan(world, now)?;
    for step in &mut decision.plan.steps {
        if let Mode::Settle { unless_failed } = &mut step.mode {
            *unless_failed = None;
        }
    }
    Ok(decision)
}

/// Nothing is looked at because of the time alone.
pub fn forgets_time(world: &World, now: Timestamp) -> Result<Decision, Blocked> {
    let mut decision = plan(world, now)?;
    decision.plan.wake_at = None;
    Ok(decision)
}
