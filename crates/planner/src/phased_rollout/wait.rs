//! What a rollout waits for. As with every reason, its words are made here and nowhere else: the status, the events,
//! the log and the command line print the same value.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_api::phased_rollout::{GateState, Phase, ReleasePolicy};

use crate::disruption::{Denial, MAX_MEMBERS};
use crate::reason::{Budget, Reason, Severity, sentence};

/// Why a rollout is where it is. The names of the variants, unless another is given, are part of statuses and events.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[cfg_attr(test, derive(strum::VariantNames))]
pub enum Wait {
    /// The target does not exist.
    TargetNotFound { set: String },
    /// The target is on its way out.
    TargetDeleting { set: String },
    /// An older rollout has the same target.
    #[strum(serialize = "CannotManage")]
    ManagedByOther { set: String, other: String },
    /// The target's strategy leaves no partition to steer.
    #[strum(serialize = "CannotManage")]
    WrongStrategy { set: String, strategy: String },
    /// The spec has faults.
    InvalidSpec { faults: String },
    /// Another target was named: the former one is let go first.
    Releasing { set: String },
    /// Gating is suspended.
    Suspended { policy: ReleasePolicy },
    /// The set's own controller has not looked at the present spec.
    NotObserved { generation: i64 },
    /// Nothing: all pods are of the revision.
    UpToDate { revision: String },
    /// A pod that was let go is not there in the new revision.
    #[strum(serialize = "PodToBeUpdated")]
    PodNotUpdated { pod: String, revision: String },
    /// Pods are down.
    #[strum(serialize = "PodsToBeAvailable")]
    PodsNotAvailable { down: String },
    /// The initial delay runs.
    InitialDelay { until: Timestamp },
    /// Checks are being asked.
    Checks { progress: String },
    /// A check fails.
    ChecksFailing { check: String, failures: i32, value: String },
    /// A check gets no usable answer, and may get one the next time.
    PrometheusError { check: String, error: String },
    /// A check cannot be asked until somebody changes something.
    PrometheusConfigError { check: String, error: String },
    /// Somebody has to agree.
    Approval { rollout: String, revision: String, approval: String, given: Option<String> },
    /// The user has paused it.
    Paused { rollout: String },
    /// The gate has passed: the next pod goes.
    GatePassed { partition: u32, pod: Option<String> },
    /// The set's own controller has not called the revision current.
    #[strum(serialize = "Promotion")]
    NotPromoted { revision: String },
    /// Something else of the workload is down, so that no pod may go, or the API server refuses the write.
    Held { reason: Reason },
    /// Somebody else keeps writing the partition.
    PartitionContested { manager: String, until: Timestamp },
    /// The gate has failed, and the rollout stays.
    GateFailed { rollout: String, revision: String, approval: String, why: String, restore: Option<String> },
    /// Changed pods are brought back.
    RollingBack { revision: String, why: String, held: Option<Reason> },
    /// They have been.
    RolledBack { rollout: String, approval: String, failed: String, revision: String },
}

/// The announced waits that keep a rollout from going on: their end is worth telling too.
const OBSTACLES: [&str; 13] = [
    "CannotManage",
    "InvalidSpec",
    "Suspended",
    "ChecksFailing",
    "PrometheusError",
    "PrometheusConfigError",
    "Paused",
    "PartitionContested",
    "OtherSetNotReady",
    "TooManySets",
    "ViewUnconfirmed",
    "TargetNotFound",
    Reason::WRITE_REFUSED,
];

impl Wait {
    /// Whether a wait of this kind was in the way, and is over with this one.
    pub fn ends(&self, kind: &str) -> bool {
        let goes_on = !matches!(
            self,
            Self::NotObserved { .. }
                | Self::TargetNotFound { .. }
                | Self::TargetDeleting { .. }
                | Self::Releasing { .. }
        );
        OBSTACLES.contains(&kind) && goes_on && !self.is_announced()
    }

    /// The kind of wait in one word: `waitingFor` in the status and the reason of events.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Held { reason } => reason.kind(),
            other => other.into(),
        }
    }

    /// The phase that the rollout is in while it waits for this.
    pub fn phase(&self) -> Phase {
        match self {
            Self::TargetNotFound { .. } | Self::TargetDeleting { .. } => Phase::ErrorSTSNotFound,
            Self::ManagedByOther { .. } | Self::WrongStrategy { .. } | Self::Releasing { .. } => {
                Phase::ErrorCannotManage
            }
            Self::InvalidSpec { .. } => Phase::ErrorInvalid,
            Self::Suspended { .. } => Phase::Suspended,
            Self::UpToDate { .. } => Phase::Updated,
            Self::GateFailed { .. } => Phase::Failed,
            Self::RollingBack { .. } => Phase::RollingBack,
            Self::RolledBack { .. } => Phase::RolledBack,
            _ => Phase::Rolling,
        }
    }

    /// Whether the gate's time runs while it waits for this: the revision itself is at work, or is judged.
    pub fn runs_the_deadline(&self) -> bool {
        self.is_about_checks()
            || matches!(
                self,
                Self::PodNotUpdated { .. } | Self::PodsNotAvailable { .. } | Self::NotPromoted { .. }
            )
    }

    /// Whether checks run, or fail, or are about to run.
    pub fn is_about_checks(&self) -> bool {
        matches!(
            self,
            Self::InitialDelay { .. }
                | Self::Checks { .. }
                | Self::ChecksFailing { .. }
                | Self::PrometheusError { .. }
                | Self::PrometheusConfigError { .. }
        )
    }

    /// The state of the gate that this wait is shown as; `None` where the gate keeps its state.
    pub fn gate_state(&self) -> Option<GateState> {
        match self {
            Self::PodNotUpdated { .. } => Some(GateState::WaitForPodToBeUpdated),
            Self::PodsNotAvailable { .. } | Self::Held { .. } => Some(GateState::WaitForAllPodsToBeAvailable),
            Self::InitialDelay { .. } => Some(GateState::WaitForInitialDelay),
            Self::Checks { .. } | Self::ChecksFailing { .. } => Some(GateState::WaitForChecks),
            Self::PrometheusError { .. } | Self::PrometheusConfigError { .. } => {
                Some(GateState::PrometheusError)
            }
            Self::Approval { .. } => Some(GateState::WaitForApproval),
            Self::Paused { .. } => Some(GateState::Paused),
            Self::GatePassed { .. } => Some(GateState::Passed),
            Self::GateFailed { .. } => Some(GateState::Failed),
            _ => None,
        }
    }

    /// How loudly it is told.
    pub fn severity(&self) -> Severity {
        match self {
            Self::TargetNotFound { .. }
            | Self::ManagedByOther { .. }
            | Self::WrongStrategy { .. }
            | Self::InvalidSpec { .. } => Severity::Error,
            Self::NotObserved { .. }
            | Self::ChecksFailing { .. }
            | Self::PrometheusError { .. }
            | Self::PrometheusConfigError { .. }
            | Self::PartitionContested { .. }
            | Self::GateFailed { .. }
            | Self::RollingBack { .. }
            | Self::RolledBack { .. } => Severity::Warning,
            Self::Held { reason } => reason.severity(),
            _ => Severity::Normal,
        }
    }

    /// Whether its beginning is worth an event of its own. The ordinary waits within a gate are not, since each pod
    /// passes through all of them, nor is the moment in which another set of the group is about to lose a pod; what has an event
    /// for another reason is not reported twice.
    pub fn is_announced(&self) -> bool {
        !matches!(
            self,
            Self::TargetNotFound { .. }
                | Self::TargetDeleting { .. }
                | Self::Releasing { .. }
                | Self::NotObserved { .. }
                | Self::UpToDate { .. }
                | Self::PodNotUpdated { .. }
                | Self::PodsNotAvailable { .. }
                | Self::InitialDelay { .. }
                | Self::Checks { .. }
                | Self::GatePassed { .. }
                | Self::NotPromoted { .. }
                | Self::Held { reason: Reason::OtherSetDisturbed { .. } }
        )
    }

    /// Whether nothing will go on until somebody acts.
    pub fn is_stalled(&self) -> bool {
        matches!(
            self,
            Self::ManagedByOther { .. }
                | Self::WrongStrategy { .. }
                | Self::InvalidSpec { .. }
                | Self::PrometheusConfigError { .. }
                | Self::GateFailed { .. }
                | Self::RolledBack { .. }
                | Self::Held { reason: Reason::WriteRefused { .. } | Reason::TooManySets { .. } }
        )
    }

    /// What would end the wait; `None` when nothing is awaited.
    pub fn release(&self) -> Option<String> {
        let release = match self {
            Self::UpToDate { .. } | Self::GatePassed { .. } | Self::Releasing { .. } => return None,
            Self::TargetNotFound { set } => format!("a StatefulSet {set} is created in this namespace"),
            Self::TargetDeleting { set } => format!("{set} is deleted and created again"),
            Self::ManagedByOther { other, .. } => format!("{other} is deleted or names another target"),
            Self::WrongStrategy { set, .. } => {
                format!("spec.updateStrategy.type of {set} is RollingUpdate")
            }
            Self::InvalidSpec { .. } => "the spec is corrected".to_owned(),
            Self::Suspended { .. } => "skipCheck and standardRollingUpdate are false".to_owned(),
            Self::NotObserved { generation } => {
                format!(
                    "the StatefulSet controller reports observedGeneration {generation} and its revisions"
                )
            }
            Self::PodNotUpdated { pod, revision } => format!("{pod} is of revision {revision}"),
            Self::PodsNotAvailable { .. } => "every pod is available".to_owned(),
            Self::InitialDelay { until } => format!("it is {until}"),
            Self::Checks { .. } => {
                "every check has passed as many times in succession as it has to".to_owned()
            }
            Self::ChecksFailing { check, .. } => {
                format!("{check} passes, or the template is changed")
            }
            Self::PrometheusError { check, .. } => format!("{check} gets an answer"),
            Self::PrometheusConfigError { check, .. } => {
                format!("the query, the url or the Secret of {check} is corrected")
            }
            Self::Approval { rollout, approval, .. } => format!(
                "the annotation sts.plus/approve is {approval} (sts-plus approve phasedrollout/{rollout})"
            ),
            Self::Paused { rollout } => {
                format!("spec.paused is false (sts-plus resume phasedrollout/{rollout})")
            }
            Self::NotPromoted { revision } => {
                format!("the StatefulSet controller reports {revision} as currentRevision")
            }
            Self::Held { reason } | Self::RollingBack { held: Some(reason), .. } => return reason.release(),
            Self::PartitionContested { manager, until } => {
                format!(
                    "{manager} stops writing spec.updateStrategy.rollingUpdate.partition, or it is {until}"
                )
            }
            Self::GateFailed { restore: Some(restore), .. } => {
                format!("the template is changed, for instance back to that of revision {restore}")
            }
            Self::GateFailed { rollout, approval, .. } | Self::RolledBack { rollout, approval, .. } => {
                format!(
                    "the template is changed, or the annotation sts.plus/approve is {approval}, which retries the revision (sts-plus approve phasedrollout/{rollout})"
                )
            }
            Self::RollingBack { revision, held: None, .. } => {
                format!("every pod is of revision {revision} and available")
            }
        };
        Some(release)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TargetNotFound { set } => write!(f, "StatefulSet {set} does not exist in this namespace."),
            Self::TargetDeleting { set } => write!(f, "StatefulSet {set} is being deleted."),
            Self::ManagedByOther { set, other } => {
                write!(f, "{set} is managed by the older PhasedRollout {other}.")
            }
            Self::WrongStrategy { set, strategy } => {
                write!(f, "spec.updateStrategy.type of {set} is {strategy}, not RollingUpdate.")
            }
            Self::InvalidSpec { faults } => f.write_str(&sentence(format!("The spec is invalid: {faults}"))),
            Self::Releasing { set } => write!(f, "Releasing the former target {set}."),
            Self::Suspended { policy: ReleasePolicy::Resume } => {
                f.write_str("Gating is suspended: the StatefulSet controller rolls the set without checks.")
            }
            Self::Suspended { policy: ReleasePolicy::Freeze } => {
                f.write_str("Gating is suspended: the partition keeps its value and no pod is replaced.")
            }
            Self::NotObserved { generation } => write!(
                f,
                "Waiting for the StatefulSet controller to report the revisions of generation {generation}."
            ),
            Self::UpToDate { revision } => write!(f, "All pods are of revision {revision}."),
            Self::PodNotUpdated { pod, revision } => {
                write!(f, "Waiting for {pod} to be replaced by a pod of revision {revision}.")
            }
            Self::PodsNotAvailable { down } => write!(f, "Blocked: not all pods are available ({down})."),
            Self::InitialDelay { until } => write!(f, "All pods are available. The checks begin at {until}."),
            Self::Checks { progress } => write!(f, "Waiting for the checks: {progress}."),
            Self::ChecksFailing { check, failures, value } => {
                f.write_str(&sentence(format!("{check} has failed {}: {value}", in_succession(*failures))))
            }
            Self::PrometheusError { check, error } | Self::PrometheusConfigError { check, error } => {
                f.write_str(&sentence(format!("{check} gets no verdict: {error}")))
            }
            Self::Approval { revision, given: None, .. } => {
                write!(f, "Waiting for approval of revision {revision}.")
            }
            Self::Approval { revision, given: Some(given), .. } => write!(
                f,
                "Waiting for approval of revision {revision}. The approval that is given, {given}, is for another step, or has been used."
            ),
            Self::Paused { .. } => f.write_str("Paused by spec.paused."),
            Self::GatePassed { partition, pod: Some(pod) } => {
                write!(f, "The gate at partition {partition} has passed. {pod} is replaced next.")
            }
            Self::GatePassed { pod: None, .. } => f.write_str("The final gate has passed."),
            Self::NotPromoted { revision } => {
                write!(f, "Waiting for the StatefulSet controller to report {revision} as currentRevision.")
            }
            Self::Held { reason } => reason.fmt(f),
            Self::PartitionContested { manager, until } => {
                write!(f, "{manager} keeps writing the partition. It is restored again at {until}.")
            }
            Self::GateFailed { revision, why, restore: None, .. } => {
                write!(f, "{} No further pod is replaced.", gate_failed(revision, why))
            }
            Self::GateFailed { revision, why, restore: Some(restore), .. } => write!(
                f,
                "{} It is the current revision of the set, so there is nothing to roll back to; the revision to restore is {restore}.",
                gate_failed(revision, why)
            ),
            Self::RollingBack { revision, why, held: None } => {
                f.write_str(&sentence(format!("Rolling back to revision {revision}: {why}")))
            }
            Self::RollingBack { revision, held: Some(reason), .. } => {
                write!(f, "Rolling back to revision {revision}. {reason}")
            }
            Self::RolledBack { failed, revision, .. } => {
                write!(f, "All pods are back on revision {revision}. Revision {failed} has failed.")
            }
        }
    }
}

/// What a denial of the gatekeeper is for a rollout: it replaces one pod at a time, whatever `rollout-max-unavailable` says.
pub(super) fn denied_for(denial: &Denial) -> Reason {
    match denial {
        Denial::TooManySets { sets, .. } => Reason::TooManySets { sets: *sets, limit: MAX_MEMBERS },
        Denial::OtherSetNotReady { health, .. } => Reason::other_set_not_ready(health),
        Denial::OtherSetDisturbed { set, disturbance } => {
            Reason::OtherSetDisturbed { set: Arc::clone(&set.name), disturbance: disturbance.clone() }
        }
        Denial::OtherSetPermitted { set, .. } => Reason::WaitingForTurn { set: Arc::clone(&set.name) },
        Denial::BudgetSpent { health, .. } => {
            Reason::BudgetSpent { down: health.summary(), budget: Budget::OnePod }
        }
        Denial::Leaving { pod, .. } => Reason::PodLeaving { pod: pod.clone() },
        Denial::NotInDomain { set } => Reason::NotInDomain { set: Arc::clone(&set.name) },
    }
}

/// What is reported of a revision whose gate has failed, also as an event.
pub(super) fn gate_failed(revision: &str, why: &str) -> String {
    sentence(format!("Revision {revision} has failed its gate: {why}"))
}

/// `once`, or how many times in succession.
pub(crate) fn in_succession(times: i32) -> String {
    if times == 1 { "once".to_owned() } else { format!("{times} times in succession") }
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
