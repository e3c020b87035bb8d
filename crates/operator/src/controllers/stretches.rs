//! Time of gates that is not in their status yet, by monotonic time. It belongs to the term in which it was measured: what
//! was the case in between two terms, or two processes, nobody knows.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::SignedDuration;
use tokio::time::Instant;

/// The open stretch of each key, and the term `T` that it belongs to.
#[derive(Debug)]
pub(super) struct Stretches<K, T> {
    open: Mutex<HashMap<K, Stretch<T>>>,
}

#[derive(Clone, Copy, Debug)]
struct Stretch<T> {
    term: T,
    carried: SignedDuration,
    since: Instant,
}

impl<K, T> Default for Stretches<K, T> {
    fn default() -> Self {
        Self { open: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, T: Copy + Eq> Stretches<K, T> {
    /// How long the stretch of a key has been open at a moment of this term.
    pub(super) fn open(&self, key: &K, term: T, now: Instant) -> Option<SignedDuration> {
        let stretch = self.lock().get(key).copied().filter(|stretch| stretch.term == term)?;
        let since = SignedDuration::try_from(now.saturating_duration_since(stretch.since));
        Some(stretch.carried.saturating_add(since.unwrap_or(SignedDuration::MAX)))
    }

    /// Goes on from what a plan made at a moment carries over; a plan that carries nothing ends the stretch.
    pub(super) fn keep(&self, key: &K, term: T, carried: Option<SignedDuration>, now: Instant) {
        match carried {
            Some(carried) => {
                self.lock().insert(key.clone(), Stretch { term, carried, since: now });
            }
            None => self.forget(key),
        }
    }

    /// Drops the stretch of a key.
    pub(super) fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Stretch<T>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "stretches_tests.rs"]
mod tests;
