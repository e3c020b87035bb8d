//! Passes against an API server of a few lines: what is asked in which order, and what each answer means.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use sts_plus_planner::revision;
use sts_plus_planner::statefulset::Gauges;
use sts_plus_planner::statefulset::world::{Features, Presence};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{BoxError, service_fn};

use super::super::test_server::Ground;
use super::{Key, StatefulSets, presence};
use crate::runtime::{Running, Runtime};
use crate::shell::api::{Api, ApiError, CALL_TIMEOUT, Kind};
use crate::shell::cache::{Cache, Extent, Touched};
use crate::shell::executor::Halt;
use crate::shell::metrics::Metrics;
use crate::shell::queue::Outcome;
use crate::shell::statefulset_metrics::SetLabels;
use crate::shell::surroundings::Clock;

/// The code of an answer that never comes.
const HANGS: u16 = 0;

/// An answer that stands ready for the first request whose method and path contain this.
#[derive(Clone, Debug)]
struct Prepared {
    method: Method,
    path: &'static str,
    code: u16,
    body: Value,
}

/// Says yes to everything that it has no other answer for, with versions that grow.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
    prepared: Arc<Mutex<Vec<Prepared>>>,
}

impl Server {
    fn prepare(&self, method: Method, path: &'static str, code: u16, body: Value) {
        self.prepared.lock().unwrap().push(Prepared { method, path, code, body });
    }

    fn answer(&self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let mut asked = self.asked.lock().unwrap();
        asked.push((method.clone(), path.to_owned(), body.clone()));
        let mut prepared = self.prepared.lock().unwrap();
        let ready = prepared.iter().position(|answer| answer.method == *method && path.contains(answer.path));
        if let Some(ready) = ready {
            let Prepared { code, body, .. } = prepared.remove(ready);
            return (code, body);
        }
        let mut body = body;
        body["metadata"]["uid"] = json!("uid-new");
        body["metadata"]["resourceVersion"] = json!((100 + asked.len()).to_string());
        (200, body)
    }

    fn api(&self) -> Api {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or(json!({}));
                let (code, body) = server.answer(&head.method, head.uri.path(), body);
                if code == HANGS {
                    return std::future::pending().await;
                }
                let answer = Response::builder().status(code).header("retry-after", 7);
                Ok::<_, BoxError>(answer.body(Body::from(body.to_string().into_bytes()))?)
            }
        });
        Api::new(kube::Client::new(service, "ns"), Metrics::new())
    }

    /// What was asked since the last time, as `METHOD object`.
    fn take(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let words = asked.iter().map(|(method, path, body)| {
            let place = path.split_once("/namespaces/ns/").map_or(path.as_str(), |(_, place)| place);
            match body.pointer("/metadata/name").and_then(Value::as_str).filter(|_| *method == Method::POST) {
                Some(name) => format!("{method} {place}/{name}"),
                None => format!("{method} {place}"),
            }
        });
        words.collect()
    }

    fn bodies(&self) -> Vec<Value> {
        self.asked.lock().unwrap().iter().map(|(.., body)| body.clone()).collect()
    }
}

struct Bench {
    server: Server,
    told: Server,
    cache: Cache,
    controller: Runtime<StatefulSets>,
    metrics: Metrics,
    /// The sources, of which there are none, and the sender of events.
    _tasks: JoinSet<()>,
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "c" }] } })
}

fn patch() -> String {
    revision::patch(&template())
}

fn revision_name(collisions: u32) -> String {
    revision::name("web", &revision::hash(&patch(), collisions))
}

fn set() -> Value {
    json!({
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "uid-web", "generation": 1, "resourceVersion": "1"
        },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": template() }
    })
}

fn revision(name: &str, data: &str, owner: &str) -> Value {
    let owner = json!({ "kind": "StatefulSet", "name": "web", "uid": owner, "controller": true });
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "2",
            "labels": { "app": "web" }, "ownerReferences": [owner]
        },
        "data": serde_json::from_str::<Value>(data).unwrap(),
        "revision": 1
    })
}

fn refusal(reason: &str, message: &str) -> Value {
    json!({ "kind": "Status", "reason": reason, "message": message })
}

fn key() -> Key {
    Key { namespace: "ns".into(), name: "web".into() }
}

impl Bench {
    fn new() -> Self {
        let (server, told) = (Server::default(), Server::default());
        let controls = (Clock::Machine, Extent::Controlling);
        let Ground { around, tasks } = Ground::with(server.api(), told.api(), controls, Ground::listed);
        let controller = Runtime::new("statefulset", 1, StatefulSets::new(Features::default()), &around);
        let (cache, metrics) = (around.cache, around.metrics);
        Self { server, told, cache, controller, metrics, _tasks: tasks }
    }

    fn with_set() -> Self {
        let bench = Self::new();
        bench.see(Kind::StatefulSet, &set());
        bench
    }

    /// A set that has its pod, of which its status does not know.
    fn with_pod() -> Self {
        let bench = Self::with_set();
        bench.see(Kind::Revision, &revision(&revision_name(0), &patch(), "uid-web"));
        let owner = json!({ "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": true });
        let labels = json!({
            "app": "web", "controller-revision-hash": revision_name(0),
            "statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0"
        });
        let ready =
            json!([{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
        bench.see(
            Kind::Pod,
            &json!({
                "metadata": {
                    "name": "web-0", "namespace": "ns", "uid": "uid-web-0", "resourceVersion": "3",
                    "ownerReferences": [owner], "labels": labels
                },
                "status": { "phase": "Running", "conditions": ready }
            }),
        );
        bench
    }

    fn see(&self, resource: Kind, object: &Value) {
        self.cache.store().upsert(resource, &object.to_string());
    }

    async fn pass(&self) -> Outcome {
        self.controller.look_at(&key()).await
    }

    /// The events that were sent: reason, message and component.
    async fn events(&self) -> Vec<(String, String, String)> {
        // On a paused clock this ends when nothing else can be done.
        tokio::time::sleep(Duration::from_mins(1)).await;
        let text = |event: &Value, path: &str| {
            event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let events = self.told.bodies().into_iter();
        let events = events.map(|event| {
            (text(&event, "/reason"), text(&event, "/message"), text(&event, "/source/component"))
        });
        events.collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_set_gets_its_revision_its_pod_and_its_status_in_one_pass() {
    let bench = Bench::with_set();
    let outcome = bench.pass().await;
    assert!(matches!(outcome, Outcome::Settled | Outcome::WakeAt(_)), "{outcome:?}");
    let revision = format!("POST controllerrevisions/{}", revision_name(0));
    assert_eq!(bench.server.take(), [revision.as_str(), "POST pods/web-0", "PATCH statefulsets/web/status"]);
    let outcome = bench.pass().await;
    assert!(matches!(outcome, Outcome::WakeAt(_)), "{outcome:?}: nothing of that is seen yet");
    assert!(bench.server.take().is_empty());
    let told = bench.events().await;
    let message = "Create Pod web-0 in StatefulSet web successful";
    let event = ("SuccessfulCreate".into(), message.into(), "statefulset-controller".into());
    assert_eq!(told, [event]);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_somebody_has_made_already_is_used_in_the_same_pass() {
    let bench = Bench::with_set();
    bench.server.prepare(Method::POST, "revisions", 409, refusal("AlreadyExists", "taken"));
    let name = revision_name(0);
    bench.server.prepare(Method::GET, "revisions", 200, revision(&name, &patch(), "uid-web"));
    bench.pass().await;
    let asked = bench.server.take();
    let expected = [
        format!("POST controllerrevisions/{name}"),
        format!("GET controllerrevisions/{name}"),
        "POST pods/web-0".to_owned(),
        "PATCH statefulsets/web/status".to_owned(),
    ];
    assert_eq!(asked, expected);
}

#[tokio::test(start_paused = true)]
async fn a_revision_of_other_content_is_a_collision_and_the_next_name_is_tried() {
    let bench = Bench::with_set();
    bench.server.prepare(Method::POST, "revisions", 409, refusal("AlreadyExists", "taken"));
    bench.server.prepare(Method::GET, "revisions", 200, revision(&revision_name(0), "{}", "uid-other"));
    bench.pass().await;
    let status = bench.server.bodies().pop().expect("the status");
    assert_eq!(status["status"]["collisionCount"], 1);
    let asked = bench.server.take();
    assert_eq!(asked[2], format!("POST controllerrevisions/{}", revision_name(1)));
    assert_eq!(asked[3], "POST pods/web-0");
}

#[tokio::test(start_paused = true)]
async fn a_revision_of_a_former_set_is_waited_for() {
    let bench = Bench::with_set();
    for _ in 0..2 {
        bench.server.prepare(Method::POST, "revisions", 409, refusal("AlreadyExists", "taken"));
        let former = revision(&revision_name(0), &patch(), "uid-former");
        bench.server.prepare(Method::GET, "revisions", 200, former);
        assert_eq!(bench.pass().await, Outcome::Failed);
        assert_eq!(bench.server.take().len(), 2, "it is looked for anew each time");
    }
    bench.pass().await;
    assert_eq!(bench.server.take()[1], "POST pods/web-0", "its end is noticed");
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_though_the_pod_is_refused_and_the_refusal_is_told_in_the_servers_words() {
    let bench = Bench::with_set();
    bench.server.prepare(Method::POST, "pods", 403, refusal("Forbidden", "exceeded quota: q"));
    assert_eq!(bench.pass().await, Outcome::Failed);
    assert_eq!(bench.server.take()[1..], ["POST pods/web-0", "PATCH statefulsets/web/status"]);
    let told = bench.events().await;
    assert_eq!(told[0].0, "FailedCreate");
    assert_eq!(told[0].1, "Create Pod web-0 in StatefulSet web failed error: exceeded quota: q");
}

#[tokio::test(start_paused = true)]
async fn no_status_names_a_revision_that_could_not_be_created() {
    for (code, message) in [(403, "exceeded quota: q"), (422, "denied by a webhook"), (500, "no answer")] {
        let bench = Bench::with_set();
        bench.server.prepare(Method::POST, "revisions", code, refusal("Forbidden", message));
        assert_eq!(bench.pass().await, Outcome::Failed);
        let revision = format!("POST controllerrevisions/{}", revision_name(0));
        assert_eq!(bench.server.take(), [revision], "{code}: neither pod nor status");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_refused_is_reported_on_the_set_once_until_it_is_stored() {
    let bench = Bench::with_set();
    for (code, message) in [(503, "restarting"), (403, "exceeded quota: q"), (403, "exceeded quota: q")] {
        bench.server.prepare(Method::POST, "revisions", code, refusal("Forbidden", message));
        // An answer that was lost is asked for.
        bench.server.prepare(Method::GET, "revisions", 404, refusal("NotFound", "not there"));
        assert_eq!(bench.pass().await, Outcome::Failed);
    }
    let told = bench.events().await;
    let [(reason, message, component)] = &told[..] else { panic!("once: {told:?}") };
    assert_eq!((reason.as_str(), component.as_str()), ("WriteRefused", "statefulset-controller"));
    assert!(message.contains(&revision_name(0)) && message.contains("exceeded quota: q"), "{message}");
    bench.pass().await;
    let refused = bench.controller.with_memory(&key(), |known| known.revision_refused);
    assert_eq!(refused, Some(false), "the next refusal is news again");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_hangs_holds_the_lane_once_and_leaves_it_to_the_pods_for_longer() {
    let status = "PATCH statefulsets/web/status";
    let bench = Bench::with_pod();
    for attempt in 1..=4 {
        bench.server.prepare(Method::PATCH, "status", HANGS, json!({}));
        let started = Instant::now();
        let Outcome::WakeAt(retry) = bench.pass().await else { panic!("it is retried") };
        let held = started.elapsed();
        assert_eq!(bench.server.take(), [status], "{attempt}");
        assert!(held >= CALL_TIMEOUT, "{attempt}: {held:?}");
        assert!(retry - Instant::now() >= 5 * held, "{attempt}: {:?}", retry - Instant::now());
        // Whatever brings a pass meanwhile, the lane is free at once.
        assert_eq!(bench.pass().await, Outcome::WakeAt(retry));
        assert!(bench.server.take().is_empty(), "{attempt}");
        tokio::time::sleep_until(retry).await;
    }
    bench.pass().await;
    assert_eq!(bench.server.take(), [status]);
    let reasons: Vec<_> = bench.events().await.into_iter().map(|event| event.0).collect();
    assert_eq!(reasons, ["WriteRefused"], "once, after the third attempt");
}

#[tokio::test(start_paused = true)]
async fn a_refused_status_is_reported_once_although_the_first_attempt_failed_for_another_reason() {
    let bench = Bench::with_pod();
    for (code, message) in [(503, "restarting"), (403, "denied"), (403, "denied"), (503, "restarting")] {
        bench.server.prepare(Method::PATCH, "status", code, refusal("Forbidden", message));
        let Outcome::WakeAt(retry) = bench.pass().await else { panic!("it is retried") };
        assert_eq!(bench.server.take(), ["PATCH statefulsets/web/status"]);
        tokio::time::sleep_until(retry).await;
    }
    let told = bench.events().await;
    let [(reason, message, _)] = &told[..] else { panic!("once: {told:?}") };
    assert_eq!(reason, "WriteRefused");
    assert!(message.contains("denied"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_throttles_is_asked_nothing_more_in_this_pass() {
    let bench = Bench::with_set();
    bench.server.prepare(Method::POST, "pods", 429, json!({}));
    assert_eq!(bench.pass().await, Outcome::ComeBack(Duration::from_secs(7)));
    assert_eq!(bench.server.take().len(), 2, "the revision and the pod");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_adopted_before_the_server_says_that_the_set_lives() {
    let orphan = json!({ "metadata": {
        "name": "web-0", "namespace": "ns", "uid": "uid-web-0", "resourceVersion": "2", "labels": { "app": "web" }
    } });
    let ask = "GET statefulsets/web";
    for (uid, deletion, asked, outcome) in [
        ("uid-web", None, &[ask, "PATCH pods/web-0"][..], Outcome::Settled),
        ("uid-web", Some("2026-01-02T03:04:05Z"), &[ask], Outcome::Failed),
        ("uid-other", None, &[ask], Outcome::Failed),
    ] {
        let bench = Bench::with_set();
        bench.see(Kind::Pod, &orphan);
        let found = json!({ "metadata": { "uid": uid, "deletionTimestamp": deletion } });
        bench.server.prepare(Method::GET, "statefulsets", 200, found);
        assert_eq!(bench.pass().await, outcome, "{uid} {deletion:?}");
        assert_eq!(bench.server.take(), asked, "{uid} {deletion:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_cannot_be_asked_for_is_left_alone() {
    let bench = Bench::with_set();
    let labels = json!({ "app": "web" });
    let orphan = json!({ "metadata": { "name": "web-0", "namespace": "ns", "uid": "u", "labels": labels } });
    bench.see(Kind::Pod, &orphan);
    bench.server.prepare(Method::GET, "statefulsets", 503, json!({}));
    assert_eq!(bench.pass().await, Outcome::Failed);
    assert_eq!(bench.server.take(), ["GET statefulsets/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_stored_revision_without_a_template_is_told_and_nothing_is_done() {
    let bench = Bench::new();
    let name = revision_name(0);
    let mut web = set();
    web["status"] = json!({ "observedGeneration": 1, "currentRevision": name, "updateRevision": name });
    bench.see(Kind::StatefulSet, &web);
    bench.see(Kind::Revision, &revision(&name, "{\"spec\":7}", "uid-web"));
    assert_eq!(bench.pass().await, Outcome::Failed);
    assert!(bench.server.take().is_empty());
    let told = bench.events().await;
    assert_eq!((told.len(), told[0].0.as_str()), (1, "RevisionUnreadable"));
    assert!(told[0].1.contains(&name), "{}", told[0].1);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_gone_is_forgotten_and_so_are_its_metrics() {
    let bench = Bench::with_pod();
    bench.pass().await;
    let gauge = "sts_plus_statefulset_max_unavailable{namespace=\"ns\",name=\"web\",pod_management_policy=\"Parallel\"}";
    let labels = SetLabels { namespace: "ns".into(), name: "web".into(), pod_management_policy: "Parallel" };
    bench.metrics.statefulset.show(&labels, Gauges { max_unavailable: 2, unavailable: 1 });
    bench.controller.with_memory(&key(), |known| known.shown = Some(labels)).expect("known");
    assert!(bench.metrics.encode().contains(gauge), "{}", bench.metrics.encode());
    bench.cache.store().remove(Kind::StatefulSet, &set().to_string());
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert!(!bench.metrics.encode().contains(gauge));
    assert_eq!(bench.controller.kept(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_set_of_the_same_name_is_another_one() {
    let bench = Bench::with_set();
    bench.pass().await;
    let written = || bench.controller.with_memory(&key(), |known| known.status_written.is_some());
    assert_eq!(written(), Some(true));
    let mut next = set();
    next["metadata"]["uid"] = json!("uid-next");
    bench.see(Kind::StatefulSet, &next);
    bench.server.prepare(Method::POST, "revisions", 503, json!({}));
    bench.server.prepare(Method::PATCH, "status", 503, json!({}));
    bench.pass().await;
    assert_eq!(written(), Some(false));
}

#[tokio::test(start_paused = true)]
async fn only_a_new_spec_cuts_a_back_off_short() {
    let bench = Bench::with_set();
    let queue = bench.controller.queue();
    let (namespace, set): (Arc<str>, Arc<str>) = ("ns".into(), "web".into());
    let (n, s) = (|| Arc::clone(&namespace), || Arc::clone(&set));
    queue.add(key());
    for _ in 0..12 {
        assert_eq!(queue.next().await, Some(key()));
        queue.done(&key(), Outcome::Failed);
    }
    bench.controller.touched(&Touched::Set { namespace: n(), set: s(), group: None });
    bench.controller.touched(&Touched::Surroundings { namespace: n(), set: s() });
    assert_eq!(queue.depth(), 0);
    bench.controller.touched(&Touched::Respecified { namespace: n(), set: s() });
    assert_eq!(queue.depth(), 1);
}

#[test]
fn a_set_lives_if_it_is_the_same_one_and_stays() {
    let found = |uid: &str, deletion: Option<&str>| {
        presence(&json!({ "metadata": { "uid": uid, "deletionTimestamp": deletion } }), "uid-web")
    };
    assert_eq!(found("uid-web", None), Presence::Alive);
    assert_eq!(found("uid-web", Some("2026-01-02T03:04:05Z")), Presence::Deleting);
    assert_eq!(found("uid-other", None), Presence::Gone);
}

#[test]
fn the_worst_end_counts() {
    let now = Instant::now();
    let wait = |seconds| Some(Halt::NotSeenYet { until: now + Duration::from_secs(seconds) });
    let failed = || Some(Halt::Failed(ApiError::Forbidden(String::new())));
    let throttled = || Some(Halt::Throttled { retry_after: Duration::ZERO });
    let worse = |one: Option<Halt>, other: Option<Halt>| other.map(|halt| halt.or_worse(one));
    assert_eq!(worse(wait(2), wait(1)), wait(1));
    assert_eq!(worse(wait(2), failed()), failed());
    assert_eq!(worse(failed(), wait(2)), failed());
    assert_eq!(worse(failed(), throttled()), throttled());
    assert_eq!(worse(throttled(), Some(Halt::Closed)), Some(Halt::Closed));
}
