//! What the playground keeps of the objects that the operator does not cache, and how it is read from what the API server
//! sends.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sts_plus_api::keys;

use super::template::{HTTP, ZONE};

/// Namespace and name.
pub(super) type Name = (String, String);

/// Something that is watched.
pub(super) trait Object: DeserializeOwned + Send + 'static {
    fn name(&self) -> Name;
}

/// What every object has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Metadata {
    fn full_name(&self) -> Name {
        (self.namespace.clone(), self.name.clone())
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Node {
    metadata: Metadata,
}

impl Node {
    pub(super) fn zone(&self) -> Option<&str> {
        self.metadata.labels.get(ZONE).map(String::as_str)
    }
}

impl Object for Node {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

/// The node of a pod and the answers that its annotation sets, and nothing else of it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Scheduled {
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
}

impl Object for Scheduled {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

impl Scheduled {
    /// The node, if this is the pod with that UID.
    pub(super) fn node_of(&self, uid: &str) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|_| self.metadata.uid == uid)
    }

    /// Whether an annotation sets its answers to HTTP requests.
    pub(super) fn has_answers(&self) -> bool {
        self.metadata.annotations.contains_key(HTTP)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    pub(super) data: BTreeMap<String, String>,
}

impl Object for ConfigMap {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

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

impl Object for Event {
    fn name(&self) -> Name {
        self.metadata.full_name()
    }
}

impl Event {
    /// Whether it gives a reason for what the operator does or does not do. Pods that the StatefulSet controller creates
    /// and deletes are shown as such.
    pub(super) fn is_reason(&self) -> bool {
        self.reporting_component == keys::CONTROLLER && self.source.component != keys::STATEFULSET_COMPONENT
    }

    /// The set that it is about.
    pub(super) fn set(&self) -> Option<Name> {
        let Involved { kind, name } = &self.involved_object;
        (kind == "StatefulSet").then(|| (self.metadata.namespace.clone(), name.clone()))
    }

    pub(super) fn text(&self) -> String {
        let Self { reason, message, involved_object, .. } = self;
        format!("{}/{} {reason}: {message}", involved_object.kind.to_lowercase(), involved_object.name)
    }

    /// When it was last emitted.
    pub(super) fn at(&self) -> Option<jiff::Timestamp> {
        self.last_timestamp.as_ref()?.parse().ok()
    }
}
