//! The pods, found by name and by the set that controls them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sts_plus_api::keys;
use sts_plus_planner::extended::claims::is_named_after;
use sts_plus_planner::pod::PodRow;

use super::confirmed::Part;
use super::control::{self, distinct};
use super::intern::Interner;
use super::object::Parsed;
use super::store::{Name, Touched, is_older};
use super::tables::{Glance, Rows, Table};
use super::wire::{self, Extent, split_ordinal};

/// Pods of one namespace.
type ByName = BTreeMap<Arc<str>, Arc<PodRow>>;

/// All rows, and the ways to find them.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// All of them, those that nothing controls included.
    rows: HashMap<Name, Arc<PodRow>>,
    /// By the UID of the set that controls them.
    owned: HashMap<Arc<str>, Vec<Arc<PodRow>>>,
    /// The pods that nothing controls, by namespace and name.
    ownerless: HashMap<Arc<str>, ByName>,
    /// The pods that mount claims with stable names, by namespace and the claim's name without its ordinal.
    users: HashMap<Arc<str>, HashMap<Box<str>, ByName>>,
}

/// The claims with stable names that a pod mounts.
fn stable_claims(row: &PodRow) -> Vec<String> {
    let mut claims = if row.volumes.is_empty() { Vec::new() } else { row.claims() };
    claims.retain(|claim| claim.contains(keys::STABLE_CLAIM_INFIX));
    claims
}

impl Pods {
    pub(super) fn named(&self, namespace: &Arc<str>, name: &str) -> Option<&Arc<PodRow>> {
        self.rows.get(&(Arc::clone(namespace), Arc::from(name)))
    }

    /// The pods that name this UID as that of their controller, of whatever namespace.
    pub(super) fn of(&self, owner: &str) -> &[Arc<PodRow>] {
        self.owned.get(owner).map(Vec::as_slice).unwrap_or_default()
    }

    /// The pods of a namespace that nothing controls, by name.
    pub(super) fn ownerless(&self, namespace: &Arc<str>) -> impl Iterator<Item = &Arc<PodRow>> {
        self.ownerless.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// The pods of a namespace that mount claims with names as an ExtendedStatefulSet of this name gives them.
    pub(super) fn users(&self, namespace: &str, object: &str) -> Vec<Arc<PodRow>> {
        let stems = self.users.get(namespace).into_iter().flatten();
        let own = stems.filter(|(stem, _)| is_named_after(stem, object));
        let pods: BTreeMap<_, _> = own.flat_map(|(_, pods)| pods).collect();
        pods.into_values().cloned().collect()
    }

    fn insert(&mut self, name: &Name, row: Arc<PodRow>) {
        for claim in stable_claims(&row) {
            let Some((stem, _)) = split_ordinal(&claim) else { continue };
            let stems = self.users.entry(Arc::clone(&row.namespace)).or_default();
            stems.entry(stem.into()).or_default().insert(Arc::clone(&name.1), Arc::clone(&row));
        }
        if row.owner.is_empty() {
            let pods = self.ownerless.entry(Arc::clone(&row.namespace)).or_default();
            pods.insert(Arc::clone(&name.1), Arc::clone(&row));
        } else {
            self.owned.entry(Arc::clone(&row.owner)).or_default().push(Arc::clone(&row));
        }
        self.rows.insert(name.clone(), row);
    }

    fn take_out(&mut self, name: &Name) -> Option<Arc<PodRow>> {
        let row = self.rows.remove(name)?;
        for claim in stable_claims(&row) {
            let Some((stem, _)) = split_ordinal(&claim) else { continue };
            let Some(stems) = self.users.get_mut(&row.namespace) else { continue };
            if let Some(pods) = stems.get_mut(stem) {
                pods.remove(&name.1);
            }
            stems.retain(|_, pods| !pods.is_empty());
        }
        if let Some(pods) = self.owned.get_mut(&row.owner) {
            pods.retain(|pod| pod.uid != row.uid);
            if pods.is_empty() {
                self.owned.remove(&row.owner);
            }
        } else if let Some(pods) = self.ownerless.get_mut(&row.namespace) {
            pods.remove(&name.1);
            if pods.is_empty() {
                self.ownerless.remove(&row.namespace);
            }
        }
        Some(row)
    }
}

impl Table for Pods {
    type Read = PodRow;

    fn decode(json: &str, extent: Extent, interner: &mut Interner) -> Parsed<PodRow> {
        wire::pod(json, extent, interner).into()
    }

    /// One that could not be read counts as missing.
    fn upsert(rows: &mut Rows, name: &Name, version: Option<&str>, read: Option<PodRow>) -> Vec<Touched> {
        let Some(version) = version else { return Self::remove(rows, name) };
        let before = rows.pods.rows.get(name).cloned();
        let known = before.as_ref().is_some_and(|before| {
            *version == *before.resource_version || is_older(version, &before.resource_version)
        });
        let covered = |row: &PodRow| !rows.floors.is_empty() && rows.is_covered(&part(row), version);
        if known || read.as_ref().is_some_and(covered) {
            return Vec::new();
        }
        let mut touched = Self::remove(rows, name);
        if let Some(row) = read {
            if row.owner.is_empty() {
                if control::is_news(before.as_deref(), &row) {
                    touched.extend(rows.concerned_by_orphan(&row));
                }
            } else {
                let owner = rows.owner(&row);
                touched.extend(owner.filter(|owner| !touched.contains(owner)));
            }
            touched.extend(of_claims(&row));
            rows.pods.insert(name, Arc::new(row));
        }
        distinct(touched)
    }

    fn remove(rows: &mut Rows, name: &Name) -> Vec<Touched> {
        let Some(row) = rows.pods.take_out(name) else { return Vec::new() };
        rows.owner(&row).into_iter().chain(of_claims(&row)).collect()
    }

    fn parts(read: &PodRow) -> Vec<Part> {
        vec![part(read)]
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn names(&self, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name> {
        self.rows.keys().filter(|name| wanted(name)).cloned().collect()
    }

    fn seen(&self, name: &Name) -> Option<Glance<'_>> {
        let row = self.rows.get(name)?;
        Some(Glance { uid: &row.uid, resource_version: &row.resource_version, terminating: row.terminating })
    }
}

/// Whom a pod concerns whatever controls it: those whose claims it mounts.
fn of_claims(row: &PodRow) -> impl Iterator<Item = Touched> {
    stable_claims(row).into_iter().map(|claim| Touched::claim(&row.namespace, &claim))
}

fn part(row: &PodRow) -> Part {
    Part::Pods { namespace: Arc::clone(&row.namespace), owner: Arc::clone(&row.owner) }
}

impl Rows {
    fn owner(&self, pod: &PodRow) -> Option<Touched> {
        self.sets.of_uid(&pod.namespace, &pod.owner).map(|set| Touched::set(set))
    }
}
