//! Sets whose pods answer a hook, and the policies that scale them.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use sts_plus_cluster::nodes::behaviour;

use crate::fixture::image;
use crate::gated::manifest::merge;

/// The name of the port that applications listen on.
pub const PORT: &str = "http-metrics";

/// What prepares a pod for its removal, and what takes that back.
pub const SHUTDOWN: &str = "/ingester/shutdown";

/// Where a pod says how far it is.
pub const STATUS: &str = "/ingester/status";

/// What lets a new pod join.
pub const JOIN: &str = "/ring/join";

/// The kind as clients name it.
pub fn kind() -> ApiResource {
    let kind = GroupVersionKind::gvk("sts.plus", "v1alpha1", "ScalingPolicy");
    ApiResource::from_gvk_with_plural(&kind, "scalingpolicies")
}

/// A set of version v1 whose pods start together and answer HTTP.
pub fn set(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": { "app": name } },
            "template": with(pods("v1"), &json!({ "metadata": { "labels": { "app": name } } })),
        },
    })
}

/// A pod template of a version, also as a merge patch.
pub fn pods(version: &str) -> Value {
    held(version, None)
}

/// The same, where those of these ordinals do not become Ready until they are told to.
pub fn held(version: &str, ordinals: Option<&str>) -> Value {
    let annotations = json!({
        behaviour::FAULT: ordinals.map(|_| "never-ready"),
        behaviour::FAULT_ORDINALS: ordinals,
    });
    let containers = json!([{ "name": "main", "image": image(version), "ports": [{ "name": PORT, "containerPort": 3100 }] }]);
    let mut template = json!({ "metadata": {}, "spec": { "containers": containers } });
    template["metadata"]["annotations"] = annotations;
    template
}

/// A hook that is done as soon as its call has succeeded.
pub fn hook() -> Value {
    json!({ "http": { "path": SHUTDOWN, "port": PORT, "cancel": { "path": SHUTDOWN } } })
}

/// A hook that is done when the pod says that it is drained.
pub fn polled() -> Value {
    let status = json!({ "path": STATUS, "jsonPointer": "/state", "equals": "drained" });
    with(hook(), &json!({ "http": { "status": status } }))
}

/// A spec with this hook for pods that leave.
pub fn down(target: &str, hook: &Value) -> Value {
    json!({ "targetRef": { "name": target }, "scaleDown": { "hook": hook } })
}

/// A policy as its user writes it.
pub fn policy(name: &str, spec: &Value) -> DynamicObject {
    DynamicObject::new(name, &kind()).data(json!({ "spec": spec }))
}

/// A value with more fields, merged.
pub fn with(mut value: Value, fields: &Value) -> Value {
    merge(&mut value, fields);
    value
}
