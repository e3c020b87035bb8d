//! What a PhasedRollout tells, and all that its controller remembers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::OnFailure;
use crate::conditions::Condition;

/// What is the case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhasedRolloutStatus {
    /// The generation of this object that the status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the rollout is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// What is awaited, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// What is awaited and what would end the wait, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when it has been awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// `Ready`, `Updated`, `Reconciling` and `Stalled`, and faults in what was written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
    /// The set that is managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The revision that the present or last rollout is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// The revision that the pods had before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_revision: Option<String>,
    /// Revisions of pods that the set has adopted: it was created again over them with another template. Each of these pods
    /// waits for its gate, and until all of them have been replaced a failure can only pause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adopted_revisions: Vec<String>,
    /// When the present or last rollout began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_start_time: Option<Timestamp>,
    /// When the last rollout ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_end_time: Option<Timestamp>,
    /// The partition that was last decided on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Whether the partition of a suspended set holds every pod, however many replicas it gets.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds_every_pod: bool,
    /// The present gate; absent when nothing rolls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_pod_status: Option<GateStatus>,
    /// The revision that failed its gate; stays until the template changes or the revision is approved anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What the annotation `sts.plus/approve` has to be to approve the step that waits, or to retry a revision that has
    /// failed: `<revision>/<pod to be replaced>` or `<revision>/retry`, with a number behind it when it is not the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaited_approval: Option<String>,
    /// Approvals that have been used, the newest last: none of them counts again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub used_approvals: Vec<String>,
    /// The pods by revision, the target first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<RevisionPods>,
    /// Pods of the new revision that no gate has let through.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ungated_pods: Vec<String>,
    /// Who else writes the partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contest: Option<Contest>,
}

/// Where a rollout is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Phase {
    /// The target does not exist.
    ErrorSTSNotFound,
    /// The target cannot be managed: another rollout has it, or its strategy is not RollingUpdate.
    ErrorCannotManage,
    /// The spec asks for something that cannot be done.
    ErrorInvalid,
    /// Gating is suspended.
    Suspended,
    /// All pods are of the update revision.
    Updated,
    /// Pods are being replaced, gate by gate.
    Rolling,
    /// A gate has failed and the rollout stays where it is.
    Failed,
    /// Changed pods are being brought back to the current revision.
    RollingBack,
    /// They have been; the failed revision waits for another template.
    RolledBack,
}

impl Phase {
    /// All phases with the word that users read.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::ErrorSTSNotFound, "ErrorSTSNotFound"),
        (Self::ErrorCannotManage, "ErrorCannotManage"),
        (Self::ErrorInvalid, "ErrorInvalid"),
        (Self::Suspended, "Suspended"),
        (Self::Updated, "Updated"),
        (Self::Rolling, "Rolling"),
        (Self::Failed, "Failed"),
        (Self::RollingBack, "RollingBack"),
        (Self::RolledBack, "RolledBack"),
    ];

    /// The word that users read.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(phase, _)| *phase == self).map_or("Unknown", |(_, word)| word)
    }
}

/// The managed set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its UID: a set that was deleted and created anew is another one.
    pub uid: String,
}

/// The gate before one step: what has to be before the partition goes down by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GateStatus {
    /// How far the gate is.
    pub status: GateState,
    /// The partition that it belongs to; 0 is the final gate.
    pub partition: i32,
    /// How many replicas the set had when the gate began; another number begins it anew.
    pub replicas: i32,
    /// When the gate began.
    pub start_time: Timestamp,
    /// Seconds of `progressDeadlineSeconds` that the gate has used. Time counts while the new pod is missing or not Ready,
    /// while checks run or fail, and while the promotion of the revision is awaited; not while the step is blocked by
    /// another set, unobserved, contested, paused or waiting for approval, nor without an operator or while the state of
    /// the cluster cannot be confirmed. It is measured by monotonic time and written at least each tenth of the deadline.
    #[serde(default)]
    pub elapsed_seconds: i64,
    /// When all pods were seen available; the initial delay counts from here. The name is as users know it.
    #[serde(default, rename = "analisysStartTime", skip_serializing_if = "Option::is_none")]
    pub analysis_start_time: Option<Timestamp>,
    /// When the last of those pods had become Ready: another time means that one went down and came back unseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_ready_since: Option<Timestamp>,
    /// When the last answered query was sent, over all checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check_time: Option<Timestamp>,
    /// When the next query is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_check_time: Option<Timestamp>,
    /// Passes in a row, of the check that has the fewest.
    pub consecutive_successful_checks: i32,
    /// Failures in a row, of the check that has the most.
    pub consecutive_failed_checks: i32,
    /// Failures in this gate, of all checks together.
    pub total_failed_checks: i32,
    /// Whether no pod of this rollout has been let go yet.
    #[serde(default)]
    pub first: bool,
    /// Whether this step has been approved.
    #[serde(default)]
    pub approved: bool,
    /// Each check.
    #[serde(default)]
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])))]
    pub checks: Vec<CheckStatus>,
}

/// How far a gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum GateState {
    /// The pod that this step let go is not of the new revision yet.
    WaitForPodToBeUpdated,
    /// Not all pods are available.
    WaitForAllPodsToBeAvailable,
    /// The initial delay is not over.
    WaitForInitialDelay,
    /// The checks have not passed often enough.
    WaitForChecks,
    /// A check gets no usable answer.
    PrometheusError,
    /// The checks have passed and somebody has to agree.
    WaitForApproval,
    /// The user has paused the rollout.
    Paused,
    /// All is well: the partition may go down.
    Passed,
    /// The gate has failed.
    Failed,
}

impl GateState {
    /// All states with the word that users read.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::WaitForPodToBeUpdated, "WaitForPodToBeUpdated"),
        (Self::WaitForAllPodsToBeAvailable, "WaitForAllPodsToBeAvailable"),
        (Self::WaitForInitialDelay, "WaitForInitialDelay"),
        (Self::WaitForChecks, "WaitForChecks"),
        (Self::PrometheusError, "PrometheusError"),
        (Self::WaitForApproval, "WaitForApproval"),
        (Self::Paused, "Paused"),
        (Self::Passed, "Passed"),
        (Self::Failed, "Failed"),
    ];

    /// The word that users read.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(state, _)| *state == self).map_or("Unknown", |(_, word)| word)
    }
}

/// One check in the present gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CheckStatus {
    /// The check's name.
    pub name: String,
    /// Passes in a row.
    #[serde(default)]
    pub consecutive_successful_checks: i32,
    /// Failures in a row.
    #[serde(default)]
    pub consecutive_failed_checks: i32,
    /// Failures in this gate.
    #[serde(default)]
    pub total_failed_checks: i32,
    /// Queries in a row without a usable answer.
    #[serde(default)]
    pub consecutive_errors: i32,
    /// When the last answered query was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check_time: Option<Timestamp>,
    /// When the last query that passed was sent: a row of successes that is too old is discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_time: Option<Timestamp>,
    /// What the last query counted as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verdict: Option<Verdict>,
    /// What the last answer was, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_value: Option<String>,
    /// What the last error was; absent once a query was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What the server warned of in its last answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What a query counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Verdict {
    /// It has passed.
    Pass,
    /// It has failed.
    Fail,
    /// It says nothing: the policy is to wait for data.
    NoData,
    /// It got no usable answer.
    Error,
    /// It cannot be asked until somebody changes its address, its Secret or the like.
    ConfigError,
    /// The server has read it and refuses it: asking again soon will not help.
    Rejected,
}

impl Verdict {
    /// The word that users read.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "Pass",
            Self::Fail => "Fail",
            Self::NoData => "NoData",
            Self::Error => "Error",
            Self::ConfigError => "ConfigError",
            Self::Rejected => "Rejected",
        }
    }
}

/// A revision that failed its gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The revision.
    pub revision: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, in words.
    pub message: String,
    /// When.
    pub time: Timestamp,
    /// What was done about it, as decided then.
    pub action: OnFailure,
}

/// Pods of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct RevisionPods {
    /// The revision; empty for pods without the label.
    pub revision: String,
    /// How many pods there are.
    pub pods: i32,
    /// How many of them are available.
    pub ready: i32,
}

/// Somebody else writes the partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Contest {
    /// The field manager that did it last.
    pub manager: String,
    /// How many times in a row.
    pub times: i32,
    /// When last.
    pub last_time: Timestamp,
}
