//! The PhasedRollouts, and the sets that they are about.
//!
//! One set may be named by ten thousand of them, of which one manages it and the others wait in line. So a change
//! wakes the first in line, never all of them: else ten thousand that are created, or deleted, would be planned for a hundred
//! million times.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_planner::phased_rollout::row::RolloutRow;

use super::confirmed::Part;
use super::intern::Interner;
use super::object::Parsed;
use super::store::{Name, Touched, is_older};
use super::tables::{Glance, Rows, Table};
use super::wire::{self, Extent};
use crate::shell::kinds::Kind;

/// How many in line for a set hear of changes: all where a set has two or three by mistake. Those behind them look by
/// themselves every now and then.
const FRONT: usize = 8;

/// All rows, and who is concerned by a set.
#[derive(Debug, Default)]
pub(super) struct Rollouts {
    rows: HashMap<Name, Arc<RolloutRow>>,
    /// Per set: the rollouts that name it and stay, in the order in which they get to manage it.
    lines: HashMap<Name, BTreeSet<(Timestamp, Arc<str>)>>,
    /// Per set: the rollouts that have managed it and are to let it go.
    leaving: HashMap<Name, BTreeSet<Arc<str>>>,
}

impl Rollouts {
    pub(super) fn get(&self, name: &Name) -> Option<&Arc<RolloutRow>> {
        self.rows.get(name)
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> Vec<Arc<RolloutRow>> {
        self.rows.values().cloned().collect()
    }

    /// The rollouts that a change of this set concerns.
    pub(super) fn about(&self, namespace: &Arc<str>, set: &Arc<str>) -> Vec<Touched> {
        let set = (Arc::clone(namespace), Arc::clone(set));
        let leaving = self.leaving.get(&set).into_iter().flatten();
        self.front(&set).chain(leaving).map(|name| touched(namespace, name)).collect()
    }

    /// The first in line for a set.
    fn front(&self, set: &Name) -> impl Iterator<Item = &Arc<str>> {
        self.lines.get(set).into_iter().flatten().take(FRONT).map(|(_, name)| name)
    }

    /// The first in line for each set that a rollout names or has managed so far, or that carries its mark; the second
    /// where it is the first.
    pub(super) fn rivals<'a>(
        &self,
        rollout: &RolloutRow,
        marked: impl Iterator<Item = &'a Arc<str>>,
    ) -> Vec<Arc<RolloutRow>> {
        let marked = marked.map(|set| (Arc::clone(&rollout.namespace), Arc::clone(set)));
        let sets: BTreeSet<_> = sets_of(rollout).into_iter().chain(marked).collect();
        let first = sets.iter().filter_map(|set| self.front(set).find(|name| **name != rollout.name));
        let first: BTreeSet<_> = first.collect();
        let row = |name: &Arc<str>| self.rows.get(&(Arc::clone(&rollout.namespace), Arc::clone(name)));
        first.into_iter().filter_map(row).cloned().collect()
    }

    /// Takes a rollout in. The first in line with the same target are concerned when one of them is created, deleted or
    /// names another one.
    fn insert(&mut self, row: RolloutRow) -> Vec<Touched> {
        let name = (Arc::clone(&row.namespace), Arc::clone(&row.name));
        let before = self.rows.get(&name);
        let known = |before: &Arc<RolloutRow>| {
            (&row.uid, &row.resource_version) == (&before.uid, &before.resource_version)
                || is_older(&row.resource_version, &before.resource_version)
        };
        if before.is_some_and(known) {
            return Vec::new();
        }
        let same = before.is_some_and(|before| {
            before.uid == row.uid && before.deleting == row.deleting && sets_of(before) == sets_of(&row)
        });
        if same {
            self.rows.insert(name.clone(), Arc::new(row));
            return vec![touched(&name.0, &name.1)];
        }
        let mut concerned = self.take_out(&name);
        if let Some(set) = line_of(&row) {
            self.lines.entry(set.clone()).or_default().insert((row.created, Arc::clone(&row.name)));
            concerned.extend(self.concerned(&set, &row.name));
        }
        if let Some(set) = left_by(&row) {
            self.leaving.entry(set).or_default().insert(Arc::clone(&row.name));
        }
        concerned.push(touched(&name.0, &name.1));
        self.rows.insert(name, Arc::new(row));
        concerned
    }

    fn take_out(&mut self, name: &Name) -> Vec<Touched> {
        let Some(row) = self.rows.remove(name) else { return Vec::new() };
        let mut concerned = vec![touched(&name.0, &name.1)];
        if let Some(set) = line_of(&row) {
            concerned.extend(self.concerned(&set, &row.name));
            remove_from(&mut self.lines, &set, &(row.created, Arc::clone(&row.name)));
        }
        if let Some(set) = left_by(&row) {
            remove_from(&mut self.leaving, &set, &row.name);
            concerned.extend(self.front(&set).map(|name| touched(&set.0, name)));
        }
        concerned
    }

    /// Who is concerned when this one joins or leaves the line: nobody where it is far behind.
    fn concerned(&self, set: &Name, name: &Arc<str>) -> Vec<Touched> {
        // One more than hear of changes, so that whoever moves up is among them.
        let front: Vec<_> =
            self.lines.get(set).into_iter().flatten().take(FRONT + 1).map(|(_, name)| name).collect();
        let is_in_front = front.contains(&name);
        front.into_iter().filter(|_| is_in_front).map(|name| touched(&set.0, name)).collect()
    }
}

impl Table for Rollouts {
    type Read = Box<RolloutRow>;

    fn decode(json: &str, _: Extent, interner: &mut Interner) -> Parsed<Self::Read> {
        Parsed::from(wire::rollout(json, interner)).map(Box::new)
    }

    /// Of one that could not be read the last row stays.
    fn upsert(rows: &mut Rows, _: &Name, _: Option<&str>, read: Option<Self::Read>) -> Vec<Touched> {
        let Some(row) = read else { return Vec::new() };
        let is_covered = rows.is_covered(&part(&row), &row.resource_version);
        if is_covered { Vec::new() } else { rows.rollouts.insert(*row) }
    }

    fn remove(rows: &mut Rows, name: &Name) -> Vec<Touched> {
        rows.rollouts.take_out(name)
    }

    fn parts(read: &Self::Read) -> Vec<Part> {
        vec![part(read)]
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn names(&self, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name> {
        self.rows.keys().filter(|name| wanted(name)).cloned().collect()
    }

    fn seen(&self, name: &Name) -> Option<Glance<'_>> {
        let row = self.rows.get(name)?;
        Some(Glance { uid: &row.uid, resource_version: &row.resource_version, terminating: row.deleting })
    }
}

fn part(row: &RolloutRow) -> Part {
    Part::Namespace { kind: Kind::PhasedRollout, namespace: Arc::clone(&row.namespace) }
}

fn touched(namespace: &Arc<str>, name: &Arc<str>) -> Touched {
    Touched::Rollout { namespace: Arc::clone(namespace), name: Arc::clone(name) }
}

fn remove_from<T: Ord>(index: &mut HashMap<Name, BTreeSet<T>>, set: &Name, entry: &T) {
    if let Some(entries) = index.get_mut(set) {
        entries.remove(entry);
        if entries.is_empty() {
            index.remove(set);
        }
    }
}

/// The set that a rollout is in line for.
fn line_of(rollout: &RolloutRow) -> Option<Name> {
    let target = rollout.target().filter(|_| !rollout.deleting)?;
    Some((Arc::clone(&rollout.namespace), Arc::from(target)))
}

/// The set that a rollout has managed and has to release.
fn left_by(rollout: &RolloutRow) -> Option<Name> {
    let left = rollout.managed().filter(|managed| rollout.deleting || rollout.target() != Some(managed))?;
    Some((Arc::clone(&rollout.namespace), Arc::from(left)))
}

/// The sets that a rollout names or has managed so far.
fn sets_of(rollout: &RolloutRow) -> BTreeSet<Name> {
    let names = rollout.target().into_iter().chain(rollout.managed());
    names.map(|set| (Arc::clone(&rollout.namespace), Arc::from(set))).collect()
}

#[cfg(test)]
#[path = "rollouts_tests.rs"]
mod tests;
