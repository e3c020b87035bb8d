//! The list-watch against a server of a few lines that plays a script per request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::StreamExt;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::{BoxError, service_fn};

use super::super::{Cache, Listener, Scope, Store};
use crate::shell::api::{Api, Kind};
use crate::shell::events;
use crate::shell::metrics::{Metrics, ResourceLabel};

/// Bounds hanging only; the clock is paused, so it costs nothing.
const LONG: Duration = Duration::from_hours(1);

/// How the server answers one request for pods.
enum Script {
    /// A watch with these lines, which then ends.
    Lines(Vec<Value>),
    /// A watch with these lines, which then stays open and silent.
    Open(Vec<Value>),
    /// One document with this status.
    Document(u16, Value),
}

#[derive(Clone)]
struct Server {
    pods: Arc<Mutex<VecDeque<Script>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(pods: impl IntoIterator<Item = Script>) -> Self {
        Self { pods: Arc::new(Mutex::new(pods.into_iter().collect())), asked: Arc::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move { server.answer(request.uri().to_string()) }
        });
        kube::Client::new(service, "ns")
    }

    fn answer(&self, uri: String) -> Result<Response<Body>, BoxError> {
        if !uri.contains("/pods") {
            // Sets: one empty streamed list that stays open.
            return Ok(stream(vec![end_of_list("1")], true));
        }
        self.asked.lock().unwrap().push(uri);
        match self.pods.lock().unwrap().pop_front() {
            Some(Script::Lines(lines)) => Ok(stream(lines, false)),
            Some(Script::Open(lines)) => Ok(stream(lines, true)),
            Some(Script::Document(code, body)) => {
                Ok(Response::builder().status(code).body(Body::from(written(&body)))?)
            }
            None => Ok(stream(Vec::new(), true)),
        }
    }
}

/// JSON as the API server writes it.
fn written(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

fn stream(lines: Vec<Value>, open: bool) -> Response<Body> {
    let lines = lines.into_iter().map(|line| Ok::<_, BoxError>(Bytes::from(written(&line) + "\n")));
    let rest =
        if open { futures::stream::pending().left_stream() } else { futures::stream::empty().right_stream() };
    Response::new(Body::from_stream(futures::stream::iter(lines).chain(rest)))
}

fn pod(name: &str, version: u32) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "ownerReferences": [{ "kind": "StatefulSet", "uid": "uid-a", "controller": true }]
        }
    })
}

fn event(kind: &str, object: &Value) -> Value {
    json!({ "type": kind, "object": object })
}

fn end_of_list(version: &str) -> Value {
    let annotations = json!({ "k8s.io/initial-events-end": "true" });
    event("BOOKMARK", &json!({ "metadata": { "resourceVersion": version, "annotations": annotations } }))
}

/// A cache that follows the server, and what it counts.
struct Followed {
    cache: Cache,
    metrics: Metrics,
    _tasks: JoinSet<()>,
}

impl Followed {
    fn new(server: &Server) -> Self {
        let metrics = Metrics::new();
        let api = Api::new(server.client(), metrics.clone());
        let (recorder, _sender) = events::channel(api.clone(), "test".to_owned());
        let listener: Listener = Arc::new(|_| {});
        let mut tasks = JoinSet::new();
        let cache = Cache::start(
            &api,
            (&[Kind::StatefulSet, Kind::Pod], &Scope::Cluster),
            &recorder,
            &listener,
            &mut tasks,
        );
        Self { cache, metrics, _tasks: tasks }
    }

    fn store(&self) -> &Store {
        self.cache.store()
    }

    async fn listed(&self) {
        let listed = self.cache.completed(Cache::first_round());
        tokio::time::timeout(LONG, listed).await.expect("the first list completes");
    }

    /// Lets everything happen that can, and waits until that many pods are there.
    async fn holds(&self, pods: usize) {
        let enough = async {
            while self.store().count(Kind::Pod) != pods {
                tokio::time::advance(Duration::from_millis(10)).await;
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, enough).await.expect("the pods come");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_list_is_streamed_with_an_empty_version_which_is_a_consistent_read() {
    let server = Server::new([Script::Open(vec![
        event("ADDED", &pod("a-0", 3)),
        event("ADDED", &pod("a-1", 4)),
        end_of_list("9"),
        event("DELETED", &pod("a-1", 10)),
        event("ADDED", &pod("a-2", 11)),
        event("ADDED", &pod("a-3", 12)),
    ])]);
    let followed = Followed::new(&server);
    followed.listed().await;
    followed.holds(3).await;
    let asked = server.asked();
    let [first] = &asked[..] else { panic!("{asked:?}") };
    for part in
        ["sendInitialEvents=true", "resourceVersionMatch=NotOlderThan", "resourceVersion=&", "watch=true"]
    {
        assert!(first.contains(part), "{part} is not in {first}");
    }
}

/// Sets may carry a megabyte of annotations each, and a page of them would not fit into memory.
#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_fit_is_asked_for_with_fewer_objects() {
    let page = |items: Value, next: &str| json!({ "metadata": { "resourceVersion": "9", "continue": next }, "items": items });
    let fat = |name: &str, version| {
        let mut pod = pod(name, version);
        pod["metadata"]["annotations"] = json!({ "fat": "x".repeat(5 << 20) });
        pod
    };
    let server = Server::new([
        Script::Document(400, json!({ "message": "sendInitialEvents is forbidden" })),
        Script::Document(200, page(json!([pod("a-0", 3)]), "behind-0")),
        Script::Document(200, page(json!([fat("a-1", 4), fat("a-2", 5)]), "behind-2")),
        Script::Document(200, page(json!([fat("a-1", 4)]), "behind-1")),
        Script::Document(200, page(json!([fat("a-2", 5)]), "")),
    ]);
    let followed = Followed::new(&server);
    followed.listed().await;
    assert_eq!(followed.store().count(Kind::Pod), 3);
    let asked = server.asked();
    let limit =
        |number: usize| asked[number].split(['?', '&']).find(|part| part.starts_with("limit=")).unwrap();
    assert_eq!([1, 2, 3, 4].map(limit), ["limit=500", "limit=500", "limit=62", "limit=62"]);
    assert!(asked[3].contains("continue=behind-0"), "it goes on from where it was: {}", asked[3]);
}

/// An object of the largest size that etcd takes, all of it in characters that JSON spells with six bytes.
fn escaped(name: &str, version: u32) -> Value {
    let mut pod = pod(name, version);
    pod["spec"] = json!({ "containers": [{ "env": [{ "name": "A", "value": "<".repeat(1_500 << 10) }] }] });
    pod
}

#[tokio::test(start_paused = true)]
async fn the_largest_object_stops_no_stream() {
    let server = Server::new([Script::Open(vec![
        event("ADDED", &escaped("a-0", 3)),
        end_of_list("9"),
        event("MODIFIED", &escaped("a-0", 10)),
        event("ADDED", &pod("a-1", 11)),
    ])]);
    let followed = Followed::new(&server);
    followed.holds(2).await;
    assert_eq!(server.asked().len(), 1, "nothing had to be asked for again");
}

#[tokio::test(start_paused = true)]
async fn the_largest_object_fits_into_a_page_of_its_own() {
    let page = |items: Value, next: &str| json!({ "metadata": { "resourceVersion": "9", "continue": next }, "items": items });
    let both = || Script::Document(200, page(json!([escaped("a-0", 3), pod("a-1", 4)]), ""));
    let server = Server::new([
        Script::Document(400, json!({ "message": "sendInitialEvents is forbidden" })),
        both(),
        both(),
        both(),
        Script::Document(200, page(json!([escaped("a-0", 3)]), "behind-0")),
        Script::Document(200, page(json!([pod("a-1", 4)]), "")),
    ]);
    let followed = Followed::new(&server);
    followed.listed().await;
    assert_eq!(followed.store().count(Kind::Pod), 2);
    assert!(server.asked()[4].contains("limit=1"), "{:?}", server.asked());
}

#[tokio::test(start_paused = true)]
async fn where_the_server_does_not_stream_lists_are_paged_and_consistent() {
    let page = |items: Value, next: &str| json!({ "metadata": { "resourceVersion": "9", "continue": next }, "items": items });
    let server = Server::new([
        Script::Document(422, json!({ "kind": "Status", "message": "sendInitialEvents is forbidden" })),
        Script::Document(200, page(json!([pod("a-0", 3)]), "next/page=")),
        Script::Document(200, page(json!([pod("a-1", 4)]), "")),
        Script::Open(vec![event("ADDED", &pod("a-2", 10))]),
    ]);
    let followed = Followed::new(&server);
    followed.listed().await;
    followed.holds(3).await;
    let asked = server.asked();
    assert!(asked[1].ends_with("?limit=500"), "no version: {}", asked[1]);
    assert!(asked[2].contains("continue=next%2Fpage%3D"), "{}", asked[2]);
    assert!(asked[3].contains("resourceVersion=9"), "{}", asked[3]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_from_the_last_version_without_a_list() {
    let server = Server::new([
        Script::Lines(vec![end_of_list("9"), event("ADDED", &pod("a-0", 12))]),
        Script::Lines(vec![event("BOOKMARK", &json!({ "metadata": { "resourceVersion": "40" } }))]),
        Script::Open(vec![event("ADDED", &pod("a-1", 41))]),
    ]);
    let followed = Followed::new(&server);
    followed.holds(2).await;
    let asked = server.asked();
    assert!(asked[1].contains("resourceVersion=12"), "{}", asked[1]);
    assert!(asked[2].contains("resourceVersion=40"), "{}", asked[2]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_leads_to_a_new_list_that_drops_what_is_no_more() {
    let gone = event("ERROR", &json!({ "kind": "Status", "code": 410, "message": "too old" }));
    let server = Server::new([
        Script::Lines(vec![
            event("ADDED", &pod("a-0", 3)),
            event("ADDED", &pod("a-1", 4)),
            end_of_list("9"),
            gone,
        ]),
        Script::Open(vec![event("ADDED", &pod("a-1", 4)), end_of_list("50")]),
    ]);
    let followed = Followed::new(&server);
    let lists = followed.metrics.lists.get_or_create(&ResourceLabel { resource: "pods" }).clone();
    let second = async {
        while lists.get() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, second).await.expect("a second list");
    assert_eq!(followed.store().count(Kind::Pod), 1);
}

#[tokio::test(start_paused = true)]
async fn one_object_that_does_not_decode_stops_nobody_else() {
    let mut broken = pod("a-1", 4);
    broken["status"] = json!("what");
    let server = Server::new([Script::Open(vec![
        event("ADDED", &pod("a-0", 3)),
        event("ADDED", &broken),
        event("ADDED", &pod("a-2", 5)),
        end_of_list("9"),
    ])]);
    let followed = Followed::new(&server);
    followed.listed().await;
    assert_eq!(followed.store().count(Kind::Pod), 2);
    let label = ResourceLabel { resource: "pods" };
    assert_eq!(followed.metrics.undecodable.get_or_create(&label).get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_is_not_taken_for_complete() {
    let server = Server::new([
        Script::Lines(vec![event("ADDED", &pod("a-0", 3))]),
        Script::Open(vec![event("ADDED", &pod("a-1", 4)), end_of_list("9")]),
    ]);
    let followed = Followed::new(&server);
    followed.listed().await;
    assert_eq!(followed.store().count(Kind::Pod), 1, "a-0 is swept: the complete list does not have it");
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_dead_and_is_opened_again() {
    let server = Server::new([
        Script::Open(vec![end_of_list("9")]),
        Script::Open(vec![event("ADDED", &pod("a-0", 12))]),
    ]);
    let followed = Followed::new(&server);
    followed.listed().await;
    followed.holds(1).await;
    assert!(server.asked()[1].contains("resourceVersion=9"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_told_with_what_to_do() {
    let server = Server::new([
        Script::Document(403, json!({ "kind": "Status", "message": "pods is forbidden" })),
        Script::Document(403, json!({ "kind": "Status", "message": "pods is forbidden" })),
        Script::Open(vec![end_of_list("9")]),
    ]);
    let followed = Followed::new(&server);
    let mut told = None;
    while told.is_none() {
        told = followed.cache.trouble();
        tokio::task::yield_now().await;
    }
    let told = told.unwrap();
    assert!(told.contains("cannot follow pods in all namespaces: forbidden"), "{told}");
    assert!(told.contains("--namespace"), "{told}");
    followed.listed().await;
    assert_eq!(followed.cache.trouble(), None);
}

/// Objects and their sets are followed alike: nothing is planned before each has been listed.
#[tokio::test(start_paused = true)]
async fn d_c3_v11_a_list_that_the_server_cannot_answer_is_reported_and_retried() {
    let unavailable = || json!({ "kind": "Status", "code": 503, "message": "etcd is not available" });
    let server = Server::new([
        Script::Document(503, unavailable()),
        Script::Document(503, unavailable()),
        Script::Open(vec![event("ADDED", &pod("a-0", 3)), end_of_list("9")]),
    ]);
    let followed = Followed::new(&server);
    let mut told = None;
    while told.is_none() {
        assert!(!followed.cache.has_completed(Cache::first_round()));
        told = followed.cache.trouble();
        tokio::task::yield_now().await;
    }
    let told = told.unwrap();
    assert!(told.contains("pods") && told.contains("etcd is not available"), "{told}");
    followed.listed().await;
    assert_eq!((followed.store().count(Kind::Pod), server.asked().len()), (1, 3));
    assert_eq!(followed.cache.trouble(), None);
}

#[tokio::test(start_paused = true)]
async fn a_resync_lists_again_although_the_watch_is_well() {
    let server = Server::new([
        Script::Open(vec![event("ADDED", &pod("a-0", 3)), end_of_list("9")]),
        Script::Open(vec![event("ADDED", &pod("a-1", 20)), end_of_list("21")]),
    ]);
    let followed = Followed::new(&server);
    followed.listed().await;
    let round = followed.cache.resync();
    assert!(!followed.cache.has_completed(round));
    tokio::time::timeout(LONG, followed.cache.completed(round)).await.expect("a second list");
    assert_eq!(followed.store().count(Kind::Pod), 1);
}
