//! The rows, and the ways to find them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sts_plus_api::extended::Group;
use sts_plus_planner::health::Member;
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::plan::{Kind, Object};
use sts_plus_planner::pod::PodRow;
use sts_plus_planner::set::SetRow;

use super::intern::Interner;
use super::object::ReadObject;
use super::tables::Rows;
use super::wire::{Extent, Undecodable};

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
    /// A Service, a claim that ExtendedStatefulSets look at, or an object of a kind that has no table of its own.
    Object {
        kind: Kind,
        /// Its namespace; empty where it is in none.
        namespace: Arc<str>,
        name: Arc<str>,
        /// The UID of the object that controls it, or did; of a Service that was left behind the path of the object.
        owner: Option<Arc<str>>,
    },
    /// A source is confirmed, so that what was refused because of it may be retried.
    Confirmed,
    /// An ExtendedStatefulSet.
    Extended {
        /// Its API group.
        group: Group,
        namespace: Arc<str>,
        name: Arc<str>,
    },
    /// A ScalingPolicy: itself, its set, or another one with the same target has changed.
    Scaling {
        /// The policy's namespace.
        namespace: Arc<str>,
        /// The policy's name.
        name: Arc<str>,
    },
    /// A PhasedRollout: itself, its set, or another one with the same target has changed.
    Rollout { namespace: Arc<str>, name: Arc<str> },
}

impl Touched {
    pub(super) fn set(row: &SetRow) -> Self {
        Self::Set {
            namespace: Arc::clone(&row.namespace),
            set: Arc::clone(&row.name),
            group: row.group.clone(),
        }
    }

    pub(super) fn respecified(row: &SetRow) -> Self {
        Self::Respecified { namespace: Arc::clone(&row.namespace), set: Arc::clone(&row.name) }
    }

    /// A claim with a stable name, or a pod that mounts it.
    pub(super) fn claim(namespace: &Arc<str>, name: &str) -> Self {
        Self::Object { kind: Kind::Claim, namespace: Arc::clone(namespace), name: name.into(), owner: None }
    }

    pub(super) fn surroundings(row: &SetRow) -> Self {
        Self::Surroundings { namespace: Arc::clone(&row.namespace), set: Arc::clone(&row.name) }
    }
}

/// An object's namespace and name.
pub(super) type Name = (Arc<str>, Arc<str>);

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
        self.interner.lock()
    }

    pub(super) fn rows(&self) -> MutexGuard<'_, Rows> {
        // Rows are replaced whole, so a panic elsewhere cannot have left one half written.
        self.rows.lock()
    }

    /// The sets of a group with their pods.
    pub fn group(&self, namespace: &Arc<str>, group: &Arc<str>) -> Vec<Member> {
        let found: Vec<_> = {
            let rows = self.rows();
            rows.sets.in_group(namespace, group).map(|set| rows.with_pods(set)).collect()
        };
        found.into_iter().map(|(set, pods)| Member::new(set, pods)).collect()
    }

    /// How many sets a group has.
    pub fn group_sets(&self, namespace: &Arc<str>, group: &Arc<str>) -> usize {
        self.rows().sets.names_in_group(namespace, group).map_or(0, BTreeSet::len)
    }

    /// The UIDs of the sets of a group.
    pub(in crate::shell) fn group_uids(&self, namespace: &Arc<str>, group: &Arc<str>) -> Vec<Arc<str>> {
        self.rows().sets.in_group(namespace, group).map(|set| Arc::clone(&set.uid)).collect()
    }

    /// All sets of a namespace that are in a group.
    pub fn grouped(&self, namespace: &Arc<str>) -> Vec<Arc<SetRow>> {
        let rows = self.rows();
        let groups = rows.sets.groups_of(namespace).into_iter().flat_map(BTreeMap::keys);
        groups.flat_map(|group| rows.sets.in_group(namespace, group)).cloned().collect()
    }

    /// The sets in no group with their pods, by namespace and name.
    pub fn ungrouped(&self) -> Vec<Member> {
        let mut found: Vec<_> = {
            let rows = self.rows();
            let sets = rows.sets.all().filter(|set| set.group.is_none());
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
            rows.sets.named(namespace, name).map(|set| rows.with_pods(set))
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
        rows.rollouts.rivals(rollout, rows.sets.marked(rollout))
    }

    /// The sets that a PhasedRollout has managed so far or that carry its mark, in the order in which they are released.
    pub fn held(&self, rollout: &RolloutRow) -> Vec<Arc<SetRow>> {
        let rows = self.rows();
        let managed = rollout.managed().map(Arc::from);
        let names: BTreeSet<Arc<str>> = rows.sets.marked(rollout).cloned().chain(managed).collect();
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

    pub fn set(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Arc<SetRow>> {
        self.rows().sets.get(&(Arc::clone(namespace), Arc::clone(name))).cloned()
    }

    /// The set of this namespace with this UID.
    pub fn set_of_uid(&self, namespace: &Arc<str>, uid: &str) -> Option<Arc<SetRow>> {
        self.rows().sets.of_uid(namespace, uid).cloned()
    }

    /// Sets in no group that still carry our annotation.
    pub fn released(&self) -> Vec<Arc<SetRow>> {
        let left = |set: &&Arc<SetRow>| set.group.is_none() && set.steering.rollout_status.is_some();
        let mut released: Vec<_> = self.rows().sets.all().filter(left).cloned().collect();
        released.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        released
    }

    /// All groups, by namespace and name.
    pub fn groups(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let mut all: Vec<_> = self.rows().sets.groups().collect();
        all.sort();
        all
    }

    /// UID, version and deletion mark of an object as last seen; `None` where it is not there.
    pub fn seen(&self, object: &Object) -> Option<Seen> {
        let name = (Arc::clone(&object.namespace), Arc::from(&*object.name));
        self.rows().seen(object.kind, &name).map(Seen::from)
    }

    /// Up to which version all that happened to objects of this kind in this namespace has been taken in.
    pub fn reached(&self, object: &Object) -> Option<u64> {
        let rows = self.rows();
        let scopes = rows.reached.get(&object.kind)?;
        scopes.get(&*object.namespace).or_else(|| scopes.get("")).copied()
    }

    /// Notes how far a kind has been followed.
    pub(in crate::shell) fn reach(&self, kind: Kind, scope: Option<&str>, version: &str) {
        // A version that is not a number cannot be waited for, and nobody does.
        let Ok(version) = version.parse() else { return };
        let mut rows = self.rows();
        rows.drop_floors(kind, scope, version);
        let scopes = rows.reached.entry(kind).or_default();
        match scopes.get_mut(scope.unwrap_or_default()) {
            Some(reached) => *reached = version,
            None => {
                scopes.insert(scope.unwrap_or_default().into(), version);
            }
        }
    }

    /// How many rows there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.rows().count(kind)
    }

    /// Takes in an object that exists.
    pub(crate) fn upsert(&self, kind: Kind, json: &str) -> Applied {
        let object = self.read(kind, json);
        let mut rows = self.rows();
        let mut applied = rows.upsert(object);
        rows.spread(&mut applied.touched);
        applied
    }

    /// Takes in an object that is gone.
    pub(crate) fn remove(&self, kind: Kind, json: &str) -> Applied {
        // Only the name, the version and what it was part of are wanted.
        let object = ReadObject::decode(kind, json, Extent::Steering, &mut self.interner());
        let ReadObject { name, version, row, undecodable } = object;
        let version = version.filter(|_| undecodable.is_none());
        let parts = row.parts();
        let mut rows = self.rows();
        let covered = |version: &str| parts.iter().any(|part| rows.is_covered(part, version));
        // A read may have shown the successor of what a lagging watch reports as deleted only now.
        let succeeded = |version: &str| rows.is_at_later(kind, &name, version);
        if version.as_deref().is_some_and(|version| covered(version) || succeeded(version)) {
            return Applied { name: Some(name), version, ..Applied::default() };
        }
        let mut touched = rows.remove(kind, &name);
        rows.spread(&mut touched);
        Applied { name: Some(name), version, touched, undecodable: None }
    }

    /// Drops all rows of a scope that a complete list of this version did not contain. What a later read has shown stays.
    pub(super) fn sweep(
        &self,
        kind: Kind,
        scope: Option<&str>,
        (listed, version): (&HashSet<Name>, &str),
    ) -> Vec<Touched> {
        let mut rows = self.rows();
        let is_gone = |name: &Name| {
            scope.is_none_or(|scope| *name.0 == *scope)
                && !listed.contains(name)
                && !rows.is_at_later(kind, name, version)
        };
        let mut gone = rows.names(kind, &is_gone);
        gone.sort();
        let mut touched = gone.iter().flat_map(|name| rows.remove(kind, name)).collect();
        rows.spread(&mut touched);
        touched
    }
}

/// An object as the cache last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub uid: Box<str>,
    pub resource_version: Box<str>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
}

/// Versions are numbers that grow; what cannot be compared counts as newer.
pub fn is_older(version: &str, than: &str) -> bool {
    matches!((version.parse::<u64>(), than.parse::<u64>()), (Ok(version), Ok(than)) if version < than)
}

impl Rows {
    /// Takes in an object that exists; whom it concerns beyond itself is not looked for.
    pub(super) fn upsert(&mut self, object: ReadObject) -> Applied {
        let ReadObject { name, version, row, undecodable } = object;
        let touched = self.take_in(&name, version.as_deref(), row);
        // Of a set that could not be read the version is known, of any other such object it is not.
        Applied { name: Some(name), version, touched, undecodable }
    }

    /// Whether an object is cached at a later version than this one.
    pub(super) fn is_at_later(&self, kind: Kind, name: &Name, version: &str) -> bool {
        self.seen(kind, name).is_some_and(|cached| is_older(version, cached.resource_version))
    }

    pub(super) fn with_pods(&self, set: &Arc<SetRow>) -> (Arc<SetRow>, Vec<Arc<PodRow>>) {
        (Arc::clone(set), self.pods.of(&set.uid).to_vec())
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
