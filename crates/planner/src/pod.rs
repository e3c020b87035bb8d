//! The pod row: all that decisions may look at, for all controllers, and small, since every pod of every
//! StatefulSet has one.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_api::keys;

use crate::selector::Labels;

/// A container that has terminated this often is broken, whatever the kubelet calls its wait: the back-off
/// before the third restart is already 40 s.
pub const BROKEN_AFTER_RESTARTS: u32 = 3;

/// A pod of a StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a row: each is a fact about the pod, independent of the others"
)]
pub struct PodRow {
    pub namespace: Arc<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    /// The version this row was read at.
    pub resource_version: Box<str>,
    /// UID of the controlling StatefulSet; empty where nothing controls the pod.
    pub owner: Arc<str>,
    /// The revision label; a pod without one was not built by the StatefulSet controller of today.
    pub revision: Option<Arc<str>>,
    /// The pod's labels without the per-pod ones, which [`PodRow::label`] answers from the row.
    pub labels: Arc<Labels>,
    pub phase: Phase,
    /// Since when the Ready condition is true; `None` while it is not.
    pub ready_since: Option<Timestamp>,
    /// Whether the pod has a deletion timestamp.
    pub terminating: bool,
    /// Why a container waits, the worst one if several do.
    pub waiting: Option<Waiting>,
    /// The highest restart count among containers that are terminated right now, without init containers that ended
    /// well: those are done.
    pub terminated_restarts: Option<u32>,
    /// Whether a container of it runs that is to run for as long as the pod lives: a regular one or a sidecar.
    pub running: bool,
    /// Whether the pod carries its own name in the label [`keys::POD_NAME`].
    pub named: bool,
    /// Whether the pod carries its own ordinal in the label `<group>/pod-ordinal` of an ExtendedStatefulSet.
    pub numbered: bool,
    /// The volumes that are claims.
    pub volumes: Arc<[ClaimVolume]>,
    /// Its address, once it has one.
    pub ip: Option<Box<str>>,
    /// The value of the annotation `<group>/zones` of an ExtendedStatefulSet.
    pub zones: Option<Arc<str>>,
}

/// A volume of a pod that is a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimVolume {
    pub name: Box<str>,
    /// The claim; `None` for the one that a pod of a StatefulSet has by rule, `<volume>-<pod>`, so that all pods of a set
    /// share one list.
    pub claim: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Accepted, not all containers started.
    Pending,
    /// Bound and started.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, one of them badly.
    Failed,
    /// The node cannot be asked, or a phase this build does not know.
    Unknown,
}

/// Why a container waits. Ordered: the broken ones are the greater ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiting {
    /// A wait that normally ends by itself (creating, initialising).
    Starting,
    /// The kubelet restarts the container ever more slowly.
    CrashLoopBackOff,
    /// The image cannot be pulled; the kubelet backs off.
    ImagePullBackOff,
    /// The image cannot be pulled.
    ErrImagePull,
    /// The image's name cannot be parsed.
    InvalidImageName,
    /// A ConfigMap, Secret or key that the container needs is missing.
    CreateContainerConfigError,
    /// The runtime refuses to create the container.
    CreateContainerError,
}

impl Waiting {
    /// The broken waits, as the kubelet spells them.
    const BROKEN: [(&'static str, Self); 6] = [
        ("CrashLoopBackOff", Self::CrashLoopBackOff),
        ("ImagePullBackOff", Self::ImagePullBackOff),
        ("ErrImagePull", Self::ErrImagePull),
        ("InvalidImageName", Self::InvalidImageName),
        ("CreateContainerConfigError", Self::CreateContainerConfigError),
        ("CreateContainerError", Self::CreateContainerError),
    ];

    /// Reads the kubelet's reason; one that is not a known defect is an ordinary start.
    pub fn parse(reason: &str) -> Self {
        Self::BROKEN.iter().find(|(name, _)| *name == reason).map_or(Self::Starting, |(_, waiting)| *waiting)
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::BROKEN.iter().find(|(_, waiting)| waiting == self).map_or("Starting", |(n, _)| n);
        f.write_str(name)
    }
}

/// What makes a pod broken rather than merely not Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A container waits in one of the kubelet's error states.
    Waits(Waiting),
    /// A container has terminated again and again.
    Terminated {
        /// How often it was restarted.
        restarts: u32,
    },
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waits(waiting) => write!(f, "waits in {waiting}"),
            Self::Terminated { restarts } => write!(f, "has terminated after {restarts} restarts"),
        }
    }
}

impl PodRow {
    /// Whether the pod serves: Running, Ready and not on its way out.
    pub fn ready(&self) -> bool {
        self.phase == Phase::Running && self.ready_since.is_some() && !self.terminating
    }

    /// Whether nothing of the pod runs, so that nothing is lost with it. A pod that is merely not Ready may still do its
    /// part, such as voting in a quorum.
    pub fn is_dead(&self) -> bool {
        !self.running && !self.ready()
    }

    /// The defect that keeps the pod from ever becoming Ready by itself, if there is one.
    pub fn defect(&self) -> Option<Defect> {
        if self.ready() {
            return None;
        }
        let waits = self.waiting.filter(|waiting| *waiting > Waiting::Starting).map(Defect::Waits);
        let restarts = self.terminated_restarts.filter(|restarts| *restarts >= BROKEN_AFTER_RESTARTS);
        waits.or(restarts.map(|restarts| Defect::Terminated { restarts }))
    }

    /// The names of the claims that it mounts.
    pub fn claims(&self) -> Vec<String> {
        let name = |volume: &ClaimVolume| match &volume.claim {
            Some(claim) => claim.to_string(),
            None => format!("{}-{}", volume.name, self.name),
        };
        self.volumes.iter().map(name).collect()
    }

    /// The value of a label of the pod.
    pub fn label(&self, key: &str) -> Option<&str> {
        match key {
            keys::POD_NAME => Some(&self.name),
            keys::POD_INDEX => self.name.rsplit_once('-').map(|(_, index)| index),
            keys::POD_ORDINAL => self.name.rsplit_once('-').map(|(_, index)| index).filter(|_| self.numbered),
            keys::CONTROLLER_REVISION => self.revision.as_deref(),
            _ => self.labels.get(key).map(|value| &**value),
        }
    }
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
