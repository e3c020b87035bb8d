//! How long to wait before a retry.

use std::time::Duration;

use super::surroundings::Chance;

/// The first wait: long enough for a conflict to pass, short enough not to be felt.
const FIRST_DELAY: Duration = Duration::from_millis(50);

/// The longest wait: a cluster that is down for an hour is asked twice a minute.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Past this many doublings the wait is at its cap.
const MAX_DOUBLINGS: u32 = 10;

/// The wait after this many consecutive failures: doubling, capped, and spread over its upper half so that those
/// who failed together do not return together.
pub fn delay(failures: u32, chance: &Chance) -> Duration {
    let doublings = failures.saturating_sub(1).min(MAX_DOUBLINGS);
    let full = FIRST_DELAY.saturating_mul(1 << doublings).min(MAX_DELAY);
    full.mul_f64(chance.upper_half())
}
