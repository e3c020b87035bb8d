use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::behaviour::{FAULT, INIT_DELAY, INIT_RUNS, READY_DELAY, START_DELAY, STOP_DELAY};
use super::super::node::Node;
use super::super::pod::tests::pod_with;
use super::*;

const MS: fn(u64) -> Moment = Duration::from_millis;

const RUNNING: Stage =
    Stage { phase: Phase::Running, containers: Containers::Running, started: true, ..Stage::NEW };
const READY: Stage = Stage { containers_ready: true, ready: true, ..RUNNING };
const IMAGE_PULL: Stage = Stage { containers: Containers::ImagePullBackOff, ..Stage::NEW };

fn crashing(restarts: u32) -> Stage {
    Stage { containers: Containers::CrashLoopBackOff, restarts, started: false, ..RUNNING }
}

/// A pod that lives through what it is told, with every write echoed at once.
struct Story {
    pod: Pod,
    progress: Progress,
    nodes: Nodes,
    defaults: Defaults,
    health: Health,
    now: Moment,
}

impl Story {
    fn new(pod: Pod) -> Self {
        let all = vec![Node::new("n1", "a"), Node::new("n2", "b")];
        let nodes = Nodes { all, lost: BTreeSet::new() };
        let mut story = Story {
            pod,
            progress: Progress::default(),
            nodes,
            defaults: Defaults::default(),
            health: Health::FINE,
            now: MS(1_000),
        };
        story.progress.see(&story.pod, story.now);
        story
    }

    fn with(annotations: &Value) -> Self {
        Story::new(pod_with(json!({ "metadata": { "annotations": annotations } })))
    }

    /// A pod with these annotations that already shows this stage.
    fn at(stage: Stage, annotations: &Value) -> Self {
        let mut story = Story::with(annotations);
        story.pod.stage = stage;
        story.progress.see(&story.pod, story.now);
        story
    }

    fn next(&self) -> Next<Write> {
        next(&self.pod, &self.progress, &self.nodes, &self.defaults, self.health, self.now)
    }

    /// Makes the write that is due, and shows its effect.
    fn act(&mut self) -> Write {
        let Next::Write(write) = self.next() else { panic!("nothing to write: {:?}", self.next()) };
        self.progress.act(&self.pod, &write, self.now);
        match &write {
            Write::Bind(node) => self.pod.binding = Binding::Bound(node.clone()),
            Write::Report(stage) => self.pod.stage = *stage,
            Write::NotReady => self.pod.stage.ready = false,
            Write::Remove | Write::Unschedulable(_) | Write::Complain(_) => {}
        }
        self.progress.see(&self.pod, self.now);
        write
    }

    fn reports(&mut self, stage: Stage) {
        assert_eq!(self.act(), Write::Report(stage), "at {:?}", self.now);
    }

    fn rests(&self) {
        assert_eq!(self.next(), Next::Rest, "at {:?}", self.now);
    }

    /// Waits for exactly this long and not a nanosecond less.
    fn waits(&mut self, time: Duration) {
        assert_eq!(self.next(), Next::Wait(self.now + time), "at {:?}", self.now);
        self.now += time.saturating_sub(Duration::from_nanos(1));
        assert!(matches!(self.next(), Next::Wait(_)), "at {:?}", self.now);
        self.now += Duration::from_nanos(1);
    }

    fn annotate(&mut self, annotations: &Value) {
        self.pod.behaviour = pod_with(json!({ "metadata": { "annotations": annotations } })).behaviour;
        self.progress.see(&self.pod, self.now);
    }

    fn delete(&mut self, grace: i64) {
        self.pod.deletion_grace = Some(grace);
        self.progress.see(&self.pod, self.now);
    }
}

#[test]
fn without_delays_one_bind_and_one_report_make_a_pod_ready() {
    let mut story = Story::new(pod_with(json!({ "spec": { "nodeName": null } })));
    assert!(matches!(story.act(), Write::Bind(_)));
    story.reports(READY);
    story.rests();
}

#[test]
fn delays_are_counted_from_the_step_before() {
    let mut story = Story::with(&json!({ START_DELAY: "50ms", READY_DELAY: "20ms", STOP_DELAY: "30ms" }));
    story.waits(MS(50));
    story.reports(RUNNING);
    story.waits(MS(20));
    story.reports(READY);
    story.rests();
    story.now += MS(500);
    story.delete(30);
    story.waits(MS(30));
    assert_eq!(story.act(), Write::Remove);
    let mut slow = Story::at(READY, &json!({ STOP_DELAY: "1h" }));
    slow.delete(2);
    slow.waits(MS(2_000));
    assert_eq!(slow.act(), Write::Remove, "what does not stop is killed");
}

#[test]
fn a_slow_answer_does_not_lengthen_the_delays() {
    let mut story = Story::with(&json!({ READY_DELAY: "20ms" }));
    let Next::Write(write) = story.next() else { panic!() };
    story.progress.act(&story.pod, &write, story.now);
    story.now += MS(15);
    // The echo of the report comes 15 ms later.
    story.pod.stage = RUNNING;
    story.progress.see(&story.pod, story.now);
    story.waits(MS(5));
}

#[test]
fn the_configured_delays_hold_where_the_pod_names_none() {
    let mut story = Story::with(&json!({ READY_DELAY: "0s" }));
    story.defaults = Defaults {
        start: Delay::fixed(MS(10)),
        ready: Delay::fixed(MS(99)),
        stop: Delay::fixed(MS(30)),
        seed: 1,
        placement: Placement::Ours,
    };
    story.waits(MS(10));
    story.reports(READY);
    story.delete(30);
    story.waits(MS(30));
    assert_eq!(story.act(), Write::Remove);
}

#[test]
fn faults_take_hold_at_start() {
    for (fault, stage) in [
        ("never-ready", RUNNING),
        ("crash-loop", crashing(1)),
        ("image-pull", IMAGE_PULL),
        ("stuck-terminating", READY),
    ] {
        let mut story = Story::with(&json!({ START_DELAY: "5ms", FAULT: fault }));
        story.waits(MS(5));
        story.reports(stage);
    }
}

#[test]
fn faults_take_hold_on_a_live_pod_and_heal() {
    for (fault, sick, healed) in [
        ("never-ready", RUNNING, READY),
        ("crash-loop", crashing(1), Stage { restarts: 2, ..READY }),
        // A pod that ran stays Running, even if its image is gone.
        ("image-pull", Stage { containers: Containers::ImagePullBackOff, started: false, ..RUNNING }, READY),
        ("unready-after=0s", RUNNING, READY),
    ] {
        let mut story = Story::at(READY, &json!({}));
        story.rests();
        story.now += MS(300);
        story.annotate(&json!({ FAULT: fault }));
        story.reports(sick);
        story.now += MS(100);
        story.annotate(&json!({}));
        story.reports(healed);
        story.rests();
    }
}

#[test]
fn a_healed_crash_waits_for_readiness_again() {
    let mut story = Story::at(crashing(4), &json!({ READY_DELAY: "20ms", FAULT: "crash-loop" }));
    story.annotate(&json!({ READY_DELAY: "20ms" }));
    story.reports(Stage { restarts: 5, ..RUNNING });
    story.waits(MS(20));
    story.reports(Stage { restarts: 5, ..READY });
}

#[test]
fn restarts_grow_ever_more_slowly() {
    let mut story = Story::with(&json!({ FAULT: "crash-loop" }));
    story.reports(crashing(1));
    for (restarts, seconds) in [(2, 1), (3, 2), (4, 4), (5, 8)] {
        story.waits(Duration::from_secs(seconds));
        story.reports(crashing(restarts));
    }
    assert_eq!(crash_backoff(0), CRASH_BACKOFF_FIRST);
    assert_eq!(crash_backoff(40), CRASH_BACKOFF_MOST);
    assert_eq!(crash_backoff(u32::MAX), CRASH_BACKOFF_MOST);
}

#[test]
fn unready_after_counts_from_ready_and_from_when_it_was_asked_for() {
    let mut story = Story::with(&json!({ START_DELAY: "5ms", FAULT: "unready-after=3s" }));
    story.waits(MS(5));
    story.reports(READY);
    story.waits(MS(3_000));
    story.reports(RUNNING);
    story.rests();

    let mut story = Story::at(READY, &json!({}));
    story.now += MS(60_000);
    story.annotate(&json!({ FAULT: "unready-after=3s" }));
    story.waits(MS(3_000));
    story.reports(RUNNING);
    story.rests();
}

#[test]
fn a_stuck_pod_goes_when_it_is_released() {
    let mut story = Story::at(READY, &json!({ FAULT: "stuck-terminating", STOP_DELAY: "10ms" }));
    story.delete(30);
    story.now += MS(60_000);
    story.rests();
    story.annotate(&json!({ STOP_DELAY: "10ms" }));
    assert_eq!(story.act(), Write::Remove);
}

#[test]
fn a_removed_pod_with_finalizers_and_a_finished_one_are_left_alone() {
    let mut story = Story::at(READY, &json!({}));
    story.delete(0);
    story.rests();
    let finished = Stage { phase: Phase::Failed, ..Stage::NEW };
    Story::at(finished, &json!({})).rests();
}

#[test]
fn a_pod_is_ready_only_while_its_gates_are_open() {
    let gate = |status: &str| {
        pod_with(json!({
            "spec": { "readinessGates": [{ "conditionType": "gate" }] },
            "status": { "conditions": [{ "type": "gate", "status": status }] },
        }))
        .conditions
    };
    let mut story =
        Story::new(pod_with(json!({ "spec": { "readinessGates": [{ "conditionType": "gate" }] } })));
    let held = Stage { ready: false, ..READY };
    story.reports(held);
    story.rests();
    story.pod.conditions = gate("True");
    story.reports(READY);
    story.pod.conditions = gate("False");
    story.reports(held);
}

#[test]
fn a_lost_node_does_nothing_but_its_pods_are_not_ready() {
    let mut story = Story::at(READY, &json!({}));
    story.nodes.lost.insert("n1".to_owned());
    assert_eq!(story.act(), Write::NotReady);
    story.rests();
    story.delete(30);
    story.now += MS(60_000);
    story.rests();
    story.nodes.lost.clear();
    assert_eq!(story.act(), Write::Remove);

    let mut story = Story::with(&json!({}));
    story.nodes.lost.insert("n1".to_owned());
    story.rests();
    story.nodes.lost.clear();
    story.reports(READY);
    story.nodes.lost.insert("n1".to_owned());
    story.act();
    story.nodes.lost.clear();
    story.reports(READY);
}

#[test]
fn a_pod_that_fits_nowhere_says_so_once_and_waits() {
    let mut pod = pod_with(json!({ "spec": { "nodeName": null, "nodeSelector": { "disk": "ssd" } } }));
    let story = Story::new(pod.clone());
    assert!(
        matches!(story.next(), Next::Write(Write::Unschedulable(reason)) if reason.starts_with("0/2 nodes"))
    );
    pod.conditions = pod_with(json!({ "status": { "conditions": [
        { "type": "PodScheduled", "status": "False", "reason": "Unschedulable" },
    ] } }))
    .conditions;
    Story::new(pod).rests();
}

#[test]
fn pods_that_are_not_ours_are_left_alone() {
    for pod in [
        json!({ "spec": { "nodeName": "somebody-elses" } }),
        json!({ "spec": { "nodeName": null, "schedulerName": "mine" } }),
        json!({ "spec": { "nodeName": null }, "metadata": { "deletionTimestamp": "x", "deletionGracePeriodSeconds": 0 } }),
        json!({ "spec": { "nodeName": "somebody-elses" }, "metadata": { "annotations": { FAULT: "bad" } } }),
    ] {
        Story::new(pod_with(pod)).rests();
    }
}

#[test]
fn a_complaint_is_made_once_when_nothing_else_is_to_be_done() {
    let mut story = Story::with(&json!({ FAULT: "never-redy" }));
    story.reports(READY);
    let complaint = story.act();
    assert!(matches!(&complaint, Write::Complain(text) if text.contains("never-redy")), "{complaint:?}");
    story.rests();
    story.annotate(&json!({ START_DELAY: "soon" }));
    assert!(matches!(story.act(), Write::Complain(text) if text.contains("soon")));
    story.rests();

    // Waiting for a delay is time enough to complain, and does not lengthen it.
    let mut story = Story::with(&json!({ START_DELAY: "5ms", FAULT: "bad" }));
    assert!(matches!(story.act(), Write::Complain(_)));
    story.waits(MS(5));
}

#[test]
fn every_pod_draws_its_own_delay_and_always_the_same() {
    let wait = |uid: &str, seed: u64| {
        let pod = pod_with(json!({ "metadata": { "uid": uid, "annotations": { START_DELAY: "2s..5s" } } }));
        let mut story = Story::new(pod);
        story.defaults.seed = seed;
        match story.next() {
            Next::Wait(moment) => moment.checked_sub(story.now).unwrap(),
            next => panic!("{next:?}"),
        }
    };
    assert_eq!(wait("one", 1), wait("one", 1));
    assert_ne!(wait("one", 1), wait("two", 1));
    assert_ne!(wait("one", 1), wait("one", 2));
}

fn at(index: usize, state: InitState, restarts: u32) -> Stage {
    Stage { init: Init::At { index, state, restarts }, ..Stage::NEW }
}

/// A pod with two init containers and a sidecar between them.
fn with_init(annotations: &Value, policy: &str) -> Story {
    let init = |name: &str| json!({ "name": name, "image": "init" });
    let sidecar = json!({ "name": "sidecar", "image": "side", "restartPolicy": "Always" });
    Story::new(pod_with(json!({
        "metadata": { "annotations": annotations },
        "spec": { "restartPolicy": policy, "initContainers": [init("one"), sidecar, init("two")] },
    })))
}

#[test]
fn init_containers_take_their_turns() {
    let mut story = with_init(&json!({ INIT_DELAY: "20ms" }), "Always");
    story.reports(at(0, InitState::Running, 0));
    story.waits(MS(20));
    story.reports(at(1, InitState::Running, 0));
    story.waits(MS(20));
    story.reports(READY);
    story.rests();
    let mut quick = with_init(&json!({}), "Always");
    quick.reports(READY);
}

#[test]
fn init_containers_run_as_often_as_they_are_told() {
    let mut story = with_init(&json!({ INIT_DELAY: "20ms", INIT_RUNS: "3" }), "Always");
    for index in 0..2 {
        for restarts in 0..3 {
            story.reports(at(index, InitState::Running, restarts));
            story.waits(MS(20));
        }
    }
    story.reports(READY);
    let mut quick = with_init(&json!({ INIT_RUNS: "2" }), "Always");
    quick.reports(at(0, InitState::Running, 1));
    quick.reports(at(1, InitState::Running, 1));
    quick.reports(READY);
}

#[test]
fn an_init_container_that_fails_holds_the_pod_until_it_heals() {
    let mut story = with_init(&json!({ FAULT: "init-crash-loop" }), "Always");
    story.reports(at(0, InitState::CrashLoopBackOff, 1));
    story.waits(MS(1_000));
    story.reports(at(0, InitState::CrashLoopBackOff, 2));
    story.waits(MS(2_000));
    story.reports(at(0, InitState::CrashLoopBackOff, 3));
    story.annotate(&json!({ INIT_DELAY: "20ms" }));
    story.reports(at(0, InitState::Running, 4));
    story.waits(MS(20));
    story.reports(at(1, InitState::Running, 0));
    let mut once = with_init(&json!({ FAULT: "init-crash-loop" }), "Never");
    once.reports(Stage { phase: Phase::Failed, ..at(0, InitState::Failed, 0) });
    once.rests();
}

fn run_of(policy: &str, fault: &str) -> Story {
    let annotations = json!({ FAULT: fault });
    Story::new(pod_with(
        json!({ "metadata": { "annotations": annotations }, "spec": { "restartPolicy": policy } }),
    ))
}

#[test]
fn a_run_that_ends_is_followed_by_another_after_growing_pauses() {
    let mut story = run_of("Always", "exit-after=1s");
    let again = |restarts: u32| Stage { restarts, exit: 0, ..READY };
    let over = |restarts: u32| Stage {
        containers: Containers::CrashLoopBackOff,
        restarts,
        exit: 0,
        started: false,
        ..RUNNING
    };
    story.reports(READY);
    story.waits(MS(1_000));
    // The first one begins again at once, and is ready with the next report.
    story.reports(Stage { containers_ready: false, ready: false, ..again(1) });
    story.reports(again(1));
    for (restarts, pause) in [(1, 1_000), (2, 2_000), (3, 4_000)] {
        story.waits(MS(1_000));
        story.reports(over(restarts));
        story.waits(MS(pause));
        story.reports(again(restarts + 1));
    }
    story.annotate(&json!({}));
    story.rests();
    story.now += BACKOFF_FORGOTTEN;
    story.annotate(&json!({ FAULT: "fail-after=0s" }));
    assert_eq!(
        story.act(),
        Write::Report(Stage { exit: 1, containers_ready: false, ready: false, ..again(5) })
    );
}

#[test]
fn the_restart_policy_decides_whether_a_pod_ends() {
    for (policy, fault, phase) in [
        ("Never", "exit-after=1s", Some(Phase::Succeeded)),
        ("Never", "fail-after=1s", Some(Phase::Failed)),
        ("OnFailure", "exit-after=1s", Some(Phase::Succeeded)),
        ("OnFailure", "fail-after=1s", None),
        ("Always", "exit-after=1s", None),
    ] {
        let mut story = run_of(policy, fault);
        story.reports(READY);
        story.waits(MS(1_000));
        let Write::Report(stage) = story.act() else { panic!() };
        let expected = phase.map_or(Containers::Running, |_| Containers::Ended);
        assert_eq!(
            (stage.phase, stage.containers),
            (phase.unwrap_or(Phase::Running), expected),
            "{policy} {fault}"
        );
    }
}

#[test]
fn probes_decide_what_a_run_is_worth() {
    let probe = |purpose: &str| json!({ purpose: { "exec": {} } });
    let story = |purpose: &str| {
        let mut container = probe(purpose);
        container["name"] = json!("app");
        Story::new(pod_with(json!({ "spec": { "containers": [container] } })))
    };
    let mut starting = story("startupProbe");
    starting.health = Health { started: false, ready: false, dead: false };
    starting.reports(Stage { started: false, ..RUNNING });
    starting.rests();
    starting.health = Health::FINE;
    starting.reports(READY);
    starting.health.ready = false;
    starting.reports(RUNNING);
    let mut living = story("livenessProbe");
    living.reports(RUNNING);
    living.reports(READY);
    living.health.dead = true;
    living.reports(Stage { restarts: 1, exit: KILLED, ..RUNNING });
}

#[test]
fn in_a_cluster_of_its_own_a_lost_node_is_silent_and_pods_wait_for_the_scheduler() {
    let mut story = Story::at(READY, &json!({}));
    story.defaults.placement = Placement::Clusters;
    story.nodes.lost.insert("n1".to_owned());
    story.rests();
    story.delete(30);
    story.rests();
    let mut unbound = Story::new(pod_with(json!({ "spec": { "nodeName": null } })));
    unbound.defaults.placement = Placement::Clusters;
    unbound.rests();
}
