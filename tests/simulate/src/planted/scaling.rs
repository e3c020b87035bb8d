//! Faults of ScalingPolicies.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use sts_plus_api::scaling_policy::{OnFailure, RecordPhase};
use sts_plus_planner::plan::Ask;
use sts_plus_planner::scaling::hook::{Hook, HookKind, HookResult};
use sts_plus_planner::scaling::policy::Policy;
use sts_plus_planner::scaling::{Decision, World, plan};
use sts_plus_planner::set;

/// So many pods leave at once where nobody counts them.
const MANY: u32 = 100;

fn with_policy(world: &World, change: impl Fn(&mut Policy)) -> World {
    let mut changed = world.clone();
    if let Ok(policy) = &mut Arc::make_mut(&mut changed.row).spec.policy {
        change(Arc::make_mut(policy));
    }
    changed
}

fn with_hook(world: &World, change: impl Fn(&mut Hook)) -> World {
    with_policy(world, |policy| {
        if let Some(hook) = &mut policy.down {
            change(Arc::make_mut(hook));
        }
    })
}

/// Pods are removed without a call.
pub fn skips_hook(world: &World, now: Timestamp) -> Decision {
    plan(&with_policy(world, |policy| policy.down = None), now)
}

/// A pod is called before it is recorded: nothing is written in the pass that calls it.
pub fn calls_first(world: &World, now: Timestamp) -> Decision {
    let mut decision = plan(world, now);
    if !world.hooked.is_empty() {
        return decision;
    }
    let mut told = world.clone();
    Arc::make_mut(&mut told.row).status = decision.status.clone();
    if let Some(member) = &mut told.target {
        let leaving = decision.status.leaving.iter().map(|record| record.ordinal).collect();
        Arc::make_mut(&mut member.set).steering.leaving = Some(set::leaving_value(&leaving).into());
    }
    let next = plan(&told, now);
    let calls = next.plan.asks.into_iter().filter(|ask| matches!(ask, Ask::Hook(_)));
    let calls: Vec<_> = calls.filter(|call| !decision.plan.asks.contains(call)).collect();
    if !calls.is_empty() {
        decision.plan.steps.clear();
    }
    decision.plan.asks.extend(calls);
    decision.calling.extend(next.calling);
    decision
}

/// What one pod has answered counts for its successor, and after a restart.
pub fn ignores_uid(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    for record in world.row.status.leaving.iter().filter(|record| !record.pod_uid.is_empty()) {
        let read = changed.reads.iter_mut().filter(|(object, _)| *object.name == *record.pod_name);
        for pod in read.filter_map(|(_, pod)| pod.as_mut()) {
            pod["metadata"]["uid"] = json!(record.pod_uid);
            for status in pod["status"]["containerStatuses"].as_array_mut().into_iter().flatten() {
                let name = status["name"].as_str().unwrap_or_default();
                status["restartCount"] = json!(record.container_restarts.get(name).copied().unwrap_or(0));
            }
        }
    }
    plan(&changed, now)
}

/// A pod that has accepted the call is done.
pub fn lowers_early(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    for outcome in &mut changed.hooked {
        if matches!(outcome.result, HookResult::Pending { .. }) {
            outcome.result = HookResult::Done;
        }
    }
    plan(&changed, now)
}

/// A pod that is to stay is not called back.
pub fn forgets_cancel(world: &World, now: Timestamp) -> Decision {
    let changed = with_hook(world, |hook| {
        if let HookKind::Http(http) = &mut hook.kind {
            http.cancel = None;
        }
    });
    plan(&changed, now)
}

/// Whatever number of replicas the set has was accepted.
pub fn accepts_lowering(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    let replicas = world.target.as_ref().map(|member| member.set.replicas);
    let status = &mut Arc::make_mut(&mut changed.row).status;
    status.held_replicas = status.held_replicas.and(replicas);
    plan(&changed, now)
}

/// All pods that are not wanted leave at once.
pub fn counts_nobody(world: &World, now: Timestamp) -> Decision {
    plan(&with_policy(world, |policy| policy.max_concurrent = MANY), now)
}

/// A zone is scaled as if it was alone.
pub fn ignores_zones(world: &World, now: Timestamp) -> Decision {
    plan(&World { neighbours: Vec::new(), group_sets: 1, ..world.clone() }, now)
}

/// A pod is removed when the deadline of its hook is over, whatever the policy for failures is.
pub fn forces_removal(world: &World, now: Timestamp) -> Decision {
    plan(&with_hook(world, |hook| hook.on_failure = OnFailure::Force), now)
}

/// The lock has the keys that it shall have, whatever it has.
pub fn keeps_key(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    let leaving = world.target.as_ref().map(|member| member.set.leaving()).unwrap_or_default();
    for lock in &mut changed.locks {
        let leaves = |key: &str| key.parse().is_ok_and(|ordinal| leaving.contains(&ordinal));
        Arc::make_mut(lock).keys.retain(|key| !leaves(key));
    }
    plan(&changed, now)
}

/// A drained pod waits for its lock, whatever it does.
pub fn leaves_drained(world: &World, now: Timestamp) -> Decision {
    let mut changed = world.clone();
    let records = world.row.status.leaving.iter();
    for record in records.filter(|record| record.phase == RecordPhase::Drained) {
        let read = changed.reads.iter_mut().filter(|(object, _)| *object.name == *record.pod_name);
        for pod in read.filter_map(|(_, pod)| pod.as_mut()) {
            let all = ["containerStatuses", "initContainerStatuses"];
            let statuses = all.map(|list| pod["status"][list].as_array().cloned().unwrap_or_default());
            for (list, mut statuses) in all.into_iter().zip(statuses) {
                for status in &mut statuses {
                    status["state"] = json!({ "waiting": {} });
                }
                pod["status"][list] = statuses.into();
            }
        }
    }
    plan(&changed, now)
}
