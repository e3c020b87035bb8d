//! A store whose only copy of its newest records is in memory: it is scaled by a policy whose hook has it write them to its
//! volume, under load, and every record that a client has had acknowledged is there afterwards. A store that ends with its hook
//! is held by the lock: with the restart rule, and without it by the deletion of its pod.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use sts_plus_harness::{
    Image, RealNode,
    wait::{NotYet, until},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    DEADLINE,
    fleet::is_ready,
    operator::{install, pods, ready_pods},
    stages::Stages,
    workload::{CONTAINER, fetch},
};

const SET: &str = "store";
const IMAGE: &str = "localhost/store:1";
const KIND: &str = "scalingpolicies.sts.plus";
/// Where the store takes records, and where it is asked about itself.
const DATA: u16 = 8080;
const ADMIN: u16 = 8081;
/// The file on its volume, and what a line of it begins with that is no record.
const FILE: &str = "records";
const DRAINED: &str = "drained ";

/// The numbers of pods, one after the other.
const STEPS: [usize; 4] = [3, 2, 3, 1];
/// How often each pod leaves on the way.
const DRAINS: [usize; 3] = [0, 1, 2];
/// What each pod acknowledges before the next step.
const LOAD: usize = 20;
/// How long the client waits for an answer: the address of a pod that is gone does not refuse, it is silent.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn image() -> Image {
    Image::new(IMAGE, &["/store"], &[]).program("/store", Path::new(env!("CARGO_BIN_EXE_store"))).unwrap()
}

/// How a store ends that is drained, each in a namespace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It runs on until its pod is deleted.
    Stays,
    /// It exits, and all containers of its pod are restarted, the lock first.
    ExitsByRule,
    /// It exits, and its container is restarted in place: it says so itself, so it gets no rule.
    ExitsInPlace,
}

impl Kind {
    fn namespace(self) -> &'static str {
        match self {
            Self::Stays => "store",
            Self::ExitsByRule => "store-rule",
            Self::ExitsInPlace => "store-in-place",
        }
    }

    /// Whether a pod is written to. A container that is restarted in place would serve until its pod is deleted, so only there
    /// the client looks whether it is Ready and stays, as a Service does.
    fn is_written_to(self, pod: &Pod) -> bool {
        self != Self::ExitsInPlace || is_ready(pod) && pod.metadata.deletion_timestamp.is_none()
    }

    fn exits(self) -> bool {
        self != Self::Stays
    }
}

pub(crate) async fn scaled_under_load(node: &RealNode, kind: Kind) {
    let namespace = kind.namespace();
    let mut stages = Stages::begin(match kind {
        Kind::Stays => "a store under load",
        Kind::ExitsByRule => "a store that exits, with the restart rule",
        Kind::ExitsInPlace => "a store that exits, without the rule",
    });
    install(node).await;
    node.kubectl(&["wait", "--for=condition=Established", "--timeout=2m", "crd", KIND]).await.unwrap();
    // Volumes of the test itself, since what kube-controller-manager provisions is not in the sandbox.
    let folder = TempDir::new().unwrap();
    node.control_plane().create_namespace(namespace).await.unwrap();
    node.kubectl_with(&["apply", "-f", "-"], &objects(folder.path(), kind).to_string()).await.unwrap();
    if kind.exits() {
        // The lock rolls the pods, which hold nothing yet.
        scaled(node, kind, STEPS[0]).await;
        let set = node.kubectl(&["-n", namespace, "get", "statefulset", SET, "-o", "json"]).await.unwrap();
        assert_eq!(set.contains("RestartAllContainers"), kind == Kind::ExitsByRule, "{set}");
    }

    let client = Client::default();
    let story = async {
        for replicas in STEPS {
            let replicas_flag = format!("--replicas={replicas}");
            node.kubectl(&["-n", namespace, "scale", "scp", SET, &replicas_flag]).await.unwrap();
            scaled(node, kind, replicas).await;
            client.is_acknowledged_by_all(node, kind, replicas).await;
            stages.end(&format!("{replicas} pods, and records in each"));
        }
        client.stop();
    };
    tokio::join!(client.write(pods(node, namespace), kind), story);
    nothing_is_lost(node, kind, &client.acknowledged()).await;
    stages.end("every acknowledged record is there");
    node.kubectl(&["delete", "namespace", namespace, "--wait=false"]).await.unwrap();
}

/// The volumes, the set with as many pods as the first step has, and its policy.
fn objects(folder: &Path, kind: Kind) -> Value {
    let namespace = kind.namespace();
    let volume = |ordinal: usize| {
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": format!("{namespace}-{ordinal}")},
            "spec": {
                "storageClassName": namespace,
                "capacity": {"storage": "1Mi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": folder.join(ordinal.to_string()), "type": "DirectoryOrCreate"},
            },
        })
    };
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": namespace, "name": SET},
        "spec": {
            "replicas": STEPS[0],
            "serviceName": SET,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": SET}},
            "template": {
                "metadata": {"labels": {"app": SET}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": CONTAINER,
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "ports": [
                            {"name": "data", "containerPort": DATA},
                            {"name": "admin", "containerPort": ADMIN},
                        ],
                        "readinessProbe": {
                            "httpGet": {"path": "/ready", "port": "admin"},
                            "periodSeconds": 1,
                        },
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "storageClassName": namespace,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Mi"}},
                },
            }],
        },
    });
    let container = &mut set["spec"]["template"]["spec"]["containers"][0];
    if kind.exits() {
        container["args"] = json!(["exit"]);
    }
    if kind == Kind::ExitsInPlace {
        // What says that a container is not Ready arrives later than it may run again, so it takes its time, as a store does.
        container["args"] = json!(["exit", "5"]);
        container["restartPolicy"] = json!("Always");
    }
    let mut policy = json!({
        "apiVersion": "sts.plus/v1alpha1",
        "kind": "ScalingPolicy",
        "metadata": {"namespace": namespace, "name": SET},
        "spec": {
            "targetRef": {"name": SET},
            "replicas": STEPS[0],
            "scaleDown": {"hook": {"http": {"path": "/shutdown", "port": "admin"}}},
        },
    });
    if kind.exits() {
        policy["spec"]["scaleDown"]["fence"] = json!("Lock");
        policy["spec"]["scaleDown"]["hook"]["expectExit"] = json!(true);
    }
    let items = (0..DRAINS.len()).map(volume).chain([set, policy]);
    json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()})
}

/// Waits until the policy is content with so many pods, and they are Ready.
async fn scaled(node: &RealNode, kind: Kind, replicas: usize) {
    let namespace = kind.namespace();
    until(DEADLINE, format!("the policy to be content with {replicas} pods"), || async {
        let policy = node.kubectl(&["-n", namespace, "get", "scp", SET, "-o", "json"]).await?;
        let policy: Value = serde_json::from_str(&policy)?;
        let status = &policy["status"];
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let is_ready = conditions.any(|condition| {
            condition["type"] == "Ready"
                && condition["status"] == "True"
                && condition["observedGeneration"] == policy["metadata"]["generation"]
        });
        let is_scaled = status["replicas"] == replicas && status["readyReplicas"] == replicas;
        let is_locked = !kind.exits() || status["lock"]["templateGeneration"].is_i64();
        if is_ready && is_scaled && is_locked { Ok(()) } else { Err(NotYet::saw(status)) }
    })
    .await;
    ready_pods(node, namespace, replicas).await;
}

/// A record that a pod has acknowledged.
#[derive(Clone, Debug)]
struct Acknowledged {
    id: usize,
    pod: String,
    uid: String,
    /// When it was sent, in ms since 1970; the pods have the same clock.
    sent: u128,
}

/// Writes to every pod that has an address, whatever else is known of it: see [`Kind::is_written_to`].
#[derive(Default)]
struct Client {
    next: AtomicUsize,
    is_stopped: AtomicBool,
    acknowledged: Mutex<Vec<Acknowledged>>,
}

impl Client {
    async fn write(&self, pods: Api<Pod>, kind: Kind) {
        while !self.is_stopped.load(Ordering::Relaxed) {
            let found = pods.list(&ListParams::default()).await.unwrap();
            let pods = found.items.iter().filter(|pod| kind.is_written_to(pod));
            join_all(pods.map(|pod| self.write_to(pod))).await;
        }
    }

    async fn write_to(&self, pod: &Pod) {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
        let Some(address) = address.filter(|address| !address.is_empty()) else { return };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let sent = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let answer = timeout(PATIENCE, put(address, id)).await;
        if answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 201 "))) {
            let (pod, uid) = (pod.name_any(), pod.uid().unwrap());
            self.lock().push(Acknowledged { id, pod, uid, sent });
        }
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn acknowledged(&self) -> Vec<Acknowledged> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Acknowledged>> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until each of so many pods has acknowledged enough.
    async fn is_acknowledged_by_all(&self, node: &RealNode, kind: Kind, replicas: usize) {
        let pods = ready_pods(node, kind.namespace(), replicas).await;
        let uids: Vec<_> = pods.iter().map(|pod| pod.uid().unwrap()).collect();
        until(DEADLINE, format!("{LOAD} records in each of {replicas} pods"), || async {
            let acknowledged = self.acknowledged();
            let by = |uid: &String| acknowledged.iter().filter(|record| record.uid == *uid).count();
            let counts: Vec<_> = uids.iter().map(by).collect();
            if counts.iter().all(|count| *count >= LOAD) { Ok(()) } else { Err(NotYet::saw(counts)) }
        })
        .await;
    }
}

async fn put(address: &str, id: usize) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((address, DATA)).await?;
    stream.write_all(format!("PUT /records/{id} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// What a pod has written when it was drained.
struct Drain {
    records: Vec<usize>,
    /// In ms since 1970.
    at: u128,
}

/// Each acknowledged record is on the volume of its pod, from a drain after it was sent, or in the memory of a pod that is
/// still there.
async fn nothing_is_lost(node: &RealNode, kind: Kind, acknowledged: &[Acknowledged]) {
    let left = ready_pods(node, kind.namespace(), STEPS[STEPS.len() - 1]).await;
    let mut held = Vec::new();
    for pod in &left {
        let records = fetch(pod, ADMIN, "/records").await.unwrap();
        held.extend(records.lines().map(|id| id.parse::<usize>().unwrap()));
    }
    for (ordinal, times) in DRAINS.into_iter().enumerate() {
        let pod = format!("{SET}-{ordinal}");
        let drains = drains(&volume(node, kind, &pod).await.join(FILE));
        if kind == Kind::ExitsInPlace {
            // A container that runs again before its pod is deleted may be called again.
            assert!(drains.len() >= times, "{pod} is called each time that it leaves: {}", drains.len());
        } else {
            assert_eq!(drains.len(), times, "{pod} is called once each time that it leaves");
        }
        let own: Vec<_> = acknowledged.iter().filter(|record| record.pod == pod).collect();
        assert!(own.len() >= LOAD * (times + usize::from(ordinal == 0)), "{pod}: {}", own.len());
        for record in own {
            let drain = drains.iter().find(|drain| drain.records.contains(&record.id));
            assert!(drain.is_some() || held.contains(&record.id), "lost: {record:?}");
            assert!(drain.is_none_or(|drain| record.sent <= drain.at), "taken by a drained pod: {record:?}");
        }
    }
}

/// The drains that the file on a volume tells of; a store that was never drained has none.
fn drains(file: &Path) -> Vec<Drain> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let (mut drains, mut records) = (Vec::new(), Vec::new());
    for line in text.lines() {
        match line.strip_prefix(DRAINED) {
            Some(at) => {
                drains.push(Drain { records: std::mem::take(&mut records), at: at.parse().unwrap() });
            }
            None => records.push(line.parse().unwrap()),
        }
    }
    assert!(records.is_empty(), "{} ends in the middle", file.display());
    drains
}

/// Where the volume of a pod is.
async fn volume(node: &RealNode, kind: Kind, pod: &str) -> PathBuf {
    let client = node.control_plane().admin();
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), kind.namespace());
    let claim = claims.get(&format!("data-{pod}")).await.unwrap();
    let volume = claim.spec.unwrap().volume_name.unwrap();
    Api::<PersistentVolume>::all(client)
        .get(&volume)
        .await
        .unwrap()
        .spec
        .unwrap()
        .host_path
        .unwrap()
        .path
        .into()
}
