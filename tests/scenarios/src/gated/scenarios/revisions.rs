//! The template changes while it is rolled out, and rollouts that were there before the PhasedRollout.

use serde_json::json;
use sts_plus_api::phased_rollout::OnFailure;

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        b_i6_a_set_created_again_over_its_pods_is_rolled_gate_by_gate,
        b_i6_a_failed_gate_of_a_set_created_again_over_its_pods_pauses,
        b_a10_9_another_revision_midway_starts_anew,
        b_a10_10_a_revision_that_is_taken_back_midway_takes_its_pods_with_it,
        b_a10_11_a_rollout_that_runs_already_is_pinned_first,
        b_a10_26_an_operator_that_crashes_midway_goes_on_from_the_status,
        b_a14_7_a_template_right_after_the_end_of_a_rollout_is_gated,
    ]
}

async fn b_a10_9_another_revision_midway_starts_anew(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "ChecksFailing").await;
    let third = stage.change_and_observe("web", &Template::new("v3")).await;
    stage.rollout_is("web", "rolling v3", |seen| seen.status.update_revision.as_ref() == Some(&third)).await;
    answers.release(&["web-2"]);
    stage.updated("web").await;
    stage.serves("web", "v3").await;
    stage.event("web", "RolloutStarted", "replaces the one being rolled out").await;
    assert_eq!(stage.lives(&["web-0", "web-1"]), [2, 2], "v2 never got there");
    stage.finish();
}

async fn b_a10_10_a_revision_that_is_taken_back_midway_takes_its_pods_with_it(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-1", "web-2"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 1, "ChecksFailing").await;
    stage.change_and_observe("web", &Template::new("v1")).await;
    stage.updated("web").await;
    stage.serves("web", "v1").await;
    stage.event("web", "RolledBack", "All pods are back").await;
    assert_eq!(
        stage.lives(&["web-0", "web-1", "web-2"]),
        [1, 3, 3],
        "there and back, and the first was never touched"
    );
    stage.finish();
}

async fn b_a10_11_a_rollout_that_runs_already_is_pinned_first(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-3"]);
    let _operator = stage.operator().await;
    stage.given(&Set::new("web", 4)).await;
    stage.change("web", &Template::new("v2").held_at(3)).await;
    stage.pod_is("web-3", "new and not Ready", |pod| pod.image == "app:v2" && !pod.ready).await;
    stage.create(&Rollout::new("web", &answers.url())).await;
    stage.gate_waits_for("web", 3, "PodsToBeAvailable").await;
    stage.set_is("web", "pinned", |set| set.partition == Some(3)).await;
    stage.afflict("web-3", None).await;
    let seen = stage.gate_waits_for("web", 3, "ChecksFailing").await;
    assert_eq!(seen.status.ungated_pods, ["web-3"]);
    answers.release(&["web-3"]);
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 4]);
    stage.finish();
}

async fn b_a10_26_an_operator_that_crashes_midway_goes_on_from_the_status(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let gates: [&[&str]; 4] = [&[], &["web-2"], &["web-1", "web-2"], &["web-0", "web-1", "web-2"]];
    for updated in gates {
        answers.hold(updated);
    }
    let account = stage.account("operator").await;
    let mut operator = stage.operator_of(&account);
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    for (partition, updated) in [3, 2, 1, 0].into_iter().zip(gates) {
        stage.gate_waits_for("web", partition, "ChecksFailing").await;
        operator.crash().await;
        answers.release(updated);
        operator = stage.operator_of(&account);
    }
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 3], "as without crashes");
    stage.finish();
}

async fn b_a14_7_a_template_right_after_the_end_of_a_rollout_is_gated(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-0", "web-1"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    // All pods are new and the final gate has not passed: the partition is up again by now.
    stage.gate_waits_for("web", 0, "ChecksFailing").await;
    stage.set_is("web", "pinned", |set| set.partition == Some(2) && set.current == set.update).await;
    answers.hold(&[]);
    stage.change_and_observe("web", &Template::new("v3")).await;
    stage.gate_waits_for("web", 2, "ChecksFailing").await;
    assert_eq!(stage.lives(&["web-0", "web-1"]), [2, 2], "no pod of v3");
    answers.release(&[]);
    answers.release(&["web-0", "web-1"]);
    stage.updated("web").await;
    stage.serves("web", "v3").await;
    stage.finish();
}

/// A set whose pods wait at a gate of the set that was created again over them.
async fn created_again(stage: &Gated, rollout: &Rollout) {
    stage.given_managed(&Set::new("web", 3), rollout).await;
    stage.orphan_set("web").await;
    // Slow, so that the StatefulSet controller is not through before the partition is there.
    stage.create_set(&Set::new("web", 3).template(Template::new("v2").ready_after("2s"))).await;
}

async fn b_i6_a_set_created_again_over_its_pods_is_rolled_gate_by_gate(stage: Gated) {
    let answers = stage.answers(Says::something()).await;
    let account = stage.account("operator").await;
    let _operator = stage.operator_of(&account);
    created_again(&stage, &Rollout::new("web", &answers.url())).await;
    let seen = stage.waits_for("web", "ChecksFailing").await;
    assert_eq!(seen.phase(), "Rolling");
    {
        let view = stage.view();
        let set = &view.sets["web"];
        assert_eq!(set.current, set.update, "the set has never had another revision");
        // The StatefulSet controller may have replaced pods before the partition was there: those are reported.
        let replaced = view.pods_of("web").filter(|pod| pod.image == "app:v2").map(|pod| pod.name.clone());
        assert_eq!(seen.status.ungated_pods, replaced.collect::<Vec<_>>());
        assert!(view.pods_of("web").any(|pod| pod.image == "app:v1"), "the others wait for their gates");
    }
    answers.say(Says::Nothing);
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    let back =
        stage.view().history["web"].iter().any(|past| ["RollingBack", "RolledBack"].contains(&past.phase()));
    assert!(!back, "nothing was rolled back");
    assert_eq!(stage.lives(&["web-0", "web-1", "web-2"]), [2, 2, 2]);
    let deletions = stage.requests().await.iter().filter(|request| request.deletes_pod()).count();
    assert_eq!(deletions, 0, "the partition is the lever");
    stage.finish();
}

async fn b_i6_a_failed_gate_of_a_set_created_again_over_its_pods_pauses(stage: Gated) {
    let answers = stage.answers(Says::something()).await;
    let _operator = stage.operator().await;
    let rollout = Rollout::new("web", &answers.url())
        .spec(&json!({ "onFailure": "Rollback", "check": { "failureThreshold": 2 } }));
    created_again(&stage, &rollout).await;
    let failed = stage.phase("web", "Failed").await;
    let failure = failed.status.failure.unwrap();
    assert_eq!(failure.action, OnFailure::Pause);
    assert!(failed.status.message.unwrap().contains("the revision to restore is"));
    assert!(stage.view().pods_of("web").any(|pod| pod.image == "app:v1"));
    answers.say(Says::Nothing);
    stage.approve("web", &format!("{}/retry", failure.revision)).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}
