//! Time of gates that is not in their status yet, by monotonic time. It belongs to the term in which it was measured: what
//! was the case in between two terms, or two processes, nobody knows.

use jiff::SignedDuration;
use sts_plus_planner::phased_rollout;
use tokio::time::Instant;

/// The open stretch of a rollout, and the term `T` that it belongs to.
#[derive(Debug)]
pub(super) struct Stretches<T> {
    open: Option<Open<T>>,
}

#[derive(Clone, Copy, Debug)]
struct Open<T> {
    term: T,
    kept: phased_rollout::Stretch,
    since: Instant,
}

impl<T> Default for Stretches<T> {
    fn default() -> Self {
        Self { open: None }
    }
}

impl<T: Copy + Eq> Stretches<T> {
    /// The stretch at a moment of this term.
    pub(super) fn open(&self, term: T, now: Instant) -> Option<phased_rollout::Stretch> {
        let stretch = self.open.filter(|stretch| stretch.term == term)?;
        let since = SignedDuration::try_from(now.saturating_duration_since(stretch.since));
        Some(stretch.kept.after(since.unwrap_or(SignedDuration::MAX)))
    }

    /// Continues what a plan made at a moment says; a plan that says nothing ends the stretch.
    pub(super) fn keep(&mut self, term: T, planned: Option<phased_rollout::Stretch>, now: Instant) {
        self.open = planned.map(|kept| Open { term, kept, since: now });
    }
}

#[cfg(test)]
#[path = "stretches_tests.rs"]
mod tests;
