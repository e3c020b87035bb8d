//! The kind that operators can neither list nor watch at present, if there is one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::faults::{Fault, Plan};

/// Nothing is hidden.
const CLEAR: u64 = 0;
/// The ways in which requests for what is hidden fail; in the last one they hang.
pub const WAYS: u64 = 5;
/// From then on nobody may rely on what was seen before where requests fail: their source has failed at once, and whatever
/// was read or decided until then arrives within this time, since an answer and a write may take 9 s each.
const LOST_AFTER: Duration = Duration::from_secs(40);
/// The same where a source is silent, because its request hangs or its watch stays open: it is relied on for 90 s.
const LOST_AFTER_SILENCE: Duration = Duration::from_secs(130);

/// What is hidden; clones are the same.
#[derive(Clone, Debug)]
pub struct Sight {
    /// From then on nothing is hidden, whoever forgets to say so.
    ends: Instant,
    /// Whether a watch may stay open although its kind is hidden.
    watches_stay: bool,
    hidden: Arc<AtomicU64>,
    since: Arc<Mutex<Option<Instant>>>,
    changed: Arc<Notify>,
}

impl Sight {
    /// Nothing is hidden yet, nor from this time on.
    pub fn until(ends: Instant, plan: &Plan) -> Self {
        let watches_stay = plan.has(Fault::DeadWatch);
        Self { ends, watches_stay, hidden: Arc::default(), since: Arc::default(), changed: Arc::default() }
    }

    /// Hides a kind: pods four times out of five. The variant also decides how requests for it fail.
    pub fn hide(&self, variant: u64) {
        self.hidden.store(variant.max(CLEAR + 1), Ordering::Relaxed);
        self.set_since(Some(Instant::now()));
        self.changed.notify_waiters();
    }

    /// Hides nothing any more.
    pub fn clear(&self) {
        self.hidden.store(CLEAR, Ordering::Relaxed);
        self.set_since(None);
    }

    /// Whether something has been hidden for so long that nobody may rely on what was seen before.
    pub fn is_lost(&self) -> bool {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let hangs = way(self.hidden.load(Ordering::Relaxed)) == WAYS - 1;
        let after = if hangs || self.watches_stay { LOST_AFTER_SILENCE } else { LOST_AFTER };
        since.is_some_and(|since| since.elapsed() > after) && Instant::now() < self.ends
    }

    fn set_since(&self, since: Option<Instant>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// The variant, where this kind is hidden.
    pub fn hides(&self, kind: &str) -> Option<u64> {
        let variant = self.hidden.load(Ordering::Relaxed);
        let hidden = if variant.is_multiple_of(5) { "statefulsets" } else { "pods" };
        (variant != CLEAR && kind == hidden && Instant::now() < self.ends).then_some(variant)
    }

    /// Waits until this kind is hidden.
    pub async fn lost(&self, kind: &str) {
        while self.hides(kind).is_none() {
            self.changed.notified().await;
        }
    }
}

/// In which of the [`WAYS`] requests for a hidden kind fail.
pub fn way(variant: u64) -> u64 {
    variant / 5 % WAYS
}
