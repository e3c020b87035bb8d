//! Hooks that cannot be called, or whose answers are of no use: reported, tried again, and nothing is removed.

use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::scaling_policy::RecordPhase;

use super::app::Says;
use super::manifest::{SHUTDOWN, STATUS, down, hook, polled, with};
use super::scenarios;
use super::seen::Policy;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

/// For one call: long enough for a pod that answers at once on a busy machine, in seconds.
const TIMEOUT_SECONDS: u32 = 5;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_hook_that_cannot_be_called_is_reported_until_it_can,
        a_hook_whose_answer_is_of_no_use_is_called_again,
        a_status_that_is_of_no_use_is_asked_for_again,
        a_hook_that_is_changed_is_called_anew,
        several_pods_leave_at_once_and_are_removed_by_one_write,
        a_paused_policy_begins_nothing_and_goes_on_when_it_is_resumed,
    ]
}

/// Scales down, and waits until the record has shown this error while nothing was removed. The next call may follow at once.
async fn fails_with(stage: &Scaled, words: &str) {
    stage.scale(1).await;
    let shown = stage
        .until(&format!("{words:?} to be shown"), |seen| {
            let shows = |policy: &&Policy| {
                policy
                    .leaving(1)
                    .is_some_and(|record| record.last_error.contains(words) && record.attempts > 0)
            };
            let found = seen.history.get(NAME).into_iter().flatten().find(shows);
            found.cloned().ok_or_else(|| format!("{:?}", seen.policies.get(NAME)))
        })
        .await;
    assert_eq!(shown.status.replicas, Some(2));
}

async fn a_hook_that_cannot_be_called_is_reported_until_it_can(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let cases: [(Value, &str); 2] =
        [(json!({ "http": { "port": 9 } }), "refused"), (json!({ "http": { "port": "nobody" } }), "nobody")];
    for (fields, words) in cases {
        let stage = Scaled::new(&cluster, name).await;
        let app = stage.given_scaled(2, &down(NAME, &with(hook(), &fields))).await;
        fails_with(&stage, words).await;
        assert!(app.made().is_empty(), "{:?}", app.made());
        stage.edit(json!({ "scaleDown": { "hook": hook() } })).await;
        stage.settled(1).await;
        assert_eq!(app.prepared(), ["ingester-1"]);
        stage.finish(&[&app]).await;
    }
}

async fn a_hook_whose_answer_is_of_no_use_is_called_again(cluster: Arc<dyn Cluster>, name: &'static str) {
    let cases = [
        (Says::Nothing, "no answer within 5 s"),
        (Says::Reset, ""),
        (Says::Huge, "longer than"),
        (Says::Text(302, "elsewhere"), "302"),
        (Says::Code(404), "404"),
    ];
    for (says, words) in cases {
        let stage = Scaled::new(&cluster, name).await;
        let hook = with(hook(), &json!({ "timeoutSeconds": TIMEOUT_SECONDS }));
        let app = stage.given_scaled(2, &down(NAME, &hook)).await;
        app.say("POST", SHUTDOWN, &[says.clone(), Says::Code(202)]);
        fails_with(&stage, words).await;
        stage.settled(1).await;
        assert_eq!(app.prepared().len(), 2, "{says:?}");
        stage.finish(&[&app]).await;
    }
}

async fn a_status_that_is_of_no_use_is_asked_for_again(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let hook = with(polled(), &json!({ "timeoutSeconds": TIMEOUT_SECONDS }));
    let app = stage.given_scaled(2, &down(NAME, &hook)).await;
    let says = [
        Says::Huge,
        Says::Text(200, "<html>"),
        Says::Nothing,
        Says::Code(503),
        Says::State("drained".to_owned()),
    ];
    app.say("GET", STATUS, &says);
    stage.scale(1).await;
    stage.settled(1).await;
    assert_eq!(app.prepared(), ["ingester-1"], "what was accepted is not asked for again");
    assert_eq!(app.asked("GET", STATUS).len(), says.len());
    stage.finish(&[&app]).await;
}

async fn a_hook_that_is_changed_is_called_anew(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(2, &down(NAME, &polled())).await;
    app.hold();
    stage.scale(1).await;
    stage.leaves(1, RecordPhase::Draining).await;
    app.say("POST", "/flush", &[Says::Code(200)]);
    stage.edit(json!({ "scaleDown": { "hook": { "http": { "path": "/flush", "status": null } } } })).await;
    stage.settled(1).await;
    assert_eq!(app.prepared(), ["ingester-1"]);
    assert_eq!(app.asked("POST", "/flush"), ["ingester-1"]);
    stage.finish(&[&app]).await;
}

async fn several_pods_leave_at_once_and_are_removed_by_one_write(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let spec = with(down(NAME, &polled()), &json!({ "scaleDown": { "maxConcurrent": 3 } }));
    let app = stage.given_scaled(6, &spec).await;
    app.hold();
    stage.scale(1).await;
    stage
        .policy_is("draining three pods", |policy, _| {
            let leaving = &policy.status.leaving;
            leaving.len() == 3 && leaving.iter().all(|record| record.phase == RecordPhase::Draining)
        })
        .await;
    assert_eq!(stage.view().sets[NAME].leaving.as_deref(), Some("3,4,5"));
    // Two that are done do not leave without the third.
    for pod in ["ingester-5", "ingester-3"] {
        app.say_of(pod, "GET", STATUS, &[Says::State("drained".to_owned())]);
    }
    stage.leaves(5, RecordPhase::Drained).await;
    stage.leaves(3, RecordPhase::Drained).await;
    assert_eq!(stage.numbers(), [6]);
    app.finish();
    stage.settled(1).await;
    assert_eq!(stage.numbers(), [6, 3, 1]);
    assert_eq!(app.prepared().len(), 5);
    stage.finish(&[&app]).await;
}

async fn a_paused_policy_begins_nothing_and_goes_on_when_it_is_resumed(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &polled())).await;
    stage.edit(json!({ "paused": true, "replicas": 2 })).await;
    stage.policy_is("paused", |policy, _| policy.reason() == "Paused").await;
    assert!(app.made().is_empty() && stage.present().status.leaving.is_empty());
    // What others lower is restored all the same.
    stage.write_replicas(NAME, 2, "somebody").await;
    stage
        .until("the number to be restored", |seen| {
            let numbers = &seen.replicas[NAME];
            if numbers[..] == [3, 2, 3] { Ok(()) } else { Err(format!("{numbers:?}")) }
        })
        .await;
    assert!(app.made().is_empty(), "{:?}", app.made());
    stage.serves(NAME, "v1").await;
    stage.edit(json!({ "paused": false })).await;
    stage.settled(2).await;
    assert_eq!(app.prepared(), ["ingester-2"]);
    stage.finish(&[&app]).await;
}
