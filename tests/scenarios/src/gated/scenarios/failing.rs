//! Gates that fail, and pods that do.

use serde_json::json;
use sts_plus_api::conditions::{STALLED, Truth};
use sts_plus_api::phased_rollout::{GateState, OnFailure};

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

const ROLLBACK: &str = include_str!("../../../../../examples/phased-rollout/rollback.yaml");

/// Many times what a gate takes that passes, since only the one with the broken pod shall not.
const DEADLINE_SECONDS: u32 = 10;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        b_a14_13_a_failed_gate_brings_the_changed_pods_back,
        b_a14_13_a_failed_final_gate_names_the_revision_to_restore,
        b_a14_13_a_failed_gate_pauses_until_the_revision_is_approved_anew,
        b_a14_13_too_many_errors_fail_a_gate,
        b_a10_20_a_pod_that_goes_during_the_checks_starts_the_delay_anew,
        b_a10_21_a_pod_that_never_gets_ready_fails_its_gate_and_a_good_template_replaces_it,
        b_a10_21_a_pod_that_never_gets_ready_is_brought_back,
    ]
}

async fn b_a14_13_a_failed_gate_brings_the_changed_pods_back(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-1", "web-2"]);
    let _operator = stage.operator().await;
    let set = Set::new("web", 3);
    stage.given_managed(&set, &Rollout::example(ROLLBACK, &answers.url())).await;
    let bad = stage.change_and_observe("web", &Template::new("v2")).await;
    let seen = stage.phase("web", "RolledBack").await;
    stage.serves("web", "v1").await;
    assert_eq!(seen.truth(STALLED), Some((Truth::True, "RolledBack")));
    let failure = seen.status.failure.unwrap();
    assert_eq!((failure.revision, failure.action), (bad.clone(), OnFailure::Rollback));
    assert_eq!(failure.reason, "CheckFailed");
    assert_eq!(stage.lives(&["web-0", "web-1", "web-2"]), [1, 3, 3], "what was not reached was not touched");
    assert_eq!(stage.view().sets["web"].partition, Some(3));
    stage.event("web", "GateFailed", &bad).await;

    // The failed revision is remembered until the template changes.
    stage.kill("web-0").await;
    stage.pod_is("web-0", "back in v1", |pod| pod.serves() && pod.image == "app:v1").await;
    assert_eq!(stage.phase("web", "RolledBack").await.status.failure.unwrap().revision, bad);
    answers.release(&["web-1", "web-2"]);
    stage.change_and_observe("web", &Template::new("v3")).await;
    let end = stage.updated("web").await;
    stage.serves("web", "v3").await;
    assert_eq!(end.status.failure, None);
    stage.finish();
}

async fn b_a14_13_a_failed_final_gate_names_the_revision_to_restore(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-0", "web-1"]);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::example(ROLLBACK, &answers.url())).await;
    let before = stage.view().sets["web"].update.clone();
    stage.change_and_observe("web", &Template::new("v2")).await;
    let seen = stage.phase("web", "Failed").await;
    let message = seen.status.message.unwrap();
    assert!(message.contains(&format!("the revision to restore is {before}")), "{message}");
    assert_eq!(seen.status.failure.unwrap().action, OnFailure::Pause);
    stage.serves("web", "v2").await;
    assert_eq!(stage.view().sets["web"].partition, Some(2));

    // That is done as any rollout is.
    answers.release(&["web-0", "web-1"]);
    stage.change("web", &Template::new("v1")).await;
    stage.updated("web").await;
    stage.serves("web", "v1").await;
    stage.finish();
}

async fn b_a14_13_a_failed_gate_pauses_until_the_revision_is_approved_anew(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    answers.hold(&["web-1"]);
    let _operator = stage.operator().await;
    let rollout = Rollout::new("web", &answers.url()).check(&json!({ "failureThreshold": 2 }));
    stage.given_managed(&Set::new("web", 2), &rollout).await;
    let revision = stage.change_and_observe("web", &Template::new("v2")).await;
    let seen = stage.phase("web", "Failed").await;
    let gate = seen.status.rolling_pod_status.unwrap();
    assert_eq!((gate.partition, gate.status), (1, GateState::Failed));
    answers.release(&["web-1"]);
    let asked = answers.queries().len();
    stage.patch_spec("web", &json!({ "progressDeadlineSeconds": 600 })).await;
    stage.phase("web", "Failed").await;
    assert_eq!(answers.queries().len(), asked, "a failed gate asks nothing");
    stage.approve("web", &format!("{revision}/retry")).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    let used = stage.view().rollouts["web"].status.used_approvals.clone();
    assert_eq!(used, [format!("{revision}/retry")]);
    stage.finish();
}

async fn b_a14_13_too_many_errors_fail_a_gate(stage: Gated) {
    let answers = stage.answers(Says::Error(503)).await;
    let _operator = stage.operator().await;
    let rollout = Rollout::new("web", &answers.url()).check(&json!({ "consecutiveErrorLimit": 2 }));
    stage.given_managed(&Set::new("web", 2), &rollout).await;
    stage.change("web", &Template::new("v2")).await;
    let seen = stage.phase("web", "Failed").await;
    assert_eq!(seen.status.failure.unwrap().reason, "CheckErrors");
    assert_eq!(stage.view().partitions["web"], [0, 2]);
    // The template is taken back before a pod has moved: all is as before.
    stage.change_and_observe("web", &Template::new("v1")).await;
    stage.updated("web").await;
    assert_eq!(stage.lives(&["web-0", "web-1"]), [1, 1]);
    stage.finish();
}

async fn b_a10_20_a_pod_that_goes_during_the_checks_starts_the_delay_anew(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let check = json!({ "initialDelaySeconds": 1, "successThreshold": 60 });
    // Slow enough to be seen down, also on a busy machine.
    let set = Set::new("web", 3).template(Template::new("v1").ready_after("3s"));
    stage.given_managed(&set, &Rollout::new("web", &answers.url()).check(&check)).await;
    stage.change("web", &Template::new("v2")).await;
    let passed_once =
        |gate: &sts_plus_api::phased_rollout::GateStatus| gate.consecutive_successful_checks > 0;
    let before = stage
        .rollout_is("web", "checked", |seen| seen.status.rolling_pod_status.as_ref().is_some_and(passed_once))
        .await;
    stage.kill("web-0").await;
    let down = stage.gate_waits_for("web", 3, "PodsToBeAvailable").await;
    let gate = down.status.rolling_pod_status.unwrap();
    assert_eq!((gate.consecutive_successful_checks, gate.analysis_start_time), (0, None));
    let again = stage.gate_waits_for("web", 3, "InitialDelay").await;
    let begun = |seen: &crate::gated::seen::Rollout| {
        seen.status.rolling_pod_status.as_ref().and_then(|gate| gate.analysis_start_time)
    };
    assert!(begun(&again) > begun(&before));
    stage.patch_spec("web", &json!({ "check": { "successThreshold": 1 } })).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

async fn b_a10_21_a_pod_that_never_gets_ready_fails_its_gate_and_a_good_template_replaces_it(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let rollout =
        Rollout::new("web", &answers.url()).spec(&json!({ "progressDeadlineSeconds": DEADLINE_SECONDS }));
    let ordered = json!({ "podManagementPolicy": "OrderedReady" });
    stage.given_managed(&Set::new("web", 3).spec(&ordered), &rollout).await;
    stage.change("web", &Template::new("v2").held_at(2)).await;
    let seen = stage.phase("web", "Failed").await;
    let failure = seen.status.failure.unwrap();
    assert_eq!(failure.reason, "ProgressDeadlineExceeded");
    assert!(failure.message.contains("web-2"), "{failure:?}");
    // The StatefulSet controller would wait for the broken pod for ever.
    stage.patch_spec("web", &json!({ "progressDeadlineSeconds": 600 })).await;
    stage.change("web", &Template::new("v3")).await;
    stage.updated("web").await;
    stage.serves("web", "v3").await;
    assert_eq!(stage.lives(&["web-0", "web-1"]), [2, 2]);
    stage.finish();
}

async fn b_a10_21_a_pod_that_never_gets_ready_is_brought_back(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    let rollout = Rollout::example(ROLLBACK, &answers.url())
        .spec(&json!({ "progressDeadlineSeconds": DEADLINE_SECONDS, "check": { "successThreshold": 1 } }));
    let ordered = json!({ "podManagementPolicy": "OrderedReady" });
    let set = Set::new("web", 3).spec(&ordered);
    stage.given_managed(&set, &rollout).await;
    stage.change("web", &Template::new("v2").fault("crash-loop").only_ordinals("2")).await;
    stage.phase("web", "RolledBack").await;
    stage.serves("web", "v1").await;
    assert_eq!(stage.lives(&["web-0", "web-1", "web-2"]), [1, 1, 3]);
    stage.finish();
}
