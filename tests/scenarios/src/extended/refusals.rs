//! Writes that the API server refuses: templates that it does not take, webhooks, quotas.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::DeleteParams;
use serde_json::json;
use sts_plus_api::conditions::Truth;
use sts_plus_api::extended::Group;
use sts_plus_harness::wait::{NotYet, until};

use super::manifest::{healthy, template};
use super::scenarios;
use super::stage::Extended;
use crate::cluster::Cluster;
use crate::observer::DEADLINE;
use crate::real::ZONES;
use crate::scenarios::Scenario;
use crate::scenarios::refusals::{WEBHOOK, install, nobody, remove};

/// Attempts of a write that is refused while a scenario looks: each waits longer than the one before.
const ATTEMPTS: usize = 20;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_a_template_that_the_api_server_refuses_is_reported_with_its_words,
        d_a_set_that_a_webhook_refuses_is_reported_until_it_is_admitted,
        d_v10_a_deletion_that_a_webhook_refuses_is_reported_and_retried_until_it_is_admitted,
        d_z9_a_set_that_a_quota_refuses_gets_the_same_version_later,
    ]
}

async fn d_a_template_that_the_api_server_refuses_is_reported_with_its_words(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        stage.create(json!({ "template": template("v1", 2) })).await;
        stage.ready(1, 2).await;
        let before = stage.uids();
        let containers =
            json!([{ "name": "main", "image": "app:v2", "ports": [{ "containerPort": 70000 }] }]);
        stage
            .edit(json!({ "template": { "spec": { "template": { "spec": { "containers": containers } } } } }))
            .await;
        let message = stage.reports("WriteRefused").await;
        assert!(message.contains("containerPort"), "{message}");
        assert_eq!(stage.present().condition("Stalled").map(|stalled| stalled.status), Some(Truth::True));
        assert_eq!(stage.uids(), before);
        let attempts = stage.cluster.requests(stage.account()).unwrap();
        let attempts = attempts.iter().filter(|request| request.code == 422).count();
        assert!(attempts <= ATTEMPTS, "{attempts} attempts");
        let fixed = json!([{ "name": "main", "image": "app:v2" }]);
        stage
            .edit(json!({ "template": { "spec": { "template": { "spec": { "containers": fixed } } } } }))
            .await;
        stage
            .object_is("at the version that is right", |object, seen| {
                let new = seen.pods.values().all(|pod| pod.pod.image == "app:v2" && pod.pod.serves());
                let ready = object.condition("Ready").is_some_and(|ready| ready.reason == "AsRequested");
                new && ready && object.condition("Stalled").is_none()
            })
            .await;
        stage.finish().await;
    }
}

async fn d_a_set_that_a_webhook_refuses_is_reported_until_it_is_admitted(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::Fissile).await;
    stage.create(json!({ "template": template("v1", 2), "zones": ZONES })).await;
    stage.ready(1, 6).await;
    install(&*cluster, &stage.namespace, nobody(), ("apps", "statefulsets", "CREATE")).await;
    // A real API server asks a webhook only some time after its configuration has been written.
    until(DEADLINE, "the creation of sets to be refused", || async {
        let mut set = template("probe", 0);
        set["metadata"] = json!({ "name": "probe" });
        set["spec"]["selector"] = json!({ "matchLabels": { "app": "db" } });
        let parameters = kube::api::PostParams { dry_run: true, field_manager: None };
        let created = stage.sets().create(&parameters, &serde_json::from_value(set)?).await;
        if created.is_err() { Ok(()) } else { Err(NotYet::saw("admitted")) }
    })
    .await;
    stage.edit(healthy("v2")).await;
    let message = stage.reports("WriteRefused").await;
    assert!(message.contains(WEBHOOK), "{message}");
    stage.restart().await;
    stage.reports("WriteRefused").await;
    stage.sets_are(["db-z0-v1", "db-z1-v1", "db-z2-v1"].map(str::to_owned).into()).await;
    remove(&*cluster, &stage.namespace).await;
    stage.ready(2, 6).await;
    stage.finish().await;
}

async fn d_v10_a_deletion_that_a_webhook_refuses_is_reported_and_retried_until_it_is_admitted(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    stage.create(json!({ "template": template("v1", 2) })).await;
    stage.ready(1, 2).await;
    install(&*cluster, &stage.namespace, nobody(), ("apps", "statefulsets", "DELETE")).await;
    until(DEADLINE, "the deletion of sets to be refused", || async {
        let deleted = stage.sets().delete("db-v1", &DeleteParams::background().dry_run()).await;
        if deleted.is_err() { Ok(()) } else { Err(NotYet::saw("admitted")) }
    })
    .await;
    stage.edit(healthy("v2")).await;
    let message = stage.reports("WriteRefused").await;
    assert!(message.contains(WEBHOOK), "{message}");
    assert_eq!(stage.present().condition("Stalled").map(|stalled| stalled.status), Some(Truth::True));
    stage.sets_are(["db-v1", "db-v2"].map(str::to_owned).into()).await;
    let attempts = stage.cluster.requests(stage.account()).unwrap();
    let is_attempt = |request: &&crate::cluster::Request| request.verb == "delete" && request.code >= 400;
    let attempts = attempts.iter().filter(is_attempt).count();
    assert!((1..=ATTEMPTS).contains(&attempts), "{attempts} attempts");
    remove(&*cluster, &stage.namespace).await;
    stage.ready(2, 2).await;
    stage.sets_are(["db-v2".to_owned()].into()).await;
    stage.finish().await;
}

async fn d_z9_a_set_that_a_quota_refuses_gets_the_same_version_later(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::Fissile).await;
    stage.has_quota = true;
    stage.create(json!({ "template": template("v1", 1), "zones": ZONES })).await;
    stage.ready(1, 3).await;
    // Room for the second version in no zone.
    stage
        .make::<ResourceQuota>(json!({
            "metadata": { "name": "sets" }, "spec": { "hard": { "count/statefulsets.apps": "3" } },
        }))
        .await;
    let quotas = stage.api::<ResourceQuota>();
    until(DEADLINE, "the quota to be counted", || async {
        let status = quotas.get("sets").await?.status;
        let used = status.and_then(|status| status.used?.remove("count/statefulsets.apps"));
        if used.as_ref().is_some_and(|used| used.0 == "3") { Ok(()) } else { Err(NotYet::saw(used)) }
    })
    .await;
    stage.edit(healthy("v2")).await;
    let message = stage.reports("WriteRefused").await;
    assert!(message.contains("exceeded quota"), "{message}");
    stage.sets_are(["db-z0-v1", "db-z1-v1", "db-z2-v1"].map(str::to_owned).into()).await;
    quotas.delete("sets", &DeleteParams::default()).await.unwrap();
    stage.ready(2, 3).await;
    stage.sets_are(["db-z0-v2", "db-z1-v2", "db-z2-v2"].map(str::to_owned).into()).await;
    let versions: BTreeSet<_> = stage.view().versions("db").into_iter().collect();
    assert_eq!(versions, [1, 2].into());
    stage.finish().await;
}
