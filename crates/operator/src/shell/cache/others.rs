//! The kinds that have no table of their own: the metadata of their objects, found by name and by what controls them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sts_plus_planner::metadata::MetadataRow;
use sts_plus_planner::plan::Object;

use super::confirmed::Part;
use super::intern::Interner;
use super::object::Parsed;
use super::store::{Name, Store, Touched, is_older};
use super::tables::{Glance, Rows};
use super::wire;
use crate::shell::kinds::Kind;

/// The rows of all those kinds.
#[derive(Debug, Default)]
pub(super) struct Others {
    tables: HashMap<Kind, Metadata>,
}

/// The rows of one of them.
#[derive(Debug, Default)]
struct Metadata {
    rows: HashMap<Name, Arc<MetadataRow>>,
    /// The names of those that something controls, by its UID.
    owned: HashMap<Arc<str>, BTreeSet<Name>>,
}

impl Store {
    /// An object of a kind that has no table of its own.
    pub fn metadata(&self, object: &Object) -> Option<Arc<MetadataRow>> {
        let name = (Arc::clone(&object.namespace), Arc::from(&*object.name));
        self.rows().others.tables.get(&object.kind)?.rows.get(&name).cloned()
    }

    /// All objects of such a kind, by namespace and name.
    pub fn all_metadata(&self, kind: Kind) -> Vec<Arc<MetadataRow>> {
        let mut all: Vec<_> = {
            let rows = self.rows();
            rows.others.tables.get(&kind).into_iter().flat_map(|table| table.rows.values()).cloned().collect()
        };
        all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        all
    }

    /// The objects of such a kind that the object with this UID controls, by namespace and name.
    pub fn metadata_owned_by(&self, kind: Kind, uid: &str) -> Vec<Arc<MetadataRow>> {
        let rows = self.rows();
        let Some(table) = rows.others.tables.get(&kind) else { return Vec::new() };
        let names = table.owned.get(uid).into_iter().flatten();
        names.filter_map(|name| table.rows.get(name)).cloned().collect()
    }
}

impl Rows {
    pub(super) fn upsert_other(&mut self, row: MetadataRow) -> Vec<Touched> {
        let covered = !self.floors.is_empty() && self.is_covered(&Others::part(&row), &row.resource_version);
        if covered { Vec::new() } else { self.others.upsert(row) }
    }
}

impl Others {
    pub(super) fn decode(kind: Kind, json: &str, interner: &mut Interner) -> Parsed<MetadataRow> {
        wire::metadata(kind, json, interner).into()
    }

    pub(super) fn part(row: &MetadataRow) -> Part {
        Part::Namespace { kind: row.kind, namespace: Arc::clone(&row.namespace) }
    }

    pub(super) fn len(&self, kind: Kind) -> usize {
        self.tables.get(&kind).map_or(0, |table| table.rows.len())
    }

    pub(super) fn names(&self, kind: Kind, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name> {
        let names = self.tables.get(&kind).into_iter().flat_map(|table| table.rows.keys());
        names.filter(|name| wanted(name)).cloned().collect()
    }

    pub(super) fn seen(&self, kind: Kind, name: &Name) -> Option<Glance<'_>> {
        let row = self.tables.get(&kind)?.rows.get(name)?;
        Some(Glance { uid: &row.uid, resource_version: &row.resource_version, terminating: row.terminating })
    }

    fn upsert(&mut self, row: MetadataRow) -> Vec<Touched> {
        let name = (Arc::clone(&row.namespace), Arc::clone(&row.name));
        let table = self.tables.entry(row.kind).or_default();
        let known = |before: &Arc<MetadataRow>| {
            (&before.uid, &before.resource_version) == (&row.uid, &row.resource_version)
                || is_older(&row.resource_version, &before.resource_version)
        };
        if table.rows.get(&name).is_some_and(known) {
            return Vec::new();
        }
        let mut concerned: Vec<_> = table.remove(&name).iter().map(|before| touched(before)).collect();
        let now = touched(&row);
        if !concerned.contains(&now) {
            concerned.push(now);
        }
        if let Some(owner) = &row.owner {
            table.owned.entry(Arc::clone(owner)).or_default().insert(name.clone());
        }
        table.rows.insert(name, Arc::new(row));
        concerned
    }

    pub(super) fn remove(&mut self, kind: Kind, name: &Name) -> Vec<Touched> {
        let Some(table) = self.tables.get_mut(&kind) else { return Vec::new() };
        table.remove(name).iter().map(|row| touched(row)).collect()
    }
}

impl Metadata {
    fn remove(&mut self, name: &Name) -> Option<Arc<MetadataRow>> {
        let row = self.rows.remove(name)?;
        if let Some(owner) = &row.owner
            && let Some(names) = self.owned.get_mut(owner)
        {
            names.remove(name);
            if names.is_empty() {
                self.owned.remove(owner);
            }
        }
        Some(row)
    }
}

fn touched(row: &MetadataRow) -> Touched {
    Touched::Object {
        kind: row.kind,
        namespace: Arc::clone(&row.namespace),
        name: Arc::clone(&row.name),
        owner: row.owner.clone(),
    }
}

#[cfg(test)]
#[path = "others_tests.rs"]
mod tests;
