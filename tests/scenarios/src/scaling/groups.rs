//! Draining beside rollouts: of the same set, and of another zone of its rollout group.

use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::RecordPhase;

use super::app::App;
use super::manifest::{down, held, hook, pods, polled, set, with};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::fixture::image;
use crate::scenarios::Scenario;

/// The other zone of the group.
const OTHER: &str = "ingester-b";

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        no_pod_leaves_while_another_zone_rolls,
        no_zone_rolls_while_a_pod_of_another_leaves,
        pods_leave_only_between_rollouts_of_their_set,
    ]
}

/// Two zones of a rollout group, with the policy of the first.
async fn two_zones(stage: &Scaled, spec: &Value) -> App {
    let app = stage.app(NAME);
    let zone = json!({
        "metadata": { "labels": { keys::ROLLOUT_GROUP: "ingester" } },
        "spec": { "updateStrategy": { "type": "OnDelete" } },
    });
    for name in [NAME, OTHER] {
        stage.create_set(&with(set(name, 3), &zone)).await;
    }
    for name in [NAME, OTHER] {
        stage.serves(name, "v1").await;
    }
    stage.create(spec).await;
    stage.settled(3).await;
    app
}

async fn no_pod_leaves_while_another_zone_rolls(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let app = two_zones(&stage, &down(NAME, &hook())).await;
    stage.change(OTHER, &held("v2", Some("0"))).await;
    stage.pod_is("ingester-b-0", "held", |pod| pod.image == image("v2") && !pod.ready).await;
    stage.scale(2).await;
    let waiting = stage
        .policy_is("waiting for the other zone", |policy, _| {
            policy.condition("Ready").is_some_and(|ready| ready.message.contains(OTHER))
        })
        .await;
    assert!(app.made().is_empty() && waiting.status.leaving.is_empty(), "{:?}", app.made());
    assert!(stage.view().sets[NAME].leaving.is_none());
    stage.set_fault("ingester-b-0", None).await;
    stage.settled(2).await;
    stage.serves(OTHER, "v2").await;
    stage.finish(&[&app]).await;
}

async fn no_zone_rolls_while_a_pod_of_another_leaves(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let app = two_zones(&stage, &down(NAME, &polled())).await;
    app.hold();
    stage.scale(2).await;
    stage.leaves(2, RecordPhase::Draining).await;
    stage.change(OTHER, &pods("v2")).await;
    stage
        .until("the other zone to wait", |seen| {
            let told = seen.sets[OTHER].told.clone().unwrap_or_default();
            if told.contains("ingester-2 is leaving") { Ok(()) } else { Err(told) }
        })
        .await;
    let others = |stage: &Scaled| -> Vec<usize> {
        let seen = stage.view();
        (0..3).map(|ordinal| seen.lives[&format!("{OTHER}-{ordinal}")].len()).collect()
    };
    assert_eq!(others(&stage), [1, 1, 1]);
    app.finish();
    stage.settled(2).await;
    stage.serves(OTHER, "v2").await;
    assert_eq!(others(&stage), [2, 2, 2]);
    stage.finish(&[&app]).await;
}

async fn pods_leave_only_between_rollouts_of_their_set(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    stage.change(NAME, &held("v2", Some("1"))).await;
    stage.pod_is("ingester-1", "held", |pod| pod.image == image("v2") && !pod.ready).await;
    stage.scale(2).await;
    stage.policy_is("waiting for the rollout", |policy, _| policy.reason() == "RolloutUnderWay").await;
    assert!(app.made().is_empty(), "{:?}", app.made());
    assert_eq!(stage.numbers(), [3]);
    stage.set_fault("ingester-1", None).await;
    stage.settled(2).await;
    stage.serves(NAME, "v2").await;
    assert_eq!(app.prepared(), ["ingester-2"]);
    stage.finish(&[&app]).await;
}
