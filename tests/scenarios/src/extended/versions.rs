//! Versions: one after the other by each strategy, one that arrives midway, one that does not start.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_cluster::nodes::behaviour;
use sts_plus_harness::wait::{NotYet, until};

use super::manifest::{broken, healthy, held, scaled, template, with};
use super::scenarios;
use super::stage::{Extended, NAME};
use crate::cluster::Cluster;
use crate::observer::DEADLINE;
use crate::real::ZONES;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_z1_three_zones_go_through_three_versions_in_place,
        d_z8_three_zones_go_through_three_versions_blue_green,
        d_v1_one_place_goes_through_three_versions_by_each_strategy,
        d_v1_in_place_fields_that_the_server_drops_hold_nothing_up,
        d_v3_a_version_that_does_not_start_removes_nothing_and_can_be_superseded,
        d_v5_in_place_a_version_that_does_not_start_can_be_superseded,
        d_v5_in_place_a_first_version_that_is_never_ready_can_be_superseded,
        d_v6_a_third_version_that_arrives_midway_supersedes_both,
        d_v6_in_place_a_third_version_that_arrives_midway_is_rolled_out,
        d_v13_to_v17_what_is_no_change_writes_nothing,
        d_v16_an_edit_while_no_operator_runs_is_applied,
        d_v18_a_version_that_is_taken_back_makes_the_one_before_current_again,
        d_v22_a_version_that_crashes_before_its_soak_time_ends_removes_nothing,
    ]
}

async fn d_z1_three_zones_go_through_three_versions_in_place(cluster: Arc<dyn Cluster>, name: &'static str) {
    let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.create(json!({ "template": template("v1", 2), "zones": ZONES })).await;
    stage.ready(1, 6).await;
    let before = stage.uids();
    stage.edit(scaled(3)).await;
    stage.ready(1, 9).await;
    assert!(before.is_subset(&stage.uids()), "scaling restarts nobody");
    stage.edit(healthy("v2")).await;
    stage.ready(2, 9).await;
    assert!(before.is_disjoint(&stage.uids()));
    stage.restart().await;
    stage.edit(healthy("v3")).await;
    stage.ready(3, 9).await;
    stage.sets_are(["db-z0", "db-z1", "db-z2"].map(str::to_owned).into()).await;
    assert_eq!(stage.view().versions(NAME), [1, 2, 3]);
    let thrice = |lives: &Vec<String>| lives.len() == 3;
    assert!(stage.view().lives.values().all(thrice), "each pod once per version: {:?}", stage.view().lives);
    stage.finish().await;
}

async fn d_z8_three_zones_go_through_three_versions_blue_green(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::Fissile).await;
    stage.create(json!({ "template": template("v1", 2), "zones": ZONES })).await;
    stage.ready(1, 6).await;
    stage.edit(healthy("v2")).await;
    stage.restart().await;
    stage.ready(2, 6).await;
    stage.edit(healthy("v3")).await;
    let object = stage.ready(3, 6).await;
    stage.sets_are(["db-z0-v3", "db-z1-v3", "db-z2-v3"].map(str::to_owned).into()).await;
    assert_eq!(object.status.versions.len(), 1);
    assert_eq!(stage.view().versions(NAME), [1, 2, 3]);
    stage.finish().await;
}

async fn d_v1_one_place_goes_through_three_versions_by_each_strategy(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for (strategy, last) in [("InPlace", "db"), ("BlueGreen", "db-v3")] {
        for group in Group::ALL {
            let mut stage = Extended::new(&cluster, name, group).await;
            stage.view().min_ready = if group == Group::Fissile { 1 } else { 3 };
            stage
                .create(json!({ "template": template("v1", 3), "updateStrategy": { "type": strategy } }))
                .await;
            stage.ready(1, 3).await;
            for (version, image) in [(2, "v2"), (3, "v3")] {
                stage.edit(healthy(image)).await;
                stage.restart().await;
                stage.ready(version, 3).await;
            }
            stage.sets_are(BTreeSet::from([last.to_owned()])).await;
            assert_eq!(stage.view().versions(NAME), [1, 2, 3]);
            stage.finish().await;
        }
    }
}

async fn d_v3_a_version_that_does_not_start_removes_nothing_and_can_be_superseded(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::Fissile).await;
    stage.create(json!({ "template": template("v1", 2) })).await;
    stage.ready(1, 2).await;
    stage.edit(broken("bad")).await;
    stage.reports("VersionStarting").await;
    stage.restart().await;
    // The version that serves stays beside two that do not.
    stage.edit(broken("worse")).await;
    stage
        .object_is("at three versions", |object, _| {
            let running: Vec<_> =
                object.status.versions.iter().map(|version| (version.number, version.running)).collect();
            running == [(1, true), (2, false), (3, false)]
        })
        .await;
    stage.edit(healthy("v4")).await;
    stage.ready(4, 2).await;
    stage.sets_are(BTreeSet::from(["db-v4".to_owned()])).await;
    stage.finish().await;
}

async fn d_v5_in_place_a_version_that_does_not_start_can_be_superseded(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for zones in [json!([]), json!(ZONES)] {
        let stage = Extended::new(&cluster, name, Group::StsPlus).await;
        let pods = if zones == json!([]) { 3 } else { 9 };
        stage.create(json!({ "template": template("v1", 3), "zones": zones })).await;
        stage.ready(1, pods).await;
        stage.edit(broken("bad")).await;
        stage.reports("Rolling").await;
        // One pod is down, and no other one follows it.
        stage
            .until("a pod of the broken version", |seen| {
                let broken: Vec<_> = seen.pods.values().filter(|pod| !pod.pod.serves()).collect();
                let is_one = broken.len() == 1 && broken.iter().all(|pod| pod.pod.broken);
                if is_one { Ok(()) } else { Err(format!("{broken:?}")) }
            })
            .await;
        stage.edit(healthy("v3")).await;
        stage.ready(3, pods).await;
        stage.finish().await;
    }
}

/// The server drops fields that it does not know, and those of features that are off.
async fn d_v1_in_place_fields_that_the_server_drops_hold_nothing_up(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let mut template = template("v1", 3);
    template["spec"]["template"]["spec"]["noSuchField"] = json!("dropped");
    let strategy = json!({ "type": "InPlace", "maxUnavailable": 2 });
    stage.create(json!({ "template": template, "updateStrategy": strategy })).await;
    stage.ready(1, 3).await;
    for (version, image) in [(2, "v2"), (3, "v3")] {
        stage.edit(healthy(image)).await;
        stage.ready(version, 3).await;
    }
    stage.finish().await;
}

/// A spec of which each version needs all of its pods.
fn blue_green(version: &str, replicas: u32, zones: &Value) -> Value {
    json!({
        "template": template(version, replicas), "zones": zones,
        "updateStrategy": { "type": "BlueGreen", "blueGreen": { "minReady": "100%" } },
    })
}

async fn d_v6_a_third_version_that_arrives_midway_supersedes_both(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.view().min_ready = 2;
    stage.create(blue_green("v1", 2, &json!(ZONES))).await;
    stage.ready(1, 6).await;
    // The second version has come through its first zone only in part.
    stage.edit(held("v2", "1")).await;
    stage
        .until("one pod of the second version to be Ready", |seen| {
            let ready = seen.pods.get("db-z0-v2-0").is_some_and(|pod| pod.pod.serves());
            if ready { Ok(()) } else { Err(format!("{:?}", seen.set_names())) }
        })
        .await;
    stage.edit(held("v3", "1")).await;
    stage.restart().await;
    stage
        .object_is("starting the third version", |object, seen| {
            object.status.update_version == Some(3) && seen.pods.contains_key("db-z0-v3-1")
        })
        .await;
    // Neither of the unfinished versions has removed anything, nor reached another zone.
    let there = ["db-z0-v1", "db-z0-v2", "db-z0-v3", "db-z1-v1", "db-z2-v1"].map(str::to_owned);
    stage.sets_are(there.into()).await;
    stage.heal(&["db-z0-v3-1"]).await;
    for (pod, set) in [("db-z1-v3-1", "db-z1-v1"), ("db-z2-v3-1", "db-z2-v1")] {
        stage
            .until(&format!("{pod} to be there, and {set} beside it"), |seen| {
                let waits = seen.pods.contains_key(pod) && seen.sets.contains_key(set);
                if waits { Ok(()) } else { Err(format!("{:?}", seen.set_names())) }
            })
            .await;
        stage.heal(&[pod]).await;
    }
    stage.ready(3, 6).await;
    assert_eq!(stage.view().versions(NAME), [1, 2, 3]);
    stage.finish().await;
}

async fn d_v5_in_place_a_first_version_that_is_never_ready_can_be_superseded(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for zones in [json!([]), json!(["a"])] {
        let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
        let places = zones.as_array().map_or(0, Vec::len).max(1);
        let pods = 3 * u32::try_from(places).unwrap();
        // Its containers run. The pods after the first are not created before that is Ready.
        let never = json!({ "metadata": { "annotations": { behaviour::FAULT: "never-ready" } } });
        let template = with(template("v1", 3), &json!({ "spec": { "template": never } }));
        stage.create(json!({ "template": template, "zones": zones })).await;
        until(DEADLINE, "a pod of each zone to run", || async {
            let pods = stage.pods().list(&ListParams::default()).await?;
            let runs = |pod: &&Pod| {
                let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
                containers
                    .into_iter()
                    .flatten()
                    .any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
            };
            let running = pods.iter().filter(runs).count();
            if running == places { Ok(()) } else { Err(NotYet::saw(running)) }
        })
        .await;
        stage.restart().await;
        stage.edit(healthy("v2")).await;
        stage.ready(2, pods).await;
        stage.finish().await;
    }
}

async fn d_v6_in_place_a_third_version_that_arrives_midway_is_rolled_out(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for zones in [json!([]), json!(ZONES)] {
        let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
        let (pods, first) = if zones == json!([]) { (3, "db-2") } else { (9, "db-z0-0") };
        stage.create(json!({ "template": template("v1", 3), "zones": zones })).await;
        stage.ready(1, pods).await;
        stage.edit(held("v2", "1")).await;
        stage
            .until("the first pod to be of the second version", |seen| {
                let image = seen.pods.get(first).map(|pod| (pod.pod.image.as_str(), pod.pod.serves()));
                if image == Some(("app:v2", true)) { Ok(()) } else { Err(format!("{image:?}")) }
            })
            .await;
        stage.edit(healthy("v3")).await;
        stage.restart().await;
        stage.ready(3, pods).await;
        let images: BTreeSet<_> = stage.view().pods.values().map(|pod| pod.pod.image.clone()).collect();
        assert_eq!(images, BTreeSet::from(["app:v3".to_owned()]));
        assert_eq!(stage.view().versions(NAME), [1, 2, 3]);
        stage.finish().await;
    }
}

async fn d_v13_to_v17_what_is_no_change_writes_nothing(cluster: Arc<dyn Cluster>, name: &'static str) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        let spec = json!({ "template": template("v1", 2), "zones": ZONES });
        stage.create(spec.clone()).await;
        stage.ready(1, 6).await;
        let before = stage.uids();
        // What a rollout group reports on its sets is its own, and may come later.
        let content = |stage: &Extended| {
            let sets = stage.view().sets.clone();
            let hash = group.key(sts_plus_api::keys::CONTENT_HASH);
            sets.into_values()
                .map(|set| (set.uid, set.number, set.replicas, set.annotations[&hash].clone()))
                .collect::<Vec<_>>()
        };
        let sets = content(&stage);
        let wrote = |requests: Vec<crate::cluster::Request>| {
            // Whoever takes over writes no events, and what is observed anew is written once.
            let writes =
                requests.into_iter().filter(|request| request.wrote() && request.resource != "events");
            writes.map(|request| (request.verb, request.resource, request.name)).collect::<Vec<_>>()
        };
        stage.groups_are_up_to_date().await;
        let at_first = wrote(stage.requests().await);
        stage.edit(spec).await;
        stage
            .patch(NAME, json!({ "metadata": { "labels": { "team": "a" }, "annotations": { "note": "b" } } }))
            .await;
        stage.restart().await;
        stage.planned().await;
        stage.ready(1, 6).await;
        assert_eq!(wrote(stage.requests().await), at_first);
        assert_eq!(stage.uids(), before);
        assert_eq!(content(&stage), sets);
        // Scaling is a change, and of the same version.
        stage.edit(scaled(3)).await;
        stage.ready(1, 9).await;
        assert!(before.is_subset(&stage.uids()));
        stage.finish().await;
    }
}

async fn d_v16_an_edit_while_no_operator_runs_is_applied(cluster: Arc<dyn Cluster>, name: &'static str) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        stage.create(json!({ "template": template("v1", 2) })).await;
        stage.ready(1, 2).await;
        stage.stop().await;
        stage.edit(healthy("skipped")).await;
        stage.edit(healthy("v2")).await;
        stage.restart().await;
        stage.ready(2, 2).await;
        assert!(stage.view().pods.values().all(|pod| pod.pod.image == "app:v2"));
        stage.finish().await;
    }
}

async fn d_v18_a_version_that_is_taken_back_makes_the_one_before_current_again(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.view().min_ready = 2;
    stage.create(blue_green("v1", 2, &json!([]))).await;
    stage.ready(1, 2).await;
    let before = stage.uids();
    stage.edit(held("v2", "1")).await;
    stage.object_is("starting version 2", |object, _| object.status.versions.len() == 2).await;
    stage.edit(healthy("v1")).await;
    stage.ready(1, 2).await;
    assert_eq!(stage.uids(), before, "the pods of the first version are left alone");
    assert_eq!(stage.view().versions(NAME), [1, 2, 1]);
    // Its content is gone with its set, and no number is used twice.
    stage.edit(healthy("v2")).await;
    stage.ready(3, 2).await;
    stage.finish().await;
}

async fn d_v22_a_version_that_crashes_before_its_soak_time_ends_removes_nothing(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.view().min_ready = 2;
    let mut spec = blue_green("v1", 2, &json!([]));
    // Much longer than the scenario takes on any cluster before the pod crashes.
    spec["updateStrategy"]["blueGreen"]["soakSeconds"] = json!(100_000);
    stage.create(spec).await;
    stage
        .until("the first version to serve", |seen| {
            let serving = seen.pods.values().filter(|pod| pod.pod.serves()).count();
            if serving == 2 { Ok(()) } else { Err(format!("{serving}")) }
        })
        .await;
    stage.edit(healthy("v2")).await;
    let serve = |pods: usize| {
        move |seen: &super::seen::Seen| {
            let new = seen.pods.values().filter(|pod| pod.pod.image == "app:v2" && pod.pod.serves());
            let serving = new.count();
            if serving == pods { Ok(()) } else { Err(format!("{serving}")) }
        }
    };
    stage.until("both pods of the second version to be Ready", serve(2)).await;
    stage.set_fault("db-v2-1", Some("crash-loop")).await;
    stage.until("one of them to crash", serve(1)).await;
    stage.reports("VersionStarting").await;
    stage.sets_are(["db-v1", "db-v2"].map(str::to_owned).into()).await;
    stage.edit(json!({ "updateStrategy": { "blueGreen": { "soakSeconds": 0 } } })).await;
    stage.heal(&["db-v2-1"]).await;
    stage.ready(2, 2).await;
    stage.finish().await;
}
