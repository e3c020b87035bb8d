//! The rows, and the ways to find them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sts_plus_planner::disruption::MAX_MEMBERS;
use sts_plus_planner::health::Member;
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::plan::{Kind, Object};
use sts_plus_planner::pod::PodRow;
use sts_plus_planner::set::SetRow;
use sts_plus_planner::statefulset::world::Design;

use super::claims::Claims;
use super::confirmed::{Floors, Part};
use super::control;
use super::intern::Interner;
use super::object::{ReadObject, Row};
use super::revisions::Revisions;
use super::rollouts::Rollouts;
use super::wire::{Extent, ReadSet, Undecodable};
use crate::shell::api::Resource;

/// Something that a controller may have to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Touched {
    /// A set: the set itself or one of its pods has changed.
    Set {
        /// The set's namespace.
        namespace: Arc<str>,
        /// The set's name.
        set: Arc<str>,
        /// The group that the set is, or was, in.
        group: Option<Arc<str>>,
    },
    /// A set whose spec is another one than before: what failed so far may succeed now.
    Respecified {
        /// The set's namespace.
        namespace: Arc<str>,
        /// The set's name.
        set: Arc<str>,
    },
    /// A set around which something has changed that only its own controller looks at: a claim, a revision, or a pod
    /// that nothing controls.
    Surroundings {
        /// The set's namespace.
        namespace: Arc<str>,
        /// The set's name.
        set: Arc<str>,
    },
    /// A source is confirmed, so that what was refused because of it may be tried again.
    Confirmed,
    /// A PhasedRollout: itself, its set, or another one with the same target has changed.
    Rollout {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
}

impl Touched {
    fn set(row: &SetRow) -> Self {
        Self::Set {
            namespace: Arc::clone(&row.namespace),
            set: Arc::clone(&row.name),
            group: row.group.clone(),
        }
    }

    fn respecified(row: &SetRow) -> Self {
        Self::Respecified { namespace: Arc::clone(&row.namespace), set: Arc::clone(&row.name) }
    }

    pub(super) fn surroundings(row: &SetRow) -> Self {
        Self::Surroundings { namespace: Arc::clone(&row.namespace), set: Arc::clone(&row.name) }
    }
}

/// An object's namespace and name.
pub(super) type Name = (Arc<str>, Arc<str>);

/// The sets of each group of a namespace.
type Groups = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) sets: HashMap<Name, Arc<SetRow>>,
    /// Of the sets that could be read, while sets are controlled.
    pub(super) designs: HashMap<Name, Arc<Design>>,
    set_names: HashMap<Arc<str>, Name>,
    pub(super) groups: HashMap<Arc<str>, Groups>,
    /// All of them, those that nothing controls included.
    pub(super) pods: HashMap<Name, Arc<PodRow>>,
    pub(super) pods_of: HashMap<Arc<str>, Vec<Arc<PodRow>>>,
    /// The pods that nothing controls, by namespace and name.
    pub(super) ownerless: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<PodRow>>>,
    pub(super) claims: Claims,
    pub(super) revisions: Revisions,
    pub(super) rollouts: Rollouts,
    /// The sets that carry the mark of a PhasedRollout, by the namespace and name of that rollout.
    marked: HashMap<Name, BTreeSet<Arc<str>>>,
    /// How far each resource has been followed, by namespace; all of them are called by an empty name.
    pub(super) reached: HashMap<Resource, BTreeMap<Box<str>, u64>>,
    pub(super) floors: Floors,
}

/// All rows of the process. Whoever asks gets rows to keep, and works on them once the lock is released: while it is
/// held, nobody sees anything and no change comes in.
#[derive(Debug, Default)]
pub struct Store {
    pub(super) extent: Extent,
    /// Locked by whoever reads objects, never together with the rows.
    interner: Mutex<Interner>,
    rows: Mutex<Rows>,
}

/// What an event did.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(super) name: Option<Name>,
    /// The version of the object, where it could be read.
    pub(super) version: Option<Box<str>>,
    pub(super) touched: Vec<Touched>,
    pub(super) undecodable: Option<Undecodable>,
}

impl Store {
    pub(super) fn with(extent: Extent) -> Self {
        Self { extent, ..Self::default() }
    }

    pub(super) fn interner(&self) -> MutexGuard<'_, Interner> {
        self.interner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rows(&self) -> MutexGuard<'_, Rows> {
        // Rows are replaced whole, so a panic elsewhere cannot have left one half written.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sets of a group with their pods.
    pub fn group(&self, namespace: &Arc<str>, group: &Arc<str>) -> Vec<Member> {
        let found: Vec<_> = {
            let rows = self.rows();
            let names = rows.groups.get(namespace).and_then(|groups| groups.get(group));
            let sets = names.into_iter().flatten();
            let sets = sets.filter_map(|set| rows.sets.get(&(Arc::clone(namespace), Arc::clone(set))));
            sets.map(|set| rows.with_pods(set)).collect()
        };
        found.into_iter().map(|(set, pods)| Member::new(set, pods)).collect()
    }

    /// How many sets a group has.
    pub fn group_sets(&self, namespace: &Arc<str>, group: &Arc<str>) -> usize {
        self.rows().groups.get(namespace).and_then(|groups| groups.get(group)).map_or(0, BTreeSet::len)
    }

    /// All sets of a namespace that are in a group.
    pub fn grouped(&self, namespace: &Arc<str>) -> Vec<Arc<SetRow>> {
        let rows = self.rows();
        let grouped = rows.groups.get(namespace).into_iter().flat_map(BTreeMap::values).flatten();
        grouped.filter_map(|set| rows.sets.get(&(Arc::clone(namespace), Arc::clone(set)))).cloned().collect()
    }

    /// The sets in no group with their pods, by namespace and name.
    pub fn ungrouped(&self) -> Vec<Member> {
        let mut found: Vec<_> = {
            let rows = self.rows();
            let sets = rows.sets.values().filter(|set| set.group.is_none());
            sets.map(|set| rows.with_pods(set)).collect()
        };
        found.sort_by(|(one, _), (other, _)| {
            (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name))
        });
        found.into_iter().map(|(set, pods)| Member::new(set, pods)).collect()
    }

    /// One set with its pods.
    pub fn member(&self, namespace: &Arc<str>, name: &str) -> Option<Member> {
        let found = {
            let rows = self.rows();
            rows.sets.get(&(Arc::clone(namespace), Arc::from(name))).map(|set| rows.with_pods(set))
        };
        found.map(|(set, pods)| Member::new(set, pods))
    }

    /// One PhasedRollout.
    pub fn rollout(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Arc<RolloutRow>> {
        self.rows().rollouts.get(&(Arc::clone(namespace), Arc::clone(name))).cloned()
    }

    /// The other PhasedRollouts that are the first in line for a set that this one names or manages, or that carries its
    /// mark.
    pub fn rivals(&self, rollout: &RolloutRow) -> Vec<Arc<RolloutRow>> {
        let rows = self.rows();
        rows.rollouts.rivals(rollout, rows.marked(rollout).into_iter().flatten())
    }

    /// The sets that a PhasedRollout has managed so far or that carry its mark, in the order in which they are released.
    pub fn held(&self, rollout: &RolloutRow) -> Vec<Arc<SetRow>> {
        let rows = self.rows();
        let managed = rollout.managed().map(Arc::from);
        let names: BTreeSet<Arc<str>> =
            rows.marked(rollout).into_iter().flatten().cloned().chain(managed).collect();
        let sets = names.into_iter().filter_map(|set| rows.sets.get(&(Arc::clone(&rollout.namespace), set)));
        let mut held: Vec<_> = sets.filter(|set| rollout.holds(set)).cloned().collect();
        held.sort_by_key(|set| rollout.release_order(set));
        held
    }

    /// All PhasedRollouts, by namespace and name.
    pub fn rollouts(&self) -> Vec<Arc<RolloutRow>> {
        let mut all = self.rows().rollouts.all();
        all.sort_by(|left, right| (&left.namespace, &left.name).cmp(&(&right.namespace, &right.name)));
        all
    }

    /// One set.
    pub fn set(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Arc<SetRow>> {
        self.rows().sets.get(&(Arc::clone(namespace), Arc::clone(name))).cloned()
    }

    /// The set of this namespace with this UID.
    pub fn set_of_uid(&self, namespace: &Arc<str>, uid: &str) -> Option<Arc<SetRow>> {
        let rows = self.rows();
        let name = rows.set_names.get(uid).filter(|name| name.0 == *namespace)?;
        rows.sets.get(name).cloned()
    }

    /// Sets in no group that still carry our annotation.
    pub fn released(&self) -> Vec<Arc<SetRow>> {
        let left = |set: &&Arc<SetRow>| set.group.is_none() && set.steering.rollout_status.is_some();
        let mut released: Vec<_> = self.rows().sets.values().filter(left).cloned().collect();
        released.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        released
    }

    /// All groups, by namespace and name.
    pub fn groups(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let mut all: Vec<_> = {
            let rows = self.rows();
            let groups = rows.groups.iter().flat_map(|(namespace, groups)| {
                groups.keys().map(move |group| (Arc::clone(namespace), Arc::clone(group)))
            });
            groups.collect()
        };
        all.sort();
        all
    }

    /// UID, version and deletion mark of an object as last seen; `None` where it is not there.
    pub fn seen(&self, object: &Object) -> Option<Seen> {
        let name = (Arc::clone(&object.namespace), Arc::from(&*object.name));
        let rows = self.rows();
        match object.kind {
            Kind::Pod => rows.pods.get(&name).map(|pod| Seen {
                uid: pod.uid.clone(),
                resource_version: pod.resource_version.clone(),
                terminating: pod.terminating,
            }),
            Kind::StatefulSet => rows.sets.get(&name).map(|set| Seen {
                uid: (*set.uid).into(),
                resource_version: set.resource_version.clone(),
                terminating: set.deleting,
            }),
            Kind::PhasedRollout => rows.rollouts.get(&name).map(|rollout| Seen {
                uid: (*rollout.uid).into(),
                resource_version: rollout.resource_version.clone(),
                terminating: rollout.deleting,
            }),
            Kind::Claim => rows.claims.get(&object.namespace, &object.name).map(|claim| Seen {
                uid: claim.uid.clone(),
                resource_version: claim.resource_version.clone(),
                terminating: claim.terminating,
            }),
            Kind::Revision => rows.revisions.get(&name).map(|revision| Seen {
                uid: revision.row.uid.clone(),
                resource_version: revision.row.resource_version.clone(),
                terminating: revision.terminating,
            }),
        }
    }

    /// Up to which version all that happened to objects of this kind in this namespace has been taken in.
    pub fn reached(&self, object: &Object) -> Option<u64> {
        let rows = self.rows();
        let scopes = rows.reached.get(&Resource::from(object.kind))?;
        scopes.get(&*object.namespace).or_else(|| scopes.get("")).copied()
    }

    /// Notes how far a resource has been followed.
    pub(in crate::shell) fn reach(&self, resource: Resource, scope: Option<&str>, version: &str) {
        // A version that is not a number cannot be waited for, and nobody does.
        let Ok(version) = version.parse() else { return };
        let mut rows = self.rows();
        rows.drop_floors(resource, scope, version);
        let scopes = rows.reached.entry(resource).or_default();
        match scopes.get_mut(scope.unwrap_or_default()) {
            Some(reached) => *reached = version,
            None => {
                scopes.insert(scope.unwrap_or_default().into(), version);
            }
        }
    }

    /// How many rows there are.
    pub fn count(&self, resource: Resource) -> usize {
        match resource {
            Resource::StatefulSets => self.rows().sets.len(),
            Resource::PhasedRollouts => self.rows().rollouts.len(),
            Resource::Claims => self.rows().claims.len(),
            Resource::Revisions => self.rows().revisions.len(),
            _ => self.rows().pods.len(),
        }
    }

    /// Takes in an object that exists.
    pub(crate) fn upsert(&self, resource: Resource, json: &str) -> Applied {
        let object = self.read(resource, json);
        let mut rows = self.rows();
        let mut applied = rows.upsert(object);
        rows.spread(&mut applied.touched);
        applied
    }

    /// Takes in an object that is gone.
    pub(crate) fn remove(&self, resource: Resource, json: &str) -> Applied {
        // Only the name, the version and what it was part of are wanted.
        let object = ReadObject::decode(resource, json, Extent::Steering, &mut self.interner());
        let ReadObject { name, version, row, undecodable } = object;
        let version = version.filter(|_| undecodable.is_none());
        let parts = match &row {
            Row::Set(row) if undecodable.is_none() => {
                row.as_ref().map(|read| parts_of_set(&read.row)).unwrap_or_default()
            }
            Row::Rollout(_) => vec![Part::Rollouts { namespace: Arc::clone(&name.0) }],
            Row::Pod(row) => row.iter().map(part_of_pod).collect(),
            Row::Set(_) | Row::Claim(_) | Row::Revision(_) => Vec::new(),
        };
        let mut rows = self.rows();
        let covered = |version: &str| parts.iter().any(|part| rows.is_covered(part, version));
        // A read may have shown the successor of what a lagging watch reports as deleted only now.
        let row = rows.version_of(resource, &name);
        let succeeded = |version: &str| row.as_deref().is_some_and(|row| is_older(version, row));
        if version.as_deref().is_some_and(|version| covered(version) || succeeded(version)) {
            return Applied { name: Some(name), version, ..Applied::default() };
        }
        let mut touched = rows.remove(resource, &name);
        rows.spread(&mut touched);
        Applied { name: Some(name), version, touched, undecodable: None }
    }

    /// Drops all rows of a scope that a complete list of this version did not contain. What a later read has shown stays.
    pub(super) fn sweep(
        &self,
        resource: Resource,
        scope: Option<&str>,
        (listed, version): (&HashSet<Name>, &str),
    ) -> Vec<Touched> {
        let mut rows = self.rows();
        let later = |name: &Name| rows.version_of(resource, name).is_some_and(|row| is_older(version, &row));
        let in_scope = |name: &Name| {
            scope.is_none_or(|scope| *name.0 == *scope) && !listed.contains(name) && !later(name)
        };
        let mut gone: Vec<_> = match resource {
            Resource::StatefulSets => rows.sets.keys().filter(|name| in_scope(name)).cloned().collect(),
            Resource::PhasedRollouts => {
                rows.rollouts.names().filter(|name| in_scope(name)).cloned().collect()
            }
            Resource::Claims => rows.claims.names().filter(in_scope).collect(),
            Resource::Revisions => rows.revisions.names().filter(|name| in_scope(name)).cloned().collect(),
            _ => rows.pods.keys().filter(|name| in_scope(name)).cloned().collect(),
        };
        gone.sort();
        let mut touched = gone.iter().flat_map(|name| rows.remove(resource, name)).collect();
        rows.spread(&mut touched);
        touched
    }
}

/// An object as the cache last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its UID.
    pub uid: Box<str>,
    /// Its version.
    pub resource_version: Box<str>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
}

fn parts_of_set(row: &SetRow) -> Vec<Part> {
    let namespace = || Arc::clone(&row.namespace);
    let group = row.group.clone().map(|group| Part::Group { namespace: namespace(), group });
    let set = Part::Set { namespace: namespace(), name: Arc::clone(&row.name) };
    group.into_iter().chain([set]).collect()
}

fn part_of_pod(row: &PodRow) -> Part {
    Part::Pods { namespace: Arc::clone(&row.namespace), owner: Arc::clone(&row.owner) }
}

/// Versions are numbers that grow; what cannot be compared counts as newer.
pub fn is_older(version: &str, than: &str) -> bool {
    matches!((version.parse::<u64>(), than.parse::<u64>()), (Ok(version), Ok(than)) if version < than)
}

impl Rows {
    /// Takes in an object that exists; whom it concerns beyond itself is not looked for.
    pub(super) fn upsert(&mut self, object: ReadObject) -> Applied {
        let ReadObject { name, version, row, undecodable } = object;
        let touched = match row {
            Row::Set(read) => self.upsert_set(&name, read.map(|read| *read)),
            Row::Pod(row) => self.upsert_pod(&name, version.as_deref(), row),
            // The last row of the others stays.
            _ if undecodable.is_some() => Vec::new(),
            Row::Rollout(row) => row.map(|row| self.upsert_rollout(*row)).unwrap_or_default(),
            Row::Claim(row) => row.map(|row| self.upsert_claim(&name, row)).unwrap_or_default(),
            Row::Revision(row) => self.upsert_revision(&name, row),
        };
        // Of a set that could not be read the version is known, of any other such object it is not.
        Applied { name: Some(name), version, touched, undecodable }
    }

    fn upsert_set(&mut self, name: &Name, read: Option<ReadSet>) -> Vec<Touched> {
        let (row, design) = read.map(|read| (read.row, read.design)).unzip();
        let before = self.sets.get(name);
        let known = before.zip(row.as_ref()).is_some_and(|(before, row)| {
            // Versions grow over all objects of a kind: a former set of the name is older, too.
            (&row.uid, &row.resource_version) == (&before.uid, &before.resource_version)
                || is_older(&row.resource_version, &before.resource_version)
        });
        let covered = |row: &SetRow| {
            !self.floors.is_empty()
                && parts_of_set(row).iter().any(|part| self.is_covered(part, &row.resource_version))
        };
        if known || row.as_ref().is_some_and(covered) {
            return Vec::new();
        }
        let as_before = before
            .zip(row.as_ref())
            .is_some_and(|(b, row)| (&b.uid, b.generation) == (&row.uid, row.generation));
        let unmarked = before.and_then(|before| self.marker(before));
        let mut touched = self.remove(Resource::StatefulSets, name);
        // Whose mark was removed has one set less to release.
        touched.extend(unmarked);
        if let Some(row) = row {
            let row = Arc::new(row);
            if let Some(mark) = &row.steering.phased_rollout {
                let rollout = (Arc::clone(&row.namespace), Arc::from(&**mark));
                self.marked.entry(rollout).or_default().insert(Arc::clone(&row.name));
            }
            if let Some(design) = design.flatten() {
                self.designs.insert(name.clone(), design);
                if !as_before {
                    // First, so that the pass which it asks for is not under way already when it does.
                    touched.insert(0, Touched::respecified(&row));
                }
            }
            if let Some(group) = &row.group {
                let groups = self.groups.entry(Arc::clone(&row.namespace)).or_default();
                groups.entry(Arc::clone(group)).or_default().insert(Arc::clone(&row.name));
            }
            let now = Touched::set(&row);
            if !touched.contains(&now) {
                touched.push(now);
            }
            self.set_names.insert(Arc::clone(&row.uid), name.clone());
            self.sets.insert(name.clone(), row);
        }
        touched
    }

    fn upsert_rollout(&mut self, row: RolloutRow) -> Vec<Touched> {
        let part = Part::Rollouts { namespace: Arc::clone(&row.namespace) };
        if self.is_covered(&part, &row.resource_version) { Vec::new() } else { self.rollouts.upsert(row) }
    }

    /// What happens to a set also concerns the rollouts that name it, and those that name another set of its group: the
    /// gatekeeper may hold them because of this one. In a group that has too many sets none is held because of another;
    /// the set that leaves it as one too many wakes them all.
    pub(super) fn spread(&self, touched: &mut Vec<Touched>) {
        let mut concerned = Vec::new();
        for touched in touched.iter() {
            let Touched::Set { namespace, set, group } = touched else { continue };
            concerned.extend(self.rollouts.about(namespace, set));
            let row = self.sets.get(&(Arc::clone(namespace), Arc::clone(set)));
            concerned.extend(row.and_then(|row| self.marker(row)));
            let groups = self.groups.get(namespace).filter(|_| self.rollouts.len() > 0);
            let group = groups.zip(group.as_ref()).and_then(|(groups, group)| groups.get(group));
            let group = group.filter(|sets| sets.len() <= MAX_MEMBERS);
            for neighbour in group.into_iter().flatten().filter(|neighbour| *neighbour != set) {
                concerned.extend(self.rollouts.about(namespace, neighbour));
            }
        }
        touched.extend(concerned);
    }

    /// The names of the sets that carry the mark of a rollout.
    fn marked(&self, rollout: &RolloutRow) -> Option<&BTreeSet<Arc<str>>> {
        self.marked.get(&(Arc::clone(&rollout.namespace), Arc::clone(&rollout.name)))
    }

    /// The rollout whose mark a set carries, where there is one.
    fn marker(&self, set: &SetRow) -> Option<Touched> {
        let name = (Arc::clone(&set.namespace), Arc::from(set.steering.phased_rollout.as_deref()?));
        let rollout = self.rollouts.get(&name)?;
        Some(Touched::Rollout { namespace: name.0, name: Arc::clone(&rollout.name) })
    }

    /// Takes a pod in; without a version, one that could not be read, which counts as missing.
    fn upsert_pod(&mut self, name: &Name, version: Option<&str>, row: Option<PodRow>) -> Vec<Touched> {
        let Some(version) = version else { return self.remove(Resource::Pods, name) };
        let before = self.pods.get(name).cloned();
        let known = before.as_ref().is_some_and(|before| {
            *version == *before.resource_version || is_older(version, &before.resource_version)
        });
        let covered = |row: &PodRow| !self.floors.is_empty() && self.is_covered(&part_of_pod(row), version);
        if known || row.as_ref().is_some_and(covered) {
            return Vec::new();
        }
        let mut touched = self.remove(Resource::Pods, name);
        if let Some(row) = row {
            let row = Arc::new(row);
            if row.owner.is_empty() {
                if control::is_news(before.as_deref(), &row) {
                    touched.extend(self.concerned_by_orphan(&row));
                }
                let pods = self.ownerless.entry(Arc::clone(&row.namespace)).or_default();
                pods.insert(Arc::clone(&name.1), Arc::clone(&row));
            } else {
                let owner = self.owner(&row);
                touched.extend(owner.filter(|owner| !touched.contains(owner)));
                self.pods_of.entry(Arc::clone(&row.owner)).or_default().push(Arc::clone(&row));
            }
            self.pods.insert(name.clone(), row);
        }
        touched
    }

    pub(super) fn remove(&mut self, resource: Resource, name: &Name) -> Vec<Touched> {
        match resource {
            Resource::StatefulSets => self.remove_set(name).into_iter().collect(),
            Resource::PhasedRollouts => self.rollouts.remove(name),
            Resource::Claims => self.remove_claim(name),
            Resource::Revisions => self.remove_revision(name),
            _ => self.remove_pod(name).into_iter().collect(),
        }
    }

    fn remove_set(&mut self, name: &Name) -> Option<Touched> {
        let row = self.sets.remove(name)?;
        self.set_names.remove(&row.uid);
        self.designs.remove(name);
        if let Some(group) = &row.group {
            self.leave_group(&row, group);
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
        Some(Touched::set(&row))
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

    fn remove_pod(&mut self, name: &Name) -> Option<Touched> {
        let row = self.pods.remove(name)?;
        if let Some(pods) = self.pods_of.get_mut(&row.owner) {
            pods.retain(|pod| pod.uid != row.uid);
            if pods.is_empty() {
                self.pods_of.remove(&row.owner);
            }
        } else if let Some(pods) = self.ownerless.get_mut(&row.namespace) {
            pods.remove(&name.1);
            if pods.is_empty() {
                self.ownerless.remove(&row.namespace);
            }
        }
        self.owner(&row)
    }

    fn with_pods(&self, set: &Arc<SetRow>) -> (Arc<SetRow>, Vec<Arc<PodRow>>) {
        (Arc::clone(set), self.pods_of.get(&set.uid).cloned().unwrap_or_default())
    }

    fn owner(&self, pod: &PodRow) -> Option<Touched> {
        self.controller(&pod.namespace, &pod.owner).map(|set| Touched::set(set))
    }

    /// The set of this namespace with this UID.
    pub(super) fn controller(&self, namespace: &Arc<str>, uid: &Arc<str>) -> Option<&Arc<SetRow>> {
        let name = self.set_names.get(uid).filter(|name| name.0 == *namespace)?;
        self.sets.get(name)
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
