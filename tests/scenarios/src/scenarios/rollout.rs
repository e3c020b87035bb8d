//! Rollouts that go well.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use kube::api::DeleteParams;
use serde_json::json;

use super::{Place, Scenario, scenarios};
use crate::fixture::{Template, Zone, three_zones};
use crate::scene::Scene;
use crate::view::Pod;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![Place::Shared;
        e_g25_a_pod_counts_only_after_min_ready_seconds,
        three_zones_of_five_pods_are_rolled_one_zone_at_a_time,
        a_rollout_is_rolled_back_midway,
        e_r6_max_unavailable_3_rolls_three_pods_of_a_zone_in_parallel,
        e_r30_max_unavailable_40_percent_of_five_is_two,
        e_r28_zone_2_comes_before_zone_10,
        e_r17_the_current_revision_is_promoted_when_all_pods_have_it,
        zones_are_scaled_during_a_rollout,
    ]
}

async fn three_zones_of_five_pods_are_rolled_one_zone_at_a_time(scene: Scene) {
    let zones: Vec<_> = three_zones(5).into_iter().map(Zone::ordered).collect();
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(
        deleted(&scene),
        zones.iter().flat_map(Zone::pods).collect::<Vec<_>>(),
        "zone after zone, the lowest ordinal first"
    );
    assert_eq!(scene.finish().await, 15);
}

async fn a_rollout_is_rolled_back_midway(scene: Scene) {
    let zones = three_zones(5);
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene
        .until("the rollout to be in its second zone", |view| match view.deleted_of("zone-b").len() {
            0 | 1 => Err(format!("{:?}", view.deletions)),
            _ => Ok(()),
        })
        .await;
    scene.change(&zones, &Template::new("v1")).await;
    scene.rolled(&zones, "v1").await;

    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for pod in deleted(&scene) {
        *times.entry(pod).or_default() += 1;
    }
    assert!(zones[0].pods().all(|pod| times[&pod] == 2), "there and back: {times:?}");
    assert!(times.values().all(|times| *times <= 2), "{times:?}");
    let once = times.values().filter(|&&times| times == 1).count();
    assert!(once <= 1, "one may have been on its way out when the template changed back: {times:?}");
    scene.finish().await;
}

async fn e_r6_max_unavailable_3_rolls_three_pods_of_a_zone_in_parallel(scene: Scene) {
    let zones: Vec<_> = three_zones(5).into_iter().map(|zone| zone.max_unavailable("3")).collect();
    parallel(scene, &zones, 3).await;
}

async fn e_r30_max_unavailable_40_percent_of_five_is_two(scene: Scene) {
    let zones: Vec<_> = three_zones(5).into_iter().map(|zone| zone.max_unavailable("40%")).collect();
    parallel(scene, &zones, 2).await;
}

async fn parallel(scene: Scene, zones: &[Zone], width: usize) {
    scene.given(zones).await;
    let _operator = scene.operator().await;
    // Slow enough that the pods of one batch are down together, whatever the machine does.
    scene.change(zones, &Template::new("v2").ready_after("500ms")).await;
    scene.rolled(zones, "v2").await;
    for zone in zones {
        assert_eq!(scene.view().widest[zone.name()], width, "{}", zone.name());
    }
    assert_eq!(scene.finish().await, 15);
}

async fn e_g25_a_pod_counts_only_after_min_ready_seconds(scene: Scene) {
    const MIN_READY: u32 = 2;
    let zones =
        [Zone::new("zone-a", 2), Zone::new("zone-b", 1)].map(|zone| zone.min_ready_seconds(MIN_READY));
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    for deletion in &scene.view().deletions {
        let settled = deletion.others_ready_since.unwrap() + SignedDuration::from_secs(MIN_READY.into());
        assert!(deletion.at.unwrap() >= settled, "{deletion:?}");
    }
    assert_eq!(scene.finish().await, 3);
}

async fn e_r28_zone_2_comes_before_zone_10(scene: Scene) {
    let zones = ["z-10", "z-2", "z-1"].map(|name| Zone::new(name, 1));
    scene.given(&zones).await;
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    let _operator = scene.operator().await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(deleted(&scene), ["z-1-0", "z-2-0", "z-10-0"]);
    assert_eq!(scene.finish().await, 3);
}

async fn e_r17_the_current_revision_is_promoted_when_all_pods_have_it(scene: Scene) {
    let zones = [Zone::new("zone-a", 2)];
    scene.given(&zones).await;
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    for pod in zones[0].pods() {
        scene.delete_pod(&pod, &DeleteParams::default()).await;
    }
    scene.served(&zones, "v2").await;
    let set = scene.view().sets["zone-a"].clone();
    assert_ne!(set.current_revision, set.update_revision, "nobody does it for sets with OnDelete");

    let _operator = scene.operator().await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.finish().await, 0);
}

async fn zones_are_scaled_during_a_rollout(scene: Scene) {
    let zones = three_zones(3);
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones[..1], &Template::new("v2").held_at(1)).await;
    scene.change(&zones[1..], &Template::new("v2")).await;
    scene.pod_is("zone-a-1", "new and not Ready", |pod| pod.image == "app:v2" && !pod.ready).await;
    scene.patch_set("zone-b", &json!({ "spec": { "replicas": 5 } })).await;
    scene.patch_set("zone-c", &json!({ "spec": { "replicas": 2 } })).await;
    for pod in ["zone-b-3", "zone-b-4"] {
        scene.pod_is(pod, "there", Pod::serves).await;
    }
    scene
        .until("zone-c-2 to be gone", |view| match view.pods.get("zone-c-2") {
            None => Ok(()),
            Some(pod) => Err(format!("{pod:?}")),
        })
        .await;
    assert_eq!(deleted(&scene), ["zone-a-0", "zone-a-1"]);
    scene.afflict("zone-a-1", None).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(
        scene.view().deleted_of("zone-b"),
        ["zone-b-0", "zone-b-1", "zone-b-2"],
        "the others were new"
    );
    assert_eq!(scene.view().deleted_of("zone-c"), ["zone-c-0", "zone-c-1"]);
    assert_eq!(scene.finish().await, 8);
}

fn deleted(scene: &Scene) -> Vec<String> {
    scene.view().deletions.iter().map(|deletion| deletion.pod.name.clone()).collect()
}
