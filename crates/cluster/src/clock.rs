//! Time since a cluster was made, by tokio's clock, so that a paused clock moves timers and stamps alike.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A point in time, counted from the start of the [`Clock`] that gave it.
pub(crate) type Moment = Duration;

/// Turns moments into timers and into timestamps. Needs a tokio runtime.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    wall: Timestamp,
}

impl Clock {
    /// A clock that tells the time of day.
    pub fn start() -> Self {
        Self::at(Timestamp::now())
    }

    /// A clock that says that it is `wall` now, for runs that repeat to the second.
    pub fn at(wall: Timestamp) -> Self {
        Clock { started: Instant::now(), wall }
    }

    pub(crate) fn now(&self) -> Moment {
        self.started.elapsed()
    }

    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.started + moment
    }

    /// The time of day.
    pub fn timestamp(&self) -> Timestamp {
        self.wall_at(self.now())
    }

    /// The moment as Kubernetes writes it: whole seconds, since that is all its own types keep.
    pub(crate) fn stamp(&self, moment: Moment) -> String {
        whole_seconds(self.wall_at(moment))
    }

    pub(crate) fn wall_at(&self, moment: Moment) -> Timestamp {
        let since = SignedDuration::try_from(moment).unwrap_or(SignedDuration::MAX);
        self.wall.checked_add(since).unwrap_or(Timestamp::MAX)
    }
}

/// A timestamp as Kubernetes writes it.
pub(crate) fn whole_seconds(exact: Timestamp) -> String {
    Timestamp::from_second(exact.as_second()).unwrap_or(exact).to_string()
}
