//! A pod as people see it.

use serde::Serialize;
use sts_plus_planner::health::{Down, Why};
use sts_plus_planner::ordinal;
use sts_plus_planner::pod::{self, Defect, PodRow};
use sts_plus_planner::rollout_group::zone::Zone;

/// The reason of a pod that is broken since a container has terminated too often.
const TERMINATED: &str = "Terminated";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    pub name: String,
    /// The number at the end of its name; `None` where the name is not one that its set would give.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
    /// Its revision label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether its revision is not the update revision of its set; false while that one is unknown.
    pub outdated: bool,
    /// How it is, by the planner's rule.
    pub state: PodState,
    /// For a broken pod, the kubelet's reason for which a container waits, or `Terminated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it is not available, in the planner's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub phase: Phase,
    /// Whether nothing of it runs that serves, so that nothing is lost with it.
    pub dead: bool,
    /// Where it runs, if the caller knows.
    #[serde(flatten)]
    pub location: Option<Location>,
}

/// How a pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum PodState {
    /// Ready, for at least `minReadySeconds`.
    Ready,
    /// Ready, but not yet for `minReadySeconds`.
    Settling,
    /// Not Ready, and may become so by itself.
    #[default]
    NotReady,
    /// Not Ready, and will not become so by itself.
    Broken,
    /// It has a deletion timestamp.
    Terminating,
    /// It serves, and is being prepared for its removal.
    Leaving,
}

/// The phase of a pod, as Kubernetes has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// Where a pod runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Location {
    pub node: String,
    /// The zone of the node, where it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Pod {
    /// A pod of a set that was judged, whose pods shall be of the revision `target`.
    pub(super) fn of(
        row: &PodRow,
        zone: &Zone<'_>,
        target: Option<&str>,
        location: Option<Location>,
    ) -> Self {
        let why = zone.why_down(row);
        let revision = row.revision.as_deref();
        Self {
            name: row.name.to_string(),
            ordinal: ordinal::of_pod(&row.name, zone.name()),
            revision: revision.map(str::to_owned),
            outdated: target.is_some_and(|target| revision != Some(target)),
            state: why.map_or(PodState::Ready, PodState::of),
            reason: match why {
                Some(Why::Broken(Defect::Waits(waiting))) => Some(waiting.to_string()),
                Some(Why::Broken(Defect::Terminated { .. })) => Some(TERMINATED.to_owned()),
                _ => None,
            },
            message: why.map(|why| Down { pod: row.name.clone(), why: why.clone() }.to_string()),
            phase: row.phase.into(),
            dead: row.is_dead(),
            location,
        }
    }
}

impl PodState {
    fn of(why: &Why) -> Self {
        match why {
            Why::Settling { .. } => Self::Settling,
            // A pod that does not exist has no row.
            Why::NotReady | Why::Missing => Self::NotReady,
            Why::Broken(_) => Self::Broken,
            Why::Terminating => Self::Terminating,
            Why::Leaving => Self::Leaving,
        }
    }
}

impl From<pod::Phase> for Phase {
    fn from(phase: pod::Phase) -> Self {
        match phase {
            pod::Phase::Pending => Self::Pending,
            pod::Phase::Running => Self::Running,
            pod::Phase::Succeeded => Self::Succeeded,
            pod::Phase::Failed => Self::Failed,
            pod::Phase::Unknown => Self::Unknown,
        }
    }
}
