//! Why a set is in the state it is in. A reason is data; its words are made here and nowhere else, and are
//! the same in the set's annotation, in events, in logs and on the command line.

use std::fmt;
use std::sync::Arc;

use strum::{IntoStaticStr, VariantNames};

use crate::disruption::Disturbance;
use crate::health::Health;

/// The reason behind the state of one set of a rollout group. The names of the variants are part of annotations, events and
/// metrics.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Reason {
    /// All pods are of the update revision.
    UpToDate {
        /// The update revision.
        revision: Arc<str>,
    },
    /// Outdated pods are being replaced.
    Rolling {
        /// The update revision.
        revision: Arc<str>,
    },
    /// Outdated pods wait until another set of the group, whose turn it is, is done.
    WaitingForTurn {
        /// The set whose turn it is.
        set: Arc<str>,
    },
    /// Outdated pods wait because a pod of another set, which is not being rolled, is not Ready.
    OtherSetNotReady {
        /// The set of that pod.
        set: Arc<str>,
        /// Which pods are unavailable and why, as messages name them.
        down: String,
    },
    /// Outdated pods wait because a pod of another set will be unavailable, though all of them may be Ready.
    OtherSetDisturbed {
        /// The set with that pod.
        set: Arc<str>,
        /// What will happen to it.
        disturbance: Disturbance,
    },
    /// Outdated pods wait because as many pods of the set as may be unavailable are.
    BudgetSpent {
        /// Which pods are unavailable and why, as messages name them.
        down: String,
        /// How many may be unavailable.
        budget: Budget,
    },
    /// A pod of the update revision is broken, so no further pod is risked.
    PodBroken {
        /// The update revision.
        revision: Arc<str>,
        /// Which pods are unavailable and why, as messages name them.
        down: String,
    },
    /// Nothing is outdated in this set, but its pods that are not Ready block the group.
    NotReady {
        /// Which pods are unavailable and why, as messages name them.
        down: String,
    },
    /// The user has paused the set.
    Paused,
    /// The group is not rolled at all, because a set in it has another update strategy.
    GroupSkipped {
        /// The set with the other strategy.
        set: Arc<str>,
        strategy: Box<str>,
    },
    /// The group is not rolled at all, because it has more sets than a group may have.
    TooManySets {
        /// How many it has.
        sets: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The set's own controller has not yet looked at the present spec.
    NotObserved {
        /// The generation of the spec.
        generation: i64,
    },
    /// A pod could be replaced now, but what is known of the group may be stale and could not be read again.
    ViewUnconfirmed {
        /// What could not be read, and why.
        why: Arc<str>,
    },
    /// The set is being deleted.
    Deleting,
    /// The API server refuses the deletion of an outdated pod whose turn it is.
    WriteRefused {
        /// What it said.
        refusal: Refusal,
    },
    /// The pod is being prepared for its removal by the ScalingPolicy of the set.
    PodLeaving { pod: Box<str> },
    /// A disruption was asked for a set that the gatekeeper was not told about.
    NotInDomain { set: Arc<str> },
}

/// How many pods of a set may be unavailable at once, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// The annotation `rollout-max-unavailable`, or its default.
    MaxUnavailable(u32),
    /// A phased rollout replaces one pod at a time.
    OnePod,
    /// The field `scaleDown.maxConcurrent` of a ScalingPolicy.
    MaxConcurrent(u32),
}

/// The API server's answer to a write that it did not carry out, and would not if it were asked again at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The admission webhook behind it, where the answer names one.
    pub webhook: Option<Box<str>>,
    /// The server's words.
    pub message: String,
}

impl Refusal {
    /// What ends it.
    pub fn release(&self) -> String {
        match &self.webhook {
            Some(webhook) => format!("webhook {webhook} admits the write"),
            None => "the API server accepts the write".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.webhook {
            Some(webhook) => {
                write!(f, "webhook {webhook} does not admit a write of sts-plus: {}", self.message)
            }
            None => write!(f, "the API server refuses a write of sts-plus: {}", self.message),
        }
    }
}

/// The text with a period at its end, unless it quotes somebody whose words have one.
pub(crate) fn sentence(text: String) -> String {
    if text.ends_with('.') { text } else { text + "." }
}

/// How loudly a reason is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All goes its way.
    Normal,
    /// Somebody should look.
    Warning,
    /// The user asked for something that cannot be done.
    Error,
}

impl Reason {
    /// All kinds, as [`Reason::kind`] spells them: the values of the metric's label.
    pub const KINDS: &'static [&'static str] = <Self as VariantNames>::VARIANTS;

    /// The kinds of a set that is being rolled.
    pub const ROLLING_KINDS: [&'static str; 2] = ["Rolling", Self::POD_BROKEN];

    /// The kind of [`Reason::PodBroken`], which is looked for in what was told before.
    pub(crate) const POD_BROKEN: &'static str = "PodBroken";

    /// The kind of [`Reason::WriteRefused`], also of the warning about a write that only informs.
    pub const WRITE_REFUSED: &'static str = "WriteRefused";

    /// A pod of another set is not Ready.
    pub fn other_set_not_ready(other: &Health) -> Self {
        Self::OtherSetNotReady { set: Arc::clone(&other.set), down: other.summary() }
    }

    /// The kind of reason in one word: the state in the annotation, the reason of the event, the label of
    /// the metric.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// What the reason is about, beyond its kind: a change of it is a transition. Pods are not part of it,
    /// so that a rollout does not announce each of them.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Self::UpToDate { revision } | Self::Rolling { revision } | Self::PodBroken { revision, .. } => {
                Some(revision)
            }
            Self::WaitingForTurn { set }
            | Self::OtherSetNotReady { set, .. }
            | Self::OtherSetDisturbed { set, .. }
            | Self::GroupSkipped { set, .. }
            | Self::NotInDomain { set } => Some(set),
            Self::WriteRefused { refusal } => refusal.webhook.as_deref(),
            Self::BudgetSpent { .. }
            | Self::NotReady { .. }
            | Self::Paused
            | Self::TooManySets { .. }
            | Self::NotObserved { .. }
            | Self::ViewUnconfirmed { .. }
            | Self::PodLeaving { .. }
            | Self::Deleting => None,
        }
    }

    /// What would end the wait; `None` when nothing is awaited.
    pub fn release(&self) -> Option<String> {
        let release = match self {
            Self::UpToDate { .. } | Self::Deleting => return None,
            Self::Rolling { revision } => {
                format!("every pod is of revision {revision} and Ready")
            }
            Self::WaitingForTurn { set } => {
                format!(
                    "every pod of {set} is of the update revision and Ready, or {set} is paused and Ready"
                )
            }
            Self::OtherSetNotReady { set, .. } => format!("every pod of {set} is Ready"),
            Self::OtherSetDisturbed { set, disturbance: Disturbance::Released { .. } } => {
                format!("every pod of {set} at or above its partition is of the update revision and Ready")
            }
            Self::OtherSetDisturbed { set, disturbance: Disturbance::Unobserved { generation } } => {
                format!("the StatefulSet controller reports observedGeneration {generation} for {set}")
            }
            Self::BudgetSpent { budget: Budget::MaxUnavailable(_), .. } => {
                "pods become Ready, or rollout-max-unavailable is raised".to_owned()
            }
            Self::BudgetSpent { budget: Budget::OnePod, .. } => "every pod is available".to_owned(),
            Self::BudgetSpent { budget: Budget::MaxConcurrent(_), .. } => {
                "pods become Ready, or scaleDown.maxConcurrent is raised".to_owned()
            }
            Self::PodBroken { .. } => {
                "the pod becomes Ready, or the template of the set is changed".to_owned()
            }
            Self::NotReady { .. } => "the pods become Ready".to_owned(),
            Self::Paused => {
                "the annotation grafana.com/rollout-paused is removed (sts-plus resume)".to_owned()
            }
            Self::GroupSkipped { set, .. } => {
                format!("{set} gets the update strategy OnDelete, or leaves the group")
            }
            Self::TooManySets { limit, .. } => {
                format!("sets leave the group until it has {limit} or fewer")
            }
            Self::NotObserved { generation } => {
                format!("the StatefulSet controller reports observedGeneration {generation} and a revision")
            }
            Self::WriteRefused { refusal } => refusal.release(),
            Self::ViewUnconfirmed { .. } => {
                "sts-plus can list and watch these objects again (permissions, API server)".to_owned()
            }
            Self::PodLeaving { pod } => format!("{pod} is removed, or is to stay after all"),
            Self::NotInDomain { set } => format!("{set} is observed again"),
        };
        Some(release)
    }

    /// How loudly it is told.
    pub fn severity(&self) -> Severity {
        match self {
            Self::UpToDate { .. }
            | Self::Rolling { .. }
            | Self::WaitingForTurn { .. }
            | Self::OtherSetDisturbed { .. }
            | Self::Paused
            | Self::PodLeaving { .. }
            | Self::Deleting => Severity::Normal,
            Self::OtherSetNotReady { .. }
            | Self::BudgetSpent { .. }
            | Self::PodBroken { .. }
            | Self::NotReady { .. }
            | Self::NotObserved { .. }
            | Self::WriteRefused { .. }
            | Self::ViewUnconfirmed { .. }
            | Self::NotInDomain { .. } => Severity::Warning,
            Self::GroupSkipped { .. } | Self::TooManySets { .. } => Severity::Error,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpToDate { revision } => write!(f, "All pods are of revision {revision}."),
            Self::Rolling { revision } => write!(
                f,
                "Rolling to revision {revision}. The next outdated pod is replaced when the pods replaced before it are Ready."
            ),
            Self::WaitingForTurn { set } => {
                write!(f, "Waiting for {set}: one set of the group is rolled at a time.")
            }
            Self::OtherSetNotReady { set, down } => {
                write!(f, "Blocked: not all pods of {set} are Ready ({down}).")
            }
            Self::OtherSetDisturbed { set, disturbance: Disturbance::Released { pod } } => write!(
                f,
                "Blocked: the StatefulSet controller is about to replace {pod} of {set}, which is outdated and not below the partition."
            ),
            Self::OtherSetDisturbed { set, disturbance: Disturbance::Unobserved { generation } } => write!(
                f,
                "Blocked: the StatefulSet controller has not observed generation {generation} of {set}."
            ),
            Self::BudgetSpent { down, budget: Budget::MaxUnavailable(max_unavailable) } => {
                write!(f, "Blocked: {down}, and rollout-max-unavailable is {max_unavailable}.")
            }
            Self::BudgetSpent { down, budget: Budget::OnePod } => {
                write!(f, "Blocked: {down}, and pods are replaced one at a time.")
            }
            Self::BudgetSpent { down, budget: Budget::MaxConcurrent(most) } => {
                write!(f, "Blocked: {down}, and scaleDown.maxConcurrent is {most}.")
            }
            Self::PodBroken { revision, down } => {
                write!(f, "Blocked: a pod of revision {revision} is broken ({down}).")
            }
            Self::NotReady { down } => {
                write!(f, "Blocks its group: not all its pods are Ready ({down}).")
            }
            Self::Paused => f.write_str("Paused by the annotation grafana.com/rollout-paused."),
            Self::GroupSkipped { set, strategy } => write!(
                f,
                "The group is not rolled: the update strategy of {set} is {strategy}, not OnDelete."
            ),
            Self::TooManySets { sets, limit } => {
                write!(f, "The group is not rolled: it has {sets} sets, and may have at most {limit}.")
            }
            Self::NotObserved { generation } => write!(
                f,
                "Waiting for the StatefulSet controller to report a revision for generation {generation}."
            ),
            Self::ViewUnconfirmed { why } => {
                write!(f, "No pod is replaced: the state of the cluster cannot be confirmed ({why}).")
            }
            Self::Deleting => f.write_str("The set is being deleted."),
            Self::WriteRefused { refusal } => f.write_str(&sentence(format!("Blocked: {refusal}"))),
            Self::PodLeaving { pod } => write!(f, "Waiting for {pod}, which is leaving."),
            Self::NotInDomain { set } => write!(f, "Blocked: {set} is not known to the gatekeeper."),
        }
    }
}

#[cfg(test)]
#[path = "reason_tests.rs"]
mod tests;
