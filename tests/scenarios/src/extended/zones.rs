//! Zones that come, go and change places.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::keys;

use super::manifest::{healthy, held, template};
use super::scenarios;
use super::stage::{Extended, NAME};
use crate::cluster::Cluster;
use crate::real::ZONES;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_z5_to_z7_zones_are_added_removed_and_reordered_and_nobody_else_is_touched,
        d_z6_a_zone_is_removed_last_and_only_while_the_others_serve,
        d_z1_pods_of_a_zone_run_there_and_know_it,
    ]
}

fn indexes(stage: &Extended) -> BTreeMap<String, u32> {
    stage.present().status.zones.into_iter().map(|zone| (zone.name, zone.index)).collect()
}

async fn d_z5_to_z7_zones_are_added_removed_and_reordered_and_nobody_else_is_touched(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        let suffix = if group == Group::Fissile { "-v1" } else { "" };
        let sets = |indexes: &[u32]| indexes.iter().map(|index| format!("db-z{index}{suffix}")).collect();
        stage.create(json!({ "template": template("v1", 2), "zones": ["a", "b"] })).await;
        stage.ready(1, 4).await;
        let first = stage.uids();
        stage.edit(json!({ "zones": ["c", "a", "b"] })).await;
        stage.restart().await;
        stage.ready(1, 6).await;
        assert!(first.is_subset(&stage.uids()), "a zone more restarts nobody");
        assert_eq!(
            indexes(&stage),
            [("a", 0), ("b", 1), ("c", 2)].map(|(zone, index)| (zone.to_owned(), index)).into()
        );
        let zones = group.key(keys::ZONES);
        stage
            .until("every pod to know all zones", |seen| {
                let known = |pod: &super::seen::Pod| pod.annotations.get(&zones).cloned();
                let all: Vec<_> = seen.pods.values().map(known).collect();
                let told = all.iter().all(|told| told.as_deref() == Some(r#"["c","a","b"]"#));
                if told { Ok(()) } else { Err(format!("{all:?}")) }
            })
            .await;
        let before = stage.uids();
        stage.edit(json!({ "zones": ["b", "c", "a"] })).await;
        stage.ready(1, 6).await;
        assert_eq!(stage.uids(), before, "another order restarts nobody");
        let leaves = format!("db-z0{suffix}");
        stage.view().excuse_set(&leaves);
        stage.edit(json!({ "zones": ["b", "c"] })).await;
        stage.ready(1, 4).await;
        assert!(stage.uids().is_subset(&before));
        stage.sets_are(sets(&[1, 2])).await;
        // It comes back under its own index, with the claims that it would have.
        stage.edit(json!({ "zones": ["b", "c", "a"] })).await;
        stage.ready(1, 6).await;
        stage.sets_are(sets(&[0, 1, 2])).await;
        assert_eq!(stage.view().versions(NAME), [1]);
        stage.finish().await;
    }
}

async fn d_z6_a_zone_is_removed_last_and_only_while_the_others_serve(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.create(json!({ "template": template("v1", 2), "zones": ZONES })).await;
    stage.ready(1, 6).await;
    let mut fields = held("v2", "1");
    fields["zones"] = json!(["a", "b"]);
    stage.view().excuse_set("db-z2");
    stage.edit(fields).await;
    stage.reports("Rolling").await;
    stage
        .until("a pod of the second version to be held", |seen| {
            let held = seen.pods.get("db-z0-1").is_some_and(|pod| pod.pod.image == "app:v2");
            if held { Ok(()) } else { Err(format!("{:?}", seen.set_names())) }
        })
        .await;
    assert!(stage.names().contains("db-z2"), "while pods are down its pods are needed");
    stage.edit(healthy("v3")).await;
    stage.ready(3, 4).await;
    assert!(!stage.names().contains("db-z2"));
    stage.finish().await;
}

async fn d_z1_pods_of_a_zone_run_there_and_know_it(cluster: Arc<dyn Cluster>, name: &'static str) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        let mut given = template("v1", 1);
        given["spec"]["template"]["spec"]["initContainers"] = json!([{ "name": "first", "image": "app:v1" }]);
        stage.create(json!({ "template": given, "zones": ZONES })).await;
        stage.ready(1, 3).await;
        let pods = stage.pods().list(&kube::api::ListParams::default()).await.unwrap();
        assert_eq!(pods.items.len(), 3);
        for pod in pods {
            let value = serde_json::to_value(&pod).unwrap();
            let label =
                |suffix: &str| value["metadata"]["labels"][group.key(suffix)].as_str().map(str::to_owned);
            let zone = label(keys::AZ_NAME).unwrap();
            let index: u32 = label(keys::AZ_INDEX).unwrap().parse().unwrap();
            assert_eq!(ZONES[index as usize], zone);
            assert_eq!(value["spec"]["nodeName"], format!("node-{zone}"));
            for list in ["initContainers", "containers"] {
                let env = |name: &str| -> Value {
                    let env = value["spec"][list][0]["env"].as_array().unwrap();
                    env.iter().find(|entry| entry["name"] == name).unwrap()["value"].clone()
                };
                for name in keys::ZONE_ENV {
                    assert_eq!(env(name), zone);
                }
                // It counts from 1, and the label from 0.
                assert_eq!(env(keys::ZONE_INDEX_ENV), (index + 1).to_string());
            }
        }
        stage.finish().await;
    }
}
