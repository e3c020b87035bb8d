//! Rows that are found by name and by what controls them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::store::{Name, Touched, is_older};
use super::tables::Glance;

/// What such a row has to say about itself.
pub(super) trait Owned {
    fn name(&self) -> Name;
    fn glance(&self) -> Glance<'_>;
    /// By what it is found: the UID of the object that controls it.
    fn owner(&self) -> Option<&Arc<str>>;
    fn touched(&self) -> Touched;
}

/// The rows of one kind.
#[derive(Debug)]
pub(super) struct ByOwner<R> {
    rows: HashMap<Name, Arc<R>>,
    /// The names of those that something controls, by its UID.
    owned: HashMap<Arc<str>, BTreeSet<Name>>,
}

impl<R> Default for ByOwner<R> {
    fn default() -> Self {
        Self { rows: HashMap::new(), owned: HashMap::new() }
    }
}

impl<R: Owned> ByOwner<R> {
    pub(super) fn rows(&self) -> &HashMap<Name, Arc<R>> {
        &self.rows
    }

    /// Those that the object with this UID controls, by namespace and name.
    pub(super) fn owned_by(&self, uid: &str) -> impl Iterator<Item = &Arc<R>> {
        let names = self.owned.get(uid).into_iter().flatten();
        names.filter_map(|name| self.rows.get(name))
    }

    /// Takes in a row that is not older than the one that is there; whom that concerns.
    pub(super) fn upsert(&mut self, row: R) -> Vec<Touched> {
        let name = row.name();
        let known = |before: &Arc<R>| {
            let (before, now) = (before.glance(), row.glance());
            (before.uid, before.resource_version) == (now.uid, now.resource_version)
                || is_older(now.resource_version, before.resource_version)
        };
        if self.rows.get(&name).is_some_and(known) {
            return Vec::new();
        }
        let mut concerned = self.remove(&name);
        let now = row.touched();
        if !concerned.contains(&now) {
            concerned.push(now);
        }
        if let Some(owner) = row.owner() {
            self.owned.entry(Arc::clone(owner)).or_default().insert(name.clone());
        }
        self.rows.insert(name, Arc::new(row));
        concerned
    }

    /// Drops a row; whom that concerns.
    pub(super) fn remove(&mut self, name: &Name) -> Vec<Touched> {
        let Some(row) = self.rows.remove(name) else { return Vec::new() };
        if let Some(owner) = row.owner()
            && let Some(names) = self.owned.get_mut(owner)
        {
            names.remove(name);
            if names.is_empty() {
                self.owned.remove(owner);
            }
        }
        vec![row.touched()]
    }
}
