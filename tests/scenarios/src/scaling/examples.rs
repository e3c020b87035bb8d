//! The files of `examples/scaling`, applied with kubectl as they are: each does what it says.

use std::sync::Arc;

use sts_plus_api::scaling_policy::RecordPhase;
use sts_plus_harness::checkout;

use super::app::Says;
use super::scenarios;
use super::seen::Policy;
use super::stage::Scaled;
use crate::cluster::Cluster;
use crate::kubectl::Kubectl;
use crate::scenarios::Scenario;

/// Where they are.
const FOLDER: &str = "examples/scaling";

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_example_loki_prepares_each_ingester_before_it_is_removed,
        a_example_broker_drains_two_at_a_time_and_lets_them_join,
    ]
}

async fn kubectl(stage: &Scaled) -> Kubectl {
    Kubectl::new(&*stage.cluster, &stage.namespace).await
}

/// Waits until a policy is content with so many pods.
async fn content(stage: &Scaled, name: &str, replicas: u32) -> Policy {
    stage
        .named_is(name, &format!("content with {replicas} pods"), |policy, seen| {
            policy.reason() == "AsRequested"
                && policy.status.ready_replicas == Some(replicas)
                && policy.status.leaving.is_empty()
                && seen.pods.len() == replicas as usize
        })
        .await
}

async fn a_example_loki_prepares_each_ingester_before_it_is_removed(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let (app, prepare) = (stage.app("ingester"), "/ingester/prepare_shutdown");
    app.say("POST", prepare, &[Says::Code(204)]);
    app.say("DELETE", prepare, &[Says::Code(204)]);
    let kubectl = kubectl(&stage).await;
    kubectl.apply(&checkout().join(FOLDER).join("loki.yaml")).await;
    content(&stage, "ingester", 3).await;
    kubectl.run(&["scale", "scalingpolicy", "ingester", "--replicas", "2"]).await;
    content(&stage, "ingester", 2).await;
    assert_eq!(app.asked("POST", prepare), ["ingester-2"]);
    let printed = kubectl.run(&["get", "scp"]).await;
    assert!(printed.contains("AsRequested") && printed.contains("DESIRED"), "{printed}");
    // What the autoscaler of the other file reads and writes is there.
    kubectl.apply(&checkout().join(FOLDER).join("autoscaler.yaml")).await;
    stage.finish(&[&app]).await;
}

async fn a_example_broker_drains_two_at_a_time_and_lets_them_join(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.app("broker");
    let drain = "/admin/drain";
    app.say("POST", "/admin/join", &[Says::Code(200)]);
    app.say("PUT", drain, &[Says::Code(202)]);
    app.say(
        "GET",
        drain,
        &[Says::Text(200, r#"{"partitions": 7}"#), Says::Text(200, r#"{"partitions": 0}"#)],
    );
    app.say("DELETE", drain, &[Says::Code(204)]);
    let kubectl = kubectl(&stage).await;
    kubectl.apply(&checkout().join(FOLDER).join("broker.yaml")).await;
    content(&stage, "broker", 4).await;
    kubectl.run(&["scale", "scp/broker", "--replicas", "2"]).await;
    content(&stage, "broker", 2).await;
    assert_eq!(stage.view().replicas["broker"], [4, 2]);
    let mut drained = app.asked("PUT", drain);
    drained.sort();
    assert_eq!(drained, ["broker-2", "broker-3"]);
    kubectl.run(&["scale", "scp/broker", "--replicas", "3"]).await;
    content(&stage, "broker", 3).await;
    assert_eq!(app.asked("POST", "/admin/join"), ["broker-2"]);
    // Deleting the policy drains the rest first.
    app.say("GET", drain, &[Says::Text(200, r#"{"partitions": 7}"#)]);
    kubectl.run(&["delete", "scp", "broker", "--wait=false"]).await;
    stage
        .named_is("broker", "draining", |policy, _| {
            policy.status.leaving.iter().any(|record| record.phase == RecordPhase::Draining)
        })
        .await;
    app.say("GET", drain, &[Says::Text(200, r#"{"partitions": 0}"#)]);
    stage
        .until("the policy to be gone", |seen| {
            if seen.policies.is_empty() { Ok(()) } else { Err(format!("{:?}", seen.policies)) }
        })
        .await;
    assert!(stage.view().pods.is_empty());
    stage.finish(&[&app]).await;
}
