//! A table for each kind: what is kept of its objects, how they are found, and whom they concern.
//!
//! A kind of which more than the metadata matters has a row type, a file with its [`Table`], and one line in the list at the
//! end of this one; what the process does with every kind is made from that list. All other kinds share [`Others`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use sts_plus_planner::metadata::MetadataRow;

use super::claims::Claims;
use super::confirmed::{Floors, Part};
use super::extended::Extended;
use super::intern::Interner;
use super::locks::Locks;
use super::object::{Parsed, ReadObject};
use super::others::Others;
use super::pods::Pods;
use super::revisions::Revisions;
use super::rollouts::Rollouts;
use super::scaling::Scaling;
use super::services::Services;
use super::sets::Sets;
use super::store::{Name, Seen, Touched};
use super::wire::Extent;
use crate::shell::kinds::Kind;

/// The rows of one kind.
pub(super) trait Table {
    /// What was read of an object that is to be kept.
    type Read: fmt::Debug;

    /// Reads an object.
    fn decode(json: &str, extent: Extent, interner: &mut Interner) -> Parsed<Self::Read>;

    /// Takes in an object that exists; whom that concerns. There is no version where it could not be read, and nothing was
    /// read where it is not to be kept.
    fn upsert(rows: &mut Rows, name: &Name, version: Option<&str>, read: Option<Self::Read>) -> Vec<Touched>;

    /// Drops an object; whom that concerns.
    fn remove(rows: &mut Rows, name: &Name) -> Vec<Touched>;

    /// The parts that a consistent read of this object belongs to; none for a kind that is never confirmed.
    fn parts(_read: &Self::Read) -> Vec<Part> {
        Vec::new()
    }

    /// How many rows there are.
    fn len(&self) -> usize;

    /// The names of those that are wanted.
    fn names(&self, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name>;

    /// What the executor wants to know of an object.
    fn seen(&self, name: &Name) -> Option<Glance<'_>>;
}

/// What the executor wants to know of an object, as its row has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glance<'a> {
    pub(super) uid: &'a str,
    pub(super) resource_version: &'a str,
    pub(super) terminating: bool,
}

impl From<Glance<'_>> for Seen {
    fn from(glance: Glance<'_>) -> Self {
        Self {
            uid: glance.uid.into(),
            resource_version: glance.resource_version.into(),
            terminating: glance.terminating,
        }
    }
}

macro_rules! tables {
    ($($kind:ident => $field:ident: $table:ty,)+) => {
        #[derive(Debug, Default)]
        pub(super) struct Rows {
            $(pub(super) $field: $table,)+
            pub(super) others: Others,
            /// How far each kind has been followed, by namespace; all of them are called by an empty name.
            pub(super) reached: HashMap<Kind, BTreeMap<Box<str>, u64>>,
            pub(super) floors: Floors,
        }

        /// What was read of an object; nothing of one that is not kept, or cannot be.
        #[derive(Debug)]
        pub(super) enum Row {
            $($kind(Option<<$table as Table>::Read>),)+
            Other(Kind, Option<MetadataRow>),
        }

        impl Row {
            pub(super) fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind,)+
                    Self::Other(kind, _) => *kind,
                }
            }

            /// The parts that a consistent read of this object belongs to.
            pub(super) fn parts(&self) -> Vec<Part> {
                match self {
                    $(Self::$kind(read) => read.iter().flat_map(<$table as Table>::parts).collect(),)+
                    Self::Other(_, read) => read.iter().map(Others::part).collect(),
                }
            }
        }

        impl ReadObject {
            pub(super) fn decode(kind: Kind, json: &str, extent: Extent, interner: &mut Interner) -> Self {
                match kind {
                    $(Kind::$kind => <$table as Table>::decode(json, extent, interner).into_object(Row::$kind),)+
                    kind => Others::decode(kind, json, interner).into_object(|read| Row::Other(kind, read)),
                }
            }
        }

        impl Rows {
            /// Takes in an object that exists; whom that concerns, besides those that [`Self::spread`] finds.
            pub(super) fn take_in(&mut self, name: &Name, version: Option<&str>, row: Row) -> Vec<Touched> {
                match row {
                    $(Row::$kind(read) => <$table as Table>::upsert(self, name, version, read),)+
                    Row::Other(_, read) => read.map(|read| self.upsert_other(read)).unwrap_or_default(),
                }
            }

            pub(super) fn remove(&mut self, kind: Kind, name: &Name) -> Vec<Touched> {
                match kind {
                    $(Kind::$kind => <$table as Table>::remove(self, name),)+
                    kind => self.others.remove(kind, name),
                }
            }

            pub(super) fn count(&self, kind: Kind) -> usize {
                match kind {
                    $(Kind::$kind => self.$field.len(),)+
                    kind => self.others.len(kind),
                }
            }

            pub(super) fn names(&self, kind: Kind, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name> {
                match kind {
                    $(Kind::$kind => self.$field.names(wanted),)+
                    kind => self.others.names(kind, wanted),
                }
            }

            pub(super) fn seen(&self, kind: Kind, name: &Name) -> Option<Glance<'_>> {
                match kind {
                    $(Kind::$kind => self.$field.seen(name),)+
                    kind => self.others.seen(kind, name),
                }
            }
        }
    };
}

tables! {
    StatefulSet => sets: Sets,
    Pod => pods: Pods,
    PhasedRollout => rollouts: Rollouts,
    Extended => extended: Extended<false>,
    FissileExtended => fissile: Extended<true>,
    ScalingPolicy => scaling: Scaling,
    Service => services: Services,
    ConfigMap => locks: Locks,
    Claim => claims: Claims,
    Revision => revisions: Revisions,
}
