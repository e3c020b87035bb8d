//! The status of a ScalingPolicy, which is also the controller's only memory.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::conditions::Condition;
use crate::phased_rollout::{Contest, Target};
use crate::remedy::RemedyStatus;

/// The observed state of the ScalingPolicy. Written by sts-plus, which also resumes from it after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingPolicyStatus {
    /// The generation of this object that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of replicas of the StatefulSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// The number of Ready pods, without those that leave and those whose hook of `scaleUp` has not succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<u32>,
    /// The number of pods that is aimed at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<u32>,
    /// A selector of the pods that `replicas` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The StatefulSet that is scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The number of replicas that sts-plus has written last, or has found and accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_replicas: Option<u32>,
    /// The pods that leave, one record for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["ordinal"])))]
    pub leaving: Vec<PodRecord>,
    /// The pods that join, one record for each. Only with a hook in `scaleUp`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["ordinal"])))]
    pub joining: Vec<PodRecord>,
    /// The last pods that somebody has removed, or would have removed, without their hook, by lowering the number of replicas
    /// of the StatefulSet. At most 20, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed_without_drain: Vec<Removal>,
    /// The lock of the StatefulSet. Absent without `fence: Lock`, once the lock has been removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockStatus>,
    /// The value of `persistentVolumeClaimRetentionPolicy.whenScaled` that the StatefulSet gets back when pods that are removed
    /// without their hook are gone: meanwhile it is `Retain`, so that their claims are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_retention: Option<String>,
    /// What is done about sizes of claims that the StatefulSet does not have. Absent without `volumeClaims`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<RemedyStatus>,
    /// The last foreign writes that lowered the number of replicas. Absent if there were none in the last ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contest: Option<Contest>,
    /// The conditions `Ready`, `Reconciling` and `Stalled`, and `Conflict` where it applies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
}

/// The lock of a StatefulSet: a ConfigMap with a key for each ordinal that may run, and an init container that waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct LockStatus {
    /// The name of the ConfigMap.
    pub config_map: String,
    /// The generation of the StatefulSet at which its pod template was found as it should be: with the lock, or without it
    /// while it is being removed. Absent before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_generation: Option<i64>,
    /// Whether the lock is being removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,
    /// The last foreign writes that removed the lock from the pod template. Absent if there were none in the last ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contest: Option<Contest>,
}

/// A claim, as it was when its pod was drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct ClaimName {
    /// The name of the claim.
    pub name: String,
    /// The UID of the claim.
    pub uid: String,
}

/// A pod that leaves or joins, and how far its hook is. What it says holds for the pod with this UID and these restarts: if
/// either has changed, the record starts anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodRecord {
    /// The ordinal of the pod.
    pub ordinal: u32,
    /// The name of the pod.
    #[serde(default)]
    pub pod_name: String,
    /// The UID of the pod. Empty until the pod exists.
    #[serde(default, rename = "podUID", skip_serializing_if = "String::is_empty")]
    pub pod_uid: String,
    /// The number of restarts of each container of the pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub container_restarts: BTreeMap<String, i32>,
    /// A hash of what is called. If that is changed before the pod is done, the record starts anew.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hook_hash: String,
    /// How far the pod is. `Requested`: the hook has not been accepted. `Draining`: the pod has accepted the call and is not
    /// done. `Drained`: the hook has succeeded, or there is none; a pod that leaves may be removed. `Cancelling`: the call is
    /// being taken back. `Failed`: the hook has not succeeded before its deadline and the call was taken back; the pod stays
    /// until `spec.replicas` or the hook is changed.
    pub phase: RecordPhase,
    /// The number of failed calls in succession.
    #[serde(default)]
    pub attempts: i32,
    /// What the application has last reported of its progress.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Why the last call failed. Empty after a call succeeded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// The time at which the pod began to leave or to join, or at which its call began to be taken back. The deadline of the
    /// hook counts from here.
    pub start_time: Timestamp,
    /// Whether the hook has not succeeded before its deadline, so that `onFailure` applies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deadline_exceeded: bool,
    /// The time at which the hook was accepted. Only with `expectExit`, where an exit counts if no container runs on that was
    /// started before this second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_time: Option<Timestamp>,
    /// The time at which the hook of a pod that leaves was found to have succeeded. Absent for a pod that is removed without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_time: Option<Timestamp>,
    /// The claims that are deleted once the pod is gone. Only with `claims: DeleteAfterDrain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Vec<ClaimName>>,
    /// The time of the last answer to a call that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt_time: Option<Timestamp>,
}

/// How far a pod is that leaves or joins.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum RecordPhase {
    /// The hook has not been accepted.
    Requested,
    /// The pod has accepted the call and is not done.
    Draining,
    /// The hook has succeeded, or there is none.
    Drained,
    /// The call is being taken back.
    Cancelling,
    /// The hook has not succeeded before its deadline.
    Failed,
}

impl RecordPhase {
    /// The spelling in the API.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A pod that somebody has removed, or would have removed, without its hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct Removal {
    /// The ordinal of the pod.
    pub ordinal: u32,
    /// The time at which it was found.
    pub time: Timestamp,
    /// The field manager that has lowered the number of replicas.
    pub by: String,
}
