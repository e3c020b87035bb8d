//! A pod leaves: the controller, its planner, the runtime and a hook in code, over an API server of three objects.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Key, ScalingPolicies};
use crate::controllers::test_server::{Ground, Server};
use crate::hooks::{HookContext, HookError, HookProgress, Hooks, PodTarget, ScaleDown};
use crate::outbound::{HookCaller, Reach, Tcp};
use crate::runtime::Runtime;
use crate::shell::api::{Api, Kind};
use crate::shell::metrics::Metrics;
use crate::shell::surroundings::Clock;

/// What was done, in order: writes and calls.
type Diary = Arc<Mutex<Vec<String>>>;

/// Is done when it is polled.
struct Flush(Diary);

impl Flush {
    fn called(&self, call: &str, pod: &PodTarget, progress: HookProgress) -> HookProgress {
        self.0.lock().push(format!("{call} {} {}", pod.name, pod.uid));
        progress
    }
}

impl ScaleDown for Flush {
    async fn prepare(&self, pod: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Ok(self.called("prepare", pod, HookProgress::pending("12 of 40")))
    }

    async fn poll(&self, pod: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Ok(self.called("poll", pod, HookProgress::Done))
    }

    async fn cancel(&self, pod: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Ok(self.called("cancel", pod, HookProgress::Done))
    }
}

/// The objects by kind and path.
#[derive(Clone, Default)]
struct Objects {
    by_path: Arc<Mutex<BTreeMap<String, (Kind, Value)>>>,
    version: Arc<Mutex<u64>>,
    diary: Diary,
}

impl Objects {
    fn put(&self, kind: Kind, mut object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["namespace"] = json!("ns");
        object["metadata"]["resourceVersion"] = json!(self.next_version());
        let path = format!("{}/namespaces/ns/{}/{name}", kind.definition().root(), kind.plural());
        self.by_path.lock().insert(path, (kind, object));
    }

    fn next_version(&self) -> String {
        let mut version = self.version.lock();
        *version += 1;
        version.to_string()
    }

    /// Changes an object, and counts what depends on that.
    fn change(&self, name: &str, kind: Kind, change: impl FnOnce(&mut Value)) {
        let version = self.next_version();
        let mut objects = self.by_path.lock();
        let path = format!("{}/namespaces/ns/{}/{name}", kind.definition().root(), kind.plural());
        let (_, object) = objects.get_mut(&path).unwrap();
        change(object);
        object["metadata"]["resourceVersion"] = json!(version);
    }

    fn get(&self, name: &str, kind: Kind) -> Option<Value> {
        let path = format!("{}/namespaces/ns/{}/{name}", kind.definition().root(), kind.plural());
        self.by_path.lock().get(&path).map(|(_, object)| object.clone())
    }

    fn answer(&self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        let (path, is_status) = match path.strip_suffix("/status") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let version = self.next_version();
        let mut objects = self.by_path.lock();
        let Some((kind, object)) = objects.get_mut(path) else { return (404, json!({ "kind": "Status" })) };
        if *method != Method::GET {
            let insisted = &body["metadata"]["resourceVersion"];
            if !insisted.is_null() && *insisted != object["metadata"]["resourceVersion"] {
                return (409, json!({ "kind": "Status" }));
            }
            if is_status {
                object["status"] = body["status"].clone();
            } else {
                merge(object, body);
            }
            object["metadata"]["resourceVersion"] = json!(version);
            let what = match kind {
                Kind::StatefulSet => {
                    let leaving = &object["metadata"]["annotations"]["sts.plus/leaving"];
                    format!("set: replicas {}, leaving {leaving}", object["spec"]["replicas"])
                }
                _ => format!("status: {}", object["status"]["leaving"][0]["phase"]),
            };
            self.diary.lock().push(what);
        }
        (200, object.clone())
    }

    fn api(&self) -> Api {
        let objects = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let objects = objects.clone();
            async move {
                let (head, body) = request.into_parts();
                let body =
                    serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap_or_default();
                let (code, answer) = objects.answer(&head.method, head.uri.path(), &body);
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Api::new(kube::Client::new(service, "ns"), Metrics::new())
    }
}

/// A JSON merge patch.
fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        let fields = into.as_object_mut().unwrap();
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn pod(ordinal: u32) -> Value {
    json!({
        "metadata": {
            "name": format!("db-{ordinal}"), "uid": format!("uid-{ordinal}"),
            "labels": { "app": "db", "controller-revision-hash": "db-1" },
            "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-db", "controller": true }
            ]
        },
        "spec": { "containers": [{ "name": "db" }] },
        "status": {
            "phase": "Running", "podIP": "10.0.0.7",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            "containerStatuses": [{ "name": "db", "restartCount": 1, "ready": true, "state": { "running": {} } }]
        }
    })
}

struct Bench {
    objects: Objects,
    ground: Ground,
    runtime: Runtime<ScalingPolicies>,
}

impl Bench {
    /// Three pods, of which two are wanted.
    fn new() -> Self {
        let objects = Objects::default();
        objects.put(
            Kind::StatefulSet,
            json!({
                "metadata": { "name": "db", "uid": "uid-db", "generation": 1 },
                "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "db" } }, "template": {} },
                "status": {
                    "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3,
                    "currentRevision": "db-1", "updateRevision": "db-1"
                }
            }),
        );
        for ordinal in 0..3 {
            objects.put(Kind::Pod, pod(ordinal));
        }
        objects.put(Kind::ScalingPolicy, json!({
            "metadata": { "name": "db", "uid": "uid-policy", "generation": 1, "finalizers": ["sts.plus/finalizer"] },
            "spec": {
                "targetRef": { "name": "db" }, "replicas": 2, "scaleDown": { "hook": { "named": "flush" } }
            }
        }));
        let clock = Clock::at("2026-11-16T10:00:00Z".parse::<Timestamp>().unwrap());
        let mut ground = Ground::new(objects.api(), Server::default().api(), clock);
        let hooks = Hooks::default().scale_down("flush", Flush(Arc::clone(&objects.diary)));
        let way = (Reach::default(), Arc::new(Tcp) as Arc<_>);
        ground.around.hooks = HookCaller::new(ground.around.api.clone(), way, hooks);
        let runtime = Runtime::new("scaling", 1, ScalingPolicies::default(), &ground.around);
        Self { objects, ground, runtime }
    }

    /// A pass on what there is, and time for what it has begun.
    async fn pass(&self) {
        for (kind, object) in self.objects.by_path.lock().values() {
            self.ground.around.cache.store().upsert(*kind, &object.to_string());
        }
        let key = Key { namespace: "ns".into(), name: "db".into() };
        self.runtime.look_at(&key).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    async fn until(&self, is_over: impl Fn(&Objects) -> bool) {
        for _ in 0..30 {
            if is_over(&self.objects) {
                return;
            }
            self.pass().await;
        }
        panic!("{:#?}\n{:#?}", self.objects.diary.lock(), self.objects.get("db", Kind::ScalingPolicy));
    }
}

#[tokio::test(start_paused = true)]
async fn a_b9_1_the_highest_pod_is_flushed_and_then_the_replicas_are_lowered() {
    let bench = Bench::new();
    let replicas =
        |objects: &Objects| objects.get("db", Kind::StatefulSet).unwrap()["spec"]["replicas"].clone();
    bench.until(|objects| replicas(objects) == 2).await;
    let diary = std::mem::take(&mut *bench.objects.diary.lock());
    let mut steps = diary.clone();
    steps.dedup();
    assert_eq!(
        steps.iter().filter(|step| *step != "status: null").collect::<Vec<_>>(),
        [
            "status: \"Requested\"",
            "set: replicas 3, leaving \"2\"",
            "prepare db-2 uid-2",
            "status: \"Draining\"",
            "poll db-2 uid-2",
            "status: \"Drained\"",
            "set: replicas 2, leaving \"2\""
        ],
        "{diary:#?}"
    );
    // What the StatefulSet controller does then.
    let path = format!("{}/namespaces/ns/pods/db-2", Kind::Pod.definition().root());
    let gone = bench.objects.by_path.lock().remove(&path).unwrap().1;
    bench.ground.around.cache.store().remove(Kind::Pod, &gone.to_string());
    let status = |objects: &Objects| objects.get("db", Kind::ScalingPolicy).unwrap()["status"].clone();
    bench.until(|objects| status(objects)["conditions"][0]["status"] == "True").await;
    let set = bench.objects.get("db", Kind::StatefulSet).unwrap();
    assert_eq!(
        (&set["metadata"]["annotations"]["sts.plus/leaving"], &status(&bench.objects)["leaving"]),
        (&Value::Null, &Value::Null)
    );
    let calls: Vec<_> =
        bench.objects.diary.lock().iter().filter(|step| step.contains("db-2")).cloned().collect();
    assert!(calls.is_empty(), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_b9_6_a_pod_that_was_restarted_after_it_was_drained_is_called_again() {
    let bench = Bench::new();
    let phase = |objects: &Objects| {
        let policy = objects.get("db", Kind::ScalingPolicy).unwrap();
        policy["status"]["leaving"][0]["phase"].clone()
    };
    bench.until(|objects| phase(objects) == "Drained").await;
    bench.objects.change("db-2", Kind::Pod, |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"] = json!(2);
    });
    bench.until(|objects| objects.get("db", Kind::StatefulSet).unwrap()["spec"]["replicas"] == 2).await;
    let diary = bench.objects.diary.lock();
    let calls: Vec<_> = diary.iter().filter(|step| step.contains("db-2")).collect();
    assert_eq!(calls, ["prepare db-2 uid-2", "poll db-2 uid-2", "prepare db-2 uid-2", "poll db-2 uid-2"]);
}
