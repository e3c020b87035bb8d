//! A pod as the hollow nodes keep it: decoded straight from the wire, without all that its life does not turn on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::behaviour::Behaviour;
use super::probes::{Check, Probe, Purpose};
use super::watch::{Key, Row};
use super::wire;
use crate::affinity::Wants;

/// The scheduler whose pods the hollow nodes place; a pod that names another one waits for that one.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The exit code of a container that fails by itself.
pub(super) const CRASHED: u8 = 1;

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
    pub(super) binding: Binding,
    pub(super) containers: Vec<Container>,
    pub(super) init_containers: Vec<Container>,
    pub(super) gates: Vec<String>,
    pub(super) policy: RestartPolicy,
    pub(super) probes: Arc<[Probe]>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) hostname: Option<String>,
    pub(super) subdomain: Option<String>,
    /// Who controls it.
    pub(super) set: Option<String>,
    /// Its number in the set.
    pub(super) ordinal: Option<u32>,
    /// Whether an init container of it waits for a key that is not there.
    pub(super) held: bool,
    /// The ports that it listens on, with their names.
    pub(super) ports: BTreeMap<u16, String>,
    pub(super) stage: Stage,
    pub(super) conditions: Vec<Condition>,
    pub(super) start_time: Option<String>,
    pub(super) container_started_at: Option<String>,
    pub(super) ip: Option<String>,
}

/// Where a pod is, on its way to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Binding {
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
    pub(super) init: Init,
    pub(super) containers: Containers,
    pub(super) restarts: u32,
    /// How the last run of the containers ended, if there was one.
    pub(super) exit: u8,
    /// The containers run, and their startup probes have succeeded.
    pub(super) started: bool,
    pub(super) containers_ready: bool,
    pub(super) ready: bool,
}

/// The phases that matter here, as the status of a pod spells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// How far the init containers are that have an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Init {
    /// None has begun.
    Waiting,
    /// Those before this one are done.
    At { index: usize, state: InitState, restarts: u32 },
    /// All are done, or there are none.
    Done,
}

/// The state of the init container whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitState {
    Running,
    CrashLoopBackOff,
    Failed,
}

/// When containers that have ended begin again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

/// The state of all containers of a pod; hollow ones do everything together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Containers {
    Creating,
    ImagePullBackOff,
    Running,
    CrashLoopBackOff,
    /// They have ended and do not begin again.
    Ended,
}

/// A container, with what its status repeats of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    /// An init container that stays: it runs as long as the pod does.
    pub(super) sidecar: bool,
    /// How often its status says that it was restarted, if it is an init container.
    pub(super) restarts: u32,
    /// The ConfigMap whose key it waits for, if it is an init container that does.
    pub(super) awaits: Option<String>,
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

    /// The init containers that have an end, in their order.
    pub(super) fn initializing(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().filter(|container| !container.sidecar)
    }

    fn init(&self, statuses: &[wire::ContainerStatus]) -> Init {
        let status = |container: &Container| statuses.iter().find(|status| status.name == container.name);
        let is_done = |container: &Container| {
            let ended = status(container).and_then(|status| status.state.terminated.as_ref());
            ended.is_some_and(|ended| ended.exit_code == 0)
        };
        let Some((index, container)) =
            self.initializing().enumerate().find(|(_, container)| !is_done(container))
        else {
            return Init::Done;
        };
        let Some(status) = status(container) else {
            return Init::Waiting;
        };
        let restarts = u32::try_from(status.restart_count).unwrap_or_default();
        match &status.state {
            wire::State { running: Some(_), .. } => Init::At { index, state: InitState::Running, restarts },
            wire::State { terminated: Some(_), .. } => Init::At { index, state: InitState::Failed, restarts },
            wire::State { waiting: Some(waiting), .. } if waiting.reason == "CrashLoopBackOff" => {
                Init::At { index, state: InitState::CrashLoopBackOff, restarts }
            }
            _ if index == 0 => Init::Waiting,
            _ => Init::At { index, state: InitState::Running, restarts },
        }
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
        let binding = match spec.node_name {
            Some(node) => Binding::Bound(node),
            None if !spec.scheduling_gates.is_empty() => Binding::NotOurs,
            None if spec.scheduler_name.is_some_and(|scheduler| scheduler != DEFAULT_SCHEDULER) => {
                Binding::NotOurs
            }
            None => Binding::Unbound(Wants {
                labels: spec.node_selector,
                terms: spec.affinity.node_affinity.required.map(|required| required.node_selector_terms),
            }),
        };
        let policy = match spec.restart_policy.as_deref() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        };
        let probes: Arc<[Probe]> = spec.containers.iter().flat_map(probes).collect();
        let mut ports: BTreeMap<u16, String> = BTreeMap::new();
        for port in spec.containers.iter().chain(&spec.init_containers).flat_map(|container| &container.ports)
        {
            ports.insert(port.container_port, port.name.clone());
        }
        // A port need not be declared to be listened on, and what is probed certainly is.
        for probe in probes.iter() {
            if let Check::Tcp { port } | Check::Http { host: None, port, .. } = probe.check {
                ports.entry(port).or_default();
            }
        }
        let behaviour = Behaviour::read(annotations, ordinal);
        let init_key = behaviour.init_key.clone();
        let mut pod = Pod {
            policy,
            probes,
            ports,
            labels: metadata.labels,
            hostname: spec.hostname,
            subdomain: spec.subdomain,
            set: metadata.owner_references.into_iter().find(|owner| owner.controller).map(|owner| owner.name),
            ordinal,
            held: false,
            behaviour,
            key: metadata.uid,
            version: metadata.resource_version,
            namespace: metadata.namespace,
            name: metadata.name,
            deletion_grace: metadata
                .deletion_timestamp
                .map(|_| metadata.deletion_grace_period_seconds.unwrap_or(0)),
            binding,
            containers: spec.containers.into_iter().map(Container::from).collect(),
            init_containers: initial(spec.init_containers, &spec.volumes, init_key.as_deref()),
            gates: spec.readiness_gates.into_iter().map(|gate| gate.condition_type).collect(),
            stage: Stage::NEW,
            conditions: status.conditions,
            start_time: status.start_time,
            container_started_at: None,
            ip: status.pod_ip,
        };
        pod.stage.phase = match status.phase.as_deref() {
            None | Some("" | "Pending") => Phase::Pending,
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            Some(_) => Phase::Running,
        };
        pod.stage.ready = pod.condition("Ready").is_some_and(|condition| condition.status == "True");
        pod.stage.init = pod.init(&status.init_container_statuses);
        for container in &mut pod.init_containers {
            let mut shown = status.init_container_statuses.iter();
            let shown = shown.find(|status| status.name == container.name);
            container.restarts =
                shown.and_then(|shown| u32::try_from(shown.restart_count).ok()).unwrap_or_default();
        }
        if let Some(first) = status.container_statuses.into_iter().next() {
            pod.stage.restarts = u32::try_from(first.restart_count).unwrap_or_default();
            pod.stage.containers_ready = first.ready;
            pod.stage.containers = match (&first.state.running, &first.state.waiting) {
                (Some(_), _) => Containers::Running,
                (_, Some(waiting)) if waiting.reason == "CrashLoopBackOff" => Containers::CrashLoopBackOff,
                (_, Some(waiting)) if waiting.reason == "ImagePullBackOff" => Containers::ImagePullBackOff,
                _ if first.state.terminated.is_some() => Containers::Ended,
                _ => Containers::Creating,
            };
            if let Some(ended) = first.state.terminated.as_ref().or(first.last_state.terminated.as_ref()) {
                pod.stage.exit = u8::try_from(ended.exit_code).unwrap_or(u8::MAX);
            }
            let is_running = pod.stage.containers == Containers::Running;
            pod.stage.started = is_running && first.started.unwrap_or(true);
            pod.container_started_at = first.state.running.and_then(|running| running.started_at);
        }
        pod
    }
}

impl Stage {
    /// A pod of which nothing has been reported yet.
    pub(super) const NEW: Stage = Stage {
        phase: Phase::Pending,
        init: Init::Done,
        containers: Containers::Creating,
        restarts: 0,
        exit: CRASHED,
        started: false,
        containers_ready: false,
        ready: false,
    };
}

impl From<wire::Container> for Container {
    fn from(wire: wire::Container) -> Self {
        let sidecar = wire.restart_policy.is_some_and(|policy| policy == "Always");
        Container { name: wire.name, image: wire.image, sidecar, restarts: 0, awaits: None }
    }
}

/// Init containers; the one of this name waits for a key of the ConfigMap that it mounts.
fn initial(all: Vec<wire::Container>, volumes: &[wire::Volume], waits: Option<&str>) -> Vec<Container> {
    let awaited = |container: &wire::Container| {
        let mounts =
            |volume: &&wire::Volume| container.volume_mounts.iter().any(|mount| mount.name == volume.name);
        waits.filter(|name| **name == *container.name)?;
        volumes.iter().filter(mounts).find_map(|volume| Some(volume.config_map.as_ref()?.name.clone()))
    };
    let read = |container: wire::Container| {
        let awaits = awaited(&container);
        Container { awaits, ..Container::from(container) }
    };
    all.into_iter().map(read).collect()
}

/// The probes of a container, with the defaults that Kubernetes gives them.
fn probes(container: &wire::Container) -> Vec<Probe> {
    let number = |port: &wire::Number| match port {
        wire::Number::Port(port) => Some(*port),
        wire::Number::Name(name) => {
            container.ports.iter().find(|port| port.name == *name).map(|port| port.container_port)
        }
    };
    let read = |purpose: Purpose, probe: &Option<wire::Probe>| {
        let probe = probe.as_ref()?;
        let check = match probe {
            wire::Probe { http_get: Some(get), .. } => number(&get.port).map(|port| Check::Http {
                host: get.host.as_ref().and_then(|host| host.parse().ok()),
                port,
                path: get.path.clone().unwrap_or_else(|| "/".to_owned()),
                headers: get.http_headers.iter().map(|one| (one.name.clone(), one.value.clone())).collect(),
            }),
            wire::Probe { tcp_socket: Some(socket), .. } | wire::Probe { grpc: Some(socket), .. } => {
                number(&socket.port).map(|port| Check::Tcp { port })
            }
            wire::Probe { exec: Some(_), .. } => Some(Check::Exec),
            _ => None,
        };
        let seconds = |given: Option<u32>, default: u64| {
            Duration::from_secs(given.filter(|given| *given > 0).map_or(default, u64::from))
        };
        let times = |given: Option<u32>, default: u32| given.filter(|given| *given > 0).unwrap_or(default);
        Some(Probe {
            purpose,
            check: check.unwrap_or(Check::Impossible),
            delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            successes: times(probe.success_threshold, 1),
            failures: times(probe.failure_threshold, 3),
        })
    };
    [
        read(Purpose::Startup, &container.startup_probe),
        read(Purpose::Readiness, &container.readiness_probe),
        read(Purpose::Liveness, &container.liveness_probe),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The set's name and the ordinal in `<set>-<ordinal>`.
pub(crate) fn split_ordinal(name: &str) -> Option<(&str, u32)> {
    let (set, ordinal) = name.rsplit_once('-')?;
    // `web-007` is not a name that a StatefulSet gives.
    (ordinal == "0" || !ordinal.starts_with('0')).then_some(())?;
    ordinal.bytes().all(|digit| digit.is_ascii_digit()).then_some(())?;
    Some((set, ordinal.parse().ok()?))
}

#[cfg(test)]
#[path = "pod_tests.rs"]
pub(super) mod tests;
