//! A set with data: each pod numbers the lines of a file on its volume, whatever is done to the set.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use sts_plus_harness::{
    Image, RealNode,
    wait::{NotYet, until},
};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    DEADLINE,
    fleet::is_ready,
    operator::{install_with, pods},
    stages::Stages,
    workload::CONTAINER,
};

const NAMESPACE: &str = "ledger";
const SET: &str = "ledger";
const FEW: usize = 3;
const MANY: usize = 5;
/// The pod whose container is killed.
const VICTIM: usize = 1;
/// Who looks after sets.
const CONTROLLER: &str = "system:serviceaccount:sts-plus:sts-plus";
const LINES: &str = "lines";

fn image_name(version: &str) -> String {
    format!("localhost/ledger:{version}")
}

fn pod_name(ordinal: usize) -> String {
    format!("{SET}-{ordinal}")
}

/// Goes on from the last number in the file; each line also tells who wrote it, and in which version.
pub(crate) fn images() -> [Image; 2] {
    ["v1", "v2"].map(|version| {
        let write = format!(
            "trap exit TERM
            last=$(tail -n 1 /data/{LINES} 2>/dev/null)
            number=${{last%% *}}
            while :; do
                number=$((${{number:-0}} + 1))
                echo $number $(hostname) {version} >>/data/{LINES}
                : >/ready
                sleep 0.1
            done"
        );
        Image::new(&image_name(version), &["/bin/sh", "-c", &write], &[])
            .busybox(&["sh", "tail", "hostname", "sleep", "test"])
            .unwrap()
    })
}

/// sts-plus looks after sets, and kube-controller-manager no longer does.
pub(crate) async fn kept_by_us(node: &RealNode) {
    let mut stages = Stages::begin("a set with data");
    let without = ["*", "-statefulset-controller"].map(str::to_owned);
    node.run_controllers(&without).await.unwrap();
    install_with(node, &["controllers={statefulset}"]).await;
    stages.end("sts-plus in the place of kube-controller-manager's controller");
    kept(node, stages).await;
}

/// Creates, scales, rolls and hurts a set, and looks at its volumes afterwards.
async fn kept(node: &RealNode, mut stages: Stages) {
    // Volumes of the test itself, since what kube-controller-manager provisions is not in the sandbox.
    let folder = TempDir::new().unwrap();
    node.control_plane().create_namespace(NAMESPACE).await.unwrap();
    node.kubectl_with(&["apply", "-f", "-"], &volumes(folder.path()).to_string()).await.unwrap();
    let mut watcher = Watcher::start(&pods(node, NAMESPACE)).await;

    node.kubectl_with(&["apply", "-f", "-"], &set().to_string()).await.unwrap();
    watcher.until(FEW, |pod| pod.ready && pod.image == image_name("v1")).await;
    let first_claims = claims(node).await;
    assert_eq!(first_claims.len(), FEW, "{first_claims:?}");
    stages.end("three pods Ready, each with its claim");

    scale(node, MANY).await;
    watcher.until(MANY, |pod| pod.ready && pod.image == image_name("v1")).await;
    let all_claims = claims(node).await;
    assert_eq!(all_claims.len(), MANY, "{all_claims:?}");
    stages.end("scaled to five");

    let image = format!("{CONTAINER}={}", image_name("v2"));
    node.kubectl(&["-n", NAMESPACE, "set", "image", "statefulset", SET, &image]).await.unwrap();
    watcher.until(MANY, |pod| pod.ready && pod.image == image_name("v2")).await;
    stages.end("rolled to v2");

    let before = watcher.pods[&pod_name(VICTIM)].clone();
    assert_eq!(before.restarts, 0);
    node.kill_container(&before.container).await.unwrap();
    let spared = |pod: &Member| pod.uid == before.uid && pod.restarts == before.restarts;
    watcher.until(MANY, |pod| pod.ready && !spared(pod)).await;
    let after = &watcher.pods[&pod_name(VICTIM)];
    assert_eq!((&after.uid, after.restarts), (&before.uid, before.restarts + 1), "restarted in its place");
    stages.end("a container killed and back");

    watcher.replicas = FEW;
    scale(node, FEW).await;
    watcher.until(FEW, |pod| pod.ready).await;
    stages.end("scaled back to three");

    let kept = claims(node).await;
    assert_eq!(kept, all_claims, "no claim was replaced, and none went");
    let kept_first = kept.iter().filter(|(name, _)| first_claims.contains_key(*name));
    assert!(kept_first.eq(&first_claims), "{first_claims:?} {kept:?}");
    for ordinal in 0..MANY {
        let file = volume(node, &kept, ordinal).await.join(LINES);
        if ordinal < FEW {
            goes_on(&file).await;
        }
        unbroken(&fs::read_to_string(&file).unwrap(), &pod_name(ordinal));
    }
    let expected = (0..MANY).rev().chain((FEW..MANY).rev()).map(pod_name);
    assert_eq!(deletions(node), expected.collect::<Vec<_>>(), "each pod rolled once, two scaled away");
    stages.end("every volume holds an unbroken sequence");
}

fn volumes(folder: &Path) -> Value {
    let volume = |ordinal: usize| {
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": format!("{NAMESPACE}-{ordinal}")},
            "spec": {
                "storageClassName": NAMESPACE,
                "capacity": {"storage": "1Mi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": folder.join(ordinal.to_string()), "type": "DirectoryOrCreate"},
            },
        })
    };
    json!({"apiVersion": "v1", "kind": "List", "items": (0..MANY).map(volume).collect::<Vec<_>>()})
}

fn set() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": NAMESPACE, "name": SET},
        "spec": {
            "replicas": FEW,
            "serviceName": SET,
            "selector": {"matchLabels": {"app": SET}},
            "template": {
                "metadata": {"labels": {"app": SET}},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{
                        "name": CONTAINER,
                        "image": image_name("v1"),
                        "imagePullPolicy": "Never",
                        "readinessProbe": {
                            "exec": {"command": ["/bin/test", "-e", "/ready"]},
                            "periodSeconds": 1,
                        },
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "storageClassName": NAMESPACE,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Mi"}},
                },
            }],
        },
    })
}

async fn scale(node: &RealNode, replicas: usize) {
    let replicas = format!("--replicas={replicas}");
    node.kubectl(&["-n", NAMESPACE, "scale", "statefulset", SET, &replicas]).await.unwrap();
}

/// Each claim with its UID and its volume; none may be on its way out.
async fn claims(node: &RealNode) -> BTreeMap<String, (String, String)> {
    let api = Api::<PersistentVolumeClaim>::namespaced(node.control_plane().admin(), NAMESPACE);
    let found = api.list(&ListParams::default()).await.unwrap();
    let described = found.into_iter().map(|claim| {
        assert!(claim.metadata.deletion_timestamp.is_none(), "{claim:?}");
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
        (claim.name_any(), (claim.uid().unwrap(), volume.unwrap()))
    });
    described.collect()
}

/// Where the volume of a pod is.
async fn volume(node: &RealNode, claimed: &BTreeMap<String, (String, String)>, ordinal: usize) -> PathBuf {
    let (_, volume) = &claimed[&format!("data-{}", pod_name(ordinal))];
    let volumes = Api::<PersistentVolume>::all(node.control_plane().admin());
    volumes.get(volume).await.unwrap().spec.unwrap().host_path.unwrap().path.into()
}

/// Waits until more is written.
async fn goes_on(file: &Path) {
    let before = fs::read_to_string(file).unwrap().len();
    until(DEADLINE, format!("{} to grow", file.display()), || async {
        let now = fs::read_to_string(file)?.len();
        if now > before { Ok(()) } else { Err(NotYet::saw(now)) }
    })
    .await;
}

/// Every number once and in order, all by one pod, first of one version and then of the other.
fn unbroken(text: &str, pod: &str) {
    // The last line may be half written.
    let (whole, _) = text.rsplit_once('\n').unwrap();
    let mut versions = Vec::new();
    for (index, line) in whole.lines().enumerate() {
        let (begin, version) = line.rsplit_once(' ').unwrap();
        assert_eq!(begin, format!("{} {pod}", index + 1), "line {} of {pod}", index + 1);
        versions.push(version);
    }
    versions.dedup();
    assert_eq!(versions, ["v1", "v2"], "{pod}");
}

/// The pods whose deletion the controller asked for and was granted, in order.
fn deletions(node: &RealNode) -> Vec<String> {
    let requests = node.control_plane().requests_of(CONTROLLER).unwrap();
    let deletions = requests.into_iter().filter(|request| {
        (&*request.verb, &*request.resource, &*request.namespace, request.code)
            == ("delete", "pods", NAMESPACE, 200)
    });
    deletions.map(|request| request.name).collect()
}

/// Follows the pods and holds every moment against the guarantee: one at most is down by the controller's hand.
struct Watcher {
    /// How many there are to be.
    replicas: usize,
    pods: BTreeMap<String, Member>,
    /// Those deleted whose successors have not been Ready yet.
    down: BTreeSet<String>,
    changes: BoxStream<'static, kube::Result<WatchEvent<Pod>>>,
}

#[derive(Clone, Debug)]
struct Member {
    uid: String,
    image: String,
    container: String,
    restarts: i32,
    ready: bool,
}

impl Watcher {
    /// Begins to watch where there is nothing yet.
    async fn start(pods: &Api<Pod>) -> Self {
        let now = pods.list(&ListParams::default()).await.unwrap();
        assert_eq!(now.items.len(), 0);
        let version = now.metadata.resource_version.unwrap();
        let changes = pods.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        Self { replicas: MANY, pods: BTreeMap::new(), down: BTreeSet::new(), changes }
    }

    /// Follows the changes until there are so many pods, none of them on its way out, and the one is as wanted.
    async fn until(&mut self, count: usize, wanted: impl Fn(&Member) -> bool) {
        while self.pods.len() != count || !self.down.is_empty() || !self.pods.values().all(&wanted) {
            let change = timeout(DEADLINE, self.changes.next()).await;
            let change = change.unwrap_or_else(|_| panic!("nothing changes any more: {:?}", self.pods));
            match change.unwrap().unwrap() {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => self.see(&pod),
                WatchEvent::Deleted(pod) => self.gone(&pod.name_any()),
                // One comes every minute, whatever changes.
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => panic!("{status:?}"),
            }
            assert!(self.down.len() <= 1, "down at once: {:?}", self.down);
        }
    }

    fn see(&mut self, pod: &Pod) {
        let name = pod.name_any();
        let container = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()?.first());
        let member = Member {
            uid: pod.uid().unwrap(),
            image: pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap(),
            container: container.and_then(|container| container.container_id.clone()).unwrap_or_default(),
            restarts: container.map_or(0, |container| container.restart_count),
            ready: is_ready(pod),
        };
        if pod.metadata.deletion_timestamp.is_some() {
            self.down.insert(name.clone());
        } else if member.ready {
            self.down.remove(&name);
        }
        self.pods.insert(name, member);
    }

    fn gone(&mut self, name: &str) {
        self.pods.remove(name);
        if (0..self.replicas).any(|ordinal| pod_name(ordinal) == name) {
            self.down.insert(name.to_owned());
        } else {
            self.down.remove(name);
        }
    }
}
