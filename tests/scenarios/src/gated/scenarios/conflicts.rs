//! Somebody writes to a rollout all the time, just before the operator does.

use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use sts_plus_harness::faults::{Fault, Faults};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::scenarios;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![b_a14_12_conflicts_lose_no_answer_and_repeat_no_event]
}

async fn b_a14_12_conflicts_lose_no_answer_and_repeat_no_event(stage: Gated) {
    let answers = stage.answers(Says::Nothing).await;
    let account = stage.account("operator").await;
    let (about_to_write, mut told) = mpsc::unbounded_channel();
    let statuses = AtomicUsize::new(0);
    // Every second status is held until somebody else has written.
    let faults = Faults::new(move |call| {
        let status = call.write.is_some() && call.path.contains("/phasedrollouts/web/status");
        if status && statuses.fetch_add(1, Ordering::Relaxed) % 2 == 1 && about_to_write.send(()).is_ok() {
            Fault::Hold
        } else {
            Fault::None
        }
    });
    let _operator = stage.operator_through(&faults.client(&account.client));
    let mut busy = JoinSet::new();
    let (rollouts, held) = (stage.rollouts(), faults.clone());
    busy.spawn(async move {
        let mut number = 0;
        while told.recv().await.is_some() {
            number += 1;
            let fields = json!({ "metadata": { "annotations": { "number": number.to_string() } } });
            rollouts.patch("web", &PatchParams::default(), &Patch::Merge(&fields)).await.unwrap();
            held.release();
        }
    });
    stage.given_managed(&Set::new("web", 3), &Rollout::new("web", &answers.url())).await;
    stage.change_and_observe("web", &Template::new("v2")).await;
    stage.serves("web", "v2").await;
    stage.updated("web").await;
    busy.shutdown().await;
    faults.release_all();
    assert_eq!(answers.queries().len(), 4, "each answer was counted");
    stage.event("web", "RolloutCompleted", "").await;
    let requests = stage.requests().await;
    let refused = requests.iter().filter(|request| request.code == 409).count();
    assert!(refused > 0, "there were no conflicts, so this shows nothing");
    let events = Api::<Event>::namespaced(stage.cluster.user(), &stage.namespace);
    let about = ListParams::default().fields("involvedObject.kind=PhasedRollout");
    for event in events.list(&about).await.unwrap() {
        assert_eq!(event.count, Some(1), "told twice: {event:?}");
    }
    stage.finish();
}
