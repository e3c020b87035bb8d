//! Hollow nodes under the real control plane: the API server's validation, the StatefulSet controller's view.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::{collections::BTreeSet, process::ExitCode, sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Event, Node as NodeObject, PersistentVolume, PersistentVolumeClaim, Pod},
    rbac::v1::PolicyRule,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::{Value, json};
use sts_plus_cluster::nodes::{
    Config, HollowNodes, Node, Running, UnknownNode,
    behaviour::{FAULT, FAULT_ORDINALS, READY_DELAY, START_DELAY, STOP_DELAY},
};
use sts_plus_harness::{
    Assets, AssetsMissing, AuditEntry, ControlPlane, Identity, Options, Scope,
    wait::{NotYet, until},
};
use tokio::runtime::Runtime;

/// Expected within a second or two.
const DEADLINE: Duration = Duration::from_mins(1);

/// Owned by `main`, so that it is stopped at the end.
struct Cluster {
    control_plane: ControlPlane,
    runtime: Runtime,
}

type Shared = Arc<Result<Cluster, Unavailable>>;

enum Unavailable {
    Assets(AssetsMissing),
    Start,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One test restarts the API server under the others' feet.
    arguments.test_threads = Some(1);
    let cluster: Shared = Arc::new(if arguments.list { Err(Unavailable::Start) } else { start() });
    let trials = vec![
        trial("a_set_with_claims_comes_up_and_goes_away_with_the_fewest_writes", &cluster, set_with_claims),
        trial("a_set_is_rolled_by_the_real_controller", &cluster, rolled),
        trial("faults_take_hold_on_live_pods_and_heal", &cluster, faults),
        trial("a_fault_in_the_template_hits_its_ordinals", &cluster, fault_ordinals),
        trial("a_stuck_pod_goes_when_it_is_released", &cluster, stuck),
        trial("readiness_gates_hold_a_pod_back", &cluster, gates),
        trial("a_pod_goes_only_where_it_may_and_says_why_it_cannot", &cluster, placement),
        trial("a_lost_node_hangs_until_it_is_restored", &cluster, lost),
        trial("bad_annotations_are_reported_and_mean_the_default", &cluster, bad_annotations),
        trial("dropping_stops_everything_and_others_take_over_without_a_write", &cluster, take_over),
        trial("hollow_nodes_outlast_an_api_server", &cluster, api_server_restart),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(cluster);
    conclusion.exit_code()
}

fn start() -> Result<Cluster, Unavailable> {
    let assets = Assets::find().map_err(Unavailable::Assets)?;
    let runtime = Runtime::new().unwrap();
    match runtime.block_on(ControlPlane::start(&assets, Options::default())) {
        Ok(control_plane) => Ok(Cluster { control_plane, runtime }),
        Err(error) => {
            eprintln!("{error}");
            Err(Unavailable::Start)
        }
    }
}

fn trial<F>(name: &'static str, cluster: &Shared, test: F) -> Trial
where
    F: AsyncFnOnce(&ControlPlane) + Send + 'static,
{
    let cluster = cluster.clone();
    Trial::ignorable_test(name, move || match &*cluster {
        Err(Unavailable::Assets(missing)) => missing.verdict(),
        Err(Unavailable::Start) => Err(Failed::from("the control plane did not start, see above")),
        Ok(Cluster { control_plane, runtime }) => {
            runtime.block_on(test(control_plane));
            Ok(Completion::Completed)
        }
    })
}

/// A namespace with hollow nodes of its own, `NAMESPACE-a`, `-b` and `-c`, one in each zone.
struct Place<'a> {
    control_plane: &'a ControlPlane,
    namespace: &'static str,
    identity: Identity,
    nodes: Running,
}

impl<'a> Place<'a> {
    async fn new(control_plane: &'a ControlPlane, namespace: &'static str) -> Self {
        control_plane.create_namespace(namespace).await.unwrap();
        let (identity, nodes) = hollow_nodes(control_plane, namespace).await;
        Place { control_plane, namespace, identity, nodes }
    }

    fn client(&self) -> Client {
        self.control_plane.admin()
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), self.namespace)
    }

    fn sets(&self) -> Api<StatefulSet> {
        Api::namespaced(self.client(), self.namespace)
    }

    fn node(&self, zone: &str) -> String {
        format!("{}-{zone}", self.namespace)
    }

    /// Creates a set whose pods carry these annotations.
    async fn create_set(&self, name: &str, replicas: u32, annotations: Value, claims: bool) {
        let labels = json!({ "app": name });
        let claim = json!({
            "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        let set = json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas, "serviceName": name, "podManagementPolicy": "Parallel",
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels, "annotations": annotations },
                    "spec": { "containers": [{ "name": "app", "image": "app:1" }] },
                },
                "volumeClaimTemplates": if claims { vec![claim] } else { Vec::new() },
            },
        });
        self.sets().create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    }

    async fn create_pod(&self, name: &str, spec: Value, annotations: Value) {
        let mut pod = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "containers": [{ "name": "app", "image": "app:1" }] },
        });
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    async fn annotate(&self, pod: &str, annotations: Value) {
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.pods().patch(pod, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn ready(&self, set: &str, replicas: i32) {
        until(DEADLINE, format!("{replicas} ready pods of {set}"), || async {
            let status = self.sets().get(set).await?.status.unwrap_or_default();
            let shown = (
                status.replicas,
                status.ready_replicas.unwrap_or_default(),
                status.available_replicas.unwrap_or_default(),
            );
            if shown == (replicas, replicas, replicas) { Ok(()) } else { Err(NotYet::saw(status)) }
        })
        .await;
    }

    /// Waits until what is looked for is found in a pod.
    async fn pod<T>(&self, name: &str, what: &str, look: impl Fn(&Pod) -> Option<T>) -> T {
        until(DEADLINE, format!("{name}: {what}"), || async {
            let pod = self.pods().get(name).await?;
            look(&pod).ok_or_else(|| NotYet::saw((pod.metadata.deletion_timestamp, pod.spec, pod.status)))
        })
        .await
    }

    async fn pod_is_ready(&self, name: &str) {
        self.pod(name, "Ready", |pod| (condition(pod, "Ready")?.0 == "True").then_some(())).await;
    }

    async fn bound_claims(&self, count: usize) -> Vec<PersistentVolumeClaim> {
        let claims = Api::<PersistentVolumeClaim>::namespaced(self.client(), self.namespace);
        until(DEADLINE, format!("{count} bound claims"), || async {
            let found = claims.list(&ListParams::default()).await?.items;
            let phase =
                |claim: &PersistentVolumeClaim| claim.status.as_ref().and_then(|status| status.phase.clone());
            if found.len() == count && found.iter().all(|claim| phase(claim).as_deref() == Some("Bound")) {
                Ok(found)
            } else {
                Err(NotYet::saw(found))
            }
        })
        .await
    }

    async fn no_pods(&self) {
        until(DEADLINE, "all pods to be gone", || async {
            let pods = self.pods().list(&ListParams::default()).await?.items;
            if pods.is_empty() {
                Ok(())
            } else {
                Err(NotYet::saw(pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>()))
            }
        })
        .await;
    }
}

async fn hollow_nodes(control_plane: &ControlPlane, namespace: &str) -> (Identity, Running) {
    let identity = control_plane.identity("hollow-nodes").unwrap();
    let rule = |resource: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    // All that hollow nodes need, as their documentation says.
    let cluster_rules = vec![
        rule("nodes", &["create", "list", "patch", "watch"]),
        rule("nodes/status", &["patch"]),
        rule("persistentvolumes", &["create", "delete", "list", "patch", "watch"]),
        rule("persistentvolumes/status", &["patch"]),
    ];
    let rules = vec![
        rule("pods", &["delete", "list", "watch"]),
        rule("pods/binding", &["create"]),
        rule("pods/status", &["patch"]),
        rule("persistentvolumeclaims", &["list", "patch", "watch"]),
        rule("persistentvolumeclaims/status", &["patch"]),
        rule("events", &["create"]),
    ];
    control_plane.grant(&identity, Scope::Cluster, cluster_rules).await.unwrap();
    control_plane.grant(&identity, Scope::Namespace(namespace), rules).await.unwrap();
    let config = Config {
        namespaces: BTreeSet::from([namespace.to_owned()]),
        nodes: ["a", "b", "c"].map(|zone| Node::new(format!("{namespace}-{zone}"), zone)).into(),
        ..Config::default()
    };
    let nodes = HollowNodes::new(control_plane.client(&identity).unwrap(), config).start();
    (identity, nodes)
}

/// Status and reason of a condition.
fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<(&'a str, Option<&'a str>)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some((found.status.as_str(), found.reason.as_deref()))
}

/// Why the first container waits, and how often it has been restarted.
fn waiting(pod: &Pod) -> Option<(&str, i32)> {
    let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    Some((container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()?, container.restart_count))
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Requests that change something, as `verb resource/subresource name`, in order.
fn writes(requests: &[AuditEntry]) -> Vec<String> {
    let changes =
        requests.iter().filter(|request| !["get", "list", "watch"].contains(&request.verb.as_str()));
    changes
        .map(|request| {
            format!("{} {}/{} {}", request.verb, request.resource, request.subresource, request.name)
        })
        .collect()
}

async fn set_with_claims(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "claims").await;
    place.create_set("web", 3, json!({}), true).await;
    place.ready("web", 3).await;

    let pods = place.pods().list(&ListParams::default()).await.unwrap().items;
    let distinct = |look: fn(&Pod) -> Option<String>| pods.iter().filter_map(look).collect::<BTreeSet<_>>();
    let nodes = distinct(|pod| pod.spec.as_ref()?.node_name.clone());
    assert_eq!(nodes, ["a", "b", "c"].map(|zone| place.node(zone)).into(), "neighbours are spread");
    assert_eq!(distinct(|pod| pod.status.as_ref()?.pod_ip.clone()).len(), 3, "each pod has its own address");
    for pod in &pods {
        for kind in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"] {
            assert_eq!(condition(pod, kind), Some(("True", None)), "{kind} of {}", pod.name_any());
        }
        let status = pod.status.clone().unwrap();
        assert!(status.start_time.is_some() && status.host_ip.is_some());
        let container = &status.container_statuses.unwrap()[0];
        assert!(container.ready && container.started == Some(true) && container.restart_count == 0);
        assert!(container.state.as_ref().unwrap().running.as_ref().unwrap().started_at.is_some());
        assert_eq!(container.image, "app:1");
    }

    let bound = place.bound_claims(3).await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(place.client(), place.namespace);
    let volumes = Api::<PersistentVolume>::all(place.client());
    for claim in &bound {
        let volume = volumes.get(claim.spec.as_ref().unwrap().volume_name.as_ref().unwrap()).await.unwrap();
        assert_eq!(volume.status.unwrap().phase.as_deref(), Some("Bound"));
        let spec = volume.spec.unwrap();
        assert_eq!(spec.claim_ref.unwrap().uid, claim.metadata.uid);
        assert_eq!(spec.capacity, claim.status.as_ref().unwrap().capacity);
    }

    let requests = control_plane.settled_requests(&place.identity).await.unwrap();
    for pod in &pods {
        let own =
            writes(&requests).into_iter().filter(|write| write.ends_with(&format!(" {}", pod.name_any())));
        let expected =
            ["create pods/binding", "patch pods/status"].map(|write| format!("{write} {}", pod.name_any()));
        assert_eq!(own.collect::<Vec<_>>(), expected, "one bind and one report make a pod ready");
    }

    place.sets().delete("web", &DeleteParams::default()).await.unwrap();
    place.no_pods().await;
    for claim in &bound {
        claims.delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
    }
    until(DEADLINE, "the volumes to go with their claims", || async {
        let found = volumes.list(&ListParams::default()).await?.items;
        if found.is_empty() { Ok(()) } else { Err(NotYet::saw(found)) }
    })
    .await;
    let requests = control_plane.settled_requests(&place.identity).await.unwrap();
    let refused: Vec<_> = requests.iter().filter(|request| request.code >= 400).collect();
    assert!(refused.is_empty(), "no write is in vain: {refused:?}");
    let removals = writes(&requests).into_iter().filter(|write| write.starts_with("delete pods/ ")).count();
    assert_eq!(removals, 3, "one removal per pod");
}

async fn rolled(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "rolled").await;
    // What is due at once is one write: on a busy machine two transitions must not be.
    let delays = json!({ START_DELAY: "200ms", READY_DELAY: "1s..1500ms", STOP_DELAY: "50ms" });
    place.create_set("web", 3, delays, false).await;
    place.ready("web", 3).await;
    let image = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "app", "image": "app:2" }] } } } });
    place.sets().patch("web", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
    until(DEADLINE, "the new revision everywhere", || async {
        let status = place.sets().get("web").await?.status.unwrap_or_default();
        let done = status.current_revision == status.update_revision && status.observed_generation == Some(2);
        if done && status.ready_replicas == Some(3) { Ok(()) } else { Err(NotYet::saw(status)) }
    })
    .await;
    for pod in place.pods().list(&ListParams::default()).await.unwrap() {
        assert_eq!(pod.status.unwrap().container_statuses.unwrap()[0].image, "app:2");
    }
    let requests = control_plane.settled_requests(&place.identity).await.unwrap();
    let expected = ["create pods/binding web-1", "patch pods/status web-1", "patch pods/status web-1"];
    let own = writes(&requests).into_iter().filter(|write| write.ends_with(" web-1"));
    let life: Vec<&str> = [&expected[..], &["delete pods/ web-1"], &expected[..]].concat();
    assert_eq!(own.collect::<Vec<_>>(), life, "one write per transition");
}

async fn faults(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "faults").await;
    place.create_pod("web-0", json!({}), json!({})).await;
    let unready = |pod: &Pod| {
        let shown = [condition(pod, "Ready")?, condition(pod, "ContainersReady")?];
        (shown == [("False", Some("ContainersNotReady")); 2]).then_some(())
    };
    let mut restarts = 0;
    for fault in ["never-ready", "crash-loop", "image-pull", "unready-after=50ms"] {
        place.pod_is_ready("web-0").await;
        place.annotate("web-0", json!({ FAULT: fault })).await;
        place.pod("web-0", fault, unready).await;
        match fault {
            "crash-loop" => {
                restarts = place
                    .pod("web-0", "two restarts", |pod| {
                        waiting(pod)
                            .filter(|(reason, restarts)| *reason == "CrashLoopBackOff" && *restarts >= 2)
                            .map(|(_, restarts)| restarts)
                    })
                    .await;
            }
            "image-pull" => {
                place.pod("web-0", fault, |pod| (waiting(pod)?.0 == "ImagePullBackOff").then_some(())).await;
            }
            _ => {}
        }
        place.annotate("web-0", json!({ FAULT: null })).await;
    }
    place.pod_is_ready("web-0").await;
    let container =
        place.pods().get("web-0").await.unwrap().status.unwrap().container_statuses.unwrap().remove(0);
    assert!(container.state.unwrap().running.is_some());
    assert!(container.restart_count > restarts, "leaving a crash loop takes a restart");
    assert_eq!(container.last_state.unwrap().terminated.unwrap().exit_code, 1);
}

async fn fault_ordinals(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "ordinals").await;
    place.create_set("web", 3, json!({ FAULT: "crash-loop", FAULT_ORDINALS: "1" }), false).await;
    place.create_set("db", 1, json!({ FAULT: "image-pull" }), false).await;
    place.pod("web-1", "crash loop", |pod| (waiting(pod)?.0 == "CrashLoopBackOff").then_some(())).await;
    place.pod_is_ready("web-0").await;
    place.pod_is_ready("web-2").await;
    let pulling = |pod: &Pod| (waiting(pod)?.0 == "ImagePullBackOff").then(|| phase(pod).to_owned());
    assert_eq!(place.pod("db-0", "image pull", pulling).await, "Pending");
    for pod in ["web-1", "db-0"] {
        place.annotate(pod, json!({ FAULT: null })).await;
    }
    place.ready("web", 3).await;
    place.ready("db", 1).await;
}

async fn stuck(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "stuck").await;
    place.create_pod("stuck-0", json!({}), json!({ FAULT: "stuck-terminating" })).await;
    place.create_pod("free-0", json!({}), json!({})).await;
    for pod in ["stuck-0", "free-0"] {
        place.pod_is_ready(pod).await;
        place.pods().delete(pod, &DeleteParams::default()).await.unwrap();
    }
    until(DEADLINE, "the free pod to be gone", || async {
        match place.pods().get_opt("free-0").await? {
            None => Ok(()),
            Some(pod) => Err(NotYet::saw(pod.metadata)),
        }
    })
    .await;
    assert!(place.pods().get("stuck-0").await.unwrap().metadata.deletion_timestamp.is_some());
    place.annotate("stuck-0", json!({ FAULT: "" })).await;
    place.no_pods().await;
}

async fn gates(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "gates").await;
    place
        .create_pod("web-0", json!({ "readinessGates": [{ "conditionType": "sts.plus/gate" }] }), json!({}))
        .await;
    let held = |pod: &Pod| {
        let shown = (condition(pod, "ContainersReady")?.0, condition(pod, "Ready")?);
        (shown == ("True", ("False", Some("ReadinessGatesNotReady")))).then_some(())
    };
    place.pod("web-0", "held back by its gate", held).await;
    for (status, expected) in [("True", true), ("False", false)] {
        let gate = json!({ "status": { "conditions": [{ "type": "sts.plus/gate", "status": status }] } });
        place.pods().patch_status("web-0", &PatchParams::default(), &Patch::Strategic(gate)).await.unwrap();
        if expected {
            place.pod_is_ready("web-0").await;
            assert_eq!(condition(&place.pods().get("web-0").await.unwrap(), "Ready"), Some(("True", None)));
        } else {
            place.pod("web-0", "held back again", held).await;
        }
    }
}

async fn placement(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "placement").await;
    let zone = |values: &[&str]| {
        let term = json!({ "matchExpressions": [{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": values }] });
        let required = json!({ "nodeSelectorTerms": [term] });
        json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } })
    };
    let node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
    for ordinal in 0..3 {
        place.create_pod(&format!("b-{ordinal}"), zone(&["b"]), json!({})).await;
        assert_eq!(place.pod(&format!("b-{ordinal}"), "bound", node).await, place.node("b"));
    }
    place
        .create_pod("selected", json!({ "nodeSelector": { "topology.kubernetes.io/zone": "c" } }), json!({}))
        .await;
    assert_eq!(place.pod("selected", "bound", node).await, place.node("c"));
    place.create_pod("nowhere", zone(&["d"]), json!({})).await;
    let unschedulable =
        |pod: &Pod| (condition(pod, "PodScheduled")? == ("False", Some("Unschedulable"))).then_some(());
    place.pod("nowhere", "unschedulable", unschedulable).await;
}

async fn lost(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "lost").await;
    place.create_set("web", 3, json!({}), false).await;
    place.ready("web", 3).await;
    let victim = "web-1";
    let before = place.pods().get(victim).await.unwrap();
    let node = before.spec.unwrap().node_name.unwrap();
    assert_eq!(place.nodes.lose("no-such-node"), Err(UnknownNode("no-such-node".to_owned())));

    let node_ready = async |expected: &str| {
        until(DEADLINE, format!("{node} Ready={expected}"), || async {
            let status = Api::<NodeObject>::all(place.client()).get(&node).await?.status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
            if ready.is_some_and(|ready| ready.status == expected) {
                Ok(())
            } else {
                Err(NotYet::saw(conditions))
            }
        })
        .await;
    };
    node_ready("True").await;
    place.nodes.lose(&node).unwrap();
    node_ready("Unknown").await;
    let cut_off = |pod: &Pod| {
        (condition(pod, "Ready")?.0 == "False" && condition(pod, "ContainersReady")?.0 == "True")
            .then_some(())
    };
    place.pod(victim, "not ready", cut_off).await;

    // Deleted at the same time, a pod on a node that is alive is replaced while this one hangs.
    let other = place.pods().get("web-0").await.unwrap().uid().unwrap();
    for pod in [victim, "web-0"] {
        place.pods().delete(pod, &DeleteParams::default()).await.unwrap();
    }
    let replaced = |old: String| {
        move |pod: &Pod| (pod.uid()? != old && condition(pod, "Ready")?.0 == "True").then_some(())
    };
    place.pod("web-0", "replaced", replaced(other)).await;
    let hanging = place.pods().get(victim).await.unwrap();
    assert_eq!(hanging.metadata.uid, before.metadata.uid);
    assert!(hanging.metadata.deletion_timestamp.is_some());

    // Nothing new goes there.
    let only_there = json!({ "nodeSelector": { "kubernetes.io/hostname": node } });
    place.create_pod("waits", only_there, json!({})).await;
    place
        .pod("waits", "unschedulable", |pod| {
            (condition(pod, "PodScheduled")?.1? == "Unschedulable").then_some(())
        })
        .await;

    place.nodes.restore(&node).unwrap();
    node_ready("True").await;
    place.pod(victim, "replaced", replaced(before.metadata.uid.unwrap())).await;
    place.pod_is_ready("waits").await;
    place.ready("web", 3).await;
}

async fn bad_annotations(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "bad").await;
    let annotations = json!({ START_DELAY: "soon", FAULT: "never-redy", "hollow.sts.plus/stop": "1s" });
    place.create_pod("web-0", json!({}), annotations).await;
    place.pod_is_ready("web-0").await;
    let events = Api::<Event>::namespaced(place.client(), place.namespace);
    let event = until(DEADLINE, "a warning", || async {
        let found = events.list(&ListParams::default().fields("reason=BadAnnotation")).await?.items;
        found.into_iter().next().ok_or_else(|| NotYet::saw("no event"))
    })
    .await;
    assert_eq!(event.involved_object.name.as_deref(), Some("web-0"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = event.message.unwrap();
    for part in [START_DELAY, "`soon`", FAULT, "`never-redy`", "hollow.sts.plus/stop is ignored"] {
        assert!(message.contains(part), "{message}");
    }
    place.pods().delete("web-0", &DeleteParams::default()).await.unwrap();
    place.no_pods().await;
}

async fn take_over(control_plane: &ControlPlane) {
    let Place { nodes, identity, namespace, .. } = Place::new(control_plane, "take-over").await;
    let place = |nodes, identity| Place { control_plane, namespace, identity, nodes };
    let first = place(nodes, identity);
    first.create_set("web", 2, json!({}), true).await;
    first.ready("web", 2).await;
    first.bound_claims(2).await;
    let Place { nodes, identity, .. } = first;
    drop(nodes);
    let before = control_plane.settled_requests(&identity).await.unwrap();

    let (successor, nodes) = hollow_nodes(control_plane, namespace).await;
    let second = place(nodes, successor);
    second.create_pod("late-0", json!({}), json!({})).await;
    second.pod_is_ready("late-0").await;
    assert_eq!(
        control_plane.settled_requests(&identity).await.unwrap(),
        before,
        "the first ones do nothing any more"
    );
    let writes = writes(&control_plane.settled_requests(&second.identity).await.unwrap());
    let others: Vec<_> =
        writes.iter().filter(|write| !write.contains(" nodes/") && !write.ends_with(" late-0")).collect();
    assert!(others.is_empty(), "what is as it should be is left alone: {others:?}");
    second.nodes.stop().await;
}

async fn api_server_restart(control_plane: &ControlPlane) {
    let place = Place::new(control_plane, "restart").await;
    place.create_pod("before-0", json!({}), json!({})).await;
    place.pod_is_ready("before-0").await;
    control_plane.restart_api_server().await.unwrap();
    place.create_pod("after-0", json!({}), json!({})).await;
    place.pod_is_ready("after-0").await;
    place.annotate("before-0", json!({ FAULT: "never-ready" })).await;
    place.pod("before-0", "not ready", |pod| (condition(pod, "Ready")?.0 == "False").then_some(())).await;
}
