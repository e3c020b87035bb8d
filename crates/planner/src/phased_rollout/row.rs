//! The rollout row: what decisions may look at of a PhasedRollout. There are few of them, so they are kept whole.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_api::phased_rollout::{PhasedRolloutSpec, PhasedRolloutStatus, ReleasePolicy};

use super::policy::{Fault, Policy};
use crate::plan::{Action, Kind, Object, Precondition};
use crate::set::SetRow;

#[derive(Clone, Debug, PartialEq)]
pub struct RolloutRow {
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
    pub spec: ParsedSpec,
    /// Its status; one that cannot be read counts as absent and is written anew.
    pub status: PhasedRolloutStatus,
}

/// A spec, parsed once, when it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedSpec {
    /// The set that it names, also where something else is wrong with it; `None` where it cannot be read.
    pub target: Option<Box<str>>,
    /// What becomes of the partition when a set is released. `Freeze` where the spec cannot be read: it does not say what to
    /// do, so nothing moves.
    pub deletion: ReleasePolicy,
    /// What it asks for, or all that is wrong with it.
    pub policy: Result<Policy, Vec<Fault>>,
}

impl ParsedSpec {
    /// Parses a spec.
    pub fn of(spec: &PhasedRolloutSpec) -> Self {
        let (target, deletion) = (Some((*spec.target_ref).into()), spec.deletion_policy);
        Self { target, deletion, policy: Policy::parse(spec) }
    }

    /// One that cannot be read, and why.
    pub fn unreadable(error: String) -> Self {
        let policy = Err(vec![Fault::Unreadable(error)]);
        Self { target: None, deletion: ReleasePolicy::Freeze, policy }
    }
}

impl RolloutRow {
    /// The set that it names.
    pub fn target(&self) -> Option<&str> {
        self.spec.target.as_deref()
    }

    /// The set that it has managed so far.
    pub fn managed(&self) -> Option<&str> {
        self.status.target.as_ref().map(|target| target.name.as_str())
    }

    /// Whether a set is to be released when this rollout ends or names another target: it is the one that the status
    /// remembers, or it carries the mark that comes with the partition.
    pub fn holds(&self, set: &SetRow) -> bool {
        let managed = self.status.target.as_ref().is_some_and(|managed| managed.uid == *set.uid);
        managed || set.steering.phased_rollout.as_deref() == Some(&*self.name)
    }

    /// The order in which sets are released: by name, and the one that the status names last. A mark is gone once its set is
    /// released; the status is not, and ends with the rollout, or is given another target.
    pub fn release_order(&self, set: &SetRow) -> (bool, Arc<str>) {
        let managed = self.status.target.as_ref().is_some_and(|managed| managed.uid == *set.uid);
        (managed, Arc::clone(&set.name))
    }

    /// Whether it comes before another one with the same target: the oldest does, then the first by name.
    pub fn precedes(&self, other: &Self) -> bool {
        (self.created, &self.name) < (other.created, &other.name)
    }

    /// Whether our finalizer is on it.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == keys::FINALIZER)
    }

    /// Puts our finalizer on it.
    pub fn keep(&self) -> Action {
        let finalizers = self.finalizers.iter().map(String::as_str).chain([keys::FINALIZER]);
        self.merge(&json!({ "finalizers": finalizers.collect::<Vec<_>>() }))
    }

    /// Takes our finalizer from it.
    pub fn let_go(&self) -> Action {
        let others = self.finalizers.iter().filter(|finalizer| *finalizer != keys::FINALIZER);
        self.merge(&json!({ "finalizers": others.collect::<Vec<_>>() }))
    }

    /// Replaces its status.
    pub fn report(&self, status: &PhasedRolloutStatus) -> Action {
        // A status is strings and numbers: it has no way not to be JSON.
        let status = serde_json::to_value(status).unwrap_or_default();
        let body = (status, keys::MANAGER_PHASED_ROLLOUT);
        Action::replace_status(self.object(), &self.uid, self.precondition(), body)
    }

    fn merge(&self, metadata: &Value) -> Action {
        let body = (json!({ "metadata": metadata }), keys::MANAGER_PHASED_ROLLOUT);
        Action::merge(self.object(), &self.uid, self.precondition(), body)
    }

    fn object(&self) -> Object {
        let namespace = Arc::clone(&self.namespace);
        Object { kind: Kind::PhasedRollout, namespace, name: (*self.name).into() }
    }

    /// The version matters to all writes: lists are written whole, and a status is decided from the one before.
    fn precondition(&self) -> Precondition {
        Precondition::exactly(&self.uid, &self.resource_version)
    }
}
