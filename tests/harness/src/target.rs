//! Something for Prometheus to scrape, with gauges that the test turns.

use std::{
    collections::BTreeMap,
    fmt::Write,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};

use crate::{loopback::Server, network::Network};

/// The format of what is scraped.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4";

/// A gauge's values by their labels, by the gauge's name.
type Gauges = BTreeMap<String, BTreeMap<Vec<(String, String)>, f64>>;

/// A server with `/metrics`; gone when dropped.
pub struct Target {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    gauges: Mutex<Gauges>,
    scrapes: AtomicUsize,
}

impl Target {
    /// Starts without any gauge.
    pub async fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let answering = shared.clone();
        let server = Server::http(&Network::Loopback, move |request| {
            let answer = answering.answer(&request);
            async { answer }
        })
        .await?;
        Ok(Self { server, shared })
    }

    /// Where to scrape it.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Sets one series.
    pub fn set(&self, gauge: &str, labels: &[(&str, &str)], value: f64) {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.shared.gauges().entry(gauge.to_owned()).or_default().insert(labels, value);
    }

    /// Removes all series of a gauge.
    pub fn clear(&self, gauge: &str) {
        self.shared.gauges().remove(gauge);
    }

    /// How often it has been scraped.
    pub fn scrapes(&self) -> usize {
        self.shared.scrapes.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn gauges(&self) -> MutexGuard<'_, Gauges> {
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        if request.uri().path() != "/metrics" {
            let mut absent = Response::default();
            *absent.status_mut() = StatusCode::NOT_FOUND;
            return absent;
        }
        self.scrapes.fetch_add(1, Ordering::SeqCst);
        let mut metrics = Response::new(text(&self.gauges()).into());
        metrics.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(TEXT_FORMAT));
        metrics
    }
}

fn text(gauges: &Gauges) -> String {
    let mut text = String::new();
    for (name, series) in gauges {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {name} gauge");
        for (labels, value) in series {
            let labels: Vec<_> =
                labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
