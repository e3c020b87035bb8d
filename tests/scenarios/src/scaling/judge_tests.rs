use serde_json::{Value, json};
use sts_plus_api::scaling_policy::{ScalingPolicySpec, ScalingPolicyStatus};

use super::{Change, Pod, Policy, Set, judge};
use crate::view;

fn set(replicas: u32) -> Change {
    Change::Set(Set {
        name: "web".to_owned(),
        uid: "s".to_owned(),
        replicas,
        leaving: None,
        observed: true,
        current_revision: String::new(),
        update_revision: String::new(),
        told: None,
    })
}

fn pod(ordinal: u32, uid: &str, ready: bool, restarts: i32) -> Change {
    let pod = view::Pod {
        name: format!("web-{ordinal}"),
        uid: uid.to_owned(),
        set: Some("web".to_owned()),
        revision: None,
        image: String::new(),
        ready,
        ready_since: None,
        deleted_at: None,
        broken: false,
    };
    Change::Pod(Pod { pod, ordinal, restarts: [("main".to_owned(), restarts)].into() })
}

/// A policy whose pods leave so, by ordinal, UID and phase.
fn policy(records: &[(u32, &str, &str)], fields: &Value) -> Change {
    let record = |(ordinal, uid, phase): &(u32, &str, &str)| {
        json!({
            "ordinal": ordinal, "podName": format!("web-{ordinal}"), "podUID": uid, "phase": phase,
            "containerRestarts": { "main": 0 }, "startTime": "2026-01-01T00:00:00Z",
        })
    };
    let records: Vec<_> = records.iter().map(record).collect();
    let status: ScalingPolicyStatus =
        serde_json::from_value(json!({ "heldReplicas": 3, "leaving": records })).unwrap();
    let mut spec = json!({ "targetRef": { "name": "web" } });
    spec["scaleDown"] = fields.clone();
    let spec: ScalingPolicySpec = serde_json::from_value(spec).unwrap();
    Change::Policy(Box::new(Policy {
        name: "web".to_owned(),
        uid: "p".to_owned(),
        version: 1,
        deleting: false,
        finalizers: Vec::new(),
        spec: Some(spec),
        status,
        observed: true,
    }))
}

fn three() -> Vec<Change> {
    let mut changes = vec![set(3)];
    changes.extend((0..3).map(|ordinal| pod(ordinal, &format!("u{ordinal}"), true, 0)));
    changes.push(policy(&[], &json!({})));
    changes
}

fn after(changes: Vec<Change>) -> Vec<String> {
    judge(three().into_iter().chain(changes))
}

#[test]
fn a_pod_that_is_drained_may_be_removed_and_nobody_else() {
    let none = json!({});
    let drained = vec![
        policy(&[(2, "u2", "Requested")], &none),
        policy(&[(2, "u2", "Drained")], &none),
        set(2),
        Change::PodGone("web-2".to_owned()),
        policy(&[], &none),
    ];
    assert!(after(drained).is_empty());
    let faults = after(vec![policy(&[(2, "u2", "Draining")], &none), set(2)]);
    assert!(faults.len() == 1 && faults[0].contains("web-2 was not drained"), "{faults:?}");
    let faults = after(vec![policy(&[(2, "u2", "Drained")], &none), set(1)]);
    assert!(faults.len() == 1 && faults[0].contains("web-1 was not drained"), "{faults:?}");
    let foreign = Change::Foreign { set: "web".to_owned(), replicas: 1 };
    assert!(judge([foreign].into_iter().chain(three()).chain([set(1)])).is_empty());
    let force = json!({ "hook": { "named": "x", "onFailure": "Force" } });
    assert!(after(vec![policy(&[(2, "u2", "Draining")], &force), set(2)]).is_empty());
}

#[test]
fn what_was_drained_is_one_pod_by_uid_and_restarts() {
    let none = json!({});
    let faults = after(vec![policy(&[(2, "other", "Drained")], &none), set(2)]);
    assert!(faults.len() == 1 && faults[0].contains("another pod"), "{faults:?}");
    let restarted = vec![policy(&[(2, "u2", "Drained")], &none), pod(2, "u2", false, 1), set(2)];
    let faults = after(restarted);
    assert!(faults.len() == 1 && faults[0].contains("had restarted"), "{faults:?}");
}

#[test]
fn a_drained_pod_that_is_ready_again_must_begin_anew() {
    let none = json!({});
    let revived =
        || vec![policy(&[(2, "u2", "Drained")], &none), pod(2, "u2", false, 0), pod(2, "u2", true, 0)];
    let faults = after(revived());
    assert!(faults.len() == 1 && faults[0].contains("did not begin anew"), "{faults:?}");
    let mut anew = revived();
    anew.push(policy(&[(2, "u2", "Requested")], &none));
    assert!(after(anew).is_empty());
    let mut removed = revived();
    removed.push(set(2));
    let faults = after(removed);
    assert!(faults.len() == 1 && faults[0].contains("Ready again after its drain"), "{faults:?}");
}

#[test]
fn no_more_leave_at_once_than_may_and_only_from_the_top() {
    let none = json!({});
    let faults = after(vec![policy(&[(1, "u1", "Requested")], &none)]);
    assert!(faults.len() == 1 && faults[0].contains("while web-2 stays"), "{faults:?}");
    let two = [(1, "u1", "Requested"), (2, "u2", "Requested")];
    let faults = after(vec![policy(&two, &none)]);
    assert!(faults.len() == 1 && faults[0].contains("leave at once"), "{faults:?}");
    assert!(after(vec![policy(&two, &json!({ "maxConcurrent": 2 }))]).is_empty());
    // One that still terminates counts.
    let next = vec![policy(&[(2, "u2", "Drained")], &none), set(2), policy(&[(1, "u1", "Requested")], &none)];
    let faults = after(next);
    assert!(faults.len() == 1 && faults[0].contains("leave at once"), "{faults:?}");
}
