//! The ConfigMap of a lock: a key for each ordinal that may run.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::keys;

use super::row::ScalingRow;
use crate::plan::{Action, Kind, Object, Precondition};
use crate::revision::fnv64;

/// What the name of a lock ends with.
const SUFFIX: &str = "-lock";

/// The longest name of a ConfigMap, in bytes.
const MAX_NAME: usize = 253;

/// The value of each key: which keys there are is all that counts.
const MAY_RUN: &str = "may run";

/// A ConfigMap that sts-plus has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRow {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// The version this row was read at.
    pub resource_version: Box<str>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// The UID of the object that controls it.
    pub owner: Option<Arc<str>>,
    /// The keys of its data.
    pub keys: BTreeSet<Box<str>>,
}

impl LockRow {
    /// Whether the pod with this ordinal may run.
    pub fn allows(&self, ordinal: u32) -> bool {
        self.keys.contains(&*ordinal.to_string())
    }

    /// The ConfigMap, as writes and reads name it.
    pub fn object(&self) -> Object {
        object(&self.namespace, &self.name)
    }
}

/// The name of the lock of a set.
pub fn name_of(set: &str) -> String {
    let room = MAX_NAME.saturating_sub(SUFFIX.len());
    if set.len() <= room {
        return format!("{set}{SUFFIX}");
    }
    let hash = fnv64(set.as_bytes());
    let kept: String = set.chars().take(room.saturating_sub(hash.len()).saturating_sub(1)).collect();
    format!("{kept}-{hash}{SUFFIX}")
}

/// A ConfigMap by its name.
pub(super) fn object(namespace: &Arc<str>, name: &str) -> Object {
    Object { kind: Kind::ConfigMap, namespace: Arc::clone(namespace), name: name.into() }
}

/// Creates the lock.
pub(super) fn create(policy: &ScalingRow, name: &str, keys: &BTreeSet<Box<str>>) -> Action {
    let object = object(&policy.namespace, name);
    Action::create(object, &policy.uid, body(policy, keys), keys::MANAGER_SCALING)
}

/// Gives the lock exactly these keys, at the UID and the version that it was seen at.
pub(super) fn replace(
    policy: &ScalingRow,
    name: &str,
    (uid, version): (&str, &str),
    keys: &BTreeSet<Box<str>>,
) -> Action {
    let object = object(&policy.namespace, name);
    let body = (body(policy, keys), keys::MANAGER_SCALING);
    Action::replace(object, &policy.uid, Precondition::exactly(uid, version), body, false)
}

/// Whether a ConfigMap that the rows do not have is the lock of a policy: one that has lost its label, or its owner.
pub(super) fn is_of(found: &Value, policy: &ScalingRow) -> bool {
    let owners = found.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owner = owners.into_iter().flatten().find(|owner| owner.get("controller") == Some(&json!(true)));
    let label = found.pointer("/metadata/labels").and_then(|labels| labels.get(keys::MANAGED_BY));
    match owner {
        Some(owner) => owner.get("uid").and_then(Value::as_str) == Some(&*policy.uid),
        None => label.and_then(Value::as_str) == Some(keys::MANAGED_BY_STS_PLUS),
    }
}

fn body(policy: &ScalingRow, keys: &BTreeSet<Box<str>>) -> Value {
    let data: serde_json::Map<_, _> = keys.iter().map(|key| (key.to_string(), json!(MAY_RUN))).collect();
    let definition = Kind::ScalingPolicy.definition();
    json!({
        "metadata": {
            "labels": { keys::MANAGED_BY: keys::MANAGED_BY_STS_PLUS },
            "ownerReferences": [{
                "apiVersion": definition.api_version,
                "kind": definition.kind,
                "name": policy.name,
                "uid": policy.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }],
        },
        "data": data,
    })
}
