use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sts_plus_api::scaling_policy::OnFailure;
use sts_plus_planner::plan::{Ask, Object, Plan, Step};
use sts_plus_planner::scaling::hook::{Call, Hook, HookKind, HookRequest, HookResult};

use super::*;
use crate::controllers::test_server::{Ground, Server, refusal};
use crate::hooks::{HookContext, HookError, HookProgress, Hooks, PodTarget, ScaleDown};
use crate::outbound::{HookCaller, Reach, Tcp};
use crate::runtime::{Passed, Runtime};
use crate::shell::queue::Outcome;
use crate::shell::surroundings::Clock;

/// Prepares at once, and never answers when it is polled.
struct Flush;

impl ScaleDown for Flush {
    async fn prepare(&self, pod: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Ok(HookProgress::pending(format!("{} flushes", pod.name)))
    }

    async fn poll(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        std::future::pending().await
    }

    async fn cancel(&self, _: &PodTarget, _: &HookContext) -> Result<HookProgress, HookError> {
        Ok(HookProgress::Done)
    }
}

fn ask(call: Call) -> Ask {
    let hook = Hook {
        kind: HookKind::Named("flush".into()),
        timeout: Duration::from_mins(1),
        deadline: SignedDuration::from_hours(1),
        on_failure: OnFailure::Block,
        expect_exit: false,
        hash: "hash".into(),
    };
    Ask::Hook(Box::new(HookRequest {
        pod: Object { kind: Kind::Pod, namespace: "ns".into(), name: "db-2".into() },
        uid: "uid-2".into(),
        ip: None,
        set: "db".into(),
        ordinal: 2,
        call,
        hook: Arc::new(hook),
        port: Ok(0),
    }))
}

/// Calls a pod until there is an outcome, and writes how many there are.
fn prepares(world: &World, now: Timestamp) -> Decision {
    calls(world, Call::Prepare, now)
}

/// Polls a pod unless the policy is paused, and writes how many calls are under way.
fn polls(world: &World, now: Timestamp) -> Decision {
    calls(world, Call::Poll, now)
}

fn calls(world: &World, call: Call, _: Timestamp) -> Decision {
    let is_paused = world.row.spec.policy.as_ref().unwrap().paused;
    let mut decision = Decision { status: world.row.status.clone(), ..Decision::default() };
    if !is_paused {
        decision.calling = BTreeSet::from([("uid-2".into(), call)]);
    }
    let count = match call {
        Call::Poll => world.hooking.len(),
        _ => world.hooked.len(),
    };
    decision.status.desired_replicas = u32::try_from(count).ok();
    let mut plan = Plan::default();
    if let [outcome] = &*world.hooked {
        let message: Arc<str> = "db-2 flushes".into();
        assert_eq!(outcome.result, HookResult::Pending { message, retry_after: None });
    }
    if !is_paused && count == 0 {
        plan.asks.push(ask(call));
    } else if decision.status != world.row.status {
        plan.steps.push(Step::one(world.row.report(&decision.status)));
    }
    Decision { plan, ..decision }
}

struct Bench {
    server: Server,
    ground: Ground,
}

impl Bench {
    fn new() -> Self {
        let server = Server::default();
        let mut ground = Ground::new(server.api(), Server::default().api(), Clock::Machine);
        let hooks = Hooks::default().scale_down("flush", Flush);
        let way = (Reach::default(), Arc::new(Tcp) as Arc<_>);
        ground.around.hooks = HookCaller::new(server.api(), way, hooks);
        let bench = Self { server, ground };
        bench.see(Kind::StatefulSet, &json!({
            "metadata": { "name": "db", "namespace": "ns", "uid": "uid-db", "generation": 1, "resourceVersion": "2" },
            "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "db" } }, "template": {} }
        }));
        bench.see_policy("3", false, 9);
        bench
    }

    fn see(&self, kind: Kind, object: &Value) {
        self.ground.around.cache.store().upsert(kind, &object.to_string());
    }

    fn see_policy(&self, version: &str, is_paused: bool, desired: u32) {
        self.see(
            Kind::ScalingPolicy,
            &json!({
                "metadata": {
                    "name": "db", "namespace": "ns", "uid": "uid-policy", "resourceVersion": version,
                    "finalizers": ["sts.plus/finalizer"]
                },
                "spec": { "targetRef": { "name": "db" }, "paused": is_paused },
                "status": { "desiredReplicas": desired }
            }),
        );
    }

    fn runtime(&self, planner: Planner<World, Decision>) -> Runtime<ScalingPolicies> {
        Runtime::new(
            "scaling",
            1,
            ScalingPolicies { planner, ..ScalingPolicies::default() },
            &self.ground.around,
        )
    }

    /// The numbers that were written to the status since the last time.
    fn written(&self) -> Vec<u64> {
        let asked = std::mem::take(&mut *self.server.asked.lock().unwrap());
        let written = asked.iter().filter_map(|(_, path, body)| {
            assert!(path.ends_with("/scalingpolicies/db/status"), "{path}");
            body.pointer("/status/desiredReplicas")?.as_u64()
        });
        written.collect()
    }
}

fn key() -> Key {
    Key { namespace: "ns".into(), name: "db".into() }
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_call_brings_the_next_pass_and_is_kept_until_a_status_that_counts_it_is_written() {
    let bench = Bench::new();
    let runtime = bench.runtime(prepares);
    assert_eq!(runtime.look_at(&key()).await, Outcome::Settled);
    assert_eq!(bench.written(), [0; 0]);
    assert_eq!(runtime.queue().next().await, Some(key()), "woken by the outcome");
    bench.server.prepare(Method::PUT, "scalingpolicies", Some(refusal(409, "another version")));
    runtime.look_at(&key()).await;
    assert_eq!(bench.written(), [1]);
    bench.see_policy("50", false, 9);
    runtime.look_at(&key()).await;
    assert_eq!(bench.written(), [1], "what was not written is not forgotten");
    bench.see_policy("100", true, 1);
    runtime.look_at(&key()).await;
    assert_eq!(bench.written(), [0], "it is handed over once");
    let page = bench.ground.around.metrics.encode();
    let counted = r#"scaling_policy_hook_calls_total{namespace="ns",scaling_policy="db",call="prepare",result="pending"} 1"#;
    assert!(page.contains(counted), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_plan_does_not_want_any_more_is_given_up_and_the_key_is_looked_at_again() {
    let bench = Bench::new();
    let runtime = bench.runtime(polls);
    assert_eq!(runtime.look_at(&key()).await, Outcome::Settled);
    assert_eq!(runtime.look_at(&key()).await, Outcome::Settled);
    assert_eq!((bench.written(), runtime.queue().depth()), (vec![1], 0), "it is under way");
    bench.see_policy("100", true, 1);
    runtime.look_at(&key()).await;
    assert_eq!(runtime.queue().next().await, Some(key()));
    runtime.look_at(&key()).await;
    assert_eq!(bench.written(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_planned_for_in_its_own_lane_and_in_that_of_its_set() {
    let bench = Bench::new();
    let runtime = bench.runtime(prepares);
    runtime.look_at(&key()).await;
    let groups: BTreeSet<_> = runtime.lanes().into_iter().map(|domain| domain.group.to_string()).collect();
    assert!(groups.iter().eq(["scalingpolicy/uid-policy", "uid/uid-db"]), "{groups:?}");
    let store = bench.ground.around.cache.store();
    let controller = ScalingPolicies::default();
    assert_eq!(controller.all(store), [key()]);
    let touched = Touched::Scaling { namespace: "ns".into(), name: "db".into() };
    assert_eq!(controller.concerned(store, &touched), [Concern::of(key())]);
    store
        .remove(Kind::ScalingPolicy, &json!({ "metadata": { "name": "db", "namespace": "ns" } }).to_string());
    assert!(matches!(runtime.pass(&key()).await, Passed::Gone { .. }));
    assert_eq!(runtime.kept(), 0);
    let page = bench.ground.around.metrics.encode();
    assert!(!page.contains(r#"scaling_policy="db""#), "{page}");
}
