//! Rollouts from beginning to end, and names as long as they get.

use serde_json::json;
use sts_plus_api::phased_rollout::GateState;

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        b_a14_5_n_pods_have_n_gates_and_a_final_one,
        b_a14_5_without_verify_last_there_is_no_final_gate,
        a_gate_waits_for_min_ready_seconds,
        names_may_be_as_long_as_the_server_lets_them,
    ]
}

async fn b_a14_5_n_pods_have_n_gates_and_a_final_one(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change_and_observe("web", &Template::new("v2")).await;
    stage.serves("web", "v2").await;
    let end = stage.updated("web").await;
    assert!(end.status.rollout_end_time > end.status.rollout_start_time);
    let gates = stage.view().gates("web");
    let passed: Vec<_> = gates.iter().filter(|gate| gate.1 == GateState::Passed).map(|gate| gate.0).collect();
    assert_eq!(passed, [3, 2, 1]);
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 3]);
    assert!(gates.iter().any(|gate| gate.0 == 0), "the final gate is seen");
    assert_eq!(answers.queries().len(), 4);
    for reason in ["RolloutStarted", "GatePassed", "RolloutCompleted"] {
        stage.event("web", reason, "").await;
    }
    stage.finish();
}

async fn b_a14_5_without_verify_last_there_is_no_final_gate(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-0", "web-1", "web-2"]);
    let _operator = stage.operator().await;
    let rollout = Rollout::new("web", &answers.url()).spec(&json!({ "verifyLast": false }));
    stage.given_managed(&Set::new("web", 3), &rollout).await;
    stage.change_and_observe("web", &Template::new("v2")).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    assert_eq!(answers.queries().len(), 3);
    stage.finish();
}

async fn a_gate_waits_for_min_ready_seconds(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let set = Set::new("web", 2).spec(&json!({ "minReadySeconds": 2 }));
    stage.given_managed(&set, &Rollout::new("web", &answers.url())).await;
    stage.change_and_observe("web", &Template::new("v2")).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    let history = stage.view().history["web"].clone();
    let waited = history.iter().any(|past| {
        let gate = past.status.rolling_pod_status.as_ref();
        gate.is_some_and(|gate| gate.partition == 1)
            && past.status.waiting_for.as_deref() == Some("PodsToBeAvailable")
    });
    assert!(waited, "Ready is not enough");
    stage.finish();
}

/// The label with the revision has the name of the set, a hash of ten and no more than 63 characters.
const LONGEST_SET: usize = 52;

/// As long as any object's name.
const LONGEST_ROLLOUT: usize = 253;

async fn names_may_be_as_long_as_the_server_lets_them(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let (set, rollout) = ("s".repeat(LONGEST_SET), "r".repeat(LONGEST_ROLLOUT));
    let rollout = Rollout::new(&set, &answers.url()).named(&rollout);
    stage.given_managed(&Set::new(&set, 2), &rollout).await;
    stage.change_and_observe(&set, &Template::new("v2")).await;
    stage.serves(&set, "v2").await;
    stage.updated(rollout.name()).await;
    stage.event(rollout.name(), "RolloutCompleted", "").await;
    stage.finish();
}
