//! Queries under way, outside of the queue: a server that does not answer keeps nobody else waiting.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use sts_plus_planner::phased_rollout::query::{GateId, Outcome};
use tokio::task::{AbortHandle, JoinSet};

/// Answers of one key that wait to be counted: a pass counts all of them, and there are 16 checks at most.
const MAX_UNCOUNTED: usize = 64;

/// The queries of all keys.
pub(super) struct Probes<K> {
    keys: Arc<Mutex<HashMap<K, Probe>>>,
    /// Dropped with the controller, and the queries with it.
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Debug, Default)]
struct Probe {
    under_way: HashMap<String, Flight>,
    uncounted: Vec<Outcome>,
}

#[derive(Debug)]
struct Flight {
    gate: GateId,
    task: AbortHandle,
}

impl<K> fmt::Debug for Probes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes").finish_non_exhaustive()
    }
}

impl<K> Default for Probes<K> {
    fn default() -> Self {
        Self { keys: Arc::default(), tasks: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Probes<K> {
    /// The answers that wait to be counted, and the checks whose query for this gate is under way. Queries for any
    /// other gate are given up: nobody counts their answers, and each holds a slot of its server.
    pub(super) fn look(&self, key: &K, gate: Option<&GateId>) -> (Vec<Outcome>, BTreeSet<String>) {
        let mut keys = self.keys.lock();
        let Some(probe) = keys.get_mut(key) else { return Default::default() };
        let others = probe.under_way.extract_if(|_, flight| Some(&flight.gate) != gate);
        others.for_each(|(_, flight)| flight.task.abort());
        (probe.uncounted.clone(), probe.under_way.keys().cloned().collect())
    }

    /// Forgets answers that a written status has counted, or passed over.
    pub(super) fn counted(&self, key: &K, outcomes: &[Outcome]) {
        let mut keys = self.keys.lock();
        if let Some(probe) = keys.get_mut(key) {
            probe.uncounted.retain(|outcome| !outcomes.contains(outcome));
            if probe.uncounted.is_empty() && probe.under_way.is_empty() {
                keys.remove(key);
            }
        }
    }

    /// Lets a query run beside everything else; one of the same check for another gate is given up.
    pub(super) fn start(
        &self,
        key: &K,
        (check, gate): (String, GateId),
        ask: impl Future<Output = Outcome> + Send + 'static,
        answered: impl FnOnce(&Outcome) + Send + 'static,
    ) {
        let (keys, owner, name, asked_for) =
            (Arc::clone(&self.keys), key.clone(), check.clone(), gate.clone());
        let task = async move {
            let outcome = ask.await;
            {
                let mut keys = keys.lock();
                let probe = keys.entry(owner).or_default();
                if probe.under_way.get(&name).is_some_and(|flight| flight.gate == asked_for) {
                    probe.under_way.remove(&name);
                }
                if probe.uncounted.len() < MAX_UNCOUNTED {
                    probe.uncounted.push(outcome.clone());
                }
            }
            answered(&outcome);
        };
        // Held while the task is spawned, so that its answer finds the entry.
        let mut keys = self.keys.lock();
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        let task = tasks.spawn(task);
        let flight = Flight { gate, task };
        if let Some(older) = keys.entry(key.clone()).or_default().under_way.insert(check, flight) {
            older.task.abort();
        }
    }

    /// Gives up all queries of a key that is no more.
    pub(super) fn forget(&self, key: &K) {
        for flight in self.keys.lock().remove(key).into_iter().flat_map(|probe| probe.under_way) {
            flight.1.task.abort();
        }
    }
}

#[cfg(test)]
#[path = "probes_tests.rs"]
mod tests;
