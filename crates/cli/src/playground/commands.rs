//! What each key does: the kubectl command that it stands for, and the requests that this command sends.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_operator::view::{Group, PodState, Set};

use super::commands_extended as extended;
use super::commands_scaling as scaling;
use super::demo::Demo;
use super::metrics;
use super::observed::Observed;
use super::template::{FAULT, Template, VERSION};

/// The namespace that keys act on: the one that kubectl uses by default.
pub(super) const NAMESPACE: &str = "default";

/// The fault by which a version is broken.
pub(super) const CRASH: &str = "crash-loop";

/// A key that changes the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    NextRollout,
    Break,
    Heal,
    PauseOrResume,
    Kill,
    MetricBadOrGood,
    NextVersion,
    BreakVersion,
    HealVersion,
    ChangeConfig,
    FailOrRestoreActive,
    PauseOrResumeVersions,
    KillActive,
    ScaleDown,
    ScaleUp,
    FailOrRestoreStorage,
    PauseOrResumeScaling,
    KillLeaving,
}

impl Key {
    /// The key with this character in a demo.
    pub(super) fn of(character: char, demo: Demo) -> Option<Self> {
        Some(match (demo, character) {
            (Demo::Rollouts, 'n') => Self::NextRollout,
            (Demo::Rollouts, 'b') => Self::Break,
            (Demo::Rollouts, 'h') => Self::Heal,
            (Demo::Rollouts, 'p') => Self::PauseOrResume,
            (Demo::Rollouts, 'k') => Self::Kill,
            (Demo::Rollouts, 'm') => Self::MetricBadOrGood,
            (Demo::Extended, 'n') => Self::NextVersion,
            (Demo::Extended, 'b') => Self::BreakVersion,
            (Demo::Extended, 'h') => Self::HealVersion,
            (Demo::Extended, 'c') => Self::ChangeConfig,
            (Demo::Extended, 'f') => Self::FailOrRestoreActive,
            (Demo::Extended, 'p') => Self::PauseOrResumeVersions,
            (Demo::Extended, 'k') => Self::KillActive,
            (Demo::Scaling, 'd') => Self::ScaleDown,
            (Demo::Scaling, 'u') => Self::ScaleUp,
            (Demo::Scaling, 'f') => Self::FailOrRestoreStorage,
            (Demo::Scaling, 'p') => Self::PauseOrResumeScaling,
            (Demo::Scaling, 'k') => Self::KillLeaving,
            _ => return None,
        })
    }
}

/// What each key of a demo does, in a line.
pub(super) const fn help(demo: Demo) -> &'static str {
    match demo {
        Demo::Rollouts => "n next  b break  h heal  p pause/resume  k kill pod  m metric bad/good  q quit",
        Demo::Extended => {
            "n next version  b break  h heal  c config  f fail/restore active  k kill active  p pause/resume  q quit"
        }
        Demo::Scaling => {
            "d scale down  u scale up  f fail/restore storage  k kill leaving pod  p pause/resume  q quit"
        }
    }
}

/// A command, and the requests that it sends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Command {
    /// As it would be typed.
    pub(super) line: String,
    pub(super) requests: Vec<Request>,
}

/// A request that kubectl would send.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) verb: Verb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    StatefulSet,
    Pod,
    ConfigMap,
    Extended,
    ScalingPolicy,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verb {
    /// With the field manager that kubectl uses for that command.
    Merge(&'static str, Value),
    Strategic(&'static str, Value),
    Json(&'static str, Value),
    /// A merge patch of the scale subresource.
    Scale(&'static str, Value),
    Delete,
}

impl Kind {
    fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&match self {
            Self::StatefulSet => GroupVersionKind::gvk("apps", "v1", "StatefulSet"),
            Self::Pod => GroupVersionKind::gvk("", "v1", "Pod"),
            Self::ConfigMap => GroupVersionKind::gvk("", "v1", "ConfigMap"),
            Self::Extended => GroupVersionKind::gvk("sts.plus", "v1alpha1", "ExtendedStatefulSet"),
            Self::ScalingPolicy => GroupVersionKind::gvk("sts.plus", "v1alpha1", "ScalingPolicy"),
        })
    }
}

/// The command of a key in the cluster as it is. `turn` chooses among pods to kill. An error is why there is none.
pub(super) fn command(key: Key, observed: &Observed, turn: usize) -> Result<Command, &'static str> {
    match key {
        Key::NextRollout => next_rollout(observed),
        Key::Break => set_fault(observed, Some(CRASH)),
        Key::Heal => set_fault(observed, None),
        Key::PauseOrResume => pause_or_resume(observed),
        Key::Kill => kill(observed, turn),
        Key::MetricBadOrGood => switch_metric(observed),
        Key::NextVersion => extended::next_version(observed),
        Key::BreakVersion => extended::set_fault(observed, true),
        Key::HealVersion => extended::set_fault(observed, false),
        Key::ChangeConfig => extended::change_config(observed),
        Key::FailOrRestoreActive => extended::fail_or_restore_active(observed),
        Key::PauseOrResumeVersions => extended::pause_or_resume(observed),
        Key::KillActive => extended::kill_active(observed),
        Key::ScaleDown => scaling::down(observed),
        Key::ScaleUp => scaling::up(observed),
        Key::FailOrRestoreStorage => scaling::switch_storage(observed),
        Key::PauseOrResumeScaling => scaling::pause_or_resume(observed),
        Key::KillLeaving => scaling::kill_leaving(observed),
    }
}

/// The first rollout group.
fn group(observed: &Observed) -> Result<&Group, &'static str> {
    let found = observed.view.groups.iter().find(|group| group.namespace == NAMESPACE);
    found.ok_or("there is no rollout group in this namespace")
}

fn template<'a>(observed: &'a Observed, set: &Set) -> Option<&'a Template> {
    observed.template(NAMESPACE, &set.name)
}

fn next_rollout(observed: &Observed) -> Result<Command, &'static str> {
    let sets = observed.view.all_sets().filter(|(namespace, _)| *namespace == NAMESPACE);
    let mut sets: Vec<_> = sets.filter_map(|(_, set)| Some((set, template(observed, set)?))).collect();
    sets.sort_by_key(|(set, _)| &set.name);
    let last = sets.iter().filter_map(|(_, template)| template.version()).max();
    let next = last.ok_or("no StatefulSet of this namespace has a VERSION to raise")?.saturating_add(1);
    let requests = sets.into_iter().map(|(set, template)| {
        let variable = json!([{ "name": VERSION, "value": next.to_string() }]);
        let containers = template.containers().map(|name| json!({ "name": name, "env": variable }));
        let body =
            json!({ "spec": { "template": { "spec": { "containers": containers.collect::<Vec<_>>() } } } });
        request(set, Verb::Strategic("kubectl-set", body))
    });
    let line = format!("kubectl set env statefulset --all {VERSION}={next}");
    Ok(Command { line, requests: requests.collect() })
}

fn set_fault(observed: &Observed, fault: Option<&str>) -> Result<Command, &'static str> {
    let Group { sets, .. } = group(observed)?;
    let is_broken = |set: &Set| template(observed, set).is_some_and(Template::has_fault);
    if fault.is_none() && !sets.iter().any(is_broken) {
        return Err("the new version is not broken: nothing to heal");
    }
    let body = json!({ "spec": { "template": { "metadata": { "annotations": { FAULT: fault } } } } });
    let names: Vec<_> = sets.iter().map(|set| set.name.as_str()).collect();
    let line = format!("kubectl patch statefulset {} --type merge -p '{body}'", names.join(" "));
    let requests = sets.iter().map(|set| request(set, Verb::Merge("kubectl-patch", body.clone())));
    Ok(Command { line, requests: requests.collect() })
}

fn pause_or_resume(observed: &Observed) -> Result<Command, &'static str> {
    let Group { name, sets, .. } = group(observed)?;
    let value = (!sets.iter().any(|set| set.paused)).then_some("true");
    let body = json!({ "metadata": { "annotations": { keys::PAUSED: value } } });
    let change = value.map_or("-".to_owned(), |value| format!("={value} --overwrite"));
    let selector = format!("{}={name}", keys::ROLLOUT_GROUP);
    let line = format!("kubectl annotate statefulset -l {selector} {}{change}", keys::PAUSED);
    let requests = sets.iter().map(|set| request(set, Verb::Merge("kubectl-annotate", body.clone())));
    Ok(Command { line, requests: requests.collect() })
}

fn kill(observed: &Observed, turn: usize) -> Result<Command, &'static str> {
    let pods = group(observed)?.sets.iter().flat_map(|set| &set.pod_states);
    let ready: Vec<_> = pods.filter(|pod| pod.state == PodState::Ready).collect();
    let chosen = turn.checked_rem(ready.len()).and_then(|turn| ready.get(turn));
    let name = &chosen.ok_or("no pod of the group is ready: none is deleted")?.name;
    let line = format!("kubectl delete pod {name} --wait=false");
    let requests = vec![Request { kind: Kind::Pod, name: name.clone(), verb: Verb::Delete }];
    Ok(Command { line, requests })
}

fn switch_metric(observed: &Observed) -> Result<Command, &'static str> {
    let (_, name) = metrics::config_map();
    let now = observed.metrics.get(metrics::ERRORS).ok_or("there is no ConfigMap playground-metrics")?;
    let value = if now == metrics::GOOD { metrics::BAD } else { metrics::GOOD };
    let body = json!({ "data": { metrics::ERRORS: value } });
    let line = format!("kubectl patch configmap {name} --type merge -p '{body}'");
    let verb = Verb::Merge("kubectl-patch", body);
    Ok(Command { line, requests: vec![Request { kind: Kind::ConfigMap, name, verb }] })
}

fn request(set: &Set, verb: Verb) -> Request {
    Request { kind: Kind::StatefulSet, name: set.name.clone(), verb }
}

/// Sends the requests, as kubectl would: one after the other, up to the first that is refused.
pub(super) async fn run(client: &kube::Client, command: &Command) -> kube::Result<()> {
    for Request { kind, name, verb } in &command.requests {
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &kind.resource());
        let by =
            |manager: &str| PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        match verb {
            Verb::Merge(manager, body) => drop(api.patch(name, &by(manager), &Patch::Merge(body)).await?),
            Verb::Strategic(manager, body) => {
                drop(api.patch(name, &by(manager), &Patch::Strategic(body)).await?);
            }
            Verb::Json(manager, body) => json_patch(client, &api, name, (manager, body)).await?,
            Verb::Scale(manager, body) => {
                drop(api.patch_scale(name, &by(manager), &Patch::Merge(body)).await?);
            }
            Verb::Delete => drop(api.delete(name, &DeleteParams::default()).await?),
        }
    }
    Ok(())
}

/// kube has this kind of patch only with a crate of its own for the operations, which are ready-made here.
async fn json_patch(
    client: &kube::Client,
    api: &Api<DynamicObject>,
    name: &str,
    (manager, body): (&str, &Value),
) -> kube::Result<()> {
    let request = http::Request::patch(format!("{}/{name}?fieldManager={manager}", api.resource_url()))
        .header(http::header::CONTENT_TYPE, "application/json-patch+json")
        .body(body.to_string().into_bytes())
        .map_err(|error| kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(error)))?;
    client.request_text(request).await.map(drop)
}

#[cfg(test)]
#[path = "commands_tests.rs"]
mod tests;
