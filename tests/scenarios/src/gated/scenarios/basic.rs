//! Rollouts from beginning to end.

use sts_plus_api::phased_rollout::GateState;

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Answers, Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![b_a14_5_n_pods_have_n_gates_and_a_final_one]
}

async fn b_a14_5_n_pods_have_n_gates_and_a_final_one(stage: Gated) {
    let answers = Answers::start(Says::Nothing).await;
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change_and_observe("web", &Template::new("v2")).await;
    stage.serves("web", "v2").await;
    let end = stage.updated("web").await;
    assert!(end.status.rollout_end_time > end.status.rollout_start_time);
    let passed: Vec<_> =
        stage.view().gates("web").into_iter().filter(|gate| gate.1 == GateState::Passed).collect();
    assert_eq!(passed, [3, 2, 1].map(|partition| (partition, GateState::Passed)));
    assert_eq!(stage.view().partitions["web"], [0, 3, 2, 1, 0, 3]);
    assert!(stage.view().gates("web").iter().any(|gate| gate.0 == 0), "the final gate is seen");
    assert_eq!(answers.queries().len(), 4);
    for reason in ["RolloutStarted", "GatePassed", "RolloutCompleted"] {
        stage.event("web", reason, "").await;
    }
    stage.finish();
}
