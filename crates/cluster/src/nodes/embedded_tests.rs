//! Hollow nodes on the embedded server: a whole cluster in one process, under a paused clock.

use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::*;
use crate::controllers;
use crate::machinery::service::{Server, Settings};

/// Far more virtual time than anything here takes.
const DEADLINE: Duration = Duration::from_mins(10);

/// What a run has shown, in order.
async fn life_of_a_pod() -> Vec<String> {
    let clock = Clock::at("2026-01-02T03:04:05Z".parse().unwrap());
    let server = Server::new(Settings::new(clock)).unwrap();
    tokio::spawn(controllers::run(server.clone()));
    let client = Client::new(server, "default");
    let nodes = vec![Node::new("n", "z")];
    let delay: Delay = "2s..5s".parse().unwrap();
    let config = Config {
        nodes,
        start_delay: delay,
        ready_delay: delay,
        clock: Some(clock),
        placement: Placement::Clusters,
        ..Config::default()
    };
    let nodes = HollowNodes::new(client.clone(), config).start();

    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let claim = json!({ "metadata": { "name": "c" }, "spec": spec });
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "a", "image": "b" }] } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();

    let mut told = Vec::new();
    let follow = async {
        let mut events = Box::pin(pods.watch(&WatchParams::default(), "0").await.unwrap());
        while let Some(event) = events.try_next().await.unwrap() {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    let is_deleting = pod.metadata.deletion_timestamp.is_some();
                    let line = seen(&serde_json::to_value(&pod).unwrap());
                    if line.ends_with("True") && !is_deleting {
                        pods.delete("p", &DeleteParams::default()).await.unwrap();
                    }
                    told.push(line);
                }
                WatchEvent::Deleted(pod) => {
                    told.push(format!("{} has gone", pod.name_any()));
                    return;
                }
                other => panic!("{other:?} after {told:#?}"),
            }
        }
    };
    tokio::time::timeout(DEADLINE, follow).await.expect("a pod comes and goes");
    let bound = claims.get("c").await.unwrap().status.unwrap().phase;
    told.push(format!("claim {}", bound.unwrap_or_default()));
    nodes.stop().await;
    told
}

fn seen(pod: &Value) -> String {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let ready = conditions.iter().find(|one| one["type"] == "Ready");
    let ready = ready.map_or("", |one| one["status"].as_str().unwrap_or_default());
    let version = text("/metadata/resourceVersion");
    format!(
        "{version} {} {} {} {ready}",
        text("/metadata/uid"),
        text("/spec/nodeName"),
        text("/status/phase")
    )
}

#[tokio::test(start_paused = true)]
async fn a_pod_comes_up_and_goes_away() {
    let told = life_of_a_pod().await;
    assert!(told.iter().any(|line| line.ends_with(" n Running True")), "{told:#?}");
    assert_eq!(told[told.len() - 2..], ["p has gone", "claim Bound"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    assert_eq!(life_of_a_pod().await, life_of_a_pod().await);
}

/// A cluster of three nodes in three zones, `n-a` to `n-c`, that leaves all to its controllers.
struct Setup {
    client: Client,
    clock: Clock,
    network: Network,
    nodes: Running,
}

impl Setup {
    fn new() -> Self {
        let clock = Clock::at("2026-01-02T03:04:05Z".parse().unwrap());
        let server = Server::new(Settings::new(clock)).unwrap();
        tokio::spawn(controllers::run(server.clone()));
        let client = Client::new(server, "default");
        let network = Network::new();
        let config = Config {
            nodes: ["a", "b", "c"].map(|zone| Node::new(format!("n-{zone}"), zone)).into(),
            clock: Some(clock),
            placement: Placement::Clusters,
            network: Some(network.clone()),
            config_maps: true,
            ..Config::default()
        };
        Setup { nodes: HollowNodes::new(client.clone(), config).start(), client, clock, network }
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn create(&self, name: &str, annotations: Value, spec: Value, container: Value) {
        let mut app =
            json!({ "name": "app", "image": "app:1", "ports": [{ "name": "http", "containerPort": 80 }] });
        app.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
        let mut pod = json!({
            "metadata": { "name": name, "annotations": annotations, "labels": { "app": "web" } },
            "spec": { "containers": [app], "hostname": name, "subdomain": "web" },
        });
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    async fn annotate(&self, name: &str, annotations: Value) {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        self.pods().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until a pod shows what is looked for, and says after how many seconds.
    async fn pod(&self, name: &str, what: &str, look: impl Fn(&Value) -> bool) -> u64 {
        let begin = self.clock.now();
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        let mut shown = Value::Null;
        let watched = async {
            loop {
                ticks.tick().await;
                shown = serde_json::to_value(self.pods().get_opt(name).await.unwrap()).unwrap();
                if look(&shown) {
                    return;
                }
            }
        };
        let found = tokio::time::timeout(DEADLINE, watched).await;
        assert!(found.is_ok(), "{name} never is {what}: {:#}", shown["status"]);
        self.clock.now().saturating_sub(begin).as_secs()
    }

    async fn ready(&self, name: &str) -> u64 {
        self.pod(name, "Ready", |pod| condition(pod, "Ready") == "True").await
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|one| one["type"] == kind);
    found.and_then(|one| one["status"].as_str()).unwrap_or_default()
}

fn restarts(pod: &Value) -> i64 {
    pod.pointer("/status/containerStatuses/0/restartCount").and_then(Value::as_i64).unwrap_or_default()
}

fn has(pod: &Value, pointer: &str, expected: &str) -> bool {
    pod.pointer(pointer).and_then(Value::as_str) == Some(expected)
}

#[tokio::test(start_paused = true)]
async fn readiness_is_asked_over_the_pod_network() {
    let setup = Setup::new();
    let probe = json!({ "readinessProbe": {
        "httpGet": { "path": "/ready", "port": "http" }, "initialDelaySeconds": 5, "periodSeconds": 2,
        "failureThreshold": 1,
    } });
    setup.create("web-0", json!({ behaviour::HTTP: "/ready 503" }), json!({}), probe).await;
    setup.pod("web-0", "Running", |pod| has(pod, "/status/phase", "Running")).await;
    let patience = tokio::time::timeout(Duration::from_mins(5), setup.ready("web-0")).await;
    assert!(patience.is_err(), "503 is not ready");
    setup.annotate("web-0", json!({ behaviour::HTTP: null })).await;
    assert!(setup.ready("web-0").await <= 2);
    setup.network.answer_for_pod("default", "web-0", network::handler(|_| std::future::pending()));
    setup.pod("web-0", "not ready", |pod| condition(pod, "Ready") == "False").await;
    let pod = serde_json::to_value(setup.pods().get("web-0").await.unwrap()).unwrap();
    assert_eq!((restarts(&pod), condition(&pod, "ContainersReady")), (0, "False"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_its_liveness_probe_is_restarted_more_and_more_slowly() {
    let setup = Setup::new();
    let probe = json!({
        "livenessProbe": { "exec": { "command": ["x"] }, "periodSeconds": 1, "failureThreshold": 2 },
        "startupProbe": { "tcpSocket": { "port": 80 }, "periodSeconds": 1 },
    });
    setup.create("web-0", json!({}), json!({}), probe).await;
    setup.ready("web-0").await;
    setup.annotate("web-0", json!({ behaviour::EXEC: "liveness=fail" })).await;
    setup.pod("web-0", "restarted", |pod| restarts(pod) == 1).await;
    let last = "/status/containerStatuses/0/lastState/terminated/exitCode";
    setup
        .pod("web-0", "in a crash loop", |pod| {
            pod.pointer(last) == Some(&json!(137))
                && has(pod, "/status/containerStatuses/0/state/waiting/reason", "CrashLoopBackOff")
        })
        .await;
    setup.pod("web-0", "restarted again", |pod| restarts(pod) == 3).await;
    setup.annotate("web-0", json!({ behaviour::EXEC: null })).await;
    setup.ready("web-0").await;
}

#[tokio::test(start_paused = true)]
async fn init_containers_have_their_turn_and_their_failures() {
    let setup = Setup::new();
    let init = |name: &str| json!({ "name": name, "image": "init:1" });
    let spec = json!({ "initContainers": [init("one"), init("two")] });
    setup.create("web-0", json!({ behaviour::INIT_DELAY: "3s" }), spec.clone(), json!({})).await;
    setup
        .pod("web-0", "in its second init container", |pod| {
            has(pod, "/status/initContainerStatuses/0/state/terminated/reason", "Completed")
                && pod.pointer("/status/initContainerStatuses/1/state/running").is_some()
                && condition(pod, "Initialized") == "False"
                && has(pod, "/status/phase", "Pending")
                && has(pod, "/status/containerStatuses/0/state/waiting/reason", "PodInitializing")
        })
        .await;
    assert!(setup.ready("web-0").await <= 3);
    setup.create("web-1", json!({ behaviour::FAULT: "init-crash-loop" }), spec.clone(), json!({})).await;
    setup
        .pod("web-1", "in a crash loop", |pod| {
            has(pod, "/status/initContainerStatuses/0/state/waiting/reason", "CrashLoopBackOff")
                && pod.pointer("/status/initContainerStatuses/0/restartCount") == Some(&json!(3))
                && has(pod, "/status/phase", "Pending")
        })
        .await;
    setup.annotate("web-1", json!({ behaviour::FAULT: null })).await;
    setup.ready("web-1").await;
    setup.create("web-2", json!({ behaviour::INIT_RUNS: "4" }), spec.clone(), json!({})).await;
    setup
        .pod("web-2", "Ready after init containers that ran four times", |pod| {
            let ended = |place: usize| {
                let status = &pod["status"]["initContainerStatuses"][place];
                status["restartCount"] == 3 && status["state"]["terminated"]["exitCode"] == 0
            };
            condition(pod, "Ready") == "True" && ended(0) && ended(1)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_end_as_their_restart_policy_has_it() {
    let setup = Setup::new();
    for (name, policy, fault, phase, exit) in [
        ("a", "Never", "exit-after=2s", "Succeeded", 0),
        ("b", "Never", "fail-after=2s", "Failed", 1),
        ("c", "OnFailure", "exit-after=2s", "Succeeded", 0),
        ("d", "Never", "crash-loop", "Failed", 1),
    ] {
        setup
            .create(name, json!({ behaviour::FAULT: fault }), json!({ "restartPolicy": policy }), json!({}))
            .await;
        setup.pod(name, phase, |pod| has(pod, "/status/phase", phase)).await;
        let pod = serde_json::to_value(setup.pods().get(name).await.unwrap()).unwrap();
        let code = pod.pointer("/status/containerStatuses/0/state/terminated/exitCode");
        assert_eq!((code, condition(&pod, "Ready")), (Some(&json!(exit)), "False"), "{name}");
    }
    for (name, policy, fault) in [("e", "OnFailure", "fail-after=2s"), ("f", "Always", "exit-after=2s")] {
        setup
            .create(name, json!({ behaviour::FAULT: fault }), json!({ "restartPolicy": policy }), json!({}))
            .await;
        setup.pod(name, "restarted", |pod| restarts(pod) >= 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_stop_in_time_is_killed() {
    let setup = Setup::new();
    let spec = json!({ "terminationGracePeriodSeconds": 5 });
    setup.create("web-0", json!({ behaviour::STOP_DELAY: "1h" }), spec, json!({})).await;
    setup.ready("web-0").await;
    setup.pods().delete("web-0", &DeleteParams::default()).await.unwrap();
    let took = setup.pod("web-0", "gone", Value::is_null).await;
    assert!((4..=6).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn names_of_pods_and_services_lead_to_them() {
    let setup = Setup::new();
    let services: Api<k8s_openapi::api::core::v1::Service> = Api::default_namespaced(setup.client.clone());
    let service = json!({
        "metadata": { "name": "web" },
        "spec": { "clusterIP": "None", "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
    });
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    for name in ["web-0", "web-1"] {
        setup.create(name, json!({}), json!({}), json!({})).await;
        setup.ready(name).await;
    }
    assert_eq!(setup.network.resolve("web.default.svc.cluster.local").len(), 2);
    let [ip] = setup.network.resolve("web-1.web.default.svc").try_into().unwrap();
    assert_eq!(setup.pods().get("web-1").await.unwrap().status.unwrap().pod_ip, Some(ip.to_string()));
    assert!(setup.network.connect((ip, 80).into()).await.is_ok());
    setup.annotate("web-1", json!({ behaviour::FAULT: "never-ready" })).await;
    setup.pod("web-1", "not ready", |pod| condition(pod, "Ready") == "False").await;
    assert_eq!(setup.network.resolve("web-1.web.default.svc"), Vec::<std::net::IpAddr>::new());
}

/// Loses a node with a pod and says what became of it until it is deleted.
async fn lose_a_node(setup: &Setup) -> (Api<k8s_openapi::api::core::v1::Node>, String) {
    setup.create("web-0", json!({}), json!({}), json!({})).await;
    setup.ready("web-0").await;
    let pod = setup.pods().get("web-0").await.unwrap();
    let node = pod.spec.unwrap().node_name.unwrap();
    let ip: std::net::IpAddr = pod.status.unwrap().pod_ip.unwrap().parse().unwrap();
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(setup.client.clone());
    let lost = Patch::Merge(json!({ "metadata": { "annotations": { behaviour::LOST: "true" } } }));
    nodes.patch(&node, &PatchParams::default(), &lost).await.unwrap();
    let took = setup.pod("web-0", "not ready", |pod| condition(pod, "Ready") == "False").await;
    assert!((49..=51).contains(&took), "{took} s: a node is missed after its grace");
    let shown = serde_json::to_value(nodes.get(&node).await.unwrap()).unwrap();
    assert_eq!(condition(&shown, "Ready"), "Unknown");
    let taints: Vec<&str> = shown["spec"]["taints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["effect"].as_str().unwrap())
        .collect();
    assert_eq!(taints, ["NoSchedule", "NoExecute"]);
    let dead = setup.network.connect((ip, 80).into()).await.err().unwrap();
    assert_eq!(dead.kind(), std::io::ErrorKind::TimedOut);
    let is_deleting = |pod: &Value| pod.pointer("/metadata/deletionTimestamp").is_some();
    let took = setup.pod("web-0", "evicted", is_deleting).await;
    assert!(took <= 300, "{took} s: a pod tolerates that for five minutes");
    (nodes, node)
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_lost_node_stay_until_it_returns() {
    let setup = Setup::new();
    let (nodes, node) = lose_a_node(&setup).await;
    let hour = setup.pod("web-0", "gone", Value::is_null);
    assert!(tokio::time::timeout(Duration::from_mins(5), hour).await.is_err(), "nobody is there to stop it");
    let back = Patch::Merge(json!({ "metadata": { "annotations": { behaviour::LOST: null } } }));
    nodes.patch(&node, &PatchParams::default(), &back).await.unwrap();
    setup.pod("web-0", "gone", Value::is_null).await;
    let shown = serde_json::to_value(nodes.get(&node).await.unwrap()).unwrap();
    assert_eq!((condition(&shown, "Ready"), shown["spec"].get("taints")), ("True", None));
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_node_that_is_deleted_are_removed() {
    let setup = Setup::new();
    let (nodes, node) = lose_a_node(&setup).await;
    nodes.delete(&node, &DeleteParams::default()).await.unwrap();
    let took = setup.pod("web-0", "gone", Value::is_null).await;
    assert!((39..=41).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_returns_in_time_keeps_its_pods() {
    let setup = Setup::new();
    setup.create("web-0", json!({}), json!({}), json!({})).await;
    setup.ready("web-0").await;
    let node = setup.pods().get("web-0").await.unwrap().spec.unwrap().node_name.unwrap();
    setup.nodes.lose(&node).unwrap();
    setup.pod("web-0", "not ready", |pod| condition(pod, "Ready") == "False").await;
    setup.nodes.restore(&node).unwrap();
    setup.ready("web-0").await;
    let gone = setup.pod("web-0", "deleted", |pod| pod.pointer("/metadata/deletionTimestamp").is_some());
    assert!(tokio::time::timeout(Duration::from_mins(9), gone).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_init_container_waits_for_the_key_of_its_pod_in_the_config_map_that_it_mounts() {
    let setup = Setup::new();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(setup.client.clone());
    let keys = |keys: Value| json!({ "metadata": { "name": "lock" }, "data": keys });
    let lock = serde_json::from_value(keys(json!({ "1": "" }))).unwrap();
    config_maps.create(&PostParams::default(), &lock).await.unwrap();
    let spec = json!({
        "initContainers": [{ "name": "lock", "image": "lock:1", "volumeMounts": [{ "name": "keys", "mountPath": "/keys" }] }],
        "volumes": [{ "name": "keys", "configMap": { "name": "lock" } }],
    });
    let annotations = json!({ behaviour::INIT_KEY: "lock" });
    for name in ["web-0", "web-1", "web-10"] {
        setup.create(name, annotations.clone(), spec.clone(), json!({})).await;
    }
    setup.ready("web-1").await;
    for name in ["web-0", "web-10"] {
        let waits = |pod: &Value| pod.pointer("/status/initContainerStatuses/0/state/running").is_some();
        setup.pod(name, "waiting", waits).await;
        let patience = tokio::time::timeout(Duration::from_mins(5), setup.ready(name)).await;
        assert!(patience.is_err(), "{name} has no key");
    }
    let add = Patch::Merge(json!({ "data": { "0": "" } }));
    config_maps.patch("lock", &PatchParams::default(), &add).await.unwrap();
    setup.ready("web-0").await;
    let remove = Patch::Merge(json!({ "data": { "1": null, "10": "" } }));
    config_maps.patch("lock", &PatchParams::default(), &remove).await.unwrap();
    setup.ready("web-10").await;
    let pod = serde_json::to_value(setup.pods().get("web-1").await.unwrap()).unwrap();
    assert_eq!(condition(&pod, "Ready"), "True", "what runs is not stopped");
}
