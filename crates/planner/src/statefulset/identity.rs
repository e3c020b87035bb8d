//! What makes a pod the set's n-th: its name, its labels, its volumes.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sts_plus_api::keys;

use super::claiming::{controller, reference};
use super::world::World;
use super::{Blocked, Purpose, Task, claims};
use crate::plan::{Action, Kind, Object, Precondition};
use crate::pod::PodRow;
use crate::set::SetRow;

use super::history::Revision;

pub(super) fn name(set: &str, ordinal: u32) -> Box<str> {
    format!("{set}-{ordinal}").into()
}

/// A new pod of a revision.
pub(super) fn create(world: &World, ordinal: u32, revision: &Revision<'_>) -> Result<Task, Blocked> {
    let pod = name(&world.set.name, ordinal);
    let body = build(world, ordinal, revision)?;
    let object = Object { kind: Kind::Pod, namespace: Arc::clone(&world.set.namespace), name: pod };
    let action = Action::create(object, &world.set.uid, body, keys::MANAGER_STATEFULSET);
    Ok(Task { action, purpose: Purpose::CreatePod })
}

fn build(world: &World, ordinal: u32, revision: &Revision<'_>) -> Result<Value, Blocked> {
    let unreadable = || Blocked::UnreadableRevision(revision.name.clone());
    let mut template = revision.template()?;
    let Value::Object(mut spec) = template.remove("spec").unwrap_or_default() else {
        return Err(unreadable());
    };
    let pod = name(&world.set.name, ordinal);
    let mut metadata = json!({
        "name": pod,
        "generateName": format!("{}-", world.set.name),
        "namespace": world.set.namespace,
        "ownerReferences": [reference(&controller(&world.set))],
    });
    let from_template = template.get("metadata").and_then(Value::as_object);
    let mut labels = object(from_template, "labels");
    labels.insert(keys::POD_NAME.to_owned(), json!(pod));
    labels.insert(keys::POD_INDEX.to_owned(), json!(ordinal.to_string()));
    labels.insert(keys::CONTROLLER_REVISION.to_owned(), json!(revision.name));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
        for field in ["annotations", "finalizers"] {
            let value = from_template.and_then(|template| template.get(field));
            metadata.extend(value.map(|value| (field.to_owned(), value.clone())));
        }
    }
    spec.insert("hostname".to_owned(), json!(pod));
    if world.spec.service_name.is_empty() {
        spec.remove("subdomain");
    } else {
        spec.insert("subdomain".to_owned(), json!(world.spec.service_name));
    }
    let own = match spec.remove("volumes") {
        Some(Value::Array(volumes)) => volumes,
        _ => Vec::new(),
    };
    let named = |volume: &Value, name: &str| volume.get("name").and_then(Value::as_str) == Some(name);
    let own = own
        .into_iter()
        .filter(|volume| !world.spec.claim_templates.iter().any(|template| named(volume, &template.name)));
    let volumes: Vec<_> = claim_volumes(world, ordinal).chain(own).collect();
    if !volumes.is_empty() {
        spec.insert("volumes".to_owned(), Value::Array(volumes));
    }
    Ok(json!({ "metadata": metadata, "spec": spec }))
}

fn claim_volumes(world: &World, ordinal: u32) -> impl Iterator<Item = Value> {
    world.spec.claim_templates.iter().map(move |template| {
        let claim = claims::name(&template.name, &world.set.name, ordinal);
        json!({ "name": template.name, "persistentVolumeClaim": { "claimName": claim } })
    })
}

fn object(parent: Option<&Map<String, Value>>, field: &str) -> Map<String, Value> {
    parent.and_then(|parent| parent.get(field)).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Whether each claim template has its volume in the pod.
pub(super) fn storage_matches(world: &World, ordinal: u32, pod: &PodRow) -> bool {
    world.spec.claim_templates.iter().all(|template| {
        let volume = pod.volumes.iter().find(|volume| volume.name == template.name);
        volume.is_some_and(|volume| match &volume.claim {
            None => true,
            Some(claim) => **claim == *claims::name(&template.name, &world.set.name, ordinal),
        })
    })
}

/// What brings a pod's labels and volumes back to what they should be; `None` when they are.
pub(super) fn repair(world: &World, ordinal: u32, pod: &PodRow) -> Option<Task> {
    let mut body = Map::new();
    if !pod.named {
        let labels = json!({ keys::POD_NAME: pod.name, keys::POD_INDEX: ordinal.to_string() });
        body.insert("metadata".to_owned(), json!({ "labels": labels }));
    }
    if !storage_matches(world, ordinal, pod) {
        let volumes: Vec<_> = claim_volumes(world, ordinal).collect();
        body.insert("spec".to_owned(), json!({ "volumes": volumes }));
    }
    if body.is_empty() {
        return None;
    }
    let (object, precondition) = at(pod);
    let body = (Value::Object(body), keys::MANAGER_STATEFULSET);
    let action = Action::strategic_merge(object, &world.set.uid, precondition, body);
    Some(Task { action, purpose: Purpose::RepairPod })
}

/// Deletes a pod, as it was looked at.
pub(super) fn delete(set: &SetRow, pod: &PodRow) -> Task {
    let (object, precondition) = at(pod);
    Task { action: Action::delete_as_owner(set, object, precondition), purpose: Purpose::DeletePod }
}

/// A pod, in the state in which it was looked at.
pub(super) fn at(pod: &PodRow) -> (Object, Precondition) {
    let object = Object { kind: Kind::Pod, namespace: Arc::clone(&pod.namespace), name: pod.name.clone() };
    (object, Precondition::exactly(&pod.uid, &pod.resource_version))
}
