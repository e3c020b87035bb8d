//! What would happen: the planners, the StatefulSet controller and the kubelets run forward over copied rows.
//!
//! ```text
//!   rows, time, assumptions                                                      what happens, in order
//!  ------------------------->  plan -> apply -> StatefulSet controller -> kubelets  ------------------>
//!                                ^                                           |
//!                                +-------- the clock moves when all rest <---+
//! ```
//!
//! Every decision in it is taken by the planner itself, also those of the StatefulSet controller: a forecast has no rules of
//! its own. What nobody can know is assumed: how long pods take, which revisions never become Ready, which checks fail.
//! [`Objects`] is the API server, and with [`kubelet`] what the planner's own tests run on.

mod check;
pub mod kubelet;
mod objects;
mod run;
mod statefulset;
#[cfg(test)]
pub(crate) mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::plan::Object;
use crate::pod::PodRow;
use crate::reason::Reason;
use kubelet::Fate;
pub use objects::{Objects, Refused};

/// Pods that a forecast holds at most: each round looks at all of them. A set of more is not rolled while somebody waits for
/// the answer.
pub const MAX_PODS: usize = 5_000;

/// Rounds of one forecast. A round plans for every set and every PhasedRollout; a gate whose check fails every ten seconds
/// takes two for each answer, so this is more than a day of it.
pub const MAX_ROUNDS: usize = 20_000;

/// Rows that all rounds of one forecast look at together: a few seconds of work.
pub const MAX_LOOKS: usize = 10_000_000;

/// The time that a forecast looks ahead at most: whatever has not ended in a month is not a rollout under way.
pub const MAX_HORIZON: SignedDuration = SignedDuration::from_hours(30 * 24);

/// What nobody can know beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// From the creation of a pod to the start of its containers.
    pub starts_after: SignedDuration,
    /// From the start of a pod's containers until it is Ready, or has failed.
    pub ready_after: SignedDuration,
    /// From the deletion of a pod until it is gone.
    pub stops_after: SignedDuration,
    /// Revisions whose pods do not become Ready.
    pub failing_revisions: BTreeMap<Box<str>, Fate>,
    /// Checks that fail, by name, each with the highest partition of a gate at which it does: pods at and above it are of
    /// the new revision by then. All others pass.
    pub failing_checks: BTreeMap<String, i32>,
    /// How far to look ahead, at most [`MAX_HORIZON`].
    pub horizon: SignedDuration,
}

impl Default for Assumptions {
    /// Pods that take half a minute in all, and that all become Ready, for a day.
    fn default() -> Self {
        Self {
            starts_after: SignedDuration::from_secs(5),
            ready_after: SignedDuration::from_secs(20),
            stops_after: SignedDuration::from_secs(5),
            failing_revisions: BTreeMap::new(),
            failing_checks: BTreeMap::new(),
            horizon: SignedDuration::from_hours(24),
        }
    }
}

impl Assumptions {
    /// What becomes of a pod. One that is broken stays so until it is replaced.
    fn fate(&self, pod: &PodRow) -> Fate {
        let assumed = pod.revision.as_deref().and_then(|revision| self.failing_revisions.get(revision));
        match assumed {
            _ if pod.defect().is_some() => Fate::Crashes,
            Some(fate) => *fate,
            None => Fate::Ready,
        }
    }
}

/// What would happen.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// What happens, in order.
    pub entries: Vec<Entry>,
    /// Why it ends there.
    pub end: End,
    /// The time at the end.
    pub ends_at: Timestamp,
    /// The objects at the end.
    pub objects: Objects,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    pub what: Happening,
}

/// What happens in a forecast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A pod is deleted.
    Deleted {
        pod: Object,
        /// Who deletes it.
        by: Actor,
    },
    /// A pod is created.
    Created {
        pod: Object,
        /// The revision that it is built from.
        revision: Arc<str>,
    },
    /// A pod becomes Ready.
    Ready { pod: Object },
    /// The containers of a pod crash, and it does not become Ready.
    Crashed { pod: Object },
    /// The partition of a set changes.
    Partition {
        set: Object,
        /// What it is now.
        partition: u32,
    },
    /// A set of a rollout group is in another state: it is rolled, or waits for something.
    Set {
        set: Object,
        /// Why it is in that state.
        reason: Reason,
    },
    /// A PhasedRollout waits for something else.
    Rollout {
        /// The PhasedRollout.
        rollout: Object,
        /// What it waits for, in one word.
        waiting_for: String,
        /// The same for people.
        message: String,
    },
}

/// Who deletes a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The controller of rollout groups.
    RolloutGroup,
    /// The controller of PhasedRollouts.
    PhasedRollout,
    /// The StatefulSet controller.
    StatefulSet,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RolloutGroup => "the rollout group",
            Self::PhasedRollout => "the PhasedRollout",
            Self::StatefulSet => "the StatefulSet controller",
        })
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted { pod, by } => write!(f, "{by} deletes pod {}", pod.name),
            Self::Created { pod, revision } => write!(f, "pod {} is created from {revision}", pod.name),
            Self::Ready { pod } => write!(f, "pod {} is Ready", pod.name),
            Self::Crashed { pod } => write!(f, "pod {} crashes", pod.name),
            Self::Partition { set, partition } => write!(f, "the partition of {} is {partition}", set.name),
            Self::Set { set, reason } => write!(f, "{}: {reason}", set.name),
            Self::Rollout { rollout, message, .. } => write!(f, "PhasedRollout {}: {message}", rollout.name),
        }
    }
}

/// Why a forecast ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing more happens until somebody changes something.
    AtRest,
    /// The horizon is reached.
    OutOfTime,
    /// It is too large: [`MAX_PODS`], [`MAX_ROUNDS`] or [`MAX_LOOKS`] is reached.
    TooLarge,
}

/// Says what would happen to these objects from now on, as far as the assumptions hold and nobody else changes anything.
pub fn forecast(objects: Objects, assumptions: &Assumptions, now: Timestamp) -> Forecast {
    run::Run::new(objects, assumptions, now).finish()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
