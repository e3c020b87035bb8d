//! `PhasedRollout`: a rolling update of one StatefulSet that waits between pods until checks have passed.
//!
//! The doc comments are the descriptions that `kubectl explain` shows. It shows those of fields only, so a field describes the
//! values of its enum. Every default is defined here and nowhere else, so that the schema, the planner and the command line
//! agree. The status is also the controller's only memory: after a restart it resumes from the status.

mod status;

use serde::{Deserialize, Serialize};

#[cfg(feature = "crd")]
use crate::crds;

pub use status::{
    CheckStatus, Contest, Failure, GateState, GateStatus, Phase, PhasedRolloutStatus, RevisionPods, Target,
    Verdict,
};

/// The desired behaviour of the PhasedRollout.
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
        doc = "A PhasedRollout makes the rolling update of a StatefulSet wait before each pod until its checks have passed.",
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
    /// The name of the StatefulSet to manage, in the same namespace. Its update strategy must be RollingUpdate.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub target_ref: String,
    /// Suspends gating: the StatefulSet is rolled as without a PhasedRollout. `suspendPolicy` determines what happens
    /// to the partition. Defaults to false.
    #[serde(default)]
    pub skip_check: bool,
    /// Has the same meaning as `skipCheck`: gating is suspended if either of them is true. Defaults to false.
    #[serde(default)]
    pub standard_rolling_update: bool,
    /// What happens to the partition while gating is suspended. `Resume`: the partition is released, and a held
    /// rollout runs to its end, unchecked. `Freeze`: the partition keeps its value and no pod is replaced; the value
    /// is restored when another field manager writes it. Defaults to `Resume`.
    #[serde(default)]
    pub suspend_policy: ReleasePolicy,
    /// What happens to the partition when this object is deleted or its `targetRef` changes. `Resume`: the partition
    /// is released, and a held rollout runs to its end, unchecked. `Freeze`: the partition keeps its value and no pod
    /// is replaced. Defaults to `Resume`.
    #[serde(default)]
    pub deletion_policy: ReleasePolicy,
    /// Pauses the rollout: no pod is replaced, no query is sent, and the partition is held. Defaults to false.
    #[serde(default)]
    pub paused: bool,
    /// Which steps need the approval of a person in addition to the checks. `Never`: none. `FirstPod`: the
    /// replacement of the first pod of a rollout. `EveryStep`: the replacement of each pod. To approve a step, set
    /// the annotation `sts.plus/approve` to the value of `status.awaitedApproval`, or use `sts-plus approve`.
    /// Defaults to `Never`.
    #[serde(default)]
    pub approval: Approval,
    /// Whether a final gate must pass after the last pod was replaced. Defaults to true.
    #[serde(default = "enabled")]
    pub verify_last: bool,
    /// What to do when a gate fails. `Pause`: the rollout stays where it is until the template changes or the
    /// revision is retried. `Rollback`: the changed pods are deleted one at a time, newest first, so that they are
    /// created again from the current revision. Once the StatefulSet controller has made the new revision the current
    /// one there is nothing to roll back to, and `Rollback` has the effect of `Pause`. Defaults to `Pause`.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The maximum number of seconds for a gate to pass. A gate that takes longer has failed. Only time in which the
    /// gate could have passed counts, see `status.rollingPodStatus.elapsedSeconds`. If not set, a gate may wait
    /// indefinitely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
    pub progress_deadline_seconds: Option<i32>,
    /// The check that must pass before each pod is replaced. Exactly one of `check` and `checks` must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// The checks, all of which must pass before each pod is replaced. Exactly one of `check` and `checks` must be
    /// set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])))]
    pub checks: Vec<NamedCheck>,
}

/// What happens to the partition when it is no longer managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum ReleasePolicy {
    /// The partition is released: a held rollout runs to its end, unchecked.
    #[default]
    Resume,
    /// The partition keeps its value: no pod is replaced. While suspended it is restored after a foreign write.
    Freeze,
}

/// Which steps need the approval of a person in addition to the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Approval {
    /// None.
    #[default]
    Never,
    /// The replacement of the first pod of a rollout.
    FirstPod,
    /// The replacement of each pod.
    EveryStep,
}

/// What to do when a gate fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum OnFailure {
    /// The rollout stays where it is until the template changes or the revision is retried.
    #[default]
    Pause,
    /// The changed pods are deleted, newest first, and created again from the current revision. Once the StatefulSet
    /// controller has made the new revision the current one there is nothing to roll back to, and this means `Pause`.
    Rollback,
}

/// A check with a name, for rollouts with several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NamedCheck {
    /// The name of the check, unique in the PhasedRollout. It is shown in the status, in events and in metrics.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 63), regex(pattern = crds::LABEL)))]
    pub name: String,
    /// The check.
    #[serde(flatten)]
    pub check: Check,
}

/// A query that is sent periodically until it has passed often enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::CHECK)))]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// The number of seconds to wait before the first query, counted from the moment at which all pods are available.
    /// A pod that becomes unavailable restarts the delay. Defaults to 60.
    #[serde(default = "Check::default_seconds")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub initial_delay_seconds: i32,
    /// The number of seconds between two queries. 0 has the effect of 1. Defaults to 60.
    #[serde(default = "Check::default_seconds")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub period_seconds: i32,
    /// The number of consecutive passes after which the check has passed. Defaults to 3.
    #[serde(default = "Check::default_threshold")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
    pub success_threshold: i32,
    /// The number of consecutive failures after which the gate fails. If not set, failures never make the gate fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
    pub failure_threshold: Option<i32>,
    /// Which answer is a pass. Defaults to `NoData`: data returned means that the check has failed, as in an alert.
    /// `Data`: data returned means that the check has passed. `Compare`: the check passes if the values satisfy
    /// `compare`.
    #[serde(default)]
    pub pass_when: PassWhen,
    /// The comparison that values must satisfy. Required with `passWhen: Compare`, and not allowed otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compare>,
    /// A PromQL expression that must return data before the answer to `query` is evaluated. It is sent to the same
    /// server and may contain the same placeholders. It guards `passWhen: NoData`, which also passes when nothing is
    /// scraped any more. If not set, no data is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 16384)))]
    pub require_data: Option<String>,
    /// The verdict on an empty answer with `passWhen: Data` or `Compare`. `Fail`: a failure. `Wait`: neither a pass
    /// nor a failure; the streak of passes is reset. `Pass`: a pass. Not allowed with `passWhen: NoData`, where an
    /// empty answer is a pass. Defaults to `Fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Otherwise the description of the enum would replace that of the field.
    #[cfg_attr(feature = "crd", schemars(with = "NoDataPolicy"))]
    pub no_data_policy: Option<NoDataPolicy>,
    /// The verdict on a query without a usable answer. `Wait`: neither a pass nor a failure. `Fail`: a failure. In
    /// both cases the streak of passes is reset. Defaults to `Wait`.
    #[serde(default)]
    pub error_policy: ErrorPolicy,
    /// The number of consecutive queries without a usable answer after which the gate fails. If not set, errors never
    /// make the gate fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
    pub consecutive_error_limit: Option<i32>,
    /// Whether an answer with warnings is usable. `Error`: it is not, because data may be missing from it; however, a
    /// warning that begins with `PromQL warning:` matters only if the result is empty, and one that begins with
    /// `PromQL info:` never does. `Ignore`: warnings do not matter. An answer that the server marks as partial
    /// (`isPartial`) is never usable. Defaults to `Error`.
    #[serde(default)]
    pub on_warnings: WarningPolicy,
    /// The query and the server to which it is sent.
    pub query: Query,
}

/// Which answer to a query is a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum PassWhen {
    /// An answer without series: the query describes what must not be the case, as an alert does.
    #[default]
    NoData,
    /// An answer with at least one series: the query describes what must be the case.
    Data,
    /// Values that satisfy `compare`.
    Compare,
}

/// A comparison of the values in an answer with a threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Compare {
    /// The operator. The value of the answer is on its left side, `threshold` on its right side.
    pub operator: Operator,
    /// The number with which values are compared.
    pub threshold: f64,
    /// How the values of several series are combined. `All`: every value must satisfy the comparison. `Any`: at least
    /// one value must. `Sum`, `Avg`, `Max`, `Min`: the sum, the mean, the greatest or the least value must. NaN
    /// counts as no value. Defaults to `All`.
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

/// How the values of several series are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Reduce {
    /// Every value must satisfy the comparison.
    #[default]
    All,
    /// At least one value must.
    Any,
    /// Their sum must.
    Sum,
    /// Their mean must.
    Avg,
    /// The greatest value must.
    Max,
    /// The least value must.
    Min,
}

/// The verdict on an empty answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum NoDataPolicy {
    /// A failure.
    #[default]
    Fail,
    /// Neither a pass nor a failure; the streak of passes is reset.
    Wait,
    /// A pass.
    Pass,
}

/// The verdict on a query without a usable answer. The streak of passes is reset in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum ErrorPolicy {
    /// Neither a pass nor a failure.
    #[default]
    Wait,
    /// A failure.
    Fail,
}

/// Whether an answer with warnings is usable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum WarningPolicy {
    /// It is not.
    #[default]
    Error,
    /// It is.
    Ignore,
}

/// A query and the server to which it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::QUERY)))]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// The PromQL expression. It may contain the placeholders `${namespace}`, `${set}` (the StatefulSet), `${pod}`
    /// (the pod that was released last, or the first pod to be released), `${updatedPods}` (the pods that were
    /// replaced, as an alternation for `=~`, such as `web-2|web-1`) and `${revision}` (the update revision).
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 16384)))]
    pub expr: String,
    /// The base URL of the server, without `/api/v1/query`, such as `http://prometheus.monitoring:9090`. Without a
    /// scheme it means http. It must not contain a user, a password, `?` or `#`.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 2048)))]
    pub url: String,
    /// The name of a Secret in the same namespace with credentials: `token`, or `username` and `password`. It is read
    /// before each query. If not set, the query is sent without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub secret_ref: Option<String>,
    /// Accepts any certificate of the server. Not allowed together with `caSecretRef`. Defaults to false.
    #[serde(default)]
    pub insecure_skip_verify: bool,
    /// The name of a Secret in the same namespace with `ca.crt`, the certificate authorities to trust. If not set,
    /// the well-known authorities are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub ca_secret_ref: Option<String>,
    /// The name of a Secret in the same namespace with `tls.crt` and `tls.key`, the client certificate that is
    /// presented to the server. If not set, none is presented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub client_cert_secret_ref: Option<String>,
    /// Additional headers of the request, such as the tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(length(max = 16)))]
    pub headers: Vec<Header>,
    /// The maximum number of seconds that one query may take, from connecting to the last byte. Defaults to 5.
    #[serde(default = "Query::default_timeout")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 60)))]
    pub timeout_seconds: i32,
}

/// A header that each request for the query has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::HEADER)))]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The name of the header. It must not be a header that the query sets itself, such as `Host`.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 128), regex(pattern = crds::TOKEN)))]
    pub name: String,
    /// The value of the header. Exactly one of `value` and `secretKeyRef` must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(max = 4096), regex(pattern = crds::HEADER_VALUE)))]
    pub value: Option<String>,
    /// The key of a Secret that contains the value of the header. Exactly one of `value` and `secretKeyRef` must be
    /// set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKey>,
}

/// A key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct SecretKey {
    /// The name of a Secret in the namespace of the PhasedRollout.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// The key in the Secret's data under which the value is.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub key: String,
}

impl Check {
    /// The name of the check in the field `check`, which has no name field.
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
    /// Whether gating is suspended, by either field.
    pub fn suspended(&self) -> bool {
        self.skip_check || self.standard_rolling_update
    }
}
