//! The application in the pods of the demo of ScalingPolicies, for which the playground answers: an ingester that flushes its
//! chunks to an object storage before it is removed.
//!
//! The storage is a word in a ConfigMap, so that a key and a kubectl command take it away in the same way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use parking_lot::Mutex;
use serde_json::json;
use sts_plus_cluster::nodes::network::{Asked, Network, Reset, handler};
use tokio::time::Instant;

use super::commands::NAMESPACE;

/// The set whose pods these are, and the policy that scales it.
pub(super) const INGESTER: &str = "ingester";

/// The ConfigMap of the storage, its entry, and the values of that.
pub(super) const STORAGE: &str = "playground-storage";
pub(super) const ENTRY: &str = "storage";
pub(super) const AVAILABLE: &str = "available";
pub(super) const UNAVAILABLE: &str = "unavailable";

/// What each pod holds.
const CHUNKS: u128 = 40;

/// How long a flush takes, and with `--fast`: the first question about it comes 2 s after it has begun.
const FLUSH: Duration = Duration::from_secs(12);
const FAST_FLUSH: Duration = Duration::from_secs(5);

/// How many pods are remembered: more than a demo ever has at a time.
const MAX_FLUSHES: usize = 1000;

/// Answers for the pods from now on.
pub(super) fn start(network: &Network, client: kube::Client, is_fast: bool) {
    let lasts = if is_fast { FAST_FLUSH } else { FLUSH };
    let ingesters = Arc::new(Ingesters { flushes: Mutex::default(), lasts });
    let answer = handler(move |request: http::Request<_>| {
        let (ingesters, client) = (Arc::clone(&ingesters), client.clone());
        async move {
            let asked = request.extensions().get::<Asked>().cloned().ok_or(Reset)?;
            let is_available = storage(client).await;
            Ok(ingesters.answer(&asked.uid, request.method(), request.uri().path(), is_available))
        }
    });
    network.answer_for_set(NAMESPACE, INGESTER, answer);
}

/// Whether the storage is available. It is where nothing else is said.
async fn storage(client: kube::Client) -> bool {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let settings = Api::<DynamicObject>::namespaced_with(client, NAMESPACE, &resource).get(STORAGE).await;
    let entry = settings.ok().and_then(|settings| settings.data.get("data")?.get(ENTRY).cloned());
    entry.is_none_or(|state| state != UNAVAILABLE)
}

/// The pods that flush, or have flushed.
struct Ingesters {
    /// When each began, by UID.
    flushes: Mutex<BTreeMap<String, Instant>>,
    lasts: Duration,
}

impl Ingesters {
    fn answer(&self, uid: &str, method: &Method, path: &str, is_available: bool) -> Response<Bytes> {
        let mut flushes = self.flushes.lock();
        match (method, path) {
            (&Method::POST, "/ingester/shutdown") if !is_available => unavailable(),
            (&Method::POST, "/ingester/shutdown") => {
                if flushes.len() >= MAX_FLUSHES {
                    flushes.clear();
                }
                flushes.entry(uid.to_owned()).or_insert_with(Instant::now);
                said(StatusCode::ACCEPTED, format!("flushing {CHUNKS} chunks"))
            }
            (&Method::DELETE, "/ingester/shutdown") => {
                flushes.remove(uid);
                said(StatusCode::NO_CONTENT, String::new())
            }
            (&Method::GET, "/ingester/status") => {
                let state = match flushes.get(uid).map(Instant::elapsed) {
                    None => "serving".to_owned(),
                    Some(since) if since >= self.lasts => "flushed".to_owned(),
                    Some(_) if !is_available => return unavailable(),
                    Some(since) => format!("flushing, {} of {CHUNKS} chunks are left", self.left(since)),
                };
                said(StatusCode::OK, json!({ "state": state }).to_string())
            }
            _ => said(StatusCode::OK, format!("{INGESTER}, {CHUNKS} chunks\n")),
        }
    }

    fn left(&self, since: Duration) -> u128 {
        let flushed = CHUNKS.saturating_mul(since.as_millis()).checked_div(self.lasts.as_millis());
        CHUNKS.saturating_sub(flushed.unwrap_or(CHUNKS))
    }
}

fn unavailable() -> Response<Bytes> {
    said(StatusCode::SERVICE_UNAVAILABLE, "the object storage is unavailable".to_owned())
}

fn said(code: StatusCode, words: String) -> Response<Bytes> {
    let mut response = Response::new(words.into());
    *response.status_mut() = code;
    // As soon as the operator asks again.
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
    response
}

#[cfg(test)]
#[path = "ingester_tests.rs"]
mod tests;
