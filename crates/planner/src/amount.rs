//! A number of pods, written as a count or as a percentage.

/// How many pods of a set may be not Ready at once when the user says nothing, or nothing usable.
pub const DEFAULT_MAX_UNAVAILABLE: u32 = 1;

/// A positive number of pods, or a percentage of the replicas from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A fixed number of pods, at least 1.
    Count(u32),
    /// A percentage of the replicas, from 1 to 100.
    Percent(u32),
}

impl Amount {
    /// Reads `3` or `30%`; surrounding spaces are ignored. `None` for anything else, zero and negative
    /// numbers included.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.strip_suffix('%') {
            Some(percent) => whole_number(percent).filter(|p| (1..=100).contains(p)).map(Self::Percent),
            None => whole_number(text).filter(|n| *n >= 1).map(Self::Count),
        }
    }

    /// The number of pods for this many replicas: percentages round down and never below one.
    pub fn of(self, replicas: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let share = u64::from(replicas) * u64::from(percent) / 100;
                u32::try_from(share).unwrap_or(u32::MAX).max(1)
            }
        }
    }
}

/// Digits only: the standard parser would also take a sign.
fn whole_number(text: &str) -> Option<u32> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
#[path = "amount_tests.rs"]
mod tests;
