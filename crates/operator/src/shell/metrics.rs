//! Everything that `/metrics` shows.
//!
//! Our own series have the prefix `sts_plus_`. The four series of a group keep the names that existing
//! dashboards and alerts of rollout-operator use, with a `namespace` label added. No label holds the name of
//! a pod, so the number of series grows with groups, PhasedRollouts, ExtendedStatefulSets, ScalingPolicies
//! and, where we control them, sets and not with pods.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::extended_metrics::ExtendedMetrics;
use super::phased_metrics::PhasedMetrics;
use super::scaling_metrics::ScalingMetrics;
use super::statefulset_metrics::StatefulSetMetrics;
use super::surroundings::Clock;
use super::webhook_metrics::WebhookMetrics;

/// Upper bounds in seconds: from one API call on loopback to a pass that waits for a throttled server.
const DURATION_BUCKETS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0];

/// All series of the process.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    clock: Arc<OnceLock<Clock>>,
    /// Requests to the API server by verb, resource and status code.
    pub requests: Family<RequestLabels, Counter>,
    /// Objects that could not be decoded, by resource.
    pub undecodable: Family<ResourceLabel, Counter>,
    /// Rows in the caches, by resource.
    pub cached: Family<ResourceLabel, Gauge>,
    /// Consistent lists completed, by resource.
    pub lists: Family<ResourceLabel, Counter>,
    /// Sources whose rows may be stale, by resource.
    pub unconfirmed_sources: Family<ResourceLabel, Gauge>,
    /// Consistent reads of what a disruption is about, by outcome.
    pub confirmations: Family<OutcomeLabel, Counter>,
    /// Keys waiting in the queue, by controller.
    pub queue_depth: Family<ControllerLabel, Gauge>,
    /// Writes by kind and outcome.
    pub writes: Family<WriteLabels, Counter>,
    /// Permissions that were denied for something that sts-plus works without: 1 each.
    pub missing_permissions: Family<PermissionLabels, Gauge>,
    /// Whether this process leads: 1 or 0.
    pub leader: Gauge,
    /// Events that were not sent because too many were waiting or one object had too many.
    pub events_dropped: Counter,
    /// Sets by state, per group.
    pub sets: Family<StateLabels, Gauge>,
    /// What is shown of ExtendedStatefulSets.
    pub extended: ExtendedMetrics,
    /// What is shown of PhasedRollouts.
    pub phased: PhasedMetrics,
    /// What is shown of ScalingPolicies.
    pub scaling: ScalingMetrics,
    /// What is shown of the sets that we control.
    pub statefulset: StatefulSetMetrics,
    /// What is shown of the admission server.
    pub webhook: WebhookMetrics,
    group_reconciles: Family<GroupLabels, Counter>,
    group_failures: Family<GroupLabels, Counter>,
    group_duration: Family<GroupLabels, Histogram, fn() -> Histogram>,
    group_last_success: Family<GroupLabels, Gauge<f64, AtomicU64>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    /// The verb, as in RBAC.
    pub verb: &'static str,
    /// The resource's plural.
    pub resource: &'static str,
    /// The HTTP status, or `unanswered`.
    pub code: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ResourceLabel {
    /// The resource's plural.
    pub resource: &'static str,
}

/// Label for how something ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct OutcomeLabel {
    /// How it ended.
    pub outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ControllerLabel {
    /// The controller's name.
    pub controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct WriteLabels {
    /// What was done.
    pub verb: &'static str,
    /// How it ended.
    pub outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct PermissionLabels {
    /// The verb, as in RBAC.
    pub verb: &'static str,
    /// The plural, with the subresource if there is one.
    pub resource: Cow<'static, str>,
    pub namespace: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct GroupLabels {
    pub namespace: Arc<str>,
    /// The group's name.
    pub rollout_group: Arc<str>,
}

/// Labels of a state within a group.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct StateLabels {
    pub namespace: Arc<str>,
    /// The group's name.
    pub rollout_group: Arc<str>,
    /// The kind of reason.
    pub state: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A fresh set of series; nothing is global.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let extended = ExtendedMetrics::register(registry.sub_registry_with_prefix("sts_plus"));
        let phased = PhasedMetrics::register(registry.sub_registry_with_prefix("sts_plus"));
        let scaling = ScalingMetrics::register(registry.sub_registry_with_prefix("sts_plus"));
        let statefulset = StatefulSetMetrics::register(registry.sub_registry_with_prefix("sts_plus"));
        let webhook = WebhookMetrics::register(registry.sub_registry_with_prefix("sts_plus"));
        let mut metrics = Self {
            registry: Arc::default(),
            clock: Arc::default(),
            extended,
            phased,
            scaling,
            statefulset,
            webhook,
            requests: Family::default(),
            undecodable: Family::default(),
            cached: Family::default(),
            lists: Family::default(),
            unconfirmed_sources: Family::default(),
            confirmations: Family::default(),
            queue_depth: Family::default(),
            writes: Family::default(),
            missing_permissions: Family::default(),
            leader: Gauge::default(),
            events_dropped: Counter::default(),
            sets: Family::default(),
            group_reconciles: Family::default(),
            group_failures: Family::default(),
            group_duration: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            group_last_success: Family::default(),
        };
        let own = registry.sub_registry_with_prefix("sts_plus");
        own.register("api_requests", "Requests to the API server", metrics.requests.clone());
        own.register("undecodable_objects", "Objects that could not be decoded", metrics.undecodable.clone());
        own.register("cached_objects", "Rows in the caches", metrics.cached.clone());
        own.register("consistent_lists", "Consistent lists completed", metrics.lists.clone());
        own.register(
            "unconfirmed_sources",
            "Watches that fail or are silent: before a disruption what it is about is read again",
            metrics.unconfirmed_sources.clone(),
        );
        own.register(
            "confirmations",
            "Consistent reads of what a disruption is about",
            metrics.confirmations.clone(),
        );
        own.register("queue_depth", "Keys waiting in the queue", metrics.queue_depth.clone());
        own.register("writes", "Writes by outcome", metrics.writes.clone());
        own.register(
            "missing_permissions",
            "Permissions that are missing and that sts-plus works without",
            metrics.missing_permissions.clone(),
        );
        own.register("leader", "Whether this process leads", metrics.leader.clone());
        own.register("events_dropped", "Events that were not sent", metrics.events_dropped.clone());
        own.register("rollout_sets", "StatefulSets of a group by state", metrics.sets.clone());
        let theirs = registry.sub_registry_with_prefix("rollout_operator");
        theirs.register("group_reconciles", "Passes over the group", metrics.group_reconciles.clone());
        theirs.register("group_reconciles_failed", "Failed passes", metrics.group_failures.clone());
        theirs.register(
            "group_reconcile_duration_seconds",
            "Time of a pass over the group",
            metrics.group_duration.clone(),
        );
        theirs.register(
            "last_successful_group_reconcile_timestamp_seconds",
            "When the last successful pass ended",
            metrics.group_last_success.clone(),
        );
        metrics.registry = Arc::new(registry);
        metrics
    }

    /// Counts one pass over a group.
    pub fn group_pass(&self, group: &GroupLabels, took: Duration, succeeded_at: Option<Timestamp>) {
        self.group_reconciles.get_or_create(group).inc();
        self.group_duration.get_or_create(group).observe(took.as_secs_f64());
        let failures = self.group_failures.get_or_create(group).clone();
        match succeeded_at {
            Some(at) => {
                let seconds = at.as_duration().as_secs_f64();
                self.group_last_success.get_or_create(group).set(seconds);
            }
            None => {
                failures.inc();
            }
        }
    }

    /// Removes all series of a group that is no more.
    pub fn forget_group(&self, group: &GroupLabels, states: &[&'static str]) {
        self.group_reconciles.remove(group);
        self.group_failures.remove(group);
        self.group_duration.remove(group);
        self.group_last_success.remove(group);
        for &state in states {
            self.sets.remove(&StateLabels {
                namespace: Arc::clone(&group.namespace),
                rollout_group: Arc::clone(&group.rollout_group),
                state,
            });
        }
    }

    /// Reads this clock from now on, unless it reads another one already.
    pub fn read_clock(&self, clock: &Clock) {
        self.clock.get_or_init(|| clock.clone());
    }

    /// All series in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        self.phased.tick(self.clock.get_or_init(Clock::default).now());
        let mut page = String::new();
        // Writing to a string does not fail; a partial page would still be a valid answer.
        text::encode(&mut page, &self.registry).ok();
        page
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
