//! The record of a set that is created again: a ControllerRevision that holds the whole object.
//!
//! Its data cannot be changed once it exists, and whoever may read it may read StatefulSets and their templates as a rule, since
//! every template is in a ControllerRevision anyway; a ConfigMap is read by many more. It is controlled by the object that asked
//! for it, so that no StatefulSet takes it for a revision of its own.

use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::keys;

use crate::plan::{Action, Kind, Object, Precondition};

/// The object that asks for a record, and controls it.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub kind: Kind,
    pub namespace: &'a Arc<str>,
    pub name: &'a str,
    pub uid: &'a str,
    pub manager: &'static str,
}

/// An object of the name of a record, as the API server has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found<'v> {
    /// There is none.
    Absent,
    /// It is somebody else's.
    Foreign,
    /// It is the asker's.
    Own(Record<'v>),
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'v> {
    uid: &'v str,
    resource_version: &'v str,
    /// The object that it holds.
    pub data: &'v Value,
}

impl Asker<'_> {
    /// A record by its name.
    pub fn object(self, name: &str) -> Object {
        Object { kind: Kind::Revision, namespace: Arc::clone(self.namespace), name: name.into() }
    }

    /// What there is of the name of a record.
    pub fn found(self, answer: Option<&Value>) -> Found<'_> {
        let Some(found) = answer else { return Found::Absent };
        let text = |pointer: &str| found.pointer(pointer).and_then(Value::as_str);
        let owners = found.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owner = owners.into_iter().flatten().find(|owner| owner.get("controller") == Some(&json!(true)));
        let owner = owner.and_then(|owner| owner.get("uid")).and_then(Value::as_str);
        let version = text("/metadata/uid").zip(text("/metadata/resourceVersion"));
        match (owner, version, found.get("data")) {
            (Some(owner), Some((uid, resource_version)), Some(data)) if *owner == *self.uid => {
                Found::Own(Record { uid, resource_version, data })
            }
            _ => Found::Foreign,
        }
    }

    /// Stores an object.
    pub fn create(self, name: &str, object: &Value) -> Action {
        let definition = self.kind.definition();
        let body = json!({
            "metadata": {
                "labels": { keys::MANAGED_BY: keys::MANAGED_BY_STS_PLUS },
                "ownerReferences": [{
                    "apiVersion": definition.api_version,
                    "kind": definition.kind,
                    "name": self.name,
                    "uid": self.uid,
                    "controller": true,
                    "blockOwnerDeletion": false,
                }],
            },
            "data": object,
            "revision": 1,
        });
        Action::create(self.object(name), self.uid, body, self.manager)
    }

    /// Deletes a record that holds nothing that is needed.
    pub fn delete(self, name: &str, record: Record<'_>) -> Action {
        let precondition = Precondition::exactly(record.uid, record.resource_version);
        Action::delete_record(self.object(name), self.uid, precondition)
    }
}
