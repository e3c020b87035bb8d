//! What a lane still waits to see of its own writes: rules B and D as plain bookkeeping.
//!
//! A plan must not be made on a view that has not yet seen our acknowledged writes (rule B), nor while a
//! disruption's answer is missing (rule D). Both are kept per lane and in memory only; after a restart rule C,
//! a consistent list, takes their place.

use std::time::Duration;

use sts_plus_planner::plan::Object;
use tokio::time::Instant;

use super::api::Kind;
use super::cache::{Seen, is_older};

/// If the cache has not shown our own write by then, its watch is in trouble and the object is read instead.
pub const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// What the view must show before the lane may plan again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The object with this UID is on its way out, or gone.
    Leaving { uid: Box<str> },
    /// The object with this UID is gone.
    Gone { uid: Box<str> },
    /// The object with this UID is at this version or a later one, or gone.
    AtLeast { uid: Box<str>, resource_version: Box<str> },
    /// The object is no longer as it was when a precondition failed.
    Changed {
        /// Its UID then.
        uid: Box<str>,
        /// Its version then.
        resource_version: Box<str>,
    },
    /// An object of the name is there, whichever it is.
    Present,
    /// The object is there at this version or a later one, or all that happened up to this version has been seen: it
    /// may have gone again at once.
    Shown {
        /// The version at which it was created or read.
        resource_version: Box<str>,
    },
}

impl Expectation {
    /// The UID of the object that it is about; `None` where any object of the name will do.
    fn uid(&self) -> Option<&str> {
        match self {
            Self::Leaving { uid }
            | Self::Gone { uid }
            | Self::AtLeast { uid, .. }
            | Self::Changed { uid, .. } => Some(uid),
            Self::Present | Self::Shown { .. } => None,
        }
    }

    /// Whether the view shows it: the object as it was seen, and up to which version its kind has been followed.
    pub fn is_met(&self, seen: Option<&Seen>, reached: Option<u64>) -> bool {
        let is = |uid: &str| seen.is_some_and(|seen| *seen.uid == *uid);
        let terminating = || seen.is_some_and(|seen| seen.terminating);
        let older_than = |version: &str| seen.is_some_and(|seen| is_older(&seen.resource_version, version));
        match self {
            Self::Leaving { uid } => !is(uid) || terminating(),
            Self::Gone { uid } => !is(uid),
            Self::AtLeast { uid, resource_version } => !is(uid) || !older_than(resource_version),
            Self::Changed { uid, resource_version } => {
                !is(uid) || seen.is_some_and(|seen| seen.resource_version != *resource_version)
            }
            Self::Present => seen.is_some(),
            Self::Shown { resource_version } => {
                let shown = seen.is_some() && !older_than(resource_version);
                // What cannot be compared cannot be waited for.
                let followed = |version| reached.is_some_and(|reached| reached >= version);
                shown || resource_version.parse().map_or(true, followed)
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

/// A write whose outcome is unknown: its object must be read before the lane plans again, unless the view answers the
/// question meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    pub object: Object,
    /// Its UID when it was last known: a successor of the same name is another object. `None` for one that was to be
    /// created.
    pub uid: Option<Box<str>>,
    /// What answers the question once the view shows it; `None` where only a read does. It must also rule out that the
    /// write, should it still be on its way, has an effect later.
    pub answered_by: Option<Expectation>,
}

impl Unknown {
    /// A creation without an answer: whoever has the name, the creation cannot succeed any more.
    pub fn creation(object: Object) -> Self {
        Self { object, uid: None, answered_by: Some(Expectation::Present) }
    }

    /// A write without an answer that insists on the object's UID and, where it is given, on its version. Of an object
    /// that has another version by now the view shows all that the write did, and the server refuses it from now on.
    pub fn write(object: Object, uid: Box<str>, resource_version: Option<Box<str>>) -> Self {
        let changed = |resource_version| Expectation::Changed { uid: uid.clone(), resource_version };
        Self { object, answered_by: resource_version.map(changed), uid: Some(uid) }
    }

    /// A write that the view should have shown long ago.
    fn overdue(object: Object, expectation: Expectation) -> Self {
        Self { object, uid: expectation.uid().map(Into::into), answered_by: Some(expectation) }
    }
}

impl Expectations {
    /// Remembers what must be seen; what is awaited already has its time. While a view is stale the same may be expected in
    /// each pass.
    pub fn expect(&mut self, object: Object, expectation: Expectation, now: Instant) {
        let is_known = self.awaited.iter().any(|(known, what, _)| (known, what) == (&object, &expectation));
        if !is_known {
            self.awaited.push((object, expectation, now + SEEN_WITHIN));
        }
    }

    /// Remembers a disruption or a creation whose answer was lost.
    pub fn lost_answer(&mut self, unknown: Unknown) {
        if !self.unknown.contains(&unknown) {
            self.unknown.push(unknown);
        }
    }

    /// Drops what has been seen, unknown writes included; what has been waited for too long becomes something to read.
    pub fn look(&mut self, view: impl Fn(&Object) -> (Option<Seen>, Option<u64>), now: Instant) {
        let (mut awaited, mut overdue) = (Vec::new(), Vec::new());
        for (object, expectation, until) in self.awaited.drain(..) {
            let (seen, reached) = view(&object);
            if expectation.is_met(seen.as_ref(), reached) {
                continue;
            }
            if until > now {
                awaited.push((object, expectation, until));
            } else {
                overdue.push(Unknown::overdue(object, expectation));
            }
        }
        self.awaited = awaited;
        self.unknown.retain(|unknown| {
            let (seen, reached) = view(&unknown.object);
            !unknown.answered_by.as_ref().is_some_and(|answer| answer.is_met(seen.as_ref(), reached))
        });
        for unknown in overdue {
            self.lost_answer(unknown);
        }
    }

    /// The writes whose objects must be read before the next disruption. Each stays until [`Self::found_out`]: whoever
    /// reads may be stopped, or get no answer.
    pub fn to_read(&self) -> &[Unknown] {
        &self.unknown
    }

    /// It is known what became of a write.
    pub fn found_out(&mut self, unknown: &Unknown) {
        self.unknown.retain(|known| known != unknown);
    }

    /// Whether it is unknown of some write what became of it.
    pub fn has_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Whether nothing is awaited or unknown.
    pub fn is_empty(&self) -> bool {
        self.awaited.is_empty() && self.unknown.is_empty()
    }

    /// The kinds of the objects that are awaited.
    pub fn awaited_kinds(&self) -> impl Iterator<Item = Kind> {
        self.awaited.iter().map(|(object, ..)| object.kind)
    }

    /// When the first wait for an object of this resource is over; `None` when none is awaited.
    pub fn awaited_until(&self, resource: Kind) -> Option<Instant> {
        let of_resource = self.awaited.iter().filter(|(object, ..)| object.kind == resource);
        of_resource.map(|(.., until)| *until).min()
    }
}

#[cfg(test)]
#[path = "expectations_tests.rs"]
mod tests;
