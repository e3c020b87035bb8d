//! Since when specs of sets have been seen unobserved by their own controller. Losing it delays a message, nothing
//! else.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_planner::set::SetRow;
use tokio::time::Instant;

/// Per set UID: the generation that is not observed yet, and since when that has been seen, by monotonic time: a clock that
/// somebody sets back must not delay the message.
#[derive(Debug, Default)]
pub(super) struct Unobserved {
    seen: HashMap<Arc<str>, (i64, Instant)>,
}

impl Unobserved {
    /// Since when the spec of this set has been unobserved, as a clock has it that says `now`; `None` if it is observed.
    pub(super) fn since(&mut self, set: &SetRow, (now, at): (Timestamp, Instant)) -> Option<Timestamp> {
        if set.target().is_some() {
            self.seen.remove(&set.uid);
            return None;
        }
        let (generation, since) =
            self.seen.entry(Arc::clone(&set.uid)).or_insert_with(|| (set.generation, at));
        if *generation != set.generation {
            (*generation, *since) = (set.generation, at);
        }
        let elapsed = SignedDuration::try_from(at.duration_since(*since)).unwrap_or(SignedDuration::MAX);
        Some(now.checked_sub(elapsed).unwrap_or(Timestamp::MIN))
    }

    /// Forgets all sets but these.
    pub(super) fn retain(&mut self, is_there: impl Fn(&Arc<str>) -> bool) {
        self.seen.retain(|uid, _| is_there(uid));
    }
}

#[cfg(test)]
#[path = "unobserved_tests.rs"]
mod tests;
