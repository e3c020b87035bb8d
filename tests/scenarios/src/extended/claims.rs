//! Templates with claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use sts_plus_api::conditions::Truth;
use sts_plus_api::extended::Group;

use super::manifest::{broken, claims, healthy, scaled, template, with};
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
        d_s1_s2_handed_over_each_version_uses_the_claims_of_its_ordinals,
        d_s8_the_next_ordinal_waits_for_a_pod_that_does_not_end,
        d_s9_handed_over_zone_after_zone_with_claims_of_its_own_in_each,
        d_s7_claims_with_stable_names_stay_when_the_object_is_deleted,
        d_s16_claims_that_cf_operator_has_left_are_adopted_with_their_data,
        d_v3_a_version_that_does_not_start_is_replaced_or_reverted_in_the_middle,
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

/// What [`mounted`] must say of pods by their ordinals, where claims have stable names.
fn stable<'p>(pods: impl IntoIterator<Item = (&'p str, u32)>) -> BTreeMap<String, String> {
    let claim = |ordinal| format!("data-volume-management-db-{ordinal}");
    pods.into_iter().map(|(pod, ordinal)| (pod.to_owned(), claim(ordinal))).collect()
}

/// Fields of a spec: the strategy whose claims Kubernetes creates, also where it is not the default.
fn in_place() -> Value {
    json!({ "updateStrategy": { "type": "InPlace" } })
}

async fn d_s1_s9_in_place_every_version_uses_the_claims_of_the_first(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        let template = with(template("v1", 2), &claims());
        stage.create(with(json!({ "template": template, "zones": ["a", "b"] }), &in_place())).await;
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
        stage.create(with(json!({ "template": with(template("v1", 1), &claims()) }), &in_place())).await;
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
        let spec = with(json!({ "template": with(template("v1", 2), &claims()) }), &in_place());
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
    assert_eq!(mounted(&stage).await, stable([("db-v1-0", 0)]));
    let pod = serde_json::to_value(stage.pods().get("db-v1-0").await.unwrap()).unwrap();
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
    stage.view().shares_claims = true;
    stage.edit(json!({ "updateStrategy": { "blueGreen": { "sharedClaims": "Allow" } } })).await;
    stage.ready(1, 2).await;
    let claims = existing(&stage).await;
    stage.edit(healthy("v2")).await;
    stage.ready(2, 2).await;
    stage.sets_are(BTreeSet::from(["db-v2".to_owned()])).await;
    assert_eq!(mounted(&stage).await, stable([("db-v2-0", 0), ("db-v2-1", 1)]));
    assert_eq!(existing(&stage).await, claims, "both versions use them");
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

async fn d_s1_s2_handed_over_each_version_uses_the_claims_of_its_ordinals(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::Fissile).await;
    stage.create(json!({ "template": with(template("v1", 2), &claims()) })).await;
    stage.ready(1, 2).await;
    let pods = |version: u32, count: u32| {
        let pods = (0..count).map(|ordinal| (format!("db-v{version}-{ordinal}"), ordinal));
        let pods: Vec<_> = pods.collect();
        stable(pods.iter().map(|(pod, ordinal)| (&**pod, *ordinal)))
    };
    assert_eq!(mounted(&stage).await, pods(1, 2), "handover is the default with claims");
    let first = existing(&stage).await;
    for (fields, version, replicas) in [
        (healthy("v2"), 2, 2),
        (scaled(3), 2, 3),
        (healthy("v3"), 3, 3),
        (scaled(1), 3, 1),
        (healthy("v4"), 4, 1),
        (scaled(3), 4, 3),
    ] {
        stage.restart().await;
        stage.edit(fields).await;
        stage.ready(version, replicas).await;
        assert_eq!(mounted(&stage).await, pods(version, replicas));
        stage.sets_are(BTreeSet::from([format!("db-v{version}")])).await;
    }
    let last = existing(&stage).await;
    assert!(first.iter().all(|(claim, uid)| last.get(claim) == Some(uid)), "{first:?} then {last:?}");
    assert_eq!(last.len(), 3);
    stage.finish().await;
}

async fn d_s8_the_next_ordinal_waits_for_a_pod_that_does_not_end(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    stage.create(json!({ "template": with(template("v1", 2), &claims()) })).await;
    stage.ready(1, 2).await;
    // Its node is lost, as far as anybody can tell.
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    stage.merge::<Pod>("db-v1-1", hold).await;
    stage.edit(healthy("v2")).await;
    let message = stage.reports("VolumeInUse").await;
    assert!(message.contains("db-v1-1"), "{message}");
    assert!(!stage.view().lives.contains_key("db-v2-1"), "nobody else gets its volume");
    stage.merge::<Pod>("db-v1-1", json!({ "metadata": { "finalizers": null } })).await;
    stage.ready(2, 2).await;
    stage.finish().await;
}

async fn d_s9_handed_over_zone_after_zone_with_claims_of_its_own_in_each(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let spec = json!({
        "template": with(template("v1", 2), &claims()), "zones": ["a", "b"], "updateStrategy": { "type": "Handover" },
    });
    stage.create(spec).await;
    stage.ready(1, 4).await;
    let expected = ["z0-0", "z0-1", "z1-0", "z1-1"].map(|end| format!("data-volume-management-db-{end}"));
    assert_eq!(names(&stage).await, BTreeSet::from(expected.clone()));
    stage.edit(healthy("v2")).await;
    stage.ready(2, 4).await;
    assert_eq!(names(&stage).await, BTreeSet::from(expected));
    let prefixes: Vec<_> = stage.present().status.zones.into_iter().map(|zone| zone.claim_prefix).collect();
    assert_eq!(prefixes, ["db-z0", "db-z1"]);
    stage.finish().await;
}

async fn d_s7_claims_with_stable_names_stay_when_the_object_is_deleted(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let spec = json!({ "template": with(template("v1", 2), &claims()) });
    stage.create(spec.clone()).await;
    stage.ready(1, 2).await;
    let before = existing(&stage).await;
    assert_eq!(before.len(), 2);
    stage.view().excuse_set("db-v1");
    stage.objects().delete("db", &DeleteParams::background()).await.unwrap();
    stage
        .until("everything else to be gone", |seen| {
            let is_gone = seen.objects.is_empty() && seen.sets.is_empty() && seen.pods.is_empty();
            if is_gone { Ok(()) } else { Err(format!("{:?}", seen.set_names())) }
        })
        .await;
    assert_eq!(existing(&stage).await, before);
    stage.create(spec).await;
    stage.ready(1, 2).await;
    assert_eq!(existing(&stage).await, before);
    stage.finish().await;
}

async fn d_s16_claims_that_cf_operator_has_left_are_adopted_with_their_data(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let spec = &claims()["spec"]["volumeClaimTemplates"][0]["spec"];
    let left: PersistentVolumeClaim = stage
        .make(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "data-volume-management-db-1", "labels": { "app": "db" } }, "spec": spec,
        }))
        .await;
    stage.create(json!({ "template": with(template("v1", 2), &claims()) })).await;
    stage.ready(1, 2).await;
    assert_eq!(mounted(&stage).await, stable([("db-v1-0", 0), ("db-v1-1", 1)]));
    let adopted = stage.api::<PersistentVolumeClaim>().get("data-volume-management-db-1").await.unwrap();
    assert_eq!(adopted.uid(), left.uid());
    assert_eq!(adopted.labels()["fissile.cloudfoundry.org/extendedstatefulset-name"], "db");
    assert_eq!(adopted.labels()["app"], "db");
    stage.finish().await;
}

async fn d_v3_a_version_that_does_not_start_is_replaced_or_reverted_in_the_middle(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    stage.create(json!({ "template": with(template("v1", 3), &claims()) })).await;
    stage.ready(1, 3).await;
    stage.edit(broken("v2")).await;
    stage.reports("HandingOver").await;
    stage
        .until("one ordinal of the second version", |seen| {
            let is_there = seen.pods.contains_key("db-v2-2");
            if is_there { Ok(()) } else { Err(format!("{:?}", seen.pods.keys())) }
        })
        .await;
    stage.edit(healthy("v3")).await;
    stage.ready(3, 3).await;
    stage.sets_are(BTreeSet::from(["db-v3".to_owned()])).await;
    stage.edit(broken("v4")).await;
    stage
        .until("one ordinal of the fourth version", |seen| {
            let is_there = seen.pods.contains_key("db-v4-2");
            if is_there { Ok(()) } else { Err(format!("{:?}", seen.pods.keys())) }
        })
        .await;
    stage.edit(healthy("v3")).await;
    stage.ready(3, 3).await;
    stage.sets_are(BTreeSet::from(["db-v3".to_owned()])).await;
    stage.finish().await;
}
