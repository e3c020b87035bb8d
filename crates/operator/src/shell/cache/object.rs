//! An object as it was read. Reading takes time, a megabyte of JSON some milliseconds, so it happens before the rows are
//! locked: while they are, nobody sees anything.

use std::sync::Arc;

use super::store::{Name, Store};
use super::tables::Row;
use super::wire::{Decoded, Undecodable};
use crate::shell::kinds::Kind;

/// An object of a list or a watch, decoded.
#[derive(Debug)]
pub(in crate::shell) struct ReadObject {
    pub(super) name: Name,
    /// Its version, where it could be read.
    pub(super) version: Option<Box<str>>,
    pub(super) row: Row,
    pub(super) undecodable: Option<Undecodable>,
}

/// An object of a known kind, decoded.
#[derive(Debug)]
pub(super) struct Parsed<R> {
    pub(super) name: Name,
    pub(super) version: Option<Box<str>>,
    /// What is kept of it; nothing of one that is not kept, or cannot be.
    pub(super) row: Option<R>,
    pub(super) undecodable: Option<Undecodable>,
}

impl<R> From<Result<Decoded<R>, Undecodable>> for Parsed<R> {
    fn from(decoded: Result<Decoded<R>, Undecodable>) -> Self {
        match decoded {
            Ok(Decoded { namespace, name, resource_version, row }) => {
                Self { name: (namespace, name), version: Some(resource_version), row, undecodable: None }
            }
            Err(undecodable) => Self {
                name: (Arc::clone(&undecodable.namespace), Arc::clone(&undecodable.name)),
                version: None,
                row: None,
                undecodable: Some(undecodable),
            },
        }
    }
}

impl<R> Parsed<R> {
    pub(super) fn map<S>(self, map: impl FnOnce(R) -> S) -> Parsed<S> {
        let Self { name, version, row, undecodable } = self;
        Parsed { name, version, row: row.map(map), undecodable }
    }

    pub(super) fn into_object(self, row: impl FnOnce(Option<R>) -> Row) -> ReadObject {
        let Self { name, version, row: read, undecodable } = self;
        ReadObject { name, version, row: row(read), undecodable }
    }
}

impl ReadObject {
    pub(in crate::shell) fn name(&self) -> &Arc<str> {
        &self.name.1
    }

    /// Whether it could be read.
    pub(in crate::shell) fn is_decoded(&self) -> bool {
        self.undecodable.is_none()
    }

    /// The PhasedRollout whose mark a set carries.
    pub(in crate::shell) fn mark(&self) -> Option<&str> {
        match &self.row {
            Row::StatefulSet(Some(set)) => set.row.steering.phased_rollout.as_deref(),
            _ => None,
        }
    }
}

impl Store {
    /// Reads an object; nothing is taken in.
    pub(in crate::shell) fn read(&self, kind: Kind, json: &str) -> ReadObject {
        ReadObject::decode(kind, json, self.extent, &mut self.interner())
    }

    /// Whether the view has an object at this very version.
    pub(in crate::shell) fn has(&self, object: &ReadObject) -> bool {
        let rows = self.rows();
        let cached = rows.seen(object.row.kind(), &object.name);
        cached.is_some_and(|cached| object.version.as_deref() == Some(cached.resource_version))
    }
}
