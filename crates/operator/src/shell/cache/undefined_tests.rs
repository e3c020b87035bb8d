//! A cluster that does not know our kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::{BoxError, service_fn};

use super::super::{Cache, Scope};
use crate::shell::api::{Api, Resource};
use crate::shell::events;
use crate::shell::metrics::Metrics;

/// Bounds hanging only; the clock is paused, so it costs nothing.
const LONG: Duration = Duration::from_hours(1);

fn page(items: &Value) -> Body {
    Body::from(json!({ "metadata": { "resourceVersion": "5" }, "items": items }).to_string().into_bytes())
}

/// A server that pages lists, and knows the kind from a moment on that the test chooses.
fn client(known: Arc<AtomicBool>, asked: Arc<AtomicUsize>) -> kube::Client {
    let service = service_fn(move |request: Request<Body>| {
        let (known, asked) = (Arc::clone(&known), Arc::clone(&asked));
        async move {
            let uri = request.uri().to_string();
            let code = |code, body| Response::builder().status(code).body(body);
            let empty = || Body::from(Vec::new());
            let ours = uri.contains("/phasedrollouts");
            let answer = if ours && !known.load(Ordering::SeqCst) {
                asked.fetch_add(1, Ordering::SeqCst);
                code(404, empty())?
            } else if uri.contains("watch=true") {
                code(400, empty())?
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
    let api = Api::new(client(Arc::clone(&known), Arc::clone(&asked)), Metrics::new());
    let (recorder, _sender) = events::channel(api.clone(), "test".to_owned());
    let mut tasks = JoinSet::new();
    let followed = (&[Resource::Pods, Resource::PhasedRollouts][..], &Scope::Cluster);
    let cache = Cache::start(&api, followed, &recorder, &(Arc::new(|_| {}) as _), &mut tasks);
    let completed = tokio::time::timeout(LONG, cache.completed(Cache::first_round())).await;
    completed.expect("the first round completes without the kind");
    let round = cache.resync();
    tokio::time::timeout(LONG, cache.completed(round)).await.expect("and so does a later one");
    assert_eq!(cache.store().rollouts().len(), 0);
    assert!(asked.load(Ordering::SeqCst) < 10, "nobody is asked in a loop");

    known.store(true, Ordering::SeqCst);
    let seen = async {
        while cache.store().rollouts().is_empty() {
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, seen).await.expect("the rollout is seen");
}
