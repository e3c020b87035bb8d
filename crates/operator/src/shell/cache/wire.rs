//! From the API server's JSON straight into rows: nothing else of an object is ever built.
//!
//! Decoding is lenient where a default is safe and strict where it is not, and an object that does not decode
//! stops nobody else: a set becomes a row that nothing is rolled for, a pod becomes a missing one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use sts_plus_api::keys;
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::pod::{Phase, PodRow, Waiting};
use sts_plus_planner::selector::{Labels, Requirement, Selector, Test};
use sts_plus_planner::set::{SetRow, Steering, Strategy};

use super::intern::Interner;

/// The update strategy that is shown for a set that could not be read.
const UNREADABLE: &str = "unreadable";

/// One line of a watch.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) kind: Cow<'a, str>,
    pub(super) object: &'a str,
}

#[derive(Deserialize)]
struct LineInAnyForm<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<'a> Line<'a> {
    /// Takes a line apart.
    pub(super) fn read(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        if let Some(line) = Self::split(line) {
            return Ok(line);
        }
        let LineInAnyForm { kind, object } = serde_json::from_slice(line)?;
        Ok(Self { kind, object: object.get() })
    }

    /// The form in which kube-apiserver writes it: found without reading the object, which is read once, later.
    fn split(line: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?.trim_end();
        let (kind, rest) = text.strip_prefix("{\"type\":\"")?.split_once('"')?;
        let object = rest.strip_prefix(",\"object\":")?.strip_suffix('}')?;
        Some(Self { kind: kind.into(), object })
    }
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    pub(super) metadata: PageMeta,
    #[serde(borrow, default)]
    pub(super) items: Vec<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMeta {
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default, rename = "continue")]
    pub(super) next: String,
}

/// A bookmark, or the Status in an error event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Marker {
    pub(super) metadata: MarkerMeta,
    pub(super) code: u16,
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct MarkerMeta {
    pub(super) resource_version: String,
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

type Map<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    generation: i64,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    labels: Option<Map<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Map<'a>>,
    #[serde(borrow, default)]
    owner_references: Option<Vec<Owner<'a>>>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    status: PodStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow)]
    container_statuses: Option<Vec<Container<'a>>>,
    #[serde(borrow)]
    init_container_statuses: Option<Vec<Container<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(default)]
    last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container<'a> {
    #[serde(default)]
    restart_count: u32,
    #[serde(borrow, default)]
    state: Option<ContainerState<'a>>,
}

#[derive(Deserialize)]
struct ContainerState<'a> {
    #[serde(borrow, default)]
    waiting: Option<WaitingState<'a>>,
    #[serde(borrow, default)]
    terminated: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WaitingState<'a> {
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Set<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: SetSpec<'a>,
    #[serde(borrow, default)]
    status: SetStatus<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetSpec<'a> {
    #[serde(default)]
    replicas: Option<u32>,
    #[serde(borrow)]
    selector: LabelSelector<'a>,
    #[serde(borrow)]
    template: Template<'a>,
    #[serde(default)]
    min_ready_seconds: Option<i64>,
    #[serde(default)]
    ordinals: Option<Ordinals>,
    #[serde(borrow, default)]
    update_strategy: UpdateStrategy<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LabelSelector<'a> {
    #[serde(borrow)]
    match_labels: Option<Map<'a>>,
    #[serde(borrow)]
    match_expressions: Option<Vec<Expression<'a>>>,
}

#[derive(Deserialize)]
struct Expression<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    operator: Cow<'a, str>,
    #[serde(borrow, default)]
    values: Option<Vec<Cow<'a, str>>>,
}

#[derive(Default, Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    metadata: Option<TemplateMeta<'a>>,
}

#[derive(Deserialize)]
struct TemplateMeta<'a> {
    #[serde(borrow, default)]
    labels: Option<Map<'a>>,
}

#[derive(Deserialize)]
struct Ordinals {
    #[serde(default)]
    start: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateStrategy<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    rolling_update: Option<RollingUpdate>,
}

#[derive(Deserialize)]
struct RollingUpdate {
    #[serde(default)]
    partition: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SetStatus<'a> {
    observed_generation: i64,
    ready_replicas: u32,
    updated_replicas: u32,
    #[serde(borrow)]
    current_revision: Cow<'a, str>,
    #[serde(borrow)]
    update_revision: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Rollout<'a> {
    #[serde(borrow)]
    metadata: RolloutMeta<'a>,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RolloutMeta<'a> {
    #[serde(borrow, flatten)]
    meta: Meta<'a>,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    finalizers: Vec<String>,
}

/// An object's name and version, and its row if it is one we keep.
#[derive(Debug)]
pub(super) struct Decoded<R> {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) resource_version: Box<str>,
    pub(super) row: Option<R>,
}

/// An object that could not be read, as far as it could.
#[derive(Debug)]
pub(super) struct Undecodable {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) uid: String,
    pub(super) error: String,
}

/// Reads a pod. Only pods that a StatefulSet controls get a row.
pub(super) fn pod(json: &str, interner: &mut Interner) -> Result<Decoded<PodRow>, Undecodable> {
    let pod: Pod<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let Pod { metadata, status } = pod;
    let namespace = interner.text(&metadata.namespace);
    let owner = metadata.owner_references.as_deref().unwrap_or_default().iter();
    let owner = owner.into_iter().find(|owner| owner.controller == Some(true) && owner.kind == "StatefulSet");
    let row = owner.map(|owner| {
        let labels = metadata.labels.as_ref();
        let revision = labels.and_then(|labels| labels.get(keys::CONTROLLER_REVISION));
        let common = |key: &str| !matches!(key, keys::POD_NAME | keys::POD_INDEX | keys::CONTROLLER_REVISION);
        let labels = labels.into_iter().flatten().filter(|(key, _)| common(key));
        let containers = || status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let states = || containers().filter_map(|container| Some((container, container.state.as_ref()?)));
        PodRow {
            namespace: Arc::clone(&namespace),
            name: metadata.name.as_ref().into(),
            uid: metadata.uid.as_ref().into(),
            resource_version: metadata.resource_version.as_ref().into(),
            owner: interner.text(&owner.uid),
            revision: revision.map(|revision| interner.text(revision)),
            labels: interner.labels(labels.map(|(key, value)| (key.as_ref(), value.as_ref()))),
            phase: phase(&status.phase),
            ready_since: ready_since(status.conditions.as_deref().unwrap_or_default()),
            terminating: metadata.deletion_timestamp.is_some(),
            waiting: states()
                .filter_map(|(_, state)| state.waiting.as_ref())
                .map(|waiting| Waiting::parse(&waiting.reason))
                .max(),
            terminated_restarts: states()
                .filter(|(_, state)| state.terminated.is_some())
                .map(|(container, _)| container.restart_count)
                .max(),
            named: true,
            volumes: Arc::default(),
        }
    });
    let name = metadata.name.as_ref().into();
    Ok(Decoded { namespace, name, resource_version: metadata.resource_version.into(), row })
}

fn phase(phase: &str) -> Phase {
    match phase {
        "" | "Pending" => Phase::Pending,
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        _ => Phase::Unknown,
    }
}

fn ready_since(conditions: &[Condition<'_>]) -> Option<Timestamp> {
    let ready = conditions.iter().find(|condition| condition.kind == "Ready" && condition.status == "True");
    // A Ready condition without a time has held for ever as far as anybody can tell.
    ready.map(|ready| ready.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH))
}

/// Reads a StatefulSet. One that cannot be read gets a row that keeps its group from being rolled.
pub(super) fn set(json: &str, interner: &mut Interner) -> Result<Decoded<SetRow>, Undecodable> {
    let set: Set<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let Set { metadata, spec, status } = set;
    let annotations = metadata.annotations.unwrap_or_default();
    let annotation = |key: &str| annotations.get(key).map(|value| Box::from(value.as_ref()));
    let group = metadata.labels.as_ref().and_then(|labels| labels.get(keys::ROLLOUT_GROUP));
    let labels = spec.template.metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
    let known = |revision: Cow<'_, str>| (!revision.is_empty()).then(|| Box::from(revision.as_ref()));
    let namespace = interner.text(&metadata.namespace);
    let name: Arc<str> = metadata.name.as_ref().into();
    let replicas = spec.replicas.unwrap_or(1);
    let row = SetRow {
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: interner.text(&metadata.uid),
        resource_version: metadata.resource_version.as_ref().into(),
        generation: metadata.generation,
        observed_generation: status.observed_generation,
        deleting: metadata.deletion_timestamp.is_some(),
        group: group.map(|group| interner.text(group)),
        steering: Steering {
            max_unavailable: annotation(keys::MAX_UNAVAILABLE),
            paused: annotation(keys::PAUSED),
            rollout_status: annotation(keys::ROLLOUT_STATUS),
            phased_rollout: annotation(keys::PHASED_ROLLOUT),
        },
        replicas,
        first_ordinal: spec.ordinals.map_or(0, |ordinals| ordinals.start),
        min_ready: SignedDuration::from_secs(spec.min_ready_seconds.unwrap_or(0).max(0)),
        strategy: match spec.update_strategy.kind.as_ref() {
            "OnDelete" => Strategy::OnDelete,
            // The server fills this in; its default is RollingUpdate.
            "" | "RollingUpdate" => Strategy::RollingUpdate {
                partition: spec
                    .update_strategy
                    .rolling_update
                    .and_then(|rolling| rolling.partition)
                    .unwrap_or(0),
            },
            other => Strategy::Other(other.into()),
        },
        selector: selector(spec.selector),
        template_labels: labels
            .iter()
            .map(|(key, value)| (key.as_ref().into(), value.as_ref().into()))
            .collect(),
        current_revision: known(status.current_revision),
        update_revision: known(status.update_revision),
        counted: [status.ready_replicas, status.updated_replicas] == [replicas; 2],
    };
    Ok(Decoded { namespace, name, resource_version: metadata.resource_version.into(), row: Some(row) })
}

/// Reads a PhasedRollout. A spec that cannot be read is told on the object; a status that cannot is made anew.
pub(super) fn rollout(json: &str, interner: &mut Interner) -> Result<Decoded<RolloutRow>, Undecodable> {
    let rollout: Rollout<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let RolloutMeta { meta, creation_timestamp, finalizers } = rollout.metadata;
    let namespace = interner.text(&meta.namespace);
    let name: Arc<str> = meta.name.as_ref().into();
    let approve = meta.annotations.as_ref().and_then(|annotations| annotations.get(keys::APPROVE));
    let row = RolloutRow {
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: meta.uid.as_ref().into(),
        resource_version: meta.resource_version.as_ref().into(),
        generation: meta.generation,
        created: creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers,
        approve: approve.map(|approve| approve.as_ref().into()),
        spec: match rollout.spec {
            Some(spec) => serde_json::from_str(spec.get()).map_err(|error| error.to_string()),
            None => Err("there is none".to_owned()),
        },
        status: rollout.status.and_then(|status| serde_json::from_str(status.get()).ok()).unwrap_or_default(),
    };
    Ok(Decoded { namespace, name, resource_version: meta.resource_version.into(), row: Some(row) })
}

fn selector(selector: LabelSelector<'_>) -> Selector {
    let labels = selector.match_labels.into_iter().flatten().map(|(key, value)| Requirement {
        key: key.as_ref().into(),
        test: Test::In(vec![value.as_ref().into()]),
    });
    let expressions = selector.match_expressions.into_iter().flatten().map(|expression| {
        let values = || expression.values.iter().flatten().map(|value| value.as_ref().into()).collect();
        let test = match expression.operator.as_ref() {
            "In" => Test::In(values()),
            "NotIn" => Test::NotIn(values()),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            // An operator this build does not know can match nothing: its pods count as missing.
            _ => Test::In(Vec::new()),
        };
        Requirement { key: expression.key.as_ref().into(), test }
    });
    Selector { requirements: labels.chain(expressions).collect() }
}

/// The row of a set that exists and cannot be read: the group it is in is skipped and says why.
pub(super) fn unreadable_set(json: &str, interner: &mut Interner) -> Option<SetRow> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let metadata = value.get("metadata")?;
    let text = |key: &str| metadata.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    let label = |key: &str| metadata.get("labels")?.get(key)?.as_str();
    Some(SetRow {
        namespace: interner.text(text("namespace")),
        name: text("name").into(),
        uid: text("uid").into(),
        resource_version: text("resourceVersion").into(),
        generation: 0,
        observed_generation: 0,
        deleting: false,
        group: label(keys::ROLLOUT_GROUP).map(|group| interner.text(group)),
        steering: Steering::default(),
        replicas: 0,
        first_ordinal: 0,
        min_ready: SignedDuration::ZERO,
        strategy: Strategy::Other(UNREADABLE.into()),
        selector: Selector::default(),
        template_labels: Labels::new(),
        current_revision: None,
        update_revision: None,
        counted: false,
    })
}

fn undecodable(json: &str, error: &serde_json::Error) -> Undecodable {
    let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let text =
        |key: &str| value.pointer(&format!("/metadata/{key}")).and_then(|v| v.as_str()).unwrap_or_default();
    Undecodable {
        namespace: text("namespace").into(),
        name: text("name").into(),
        uid: text("uid").to_owned(),
        error: error.to_string(),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
