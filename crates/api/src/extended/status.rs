//! The status of an ExtendedStatefulSet, which is also the controller's only memory.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::scaling_policy::PodRecord;

/// The observed state of the ExtendedStatefulSet. Written by sts-plus, which also resumes from it after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedStatus {
    /// The generation of this object that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of pods of the first zone, in the unit of `spec.template.spec.replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// A selector of the pods that `replicas` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The number of replicas per zone after the restrictions of `spec.scaling`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<u32>,
    /// The number of Ready pods in all zones and versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<u32>,
    /// The version that is promoted in every zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<u32>,
    /// The version of the present template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_version: Option<u32>,
    /// The highest number that a version has had. Numbers are not used twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_version: Option<u32>,
    /// The hash of the content of `updateVersion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_hash: Option<String>,
    /// The zones and their indexes, which never change. A zone that was removed keeps its index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneStatus>,
    /// Every version that has a StatefulSet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionStatus>,
    /// The pod that has the label `<group>/pod-designation: active`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_pod: Option<ActivePod>,
    /// The pods that leave, with the progress of their hooks, as the ScalingPolicies of the StatefulSets report them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<PodRecord>,
    /// How long the present version has been rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The version that has failed. It is retried when the value of `awaitedApproval` is approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_version: Option<FailedVersion>,
    /// The value of the annotation `sts.plus/approve` that would promote the version that waits for it, or retry the one that
    /// has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaited_approval: Option<String>,
    /// The conditions `Ready`, `Reconciling` and `Stalled`, and `ReplicasRestricted`, `NoActivePod` and `Warning` where they
    /// apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
}

/// A zone of the present or an earlier spec, and its index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneStatus {
    /// The name of the zone, as in `spec.zones`.
    pub name: String,
    /// The index of the zone, which never changes.
    pub index: u32,
    /// The common part of the names of the zone's claims.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claim_prefix: String,
}

/// A version that has a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct VersionStatus {
    /// The number of the version. With BlueGreen the names of its StatefulSets end in it.
    pub number: u32,
    /// The hash of what makes it a version of its own: the template without its replicas and, with
    /// `updateOnConfigChange`, the data that the template refers to.
    pub hash: String,
    /// Whether at least one of its pods is Ready.
    pub running: bool,
    /// The StatefulSets of the version, one for each zone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ChildStatus>,
}

/// A StatefulSet of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ChildStatus {
    /// The index of the zone; 0 without zones.
    pub index: u32,
    /// The name of the StatefulSet.
    pub stateful_set: String,
    /// Its UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The generation at which it was as sts-plus had written it. At any other one it is compared with what it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_generation: Option<i64>,
    /// The ordinals of its pods, such as `0-2`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ordinals: String,
    /// How many of its pods are Ready.
    pub ready_replicas: u32,
    /// Whether it is the promoted one of its zone. Only with BlueGreen.
    #[serde(skip_serializing_if = "is_false")]
    pub promoted: bool,
    /// Whether all of its pods leave, with their hooks, before it is removed.
    #[serde(skip_serializing_if = "is_false")]
    pub retiring: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(truth: &bool) -> bool {
    !*truth
}

/// The pod that has the label `<group>/pod-designation: active`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivePod {
    /// The name of the active pod.
    pub name: String,
    /// The UID of the active pod. A pod that was deleted and created again has another UID.
    pub uid: String,
    /// The time at which the pod became the active one.
    pub since: Timestamp,
}

/// How long a version has been rolled out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// The `hash` of the version that is being rolled out.
    pub hash: String,
    /// For how many seconds it could have progressed.
    pub elapsed_seconds: i64,
    /// How often a version with this content was retried after it had failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A version that has failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct FailedVersion {
    /// The number of the version that failed.
    pub number: u32,
    /// The `hash` of the version that failed. A template with another hash is rolled out.
    pub hash: String,
    /// A human-readable explanation of the failure.
    pub message: String,
}
