//! The row of an ExtendedStatefulSet, whichever group it is of.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_api::extended::{ExtendedStatus, Group};
use sts_plus_api::keys;
use sts_plus_api::kinds::Kind;

use super::spec::{Fault, Spec};
use crate::plan::{Action, Object, Precondition};

/// An ExtendedStatefulSet.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtendedRow {
    /// Its API group.
    pub group: Group,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// The version this row was read at.
    pub resource_version: Box<str>,
    /// Counts changes of the spec.
    pub generation: i64,
    /// When it was created.
    pub created: Timestamp,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    pub finalizers: Vec<String>,
    /// The value of the annotation `sts.plus/approve`.
    pub approve: Option<Box<str>>,
    /// The spec, parsed when it was read, or what is wrong with it.
    pub spec: Result<Arc<Spec>, Fault>,
    pub status: ExtendedStatus,
}

impl ExtendedRow {
    pub fn kind(&self) -> Kind {
        kind_of(self.group)
    }

    /// Group, namespace and name, by which what it has left behind is found: `sts.plus/default/db`.
    pub fn path(&self) -> String {
        path(self.group, &self.namespace, &self.name)
    }

    /// Whether our finalizer is on it.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == keys::FINALIZER)
    }

    /// Puts our finalizer on it.
    pub fn keep(&self) -> Action {
        let finalizers = self.finalizers.iter().map(String::as_str).chain([keys::FINALIZER]);
        self.merge(&json!({ "metadata": { "finalizers": finalizers.collect::<Vec<_>>() } }))
    }

    /// Takes our finalizer from it.
    pub fn let_go(&self) -> Action {
        let others = self.finalizers.iter().filter(|finalizer| *finalizer != keys::FINALIZER);
        self.merge(&json!({ "metadata": { "finalizers": others.collect::<Vec<_>>() } }))
    }

    fn merge(&self, body: &Value) -> Action {
        let object =
            Object { kind: self.kind(), namespace: Arc::clone(&self.namespace), name: (*self.name).into() };
        let precondition = Precondition::exactly(&self.uid, &self.resource_version);
        Action::merge(object, &self.uid, precondition, (body.clone(), keys::MANAGER_EXTENDED))
    }
}

/// Group, namespace and name of an object in one text. No UID has a slash.
pub fn path(group: Group, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", group.name())
}

/// The kind of a group.
pub const fn kind_of(group: Group) -> Kind {
    match group {
        Group::StsPlus => Kind::Extended,
        Group::Fissile => Kind::FissileExtended,
    }
}
