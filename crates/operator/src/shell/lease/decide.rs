//! What a candidate does next about the lease: a pure function of what it has seen, when it saw it, and the
//! time, so that every interleaving of it can be explored (`model_tests`).
//!
//! Why two never lead at once. A term counts from the moment its last successful write was *sent* and ends by
//! itself after [`Timing::give_up`]. Whoever else wants the lease saw that write *later* than it was sent,
//! and waits for [`Timing::lease`] of silence, which is longer; the write that takes over names the version
//! it saw, so a renewal that it missed defeats it. No clock is compared with another: only their rates must
//! agree within `lease / give_up`.
//!
//! Outside of this, and left to the preconditions of the writes: a machine whose monotonic clock itself stops
//! (a suspended virtual machine), and somebody with the permission to write the lease who clears its holder,
//! or who deletes it while it is held and another is about to create it.

use std::time::Duration;

use super::record::{Lease, Record};

/// A moment on the candidate's own monotonic clock, as time since its start.
pub type Moment = Duration;

/// A holder cannot make others wait longer than this, whatever it writes, so that one odd record does not
/// stop the operator for ever.
pub const MAX_SILENCE: Duration = Duration::from_mins(1);

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a holder may be silent before others take over.
    pub lease: Duration,
    /// How often a holder renews.
    pub renew_every: Duration,
    /// When a holder that could not renew stops by itself. The difference to `lease` is for writes in flight
    /// and for clocks of different speed.
    pub give_up: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew_every: Duration::from_secs(5),
            give_up: Duration::from_secs(10),
        }
    }
}

impl Timing {
    /// How long the holder of a record may be silent. A record that claims less than our own lease is not
    /// believed: the holder counts on its whole time, and whoever shortened the record was not the holder.
    pub fn silence(&self, record: &Record) -> Duration {
        let claimed = record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(claimed.unwrap_or_default()).min(MAX_SILENCE).max(self.lease)
    }
}

/// A number that grows with each term of this process; among processes too, as long as nobody deletes the
/// lease, since it is the lease's count of terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub(in crate::shell) u64);

impl Epoch {
    /// The number, for logs.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A time of leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    pub epoch: Epoch,
    /// When the last write that succeeded was sent.
    pub sent_at: Moment,
}

/// What is known of the lease at the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Known {
    /// Nothing: at the start, after a lost answer, after a conflict.
    #[default]
    InDoubt,
    /// There was none when we last heard.
    Absent {
        /// When that was first heard.
        since: Moment,
    },
    /// It was as last seen.
    Present,
}

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    lease: Lease,
    /// When its record was first seen so.
    at: Moment,
}

/// What a write that did not succeed tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It may have been done, or somebody else was faster.
    Unknown,
    /// There is no such lease.
    Absent,
    /// It was not done, and nothing is known to have changed.
    Refused,
}

/// What a candidate knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    known: Known,
    /// Kept while in doubt and when the lease vanishes, as a sign that somebody may be at work.
    seen: Option<Seen>,
    term: Option<Term>,
    last_epoch: u64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Read the lease.
    Read,
    /// Create the lease, held.
    Create,
    /// Replace the record by the first one of a new term.
    Acquire(Claim),
    /// Replace the record by a newer one.
    Renew,
    /// Lead, and decide again at this moment.
    Lead { until: Moment },
    /// Follow, and decide again at the next change of the lease, or at this moment at the latest.
    Follow { until: Moment },
    /// The term is over.
    StepDown(Loss),
}

/// Why the lease is free to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Its holder gave it back.
    Released,
    /// Its holder has been silent for too long.
    Expired,
    /// It is our own: of a term that ended, or of a write whose answer was lost.
    Own,
}

/// Why a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It could not be renewed in time, or the process did not run in time.
    NotRenewed,
    /// Somebody else is in the record.
    Taken,
    /// The lease was deleted.
    Deleted,
}

/// What to do next, from what is known and the time.
pub fn decide(view: &View, me: &str, now: Moment, timing: &Timing) -> Decision {
    match view.term {
        Some(term) => decide_in_term(view, term, me, now, timing),
        None => decide_without_term(view, me, now, timing),
    }
}

fn decide_in_term(view: &View, term: Term, me: &str, now: Moment, timing: &Timing) -> Decision {
    if now >= term.sent_at + timing.give_up {
        return Decision::StepDown(Loss::NotRenewed);
    }
    match view.known {
        Known::InDoubt => Decision::Read,
        Known::Absent { .. } => Decision::StepDown(Loss::Deleted),
        Known::Present if view.holder() != Some(me) => Decision::StepDown(Loss::Taken),
        Known::Present => {
            let due = term.sent_at + timing.renew_every;
            if now >= due { Decision::Renew } else { Decision::Lead { until: due } }
        }
    }
}

fn decide_without_term(view: &View, me: &str, now: Moment, timing: &Timing) -> Decision {
    // Nothing was ever seen: either there is no lease, or nothing is known.
    let Some(seen) = &view.seen else {
        return if view.in_doubt() { Decision::Read } else { Decision::Create };
    };
    let silence = timing.silence(seen.lease.record());
    match view.known {
        Known::InDoubt => Decision::Read,
        Known::Absent { since } => {
            // No version guards a creation, and whoever held the lease may not have noticed its deletion.
            let free_at = since + silence;
            if now >= free_at { Decision::Create } else { Decision::Follow { until: free_at } }
        }
        Known::Present => match view.holder() {
            None => Decision::Acquire(Claim::Released),
            Some(holder) if holder == me => Decision::Acquire(Claim::Own),
            Some(_) if now >= seen.at + silence => Decision::Acquire(Claim::Expired),
            Some(_) => Decision::Follow { until: seen.at + silence },
        },
    }
}

impl View {
    /// The term, which may be past its end.
    pub fn term(&self) -> Option<Term> {
        self.term
    }

    /// The lease as last seen, if it was there when we last heard.
    pub fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref().filter(|_| self.known == Known::Present).map(|seen| &seen.lease)
    }

    /// The last holder seen.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref()?.lease.record().holder()
    }

    /// Whether the next write needs a read before it.
    pub fn in_doubt(&self) -> bool {
        self.known == Known::InDoubt
    }

    /// A read or a watch showed this lease.
    pub fn found(&mut self, lease: Lease, now: Moment) {
        self.known = Known::Present;
        // An edit of labels is no sign of life of the holder, but its version is what the next write names.
        let at = match &self.seen {
            Some(seen) if seen.lease.record() == lease.record() => seen.at,
            _ => now,
        };
        self.seen = Some(Seen { lease, at });
    }

    /// A read or a watch showed that there is none.
    pub fn found_none(&mut self, now: Moment) {
        if !matches!(self.known, Known::Absent { .. }) {
            self.known = Known::Absent { since: now };
        }
    }

    /// What is known can no longer be relied on.
    pub fn doubt(&mut self) {
        self.known = Known::InDoubt;
    }

    /// Our own write succeeded.
    pub fn wrote(&mut self, lease: Lease, me: &str, sent_at: Moment, now: Moment, timing: &Timing) {
        let transitions = lease.record().transitions();
        self.found(lease, now);
        // An answer that comes after the end of the term it would begin or prolong changes nothing: such a
        // term is over, and the next one gets an epoch of its own.
        let over = |sent_at: Moment| now >= sent_at + timing.give_up;
        if over(sent_at) || self.holder() != Some(me) {
            return;
        }
        match &mut self.term {
            Some(term) if over(term.sent_at) => {}
            Some(term) => term.sent_at = sent_at,
            None => {
                self.last_epoch = transitions.max(self.last_epoch + 1);
                self.term = Some(Term { epoch: Epoch(self.last_epoch), sent_at });
            }
        }
    }

    /// Our own write did not succeed.
    pub fn failed(&mut self, failure: Failure, now: Moment) {
        match failure {
            Failure::Unknown => self.doubt(),
            Failure::Absent => self.found_none(now),
            Failure::Refused => {}
        }
    }

    /// The term ends.
    pub fn step_down(&mut self) {
        self.term = None;
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "model.rs"]
mod model;

#[cfg(test)]
#[path = "model_tests.rs"]
mod model_tests;
