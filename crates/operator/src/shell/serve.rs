//! HTTP for the kubelet and for Prometheus: `/ready`, `/livez`, `/metrics`.

use std::fmt;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use super::cache::Cache;
use super::executor::Gate;
use super::lease::Leadership;
use super::metrics::Metrics;

/// What the answers are made from.
#[derive(Clone, Debug)]
pub struct Health {
    metrics: Metrics,
    leadership: Leadership,
    running: Arc<OnceLock<(Cache, Gate)>>,
    check: Option<Check>,
}

/// Something that must hold in addition for the process to be ready; the error says what it waits for.
#[derive(Clone)]
pub struct Check(Arc<dyn Fn() -> Result<(), String> + Send + Sync>);

impl Check {
    pub fn new(check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

impl Health {
    /// Health of a process whose caches have not started yet.
    pub fn new(metrics: Metrics, leadership: Leadership, check: Option<Check>) -> Self {
        Self { metrics, leadership, running: Arc::default(), check }
    }

    /// The caches have started.
    pub fn started(&self, cache: Cache, gate: Gate) {
        // Set once per process; a second start would be a second process.
        self.running.set((cache, gate)).ok();
    }

    /// Whether the process can do its part: its caches are complete and, where it leads, consistent.
    pub fn readiness(&self) -> Result<&'static str, String> {
        if let Some(Check(check)) = &self.check {
            check()?;
        }
        let Some((cache, gate)) = self.running.get() else {
            return Err("waiting for the first word about the lease".to_owned());
        };
        if !cache.has_completed(Cache::first_round()) {
            let trouble = cache.trouble().unwrap_or_else(|| "the first lists are under way".to_owned());
            return Err(format!("waiting for the caches: {trouble}"));
        }
        match (self.leadership.current(), gate.open()) {
            (Some(_), Some(_)) => Ok("leading"),
            (Some(_), None) => Err("leading, waiting for a consistent view".to_owned()),
            (None, _) => Ok("standing by"),
        }
    }
}

/// Serves until the listener fails.
pub async fn serve(listener: TcpListener, health: Health) {
    let routes = Router::new()
        .route("/ready", get(ready))
        .route("/livez", get(|| async { "alive\n" }))
        .route("/metrics", get(metrics))
        .with_state(health);
    if let Err(error) = axum::serve(listener, routes).await {
        tracing::error!("the HTTP server ended: {error}");
    }
}

async fn ready(State(health): State<Health>) -> impl IntoResponse {
    match health.readiness() {
        Ok(how) => (StatusCode::OK, format!("{how}\n")),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

async fn metrics(State(health): State<Health>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    if let Some((cache, _)) = health.running.get() {
        cache.show_freshness(&health.metrics);
    }
    ([(header::CONTENT_TYPE, kind)], health.metrics.encode())
}
