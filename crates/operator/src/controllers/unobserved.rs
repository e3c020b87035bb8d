//! Since when specs of sets have been seen unobserved by their own controller. Losing it delays a message, nothing
//! else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use sts_plus_planner::set::SetRow;

/// Per set UID: the generation that is not observed yet, and since when that has been seen.
#[derive(Debug, Default)]
pub(super) struct Unobserved {
    seen: Mutex<HashMap<Arc<str>, (i64, Timestamp)>>,
}

impl Unobserved {
    /// Since when the spec of this set has been unobserved; `None` if it is observed.
    pub(super) fn since(&self, set: &SetRow, now: Timestamp) -> Option<Timestamp> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if set.target().is_some() {
            seen.remove(&set.uid);
            return None;
        }
        let entry = seen.entry(Arc::clone(&set.uid)).or_insert((set.generation, now));
        if entry.0 != set.generation {
            *entry = (set.generation, now);
        }
        Some(entry.1)
    }
}
