use std::future::Future;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod, ResourceQuota, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::clock::Clock;
use crate::machinery::service::Settings;

/// Turns that suffice for the controllers to finish what a write has set off.
const TURNS: usize = 50;

pub(super) fn cluster() -> Client {
    let server = Server::new(Settings::new(Clock::at("2026-01-02T03:04:05Z".parse().unwrap()))).unwrap();
    tokio::spawn(run(server.clone()));
    Client::new(server, "default")
}

pub(super) async fn settle() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn create<K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize>(
    api: &Api<K>,
    value: Value,
) {
    api.create(&PostParams::default(), &object(value)).await.unwrap();
}

fn object<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

async fn family(client: &Client, blocks: bool) -> Api<ConfigMap> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let parent =
        maps.create(&PostParams::default(), &object(json!({ "metadata": { "name": "parent" } }))).await;
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent.unwrap().uid(),
        "blockOwnerDeletion": blocks,
    });
    let child = json!({ "metadata": { "name": "child", "ownerReferences": [owner] } });
    maps.create(&PostParams::default(), &object(child)).await.unwrap();
    settle().await;
    maps
}

async fn names<F: Future>(maps: &Api<ConfigMap>, after: F) -> Vec<String> {
    after.await;
    settle().await;
    maps.list(&ListParams::default()).await.unwrap().items.iter().map(ResourceExt::name_any).collect()
}

fn propagating(policy: PropagationPolicy) -> DeleteParams {
    DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() }
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_somebody_goes_with_him() {
    let maps = family(&cluster(), false).await;
    assert_eq!(names(&maps, async {}).await, ["child", "parent"]);
    let background = propagating(PropagationPolicy::Background);
    assert_eq!(names(&maps, maps.delete("parent", &background)).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_orphan_stays_and_forgets_its_owner() {
    let maps = family(&cluster(), true).await;
    assert_eq!(names(&maps, maps.delete("parent", &propagating(PropagationPolicy::Orphan))).await, ["child"]);
    assert!(maps.get("child").await.unwrap().owner_references().is_empty());
}

/// Some are looked at before their owner and some after it, as chance has it.
#[tokio::test(start_paused = true)]
async fn all_orphans_of_a_large_family_stay() {
    let maps = family(&cluster(), true).await;
    let owners = maps.get("child").await.unwrap().metadata.owner_references;
    for number in 0..20 {
        let mut sibling: ConfigMap = object(json!({ "metadata": { "name": format!("child-{number}") } }));
        sibling.metadata.owner_references.clone_from(&owners);
        maps.create(&PostParams::default(), &sibling).await.unwrap();
    }
    settle().await;
    let left = names(&maps, maps.delete("parent", &propagating(PropagationPolicy::Orphan))).await;
    assert_eq!(left.len(), 21, "{left:?}");
}

/// Somebody makes the dependent anew whenever it goes, as controllers do.
#[tokio::test(start_paused = true)]
async fn in_the_foreground_an_owner_goes_though_its_dependent_comes_back_at_once() {
    let maps = family(&cluster(), true).await;
    let mut child = maps.get("child").await.unwrap();
    child.metadata.resource_version = None;
    let (again, client) = (maps.clone(), maps.clone());
    let maker = tokio::spawn(async move {
        loop {
            if client.get_opt("child").await.unwrap().is_none() {
                // After the last look it belongs to nobody, and goes.
                again.create(&PostParams::default(), &child).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    });
    let left = names(&maps, maps.delete("parent", &propagating(PropagationPolicy::Foreground))).await;
    maker.abort();
    assert!(!left.contains(&"parent".to_owned()), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_the_owner_goes_last() {
    let maps = family(&cluster(), true).await;
    let hold = Patch::Merge(json!({ "metadata": { "finalizers": ["example.com/hold"] } }));
    maps.patch("child", &PatchParams::default(), &hold).await.unwrap();
    let foreground = propagating(PropagationPolicy::Foreground);
    assert_eq!(names(&maps, maps.delete("parent", &foreground)).await, ["child", "parent"]);
    assert!(maps.get("child").await.unwrap().metadata.deletion_timestamp.is_some());
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps.patch("child", &PatchParams::default(), &free).await.unwrap();
    assert_eq!(names(&maps, async {}).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_never_was_is_as_good_as_gone() {
    let client = cluster();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "none" });
    let child = json!({ "metadata": { "name": "child", "ownerReferences": [owner] } });
    let created = maps.create(&PostParams::default(), &object(child)).await.unwrap();
    assert_eq!(names(&maps, async { created }).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_ends_when_it_is_empty() {
    let client = cluster();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &object(json!({ "metadata": { "name": "new" } })))
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "new");
    let held = json!({ "metadata": { "name": "held", "finalizers": ["example.com/hold"] } });
    maps.create(&PostParams::default(), &object(held)).await.unwrap();
    maps.create(&PostParams::default(), &object(json!({ "metadata": { "name": "free" } }))).await.unwrap();
    assert_eq!(names(&maps, namespaces.delete("new", &DeleteParams::default())).await, ["held"]);
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    settle().await;
    assert!(namespaces.get_opt("new").await.unwrap().is_none());
}

fn pod(name: &str) -> Pod {
    object(json!({
        "metadata": { "name": name, "labels": { "app": "a" } },
        "spec": {
            "containers": [{ "name": "a", "image": "b" }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "c" } }],
        },
    }))
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_stays_until_its_pod_has_gone() {
    let client = cluster();
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let claim = json!({ "metadata": { "name": "c" }, "spec": spec });
    claims.create(&PostParams::default(), &object(claim)).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let mut scheduled = pod("p");
    scheduled.spec.as_mut().unwrap().node_name = Some("node".to_owned());
    pods.create(&PostParams::default(), &scheduled).await.unwrap();
    claims.delete("c", &DeleteParams::default()).await.unwrap();
    settle().await;
    assert!(claims.get("c").await.unwrap().metadata.deletion_timestamp.is_some());
    pods.delete("p", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
        .await
        .unwrap();
    settle().await;
    assert!(claims.get_opt("c").await.unwrap().is_none());
}

/// As Kubernetes has it: no node takes such a pod while its claim is about to go.
#[tokio::test(start_paused = true)]
async fn the_claim_of_a_pod_without_a_node_does_not_stay() {
    let client = cluster();
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let claim = json!({ "metadata": { "name": "c" }, "spec": spec });
    claims.create(&PostParams::default(), &object(claim)).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    claims.delete("c", &DeleteParams::default()).await.unwrap();
    settle().await;
    assert!(claims.get_opt("c").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_quota_refuses_what_is_too_much_and_counts_what_there_is() {
    let client = cluster();
    let quotas: Api<ResourceQuota> = Api::default_namespaced(client.clone());
    let hard = json!({ "pods": "1", "count/configmaps": "2" });
    let quota = json!({ "metadata": { "name": "few" }, "spec": { "hard": hard } });
    quotas.create(&PostParams::default(), &object(quota)).await.unwrap();
    settle().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    settle().await;
    let status = async || serde_json::to_value(quotas.get("few").await.unwrap().status).unwrap();
    assert_eq!(status().await, json!({ "hard": hard, "used": { "pods": "1", "count/configmaps": "0" } }));
    let Err(kube::Error::Api(refused)) = pods.create(&PostParams::default(), &pod("q")).await else {
        panic!("one too many is let in");
    };
    let words =
        "pods \"q\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1";
    assert_eq!((refused.code, refused.message.as_str()), (403, words));

    let ended = Patch::Merge(json!({ "status": { "phase": "Failed" } }));
    pods.patch_status("p", &PatchParams::default(), &ended).await.unwrap();
    settle().await;
    assert_eq!(status().await["used"]["pods"], "0");
    pods.create(&PostParams::default(), &pod("q")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_quota_of_what_is_not_counted_is_refused() {
    let quotas: Api<ResourceQuota> = Api::default_namespaced(cluster());
    for spec in
        [json!({ "hard": { "cpu": "1" } }), json!({ "hard": { "pods": "1" }, "scopes": ["BestEffort"] })]
    {
        let quota = json!({ "metadata": { "name": "few" }, "spec": spec });
        let answer = quotas.create(&PostParams::default(), &object(quota)).await;
        assert!(matches!(&answer, Err(kube::Error::Api(status)) if status.code == 422), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_and_a_slice_follows_the_pods_of_a_service() {
    let client = cluster();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let selector = json!({ "matchLabels": { "app": "a" } });
    let budget = json!({ "metadata": { "name": "b" }, "spec": { "minAvailable": 1, "selector": selector } });
    budgets.create(&PostParams::default(), &object(budget)).await.unwrap();
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let service = json!({
        "metadata": { "name": "s" },
        "spec": { "clusterIP": "None", "selector": { "app": "a" }, "ports": [{ "port": 80 }] },
    });
    services.create(&PostParams::default(), &object(service)).await.unwrap();
    for name in ["p", "q"] {
        pods.create(&PostParams::default(), &pod(name)).await.unwrap();
        let ready = json!({ "status": {
            "phase": "Running", "podIP": format!("10.0.0.{}", name.len()),
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    }
    settle().await;
    let status = budgets.get("b").await.unwrap().status.unwrap();
    let counted =
        (status.current_healthy, status.desired_healthy, status.expected_pods, status.disruptions_allowed);
    assert_eq!(counted, (2, 1, 2, 1));
    let slices: Api<EndpointSlice> = Api::default_namespaced(client);
    let found =
        slices.list(&ListParams::default().labels("kubernetes.io/service-name=s")).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].endpoints.len(), 2);
    services.delete("s", &DeleteParams::default()).await.unwrap();
    settle().await;
    assert!(slices.list(&ListParams::default()).await.unwrap().items.is_empty());
}
