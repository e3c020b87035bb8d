//! Something is down: the rollout waits, says for what, and goes on by itself.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use sts_plus_harness::wait::{NotYet, until};

use super::{Place, Scenario, scenarios};
use crate::fixture::{Template, Zone, three_zones};
use crate::observer::DEADLINE;
use crate::scene::Scene;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![Place::Shared;
        e_g4_a_broken_rollout_stops_at_its_first_pod_and_heals_with_its_template,
        e_g1_a_zone_that_lacks_a_pod_because_of_a_quota_blocks_the_others,
        a_zone_that_is_not_ready_blocks_the_others_until_it_heals,
        e_r15_pods_that_are_down_already_spend_the_budget,
        a_pod_of_another_zone_that_does_not_go_away_blocks_the_rollout,
        a_rolled_pod_that_does_not_go_away_holds_the_rollout,
        a_set_whose_pods_cannot_be_created_blocks_the_others,
    ]
}

async fn e_g4_a_broken_rollout_stops_at_its_first_pod_and_heals_with_its_template(scene: Scene) {
    let zones = three_zones(5);
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2").fault("crash-loop")).await;
    let words = scene.says("zone-a", "PodBroken").await;
    assert!(words.contains("zone-a-0 waits in CrashLoopBackOff"), "{words}");
    assert_eq!(scene.event("zone-a", "Warning", "PodBroken").await, words);
    for zone in ["zone-b", "zone-c"] {
        let words = scene.says(zone, "WaitingForTurn").await;
        assert!(words.contains("zone-a"), "{words}");
    }
    assert_eq!(scene.view().deletions.len(), 1, "only the first pod of the first zone is affected");

    scene.change(&zones, &Template::new("v3")).await;
    scene.rolled(&zones, "v3").await;
    assert_eq!(scene.view().deletions[1].pod.name, "zone-a-0", "the broken pod goes first");
    assert_eq!(scene.finish().await, 16);
}

async fn e_g1_a_zone_that_lacks_a_pod_because_of_a_quota_blocks_the_others(scene: Scene) {
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)];
    scene.given(&zones).await;
    let quotas = Api::<ResourceQuota>::namespaced(scene.cluster.user(), &scene.namespace);
    let quota = json!({ "metadata": { "name": "pods" }, "spec": { "hard": { "pods": "4" } } });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    until(DEADLINE, "the quota to be known", || async {
        let status = quotas.get("pods").await?.status;
        let used = status.as_ref().and_then(|status| status.used.as_ref()?.get("pods"));
        // Admission may know the quota later than its controller has counted for it.
        let probe = json!({ "metadata": { "name": "probe" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let refuses = scene.pods().create(&parameters, &serde_json::from_value(probe)?).await.is_err();
        let known = refuses && used.is_some_and(|used| used.0 == "4");
        if known { Ok(()) } else { Err(NotYet::saw(status)) }
    })
    .await;
    scene.patch_set("zone-a", &json!({ "spec": { "replicas": 3 } })).await;
    scene
        .until("zone-a to be observed", |view| {
            let set = &view.sets["zone-a"];
            if set.replicas == 3 && set.observed { Ok(()) } else { Err(format!("{set:?}")) }
        })
        .await;
    scene.change_and_observe(&zones[1..], &Template::new("v2")).await;
    let _operator = scene.operator().await;
    let words = scene.says("zone-b", "OtherSetNotReady").await;
    assert!(words.contains("zone-a-2 does not exist"), "{words}");
    scene.says("zone-a", "NotReady").await;
    assert!(scene.view().deletions.is_empty());

    quotas.delete("pods", &DeleteParams::default()).await.unwrap();
    scene.rolled(&zones[1..], "v2").await;
    scene.rolled(&zones[..1], "v1").await;
    assert_eq!(scene.finish().await, 2);
}

async fn a_zone_that_is_not_ready_blocks_the_others_until_it_heals(scene: Scene) {
    let zones = three_zones(3);
    scene.given(&zones).await;
    scene.afflict("zone-b-1", Some("never-ready")).await;
    scene.pod_is("zone-b-1", "not Ready", |pod| !pod.ready).await;
    scene.change_and_observe(&zones[..1], &Template::new("v2")).await;
    let _operator = scene.operator().await;
    let words = scene.says("zone-a", "OtherSetNotReady").await;
    assert!(words.contains("zone-b-1 is not Ready"), "{words}");
    assert_eq!(scene.event("zone-a", "Warning", "OtherSetNotReady").await, words);
    scene.says("zone-b", "NotReady").await;
    assert!(scene.view().deletions.is_empty());

    scene.afflict("zone-b-1", None).await;
    scene.rolled(&zones[..1], "v2").await;
    scene.rolled(&zones[1..], "v1").await;
    assert_eq!(scene.finish().await, 3);
}

async fn e_r15_pods_that_are_down_already_spend_the_budget(scene: Scene) {
    let zones = three_zones(3);
    scene.given(&zones).await;
    scene.afflict("zone-b-0", Some("stuck-terminating")).await;
    scene.delete_pod("zone-b-0", &DeleteParams::default()).await;
    scene.pod_is("zone-b-0", "terminating", |pod| pod.deleted_at.is_some()).await;
    scene.afflict("zone-b-1", Some("never-ready")).await;
    scene.pod_is("zone-b-1", "not Ready", |pod| !pod.ready).await;
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    let _operator = scene.operator().await;
    let words = scene.says("zone-b", "BudgetSpent").await;
    assert!(words.contains("zone-b-0 is terminating, zone-b-1 is not Ready"), "{words}");
    for zone in ["zone-a", "zone-c"] {
        scene.says(zone, "WaitingForTurn").await;
    }
    assert!(scene.view().deletions.is_empty());

    scene.afflict("zone-b-0", None).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.view().deletions[0].pod.name, "zone-b-1", "it runs, and would never be Ready");
    assert_eq!(scene.finish().await, 8);
}

async fn a_pod_of_another_zone_that_does_not_go_away_blocks_the_rollout(scene: Scene) {
    let zones = three_zones(2);
    scene.given(&zones).await;
    scene.afflict("zone-b-0", Some("stuck-terminating")).await;
    scene.delete_pod("zone-b-0", &DeleteParams::default()).await;
    scene.pod_is("zone-b-0", "terminating", |pod| pod.deleted_at.is_some()).await;
    scene.change_and_observe(&zones[..1], &Template::new("v2")).await;
    let _operator = scene.operator().await;
    let words = scene.says("zone-a", "OtherSetNotReady").await;
    assert!(words.contains("zone-b-0 is terminating"), "{words}");
    assert!(scene.view().deletions.is_empty());

    scene.afflict("zone-b-0", None).await;
    scene.rolled(&zones[..1], "v2").await;
    assert_eq!(scene.finish().await, 2);
}

async fn a_rolled_pod_that_does_not_go_away_holds_the_rollout(scene: Scene) {
    let zones = three_zones(2);
    scene.given(&zones).await;
    scene.afflict("zone-a-0", Some("stuck-terminating")).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.pod_is("zone-a-0", "terminating", |pod| pod.deleted_at.is_some()).await;
    scene.says("zone-a", "Rolling").await;
    for zone in ["zone-b", "zone-c"] {
        scene.says(zone, "WaitingForTurn").await;
    }
    let reports = super::telling::reports(&scene).await;
    assert_eq!(reports[0].down, "zone-a-0 is terminating");
    assert_eq!(scene.view().deletions.len(), 1);

    scene.afflict("zone-a-0", None).await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.finish().await, 6);
}

async fn a_set_whose_pods_cannot_be_created_blocks_the_others(scene: Scene) {
    let without = Zone::new("zone-a", 2).template(Template::new("v1").impossible());
    let zones = [without, Zone::new("zone-b", 2)];
    scene.create(&zones[0]).await;
    scene.create(&zones[1]).await;
    scene.served(&zones[1..], "v1").await;
    scene.change_and_observe(&zones[1..], &Template::new("v2")).await;
    let _operator = scene.operator().await;
    let words = scene.says("zone-b", "OtherSetNotReady").await;
    assert!(words.contains("zone-a-0 does not exist, zone-a-1 does not exist"), "{words}");
    assert!(scene.view().deletions.is_empty());

    scene.change(&zones[..1], &Template::new("v1")).await;
    scene.rolled(&zones[..1], "v1").await;
    scene.rolled(&zones[1..], "v2").await;
    assert_eq!(scene.finish().await, 2);
}
