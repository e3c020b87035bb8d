use serde_json::{Value, json};
use sts_plus_api::scaling_policy::{DeletionPolicy, RecordPhase, ScalingPolicyStatus};
use sts_plus_planner::scaling::row::ScalingRow;

use super::super::Interner;
use super::{FINALIZER_BYTES, SPEC_BYTES};

fn read(json: &Value) -> Result<ScalingRow, String> {
    let read = super::scaling(&json.to_string(), &mut Interner::default());
    read.map(|decoded| decoded.row.expect("every one has a row")).map_err(|undecodable| undecodable.error)
}

fn faults(row: &ScalingRow) -> String {
    let faults = row.spec.policy.as_ref().err().into_iter().flatten();
    faults.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_policy_is_kept_whole_with_its_defaults() {
    let row = read(&json!({
        "metadata": {
            "name": "ingester", "namespace": "ns", "uid": "p1", "resourceVersion": "9", "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["sts.plus/finalizer"],
            "deletionTimestamp": "2026-01-02T03:04:06Z"
        },
        "spec": {
            "targetRef": { "name": "db" }, "replicas": 2, "deletionPolicy": "Drain",
            "scaleDown": { "hook": { "http": { "path": "/shutdown", "port": "http" } } }
        },
        "status": { "heldReplicas": 3, "leaving": [
            { "ordinal": 2, "phase": "Draining", "startTime": "2026-01-02T03:04:05Z" }
        ] },
    }))
    .expect("decodes");
    assert_eq!((&*row.namespace, &*row.name, &*row.uid, row.generation), ("ns", "ingester", "p1", 3));
    assert_eq!((row.target(), row.deleting, row.has_finalizer()), (Some("db"), true, true));
    assert_eq!(row.spec.deletion, DeletionPolicy::Drain);
    let policy = row.spec.policy.expect("without faults");
    assert_eq!((policy.replicas, policy.max_concurrent, policy.up.is_none()), (Some(2), 1, true));
    assert_eq!(policy.down.as_ref().expect("given").timeout.as_secs(), 10);
    assert_eq!((row.status.held_replicas, row.status.leaving[0].phase), (Some(3), RecordPhase::Draining));
}

#[test]
fn a_policy_that_cannot_be_read_says_why_and_a_status_of_another_form_counts_as_none() {
    let meta = json!({ "name": "ingester", "namespace": "ns" });
    let row = read(&json!({ "metadata": meta, "spec": { "targetRef": "db" } })).expect("decodes");
    assert!(faults(&row).contains("invalid type"), "the reason reaches the user");
    assert!(faults(&read(&json!({ "metadata": meta })).expect("decodes")).contains("there is none"));
    let large = json!({ "targetRef": { "name": "x".repeat(SPEC_BYTES) } });
    let row = read(&json!({ "metadata": meta, "spec": large })).expect("decodes");
    assert!(faults(&row).contains("larger than 256 KiB"));
    let status = json!({ "leaving": [{ "ordinal": -1 }] });
    let row = read(&json!({ "metadata": meta, "spec": { "targetRef": { "name": "db" } }, "status": status }));
    assert_eq!(row.expect("decodes").status, ScalingPolicyStatus::default());
    let finalizers = json!(["x".repeat(FINALIZER_BYTES + 1)]);
    let endless = read(&json!({ "metadata": { "name": "a", "namespace": "ns", "finalizers": finalizers } }));
    assert!(endless.is_err_and(|error| error.contains("finalizers")));
}
