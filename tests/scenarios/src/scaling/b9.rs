//! The catalogue of scaling, by number.

use std::sync::Arc;

use serde_json::json;
use sts_plus_api::scaling_policy::RecordPhase;
use sts_plus_harness::faults::{Call, Fault, Faults};

use super::app::Says;
use super::manifest::{SHUTDOWN, STATUS, down, hook, pods, polled, with};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_b9_6_a_drained_pod_is_called_again_only_if_it_is_not_the_one_that_was_called,
        a_b9_4_a_hook_that_fails_blocks_forces_or_aborts,
        a_b9_3_a_pod_is_removed_only_when_it_is_done_and_the_status_shows_its_progress,
        a_b9_2_pods_leave_one_after_the_other_from_the_top,
        a_b9_8_ordinals_of_two_digits_leave_from_the_top,
        a_b9_1_the_highest_pod_is_called_then_removed_and_the_others_stay,
        a_b9_5_a_pod_that_is_wanted_again_is_called_back_and_not_restarted,
        a_b9_11_a_new_template_with_more_pods_restarts_those_that_were_there_once,
        a_b9_26_a_policy_that_drains_when_it_is_deleted_removes_the_pods_in_order,
        a_b9_30_a_foreign_number_is_undone_and_what_it_removed_is_recorded,
    ]
}

async fn a_b9_1_the_highest_pod_is_called_then_removed_and_the_others_stay(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    let called = stage.view().pods[&format!("{NAME}-2")].pod.uid.clone();
    stage.scale(2).await;
    stage.settled(2).await;
    assert_eq!(app.prepared(), ["ingester-2"]);
    assert_eq!(app.made()[0].uid, called);
    assert_eq!(stage.numbers(), [3, 2]);
    assert_eq!(stage.lives(0..3), [1, 1, 1], "nobody was restarted");
    stage.finish(&[&app]).await;
}

async fn a_b9_2_pods_leave_one_after_the_other_from_the_top(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(5, &down(NAME, &hook())).await;
    stage.scale(2).await;
    stage.settled(2).await;
    assert_eq!(app.prepared(), ["ingester-4", "ingester-3", "ingester-2"]);
    assert_eq!(stage.numbers(), [5, 4, 3, 2]);
    stage.finish(&[&app]).await;
}

async fn a_b9_3_a_pod_is_removed_only_when_it_is_done_and_the_status_shows_its_progress(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &polled())).await;
    let mut states: Vec<_> = (1..=5).map(|flushed| Says::State(format!("flushing {flushed} of 5"))).collect();
    states.push(Says::State("drained".to_owned()));
    app.say("GET", STATUS, &states);
    stage.scale(2).await;
    let shown = stage
        .policy_is("showing how far its pod is", |policy, _| {
            policy.leaving(2).is_some_and(|record| {
                record.phase == RecordPhase::Draining && record.message.contains("flushing")
            })
        })
        .await;
    assert_eq!(stage.view().sets[NAME].replicas, 3);
    let words = &shown.condition("Ready").unwrap().message;
    assert!(words.contains("ingester-2"), "{words}");
    stage.settled(2).await;
    assert_eq!(app.prepared(), ["ingester-2"], "called once");
    assert_eq!(app.asked("GET", STATUS).len(), 6);
    stage.finish(&[&app]).await;
}

async fn a_b9_4_a_hook_that_fails_blocks_forces_or_aborts(cluster: Arc<dyn Cluster>, name: &'static str) {
    for (on_failure, reason) in
        [("Block", "DeadlineExceeded"), ("Force", "ForcedRemoval"), ("Abort", "Aborted")]
    {
        let stage = Scaled::new(&cluster, name).await;
        let failing = with(hook(), &json!({ "deadlineSeconds": 3, "onFailure": on_failure }));
        let app = stage.given_scaled(3, &down(NAME, &failing)).await;
        app.say("POST", SHUTDOWN, &[Says::Text(500, "the ring is not healthy")]);
        stage.scale(2).await;
        stage
            .policy_is("showing why", |policy, _| {
                policy.leaving(2).is_some_and(|record| record.last_error.contains("the ring is not healthy"))
            })
            .await;
        let told = stage.event(reason).await;
        assert!(told.contains("ingester-2"), "{told}");
        match on_failure {
            "Block" => {
                stage.reports(reason).await;
                assert_eq!(stage.numbers(), [3]);
                let tried = app.prepared().len();
                // It is tried on, and succeeds whenever the pod does.
                app.asked_more("POST", SHUTDOWN, tried).await;
                app.say("POST", SHUTDOWN, &[Says::Code(204)]);
                stage.settled(2).await;
            }
            "Force" => {
                stage.settled(2).await;
            }
            _ => {
                let unmet = stage.leaves(2, RecordPhase::Failed).await;
                assert_eq!(app.asked("DELETE", SHUTDOWN), ["ingester-2"]);
                assert_eq!(stage.numbers(), [3]);
                assert_eq!(unmet.status.desired_replicas, Some(2));
                assert_eq!(unmet.reason(), reason);
                assert_eq!(stage.lives([2]), [1]);
                // What was wanted before is what there is: nothing is left of the attempt.
                stage.scale(3).await;
                stage.settled(3).await;
                app.say("POST", SHUTDOWN, &[Says::Code(204)]);
                // A pod that does answer may take longer on a busy machine.
                stage.edit(json!({ "scaleDown": { "hook": { "deadlineSeconds": 600 } } })).await;
                stage.scale(2).await;
                stage.settled(2).await;
            }
        }
        stage.finish(&[&app]).await;
    }
}

async fn a_b9_5_a_pod_that_is_wanted_again_is_called_back_and_not_restarted(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &polled())).await;
    app.hold();
    stage.scale(2).await;
    stage.leaves(2, RecordPhase::Draining).await;
    stage.scale(3).await;
    stage.settled(3).await;
    assert_eq!(app.asked("DELETE", SHUTDOWN), ["ingester-2"]);
    assert_eq!(stage.numbers(), [3]);
    assert_eq!(stage.lives(0..3), [1, 1, 1]);
    assert!(stage.view().pods.values().all(|pod| pod.restarts.values().all(|restarts| *restarts == 0)));
    // The next time it is prepared again.
    app.finish();
    stage.scale(2).await;
    stage.settled(2).await;
    assert_eq!(app.prepared(), ["ingester-2", "ingester-2"]);
    stage.finish(&[&app]).await;
}

/// Whether a request lowers the number of replicas of a set.
fn lowers(call: &Call) -> bool {
    let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap_or_default();
    call.write.is_some()
        && call.path.contains(&format!("/statefulsets/{NAME}"))
        && body.pointer("/spec/replicas").is_some()
}

/// What becomes of a pod between its drain and the operator that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    ContainerRestarts,
    PodReplaced,
}

async fn a_b9_6_a_drained_pod_is_called_again_only_if_it_is_not_the_one_that_was_called(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for meanwhile in [Meanwhile::Nothing, Meanwhile::ContainerRestarts, Meanwhile::PodReplaced] {
        let mut stage = Scaled::without_operator(&cluster, name).await;
        let faults = Faults::new(|call| if lowers(call) { Fault::Block } else { Fault::None });
        stage.restart_through(&faults.client(&stage.account().client)).await;
        let app = stage.given_scaled(3, &down(NAME, &hook())).await;
        stage.scale(2).await;
        faults.blocked().await;
        stage.leaves(2, RecordPhase::Drained).await;
        stage.stop().await;
        assert_eq!(app.prepared(), ["ingester-2"]);
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::ContainerRestarts => stage.restart_container("ingester-2").await,
            Meanwhile::PodReplaced => stage.replace("ingester-2").await,
        }
        assert_eq!(stage.numbers(), [3]);
        stage.restart().await;
        stage.settled(2).await;
        let calls = if meanwhile == Meanwhile::Nothing { 1 } else { 2 };
        assert_eq!(app.prepared().len(), calls, "{meanwhile:?}: {:?}", app.made());
        stage.finish(&[&app]).await;
    }
}

async fn a_b9_8_ordinals_of_two_digits_leave_from_the_top(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(13, &down(NAME, &hook())).await;
    stage.scale(9).await;
    stage.settled(9).await;
    assert_eq!(app.prepared(), ["ingester-12", "ingester-11", "ingester-10", "ingester-9"]);
    assert_eq!(stage.lives(0..9), [1; 9]);
    stage.finish(&[&app]).await;
}

async fn a_b9_11_a_new_template_with_more_pods_restarts_those_that_were_there_once(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(2, &down(NAME, &hook())).await;
    stage.change(NAME, &pods("v2")).await;
    stage.scale(4).await;
    stage.settled(4).await;
    stage.serves(NAME, "v2").await;
    assert_eq!(stage.lives(0..4), [2, 2, 1, 1], "new pods are born new");
    assert!(app.made().is_empty(), "{:?}", app.made());
    stage.finish(&[&app]).await;
}

async fn a_b9_26_a_policy_that_drains_when_it_is_deleted_removes_the_pods_in_order(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let spec = with(down(NAME, &hook()), &json!({ "deletionPolicy": "Drain" }));
    let app = stage.given_scaled(3, &spec).await;
    stage.delete().await;
    stage.gone().await;
    assert_eq!(app.prepared(), ["ingester-2", "ingester-1", "ingester-0"]);
    assert_eq!(stage.numbers(), [3, 2, 1, 0]);
    assert!(stage.view().pods.is_empty());
    assert!(stage.view().sets[NAME].leaving.is_none());
    stage.finish(&[&app]).await;
}

async fn a_b9_30_a_foreign_number_is_undone_and_what_it_removed_is_recorded(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    stage.write_replicas(NAME, 1, "kubectl-scale").await;
    stage
        .policy_is("recording what was removed", |policy, _| policy.status.removed_without_drain.len() == 2)
        .await;
    let policy = stage.settled(3).await;
    let removed = &policy.status.removed_without_drain;
    let mut ordinals: Vec<_> = removed.iter().map(|removal| removal.ordinal).collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, [1, 2]);
    assert!(removed.iter().all(|removal| removal.by == "kubectl-scale"), "{removed:?}");
    let told = stage.event("RemovedWithoutDrain").await;
    assert!(told.contains("kubectl-scale"), "{told}");
    // A greater number is taken as it is, and what is too much leaves in order.
    stage.write_replicas(NAME, 5, "kubectl-scale").await;
    stage.settled(3).await;
    assert_eq!(app.prepared(), ["ingester-4", "ingester-3"]);
    stage.finish(&[&app]).await;
}
