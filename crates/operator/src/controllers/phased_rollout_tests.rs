//! Passes against an API server of a few lines: what is done and reported although some of it fails or hangs.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_planner::disruption::MAX_MEMBERS;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::test_server::{Ground, Server, refusal};
use super::{Key, PhasedRollouts, manager_of_partition};
use crate::controllers::WORKERS;
use crate::runtime::{Passed, Running, Runtime};
use crate::shell::api::Kind;
use crate::shell::cache::{Cache, Extent, Touched};
use crate::shell::executor::Gate;
use crate::shell::lease::Leadership;
use crate::shell::queue::Outcome;
use crate::shell::surroundings::{Clock, ClockStep};

const REFUSED: &str =
    "Internal error occurred: failed calling webhook \"guard.example.com\": failed to call webhook";

struct Bench {
    server: Server,
    events: Server,
    cache: Cache,
    rollouts: Arc<Runtime<PhasedRollouts>>,
    tasks: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        Self::at(Clock::Machine)
    }

    fn at(clock: Clock) -> Self {
        Self::with(clock, Ground::listed)
    }

    /// A leader whose caches are those of a standby: nothing was listed in its term.
    fn warm() -> Self {
        Self::with(Clock::Machine, |leadership| {
            let complete = watch::channel(leadership.current()).1;
            Gate::warm(leadership, complete, watch::channel(None).1)
        })
    }

    fn with(clock: Clock, gate: impl FnOnce(Leadership) -> Gate) -> Self {
        let (server, reports) = (Server::default(), Server::default());
        let Ground { around, tasks } =
            Ground::with(server.api(), reports.api(), (clock, Extent::Steering), gate);
        let rollouts = Arc::new(Runtime::new("phased-rollout", WORKERS, PhasedRollouts::default(), &around));
        Self { server, events: reports, cache: around.cache, rollouts, tasks }
    }

    /// A set that a rollout holds and somebody else has released, with its pods.
    fn held() -> Self {
        Self::new().holding()
    }

    fn holding(self) -> Self {
        self.see(Kind::StatefulSet, &held_set(0, "3"));
        for ordinal in 0..2 {
            self.see(Kind::Pod, &pod("web", ordinal));
        }
        self.see(Kind::PhasedRollout, &rollout("gated", "web", Some(&managing())));
        self
    }

    fn see(&self, resource: Kind, object: &Value) {
        self.cache.store().upsert(resource, &object.to_string());
    }

    async fn pass(&self) -> bool {
        !matches!(self.rollouts.pass(&key("gated")).await, Passed::Halted { .. } | Passed::Endless)
    }

    /// How often it was reported of an object.
    async fn reports(&self, name: &str, reason: &str) -> Vec<u64> {
        let reported = self.events.reported_of(name).await;
        reported.into_iter().filter(|(known, _)| known == reason).map(|(_, count)| count).collect()
    }
}

fn key(name: &str) -> Key {
    Key { namespace: "ns".into(), name: name.into() }
}

fn set(name: &str, group: Option<&str>, partition: u32, version: &str) -> Value {
    let labels = group.map(|group| json!({ "rollout-group": group }));
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 2,
            "resourceVersion": version, "labels": labels
        },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": name } }, "template": {},
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": partition } }
        },
        "status": {
            "observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2,
            "currentRevision": "new", "updateRevision": "new"
        }
    })
}

fn held_set(partition: u32, version: &str) -> Value {
    let mut set = set("web", None, partition, version);
    set["metadata"]["annotations"] = json!({ keys::PHASED_ROLLOUT: "gated" });
    set
}

fn pod(set: &str, ordinal: u32) -> Value {
    let owner =
        json!({ "kind": "StatefulSet", "name": set, "uid": format!("uid-{set}"), "controller": true });
    let name = format!("{set}-{ordinal}");
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "4",
            "ownerReferences": [owner], "labels": { "app": set, "controller-revision-hash": "new" }
        },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]
        }
    })
}

/// A rollout; one without a status has not been taken up yet.
fn rollout(name: &str, target: &str, status: Option<&Value>) -> Value {
    let finalizers = if status.is_some() { vec![keys::FINALIZER] } else { Vec::new() };
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 1,
            "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers
        },
        "spec": {
            "targetRef": target,
            "check": { "query": { "expr": "up", "url": "http://prometheus:9090" } }
        },
        "status": status
    })
}

fn at_version(version: &str, mut object: Value) -> Value {
    object["metadata"]["resourceVersion"] = json!(version);
    object
}

/// The status of a rollout that holds the partition of `web` at its replicas.
fn managing() -> Value {
    json!({
        "observedGeneration": 1, "phase": "Updated", "target": { "name": "web", "uid": "uid-web" },
        "partition": 2, "updateRevision": "new", "waitingFor": "UpToDate"
    })
}

#[tokio::test(start_paused = true)]
async fn a_restored_partition_is_reported_once_although_the_status_cannot_be_written() {
    let bench = Bench::held();
    bench.server.prepare(Method::PUT, "phasedrollouts/gated/status", Some(refusal(503, "later")));
    assert!(!bench.pass().await, "the status was not written");
    let written: Vec<_> = bench.server.take().into_iter().filter(|asked| !asked.starts_with("GET")).collect();
    assert_eq!(written, ["PATCH statefulsets/web", "PUT phasedrollouts/gated/status"]);
    for name in ["gated", "web"] {
        assert_eq!(bench.reports(name, "PartitionRestored").await, [1], "{name}");
    }
    bench.see(Kind::StatefulSet, &held_set(2, "101"));
    assert!(bench.pass().await);
    assert_eq!(bench.server.take(), ["PUT phasedrollouts/gated/status"], "nothing is left but the status");
    assert_eq!(bench.reports("gated", "PartitionRestored").await, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_could_not_be_restored_is_not_reported_as_restored() {
    let bench = Bench::held();
    bench.server.prepare(Method::PATCH, "statefulsets/web", Some(refusal(500, REFUSED)));
    assert!(!bench.pass().await);
    assert_eq!(bench.reports("gated", "PartitionRestored").await, [] as [u64; 0]);
    assert_eq!(bench.reports("gated", "WriteRefused").await, [1]);
}

#[tokio::test(start_paused = true)]
async fn what_a_status_says_is_reported_once_although_the_answer_to_it_was_lost() {
    for took_effect in [true, false] {
        let bench = Bench::held();
        // A rollout that is about to take its set.
        bench.see(Kind::PhasedRollout, &at_version("6", rollout("gated", "web", Some(&json!({})))));
        bench.server.prepare(Method::PUT, "phasedrollouts/gated/status", None);
        assert!(!bench.pass().await, "no answer");
        assert_eq!(bench.reports("gated", "Managed").await, [] as [u64; 0], "it may not have happened");
        let asked = bench.server.asked.lock().unwrap().clone();
        let (.., put) = asked.iter().find(|(method, ..)| *method == Method::PUT).expect("the status");
        bench.see(Kind::StatefulSet, &held_set(2, "101"));
        let status = if took_effect { put["status"].clone() } else { json!({}) };
        bench.see(Kind::PhasedRollout, &at_version("102", rollout("gated", "web", Some(&status))));
        bench.server.take();
        assert!(bench.pass().await);
        let written = bench.server.take().into_iter().filter(|asked| !asked.starts_with("GET")).count();
        assert_eq!(written, usize::from(!took_effect), "the status is written again where it was not");
        for name in ["gated", "web"] {
            assert_eq!(bench.reports(name, "Managed").await, [1], "{name}, took effect: {took_effect}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_partition_is_reported_once_although_the_answer_was_lost() {
    for took_effect in [true, false] {
        let bench = Bench::held();
        bench.server.prepare(Method::PATCH, "statefulsets/web", None);
        assert!(!bench.pass().await, "no answer");
        assert_eq!(bench.reports("gated", "PartitionRestored").await, [] as [u64; 0]);
        let now = if took_effect { held_set(2, "99") } else { held_set(0, "3") };
        for _ in 0..2 {
            // What became of it, and who has written the partition.
            bench.server.prepare(Method::GET, "statefulsets/web", Some((200, now.clone())));
        }
        bench.see(Kind::StatefulSet, &now);
        assert!(bench.pass().await);
        for name in ["gated", "web"] {
            let reported = bench.reports(name, "PartitionRestored").await;
            assert_eq!(reported, [1], "{name}, took effect: {took_effect}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_refused_is_reported_by_one_event() {
    let bench = Bench::held();
    bench.see(Kind::PhasedRollout, &at_version("6", rollout("gated", "web", None)));
    for _ in 0..3 {
        bench.server.prepare(Method::PATCH, "phasedrollouts/gated", Some(refusal(500, REFUSED)));
        assert!(!bench.pass().await, "refused");
        assert_eq!(bench.server.take(), ["PATCH phasedrollouts/gated"], "there is no status yet");
    }
    assert_eq!(bench.reports("gated", "WriteRefused").await, [1]);
    assert!(bench.pass().await);
    let refused = bench.rollouts.with_memory(&key("gated"), |memory| memory.refused.take());
    assert_eq!(refused, Some(None), "after a success it is news again");
}

#[tokio::test(start_paused = true)]
async fn a_partition_whose_write_is_never_answered_is_reported_in_the_status_after_three_attempts() {
    let bench = Bench::held();
    for attempt in 1..=5 {
        for _ in 0..2 {
            // Who has written the partition, and what became of the attempt before.
            bench.server.prepare(Method::GET, "statefulsets/web", Some((200, held_set(0, "3"))));
        }
        bench.server.prepare(Method::PATCH, "statefulsets/web", None);
        assert!(!bench.pass().await, "the write hangs");
        let asked = bench.server.asked.lock().unwrap().clone();
        if let Some((.., body)) = asked.iter().find(|(method, ..)| *method == Method::PUT) {
            assert_eq!(attempt, 3, "the status is written once");
            assert_eq!(body["status"]["waitingFor"], "WriteRefused");
            let mut shown = rollout("gated", "web", Some(&body["status"]));
            shown["metadata"]["resourceVersion"] = json!("100");
            bench.see(Kind::PhasedRollout, &shown);
        }
        let written = bench.server.take().into_iter().filter(|asked| asked.starts_with("PATCH"));
        assert_eq!(written.collect::<Vec<_>>(), ["PATCH statefulsets/web"], "{attempt}");
        for name in ["gated", "web"] {
            let reported = bench.reports(name, "WriteRefused").await;
            assert_eq!(reported.len(), usize::from(attempt >= 3), "{name}, attempt {attempt}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_whose_write_is_never_answered_is_reported_by_one_event_after_three_attempts() {
    let bench = Bench::held();
    bench.see(Kind::StatefulSet, &held_set(2, "4"));
    for attempt in 1..=5 {
        bench.server.prepare(Method::PUT, "phasedrollouts/gated/status", None);
        assert!(!bench.pass().await, "the write hangs");
        assert_eq!(bench.server.take(), ["PUT phasedrollouts/gated/status"], "the lane waits for it once");
        let reported = bench.reports("gated", "WriteRefused").await;
        assert_eq!(reported.iter().sum::<u64>(), u64::from(attempt >= 3), "attempt {attempt}");
    }
    assert!(bench.pass().await);
}

#[tokio::test(start_paused = true)]
async fn a_released_set_is_reported_once_although_the_finalizer_cannot_be_removed() {
    let bench = Bench::held();
    let mut deleted = rollout("gated", "web", Some(&managing()));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    deleted["metadata"]["resourceVersion"] = json!("6");
    bench.see(Kind::PhasedRollout, &deleted);
    for _ in 0..3 {
        bench.server.prepare(Method::PATCH, "phasedrollouts/gated", Some(refusal(500, REFUSED)));
        assert!(!bench.pass().await, "the finalizer is still there");
        bench.see(Kind::StatefulSet, &set("web", None, 0, "101"));
        // The refusal is in the status, which the view has to show.
        deleted["metadata"]["resourceVersion"] = json!("102");
        bench.see(Kind::PhasedRollout, &deleted);
    }
    assert_eq!(bench.reports("gated", "Released").await, [1], "although the rollout is still there");
    assert!(bench.pass().await);
    assert_eq!(bench.reports("gated", "Released").await, [1]);
    assert_eq!(bench.reports("web", "Released").await, [1]);
}

/// A rollout that was deleted before its status was ever written.
fn deleted() -> Value {
    let mut deleted = rollout("gated", "web", None);
    deleted["metadata"]["finalizers"] = json!([keys::FINALIZER]);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    deleted
}

fn list(version: &str, items: &[Value]) -> (u16, Value) {
    (200, json!({ "metadata": { "resourceVersion": version }, "items": items }))
}

#[tokio::test(start_paused = true)]
async fn b_a14_8_a_new_leader_whose_view_lacks_the_mark_releases_the_set_before_the_finalizer() {
    let bench = Bench::warm();
    bench.see(Kind::StatefulSet, &set("web", None, 0, "3"));
    bench.see(Kind::PhasedRollout, &deleted());
    for _ in 0..2 {
        // The marks of the namespace, then the domain of the set that carries one.
        bench.server.prepare(Method::GET, "/statefulsets", Some(list("60", &[held_set(2, "50")])));
    }
    bench.server.prepare(Method::GET, "/phasedrollouts", Some(list("60", &[deleted()])));
    assert!(bench.pass().await);
    let written: Vec<_> = bench.server.take().into_iter().filter(|asked| !asked.starts_with("GET")).collect();
    let set = "PATCH statefulsets/web";
    assert_eq!(written, [set, set, "PATCH phasedrollouts/gated"], "the partition, the mark, the finalizer");
    assert_eq!(bench.reports("gated", "Released").await, [1]);
}

#[tokio::test(start_paused = true)]
async fn b_a14_8_a_mark_outside_of_the_domain_is_found_before_the_finalizer_is_removed() {
    let bench = Bench::warm();
    bench.see(Kind::PhasedRollout, &deleted());
    let mut other = set("other", Some("g"), 2, "50");
    other["metadata"]["annotations"] = json!({ keys::PHASED_ROLLOUT: "gated" });
    bench.server.prepare(
        Method::GET,
        "/statefulsets",
        Some(list("60", &[set("web-2", None, 0, "51"), other])),
    );
    let passed = bench.rollouts.pass(&key("gated")).await;
    assert!(matches!(passed, Passed::Moved), "the next pass is in the lane of that set: {passed:?}");
    assert_eq!(bench.server.take(), ["GET statefulsets"], "the finalizer stays");
}

#[tokio::test(start_paused = true)]
async fn b_a14_8_the_finalizer_stays_while_it_cannot_be_read_which_sets_carry_the_mark() {
    let bench = Bench::warm();
    bench.see(Kind::StatefulSet, &set("web", None, 0, "3"));
    bench.see(Kind::PhasedRollout, &deleted());
    bench.server.prepare(Method::GET, "/statefulsets", Some(refusal(403, "no")));
    assert!(bench.pass().await);
    assert_eq!(bench.server.take(), ["GET statefulsets"]);
    assert_eq!(bench.reports("gated", "ViewUnconfirmed").await, [1]);
    bench.server.prepare(Method::GET, "/statefulsets", Some(list("60", &[set("web", None, 0, "3")])));
    assert!(bench.pass().await);
    assert_eq!(bench.server.take(), ["GET statefulsets", "PATCH phasedrollouts/gated"]);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_turns_out_to_be_in_a_group_is_released_in_the_lane_of_that_group() {
    let bench = Bench::warm().holding();
    let mut deleted = rollout("gated", "web", Some(&managing()));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    deleted["metadata"]["resourceVersion"] = json!("6");
    bench.see(Kind::PhasedRollout, &deleted);
    let mut grouped = held_set(2, "50");
    grouped["metadata"]["labels"] = json!({ "rollout-group": "g" });
    let prepare = || {
        let pods = [pod("web", 0), pod("web", 1)];
        bench.server.prepare(
            Method::GET,
            "ns/statefulsets",
            Some(list("60", std::slice::from_ref(&grouped))),
        );
        bench.server.prepare(Method::GET, "ns/pods", Some(list("60", &pods)));
        let rollouts = list("60", std::slice::from_ref(&deleted));
        bench.server.prepare(Method::GET, "ns/phasedrollouts", Some(rollouts));
    };
    prepare();
    let passed = bench.rollouts.pass(&key("gated")).await;
    assert!(matches!(passed, Passed::Moved), "{passed:?}");
    let asked = bench.server.take();
    assert!(asked.iter().all(|asked| asked.starts_with("GET")), "nothing is written in that lane: {asked:?}");
    prepare();
    assert!(bench.pass().await);
    let asked = bench.server.take();
    assert!(asked.contains(&"PATCH statefulsets/web".to_owned()), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_writes_hang_leaves_workers_for_the_rollouts_of_others() {
    let slow = 3 * WORKERS;
    let mut bench = Bench::new();
    for number in 0..slow {
        let (name, set_name) = (format!("slow-{number}"), format!("slow-set-{number}"));
        bench.see(Kind::StatefulSet, &set(&set_name, Some("slow"), 0, "3"));
        bench.see(Kind::PhasedRollout, &rollout(&name, &set_name, None));
        bench.server.prepare(Method::PATCH, "phasedrollouts/slow-", None);
    }
    bench.see(Kind::StatefulSet, &held_set(0, "3"));
    for ordinal in 0..2 {
        bench.see(Kind::Pod, &pod("web", ordinal));
    }
    bench.see(Kind::PhasedRollout, &rollout("gated", "web", None));
    bench.rollouts.start_workers(&mut bench.tasks);
    for number in 0..slow {
        bench.rollouts.queue().add(key(&format!("slow-{number}")));
    }
    bench.rollouts.queue().add(key("gated"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.server.take(), ["PATCH phasedrollouts/slow-0", "PATCH phasedrollouts/gated"]);

    // It rolls on, however often those of the other group are touched meanwhile.
    for number in 0..slow {
        bench.rollouts.queue().add(key(&format!("slow-{number}")));
    }
    let mut taken_up = rollout("gated", "web", Some(&managing()));
    taken_up["metadata"]["resourceVersion"] = json!("101");
    bench.see(Kind::PhasedRollout, &taken_up);
    bench.rollouts.queue().add(key("gated"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let asked = bench.server.take();
    let written: Vec<_> = asked.iter().filter(|asked| !asked.starts_with("GET")).collect();
    assert_eq!(written, ["PATCH statefulsets/web", "PUT phasedrollouts/gated/status"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_while_a_pass_writes_does_not_move_the_next_look() {
    let started = Instant::now();
    let step = ClockStep { at: started + Duration::from_millis(500), by: SignedDuration::from_hours(-1) };
    let clock = Clock::at("2026-01-02T00:00:00Z".parse().unwrap()).with_steps([step]);
    let bench = Bench::at(clock).holding();
    bench.server.slow_down(Duration::from_secs(1));
    let Passed::Ended { wake_at, .. } = bench.rollouts.pass(&key("gated")).await else { panic!("planned") };
    assert!(started.elapsed() >= Duration::from_secs(1), "a write was under way when the clock was set");
    assert_eq!(wake_at, Some(started + Duration::from_mins(10)), "so long a contest is remembered");
}

fn entry(manager: &str, time: &str, fields: &Value) -> Value {
    json!({ "manager": manager, "operation": "Update", "time": time, "fieldsV1": fields })
}

#[test]
fn the_other_writer_of_a_partition_is_the_one_who_owns_it() {
    let partition = json!({ "f:spec": { "f:updateStrategy": { "f:rollingUpdate": { "f:partition": {} } } } });
    let replicas = json!({ "f:spec": { "f:replicas": {} } });
    let set = json!({ "metadata": { "managedFields": [
        entry("argocd", "2026-01-01T00:00:00Z", &partition),
        entry("kubectl-scale", "2026-01-02T00:00:00Z", &replicas),
        entry("sts-plus/phased-rollout", "2026-01-03T00:00:00Z", &partition),
    ] } });
    assert_eq!(manager_of_partition(&set), "argocd");
}

#[test]
fn where_nobody_owns_it_the_last_writer_of_anything_is_named_and_else_nobody() {
    let replicas = json!({ "f:spec": { "f:replicas": {} } });
    let mut status = entry("kube-controller-manager", "2026-01-05T00:00:00Z", &json!({}));
    status["subresource"] = json!("status");
    let set = json!({ "metadata": { "managedFields": [
        entry("helm", "2026-01-01T00:00:00Z", &replicas),
        entry("kubectl-edit", "2026-01-02T00:00:00Z", &replicas),
        status,
    ] } });
    assert_eq!(manager_of_partition(&set), "kubectl-edit");
    assert_eq!(manager_of_partition(&json!({})), "an unknown manager");
}

#[tokio::test(start_paused = true)]
async fn of_a_group_of_too_many_sets_only_the_target_is_looked_at() {
    let bench = Bench::new();
    bench.see(Kind::PhasedRollout, &rollout("gated", "n000", Some(&managing())));
    let row = bench.cache.store().rollout(&"ns".into(), &"gated".into()).unwrap();
    for number in 0..=MAX_MEMBERS {
        bench.see(Kind::StatefulSet, &set(&format!("n{number:03}"), Some("g"), 0, "3"));
        let world = super::world(bench.cache.store(), Arc::clone(&row));
        assert_eq!(world.group_sets, number + 1);
        assert_eq!(world.neighbours.len(), if number < MAX_MEMBERS { number } else { 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_is_gone_leaves_no_lane() {
    let bench = Bench::new();
    let gone = |resource, object: &Value| {
        bench.cache.store().remove(resource, &object.to_string());
    };
    let lanes = || bench.rollouts.lanes();
    // There is no set yet, so that it has a lane of its own.
    let row = rollout("gated", "web", Some(&managing()));
    bench.see(Kind::PhasedRollout, &row);
    bench.pass().await;
    assert_eq!(lanes().len(), 1, "{:?}", lanes());
    // The set comes and is deleted; its lane is another one.
    bench.see(Kind::StatefulSet, &held_set(0, "6"));
    bench.pass().await;
    let of_set = lanes().iter().filter(|domain| domain.group.starts_with("uid/")).count();
    assert_eq!(of_set, 1, "{:?}", lanes());
    gone(Kind::StatefulSet, &held_set(0, "7"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    bench.pass().await;
    let mut last = row.clone();
    last["metadata"]["resourceVersion"] = json!("100");
    gone(Kind::PhasedRollout, &last);
    bench.pass().await;
    assert_eq!(lanes(), []);
    assert_eq!(bench.rollouts.kept(), 0);
}

/// A rollout of `web`, whose group has another set with a pod that is not Ready; what it is about to do is refused.
fn refused(bench: &Bench, status: &Value, (current, update): (&str, &str)) {
    let mut web = set("web", Some("g"), 2, "3");
    web["metadata"]["annotations"] = json!({ keys::PHASED_ROLLOUT: "gated" });
    web["status"]["currentRevision"] = json!(current);
    web["status"]["updateRevision"] = json!(update);
    bench.see(Kind::StatefulSet, &web);
    bench.see(Kind::StatefulSet, &set("other", Some("g"), 2, "3"));
    for (name, ordinal, revision) in
        [("web", 0, "old"), ("web", 1, "new"), ("other", 0, "new"), ("other", 1, "new")]
    {
        let mut pod = pod(name, ordinal);
        pod["metadata"]["labels"]["controller-revision-hash"] = json!(revision);
        if (name, ordinal) == ("other", 1) {
            pod["status"]["conditions"][0]["status"] = json!("False");
        }
        bench.see(Kind::Pod, &pod);
    }
    bench.see(Kind::PhasedRollout, &rollout("gated", "web", Some(status)));
}

#[tokio::test(start_paused = true)]
async fn whatever_is_refused_because_of_another_set_of_the_group_is_looked_at_again_when_that_changes() {
    let gate = json!({
        "status": "WaitForChecks", "partition": 0, "replicas": 2, "startTime": "2026-01-01T00:00:00Z",
        "consecutiveSuccessfulChecks": 0, "consecutiveFailedChecks": 0, "totalFailedChecks": 0
    });
    let target = json!({ "name": "web", "uid": "uid-web" });
    let failure = json!({
        "revision": "new", "reason": "ChecksFailed", "message": "no", "time": "2026-01-01T00:00:00Z", "action": "Rollback"
    });
    let rollback = json!({
        "observedGeneration": 1, "phase": "RollingBack", "target": target, "partition": 2, "updateRevision": "new",
        "previousRevision": "old", "failure": failure
    });
    let revert = json!({
        "observedGeneration": 1, "phase": "RollingBack", "target": target, "partition": 2, "updateRevision": "old",
        "previousRevision": "old"
    });
    let verification = json!({
        "observedGeneration": 1, "phase": "Rolling", "target": target, "partition": 2, "updateRevision": "old",
        "previousRevision": "older", "rollingPodStatus": gate
    });
    for (what, status, revisions) in [
        ("rollback", rollback, ("old", "new")),
        ("revert", revert, ("old", "old")),
        ("verification", verification, ("old", "old")),
    ] {
        let bench = Bench::new();
        refused(&bench, &status, revisions);
        assert!(bench.pass().await, "{what}");
        let asked = bench.server.asked.lock().unwrap().clone();
        assert!(asked.iter().all(|(method, ..)| *method != Method::DELETE), "{what}: refused");
        let put = asked.iter().find(|(method, ..)| *method == Method::PUT);
        let status = put.map(|(.., body)| body["status"].clone()).unwrap_or_default();
        assert!(
            status["message"].as_str().is_some_and(|message| message.contains("other")),
            "{what}: {status}"
        );
        for (set, woken) in [("other", 1), ("newcomer", 0)] {
            let touched = Touched::Set { namespace: "ns".into(), set: set.into(), group: Some("g".into()) };
            bench.rollouts.touched(&touched);
            let queue = bench.rollouts.queue();
            assert_eq!(queue.depth(), woken, "{what}: {set}");
            if woken > 0 {
                let next = queue.next().await.expect("a key");
                queue.done(&next, Outcome::Settled);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_in_a_group_of_too_many_sets_is_not_woken_by_each_of_them() {
    let bench = Bench::new();
    bench.see(Kind::PhasedRollout, &rollout("gated", "n000", Some(&managing())));
    for number in 0..=MAX_MEMBERS {
        bench.see(Kind::StatefulSet, &set(&format!("n{number:03}"), Some("g"), 0, "3"));
    }
    bench.pass().await;
    let touched = Touched::Set { namespace: "ns".into(), set: "n007".into(), group: Some("g".into()) };
    bench.rollouts.touched(&touched);
    assert_eq!(bench.rollouts.queue().depth(), 0);
}
