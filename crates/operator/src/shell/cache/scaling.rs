//! The ScalingPolicies, and the sets that they scale.
//!
//! One set may be named by many of them, of which the first in line scales it. A change of the set wakes the first ones, which
//! are all where there are two by mistake.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_planner::scaling::row::ScalingRow;

use super::confirmed::Part;
use super::intern::Interner;
use super::object::Parsed;
use super::store::{Name, Store, Touched, is_older};
use super::tables::{Glance, Rows, Table};
use super::wire::{self, Extent};
use crate::shell::kinds::Kind;

/// How many in line for a set hear of its changes. Whoever moves up does so because one before it is deleted, of which it hears
/// as well.
const FRONT: usize = 8;

/// All rows, and who is concerned by a set.
#[derive(Debug, Default)]
pub(super) struct Scaling {
    rows: HashMap<Name, Arc<ScalingRow>>,
    /// Per set: the policies that name it, in the order in which they get to scale it.
    lines: HashMap<Name, BTreeSet<(Timestamp, Arc<str>)>>,
    /// The names of the policies that an object controls, by its UID.
    owned: HashMap<Arc<str>, BTreeSet<Name>>,
}

impl Scaling {
    /// The policies that a change of this set concerns.
    pub(super) fn about(&self, namespace: &Arc<str>, set: &Arc<str>) -> Vec<Touched> {
        if self.lines.is_empty() {
            return Vec::new();
        }
        let set = (Arc::clone(namespace), Arc::clone(set));
        self.front(&set, FRONT).map(|name| touched(namespace, name)).collect()
    }

    /// The first in line for a set.
    fn front(&self, set: &Name, length: usize) -> impl Iterator<Item = &Arc<str>> {
        self.lines.get(set).into_iter().flatten().take(length).map(|(_, name)| name)
    }

    /// The first in line for the set of a policy, without itself.
    fn others(&self, policy: &ScalingRow) -> Vec<Arc<ScalingRow>> {
        let Some(set) = set_of(policy) else { return Vec::new() };
        let names = self.front(&set, FRONT).filter(|name| **name != policy.name);
        names.filter_map(|name| self.rows.get(&(Arc::clone(&set.0), Arc::clone(name)))).cloned().collect()
    }

    /// Takes a policy in. The first in line are concerned when one of them is created or deleted.
    fn insert(&mut self, row: ScalingRow) -> Vec<Touched> {
        let name = (Arc::clone(&row.namespace), Arc::clone(&row.name));
        let before = self.rows.get(&name);
        let known = |before: &Arc<ScalingRow>| {
            (&row.uid, &row.resource_version) == (&before.uid, &before.resource_version)
                || is_older(&row.resource_version, &before.resource_version)
        };
        if before.is_some_and(known) {
            return Vec::new();
        }
        let place = |row: &ScalingRow| (row.created, row.deleting, set_of(row), row.controller.clone());
        if before.is_some_and(|before| before.uid == row.uid && place(before) == place(&row)) {
            self.rows.insert(name.clone(), Arc::new(row));
            return vec![touched(&name.0, &name.1)];
        }
        let mut concerned = self.take_out(&name);
        if let Some(set) = set_of(&row) {
            self.lines.entry(set.clone()).or_default().insert((row.created, Arc::clone(&row.name)));
            concerned.extend(self.concerned(&set, &row.name));
        }
        concerned.push(touched(&name.0, &name.1));
        if !row.controller.is_empty() {
            self.owned.entry(Arc::clone(&row.controller)).or_default().insert(name.clone());
        }
        self.rows.insert(name, Arc::new(row));
        concerned
    }

    fn take_out(&mut self, name: &Name) -> Vec<Touched> {
        let Some(row) = self.rows.remove(name) else { return Vec::new() };
        let mut concerned = vec![touched(&name.0, &name.1)];
        if let Some(owned) = self.owned.get_mut(&row.controller) {
            owned.remove(name);
            if owned.is_empty() {
                self.owned.remove(&row.controller);
            }
        }
        if let Some(set) = set_of(&row) {
            concerned.extend(self.concerned(&set, &row.name));
            if let Some(line) = self.lines.get_mut(&set) {
                line.remove(&(row.created, Arc::clone(&row.name)));
                if line.is_empty() {
                    self.lines.remove(&set);
                }
            }
        }
        concerned
    }

    /// Who is concerned when this one joins or leaves the line: nobody where it is far behind.
    fn concerned(&self, set: &Name, name: &Arc<str>) -> Vec<Touched> {
        // One more than hear of changes, so that whoever moves up is among them.
        let front: Vec<_> = self.front(set, FRONT + 1).collect();
        let is_in_front = front.contains(&name);
        front.into_iter().filter(|_| is_in_front).map(|name| touched(&set.0, name)).collect()
    }
}

impl Store {
    /// One ScalingPolicy.
    pub fn scaling(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Arc<ScalingRow>> {
        self.rows().scaling.rows.get(&(Arc::clone(namespace), Arc::clone(name))).cloned()
    }

    /// The one with this UID.
    pub fn scaling_of_uid(&self, uid: &str) -> Option<Arc<ScalingRow>> {
        self.rows().scaling.rows.values().find(|row| *row.uid == *uid).cloned()
    }

    /// All of them, by namespace and name.
    pub fn all_scaling(&self) -> Vec<Arc<ScalingRow>> {
        let mut all: Vec<_> = self.rows().scaling.rows.values().cloned().collect();
        all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        all
    }

    /// The policies that an object controls, and those that have one of these names in its namespace.
    pub fn scaling_of<'n>(
        &self,
        (namespace, uid): (&Arc<str>, &Arc<str>),
        names: impl Iterator<Item = &'n Arc<str>>,
    ) -> Vec<Arc<ScalingRow>> {
        let rows = self.rows();
        let controlled = rows.scaling.owned.get(uid).into_iter().flatten().cloned();
        let of_sets = names.map(|name| (Arc::clone(namespace), Arc::clone(name)));
        let all: BTreeSet<Name> = controlled.chain(of_sets).collect();
        all.iter().filter_map(|name| rows.scaling.rows.get(name)).cloned().collect()
    }

    /// The policies that come first of those with the same target, without this one.
    pub fn scaling_others(&self, policy: &ScalingRow) -> Vec<Arc<ScalingRow>> {
        self.rows().scaling.others(policy)
    }
}

impl Table for Scaling {
    type Read = Box<ScalingRow>;

    fn decode(json: &str, _: Extent, interner: &mut Interner) -> Parsed<Self::Read> {
        Parsed::from(wire::scaling(json, interner)).map(Box::new)
    }

    /// Of one that could not be read the last row stays.
    fn upsert(rows: &mut Rows, _: &Name, _: Option<&str>, read: Option<Self::Read>) -> Vec<Touched> {
        let Some(row) = read else { return Vec::new() };
        let is_covered = rows.is_covered(&part(&row), &row.resource_version);
        if is_covered { Vec::new() } else { rows.scaling.insert(*row) }
    }

    fn remove(rows: &mut Rows, name: &Name) -> Vec<Touched> {
        rows.scaling.take_out(name)
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

fn part(row: &ScalingRow) -> Part {
    Part::Namespace { kind: Kind::ScalingPolicy, namespace: Arc::clone(&row.namespace) }
}

fn touched(namespace: &Arc<str>, name: &Arc<str>) -> Touched {
    Touched::Scaling { namespace: Arc::clone(namespace), name: Arc::clone(name) }
}

/// The set that a policy names.
fn set_of(policy: &ScalingRow) -> Option<Name> {
    Some((Arc::clone(&policy.namespace), Arc::from(policy.target()?)))
}

#[cfg(test)]
#[path = "scaling_tests.rs"]
mod tests;
