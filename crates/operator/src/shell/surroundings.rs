//! What the operator takes from the machine it runs on besides its connections: the time of day and chance.
//!
//! Both are handed in, so that a run in a test repeats: there the clock follows the timers of the runtime, which may be
//! paused, and chance comes from a seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The time of day and chance.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// What is compared with the timestamps of objects.
    pub clock: Clock,
    /// What spreads retries and makes names unique.
    pub chance: Chance,
}

/// Tells the time of day.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's.
    #[default]
    Machine,
    /// One that moves with the timers of the runtime.
    Runtime {
        /// When it was set.
        set: Instant,
        /// What it said then.
        wall: Timestamp,
        /// How somebody sets it later on.
        steps: Arc<[ClockStep]>,
    },
}

/// A moment at which somebody sets a clock.
#[derive(Clone, Copy, Debug)]
pub struct ClockStep {
    /// From this moment on the clock has moved.
    pub at: Instant,
    /// By how much; negative where it is set back.
    pub by: SignedDuration,
}

impl Clock {
    /// A clock that says that it is `wall` now, and moves with the timers of the runtime.
    pub fn at(wall: Timestamp) -> Self {
        Self::Runtime { set: Instant::now(), wall, steps: Arc::default() }
    }

    /// The same clock, which somebody sets at these moments. The machine's own clock stays as it is.
    #[must_use]
    pub fn with_steps(self, steps: impl Into<Arc<[ClockStep]>>) -> Self {
        match self {
            Self::Machine => Self::Machine,
            Self::Runtime { set, wall, .. } => Self::Runtime { set, wall, steps: steps.into() },
        }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Machine => Timestamp::now(),
            Self::Runtime { set, wall, steps } => {
                let since = SignedDuration::try_from(set.elapsed()).unwrap_or(SignedDuration::MAX);
                let now = Instant::now();
                let taken = steps.iter().filter(|step| step.at <= now).map(|step| step.by);
                let since = taken.fold(since, SignedDuration::saturating_add);
                wall.checked_add(since).unwrap_or(Timestamp::MAX)
            }
        }
    }
}

/// Draws numbers; clones draw from the same sequence.
#[derive(Clone, Debug)]
pub struct Chance(Arc<AtomicU64>);

impl Default for Chance {
    fn default() -> Self {
        Self::seeded(rand::random())
    }
}

impl Chance {
    /// The sequence of numbers that this seed begins.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// The next number: a step of SplitMix64, which any seed is good for.
    pub fn draw(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from a half to one, by which those who failed together are spread.
    pub fn upper_half(&self) -> f64 {
        let [high, ..] = self.draw().to_be_bytes();
        f64::midpoint(1.0, f64::from(high) / f64::from(u8::MAX))
    }
}

#[cfg(test)]
#[path = "surroundings_tests.rs"]
mod tests;
