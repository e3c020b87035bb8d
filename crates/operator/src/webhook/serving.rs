//! The certificate that the server shows at the moment, and why there is none.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::shell::webhook_metrics::WebhookMetrics;

/// Shared by whoever renews the certificate and whoever shows it.
pub(super) struct Serving {
    shown: RwLock<Option<Arc<CertifiedKey>>>,
    /// What prevents a renewal.
    trouble: RwLock<Option<String>>,
    metrics: WebhookMetrics,
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("trouble", &self.trouble).finish_non_exhaustive()
    }
}

impl Serving {
    pub(super) fn new(metrics: WebhookMetrics) -> Self {
        Self { shown: RwLock::default(), trouble: RwLock::default(), metrics }
    }

    /// Shows a certificate from now on, on new connections.
    pub(super) fn show(&self, certified: Arc<CertifiedKey>, until: Timestamp) {
        let mut shown = self.shown.write();
        let is_new = shown.as_ref().is_none_or(|shown| shown.cert != certified.cert);
        if is_new {
            tracing::info!(%until, "the admission server shows another certificate");
            *shown = Some(certified);
        }
        self.metrics.certificate_ends(until);
    }

    /// Shows until when the authority is valid that signs.
    pub(super) fn show_authority(&self, until: Timestamp) {
        self.metrics.authority_ends(until);
    }

    /// Says what prevents a renewal, or that nothing does.
    pub(super) fn report(&self, trouble: Option<String>) {
        let mut known = self.trouble.write();
        if *known != trouble {
            if let Some(trouble) = &trouble {
                tracing::warn!("the certificate of the admission server: {trouble}");
            } else {
                tracing::info!("the certificate of the admission server is in order");
            }
            *known = trouble;
        }
    }

    /// Whether requests can be answered.
    pub(super) fn readiness(&self) -> Result<(), String> {
        if self.shown.read().is_some() {
            return Ok(());
        }
        let trouble = self.trouble.read().clone();
        let trouble = trouble.unwrap_or_else(|| "it is being made".to_owned());
        Err(format!("waiting for the certificate of the admission server: {trouble}"))
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.shown.read().clone()
    }
}
