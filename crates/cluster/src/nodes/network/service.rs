//! Services, as far as names and addresses go.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;

use super::super::watch::{Key, Row};
use super::Endpoint;

#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::Service")]
pub(in super::super) struct Service {
    pub(super) key: Key,
    version: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// None for a headless one.
    pub(super) address: Option<IpAddr>,
    selector: BTreeMap<String, String>,
    ports: Vec<(u16, Target)>,
    publishes_unready: bool,
}

/// The port of a pod that a service's port leads to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Target {
    Number(u16),
    Name(String),
}

impl Row for Service {
    fn key(&self) -> &Key {
        &self.key
    }

    fn version(&self) -> &str {
        &self.version
    }
}

impl Service {
    /// Whether it leads to a pod as that is now.
    pub(super) fn reaches(&self, pod: &Endpoint) -> bool {
        !self.selector.is_empty()
            && pod.namespace == self.namespace
            && (pod.ready || self.publishes_unready)
            && self.selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    }

    pub(super) fn target(&self, port: u16) -> Option<Target> {
        self.ports.iter().find(|(own, _)| *own == port).map(|(_, target)| target.clone())
    }
}

impl From<wire::Service> for Service {
    fn from(wire::Service { metadata, spec }: wire::Service) -> Self {
        let ports = spec.ports.into_iter().map(|port| {
            let target = port.target_port.filter(|target| *target != Target::Number(0));
            (port.port, target.unwrap_or(Target::Number(port.port)))
        });
        Service {
            key: metadata.uid,
            version: metadata.resource_version,
            namespace: metadata.namespace,
            name: metadata.name,
            address: spec.cluster_ip.parse().ok(),
            selector: spec.selector,
            ports: ports.collect(),
            publishes_unready: spec.publish_not_ready_addresses,
        }
    }
}

/// The shapes on the wire, only as far as they are read.
mod wire {
    use super::{BTreeMap, Deserialize, Key, Target};

    #[derive(Deserialize)]
    pub(super) struct Service {
        pub(super) metadata: Metadata,
        #[serde(default)]
        pub(super) spec: Spec,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Metadata {
        pub(super) uid: Key,
        pub(super) resource_version: String,
        pub(super) namespace: String,
        pub(super) name: String,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub(super) struct Spec {
        #[serde(rename = "clusterIP")]
        pub(super) cluster_ip: String,
        pub(super) selector: BTreeMap<String, String>,
        pub(super) ports: Vec<Port>,
        pub(super) publish_not_ready_addresses: bool,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Port {
        pub(super) port: u16,
        pub(super) target_port: Option<Target>,
    }
}
