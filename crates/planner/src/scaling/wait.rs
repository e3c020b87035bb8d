//! What a policy waits for. A wait is data; its words are made here and nowhere else.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::disruption::{Denial, MAX_MEMBERS};
use crate::reason::{Budget, Reason, Refusal, Severity, sentence};

/// What a policy waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The spec has faults.
    Invalid { faults: String },
    /// The set does not exist.
    TargetMissing { set: Arc<str> },
    /// The set is being deleted.
    TargetDeleting { set: Arc<str> },
    /// An older policy scales the set.
    TargetClaimed { set: Arc<str>, other: Arc<str> },
    /// Another object controls the set, and its replicas.
    TargetControlled {
        set: Arc<str>,
        /// Kind and name of that object.
        by: Arc<str>,
    },
    /// The operator does not know the image of the init container of a lock.
    LockUnavailable,
    /// A ConfigMap with the name of the lock exists and is not ours.
    LockForeign { config_map: String },
    /// Somebody keeps removing the lock from the pod template.
    LockContested { manager: String, until: Timestamp },
    /// The lock is being added to the pod template of a set.
    AddingLock { set: Arc<str> },
    /// The lock may not be added or removed yet, because of others that are down.
    LockHeld { set: Arc<str>, reason: Reason },
    /// The lock is being removed from a set.
    RemovingLock {
        set: Arc<str>,
        /// The pods that still have it, in words.
        pods: String,
    },
    /// A pod has been created without the lock.
    PodNotLocked { pod: String },
    /// A write is refused.
    Refused(Refusal),
    /// Somebody keeps lowering the replicas.
    Contested { manager: String, held: u32, until: Timestamp },
    /// Somebody has lowered the replicas, and they are being restored.
    Restoring {
        /// Who has.
        by: String,
        /// The pods that are removed, in words.
        pods: String,
        held: u32,
    },
    /// The hook of a pod has not succeeded before its deadline, and is called on.
    DeadlineExceeded { pod: String, error: String },
    /// The same, and the pod stays.
    Aborted { pod: String, wanted: u32, replicas: u32 },
    /// The user has paused scaling.
    Paused,
    /// Nothing is known for certain.
    ViewUnconfirmed { why: Arc<str> },
    /// A call fails.
    HookFailing { pod: String, error: String, attempts: i32 },
    /// A call cannot be taken back.
    CancelFailing { pod: String, error: String, attempts: i32 },
    /// A pod cannot be called.
    PodNotRunning {
        pod: String,
        /// What it lacks, as the rest of a sentence about it.
        why: &'static str,
    },
    /// No pod may begin to leave because of others that are down.
    Held {
        /// The pod that is to leave.
        pod: String,
        reason: Reason,
    },
    /// The set's own controller has not observed its spec.
    NotObserved { set: Arc<str>, generation: i64 },
    /// Pods of the set are being replaced.
    RolloutUnderWay { set: Arc<str>, pod: String },
    /// A pod prepares for its removal.
    Draining {
        pod: String,
        /// What it reports.
        message: String,
    },
    /// A call is being taken back.
    Cancelling { pod: String },
    /// A pod is prepared, and is being removed.
    Removing { pod: String },
    /// A pod joins.
    Joining {
        pod: String,
        /// What it reports.
        message: String,
    },
    /// The replicas are being raised.
    ScalingUp { wanted: u32, replicas: u32 },
    /// Pods are not Ready.
    PodsNotReady {
        /// Which, in words.
        down: String,
    },
    /// It is being found out whether the claims of a set have their sizes.
    Judging { set: Arc<str> },
    /// A set cannot have a size.
    SizeRefused {
        set: Arc<str>,
        /// Why, as the rest of a sentence.
        why: String,
    },
    /// A set has more claims than are looked at.
    TooManyClaims { set: Arc<str>, count: usize, limit: usize },
    /// A claim cannot grow.
    ClaimFixed {
        claim: String,
        /// Its StorageClass, if it has one.
        class: Option<String>,
    },
    /// A claim has not grown, and will not.
    GrowthFailed {
        claim: String,
        /// What is reported about it.
        why: String,
    },
    /// Claims have no volume that could grow.
    ClaimUnbound {
        /// Which, in words.
        claims: String,
    },
    /// Claims grow.
    Growing {
        /// Which, in words.
        claims: String,
        /// What is reported about one of them.
        why: String,
    },
    /// A set is not created again now.
    RemedyHeld {
        set: Arc<str>,
        /// Because of what, as a clause.
        by: String,
    },
    /// A set must not be created again.
    NotReplaceable {
        set: Arc<str>,
        /// Why, as the rest of a sentence about it.
        why: String,
    },
    /// Somebody else has an object of the name of the record.
    RecordTaken { record: String },
    /// The record of a deleted set is gone.
    RecordLost { set: Arc<str>, record: String },
    /// A set is about to be deleted and created again.
    Recreating { set: Arc<str> },
    /// A set is deleted, and Kubernetes releases its pods.
    Orphaning { set: Arc<str> },
    /// A set that was created again has not adopted all of its pods.
    Adopting { set: Arc<str> },
    /// The policy is being deleted.
    Deleting,
}

impl Wait {
    /// One word for it, as the reason of a condition and of an event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "InvalidSpec",
            Self::TargetMissing { .. } => "TargetMissing",
            Self::TargetDeleting { .. } => "TargetDeleting",
            Self::TargetClaimed { .. } => "TargetClaimed",
            Self::TargetControlled { .. } => "TargetControlled",
            Self::LockUnavailable => "LockUnavailable",
            Self::LockForeign { .. } => "LockForeign",
            Self::LockContested { .. } => "LockContested",
            Self::AddingLock { .. } => "AddingLock",
            Self::RemovingLock { .. } => "RemovingLock",
            Self::PodNotLocked { .. } => "PodNotLocked",
            Self::Refused(_) => Reason::WRITE_REFUSED,
            Self::Contested { .. } => "ReplicasContested",
            Self::Restoring { .. } => "RestoringReplicas",
            Self::DeadlineExceeded { .. } => "DeadlineExceeded",
            Self::Aborted { .. } => "Aborted",
            Self::Paused => "Paused",
            Self::ViewUnconfirmed { .. } => "ViewUnconfirmed",
            Self::HookFailing { .. } => "HookFailing",
            Self::CancelFailing { .. } => "CancelFailing",
            Self::PodNotRunning { .. } => "PodNotRunning",
            Self::Held { reason, .. } | Self::LockHeld { reason, .. } => reason.kind(),
            Self::NotObserved { .. } => "NotObserved",
            Self::RolloutUnderWay { .. } => "RolloutUnderWay",
            Self::Draining { .. } => "Draining",
            Self::Cancelling { .. } => "Cancelling",
            Self::Removing { .. } => "Removing",
            Self::Joining { .. } => "Joining",
            Self::ScalingUp { .. } => "ScalingUp",
            Self::PodsNotReady { .. } => "PodsNotReady",
            Self::Judging { .. } => "ComparingSizes",
            Self::SizeRefused { .. } => "SizeRefused",
            Self::TooManyClaims { .. } => "TooManyClaims",
            Self::ClaimFixed { .. } => "ClaimCannotGrow",
            Self::GrowthFailed { .. } => "GrowthFailed",
            Self::ClaimUnbound { .. } => "ClaimUnbound",
            Self::Growing { .. } => "GrowingClaims",
            Self::RemedyHeld { .. } => "RemedyHeld",
            Self::NotReplaceable { .. } => "NotReplaceable",
            Self::RecordTaken { .. } => "RecordTaken",
            Self::RecordLost { .. } => "RecordLost",
            Self::Recreating { .. } | Self::Orphaning { .. } | Self::Adopting { .. } => "Recreating",
            Self::Deleting => "Deleting",
        }
    }

    /// Whether nothing happens until a person acts.
    pub fn is_stalled(&self) -> bool {
        matches!(
            self,
            Self::Invalid { .. }
                | Self::TargetClaimed { .. }
                | Self::TargetControlled { .. }
                | Self::LockUnavailable
                | Self::LockForeign { .. }
                | Self::LockContested { .. }
                | Self::Refused(_)
                | Self::Contested { .. }
                | Self::DeadlineExceeded { .. }
                | Self::Aborted { .. }
                | Self::SizeRefused { .. }
                | Self::TooManyClaims { .. }
                | Self::ClaimFixed { .. }
                | Self::GrowthFailed { .. }
                | Self::NotReplaceable { .. }
                | Self::RecordTaken { .. }
                | Self::RecordLost { .. }
        )
    }

    /// Whether it is reported by an event.
    pub fn is_announced(&self) -> bool {
        self.is_stalled()
            || matches!(
                self,
                Self::Paused
                    | Self::ViewUnconfirmed { .. }
                    | Self::HookFailing { .. }
                    | Self::CancelFailing { .. }
                    | Self::PodNotRunning { .. }
                    | Self::Held { .. }
                    | Self::LockHeld { .. }
                    | Self::PodNotLocked { .. }
                    | Self::RolloutUnderWay { .. }
                    | Self::Draining { .. }
                    | Self::ClaimUnbound { .. }
                    | Self::Growing { .. }
                    | Self::RemedyHeld { .. }
            )
    }

    /// How urgent it is.
    pub fn severity(&self) -> Severity {
        match self {
            wait if wait.is_stalled() => Severity::Warning,
            Self::ViewUnconfirmed { .. } | Self::HookFailing { .. } | Self::CancelFailing { .. } => {
                Severity::Warning
            }
            _ => Severity::Normal,
        }
    }

    /// The order in which waits are reported: what a person must act on, then what comes first.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Restoring { .. } => 0,
            wait if wait.is_stalled() => 1,
            Self::Paused => 2,
            Self::ViewUnconfirmed { .. } => 3,
            Self::HookFailing { .. } | Self::CancelFailing { .. } | Self::PodNotRunning { .. } => 4,
            Self::Held { .. }
            | Self::LockHeld { .. }
            | Self::PodNotLocked { .. }
            | Self::NotObserved { .. }
            | Self::RolloutUnderWay { .. } => 6,
            Self::ScalingUp { .. } => 7,
            Self::PodsNotReady { .. } | Self::Deleting => 8,
            _ => 5,
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { faults } => write!(f, "The spec is invalid: {faults}."),
            Self::TargetMissing { set } => write!(f, "StatefulSet {set} does not exist."),
            Self::TargetDeleting { set } => write!(f, "StatefulSet {set} is being deleted."),
            Self::TargetClaimed { set, other } => write!(
                f,
                "StatefulSet {set} is scaled by the ScalingPolicy {other}, which is older. Delete one of the two."
            ),
            Self::TargetControlled { set, by } => {
                write!(
                    f,
                    "StatefulSet {set} is controlled by {by}, which scales it. Scale that object instead."
                )
            }
            Self::LockUnavailable => f.write_str(
                "fence: Lock needs the image of sts-plus, which this operator does not know. Set --lock-image, or STS_PLUS_IMAGE.",
            ),
            Self::LockForeign { config_map } => write!(
                f,
                "ConfigMap {config_map} exists and does not belong to this ScalingPolicy, so that it cannot be the lock. Delete it."
            ),
            Self::LockContested { manager, until } => write!(
                f,
                "{manager} keeps removing the lock from the pod template. It is restored again at {until}."
            ),
            Self::AddingLock { set } => {
                write!(f, "The lock is being added to the pod template of {set}, which replaces each pod once.")
            }
            Self::LockHeld { set, reason } => write!(f, "The pod template of {set} is not changed yet. {reason}"),
            Self::RemovingLock { set, pods } if pods.is_empty() => {
                write!(f, "The lock of {set} is being removed.")
            }
            Self::RemovingLock { set, pods } => {
                write!(f, "The lock of {set} is being removed. Waiting until these pods are replaced: {pods}.")
            }
            Self::PodNotLocked { pod } => write!(
                f,
                "{pod} was created without the lock. It leaves when a rollout has replaced it."
            ),
            Self::Refused(refusal) => f.write_str(&sentence(format!("Blocked: {refusal}"))),
            Self::Contested { manager, held, until } => {
                write!(f, "{manager} keeps lowering replicas. They are restored to {held} again at {until}.")
            }
            Self::Restoring { by, pods, held } => {
                write!(f, "{by} has lowered replicas, which removes {pods}. They are restored to {held}.")
            }
            Self::DeadlineExceeded { pod, error } if error.is_empty() => write!(
                f,
                "The hook of {pod} has not succeeded before its deadline. The pod stays, and the calls are repeated."
            ),
            Self::DeadlineExceeded { pod, error } => write!(
                f,
                "The hook of {pod} has not succeeded before its deadline: {} The pod stays, and the calls are repeated.",
                sentence(error.clone())
            ),
            Self::Aborted { pod, wanted, replicas } => write!(
                f,
                "{replicas} replicas instead of {wanted}: the hook of {pod} has not succeeded before its deadline. Change spec.replicas or the hook to try again."
            ),
            Self::Paused => f.write_str("Paused by spec.paused."),
            Self::ViewUnconfirmed { why } => {
                write!(f, "No pod is removed: the state of the cluster cannot be confirmed ({why}).")
            }
            Self::HookFailing { pod, error, attempts } => {
                write!(f, "The call of {pod} has failed {}: {}", times(*attempts), sentence(error.clone()))
            }
            Self::CancelFailing { pod, error, attempts } => write!(
                f,
                "The call of {pod} cannot be taken back; that has failed {}: {}",
                times(*attempts),
                sentence(error.clone())
            ),
            Self::PodNotRunning { pod, why } => {
                write!(f, "{pod} {why}, so that it cannot be called. It is called when it runs.")
            }
            Self::Held { pod, reason } => write!(f, "{pod} does not leave yet. {reason}"),
            Self::NotObserved { set, generation } => write!(
                f,
                "Waiting for the StatefulSet controller to report observedGeneration {generation} for {set}."
            ),
            Self::RolloutUnderWay { set, pod } => write!(
                f,
                "Waiting for the rollout of {set}: {pod} is outdated. Pods leave when every pod has its revision."
            ),
            Self::Draining { pod, message } => draining(f, pod, "drains", message),
            Self::Cancelling { pod } => write!(f, "{pod} is wanted again, and its call is being taken back."),
            Self::Removing { pod } => write!(f, "{pod} is drained and is being removed."),
            Self::Joining { pod, message } => draining(f, pod, "joins", message),
            Self::ScalingUp { wanted, replicas } => {
                write!(f, "Scaling from {replicas} to {wanted} replicas.")
            }
            Self::PodsNotReady { down } => write!(f, "Not all pods are Ready: {down}."),
            Self::Deleting => f.write_str("The ScalingPolicy is being deleted."),
            remedy => remedy.write_remedy(f),
        }
    }
}

impl Wait {
    /// The words of those that are about sizes of claims.
    fn write_remedy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Judging { set } => write!(f, "The claims of {set} are compared with volumeClaims."),
            Self::SizeRefused { set, why } => {
                f.write_str(&sentence(format!("volumeClaims cannot be applied to StatefulSet {set}: {why}")))
            }
            Self::TooManyClaims { set, count, limit } => write!(
                f,
                "StatefulSet {set} has {count} claims that volumeClaims is about, and at most {limit} are looked at."
            ),
            Self::ClaimFixed { claim, class: Some(class) } => write!(
                f,
                "{claim} cannot grow: its StorageClass {class} does not have allowVolumeExpansion. Set it, or move the data to volumes of another class."
            ),
            Self::ClaimFixed { claim, class: None } => write!(
                f,
                "{claim} cannot grow: it has no StorageClass. Its volume was made by hand, and only whoever did so can replace it."
            ),
            Self::GrowthFailed { claim, why } => {
                f.write_str(&sentence(format!("{claim} has not grown, and is not tried again: {why}")))
            }
            Self::ClaimUnbound { claims } => {
                write!(f, "Waiting for these claims to be bound, since only then they can grow: {claims}.")
            }
            Self::Growing { claims, why } if why.is_empty() => {
                write!(f, "Waiting for these claims to have their new size: {claims}.")
            }
            Self::Growing { claims, why } => f.write_str(&sentence(format!(
                "Waiting for these claims to have their new size: {claims} ({why})"
            ))),
            Self::RemedyHeld { set, by } => {
                write!(f, "StatefulSet {set} is created again once nothing else happens to it: {by}.")
            }
            Self::NotReplaceable { set, why } => {
                f.write_str(&sentence(format!("StatefulSet {set} cannot be created again: it {why}")))
            }
            Self::RecordTaken { record } => write!(
                f,
                "ControllerRevision {record} exists and does not belong to this ScalingPolicy, and so do others. Delete it."
            ),
            Self::RecordLost { set, record } => write!(
                f,
                "StatefulSet {set} was deleted without its pods, and ControllerRevision {record} that it would be created from is gone. Create the StatefulSet: it adopts its pods."
            ),
            Self::Recreating { set } => {
                write!(f, "StatefulSet {set} is deleted without its pods and created again.")
            }
            Self::Orphaning { set } => {
                write!(
                    f,
                    "Waiting for Kubernetes to release the pods of StatefulSet {set} before it is created again."
                )
            }
            Self::Adopting { set } => {
                write!(f, "Waiting for StatefulSet {set}, which was created again, to adopt its pods.")
            }
            _ => Ok(()),
        }
    }
}

fn draining(f: &mut fmt::Formatter<'_>, pod: &str, verb: &str, message: &str) -> fmt::Result {
    if message.is_empty() {
        return write!(f, "{pod} {verb}.");
    }
    f.write_str(&sentence(format!("{pod} {verb}: {message}")))
}

fn times(attempts: i32) -> String {
    if attempts == 1 { "once".to_owned() } else { format!("{attempts} times in succession") }
}

/// What a denial of the gatekeeper is for a pod that is to leave.
pub(super) fn denied_for(denial: &Denial) -> Reason {
    match denial {
        Denial::TooManySets { sets, .. } => Reason::TooManySets { sets: *sets, limit: MAX_MEMBERS },
        Denial::OtherSetNotReady { health, .. } => Reason::other_set_not_ready(health),
        Denial::OtherSetDisturbed { set, disturbance } => {
            Reason::OtherSetDisturbed { set: Arc::clone(&set.name), disturbance: disturbance.clone() }
        }
        Denial::OtherSetPermitted { set, .. } => Reason::WaitingForTurn { set: Arc::clone(&set.name) },
        Denial::BudgetSpent { health, max_unavailable, .. } => {
            Reason::BudgetSpent { down: health.summary(), budget: Budget::MaxConcurrent(*max_unavailable) }
        }
        Denial::Leaving { pod, .. } => Reason::PodLeaving { pod: pod.clone() },
        Denial::NotInDomain { set } => Reason::NotInDomain { set: Arc::clone(&set.name) },
    }
}
