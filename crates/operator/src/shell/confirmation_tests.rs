//! Confirming a domain, against an API server of a few lines whose pods can be forbidden.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::StreamExt;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use sts_plus_planner::plan::{Action, Kind, Object, Precondition, Step};
use sts_plus_planner::selector::{Requirement, Selector, Test};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::{BoxError, service_fn};

use super::terms;
use crate::shell::api::{Api, MAX_PAGE_BYTES};
use crate::shell::cache::{Cache, SILENCE_LIMIT, Scope, Touched};
use crate::shell::events;
use crate::shell::executor::{Basis, Domain, Executor, Gate, Halt, Lane, SETS_AND_PODS, Waiter};
use crate::shell::lease::{Epoch, Leadership};
use crate::shell::metrics::{Metrics, OutcomeLabel};

/// Bounds hanging only; the clock is paused, so it costs nothing.
const LONG: Duration = Duration::from_hours(1);

/// Thirty groups of one set with one pod each.
const GROUPS: u32 = 30;

#[derive(Clone, Default)]
struct Server {
    /// Pods can be neither listed nor watched.
    forbidden: Arc<AtomicBool>,
    /// Watches of pods end, so that they have to be opened anew.
    cut: Arc<tokio::sync::Notify>,
    /// The version of the pod of group 0; 0 when it is gone.
    version: Arc<AtomicU32>,
    /// A page of 500 pods is larger than an answer may be.
    large: Arc<AtomicBool>,
    /// The same for rollouts.
    cut_rollouts: Arc<tokio::sync::Notify>,
    /// Reads whose address holds all parts of one of these are refused as well.
    refused: Arc<Mutex<Vec<&'static [&'static str]>>>,
    /// Whether the status of the rollout was written.
    reported: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move { Ok::<_, BoxError>(server.answer(request.method(), &request.uri().to_string())) }
        });
        kube::Client::new(service, "ns")
    }

    fn answer(&self, method: &Method, uri: &str) -> Response<Body> {
        let watches = uri.contains("watch=true");
        if !watches {
            self.asked.lock().unwrap().push(format!("{method} {uri}"));
        }
        let (pods, rollouts) = (uri.contains("/pods"), uri.contains("/phasedrollouts"));
        if method != Method::GET {
            self.reported.fetch_or(rollouts, Ordering::SeqCst);
            return document(200, &json!({ "metadata": { "resourceVersion": "90" } }));
        }
        if pods && self.forbidden.load(Ordering::SeqCst) {
            return document(403, &json!({ "kind": "Status", "message": "pods is forbidden" }));
        }
        let holds = |parts: &&[&str]| parts.iter().all(|part| uri.contains(part));
        if self.refused.lock().unwrap().iter().any(holds) {
            return document(403, &json!({ "kind": "Status", "message": "it is forbidden" }));
        }
        if uri.ends_with("/pods/set-0-0") {
            return document(404, &json!({ "kind": "Status", "message": "not found" }));
        }
        let objects = match (pods, rollouts) {
            _ if uri.contains("/namespaces/other/") => Vec::new(),
            (true, _) => self.pods(),
            (_, true) => vec![self.rollout()],
            _ => sets(),
        };
        let chosen = |object: &&Value| match uri.split_once("Selector=") {
            Some((_, term)) => term.contains(object["metadata"]["labels"]["rollout-group"].as_str().unwrap()),
            None => true,
        };
        let objects: Vec<_> = objects.iter().filter(chosen).cloned().collect();
        if !watches {
            let version = if rollouts { "100" } else { "50" };
            let mut list = json!({ "metadata": { "resourceVersion": version }, "items": objects });
            if pods && self.large.load(Ordering::SeqCst) && uri.contains("limit=500") {
                list["items"][0]["metadata"]["annotations"] = json!({ "large": "x".repeat(MAX_PAGE_BYTES) });
            }
            return document(200, &list);
        }
        let lists = uri.contains("sendInitialEvents=true");
        let mut lines = Vec::new();
        if lists {
            lines.extend(objects.iter().map(|object| json!({ "type": "ADDED", "object": object })));
            let annotations = json!({ "k8s.io/initial-events-end": "true" });
            let metadata = json!({ "resourceVersion": "40", "annotations": annotations });
            lines.push(json!({ "type": "BOOKMARK", "object": { "metadata": metadata } }));
        }
        let lines = lines.into_iter().map(|line| Ok::<_, BoxError>(Bytes::from(format!("{line}\n"))));
        let cut = Arc::clone(if rollouts { &self.cut_rollouts } else { &self.cut });
        let end = futures::stream::once(async move {
            if pods || rollouts { cut.notified().await } else { std::future::pending().await }
        });
        let end = end.filter_map(|()| async { None });
        Response::new(Body::from_stream(futures::stream::iter(lines).chain(end)))
    }

    fn pods(&self) -> Vec<Value> {
        let pod = |number: u32| {
            let version = if number == 0 { self.version.load(Ordering::SeqCst) } else { 1 };
            (version > 0).then(|| {
                let owner =
                    json!([{ "kind": "StatefulSet", "uid": format!("uid-{number}"), "controller": true }]);
                json!({ "metadata": {
                    "name": format!("set-{number}-0"), "namespace": "ns", "uid": format!("pod-{number}"),
                    "resourceVersion": version.to_string(), "ownerReferences": owner,
                    "labels": { "rollout-group": format!("g{number}.") }
                } })
            })
        };
        (0..GROUPS).filter_map(pod).collect()
    }

    fn rollout(&self) -> Value {
        let version = if self.reported.load(Ordering::SeqCst) { "90" } else { "1" };
        json!({
            "metadata": { "name": "gated", "namespace": "ns", "uid": "rollout", "resourceVersion": version },
            "spec": { "targetRef": "set-0" }
        })
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn document(code: u16, body: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body.to_string())).unwrap()
}

fn sets() -> Vec<Value> {
    let set = |number: u32| {
        let group = format!("g{number}.");
        json!({
            "metadata": {
                "name": format!("set-{number}"), "namespace": "ns", "uid": format!("uid-{number}"),
                "resourceVersion": "2", "labels": { "rollout-group": group }
            },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": { "rollout-group": group } }, "template": {},
                "updateStrategy": { "type": "OnDelete" }
            }
        })
    };
    (0..GROUPS).map(set).collect()
}

struct Bench {
    server: Server,
    cache: Cache,
    metrics: Metrics,
    executor: Executor,
    confirmed: Arc<AtomicU32>,
    _tasks: JoinSet<()>,
}

impl Bench {
    /// A leader that has listed in its own term.
    async fn new() -> Self {
        Self::leading(Leadership::always().current()).await
    }

    async fn leading(listed_in: Option<Epoch>) -> Self {
        Self::following((&SETS_AND_PODS, &Scope::Cluster), listed_in).await
    }

    async fn following(followed: (&[Kind], &Scope), listed_in: Option<Epoch>) -> Self {
        let server = Server::default();
        server.version.store(1, Ordering::SeqCst);
        let metrics = Metrics::new();
        let api = Api::new(server.client(), metrics.clone());
        let (recorder, _sender) = events::channel(api.clone(), "test".to_owned());
        let mut tasks = JoinSet::new();
        let confirmed = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&confirmed);
        let listener = Arc::new(move |touched| {
            counted.fetch_add(u32::from(touched == Touched::Confirmed), Ordering::SeqCst);
        }) as _;
        let cache = Cache::start(&api, followed, &recorder, &listener, &mut tasks);
        cache.completed(Cache::first_round()).await;
        let leadership = Leadership::always();
        let complete = watch::channel(leadership.current()).1;
        let gate = Gate::warm(leadership, complete, watch::channel(listed_in).1);
        let executor = Executor::new(api, cache.clone(), gate);
        Self { server, cache, metrics, executor, confirmed, _tasks: tasks }
    }

    fn domain(number: u32) -> Domain {
        Domain { namespace: "ns".into(), group: format!("g{number}.").into() }
    }

    async fn enter(&self, number: u32) -> Result<Lane<'_>, Halt> {
        self.executor.enter(&[Self::domain(number)], None, Waiter::new(0, || {})).await
    }

    async fn confirm(&self, number: u32) -> Result<Basis, Halt> {
        self.enter(number).await?.confirm(&SETS_AND_PODS).await
    }

    /// Pods can be neither listed nor watched any more, and the source knows.
    async fn forbid(&self) {
        self.server.forbidden.store(true, Ordering::SeqCst);
        self.server.cut.notify_waiters();
        let doubted = async {
            while self.cache.doubt(&SETS_AND_PODS, "ns").is_none_or(|doubt| !doubt.failing) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, doubted).await.expect("the watch fails");
        self.server.take_asked();
    }

    fn outcomes(&self, outcome: &'static str) -> u64 {
        self.metrics.confirmations.get_or_create(&OutcomeLabel { outcome }).get()
    }
}

fn deletion(bench: &Bench) -> Vec<Step> {
    let set = bench.cache.store().set(&"ns".into(), &"set-0".into()).unwrap();
    let object = Object { kind: Kind::Pod, namespace: "ns".into(), name: "set-0-0".into() };
    let precondition = Precondition { uid: "pod-0".into(), resource_version: Some("1".into()) };
    vec![Step::one(Action::delete_as_owner(&set, object, precondition))]
}

fn annotation(bench: &Bench) -> Vec<Step> {
    let set = bench.cache.store().set(&"ns".into(), &"set-0".into()).unwrap();
    vec![Step::one(Action::annotate(&set, "k", Some("v"), "m"))]
}

#[test]
fn a_selector_is_spelled_as_the_server_reads_it() {
    let mut selector = Selector::labels([("app", "web")]);
    let tests = [Test::NotIn(vec!["a".into(), "b".into()]), Test::Exists, Test::DoesNotExist];
    selector.requirements.extend(tests.map(|test| Requirement { key: "zone".into(), test }));
    assert_eq!(terms(&selector).as_deref(), Some("app in (web),zone notin (a,b),zone,!zone"));
    assert_eq!(terms(&Selector::default()), None);
}

#[tokio::test(start_paused = true)]
async fn where_every_source_is_confirmed_a_disruption_costs_no_read() {
    let bench = Bench::new().await;
    let mut lane = bench.enter(0).await.unwrap();
    assert_eq!(lane.confirm(&SETS_AND_PODS).await, Ok(Basis::Confirmed));
    lane.perform(&deletion(&bench)).await.unwrap();
    assert_eq!(bench.server.take_asked(), ["DELETE /api/v1/namespaces/ns/pods/set-0-0"]);
}

#[tokio::test(start_paused = true)]
async fn while_pods_cannot_be_read_nothing_is_disrupted_and_everything_else_goes_on() {
    let bench = Bench::new().await;
    bench.forbid().await;
    {
        let mut lane = bench.enter(0).await.unwrap();
        let Err(Halt::Unconfirmed(why)) = lane.confirm(&SETS_AND_PODS).await else { panic!("confirmed") };
        assert!(why.contains("cannot list pods in namespace ns: forbidden: pods is forbidden"), "{why}");
        let refused = lane.perform(&deletion(&bench)).await;
        assert!(matches!(refused, Err(Halt::Unconfirmed(_))), "{refused:?}");
        lane.perform(&annotation(&bench)).await.unwrap();
    }
    let asked = bench.server.take_asked();
    assert!(asked.iter().all(|asked| !asked.starts_with("DELETE")), "{asked:?}");
    assert!(asked.iter().any(|asked| asked.starts_with("PATCH")), "{asked:?}");
    assert_eq!((bench.outcomes("failed"), bench.outcomes("confirmed")), (1, 0));
    assert!(bench.metrics.encode().contains("sts_plus_unconfirmed_sources{resource=\"pods\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn without_asking_nothing_is_disrupted_on_an_unconfirmed_view_either() {
    let bench = Bench::new().await;
    bench.forbid().await;
    let refused = bench.enter(0).await.unwrap().perform(&deletion(&bench)).await;
    assert!(matches!(refused, Err(Halt::Unconfirmed(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn when_pods_can_be_read_again_refused_keys_are_woken_and_the_disruption_goes_out() {
    let bench = Bench::new().await;
    bench.forbid().await;
    bench.confirm(0).await.unwrap_err();
    let before = bench.confirmed.load(Ordering::SeqCst);
    bench.server.forbidden.store(false, Ordering::SeqCst);
    let mut lane = bench.enter(0).await.unwrap();
    assert_eq!(lane.confirm(&SETS_AND_PODS).await, Ok(Basis::Renewed), "before the watch is back");
    lane.perform(&deletion(&bench)).await.unwrap();
    drop(lane);
    let woken = async {
        while bench.confirmed.load(Ordering::SeqCst) == before {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // The watch that was opened again lacks bookmarks: only a list confirms it.
            bench.cache.resync();
        }
    };
    tokio::time::timeout(LONG, woken).await.expect("whoever was refused is woken");
}

#[tokio::test(start_paused = true)]
async fn a_silent_source_leads_to_a_read_of_the_domain_and_to_nothing_else() {
    let bench = Bench::new().await;
    tokio::time::sleep(SILENCE_LIMIT + Duration::from_secs(1)).await;
    assert_eq!(bench.confirm(3).await, Ok(Basis::Renewed));
    let asked = bench.server.take_asked();
    let about = |resource: &str| asked.iter().filter(|asked| asked.contains(resource)).count();
    assert_eq!((about("/statefulsets?"), about("/pods?"), asked.len()), (1, 1, 2), "{asked:?}");
    assert!(
        asked.iter().all(|asked| asked.contains("g3.") && !asked.contains("resourceVersion")),
        "{asked:?}"
    );
    assert_eq!(bench.confirm(3).await, Ok(Basis::Renewed), "a read is good for one plan");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_fit_is_asked_for_again_in_smaller_ones() {
    let bench = Bench::new().await;
    tokio::time::sleep(SILENCE_LIMIT + Duration::from_secs(1)).await;
    bench.server.large.store(true, Ordering::SeqCst);
    assert_eq!(bench.confirm(3).await, Ok(Basis::Renewed));
    let asked = bench.server.take_asked();
    let pods: Vec<_> = asked.iter().filter(|asked| asked.contains("/pods?")).collect();
    let [first, second] = pods[..] else { panic!("{asked:?}") };
    assert!(first.contains("limit=500") && second.contains("limit=62&"), "{asked:?}");
    assert!(second.contains("labelSelector=") && second.contains("g3."), "of the same pods: {second}");
}

#[tokio::test(start_paused = true)]
async fn what_is_read_is_what_is_planned_on() {
    let bench = Bench::new().await;
    tokio::time::sleep(SILENCE_LIMIT + Duration::from_secs(1)).await;
    bench.server.version.store(0, Ordering::SeqCst);
    let pods = || bench.cache.store().member(&"ns".into(), "set-0").unwrap().pods.len();
    assert_eq!(pods(), 1);
    assert_eq!(bench.confirm(0).await, Ok(Basis::Renewed));
    assert_eq!(pods(), 0);
    let asked = bench.server.take_asked();
    assert!(
        asked.iter().any(|asked| asked.ends_with("/pods/set-0-0")),
        "a missing one is read by name: {asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn rule_c_a_new_leader_with_warm_caches_reads_a_domain_once_before_its_first_disruption() {
    let bench = Bench::leading(None).await;
    let refused = bench.enter(0).await.unwrap().perform(&deletion(&bench)).await;
    assert!(matches!(refused, Err(Halt::Unconfirmed(_))), "{refused:?}");
    assert_eq!(bench.confirm(0).await, Ok(Basis::Renewed));
    assert_eq!(bench.server.take_asked().len(), 2);
    assert_eq!(bench.confirm(0).await, Ok(Basis::Confirmed), "known in this term");
    assert!(bench.server.take_asked().is_empty());
    assert_eq!(bench.confirm(1).await, Ok(Basis::Renewed), "another one is not");
}

#[tokio::test(start_paused = true)]
async fn for_more_than_twenty_domains_at_once_everything_is_listed_instead() {
    let bench = Bench::leading(None).await;
    for number in 0..20 {
        assert_eq!(bench.confirm(number).await, Ok(Basis::Renewed));
    }
    bench.server.take_asked();
    for number in 20..25 {
        let halt = bench.confirm(number).await.unwrap_err();
        assert!(matches!(halt, Halt::NotSeenYet { .. }), "{halt:?}");
    }
    let listed = async {
        while bench.confirm(29).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(LONG, listed).await.expect("everything is listed");
    for number in 20..25 {
        assert_eq!(bench.confirm(number).await, Ok(Basis::Confirmed));
    }
    assert!(bench.server.take_asked().is_empty(), "no further domain was read by itself");
    assert_eq!(bench.outcomes("whole_list"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_everything_is_not_waited_for_where_only_sources_of_other_namespaces_fail() {
    let scope = Scope::Namespaces(vec!["ns".to_owned(), "other".to_owned()]);
    let bench = Bench::following((&SETS_AND_PODS, &scope), None).await;
    bench.server.refused.lock().unwrap().push(&["/namespaces/other/pods"]);
    for number in 0..20 {
        assert_eq!(bench.confirm(number).await, Ok(Basis::Renewed));
    }
    let halt = bench.confirm(20).await.unwrap_err();
    assert!(matches!(halt, Halt::NotSeenYet { .. }), "everything is listed: {halt:?}");
    let listed = async {
        while bench.confirm(20).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(LONG, listed).await.expect("its own sources have listed");
    assert!(bench.cache.doubt(&SETS_AND_PODS, "other").is_some_and(|doubt| doubt.failing));
    bench.server.take_asked();
    for number in 20..25 {
        assert_eq!(bench.confirm(number).await, Ok(Basis::Confirmed));
    }
    assert!(bench.server.take_asked().is_empty(), "no further domain was read by itself");
}

#[tokio::test(start_paused = true)]
async fn own_writes_that_a_failing_watch_does_not_show_are_read() {
    let bench = Bench::new().await;
    bench.enter(0).await.unwrap().perform(&deletion(&bench)).await.unwrap();
    assert!(
        matches!(bench.enter(0).await.map(|_| ()), Err(Halt::NotSeenYet { .. })),
        "the watch will show it"
    );
    bench.forbid().await;
    let lane = bench.enter(0).await.expect("it can be planned in, so that the status says why");
    let doubt = lane.doubt(&SETS_AND_PODS);
    assert!(doubt.is_some_and(|why| why.contains("cannot list pods")), "{doubt:?}");
}

#[path = "rollout_view_tests.rs"]
mod rollout_view_tests;
