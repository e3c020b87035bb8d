//! What keys wait for by name: whatever a refusal names wakes the one that was refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use parking_lot::{Mutex, MutexGuard};
use sts_plus_planner::plan::Awaited;
use sts_plus_planner::set::SetName;

use crate::shell::cache::Touched;

/// The keys that wait, and what for.
#[derive(Debug)]
pub(super) struct Waiting<K> {
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    by: HashMap<Awaited, BTreeSet<K>>,
    of: BTreeMap<K, Vec<Awaited>>,
    /// Of each pass under way, what was touched since it began: it may have been planned on what was before.
    missed: BTreeMap<K, BTreeSet<Awaited>>,
}

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        let state = State { by: HashMap::new(), of: BTreeMap::new(), missed: BTreeMap::new() };
        Self { state: Mutex::new(state) }
    }
}

impl<K: Clone + Ord + Hash> Waiting<K> {
    /// A pass over the key begins.
    pub(super) fn begin(&self, key: &K) {
        self.state().missed.insert(key.clone(), BTreeSet::new());
    }

    /// A pass over the key has ended whose plan waits for these, in the place of what it waited for before. Whether one of
    /// them was touched in the meantime.
    pub(super) fn end(&self, key: &K, awaited: &[Awaited]) -> bool {
        let mut state = self.state();
        let missed = state.missed.remove(key).unwrap_or_default();
        state.wait_for(key, awaited);
        awaited.iter().any(|awaited| missed.contains(awaited))
    }

    /// A pass over the key has ended without a plan: what it waits for is as before.
    pub(super) fn give_up(&self, key: &K) {
        self.state().missed.remove(key);
    }

    /// The key is gone.
    pub(super) fn forget(&self, key: &K) {
        let mut state = self.state();
        state.missed.remove(key);
        state.wait_for(key, &[]);
    }

    /// The keys that wait for what was touched.
    pub(super) fn woken_by(&self, touched: &Touched) -> Vec<K> {
        let Touched::Set { namespace, set, group } = touched else { return Vec::new() };
        let set = Awaited::Set(SetName { namespace: namespace.clone(), name: set.clone() });
        let group = group.clone().map(|group| Awaited::Group { namespace: namespace.clone(), group });
        let touched: Vec<_> = std::iter::once(set).chain(group).collect();
        let mut state = self.state();
        for missed in state.missed.values_mut() {
            missed.extend(touched.iter().cloned());
        }
        let woken = touched.iter().filter_map(|awaited| state.by.get(awaited)).flatten();
        woken.cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock()
    }
}

impl<K: Clone + Ord + Hash> State<K> {
    fn wait_for(&mut self, key: &K, awaited: &[Awaited]) {
        if self.of.get(key).map_or(&[][..], Vec::as_slice) == awaited {
            return;
        }
        for before in self.of.remove(key).into_iter().flatten() {
            if let Some(keys) = self.by.get_mut(&before) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by.remove(&before);
                }
            }
        }
        for one in awaited {
            self.by.entry(one.clone()).or_default().insert(key.clone());
        }
        if !awaited.is_empty() {
            self.of.insert(key.clone(), awaited.to_vec());
        }
    }
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
