//! Promotion of blue/green versions: by hand, by configuration, and what happens when the deadline passes first.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::conditions::Truth;
use sts_plus_api::extended::Group;

use super::manifest::{broken, healthy, held, scaled, template, with};
use super::scenarios;
use super::stage::{Extended, NAME};
use crate::cluster::Cluster;
use crate::real::ZONES;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_v8_a_version_waits_for_its_approval_in_every_zone,
        d_a_version_that_misses_its_deadline_is_rolled_back_and_can_be_retried,
        d_a_version_that_misses_its_deadline_stays_where_it_is_and_can_be_retried,
        d_v19_scaling_midway_scales_both_versions,
        d_paused_versions_stay_as_they_are_while_scaling_continues,
        d_the_preview_and_active_services_follow_the_versions,
    ]
}

/// What a version does not meet that never becomes Ready. One that does may take longer on a busy machine.
const SHORT_SECONDS: u32 = 2;

/// What every version meets that becomes Ready at all.
const LONG_SECONDS: u32 = 600;

/// Fields of a spec: the deadline, which makes no version.
fn deadline(seconds: u32) -> Value {
    json!({ "updateStrategy": { "progressDeadlineSeconds": seconds } })
}

/// A spec with these settings of blue/green and these fields of the strategy.
fn spec(replicas: u32, blue_green: &Value, strategy: &Value) -> Value {
    let mut spec = json!({ "template": template("v1", replicas), "updateStrategy": strategy });
    spec["updateStrategy"]["type"] = json!("BlueGreen");
    spec["updateStrategy"]["blueGreen"] = blue_green.clone();
    spec
}

async fn d_v8_a_version_waits_for_its_approval_in_every_zone(cluster: Arc<dyn Cluster>, name: &'static str) {
    let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.view().min_ready = 2;
    let mut manual = spec(2, &json!({ "promotion": "Manual" }), &json!({}));
    manual["zones"] = json!(ZONES);
    stage.create(manual).await;
    stage.ready(1, 6).await;
    stage.edit(healthy("v2")).await;
    stage.reports("AwaitingApproval").await;
    let awaited = stage.object_is("awaiting an approval", |object, seen| {
        object.status.awaited_approval.is_some() && seen.sets.contains_key("db-z0-v2")
    });
    let awaited = awaited.await.status.awaited_approval.unwrap();
    // The approval of something else does nothing, and neither does a restart.
    stage.approve("promote-7-00000000").await;
    stage.restart().await;
    stage
        .object_is("still awaiting it", |object, seen| {
            let waits = object.condition("Ready").is_some_and(|ready| ready.reason == "AwaitingApproval");
            waits && seen.sets.contains_key("db-z0-v1") && !seen.sets.contains_key("db-z1-v2")
        })
        .await;
    stage.approve(&awaited).await;
    stage.ready(2, 6).await;
    assert!(stage.present().status.awaited_approval.is_none());
    // The approval counts for its version only.
    stage.edit(healthy("v3")).await;
    stage.reports("AwaitingApproval").await;
    assert!(stage.names().contains("db-z0-v2"));
    let awaited = stage.object_is("awaiting another", |object, _| object.status.awaited_approval.is_some());
    let awaited = awaited.await.status.awaited_approval.unwrap();
    stage.approve(&awaited).await;
    stage.ready(3, 6).await;
    stage.finish().await;
}

async fn d_a_version_that_misses_its_deadline_is_rolled_back_and_can_be_retried(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.view().min_ready = 2;
    stage.create(spec(2, &json!({}), &json!({ "onFailure": "Rollback" }))).await;
    stage.ready(1, 2).await;
    let before = stage.uids();
    stage.edit(with(broken("bad"), &deadline(SHORT_SECONDS))).await;
    stage.reports("ProgressDeadlineExceeded").await;
    let failed = stage.object_is("rolled back", |object, seen| {
        let versions: Vec<_> = object.status.versions.iter().map(|version| version.number).collect();
        versions == [1] && seen.pods.len() == 2 && object.status.awaited_approval.is_some()
    });
    let failed = failed.await;
    assert_eq!(failed.condition("Stalled").map(|stalled| stalled.status), Some(Truth::True));
    assert_eq!(failed.status.failed_version.as_ref().map(|failed| failed.number), Some(2));
    assert_eq!(stage.uids(), before);
    // It is not tried again by itself, also by whoever comes next.
    stage.restart().await;
    stage.patch(NAME, json!({ "metadata": { "labels": { "some": "label" } } })).await;
    stage.requests().await;
    stage.sets_are(BTreeSet::from(["db-v1".to_owned()])).await;
    stage.edit(deadline(LONG_SECONDS)).await;
    stage.approve(failed.status.awaited_approval.as_deref().unwrap()).await;
    stage
        .until("it to be tried again", |seen| {
            if seen.sets.contains_key("db-v2") { Ok(()) } else { Err(format!("{:?}", seen.set_names())) }
        })
        .await;
    stage.edit(healthy("good")).await;
    stage.ready(3, 2).await;
    assert!(stage.present().status.failed_version.is_none());
    stage.finish().await;
}

async fn d_a_version_that_misses_its_deadline_stays_where_it_is_and_can_be_retried(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for zones in [json!([]), json!(ZONES)] {
        for strategy in ["BlueGreen", "InPlace"] {
            let stage = Extended::new(&cluster, name, Group::StsPlus).await;
            stage.view().min_ready = 2;
            let pods = if zones == json!([]) { 2 } else { 6 };
            let update = json!({ "type": strategy });
            stage
                .create(json!({ "template": template("v1", 2), "zones": zones, "updateStrategy": update }))
                .await;
            stage.ready(1, pods).await;
            stage.edit(with(held("v2", "1"), &deadline(SHORT_SECONDS))).await;
            stage.reports("ProgressDeadlineExceeded").await;
            let failed =
                stage.object_is("failed", |object, _| object.status.awaited_approval.is_some()).await;
            assert!(stage.view().pods.values().any(|pod| pod.pod.image == "app:v1" && pod.pod.serves()));
            let version = failed.status.failed_version.map(|failed| failed.number);
            assert_eq!(version, Some(2));
            stage.event("ProgressDeadlineExceeded").await;
            // What held it is gone, and a retry begins with its whole time.
            stage.edit(deadline(LONG_SECONDS)).await;
            stage.approve(failed.status.awaited_approval.as_deref().unwrap()).await;
            stage.object_is("retried", |object, _| object.status.failed_version.is_none()).await;
            stage.edit(healthy("v2")).await;
            stage.ready(3, pods).await;
            stage.finish().await;
        }
    }
}

async fn d_v19_scaling_midway_scales_both_versions(cluster: Arc<dyn Cluster>, name: &'static str) {
    let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.view().min_ready = 2;
    let mut given = spec(2, &json!({}), &json!({}));
    given["zones"] = json!(ZONES);
    stage.create(given).await;
    stage.ready(1, 6).await;
    let before = stage.uids();
    stage.edit(held("v2", "1")).await;
    stage.reports("VersionStarting").await;
    stage.edit(scaled(4)).await;
    stage.restart().await;
    stage
        .until("every set to have four replicas", |seen| {
            let ready = seen.sets.len() == 4 && seen.sets.values().all(|set| set.replicas == 4);
            if ready { Ok(()) } else { Err(format!("{:?}", seen.sets)) }
        })
        .await;
    stage
        .until("the old version to serve with all of them", |seen| {
            let old = seen.pods.values().filter(|pod| pod.pod.image == "app:v1" && pod.pod.serves()).count();
            if old == 12 { Ok(()) } else { Err(old.to_string()) }
        })
        .await;
    assert!(before.is_subset(&stage.uids()), "scaling restarts nobody");
    for zone in ["db-z0-v2-1", "db-z1-v2-1", "db-z2-v2-1"] {
        stage
            .until(&format!("{zone} to be there"), |seen| {
                if seen.pods.contains_key(zone) { Ok(()) } else { Err(format!("{:?}", seen.set_names())) }
            })
            .await;
        stage.heal(&[zone]).await;
    }
    stage.ready(2, 12).await;
    assert_eq!(stage.view().versions(NAME), [1, 2]);
    stage.finish().await;
}

async fn d_paused_versions_stay_as_they_are_while_scaling_continues(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        stage.create(json!({ "template": template("v1", 2) })).await;
        stage.ready(1, 2).await;
        let before = stage.uids();
        stage.edit(json!({ "paused": true })).await;
        stage.edit(healthy("v2")).await;
        stage.reports("Paused").await;
        stage.edit(scaled(3)).await;
        stage
            .until("three pods of the first version", |seen| {
                let old =
                    seen.pods.values().filter(|pod| pod.pod.image == "app:v1" && pod.pod.serves()).count();
                if old == 3 && seen.pods.len() == 3 { Ok(()) } else { Err(old.to_string()) }
            })
            .await;
        assert!(before.is_subset(&stage.uids()));
        stage.edit(json!({ "paused": false })).await;
        stage.ready(2, 3).await;
        stage.finish().await;
    }
}

async fn d_the_preview_and_active_services_follow_the_versions(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.view().min_ready = 2;
    let mut given = spec(2, &json!({ "promotion": "Manual" }), &json!({}));
    given["template"]["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{ "name": "http", "containerPort": 8080 }]);
    given["services"] =
        json!({ "active": "db-active", "preview": "db-preview", "headless": "db-all", "perReplica": true });
    stage.create(given).await;
    stage.ready(1, 2).await;
    let ports =
        json!([{ "name": "main", "image": "app:v2", "ports": [{ "name": "http", "containerPort": 8080 }] }]);
    stage.edit(json!({ "template": { "spec": { "template": { "spec": { "containers": ports } } } } })).await;
    let awaited =
        stage.object_is("awaiting an approval", |object, _| object.status.awaited_approval.is_some());
    let awaited = awaited.await.status.awaited_approval.unwrap();
    let behind = |service: &'static str, image: &'static [&'static str], count: usize| {
        let stage = &stage;
        async move {
            stage
                .until(&format!("{count} endpoints of {image:?} behind {service}"), |seen| {
                    let addresses =
                        seen.endpoints.get(service).and_then(|all| all.last()).map_or(0, Vec::len);
                    let pods = seen.pods.values().filter(|pod| image.contains(&pod.pod.image.as_str()));
                    let expected = pods.clone().count();
                    if addresses == count && expected == count {
                        Ok(())
                    } else {
                        Err(format!("{addresses} of {expected}"))
                    }
                })
                .await;
        }
    };
    behind("db-active", &["app:v1"], 2).await;
    behind("db-preview", &["app:v2"], 2).await;
    behind("db-all", &["app:v1", "app:v2"], 4).await;
    let services: kube::Api<k8s_openapi::api::core::v1::Service> = stage.api();
    let selector = async |name: &str| {
        services.get(name).await.unwrap().spec.unwrap().selector.unwrap().remove("sts.plus/version")
    };
    assert_eq!(selector("db-active").await.as_deref(), Some("1"));
    assert_eq!(selector("db-preview").await.as_deref(), Some("2"));
    stage.approve(&awaited).await;
    stage.ready(2, 2).await;
    behind("db-active", &["app:v2"], 2).await;
    assert_eq!(selector("db-active").await.as_deref(), Some("2"));
    for replica in ["db-0", "db-1"] {
        behind_one(&stage, replica).await;
    }
    // Services that are no longer asked for are removed; those of others stay.
    stage.make::<k8s_openapi::api::core::v1::Service>(json!({
        "metadata": { "name": "others" }, "spec": { "ports": [{ "port": 1 }], "selector": { "app": "db" } },
    }))
    .await;
    stage.edit(json!({ "services": null })).await;
    sts_plus_harness::wait::until(
        crate::observer::DEADLINE,
        "only the Service of others to be left",
        || async {
            let left = services.list(&kube::api::ListParams::default()).await?;
            let names: Vec<_> = left.into_iter().filter_map(|service| service.metadata.name).collect();
            if names == ["others"] { Ok(()) } else { Err(sts_plus_harness::wait::NotYet::saw(names)) }
        },
    )
    .await;
    stage.finish().await;
}

async fn behind_one(stage: &Extended, service: &str) {
    stage
        .until(&format!("one endpoint behind {service}"), |seen| {
            let addresses = seen.endpoints.get(service).and_then(|all| all.last()).map_or(0, Vec::len);
            if addresses == 1 { Ok(()) } else { Err(format!("{addresses}")) }
        })
        .await;
}
