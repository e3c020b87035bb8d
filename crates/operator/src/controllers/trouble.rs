//! A status that cannot be written: when it is retried, and what is reported of it.

use std::time::Duration;

use sts_plus_planner::reason::Refusal;
use tokio::time::Instant;

use crate::shell::api::ApiError;
use crate::shell::executor::UNANSWERED_REPORTED_AFTER;

/// A status that is not answered holds the lane of its set until the time limit of the call is over, and pods wait meanwhile.
/// The lane is theirs for so many times as long before the next attempt: of a minute they wait for less than ten seconds.
const LANE_FREE_TIMES: u32 = 6;

/// What went wrong since the status was last written. Losing it costs an attempt, or repeats a message.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    failures: u32,
    retry_at: Option<Instant>,
    is_reported: bool,
}

impl Trouble {
    /// Notes that an attempt, which has held the lane for so long, has failed now; what to report of it, once.
    pub(super) fn failed(
        &mut self,
        error: &ApiError,
        (now, held): (Instant, Duration),
        delay: impl FnOnce(u32) -> Duration,
    ) -> Option<Refusal> {
        self.failures = self.failures.saturating_add(1);
        let wait = delay(self.failures).max(held.saturating_mul(LANE_FREE_TIMES));
        self.retry_at = Some(now + wait);
        let lasts = self.failures >= UNANSWERED_REPORTED_AFTER;
        let refusal = error.refusal().or_else(|| error.silence().filter(|_| lasts))?;
        // It does not pass by itself, and its words may differ in a port or a time.
        (!std::mem::replace(&mut self.is_reported, true)).then_some(refusal)
    }

    /// When the status may be retried; `None` for now.
    pub(super) fn retry_at(&self, now: Instant) -> Option<Instant> {
        self.retry_at.filter(|at| *at > now)
    }
}

#[cfg(test)]
#[path = "trouble_tests.rs"]
mod tests;
