//! Who else writes the number of replicas: autoscalers through the policy, and others past it.

use std::sync::Arc;

use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use sts_plus_api::conditions::Truth;
use sts_plus_api::scaling_policy::RecordPhase;

use super::manifest::{SHUTDOWN, down, hook, polled};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        an_autoscaler_scales_through_the_subresource_and_sees_the_pods_that_it_is_about,
        a_policy_without_a_number_takes_that_of_its_set,
        a_policy_never_changes_the_number_by_its_creation_alone,
        a_number_that_is_lowered_during_a_drain_is_restored_and_the_pod_drained,
    ]
}

async fn an_autoscaler_scales_through_the_subresource_and_sees_the_pods_that_it_is_about(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    for replicas in [2, 4] {
        stage.view().note(format!("autoscaler: {replicas}"));
        let body = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        stage.policies().patch_scale(NAME, &PatchParams::default(), &body).await.unwrap();
        stage.settled(replicas).await;
        // Its arithmetic: the pods that the selector selects are as many as the status says.
        let scale = stage.policies().get_scale(NAME).await.unwrap();
        let status = scale.status.unwrap();
        assert_eq!(status.replicas, i32::try_from(replicas).unwrap());
        let selector = status.selector.unwrap();
        let selected = stage.pods().list(&ListParams::default().labels(&selector)).await.unwrap();
        assert_eq!(selected.items.len(), replicas as usize, "{selector}");
    }
    assert_eq!(app.prepared(), ["ingester-2"]);
    stage.finish(&[&app]).await;
}

async fn a_policy_without_a_number_takes_that_of_its_set(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    let number = stage.present().spec.and_then(|spec| spec.replicas);
    assert_eq!(number, Some(3));
    assert_eq!(stage.numbers(), [3]);
    // From now on the number is the policy's: the set alone does not change it.
    stage.write_replicas(NAME, 2, "somebody").await;
    stage
        .policy_is("recording what was removed", |policy, _| policy.status.removed_without_drain.len() == 1)
        .await;
    stage.settled(3).await;
    assert_eq!(stage.present().spec.and_then(|spec| spec.replicas), Some(3));
    stage.finish(&[&app]).await;
}

async fn a_policy_never_changes_the_number_by_its_creation_alone(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given(3).await;
    let mut spec = down(NAME, &polled());
    spec["replicas"] = json!(2);
    app.hold();
    stage.create(&spec).await;
    // What is too much leaves as always: with its hook.
    stage.leaves(2, RecordPhase::Draining).await;
    assert_eq!(stage.numbers(), [3]);
    assert_eq!(stage.present().status.held_replicas, Some(3));
    app.finish();
    stage.settled(2).await;
    assert_eq!(app.prepared(), ["ingester-2"]);
    stage.finish(&[&app]).await;
}

async fn a_number_that_is_lowered_during_a_drain_is_restored_and_the_pod_drained(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &polled())).await;
    app.hold();
    stage.scale(2).await;
    stage.leaves(2, RecordPhase::Draining).await;
    stage.write_replicas(NAME, 2, "somebody").await;
    let recorded = stage
        .policy_is("recording what was removed", |policy, _| policy.status.removed_without_drain.len() == 1)
        .await;
    assert_eq!(recorded.status.removed_without_drain[0].ordinal, 2);
    app.finish();
    let settled = stage.settled(2).await;
    // Where the set's own controller was quicker than the restoration, the pod that came back is another one, and was called.
    let last = stage.view().lives["ingester-2"].last().cloned();
    let called = app.made().into_iter().rfind(|made| made.path == SHUTDOWN && made.method == "POST");
    assert_eq!(called.map(|made| made.uid), last);
    assert_eq!(stage.numbers(), [3, 2, 3, 2]);
    let conflict = settled.condition("Conflict").map(|conflict| conflict.status);
    assert_eq!(conflict, Some(Truth::True));
    stage.finish(&[&app]).await;
}
