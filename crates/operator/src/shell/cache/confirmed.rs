//! Taking in a consistent read of a part of a resource, without ever running backwards.
//!
//! A watch that lags delivers, after such a read, events that the read already contains. Where the read showed that an
//! object is gone, or has a successor, they would bring it back. So the version of the read is kept as the floor of what
//! it covers: events at or below it are ignored there until the watch itself has come that far.

use std::collections::HashMap;
use std::sync::Arc;

use super::object::ReadObject;
use super::store::{Store, Touched};
use super::tables::Rows;
use crate::shell::api::Kind;

/// What one consistent read covers completely.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The sets of a rollout group.
    Group {
        namespace: Arc<str>,
        /// The group's name.
        group: Arc<str>,
    },
    Set {
        namespace: Arc<str>,
        name: Arc<str>,
    },
    /// The pods that a set controls.
    Pods {
        namespace: Arc<str>,
        /// The set's UID.
        owner: Arc<str>,
    },
    /// The objects of a kind in a namespace.
    Namespace {
        kind: Kind,
        /// The namespace; empty for a kind whose objects are in none.
        namespace: Arc<str>,
    },
}

/// What was read.
#[derive(Debug)]
pub(in crate::shell) struct Reading {
    /// What the read covers, all of one resource.
    pub(in crate::shell) parts: Vec<Part>,
    /// The version of the list.
    pub(in crate::shell) version: String,
    /// The objects that exist, unless they are cached at the version at which they were read.
    pub(in crate::shell) objects: Vec<ReadObject>,
    /// The names of cached objects that do not exist any more.
    pub(in crate::shell) gone: Vec<Arc<str>>,
}

/// Up to which version each part is known from a read.
pub(super) type Floors = HashMap<Part, u64>;

impl Part {
    /// The resource that it is a part of.
    pub fn resource(&self) -> Kind {
        match self {
            Self::Group { .. } | Self::Set { .. } => Kind::StatefulSet,
            Self::Pods { .. } => Kind::Pod,
            Self::Namespace { kind, .. } => *kind,
        }
    }

    pub fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Group { namespace, .. }
            | Self::Set { namespace, .. }
            | Self::Pods { namespace, .. }
            | Self::Namespace { namespace, .. } => namespace,
        }
    }
}

impl Store {
    /// The names of the cached objects of a part.
    pub fn names_in(&self, part: &Part) -> Vec<Arc<str>> {
        self.rows().names_in(part)
    }

    /// Takes a consistent read in; whom it concerns. Nothing changes where the watch has come further already.
    pub(super) fn confirm(&self, reading: Reading) -> Vec<Touched> {
        let mut rows = self.rows();
        let version = reading.version.parse::<u64>().ok();
        if version.is_some_and(|version| reading.parts.iter().all(|part| rows.knows(part, version))) {
            return Vec::new();
        }
        let Some(first) = reading.parts.first() else { return Vec::new() };
        let (resource, namespace) = (first.resource(), Arc::clone(first.namespace()));
        for part in &reading.parts {
            rows.floors.remove(part);
        }
        let mut touched = Vec::new();
        for object in reading.objects {
            touched.extend(rows.upsert(object).touched);
        }
        for name in &reading.gone {
            let name = (Arc::clone(&namespace), Arc::clone(name));
            // One that was created since the read is there.
            if !rows.is_at_later(resource, &name, &reading.version) {
                touched.extend(rows.remove(resource, &name));
            }
        }
        if let Some(version) = version {
            rows.floors.extend(reading.parts.iter().map(|part| (part.clone(), version)));
        }
        rows.spread(&mut touched);
        touched
    }
}

impl Rows {
    fn names_in(&self, part: &Part) -> Vec<Arc<str>> {
        match part {
            Part::Group { namespace, group } => {
                self.sets.names_in_group(namespace, group).into_iter().flatten().cloned().collect()
            }
            Part::Set { namespace, name } => {
                self.sets.named(namespace, name).map(|set| Arc::clone(&set.name)).into_iter().collect()
            }
            Part::Pods { namespace, owner } => {
                let pods = self.pods.of(owner).iter().filter(|pod| pod.namespace == *namespace);
                pods.map(|pod| Arc::from(&*pod.name)).collect()
            }
            Part::Namespace { kind, namespace } => {
                self.names(*kind, &|name| name.0 == *namespace).into_iter().map(|(_, name)| name).collect()
            }
        }
    }

    /// Whether all that happened to a part up to this version is known.
    fn knows(&self, part: &Part, version: u64) -> bool {
        let scopes = self.reached.get(&part.resource());
        let reached = scopes.and_then(|scopes| scopes.get(&**part.namespace()).or_else(|| scopes.get("")));
        reached.max(self.floors.get(part)).is_some_and(|known| *known >= version)
    }

    /// Whether an event of this version was part of a read that covers it.
    pub(super) fn is_covered(&self, part: &Part, version: &str) -> bool {
        let floor = self.floors.get(part);
        floor.is_some_and(|floor| version.parse::<u64>().is_ok_and(|version| version <= *floor))
    }

    /// The watch of a resource has come to this version: what was read before is not ahead of it any more.
    pub(super) fn drop_floors(&mut self, resource: Kind, scope: Option<&str>, reached: u64) {
        if self.floors.is_empty() {
            return;
        }
        let passed = |part: &Part, floor: u64| {
            part.resource() == resource
                && scope.is_none_or(|scope| scope == &**part.namespace())
                && floor <= reached
        };
        self.floors.retain(|part, floor| !passed(part, *floor));
    }
}

#[cfg(test)]
#[path = "confirmed_tests.rs"]
mod tests;
