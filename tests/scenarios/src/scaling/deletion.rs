//! Policies that are deleted while a pod leaves.

use std::sync::Arc;

use serde_json::json;
use sts_plus_api::scaling_policy::RecordPhase;

use super::app::Says;
use super::manifest::{SHUTDOWN, down, polled, with};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_policy_that_is_deleted_during_a_drain_calls_its_pod_back_and_releases_its_set,
        a_policy_that_drains_when_it_is_deleted_goes_on_with_the_pod_that_leaves,
        a_policy_that_cannot_call_its_pod_back_is_released_after_the_deadline,
        a_policy_without_its_target_is_gone_at_once,
    ]
}

async fn a_policy_that_is_deleted_during_a_drain_calls_its_pod_back_and_releases_its_set(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &polled())).await;
    app.hold();
    stage.scale(2).await;
    stage.leaves(2, RecordPhase::Draining).await;
    stage.delete().await;
    stage.gone().await;
    assert_eq!(app.asked("DELETE", SHUTDOWN), ["ingester-2"]);
    assert_eq!(stage.numbers(), [3]);
    assert_eq!(stage.lives(0..3), [1, 1, 1]);
    assert!(stage.view().sets[NAME].leaving.is_none());
    // Nobody holds the number any more.
    stage.write_replicas(NAME, 1, "somebody").await;
    stage
        .until("two pods to go", |seen| if seen.pods.len() == 1 { Ok(()) } else { Err(String::new()) })
        .await;
    assert_eq!(stage.numbers(), [3, 1]);
    stage.finish(&[&app]).await;
}

async fn a_policy_that_drains_when_it_is_deleted_goes_on_with_the_pod_that_leaves(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Scaled::new(&cluster, name).await;
    let spec = with(down(NAME, &polled()), &json!({ "deletionPolicy": "Drain" }));
    let app = stage.given_scaled(2, &spec).await;
    app.hold();
    stage.scale(1).await;
    stage.leaves(1, RecordPhase::Draining).await;
    stage.delete().await;
    stage.restart().await;
    stage
        .until("the deletion", |seen| if seen.policies[NAME].deleting { Ok(()) } else { Err(String::new()) })
        .await;
    assert_eq!(stage.numbers(), [2]);
    app.finish();
    stage.gone().await;
    assert_eq!(app.prepared(), ["ingester-1", "ingester-0"]);
    assert_eq!(stage.numbers(), [2, 1, 0]);
    stage.finish(&[&app]).await;
}

async fn a_policy_that_cannot_call_its_pod_back_is_released_after_the_deadline(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let hook = with(polled(), &json!({ "deadlineSeconds": 5 }));
    let app = stage.given_scaled(2, &down(NAME, &hook)).await;
    app.hold();
    app.say("DELETE", SHUTDOWN, &[Says::Code(500)]);
    stage.scale(1).await;
    stage.leaves(1, RecordPhase::Draining).await;
    stage.delete().await;
    stage.gone().await;
    assert!(!app.asked("DELETE", SHUTDOWN).is_empty());
    assert_eq!(stage.numbers(), [2]);
    assert!(stage.view().sets[NAME].leaving.is_none());
    stage.finish(&[&app]).await;
}

async fn a_policy_without_its_target_is_gone_at_once(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let spec = with(down(NAME, &polled()), &json!({ "deletionPolicy": "Drain" }));
    stage.create(&spec).await;
    stage.policy_is("waiting", |policy, _| policy.reason() == "TargetMissing").await;
    stage.delete().await;
    stage.gone().await;
    stage.finish(&[]).await;
}
