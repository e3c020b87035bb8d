//! The executor against an API server of a few lines: what each kind of answer means for the next plan.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use sts_plus_planner::disruption::{Allowance, DomainBudget, Gatekeeper};
use sts_plus_planner::health::Member;
use sts_plus_planner::plan::{Action, Kind, Object, Precondition, Step};
use tokio::sync::watch;
use tower::{BoxError, service_fn};

use super::{ARRIVES_WITHIN, Basis, Domain, Executor, Gate, Halt, Lane, SETS_AND_PODS, Waiter};
use crate::shell::api::{Api, ApiError};
use crate::shell::cache::{Cache, Store};
use crate::shell::lease::{Epoch, Leadership};
use crate::shell::metrics::Metrics;

/// How the server treats the next request.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Status(u16),
    /// A refusal with this reason.
    Refusal(u16, &'static str),
    Throttle {
        seconds: u32,
    },
    /// The object with this UID.
    Object(&'static str),
    Lost,
    /// Nothing, ever.
    Hangs,
}

/// What the server was asked, and how it answers.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Server {
    fn answer(&self, answer: Answer) {
        self.answers.lock().unwrap().insert(0, answer);
    }

    fn take_asked(&self) -> Vec<(Method, String, Value)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let path = head.uri.path().to_owned();
                server.asked.lock().unwrap().push((head.method, path, body));
                let answer = server.answers.lock().unwrap().pop();
                match answer.unwrap_or(Answer::Status(200)) {
                    Answer::Hangs => std::future::pending().await,
                    Answer::Lost => Err(BoxError::from("connection reset")),
                    Answer::Throttle { seconds } => {
                        let answer = Response::builder().status(429).header("retry-after", seconds);
                        Ok(answer.body(Body::from(Vec::new()))?)
                    }
                    Answer::Refusal(code, reason) => {
                        let status = json!({ "kind": "Status", "reason": reason, "message": "no" });
                        let body = Body::from(status.to_string().into_bytes());
                        Ok(Response::builder().status(code).body(body)?)
                    }
                    Answer::Object(uid) => Ok(Response::new(object(uid))),
                    Answer::Status(code) => Ok(Response::builder().status(code).body(object("uid-a-0"))?),
                }
            }
        });
        kube::Client::new(service, "ns")
    }
}

fn object(uid: &str) -> Body {
    let object = json!({ "metadata": { "uid": uid, "resourceVersion": "5" } });
    Body::from(object.to_string().into_bytes())
}

struct Bench {
    server: Server,
    store: Arc<Store>,
    consistent: watch::Sender<Option<Epoch>>,
    executor: Executor,
}

fn pod(version: u32, uid: &str, terminating: bool) -> String {
    let deletion = terminating.then_some("2026-01-01T00:00:00Z");
    json!({
        "metadata": {
            "name": "a-0", "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(),
            "labels": { "app": "a" }, "deletionTimestamp": deletion,
            "ownerReferences": [{ "kind": "StatefulSet", "uid": "uid-a", "controller": true }]
        },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] }
    })
    .to_string()
}

fn set(version: u32) -> String {
    json!({
        "metadata": {
            "name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": version.to_string(),
            "labels": { "rollout-group": "g" }
        },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "a" } }, "template": {},
            "updateStrategy": { "type": "OnDelete" }
        }
    })
    .to_string()
}

impl Bench {
    fn new() -> Self {
        let server = Server::default();
        let store = Arc::new(Store::default());
        store.upsert(Kind::StatefulSet, &set(3));
        store.upsert(Kind::Pod, &pod(4, "uid-a-0", false));
        let leadership = Leadership::always();
        let (consistent, view) = watch::channel(leadership.current());
        let gate = Gate::new(leadership, view);
        let cache = Cache::unfollowed(Arc::clone(&store));
        let executor = Executor::new(Api::new(server.client(), Metrics::new()), cache, gate);
        Self { server, store, consistent, executor }
    }

    fn domain() -> Domain {
        Domain { namespace: "ns".into(), group: "g".into() }
    }

    fn member(&self) -> Member {
        self.store.group(&"ns".into(), &"g".into()).remove(0)
    }

    /// The deletion that the planner would ask for, with its permit.
    fn deletion(&self) -> Vec<Step> {
        let member = self.member();
        let now = jiff::Timestamp::UNIX_EPOCH + Duration::from_hours(1);
        let domain = DomainBudget::of([&member], Allowance::OnePod, now);
        let permit = Gatekeeper::new(&domain).ask(&member.set.name, &member.pods[0]).expect("all is well");
        vec![Step::one(Action::delete(&permit))]
    }

    fn annotation(&self) -> Vec<Step> {
        vec![Step::one(Action::annotate(&self.member().set, "k", Some("v"), "m"))]
    }

    async fn perform(&self, steps: &[Step]) -> Result<(), Halt> {
        self.enter(&Self::domain()).await?.perform(steps).await
    }

    /// Enters a lane; nobody is woken if it is occupied.
    async fn enter(&self, domain: &Domain) -> Result<Lane<'_>, Halt> {
        self.executor.enter(std::slice::from_ref(domain), None, Waiter::new(0, || {})).await
    }

    async fn may_plan(&self) -> bool {
        self.enter(&Self::domain()).await.is_ok()
    }

    /// Whether a lane can be entered in which a pod may be deleted; where it can be and none may be, the planned deletion is
    /// refused, and what disrupts nothing is written.
    async fn may_disrupt(&self) -> bool {
        let Ok(mut lane) = self.enter(&Self::domain()).await else { return false };
        if lane.doubt(&SETS_AND_PODS).is_none() {
            return true;
        }
        let asked = || self.server.asked.lock().unwrap().len();
        let before = asked();
        let confirmed = lane.confirm(&SETS_AND_PODS).await;
        assert!(matches!(confirmed, Err(Halt::Unconfirmed(_))), "{confirmed:?}");
        let refused = lane.perform(&self.deletion()).await;
        assert!(matches!(refused, Err(Halt::Unconfirmed(_))), "{refused:?}");
        assert_eq!(asked(), before, "nothing was sent");
        // As the view shows it, so that nothing has to be awaited afterwards.
        self.server.answer(Answer::Throttle { seconds: 1 });
        let halt = lane.perform(&self.annotation()).await.expect_err("throttled");
        assert!(matches!(halt, Halt::Throttled { .. }), "{halt:?}");
        assert_eq!(asked(), before + 1, "it was sent");
        false
    }
}

impl Executor {
    /// The domains that have a lane.
    pub(crate) fn lanes(&self) -> Vec<Domain> {
        self.lanes.lock().keys().cloned().collect()
    }
}

#[tokio::test]
async fn rule_a_a_deletion_carries_uid_and_version() {
    let bench = Bench::new();
    bench.perform(&bench.deletion()).await.expect("done");
    let asked = bench.server.take_asked();
    let [(method, path, body)] = &asked[..] else { panic!("one request: {asked:?}") };
    assert_eq!((method, path.as_str()), (&Method::DELETE, "/api/v1/namespaces/ns/pods/a-0"));
    assert_eq!(body["preconditions"], json!({ "uid": "uid-a-0", "resourceVersion": "4" }));
}

#[tokio::test]
async fn rule_a_a_promotion_carries_uid_and_version_and_an_annotation_the_uid() {
    let bench = Bench::new();
    let promotion = Action::promote(&bench.member().set, "rev-2", "m");
    bench.perform(&[Step::one(promotion)]).await.expect("done");
    bench.store.upsert(Kind::StatefulSet, &set(5));
    bench.perform(&bench.annotation()).await.expect("done");
    let asked = bench.server.take_asked();
    assert_eq!(asked[0].1, "/apis/apps/v1/namespaces/ns/statefulsets/a/status");
    assert_eq!(asked[0].2["metadata"], json!({ "uid": "uid-a", "resourceVersion": "3" }));
    assert_eq!(asked[1].1, "/apis/apps/v1/namespaces/ns/statefulsets/a");
    assert_eq!(asked[1].2["metadata"], json!({ "uid": "uid-a", "annotations": { "k": "v" } }));
}

#[tokio::test]
async fn rule_b_nobody_plans_before_the_view_shows_our_deletion() {
    let bench = Bench::new();
    bench.perform(&bench.deletion()).await.expect("done");
    assert!(!bench.may_plan().await, "the view still shows the pod untouched");
    bench.store.upsert(Kind::Pod, &pod(5, "uid-a-0", true));
    assert!(bench.may_plan().await, "it is terminating");
}

#[tokio::test]
async fn rule_b_a_successor_of_the_same_name_shows_our_deletion_too() {
    let bench = Bench::new();
    bench.perform(&bench.deletion()).await.expect("done");
    bench.store.upsert(Kind::Pod, &pod(9, "uid-a-0-new", false));
    assert!(bench.may_plan().await);
}

#[tokio::test]
async fn rule_b_holds_for_what_we_write_on_sets() {
    let bench = Bench::new();
    bench.perform(&bench.annotation()).await.expect("done");
    assert!(!bench.may_plan().await, "the server said version 5, the view has 3");
    bench.store.upsert(Kind::StatefulSet, &set(5));
    assert!(bench.may_plan().await);
}

#[tokio::test]
async fn rule_c_a_finalizer_is_removed_only_once_the_marks_of_the_namespace_are_known_in_this_term() {
    let bench = Bench::new();
    let leadership = Leadership::always();
    let complete = watch::channel(leadership.current()).1;
    let gate = Gate::warm(leadership, complete, watch::channel(None).1);
    let api = Api::new(bench.server.client(), Metrics::new());
    let executor = Executor::new(api, Cache::unfollowed(Arc::clone(&bench.store)), gate);
    let object = Object { kind: Kind::PhasedRollout, namespace: "ns".into(), name: "gate".into() };
    let precondition = Precondition { uid: "uid-gate".into(), resource_version: Some("7".into()) };
    let body = (json!({ "metadata": { "finalizers": [] } }), "m");
    let removal = [Step::one(Action::merge(object.clone(), "uid-gate", precondition, body))];
    let mut lane = executor.enter(&[Bench::domain()], None, Waiter::new(0, || {})).await.expect("free");
    assert!(matches!(lane.perform(&removal).await, Err(Halt::Unconfirmed(_))));
    assert!(bench.server.take_asked().is_empty());
    assert_eq!(lane.confirm_marks(&object).await, Ok(Basis::Renewed));
    assert_eq!(lane.confirm_marks(&object).await, Ok(Basis::Confirmed));
    assert_eq!(lane.perform(&removal).await, Ok(()));
    let asked: Vec<_> =
        bench.server.take_asked().into_iter().map(|(method, path, _)| (method, path)).collect();
    let paths = [
        "/apis/apps/v1/namespaces/ns/statefulsets",
        "/apis/sts.plus/v1alpha1/namespaces/ns/phasedrollouts/gate",
    ];
    assert_eq!(asked, [(Method::GET, paths[0].to_owned()), (Method::PATCH, paths[1].to_owned())]);
}

#[tokio::test]
async fn rule_c_nothing_is_planned_before_the_view_is_consistent_in_this_term() {
    let bench = Bench::new();
    bench.consistent.send_replace(None);
    assert_eq!(bench.perform(&bench.deletion()).await, Err(Halt::Closed));
    assert!(bench.server.take_asked().is_empty());
}

#[tokio::test]
async fn a_term_that_ends_between_two_writes_stops_the_second() {
    let bench = Bench::new();
    let mut lane = bench.enter(&Bench::domain()).await.expect("open");
    bench.consistent.send_replace(None);
    assert_eq!(lane.perform(&bench.deletion()).await, Err(Halt::Closed));
    assert!(bench.server.take_asked().is_empty());
}

#[tokio::test]
async fn rule_d_a_lost_answer_is_read_back_before_the_next_plan() {
    let bench = Bench::new();
    bench.server.answer(Answer::Lost);
    let halt = bench.perform(&bench.deletion()).await.expect_err("no answer");
    assert!(matches!(halt, Halt::Failed(ApiError::Unanswered(_))), "{halt:?}");
    bench.server.take_asked();

    assert!(!bench.may_plan().await, "the server has version 5, the view 4");
    let asked = bench.server.take_asked();
    assert_eq!((&asked[0].0, asked[0].1.as_str()), (&Method::GET, "/api/v1/namespaces/ns/pods/a-0"));
    bench.store.upsert(Kind::Pod, &pod(5, "uid-a-0", true));
    assert!(bench.may_plan().await);
    assert!(bench.server.take_asked().is_empty(), "read once");
}

#[tokio::test]
async fn rule_d_while_it_cannot_be_read_nothing_is_disrupted_and_everything_else_goes_on() {
    let bench = Bench::new();
    bench.server.answer(Answer::Lost);
    bench.perform(&bench.deletion()).await.expect_err("no answer");
    for _ in 0..3 {
        bench.server.answer(Answer::Status(503));
        let lane = bench.enter(&Bench::domain()).await.expect("it can be planned in");
        let doubt = lane.doubt(&SETS_AND_PODS).cloned();
        assert!(doubt.as_ref().is_some_and(|why| why.starts_with("cannot get pods ns/a-0")), "{doubt:?}");
        assert_eq!(lane.doubt(&[Kind::PhasedRollout]), None);
        drop(lane);
        bench.server.answer(Answer::Status(503));
        assert!(!bench.may_disrupt().await);
    }
    bench.server.answer(Answer::Status(404));
    assert!(!bench.may_plan().await, "it is gone, and the view must show that first");
    bench.store.remove(Kind::Pod, &pod(6, "uid-a-0", true));
    assert!(bench.may_plan().await);
}

#[tokio::test]
async fn rule_d_a_successor_in_the_view_shows_that_the_unknown_one_is_gone() {
    let bench = Bench::new();
    bench.server.answer(Answer::Lost);
    bench.perform(&bench.deletion()).await.expect_err("no answer");
    bench.server.take_asked();
    bench.store.upsert(Kind::Pod, &pod(9, "uid-a-0-new", false));
    assert!(bench.may_plan().await);
    assert!(bench.server.take_asked().is_empty(), "nothing is left to read");
}

#[tokio::test]
async fn rule_d_a_view_that_shows_what_became_of_a_deletion_spares_the_read() {
    for (version, terminating) in [(5, true), (6, false)] {
        let bench = Bench::new();
        bench.server.answer(Answer::Lost);
        bench.perform(&bench.deletion()).await.expect_err("no answer");
        // Also where the permission to read is missing.
        bench.server.answer(Answer::Status(403));
        assert!(!bench.may_disrupt().await);
        bench.server.take_asked();
        bench.store.upsert(Kind::Pod, &pod(version, "uid-a-0", terminating));
        assert!(bench.may_disrupt().await, "done, or refused by its precondition from now on");
        assert!(bench.server.take_asked().is_empty());
    }
}

#[tokio::test]
async fn rule_d_a_successor_on_the_server_is_not_yet_one_in_the_view() {
    let bench = Bench::new();
    bench.server.answer(Answer::Lost);
    bench.perform(&bench.deletion()).await.expect_err("no answer");
    bench.server.answer(Answer::Object("uid-a-0-new"));
    assert!(!bench.may_plan().await, "the view still shows the pod that is gone");
    bench.store.upsert(Kind::Pod, &pod(9, "uid-a-0-new", false));
    assert!(bench.may_plan().await);
}

#[tokio::test]
async fn rule_d_one_that_cannot_be_read_does_not_make_the_others_known() {
    let bench = Bench::new();
    let mut two = bench.deletion().remove(0).writes;
    let object = Object { kind: Kind::Pod, namespace: "ns".into(), name: "a-1".into() };
    let precondition = Precondition::exactly("uid-a-1", "4");
    two.push(Action::delete_as_owner(&bench.member().set, object, precondition));
    bench.store.upsert(Kind::Pod, &pod(4, "uid-a-1", false).replace("\"a-0\"", "\"a-1\""));
    let two = [Step::act(two)];
    bench.server.answer(Answer::Lost);
    bench.server.answer(Answer::Lost);
    bench.perform(&two).await.expect_err("no answers");
    bench.server.answer(Answer::Status(503));
    assert!(!bench.may_disrupt().await);
    bench.server.take_asked();
    assert!(!bench.may_plan().await);
    assert_eq!(bench.server.take_asked().len(), 2, "both are read");
}

#[tokio::test]
async fn a_failed_precondition_waits_for_the_view_to_change_and_is_not_repeated() {
    for code in [409, 404] {
        let bench = Bench::new();
        bench.server.answer(Answer::Status(code));
        let halt = bench.perform(&bench.deletion()).await.expect_err("precondition");
        assert!(matches!(halt, Halt::NotSeenYet { .. }), "{halt:?}");
        assert!(!bench.may_plan().await, "the same plan would fail the same way");
        assert_eq!(bench.server.take_asked().len(), 1);
        bench.store.upsert(Kind::Pod, &pod(6, "uid-a-0-new", false));
        assert!(bench.may_plan().await);
    }
}

#[tokio::test]
async fn a_conflict_over_an_annotation_is_tried_again_without_waiting_for_another_set() {
    let bench = Bench::new();
    bench.server.answer(Answer::Status(409));
    let halt = bench.perform(&bench.annotation()).await.expect_err("conflict");
    assert!(matches!(halt, Halt::NotSeenYet { .. }), "{halt:?}");
    bench.perform(&bench.annotation()).await.expect("done");
}

#[tokio::test]
async fn a_throttled_write_did_nothing_and_says_when_to_come_back() {
    let bench = Bench::new();
    bench.server.answer(Answer::Throttle { seconds: 7 });
    let halt = bench.perform(&bench.deletion()).await.expect_err("throttled");
    assert_eq!(halt, Halt::Throttled { retry_after: Duration::from_secs(7) });
    assert!(bench.may_plan().await);
}

#[tokio::test]
async fn after_a_failed_batch_no_further_batch_starts() {
    let bench = Bench::new();
    bench.server.answer(Answer::Status(403));
    let steps = [bench.deletion(), bench.annotation()].concat();
    let halt = bench.perform(&steps).await.expect_err("forbidden");
    assert!(matches!(halt, Halt::Failed(ApiError::Forbidden(_))), "{halt:?}");
    assert_eq!(bench.server.take_asked().len(), 1);
}

#[tokio::test]
async fn a_lane_is_for_one_at_a_time_and_lanes_do_not_wait_for_each_other() {
    let bench = Bench::new();
    let held = bench.enter(&Bench::domain()).await.expect("open");
    let other = Domain { namespace: "ns".into(), group: "h".into() };
    bench.enter(&other).await.map(|_| ()).expect("another domain");
    let occupied = bench.enter(&Bench::domain()).await.map(|_| ());
    assert!(matches!(occupied, Err(Halt::Occupied { .. })), "{occupied:?}");
    drop(held);
    assert!(bench.enter(&Bench::domain()).await.is_ok());
}

#[tokio::test]
async fn whoever_finds_a_lane_occupied_is_woken_when_it_is_free_one_after_the_other() {
    let bench = Bench::new();
    let woken = Arc::new(Mutex::new(Vec::new()));
    let waiter = |id: u64| {
        let woken = Arc::clone(&woken);
        Waiter::new(id, move || woken.lock().unwrap().push(id))
    };
    let held = bench.enter(&Bench::domain()).await.expect("open");
    for id in [1, 2, 1] {
        bench.executor.enter(&[Bench::domain()], None, waiter(id)).await.map(|_| ()).expect_err("occupied");
    }
    assert!(woken.lock().unwrap().is_empty());
    drop(held);
    assert_eq!(*woken.lock().unwrap(), [1], "one at a time");
    drop(bench.enter(&Bench::domain()).await.expect("free"));
    assert_eq!(*woken.lock().unwrap(), [1, 2], "each once");
    drop(bench.enter(&Bench::domain()).await.expect("free"));
    assert_eq!(*woken.lock().unwrap(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_unanswered_until_it_is_known_and_cannot_arrive_any_more() {
    let bench = Bench::new();
    bench.perform(&bench.annotation()).await.expect("done");
    assert!(!bench.executor.has_unanswered());
    bench.store.upsert(Kind::StatefulSet, &set(5));
    bench.server.answer(Answer::Lost);
    bench.perform(&bench.deletion()).await.expect_err("no answer");
    assert!(bench.executor.has_unanswered());
    tokio::time::advance(ARRIVES_WITHIN).await;
    assert!(bench.executor.has_unanswered(), "nobody knows what became of it");
    bench.server.answer(Answer::Status(404));
    assert!(!bench.may_plan().await, "it is gone, and the view must show that first");
    assert!(!bench.executor.has_unanswered());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_only_informs_and_lost_its_answer_may_still_arrive_for_a_while() {
    let bench = Bench::new();
    let epoch = bench.executor.term().expect("open");
    let action = bench.annotation().remove(0).writes.remove(0);
    bench.server.answer(Answer::Lost);
    let answer = bench.executor.inform(&action, epoch).await;
    assert!(matches!(answer, Some(Err(ApiError::Unanswered(_)))), "{answer:?}");
    tokio::time::advance(ARRIVES_WITHIN / 2).await;
    assert!(bench.executor.has_unanswered());
    tokio::time::advance(ARRIVES_WITHIN / 2).await;
    assert!(!bench.executor.has_unanswered());
}

#[tokio::test(start_paused = true)]
async fn a_read_back_that_is_stopped_does_not_make_the_write_known() {
    let bench = Bench::new();
    bench.server.answer(Answer::Lost);
    bench.perform(&bench.deletion()).await.expect_err("no answer");
    bench.server.take_asked();
    tokio::time::advance(ARRIVES_WITHIN).await;
    bench.server.answer(Answer::Hangs);
    {
        let mut entered = std::pin::pin!(bench.may_plan());
        while bench.server.take_asked().is_empty() {
            assert!(futures::poll!(&mut entered).is_pending());
            tokio::task::yield_now().await;
        }
    }
    assert!(bench.executor.has_unanswered());
    bench.server.answer(Answer::Status(404));
    bench.may_plan().await;
    assert_eq!(bench.server.take_asked().len(), 1, "it is read after all");
}

#[tokio::test]
async fn a_write_whose_sender_was_stopped_stays_unanswered() {
    let bench = Bench::new();
    bench.server.answer(Answer::Hangs);
    let deletion = bench.deletion();
    {
        let mut performed = std::pin::pin!(bench.perform(&deletion));
        while bench.server.take_asked().is_empty() {
            assert!(futures::poll!(&mut performed).is_pending());
            tokio::task::yield_now().await;
        }
        assert!(bench.executor.has_unanswered(), "it is under way");
    }
    assert!(bench.executor.has_unanswered(), "nobody knows what became of it");
}

#[path = "apply_tests.rs"]
mod apply_tests;

#[path = "creation_tests.rs"]
mod creation_tests;
