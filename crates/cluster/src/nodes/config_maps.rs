//! The ConfigMaps that init containers wait for: their names and keys.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::pod::Pod;
use super::watch::{Event, Key, Row};
use super::wire;

/// A ConfigMap, without its values.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::ConfigMap")]
pub(super) struct ConfigMap {
    key: Key,
    version: String,
    namespace: String,
    name: String,
    keys: BTreeSet<String>,
}

impl Row for ConfigMap {
    fn key(&self) -> &Key {
        &self.key
    }

    fn version(&self) -> &str {
        &self.version
    }
}

impl From<wire::ConfigMap> for ConfigMap {
    fn from(wire::ConfigMap { metadata, data, binary }: wire::ConfigMap) -> Self {
        ConfigMap {
            key: metadata.uid,
            version: metadata.resource_version,
            namespace: metadata.namespace,
            name: metadata.name,
            keys: data.into_keys().chain(binary.into_keys()).collect(),
        }
    }
}

/// All ConfigMaps that are known.
#[derive(Debug, Default)]
pub(super) struct ConfigMaps(BTreeMap<Key, ConfigMap>);

impl ConfigMaps {
    pub(super) fn take(&mut self, event: Event<ConfigMap>) {
        match event {
            Event::Seen(found) => drop(self.0.insert(found.key.clone(), found)),
            Event::Gone(key) => drop(self.0.remove(&key)),
            Event::Synced => {}
        }
    }

    /// Whether an init container of a pod waits for a key that is not there. Mounts are always up to date.
    pub(super) fn hold(&self, pod: &Pod) -> bool {
        let Some(ordinal) = pod.ordinal.map(|ordinal| ordinal.to_string()) else { return false };
        let mut awaited = pod.init_containers.iter().filter_map(|container| container.awaits.as_ref());
        awaited.any(|name| {
            let is_it = |found: &&ConfigMap| found.namespace == pod.namespace && found.name == *name;
            !self.0.values().filter(is_it).any(|found| found.keys.contains(&ordinal))
        })
    }
}
