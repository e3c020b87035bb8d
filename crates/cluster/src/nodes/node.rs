//! The nodes themselves: how they look to the API server, and which of them a pod goes to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::Deserialize;
use serde_json::{Value, json};

use super::behaviour::LOST;
use super::call::Call;
use super::pod::split_ordinal;
use super::watch::{Key, Row};
use crate::affinity::Wants;
use crate::chance;

/// Where nodes have their addresses; pods have theirs elsewhere, so that the two never meet.
const NODE_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 127, 0, 0);
/// How many pods a node says it can hold. Hollow pods cost nothing; the number only has to satisfy a scheduler.
const PODS_PER_NODE: &str = "100000";

/// One hollow node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name and host name.
    pub name: String,
    /// The value of its zone label.
    pub zone: String,
}

impl Node {
    /// A node in a zone.
    pub fn new(name: impl Into<String>, zone: impl Into<String>) -> Self {
        Node { name: name.into(), zone: zone.into() }
    }

    fn labels(&self) -> [(&'static str, &str); 6] {
        [
            ("kubernetes.io/hostname", &self.name),
            ("topology.kubernetes.io/zone", &self.zone),
            // Retired, yet still what older affinities name.
            ("failure-domain.beta.kubernetes.io/zone", &self.zone),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "hollow"),
            ("type", "hollow"),
        ]
    }
}

/// A node as the API server shows it, as far as the hollow ones look.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Shown {
    metadata: Metadata,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: Key,
    resource_version: String,
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Shown {
    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether its annotation says so.
    pub(super) fn is_lost(&self) -> bool {
        self.metadata.annotations.get(LOST).is_some_and(|lost| lost == "true")
    }
}

impl Row for Shown {
    fn key(&self) -> &Key {
        &self.metadata.uid
    }

    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// The hollow nodes, and which of them are cut off.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    pub(super) all: Vec<Node>,
    pub(super) lost: BTreeSet<String>,
}

fn fits(wants: &Wants, node: &Node) -> bool {
    let labels = node.labels();
    wants.fits(&node.name, |key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
}

impl Nodes {
    pub(super) fn has(&self, name: &str) -> bool {
        self.all.iter().any(|node| node.name == name)
    }

    /// The node for a pod: neighbours of one set go to neighbouring nodes and the same name always to the
    /// same one. Where none fits, the reason in a scheduler's words.
    pub(super) fn choose(&self, wants: &Wants, pod: &str) -> Result<&Node, String> {
        let alive = || self.all.iter().filter(|node| !self.lost.contains(&node.name));
        let fitting: Vec<&Node> = alive().filter(|node| fits(wants, node)).collect();
        let (set, ordinal) = split_ordinal(pod).unwrap_or((pod, 0));
        let turn = chance::draw(0, set).wrapping_add(u64::from(ordinal));
        let index = turn.checked_rem(fitting.len() as u64).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| fitting.get(index)).copied().ok_or_else(|| {
            format!(
                "0/{} nodes are available: {} node(s) are lost, {} node(s) didn't match Pod's node affinity/selector.",
                self.all.len(),
                self.all.len() - alive().count(),
                alive().count(),
            )
        })
    }

    /// The address of a node, from its place in the list.
    pub(super) fn address(&self, name: &str) -> Ipv4Addr {
        let place = self.all.iter().position(|node| node.name == name).unwrap_or_default();
        let offset = u32::try_from(place).unwrap_or_default().wrapping_add(1);
        Ipv4Addr::from_bits(NODE_NETWORK.to_bits() | (offset & 0xffff))
    }

    /// What makes the API server show a node as it is now. Repeating it changes nothing.
    pub(super) fn announce(&self, node: &Node, now: &str) -> Vec<Call> {
        let lost = self.lost.contains(&node.name);
        let path = format!("/api/v1/nodes/{}", node.name);
        let labels: BTreeMap<&str, &str> = node.labels().into();
        let taint = |effect: &str| json!({ "key": "node.kubernetes.io/unreachable", "effect": effect, "timeAdded": now });
        // The API server taints every new node as not ready; nobody else would take that off.
        let taints = if lost { json!([taint("NoSchedule"), taint("NoExecute")]) } else { Value::Null };
        vec![
            Call::create(
                "/api/v1/nodes".to_owned(),
                json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node.name, "labels": labels } }),
            ),
            Call::merge(
                path.clone(),
                json!({ "metadata": { "labels": labels }, "spec": { "taints": taints } }),
            ),
            Call::merge(path + "/status", json!({ "status": self.status(node, lost, now) })),
        ]
    }

    /// What a node says of itself where a cluster watches over it: never a word about taints.
    pub(super) fn report(&self, node: &Node, now: &str) -> Vec<Call> {
        let path = format!("/api/v1/nodes/{}", node.name);
        let labels: BTreeMap<&str, &str> = node.labels().into();
        vec![
            Call::create(
                "/api/v1/nodes".to_owned(),
                json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node.name, "labels": labels } }),
            ),
            Call::merge(path.clone(), json!({ "metadata": { "labels": labels } })),
            Call::merge(path + "/status", json!({ "status": self.status(node, false, now) })),
        ]
    }

    fn status(&self, node: &Node, lost: bool, now: &str) -> Value {
        let resources =
            json!({ "cpu": "1000", "memory": "4Ti", "pods": PODS_PER_NODE, "ephemeral-storage": "4Ti" });
        let condition = |kind: &str, healthy: &str, reason: &str| {
            let (status, reason, message) = if lost {
                ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
            } else {
                (healthy, reason, "this node is hollow")
            };
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            })
        };
        json!({
            "capacity": resources,
            "allocatable": resources,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "addresses": [
                { "type": "InternalIP", "address": self.address(&node.name) },
                { "type": "Hostname", "address": node.name },
            ],
            "nodeInfo": {
                "architecture": "hollow", "bootID": "", "containerRuntimeVersion": "hollow://1", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "hollow", "machineID": "", "operatingSystem": "linux",
                "osImage": "hollow", "systemUUID": "",
            },
        })
    }
}

/// Marks a node as lost, or no longer.
pub(super) fn mark(node: &Node, is_lost: bool) -> Call {
    let mark = if is_lost { json!("true") } else { Value::Null };
    Call::merge(
        format!("/api/v1/nodes/{}", node.name),
        json!({ "metadata": { "annotations": { LOST: mark } } }),
    )
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
