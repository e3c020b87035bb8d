//! Calls to pods under way, outside of the queue: probes, and calls of hooks. A pod has one of a sort at a time, and an outcome
//! is handed over once.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

/// Outcomes of one key that wait for a pass: a pass takes all of them, and a pod has one call of a sort at a time.
const MAX_WAITING: usize = 4096;

/// The calls of one sort for all keys: `W` says what each does, `O` is how it ends.
pub(super) struct PodCalls<K, W, O> {
    keys: Arc<Mutex<HashMap<K, Calling<W, O>>>>,
    /// How many were started, so that one that was given up is not taken for its successor.
    started: AtomicU64,
    /// Dropped with the controller, and the calls with it.
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Calling<W, O> {
    under_way: HashMap<Box<str>, Flight<W>>,
    outcomes: Vec<O>,
}

#[derive(Debug)]
struct Flight<W> {
    number: u64,
    what: W,
    task: AbortHandle,
}

impl<K, W, O> fmt::Debug for PodCalls<K, W, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodCalls").finish_non_exhaustive()
    }
}

impl<K, W, O> Default for PodCalls<K, W, O> {
    fn default() -> Self {
        Self { keys: Arc::default(), started: AtomicU64::default(), tasks: Mutex::default() }
    }
}

impl<W, O> Default for Calling<W, O> {
    fn default() -> Self {
        Self { under_way: HashMap::new(), outcomes: Vec::new() }
    }
}

impl<K, W, O> PodCalls<K, W, O>
where
    K: Clone + Eq + Hash + Send + 'static,
    W: Send + 'static,
    O: Send + 'static,
{
    /// The outcomes that no pass has seen, which are handed over, and the UIDs of the pods with a call under way.
    pub(super) fn take(&self, key: &K) -> (Vec<O>, BTreeSet<Box<str>>) {
        let mut keys = self.keys.lock();
        let Some(calling) = keys.get_mut(key) else { return Default::default() };
        let outcomes = std::mem::take(&mut calling.outcomes);
        let under_way = calling.under_way.keys().cloned().collect();
        if calling.under_way.is_empty() {
            keys.remove(key);
        }
        (outcomes, under_way)
    }

    /// Lets a call to a pod run beside everything else, unless one does already.
    pub(super) fn start(
        &self,
        key: &K,
        (uid, what): (&str, W),
        call: impl Future<Output = O> + Send + 'static,
        answered: impl FnOnce() + Send + 'static,
    ) {
        // Held while the task is spawned, so that its outcome finds the entry.
        let mut keys = self.keys.lock();
        let calling = keys.entry(key.clone()).or_default();
        if calling.under_way.contains_key(uid) {
            return;
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let (shared, owner, pod) = (Arc::clone(&self.keys), key.clone(), Box::<str>::from(uid));
        let task = async move {
            let outcome = call.await;
            {
                let mut keys = shared.lock();
                // A key that was forgotten meanwhile must not come back, nor a call that was given up count.
                let Some(calling) = keys.get_mut(&owner) else { return };
                if calling.under_way.get(&pod).is_none_or(|flight| flight.number != number) {
                    return;
                }
                calling.under_way.remove(&pod);
                if calling.outcomes.len() < MAX_WAITING {
                    calling.outcomes.push(outcome);
                }
            }
            answered();
        };
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        let task = tasks.spawn(task);
        calling.under_way.insert(uid.into(), Flight { number, what, task });
    }

    /// Gives up the calls of a key that are not wanted any more; whether there were any.
    pub(super) fn retain(&self, key: &K, is_wanted: impl Fn(&str, &W) -> bool) -> bool {
        let mut keys = self.keys.lock();
        let Some(calling) = keys.get_mut(key) else { return false };
        let unwanted = calling.under_way.extract_if(|uid, flight| !is_wanted(uid, &flight.what));
        let given_up = unwanted.map(|(_, flight)| flight.task.abort()).count();
        given_up > 0
    }

    /// Gives up all calls of a key that is gone.
    pub(super) fn forget(&self, key: &K) {
        for (_, flight) in self.keys.lock().remove(key).into_iter().flat_map(|calling| calling.under_way) {
            flight.task.abort();
        }
    }
}

#[cfg(test)]
#[path = "pod_calls_tests.rs"]
mod tests;
