//! An API server reduced to what a StatefulSet controller asks of it: objects as JSON, versions and UIDs, the four kinds
//! of write with their preconditions, the validation of a status, and rows of what it stores.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decode::Row;
use crate::plan::{Action, Kind, Verb};

/// The namespace of everything.
pub(super) const NAMESPACE: &str = "prod";
/// How long a label's value may be.
const LABEL_BYTES: usize = 63;
/// The lists that have a key, and their key.
const KEYED_LISTS: [(&str, &str); 3] =
    [("ownerReferences", "uid"), ("volumes", "name"), ("containers", "name")];

/// An object and the row that it decodes to.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) value: Value,
    pub(super) row: Row,
}

/// Why a write was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    AlreadyExists(String),
    NotFound(String),
    Conflict(String),
    /// Invalid, forbidden, or the server is not well.
    Failed(String),
}

/// All objects by kind and name.
pub(super) type Objects = BTreeMap<(Kind, Box<str>), Arc<Stored>>;

#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) objects: Objects,
    pub(super) now: Timestamp,
    /// Writes so far: the version of the latest.
    pub(super) version: u64,
    /// The states after the latest writes, newest last, with the version of each.
    pub(super) past: Vec<(u64, Objects)>,
    /// How many of them are kept.
    pub(super) memory: usize,
}

impl Server {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { objects: Objects::new(), now, version: 100, past: Vec::new(), memory: 0 }
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Arc<Stored>> {
        self.objects.get(&(kind, name.into()))
    }

    /// The objects of a kind, by name.
    pub(super) fn list(&self, kind: Kind) -> impl Iterator<Item = &Stored> {
        self.objects.iter().filter(move |((of, _), _)| *of == kind).map(|(_, stored)| &**stored)
    }

    /// Creates an object as it stands, for a fixture or a user; answers its UID.
    pub(super) fn create(&mut self, kind: Kind, mut body: Value) -> Result<String, Refusal> {
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if self.get(kind, &name).is_some() {
            return Err(Refusal::AlreadyExists(format!("{} \"{name}\" already exists", plural(kind))));
        }
        validate(kind, &body)?;
        let uid = format!("uid-{}", self.version + 1);
        let metadata = &mut body["metadata"];
        metadata["uid"] = json!(uid);
        metadata["namespace"] = json!(NAMESPACE);
        metadata["creationTimestamp"] = json!(self.now.to_string());
        match kind {
            Kind::Pod => body["status"] = json!({ "phase": "Pending" }),
            Kind::StatefulSet => metadata["generation"] = json!(1),
            _ => {}
        }
        self.store(kind, body);
        Ok(uid)
    }

    /// Changes an object, as a kubelet, a user or a fixture would; a new spec of a set is a new generation.
    #[track_caller]
    pub(super) fn change(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let stored = self.get(kind, name).unwrap_or_else(|| panic!("there is no {kind:?} {name}"));
        let (mut value, before) = (stored.value.clone(), stored.value["spec"].clone());
        change(&mut value);
        if kind == Kind::StatefulSet && value["spec"] != before {
            let generation = value["metadata"]["generation"].as_i64().unwrap_or_default();
            value["metadata"]["generation"] = json!(generation + 1);
        }
        self.store(kind, value);
    }

    fn store(&mut self, kind: Kind, mut value: Value) {
        self.version += 1;
        value["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let name: Box<str> = value["metadata"]["name"].as_str().unwrap().into();
        let row = Row::decode(kind, &value);
        self.objects.insert((kind, name), Arc::new(Stored { value, row }));
        self.remember();
    }

    /// The object is gone, whatever it was.
    pub(super) fn remove(&mut self, kind: Kind, name: &str) {
        self.version += 1;
        self.objects.remove(&(kind, name.into()));
        self.remember();
    }

    fn remember(&mut self) {
        if self.memory > 0 {
            self.past.push((self.version, self.objects.clone()));
            let surplus = self.past.len().saturating_sub(self.memory);
            self.past.drain(..surplus);
        }
    }

    /// Asks for deletion, as a user or a controller would: what something still needs is only marked.
    pub(super) fn delete(&mut self, kind: Kind, name: &str) {
        let Some(stored) = self.get(kind, name) else { return };
        if stored.value["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        if self.held(kind, name, &stored.value) {
            let grace = SignedDuration::from_secs(if kind == Kind::Pod { 30 } else { 0 });
            let time = self.now.saturating_add(grace).unwrap().to_string();
            self.change(kind, name, |value| value["metadata"]["deletionTimestamp"] = json!(time));
        } else {
            self.remove(kind, name);
        }
    }

    /// Whether something keeps a deleted object for a while: a kubelet that stops its containers, a pod that uses a
    /// claim, a finalizer.
    pub(super) fn held(&self, kind: Kind, name: &str, value: &Value) -> bool {
        let finalizers = value["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        let in_use = match kind {
            Kind::Pod => on_a_node(value),
            Kind::Claim => self.list(Kind::Pod).any(|pod| uses(&pod.value, name) && on_a_node(&pod.value)),
            _ => false,
        };
        finalizers || in_use
    }

    /// A write of the controller.
    pub(super) fn write(&mut self, action: &Action) -> Result<(), Refusal> {
        let (kind, name) = (action.object().kind, &*action.object().name);
        assert_eq!(*action.object().namespace, *NAMESPACE, "writes stay in the namespace of the set");
        if let Verb::Create { body, .. } = action.verb() {
            let mut body = body.clone();
            let named = body["metadata"]["name"].as_str().unwrap_or(name);
            assert_eq!(named, name, "the body is for the object that it is sent to");
            body["metadata"]["name"] = json!(name);
            return self.create(kind, body).map(drop);
        }
        let Some(stored) = self.get(kind, name) else {
            return Err(Refusal::NotFound(format!("{} \"{name}\" not found", plural(kind))));
        };
        let metadata = &stored.value["metadata"];
        let other = metadata["uid"] != *action.precondition().uid;
        let version = action.precondition().resource_version.as_deref();
        if other || version.is_some_and(|version| metadata["resourceVersion"] != version) {
            return Err(Refusal::Conflict(format!(
                "Operation cannot be fulfilled on {} \"{name}\": the object has been modified",
                plural(kind)
            )));
        }
        let before = stored.value.clone();
        let mut after = before.clone();
        match action.verb() {
            Verb::Delete => {
                self.delete(kind, name);
                return Ok(());
            }
            Verb::Merge { body, .. } => merge(&mut after, body),
            Verb::StrategicMerge { body, .. } => strategic_merge(&mut after, body),
            Verb::MergeStatus { body, .. } => {
                merge(&mut after["status"], &body["status"]);
                valid_status(&before["status"], &after["status"])?;
            }
            other => panic!("{other:?} is not for this controller"),
        }
        if kind == Kind::Revision {
            assert_eq!(before["data"], after["data"], "the data of a revision cannot change");
        }
        validate(kind, &after)?;
        // A write that changes nothing is answered, and is none.
        if after != before {
            self.store(kind, after);
        }
        Ok(())
    }
}

/// The plural with its group, as messages of the API server have it.
fn plural(kind: Kind) -> String {
    let definition = kind.definition();
    match definition.api_version.split_once('/') {
        Some((group, _)) => format!("{}.{group}", definition.plural),
        None => definition.plural.to_owned(),
    }
}

/// Whether a kubelet has the pod and its containers have not ended.
fn on_a_node(pod: &Value) -> bool {
    let ended = pod["status"]["phase"] == "Failed" || pod["status"]["phase"] == "Succeeded";
    pod["spec"]["nodeName"].is_string() && !ended
}

/// Whether a pod has the claim as a volume.
fn uses(pod: &Value, claim: &str) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.into_iter().any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}

fn validate(kind: Kind, body: &Value) -> Result<(), Refusal> {
    let labels = body["metadata"]["labels"].as_object().into_iter().flatten();
    for (key, value) in labels {
        if value.as_str().is_none_or(|value| value.len() > LABEL_BYTES) {
            return Err(Refusal::Failed(format!("metadata.labels: Invalid value: {key}={value}")));
        }
    }
    let owners = body["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let controllers = owners.filter(|owner| owner["controller"] == true).count();
    if controllers > 1 {
        return Err(Refusal::Failed("Only one reference can have Controller set to true".to_owned()));
    }
    let number = body["revision"].as_i64().unwrap_or(-1);
    if kind == Kind::Revision && (!body["data"].is_object() || number < 0) {
        return Err(Refusal::Failed("data and a number are required".to_owned()));
    }
    Ok(())
}

fn valid_status(before: &Value, after: &Value) -> Result<(), Refusal> {
    let count = |key: &str| after[key].as_i64().unwrap_or_default();
    let (replicas, ready) = (count("replicas"), count("readyReplicas"));
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    let collisions = |status: &Value| status["collisionCount"].as_i64().unwrap_or_default();
    let valid = replicas >= 0
        && parts.iter().all(|part| (0..=replicas).contains(&count(part)))
        && count("availableReplicas") <= ready
        && count("observedGeneration") >= 0
        && collisions(after) >= 0
        && collisions(after) >= collisions(before);
    if valid { Ok(()) } else { Err(Refusal::Failed(format!("status: Invalid value: {after}"))) }
}

/// A JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// A strategic merge patch: lists that have a key are merged by it.
fn strategic_merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() || fields.get("$patch").is_some_and(|directive| directive == "replace") {
        *target = json!({});
    }
    for (key, value) in fields {
        let keyed = KEYED_LISTS.iter().find(|(list, _)| list == key);
        match (value, keyed) {
            _ if key.starts_with('$') => assert_eq!(key, "$patch", "a directive that nobody needs"),
            (Value::Null, _) => drop(target.as_object_mut().unwrap().remove(key)),
            (Value::Array(items), Some((_, by))) => merge_list(&mut target[key], items, by),
            _ => strategic_merge(&mut target[key], value),
        }
    }
}

fn merge_list(target: &mut Value, items: &[Value], by: &str) {
    if !target.is_array() || items.iter().any(|item| item["$patch"] == "replace") {
        *target = json!([]);
    }
    let list = target.as_array_mut().unwrap();
    for item in items.iter().filter(|item| item["$patch"] != "replace") {
        let same = list.iter().position(|other| other[by] == item[by]);
        match (item["$patch"] == "delete", same) {
            (true, Some(position)) => drop(list.remove(position)),
            (true, None) => {}
            (false, Some(position)) => strategic_merge(&mut list[position], item),
            (false, None) => list.push(item.clone()),
        }
    }
}
