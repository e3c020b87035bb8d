//! The row of a ScalingPolicy: what decisions may look at of it. There are few of them, so they are kept whole.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::{DeletionPolicy, ScalingPolicySpec, ScalingPolicyStatus};

use super::policy::Policy;
use crate::phased_rollout::policy::Fault;
use crate::plan::{Action, Kind, Object, Precondition};
use crate::set::SetRow;

/// A ScalingPolicy.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingRow {
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
    /// The UID of the object that controls it; empty where none does.
    pub controller: Arc<str>,
    /// The ExtendedStatefulSet that it was created for, by its label.
    pub created_for: Option<(Group, Arc<str>)>,
    pub spec: ParsedSpec,
    /// Its status; one that cannot be read counts as absent and is written anew.
    pub status: ScalingPolicyStatus,
}

/// A spec, parsed once, when it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedSpec {
    /// The set that it names, also where something else is wrong with it; `None` where it cannot be read.
    pub target: Option<Arc<str>>,
    /// What happens when the policy is deleted. `Release` where the spec cannot be read: nothing is removed that nobody asked
    /// for.
    pub deletion: DeletionPolicy,
    /// What it asks for, or all that is wrong with it.
    pub policy: Result<Arc<Policy>, Vec<Fault>>,
}

impl ParsedSpec {
    /// Parses a spec.
    pub fn of(spec: &ScalingPolicySpec) -> Self {
        let target = Some(spec.target_ref.name.as_str().into());
        Self { target, deletion: spec.deletion_policy, policy: Policy::parse(spec).map(Arc::new) }
    }

    /// One that cannot be read, and why.
    pub fn unreadable(error: String) -> Self {
        let policy = Err(vec![Fault::Unreadable(error)]);
        Self { target: None, deletion: DeletionPolicy::Release, policy }
    }
}

impl ScalingRow {
    /// The set that it names.
    pub fn target(&self) -> Option<&str> {
        self.spec.target.as_deref()
    }

    /// Whether it may scale a set: one that nothing controls, or one with the same controller.
    pub fn may_scale(&self, set: &SetRow) -> bool {
        let is_same = |child: &crate::set::Child| !child.owner.is_empty() && child.owner == self.controller;
        set.controller.is_none() || set.child.as_deref().is_some_and(is_same)
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
        self.merge(&json!({ "metadata": { "finalizers": finalizers.collect::<Vec<_>>() } }))
    }

    /// Takes our finalizer from it.
    pub fn let_go(&self) -> Action {
        let others = self.finalizers.iter().filter(|finalizer| *finalizer != keys::FINALIZER);
        self.merge(&json!({ "metadata": { "finalizers": others.collect::<Vec<_>>() } }))
    }

    /// Fills in the number of replicas that the set has.
    pub fn adopt_replicas(&self, replicas: u32) -> Action {
        self.merge(&json!({ "spec": { "replicas": replicas } }))
    }

    /// Replaces its status.
    pub fn report(&self, status: &ScalingPolicyStatus) -> Action {
        // A status is strings and numbers: it has no way not to be JSON.
        let status = serde_json::to_value(status).unwrap_or_default();
        let body = (status, keys::MANAGER_SCALING);
        Action::replace_status(self.object(), &self.uid, self.precondition(), body)
    }

    /// The policy, as writes and reads name it.
    pub fn object(&self) -> Object {
        let namespace = Arc::clone(&self.namespace);
        Object { kind: Kind::ScalingPolicy, namespace, name: (*self.name).into() }
    }

    fn merge(&self, body: &Value) -> Action {
        let body = (body.clone(), keys::MANAGER_SCALING);
        Action::merge(self.object(), &self.uid, self.precondition(), body)
    }

    /// The version matters to all writes: lists are written whole, and a status is decided from the one before.
    fn precondition(&self) -> Precondition {
        Precondition::exactly(&self.uid, &self.resource_version)
    }
}
