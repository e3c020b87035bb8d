//! Templates with claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use sts_plus_api::conditions::Truth;
use sts_plus_api::extended::Group;

use super::manifest::{claims, healthy, scaled, template, with};
use super::scenarios;
use super::stage::Extended;
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_s1_s9_in_place_every_version_uses_the_claims_of_the_first,
        d_s2_a_claim_belongs_to_its_ordinal_in_every_version_also_when_scaling_comes_between,
        d_s3_s4_each_pod_has_its_own_claim_which_stays_when_the_pod_leaves,
        d_s7_claims_stay_when_the_object_is_deleted,
        d_s13_a_claim_that_only_an_init_container_mounts_is_mounted,
        d_s1_blue_green_is_refused_for_a_template_with_claims_unless_it_is_allowed,
        d_s12_a_change_of_the_claims_is_reported_and_changes_nothing,
    ]
}

/// The claims, by name with their UID.
async fn existing(stage: &Extended) -> BTreeMap<String, Option<String>> {
    let claims = stage.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
    claims.iter().map(|claim| (claim.name_any(), claim.uid())).collect()
}

async fn names(stage: &Extended) -> BTreeSet<String> {
    existing(stage).await.into_keys().collect()
}

/// The claim behind the volume of each pod.
async fn mounted(stage: &Extended) -> BTreeMap<String, String> {
    let pods = stage.pods().list(&ListParams::default()).await.unwrap();
    let pods = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let claim = |pod: &Value| {
        let mut volumes = pod["spec"]["volumes"].as_array().unwrap().iter();
        let volume = volumes.find(|volume| volume["name"] == "data").unwrap();
        volume["persistentVolumeClaim"]["claimName"].as_str().unwrap().to_owned()
    };
    pods.map(|pod| (pod.name_any(), claim(&serde_json::to_value(&pod).unwrap()))).collect()
}

/// What [`mounted`] must say of these pods: a claim has the name of its pod.
fn own<'p>(pods: impl IntoIterator<Item = &'p str>) -> BTreeMap<String, String> {
    pods.into_iter().map(|pod| (pod.to_owned(), format!("data-{pod}"))).collect()
}

async fn d_s1_s9_in_place_every_version_uses_the_claims_of_the_first(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    // With claims it is the default of both groups.
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        stage.create(json!({ "template": with(template("v1", 2), &claims()), "zones": ["a", "b"] })).await;
        stage.ready(1, 4).await;
        let expected = ["data-db-z0-0", "data-db-z0-1", "data-db-z1-0", "data-db-z1-1"].map(str::to_owned);
        let pods = ["db-z0-0", "db-z0-1", "db-z1-0", "db-z1-1"];
        assert_eq!((names(&stage).await, mounted(&stage).await), (expected.clone().into(), own(pods)));
        stage.edit(healthy("v2")).await;
        stage.ready(2, 4).await;
        assert_eq!(mounted(&stage).await, own(pods));
        stage.edit(scaled(1)).await;
        stage.ready(2, 2).await;
        assert_eq!(names(&stage).await, expected.into(), "claims stay when pods leave");
        stage.finish().await;
    }
}

async fn d_s2_a_claim_belongs_to_its_ordinal_in_every_version_also_when_scaling_comes_between(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        stage.create(json!({ "template": with(template("v1", 1), &claims()) })).await;
        stage.ready(1, 1).await;
        let label = json!({ "metadata": { "labels": { "example.com/step": "next" } } });
        let steps = [
            (scaled(2), 1, &["db-0", "db-1"][..]),
            (json!({ "template": { "spec": { "template": label } } }), 2, &["db-0", "db-1"]),
            (scaled(1), 2, &["db-0"]),
            (scaled(2), 2, &["db-0", "db-1"]),
        ];
        let mut known = existing(&stage).await;
        for (fields, version, pods) in steps {
            stage.restart().await;
            stage.edit(fields).await;
            stage.ready(version, u32::try_from(pods.len()).unwrap()).await;
            assert_eq!(mounted(&stage).await, own(pods.iter().copied()));
            let now = existing(&stage).await;
            assert!(known.iter().all(|(claim, uid)| now.get(claim) == Some(uid)), "{known:?} then {now:?}");
            stage.sets_are(BTreeSet::from(["db".to_owned()])).await;
            known = now;
        }
        assert_eq!(known.len(), 2);
        stage.finish().await;
    }
}

async fn d_s3_s4_each_pod_has_its_own_claim_which_stays_when_the_pod_leaves(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let pods = ["db-0", "db-1", "db-2", "db-3"];
    stage.create(json!({ "template": with(template("v1", 1), &claims()) })).await;
    stage.ready(1, 1).await;
    for replicas in [2, 4] {
        stage.edit(scaled(replicas)).await;
        stage.ready(1, replicas).await;
        assert_eq!(mounted(&stage).await, own(pods.into_iter().take(replicas as usize)));
    }
    let all = existing(&stage).await;
    assert_eq!(all.len(), 4);
    for replicas in [3, 1, 4] {
        stage.edit(scaled(replicas)).await;
        stage.ready(1, replicas).await;
        assert_eq!(mounted(&stage).await, own(pods.into_iter().take(replicas as usize)));
        assert_eq!(existing(&stage).await, all, "at {replicas} replicas");
    }
    stage.finish().await;
}

async fn d_s7_claims_stay_when_the_object_is_deleted(cluster: Arc<dyn Cluster>, name: &'static str) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        let spec = json!({ "template": with(template("v1", 2), &claims()) });
        stage.create(spec.clone()).await;
        stage.ready(1, 2).await;
        let before = existing(&stage).await;
        assert_eq!(before.len(), 2);
        stage.view().excuse_set("db");
        stage.objects().delete("db", &DeleteParams::background()).await.unwrap();
        stage
            .until("everything else to be gone", |seen| {
                let is_gone = seen.objects.is_empty() && seen.sets.is_empty() && seen.pods.is_empty();
                if is_gone { Ok(()) } else { Err(format!("{:?}", seen.set_names())) }
            })
            .await;
        assert_eq!(existing(&stage).await, before);
        // An object of the same name has them again.
        stage.create(spec).await;
        stage.ready(1, 2).await;
        assert_eq!((existing(&stage).await, mounted(&stage).await), (before, own(["db-0", "db-1"])));
        stage.finish().await;
    }
}

async fn d_s13_a_claim_that_only_an_init_container_mounts_is_mounted(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let mut given = with(template("v1", 1), &claims());
    given["spec"]["template"]["spec"]["initContainers"] = json!([
        { "name": "first", "image": "app:v1", "volumeMounts": [{ "name": "data", "mountPath": "/data" }] },
    ]);
    stage.create(json!({ "template": given })).await;
    stage.ready(1, 1).await;
    assert_eq!(mounted(&stage).await, own(["db-0"]));
    let pod = serde_json::to_value(stage.pods().get("db-0").await.unwrap()).unwrap();
    assert_eq!(pod["spec"]["initContainers"][0]["volumeMounts"][0]["name"], "data");
    stage.finish().await;
}

async fn d_s1_blue_green_is_refused_for_a_template_with_claims_unless_it_is_allowed(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let spec = json!({
        "template": with(template("v1", 2), &claims()), "updateStrategy": { "type": "BlueGreen" },
    });
    stage.create(spec).await;
    let message = stage.reports("ClaimsNeedHandover").await;
    assert!(message.contains("sharedClaims"), "the message names what would allow it: {message}");
    let refused = stage.present();
    assert_eq!(refused.condition("Stalled").map(|stalled| stalled.status), Some(Truth::True));
    assert!(stage.names().is_empty());
    stage.edit(json!({ "updateStrategy": { "blueGreen": { "sharedClaims": "Allow" } } })).await;
    stage.ready(1, 2).await;
    stage.edit(healthy("v2")).await;
    stage.ready(2, 2).await;
    stage.sets_are(BTreeSet::from(["db-v2".to_owned()])).await;
    // Forbidden again, it changes nothing that is there.
    let before = stage.uids();
    stage.edit(json!({ "updateStrategy": { "blueGreen": { "sharedClaims": "Forbid" } } })).await;
    stage.reports("ClaimsNeedHandover").await;
    assert_eq!(stage.uids(), before);
    stage.finish().await;
}

async fn d_s12_a_change_of_the_claims_is_reported_and_changes_nothing(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.create(json!({ "template": with(template("v1", 2), &claims()) })).await;
    stage.ready(1, 2).await;
    let before = stage.uids();
    let mut larger = claims();
    larger["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    stage.edit(json!({ "template": larger })).await;
    let message = stage.reports("ImmutableField").await;
    assert!(message.contains("volumeClaimTemplates"), "{message}");
    stage.edit(json!({ "template": claims() })).await;
    stage.ready(1, 2).await;
    assert_eq!(stage.uids(), before);
    stage.finish().await;
}
