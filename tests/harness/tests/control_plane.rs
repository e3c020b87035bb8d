//! The harness on the real thing: what every other test relies on.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test, which clippy recognises by an attribute that this kind does not have"
)]

use std::{
    net::TcpListener,
    path::Path,
    process::{Command, ExitCode},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Namespace, Pod, Service},
    rbac::v1::PolicyRule,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::{Value, json};
use sts_plus_harness::{
    Assets, AssetsMissing, ControlPlane, Options, Scope,
    faults::{Fault, Faults},
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
        trial("the_real_controllers_make_the_pods_of_a_set", &cluster, pods_of_a_set),
        trial("an_identity_may_do_what_it_is_granted_and_no_more", &cluster, grants),
        trial("requests_are_counted_per_identity_and_watches_once", &cluster, counts),
        trial("a_kubeconfig_works_for_other_programs", &cluster, kubeconfig),
        trial("a_lost_answer_leaves_its_effect", &cluster, lost_answer),
        trial("the_api_server_can_go_and_come_back", &cluster, restart),
        trial("the_controller_manager_can_be_exchanged", &cluster, exchange),
        trial(
            "a_second_control_plane_is_as_ordered_and_stops_without_a_trace",
            &cluster,
            second_control_plane,
        ),
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

async fn pods_of_a_set(control_plane: &ControlPlane) {
    control_plane.create_namespace("pods").await.unwrap();
    let sets = Api::<StatefulSet>::namespaced(control_plane.admin(), "pods");
    sets.create(&PostParams::default(), &set("web", 2)).await.unwrap();
    let pods = Api::<Pod>::namespaced(control_plane.admin(), "pods");
    let found = until(DEADLINE, "two pods", || async {
        let pods = pods.list(&ListParams::default()).await?.items;
        if pods.len() == 2 { Ok(pods) } else { Err(NotYet::saw(names(&pods))) }
    })
    .await;
    assert_eq!(names(&found), ["web-0", "web-1"]);
    for pod in found {
        assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"), "there is no node");
    }
    let controller = "system:serviceaccount:kube-system:statefulset-controller";
    let creations = || async {
        let requests = control_plane.requests_of(controller)?;
        let made = requests.iter().filter(|request| {
            (request.verb.as_str(), request.resource.as_str(), request.namespace.as_str(), request.code)
                == ("create", "pods", "pods", 201)
        });
        if made.count() == 2 { Ok(()) } else { Err(NotYet::saw(requests)) }
    };
    until(DEADLINE, "both creations under the controller's own identity", creations).await;
}

async fn grants(control_plane: &ControlPlane) {
    for namespace in ["granted", "other"] {
        control_plane.create_namespace(namespace).await.unwrap();
    }
    let identity = control_plane.identity("reader").unwrap();
    let client = control_plane.client(&identity).unwrap();
    assert_eq!(list_maps(&client, "granted").await, Err(403));

    let read_maps = || vec![rule("", "configmaps", &["list"])];
    control_plane.grant(&identity, Scope::Namespace("granted"), read_maps()).await.unwrap();
    list_maps(&client, "granted").await.unwrap();
    assert_eq!(list_maps(&client, "other").await, Err(403));

    control_plane.grant(&identity, Scope::Cluster, read_maps()).await.unwrap();
    list_maps(&client, "other").await.unwrap();

    let stranger = control_plane.identity("reader").unwrap();
    assert_eq!(list_maps(&control_plane.client(&stranger).unwrap(), "granted").await, Err(403));
}

async fn counts(control_plane: &ControlPlane) {
    control_plane.create_namespace("counts").await.unwrap();
    let [one, two] = ["one", "two"].map(|name| control_plane.identity(name).unwrap());
    for identity in [&one, &two] {
        let rules = vec![rule("", "configmaps", &["create", "get", "list", "watch"])];
        control_plane.grant(identity, Scope::Namespace("counts"), rules).await.unwrap();
    }
    assert_eq!(control_plane.settled_requests(&one).await.unwrap(), [], "granting is not asking");

    let maps = Api::<ConfigMap>::namespaced(control_plane.client(&one).unwrap(), "counts");
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(code(maps.get("b").await), Err(404));
    let watch = maps.watch(&WatchParams::default().timeout(1), "0").await.unwrap();
    watch.try_for_each(async |_| Ok(())).await.unwrap();
    list_maps(&control_plane.client(&two).unwrap(), "counts").await.unwrap();

    let requests = control_plane.settled_requests(&one).await.unwrap();
    let seen: Vec<_> =
        requests.iter().map(|request| (&*request.verb, &*request.resource, request.code)).collect();
    let expected = [("create", "configmaps", 201), ("get", "configmaps", 404), ("watch", "configmaps", 200)];
    assert_eq!(seen, expected);
    assert_eq!(requests[1].name, "b");
    assert!(requests.iter().all(|request| request.namespace == "counts" && request.user == one.user()));
    assert_eq!(control_plane.settled_requests(&two).await.unwrap().len(), 1);
}

async fn kubeconfig(control_plane: &ControlPlane) {
    let identity = control_plane.identity("kubectl").unwrap();
    control_plane.grant(&identity, Scope::Cluster, vec![rule("", "namespaces", &["list"])]).await.unwrap();
    let kubeconfig = control_plane.kubeconfig_for(&identity).unwrap();
    let kubectl = Assets::find().unwrap().binary("kubectl").unwrap();
    let answer = Command::new(kubectl)
        .args(["get", "namespaces", "-o", "name", "--cache-dir"])
        .arg(control_plane.folder().join("kubectl"))
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    assert!(String::from_utf8_lossy(&answer.stdout).lines().any(|line| line == "namespace/kube-system"));
    assert!(control_plane.ca_pem().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
}

async fn lost_answer(control_plane: &ControlPlane) {
    control_plane.create_namespace("faults").await.unwrap();
    let faults = Faults::new(|call| if call.write == Some(0) { Fault::LoseAnswer } else { Fault::None });
    let maps = Api::<ConfigMap>::namespaced(faults.client(&control_plane.admin()), "faults");
    let error = maps.create(&PostParams::default(), &map("a")).await.unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)), "{error:?}");
    maps.get("a").await.expect("the server acted on the lost request");
    assert_eq!(code(maps.create(&PostParams::default(), &map("a")).await), Err(409));
}

async fn restart(control_plane: &ControlPlane) {
    control_plane.create_namespace("restart").await.unwrap();
    let identity = control_plane.identity("restart").unwrap();
    let rules = vec![rule("", "configmaps", &["get", "create"])];
    control_plane.grant(&identity, Scope::Namespace("restart"), rules).await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(control_plane.client(&identity).unwrap(), "restart");
    maps.create(&PostParams::default(), &map("kept")).await.unwrap();

    control_plane.stop_api_server().await;
    let error = maps.get("kept").await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "nobody should have answered: {error:?}");

    control_plane.start_api_server().await.unwrap();
    maps.get("kept").await.unwrap();
    control_plane.restart_api_server().await.unwrap();
    maps.get("kept").await.unwrap();
    assert!(control_plane.settled_requests(&identity).await.unwrap().len() >= 3, "the log goes on");

    let pods = Api::<Pod>::namespaced(control_plane.admin(), "restart");
    let sets = Api::<StatefulSet>::namespaced(control_plane.admin(), "restart");
    sets.create(&PostParams::default(), &set("after", 1)).await.unwrap();
    until(DEADLINE, "the controllers to be back at work", || async { Ok(pods.get("after-0").await?) }).await;
}

async fn exchange(control_plane: &ControlPlane) {
    let assets = Assets::find().unwrap();
    let first = control_plane.controller_manager_pid().unwrap();
    let accounts_only = ["serviceaccount-controller".to_owned()];
    control_plane.start_controller_manager(&assets, &accounts_only, &[]).await.unwrap();
    assert!(!runs(first));
    control_plane.create_namespace("exchange").await.unwrap();
    let sets = Api::<StatefulSet>::namespaced(control_plane.admin(), "exchange");
    sets.create(&PostParams::default(), &set("waiting", 1)).await.unwrap();

    control_plane.stop_controller_manager().await;
    assert_eq!(control_plane.controller_manager_pid(), None);
    let pods = Api::<Pod>::namespaced(control_plane.admin(), "exchange");
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 0, "nobody makes pods");

    let usual = Options::default().controllers;
    control_plane.start_controller_manager(&assets, &usual, &[]).await.unwrap();
    until(DEADLINE, "the pod of the set", || async { Ok(pods.get("waiting-0").await?) }).await;
}

async fn second_control_plane(first: &ControlPlane) {
    let endpoint = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let options = Options {
        streaming_lists: false,
        controllers: Vec::new(),
        scheduler: true,
        endpoint: Some(endpoint),
        api_server_flags: vec!["--service-cluster-ip-range=10.97.0.0/16".into()],
        ..Options::default()
    };
    let second = ControlPlane::start(&Assets::find().unwrap(), options).await.unwrap();
    assert_eq!(second.url(), format!("https://{endpoint}"));
    assert!(streams_lists(&first.admin()).await);
    assert!(!streams_lists(&second.admin()).await);
    let service = Api::<Service>::default_namespaced(second.admin()).get("kubernetes").await.unwrap();
    assert_eq!(service.spec.unwrap().cluster_ip.as_deref(), Some("10.97.0.1"), "flags are passed on");

    let (pids, folder) = (second.pids(), second.folder().to_owned());
    assert_eq!(pids.len(), 3, "etcd, the API server and the scheduler");
    assert!(pids.iter().all(|pid| runs(*pid)));
    tokio::task::spawn_blocking(move || drop(second)).await.unwrap();
    assert!(!pids.iter().any(|pid| runs(*pid)));
    assert!(!folder.exists());
}

/// Whether the server sends the state first when a watch asks for it.
async fn streams_lists(client: &Client) -> bool {
    let namespaces = Api::<Namespace>::all(client.clone());
    let watch = match namespaces.watch(&WatchParams::streaming_lists(), "").await {
        Ok(watch) => watch,
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 422, "{status:?}");
            return false;
        }
        Err(error) => panic!("{error:?}"),
    };
    let first = tokio::time::timeout(DEADLINE, watch.boxed().next()).await.expect("an initial event");
    matches!(first, Some(Ok(WatchEvent::Added(_))))
}

fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.into()]),
        resources: Some(vec![resource.into()]),
        verbs: verbs.iter().map(|&verb| verb.into()).collect(),
        ..PolicyRule::default()
    }
}

async fn list_maps(client: &Client, namespace: &str) -> Result<(), u16> {
    code(Api::<ConfigMap>::namespaced(client.clone(), namespace).list(&ListParams::default()).await)
}

/// The HTTP status of a refusal.
fn code<T>(answer: kube::Result<T>) -> Result<(), u16> {
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error:?}"),
    }
}

fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(ResourceExt::name_any).collect()
}

fn map(name: &str) -> ConfigMap {
    object(json!({"metadata": {"name": name}}))
}

fn set(name: &str, replicas: u32) -> StatefulSet {
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            // Without nodes no pod gets ready, and an ordered set would wait for its first.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            },
        },
    }))
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}
