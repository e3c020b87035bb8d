use std::time::Duration;

use serde_json::{Value, json};

use super::super::behaviour::{Delay, FAULT, FAULT_ORDINALS, Fault, START_DELAY};
use super::*;

/// A pod `db/web-2` as the API server shows it, with parts replaced by a JSON merge patch.
pub(crate) fn pod_with(patch: Value) -> Pod {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "uid": "u-2", "resourceVersion": "7", "namespace": "db", "name": "web-2", "generation": 1,
            "managedFields": [{ "manager": "kube-controller-manager", "fieldsV1": { "f:metadata": {} } }],
        },
        "spec": {
            "nodeName": "n1", "schedulerName": "default-scheduler",
            "containers": [{ "name": "app", "image": "app:1", "ports": [{ "containerPort": 80 }] }],
        },
        "status": { "phase": "Pending" },
    });
    merge(&mut pod, patch);
    serde_json::from_value(pod).unwrap()
}

fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    target.remove(&key);
                } else {
                    merge(target.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (target, patch) => *target = patch,
    }
}

#[test]
fn a_new_pod_has_nothing_to_show_yet() {
    let pod = pod_with(json!({ "spec": { "nodeName": null } }));
    assert_eq!((&*pod.key, pod.version.as_str()), ("u-2", "7"));
    assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("db", "web-2"));
    assert_eq!(pod.binding, Binding::Unbound(Wants::default()));
    assert_eq!(pod.stage, Stage::NEW);
    let container =
        Container { name: "app".into(), image: "app:1".into(), sidecar: false, restarts: 0, awaits: None };
    assert_eq!(pod.containers, [container]);
    assert_eq!((pod.deletion_grace, pod.ip, pod.start_time), (None, None, None));
    assert_eq!(pod.behaviour, Behaviour::default());
}

#[test]
fn a_running_pod_shows_its_stage() {
    let pod = pod_with(json!({ "status": {
        "phase": "Running", "podIP": "10.128.0.9", "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no" },
        ],
        "containerStatuses": [
            { "name": "app", "ready": true, "restartCount": 3, "state": { "running": { "startedAt": "2026-01-01T00:00:01Z" } } },
        ],
    } }));
    let stage = Stage {
        phase: Phase::Running,
        containers: Containers::Running,
        restarts: 3,
        started: true,
        containers_ready: true,
        ready: true,
        ..Stage::NEW
    };
    assert_eq!(pod.stage, stage);
    assert_eq!(pod.container_started_at.as_deref(), Some("2026-01-01T00:00:01Z"));
    assert_eq!(pod.ip.as_deref(), Some("10.128.0.9"));
    assert_eq!(pod.condition("PodScheduled").unwrap().reason.as_deref(), Some("Unschedulable"));
}

#[test]
fn states_of_containers_are_told_apart() {
    for (phase, state, expected) in [
        (
            "Pending",
            json!({ "waiting": { "reason": "ImagePullBackOff" } }),
            (Phase::Pending, Containers::ImagePullBackOff),
        ),
        (
            "Pending",
            json!({ "waiting": { "reason": "ContainerCreating" } }),
            (Phase::Pending, Containers::Creating),
        ),
        (
            "Running",
            json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
            (Phase::Running, Containers::CrashLoopBackOff),
        ),
        ("Failed", json!({ "terminated": { "exitCode": 1 } }), (Phase::Failed, Containers::Ended)),
        ("Succeeded", json!({}), (Phase::Succeeded, Containers::Creating)),
    ] {
        let pod = pod_with(
            json!({ "status": { "phase": phase, "containerStatuses": [{ "name": "app", "state": state }] } }),
        );
        assert_eq!((pod.stage.phase, pod.stage.containers), expected, "{phase} {state}");
    }
}

#[test]
fn pods_of_other_schedulers_and_behind_gates_are_not_ours() {
    for spec in [
        json!({ "nodeName": null, "schedulerName": "mine" }),
        json!({ "nodeName": null, "schedulingGates": [{ "name": "wait" }] }),
    ] {
        assert_eq!(pod_with(json!({ "spec": spec })).binding, Binding::NotOurs);
    }
    assert_eq!(pod_with(json!({ "spec": { "schedulerName": "mine" } })).binding, Binding::Bound("n1".into()));
}

#[test]
fn annotations_are_read_for_the_ordinal_in_the_name() {
    let annotations = json!({ FAULT: "never-ready", FAULT_ORDINALS: "2", START_DELAY: "50ms", "other": "x" });
    let pod = pod_with(json!({ "metadata": { "annotations": annotations } }));
    assert_eq!(pod.behaviour.fault, Some(Fault::NeverReady));
    assert_eq!(pod.behaviour.start, Some(Delay::fixed(Duration::from_millis(50))));
    assert_eq!(pod.behaviour.complaint, None);
    let other = pod_with(json!({ "metadata": { "annotations": annotations, "name": "web-1" } }));
    assert_eq!(other.behaviour.fault, None);
}

#[test]
fn a_deletion_carries_its_grace() {
    let deleted = |grace: Value| {
        pod_with(
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace } }),
        )
    };
    assert_eq!(deleted(json!(30)).deletion_grace, Some(30));
    assert_eq!(deleted(json!(0)).deletion_grace, Some(0));
}

#[test]
fn gates_are_open_when_their_condition_is_true() {
    let gates = json!([{ "conditionType": "a" }, { "conditionType": "b" }]);
    for (conditions, closed) in [
        (json!([]), Some("a")),
        (json!([{ "type": "a", "status": "True" }]), Some("b")),
        (json!([{ "type": "a", "status": "True" }, { "type": "b", "status": "False" }]), Some("b")),
        (json!([{ "type": "b", "status": "True" }, { "type": "a", "status": "True" }]), None),
    ] {
        let pod =
            pod_with(json!({ "spec": { "readinessGates": gates }, "status": { "conditions": conditions } }));
        assert_eq!(pod.closed_gate(), closed, "{conditions}");
    }
}

#[test]
fn ordinals_are_read_from_whole_names_only() {
    for (name, expected) in [
        ("web-0", Some(("web", 0))),
        ("web-a-10", Some(("web-a", 10))),
        ("web-007", None),
        ("web-", None),
        ("web-+1", None),
        ("web", None),
        ("web-99999999999", None),
        ("web-7f9c", None),
    ] {
        assert_eq!(split_ordinal(name), expected, "{name}");
    }
}
