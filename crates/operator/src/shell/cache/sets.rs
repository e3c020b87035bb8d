//! The StatefulSets, found by name, UID, group, and the mark of a PhasedRollout.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sts_plus_planner::disruption::MAX_MEMBERS;
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::set::SetRow;
use sts_plus_planner::statefulset::world::SetSpec;

use super::confirmed::Part;
use super::intern::Interner;
use super::object::Parsed;
use super::store::{Name, Touched, is_older};
use super::tables::{Glance, Rows, Table};
use super::wire::{self, Extent, ReadSet};

/// The sets of each group of a namespace.
type Groups = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// All rows, and the ways to find them.
#[derive(Debug, Default)]
pub(super) struct Sets {
    rows: HashMap<Name, Arc<SetRow>>,
    /// Of the sets that could be read, while sets are controlled.
    specs: HashMap<Name, Arc<SetSpec>>,
    names: HashMap<Arc<str>, Name>,
    groups: HashMap<Arc<str>, Groups>,
    /// The sets that carry the mark of a PhasedRollout, by the namespace and name of that rollout.
    marked: HashMap<Name, BTreeSet<Arc<str>>>,
    /// The sets of ExtendedStatefulSets, by the namespace and name of the object.
    children: HashMap<Name, BTreeSet<Arc<str>>>,
}

impl Sets {
    pub(super) fn get(&self, name: &Name) -> Option<&Arc<SetRow>> {
        self.rows.get(name)
    }

    pub(super) fn named(&self, namespace: &Arc<str>, name: &str) -> Option<&Arc<SetRow>> {
        self.rows.get(&(Arc::clone(namespace), Arc::from(name)))
    }

    /// The set of this namespace with this UID.
    pub(super) fn of_uid(&self, namespace: &str, uid: &str) -> Option<&Arc<SetRow>> {
        self.rows.get(self.names.get(uid).filter(|name| *name.0 == *namespace)?)
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<SetRow>> {
        self.rows.values()
    }

    pub(super) fn spec(&self, name: &Name) -> Option<&Arc<SetSpec>> {
        self.specs.get(name)
    }

    /// The names of those that have a spec, in no order.
    pub(super) fn specified(&self) -> impl Iterator<Item = &Name> {
        self.specs.keys()
    }

    /// The names of the sets of a group.
    pub(super) fn names_in_group(
        &self,
        namespace: &Arc<str>,
        group: &Arc<str>,
    ) -> Option<&BTreeSet<Arc<str>>> {
        self.groups.get(namespace)?.get(group)
    }

    /// The sets of a group, by name.
    pub(super) fn in_group(
        &self,
        namespace: &Arc<str>,
        group: &Arc<str>,
    ) -> impl Iterator<Item = &Arc<SetRow>> {
        let names = self.names_in_group(namespace, group).into_iter().flatten();
        let namespace = Arc::clone(namespace);
        names.filter_map(move |set| self.rows.get(&(Arc::clone(&namespace), Arc::clone(set))))
    }

    /// The groups of a namespace, each with the names of its sets.
    pub(super) fn groups_of(&self, namespace: &Arc<str>) -> Option<&Groups> {
        self.groups.get(namespace)
    }

    /// The namespace and name of every group, in no order.
    pub(super) fn groups(&self) -> impl Iterator<Item = Name> {
        self.groups.iter().flat_map(|(namespace, groups)| {
            groups.keys().map(move |group| (Arc::clone(namespace), Arc::clone(group)))
        })
    }

    /// The names of the sets that carry the mark of a rollout.
    pub(super) fn marked(&self, rollout: &RolloutRow) -> impl Iterator<Item = &Arc<str>> {
        let rollout = (Arc::clone(&rollout.namespace), Arc::clone(&rollout.name));
        self.marked.get(&rollout).into_iter().flatten()
    }

    /// The sets of the ExtendedStatefulSets of this name, by name.
    pub(super) fn children(
        &self,
        namespace: &Arc<str>,
        owner: &Arc<str>,
    ) -> impl Iterator<Item = &Arc<SetRow>> {
        let names = self.children.get(&(Arc::clone(namespace), Arc::clone(owner))).into_iter().flatten();
        let namespace = Arc::clone(namespace);
        names.filter_map(move |set| self.rows.get(&(Arc::clone(&namespace), Arc::clone(set))))
    }

    fn insert(&mut self, name: &Name, row: Arc<SetRow>, spec: Option<Arc<SetSpec>>) {
        if let Some(mark) = &row.steering.phased_rollout {
            let rollout = (Arc::clone(&row.namespace), Arc::from(&**mark));
            self.marked.entry(rollout).or_default().insert(Arc::clone(&row.name));
        }
        if let Some(child) = &row.child {
            let owner = (Arc::clone(&row.namespace), Arc::clone(&child.owner_name));
            self.children.entry(owner).or_default().insert(Arc::clone(&row.name));
        }
        if let Some(spec) = spec {
            self.specs.insert(name.clone(), spec);
        }
        if let Some(group) = &row.group {
            let groups = self.groups.entry(Arc::clone(&row.namespace)).or_default();
            groups.entry(Arc::clone(group)).or_default().insert(Arc::clone(&row.name));
        }
        self.names.insert(Arc::clone(&row.uid), name.clone());
        self.rows.insert(name.clone(), row);
    }

    fn take_out(&mut self, name: &Name) -> Option<Arc<SetRow>> {
        let row = self.rows.remove(name)?;
        self.names.remove(&row.uid);
        self.specs.remove(name);
        if let Some(group) = &row.group {
            self.leave_group(&row, group);
        }
        if let Some(child) = &row.child {
            let owner = (Arc::clone(&row.namespace), Arc::clone(&child.owner_name));
            if let Some(sets) = self.children.get_mut(&owner) {
                sets.remove(&row.name);
                if sets.is_empty() {
                    self.children.remove(&owner);
                }
            }
        }
        if let Some(mark) = &row.steering.phased_rollout {
            let rollout = (Arc::clone(&row.namespace), Arc::from(&**mark));
            if let Some(sets) = self.marked.get_mut(&rollout) {
                sets.remove(&row.name);
                if sets.is_empty() {
                    self.marked.remove(&rollout);
                }
            }
        }
        Some(row)
    }

    fn leave_group(&mut self, row: &SetRow, group: &Arc<str>) {
        let Some(groups) = self.groups.get_mut(&row.namespace) else { return };
        let Some(sets) = groups.get_mut(group) else { return };
        sets.remove(&row.name);
        if sets.is_empty() {
            groups.remove(group);
        }
        if groups.is_empty() {
            self.groups.remove(&row.namespace);
        }
    }
}

impl Table for Sets {
    type Read = Box<ReadSet>;

    fn decode(json: &str, extent: Extent, interner: &mut Interner) -> Parsed<Self::Read> {
        match wire::set(json, extent, interner) {
            Ok(set) => Parsed::from(Ok(set)).map(Box::new),
            // It gets a row all the same, so that its group knows of it.
            Err(undecodable) => {
                let row = wire::unreadable_set(json, interner);
                let version = row.as_ref().map(|row| row.resource_version.clone());
                let row = row.map(|row| Box::new(ReadSet { row, spec: None }));
                Parsed { version, row, ..Parsed::from(Err(undecodable)) }
            }
        }
    }

    fn upsert(rows: &mut Rows, name: &Name, _: Option<&str>, read: Option<Self::Read>) -> Vec<Touched> {
        let (row, spec) = read.map(|read| (read.row, read.spec)).unzip();
        let before = rows.sets.get(name);
        let known = before.zip(row.as_ref()).is_some_and(|(before, row)| {
            // Versions grow over all objects of a kind: a former set of the name is older, too.
            (&row.uid, &row.resource_version) == (&before.uid, &before.resource_version)
                || is_older(&row.resource_version, &before.resource_version)
        });
        let covered = |row: &SetRow| {
            !rows.floors.is_empty()
                && parts(row).iter().any(|part| rows.is_covered(part, &row.resource_version))
        };
        if known || row.as_ref().is_some_and(covered) {
            return Vec::new();
        }
        let as_before = before
            .zip(row.as_ref())
            .is_some_and(|(b, row)| (&b.uid, b.generation) == (&row.uid, row.generation));
        let unmarked = before.and_then(|before| rows.marker(before));
        let mut touched = Self::remove(rows, name);
        // Whose mark was removed has one set less to release.
        touched.extend(unmarked);
        if let Some(row) = row {
            let (row, spec) = (Arc::new(row), spec.flatten());
            if spec.is_some() && !as_before {
                // First, so that the pass which it asks for is not under way already when it does.
                touched.insert(0, Touched::respecified(&row));
            }
            let now = Touched::set(&row);
            if !touched.contains(&now) {
                touched.push(now);
            }
            rows.sets.insert(name, row, spec);
        }
        touched
    }

    fn remove(rows: &mut Rows, name: &Name) -> Vec<Touched> {
        rows.sets.take_out(name).iter().map(|row| Touched::set(row)).collect()
    }

    fn parts(read: &Self::Read) -> Vec<Part> {
        parts(&read.row)
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

fn parts(row: &SetRow) -> Vec<Part> {
    let namespace = || Arc::clone(&row.namespace);
    let group = row.group.clone().map(|group| Part::Group { namespace: namespace(), group });
    let set = Part::Set { namespace: namespace(), name: Arc::clone(&row.name) };
    group.into_iter().chain([set]).collect()
}

impl Rows {
    /// What happens to a set also concerns the policy that scales it, the rollouts that name it, and those that name another set of its group: the
    /// gatekeeper may hold them because of this one. In a group that has too many sets none is held because of another;
    /// the set that leaves it as one too many wakes them all.
    pub(super) fn spread(&self, touched: &mut Vec<Touched>) {
        let mut concerned = Vec::new();
        for touched in touched.iter() {
            let Touched::Set { namespace, set, group } = touched else { continue };
            concerned.extend(self.rollouts.about(namespace, set));
            concerned.extend(self.scaling.about(namespace, set));
            let row = self.sets.get(&(Arc::clone(namespace), Arc::clone(set)));
            concerned.extend(row.and_then(|row| self.marker(row)));
            let group = group.as_ref().filter(|_| self.rollouts.len() > 0);
            let group = group.and_then(|group| self.sets.names_in_group(namespace, group));
            let group = group.filter(|sets| sets.len() <= MAX_MEMBERS);
            for neighbour in group.into_iter().flatten().filter(|neighbour| *neighbour != set) {
                concerned.extend(self.rollouts.about(namespace, neighbour));
            }
        }
        touched.extend(concerned);
    }

    /// The rollout whose mark a set carries, where there is one.
    fn marker(&self, set: &SetRow) -> Option<Touched> {
        let name = (Arc::clone(&set.namespace), Arc::from(set.steering.phased_rollout.as_deref()?));
        let rollout = self.rollouts.get(&name)?;
        Some(Touched::Rollout { namespace: name.0, name: Arc::clone(&rollout.name) })
    }
}
