//! What `/metrics` shows of PhasedRollouts. There are few of them, so each has series of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use strum::VariantArray;
use sts_plus_api::phased_rollout::{Phase, PhasedRolloutStatus, Verdict};
use sts_plus_planner::phased_rollout::Ended;

/// Upper bounds in seconds: from an answer on loopback to the longest time limit.
const QUERY_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

/// Upper bounds in seconds: from a gate without delays to one that waits for a night.
const GATE_BUCKETS: [f64; 10] = [1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 43_200.0];

/// The series of all rollouts.
#[derive(Clone, Debug)]
pub struct PhasedMetrics {
    phase: Family<PhaseLabels, Gauge>,
    partition: Family<RolloutLabels, Gauge>,
    pods: Family<PodLabels, Gauge>,
    checks: Family<CheckLabels, Counter>,
    query_duration: Family<RolloutLabels, Histogram, fn() -> Histogram>,
    gate_duration: Family<RolloutLabels, Histogram, fn() -> Histogram>,
    waiting: Family<RolloutLabels, Gauge<f64, AtomicU64>>,
    ended: Family<EndLabels, Counter>,
    /// Since when each rollout has waited for what it waits for; the page says for how long.
    since: Arc<Mutex<HashMap<RolloutLabels, Timestamp>>>,
    /// The checks that a rollout has series for.
    counted: Arc<Mutex<HashMap<RolloutLabels, Vec<String>>>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RolloutLabels {
    pub namespace: Arc<str>,
    pub phased_rollout: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PhaseLabels {
    namespace: Arc<str>,
    phased_rollout: Arc<str>,
    phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PodLabels {
    namespace: Arc<str>,
    phased_rollout: Arc<str>,
    revision: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CheckLabels {
    namespace: Arc<str>,
    phased_rollout: Arc<str>,
    check: String,
    verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndLabels {
    namespace: Arc<str>,
    phased_rollout: Arc<str>,
    result: &'static str,
}

/// How pods stand to the rollout: names of revisions would be new series with each rollout.
const ROLES: [&str; 2] = ["update", "other"];

impl PhasedMetrics {
    /// Fresh series in a registry.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            phase: Family::default(),
            partition: Family::default(),
            pods: Family::default(),
            checks: Family::default(),
            query_duration: Family::new_with_constructor(|| Histogram::new(QUERY_BUCKETS)),
            gate_duration: Family::new_with_constructor(|| Histogram::new(GATE_BUCKETS)),
            waiting: Family::default(),
            ended: Family::default(),
            since: Arc::default(),
            counted: Arc::default(),
        };
        let own = registry.sub_registry_with_prefix("phased_rollout");
        own.register("phase", "1 for the phase that the rollout is in", metrics.phase.clone());
        own.register("partition", "The partition of the present gate", metrics.partition.clone());
        own.register("pods", "Pods of the update revision and others", metrics.pods.clone());
        own.register("checks", "Queries by check and verdict", metrics.checks.clone());
        own.register("check_duration_seconds", "Time of a query", metrics.query_duration.clone());
        own.register(
            "gate_duration_seconds",
            "Time of a gate that has passed",
            metrics.gate_duration.clone(),
        );
        own.register("waiting_seconds", "How long the present wait has lasted", metrics.waiting.clone());
        own.register("ended", "Rollouts that have ended, by result", metrics.ended.clone());
        metrics
    }

    pub fn show(&self, rollout: &RolloutLabels, status: &PhasedRolloutStatus) {
        let RolloutLabels { namespace, phased_rollout } = rollout;
        for phase in Phase::VARIANTS {
            let labels = PhaseLabels {
                namespace: Arc::clone(namespace),
                phased_rollout: Arc::clone(phased_rollout),
                phase: phase.word(),
            };
            if status.phase == Some(*phase) {
                self.phase.get_or_create(&labels).set(1);
            } else {
                self.phase.remove(&labels);
            }
        }
        match &status.rolling_pod_status {
            Some(gate) => {
                self.partition.get_or_create(rollout).set(i64::from(gate.partition));
            }
            None => {
                self.partition.remove(rollout);
            }
        }
        let updated = |pods: &sts_plus_api::phased_rollout::RevisionPods| {
            status.update_revision.as_deref() == Some(&pods.revision)
        };
        for role in ROLES {
            let pods = status.pods.iter().filter(|pods| updated(pods) == (role == "update"));
            let labels = PodLabels {
                namespace: Arc::clone(namespace),
                phased_rollout: Arc::clone(phased_rollout),
                revision: role,
            };
            self.pods.get_or_create(&labels).set(pods.map(|pods| i64::from(pods.pods)).sum());
        }
        let mut since = self.since.lock();
        match status.since {
            Some(at) => since.insert(rollout.clone(), at),
            None => since.remove(rollout),
        };
    }

    /// Counts a query.
    pub fn queried(&self, rollout: &RolloutLabels, check: &str, verdict: Verdict, took: Duration) {
        self.checks.get_or_create(&Self::check_labels(rollout, check, verdict)).inc();
        self.query_duration.get_or_create(rollout).observe(took.as_secs_f64());
        let mut counted = self.counted.lock();
        let checks = counted.entry(rollout.clone()).or_default();
        if !checks.iter().any(|known| known == check) {
            checks.push(check.to_owned());
        }
    }

    /// Counts a gate that has passed.
    pub fn passed(&self, rollout: &RolloutLabels, took: Duration) {
        self.gate_duration.get_or_create(rollout).observe(took.as_secs_f64());
    }

    /// Counts a rollout that has ended.
    pub fn ended(&self, rollout: &RolloutLabels, ended: Ended) {
        self.ended.get_or_create(&Self::end_labels(rollout, ended)).inc();
    }

    /// Removes all series of a rollout that is no more.
    pub fn forget(&self, rollout: &RolloutLabels) {
        self.show(rollout, &PhasedRolloutStatus::default());
        for role in ROLES {
            self.pods.remove(&PodLabels {
                namespace: Arc::clone(&rollout.namespace),
                phased_rollout: Arc::clone(&rollout.phased_rollout),
                revision: role,
            });
        }
        for check in self.counted.lock().remove(rollout).into_iter().flatten() {
            for verdict in Verdict::VARIANTS {
                self.checks.remove(&Self::check_labels(rollout, &check, *verdict));
            }
        }
        for ended in Ended::VARIANTS {
            self.ended.remove(&Self::end_labels(rollout, *ended));
        }
        self.query_duration.remove(rollout);
        self.gate_duration.remove(rollout);
        self.waiting.remove(rollout);
    }

    /// Brings what grows by itself up to date.
    pub(super) fn tick(&self, now: Timestamp) {
        for (rollout, since) in self.since.lock().iter() {
            let waited = now.duration_since(*since).as_secs_f64().max(0.0);
            self.waiting.get_or_create(rollout).set(waited);
        }
    }

    fn check_labels(rollout: &RolloutLabels, check: &str, verdict: Verdict) -> CheckLabels {
        CheckLabels {
            namespace: Arc::clone(&rollout.namespace),
            phased_rollout: Arc::clone(&rollout.phased_rollout),
            check: check.to_owned(),
            verdict: verdict.word(),
        }
    }

    fn end_labels(rollout: &RolloutLabels, ended: Ended) -> EndLabels {
        EndLabels {
            namespace: Arc::clone(&rollout.namespace),
            phased_rollout: Arc::clone(&rollout.phased_rollout),
            result: ended.word(),
        }
    }
}

#[cfg(test)]
#[path = "phased_metrics_tests.rs"]
mod tests;
