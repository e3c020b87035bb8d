//! The replicas change, at rest and midway.

use serde_json::json;

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        b_a10_5_replicas_that_are_raised_at_rest_raise_the_partition,
        b_a10_5_pods_that_came_with_the_template_are_told_as_ungated,
        b_a10_6_replicas_that_are_raised_midway_begin_the_gate_anew,
        b_a10_7_replicas_that_are_lowered_midway_leave_no_empty_gates,
        b_a10_8_a_set_goes_to_zero_and_comes_back,
        b_a10_8_a_set_goes_to_zero_midway_and_comes_back,
        a_set_of_one_pod_is_gated_before_and_after_it,
    ]
}

async fn scale(stage: &Gated, replicas: u32) {
    stage.patch_set("web", &json!({ "spec": { "replicas": replicas } })).await;
}

async fn b_a10_5_replicas_that_are_raised_at_rest_raise_the_partition(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", &answers.url())).await;
    scale(&stage, 4).await;
    stage.serves("web", "v1").await;
    stage.updated("web").await;
    scale(&stage, 1).await;
    stage.serves("web", "v1").await;
    stage.updated("web").await;
    assert_eq!(stage.view().partitions["web"], [0, 2, 4, 1]);
    assert!(answers.queries().is_empty(), "scaling is no rollout");
    stage.finish();
}

async fn b_a10_5_pods_that_came_with_the_template_are_told_as_ungated(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    let account = stage.account("operator").await;
    let operator = stage.operator_of(&account);
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", &answers.url())).await;
    // With an operator that is away the new pod is there first.
    operator.crash().await;
    let template = Template::new("v2");
    stage.patch_set("web", &json!({ "spec": { "replicas": 3, "template": template.patch() } })).await;
    stage.pod_is("web-2", "there in v2", |pod| pod.serves() && pod.image == "app:v2").await;
    let _operator = stage.operator_of(&account);
    let seen = stage.waits_for("web", "ChecksFailing").await;
    assert_eq!(seen.status.ungated_pods, ["web-2"]);
    assert_eq!(stage.lives(&["web-0", "web-1"]), [1, 1]);
    answers.release(&["web-2"]);
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

async fn b_a10_6_replicas_that_are_raised_midway_begin_the_gate_anew(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    answers.hold(&["web-2", "web-3", "web-4"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "ChecksFailing").await;
    scale(&stage, 5).await;
    let seen = stage
        .rollout_is("web", "at a gate of five", |seen| {
            let gate = seen.status.rolling_pod_status.as_ref();
            gate.is_some_and(|gate| gate.replicas == 5 && gate.consecutive_failed_checks > 0)
        })
        .await;
    assert_eq!(seen.status.rolling_pod_status.unwrap().partition, 2);
    for pod in ["web-3", "web-4"] {
        stage.pod_is(pod, "there in v2", |pod| pod.serves() && pod.image == "app:v2").await;
    }
    answers.release(&["web-2", "web-3", "web-4"]);
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 5]);
    stage.finish();
}

async fn b_a10_7_replicas_that_are_lowered_midway_leave_no_empty_gates(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-4"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 5), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 4, "ChecksFailing").await;
    scale(&stage, 2).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().partitions["web"], [0, 5, 4, 2, 1, 0, 2]);
    stage.finish();
}

async fn b_a10_8_a_set_goes_to_zero_and_comes_back(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 0), &Rollout::new("web", &answers.url())).await;
    scale(&stage, 2).await;
    stage.serves("web", "v1").await;
    stage.updated("web").await;
    scale(&stage, 0).await;
    stage.serves("web", "v1").await;
    stage.updated("web").await;
    // With no pod there is nothing to gate but the end.
    stage.change_and_observe("web", &Template::new("v2")).await;
    stage.updated("web").await;
    scale(&stage, 2).await;
    stage.serves("web", "v2").await;
    stage.updated("web").await;
    stage.finish();
}

async fn b_a10_8_a_set_goes_to_zero_midway_and_comes_back(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-2"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 2, "ChecksFailing").await;
    scale(&stage, 0).await;
    stage.updated("web").await;
    scale(&stage, 3).await;
    stage.serves("web", "v2").await;
    stage.updated("web").await;
    stage.finish();
}

async fn a_set_of_one_pod_is_gated_before_and_after_it(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&[]);
    answers.hold(&["web-0"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 1), &Rollout::new("web", &answers.url())).await;
    stage.change("web", &Template::new("v2")).await;
    stage.gate_waits_for("web", 1, "ChecksFailing").await;
    assert_eq!(stage.view().lives_of("web-0"), 1);
    answers.release(&[]);
    stage.gate_waits_for("web", 0, "ChecksFailing").await;
    assert_eq!(stage.view().lives_of("web-0"), 2);
    answers.release(&["web-0"]);
    stage.updated("web").await;
    stage.finish();
}
