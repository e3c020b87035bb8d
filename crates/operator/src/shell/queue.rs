//! A work queue: each key at most once at a time, failed keys later and later, and wake-ups at a time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::backoff;
use super::executor::Waiter;
use super::surroundings::Chance;

/// How a pass over a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do until something changes.
    Settled,
    /// Look again at that time, or when something changes.
    WakeAt(Instant),
    /// It failed: look again after a growing wait.
    Failed,
    /// It was refused because the view could not be confirmed: look again after a growing wait, or when [`Queue::confirmed`]
    /// reports that a source is confirmed.
    Unconfirmed,
    /// The server asked to come back after this time.
    ComeBack(Duration),
}

/// A queue of keys. Its length is bounded by the number of keys there are.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    wake: Notify,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    keys: HashMap<K, Entry>,
    timers: BTreeMap<(Instant, u64), K>,
    serial: u64,
    closed: bool,
    chance: Chance,
}

#[derive(Debug, Default)]
struct Entry {
    queued: bool,
    running: bool,
    /// What happened while it was running.
    again: Option<Again>,
    failures: u32,
    /// What was wrong with the last pass: that is why it is not run for a while.
    trouble: Option<Trouble>,
    timer: Option<(Instant, u64)>,
    /// Until then it is not run, whatever happens.
    not_before: Option<Instant>,
}

/// Why a pass did not do what it was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Failed,
    /// It was refused because the view could not be confirmed.
    Unconfirmed,
}

/// Why a pass is followed by another one. Ordered: the stronger reason is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Again {
    /// Something has changed.
    Touched,
    /// It shall be so however the pass ends.
    Urged,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self::new(Chance::default())
    }
}

impl<K> Queue<K> {
    /// An empty queue whose retries are spread by `chance`.
    pub fn new(chance: Chance) -> Self {
        let state = State {
            ready: VecDeque::new(),
            keys: HashMap::new(),
            timers: BTreeMap::new(),
            serial: 0,
            closed: false,
            chance,
        };
        Self { state: Mutex::new(state), wake: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash + Debug> Queue<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock()
    }

    /// Asks for a pass over the key: now, or right after the one under way, but not before a back-off is over.
    pub fn add(&self, key: K) {
        let mut state = self.state();
        state.enqueue(key, Instant::now());
        drop(state);
        self.wake.notify_one();
    }

    /// Asks for a pass over the key without waiting for the end of a back-off after failures: what failed is no more what
    /// was asked for. Whoever was asked by the server to come back later still waits.
    pub fn urge(&self, key: K) {
        let mut state = self.state();
        let entry = state.keys.entry(key.clone()).or_default();
        if entry.running {
            entry.again = Some(Again::Urged);
        }
        if entry.trouble.is_some() {
            entry.failures = 0;
            entry.not_before = None;
        }
        state.enqueue(key, Instant::now());
        drop(state);
        self.wake.notify_one();
    }

    /// A source is confirmed: the keys that were refused for lack of that are run at once.
    pub fn confirmed(&self) {
        let refused: Vec<_> = {
            let state = self.state();
            let refused = state.keys.iter().filter(|(_, entry)| entry.trouble == Some(Trouble::Unconfirmed));
            let mut refused: Vec<_> = refused.map(|(key, entry)| (entry.timer, key.clone())).collect();
            // In the order in which they would have been run, so that a run with a seed repeats.
            refused.sort_by_key(|(timer, _)| *timer);
            refused
        };
        for (_, key) in refused {
            self.urge(key);
        }
    }

    /// How to run a key again when a lane that is occupied becomes free.
    pub fn waiter(self: &Arc<Self>, controller: &'static str, key: &K) -> Waiter
    where
        K: Send + 'static,
    {
        let mut hasher = std::hash::DefaultHasher::new();
        (controller, key).hash(&mut hasher);
        let (queue, key) = (Arc::clone(self), key.clone());
        Waiter::new(hasher.finish(), move || queue.add(key))
    }

    /// Waits for a key to work on; `None` once the queue is closed.
    pub async fn next(&self) -> Option<K> {
        loop {
            let due = {
                let mut state = self.state();
                if state.closed {
                    drop(state);
                    self.wake.notify_one();
                    return None;
                }
                state.fire(Instant::now());
                if let Some(key) = state.take() {
                    let more = !state.ready.is_empty();
                    drop(state);
                    if more {
                        self.wake.notify_one();
                    }
                    return Some(key);
                }
                state.timers.first_key_value().map(|((due, _), _)| *due)
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = self.wake.notified() => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Ends the pass over a key.
    pub fn done(&self, key: &K, outcome: Outcome) {
        self.state().done(key, outcome, Instant::now());
        self.wake.notify_one();
    }

    /// Ends the queue: no further key is handed out.
    pub fn close(&self) {
        self.state().closed = true;
        self.wake.notify_one();
    }

    /// How many keys wait for a worker.
    pub fn depth(&self) -> usize {
        self.state().ready.len()
    }
}

impl<K: Clone + Eq + Hash + Debug> State<K> {
    fn enqueue(&mut self, key: K, now: Instant) {
        let entry = self.keys.entry(key.clone()).or_default();
        if entry.running {
            entry.again = entry.again.max(Some(Again::Touched));
        } else if entry.not_before.is_some_and(|until| until > now) || entry.queued {
            // Its timer, or its place in the queue, will bring it.
        } else {
            entry.queued = true;
            self.ready.push_back(key);
        }
    }

    fn fire(&mut self, now: Instant) {
        while let Some(((due, serial), key)) = self.timers.pop_first() {
            if due > now {
                self.timers.insert((due, serial), key);
                return;
            }
            if let Some(entry) = self.keys.get_mut(&key) {
                entry.timer = None;
                entry.not_before = None;
            }
            self.enqueue(key, now);
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        let timer = self.keys.get_mut(&key).and_then(|entry| {
            entry.queued = false;
            entry.running = true;
            entry.timer.take()
        });
        if let Some(timer) = timer {
            self.timers.remove(&timer);
        }
        Some(key)
    }

    fn done(&mut self, key: &K, outcome: Outcome, now: Instant) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        entry.running = false;
        entry.not_before = None;
        let again = entry.again.take();
        let urged = again == Some(Again::Urged);
        entry.trouble = match outcome {
            Outcome::Failed => Some(Trouble::Failed),
            Outcome::Unconfirmed => Some(Trouble::Unconfirmed),
            Outcome::Settled | Outcome::WakeAt(_) | Outcome::ComeBack(_) => None,
        };
        entry.failures = match outcome {
            Outcome::Failed | Outcome::Unconfirmed if urged => 0,
            Outcome::Failed | Outcome::Unconfirmed => entry.failures.saturating_add(1),
            Outcome::ComeBack(_) => entry.failures,
            Outcome::Settled | Outcome::WakeAt(_) => 0,
        };
        let wake_at = match outcome {
            Outcome::Settled => None,
            Outcome::WakeAt(at) => Some(at),
            Outcome::Failed | Outcome::Unconfirmed => {
                Some(now + backoff::delay(entry.failures, &self.chance))
            }
            Outcome::ComeBack(after) => Some(now + after),
        };
        if matches!(outcome, Outcome::ComeBack(_)) || (entry.trouble.is_some() && !urged) {
            entry.not_before = wake_at;
        }
        if let Some(at) = wake_at {
            self.serial += 1;
            entry.timer = Some((at, self.serial));
            self.timers.insert((at, self.serial), key.clone());
        }
        if again.is_some() {
            self.enqueue(key.clone(), now);
        } else if wake_at.is_none() {
            self.keys.remove(key);
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
