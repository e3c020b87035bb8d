//! The status of a PhasedRollout, which is also the controller's only memory.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::OnFailure;
use crate::conditions::Condition;

/// The observed state of the PhasedRollout. Written by sts-plus, which also resumes from it after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhasedRolloutStatus {
    /// The generation of this object that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The phase of the rollout. `ErrorSTSNotFound`: the target does not exist. `ErrorCannotManage`: another
    /// PhasedRollout manages the target, or its update strategy is not RollingUpdate. `ErrorInvalid`: the spec is
    /// invalid. `Suspended`: gating is suspended. `Updated`: all pods have the update revision. `Rolling`: pods are
    /// being replaced, gate by gate. `Failed`: a gate has failed and the rollout stays where it is. `RollingBack`:
    /// the changed pods are being rolled back to the current revision. `RolledBack`: they have been rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    // Otherwise the description of the enum would replace that of the field.
    #[cfg_attr(feature = "crd", schemars(with = "Phase"))]
    pub phase: Option<Phase>,
    /// A one-word reason for which the rollout waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// A human-readable description of what the rollout waits for and what would release it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The time at which the current wait began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The conditions `Ready`, `Updated`, `Reconciling` and `Stalled`, and `Warning` and `Conflict` where they apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
    /// The StatefulSet that is managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The revision to which the current or last rollout leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// The revision that the pods had before the current or last rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_revision: Option<String>,
    /// The revisions of pods that the StatefulSet adopted when it was created again with another template. Each of
    /// these pods waits for its gate. Until all of them have been replaced, a failed gate can only pause the rollout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adopted_revisions: Vec<String>,
    /// The time at which the current or last rollout began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_start_time: Option<Timestamp>,
    /// The time at which the last rollout ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_end_time: Option<Timestamp>,
    /// The partition that was decided on last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Whether the partition of a suspended StatefulSet holds every pod, for any number of replicas.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds_every_pod: bool,
    /// The current gate. Absent if no rollout is in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_pod_status: Option<GateStatus>,
    /// The revision that failed its gate. Kept until the template changes or the revision is retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The value of the annotation `sts.plus/approve` that approves the waiting step or retries a failed revision:
    /// `<revision>/<pod to be replaced>` or `<revision>/retry`, followed by `/` and a number if it is not the first
    /// approval of that step or retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaited_approval: Option<String>,
    /// The approvals that have been used, newest last. A used approval has no further effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub used_approvals: Vec<String>,
    /// The number of pods per revision, the update revision first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<RevisionPods>,
    /// The names of the pods of the update revision that were created before their gate passed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ungated_pods: Vec<String>,
    /// The last foreign writes of the partition. Absent if there were none in the last ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contest: Option<Contest>,
}

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Phase {
    /// The target does not exist.
    ErrorSTSNotFound,
    /// The target cannot be managed: another PhasedRollout manages it, or its strategy is not RollingUpdate.
    ErrorCannotManage,
    /// The spec is invalid.
    ErrorInvalid,
    /// Gating is suspended.
    Suspended,
    /// All pods have the update revision.
    Updated,
    /// Pods are being replaced, gate by gate.
    Rolling,
    /// A gate has failed and the rollout stays where it is.
    Failed,
    /// The changed pods are being rolled back to the current revision.
    RollingBack,
    /// The changed pods have been rolled back. The failed revision stays in the status until the template changes.
    RolledBack,
}

impl Phase {
    /// The spelling in the API.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// The managed StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct Target {
    /// The name of the managed StatefulSet, which is in the namespace of the PhasedRollout.
    pub name: String,
    /// The UID of the StatefulSet. One that was deleted and created again has another UID.
    pub uid: String,
}

/// The gate before one step: what must hold before the partition is lowered by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GateStatus {
    /// The state of the gate. `WaitForPodToBeUpdated`: the pod that was released last does not have the new revision
    /// yet. `WaitForAllPodsToBeAvailable`: not all pods are available. `WaitForInitialDelay`: the initial delay is
    /// not over. `WaitForChecks`: the checks have not passed often enough. `PrometheusError`: a check gets no usable
    /// answer. `WaitForApproval`: the checks have passed and a person must approve the step. `Paused`: the rollout is
    /// paused. `Passed`: the partition may be lowered. `Failed`: the gate has failed.
    pub status: GateState,
    /// The partition during this gate. 0 is the final gate.
    pub partition: i32,
    /// The number of replicas when the gate began. The gate restarts when it changes.
    pub replicas: i32,
    /// The time at which the gate began.
    pub start_time: Timestamp,
    /// The number of seconds that count towards `progressDeadlineSeconds`. Time counts while the new pod is missing
    /// or not Ready, while checks run or fail, and while the promotion of the revision is awaited. It does not count
    /// while another set blocks the step, the spec is not observed, the partition is contested, the rollout is paused
    /// or waits for approval, no operator runs, or the state of the cluster cannot be confirmed. It is measured with
    /// a monotonic clock and written at least once per tenth of the deadline.
    #[serde(default)]
    pub elapsed_seconds: i64,
    /// The time at which all pods were seen available. The initial delays of the checks count from here. The spelling
    /// of the name is kept for compatibility.
    #[serde(default, rename = "analisysStartTime", skip_serializing_if = "Option::is_none")]
    pub analysis_start_time: Option<Timestamp>,
    /// The latest time at which one of these pods became Ready. If it changes, a pod was unavailable in the meantime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_ready_since: Option<Timestamp>,
    /// The time at which the last answered query was sent, over all checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check_time: Option<Timestamp>,
    /// The time at which the next query is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_check_time: Option<Timestamp>,
    /// The number of consecutive passes of the check that has the fewest.
    pub consecutive_successful_checks: i32,
    /// The number of consecutive failures of the check that has the most.
    pub consecutive_failed_checks: i32,
    /// The number of failures in this gate, over all checks.
    pub total_failed_checks: i32,
    /// Whether this rollout has not released any pod yet.
    #[serde(default)]
    pub first: bool,
    /// Whether this step has been approved.
    #[serde(default)]
    pub approved: bool,
    /// The state of each check in this gate.
    #[serde(default)]
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])))]
    pub checks: Vec<CheckStatus>,
}

/// The state of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum GateState {
    /// The pod that was released last does not have the new revision yet.
    WaitForPodToBeUpdated,
    /// Not all pods are available.
    WaitForAllPodsToBeAvailable,
    /// The initial delay is not over.
    WaitForInitialDelay,
    /// The checks have not passed often enough.
    WaitForChecks,
    /// A check gets no usable answer.
    PrometheusError,
    /// The checks have passed and a person must approve the step.
    WaitForApproval,
    /// The rollout is paused.
    Paused,
    /// The partition may be lowered.
    Passed,
    /// The gate has failed.
    Failed,
}

impl GateState {
    /// The spelling in the API.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// The state of one check in the current gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CheckStatus {
    /// The name of the check; `check` for the one in `spec.check`.
    pub name: String,
    /// The number of consecutive passes in this gate, up to now.
    #[serde(default)]
    pub consecutive_successful_checks: i32,
    /// The number of consecutive failures in this gate, up to now.
    #[serde(default)]
    pub consecutive_failed_checks: i32,
    /// The number of all failures in this gate, consecutive or not.
    #[serde(default)]
    pub total_failed_checks: i32,
    /// The number of consecutive queries without a usable answer.
    #[serde(default)]
    pub consecutive_errors: i32,
    /// The time at which the last answered query was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check_time: Option<Timestamp>,
    /// The time at which the last query that passed was sent. If it is too long ago, the streak of passes is reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_time: Option<Timestamp>,
    /// The verdict on the last query. `Pass`: passed. `Fail`: failed. `NoData`: the answer was empty and does not
    /// count. `Error`: there was no usable answer. `ConfigError`: the query cannot be sent until its address, its
    /// Secret or the like is changed. `Rejected`: the server refuses the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "Verdict"))]
    pub last_verdict: Option<Verdict>,
    /// A human-readable summary of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_value: Option<String>,
    /// The last error. Absent after a query was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The warnings in the last answer of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The verdict on a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Verdict {
    /// Passed.
    Pass,
    /// Failed.
    Fail,
    /// The answer was empty, and by its policy the check waits for data.
    NoData,
    /// There was no usable answer.
    Error,
    /// The query cannot be sent until its address, its Secret or the like is changed.
    ConfigError,
    /// The server has parsed the query and refuses it; an early retry does not help.
    Rejected,
}

impl Verdict {
    /// The spelling in the API.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A revision that failed its gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The name of the ControllerRevision that was being rolled out.
    pub revision: String,
    /// A one-word reason for the failure.
    pub reason: String,
    /// A human-readable explanation of the failure.
    pub message: String,
    /// The time at which the gate failed.
    pub time: Timestamp,
    /// The action that was decided on: `Pause` or `Rollback`.
    pub action: OnFailure,
}

/// The pods of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct RevisionPods {
    /// The name of the revision. Empty for pods without the label `controller-revision-hash`.
    pub revision: String,
    /// The number of pods of this revision, available or not.
    pub pods: i32,
    /// The number of available pods.
    pub ready: i32,
}

/// Foreign writes of the partition, by another field manager than sts-plus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Contest {
    /// The field manager of the last foreign write.
    pub manager: String,
    /// The number of foreign writes in succession.
    pub times: i32,
    /// The time at which the last foreign write was reverted.
    pub last_time: Timestamp,
}
