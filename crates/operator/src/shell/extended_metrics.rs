//! What `/metrics` shows of ExtendedStatefulSets. There are few of them, so each has series of its own.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sts_plus_api::extended::ExtendedStatus;

/// The state of an object that waits for nothing.
const READY: &str = "Ready";

/// The series of all objects.
#[derive(Clone, Debug)]
pub struct ExtendedMetrics {
    state: Family<StateLabels, Gauge>,
    versions: Family<ExtendedLabels, Gauge>,
    current_version: Family<ExtendedLabels, Gauge>,
    ready_replicas: Family<ExtendedLabels, Gauge>,
    active: Family<ExtendedLabels, Gauge>,
    failovers: Family<ExtendedLabels, Counter>,
    /// What is shown of each object: its state and the UID of its active pod.
    shown: Arc<Mutex<HashMap<ExtendedLabels, Shown>>>,
}

#[derive(Debug, Default)]
struct Shown {
    state: &'static str,
    active: Option<String>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ExtendedLabels {
    pub group: &'static str,
    pub namespace: Arc<str>,
    pub extended_statefulset: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    group: &'static str,
    namespace: Arc<str>,
    extended_statefulset: Arc<str>,
    state: &'static str,
}

impl ExtendedMetrics {
    /// Fresh series in a registry.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            state: Family::default(),
            versions: Family::default(),
            current_version: Family::default(),
            ready_replicas: Family::default(),
            active: Family::default(),
            failovers: Family::default(),
            shown: Arc::default(),
        };
        let own = registry.sub_registry_with_prefix("extended_statefulset");
        own.register("state", "1 for what the object waits for, or Ready", metrics.state.clone());
        own.register("versions", "Versions that have a StatefulSet", metrics.versions.clone());
        own.register("current_version", "The promoted version", metrics.current_version.clone());
        own.register("ready_replicas", "Ready pods of all zones", metrics.ready_replicas.clone());
        own.register("active", "Whether a pod is active: 1 or 0", metrics.active.clone());
        own.register(
            "active_pod_changes",
            "How often another pod has become active",
            metrics.failovers.clone(),
        );
        metrics
    }

    /// Shows a status, and what the object waits for.
    pub fn show(&self, object: &ExtendedLabels, status: &ExtendedStatus, waits_for: Option<&'static str>) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.versions.get_or_create(object).set(number(status.versions.len()));
        self.current_version.get_or_create(object).set(status.current_version.map_or(0, i64::from));
        self.ready_replicas.get_or_create(object).set(status.ready_replicas.map_or(0, i64::from));
        self.active.get_or_create(object).set(i64::from(status.active_pod.is_some()));
        let state = waits_for.unwrap_or(READY);
        let mut shown = self.shown.lock();
        let shown = shown.entry(object.clone()).or_default();
        if shown.state != state {
            self.state.remove(&state_labels(object, shown.state));
            shown.state = state;
        }
        self.state.get_or_create(&state_labels(object, state)).set(1);
        let active = status.active_pod.as_ref().map(|pod| pod.uid.clone());
        if let Some(active) = active.filter(|active| shown.active.as_ref() != Some(active)) {
            // The first one that this process sees is no change.
            if shown.active.replace(active).is_some() {
                self.failovers.get_or_create(object).inc();
            }
        }
    }

    /// Removes all series of an object that is gone.
    pub fn forget(&self, object: &ExtendedLabels) {
        if let Some(shown) = self.shown.lock().remove(object) {
            self.state.remove(&state_labels(object, shown.state));
        }
        for gauges in [&self.versions, &self.current_version, &self.ready_replicas, &self.active] {
            gauges.remove(object);
        }
        self.failovers.remove(object);
    }
}

fn state_labels(object: &ExtendedLabels, state: &'static str) -> StateLabels {
    StateLabels {
        group: object.group,
        namespace: Arc::clone(&object.namespace),
        extended_statefulset: Arc::clone(&object.extended_statefulset),
        state,
    }
}

#[cfg(test)]
#[path = "extended_metrics_tests.rs"]
mod tests;
