//! Targets that a policy may not scale, or that are not there.

use std::sync::Arc;

use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use sts_plus_api::conditions::Truth;
use sts_plus_api::extended::Group;

use super::manifest::{down, hook, set};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::extended;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_second_policy_of_a_target_does_nothing_until_the_first_is_gone,
        a_child_of_an_extended_stateful_set_is_not_scaled_by_a_policy,
        a_target_that_is_missing_is_waited_for,
        a_set_that_is_created_again_is_taken_as_it_is,
    ]
}

async fn a_second_policy_of_a_target_does_nothing_until_the_first_is_gone(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    let mut spec = down(NAME, &hook());
    spec["replicas"] = json!(1);
    // The age of an object is kept in seconds; of two that are equally old the name decides.
    stage.create_named("later", &spec).await;
    let second = stage
        .named_is("later", "waiting for the first", |policy, _| policy.reason() == "TargetClaimed")
        .await;
    let ready = second.condition("Ready").unwrap();
    assert!(ready.status == Truth::False && ready.message.contains(NAME), "{ready:?}");
    assert!(app.made().is_empty());
    stage.restart().await;
    stage.scale(2).await;
    stage.settled(2).await;
    assert_eq!(app.prepared(), ["ingester-2"]);
    stage.delete().await;
    stage.gone().await;
    stage
        .named_is("later", "content", |policy, seen| {
            policy.condition("Ready").is_some_and(|ready| ready.status == Truth::True)
                && seen.sets[NAME].replicas == 1
                && seen.pods.len() == 1
        })
        .await;
    assert_eq!(app.prepared(), ["ingester-2", "ingester-1"]);
    stage.finish(&[&app]).await;
}

async fn a_child_of_an_extended_stateful_set_is_not_scaled_by_a_policy(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.app(NAME);
    let template = json!({ "spec": { "replicas": 2, "template": set(NAME, 2)["spec"]["template"].clone() } });
    let mut template = template;
    template["spec"]["template"]["metadata"]["annotations"] = json!({});
    let objects = extended::objects(stage.cluster.user(), &stage.namespace, Group::StsPlus);
    let object = extended::object(Group::StsPlus, NAME, &json!({ "template": template }));
    objects.create(&PostParams::default(), &object).await.unwrap();
    stage.until("the set of the object", |seen| seen.sets.get(NAME).map(drop).ok_or_else(String::new)).await;
    stage.serves(NAME, "v1").await;
    let mut spec = down(NAME, &hook());
    spec["replicas"] = json!(1);
    stage.create(&spec).await;
    let policy =
        stage.policy_is("refusing the child", |policy, _| policy.reason() == "TargetControlled").await;
    let ready = policy.condition("Ready").unwrap();
    assert!(ready.message.contains("ExtendedStatefulSet"), "{ready:?}");
    assert_eq!(policy.condition("Stalled").map(|stalled| stalled.status), Some(Truth::True));
    assert_eq!(stage.numbers(), [2]);
    assert!(app.made().is_empty());
    stage.delete().await;
    stage.gone().await;
    stage.finish(&[&app]).await;
}

async fn a_target_that_is_missing_is_waited_for(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    stage.create(&down(NAME, &hook())).await;
    let policy = stage.policy_is("waiting", |policy, _| policy.reason() == "TargetMissing").await;
    let message = &policy.condition("Ready").unwrap().message;
    assert!(message.contains(NAME), "{message}");
    let app = stage.given(2).await;
    stage.settled(2).await;
    stage.scale(1).await;
    stage.settled(1).await;
    stage.finish(&[&app]).await;
}

async fn a_set_that_is_created_again_is_taken_as_it_is(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    stage.sets().delete(NAME, &DeleteParams::background()).await.unwrap();
    stage
        .policy_is("waiting", |policy, seen| policy.reason() == "TargetMissing" && seen.pods.is_empty())
        .await;
    stage.create_set(&set(NAME, 1)).await;
    // What is wanted is as before; the number of the new set is nothing that anybody has lowered.
    let policy = stage.settled(3).await;
    assert!(policy.status.removed_without_drain.is_empty(), "{:?}", policy.status.removed_without_drain);
    assert!(app.made().is_empty());
    stage.finish(&[&app]).await;
}
