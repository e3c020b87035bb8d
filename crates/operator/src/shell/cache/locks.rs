//! The ConfigMaps that are locks of ScalingPolicies.

use std::sync::Arc;

use sts_plus_planner::scaling::lock::LockRow;

use super::intern::Interner;
use super::object::Parsed;
use super::owned::{ByOwner, Owned};
use super::store::{Name, Store, Touched};
use super::tables::{Glance, Rows, Table};
use super::wire::{self, Extent};
use crate::shell::kinds::Kind;

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Locks {
    table: ByOwner<LockRow>,
}

impl Store {
    /// The locks that the object with this UID controls, by name.
    pub fn locks_of(&self, uid: &str) -> Vec<Arc<LockRow>> {
        self.rows().locks.table.owned_by(uid).cloned().collect()
    }
}

impl Table for Locks {
    type Read = LockRow;

    fn decode(json: &str, _: Extent, interner: &mut Interner) -> Parsed<LockRow> {
        wire::config_map(json, interner).into()
    }

    /// Of one that could not be read the last row stays.
    fn upsert(rows: &mut Rows, _: &Name, _: Option<&str>, read: Option<LockRow>) -> Vec<Touched> {
        read.map(|row| rows.locks.table.upsert(row)).unwrap_or_default()
    }

    fn remove(rows: &mut Rows, name: &Name) -> Vec<Touched> {
        rows.locks.table.remove(name)
    }

    fn len(&self) -> usize {
        self.table.rows().len()
    }

    fn names(&self, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name> {
        self.table.rows().keys().filter(|name| wanted(name)).cloned().collect()
    }

    fn seen(&self, name: &Name) -> Option<Glance<'_>> {
        self.table.rows().get(name).map(|row| row.glance())
    }
}

impl Owned for LockRow {
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
            kind: Kind::ConfigMap,
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            owner: self.owner.clone(),
        }
    }
}
