//! Informing writes against an API server of a few lines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use sts_plus_planner::plan::Action;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::{BoxError, service_fn};

use super::{Informing, Job, Sent, Slot};
use crate::shell::api::{Api, Kind};
use crate::shell::cache::{Cache, Store};
use crate::shell::executor::{Domain, Executor, Gate};
use crate::shell::lease::{Epoch, Leadership};
use crate::shell::metrics::Metrics;
use crate::shell::rights::{FIRST_RETRY_AFTER, LAST_RETRY_AFTER};

const DENIED: &str =
    "statefulsets.apps \"a\" is forbidden: User \"u\" cannot patch resource \"statefulsets\"";
const FAILED: &str =
    "Internal error occurred: failed calling webhook \"guard.example.com\": failed to call webhook";

/// Answers for the first request whose method and path begin so; `None` never comes.
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

    fn answer(&self, method: &Method, path: &str) -> Option<(u16, Value)> {
        let mut prepared = self.prepared.lock().unwrap();
        let ready = prepared.iter().position(|(verb, end, _)| verb == method && path.ends_with(end));
        match ready {
            Some(ready) => prepared.remove(ready).2,
            None => Some((200, set("a", 9))),
        }
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
                let Some((code, body)) = server.answer(&head.method, &path) else {
                    return std::future::pending().await;
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Api::new(kube::Client::new(service, "ns"), Metrics::new())
    }

    /// What was asked since the last time, as `METHOD end of the path`.
    fn take(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let end = |path: &str| path.split_once("/statefulsets/").map(|(_, end)| end.to_owned());
        asked.iter().map(|(method, path, _)| format!("{method} {}", end(path).unwrap_or_default())).collect()
    }
}

fn set(name: &str, version: u32) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": { "rollout-group": "g" }
        },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": name } }, "template": {},
            "updateStrategy": { "type": "OnDelete" }
        },
        "status": { "replicas": 1, "currentRevision": "old" }
    })
}

fn status(message: &str) -> Value {
    json!({ "kind": "Status", "reason": "InternalError", "message": message })
}

struct Bench {
    server: Server,
    store: Arc<Store>,
    informing: Informing<Domain>,
    epoch: Epoch,
    woken: Arc<Mutex<usize>>,
    tasks: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        let server = Server::default();
        let store = Arc::new(Store::default());
        for name in ["a", "b"] {
            store.upsert(Kind::StatefulSet, &set(name, 3).to_string());
        }
        let leadership = Leadership::always();
        let epoch = leadership.current().expect("it leads");
        let gate = Gate::new(leadership.clone(), watch::channel(leadership.current()).1);
        let executor = Arc::new(Executor::new(server.api(), Cache::unfollowed(Arc::clone(&store)), gate));
        let woken = Arc::new(Mutex::new(0));
        let count = Arc::clone(&woken);
        let informing = Informing::new(executor, Arc::new(move |_| *count.lock().unwrap() += 1));
        let mut tasks = JoinSet::new();
        tasks.spawn(informing.clone().run());
        Self { server, store, informing, epoch, woken, tasks }
    }

    fn domain() -> Domain {
        Domain { namespace: "ns".into(), group: "g".into() }
    }

    fn annotation(&self, set: &str, value: &str) -> Action {
        let row = self.store.set(&"ns".into(), &set.into()).expect("a set");
        Action::annotate(&row, "k", Some(value), "m")
    }

    fn promotion(&self) -> Action {
        let row = self.store.set(&"ns".into(), &"a".into()).expect("a set");
        Action::promote(&row, "new", "m")
    }

    fn submit(&self, actions: &[Action]) {
        self.informing.submit(&Self::domain(), self.epoch, actions);
    }

    /// On a paused clock this ends when nothing else can be done before.
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn soon(&self) {
        self.pass(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_holds_up_no_other_and_newer_words_replace_it() {
    let bench = Bench::new();
    bench.server.prepare(Method::PATCH, "/a", None);
    bench.submit(&[bench.annotation("a", "1"), bench.annotation("b", "1")]);
    bench.soon().await;
    let mut asked = bench.server.take();
    asked.sort();
    assert_eq!(asked, ["PATCH a", "PATCH b"]);
    bench.submit(&[bench.annotation("a", "2"), bench.annotation("b", "1")]);
    bench.soon().await;
    assert!(bench.server.take().is_empty(), "one at a time on an object");
    bench.pass(Duration::from_secs(10)).await;
    let asked = bench.server.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].2["metadata"]["annotations"]["k"], "2");
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_not_written_again_before_the_view_shows_it() {
    let bench = Bench::new();
    let annotation = bench.annotation("a", "1");
    for _ in 0..3 {
        bench.submit(std::slice::from_ref(&annotation));
        bench.soon().await;
    }
    assert_eq!(bench.server.take(), ["PATCH a"]);
    // Somebody has taken it away again.
    bench.store.upsert(Kind::StatefulSet, &set("a", 10).to_string());
    bench.submit(&[annotation]);
    bench.soon().await;
    assert_eq!(bench.server.take(), ["PATCH a"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_kept_with_the_name_of_the_webhook_and_tried_again_later_and_later() {
    let bench = Bench::new();
    for _ in 0..5 {
        bench.server.prepare(Method::PATCH, "/a", Some((500, status(FAILED))));
    }
    bench.submit(&[bench.annotation("a", "1")]);
    bench.soon().await;
    let refusals = bench.informing.refusals(&Bench::domain());
    assert_eq!((refusals.len(), &*refusals[0].0), (1, "uid-a"));
    assert_eq!(refusals[0].1.webhook.as_deref(), Some("guard.example.com"));
    assert_eq!(*bench.woken.lock().unwrap(), 1);
    assert_eq!(bench.server.take().len(), 1, "not again at once");
    bench.pass(Duration::from_secs(30)).await;
    assert_eq!(bench.server.take().len(), 5);
    assert!(bench.informing.refusals(&Bench::domain()).is_empty());
    assert_eq!(*bench.woken.lock().unwrap(), 2, "when it began and when it ended");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_says_no_is_a_refusal_whatever_code_it_chooses() {
    for code in [400, 403, 404, 409, 422, 429, 503] {
        let bench = Bench::new();
        let message = "admission webhook \"guard.example.com\" denied the request: not today";
        bench.server.prepare(Method::PATCH, "/a/status", Some((code, status(message))));
        bench.submit(&[bench.promotion()]);
        bench.soon().await;
        let refusals = bench.informing.refusals(&Bench::domain());
        let named = refusals.first().and_then(|(_, refusal)| refusal.webhook.as_deref());
        assert_eq!(named, Some("guard.example.com"), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_written_is_tried_again_more_and_more_rarely() {
    const DENIALS: usize = 5;
    let bench = Bench::new();
    for _ in 0..DENIALS {
        bench.server.prepare(Method::PATCH, "/a", Some((403, status(DENIED))));
    }
    for value in ["1", "2", "3"] {
        bench.submit(&[bench.annotation("a", value)]);
        bench.soon().await;
    }
    assert_eq!(bench.server.take(), ["PATCH a"], "not with each new value");
    assert!(bench.informing.refusals(&Bench::domain()).is_empty(), "a missing right is reported elsewhere");
    bench.pass(LAST_RETRY_AFTER).await;
    assert_eq!(bench.server.take().len(), DENIALS, "four more denials, and then it is granted");
    bench.pass(2 * LAST_RETRY_AFTER).await;
    assert!(bench.server.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_write_finds_out_for_all_whether_a_missing_right_has_been_granted() {
    let bench = Bench::new();
    for path in ["/a", "/b", "/a"] {
        bench.server.prepare(Method::PATCH, path, Some((403, status(DENIED))));
    }
    bench.submit(&[bench.annotation("a", "1"), bench.annotation("b", "1")]);
    bench.soon().await;
    assert_eq!(bench.server.take().len(), 2, "they were under way together");
    bench.pass(FIRST_RETRY_AFTER).await;
    assert_eq!(bench.server.take(), ["PATCH a"], "still denied");
    bench.pass(2 * FIRST_RETRY_AFTER).await;
    assert_eq!(bench.server.take(), ["PATCH a", "PATCH b"], "granted");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_may_only_be_updated_is_read_and_updated() {
    let bench = Bench::new();
    bench.server.prepare(Method::PATCH, "/a/status", Some((403, status(DENIED))));
    bench.server.prepare(Method::GET, "/a", Some((200, set("a", 3))));
    bench.submit(&[bench.promotion()]);
    bench.soon().await;
    let body = bench.server.asked.lock().unwrap().last().expect("a request").2.clone();
    assert_eq!(bench.server.take(), ["PATCH a/status", "GET a", "PUT a/status"]);
    assert_eq!(body["status"], json!({ "replicas": 1, "currentRevision": "new" }));
    assert_eq!(body["metadata"]["resourceVersion"], "3");
    // From now on without asking for what is denied; and not at all if the set has changed meanwhile.
    bench.store.upsert(Kind::StatefulSet, &set("a", 10).to_string());
    bench.server.prepare(Method::GET, "/a", Some((200, set("a", 11))));
    bench.submit(&[bench.promotion()]);
    bench.soon().await;
    assert_eq!(bench.server.take(), ["GET a"]);
}

#[tokio::test(start_paused = true)]
async fn a_promotion_goes_before_the_annotation_of_the_same_set() {
    let bench = Bench::new();
    bench.submit(&[bench.promotion(), bench.annotation("a", "1")]);
    bench.soon().await;
    assert_eq!(bench.server.take(), ["PATCH a/status", "PATCH a"]);
}

#[tokio::test(start_paused = true)]
async fn a_promotion_that_works_neither_waits_for_a_refused_annotation_nor_ends_its_back_off() {
    let bench = Bench::new();
    for _ in 0..10 {
        bench.server.prepare(Method::PATCH, "/a", Some((500, status(FAILED))));
    }
    bench.submit(&[bench.annotation("a", "1")]);
    bench.pass(Duration::from_secs(2)).await;
    let tried = bench.server.take().len();
    assert!(tried > 3, "{tried}");
    bench.submit(&[bench.promotion(), bench.annotation("a", "1")]);
    bench.soon().await;
    assert_eq!(bench.server.take(), ["PATCH a/status"]);
    assert_eq!(bench.informing.refusals(&Bench::domain()).len(), 1, "the annotation is still refused");
}

#[tokio::test(start_paused = true)]
async fn once_closed_it_ends_when_nothing_is_under_way() {
    let mut bench = Bench::new();
    bench.server.prepare(Method::PATCH, "/a", None);
    bench.submit(&[bench.annotation("a", "1")]);
    bench.soon().await;
    bench.informing.close();
    bench.soon().await;
    assert!(bench.tasks.try_join_next().is_none(), "a write is unanswered");
    assert!(bench.tasks.join_next().await.is_some(), "it has no answer, and is not sent again");
    assert_eq!(bench.server.take().len(), 1);
}

#[test]
fn the_end_of_a_term_drops_what_was_submitted_in_it_and_not_what_came_since() {
    let row = || {
        let store = Store::default();
        store.upsert(Kind::StatefulSet, &set("a", 3).to_string());
        store.set(&"ns".into(), &"a".into()).expect("a set")
    };
    for (submitted_in, left) in [(Epoch(1), 0), (Epoch(2), 1)] {
        let action = Action::annotate(&row(), "k", Some("v"), "m");
        let job = Job { key: Bench::domain(), epoch: Epoch(1), action: action.clone() };
        let mut slot = Slot::new(submitted_in, "uid-a".into());
        (slot.wanted, slot.under_way) = (vec![action], true);
        slot.sent(&job, Sent::Closed, |_| Duration::ZERO);
        assert_eq!((slot.wanted.len(), slot.under_way), (left, false), "{submitted_in:?}");
    }
}
