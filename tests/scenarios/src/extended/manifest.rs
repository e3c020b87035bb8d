//! Templates and specs as users write them.

use serde_json::{Value, json};
use sts_plus_cluster::nodes::behaviour;

use crate::fixture::image;
use crate::gated::manifest::merge;

/// The template of a StatefulSet with one container.
pub(super) fn template(version: &str, replicas: u32) -> Value {
    json!({ "spec": {
        "replicas": replicas,
        "template": {
            "metadata": { "labels": { "app": "db" }, "annotations": { "example.com/team": "storage" } },
            "spec": { "containers": [{ "name": "main", "image": image(version) }] },
        },
    } })
}

/// The same with more fields, merged.
pub(super) fn with(mut value: Value, fields: &Value) -> Value {
    merge(&mut value, fields);
    value
}

/// Fields of a spec: another version, whose pods start.
pub(super) fn healthy(version: &str) -> Value {
    hollow(version, &json!({ behaviour::FAULT: null, behaviour::FAULT_ORDINALS: null }))
}

/// Fields of a spec: another version, whose pods never become Ready.
pub(super) fn broken(version: &str) -> Value {
    hollow(version, &json!({ behaviour::FAULT: "crash-loop", behaviour::FAULT_ORDINALS: null }))
}

/// Fields of a spec: another version, of whose pods those of these ordinals do not become Ready until they are told to.
pub(super) fn held(version: &str, ordinals: &str) -> Value {
    hollow(version, &json!({ behaviour::FAULT: "never-ready", behaviour::FAULT_ORDINALS: ordinals }))
}

/// Fields of a spec: annotations of the pods, and the image.
fn hollow(version: &str, annotations: &Value) -> Value {
    let containers = json!([{ "name": "main", "image": image(version) }]);
    let pods = json!({ "metadata": { "annotations": annotations }, "spec": { "containers": containers } });
    json!({ "template": { "spec": { "template": pods } } })
}

/// Fields of a spec: so many replicas per zone.
pub(super) fn scaled(replicas: u32) -> Value {
    json!({ "template": { "spec": { "replicas": replicas } } })
}

/// Fields of a template: one claim per pod.
pub(super) fn claims() -> Value {
    json!({ "spec": { "volumeClaimTemplates": [{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }] } })
}
