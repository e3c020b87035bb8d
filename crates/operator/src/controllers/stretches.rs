//! Time of gates that is not in their status yet, by monotonic time. It belongs to the term in which it was measured: what
//! was the case in between two terms, or two processes, nobody knows.

use std::collections::HashMap;
use std::hash::Hash;

use jiff::SignedDuration;
use parking_lot::{Mutex, MutexGuard};
use sts_plus_planner::phased_rollout;
use tokio::time::Instant;

/// The open stretch of each key, and the term `T` that it belongs to.
#[derive(Debug)]
pub(super) struct Stretches<K, T> {
    open: Mutex<HashMap<K, Open<T>>>,
}

#[derive(Clone, Copy, Debug)]
struct Open<T> {
    term: T,
    kept: phased_rollout::Stretch,
    since: Instant,
}

impl<K, T> Default for Stretches<K, T> {
    fn default() -> Self {
        Self { open: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, T: Copy + Eq> Stretches<K, T> {
    /// The stretch of a key at a moment of this term.
    pub(super) fn open(&self, key: &K, term: T, now: Instant) -> Option<phased_rollout::Stretch> {
        let stretch = self.lock().get(key).copied().filter(|stretch| stretch.term == term)?;
        let since = SignedDuration::try_from(now.saturating_duration_since(stretch.since));
        Some(stretch.kept.after(since.unwrap_or(SignedDuration::MAX)))
    }

    /// Continues what a plan made at a moment says; a plan that says nothing ends the stretch.
    pub(super) fn keep(&self, key: &K, term: T, planned: Option<phased_rollout::Stretch>, now: Instant) {
        match planned {
            Some(kept) => {
                self.lock().insert(key.clone(), Open { term, kept, since: now });
            }
            None => self.forget(key),
        }
    }

    /// Drops the stretch of a key.
    pub(super) fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Open<T>>> {
        self.open.lock()
    }
}

#[cfg(test)]
#[path = "stretches_tests.rs"]
mod tests;
