//! Answers get lost, come late or say no: the rollout ends the same, with as many deletions as pods.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use http::{Method, Request};
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use serde_json::json;
use sts_plus_harness::faults::{Call, Fault, Faults};
use tower::service_fn;

use super::{Place, Scenario, scenarios};
use crate::fixture::{Template, three_zones};
use crate::scene::Scene;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![Place::Shared;
        the_answer_to_every_deletion_is_lost,
        no_deletion_reaches_the_server_at_the_first_attempt,
        the_first_write_to_every_object_is_throttled,
        every_pod_changes_just_before_it_is_deleted,
    ]
}

async fn the_answer_to_every_deletion_is_lost(scene: Scene) {
    let faults = Faults::new(|call| if deletes_pod(call) { Fault::LoseAnswer } else { Fault::None });
    rolled_through(scene, |client| faults.client(&client)).await;
}

async fn no_deletion_reaches_the_server_at_the_first_attempt(scene: Scene) {
    let first = first_time();
    let faults =
        Faults::new(move |call| if deletes_pod(call) && first(call) { Fault::Refuse } else { Fault::None });
    rolled_through(scene, |client| faults.client(&client)).await;
}

async fn the_first_write_to_every_object_is_throttled(scene: Scene) {
    let first = first_time();
    let throttle = Fault::Answer { status: 429, retry_after: Some(1) };
    let faults =
        Faults::new(move |call| if call.write.is_some() && first(call) { throttle } else { Fault::None });
    rolled_through(scene, |client| faults.client(&client)).await;
}

/// The version that a deletion was decided under is never the present one at the first attempt.
async fn every_pod_changes_just_before_it_is_deleted(scene: Scene) {
    let touched = Arc::new(Mutex::new(BTreeSet::new()));
    let pods = scene.pods();
    let count = Arc::clone(&touched);
    rolled_through(scene, move |client| {
        let service = service_fn(move |request: Request<Body>| {
            let (pods, client, touched) = (pods.clone(), client.clone(), Arc::clone(&touched));
            async move {
                let path = request.uri().path().to_owned();
                let new = request.method() == Method::DELETE && touched.lock().unwrap().insert(path.clone());
                if let (true, Some((_, pod))) = (new, path.rsplit_once('/')) {
                    let note = json!({ "metadata": { "annotations": { "example.com/note": "touched" } } });
                    pods.patch(pod, &PatchParams::default(), &Patch::Merge(note)).await?;
                }
                client.send(request).await
            }
        });
        Client::new(service, "default")
    })
    .await;
    assert_eq!(count.lock().unwrap().len(), 6, "every pod was touched once");
}

async fn rolled_through(scene: Scene, client: impl FnOnce(Client) -> Client) {
    let zones = three_zones(2);
    scene.given(&zones).await;
    scene.change_and_observe(&zones, &Template::new("v2")).await;
    let account = scene.account("operator").await;
    let _operator = scene.operator_through(&client(account.client));
    scene.rolled(&zones, "v2").await;
    assert_eq!(scene.finish().await, 6);
}

fn deletes_pod(call: &Call) -> bool {
    call.method == Method::DELETE && call.path.contains("/pods/")
}

/// Whether a call is the first of its method to its address.
fn first_time() -> impl Fn(&Call) -> bool + Send + Sync + 'static {
    let seen = Mutex::new(BTreeSet::new());
    move |call| seen.lock().unwrap().insert((call.method.to_string(), call.path.clone()))
}
