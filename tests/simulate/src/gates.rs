//! The time of gates, as it really passes: how long each has been there, without what its deadline does not count.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// The waits that never count: nothing about the revision is at work, or is judged. What else does not count cannot be seen
/// in the status alone.
const IDLE: [&str; 7] = [
    "Paused",
    "Approval",
    "NotObserved",
    "OtherSetNotReady",
    "OtherSetDisturbed",
    "PartitionContested",
    "ViewUnconfirmed",
];
/// A wait may be over for so long before the status says so: a write is given up and made again meanwhile.
const LATE: Duration = Duration::from_secs(20);
/// Time is counted in whole seconds, and seen when it is written.
const SLACK: Duration = Duration::from_secs(10);

/// The gates that rollouts have shown, by when they say that they began.
#[derive(Debug, Default)]
pub struct Gates(BTreeMap<(String, String), Gate>);

#[derive(Clone, Copy, Debug)]
struct Gate {
    /// When it was first seen.
    began: Duration,
    /// How long it has shown waits that do not count, without the present one, ...
    idle: Duration,
    /// ... and since when it shows that.
    idles_since: Option<Duration>,
}

impl Gate {
    /// The time that may count.
    fn counted(self, now: Duration) -> Duration {
        let present = self.idles_since.map_or(Duration::ZERO, |since| now.saturating_sub(since + LATE));
        now.saturating_sub(self.began + self.idle + present)
    }
}

fn key(rollout: &str, status: &Value) -> Option<(String, String)> {
    Some((rollout.to_owned(), status["rollingPodStatus"]["startTime"].as_str()?.to_owned()))
}

impl Gates {
    /// Takes in what a rollout says, and finds what is wrong with it: a gate has counted more time than it had.
    pub fn take(&mut self, now: Duration, rollout: &str, status: &Value) -> Option<String> {
        let gate = self.0.entry(key(rollout, status)?);
        let gate = gate.or_insert(Gate { began: now, idle: Duration::ZERO, idles_since: None });
        let had = gate.counted(now);
        if IDLE.iter().any(|kind| status["waitingFor"] == *kind) {
            gate.idles_since.get_or_insert(now);
        } else if let Some(since) = gate.idles_since.take() {
            gate.idle += now.saturating_sub(since + LATE);
        }
        let says = status["rollingPodStatus"]["elapsedSeconds"].as_u64().unwrap_or_default();
        (Duration::from_secs(says) > had + SLACK).then(|| {
            format!("deadline: {rollout} counts {says} s of a gate, of which {} s may count", had.as_secs())
        })
    }

    /// The time that may count of the gate that a status shows.
    pub fn counted(&self, now: Duration, rollout: &str, status: &Value) -> Option<Duration> {
        Some(self.0.get(&key(rollout, status)?)?.counted(now))
    }
}
