//! What a plan is made of: writes as values, each with the precondition it was decided under.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::disruption::Permit;
use crate::set::SetRow;

/// Writes that may be under way together; the next batch starts only after all of this one succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The writes.
    pub actions: Vec<Action>,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The object it goes to.
    pub object: Object,
    /// The state of the object it was decided under.
    pub precondition: Precondition,
    /// What is done.
    pub verb: Verb,
}

/// An object by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Box<str>,
}

/// The kinds that plans write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A pod.
    Pod,
    /// A StatefulSet.
    StatefulSet,
}

/// The state of an object that a write insists on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// The object is still the same one.
    pub uid: Box<str>,
    /// It has not changed since; `None` where a change cannot make the write wrong.
    pub resource_version: Option<Box<str>>,
}

/// What a write does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Delete the object with its own grace period.
    Delete,
    /// Merge these fields into the object, under this field manager.
    Merge {
        /// The fields.
        body: Value,
        /// The field manager.
        manager: &'static str,
    },
    /// Merge these fields into the object's status, under this field manager.
    MergeStatus {
        /// The fields.
        body: Value,
        /// The field manager.
        manager: &'static str,
    },
}

impl Action {
    /// Deletes the pod of a permit, as it was when the permit was given.
    pub fn delete(permit: &Permit) -> Self {
        let pod = permit.pod();
        Self {
            object: Object { kind: Kind::Pod, namespace: Arc::clone(&pod.namespace), name: pod.name.clone() },
            precondition: Precondition {
                uid: pod.uid.clone(),
                resource_version: Some(pod.resource_version.clone()),
            },
            verb: Verb::Delete,
        }
    }

    /// Sets or, with `None`, removes an annotation of a set. Any version of the set will do: the annotation
    /// has one writer and the set's controller writes its status all the time.
    pub fn annotate(set: &SetRow, key: &str, value: Option<&str>, manager: &'static str) -> Self {
        Self {
            object: object_of(set),
            precondition: Precondition { uid: (*set.uid).into(), resource_version: None },
            verb: Verb::Merge { body: json!({ "metadata": { "annotations": { key: value } } }), manager },
        }
    }

    /// Calls the target revision of a set its current one, which the StatefulSet controller never does for
    /// a set with the strategy OnDelete.
    pub fn promote(set: &SetRow, revision: &str, manager: &'static str) -> Self {
        Self {
            object: object_of(set),
            precondition: Precondition {
                uid: (*set.uid).into(),
                resource_version: Some(set.resource_version.clone()),
            },
            verb: Verb::MergeStatus { body: json!({ "status": { "currentRevision": revision } }), manager },
        }
    }

    /// Whether the write takes something away from the user's workload.
    pub fn disrupts(&self) -> bool {
        matches!(self.verb, Verb::Delete)
    }
}

fn object_of(set: &SetRow) -> Object {
    Object { kind: Kind::StatefulSet, namespace: Arc::clone(&set.namespace), name: (*set.name).into() }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
