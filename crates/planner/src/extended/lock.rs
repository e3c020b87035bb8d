//! The lock that a ScalingPolicy adds to the pod template of a set: as long as the object has a ScalingPolicy for the set, whatever
//! is written here keeps it. It is added and removed by the ScalingPolicy alone.

use serde_json::{Value, json};
use sts_plus_api::keys;

/// What a rule of a lock does when a container exits.
const RESTART_ALL: &str = "RestartAllContainers";

const POD_SPEC: &str = "/spec/template/spec";

/// Keeps the lock of a live set in what replaces it: the init container first, the volume last, and the restart rules of
/// containers that have none of their own.
pub(super) fn keep(live: &Value, body: &mut Value) {
    let Some(live) = live.pointer(POD_SPEC) else { return };
    let Some(wanted) = body.pointer_mut(POD_SPEC) else { return };
    let is_lock = |item: &&Value| item.get("name").and_then(Value::as_str) == Some(keys::LOCK);
    let lock_of = |key: &str| list(live, key).iter().find(is_lock).cloned();
    let of_volume = lock_of("volumes");
    if let Some(init) = lock_of("initContainers") {
        let mut all = vec![init];
        all.extend(list(wanted, "initContainers").iter().filter(|item| !is_lock(item)).cloned());
        put(wanted, "initContainers", all);
    }
    if let Some(volume) = of_volume {
        let mut all: Vec<_> = list(wanted, "volumes").iter().filter(|item| !is_lock(item)).cloned().collect();
        all.push(volume);
        put(wanted, "volumes", all);
    }
    let containers: Vec<_> =
        list(wanted, "containers").iter().cloned().map(|container| with_rules(container, live)).collect();
    put(wanted, "containers", containers);
}

fn with_rules(mut container: Value, live: &Value) -> Value {
    let name = container.get("name").cloned();
    let same = list(live, "containers").iter().find(|other| other.get("name") == name.as_ref());
    let rules = same.and_then(|other| other.get("restartPolicyRules"));
    let is_of_lock = |rule: &Value| rule.get("action") == Some(&json!(RESTART_ALL));
    let rules = rules.filter(|rules| rules.as_array().is_some_and(|rules| rules.iter().all(is_of_lock)));
    let is_own = |key: &str| container.get(key).is_some_and(|value| !value.is_null());
    if let Some(rules) = rules
        && !is_own("restartPolicy")
        && !is_own("restartPolicyRules")
        && let Some(fields) = container.as_object_mut()
    {
        fields.insert("restartPolicy".to_owned(), json!("Always"));
        fields.insert("restartPolicyRules".to_owned(), rules.clone());
    }
    container
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn put(spec: &mut Value, key: &str, items: Vec<Value>) {
    if let Some(fields) = spec.as_object_mut() {
        fields.insert(key.to_owned(), Value::Array(items));
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
