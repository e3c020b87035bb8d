//! Random histories of objects whose pods are prepared before they leave: those of [`super::random`] with the controller of
//! ScalingPolicies among the rest, which crashes after any write, hooks that fail, hang or take their time, and policies that
//! somebody deletes.
//!
//! [`Cluster`](super::cluster::Cluster) checks that no set is removed with pods, and that the replicas of a set are lowered past a
//! pod only if it is recorded as drained, and is, or was given up.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::random::{self, History, begin_with, nth, reaches_its_goal, start};
use crate::scaling::hook::{Call, HookResult};

/// Used for every run, so that it is the same everywhere.
const SEED: u64 = 20_261_119;
const HISTORIES: u32 = 700;
const STEPS: usize = 60;

const HOOK: &str = "/scaleDown/hook";
const POLICIES: [&str; 3] = ["Block", "Force", "Abort"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Object(random::Step),
    /// Passes of the controller of ScalingPolicies that crash after so many writes.
    Policies(usize),
    /// How applications answer from now on.
    Answers(usize),
    OnFailure(usize),
    /// Whether a call can be taken back.
    Cancel(bool),
    MaxConcurrent(u32),
    DeletePolicy(usize),
    /// The deadlines of hooks pass.
    Deadlines,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => random::step().prop_map(Step::Object),
        10 => (0..4_usize).prop_map(Step::Policies),
        20 => Just(Step::Policies(usize::MAX)),
        4 => (0..ANSWERS.len()).prop_map(Step::Answers),
        1 => (0..POLICIES.len()).prop_map(Step::OnFailure),
        1 => any::<bool>().prop_map(Step::Cancel),
        1 => (1..4_u32).prop_map(Step::MaxConcurrent),
        1 => (0..100_usize).prop_map(Step::DeletePolicy),
        2 => Just(Step::Deadlines),
    ]
}

const ANSWERS: [fn(&str, Call) -> Option<HookResult>; 5] = [
    |_, _| Some(HookResult::Done),
    |_, _| None,
    |_, _| Some(HookResult::Failed("answered 500".into())),
    |_, _| Some(HookResult::Pending { message: "3 to go".into(), retry_after: None }),
    |pod, _| pod.ends_with("-1").then_some(HookResult::Done),
];

fn hook(path: &str, on_failure: &str, cancel: bool) -> Value {
    let mut http = json!({ "path": path, "port": 8080, "status": { "path": "/state" } });
    if cancel {
        http["cancel"] = json!({ "path": path });
    }
    json!({ "http": http, "deadlineSeconds": DEADLINE, "onFailure": on_failure })
}

/// The time that a hook has, in seconds.
const DEADLINE: i64 = 600;

fn take(history: &mut History, step: Step) {
    let cluster = &mut history.cluster;
    match step {
        Step::Object(step) => history.step(step),
        Step::Policies(most) => {
            cluster.scale_all(most);
        }
        Step::Answers(which) => cluster.scaling.answers = ANSWERS[which],
        Step::OnFailure(which) => cluster.set_field("/scaleDown/hook/onFailure", json!(POLICIES[which])),
        Step::Cancel(cancel) => {
            let policy = cluster.given["scaleDown"]["hook"]["onFailure"].as_str().unwrap().to_owned();
            cluster.set_field(HOOK, hook("/shutdown", &policy, cancel));
        }
        Step::MaxConcurrent(most) => cluster.set_field("/scaleDown/maxConcurrent", json!(most)),
        Step::DeletePolicy(which) => {
            if let Some(name) = nth(cluster.scaling.policies.keys().cloned(), which) {
                cluster.delete_policy(&name);
            }
        }
        Step::Deadlines => cluster.now += jiff::SignedDuration::from_secs(DEADLINE),
    }
}

/// Applications answer again, and what cannot be called is given up.
fn is_helped(mut cluster: Cluster) -> Cluster {
    cluster.scaling.answers = ANSWERS[0];
    let mut hook = hook("/now", "Force", true);
    hook["deadlineSeconds"] = json!(60);
    cluster.set_field(HOOK, hook);
    cluster
}

#[test]
fn a_d_i4_i7_i9_i11_random_histories_with_hooks_lose_nothing_and_end_at_the_goal() {
    let config = Config {
        cases: HISTORIES,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..Config::default()
    };
    let histories = (start(), 0..POLICIES.len(), prop::collection::vec(step(), 0..STEPS));
    let outcome = TestRunner::new(config).run(&histories, |(start, policy, steps)| {
        let scale_down = json!({ "maxConcurrent": 1, "hook": hook("/shutdown", POLICIES[policy], true) });
        let cluster = begin_with(start, &json!({ "scaleDown": scale_down }));
        let mut history = History { cluster, view: None };
        for step in steps {
            take(&mut history, step);
        }
        reaches_its_goal(is_helped(history.cluster.clone()), "a");
        reaches_its_goal(is_helped(history.cluster), "d");
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
}
