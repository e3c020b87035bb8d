//! `PhasedRollout`: a rolling update of one StatefulSet that waits between pods until checks have passed.
//!
//! The spec is what users write; every default stands here and nowhere else, so the schema, the planner and the
//! command line agree. The status is also the controller's only memory: a restart goes on from it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// What the user asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "these are the fields that users know")]
pub struct PhasedRolloutSpec {
    /// Name of the StatefulSet in the same namespace.
    pub target_ref: String,
    /// True suspends gating: the set rolls as Kubernetes does it (see `suspendPolicy`).
    #[serde(default)]
    pub skip_check: bool,
    /// Another name for `skipCheck`; either one suspends.
    #[serde(default)]
    pub standard_rolling_update: bool,
    /// What becomes of the partition while suspended.
    #[serde(default)]
    pub suspend_policy: ReleasePolicy,
    /// What becomes of the partition when this object is deleted or names another target.
    #[serde(default)]
    pub deletion_policy: ReleasePolicy,
    /// True keeps the rollout where it is: no pod is replaced and no query runs.
    #[serde(default)]
    pub paused: bool,
    /// Where somebody has to agree besides the checks, by the annotation `sts.plus/approve` (`sts-plus approve`).
    #[serde(default)]
    pub approval: Approval,
    /// Whether a last gate judges the whole set after its last pod was replaced.
    #[serde(default = "enabled")]
    pub verify_last: bool,
    /// What to do when a gate fails: stay there, or bring the changed pods back to the current revision.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// A gate that has not passed so many seconds after it began has failed. Without it a gate may wait for ever.
    /// Time spent paused or waiting for approval does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// The one check; or use `checks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// Several checks, all of which must pass; or use `check`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<NamedCheck>,
}

/// What becomes of the partition when it is no longer managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleasePolicy {
    /// It is given up, so that a rollout that was held goes on at once, unchecked.
    #[default]
    Resume,
    /// It keeps its value, so that nothing moves.
    Freeze,
}

/// Where somebody has to agree besides the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Approval {
    /// Nowhere.
    #[default]
    Never,
    /// Before the first pod of a rollout is replaced.
    FirstPod,
    /// Before each pod is replaced.
    EveryStep,
}

/// What to do when a gate fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// Stay there until the template changes or the revision is approved anew.
    #[default]
    Pause,
    /// Bring the changed pods back to the current revision, newest first. Once the set's own controller has called
    /// the new revision current there is nothing to go back to, and this means Pause.
    Rollback,
}

/// A check with a name, for rollouts with several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedCheck {
    /// Name of the check, unique in the rollout; shown in status, events and metrics.
    pub name: String,
    /// The check itself.
    #[serde(flatten)]
    pub check: Check,
}

/// A query that is asked again and again until it has passed often enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Seconds to wait before the first query, counted from the moment all pods are available.
    #[serde(default = "Check::default_seconds")]
    pub initial_delay_seconds: i32,
    /// Seconds between queries; 0 runs them every second.
    #[serde(default = "Check::default_seconds")]
    pub period_seconds: i32,
    /// How many times in a row the query must pass.
    #[serde(default = "Check::default_threshold")]
    pub success_threshold: i32,
    /// How many times in a row the query may fail before the gate has failed. Without it a gate waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i32>,
    /// Which answer is a pass. `NoData` (the default): data returned means that the check has failed.
    #[serde(default)]
    pub pass_when: PassWhen,
    /// How the values are judged with `passWhen: Compare`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compare>,
    /// A query that must return data before the check is judged at all: without it, `passWhen: NoData` also passes
    /// when nothing is scraped any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_data: Option<String>,
    /// What an empty answer counts as with `passWhen: Data` or `Compare`: `Fail` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_data_policy: Option<NoDataPolicy>,
    /// What a query that got no usable answer counts as. It breaks the row of successes in any case.
    #[serde(default)]
    pub error_policy: ErrorPolicy,
    /// How many errors in a row make the gate fail. Without it errors only wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consecutive_error_limit: Option<i32>,
    /// The query.
    pub query: Query,
}

/// Which answer of a query is a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassWhen {
    /// No series: the query describes what must not be, as an alert does.
    #[default]
    NoData,
    /// At least one series: the query describes what must be.
    Data,
    /// The values compare as `compare` says.
    Compare,
}

/// How values are judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compare {
    /// The comparison, the value on its left.
    pub operator: Operator,
    /// What stands on its right.
    pub threshold: f64,
    /// How several series become one verdict. A value that is not a number counts as absent.
    #[serde(default)]
    pub reduce: Reduce,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// Less.
    #[serde(rename = "<")]
    Less,
    /// Less or equal.
    #[serde(rename = "<=")]
    LessOrEqual,
    /// Greater.
    #[serde(rename = ">")]
    Greater,
    /// Greater or equal.
    #[serde(rename = ">=")]
    GreaterOrEqual,
    /// Equal.
    #[serde(rename = "==")]
    Equal,
    /// Not equal.
    #[serde(rename = "!=")]
    NotEqual,
}

/// How several series become one verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reduce {
    /// Every value compares.
    #[default]
    All,
    /// At least one value compares.
    Any,
    /// Their sum compares.
    Sum,
    /// Their mean compares.
    Avg,
    /// The greatest compares.
    Max,
    /// The least compares.
    Min,
}

/// What an empty answer counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoDataPolicy {
    /// A failed check.
    #[default]
    Fail,
    /// Neither: the row of successes starts anew.
    Wait,
    /// A passed check.
    Pass,
}

/// What a query without a usable answer counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorPolicy {
    /// Neither: the row of successes starts anew.
    #[default]
    Wait,
    /// A failed check.
    Fail,
}

/// A query and whom to ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// The expression. `${namespace}`, `${set}`, `${pod}`, `${updatedPods}` and `${revision}` stand for what is being
    /// rolled; `${updatedPods}` is an alternation for a regular expression.
    pub expr: String,
    /// Base address of the server, without `/api/v1/query`. A missing scheme means http.
    pub url: String,
    /// Name of a Secret in the same namespace with `token`, or with `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    /// True accepts any certificate.
    #[serde(default)]
    pub insecure_skip_verify: bool,
    /// Name of a Secret in the same namespace whose `ca.crt` is trusted instead of the well-known authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<String>,
    /// Name of a Secret in the same namespace with `tls.crt` and `tls.key` to present to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_secret_ref: Option<String>,
    /// Headers to send along, such as the tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// Seconds that one query may take, from connecting to the last byte.
    #[serde(default = "Query::default_timeout")]
    pub timeout_seconds: i32,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value, where it is no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where its value is, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKey>,
}

/// A key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretKey {
    /// Name of the Secret.
    pub name: String,
    /// The key.
    pub key: String,
}

impl Check {
    /// The name of the check in `check`, which has none of its own.
    pub const ONLY: &'static str = "check";

    fn default_seconds() -> i32 {
        60
    }

    fn default_threshold() -> i32 {
        3
    }
}

impl Query {
    fn default_timeout() -> i32 {
        5
    }
}

fn enabled() -> bool {
    true
}

impl PhasedRolloutSpec {
    /// Whether gating is suspended, under either name.
    pub fn suspended(&self) -> bool {
        self.skip_check || self.standard_rolling_update
    }
}

/// What is the case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// When the present or last rollout began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_start_time: Option<Timestamp>,
    /// When the last rollout ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_end_time: Option<Timestamp>,
    /// The partition that was last decided on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// The present gate; absent when nothing rolls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_pod_status: Option<GateStatus>,
    /// The revision that failed its gate; stays until the template changes or the revision is approved anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
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
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its UID: a set that was deleted and created anew is another one.
    pub uid: String,
}

/// The gate before one step: what has to be before the partition goes down by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateStatus {
    /// How far the gate is.
    pub status: GateState,
    /// The partition that it belongs to; 0 is the final gate.
    pub partition: i32,
    /// How many replicas the set had when the gate began; another number begins it anew.
    pub replicas: i32,
    /// When the gate began, or the time it may take was started anew.
    pub start_time: Timestamp,
    /// When all pods were seen available; the initial delay counts from here. The name is as users know it.
    #[serde(default, rename = "analisysStartTime", skip_serializing_if = "Option::is_none")]
    pub analysis_start_time: Option<Timestamp>,
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
    pub checks: Vec<CheckStatus>,
}

/// How far a gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[serde(rename_all = "camelCase")]
pub struct Contest {
    /// The field manager that did it last.
    pub manager: String,
    /// How many times in a row.
    pub times: i32,
    /// When last.
    pub last_time: Timestamp,
}
