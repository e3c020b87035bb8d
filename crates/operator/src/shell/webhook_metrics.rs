//! What `/metrics` shows of the admission server.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds in seconds: from a decision alone to the time limit of a request.
const BUCKETS: [f64; 9] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0];

/// The series of the admission server.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    requests: Family<RequestLabels, Counter>,
    duration: Family<PathLabel, Histogram, fn() -> Histogram>,
    refused: Family<ReasonLabel, Counter>,
    /// When what is shown ends; there is no series before there is something.
    ends: Family<CertificateLabel, Gauge<f64, AtomicU64>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    path: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PathLabel {
    path: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CertificateLabel {
    certificate: &'static str,
}

impl WebhookMetrics {
    /// Fresh series in a registry.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            refused: Family::default(),
            ends: Family::default(),
        };
        let own = registry.sub_registry_with_prefix("webhook");
        own.register("requests", "Admission requests by path and result", metrics.requests.clone());
        own.register(
            "request_duration_seconds",
            "Time from the head of an admission request to its answer",
            metrics.duration.clone(),
        );
        own.register(
            "refused_connections",
            "Connections to the admission server that came to nothing",
            metrics.refused.clone(),
        );
        own.register(
            "certificate_expiry_timestamp_seconds",
            "When the certificate of the admission server ends, and that of its authority",
            metrics.ends.clone(),
        );
        metrics
    }

    /// Counts a request.
    pub(crate) fn answered(&self, path: &'static str, result: &'static str, took: Duration) {
        self.requests.get_or_create(&RequestLabels { path, result }).inc();
        self.duration.get_or_create(&PathLabel { path }).observe(took.as_secs_f64());
    }

    /// Counts a connection without a request.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Shows when the certificate of the server ends.
    pub(crate) fn certificate_ends(&self, until: Timestamp) {
        self.end("server", until);
    }

    /// Shows when the authority ends that signs it.
    pub(crate) fn authority_ends(&self, until: Timestamp) {
        self.end("authority", until);
    }

    fn end(&self, certificate: &'static str, until: Timestamp) {
        self.ends.get_or_create(&CertificateLabel { certificate }).set(until.as_duration().as_secs_f64());
    }
}
