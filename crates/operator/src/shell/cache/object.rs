//! An object as it was read. Reading takes time, a megabyte of JSON some milliseconds, so it happens before the rows are
//! locked: while they are, nobody sees anything.

use std::sync::Arc;

use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::pod::PodRow;
use sts_plus_planner::statefulset::world::ClaimRow;

use super::intern::Interner;
use super::store::{Name, Store};
use super::wire::{self, Decoded, Extent, ReadRevision, ReadSet, Undecodable};
use crate::shell::api::Kind;

/// An object of a list or a watch, decoded.
#[derive(Debug)]
pub(in crate::shell) struct ReadObject {
    pub(super) name: Name,
    /// Its version, where it could be read.
    pub(super) version: Option<Box<str>>,
    pub(super) row: Row,
    pub(super) undecodable: Option<Undecodable>,
}

/// What is kept of an object; nothing of one that is not kept, or cannot be.
#[derive(Debug)]
pub(super) enum Row {
    Set(Option<Box<ReadSet>>),
    Rollout(Option<Box<RolloutRow>>),
    Claim(Option<ClaimRow>),
    Revision(Option<ReadRevision>),
    Pod(Option<PodRow>),
}

impl ReadObject {
    pub(super) fn decode(resource: Kind, json: &str, extent: Extent, interner: &mut Interner) -> Self {
        match resource {
            Kind::StatefulSet => match wire::set(json, extent, interner) {
                Ok(set) => Self::of(Ok(set), |row| Row::Set(row.map(Box::new))),
                // It gets a row all the same, so that its group knows of it.
                Err(undecodable) => {
                    let row = wire::unreadable_set(json, interner);
                    let version = row.as_ref().map(|row| row.resource_version.clone());
                    let row = Row::Set(row.map(|row| Box::new(ReadSet { row, design: None })));
                    Self { version, row, ..Self::of(Err(undecodable), |_: Option<()>| Row::Set(None)) }
                }
            },
            Kind::PhasedRollout => {
                Self::of(wire::rollout(json, interner), |row| Row::Rollout(row.map(Box::new)))
            }
            Kind::Claim => Self::of(wire::claim(json, interner), Row::Claim),
            Kind::Revision => Self::of(wire::revision(json, interner), Row::Revision),
            _ => Self::of(wire::pod(json, extent, interner), Row::Pod),
        }
    }

    fn of<R>(decoded: Result<Decoded<R>, Undecodable>, row: impl FnOnce(Option<R>) -> Row) -> Self {
        match decoded {
            Ok(Decoded { namespace, name, resource_version, row: read }) => Self {
                name: (namespace, name),
                version: Some(resource_version),
                row: row(read),
                undecodable: None,
            },
            Err(undecodable) => Self {
                name: (Arc::clone(&undecodable.namespace), Arc::clone(&undecodable.name)),
                version: None,
                row: row(None),
                undecodable: Some(undecodable),
            },
        }
    }

    /// Its name.
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
            Row::Set(Some(set)) => set.row.steering.phased_rollout.as_deref(),
            _ => None,
        }
    }

    fn resource(&self) -> Kind {
        match self.row {
            Row::Set(_) => Kind::StatefulSet,
            Row::Rollout(_) => Kind::PhasedRollout,
            Row::Claim(_) => Kind::Claim,
            Row::Revision(_) => Kind::Revision,
            Row::Pod(_) => Kind::Pod,
        }
    }
}

impl Store {
    /// Reads an object; nothing is taken in.
    pub(in crate::shell) fn read(&self, resource: Kind, json: &str) -> ReadObject {
        ReadObject::decode(resource, json, self.extent, &mut self.interner())
    }

    /// Whether the view has an object at this very version.
    pub(in crate::shell) fn has(&self, object: &ReadObject) -> bool {
        let cached = self.rows().version_of(object.resource(), &object.name);
        cached.is_some() && cached == object.version
    }
}
