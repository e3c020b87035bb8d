//! `PhasedRollout`: a rolling update of one StatefulSet that waits between pods until checks have passed.
//!
//! The spec is what users write; every default stands here and nowhere else, so the schema, the planner and the
//! command line agree. The status is also the controller's only memory: a restart goes on from it.

mod status;

use serde::{Deserialize, Serialize};

#[cfg(feature = "crd")]
use crate::crds;

pub use status::{
    CheckStatus, Contest, Failure, GateState, GateStatus, Phase, PhasedRolloutStatus, RevisionPods, Target,
    Verdict,
};

/// What the user asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource, schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = crds::SPEC)),
    kube(
        group = "sts.plus",
        version = "v1alpha1",
        kind = "PhasedRollout",
        namespaced,
        status = "PhasedRolloutStatus",
        shortname = "phr",
        category = "all",
        category = "sts-plus",
        derive = "PartialEq",
        doc = "A rolling update of one StatefulSet that waits between pods until checks have passed.",
        printcolumn = r#"{"name": "target-ref", "type": "string", "jsonPath": ".spec.targetRef"}"#,
        printcolumn = r#"{"name": "phase", "type": "string", "jsonPath": ".status.phase"}"#,
        printcolumn = r#"{"name": "partition", "type": "integer", "jsonPath": ".status.rollingPodStatus.partition"}"#,
        printcolumn = r#"{"name": "rolling-pod-status", "type": "string", "jsonPath": ".status.rollingPodStatus.status"}"#,
        printcolumn = r#"{"name": "waiting-for", "type": "string", "jsonPath": ".status.waitingFor"}"#,
        printcolumn = r#"{"name": "rollout-start-time", "type": "date", "jsonPath": ".status.rolloutStartTime"}"#,
        printcolumn = r#"{"name": "rollout-end-time", "type": "date", "jsonPath": ".status.rolloutEndTime"}"#,
        printcolumn = r#"{"name": "age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "these are the fields that users know")]
pub struct PhasedRolloutSpec {
    /// Name of the StatefulSet in the same namespace.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
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
    /// Where somebody has to agree besides the checks, by the annotation `sts.plus/approve` (`sts-plus approve`) with the
    /// value that `status.awaitedApproval` names.
    #[serde(default)]
    pub approval: Approval,
    /// Whether a last gate judges the whole set after its last pod was replaced.
    #[serde(default = "enabled")]
    pub verify_last: bool,
    /// What to do when a gate fails: stay there, or bring the changed pods back to the current revision.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// A gate that has not passed after so many seconds has failed. Without it a gate may wait for ever. Only time in which
    /// the gate could have passed counts, see `status.rollingPodStatus.elapsedSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
    pub progress_deadline_seconds: Option<i32>,
    /// The one check; or use `checks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// Several checks, all of which must pass; or use `check`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])))]
    pub checks: Vec<NamedCheck>,
}

/// What becomes of the partition when it is no longer managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum ReleasePolicy {
    /// It is given up, so that a rollout that was held goes on at once, unchecked.
    #[default]
    Resume,
    /// It keeps its value, so that nothing moves. While suspended it is restored when somebody else writes it.
    Freeze,
}

/// Where somebody has to agree besides the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NamedCheck {
    /// Name of the check, unique in the rollout; shown in status, events and metrics.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 63), regex(pattern = crds::LABEL)))]
    pub name: String,
    /// The check itself.
    #[serde(flatten)]
    pub check: Check,
}

/// A query that is asked again and again until it has passed often enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::CHECK)))]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Seconds to wait before the first query, counted from the moment all pods are available.
    #[serde(default = "Check::default_seconds")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub initial_delay_seconds: i32,
    /// Seconds between queries; 0 runs them every second.
    #[serde(default = "Check::default_seconds")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub period_seconds: i32,
    /// How many times in a row the query must pass.
    #[serde(default = "Check::default_threshold")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
    pub success_threshold: i32,
    /// How many times in a row the query may fail before the gate has failed. Without it a gate waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
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
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 16384)))]
    pub require_data: Option<String>,
    /// What an empty answer counts as with `passWhen: Data` or `Compare`: `Fail` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Else the words above would give way to those of the enum.
    #[cfg_attr(feature = "crd", schemars(with = "NoDataPolicy"))]
    pub no_data_policy: Option<NoDataPolicy>,
    /// What a query that got no usable answer counts as. It breaks the row of successes in any case.
    #[serde(default)]
    pub error_policy: ErrorPolicy,
    /// How many errors in a row make the gate fail. Without it errors only wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
    pub consecutive_error_limit: Option<i32>,
    /// What the server's warnings mean. `Error` (the default): an answer with a warning is no usable answer, since data
    /// may be missing from it; a `PromQL warning:` is one only with an empty result, and a `PromQL info:` never.
    /// `Ignore`: warnings do not matter. An answer that the server marks as partial (`isPartial`) is never usable.
    #[serde(default)]
    pub on_warnings: WarningPolicy,
    /// The query.
    pub query: Query,
}

/// Which answer of a query is a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum ErrorPolicy {
    /// Neither: the row of successes starts anew.
    #[default]
    Wait,
    /// A failed check.
    Fail,
}

/// What the warnings of a server mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum WarningPolicy {
    /// An answer with a warning is no usable answer.
    #[default]
    Error,
    /// They do not matter.
    Ignore,
}

/// A query and whom to ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::QUERY)))]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// The expression. `${namespace}`, `${set}`, `${pod}`, `${updatedPods}` and `${revision}` stand for what is being
    /// rolled; `${updatedPods}` is an alternation for a regular expression.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 16384)))]
    pub expr: String,
    /// Base address of the server, without `/api/v1/query`. A missing scheme means http.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 2048)))]
    pub url: String,
    /// Name of a Secret in the same namespace with `token`, or with `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub secret_ref: Option<String>,
    /// True accepts any certificate.
    #[serde(default)]
    pub insecure_skip_verify: bool,
    /// Name of a Secret in the same namespace whose `ca.crt` is trusted instead of the well-known authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub ca_secret_ref: Option<String>,
    /// Name of a Secret in the same namespace with `tls.crt` and `tls.key` to present to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub client_cert_secret_ref: Option<String>,
    /// Headers to send along, such as the tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(length(max = 16)))]
    pub headers: Vec<Header>,
    /// Seconds that one query may take, from connecting to the last byte.
    #[serde(default = "Query::default_timeout")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 60)))]
    pub timeout_seconds: i32,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::HEADER)))]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Its name.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 128), regex(pattern = crds::TOKEN)))]
    pub name: String,
    /// Its value, where it is no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(max = 4096), regex(pattern = crds::HEADER_VALUE)))]
    pub value: Option<String>,
    /// Where its value is, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKey>,
}

/// A key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct SecretKey {
    /// Name of the Secret.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// The key.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
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
