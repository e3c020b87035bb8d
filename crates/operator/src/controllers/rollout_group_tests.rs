//! Passes against an API server of a few lines: what is done and reported although some of it is refused, hangs or is not
//! permitted.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};
use sts_plus_api::keys;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::test_server::{Ground, Server, refusal};
use super::{Key, RolloutGroups};
use crate::controllers::WORKERS;
use crate::runtime::Runtime;
use crate::shell::api::Kind;
use crate::shell::cache::Cache;
use crate::shell::executor::Domain;
use crate::shell::metrics::Metrics;
use crate::shell::queue::Outcome;
use crate::shell::surroundings::{Clock, ClockStep};

const FAILED: &str =
    "Internal error occurred: failed calling webhook \"guard.example.com\": failed to call webhook";

fn set(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 2, "resourceVersion": "3",
            "labels": { "rollout-group": "g" }, "annotations": { "rollout-max-unavailable": "2" }
        },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": name } }, "template": {},
            "updateStrategy": { "type": "OnDelete" }
        },
        "status": {
            "observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 0,
            "currentRevision": "old", "updateRevision": "new"
        }
    })
}

fn pod(set: &str, ordinal: u32, revision: &str, version: u32) -> Value {
    let owner =
        json!({ "kind": "StatefulSet", "name": set, "uid": format!("uid-{set}"), "controller": true });
    let name = format!("{set}-{ordinal}");
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}-{revision}"),
            "resourceVersion": version.to_string(), "ownerReferences": [owner],
            "labels": { "app": set, "controller-revision-hash": revision }
        },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]
        }
    })
}

struct Bench {
    server: Server,
    events: Server,
    cache: Cache,
    groups: Arc<Runtime<RolloutGroups>>,
    metrics: Metrics,
    tasks: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        Self::at(Clock::Machine)
    }

    fn at(clock: Clock) -> Self {
        let (server, reports) = (Server::default(), Server::default());
        let Ground { around, mut tasks } = Ground::new(server.api(), reports.api(), clock);
        let groups = Arc::new(Runtime::new("rollout-group", WORKERS, RolloutGroups::default(), &around));
        groups.inform(&mut tasks);
        let (cache, metrics) = (around.cache, around.metrics);
        let bench = Self { server, events: reports, cache, groups, metrics, tasks };
        bench.see_group("g", ["a", "b"]);
        bench
    }

    /// Sets of a group with a new template, whose pods are of the old one.
    fn see_group(&self, group: &str, sets: [&str; 2]) {
        for name in sets {
            let mut set = set(name);
            set["metadata"]["labels"] = json!({ "rollout-group": group });
            self.see(Kind::StatefulSet, &set);
            for ordinal in 0..2 {
                self.see(Kind::Pod, &pod(name, ordinal, "old", 4));
            }
        }
    }

    fn see(&self, resource: Kind, object: &Value) {
        self.cache.store().upsert(resource, &object.to_string());
    }

    async fn pass(&self) -> Outcome {
        let outcome = self.groups.look_at(&group("g")).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        outcome
    }

    /// How often each reason was reported of a set.
    async fn reported_of(&self, set: &str) -> Vec<(String, u64)> {
        self.events.reported_of(set).await
    }
}

fn group(name: &str) -> Key {
    Key::Group(Domain { namespace: "ns".into(), group: name.into() })
}

fn once(reason: &str) -> (String, u64) {
    (reason.to_owned(), 1)
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_is_never_answered_does_not_keep_the_next_pod_waiting() {
    let bench = Bench::new();
    for _ in 0..8 {
        bench.server.prepare(Method::PATCH, "statefulsets", None);
    }
    let started = Instant::now();
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.server.deletions(), ["a-0", "a-1"]);
    bench.see(Kind::Pod, &pod("a", 0, "new", 20));
    bench.see(Kind::Pod, &pod("a", 1, "new", 21));
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.server.deletions(), ["b-0", "b-1"]);
    assert!(started.elapsed() < Duration::from_secs(1), "the clock is paused: nothing was waited for");
}

#[tokio::test(start_paused = true)]
async fn what_was_done_is_reported_once_although_another_write_fails() {
    let bench = Bench::new();
    bench.server.prepare(Method::DELETE, "a-1", Some(refusal(503, "later")));
    assert_eq!(bench.pass().await, Outcome::Failed);
    for _ in 0..3 {
        bench.server.prepare(Method::GET, "a-1", Some(refusal(503, "later")));
        bench.pass().await;
    }
    assert_eq!(bench.reported_of("a").await, [once("Rolling")]);
    assert_eq!(bench.reported_of("b").await, [once("WaitingForTurn")]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_a_state_that_is_reported_once_and_ends() {
    let bench = Bench::new();
    for _ in 0..3 {
        for pod in ["a-0", "a-1"] {
            bench.server.prepare(Method::DELETE, pod, Some(refusal(500, FAILED)));
        }
        assert_eq!(bench.pass().await, Outcome::Failed);
        let page = bench.metrics.encode();
        let series = "sts_plus_rollout_sets{namespace=\"ns\",rollout_group=\"g\",state=\"WriteRefused\"} 1";
        assert!(page.contains(series), "{page}");
    }
    assert_eq!(bench.reported_of("a").await, [once("WriteRefused")]);
    let asked = bench.server.asked.lock().unwrap().clone();
    let reads = asked.iter().filter(|(method, ..)| *method == Method::GET).count();
    assert_eq!(reads, 0, "a refusal is not an unknown: nothing is read back");
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.reported_of("a").await, [once("WriteRefused"), once("Rolling")]);
    assert!(!bench.metrics.encode().contains("WriteRefused"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_never_answered_is_reported_after_three_attempts_and_ends() {
    let bench = Bench::new();
    for attempt in 1..=5 {
        for (ordinal, path) in [(0, "pods/a-0"), (1, "pods/a-1")] {
            // It is read back before the next attempt.
            bench.server.prepare(Method::GET, path, Some((200, pod("a", ordinal, "old", 4))));
            bench.server.prepare(Method::DELETE, path, None);
        }
        assert_eq!(bench.pass().await, Outcome::Failed);
        assert_eq!(bench.server.deletions(), ["a-0", "a-1"], "it is retried");
        let reported = bench.reported_of("a").await;
        let expected = [once("Rolling"), once("WriteRefused")];
        assert_eq!(reported, expected[..if attempt < 3 { 1 } else { 2 }], "attempt {attempt}");
    }
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert!(!bench.metrics.encode().contains("state=\"WriteRefused\""));
}

#[tokio::test(start_paused = true)]
async fn a_refused_annotation_is_reported_on_its_set_and_the_rollout_goes_on() {
    let bench = Bench::new();
    for _ in 0..20 {
        bench.server.prepare(Method::PATCH, "statefulsets/a", Some(refusal(500, FAILED)));
    }
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.server.deletions(), ["a-0", "a-1"]);
    bench.see(Kind::Pod, &pod("a", 0, "new", 20));
    bench.see(Kind::Pod, &pod("a", 1, "new", 21));
    assert_eq!(bench.pass().await, Outcome::Settled);
    assert_eq!(bench.server.deletions(), ["b-0", "b-1"]);
    let told = bench.reported_of("a").await;
    let refused = told.iter().filter(|(reason, _)| reason == "WriteRefused").count();
    assert_eq!(refused, 1, "{told:?}");
    assert!(told.contains(&once("Rolling")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_removed_from_a_set_without_a_group_is_reported_once() {
    let bench = Bench::new();
    let mut left = set("left");
    left["metadata"]["labels"] = json!({});
    left["metadata"]["annotations"] = json!({ keys::ROLLOUT_STATUS: "{}" });
    bench.see(Kind::StatefulSet, &left);
    for _ in 0..8 {
        bench.server.prepare(Method::PATCH, "statefulsets/left", Some(refusal(500, FAILED)));
    }
    let key = Key::Ungrouped { namespace: "ns".into(), set: "left".into() };
    for _ in 0..4 {
        assert_eq!(bench.groups.look_at(&key).await, Outcome::Settled);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(bench.reported_of("left").await, [once("WriteRefused")]);
    // It is retried with a growing wait, and admitted at last.
    tokio::time::sleep(Duration::from_mins(5)).await;
    left["metadata"]["annotations"] = json!({});
    left["metadata"]["resourceVersion"] = json!("101");
    bench.see(Kind::StatefulSet, &left);
    bench.groups.look_at(&key).await;
    assert_eq!(bench.groups.kept(), 0, "nothing is kept of it");
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_deletions_hang_leaves_workers_for_other_groups() {
    let mut bench = Bench::new();
    for _ in 0..2 {
        bench.server.prepare(Method::DELETE, "pods/a-", None);
    }
    bench.see_group("other", ["c", "d"]);
    bench.groups.start_workers(&mut bench.tasks);
    // Touched again and again, as a group is whose pods change.
    for _ in 0..3 * WORKERS {
        bench.groups.queue().add(group("g"));
        tokio::task::yield_now().await;
    }
    bench.groups.queue().add(group("other"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.server.deletions(), ["a-0", "a-1", "c-0", "c-1"]);
    bench.see(Kind::Pod, &pod("c", 0, "new", 20));
    bench.see(Kind::Pod, &pod("c", 1, "new", 21));
    bench.groups.queue().add(group("g"));
    bench.groups.queue().add(group("other"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.server.deletions(), ["d-0", "d-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_while_a_pass_writes_does_not_move_the_next_look() {
    let started = Instant::now();
    let step = ClockStep { at: started + Duration::from_millis(500), by: SignedDuration::from_hours(-1) };
    let bench = Bench::at(Clock::at("2026-01-01T00:00:30Z".parse().unwrap()).with_steps([step]));
    // Its pods are available in 30 s, and one more may be unavailable; those of the other set are available.
    let mut young = set("a");
    young["spec"]["minReadySeconds"] = json!(60);
    young["metadata"]["resourceVersion"] = json!("5");
    young["metadata"]["annotations"] = json!({ "rollout-max-unavailable": "3" });
    bench.see(Kind::StatefulSet, &young);
    bench.server.slow_down(Duration::from_secs(1));
    let outcome = bench.groups.look_at(&group("g")).await;
    assert!(started.elapsed() >= Duration::from_secs(1), "a deletion was under way when the clock was set");
    assert_eq!(outcome, Outcome::WakeAt(started + Duration::from_secs(30)));
}
