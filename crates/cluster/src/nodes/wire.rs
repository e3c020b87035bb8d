//! The shapes of pods and ConfigMaps on the wire, only as far as it is read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::pod::Condition;
use super::watch::Key;
use crate::affinity::Term;

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
    pub(super) uid: Key,
    pub(super) resource_version: String,
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) owner_references: Vec<Owner>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct ConfigMap {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) data: BTreeMap<String, String>,
    #[serde(default, rename = "binaryData")]
    pub(super) binary: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct Owner {
    pub(super) name: String,
    #[serde(default)]
    pub(super) controller: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) hostname: Option<String>,
    pub(super) subdomain: Option<String>,
    pub(super) restart_policy: Option<String>,
    pub(super) node_name: Option<String>,
    pub(super) scheduler_name: Option<String>,
    pub(super) scheduling_gates: Vec<IgnoredAny>,
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) affinity: Affinity,
    pub(super) containers: Vec<Container>,
    pub(super) init_containers: Vec<Container>,
    pub(super) volumes: Vec<Volume>,
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
    #[serde(default)]
    pub(super) ports: Vec<Port>,
    #[serde(default)]
    pub(super) volume_mounts: Vec<Mount>,
    pub(super) startup_probe: Option<Probe>,
    pub(super) readiness_probe: Option<Probe>,
    pub(super) liveness_probe: Option<Probe>,
}

#[derive(Deserialize)]
pub(super) struct Mount {
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) config_map: Option<Reference>,
}

#[derive(Deserialize)]
pub(super) struct Reference {
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Port {
    pub(super) container_port: u16,
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Probe {
    pub(super) http_get: Option<Get>,
    pub(super) tcp_socket: Option<Socket>,
    pub(super) grpc: Option<Socket>,
    pub(super) exec: Option<IgnoredAny>,
    pub(super) initial_delay_seconds: Option<u32>,
    pub(super) period_seconds: Option<u32>,
    pub(super) timeout_seconds: Option<u32>,
    pub(super) success_threshold: Option<u32>,
    pub(super) failure_threshold: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Get {
    pub(super) host: Option<String>,
    pub(super) port: Number,
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) http_headers: Vec<Header>,
}

#[derive(Deserialize)]
pub(super) struct Socket {
    pub(super) port: Number,
}

/// A port by number or by name.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Number {
    Port(u16),
    Name(String),
}

#[derive(Deserialize)]
pub(super) struct Header {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
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
    pub(super) conditions: Vec<Condition>,
    pub(super) start_time: Option<String>,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: Option<String>,
    pub(super) container_statuses: Vec<ContainerStatus>,
    pub(super) init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    #[serde(default)]
    pub(super) name: String,
    pub(super) started: Option<bool>,
    #[serde(default)]
    pub(super) last_state: State,
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
    pub(super) terminated: Option<Terminated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terminated {
    #[serde(default)]
    pub(super) exit_code: i32,
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
