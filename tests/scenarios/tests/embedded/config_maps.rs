//! A kind that the operator knows nothing of, added by its definition alone: followed by its metadata, found, and written to
//! under the rules of the executor.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use sts_plus_cluster::machinery::service::Server;
use sts_plus_operator::shell::api::{self, ApiError};
use sts_plus_operator::shell::cache::{Cache, Extent, Followed, Scope, Touched};
use sts_plus_operator::shell::events;
use sts_plus_operator::shell::executor::{Domain, Executor, Gate, Halt, Lane, Waiter};
use sts_plus_operator::shell::kinds::{Definition, Handling, Kind, Selection};
use sts_plus_operator::shell::lease::Leadership;
use sts_plus_operator::shell::metrics::{Metrics, ResourceLabel};
use sts_plus_planner::metadata::MetadataRow;
use sts_plus_planner::plan::{Action, Object, Precondition, Step};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower::{BoxError, ServiceExt, service_fn};

use crate::server;

/// The whole of what a controller adds to have a kind followed.
const CONFIG_MAP: Kind = Kind::Other(&Definition::built_in("v1", "ConfigMap", "configmaps"));
const FOLLOWED: Handling = Handling {
    selection: Selection { labels: Some("watched=yes"), fields: None },
    ..Handling::metadata(CONFIG_MAP)
};

/// Bounds hanging, in virtual time.
const DEADLINE: Duration = Duration::from_mins(10);

/// The body of an answer.
type Frames = UnsyncBoxBody<Bytes, Infallible>;

/// Stands between the operator and the server.
#[derive(Clone)]
struct Link {
    server: Server,
    /// Whether watches deliver.
    delivers: Arc<watch::Sender<bool>>,
    /// Whether the answer to the next write is lost.
    loses: Arc<AtomicBool>,
    /// Method, path and what is accepted of each request for ConfigMaps.
    asked: Arc<Mutex<Vec<(Method, String, String)>>>,
}

impl Link {
    async fn call(self, request: Request<Body>) -> Result<http::Response<Frames>, BoxError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        if uri.path().contains("/configmaps") {
            let accepted = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
            let asked = (method.clone(), uri.path().to_owned(), accepted.unwrap_or_default().to_owned());
            self.asked.lock().unwrap().push(asked);
        }
        let answer = self.server.clone().oneshot(request).await?;
        if method != Method::GET && self.loses.swap(false, Ordering::SeqCst) {
            return Err("the connection broke".into());
        }
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        let delivers = is_watch.then(|| self.delivers.subscribe());
        Ok(answer.map(|body| {
            let frames =
                stream::unfold((BodyStream::new(body), delivers), async |(mut body, mut delivers)| {
                    let frame = body.next().await?;
                    if let Some(delivers) = &mut delivers {
                        delivers.wait_for(|delivers| *delivers).await.ok()?;
                    }
                    Some((frame, (body, delivers)))
                });
            BodyExt::boxed_unsync(StreamBody::new(frames))
        }))
    }
}

struct Bench {
    link: Link,
    user: Api<ConfigMap>,
    cache: Cache,
    executor: Executor,
    metrics: Metrics,
    touched: Arc<Mutex<Vec<Touched>>>,
    changed: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Bench {
    async fn new(existing: &[Value]) -> Self {
        let server = server();
        let user: Api<ConfigMap> = Api::default_namespaced(Client::new(server.clone(), "default"));
        for object in existing {
            create(&user, object).await;
        }
        let (delivers, loses) = (Arc::new(watch::Sender::new(true)), Arc::default());
        let link = Link { server, delivers, loses, asked: Arc::default() };
        let answering = link.clone();
        let client = Client::new(service_fn(move |request| answering.clone().call(request)), "default");
        let metrics = Metrics::new();
        let api = api::Api::new(client, metrics.clone());
        let (recorder, _unsent) = events::channel(api.clone(), "test".to_owned());
        let (touched, changed) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(Notify::new()));
        let (heard, notify) = (Arc::clone(&touched), Arc::clone(&changed));
        let listener = Arc::new(move |touched| {
            heard.lock().unwrap().push(touched);
            notify.notify_one();
        });
        let mut tasks = JoinSet::new();
        let followed = Followed { kinds: &[FOLLOWED], scope: &Scope::Cluster, extent: Extent::Steering };
        let cache = Cache::follow(&api, followed, &recorder, &(listener as _), &mut tasks);
        timeout(DEADLINE, cache.completed(Cache::first_round())).await.unwrap();
        let leadership = Leadership::always();
        let gate = Gate::new(leadership.clone(), watch::channel(leadership.current()).1);
        let executor = Executor::new(api, cache.clone(), gate);
        Self { link, user, cache, executor, metrics, touched, changed, _tasks: tasks }
    }

    /// Waits until the cache is as it should be.
    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let waited = async {
            while !is_so(self) {
                self.changed.notified().await;
            }
        };
        timeout(DEADLINE, waited).await.unwrap();
    }

    fn names(&self) -> Vec<String> {
        self.cache.store().all_metadata(CONFIG_MAP).iter().map(|row| row.name.to_string()).collect()
    }

    fn row(&self, name: &str) -> Arc<MetadataRow> {
        self.cache.store().metadata(&object(name)).unwrap()
    }

    /// The lane in which the test plans for ConfigMaps of an owner.
    async fn enter(&self) -> Result<Lane<'_>, Halt> {
        let domain = Domain { namespace: "default".into(), group: "config".into() };
        self.executor.enter(&[domain], Some(&"owner".into()), Waiter::new(0, || {})).await
    }

    /// The same, once the view shows what was written.
    async fn settled(&self) -> Lane<'_> {
        let entered = async {
            loop {
                match self.enter().await {
                    Ok(lane) => return lane,
                    Err(Halt::NotSeenYet { .. }) => self.changed.notified().await,
                    Err(halt) => panic!("{halt:?}"),
                }
            }
        };
        timeout(DEADLINE, entered).await.unwrap()
    }

    fn asked(&self, method: &Method, path: &str) -> Vec<String> {
        let asked = self.link.asked.lock().unwrap();
        let asked = asked.iter().filter(|(by, at, _)| by == method && at == path);
        asked.map(|(.., accepted)| accepted.clone()).collect()
    }
}

fn object(name: &str) -> Object {
    Object { kind: CONFIG_MAP, namespace: "default".into(), name: name.into() }
}

/// A reference to the set that controls an object.
fn reference(uid: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": uid, "controller": true })
}

fn config_map(name: &str, owner: Option<&str>) -> Value {
    let owners: Vec<_> = owner.into_iter().map(reference).collect();
    let labels = json!({ "watched": "yes" });
    json!({ "metadata": { "name": name, "labels": labels, "ownerReferences": owners }, "data": { "key": name } })
}

async fn create(user: &Api<ConfigMap>, object: &Value) {
    let object = serde_json::from_value(object.clone()).unwrap();
    user.create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kind_known_by_its_definition_alone_is_listed_watched_indexed_counted_and_swept() {
    let unwatched = json!({ "metadata": { "name": "unwatched" } });
    let bench = Bench::new(&[config_map("a", None), unwatched]).await;
    assert_eq!(bench.names(), ["a"], "what is selected is listed");
    let accepted = bench.asked(&Method::GET, "/api/v1/configmaps");
    assert!(accepted.iter().all(|accepted| accepted.contains("PartialObjectMetadata")), "{accepted:?}");

    create(&bench.user, &config_map("b", Some("s"))).await;
    bench.until(|bench| bench.names() == ["a", "b"]).await;
    let owned = bench.cache.store().metadata_owned_by(CONFIG_MAP, "s");
    assert_eq!(owned.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["b"]);
    let touched = |name: &str, owner: Option<&str>| Touched::Object {
        kind: CONFIG_MAP,
        namespace: "default".into(),
        name: name.into(),
        owner: owner.map(Into::into),
    };
    assert!(bench.touched.lock().unwrap().contains(&touched("b", Some("s"))));
    let counted = bench.metrics.cached.get_or_create(&ResourceLabel { resource: "configmaps" }).get();
    assert_eq!((bench.cache.store().count(CONFIG_MAP), counted), (2, 2));

    // What happens while nothing is delivered is found by the next list.
    bench.link.delivers.send_replace(false);
    bench.user.delete("a", &DeleteParams::default()).await.unwrap();
    let round = bench.cache.resync();
    bench.touched.lock().unwrap().clear();
    bench.link.delivers.send_replace(true);
    timeout(DEADLINE, bench.cache.completed(round)).await.unwrap();
    assert_eq!(bench.names(), ["b"]);
    assert!(bench.touched.lock().unwrap().contains(&touched("a", None)));
}

#[tokio::test(start_paused = true)]
async fn a_plan_patches_an_object_of_such_a_kind_under_its_precondition() {
    let bench = Bench::new(&[config_map("a", None)]).await;
    let row = bench.row("a");
    let stamp = |row: &MetadataRow, value: &str| {
        let body = json!({ "metadata": { "annotations": { "stamp": value } } });
        let precondition = Precondition::exactly(&row.uid, &row.resource_version);
        vec![Step::one(Action::merge(row.object(), "owner", precondition, (body, "test")))]
    };
    bench.settled().await.perform(&stamp(&row, "one")).await.unwrap();
    let stored = bench.user.get("a").await.unwrap();
    assert_eq!(stored.annotations()["stamp"], "one");
    assert_eq!(stored.data.unwrap()["key"], "a", "what is not kept is not lost");
    let mut lane = bench.settled().await;
    assert_eq!(
        &*bench.row("a").annotations["stamp"],
        "one",
        "rule B: the view shows it before the next plan"
    );
    let halt = lane.perform(&stamp(&row, "two")).await.unwrap_err();
    assert!(matches!(halt, Halt::NotSeenYet { .. }), "decided on an old version: {halt:?}");
}

#[tokio::test(start_paused = true)]
async fn rule_d_an_unanswered_write_to_such_a_kind_is_read_back() {
    let bench = Bench::new(&[]).await;
    bench.link.delivers.send_replace(false);
    bench.link.loses.store(true, Ordering::SeqCst);
    let body = json!({ "metadata": { "labels": { "watched": "yes" } } });
    let creation = vec![Step::one(Action::create(object("lock"), "owner", body, "test"))];
    let halt = bench.settled().await.perform(&creation).await.unwrap_err();
    assert!(matches!(halt, Halt::Failed(ApiError::Unanswered(_))), "{halt:?}");

    let path = "/api/v1/namespaces/default/configmaps/lock";
    assert!(bench.asked(&Method::GET, path).is_empty());
    let halt = bench.enter().await.map(|_| ()).unwrap_err();
    assert!(matches!(halt, Halt::NotSeenYet { .. }), "it was created, and is not shown yet: {halt:?}");
    assert_eq!(bench.asked(&Method::GET, path).len(), 1);
    bench.link.delivers.send_replace(true);
    drop(bench.settled().await);
    assert_eq!(bench.names(), ["lock"]);
    assert_eq!(bench.asked(&Method::GET, path).len(), 1, "read once");
}
