//! Time since the hollow nodes were made, by tokio's clock, so that a paused clock moves pods and stamps alike.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A point in time, counted from the start of the [`Clock`] that gave it.
pub(super) type Moment = Duration;

/// Turns moments into timers and into timestamps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    started: Instant,
    wall: Timestamp,
}

impl Clock {
    pub(super) fn start() -> Self {
        Clock { started: Instant::now(), wall: Timestamp::now() }
    }

    #[cfg(test)]
    pub(super) fn at(wall: Timestamp) -> Self {
        Clock { started: Instant::now(), wall }
    }

    pub(super) fn now(&self) -> Moment {
        self.started.elapsed()
    }

    pub(super) fn instant(&self, moment: Moment) -> Instant {
        self.started + moment
    }

    /// The moment as Kubernetes writes it: whole seconds, since that is all its own types keep.
    pub(super) fn stamp(&self, moment: Moment) -> String {
        let since = SignedDuration::try_from(moment).unwrap_or(SignedDuration::MAX);
        let exact = self.wall.checked_add(since).unwrap_or(Timestamp::MAX);
        Timestamp::from_second(exact.as_second()).unwrap_or(exact).to_string()
    }
}
