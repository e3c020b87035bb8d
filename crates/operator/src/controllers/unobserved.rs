//! Since when specs of sets have been seen unobserved by their own controller. Losing it delays a message, nothing
//! else.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sts_plus_planner::set::SetRow;
use tokio::time::Instant;

/// Per set UID: the generation that is not observed yet, and since when that has been seen, by monotonic time: a clock that
/// somebody sets back must not delay the message.
#[derive(Debug, Default)]
pub(super) struct Unobserved {
    seen: Mutex<HashMap<Arc<str>, (i64, Instant)>>,
}

impl Unobserved {
    /// Since when the spec of this set has been unobserved, as a clock has it that says `now`; `None` if it is observed.
    pub(super) fn since(&self, set: &SetRow, now: Timestamp) -> Option<Timestamp> {
        let mut seen = self.seen.lock();
        if set.target().is_some() {
            seen.remove(&set.uid);
            return None;
        }
        let (generation, since) =
            seen.entry(Arc::clone(&set.uid)).or_insert_with(|| (set.generation, Instant::now()));
        if *generation != set.generation {
            (*generation, *since) = (set.generation, Instant::now());
        }
        let elapsed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
        Some(now.checked_sub(elapsed).unwrap_or(Timestamp::MIN))
    }
}

#[cfg(test)]
#[path = "unobserved_tests.rs"]
mod tests;
