//! What an object waits for. A wait is data; its words are made here and nowhere else.

use std::fmt;
use std::sync::Arc;

use sts_plus_api::kinds::Kind;

use super::content::name_of;
use super::spec::{Claims, Fault};
use crate::reason::{Refusal, Severity, sentence};

/// What an object waits for. The names of the variants, unless another is given, are part of conditions and events.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[cfg_attr(test, derive(strum::VariantNames))]
pub enum Wait {
    /// The spec is invalid.
    Invalid(Fault),
    /// The object is being deleted.
    Deleting,
    /// A set of somebody else has a name that is needed.
    NameTaken { set: String },
    /// The data of an object is being read.
    ConfigPending {
        /// The object.
        of: (Kind, Arc<str>),
    },
    /// An object that the template refers to does not exist.
    ConfigMissing {
        /// The object.
        of: (Kind, Arc<str>),
    },
    /// An object that the template refers to cannot be read.
    ConfigUnreadable {
        /// The object.
        of: (Kind, Arc<str>),
        why: Arc<str>,
    },
    /// Data has just changed and may change again.
    ConfigSettling,
    /// Versions are paused and the template has changed.
    Paused {
        /// The version that would be made or promoted.
        version: u32,
    },
    /// Fields have changed that a set cannot change.
    #[strum(serialize = "ImmutableField")]
    Immutable { set: Arc<str>, fields: Vec<&'static str> },
    /// A set is being changed.
    Changing { set: String },
    /// A set is being deleted and will be created again.
    Terminating { set: Arc<str> },
    /// The controller of a set has not observed its spec.
    Unobserved { set: Arc<str> },
    /// Pods of a set are being replaced, or not Ready.
    Rolling {
        set: Arc<str>,
        /// What is not Ready, in words; empty where pods are outdated.
        down: String,
        /// Whether pods are outdated. Otherwise those of the version start.
        outdated: bool,
        /// What is not Ready of another zone, which outdated pods wait for.
        elsewhere: Option<String>,
    },
    /// Every pod is Ready and as the partition of its set asks for.
    PartitionHeld {
        set: Arc<str>,
        /// The PhasedRollout that holds the partition, where one does.
        rollout: Option<Arc<str>>,
    },
    /// The rollout of a set of a group is paused.
    GroupPaused { set: Arc<str> },
    /// A version starts and is not promoted.
    #[strum(serialize = "VersionStarting")]
    Starting {
        version: u32,
        set: Arc<str>,
        /// How many of its pods are Ready for long enough.
        ready: u32,
        /// How many must be.
        needed: u32,
    },
    /// A version takes over ordinal by ordinal, and pods of it are not available yet.
    HandingOver {
        version: u32,
        /// Its ordinals; empty where it has none yet.
        ordinals: String,
        /// How many there are.
        wanted: u32,
        /// What is not available, in words.
        down: String,
    },
    /// The next ordinal is not handed over while other pods are not available.
    #[strum(serialize = "HandoverBlocked")]
    Blocked {
        version: u32,
        /// The pod that would be deleted.
        pod: String,
        /// What is not available, in words.
        down: String,
        max_unavailable: u32,
    },
    /// Pods that exist keep an ordinal from being taken.
    VolumeInUse { pods: Vec<Box<str>> },
    /// A claim of somebody else has a name that is needed.
    ClaimTaken { claim: Arc<str> },
    /// A claim is being deleted.
    ClaimTerminating { claim: Arc<str> },
    /// The volume of a claim is gone.
    ClaimLost { claim: Arc<str> },
    /// A claim is being created.
    ClaimPending {
        /// The ordinal that needs it.
        ordinal: u32,
    },
    /// The data of a set would not follow to the strategy that is asked for.
    ClaimsStayBehind {
        /// The set with claims of its own; `None` where the claims have stable names.
        set: Option<Arc<str>>,
    },
    /// The volume of a pod still has the placeholder that admission replaces.
    NotMutated { pod: Box<str> },
    /// A zone waits for another one.
    ZoneWaiting {
        /// The zone that waits.
        zone: Arc<str>,
        /// The set of the zone that it waits for.
        set: String,
    },
    /// A version could be promoted and waits for an approval.
    AwaitingApproval {
        version: u32,
        /// The value that approves.
        value: String,
    },
    /// Old versions are being removed.
    #[strum(serialize = "RemovingVersion")]
    Removing {
        /// The version that was promoted.
        version: u32,
        /// A set that is removed.
        set: Arc<str>,
    },
    /// A set of a zone or a strategy that is no longer asked for is removed last.
    Draining { set: Arc<str>, claims: Claims },
    /// A version has exceeded its deadline.
    #[strum(serialize = "ProgressDeadlineExceeded")]
    Failed {
        version: u32,
        /// What was the matter.
        message: String,
        /// Whether it was, or is being, removed.
        rolled_back: bool,
    },
    /// The ScalingPolicy of a set has not done yet what it is to do.
    Scaling {
        policy: Arc<str>,
        /// What it waits for.
        message: Box<str>,
    },
    /// It cannot do so until a person acts.
    ScalingBlocked {
        policy: Arc<str>,
        /// The reason of its condition `Ready`.
        reason: Box<str>,
        message: Box<str>,
    },
    /// The new version of a set waits until the pods that are no longer asked for have left.
    LeavingFirst {
        version: u32,
        /// What the ScalingPolicy of the set waits for.
        message: Box<str>,
    },
    /// A ScalingPolicy of somebody else has a name that is needed.
    PolicyTaken { policy: Arc<str> },
    /// The object is being deleted, and a set has pods that leave before.
    #[strum(serialize = "Deleting")]
    Emptying {
        set: Arc<str>,
        /// What its ScalingPolicy waits for.
        message: Box<str>,
    },
    /// The view is not confirmed.
    ViewUnconfirmed { why: Arc<str> },
    /// A write is refused.
    #[strum(serialize = "WriteRefused")]
    Refused(Refusal),
    /// Pods of the present version are not Ready.
    #[strum(serialize = "PodsNotReady")]
    NotReady {
        /// What is not Ready, in words.
        down: String,
    },
}

impl Wait {
    /// One word for it, as the reason of a condition and of an event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(fault) => fault.reason(),
            Self::Failed { rolled_back: true, .. } => "RolledBack",
            other => other.into(),
        }
    }

    /// Whether nothing happens until a person acts.
    pub fn is_stalled(&self) -> bool {
        matches!(
            self,
            Self::Invalid(_)
                | Self::NameTaken { .. }
                | Self::ConfigMissing { .. }
                | Self::ConfigUnreadable { .. }
                | Self::Immutable { .. }
                | Self::Failed { .. }
                | Self::ScalingBlocked { .. }
                | Self::PolicyTaken { .. }
                | Self::ClaimTaken { .. }
                | Self::ClaimLost { .. }
                | Self::ClaimsStayBehind { .. }
                | Self::Refused(_)
        )
    }

    /// Whether it is reported by an event.
    pub fn is_announced(&self) -> bool {
        self.is_stalled()
            || matches!(
                self,
                Self::AwaitingApproval { .. }
                    | Self::ViewUnconfirmed { .. }
                    | Self::Paused { .. }
                    | Self::Blocked { .. }
                    | Self::ClaimTerminating { .. }
                    | Self::NotMutated { .. }
            )
    }

    /// How urgent it is.
    pub fn severity(&self) -> Severity {
        let is_urgent = matches!(self, Self::ViewUnconfirmed { .. } | Self::NotMutated { .. });
        if self.is_stalled() || is_urgent { Severity::Warning } else { Severity::Normal }
    }

    /// Whether the time of the version runs meanwhile.
    pub fn runs_the_deadline(&self) -> bool {
        matches!(self, Self::Rolling { .. } | Self::Starting { .. } | Self::HandingOver { .. })
    }

    /// Whether the pods that are asked for serve all the same.
    pub fn is_serving(&self) -> bool {
        matches!(self, Self::Paused { .. } | Self::ConfigSettling)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(fault) => fault.fmt(f),
            Self::Deleting => f.write_str("The object is being deleted; its StatefulSets follow it."),
            Self::NameTaken { set } => write!(
                f,
                "StatefulSet {set} exists and does not belong to this object. Delete or rename it, or rename this object."
            ),
            Self::ConfigPending { of } => write!(f, "Reading {}.", name_of(of)),
            Self::ConfigMissing { of } => {
                write!(f, "{} does not exist. No version is made until it does.", name_of(of))
            }
            Self::ConfigUnreadable { of, why } => {
                write!(f, "{} cannot be read: {why}. No version is made until it can.", name_of(of))
            }
            Self::ConfigSettling => {
                f.write_str("Configuration has changed; the version follows in a moment.")
            }
            Self::Paused { version } => {
                write!(f, "Paused before version {version}. Set spec.paused to false to continue.")
            }
            Self::Immutable { set, fields } => write!(
                f,
                "StatefulSet {set} cannot change {} once it exists. Revert the change.",
                fields.join(", ")
            ),
            Self::Changing { set } => write!(f, "StatefulSet {set} is being written."),
            Self::Terminating { set } => {
                write!(f, "StatefulSet {set} is being deleted; it is created again afterwards.")
            }
            Self::Unobserved { set } => {
                write!(f, "The StatefulSet controller has not observed the spec of {set}.")
            }
            Self::Rolling { set, down, outdated, elsewhere } => {
                let what = if *outdated { "being replaced" } else { "starting" };
                write!(f, "Pods of StatefulSet {set} are {what}")?;
                if !down.is_empty() {
                    write!(f, ": {down}")?;
                }
                match elsewhere {
                    Some(pods) => {
                        // A pod that was never Ready may vote in a quorum like any other that runs.
                        write!(
                            f,
                            ". Outdated pods with a running container wait for another zone: {pods}. Delete one of them if it never becomes Ready."
                        )
                    }
                    None => f.write_str("."),
                }
            }
            Self::PartitionHeld { set, rollout } => fmt_held(f, set, rollout.as_deref()),
            Self::GroupPaused { set } => write!(
                f,
                "StatefulSet {set} has outdated pods and its annotation {} is true. Remove it to continue.",
                sts_plus_api::keys::PAUSED
            ),
            Self::Starting { version, set, ready, needed } => write!(
                f,
                "Version {version} is promoted when {needed} of the pods of StatefulSet {set} are Ready; now it is {ready}."
            ),
            Self::ZoneWaiting { zone, set } => write!(f, "Zone {zone} waits for StatefulSet {set}."),
            Self::AwaitingApproval { version, value } => write!(
                f,
                "Version {version} can be promoted. Approve it with sts-plus approve, or with the annotation \
                 sts.plus/approve={value}."
            ),
            Self::Removing { version, set } => {
                write!(f, "Version {version} is promoted; StatefulSet {set} is being removed.")
            }
            Self::Draining { set, claims } => {
                write!(f, "StatefulSet {set} is no longer asked for and is removed")?;
                f.write_str(match claims {
                    Claims::None => ".",
                    Claims::Stay => "; its claims stay.",
                    Claims::Deleted => {
                        ", and so are its claims: persistentVolumeClaimRetentionPolicy.whenDeleted is Delete."
                    }
                })
            }
            Self::Failed { version, message, rolled_back: false } => write!(
                f,
                "Version {version} exceeded its progress deadline: {message} Change the template, or retry with \
                 sts-plus approve."
            ),
            Self::Failed { version, message, rolled_back: true } => write!(
                f,
                "Version {version} exceeded its progress deadline and is removed where an older version exists: {message} \
                 Change the template, or retry with sts-plus approve."
            ),
            Self::Scaling { .. }
            | Self::ScalingBlocked { .. }
            | Self::LeavingFirst { .. }
            | Self::PolicyTaken { .. }
            | Self::Emptying { .. } => self.fmt_scaling(f),
            Self::ViewUnconfirmed { why } => {
                write!(f, "Nothing is replaced or removed until the view of the cluster is confirmed: {why}.")
            }
            Self::Refused(refusal) => f.write_str(&sentence(capitalized(&refusal.to_string()))),
            Self::NotReady { down } => write!(f, "Not all pods are Ready: {down}."),
            handover => handover.fmt_handover(f),
        }
    }
}

impl Wait {
    /// What is waited for where pods leave or join.
    fn fmt_scaling(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scaling { policy, message } => write!(f, "ScalingPolicy {policy}: {message}"),
            Self::ScalingBlocked { policy, reason, message } => {
                write!(f, "ScalingPolicy {policy} ({reason}): {message}")
            }
            Self::LeavingFirst { version, message } => write!(
                f,
                "Version {version} waits until the pods that are no longer asked for have left: {message} To roll it out \
                 before, raise template.spec.replicas again, or change scaleDown.hook."
            ),
            Self::PolicyTaken { policy } => write!(
                f,
                "ScalingPolicy {policy} exists and does not belong to this object, so that no pod of the StatefulSet of that \
                 name leaves or joins. Delete or rename it."
            ),
            Self::Emptying { set, message } => {
                write!(
                    f,
                    "The object is being deleted; the pods of StatefulSet {set} leave before: {message}"
                )
            }
            _ => Ok(()),
        }
    }
}

impl Wait {
    /// What is waited for where versions share ordinals and claims.
    fn fmt_handover(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandingOver { version, ordinals, wanted, down } => {
                if ordinals.is_empty() {
                    write!(f, "Version {version} has none of {wanted} ordinals yet")?;
                } else {
                    write!(f, "Version {version} has the ordinals {ordinals} of {wanted}")?;
                }
                if down.is_empty() {
                    f.write_str(".")
                } else {
                    write!(f, "; the next one follows when its pods are Ready: {down}.")
                }
            }
            Self::Blocked { version, pod, down, max_unavailable } => write!(
                f,
                "Version {version} waits before pod {pod} is deleted: {down}, and updateStrategy.maxUnavailable is \
                 {max_unavailable}. Repair these pods, or raise maxUnavailable."
            ),
            Self::VolumeInUse { pods } => write!(
                f,
                "No pod is created with the volumes of {} while it exists. It is never deleted by force: if its node is \
                 lost, make sure that it does not run, and delete the pod or its node.",
                pods.join(", ")
            ),
            Self::ClaimTaken { claim } => write!(
                f,
                "PersistentVolumeClaim {claim} belongs to somebody else, and its pod is not created. Delete or rename it, or \
                 remove the owner or the label by which it belongs to another object."
            ),
            Self::ClaimTerminating { claim } => write!(
                f,
                "PersistentVolumeClaim {claim} is being deleted, and its pod is not created before it is gone. Then the pod gets \
                 a new, empty one."
            ),
            Self::ClaimLost { claim } => write!(
                f,
                "PersistentVolumeClaim {claim} has lost its volume, and its pod is not created. Restore the PersistentVolume, or \
                 delete the claim to begin with an empty one."
            ),
            Self::ClaimPending { ordinal } => write!(f, "The claims of ordinal {ordinal} are being created."),
            Self::ClaimsStayBehind { set: Some(set) } => write!(
                f,
                "StatefulSet {set} has claims of its own, and their data does not follow to the strategy that is asked for. \
                 Set the strategy back, or copy the data and delete StatefulSet {set}."
            ),
            Self::ClaimsStayBehind { set: None } => f.write_str(
                "The object has claims that all its versions share, and their data does not follow to the strategy InPlace. \
                 Set the strategy back, or copy the data and remove the labels of the claims.",
            ),
            Self::NotMutated { pod } => write!(
                f,
                "Pod {pod} was created without its claims, because admission did not name them: see that the \
                 MutatingAdmissionPolicy or the webhook of sts-plus is installed. It is deleted and created again."
            ),
            _ => Ok(()),
        }
    }
}

/// Why the StatefulSet controller replaces no pod.
fn fmt_held(f: &mut fmt::Formatter<'_>, set: &str, rollout: Option<&str>) -> fmt::Result {
    match rollout {
        Some(rollout) => {
            write!(f, "PhasedRollout {rollout} holds outdated pods of StatefulSet {set} below its partition.")
        }
        None => {
            write!(f, "The partition of StatefulSet {set} holds outdated pods. Set it to 0 to continue.")
        }
    }
}

/// A text that begins a sentence.
fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
