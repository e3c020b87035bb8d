//! The arithmetic of the tables, apart from everything that measures.

use std::time::Duration;

/// The arithmetic mean; zero of nothing.
pub(crate) fn mean(samples: &[Duration]) -> Duration {
    let count = u32::try_from(samples.len()).unwrap_or(u32::MAX);
    samples.iter().sum::<Duration>().checked_div(count).unwrap_or_default()
}

/// The smallest sample that at least this share of all samples does not exceed; zero of nothing.
pub(crate) fn percentile(samples: &[Duration], percent: usize) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// A figure over several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Nothing of no runs.
    pub(crate) fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_unstable_by(f64::total_cmp);
        let (least, most) = (*figures.first()?, *figures.last()?);
        let upper = *figures.get(figures.len() / 2)?;
        let lower = *figures.get((figures.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(lower, upper), least, most })
    }

    /// The median and, of several runs, the least and the most.
    pub(crate) fn show(self, show: impl Fn(f64) -> String) -> String {
        let Self { median, least, most } = self;
        format!("{} ({} to {})", show(median), show(least), show(most))
    }
}

/// What a rolled pod takes whoever rolls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodTime {
    /// From the deletion to gone.
    pub(crate) terminate: Duration,
    /// From created to Ready: bound, started, ready.
    pub(crate) rise: Duration,
}

/// The least time from the first deletion until these pods are rolled one after another: their own times, one
/// create for each of them and one delete for each but the first, with which the time begins.
pub(crate) fn floor(pods: &[PodTime], write: Duration) -> Duration {
    let own: Duration = pods.iter().map(|pod| pod.terminate + pod.rise).sum();
    let writes = u32::try_from(2 * pods.len()).unwrap_or(u32::MAX).saturating_sub(1);
    own + write * writes
}

/// The share of the measured time that nobody could have saved; zero of no time.
pub(crate) fn efficiency(floor: Duration, measured: Duration) -> f64 {
    if measured.is_zero() { 0.0 } else { floor.as_secs_f64() / measured.as_secs_f64() }
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
