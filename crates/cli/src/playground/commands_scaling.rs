//! The keys of the demo of ScalingPolicies.

use serde_json::json;
use sts_plus_operator::view::Scaling;

use super::commands::{Command, Kind, NAMESPACE, Request, Verb};
use super::ingester::{AVAILABLE, ENTRY, INGESTER, STORAGE, UNAVAILABLE};
use super::observed::Observed;

/// The most pods that a key asks for: more do not fit on a screen.
const MAX_REPLICAS: u32 = 9;

fn policy(observed: &Observed) -> Result<&Scaling, &'static str> {
    let is_it = |policy: &&Scaling| (&*policy.namespace, &*policy.name) == (NAMESPACE, INGESTER);
    observed.view.scaling.iter().find(is_it).ok_or("there is no ScalingPolicy ingester in this namespace")
}

/// How many pods are aimed at.
fn wanted(policy: &Scaling) -> Result<u32, &'static str> {
    policy.status.desired_replicas.ok_or("the ScalingPolicy ingester has no status yet")
}

/// One pod less.
pub(super) fn down(observed: &Observed) -> Result<Command, &'static str> {
    let fewer = wanted(policy(observed)?)?.checked_sub(1);
    fewer.map(scale).ok_or("there are no pods left to remove")
}

/// One pod more.
pub(super) fn up(observed: &Observed) -> Result<Command, &'static str> {
    let more = wanted(policy(observed)?)?.saturating_add(1);
    if more > MAX_REPLICAS { Err("more pods do not fit on the screen") } else { Ok(scale(more)) }
}

fn scale(replicas: u32) -> Command {
    let line = format!("kubectl scale scp {INGESTER} --replicas={replicas}");
    let body = json!({ "spec": { "replicas": replicas } });
    command(line, Kind::ScalingPolicy, INGESTER, Verb::Scale("kubectl-scale", body))
}

/// Takes the storage away that pods flush to, or brings it back.
pub(super) fn switch_storage(observed: &Observed) -> Result<Command, &'static str> {
    let now = observed.config.get(ENTRY).ok_or("there is no ConfigMap playground-storage")?;
    let body = json!({ "data": { ENTRY: if now == UNAVAILABLE { AVAILABLE } else { UNAVAILABLE } } });
    let line = format!("kubectl patch configmap {STORAGE} --type merge -p '{body}'");
    Ok(command(line, Kind::ConfigMap, STORAGE, Verb::Merge("kubectl-patch", body)))
}

pub(super) fn pause_or_resume(observed: &Observed) -> Result<Command, &'static str> {
    let body = json!({ "spec": { "paused": !policy(observed)?.paused } });
    let line = format!("kubectl patch scp {INGESTER} --type merge -p '{body}'");
    Ok(command(line, Kind::ScalingPolicy, INGESTER, Verb::Merge("kubectl-patch", body)))
}

/// Kills a pod that leaves.
pub(super) fn kill_leaving(observed: &Observed) -> Result<Command, &'static str> {
    let leaving = policy(observed)?.status.leaving.first();
    let name = &leaving.ok_or("no pod is leaving: none is deleted")?.pod_name;
    let line = format!("kubectl delete pod {name} --wait=false");
    Ok(command(line, Kind::Pod, name, Verb::Delete))
}

fn command(line: String, kind: Kind, name: &str, verb: Verb) -> Command {
    Command { line, requests: vec![Request { kind, name: name.to_owned(), verb }] }
}

#[cfg(test)]
#[path = "commands_scaling_tests.rs"]
mod tests;
