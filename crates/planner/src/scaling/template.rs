//! The lock in the pod template of a set: its init container, the volume that this mounts, and the rule by which a container that
//! exits restarts all containers of its pod, init containers first.
//!
//! Of a template that has the lock nothing else is compared, so that a newer sts-plus does not roll all sets with a lock: the
//! image and the resources stay those of the time when the lock was added.

use serde_json::{Value, json};
use sts_plus_api::keys;

/// What the init container may use. The request is the limit, so that a pod of the class Guaranteed stays one.
const CPU: &str = "50m";

/// The same of memory: a container runtime starts nothing in much less.
const MEMORY: &str = "32Mi";

/// The user and the group that it runs as: those of the image.
const NOBODY: u32 = 65_532;

const POD_SPEC: &str = "/spec/template/spec";

/// What a lock is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock<'l> {
    pub(super) image: &'l str,
    pub(super) config_map: &'l str,
    /// Whether containers that exit restart all containers of their pod.
    pub(super) restarts_all: bool,
}

/// Whether the template of a set has the lock: first among its init containers, with this ConfigMap.
pub(super) fn has_lock(set: &Value, config_map: &str) -> bool {
    let spec = set.pointer(POD_SPEC).unwrap_or(&Value::Null);
    let Some(first) = list(spec, "initContainers").first() else { return false };
    let mounts = |mount: &Value| named(mount) && mount.get("mountPath") == Some(&json!(keys::LOCK_PATH));
    let is_volume = |volume: &Value| {
        named(volume) && volume.pointer("/configMap/name").and_then(Value::as_str) == Some(config_map)
    };
    named(first)
        && first.get("args") == Some(&json!(["lock-check"]))
        && list(first, "volumeMounts").iter().any(mounts)
        && list(first, "env").iter().any(|variable| {
            variable.get("name") == Some(&json!(keys::LOCK_POD_ENV)) && variable.get("valueFrom").is_some()
        })
        && list(spec, "volumes").iter().any(is_volume)
}

/// Whether the template of a set has nothing of a lock.
pub(super) fn is_free(set: &Value) -> bool {
    let spec = set.pointer(POD_SPEC).unwrap_or(&Value::Null);
    !list(spec, "initContainers").iter().any(named)
        && !list(spec, "volumes").iter().any(named)
        && !list(spec, "containers").iter().any(has_rules)
}

/// The fields of a set with the lock in its template.
pub(super) fn with_lock(set: &Value, lock: &Lock<'_>) -> Value {
    let spec = set.pointer(POD_SPEC).unwrap_or(&Value::Null);
    let others = |key| list(spec, key).iter().filter(|item| !named(item)).cloned();
    let init: Vec<_> = std::iter::once(init_container(lock)).chain(others("initContainers")).collect();
    let volume = json!({ "name": keys::LOCK, "configMap": { "name": lock.config_map } });
    let volumes: Vec<_> = others("volumes").chain([volume]).collect();
    let containers = list(spec, "containers").iter().cloned();
    let containers: Vec<_> =
        containers.map(|it| if lock.restarts_all { with_rules(it) } else { it }).collect();
    fields(&json!({ "initContainers": init, "volumes": volumes, "containers": containers }))
}

/// The fields of a set without the lock in its template.
pub(super) fn without_lock(set: &Value) -> Value {
    let spec = set.pointer(POD_SPEC).unwrap_or(&Value::Null);
    let others = |key| -> Value { list(spec, key).iter().filter(|item| !named(item)).cloned().collect() };
    let containers: Vec<_> = list(spec, "containers").iter().cloned().map(without_rules).collect();
    // A list that is empty is one that was not there.
    let present = |list: Value| if list == json!([]) { Value::Null } else { list };
    fields(&json!({
        "initContainers": present(others("initContainers")),
        "volumes": present(others("volumes")),
        "containers": containers,
    }))
}

/// Whether a container has the rules of a lock, and they alone.
pub(super) fn has_rules(container: &Value) -> bool {
    container.get("restartPolicyRules").is_some_and(|found| *found == rules())
}

fn fields(spec: &Value) -> Value {
    json!({ "spec": { "template": { "spec": spec } } })
}

/// Both together are any exit code.
fn rules() -> Value {
    let rule = |operator: &str| json!({ "action": "RestartAllContainers", "exitCodes": { "operator": operator, "values": [0] } });
    json!([rule("In"), rule("NotIn")])
}

/// A container that says itself when it is restarted is left alone.
fn with_rules(mut container: Value) -> Value {
    let is_own = |key: &str| container.get(key).is_some_and(|value| !value.is_null());
    if !is_own("restartPolicy")
        && !is_own("restartPolicyRules")
        && let Some(fields) = container.as_object_mut()
    {
        fields.insert("restartPolicy".to_owned(), json!("Always"));
        fields.insert("restartPolicyRules".to_owned(), rules());
    }
    container
}

fn without_rules(mut container: Value) -> Value {
    if has_rules(&container)
        && let Some(fields) = container.as_object_mut()
    {
        fields.remove("restartPolicy");
        fields.remove("restartPolicyRules");
    }
    container
}

fn init_container(lock: &Lock<'_>) -> Value {
    let resources = json!({ "cpu": CPU, "memory": MEMORY });
    json!({
        "name": keys::LOCK,
        "image": lock.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["lock-check"],
        "env": [{ "name": keys::LOCK_POD_ENV, "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
        "volumeMounts": [{ "name": keys::LOCK, "mountPath": keys::LOCK_PATH, "readOnly": true }],
        "resources": { "requests": resources, "limits": resources },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
    })
}

/// Whether something is named like the lock.
fn named(item: &Value) -> bool {
    item.get("name").and_then(Value::as_str) == Some(keys::LOCK)
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
