//! Pods are replaced when the data that their template refers to changes: once, and for nothing else.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::manifest::{scaled, template};
use super::scenarios;
use super::stage::{Extended, NAME};
use crate::cluster::Cluster;
use crate::real::ZONES;
use crate::rules;
use crate::scenarios::Scenario;

/// What depends on how soon one change follows another, which only a clock that stands still can promise.
pub(super) fn within_a_moment() -> Vec<Scenario> {
    scenarios![d_f7_changes_of_several_objects_within_a_moment_are_one_version]
}

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_f10_configuration_restarts_exactly_once,
        d_f13_every_kind_of_reference_counts_and_nothing_else_does,
        d_f14_a_secret_that_cannot_be_read_is_reported_until_it_can,
    ]
}

/// A template that refers to a ConfigMap, and to a Secret that need not be there.
fn referring(version: &str, replicas: u32) -> Value {
    let mut given = template(version, replicas);
    let pod = &mut given["spec"]["template"]["spec"];
    pod["containers"][0]["envFrom"] = json!([{ "configMapRef": { "name": "settings" } }]);
    pod["volumes"] = json!([{ "name": "more", "secret": { "secretName": "more", "optional": true } }]);
    given
}

async fn d_f10_configuration_restarts_exactly_once(cluster: Arc<dyn Cluster>, name: &'static str) {
    for (group, zones) in
        [(Group::StsPlus, json!([])), (Group::StsPlus, json!(ZONES)), (Group::Fissile, json!(ZONES))]
    {
        let places = zones.as_array().map_or(0, Vec::len).max(1);
        let pods = |replicas: usize| u32::try_from(places * replicas).unwrap();
        let mut stage = Extended::new(&cluster, name, group).await;
        stage
            .create(json!({ "template": referring("v1", 2), "zones": zones, "updateOnConfigChange": true }))
            .await;
        let message = stage.reports("ConfigMissing").await;
        assert!(message.contains("settings"), "{message}");
        stage
            .make::<ConfigMap>(json!({ "metadata": { "name": "settings" }, "data": { "key": "one" } }))
            .await;
        stage.ready(1, pods(2)).await;
        let before = stage.uids();
        // What is no data changes nothing, nor does a restart of the operator.
        stage.merge::<ConfigMap>("settings", json!({ "metadata": { "labels": { "some": "label" } } })).await;
        stage.restart().await;
        stage.planned().await;
        stage.requests().await;
        assert_eq!(stage.uids(), before);
        stage.merge::<ConfigMap>("settings", json!({ "data": { "key": "two" } })).await;
        stage.ready(2, pods(2)).await;
        let after = stage.uids();
        assert!(before.is_disjoint(&after), "every pod is replaced");
        // A Secret that need not be there is created.
        stage.make::<Secret>(json!({ "metadata": { "name": "more" }, "stringData": { "key": "s" } })).await;
        stage.ready(3, pods(2)).await;
        let last = stage.uids();
        assert!(after.is_disjoint(&last));
        stage.restart().await;
        stage.edit(scaled(3)).await;
        stage.ready(3, pods(3)).await;
        assert!(
            last.is_subset(&stage.uids()),
            "neither a restart of the operator nor scaling restarts anybody"
        );
        let lives = stage.view().lives.clone();
        let of_first = lives.iter().filter(|(pod, _)| !pod.ends_with("-2"));
        let expected = if group == Group::Fissile { 1 } else { 3 };
        assert!(
            of_first.clone().all(|(_, lives)| lives.len() == expected),
            "exactly once per change: {lives:?}"
        );
        assert_eq!(stage.view().versions(NAME), [1, 2, 3]);
        // Nobody reads what a Secret holds from anything that is written about it.
        let told = serde_json::to_string(&stage.objects().get(NAME).await.unwrap()).unwrap();
        assert!(!told.contains("\"s\"") && !told.contains("cw=="), "{told}");
        stage.finish().await;
    }
}

async fn d_f7_changes_of_several_objects_within_a_moment_are_one_version(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::without_operator(&cluster, name, Group::StsPlus).await;
    stage.make::<ConfigMap>(json!({ "metadata": { "name": "settings" }, "data": { "key": "one" } })).await;
    stage.make::<Secret>(json!({ "metadata": { "name": "more" }, "stringData": { "key": "one" } })).await;
    stage.restart().await;
    stage.create(json!({ "template": referring("v1", 2), "updateOnConfigChange": true })).await;
    stage.ready(1, 2).await;
    stage.merge::<ConfigMap>("settings", json!({ "data": { "key": "two" } })).await;
    stage.merge::<Secret>("more", json!({ "stringData": { "key": "two" } })).await;
    stage.merge::<ConfigMap>("settings", json!({ "binaryData": { "more": "AAEC" } })).await;
    let settled = stage
        .object_is("at a new version", |object, seen| {
            let ready = object.condition("Ready").is_some_and(|ready| ready.reason == "AsRequested");
            ready && object.status.current_version > Some(1) && seen.pods.values().all(|pod| pod.pod.serves())
        })
        .await;
    let version = settled.status.current_version.unwrap();
    stage.requests().await;
    let twice = stage.view().lives.values().all(|lives| lives.len() == 2);
    assert!(twice, "one rollout for all of them: {:?}", stage.view().lives);
    // A change that is taken back before it counts is none.
    let before = stage.uids();
    stage.merge::<ConfigMap>("settings", json!({ "data": { "key": "wrong" } })).await;
    stage.merge::<ConfigMap>("settings", json!({ "data": { "key": "two" } })).await;
    stage.edit(scaled(3)).await;
    stage.ready(version, 3).await;
    stage.requests().await;
    assert!(before.is_subset(&stage.uids()));
    stage.finish().await;
}

async fn d_f13_every_kind_of_reference_counts_and_nothing_else_does(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::without_operator(&cluster, name, Group::StsPlus).await;
    for map in ["env", "init", "mounted", "projected", "unreferenced"] {
        stage.make::<ConfigMap>(json!({ "metadata": { "name": map }, "data": { "key": "one" } })).await;
    }
    stage.restart().await;
    let key = |map: &str| json!({ "name": "KEY", "valueFrom": { "configMapKeyRef": { "name": map, "key": "key" } } });
    let mut given = template("v1", 1);
    let pod = &mut given["spec"]["template"]["spec"];
    pod["containers"][0]["env"] = json!([key("env")]);
    pod["initContainers"] = json!([{ "name": "first", "image": "app:v1", "env": [key("init")] }]);
    pod["volumes"] = json!([
        { "name": "mounted", "configMap": { "name": "mounted" } },
        { "name": "projected", "projected": { "sources": [{ "configMap": { "name": "projected" } }] } },
    ]);
    stage.create(json!({ "template": given, "updateOnConfigChange": true })).await;
    stage.ready(1, 1).await;
    stage.merge::<ConfigMap>("unreferenced", json!({ "data": { "key": "two" } })).await;
    for (map, version) in [("env", 2), ("init", 3), ("mounted", 4), ("projected", 5)] {
        stage.merge::<ConfigMap>(map, json!({ "data": { "key": "two" } })).await;
        stage.ready(version, 1).await;
    }
    // Whoever does not ask for it gets none: the versions stay as they are.
    stage.edit(json!({ "updateOnConfigChange": false })).await;
    let version = stage.object_is("ready", |object, _| {
        object.condition("Ready").is_some_and(|ready| ready.reason == "AsRequested")
    });
    let version = version.await.status.update_version.unwrap();
    stage.merge::<ConfigMap>("env", json!({ "data": { "key": "three" } })).await;
    stage.edit(scaled(2)).await;
    stage.ready(version, 2).await;
    stage.finish().await;
}

async fn d_f14_a_secret_that_cannot_be_read_is_reported_until_it_can(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::granted(&cluster, name, Group::StsPlus, rules::by_default()).await;
    stage.restart().await;
    stage.make::<Secret>(json!({ "metadata": { "name": "key" }, "stringData": { "key": "one" } })).await;
    let mut given = template("v1", 2);
    given["spec"]["template"]["spec"]["volumes"] =
        json!([{ "name": "key", "secret": { "secretName": "key" } }]);
    stage.create(json!({ "template": given, "updateOnConfigChange": true })).await;
    let message = stage.reports("ConfigUnreadable").await;
    assert!(message.contains("Secret key"), "{message}");
    assert!(stage.names().is_empty());
    // No hot loop: what is forbidden is asked for again, after longer and longer pauses.
    let asked = stage.forbidden().len();
    assert!(asked < 10, "{asked} requests were forbidden");
    assert!(stage.forbidden().iter().all(|request| request.resource == "secrets"));
    let namespace = stage.namespace.clone();
    stage.cluster.grant(stage.account(), Some(&namespace), rules::followed_secrets()).await.unwrap();
    stage.ready(1, 2).await;
    stage.stop().await;
    let mut seen = stage.view();
    seen.conclude();
    assert!(seen.violations.is_empty(), "{:?}", seen.violations);
}
