//! An ingester that flushes before it leaves, as Loki's does: `POST /ingester/shutdown`.

use std::sync::Arc;

use sts_plus_api::scaling_policy::RecordPhase;

use super::app::App;
use super::manifest::{SHUTDOWN, STATUS, down, hook, polled, set};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        a_drain_that_lasts_goes_on_over_two_restarts_of_the_operator,
        a_loki_ingester_flushes_before_it_leaves_and_comes_back,
        a_hollow_ingester_answers_as_its_annotation_says,
    ]
}

async fn a_loki_ingester_flushes_before_it_leaves_and_comes_back(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &hook())).await;
    stage.scale(2).await;
    stage.settled(2).await;
    stage.scale(3).await;
    stage.settled(3).await;
    assert_eq!(app.prepared(), ["ingester-2"]);
    assert_eq!(app.made().len(), 1, "{:?}", app.made());
    assert_eq!(stage.numbers(), [3, 2, 3]);
    assert_eq!(stage.lives(0..3), [1, 1, 2]);
    stage.finish(&[&app]).await;
}

/// Waits for polls of an operator that has just been started.
async fn goes_on(app: &App) {
    let polls = app.asked("GET", STATUS).len();
    app.asked_more("GET", STATUS, polls).await;
}

async fn a_drain_that_lasts_goes_on_over_two_restarts_of_the_operator(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Scaled::new(&cluster, name).await;
    let app = stage.given_scaled(3, &down(NAME, &polled())).await;
    app.hold();
    stage.scale(2).await;
    stage.leaves(2, RecordPhase::Draining).await;
    for _ in 0..2 {
        stage.restart().await;
        goes_on(&app).await;
        assert_eq!(stage.numbers(), [3]);
    }
    app.finish();
    stage.settled(2).await;
    assert_eq!(app.asked("POST", SHUTDOWN), ["ingester-2"], "called once, over all restarts");
    stage.finish(&[&app]).await;
}

async fn a_hollow_ingester_answers_as_its_annotation_says(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    stage.create_set(&set(NAME, 2)).await;
    stage.serves(NAME, "v1").await;
    stage.create(&down(NAME, &hook())).await;
    stage.settled(2).await;
    stage.annotate("ingester-1", "/ingester/shutdown 503 body the ring is not healthy").await;
    stage.scale(1).await;
    stage
        .policy_is("showing what the pod says", |policy, _| {
            policy.leaving(1).is_some_and(|record| record.last_error.contains("the ring is not healthy"))
        })
        .await;
    assert_eq!(stage.numbers(), [2]);
    stage.annotate("ingester-1", "/ingester/shutdown 204").await;
    stage.settled(1).await;
    stage.finish(&[]).await;
}
