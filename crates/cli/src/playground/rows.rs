//! What the view keeps of each object, and how it is read from what the API server sends.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_api::rollout_status::RolloutStatus;

/// Where a node says which zone it is in, and where a template asks for one.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The variable whose value a rollout of the playground raises.
pub(super) const VERSION: &str = "VERSION";

/// The annotation by which hollow pods fail on demand.
pub(super) const FAULT: &str = "hollow.sts.plus/fault";

/// Namespace and name.
pub(super) type Name = (String, String);

/// Something that is watched.
pub(super) trait Row: DeserializeOwned + Send + 'static {
    /// What it is called.
    fn name(&self) -> Name;
}

/// What every object has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    name: String,
    namespace: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    owner_references: Vec<Owner>,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Owner {
    kind: String,
    name: String,
}

impl Metadata {
    fn full_name(&self) -> Name {
        (self.namespace.clone(), self.name.clone())
    }

    /// The set that owns it.
    fn set(&self) -> Option<Name> {
        let owner = self.owner_references.iter().find(|owner| owner.kind == "StatefulSet")?;
        Some((self.namespace.clone(), owner.name.clone()))
    }
}

/// A node.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Node {
    metadata: Metadata,
}

impl Node {
    pub(super) fn zone(&self) -> Option<&str> {
        self.metadata.labels.get(ZONE).map(String::as_str)
    }
}

impl Row for Node {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

/// A StatefulSet.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Set {
    metadata: Metadata,
    #[serde(default)]
    spec: SetSpec,
    #[serde(default)]
    status: SetStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SetSpec {
    template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    metadata: Metadata,
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SetStatus {
    update_revision: Option<String>,
}

impl Row for Set {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

impl Set {
    pub(super) fn called(&self) -> &str {
        &self.metadata.name
    }

    /// The rollout group it is in.
    pub(super) fn group(&self) -> Option<&str> {
        self.metadata.labels.get(keys::ROLLOUT_GROUP).map(String::as_str)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.metadata.annotations.get(keys::PAUSED).is_some_and(|value| value == "true")
    }

    /// Whether its newest version is made to fail.
    pub(super) fn is_broken(&self) -> bool {
        self.spec.template.metadata.annotations.contains_key(FAULT)
    }

    /// What the operator says of it.
    pub(super) fn rollout_status(&self) -> Option<RolloutStatus> {
        self.metadata.annotations.get(keys::ROLLOUT_STATUS).and_then(|text| RolloutStatus::parse(text))
    }

    /// The revision that its pods shall have, as its controller last reported it: after it has acted on it.
    pub(super) fn target(&self) -> Option<&str> {
        self.status.update_revision.as_deref()
    }

    /// The zone that its pods are pinned to.
    pub(super) fn zone(&self) -> Option<&str> {
        self.spec.template.spec.node_selector.get(ZONE).map(String::as_str)
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = &str> {
        self.spec.template.spec.containers.iter().map(|container| container.name.as_str())
    }

    /// The version of its template, where that has one.
    pub(super) fn version(&self) -> Option<u64> {
        let mut variables = self.spec.template.spec.containers.iter().flat_map(|container| &container.env);
        variables.find(|variable| variable.name == VERSION)?.value.parse().ok()
    }
}

/// A ControllerRevision: a template that a set has or had.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Revision {
    metadata: Metadata,
    /// It grows with each template, also with one that comes back.
    #[serde(default)]
    pub(super) revision: i64,
}

impl Row for Revision {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

impl Revision {
    pub(super) fn called(&self) -> &str {
        &self.metadata.name
    }

    /// The set whose template it is.
    pub(super) fn set(&self) -> Option<Name> {
        self.metadata.set()
    }
}

/// A pod.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    node_selector: BTreeMap<String, String>,
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    env: Vec<Variable>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Variable {
    name: String,
    value: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<Value>,
    init_container_statuses: Vec<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// How a pod is, in the order in which it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Stopping,
    /// A container waits for something that does not come by itself.
    Broken(String),
    Ready,
    /// Its containers run.
    NotReady,
    Starting,
    /// No node has it.
    NotPlaced,
}

impl Row for Pod {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

impl Pod {
    pub(super) fn called(&self) -> &str {
        &self.metadata.name
    }

    /// The set that it belongs to.
    pub(super) fn set(&self) -> Option<Name> {
        self.metadata.set()
    }

    /// What follows the name of its set.
    pub(super) fn ordinal(&self) -> u64 {
        let tail = self.metadata.name.rsplit_once('-').and_then(|(_, tail)| tail.parse().ok());
        tail.unwrap_or(u64::MAX)
    }

    pub(super) fn revision(&self) -> Option<&str> {
        self.metadata.labels.get(keys::CONTROLLER_REVISION).map(String::as_str)
    }

    pub(super) fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref()
    }

    pub(super) fn state(&self) -> State {
        let ready = |condition: &Condition| condition.kind == "Ready" && condition.status == "True";
        let waiting = self.status.init_container_statuses.iter().chain(&self.status.container_statuses);
        let stuck = waiting
            .filter_map(|status| status.pointer("/state/waiting/reason").and_then(Value::as_str))
            .find(|reason| !["ContainerCreating", "PodInitializing"].contains(reason));
        match (self.metadata.deletion_timestamp.is_some(), stuck) {
            (true, _) => State::Stopping,
            (false, Some(reason)) => State::Broken(reason.to_owned()),
            (false, None) if self.status.conditions.iter().any(ready) => State::Ready,
            (false, None) if self.status.phase == "Running" => State::NotReady,
            (false, None) if self.spec.node_name.is_some() => State::Starting,
            (false, None) => State::NotPlaced,
        }
    }
}

/// A PhasedRollout.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Rollout {
    metadata: Metadata,
    #[serde(default)]
    spec: RolloutSpec,
    /// As it is: a status of another version is shown as far as it is understood.
    #[serde(default)]
    status: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RolloutSpec {
    target_ref: String,
}

impl Row for Rollout {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

impl Rollout {
    pub(super) fn called(&self) -> &str {
        &self.metadata.name
    }

    /// The set that it gates.
    pub(super) fn target(&self) -> Name {
        (self.metadata.namespace.clone(), self.spec.target_ref.clone())
    }

    pub(super) fn says(&self, field: &str) -> Option<&str> {
        self.status.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

/// A ConfigMap.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Settings {
    metadata: Metadata,
    #[serde(default)]
    pub(super) data: BTreeMap<String, String>,
}

impl Row for Settings {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

/// An event.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    metadata: Metadata,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    involved_object: Involved,
    #[serde(default)]
    source: Source,
    #[serde(default)]
    reporting_component: String,
    #[serde(default)]
    last_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Involved {
    kind: String,
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    component: String,
}

impl Row for Event {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

impl Event {
    /// Whether it gives a reason for what the operator does or does not do. What the StatefulSet controller creates and
    /// deletes is seen as it happens.
    pub(super) fn is_reason(&self) -> bool {
        self.reporting_component == keys::CONTROLLER && self.source.component != keys::STATEFULSET_COMPONENT
    }

    /// The set that it is about.
    pub(super) fn set(&self) -> Option<Name> {
        let Involved { kind, name } = &self.involved_object;
        (kind == "StatefulSet").then(|| (self.metadata.namespace.clone(), name.clone()))
    }

    pub(super) fn words(&self) -> String {
        let Self { reason, message, involved_object, .. } = self;
        format!("{}/{} {reason}: {message}", involved_object.kind.to_lowercase(), involved_object.name)
    }

    /// When it was last the case.
    pub(super) fn at(&self) -> Option<jiff::Timestamp> {
        self.last_timestamp.as_ref()?.parse().ok()
    }
}
