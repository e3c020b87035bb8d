//! The claims, found by what a set calls them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sts_plus_planner::extended::claims::is_named_after;
use sts_plus_planner::statefulset::world::ClaimRow;

use super::control::distinct;
use super::intern::Interner;
use super::object::Parsed;
use super::store::{Name, Touched, is_older};
use super::tables::{Glance, Rows, Table};
use super::wire::{self, Extent, split_ordinal};

/// The claims of one name without its ordinal.
type Row = BTreeMap<u32, Arc<ClaimRow>>;

/// All rows by namespace, name without ordinal, and ordinal.
#[derive(Debug, Default)]
pub(super) struct Claims {
    rows: HashMap<Arc<str>, HashMap<Box<str>, Row>>,
    count: usize,
}

/// What taking a claim in has changed for those who look at it.
#[derive(Debug)]
enum Change {
    /// Nothing that matters: its phase, its size.
    None,
    /// It is new, its owners have changed, or it is on its way out.
    Matters {
        /// The claim that was there before.
        before: Option<Arc<ClaimRow>>,
    },
}

impl Claims {
    fn get(&self, namespace: &str, name: &str) -> Option<&Arc<ClaimRow>> {
        let (stem, ordinal) = split_ordinal(name)?;
        self.rows.get(namespace)?.get(stem)?.get(&ordinal)
    }

    /// The claims that are called `<stem>-<ordinal>`.
    pub(super) fn of(&self, namespace: &str, stem: &str) -> Row {
        self.rows.get(namespace).and_then(|stems| stems.get(stem)).cloned().unwrap_or_default()
    }

    /// The claims of a namespace with names as an ExtendedStatefulSet of this name gives them.
    pub(super) fn stable(&self, namespace: &str, object: &str) -> Vec<Arc<ClaimRow>> {
        let stems = self.rows.get(namespace).into_iter().flatten();
        let own = stems.filter(|(stem, _)| is_named_after(stem, object));
        own.flat_map(|(_, rows)| rows.values().cloned()).collect()
    }

    fn insert(&mut self, namespace: &Arc<str>, row: &Arc<ClaimRow>) -> Change {
        let Some((stem, ordinal)) = split_ordinal(&row.name) else { return Change::None };
        let stems = self.rows.entry(Arc::clone(namespace)).or_default();
        if !stems.contains_key(stem) {
            stems.insert(stem.into(), Row::new());
        }
        let Some(slot) = stems.get_mut(stem) else { return Change::None };
        if slot.get(&ordinal).is_some_and(|before| {
            before.uid == row.uid && is_older(&row.resource_version, &before.resource_version)
        }) {
            return Change::None;
        }
        let before = slot.insert(ordinal, Arc::clone(row));
        self.count += usize::from(before.is_none());
        let same = before.as_ref().is_some_and(|before| {
            before.uid == row.uid
                && before.terminating == row.terminating
                && before.owners == row.owners
                && before.stable == row.stable
        });
        if same { Change::None } else { Change::Matters { before } }
    }

    fn take_out(&mut self, namespace: &str, name: &str) -> Option<Arc<ClaimRow>> {
        let (stem, ordinal) = split_ordinal(name)?;
        let stems = self.rows.get_mut(namespace)?;
        let rows = stems.get_mut(stem)?;
        let removed = rows.remove(&ordinal)?;
        self.count -= 1;
        if rows.is_empty() {
            stems.remove(stem);
        }
        if stems.is_empty() {
            self.rows.remove(namespace);
        }
        Some(removed)
    }
}

impl Table for Claims {
    type Read = ClaimRow;

    fn decode(json: &str, _: Extent, interner: &mut Interner) -> Parsed<ClaimRow> {
        wire::claim(json, interner).into()
    }

    fn upsert(
        rows: &mut Rows,
        (namespace, _): &Name,
        _: Option<&str>,
        read: Option<ClaimRow>,
    ) -> Vec<Touched> {
        let Some(row) = read.map(Arc::new) else { return Vec::new() };
        match rows.claims.insert(namespace, &row) {
            Change::None => Vec::new(),
            Change::Matters { before } => {
                let claims = before.iter().chain([&row]);
                distinct(claims.flat_map(|claim| rows.concerned_by_claim(namespace, claim)).collect())
            }
        }
    }

    fn remove(rows: &mut Rows, (namespace, name): &Name) -> Vec<Touched> {
        let removed = rows.claims.take_out(namespace, name);
        distinct(removed.map(|row| rows.concerned_by_claim(namespace, &row)).unwrap_or_default())
    }

    fn len(&self) -> usize {
        self.count
    }

    fn names(&self, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name> {
        let names = self.rows.iter().flat_map(|(namespace, stems)| {
            let rows = stems.values().flat_map(BTreeMap::values);
            rows.map(|row| (Arc::clone(namespace), Arc::from(&*row.name)))
        });
        names.filter(|name| wanted(name)).collect()
    }

    fn seen(&self, (namespace, name): &Name) -> Option<Glance<'_>> {
        let row = self.get(namespace, name)?;
        Some(Glance { uid: &row.uid, resource_version: &row.resource_version, terminating: row.terminating })
    }
}
