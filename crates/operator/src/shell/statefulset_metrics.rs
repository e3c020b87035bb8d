//! What is shown of the sets that we control: upstream's two gauges.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sts_plus_planner::statefulset::Gauges;

/// The series of all sets.
#[derive(Clone, Debug, Default)]
pub struct StatefulSetMetrics {
    max_unavailable: Family<SetLabels, Gauge>,
    unavailable: Family<SetLabels, Gauge>,
}

/// Labels of a set, as upstream has them.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct SetLabels {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// How its pods are created and removed.
    pub pod_management_policy: &'static str,
}

impl StatefulSetMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "statefulset_max_unavailable",
            "Pods that may be unavailable while the set rolls",
            metrics.max_unavailable.clone(),
        );
        registry.register(
            "statefulset_unavailable_replicas",
            "Pods that are unavailable",
            metrics.unavailable.clone(),
        );
        metrics
    }

    pub fn show(&self, labels: &SetLabels, gauges: Gauges) {
        self.max_unavailable.get_or_create(labels).set(gauges.max_unavailable.into());
        self.unavailable.get_or_create(labels).set(gauges.unavailable.into());
    }

    /// Removes the series of a set.
    pub fn forget(&self, labels: &SetLabels) {
        self.max_unavailable.remove(labels);
        self.unavailable.remove(labels);
    }
}
