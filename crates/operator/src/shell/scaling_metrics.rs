//! What `/metrics` shows of ScalingPolicies. There are few of them, so each has series of its own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use strum::VariantArray;
use sts_plus_api::scaling_policy::{PodRecord, RecordPhase, ScalingPolicyStatus};
use sts_plus_planner::scaling::hook::{Call, HookResult};

/// The state of a policy that waits for nothing.
const READY: &str = "Ready";

/// Upper bounds in seconds: from an answer on loopback to the longest time limit.
const CALL_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

/// Upper bounds in seconds: from an application with nothing to flush to one that hands over its data for a night.
const DRAIN_BUCKETS: [f64; 10] = [1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 43_200.0];

/// How calls end, as labels name it.
const RESULTS: [&str; 3] = ["done", "pending", "failed"];

/// The series of all policies.
#[derive(Clone, Debug)]
pub struct ScalingMetrics {
    state: Family<StateLabels, Gauge>,
    desired_replicas: Family<ScalingLabels, Gauge>,
    replicas: Family<ScalingLabels, Gauge>,
    ready_replicas: Family<ScalingLabels, Gauge>,
    leaving: Family<PhaseLabels, Gauge>,
    calls: Family<CallLabels, Counter>,
    call_duration: Family<ScalingLabels, Histogram, fn() -> Histogram>,
    drain_duration: Family<ScalingLabels, Histogram, fn() -> Histogram>,
    removed: Family<ScalingLabels, Counter>,
    shown: Arc<Mutex<HashMap<ScalingLabels, Shown>>>,
}

/// What is shown of a policy.
#[derive(Debug)]
struct Shown {
    state: &'static str,
    /// The UIDs of its leaving pods that are drained.
    drained: BTreeSet<String>,
}

/// A ScalingPolicy.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ScalingLabels {
    pub namespace: Arc<str>,
    /// Its name.
    pub scaling_policy: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    namespace: Arc<str>,
    scaling_policy: Arc<str>,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PhaseLabels {
    namespace: Arc<str>,
    scaling_policy: Arc<str>,
    phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    namespace: Arc<str>,
    scaling_policy: Arc<str>,
    call: &'static str,
    result: &'static str,
}

impl ScalingMetrics {
    /// Fresh series in a registry.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            state: Family::default(),
            desired_replicas: Family::default(),
            replicas: Family::default(),
            ready_replicas: Family::default(),
            leaving: Family::default(),
            calls: Family::default(),
            call_duration: Family::new_with_constructor(|| Histogram::new(CALL_BUCKETS)),
            drain_duration: Family::new_with_constructor(|| Histogram::new(DRAIN_BUCKETS)),
            removed: Family::default(),
            shown: Arc::default(),
        };
        let own = registry.sub_registry_with_prefix("scaling_policy");
        own.register("state", "1 for what the policy waits for, or Ready", metrics.state.clone());
        own.register("desired_replicas", "Pods that are aimed at", metrics.desired_replicas.clone());
        own.register("replicas", "Pods that the StatefulSet has", metrics.replicas.clone());
        own.register("ready_replicas", "Ready pods that stay", metrics.ready_replicas.clone());
        own.register("leaving_pods", "Leaving pods by phase", metrics.leaving.clone());
        own.register("hook_calls", "Calls of hooks by result", metrics.calls.clone());
        own.register(
            "hook_call_duration_seconds",
            "Time of a call of a hook, with the wait for its turn",
            metrics.call_duration.clone(),
        );
        own.register(
            "drain_duration_seconds",
            "Time from the request to a pod until it was drained",
            metrics.drain_duration.clone(),
        );
        own.register("removed_pods", "Pods that were drained and removed", metrics.removed.clone());
        metrics
    }

    /// Shows a status, and what the policy waits for.
    pub fn show(
        &self,
        policy: &ScalingLabels,
        status: &ScalingPolicyStatus,
        waits_for: Option<&'static str>,
    ) {
        let number = |count: Option<u32>| count.map_or(0, i64::from);
        self.desired_replicas.get_or_create(policy).set(number(status.desired_replicas));
        self.replicas.get_or_create(policy).set(number(status.replicas));
        self.ready_replicas.get_or_create(policy).set(number(status.ready_replicas));
        for phase in RecordPhase::VARIANTS {
            let pods = status.leaving.iter().filter(|record| record.phase == *phase).count();
            let pods = i64::try_from(pods).unwrap_or(i64::MAX);
            self.leaving.get_or_create(&phase_labels(policy, *phase)).set(pods);
        }
        let drained = status.leaving.iter().filter(|record| record.phase == RecordPhase::Drained);
        let state = waits_for.unwrap_or(READY);
        let mut shown = self.shown.lock();
        // Pods that were drained before this process saw the policy are not counted again.
        let is_first = !shown.contains_key(policy);
        let shown = shown.entry(policy.clone()).or_insert_with(|| Shown { state, drained: BTreeSet::new() });
        if shown.state != state {
            self.state.remove(&state_labels(policy, shown.state));
            shown.state = state;
        }
        self.state.get_or_create(&state_labels(policy, state)).set(1);
        let mut now_drained = BTreeSet::new();
        for record in drained {
            if !is_first && !shown.drained.contains(&record.pod_uid) {
                self.drain_duration.get_or_create(policy).observe(took(record));
            }
            now_drained.insert(record.pod_uid.clone());
        }
        shown.drained = now_drained;
    }

    /// Counts a call of a hook.
    pub fn called(&self, policy: &ScalingLabels, call: Call, result: &HookResult, took: Duration) {
        let result = match result {
            HookResult::Done => "done",
            HookResult::Pending { .. } => "pending",
            HookResult::Broken(_) | HookResult::Failed(_) => "failed",
        };
        self.calls.get_or_create(&call_labels(policy, call, result)).inc();
        self.call_duration.get_or_create(policy).observe(took.as_secs_f64());
    }

    /// Counts pods that were drained and are gone.
    pub fn removed(&self, policy: &ScalingLabels, pods: usize) {
        if pods > 0 {
            self.removed.get_or_create(policy).inc_by(u64::try_from(pods).unwrap_or(u64::MAX));
        }
    }

    /// Removes all series of a policy that is gone.
    pub fn forget(&self, policy: &ScalingLabels) {
        if let Some(shown) = self.shown.lock().remove(policy) {
            self.state.remove(&state_labels(policy, shown.state));
        }
        for gauges in [&self.desired_replicas, &self.replicas, &self.ready_replicas] {
            gauges.remove(policy);
        }
        for phase in RecordPhase::VARIANTS {
            self.leaving.remove(&phase_labels(policy, *phase));
        }
        for call in Call::VARIANTS {
            for result in RESULTS {
                self.calls.remove(&call_labels(policy, *call, result));
            }
        }
        self.call_duration.remove(policy);
        self.drain_duration.remove(policy);
        self.removed.remove(policy);
    }
}

/// How long a drain took, in seconds.
fn took(record: &PodRecord) -> f64 {
    let ended = record.last_attempt_time.unwrap_or(record.start_time);
    ended.duration_since(record.start_time).as_secs_f64().max(0.0)
}

fn state_labels(policy: &ScalingLabels, state: &'static str) -> StateLabels {
    let ScalingLabels { namespace, scaling_policy } = policy.clone();
    StateLabels { namespace, scaling_policy, state }
}

fn phase_labels(policy: &ScalingLabels, phase: RecordPhase) -> PhaseLabels {
    let ScalingLabels { namespace, scaling_policy } = policy.clone();
    PhaseLabels { namespace, scaling_policy, phase: phase.word() }
}

fn call_labels(policy: &ScalingLabels, call: Call, result: &'static str) -> CallLabels {
    let ScalingLabels { namespace, scaling_policy } = policy.clone();
    CallLabels { namespace, scaling_policy, call: call.word(), result }
}

#[cfg(test)]
#[path = "scaling_metrics_tests.rs"]
mod tests;
