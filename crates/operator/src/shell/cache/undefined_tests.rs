//! A cluster that does not know our kind, or does not let us see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::{BoxError, service_fn};

use super::super::{Cache, Extent, Followed, Scope};
use crate::shell::api::{Api, Kind};
use crate::shell::events;
use crate::shell::kinds::{Handling, Need};
use crate::shell::metrics::Metrics;

/// Bounds hanging only; the clock is paused, so it costs nothing.
const LONG: Duration = Duration::from_hours(1);

fn page(items: &Value) -> Body {
    Body::from(json!({ "metadata": { "resourceVersion": "5" }, "items": items }).to_string().into_bytes())
}

/// A server that pages lists, and answers with this code for the kind up to a moment that the test chooses.
fn client(refuses: u16, known: Arc<AtomicBool>, asked: Arc<AtomicUsize>) -> kube::Client {
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let (known, asked) = (Arc::clone(&known), Arc::clone(&asked));
        async move {
            let uri = request.uri().to_string();
            let code = |code, body| Response::builder().status(code).body(body);
            let empty = || Body::from(Vec::new());
            let ours = uri.contains("/phasedrollouts");
            let answer = if ours && !known.load(Ordering::SeqCst) {
                asked.fetch_add(1, Ordering::SeqCst);
                code(refuses, empty())?
            } else if uri.contains("sendInitialEvents=true") {
                code(400, empty())?
            } else if uri.contains("watch=true") {
                // Open, and silent.
                code(200, Body::from_stream(futures::stream::pending::<Result<Vec<u8>, BoxError>>()))?
            } else if !ours {
                code(200, page(&json!([])))?
            } else {
                let spec = json!({ "targetRef": "web" });
                let metadata =
                    json!({ "name": "gated", "namespace": "ns", "uid": "r1", "resourceVersion": "4" });
                code(200, page(&json!([{ "metadata": metadata, "spec": spec }])))?
            };
            Ok::<_, BoxError>(answer)
        }
    });
    kube::Client::new(service, "ns")
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_definition_keeps_nobody_waiting_and_is_seen_once_it_has_one() {
    let (known, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let api = Api::new(client(404, Arc::clone(&known), Arc::clone(&asked)), Metrics::new());
    let (recorder, _sender) = events::channel(api.clone(), "test".to_owned());
    let mut tasks = JoinSet::new();
    let followed = (&[Kind::Pod, Kind::PhasedRollout][..], &Scope::Cluster);
    let cache = Cache::start(&api, followed, &recorder, &(Arc::new(|_| {}) as _), &mut tasks);
    let completed = tokio::time::timeout(LONG, cache.completed(Cache::first_round())).await;
    completed.expect("the first round completes without the kind");
    let round = cache.resync();
    tokio::time::timeout(LONG, cache.completed(round)).await.expect("and so does a later one");
    assert_eq!(cache.store().rollouts().len(), 0);
    assert!(asked.load(Ordering::SeqCst) < 10, "nobody is asked in a loop");

    known.store(true, Ordering::SeqCst);
    seen(&cache).await;
}

/// Waits until the rollout is in the cache.
async fn seen(cache: &Cache) {
    let seen = async {
        while cache.store().rollouts().is_empty() {
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, seen).await.expect("the rollout is seen");
}

#[tokio::test(start_paused = true)]
async fn an_optional_kind_that_is_forbidden_keeps_nobody_waiting_and_is_unconfirmed_until_it_is_seen() {
    let (known, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let metrics = Metrics::new();
    let api = Api::new(client(403, Arc::clone(&known), Arc::clone(&asked)), metrics.clone());
    let (recorder, _sender) = events::channel(api.clone(), "test".to_owned());
    let mut tasks = JoinSet::new();
    let rollouts = Handling { need: Need::Optional, ..Handling::of(Kind::PhasedRollout) };
    let followed = Followed {
        kinds: &[Handling::of(Kind::Pod), rollouts],
        scope: &Scope::Cluster,
        extent: Extent::Steering,
    };
    let cache = Cache::follow(&api, followed, &recorder, &(Arc::new(|_| {}) as _), &mut tasks);
    let completed = tokio::time::timeout(LONG, cache.completed(Cache::first_round())).await;
    completed.expect("the first round completes without the kind");
    let round = cache.resync();
    tokio::time::timeout(LONG, cache.completed(round)).await.expect("and so does a later one");
    let doubt = |resource| cache.doubt(&[resource], "ns").map(|doubt| doubt.failing);
    assert_eq!(doubt(Kind::Pod), None, "what is permitted is confirmed");
    assert_eq!(doubt(Kind::PhasedRollout), Some(true), "unknown is not absent");
    let missing =
        "sts_plus_missing_permissions{verb=\"watch\",resource=\"phasedrollouts\",namespace=\"*\"} 1";
    assert!(metrics.encode().contains(missing), "{}", metrics.encode());

    tokio::time::sleep(LONG).await;
    assert!(asked.load(Ordering::SeqCst) < 30, "nobody is asked in a loop");
    known.store(true, Ordering::SeqCst);
    seen(&cache).await;
    assert_eq!(doubt(Kind::PhasedRollout), None);
    assert!(!metrics.encode().contains("resource=\"phasedrollouts\",namespace=\"*\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn a_needed_kind_that_is_forbidden_is_waited_for() {
    let (known, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let api = Api::new(client(403, Arc::clone(&known), Arc::clone(&asked)), Metrics::new());
    let (recorder, _sender) = events::channel(api.clone(), "test".to_owned());
    let mut tasks = JoinSet::new();
    let followed = (&[Kind::Pod, Kind::PhasedRollout][..], &Scope::Cluster);
    let cache = Cache::start(&api, followed, &recorder, &(Arc::new(|_| {}) as _), &mut tasks);
    // Many attempts, and not so long that the silent watch of pods is given up.
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!cache.has_completed(Cache::first_round()));
    let trouble = cache.trouble().unwrap_or_default();
    assert!(trouble.contains("cannot follow phasedrollouts in all namespaces"), "{trouble}");
    known.store(true, Ordering::SeqCst);
    seen(&cache).await;
    assert!(cache.has_completed(Cache::first_round()));
}
