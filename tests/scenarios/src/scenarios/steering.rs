//! The user steers: pauses, limits, takes sets in and out, makes mistakes.

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::shell::cache::Scope;

use super::{Place, Scenario, scenarios};
use crate::fixture::{GROUP, Template, Zone, three_zones};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::scene::Scene;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![Place::Shared;
        every_invalid_max_unavailable_means_1_and_a_warning,
        e_r25_a_paused_zone_is_passed_over_and_goes_on_by_itself_when_resumed,
        a_zone_paused_in_the_middle_keeps_its_pods_and_the_others_go_on,
        e_g3_a_paused_unhealthy_zone_blocks_the_others,
        e_r1_a_set_that_is_not_on_delete_keeps_its_group_from_being_rolled,
        e_g7_a_debug_copy_with_the_same_labels_survives,
        two_groups_whose_selectors_overlap_are_rolled_each_by_itself,
        sets_without_replicas_and_groups_of_one_set_are_rolled,
        the_empty_group_is_a_group,
        e_r23_a_set_that_leaves_its_group_is_let_go,
        an_operator_for_some_namespaces_leaves_the_others_alone,
    ]
}

async fn e_r25_a_paused_zone_is_passed_over_and_goes_on_by_itself_when_resumed(scene: Scene) {
    let mut zones = three_zones(3);
    zones[1] = zones[1].clone().paused();
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&[zones[0].clone(), zones[2].clone()], "v2").await;
    scene.says("zone-b", "Paused").await;
    assert!(scene.view().deleted_of("zone-b").is_empty());

    scene.annotate_set("zone-b", keys::PAUSED, None).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.finish().await, 9);
}

async fn a_zone_paused_in_the_middle_keeps_its_pods_and_the_others_go_on(scene: Scene) {
    let zones = three_zones(3);
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&[zones[1].clone()], &Template::new("v2").held_at(1)).await;
    scene.pod_is("zone-b-1", "new and not Ready", |pod| pod.image == "app:v2" && !pod.ready).await;
    scene.change(&[zones[0].clone(), zones[2].clone()], &Template::new("v2")).await;
    scene.annotate_set("zone-b", keys::PAUSED, Some("true")).await;
    scene.says("zone-b", "Paused").await;
    scene.says("zone-c", "OtherSetNotReady").await;
    scene.afflict("zone-b-1", None).await;
    scene.rolled(&[zones[0].clone(), zones[2].clone()], "v2").await;
    assert_eq!(scene.view().deleted_of("zone-b"), ["zone-b-0", "zone-b-1"]);

    scene.annotate_set("zone-b", keys::PAUSED, Some("false")).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.finish().await, 9);
}

async fn e_g3_a_paused_unhealthy_zone_blocks_the_others(scene: Scene) {
    let mut zones = three_zones(2);
    zones[0] = zones[0].clone().paused();
    scene.given(&zones).await;
    scene.afflict("zone-a-1", Some("never-ready")).await;
    scene.pod_is("zone-a-1", "not Ready", |pod| !pod.ready).await;
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    let _operator = scene.operator().await;
    scene.says("zone-a", "Paused").await;
    let words = scene.says("zone-b", "OtherSetNotReady").await;
    assert!(words.contains("zone-a-1 is not Ready"), "{words}");
    assert!(scene.view().deletions.is_empty());

    scene.afflict("zone-a-1", None).await;
    scene.rolled(&zones[1..], "v2").await;
    assert!(scene.view().deleted_of("zone-a").is_empty());
    assert_eq!(scene.finish().await, 4);
}

async fn e_r1_a_set_that_is_not_on_delete_keeps_its_group_from_being_rolled(scene: Scene) {
    let mut zones = three_zones(2);
    zones[1] = zones[1].clone().rolling_update();
    scene.given(&zones).await;
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    let operator = scene.operator().await;
    for zone in &zones {
        let words = scene.says(zone.name(), "GroupSkipped").await;
        assert!(words.contains("the update strategy of zone-b is RollingUpdate"), "{words}");
        assert_eq!(scene.event(zone.name(), "Warning", "GroupSkipped").await, words);
    }
    assert!(scene.view().deletions.is_empty());
    let failed = format!(
        "rollout_operator_group_reconciles_failed_total{{namespace=\"{}\",rollout_group=\"{GROUP}\"}}",
        scene.namespace
    );
    // Counted at the end of a pass, whose events may be there before that.
    until(DEADLINE, format!("{failed} to be counted"), || async {
        let page = operator.metrics();
        let failures = page.lines().find_map(|line| line.strip_prefix(&failed)).map(str::trim);
        if failures.is_some_and(|failures| failures != "0") { Ok(()) } else { Err(NotYet::saw(page)) }
    })
    .await;

    let on_delete = json!({ "spec": { "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } } });
    scene.patch_set("zone-b", &on_delete).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.finish().await, 6);
}

async fn e_g7_a_debug_copy_with_the_same_labels_survives(scene: Scene) {
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)];
    scene.given(&zones).await;
    let copy: Pod = serde_json::from_value(json!({
        "metadata": { "name": "zone-a-debug", "labels": { "app": "zone-a" } },
        "spec": { "containers": [{ "name": "main", "image": "app:v1" }] },
    }))
    .unwrap();
    scene.pods().create(&PostParams::default(), &copy).await.unwrap();
    scene.pod_is("zone-a-debug", "there", |pod| pod.ready).await;
    let uid = scene.view().pods["zone-a-debug"].uid.clone();
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.view().pods["zone-a-debug"].uid, uid);
    assert_eq!(scene.finish().await, 4);
}

async fn two_groups_whose_selectors_overlap_are_rolled_each_by_itself(scene: Scene) {
    let left =
        [Zone::new("left-a", 2), Zone::new("left-b", 2)].map(|zone| zone.in_group("left").app("shared"));
    let right = [Zone::new("right-a", 2)].map(|zone| zone.in_group("right").app("shared"));
    let zones = [&left[..], &right[..]].concat();
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    for (set, other) in [("left-a", "right-a"), ("right-a", "left-b")] {
        let words = scene.event(set, "Warning", "SelectorOverlap").await;
        assert!(words.contains("The selector also matches the pods of"), "{other}: {words}");
    }
    assert_eq!(scene.finish().await, 6);
}

async fn sets_without_replicas_and_groups_of_one_set_are_rolled(scene: Scene) {
    let zones = [Zone::new("zone-a", 0), Zone::new("zone-b", 2), Zone::new("alone", 2).in_group("alone")];
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.finish().await, 4);
}

async fn the_empty_group_is_a_group(scene: Scene) {
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)].map(|zone| zone.in_group(""));
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.finish().await, 4);
}

async fn every_invalid_max_unavailable_means_1_and_a_warning(scene: Scene) {
    let values = ["0", "-1", "+2", "xxx", "", "2.0", "0%", "300%", "12.5%", "-5%", "4294967296"];
    let numbered = values.iter().enumerate();
    let zones: Vec<_> = numbered
        .map(|(number, value)| Zone::new(&format!("zone-{number}"), 2).max_unavailable(value))
        .collect();
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2").ready_after("50ms")).await;
    scene.rolled(&zones, "v2").await;
    for (zone, value) in zones.iter().zip(values) {
        let words = scene.event(zone.name(), "Warning", "InvalidMaxUnavailable").await;
        assert!(words.contains(&format!("{value:?}")) && words.contains("1 is used"), "{words}");
        assert_eq!(scene.view().widest[zone.name()], 1, "{value:?}");
    }
    assert_eq!(scene.finish().await, 2 * values.len());
}

async fn e_r23_a_set_that_leaves_its_group_is_let_go(scene: Scene) {
    let zones = three_zones(1);
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.says("zone-c", "UpToDate").await;
    scene.patch_set("zone-c", &json!({ "metadata": { "labels": { keys::ROLLOUT_GROUP: null } } })).await;
    scene
        .until("the status to be taken from zone-c", |view| match view.state_of("zone-c") {
            None => Ok(()),
            Some(told) => Err(format!("{told:?}")),
        })
        .await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones[..2], "v2").await;
    assert_eq!(scene.view().pods["zone-c-0"].image, "app:v1");
    assert_eq!(scene.view().state_of("zone-c"), None);
    assert_eq!(scene.finish().await, 2);
}

async fn an_operator_for_some_namespaces_leaves_the_others_alone(scene: Scene) {
    let elsewhere = Scene::new(&scene.cluster, "elsewhere").await;
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)];
    for scene in [&scene, &elsewhere] {
        scene.given(&zones).await;
        scene.change_and_observe(&zones, &Template::new("v2")).await;
    }
    let account = scene.account("operator").await;
    let everywhere = crate::rules::by_default();
    scene.cluster.grant(&account, None, everywhere).await.unwrap();
    let scope = Scope::Namespaces(vec![scene.namespace.clone()]);
    let operator = Operator::start(&scene.cluster.outside(), account.client.clone(), scope, "operator");
    scene.rolled(&zones, "v2").await;
    operator.stop().await;

    let astray: Vec<_> =
        scene.requests().await.into_iter().filter(|request| request.namespace != scene.namespace).collect();
    assert!(astray.is_empty(), "{astray:?}");
    assert!(elsewhere.view().sets.values().all(|set| set.told.is_none()));
    assert_eq!(elsewhere.view().pods["zone-a-0"].image, "app:v1");
    assert_eq!(elsewhere.finish().await, 0);
    assert_eq!(scene.finish().await, 4);
}
