//! A pod as the hollow nodes keep it: decoded straight from the wire, without all that its life does not turn on.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::behaviour::Behaviour;
use super::watch::{Key, Row};
use crate::affinity::{Term, Wants};

/// The scheduler whose pods the hollow nodes place; a pod that names another one waits for that one.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// One pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::Pod")]
pub(super) struct Pod {
    pub(super) key: Key,
    pub(super) version: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) behaviour: Behaviour,
    /// Seconds of grace that its deletion was given; 0 means that only finalizers still hold it.
    pub(super) deletion_grace: Option<i64>,
    /// The node that it is bound to, or what it asks of one.
    pub(super) place: Place,
    pub(super) containers: Vec<Container>,
    pub(super) init_containers: Vec<Container>,
    pub(super) gates: Vec<String>,
    pub(super) stage: Stage,
    pub(super) conditions: Vec<Condition>,
    pub(super) start_time: Option<String>,
    pub(super) container_started_at: Option<String>,
    pub(super) ip: Option<String>,
}

/// Where a pod is, on its way to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Its scheduler is another one, or its scheduling gates are closed.
    NotOurs,
    /// To be bound to a node that fits.
    Unbound(Wants),
    /// Bound to the node of this name.
    Bound(String),
}

/// The part of a pod's status that its life turns on: what is shown, and also what is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) phase: Phase,
    pub(super) containers: Containers,
    pub(super) restarts: u32,
    pub(super) containers_ready: bool,
    pub(super) ready: bool,
}

/// The phases that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    /// Succeeded or Failed: nothing more happens.
    Finished,
}

/// The state of all containers of a pod; hollow ones do everything together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Containers {
    Creating,
    ImagePullBackOff,
    Running,
    CrashLoopBackOff,
}

/// A container, with what its status repeats of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    /// An init container that stays: it runs as long as the pod does.
    pub(super) sidecar: bool,
}

/// A condition in a pod's status.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: Option<String>,
}

impl Row for Pod {
    fn key(&self) -> &Key {
        &self.key
    }

    fn version(&self) -> &str {
        &self.version
    }
}

impl Pod {
    /// The condition of this type.
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// The first readiness gate whose condition is not True.
    pub(super) fn closed_gate(&self) -> Option<&str> {
        let open = |gate: &str| self.condition(gate).is_some_and(|condition| condition.status == "True");
        self.gates.iter().map(String::as_str).find(|gate| !open(gate))
    }
}

impl From<wire::Pod> for Pod {
    fn from(wire::Pod { metadata, spec, status }: wire::Pod) -> Self {
        let annotations = metadata.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let ordinal = split_ordinal(&metadata.name).map(|(_, ordinal)| ordinal);
        let place = match spec.node_name {
            Some(node) => Place::Bound(node),
            None if !spec.scheduling_gates.is_empty() => Place::NotOurs,
            None if spec.scheduler_name.is_some_and(|scheduler| scheduler != DEFAULT_SCHEDULER) => {
                Place::NotOurs
            }
            None => Place::Unbound(Wants {
                labels: spec.node_selector,
                terms: spec.affinity.node_affinity.required.map(|required| required.node_selector_terms),
            }),
        };
        let mut pod = Pod {
            behaviour: Behaviour::read(annotations, ordinal),
            key: metadata.uid,
            version: metadata.resource_version,
            namespace: metadata.namespace,
            name: metadata.name,
            deletion_grace: metadata
                .deletion_timestamp
                .map(|_| metadata.deletion_grace_period_seconds.unwrap_or(0)),
            place,
            containers: spec.containers.into_iter().map(Container::from).collect(),
            init_containers: spec.init_containers.into_iter().map(Container::from).collect(),
            gates: spec.readiness_gates.into_iter().map(|gate| gate.condition_type).collect(),
            stage: Stage::NEW,
            conditions: status.conditions,
            start_time: status.start_time,
            container_started_at: None,
            ip: status.pod_ip,
        };
        pod.stage.phase = match status.phase.as_deref() {
            None | Some("" | "Pending") => Phase::Pending,
            Some("Succeeded" | "Failed") => Phase::Finished,
            Some(_) => Phase::Running,
        };
        pod.stage.ready = pod.condition("Ready").is_some_and(|condition| condition.status == "True");
        if let Some(first) = status.container_statuses.into_iter().next() {
            pod.stage.restarts = u32::try_from(first.restart_count).unwrap_or_default();
            pod.stage.containers_ready = first.ready;
            pod.stage.containers = match (&first.state.running, &first.state.waiting) {
                (Some(_), _) => Containers::Running,
                (_, Some(waiting)) if waiting.reason == "CrashLoopBackOff" => Containers::CrashLoopBackOff,
                (_, Some(waiting)) if waiting.reason == "ImagePullBackOff" => Containers::ImagePullBackOff,
                _ => Containers::Creating,
            };
            pod.container_started_at = first.state.running.and_then(|running| running.started_at);
        }
        pod
    }
}

impl Stage {
    /// A pod of which nothing has been reported yet.
    pub(super) const NEW: Stage = Stage {
        phase: Phase::Pending,
        containers: Containers::Creating,
        restarts: 0,
        containers_ready: false,
        ready: false,
    };
}

impl From<wire::Container> for Container {
    fn from(wire: wire::Container) -> Self {
        let sidecar = wire.restart_policy.is_some_and(|policy| policy == "Always");
        Container { name: wire.name, image: wire.image, sidecar }
    }
}

/// The set's name and the ordinal in `<set>-<ordinal>`.
pub(crate) fn split_ordinal(name: &str) -> Option<(&str, u32)> {
    let (set, ordinal) = name.rsplit_once('-')?;
    // `web-007` is not a name that a StatefulSet gives.
    (ordinal == "0" || !ordinal.starts_with('0')).then_some(())?;
    ordinal.bytes().all(|digit| digit.is_ascii_digit()).then_some(())?;
    Some((set, ordinal.parse().ok()?))
}

/// The shapes on the wire, only as far as they are read.
mod wire {
    use serde::de::IgnoredAny;

    use super::{BTreeMap, Deserialize, Term};

    #[derive(Deserialize)]
    pub(super) struct Pod {
        pub(super) metadata: Metadata,
        #[serde(default)]
        pub(super) spec: Spec,
        #[serde(default)]
        pub(super) status: Status,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Metadata {
        pub(super) uid: super::Key,
        pub(super) resource_version: String,
        pub(super) namespace: String,
        pub(super) name: String,
        #[serde(default)]
        pub(super) annotations: BTreeMap<String, String>,
        pub(super) deletion_timestamp: Option<IgnoredAny>,
        pub(super) deletion_grace_period_seconds: Option<i64>,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub(super) struct Spec {
        pub(super) node_name: Option<String>,
        pub(super) scheduler_name: Option<String>,
        pub(super) scheduling_gates: Vec<IgnoredAny>,
        pub(super) node_selector: BTreeMap<String, String>,
        pub(super) affinity: Affinity,
        pub(super) containers: Vec<Container>,
        pub(super) init_containers: Vec<Container>,
        pub(super) readiness_gates: Vec<Gate>,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub(super) struct Affinity {
        pub(super) node_affinity: NodeAffinity,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    pub(super) struct NodeAffinity {
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        pub(super) required: Option<NodeSelector>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct NodeSelector {
        #[serde(default)]
        pub(super) node_selector_terms: Vec<Term>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Container {
        pub(super) name: String,
        #[serde(default)]
        pub(super) image: String,
        pub(super) restart_policy: Option<String>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Gate {
        pub(super) condition_type: String,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub(super) struct Status {
        pub(super) phase: Option<String>,
        pub(super) conditions: Vec<super::Condition>,
        pub(super) start_time: Option<String>,
        #[serde(rename = "podIP")]
        pub(super) pod_ip: Option<String>,
        pub(super) container_statuses: Vec<ContainerStatus>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct ContainerStatus {
        #[serde(default)]
        pub(super) ready: bool,
        #[serde(default)]
        pub(super) restart_count: i64,
        #[serde(default)]
        pub(super) state: State,
    }

    #[derive(Default, Deserialize)]
    pub(super) struct State {
        pub(super) running: Option<Running>,
        pub(super) waiting: Option<Waiting>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Running {
        pub(super) started_at: Option<String>,
    }

    #[derive(Deserialize)]
    pub(super) struct Waiting {
        #[serde(default)]
        pub(super) reason: String,
    }
}

#[cfg(test)]
#[path = "pod_tests.rs"]
pub(super) mod tests;
