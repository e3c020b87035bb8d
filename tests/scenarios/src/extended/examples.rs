//! The files of `examples/extended-statefulset`, applied with kubectl as they are: each does what it says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_cluster::nodes::behaviour;
use sts_plus_harness::checkout;

use super::scenarios;
use super::seen::{Object, Seen};
use super::stage::Extended;
use crate::cluster::Cluster;
use crate::kubectl::Kubectl;
use crate::rules;
use crate::scaling::app::{App, Says};
use crate::scenarios::Scenario;

/// Where they are.
const FOLDER: &str = "examples/extended-statefulset";

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_example_zones_runs_two_pods_in_each_zone_and_rolls_them,
        d_example_active_passive_has_one_endpoint_that_moves,
        d_example_config_replaces_its_pods_when_the_map_is_updated,
        d_example_blue_green_waits_for_its_approval,
        d_example_handover_gives_each_version_the_claims_of_the_one_before,
        a_example_scale_hooks_prepares_each_broker_before_it_is_removed,
        d_example_services_of_users_select_the_pods_of_every_version,
        d_f6_the_documented_configs_example_shows_the_new_value,
        d_z3_the_documented_azs_example_runs_two_pods_in_each_zone,
        d_s6_the_documented_pvcs_example_binds_two_claims,
        d_a12_the_documented_active_probe_example_makes_one_pod_active,
    ]
}

/// A user with kubectl in the namespace of a scenario.
async fn kubectl(stage: &Extended) -> Kubectl {
    Kubectl::new(&*stage.cluster, &stage.namespace).await
}

/// Applies a file of the folder.
async fn apply(kubectl: &Kubectl, file: &str) {
    kubectl.apply(&checkout().join(FOLDER).join(file)).await;
}

/// Waits until an object is at a version with so many pods, all Ready, as [`Extended::ready`] does.
async fn ready(stage: &Extended, name: &str, version: u32, pods: usize) -> Object {
    let is = |object: &Object, seen: &Seen| {
        object.observed
            && object.condition("Ready").is_some_and(|ready| ready.reason == "AsRequested")
            && object.status.current_version == Some(version)
            && seen.pods.len() == pods
            && seen.pods.values().all(|pod| pod.pod.serves())
    };
    stage
        .until(&format!("{name} at version {version} with {pods} Ready pods"), |seen| {
            match seen.objects.get(name) {
                Some(object) if is(object, seen) => Ok(object.clone()),
                object => Err(format!("{object:?} with {} pods", seen.pods.len())),
            }
        })
        .await
}

/// Waits until a Service has so many endpoints.
async fn endpoints(stage: &Extended, service: &str, count: usize) {
    stage
        .until(&format!("{count} endpoints behind {service}"), |seen| {
            let last = seen.endpoints.get(service).and_then(|all| all.last());
            if last.is_some_and(|last| last.len() == count) { Ok(()) } else { Err(format!("{last:?}")) }
        })
        .await;
}

/// The pods by the zone of their label.
fn per_zone(stage: &Extended, group: Group) -> Vec<(String, usize)> {
    let mut zones = std::collections::BTreeMap::<String, usize>::new();
    for pod in stage.view().pods.values() {
        *zones.entry(pod.labels[&group.key(sts_plus_api::keys::AZ_NAME)].clone()).or_default() += 1;
    }
    zones.into_iter().collect()
}

async fn d_example_zones_runs_two_pods_in_each_zone_and_rolls_them(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "zones.yaml").await;
    ready(&stage, "store", 1, 6).await;
    assert_eq!(per_zone(&stage, Group::StsPlus), ["a", "b", "c"].map(|zone| (zone.to_owned(), 2)));
    let image = json!([{ "op": "replace", "path": "/spec/template/spec/template/spec/containers/0/image", "value": "busybox:1.37" }]);
    kubectl.run(&["patch", "ests", "store", "--type", "json", "--patch", &image.to_string()]).await;
    ready(&stage, "store", 2, 6).await;
    // What kubectl prints and scales.
    assert!(kubectl.run(&["get", "ests"]).await.contains("AsRequested"));
    kubectl.run(&["scale", "ests/store", "--replicas", "3"]).await;
    ready(&stage, "store", 2, 9).await;
    stage.finish().await;
}

async fn a_example_scale_hooks_prepares_each_broker_before_it_is_removed(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let apps = ["broker-z0", "broker-z1"].map(|set| App::start(&*stage.cluster, &stage.namespace, set));
    for app in &apps {
        app.say("POST", "/admin/drain", &[Says::Code(202)]);
        app.say(
            "GET",
            "/admin/drain",
            &[Says::State("moving".to_owned()), Says::State("drained".to_owned())],
        );
    }
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "scale-hooks.yaml").await;
    ready(&stage, "broker", 1, 6).await;
    kubectl.run(&["scale", "ests/broker", "--replicas", "2"]).await;
    ready(&stage, "broker", 1, 4).await;
    kubectl.run(&["delete", "ests/broker"]).await;
    let drained = |app: &App| app.asked("POST", "/admin/drain");
    assert_eq!(drained(&apps[0]), ["broker-z0-2", "broker-z0-1", "broker-z0-0"]);
    assert_eq!(drained(&apps[1]), ["broker-z1-2", "broker-z1-1", "broker-z1-0"]);
    stage.finish().await;
}

async fn d_example_active_passive_has_one_endpoint_that_moves(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.view().single.extend(["leader".to_owned(), "leader-active".to_owned()]);
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "active-passive.yaml").await;
    ready(&stage, "leader", 1, 3).await;
    endpoints(&stage, "leader", 1).await;
    endpoints(&stage, "leader-active", 1).await;
    let active = |seen: &Seen| seen.active_pod().map(|pod| pod.pod.name.clone());
    let first = active(&stage.view()).unwrap();
    // What removing the file does in a container.
    let gone = json!({ "metadata": { "annotations": { behaviour::HTTP: "/leader 404" } } });
    stage.merge::<Pod>(&first, gone).await;
    stage
        .until("another pod to be active", |seen| match active(seen) {
            Some(pod) if pod != first => Ok(()),
            active => Err(format!("{active:?}")),
        })
        .await;
    endpoints(&stage, "leader", 1).await;
    stage.finish().await;
}

async fn d_example_config_replaces_its_pods_when_the_map_is_updated(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "config.yaml").await;
    ready(&stage, "greeter", 1, 2).await;
    let before = stage.uids();
    apply(&kubectl, "config.yaml").await;
    apply(&kubectl, "config-updated.yaml").await;
    ready(&stage, "greeter", 2, 2).await;
    assert!(before.is_disjoint(&stage.uids()));
    assert_eq!(stage.view().versions("greeter"), [1, 2]);
    stage.finish().await;
}

async fn d_example_blue_green_waits_for_its_approval(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.view().min_ready = 2;
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "blue-green.yaml").await;
    ready(&stage, "shop", 1, 2).await;
    endpoints(&stage, "shop", 2).await;
    let command = json!([{ "op": "add", "path": "/spec/template/spec/template/spec/containers/0/env", "value": [{ "name": "RELEASE", "value": "2" }] }]);
    kubectl.run(&["patch", "ests", "shop", "--type", "json", "--patch", &command.to_string()]).await;
    stage
        .until("the second version to wait for its approval", |seen| {
            let object = seen.objects.get("shop");
            let waits = object.is_some_and(|object| object.status.awaited_approval.is_some());
            if waits && seen.pods.len() == 4 { Ok(()) } else { Err(format!("{object:?}")) }
        })
        .await;
    endpoints(&stage, "shop-preview", 2).await;
    endpoints(&stage, "shop", 2).await;
    // The command of the file.
    let value = kubectl.run(&["get", "ests", "shop", "--output", "jsonpath={.status.awaitedApproval}"]).await;
    let approval = format!("sts.plus/approve={value}");
    kubectl.run(&["annotate", "--overwrite", "ests", "shop", &approval]).await;
    ready(&stage, "shop", 2, 2).await;
    stage.finish().await;
}

async fn d_example_handover_gives_each_version_the_claims_of_the_one_before(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "handover.yaml").await;
    ready(&stage, "store", 1, 3).await;
    let claims = async || {
        let claims = stage.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
        claims.into_iter().map(|claim| (claim.name_any(), claim.uid())).collect::<Vec<_>>()
    };
    let before = claims().await;
    assert_eq!(before.len(), 3);
    let image = json!([{ "op": "replace", "path": "/spec/template/spec/template/spec/containers/0/image", "value": "busybox:1.37" }]);
    kubectl.run(&["patch", "ests", "store", "--type", "json", "--patch", &image.to_string()]).await;
    ready(&stage, "store", 2, 3).await;
    assert_eq!(claims().await, before);
    stage.sets_are(["store-v2".to_owned()].into()).await;
    stage.finish().await;
}

async fn d_example_services_of_users_select_the_pods_of_every_version(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "services.yaml").await;
    let services = ["nats-internal", "nats-public", "nats-web"];
    ready(&stage, "nats", 1, 2).await;
    for service in services {
        endpoints(&stage, service, 2).await;
    }
    let kinds = stage.api::<Service>().list(&ListParams::default()).await.unwrap();
    let kinds: Vec<_> = kinds.into_iter().filter_map(|service| service.spec?.type_).collect();
    assert_eq!(kinds, ["ClusterIP", "LoadBalancer", "ClusterIP"]);
    let ingress = stage.api::<Ingress>().get("nats").await.unwrap();
    let ingress = serde_json::to_value(ingress).unwrap();
    assert_eq!(ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"], "nats-web");
    let image = json!([{ "op": "replace", "path": "/spec/template/spec/template/spec/containers/0/image", "value": "busybox:1.37" }]);
    kubectl.run(&["patch", "fests", "nats", "--type", "json", "--patch", &image.to_string()]).await;
    ready(&stage, "nats", 2, 2).await;
    for service in services {
        endpoints(&stage, service, 2).await;
        // There was no moment without a pod behind it.
        let seen = stage.view();
        let all: Vec<_> =
            seen.endpoints[service].iter().map(Vec::len).skip_while(|count| *count < 2).collect();
        assert!(all.iter().all(|count| *count > 0), "{service}: {all:?}");
    }
    stage.finish().await;
}

async fn d_f6_the_documented_configs_example_shows_the_new_value(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "quarks-configs.yaml").await;
    ready(&stage, "example-with-configs", 1, 2).await;
    let before = stage.uids();
    apply(&kubectl, "quarks-configs-updated.yaml").await;
    ready(&stage, "example-with-configs", 2, 2).await;
    assert!(before.is_disjoint(&stage.uids()));
    stage.sets_are(["example-with-configs-v2".to_owned()].into()).await;
    // The pods take their value from the map, as the user wrote it, and no Secret is owned by anybody.
    let pods = stage.pods().list(&ListParams::default()).await.unwrap();
    for pod in pods {
        let pod: Value = serde_json::to_value(&pod).unwrap();
        let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        let value = env.iter().find(|entry| entry["name"] == "SPECIAL_KEY").unwrap();
        assert_eq!(value["valueFrom"]["configMapKeyRef"], json!({ "name": "example1", "key": "key1" }));
    }
    let secret = stage.api::<Secret>().get("example1").await.unwrap();
    assert!(secret.owner_references().is_empty());
    stage.finish().await;
}

async fn d_z3_the_documented_azs_example_runs_two_pods_in_each_zone(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "quarks-azs.yaml").await;
    ready(&stage, "example-with-azs", 1, 4).await;
    assert_eq!(per_zone(&stage, Group::Fissile), ["dal10", "dal13"].map(|zone| (zone.to_owned(), 2)));
    let pods = stage.pods().list(&ListParams::default()).await.unwrap();
    for pod in pods {
        let zone = pod.labels()[&Group::Fissile.key(sts_plus_api::keys::AZ_NAME)].clone();
        assert_eq!(pod.spec.unwrap().node_name, Some(format!("node-{zone}")));
    }
    stage.sets_are(["example-with-azs-z0-v1", "example-with-azs-z1-v1"].map(str::to_owned).into()).await;
    stage.finish().await;
}

async fn d_s6_the_documented_pvcs_example_binds_two_claims(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "quarks-pvcs.yaml").await;
    ready(&stage, "example-with-pvcs", 1, 2).await;
    let claims = async || {
        let claims = stage.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
        let bound = claims
            .into_iter()
            .map(|claim| (claim.name_any(), claim.uid(), claim.status.and_then(|status| status.phase)));
        bound.collect::<Vec<_>>()
    };
    let before = claims().await;
    assert_eq!(before.len(), 2);
    assert!(before.iter().all(|(_, _, phase)| phase.as_deref() == Some("Bound")), "{before:?}");
    let image = json!([{ "op": "replace", "path": "/spec/template/spec/template/spec/containers/0/image", "value": "busybox:1.37" }]);
    kubectl
        .run(&["patch", "fests", "example-with-pvcs", "--type", "json", "--patch", &image.to_string()])
        .await;
    ready(&stage, "example-with-pvcs", 2, 2).await;
    assert_eq!(claims().await, before, "every version uses the same claims");
    stage.finish().await;
}

async fn d_a12_the_documented_active_probe_example_makes_one_pod_active(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let granted = [rules::by_default(), rules::exec()].concat();
    let mut stage = Extended::granted(&cluster, name, Group::Fissile, granted).await;
    stage.restart().await;
    stage.view().single.insert("example-with-active-probe".to_owned());
    let kubectl = kubectl(&stage).await;
    apply(&kubectl, "quarks-active-probe.yaml").await;
    ready(&stage, "example-with-active-probe", 1, 2).await;
    // Hollow pods run no commands, so that none passes: the first running pod is active. Those of a real node do.
    endpoints(&stage, "example-with-active-probe", 1).await;
    let active = |seen: &Seen| seen.active_pod().map(|pod| pod.pod.name.clone());
    let first = active(&stage.view()).unwrap();
    stage.kill(&first).await;
    stage
        .until("the other pod to be active", |seen| match active(seen) {
            Some(pod) if pod != first => Ok(()),
            active => Err(format!("{active:?}")),
        })
        .await;
    endpoints(&stage, "example-with-active-probe", 1).await;
    stage.finish().await;
}

#[cfg(test)]
mod tests {
    use super::{FOLDER, checkout};

    #[test]
    fn every_file_is_applied_by_a_scenario() {
        let source = include_str!("examples.rs");
        for file in std::fs::read_dir(checkout().join(FOLDER)).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            assert!(source.contains(&format!("apply(&kubectl, \"{name}\")")), "{name}");
        }
    }
}
