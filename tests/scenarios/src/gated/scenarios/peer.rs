//! What the tests of the operator that phased rollouts come from show, here with the real StatefulSet controller. As
//! there, a check passes when data is returned.

use kube::api::PostParams;
use serde_json::{Value, json};
use sts_plus_api::conditions::{READY, Truth, UPDATED};
use sts_plus_api::keys;
use sts_plus_api::phased_rollout::GateState;

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        b_a13_10_to_17_a_rollout_goes_through_errors_and_failures,
        b_a13_1_a_negative_delay_is_refused,
        b_a13_2_a_missing_target_is_told,
        b_a13_3_a_set_with_on_delete_cannot_be_managed,
        b_a13_4_a_set_that_nobody_has_is_taken,
        b_a13_5_a_set_of_a_rollout_that_does_not_exist_is_taken,
        b_a13_6_a_set_of_a_rollout_with_another_target_is_taken,
        b_a13_7_a_set_that_is_managed_is_not_taken_away,
        b_a13_8_a_suspended_rollout_gives_the_partition_up,
        b_a13_9_a_deleted_rollout_leaves_nothing_behind,
    ]
}

fn data() -> Value {
    json!({ "passWhen": "Data" })
}

async fn b_a13_1_a_negative_delay_is_refused(stage: Gated) {
    let rollout = Rollout::new("web", "prom").check(&json!({ "initialDelaySeconds": -1 }));
    let refused = stage.rollouts().create(&PostParams::default(), &rollout.object()).await.unwrap_err();
    assert!(refused.to_string().contains("spec.check.initialDelaySeconds"), "{refused}");
    stage.finish();
}

async fn b_a13_2_a_missing_target_is_told(stage: Gated) {
    let _operator = stage.operator().await;
    stage.create(&Rollout::new("web", "prom:9090").check(&data())).await;
    let seen = stage.phase("web", "ErrorSTSNotFound").await;
    assert_eq!(seen.truth(READY), Some((Truth::False, "ErrorSTSNotFound")));
    assert_eq!(seen.truth(UPDATED), Some((Truth::Unknown, "ErrorSTSNotFound")));
    stage.finish();
}

async fn b_a13_3_a_set_with_on_delete_cannot_be_managed(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given(&on_delete()).await;
    stage.create(&Rollout::new("web", "prom:9090").check(&data())).await;
    let seen = stage.phase("web", "ErrorCannotManage").await;
    assert_eq!(seen.truth(READY), Some((Truth::False, "ErrorCannotManage")));
    assert_eq!(seen.truth(UPDATED), Some((Truth::Unknown, "ErrorCannotManage")));
    stage.finish();
}

fn on_delete() -> Set {
    Set::new("web", 2).spec(&json!({ "updateStrategy": { "type": "OnDelete" } }))
}

async fn b_a13_4_a_set_that_nobody_has_is_taken(stage: Gated) {
    let _operator = stage.operator().await;
    let rollout = Rollout::new("web", "prom:9090").named("guard").check(&data());
    stage.given_managed(&Set::new("web", 2), &rollout).await;
    assert_eq!(stage.view().sets["web"].managed_by.as_deref(), Some("guard"));
    stage.finish();
}

async fn b_a13_5_a_set_of_a_rollout_that_does_not_exist_is_taken(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given(&Set::new("web", 2)).await;
    claim(&stage, "gone").await;
    stage.create(&Rollout::new("web", "prom:9090").check(&data())).await;
    stage.updated("web").await;
    stage.finish();
}

async fn b_a13_6_a_set_of_a_rollout_with_another_target_is_taken(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("other", 1), &Rollout::new("other", "prom:9090").check(&data())).await;
    stage.given(&Set::new("web", 2)).await;
    claim(&stage, "other").await;
    stage.create(&Rollout::new("web", "prom:9090").check(&data())).await;
    stage.updated("web").await;
    stage.updated("other").await;
    stage.finish();
}

async fn claim(stage: &Gated, rollout: &str) {
    stage
        .patch_set("web", &json!({ "metadata": { "annotations": { keys::PHASED_ROLLOUT: rollout } } }))
        .await;
}

async fn b_a13_7_a_set_that_is_managed_is_not_taken_away(stage: Gated) {
    let _operator = stage.operator().await;
    let first = Rollout::new("web", "prom:9090").named("a-first").check(&data());
    stage.given_managed(&Set::new("web", 2), &first).await;
    stage.create(&first.clone().named("b-second")).await;
    let seen = stage.phase("b-second", "ErrorCannotManage").await;
    assert!(seen.status.message.as_ref().unwrap().contains("a-first"), "{:?}", seen.status.message);
    stage.updated("a-first").await;
    stage.finish();
}

async fn b_a13_8_a_suspended_rollout_gives_the_partition_up(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", "prom:9090").check(&data())).await;
    assert_eq!(stage.view().sets["web"].partition, Some(2));
    stage.patch_spec("web", &json!({ "standardRollingUpdate": true })).await;
    let seen = stage.phase("web", "Suspended").await;
    assert_eq!(seen.truth(READY), Some((Truth::True, "Suspended")));
    assert_eq!(seen.truth(UPDATED), Some((Truth::Unknown, "Suspended")));
    stage.set_is("web", "released", |set| set.partition.unwrap_or(0) == 0).await;
    stage.finish();
}

async fn b_a13_9_a_deleted_rollout_leaves_nothing_behind(stage: Gated) {
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", "prom:9090").check(&data())).await;
    stage.delete("web").await;
    stage.set_is("web", "let go", |set| set.partition.unwrap_or(0) == 0 && set.managed_by.is_none()).await;
    stage.finish();
}

async fn b_a13_10_to_17_a_rollout_goes_through_errors_and_failures(stage: Gated) {
    let answers = stage.answers(Says::something()).await;
    let _operator = stage.operator().await;
    let check = json!({
        "passWhen": "Data",
        "initialDelaySeconds": 1,
        "successThreshold": 2,
        "query": { "secretRef": "prom-secret" },
    });
    // Pods that stop slowly are seen to be of the old revision.
    let set = Set::new("web", 2).template(Template::new("v1").stops_after("2s"));
    stage.given_managed(&set, &Rollout::new("web", &answers.url()).check(&check)).await;

    // 10 and 11: the Secret is missing.
    stage.change("web", &Template::new("v2").held_at(1)).await;
    stage.gate_waits_for("web", 2, "InitialDelay").await;
    let seen = stage.gate_waits_for("web", 2, "PrometheusConfigError").await;
    assert_eq!(seen.phase(), "Rolling");
    assert_eq!(seen.status.rolling_pod_status.unwrap().status, GateState::PrometheusError);
    assert_eq!(answers.queries().len(), 0, "nobody is asked without the credential");

    // 12: it is created. The next gate shall not pass before the story says so.
    answers.say_to("\"web-1\"", Says::Error(500));
    create_secret(&stage).await;
    stage
        .rollout_is("web", "at one success", |seen| {
            seen.status
                .rolling_pod_status
                .as_ref()
                .is_some_and(|gate| gate.consecutive_successful_checks == 1)
        })
        .await;
    stage.set_is("web", "one step on", |set| set.partition == Some(1)).await;

    // 13 and 14: the pod is not available, then it is.
    let seen = stage.gate_waits_for("web", 1, "PodsToBeAvailable").await;
    assert_eq!(seen.status.rolling_pod_status.unwrap().status, GateState::WaitForAllPodsToBeAvailable);
    assert!(stage.view().gates("web").contains(&(1, GateState::WaitForPodToBeUpdated)));
    stage.afflict("web-1", None).await;
    stage.gate_waits_for("web", 1, "InitialDelay").await;

    // 15: the server fails. 16: it has no data. 17: it has again.
    let seen = stage.gate_waits_for("web", 1, "PrometheusError").await;
    assert_eq!(seen.status.rolling_pod_status.unwrap().total_failed_checks, 0, "an error is no failure");
    answers.say_to("\"web-1\"", Says::Nothing);
    let seen = stage.gate_waits_for("web", 1, "ChecksFailing").await;
    let gate = seen.status.rolling_pod_status.unwrap();
    assert_eq!(gate.consecutive_successful_checks, 0);
    assert!(gate.consecutive_failed_checks > 0 && gate.total_failed_checks > 0, "{gate:?}");
    answers.say_to("\"web-1\"", Says::something());
    stage.serves("web", "v2").await;
    stage.updated("web").await;
    assert_eq!(stage.view().partitions["web"], [0, 2, 1, 0, 2]);
    stage.finish();
}

async fn create_secret(stage: &Gated) {
    let secrets =
        kube::Api::<k8s_openapi::api::core::v1::Secret>::namespaced(stage.cluster.user(), &stage.namespace);
    let secret = json!({ "metadata": { "name": "prom-secret" }, "stringData": { "token": "open sesame" } });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
}
