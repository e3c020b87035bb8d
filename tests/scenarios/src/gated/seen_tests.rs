//! The onlooker must see what is wrong: each guarantee broken once, and what is right left alone.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use sts_plus_api::keys;

use super::Seen;
use crate::gated::manifest::kind;
use crate::observer::{Followed, Onlooking};

/// Three pods that serve, and a set with this partition.
fn rolling(partition: i32) -> Seen {
    let mut seen = Seen::default();
    for index in 0..3 {
        pod(&mut seen, index, true);
    }
    set(&mut seen, 1, partition, keys::MANAGER_PHASED_ROLLOUT);
    seen
}

fn pod(seen: &mut Seen, index: u32, ready: bool) {
    let object = json!({
        "metadata": {
            "name": format!("web-{index}"),
            "uid": format!("{index}"),
            "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "w", "controller": true },
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        },
    });
    serde_json::from_value::<Pod>(object).unwrap().seen(seen);
}

fn set(seen: &mut Seen, version: u32, partition: i32, manager: &str) {
    let fields = json!({ "f:spec": { "f:updateStrategy": { "f:rollingUpdate": { "f:partition": {} } } } });
    let object = json!({
        "metadata": {
            "name": "web",
            "uid": "w",
            "resourceVersion": version.to_string(),
            "managedFields": [{ "manager": manager, "operation": "Apply", "fieldsV1": fields }],
        },
        "spec": {
            "replicas": 3,
            "selector": {},
            "template": {},
            "updateStrategy": { "rollingUpdate": { "partition": partition } },
        },
    });
    serde_json::from_value::<StatefulSet>(object).unwrap().seen(seen);
}

/// The rollout at a gate, with so many passes of the two that are needed.
fn rollout(seen: &mut Seen, version: u32, gate: (i32, &str), passes: i32) {
    let status = json!({
        "target": { "name": "web", "uid": "w" },
        "partition": gate.0,
        "rollingPodStatus": {
            "status": gate.1,
            "partition": gate.0,
            "replicas": 3,
            "startTime": "2026-01-01T00:00:00Z",
            "consecutiveSuccessfulChecks": passes,
            "consecutiveFailedChecks": 0,
            "totalFailedChecks": 0,
            "checks": [{ "name": "check", "consecutiveSuccessfulChecks": passes }],
        },
    });
    let check = json!({ "successThreshold": 2, "query": { "expr": "up", "url": "prom" } });
    let data: Value = json!({ "spec": { "targetRef": "web", "check": check }, "status": status });
    let mut object = DynamicObject::new("web", &kind()).data(data);
    object.metadata.resource_version = Some(version.to_string());
    object.seen(seen);
}

fn faults(mut seen: Seen) -> Vec<String> {
    seen.conclude();
    seen.violations().to_vec()
}

#[test]
fn one_pod_may_be_down_and_two_may_not() {
    let mut seen = rolling(3);
    pod(&mut seen, 2, false);
    assert!(seen.violations().is_empty());
    Pod::gone("web-1", &mut seen);
    assert_eq!(faults(seen), ["web-1 and web-2 are down at once"]);
}

#[test]
fn what_the_user_takes_down_does_not_count() {
    let mut seen = rolling(3);
    seen.excuse("web-2");
    pod(&mut seen, 2, false);
    pod(&mut seen, 1, false);
    assert!(seen.violations().is_empty());
    pod(&mut seen, 1, true);
    pod(&mut seen, 2, true);
    seen.expect_replicas("web", 1);
    pod(&mut seen, 2, false);
    pod(&mut seen, 1, false);
    assert!(faults(seen).is_empty());
}

#[test]
fn a_step_behind_a_passed_gate_is_right_in_whichever_order_it_is_seen() {
    let mut seen = rolling(3);
    set(&mut seen, 11, 2, keys::MANAGER_PHASED_ROLLOUT);
    rollout(&mut seen, 10, (3, "Passed"), 2);
    rollout(&mut seen, 12, (2, "WaitForChecks"), 0);
    assert!(faults(seen).is_empty());
}

#[test]
fn a_step_without_a_passed_gate_is_wrong() {
    let mut seen = rolling(3);
    rollout(&mut seen, 10, (3, "WaitForChecks"), 1);
    set(&mut seen, 11, 2, keys::MANAGER_PHASED_ROLLOUT);
    rollout(&mut seen, 12, (3, "Passed"), 2);
    let faults = faults(seen);
    assert!(faults.len() == 1 && faults[0].contains("the gate was"), "{faults:?}");
}

#[test]
fn a_gate_that_calls_itself_passed_too_early_is_wrong() {
    let mut seen = rolling(3);
    rollout(&mut seen, 10, (3, "Passed"), 1);
    set(&mut seen, 11, 2, keys::MANAGER_PHASED_ROLLOUT);
    let faults = faults(seen);
    assert!(faults.len() == 1 && faults[0].contains("had passed 1 times"), "{faults:?}");
}

#[test]
fn two_pods_behind_one_gate_are_wrong() {
    let mut seen = rolling(3);
    rollout(&mut seen, 10, (3, "Passed"), 2);
    set(&mut seen, 11, 1, keys::MANAGER_PHASED_ROLLOUT);
    let faults = faults(seen);
    assert!(faults.len() == 1 && faults[0].contains("more than one pod"), "{faults:?}");
}

#[test]
fn a_foreign_value_may_be_undone_downwards_and_a_foreign_step_is_not_ours() {
    let mut seen = rolling(2);
    rollout(&mut seen, 10, (2, "WaitForChecks"), 0);
    set(&mut seen, 11, 9, "gitops");
    set(&mut seen, 12, 2, keys::MANAGER_PHASED_ROLLOUT);
    set(&mut seen, 13, 0, "gitops");
    assert!(faults(seen).is_empty());
}
