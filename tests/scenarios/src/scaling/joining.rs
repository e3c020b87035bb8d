//! Pods that are added, with and without a hook.

use std::sync::Arc;

use serde_json::json;

use super::app::Says;
use super::manifest::{JOIN, PORT, SHUTDOWN, down, hook, polled, with};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        pods_with_a_hook_join_one_after_the_other_and_count_when_they_have,
        pods_without_a_hook_join_together,
    ]
}

async fn pods_with_a_hook_join_one_after_the_other_and_count_when_they_have(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let join = json!({ "scaleUp": { "hook": { "http": { "path": JOIN, "port": PORT } } } });
    let app = stage.given_scaled(1, &with(down(NAME, &hook()), &join)).await;
    app.say("POST", JOIN, &[Says::Code(503)]);
    stage.scale(3).await;
    app.asked_more("POST", JOIN, 1).await;
    let joining = stage
        .policy_is("waiting for a pod to join", |policy, _| {
            policy.status.joining.iter().any(|record| record.ordinal == 1 && record.attempts > 0)
        })
        .await;
    assert_eq!(joining.status.ready_replicas, Some(1), "it is Ready, and has not joined");
    assert_eq!(stage.numbers(), [1, 2], "one after the other");
    app.say("POST", JOIN, &[Says::Code(200)]);
    stage.settled(3).await;
    assert_eq!(stage.numbers(), [1, 2, 3]);
    let mut joined = app.asked("POST", JOIN);
    joined.dedup();
    assert_eq!(joined, ["ingester-1", "ingester-2"]);
    stage.finish(&[&app]).await;
}

async fn pods_without_a_hook_join_together(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(1, &down(NAME, &polled())).await;
    stage.scale(4).await;
    stage.settled(4).await;
    assert_eq!(stage.numbers(), [1, 4]);
    assert!(app.asked("POST", SHUTDOWN).is_empty());
    stage.finish(&[&app]).await;
}
