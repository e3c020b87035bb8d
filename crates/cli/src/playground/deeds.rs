//! What each key does: the change that a kubectl command makes, and that command.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use sts_plus_api::keys;

use super::metrics;
use super::rows::{FAULT, Row, Set, State, VERSION};
use super::sight::Sight;

/// Where the playground's keys work: where kubectl looks without being told.
pub(super) const NAMESPACE: &str = "default";

/// The fault that makes a version a broken one.
const CRASH: &str = "crash-loop";

/// What somebody at the keyboard wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    NextRollout,
    Break,
    Heal,
    PauseOrResume,
    Kill,
    MetricBadOrGood,
}

impl Wish {
    /// What a key stands for.
    pub(super) fn of(key: char) -> Option<Self> {
        Some(match key {
            'n' => Self::NextRollout,
            'b' => Self::Break,
            'h' => Self::Heal,
            'p' => Self::PauseOrResume,
            'k' => Self::Kill,
            'm' => Self::MetricBadOrGood,
            _ => return None,
        })
    }
}

/// A command, and the changes that it makes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Deed {
    pub(super) command: String,
    changes: Vec<Change>,
}

/// A request of kubectl's.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    kind: Kind,
    name: String,
    act: Act,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    StatefulSet,
    Pod,
    ConfigMap,
}

#[derive(Clone, Debug, PartialEq)]
enum Act {
    /// In the name of the manager that kubectl gives for that command.
    Merge(&'static str, Value),
    Strategic(&'static str, Value),
    Delete,
}

impl Kind {
    fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&match self {
            Self::StatefulSet => GroupVersionKind::gvk("apps", "v1", "StatefulSet"),
            Self::Pod => GroupVersionKind::gvk("", "v1", "Pod"),
            Self::ConfigMap => GroupVersionKind::gvk("", "v1", "ConfigMap"),
        })
    }
}

/// What a wish comes to in the cluster as it is. `turn` chooses among pods to kill. An error is why there is nothing to do.
pub(super) fn deed(wish: Wish, sight: &Sight, turn: usize) -> Result<Deed, &'static str> {
    match wish {
        Wish::NextRollout => next_rollout(sight),
        Wish::Break => set_fault(sight, Some(CRASH)),
        Wish::Heal => set_fault(sight, None),
        Wish::PauseOrResume => pause_or_resume(sight),
        Wish::Kill => kill(sight, turn),
        Wish::MetricBadOrGood => switch_metric(sight),
    }
}

fn sets(sight: &Sight) -> Vec<&Set> {
    sight.sets.iter().filter(|((namespace, _), _)| namespace == NAMESPACE).map(|(_, set)| set).collect()
}

/// The sets of the first rollout group, and its name.
fn group(sight: &Sight) -> Result<(&str, Vec<&Set>), &'static str> {
    let sets = sets(sight);
    let group =
        sets.iter().find_map(|set| set.group()).ok_or("there is no rollout group in this namespace")?;
    Ok((group, sets.into_iter().filter(|set| set.group() == Some(group)).collect()))
}

fn next_rollout(sight: &Sight) -> Result<Deed, &'static str> {
    let sets = sets(sight);
    let last = sets.iter().filter_map(|set| set.version()).max();
    let next = last.ok_or("no StatefulSet of this namespace has a VERSION to raise")?.saturating_add(1);
    let changes = sets.into_iter().map(|set| {
        let variable = json!([{ "name": VERSION, "value": next.to_string() }]);
        let containers = set.containers().map(|name| json!({ "name": name, "env": variable }));
        let body =
            json!({ "spec": { "template": { "spec": { "containers": containers.collect::<Vec<_>>() } } } });
        change(set, Act::Strategic("kubectl-set", body))
    });
    let command = format!("kubectl set env statefulset --all {VERSION}={next}");
    Ok(Deed { command, changes: changes.collect() })
}

fn set_fault(sight: &Sight, fault: Option<&str>) -> Result<Deed, &'static str> {
    let (_, sets) = group(sight)?;
    if fault.is_none() && !sets.iter().any(|set| set.is_broken()) {
        return Err("the new version is not broken: nothing to heal");
    }
    let body = json!({ "spec": { "template": { "metadata": { "annotations": { FAULT: fault } } } } });
    let names: Vec<_> = sets.iter().map(|set| set.called()).collect();
    let command = format!("kubectl patch statefulset {} --type merge -p '{body}'", names.join(" "));
    let changes = sets.iter().map(|set| change(set, Act::Merge("kubectl-patch", body.clone())));
    Ok(Deed { command, changes: changes.collect() })
}

fn pause_or_resume(sight: &Sight) -> Result<Deed, &'static str> {
    let (group, sets) = group(sight)?;
    let value = (!sets.iter().any(|set| set.is_paused())).then_some("true");
    let body = json!({ "metadata": { "annotations": { keys::PAUSED: value } } });
    let word = value.map_or("-".to_owned(), |value| format!("={value} --overwrite"));
    let selector = format!("{}={group}", keys::ROLLOUT_GROUP);
    let command = format!("kubectl annotate statefulset -l {selector} {}{word}", keys::PAUSED);
    let changes = sets.iter().map(|set| change(set, Act::Merge("kubectl-annotate", body.clone())));
    Ok(Deed { command, changes: changes.collect() })
}

fn kill(sight: &Sight, turn: usize) -> Result<Deed, &'static str> {
    let names: Vec<_> = group(sight)?.1.iter().map(|set| set.name()).collect();
    let alive = |pod: &&super::rows::Pod| {
        pod.set().is_some_and(|set| names.contains(&set)) && pod.state() == State::Ready
    };
    let pods: Vec<_> = sight.pods.values().filter(alive).collect();
    let chosen = turn.checked_rem(pods.len()).and_then(|turn| pods.get(turn));
    let pod = chosen.ok_or("no pod of the group is ready: none is killed")?.called();
    let command = format!("kubectl delete pod {pod} --wait=false");
    Ok(Deed { command, changes: vec![Change { kind: Kind::Pod, name: pod.to_owned(), act: Act::Delete }] })
}

fn switch_metric(sight: &Sight) -> Result<Deed, &'static str> {
    let (_, name) = metrics::place();
    let now = sight.metrics.get(metrics::ERRORS).ok_or("there is no ConfigMap playground-metrics")?;
    let value = if now == metrics::GOOD { metrics::BAD } else { metrics::GOOD };
    let body = json!({ "data": { metrics::ERRORS: value } });
    let command = format!("kubectl patch configmap {name} --type merge -p '{body}'");
    let act = Act::Merge("kubectl-patch", body);
    Ok(Deed { command, changes: vec![Change { kind: Kind::ConfigMap, name, act }] })
}

fn change(set: &Set, act: Act) -> Change {
    Change { kind: Kind::StatefulSet, name: set.called().to_owned(), act }
}

/// Makes the changes, as kubectl would: one after the other, up to the first that is refused.
pub(super) async fn perform(client: &kube::Client, deed: &Deed) -> kube::Result<()> {
    for Change { kind, name, act } in &deed.changes {
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &kind.resource());
        let by =
            |manager: &str| PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        match act {
            Act::Merge(manager, body) => drop(api.patch(name, &by(manager), &Patch::Merge(body)).await?),
            Act::Strategic(manager, body) => {
                drop(api.patch(name, &by(manager), &Patch::Strategic(body)).await?);
            }
            Act::Delete => drop(api.delete(name, &DeleteParams::default()).await?),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "deeds_tests.rs"]
mod tests;
