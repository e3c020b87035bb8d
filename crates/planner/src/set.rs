//! The set row: what decisions may look at of a StatefulSet.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;

use sts_plus_api::extended::Group;

use crate::amount::{Amount, DEFAULT_MAX_UNAVAILABLE};
use crate::extended::row::ExtendedRow;
use crate::selector::{Labels, Selector};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRow {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// The version this row was read at.
    pub resource_version: Box<str>,
    /// Counts changes of the spec.
    pub generation: i64,
    /// The generation that the status speaks of.
    pub observed_generation: i64,
    /// Whether the set has a deletion timestamp.
    pub deleting: bool,
    /// The rollout group, where the label is present.
    pub group: Option<Arc<str>>,
    /// The annotations that steer a rollout, as written.
    pub steering: Steering,
    /// How many pods the set shall have.
    pub replicas: u32,
    pub first_ordinal: u32,
    /// Whether the set's own controller creates a pod only when all pods before it are Ready.
    pub is_ordered: bool,
    /// How long a pod must have been Ready to count.
    pub min_ready: SignedDuration,
    /// How the set's own controller updates pods.
    pub strategy: Strategy,
    /// Which pods the set claims.
    pub selector: Selector,
    /// The labels its pods are created with.
    pub template_labels: Labels,
    /// The revision that the status calls current.
    pub current_revision: Option<Box<str>>,
    /// The revision that the status calls the update revision: the target.
    pub update_revision: Option<Box<str>>,
    /// Whether the status counts as many updated and Ready pods as the spec asks for. Trusted for one thing only:
    /// when to write to the status without getting in the way of its owner.
    pub counted: bool,
    /// What an ExtendedStatefulSet that controls the set has written on it.
    pub child: Option<Box<Child>>,
    /// Kind and name of the object that controls the set, such as `ExtendedStatefulSet db`.
    pub controller: Option<Arc<str>>,
}

/// What an ExtendedStatefulSet has written on a StatefulSet that it controls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The API group of the object.
    pub group: Group,
    /// The UID of the object, from the owner reference.
    pub owner: Arc<str>,
    /// The name of the object, from the owner reference.
    pub owner_name: Arc<str>,
    /// The value of the label `<group>/extendedstatefulset-name`.
    pub label: Option<Arc<str>>,
    /// The value of the annotation `<group>/version`.
    pub version: Option<Box<str>>,
    /// The value of the annotation `<group>/content-hash`.
    pub hash: Option<Arc<str>>,
    /// The value of the label `<group>/az-index`.
    pub zone_index: Option<Box<str>>,
    /// The value of the label `<group>/az-name`.
    pub zone_name: Option<Arc<str>>,
    /// The value of the annotation `<group>/zones`.
    pub zones: Option<Arc<str>>,
    /// The value of the annotation `<group>/template-zones`.
    pub template_zones: Option<Arc<str>>,
    /// The value of the annotation `<group>/staying`, if it is a number.
    pub staying: Option<u32>,
    /// The value of the annotation `<group>/taker`.
    pub taker: Option<Arc<str>>,
    /// Whether it has the annotation `<group>/claims-hash`: Kubernetes creates claims for it.
    pub has_claims: bool,
    /// How many Ready pods the status counts.
    pub ready_replicas: u32,
    /// How many pods the status counts.
    pub status_replicas: u32,
}

impl Child {
    /// Whether the set is one of this object: by owner and by label, both.
    pub fn is_of(&self, extended: &ExtendedRow) -> bool {
        self.group == extended.group
            && self.owner == extended.uid
            && self.label.as_deref() == Some(&*extended.name)
    }
}

/// A set by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetName {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl From<&SetRow> for SetName {
    fn from(set: &SetRow) -> Self {
        Self { namespace: Arc::clone(&set.namespace), name: Arc::clone(&set.name) }
    }
}

/// Annotations of a set, as the user or we wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// The value of `rollout-max-unavailable`.
    pub max_unavailable: Option<Box<str>>,
    /// The value of `grafana.com/rollout-paused`.
    pub paused: Option<Box<str>>,
    /// The value of `sts.plus/rollout-status`.
    pub rollout_status: Option<Box<str>>,
    /// The value of `sts.plus/phasedRollout`: the PhasedRollout that manages the set.
    pub phased_rollout: Option<Box<str>>,
    /// The value of `sts.plus/leaving`: the ordinals of the pods that leave.
    pub leaving: Option<Box<str>>,
}

/// How the StatefulSet controller replaces outdated pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Somebody else deletes them: us.
    OnDelete,
    /// It does so itself, from the highest ordinal down to `first ordinal + partition`.
    RollingUpdate {
        /// The index below which pods keep the current revision.
        partition: u32,
    },
    /// A strategy of this name, which this build does not know.
    Other(Box<str>),
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnDelete => f.write_str("OnDelete"),
            Self::RollingUpdate { .. } => f.write_str("RollingUpdate"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// The greatest number of leaving pods that a set can have: `maxConcurrent` is at most 100, so fewer
/// are written by us, and whatever else an annotation holds is not looked at.
pub const MAX_LEAVING: usize = 1_000;

/// How the annotation names the pods that leave.
pub fn leaving_value(leaving: &BTreeSet<u32>) -> String {
    leaving.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl SetRow {
    /// The ordinals of the pods that leave. Parts of the annotation that are not ordinals are ignored.
    pub fn leaving(&self) -> BTreeSet<u32> {
        let ordinals = self.steering.leaving.as_deref().unwrap_or_default().split(',').take(MAX_LEAVING);
        ordinals.filter_map(|ordinal| ordinal.trim().parse().ok()).collect()
    }

    /// Whether the ExtendedStatefulSet of the set asks for fewer pods than up to this one, so that it leaves sooner or later.
    pub fn is_doomed(&self, ordinal: u32) -> bool {
        let staying = self.child.as_ref().and_then(|child| child.staying);
        staying.is_some_and(|staying| ordinal.saturating_sub(self.first_ordinal) >= staying)
    }

    /// The revision its pods shall have; `None` while the status does not speak of the present spec.
    pub fn target(&self) -> Option<&str> {
        (self.observed_generation >= self.generation).then_some(self.update_revision.as_deref()?)
    }

    /// The revision that its controller would build the pod of this ordinal from; `None` while the status does not speak
    /// of the present spec.
    pub fn revision_for(&self, ordinal: u32) -> Option<&str> {
        let update = self.target()?;
        match self.strategy {
            Strategy::RollingUpdate { partition }
                if ordinal.saturating_sub(self.first_ordinal) < partition =>
            {
                self.current_revision.as_deref()
            }
            _ => Some(update),
        }
    }

    /// How many of its pods may be unavailable at once, as `rollout-max-unavailable` has it; its value where that cannot be
    /// used.
    pub fn max_unavailable(&self) -> Result<u32, &str> {
        let Some(value) = self.steering.max_unavailable.as_deref() else {
            return Ok(DEFAULT_MAX_UNAVAILABLE);
        };
        Amount::parse(value).map(|amount| amount.of(self.replicas)).ok_or(value)
    }

    /// The ordinals its pods shall have.
    pub fn ordinals(&self) -> std::ops::Range<u32> {
        self.first_ordinal..self.first_ordinal.saturating_add(self.replicas)
    }
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
