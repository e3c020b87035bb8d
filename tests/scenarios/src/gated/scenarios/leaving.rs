//! Gating is suspended, or its object deleted.

use serde_json::json;

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        b_a10_12_a_rollout_that_was_suspended_midway_is_pinned_where_it_has_got_to,
        b_a10_12_a_suspended_rollout_that_freezes_moves_nothing,
        b_a10_12_a_frozen_partition_is_restored_whoever_writes_it,
        b_a10_18_deleted_at_a_gate_the_set_rolls_on,
        b_a10_18_deleted_at_a_gate_the_set_freezes,
        b_a14_8_deleted_without_its_target_it_goes,
        b_a14_8_deleted_without_an_operator_it_waits_for_one,
    ]
}

async fn b_a10_12_a_rollout_that_was_suspended_midway_is_pinned_where_it_has_got_to(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-3"]);
    answers.hold(&["web-1", "web-2", "web-3"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 4), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2").held_at(1)).await;
    stage.gate_waits_for("web", 3, "ChecksFailing").await;
    stage.patch_spec("web", &json!({ "skipCheck": true })).await;
    stage.phase("web", "Suspended").await;
    stage.pod_is("web-1", "new and not Ready", |pod| pod.image == "app:v2" && !pod.ready).await;

    stage.patch_spec("web", &json!({ "skipCheck": false })).await;
    stage.gate_waits_for("web", 1, "PodsToBeAvailable").await;
    stage.set_is("web", "pinned", |set| set.partition == Some(1)).await;
    stage.afflict("web-1", None).await;
    let seen = stage.gate_waits_for("web", 1, "ChecksFailing").await;
    for pod in ["web-1", "web-2"] {
        assert!(seen.status.ungated_pods.iter().any(|ungated| ungated == pod), "{pod}: {seen:?}");
    }
    assert_eq!(stage.view().lives_of("web-0"), 1);
    answers.release(&["web-1", "web-2", "web-3"]);
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

async fn b_a10_12_a_suspended_rollout_that_freezes_moves_nothing(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    let _operator = stage.operator().await;
    let rollout = Rollout::new("web", &answers.url()).spec(&json!({ "suspendPolicy": "Freeze" }));
    stage.given_managed(&Set::new("web", 3), &rollout).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "ChecksFailing").await;
    stage.patch_spec("web", &json!({ "standardRollingUpdate": true })).await;
    stage.phase("web", "Suspended").await;
    answers.release(&["web-2"]);
    let asked = answers.queries().len();
    stage.patch_spec("web", &json!({ "standardRollingUpdate": false })).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert!(answers.queries().len() > asked);
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 3], "the partition kept its value");
    let ungated = stage.view().history["web"].iter().any(|past| !past.status.ungated_pods.is_empty());
    assert!(!ungated);
    stage.finish();
}

async fn b_a10_12_a_frozen_partition_is_restored_whoever_writes_it(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let rollout = Rollout::new("web", &answers.url())
        .spec(&json!({ "suspendPolicy": "Freeze", "standardRollingUpdate": true }));
    stage.given(&Set::new("web", 3)).await;
    stage.partition("web", 3, "somebody").await;
    stage.create(&rollout).await;
    stage.phase("web", "Suspended").await;
    stage.set_is("web", "taken", |set| set.managed_by.is_some()).await;
    for partition in [4, 0] {
        stage.partition("web", partition, "gitops").await;
        stage.set_is("web", "restored", |set| set.partition == Some(3) && set.is_ours()).await;
    }
    stage.event("web", "PartitionRestored", "gitops has set the partition to 0").await;
    stage.change_and_observe("web", &Template::new("v2")).await;
    stage.phase("web", "Suspended").await;
    assert_eq!(stage.lives(&["web-0", "web-1", "web-2"]), [1, 1, 1], "nothing has moved");
    assert_eq!(answers.queries().len(), 0);
    stage.patch_spec("web", &json!({ "standardRollingUpdate": false })).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

async fn b_a10_18_deleted_at_a_gate_the_set_rolls_on(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "ChecksFailing").await;
    stage.delete("web").await;
    stage.serves("web", "v2").await;
    let set = stage.set_is("web", "let go", |set| set.managed_by.is_none()).await;
    assert_eq!(set.partition.unwrap_or(0), 0);
    stage.finish();
}

async fn b_a10_18_deleted_at_a_gate_the_set_freezes(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    let _operator = stage.operator().await;
    let rollout = Rollout::new("web", &answers.url()).spec(&json!({ "deletionPolicy": "Freeze" }));
    stage.given_managed(&Set::new("web", 3), &rollout).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "ChecksFailing").await;
    stage.delete("web").await;
    let set = stage.set_is("web", "let go", |set| set.managed_by.is_none() && set.observed).await;
    assert_eq!(set.partition, Some(2));
    // Whoever comes next goes on from there.
    answers.release(&["web-2"]);
    stage.create(&rollout.named("next")).await;
    stage.updated("next").await;
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 3]);
    stage.finish();
}

async fn b_a14_8_deleted_without_its_target_it_goes(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 1), &Rollout::new("web", "prom:9090")).await;
    stage.delete_set("web").await;
    stage.phase("web", "ErrorSTSNotFound").await;
    stage.delete("web").await;
    stage.finish();
}

async fn b_a14_8_deleted_without_an_operator_it_waits_for_one(stage: Gated) {
    let account = stage.account("operator").await;
    let operator = stage.operator_of(&account);
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", "prom:9090")).await;
    operator.stop().await;
    stage.rollouts().delete("web", &kube::api::DeleteParams::default()).await.unwrap();
    stage
        .until("the deletion to be seen", |seen| match seen.rollouts.get("web") {
            Some(rollout) if rollout.deleting => Ok(()),
            seen => Err(format!("{seen:?}")),
        })
        .await;
    assert_eq!(stage.view().sets["web"].partition, Some(2));
    let _operator = stage.operator_of(&account);
    stage.set_is("web", "let go", |set| set.partition.unwrap_or(0) == 0 && set.managed_by.is_none()).await;
    stage
        .until("the object to be gone", |seen| match seen.rollouts.get("web") {
            None => Ok(()),
            Some(seen) => Err(format!("{seen:?}")),
        })
        .await;
    stage.finish();
}
