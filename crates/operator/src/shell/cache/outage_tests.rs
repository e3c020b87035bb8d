//! Following against an API server of a few lines: which requests are made, and when a round is complete.

use crate::shell::api::Kind;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use tokio::task::JoinSet;
use tower::{BoxError, service_fn};

use crate::shell::api::Api;
use crate::shell::cache::{Cache, Scope};
use crate::shell::events;
use crate::shell::metrics::Metrics;

const LISTED: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

/// A server that streams empty lists, after which each watch breaks off, and that can be told to answer nothing.
#[derive(Clone, Default)]
struct Server {
    down: Arc<Mutex<bool>>,
    lists: Arc<Mutex<usize>>,
    failures: Arc<Mutex<usize>>,
}

impl Server {
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                if *server.down.lock().unwrap() {
                    *server.failures.lock().unwrap() += 1;
                    return Err(BoxError::from("connection refused"));
                }
                let lists =
                    request.uri().query().is_some_and(|query| query.contains("sendInitialEvents=true"));
                *server.lists.lock().unwrap() += usize::from(lists);
                let lines = if lists { format!("{LISTED}\n") } else { String::new() };
                Ok(Response::new(Body::from(lines.into_bytes())))
            }
        });
        kube::Client::new(service, "default")
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waited = tokio::time::timeout(std::time::Duration::from_mins(10), async {
            while !holds(self) {
                tokio::task::yield_now().await;
                tokio::time::advance(std::time::Duration::from_millis(1)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
    }
}

/// A round that is asked for while a source waits after a failure must not get lost: after a hand-over nothing
/// is written before it is complete.
#[tokio::test(start_paused = true)]
async fn a_round_asked_for_during_an_outage_is_listed_after_it() {
    let server = Server::default();
    let api = Api::new(server.client(), Metrics::new());
    let (recorder, _unsent) = events::channel(api.clone(), String::new());
    let mut tasks = JoinSet::new();
    let cache = Cache::start(
        &api,
        (&[Kind::StatefulSet, Kind::Pod], &Scope::Cluster),
        &recorder,
        &(Arc::new(|_| {}) as _),
        &mut tasks,
    );
    cache.completed(Cache::first_round()).await;

    *server.down.lock().unwrap() = true;
    server.until("both sources to fail", |server| *server.failures.lock().unwrap() >= 4).await;
    let round = cache.resync();
    *server.down.lock().unwrap() = false;

    let lists = *server.lists.lock().unwrap();
    let completed = tokio::time::timeout(std::time::Duration::from_mins(10), cache.completed(round));
    completed.await.expect("the round to be completed");
    assert_eq!(*server.lists.lock().unwrap(), lists + 2, "each source lists once");
}
