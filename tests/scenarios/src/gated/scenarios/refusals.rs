//! Writes that an admission webhook refuses, or never answers.

use serde_json::json;
use sts_plus_api::conditions::{self, Truth};
use sts_plus_harness::wait::{NotYet, until};

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::observer::DEADLINE;
use crate::scenarios::Scenario;
use crate::scenarios::refusals::{WEBHOOK, install, nobody, remove};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_partition_that_a_webhook_never_answers_is_reported_until_it_is_admitted,
        a_partition_that_a_webhook_refuses_is_reported_in_the_conditions_until_it_is_admitted,
    ]
}

/// A real API server asks a webhook only some time after its configuration has been written.
async fn refuses_sets(stage: &Gated) {
    until(DEADLINE, "writes to the set to be refused", || async {
        let parameters = kube::api::PatchParams { dry_run: true, ..kube::api::PatchParams::default() };
        let note = json!({ "metadata": { "annotations": { "example.com/probe": "x" } } });
        match stage.sets().patch("web", &parameters, &kube::api::Patch::Merge(note)).await {
            Ok(_) => Err(NotYet::saw("admitted")),
            Err(_) => Ok(()),
        }
    })
    .await;
}

async fn a_partition_that_a_webhook_refuses_is_reported_in_the_conditions_until_it_is_admitted(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let operator = stage.operator().await;
    let rollout = Rollout::new("web", &answers.url()).spec(&json!({ "approval": "FirstPod" }));
    stage.given_managed(&Set::new("web", 2), &rollout).await;
    let revision = stage.change_and_observe("web", &Template::new("v2")).await;
    stage.waits_for("web", "Approval").await;
    install(&*stage.cluster, &stage.namespace, nobody(), ("apps", "statefulsets", "UPDATE")).await;
    refuses_sets(&stage).await;
    stage.approve("web", &format!("{revision}/web-1")).await;
    let told = stage.waits_for("web", "WriteRefused").await;
    let words = told.status.message.clone().unwrap_or_default();
    assert!(words.contains(WEBHOOK), "{words}");
    assert_eq!(told.truth(conditions::STALLED), Some((Truth::True, "WriteRefused")));
    assert_eq!(told.truth(conditions::READY), Some((Truth::False, "WriteRefused")));
    stage.event("web", "WriteRefused", WEBHOOK).await;
    assert_eq!(stage.view().partitions["web"], [0, 2]);

    remove(&*stage.cluster, &stage.namespace).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    operator.stop().await;
    let events = stage.events("PhasedRollout", "web").await.unwrap();
    let refused = events.iter().filter(|event| event.1 == "WriteRefused").count();
    assert_eq!(refused, 1, "a transition is reported once: {events:?}");
    stage.finish();
}

async fn a_partition_that_a_webhook_never_answers_is_reported_until_it_is_admitted(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let operator = stage.operator().await;
    let rollout = Rollout::new("web", &answers.url()).spec(&json!({ "approval": "FirstPod" }));
    stage.given_managed(&Set::new("web", 2), &rollout).await;
    let revision = stage.change_and_observe("web", &Template::new("v2")).await;
    stage.waits_for("web", "Approval").await;
    let hole = stage.hole().await;
    install(&*stage.cluster, &stage.namespace, hole.address(), ("apps", "statefulsets", "UPDATE")).await;
    refuses_sets(&stage).await;
    stage.approve("web", &format!("{revision}/web-1")).await;
    // A real API server waits for the webhook for longer than the operator waits for the API server, and never names it.
    let told = stage.waits_for("web", "WriteRefused").await;
    assert_eq!(told.truth(conditions::STALLED), Some((Truth::True, "WriteRefused")));
    stage.event("web", "WriteRefused", "webhook").await;
    assert_eq!(stage.view().partitions["web"], [0, 2]);

    remove(&*stage.cluster, &stage.namespace).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    operator.stop().await;
    let events = stage.events("PhasedRollout", "web").await.unwrap();
    let refused = events.iter().filter(|event| event.1 == "WriteRefused").count();
    assert_eq!(refused, 1, "a transition is reported once: {events:?}");
    stage.finish();
}
