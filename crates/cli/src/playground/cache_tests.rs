use jiff::Timestamp;
use kube::api::{
    Api as KubeApi, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams,
    PostParams,
};
use serde_json::{Value, json};
use sts_plus_cluster::Clock;
use sts_plus_cluster::machinery::service::{Server, Settings};
use sts_plus_operator::view::PodState;

use super::super::layout::Layout;
use super::super::lines::lines;
use super::super::observed::Observed;
use super::*;

/// A cluster of one set, and what the playground makes of it while nothing follows the revisions.
struct Bench {
    client: kube::Client,
    cache: Cache,
    changed: Arc<Notify>,
    rows: Rows,
    observed: Observed,
    /// As it was last reported.
    layout: Layout,
    _sources: JoinSet<()>,
}

fn api(client: &kube::Client, group: &str, kind: &str) -> KubeApi<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    KubeApi::default_namespaced_with(client.clone(), &resource)
}

async fn create(client: &kube::Client, group: &str, object: Value) -> DynamicObject {
    let api = api(client, group, object["kind"].as_str().unwrap());
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

impl Bench {
    async fn start() -> Self {
        let server = Server::new(Settings::new(Clock::at(Timestamp::UNIX_EPOCH))).unwrap();
        let client = kube::Client::new(server, "default");
        let labels = json!({ "app": "web" });
        let template = json!({
            "metadata": { "labels": labels },
            "spec": { "containers": [{ "name": "main", "image": "main" }] },
        });
        let spec = json!({
            "serviceName": "web", "selector": { "matchLabels": labels }, "template": template, "replicas": 1,
            "updateStrategy": { "type": "OnDelete" },
        });
        let set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "web" }, "spec": spec });
        create(&client, "apps", set).await;
        // The status names this revision from first to last.
        let status =
            json!({ "status": { "replicas": 1, "observedGeneration": 1, "updateRevision": "web-7966aa" } });
        let sets = api(&client, "apps", "StatefulSet");
        sets.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

        let api = Api::new(client.clone(), Metrics::new());
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        let listener: Listener = Arc::new(move |_| notify.notify_one());
        let (recorder, _unsent) = events::channel(api.clone(), String::new());
        let mut sources = JoinSet::new();
        let followed = [Kind::StatefulSet, Kind::Pod];
        let cache = Cache::start(&api, (&followed, &Scope::Cluster), &recorder, &listener, &mut sources);
        cache.completed(Cache::first_round()).await;
        let rows = Rows::new(api, Arc::clone(cache.store()));
        let (observed, layout) = (Observed::default(), Layout::default());
        Self { client, cache, changed, rows, observed, layout, _sources: sources }
    }

    async fn owner(&self) -> Value {
        let set = api(&self.client, "apps", "StatefulSet").get("web").await.unwrap();
        let uid = set.metadata.uid.unwrap();
        json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid, "controller": true }])
    }

    async fn revision(&self, hash: &str, number: i64) {
        let metadata = json!({ "name": format!("web-{hash}"), "ownerReferences": self.owner().await });
        let revision = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": {}, "revision": number,
        });
        create(&self.client, "apps", revision).await;
    }

    /// The pod `web-0`, which stays when it is deleted until its finalizer is removed.
    async fn pod(&self, hash: &str) {
        let metadata = json!({
            "name": "web-0", "finalizers": ["sts.plus/test"], "ownerReferences": self.owner().await,
            "labels": { "app": "web", "controller-revision-hash": format!("web-{hash}") },
        });
        let spec = json!({ "containers": [{ "name": "main", "image": "main" }] });
        create(
            &self.client,
            "",
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }),
        )
        .await;
    }

    async fn delete(&self) {
        api(&self.client, "", "Pod").delete("web-0", &DeleteParams::default()).await.unwrap();
    }

    async fn release(&self) {
        let body = json!({ "metadata": { "finalizers": null } });
        let pods = api(&self.client, "", "Pod");
        pods.patch("web-0", &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    }

    async fn ready(&self) {
        let conditions = json!([{ "type": "Ready", "status": "True" }]);
        let body = json!({ "status": { "phase": "Running", "conditions": conditions } });
        let pods = api(&self.client, "", "Pod");
        pods.patch_status("web-0", &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    }

    /// The lines about the next change of the rows that has any.
    async fn reported(&mut self) -> Vec<String> {
        loop {
            let change = self.rows.change(Snapshot::read(self.cache.store())).await;
            let now = Timestamp::UNIX_EPOCH;
            self.observed.take(change, now);
            let layout = Layout::new(&self.observed);
            let reported = lines(&self.layout, &layout, now);
            self.layout = layout;
            if !reported.is_empty() {
                return reported;
            }
            self.changed.notified().await;
        }
    }
}

#[tokio::test]
async fn the_revisions_are_read_before_a_pod_that_appears_or_terminates_is_shown() {
    let mut bench = Bench::start().await;
    assert_eq!(bench.reported().await, ["00:00:00 STATEFULSET web"]);
    bench.revision("58aabb", 1).await;
    bench.revision("7966aa", 2).await;
    bench.pod("7966aa").await;
    assert_eq!(bench.reported().await, ["00:00:00 pod/web-0 not scheduled (update revision 7966)"]);
    bench.ready().await;
    assert_eq!(bench.reported().await, ["00:00:00 pod/web-0 ready (update revision 7966)"]);
    // The status of the set still names 7966aa.
    bench.revision("99ccdd", 3).await;
    bench.delete().await;
    assert_eq!(bench.reported().await, ["00:00:00 pod/web-0 terminating (outdated revision 7966)"]);
    bench.release().await;
    assert_eq!(bench.reported().await, ["00:00:00 pod/web-0 deleted"]);
    bench.pod("99ccdd").await;
    assert_eq!(bench.reported().await, ["00:00:00 pod/web-0 not scheduled (update revision 99cc)"]);
    // A template that comes back has a higher number than before.
    let body = json!({ "revision": 4 });
    let revisions = api(&bench.client, "apps", "ControllerRevision");
    revisions.patch("web-7966aa", &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    bench.delete().await;
    assert_eq!(bench.reported().await, ["00:00:00 pod/web-0 terminating (outdated revision 99cc)"]);
    bench.release().await;
    assert_eq!(bench.reported().await, ["00:00:00 pod/web-0 deleted"]);
    bench.pod("7966aa").await;
    assert_eq!(bench.reported().await, ["00:00:00 pod/web-0 not scheduled (update revision 7966)"]);
}

#[tokio::test]
async fn every_change_is_sent_after_all_rows_there_are() {
    let bench = Bench::start().await;
    bench.revision("7966aa", 1).await;
    bench.pod("7966aa").await;
    let (changes, mut received) = mpsc::channel(MAX_WAITING_CHANGES);
    let (listed, is_listed) = oneshot::channel();
    let _following = tokio::spawn(follow(bench.client.clone(), changes, listed));
    let mut observed = Observed::default();
    let mut look = |change: Option<Change>| {
        observed.take(change.unwrap(), Timestamp::UNIX_EPOCH);
        let containers: Vec<_> =
            observed.template("default", "web").unwrap().containers().map(str::to_owned).collect();
        let pods: Vec<_> = observed.view.sets[0].set.pod_states.iter().map(|pod| pod.state).collect();
        (containers, pods)
    };
    let first = look(received.recv().await);
    assert_eq!(first, (vec!["main".to_owned()], vec![PodState::NotReady]));
    is_listed.await.unwrap();
    bench.ready().await;
    bench.delete().await;
    let mut states = Vec::new();
    while states.last() != Some(&PodState::Terminating) {
        let (_, pods) = look(received.recv().await);
        states.extend(pods);
        states.dedup();
    }
    assert!(states.contains(&PodState::Ready), "also what is over in a moment: {states:?}");
}

#[tokio::test]
async fn where_too_many_snapshots_wait_the_last_state_is_shown_all_the_same() {
    let bench = Bench::start().await;
    let (queue, mut waiting) = mpsc::channel(1);
    let snapshots = Snapshots::new(queue);
    snapshots.take();
    assert!(waiting.try_recv().is_err(), "nothing is listed yet");
    snapshots.begin(Arc::clone(bench.cache.store()));
    assert_eq!(waiting.try_recv().unwrap().sets().count(), 1);
    snapshots.take();
    snapshots.take();
    snapshots.behind.notified().await;
    assert!(waiting.try_recv().is_ok());
    snapshots.take();
    assert!(waiting.try_recv().is_ok());
}
