//! The active pod of real containers: commands decide, and a Service follows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::{core::v1::Pod, discovery::v1::EndpointSlice};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sts_plus_harness::{
    RealNode,
    wait::{NotYet, until},
};
use tokio::time::timeout;

use crate::{
    DEADLINE,
    extended::{ACTIVE, KIND, apply, install, leave, run},
    operator::ready_pods,
    stages::Stages,
};

const NAME: &str = "db";
const PODS: usize = 3;
const DESIGNATION: &str = "sts.plus/pod-designation";
const THRESHOLD: u32 = 3;

/// Hangs where there is /hang, fails as often as /fail says, and else passes where there is /active.
const CHECK: &str = "test -e /hang && sleep 100000
left=$(cat /fail 2>/dev/null)
if test ${left:-0} -gt 0; then echo $((left - 1)) >/fail; exit 1; fi
test -e /active";

pub(crate) async fn fails_over(node: &RealNode) {
    let mut stages = Stages::begin("an active pod");
    install(node).await;
    stages.end("sts-plus may run commands");
    let admin = node.control_plane().admin();
    let mut labelled = Active::watch(Api::namespaced(admin.clone(), ACTIVE), designated).await;
    let mut leading = Active::watch(Api::namespaced(admin, ACTIVE), endpoints).await;
    apply(node, ACTIVE, &object().to_string()).await;
    labelled.until(Some("db-0")).await;
    ready_pods(node, ACTIVE, PODS).await;
    leading.until(Some("db-0")).await;
    stages.end("the first pod active, three Ready");

    // Fewer failures than the threshold move nothing, as the course of things shows in the end.
    run(node, ACTIVE, "db-0", &format!("echo {} >/fail", THRESHOLD - 1)).await;
    until(DEADLINE, "the command to have failed and to pass again", || async {
        let left = run(node, ACTIVE, "db-0", "cat /fail").await;
        if left == "0" { Ok(()) } else { Err(NotYet::saw(left)) }
    })
    .await;
    run(node, ACTIVE, "db-0", "rm /active").await;
    labelled.until(Some("db-1")).await;
    leading.until(Some("db-1")).await;
    stages.end("a command that fails: the next pod");

    run(node, ACTIVE, "db-1", "touch /hang").await;
    labelled.until(Some("db-2")).await;
    leading.until(Some("db-2")).await;
    // The API has no way to end a command: how many are left is only told.
    let processes = run(node, ACTIVE, "db-1", "ps").await;
    let left =
        processes.lines().filter(|line| line.contains("sleep 100000") && !line.contains("1000000")).count();
    stages.end(&format!("a command that hangs: the next pod; {left} processes left in its container"));

    run(node, ACTIVE, "db-0", "touch /active").await;
    let pods = ready_pods(node, ACTIVE, PODS).await;
    let last = pods.iter().find(|pod| pod.name_any() == "db-2").unwrap();
    let containers = last.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let container = containers.and_then(|containers| containers.first()?.container_id.clone()).unwrap();
    node.kill_container(&container).await.unwrap();
    labelled.until(Some("db-0")).await;
    leading.until(Some("db-0")).await;
    stages.end("a container killed: the first pod");

    ready_pods(node, ACTIVE, PODS).await;
    run(node, ACTIVE, "db-2", "rm /active").await;
    run(node, ACTIVE, "db-0", "rm /active").await;
    labelled.until(None).await;
    leading.until(None).await;
    reported(node, "NoneChosen").await;
    run(node, ACTIVE, "db-2", "touch /active").await;
    labelled.until(Some("db-2")).await;
    leading.until(Some("db-2")).await;
    stages.end("none passes: none active, until one does");

    let course =
        [None, Some("db-0"), None, Some("db-1"), None, Some("db-2"), None, Some("db-0"), None, Some("db-2")];
    assert_eq!(labelled.course, course.map(|name| name.map(str::to_owned)));
    leave(node, ACTIVE).await;
}

fn object() -> Value {
    json!({
        "apiVersion": "sts.plus/v1alpha1",
        "kind": "ExtendedStatefulSet",
        "metadata": {"name": NAME},
        "spec": {
            "activeProbe": {"main": {
                "exec": {"command": ["sh", "-c", CHECK]},
                "periodSeconds": 1,
                "timeoutSeconds": 1,
                "failureThreshold": THRESHOLD,
            }},
            "services": {"active": "db-active"},
            "template": {"spec": {
                "replicas": PODS,
                "template": {"spec": {"containers": [{
                    "name": "main",
                    "image": "busybox:1.36",
                    "command": ["sh", "-c", "touch /active /started; exec sleep 1000000"],
                    // So that the first probe of a Ready pod passes, and the first pod is the first to be active.
                    "readinessProbe": {"exec": {"command": ["test", "-e", "/started"]}, "periodSeconds": 1},
                    "ports": [{"name": "db", "containerPort": 5432}],
                }]}},
            }},
        },
    })
}

/// Waits until the status says so about the active pod.
async fn reported(node: &RealNode, reason: &str) {
    until(DEADLINE, format!("a condition with the reason {reason}"), || async {
        let object = node.kubectl(&["-n", ACTIVE, "get", KIND, NAME, "-o", "json"]).await?;
        let status = serde_json::from_str::<Value>(&object)?["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_reported = conditions.iter().any(|condition| condition["reason"] == reason);
        if is_reported && status["activePod"].is_null() { Ok(()) } else { Err(NotYet::saw(status)) }
    })
    .await;
}

/// The pod itself where it has the label.
pub(crate) fn designated(pod: &Pod) -> BTreeSet<String> {
    let is_active = pod.labels().get(DESIGNATION).is_some_and(|designation| designation == "active");
    is_active.then(|| pod.name_any()).into_iter().collect()
}

/// The pods that a Service leads to.
pub(crate) fn endpoints(slice: &EndpointSlice) -> BTreeSet<String> {
    let ready = slice.endpoints.iter().filter(|endpoint| {
        endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false))
    });
    ready.filter_map(|endpoint| endpoint.target_ref.as_ref()?.name.clone()).collect()
}

/// Which pod objects show as active, one change after the other; never two at once.
pub(crate) struct Active<K> {
    shown: BTreeMap<String, BTreeSet<String>>,
    shows: fn(&K) -> BTreeSet<String>,
    changes: BoxStream<'static, kube::Result<WatchEvent<K>>>,
    /// Every pod that was active, and when none was, in order.
    pub(crate) course: Vec<Option<String>>,
}

impl<K> Active<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// Begins to watch where there is nothing yet.
    pub(crate) async fn watch(api: Api<K>, shows: fn(&K) -> BTreeSet<String>) -> Self {
        let now = api.list(&ListParams::default()).await.unwrap();
        assert_eq!(now.items.len(), 0);
        let version = now.metadata.resource_version.unwrap();
        let changes = api.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        Self { shown: BTreeMap::new(), shows, changes, course: vec![None] }
    }

    /// Follows the changes until this pod is active, or none.
    ///
    /// # Panics
    /// When at any moment two are.
    pub(crate) async fn until(&mut self, expected: Option<&str>) {
        while self.active() != expected {
            self.change(&format!("{expected:?}")).await;
        }
    }

    /// Follows the changes until some pod is active other than this one.
    ///
    /// # Panics
    /// When at any moment two are.
    pub(crate) async fn until_other(&mut self, former: Option<&str>) -> String {
        loop {
            match self.active() {
                Some(active) if Some(active) != former => return active.to_owned(),
                _ => self.change(&format!("one but {former:?}")).await,
            }
        }
    }

    fn active(&self) -> Option<&str> {
        self.course.last().and_then(Option::as_deref)
    }

    async fn change(&mut self, awaited: &str) {
        let change = timeout(DEADLINE, self.changes.next()).await;
        let change = change.unwrap_or_else(|_| panic!("nothing changes to {awaited}: {:?}", self.course));
        match change.unwrap().unwrap() {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.shown.insert(object.name_any(), (self.shows)(&object));
            }
            WatchEvent::Deleted(object) => drop(self.shown.remove(&object.name_any())),
            WatchEvent::Bookmark(_) => {}
            other @ WatchEvent::Error(_) => panic!("{other:?}"),
        }
        let active: BTreeSet<_> = self.shown.values().flatten().cloned().collect();
        assert!(active.len() <= 1, "active at once: {active:?} after {:?}", self.course);
        let active = active.into_iter().next();
        if self.course.last() != Some(&active) {
            self.course.push(active);
        }
    }
}
