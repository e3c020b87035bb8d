//! The kinds that have no table of their own: the metadata of their objects, found by name and by what controls them.

use std::collections::HashMap;
use std::sync::Arc;

use sts_plus_planner::metadata::MetadataRow;
use sts_plus_planner::plan::Object;

use super::confirmed::Part;
use super::intern::Interner;
use super::object::Parsed;
use super::owned::{ByOwner, Owned};
use super::store::{Name, Store, Touched};
use super::tables::{Glance, Rows};
use super::wire;
use crate::shell::kinds::Kind;

/// The rows of all those kinds.
#[derive(Debug, Default)]
pub(super) struct Others {
    tables: HashMap<Kind, ByOwner<MetadataRow>>,
}

impl Store {
    /// An object of a kind that has no table of its own.
    pub fn metadata(&self, object: &Object) -> Option<Arc<MetadataRow>> {
        let name = (Arc::clone(&object.namespace), Arc::from(&*object.name));
        self.rows().others.tables.get(&object.kind)?.rows().get(&name).cloned()
    }

    /// All objects of such a kind, by namespace and name.
    pub fn all_metadata(&self, kind: Kind) -> Vec<Arc<MetadataRow>> {
        let mut all: Vec<_> = {
            let rows = self.rows();
            rows.others
                .tables
                .get(&kind)
                .into_iter()
                .flat_map(|table| table.rows().values())
                .cloned()
                .collect()
        };
        all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        all
    }

    /// The objects of such a kind that the object with this UID controls, by namespace and name.
    pub fn metadata_owned_by(&self, kind: Kind, uid: &str) -> Vec<Arc<MetadataRow>> {
        let rows = self.rows();
        rows.others.tables.get(&kind).into_iter().flat_map(|table| table.owned_by(uid)).cloned().collect()
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
        self.tables.get(&kind).map_or(0, |table| table.rows().len())
    }

    pub(super) fn names(&self, kind: Kind, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name> {
        let names = self.tables.get(&kind).into_iter().flat_map(|table| table.rows().keys());
        names.filter(|name| wanted(name)).cloned().collect()
    }

    pub(super) fn seen(&self, kind: Kind, name: &Name) -> Option<Glance<'_>> {
        self.tables.get(&kind)?.rows().get(name).map(|row| row.glance())
    }

    fn upsert(&mut self, row: MetadataRow) -> Vec<Touched> {
        self.tables.entry(row.kind).or_default().upsert(row)
    }

    pub(super) fn remove(&mut self, kind: Kind, name: &Name) -> Vec<Touched> {
        self.tables.get_mut(&kind).map(|table| table.remove(name)).unwrap_or_default()
    }
}

impl Owned for MetadataRow {
    fn name(&self) -> Name {
        (Arc::clone(&self.namespace), Arc::clone(&self.name))
    }

    fn glance(&self) -> Glance<'_> {
        Glance { uid: &self.uid, resource_version: &self.resource_version, terminating: self.terminating }
    }

    fn owner(&self) -> Option<&Arc<str>> {
        self.owner.as_ref()
    }

    fn touched(&self) -> Touched {
        Touched::Object {
            kind: self.kind,
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            owner: self.owner.clone(),
        }
    }
}

#[cfg(test)]
#[path = "others_tests.rs"]
mod tests;
