//! The active pod: never two, and a Service that never has two endpoints.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour;
use sts_plus_harness::wait::{NotYet, until};

use super::manifest::{healthy, scaled, template, with};
use super::scenarios;
use super::stage::Extended;
use crate::cluster::Cluster;
use crate::observer::DEADLINE;
use crate::real::ZONES;
use crate::scenarios::Scenario;

/// What a pod answers that is not the leader.
const FOLLOWER: &str = "/leader 503";

/// What the leader answers.
const LEADER: &str = "/leader 200";

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_a8_the_active_pod_is_one_and_moves_when_it_is_deleted,
        d_a13_a_service_follows_the_leader_and_never_has_two_endpoints,
        d_a14_the_active_pod_is_one_across_zones_and_versions,
        d_a11_a_probe_of_an_unknown_container_is_reported,
        d_a10_a_probe_that_hangs_is_a_failure_and_others_are_probed,
        d_a8_the_active_pod_moves_while_the_api_server_refuses_a_template,
        d_a8_the_active_pod_moves_while_a_service_has_a_name_that_is_taken,
        d_a13_a_service_that_somebody_edits_selects_the_active_pod_again,
    ]
}

/// A template whose pods listen on a port and answer like this.
fn answering(replicas: u32, answer: &str) -> Value {
    let pods = json!({
        "metadata": { "annotations": { behaviour::HTTP: answer } },
        "spec": { "containers": [{ "name": "main", "image": "app:v1", "ports": [{ "name": "http", "containerPort": 8080 }] }] },
    });
    with(template("v1", replicas), &json!({ "spec": { "template": pods } }))
}

fn probe() -> Value {
    json!({ "main": { "httpGet": { "path": "/leader", "port": "http" }, "periodSeconds": 1 } })
}

/// From now on a pod answers like this.
async fn answers(stage: &Extended, pod: &str, answer: &str) {
    stage.merge::<Pod>(pod, json!({ "metadata": { "annotations": { behaviour::HTTP: answer } } })).await;
}

/// Waits until this pod is active, by its label and by the status.
async fn active(stage: &Extended, pod: &str) {
    let what = format!("{pod} to be active");
    stage
        .object_is(&what, |object, seen| {
            let told = object.status.active_pod.as_ref().map(|active| active.name.as_str());
            told == Some(pod) && seen.active_pod().is_some_and(|active| active.pod.name == pod)
        })
        .await;
}

/// Waits until any pod is active, by its label and by the status; its name.
async fn somebody(stage: &Extended) -> String {
    let object = stage
        .object_is("with an active pod", |object, seen| {
            let told = object.status.active_pod.as_ref().map(|active| active.name.as_str());
            told.is_some() && told == seen.active_pod().map(|active| active.pod.name.as_str())
        })
        .await;
    object.status.active_pod.unwrap().name
}

/// Waits until a pod other than this one is active; its name.
async fn another(stage: &Extended, before: &str) -> String {
    let what = format!("another pod than {before} to be active");
    stage
        .until(&what, |seen| match seen.active.last() {
            Some(Some(pod)) if pod != before => Ok(pod.clone()),
            active => Err(format!("{active:?}")),
        })
        .await
}

/// Waits until no pod is active.
async fn nobody(stage: &Extended) {
    let is_nobody = |object: &super::seen::Object, seen: &super::seen::Seen| {
        object.status.active_pod.is_none() && seen.active_pod().is_none()
    };
    stage.object_is("without an active pod", is_nobody).await;
}

async fn d_a8_the_active_pod_is_one_and_moves_when_it_is_deleted(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::Fissile).await;
    // Nothing listens there, so nobody passes and the first running pod is active, as documented.
    let probe = json!({ "main": { "tcpSocket": { "port": 9 }, "periodSeconds": 1 } });
    stage.create(json!({ "template": template("v1", 3), "activeProbe": probe })).await;
    stage.ready(1, 3).await;
    let first = somebody(&stage).await;
    stage.kill(&first).await;
    another(&stage, &first).await;
    stage.ready(1, 3).await;
    // A restart of the operator and scaling move nobody, and without a probe nobody is active.
    let before = stage.view().active.clone();
    stage.restart().await;
    stage.edit(scaled(4)).await;
    stage.ready(1, 4).await;
    stage.requests().await;
    assert_eq!(stage.view().active, before);
    stage.edit(json!({ "activeProbe": null })).await;
    nobody(&stage).await;
    stage.finish().await;
}

async fn d_a13_a_service_follows_the_leader_and_never_has_two_endpoints(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        stage.view().single.extend(["leader".to_owned(), "db-active".to_owned()]);
        let label = group.key(keys::POD_DESIGNATION);
        stage
            .make::<Service>(json!({
                "metadata": { "name": "leader" },
                "spec": { "ports": [{ "port": 80, "targetPort": 8080 }], "selector": { "app": "db", label: "active" } },
            }))
            .await;
        let set = if group == Group::Fissile { "db-v1" } else { "db" };
        let pod = |ordinal: u32| format!("{set}-{ordinal}");
        stage
            .create(json!({
                "template": answering(3, FOLLOWER), "activeProbe": probe(), "activeFallback": "None",
                "services": { "active": "db-active" },
            }))
            .await;
        stage.ready(1, 3).await;
        nobody(&stage).await;
        stage.reports("NoneChosen").await;
        // The leader comes up, moves, dies, and comes back as a follower.
        for leader in [1, 2, 0] {
            for other in 0..3 {
                answers(&stage, &pod(other), if other == leader { LEADER } else { FOLLOWER }).await;
            }
            active(&stage, &pod(leader)).await;
            stage.restart().await;
        }
        // Of two that pass one is active, and it stays although another one is the first.
        answers(&stage, &pod(2), LEADER).await;
        answers(&stage, &pod(1), LEADER).await;
        stage.kill(&pod(0)).await;
        let second = another(&stage, &pod(0)).await;
        stage.ready(1, 3).await;
        answers(&stage, &pod(0), LEADER).await;
        assert_eq!(somebody(&stage).await, second);
        stage.set_fault(&second, Some("crash-loop")).await;
        another(&stage, &second).await;
        stage.heal(&[&second]).await;
        stage.ready(1, 3).await;
        for service in ["leader", "db-active"] {
            stage
                .until(&format!("one endpoint behind {service}"), |seen| {
                    let last = seen.endpoints.get(service).and_then(|all| all.last());
                    if last.is_some_and(|last| last.len() == 1) { Ok(()) } else { Err(format!("{last:?}")) }
                })
                .await;
        }
        assert!(stage.view().endpoints["leader"].len() > 5, "every failover was seen");
        stage.finish().await;
    }
}

async fn d_a14_the_active_pod_is_one_across_zones_and_versions(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        stage.view().single.insert("db-active".to_owned());
        stage
            .create(json!({
                "template": answering(2, LEADER), "zones": ZONES, "activeProbe": probe(),
                "services": { "active": "db-active" },
            }))
            .await;
        stage.ready(1, 6).await;
        somebody(&stage).await;
        for (version, image) in [(2, "v2"), (3, "v3")] {
            let mut fields = healthy(image);
            fields["template"]["spec"]["template"]["spec"]["containers"][0]["ports"] =
                json!([{ "name": "http", "containerPort": 8080 }]);
            stage.edit(fields).await;
            stage.restart().await;
            stage.ready(version, 6).await;
            somebody(&stage).await;
        }
        stage.finish().await;
    }
}

async fn d_a11_a_probe_of_an_unknown_container_is_reported(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let probe = json!({ "other": { "tcpSocket": { "port": 80 } } });
    stage.create(json!({ "template": template("v1", 1), "activeProbe": probe })).await;
    let message = stage.reports("UnknownContainer").await;
    assert!(message.contains("other"), "{message}");
    stage.edit(json!({ "activeProbe": { "other": null, "main": { "tcpSocket": { "port": 80 } } } })).await;
    stage.ready(1, 1).await;
    stage.finish().await;
}

async fn d_a10_a_probe_that_hangs_is_a_failure_and_others_are_probed(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.create(json!({ "template": answering(2, "/leader hang"), "activeProbe": probe() })).await;
    stage.ready(1, 2).await;
    let message = stage.reports("NoneChosen").await;
    assert!(message.contains("db-0"), "{message}");
    answers(&stage, "db-1", LEADER).await;
    active(&stage, "db-1").await;
    // It hangs from now on, and the other one answers.
    answers(&stage, "db-0", LEADER).await;
    answers(&stage, "db-1", "/leader hang").await;
    active(&stage, "db-0").await;
    stage.finish().await;
}

async fn d_a8_the_active_pod_moves_while_the_api_server_refuses_a_template(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        let set = if group == Group::Fissile { "db-v1" } else { "db" };
        let pod = |ordinal: u32| format!("{set}-{ordinal}");
        stage
            .create(json!({
                "template": answering(3, FOLLOWER), "activeProbe": probe(), "activeFallback": "None",
            }))
            .await;
        stage.ready(1, 3).await;
        answers(&stage, &pod(0), LEADER).await;
        active(&stage, &pod(0)).await;
        let mut refused = healthy("v2");
        refused["template"]["spec"]["template"]["spec"]["containers"][0]["ports"] =
            json!([{ "name": "http", "containerPort": 8080 }, { "containerPort": 70000 }]);
        stage.edit(refused).await;
        stage.reports("WriteRefused").await;
        // It stops passing, and its successor is deleted.
        answers(&stage, &pod(1), LEADER).await;
        answers(&stage, &pod(0), FOLLOWER).await;
        active(&stage, &pod(1)).await;
        answers(&stage, &pod(2), LEADER).await;
        stage.kill(&pod(1)).await;
        active(&stage, &pod(2)).await;
        // A process that begins meanwhile finds out for itself.
        stage.restart().await;
        stage.reports("WriteRefused").await;
        let is_back = |seen: &super::seen::Seen| {
            let serves = |ordinal| seen.pods.get(&pod(ordinal)).is_some_and(|pod| pod.pod.serves());
            if (0..3).all(serves) { Ok(()) } else { Err(format!("{:?}", seen.pods.keys())) }
        };
        stage.until("the pod that was deleted to be back", is_back).await;
        for ordinal in 0..3 {
            let answer = if ordinal == 1 { LEADER } else { FOLLOWER };
            answers(&stage, &pod(ordinal), answer).await;
        }
        active(&stage, &pod(1)).await;
        stage.finish().await;
    }
}

async fn d_a8_the_active_pod_moves_while_a_service_has_a_name_that_is_taken(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let ports = json!([{ "port": 80 }]);
    stage.make::<Service>(json!({ "metadata": { "name": "db-active" }, "spec": { "ports": ports } })).await;
    stage
        .create(json!({
            "template": answering(2, FOLLOWER), "activeProbe": probe(), "activeFallback": "None",
            "services": { "active": "db-active" },
        }))
        .await;
    stage.reports("WriteRefused").await;
    let are_there = |seen: &super::seen::Seen| {
        if seen.pods.len() == 2 { Ok(()) } else { Err(seen.pods.len().to_string()) }
    };
    stage.until("both pods to be there", are_there).await;
    answers(&stage, "db-0", LEADER).await;
    active(&stage, "db-0").await;
    answers(&stage, "db-1", LEADER).await;
    answers(&stage, "db-0", FOLLOWER).await;
    active(&stage, "db-1").await;
    stage.api::<Service>().delete("db-active", &kube::api::DeleteParams::default()).await.unwrap();
    stage.ready(1, 2).await;
    stage.finish().await;
}

async fn d_a13_a_service_that_somebody_edits_selects_the_active_pod_again(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        stage
            .create(json!({
                "template": answering(2, LEADER), "activeProbe": probe(), "services": { "active": "db-active" },
            }))
            .await;
        stage.ready(1, 2).await;
        somebody(&stage).await;
        let services = stage.api::<Service>();
        let does = |service: Service| service.spec.map(|spec| (spec.selector, spec.ports));
        let before = does(services.get("db-active").await.unwrap());
        let label = group.key(keys::POD_DESIGNATION);
        for (edit, is_running) in [
            (json!({ "selector": { label.clone(): "standby" } }), true),
            (json!({ "selector": { label: null, "team": "a" } }), false),
            (json!({ "ports": [{ "name": "http", "port": 8080, "targetPort": 9 }] }), true),
        ] {
            if !is_running {
                stage.stop().await;
            }
            stage.merge::<Service>("db-active", json!({ "spec": edit })).await;
            if !is_running {
                stage.restart().await;
            }
            until(DEADLINE, "the Service to be as it was", || async {
                let now = does(services.get("db-active").await?);
                if now == before { Ok(()) } else { Err(NotYet::saw(now)) }
            })
            .await;
        }
        stage.finish().await;
    }
}
