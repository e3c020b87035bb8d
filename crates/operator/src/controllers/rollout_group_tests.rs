//! Passes against an API server of a few lines: what is done and reported although some of it is refused, hangs or is not
//! permitted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::{BoxError, service_fn};

use super::{RolloutGroups, wake};
use crate::shell::api::{Api, Resource};
use crate::shell::cache::{Cache, Scope};
use crate::shell::events;
use crate::shell::executor::{Domain, Executor, Gate};
use crate::shell::informing::Informing;
use crate::shell::lease::Leadership;
use crate::shell::metrics::Metrics;
use crate::shell::queue::{Outcome, Queue};
use crate::shell::surroundings::Clock;

const FAILED: &str =
    "Internal error occurred: failed calling webhook \"guard.example.com\": failed to call webhook";

/// The answer to the first request whose method and path fit; `None` never comes.
type Prepared = (Method, &'static str, Option<(u16, Value)>);

#[derive(Clone, Default)]
struct Server {
    asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
    prepared: Arc<Mutex<Vec<Prepared>>>,
}

impl Server {
    fn prepare(&self, method: Method, path: &'static str, answer: Option<(u16, Value)>) {
        self.prepared.lock().unwrap().push((method, path, answer));
    }

    fn api(&self) -> Api {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
                let path = head.uri.path().to_owned();
                server.asked.lock().unwrap().push((head.method.clone(), path.clone(), body));
                let prepared = {
                    let mut prepared = server.prepared.lock().unwrap();
                    let fits = |(verb, part, _): &Prepared| *verb == head.method && path.contains(part);
                    prepared.iter().position(fits).map(|ready| prepared.remove(ready).2)
                };
                let written = json!({ "metadata": { "resourceVersion": "100" } });
                let Some((code, body)) = prepared.unwrap_or(Some((200, written))) else {
                    return std::future::pending().await;
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Api::new(kube::Client::new(service, "ns"), Metrics::new())
    }

    /// The pods whose deletion was asked for since the last time.
    fn deletions(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let deleted = asked.iter().filter(|(method, ..)| *method == Method::DELETE);
        deleted.map(|(_, path, _)| path.rsplit('/').next().unwrap_or_default().to_owned()).collect()
    }
}

fn refusal(code: u16, message: &str) -> (u16, Value) {
    (code, json!({ "kind": "Status", "message": message }))
}

fn set(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 2, "resourceVersion": "3",
            "labels": { "rollout-group": "g" }, "annotations": { "rollout-max-unavailable": "2" }
        },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": name } }, "template": {},
            "updateStrategy": { "type": "OnDelete" }
        },
        "status": {
            "observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 0,
            "currentRevision": "old", "updateRevision": "new"
        }
    })
}

fn pod(set: &str, ordinal: u32, revision: &str, version: u32) -> Value {
    let owner =
        json!({ "kind": "StatefulSet", "name": set, "uid": format!("uid-{set}"), "controller": true });
    let name = format!("{set}-{ordinal}");
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}-{revision}"),
            "resourceVersion": version.to_string(), "ownerReferences": [owner],
            "labels": { "app": set, "controller-revision-hash": revision }
        },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]
        }
    })
}

struct Bench {
    server: Server,
    told: Server,
    cache: Cache,
    groups: RolloutGroups,
    metrics: Metrics,
    _tasks: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        let (server, told) = (Server::default(), Server::default());
        let mut tasks = JoinSet::new();
        let (recorder, sender) = events::channel(told.api(), "pod-1".to_owned());
        tasks.spawn(sender.run());
        let api = server.api();
        // Following nothing: the rows come from the test.
        let followed = (&[][..], &Scope::Namespaces(Vec::new()));
        let cache = Cache::start(&api, followed, &recorder, &(Arc::new(|_| {}) as _), &mut tasks);
        let leadership = Leadership::always();
        let gate = Gate::new(leadership.clone(), watch::channel(leadership.current()).1);
        let executor = Arc::new(Executor::new(api, cache.clone(), gate));
        let (queue, metrics) = (Arc::<Queue<_>>::default(), Metrics::new());
        let informing = Informing::new(Arc::clone(&executor), wake(&queue));
        tasks.spawn(informing.clone().run());
        let acting = (executor, informing);
        let groups =
            RolloutGroups::new(queue, cache.clone(), acting, recorder, metrics.clone(), Clock::Machine);
        let bench = Self { server, told, cache, groups, metrics, _tasks: tasks };
        for name in ["a", "b"] {
            bench.see(Resource::StatefulSets, &set(name));
            for ordinal in 0..2 {
                bench.see(Resource::Pods, &pod(name, ordinal, "old", 4));
            }
        }
        bench
    }

    fn see(&self, resource: Resource, object: &Value) {
        self.cache.store().upsert(resource, &object.to_string());
    }

    async fn pass(&self) -> Outcome {
        let outcome = self.groups.pass(&Domain { namespace: "ns".into(), group: "g".into() }).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        outcome
    }

    /// How often each reason was told of a set.
    async fn told_of(&self, set: &str) -> Vec<(String, u64)> {
        // On a paused clock this ends when nothing else can be done.
        tokio::time::sleep(Duration::from_mins(2)).await;
        let text = |event: &Value, path: &str| {
            event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let asked = self.told.asked.lock().unwrap();
        let events = asked.iter().filter(|(_, _, event)| text(event, "/involvedObject/name") == set);
        events.map(|(.., event)| (text(event, "/reason"), event["count"].as_u64().unwrap_or(0))).collect()
    }
}

fn once(reason: &str) -> (String, u64) {
    (reason.to_owned(), 1)
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_is_never_answered_does_not_keep_the_next_pod_waiting() {
    let bench = Bench::new();
    for _ in 0..8 {
        bench.server.prepare(Method::PATCH, "statefulsets", None);
    }
    let started = tokio::time::Instant::now();
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.server.deletions(), ["a-0", "a-1"]);
    bench.see(Resource::Pods, &pod("a", 0, "new", 20));
    bench.see(Resource::Pods, &pod("a", 1, "new", 21));
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.server.deletions(), ["b-0", "b-1"]);
    assert!(started.elapsed() < Duration::from_secs(1), "the clock is paused: nothing was waited for");
}

#[tokio::test(start_paused = true)]
async fn what_was_done_is_reported_once_although_another_write_fails() {
    let bench = Bench::new();
    bench.server.prepare(Method::DELETE, "a-1", Some(refusal(503, "later")));
    assert_eq!(bench.pass().await, Outcome::Failed);
    for _ in 0..3 {
        bench.server.prepare(Method::GET, "a-1", Some(refusal(503, "later")));
        bench.pass().await;
    }
    assert_eq!(bench.told_of("a").await, [once("Rolling")]);
    assert_eq!(bench.told_of("b").await, [once("WaitingForTurn")]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_a_state_that_is_reported_once_and_ends() {
    let bench = Bench::new();
    for _ in 0..3 {
        for pod in ["a-0", "a-1"] {
            bench.server.prepare(Method::DELETE, pod, Some(refusal(500, FAILED)));
        }
        assert_eq!(bench.pass().await, Outcome::Failed);
        let page = bench.metrics.encode();
        let series = "sts_plus_rollout_sets{namespace=\"ns\",rollout_group=\"g\",state=\"WriteRefused\"} 1";
        assert!(page.contains(series), "{page}");
    }
    assert_eq!(bench.told_of("a").await, [once("WriteRefused")]);
    let asked = bench.server.asked.lock().unwrap().clone();
    let reads = asked.iter().filter(|(method, ..)| *method == Method::GET).count();
    assert_eq!(reads, 0, "a refusal is not an unknown: nothing is read back");
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.told_of("a").await, [once("WriteRefused"), once("Rolling")]);
    assert!(!bench.metrics.encode().contains("WriteRefused"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_annotation_is_reported_on_its_set_and_the_rollout_goes_on() {
    let bench = Bench::new();
    for _ in 0..20 {
        bench.server.prepare(Method::PATCH, "statefulsets/a", Some(refusal(500, FAILED)));
    }
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.server.deletions(), ["a-0", "a-1"]);
    bench.see(Resource::Pods, &pod("a", 0, "new", 20));
    bench.see(Resource::Pods, &pod("a", 1, "new", 21));
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.server.deletions(), ["b-0", "b-1"]);
    let told = bench.told_of("a").await;
    let refused = told.iter().filter(|(reason, _)| reason == "WriteRefused").count();
    assert_eq!(refused, 1, "{told:?}");
    assert!(told.contains(&once("Rolling")), "{told:?}");
}
