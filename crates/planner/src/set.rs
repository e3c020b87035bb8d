//! The set row: what decisions may look at of a StatefulSet.

use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;

use crate::amount::{Amount, DEFAULT_MAX_UNAVAILABLE};
use crate::selector::{Labels, Selector};

/// A StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRow {
    /// The set's namespace.
    pub namespace: Arc<str>,
    /// The set's name.
    pub name: Arc<str>,
    /// The set's UID.
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
    /// The first ordinal.
    pub first_ordinal: u32,
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
}

/// A set by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
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

impl SetRow {
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
