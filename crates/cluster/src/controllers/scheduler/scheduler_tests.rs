use k8s_openapi::api::core::v1::{Event as Told, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::super::tests::{cluster, create, settle};
use super::*;

/// The words in which a pod says that it has no node.
async fn complaint(pods: &Api<Pod>, name: &str) -> Option<String> {
    settle().await;
    let conditions = pods.get(name).await.unwrap().status?.conditions?;
    let scheduled = conditions.into_iter().find(|one| one.type_ == "PodScheduled")?;
    (scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable"))
        .then_some(scheduled.message?)
}

async fn node_of(pods: &Api<Pod>, name: &str) -> Option<String> {
    settle().await;
    pods.get(name).await.unwrap().spec?.node_name
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "metadata": { "name": name, "labels": { "app": "a" } },
        "spec": { "containers": [{ "name": "a", "image": "b" }] },
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

fn node(name: &str, zone: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } } })
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_until_a_node_takes_it() {
    let client = cluster();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let nodes: Api<Node> = Api::all(client.clone());
    create(&pods, pod("p", &json!({ "nodeSelector": { "topology.kubernetes.io/zone": "b" } }))).await;
    assert_eq!(complaint(&pods, "p").await.unwrap(), "no nodes available to schedule pods");
    create(&nodes, node("n-a", "a")).await;
    let why = complaint(&pods, "p").await.unwrap();
    assert!(
        why.starts_with("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
        "{why}"
    );
    let events: Api<Told> = Api::default_namespaced(client);
    let told = events.list(&ListParams::default().fields("reason=FailedScheduling")).await.unwrap();
    assert_eq!(told.items.len(), 2, "each reason once");
    create(&nodes, node("n-b", "b")).await;
    assert_eq!(node_of(&pods, "p").await.as_deref(), Some("n-b"));
    assert_eq!(complaint(&pods, "p").await, None);
}

#[tokio::test(start_paused = true)]
async fn pods_of_other_schedulers_and_behind_gates_are_left_alone() {
    let client = cluster();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    create(&Api::<Node>::all(client), node("n", "a")).await;
    create(&pods, pod("other", &json!({ "schedulerName": "other" }))).await;
    create(&pods, pod("gated", &json!({ "schedulingGates": [{ "name": "example.com/gate" }] }))).await;
    assert_eq!((node_of(&pods, "other").await, node_of(&pods, "gated").await), (None, None));
    let open = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
    pods.patch("gated", &PatchParams::default(), &open).await.unwrap();
    assert_eq!(node_of(&pods, "gated").await.as_deref(), Some("n"));
}

#[tokio::test(start_paused = true)]
async fn neighbours_spread_and_the_place_of_one_that_goes_is_free() {
    let client = cluster();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for zone in ["a", "b"] {
        create(&Api::<Node>::all(client.clone()), node(&format!("n-{zone}"), zone)).await;
    }
    let term = json!({ "topologyKey": "topology.kubernetes.io/zone", "labelSelector": { "matchLabels": { "app": "a" } } });
    let apart = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    for name in ["p-0", "p-1", "p-2"] {
        create(&pods, pod(name, &json!({ "affinity": apart }))).await;
    }
    assert_eq!(node_of(&pods, "p-0").await.as_deref(), Some("n-a"));
    assert_eq!(node_of(&pods, "p-1").await.as_deref(), Some("n-b"));
    assert!(
        complaint(&pods, "p-2").await.unwrap().contains("2 node(s) didn't match pod anti-affinity rules")
    );
    pods.delete("p-0", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(node_of(&pods, "p-2").await.as_deref(), Some("n-a"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_and_its_claim_meet_in_a_zone() {
    let client = cluster();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    for zone in ["a", "b"] {
        create(&Api::<Node>::all(client.clone()), node(&format!("n-{zone}"), zone)).await;
    }
    let class = json!({
        "metadata": { "name": "zonal" }, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
    });
    create(&Api::<k8s_openapi::api::storage::v1::StorageClass>::all(client.clone()), class).await;
    let spec = json!({
        "storageClassName": "zonal", "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } },
    });
    let volume = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "c" } }]);
    let in_b = json!({ "volumes": volume, "nodeSelector": { "topology.kubernetes.io/zone": "b" } });
    create(&pods, pod("p", &in_b)).await;
    assert!(complaint(&pods, "p").await.unwrap().contains("persistentvolumeclaim \"c\" not found"));
    create(&claims, json!({ "metadata": { "name": "c" }, "spec": spec })).await;
    assert_eq!(node_of(&pods, "p").await.as_deref(), Some("n-b"));
    let claim = claims.get("c").await.unwrap();
    assert_eq!(claim.metadata.annotations.as_ref().unwrap()["volume.kubernetes.io/selected-node"], "n-b");
    let volumes: Api<PersistentVolume> = Api::all(client);
    let bound = volumes.get(&claim.spec.unwrap().volume_name.unwrap()).await.unwrap().spec.unwrap();
    let terms = bound.node_affinity.unwrap().required.unwrap().node_selector_terms;
    assert_eq!(terms[0].match_expressions.as_ref().unwrap()[0].values.as_ref().unwrap(), &["b"]);

    // The next pod follows the volume, and one that must not has no place.
    create(&pods, pod("q", &json!({ "volumes": volume }))).await;
    assert_eq!(node_of(&pods, "q").await.as_deref(), Some("n-b"));
    let in_a = json!({ "volumes": volume, "nodeSelector": { "topology.kubernetes.io/zone": "a" } });
    create(&pods, pod("r", &in_a)).await;
    assert!(
        complaint(&pods, "r")
            .await
            .unwrap()
            .contains("1 node(s) didn't match PersistentVolume's node affinity")
    );
}
