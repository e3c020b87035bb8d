//! The Services that ExtendedStatefulSets control or have left behind.

use std::sync::Arc;

use sts_plus_planner::extended::row::ExtendedRow;
use sts_plus_planner::extended::services::ServiceRow;

use super::intern::Interner;
use super::object::Parsed;
use super::owned::{ByOwner, Owned};
use super::store::{Name, Store, Touched};
use super::tables::{Glance, Rows, Table};
use super::wire::{self, Extent};
use crate::shell::kinds::Kind;

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Services {
    table: ByOwner<ServiceRow>,
}

impl Store {
    /// The Services that an object controls, and those that one of its name has left behind.
    pub fn services_of(&self, extended: &ExtendedRow) -> Vec<Arc<ServiceRow>> {
        let rows = self.rows();
        let found = |owner: &str| rows.services.table.owned_by(owner).cloned().collect::<Vec<_>>();
        [found(&extended.uid), found(&extended.path())].concat()
    }
}

impl Table for Services {
    type Read = ServiceRow;

    fn decode(json: &str, _: Extent, interner: &mut Interner) -> Parsed<ServiceRow> {
        wire::service(json, interner).into()
    }

    /// Of one that could not be read the last row stays.
    fn upsert(rows: &mut Rows, _: &Name, _: Option<&str>, read: Option<ServiceRow>) -> Vec<Touched> {
        read.map(|row| rows.services.table.upsert(row)).unwrap_or_default()
    }

    fn remove(rows: &mut Rows, name: &Name) -> Vec<Touched> {
        rows.services.table.remove(name)
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

impl Owned for ServiceRow {
    fn name(&self) -> Name {
        (Arc::clone(&self.namespace), Arc::clone(&self.name))
    }

    fn glance(&self) -> Glance<'_> {
        Glance { uid: &self.uid, resource_version: &self.resource_version, terminating: self.terminating }
    }

    fn owner(&self) -> Option<&Arc<str>> {
        self.owner.as_ref().or(self.left_by.as_ref())
    }

    fn touched(&self) -> Touched {
        Touched::Object {
            kind: Kind::Service,
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            owner: Owned::owner(self).cloned(),
        }
    }
}
