//! The claims, found by what a set calls them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sts_plus_planner::statefulset::world::ClaimRow;

use super::store::{Name, is_older};
use super::wire::split_ordinal;

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
pub(super) enum Change {
    /// Nothing that matters: its phase, its size.
    None,
    /// It is new, its owners have changed, or it is on its way out.
    Matters {
        /// The claim that was there before.
        before: Option<Arc<ClaimRow>>,
    },
}

impl Claims {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<ClaimRow>> {
        let (stem, ordinal) = split_ordinal(name)?;
        self.rows.get(namespace)?.get(stem)?.get(&ordinal)
    }

    /// The claims that are called `<stem>-<ordinal>`.
    pub(super) fn of(&self, namespace: &str, stem: &str) -> Row {
        self.rows.get(namespace).and_then(|stems| stems.get(stem)).cloned().unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        self.rows.iter().flat_map(|(namespace, stems)| {
            let rows = stems.values().flat_map(BTreeMap::values);
            rows.map(|row| (Arc::clone(namespace), Arc::from(&*row.name)))
        })
    }

    pub(super) fn upsert(&mut self, namespace: &Arc<str>, row: &Arc<ClaimRow>) -> Change {
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
            before.uid == row.uid && before.terminating == row.terminating && before.owners == row.owners
        });
        if same { Change::None } else { Change::Matters { before } }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<ClaimRow>> {
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
