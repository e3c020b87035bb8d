//! What a lane still waits to see of its own writes: rules B and D as plain bookkeeping.
//!
//! A plan must not be made on a view that has not yet seen our acknowledged writes (rule B), nor while a
//! disruption's answer is missing (rule D). Both are kept per lane and in memory only; after a restart rule C,
//! a consistent list, takes their place.

use std::time::Duration;

use sts_plus_planner::plan::Object;
use tokio::time::Instant;

use super::cache::{Seen, is_older};

/// If the cache has not shown our own write by then, its watch is in trouble and the object is read instead.
pub const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// What the view must show before the lane may plan again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The object with this UID is on its way out, or gone.
    Leaving {
        /// Its UID.
        uid: Box<str>,
    },
    /// The object with this UID is gone.
    Gone {
        /// Its UID.
        uid: Box<str>,
    },
    /// The object with this UID is at this version or a later one, or gone.
    AtLeast {
        /// Its UID.
        uid: Box<str>,
        /// The version.
        resource_version: Box<str>,
    },
    /// The object is no longer as it was when a precondition failed.
    Changed {
        /// Its UID then.
        uid: Box<str>,
        /// Its version then.
        resource_version: Box<str>,
    },
}

impl Expectation {
    /// The UID of the object that it is about.
    fn uid(&self) -> &str {
        match self {
            Self::Leaving { uid }
            | Self::Gone { uid }
            | Self::AtLeast { uid, .. }
            | Self::Changed { uid, .. } => uid,
        }
    }

    /// Whether the view shows it.
    pub fn is_met(&self, seen: Option<&Seen>) -> bool {
        let Some(seen) = seen else { return true };
        match self {
            Self::Leaving { uid } => seen.uid != *uid || seen.terminating,
            Self::Gone { uid } => seen.uid != *uid,
            Self::AtLeast { uid, resource_version } => {
                seen.uid != *uid || !is_older(&seen.resource_version, resource_version)
            }
            Self::Changed { uid, resource_version } => {
                seen.uid != *uid || seen.resource_version != *resource_version
            }
        }
    }
}

/// The expectations of one lane.
#[derive(Debug, Default)]
pub struct Expectations {
    awaited: Vec<(Object, Expectation, Instant)>,
    unknown: Vec<Unknown>,
}

/// An object of which is not known what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The object.
    pub object: Object,
    /// Its UID when it was last known: a successor of the same name is another object.
    pub uid: Box<str>,
}

impl Expectations {
    /// Remembers what must be seen.
    pub fn expect(&mut self, object: Object, expectation: Expectation, now: Instant) {
        self.awaited.push((object, expectation, now + SEEN_WITHIN));
    }

    /// Remembers a disruption whose answer was lost, or whose object could not be read since.
    pub fn lost_answer(&mut self, unknown: Unknown) {
        self.unknown.push(unknown);
    }

    /// Drops what has been seen; what has been waited for too long becomes something to read.
    pub fn look(&mut self, seen: impl Fn(&Object) -> Option<Seen>, now: Instant) {
        let (mut awaited, mut overdue) = (Vec::new(), Vec::new());
        for (object, expectation, until) in self.awaited.drain(..) {
            if expectation.is_met(seen(&object).as_ref()) {
                continue;
            }
            if until > now {
                awaited.push((object, expectation, until));
            } else {
                overdue.push(Unknown { uid: expectation.uid().into(), object });
            }
        }
        self.awaited = awaited;
        self.unknown.extend(overdue);
    }

    /// The objects that must be read before the next disruption.
    pub fn to_read(&mut self) -> Vec<Unknown> {
        std::mem::take(&mut self.unknown)
    }

    /// Whether nothing is awaited or unknown.
    pub fn is_empty(&self) -> bool {
        self.awaited.is_empty() && self.unknown.is_empty()
    }

    /// When the first wait is over; `None` when nothing is awaited.
    pub fn awaited_until(&self) -> Option<Instant> {
        self.awaited.iter().map(|(.., until)| *until).min()
    }
}

#[cfg(test)]
#[path = "expectations_tests.rs"]
mod tests;
