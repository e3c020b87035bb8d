//! The PhasedRollouts, and the sets that they are about.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sts_plus_planner::phased_rollout::row::RolloutRow;

use super::store::{Name, Touched, is_older};

/// All rows, and an index from a set to the rollouts that name it or have managed it so far.
#[derive(Debug, Default)]
pub(super) struct Rollouts {
    rows: HashMap<Name, Arc<RolloutRow>>,
    about: HashMap<Name, BTreeSet<Arc<str>>>,
}

impl Rollouts {
    pub(super) fn get(&self, name: &Name) -> Option<&Arc<RolloutRow>> {
        self.rows.get(name)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.rows.keys()
    }

    pub(super) fn all(&self) -> Vec<Arc<RolloutRow>> {
        let mut all: Vec<_> = self.rows.values().cloned().collect();
        all.sort_by(|left, right| (&left.namespace, &left.name).cmp(&(&right.namespace, &right.name)));
        all
    }

    /// The rollouts that a change of this set concerns.
    pub(super) fn about(&self, namespace: &Arc<str>, set: &Arc<str>) -> Vec<Touched> {
        let names = self.about.get(&(Arc::clone(namespace), Arc::clone(set)));
        let touched =
            |name: &Arc<str>| Touched::Rollout { namespace: Arc::clone(namespace), name: Arc::clone(name) };
        names.into_iter().flatten().map(touched).collect()
    }

    /// The other rollouts of the sets that this one names or has managed so far, and of those that carry its mark.
    pub(super) fn rivals<'a>(
        &self,
        rollout: &RolloutRow,
        marked: impl Iterator<Item = &'a Arc<str>>,
    ) -> Vec<Arc<RolloutRow>> {
        let marked = marked.map(|set| (Arc::clone(&rollout.namespace), Arc::clone(set)));
        let sets: BTreeSet<_> = sets_of(rollout).into_iter().chain(marked).collect();
        let names: BTreeSet<_> = sets.iter().filter_map(|set| self.about.get(set)).flatten().collect();
        let names = names.into_iter().filter(|name| **name != rollout.name);
        names
            .filter_map(|name| self.rows.get(&(Arc::clone(&rollout.namespace), Arc::clone(name))))
            .cloned()
            .collect()
    }

    /// Takes a rollout in. Others with the same target are concerned when it comes, goes or names another one.
    pub(super) fn upsert(&mut self, row: RolloutRow) -> Vec<Touched> {
        let name = (Arc::clone(&row.namespace), Arc::clone(&row.name));
        let before = self.rows.get(&name);
        if before.is_some_and(|b| b.uid == row.uid && is_older(&row.resource_version, &b.resource_version)) {
            return Vec::new();
        }
        let same = before.is_some_and(|before| {
            before.uid == row.uid && before.deleting == row.deleting && sets_of(before) == sets_of(&row)
        });
        if same {
            self.rows.insert(name.clone(), Arc::new(row));
            return vec![Touched::Rollout { namespace: name.0, name: name.1 }];
        }
        let mut touched = self.remove(&name);
        for set in sets_of(&row) {
            self.about.entry(set.clone()).or_default().insert(Arc::clone(&row.name));
            touched.extend(self.about(&set.0, &set.1));
        }
        touched.push(Touched::Rollout { namespace: Arc::clone(&name.0), name: Arc::clone(&name.1) });
        self.rows.insert(name, Arc::new(row));
        touched
    }

    pub(super) fn remove(&mut self, name: &Name) -> Vec<Touched> {
        let Some(row) = self.rows.remove(name) else { return Vec::new() };
        let mut touched =
            vec![Touched::Rollout { namespace: Arc::clone(&name.0), name: Arc::clone(&name.1) }];
        for set in sets_of(&row) {
            touched.extend(self.about(&set.0, &set.1));
            if let Some(names) = self.about.get_mut(&set) {
                names.remove(&row.name);
                if names.is_empty() {
                    self.about.remove(&set);
                }
            }
        }
        touched
    }
}

/// The sets that a rollout names or has managed so far.
fn sets_of(rollout: &RolloutRow) -> BTreeSet<Name> {
    let names = rollout.target().into_iter().chain(rollout.managed());
    names.map(|set| (Arc::clone(&rollout.namespace), Arc::from(set))).collect()
}

#[cfg(test)]
#[path = "rollouts_tests.rs"]
mod tests;
