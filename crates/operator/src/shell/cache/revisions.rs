//! The ControllerRevisions, found by whose they are or may become.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sts_plus_planner::selector::{Labels, Selector};
use sts_plus_planner::statefulset::world::RevisionRow;

use super::control::distinct;
use super::intern::Interner;
use super::object::Parsed;
use super::store::{Name, Touched, is_older};
use super::tables::{Glance, Rows, Table};
use super::wire::{self, Extent, ReadRevision};

/// A revision and, where nothing controls it, its labels.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) row: Arc<RevisionRow>,
    pub(super) labels: Option<Arc<Labels>>,
    pub(super) terminating: bool,
}

/// All rows, and the ways to find them.
#[derive(Debug, Default)]
pub(super) struct Revisions {
    rows: HashMap<Name, Revision>,
    /// By namespace and the UID of their controller.
    owned: HashMap<Name, Vec<Arc<RevisionRow>>>,
    /// The names of those that nothing controls, by namespace.
    ownerless: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Revision {
    /// Whether a set with this selector may adopt it.
    pub(super) fn is_adoptable(&self, selector: &Selector) -> bool {
        let labels = self.labels.as_ref();
        labels.is_some_and(|labels| selector.matches(|key| labels.get(key).map(|value| &**value)))
    }
}

impl Revisions {
    /// Those that a set controls, and those that it may adopt.
    pub(super) fn of(
        &self,
        namespace: &Arc<str>,
        uid: &Arc<str>,
        selector: &Selector,
    ) -> Vec<Arc<RevisionRow>> {
        let owned = self.owned.get(&(Arc::clone(namespace), Arc::clone(uid))).into_iter().flatten();
        let ownerless = self.ownerless.get(namespace).into_iter().flatten();
        let ownerless =
            ownerless.filter_map(|name| self.rows.get(&(Arc::clone(namespace), Arc::clone(name))));
        let adoptable = ownerless.filter(|revision| revision.is_adoptable(selector));
        owned.chain(adoptable.map(|revision| &revision.row)).cloned().collect()
    }

    /// Takes a revision in; the former one and the new one, unless nothing has changed.
    fn insert(&mut self, name: &Name, read: ReadRevision) -> Option<(Option<Revision>, Revision)> {
        let ReadRevision { row, labels, terminating } = read;
        if self.rows.get(name).is_some_and(|Revision { row: before, .. }| {
            let known = before.resource_version == row.resource_version
                || is_older(&row.resource_version, &before.resource_version);
            before.uid == row.uid && known
        }) {
            return None;
        }
        let before = self.take_out(name);
        let revision = Revision { row: Arc::new(row), labels, terminating };
        match &revision.row.owner {
            Some(owner) => {
                let rows = self.owned.entry((Arc::clone(&name.0), Arc::clone(owner))).or_default();
                rows.push(Arc::clone(&revision.row));
            }
            None => {
                self.ownerless.entry(Arc::clone(&name.0)).or_default().insert(Arc::clone(&name.1));
            }
        }
        self.rows.insert(name.clone(), revision.clone());
        Some((before, revision))
    }

    fn take_out(&mut self, name: &Name) -> Option<Revision> {
        let revision = self.rows.remove(name)?;
        if let Some(owner) = &revision.row.owner {
            let key = (Arc::clone(&name.0), Arc::clone(owner));
            if let Some(rows) = self.owned.get_mut(&key) {
                rows.retain(|row| row.uid != revision.row.uid);
                if rows.is_empty() {
                    self.owned.remove(&key);
                }
            }
        } else if let Some(names) = self.ownerless.get_mut(&name.0) {
            names.remove(&name.1);
            if names.is_empty() {
                self.ownerless.remove(&name.0);
            }
        }
        Some(revision)
    }
}

impl Table for Revisions {
    type Read = ReadRevision;

    fn decode(json: &str, _: Extent, interner: &mut Interner) -> Parsed<ReadRevision> {
        wire::revision(json, interner).into()
    }

    /// Of one that could not be read the last row stays; without a row, somebody else controls it now.
    fn upsert(
        rows: &mut Rows,
        name: &Name,
        version: Option<&str>,
        read: Option<ReadRevision>,
    ) -> Vec<Touched> {
        let Some(read) = read else {
            return version.map(|_| Self::remove(rows, name)).unwrap_or_default();
        };
        let Some((before, now)) = rows.revisions.insert(name, read) else { return Vec::new() };
        let both = before.iter().chain([&now]);
        distinct(both.flat_map(|revision| rows.concerned_by_revision(name, revision)).collect())
    }

    fn remove(rows: &mut Rows, name: &Name) -> Vec<Touched> {
        let removed = rows.revisions.take_out(name);
        removed.map(|revision| rows.concerned_by_revision(name, &revision)).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn names(&self, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name> {
        self.rows.keys().filter(|name| wanted(name)).cloned().collect()
    }

    fn seen(&self, name: &Name) -> Option<Glance<'_>> {
        let Revision { row, terminating, .. } = self.rows.get(name)?;
        Some(Glance { uid: &row.uid, resource_version: &row.resource_version, terminating: *terminating })
    }
}
