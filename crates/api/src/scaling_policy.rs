//! `ScalingPolicy`: the one writer of `replicas` of a StatefulSet, which prepares a pod before it is removed.
//!
//! The doc comments are the descriptions that `kubectl explain` shows. It shows those of fields only, so a field describes the
//! values of its enum. Every default is defined here and nowhere else. The status is also the controller's only memory: after a
//! restart it resumes from the status.

mod status;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "crd")]
use crate::crds;
use crate::extended::{IntOrString, Scheme};
use crate::phased_rollout::{Header, SecretKey};

pub use status::{ClaimName, LockStatus, PodRecord, RecordPhase, Removal, ScalingPolicyStatus};

/// The desired behaviour of the ScalingPolicy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource, schemars::JsonSchema),
    kube(
        group = "sts.plus",
        version = "v1alpha1",
        kind = "ScalingPolicy",
        plural = "scalingpolicies",
        namespaced,
        status = "ScalingPolicyStatus",
        shortname = "scp",
        category = "all",
        category = "sts-plus",
        derive = "PartialEq",
        doc = "A ScalingPolicy scales a StatefulSet and prepares each pod before it is removed, by a call of its application.",
        scale(
            spec_replicas_path = ".spec.replicas",
            status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"
        ),
        printcolumn = r#"{"name": "target", "type": "string", "jsonPath": ".spec.targetRef.name"}"#,
        printcolumn = r#"{"name": "desired", "type": "integer", "jsonPath": ".status.desiredReplicas"}"#,
        printcolumn = r#"{"name": "replicas", "type": "integer", "jsonPath": ".status.replicas"}"#,
        printcolumn = r#"{"name": "ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
        printcolumn = r#"{"name": "leaving", "type": "string", "jsonPath": ".status.leaving[*].podName"}"#,
        printcolumn = r#"{"name": "state", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#,
        printcolumn = r#"{"name": "age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicySpec {
    /// The StatefulSet to scale, in the same namespace. It cannot be changed. A StatefulSet has one ScalingPolicy: of
    /// several, the oldest scales it.
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-validations" = crds::TARGET)))]
    pub target_ref: TargetRef,
    /// The desired number of pods. If not set, sts-plus sets it to the number that the StatefulSet has, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub replicas: Option<i32>,
    /// Pauses scaling: no pod begins to leave, no hook is called and the number of replicas is not changed. A number that
    /// somebody else has lowered is restored nevertheless. Defaults to false.
    #[serde(default)]
    pub paused: bool,
    /// How pods are removed.
    #[serde(default)]
    pub scale_down: ScaleDown,
    /// How pods are added.
    #[serde(default)]
    pub scale_up: ScaleUp,
    /// The sizes of the claims of the StatefulSet, by the names of its `volumeClaimTemplates`. Claims that are smaller are
    /// grown in place, if their StorageClass allows it. Then the StatefulSet, whose `volumeClaimTemplates` cannot be changed,
    /// is deleted without its pods and created again with the new sizes; it adopts the pods, which are not restarted. A size
    /// can only grow. Claims that are not listed are left alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])))]
    pub volume_claims: Vec<VolumeClaim>,
    /// What happens when this object is deleted. `Release`: the StatefulSet keeps its number of replicas. `Drain`: all pods
    /// are removed in order, with their hooks, before this object is gone. Defaults to `Release`.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

/// The object to scale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// The API version of the object: `apps/v1`. Defaults to `apps/v1`.
    #[serde(default = "TargetRef::default_api_version")]
    #[cfg_attr(feature = "crd", schemars(extend("enum" = [TargetRef::API_VERSION])))]
    pub api_version: String,
    /// The kind of the object: `StatefulSet`. Defaults to `StatefulSet`.
    #[serde(default = "TargetRef::default_kind")]
    #[cfg_attr(feature = "crd", schemars(extend("enum" = [TargetRef::KIND])))]
    pub kind: String,
    /// The name of the object.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub name: String,
}

/// The size of the claims of one of the `volumeClaimTemplates` of the StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaim {
    /// The name of the volumeClaimTemplate.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// The size as a quantity, such as `20Gi`.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 32), regex(pattern = crds::QUANTITY)))]
    pub storage: String,
}

/// How pods are removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::SCALE_DOWN)))]
#[serde(rename_all = "camelCase")]
pub struct ScaleDown {
    /// The maximum number of pods that leave at the same time. If it is greater than 1, the number of replicas is lowered
    /// once, past all of them. Defaults to 1.
    #[serde(default = "ScaleDown::default_max_concurrent")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 100)))]
    pub max_concurrent: i32,
    /// What keeps a pod that is prepared for its removal from coming back to life before it is removed. `None`: nothing.
    /// `Lock`: an init container of the pod waits until a ConfigMap allows the ordinal of the pod to run. The init container
    /// is added to the pod template of the StatefulSet, and removed when this is set to `None` or the ScalingPolicy is
    /// deleted; each of the two rolls the pods once. Defaults to `None`.
    #[serde(default)]
    pub fence: Fence,
    /// What happens to the claims of a pod that was removed. `Retain`: sts-plus does not delete them;
    /// `persistentVolumeClaimRetentionPolicy` of the StatefulSet decides. `DeleteAfterDrain`: they are deleted once the pod is
    /// gone, if its hook has succeeded. It needs a hook. Defaults to `Retain`.
    #[serde(default)]
    pub claims: Claims,
    /// The call that prepares a pod for its removal. It must be idempotent: it is repeated when the pod or one of its
    /// containers has been restarted. If not set, pods are removed without a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<Hook>,
}

/// What keeps a pod that is prepared for its removal from coming back to life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Fence {
    /// Nothing.
    #[default]
    None,
    /// An init container that waits until a ConfigMap allows the ordinal of the pod to run.
    Lock,
}

/// What happens to the claims of a pod that was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Claims {
    /// sts-plus does not delete them.
    #[default]
    Retain,
    /// They are deleted once the pod is gone, if its hook has succeeded.
    DeleteAfterDrain,
}

/// How pods are added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::SCALE_UP)))]
#[serde(rename_all = "camelCase")]
pub struct ScaleUp {
    /// The call for a new pod once it is Ready. Pods are then added one at a time, and a pod does not count in
    /// `status.readyReplicas` before its call has succeeded. If not set, all pods are added at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<Hook>,
}

/// A call of the application in a pod. Exactly one of `http` and `named` must be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::HOOK)))]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// An HTTP request to the pod. Exactly one of `http` and `named` must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpHook>,
    /// The name of an implementation that was built into the operator. Exactly one of `http` and `named` must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 63), regex(pattern = crds::LABEL)))]
    pub named: Option<String>,
    /// Whether the call makes a container of the pod exit. The first exit after the call was accepted is then its success.
    /// Only in `scaleDown`, and only with `fence: Lock`. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expect_exit: bool,
    /// The maximum number of seconds that one call may take. Defaults to 10.
    #[serde(default = "Hook::default_timeout")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 60)))]
    pub timeout_seconds: i32,
    /// The number of seconds after which `onFailure` applies, counted from the moment at which the pod began to leave or to
    /// join. Defaults to 4800.
    #[serde(default = "Hook::default_deadline")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
    pub deadline_seconds: i32,
    /// What to do when the hook has not succeeded before the deadline. `Block`: it is reported and the calls are repeated;
    /// the pod stays. `Force`: the pod is removed, or counted, without it. `Abort`: the call is cancelled and the pod stays
    /// until `spec.replicas` or the hook is changed. Defaults to `Block`.
    #[serde(default)]
    pub on_failure: OnFailure,
}

/// What to do when a hook has not succeeded before its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum OnFailure {
    /// It is reported and the calls are repeated.
    #[default]
    Block,
    /// The pod is removed, or counted, without it.
    Force,
    /// The call is cancelled and the pod stays.
    Abort,
}

/// An HTTP request to a pod. It is sent to the pod's own address. Redirects are not followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = crds::HTTP_HOOK)))]
#[serde(rename_all = "camelCase")]
pub struct HttpHook {
    /// The method of the request: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`. Defaults to `POST`.
    #[serde(default = "HttpHook::default_method")]
    #[cfg_attr(feature = "crd", schemars(extend("enum" = HttpHook::METHODS)))]
    pub method: String,
    /// The path of the request, which begins with a slash and may have a query.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 2048), regex(pattern = crds::PATH)))]
    pub path: String,
    /// The number or the name of a port of a container.
    #[cfg_attr(feature = "crd", schemars(schema_with = "crds::int_or_string"))]
    pub port: IntOrString,
    /// `HTTP` or `HTTPS`. With `HTTPS` the certificate of the pod is verified only if `tls.caSecretKeyRef` is set. Defaults
    /// to `HTTP`.
    #[serde(default)]
    pub scheme: Scheme,
    /// Additional headers of each request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(length(max = 16)))]
    pub headers: Vec<Header>,
    /// The credentials in the header `Authorization`. If not set, none are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization: Option<Authorization>,
    /// How the certificate of the pod is verified. Only with the scheme `HTTPS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The status codes with which the request has succeeded. Defaults to 200, 202 and 204.
    #[serde(default = "HttpHook::default_success_codes")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 32), inner(range(min = 100, max = 599)), extend("x-kubernetes-list-type" = "set")))]
    pub success_codes: Vec<i32>,
    /// A request that is repeated after `path` has succeeded, until it shows that the pod is done. If not set, the pod is
    /// done as soon as `path` has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusCall>,
    /// The request that takes the call back, when a pod that is leaving is to stay. If not set, none is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelCall>,
}

/// The credentials of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// The scheme of the credentials, which precedes them in the header. Defaults to `Bearer`.
    #[serde(rename = "type", default = "Authorization::default_kind")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 63), regex(pattern = crds::TOKEN)))]
    pub kind: String,
    /// The key of a Secret that contains the credentials.
    pub secret_key_ref: SecretKey,
}

/// How the certificate of a pod is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// The key of a Secret that contains the certificate authorities to trust. If not set, any certificate is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_key_ref: Option<SecretKey>,
    /// The name that the certificate must be valid for. Defaults to the address of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub server_name: Option<String>,
}

/// A GET request that shows whether a pod is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StatusCall {
    /// The path of the request, which begins with a slash and may have a query.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 2048), regex(pattern = crds::PATH)))]
    pub path: String,
    /// The status codes with which the pod is done. Defaults to 200.
    #[serde(default = "StatusCall::default_codes")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 32), inner(range(min = 100, max = 599)), extend("x-kubernetes-list-type" = "set")))]
    pub codes: Vec<i32>,
    /// A JSON pointer (RFC 6901) into the body of the answer, such as `/state`. The pod is done if the value there is
    /// `equals`. If not set, the status code alone decides. `jsonPointer` and `equals` must be set together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(max = 1024), regex(pattern = crds::JSON_POINTER)))]
    pub json_pointer: Option<String>,
    /// The value, of any type, that `jsonPointer` must point to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(schema_with = "crds::any_value"))]
    pub equals: Option<Value>,
}

/// A request that takes a call back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelCall {
    /// The method of the request: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`. Defaults to `DELETE`.
    #[serde(default = "CancelCall::default_method")]
    #[cfg_attr(feature = "crd", schemars(extend("enum" = HttpHook::METHODS)))]
    pub method: String,
    /// The path of the request, which begins with a slash and may have a query.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 2048), regex(pattern = crds::PATH)))]
    pub path: String,
}

/// What happens when a ScalingPolicy is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum DeletionPolicy {
    /// The StatefulSet keeps its number of replicas.
    #[default]
    Release,
    /// All pods are removed in order before the object is gone.
    Drain,
}

impl TargetRef {
    /// The only API version of a target.
    pub const API_VERSION: &'static str = "apps/v1";
    /// The only kind of a target.
    pub const KIND: &'static str = "StatefulSet";

    fn default_api_version() -> String {
        Self::API_VERSION.to_owned()
    }

    fn default_kind() -> String {
        Self::KIND.to_owned()
    }
}

impl ScaleDown {
    /// The greatest value of `maxConcurrent`.
    pub const MAX_CONCURRENT: i32 = 100;

    fn default_max_concurrent() -> i32 {
        1
    }
}

impl Default for ScaleDown {
    fn default() -> Self {
        Self {
            max_concurrent: Self::default_max_concurrent(),
            fence: Fence::None,
            claims: Claims::Retain,
            hook: None,
        }
    }
}

impl Hook {
    /// The greatest value of `timeoutSeconds`.
    pub const MAX_TIMEOUT_SECONDS: i32 = 60;

    fn default_timeout() -> i32 {
        10
    }

    fn default_deadline() -> i32 {
        4800
    }
}

impl HttpHook {
    /// The methods that a request may have.
    pub const METHODS: [&'static str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

    fn default_method() -> String {
        "POST".to_owned()
    }

    fn default_success_codes() -> Vec<i32> {
        vec![200, 202, 204]
    }
}

impl Authorization {
    fn default_kind() -> String {
        "Bearer".to_owned()
    }
}

impl StatusCall {
    fn default_codes() -> Vec<i32> {
        vec![200]
    }
}

impl CancelCall {
    fn default_method() -> String {
        "DELETE".to_owned()
    }
}
