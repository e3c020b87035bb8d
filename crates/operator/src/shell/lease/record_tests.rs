use serde_json::json;

use super::*;

fn clock() -> Timestamp {
    "2026-11-15T10:20:30.5Z".parse().unwrap()
}

#[test]
fn a_lease_is_created_held() {
    let object = Lease::unheld("ns", "lease").taken("me", 15, clock()).to_object().unwrap();
    let expected = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "namespace": "ns", "name": "lease" },
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-15T10:20:30.500000Z",
            "renewTime": "2026-11-15T10:20:30.500000Z",
            "leaseTransitions": 1,
        },
    });
    assert_eq!(object, expected);
}

#[test]
fn what_is_not_ours_is_kept() {
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "lease",
            "resourceVersion": "5",
            "labels": { "team": "x" },
            "managedFields": [{ "manager": "somebody" }],
        },
        "spec": {
            "holderIdentity": "other",
            "leaseDurationSeconds": 30,
            "acquireTime": "then",
            "renewTime": "later",
            "leaseTransitions": 3,
            "strategy": "OldestEmulationVersion",
        },
        "future": { "field": [1] },
    });
    let lease = Lease::read(object).unwrap();
    let expected = |spec: Value| {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": "lease", "resourceVersion": "5", "labels": { "team": "x" } },
            "spec": spec,
            "future": { "field": [1] },
        })
    };
    let now = "2026-11-15T10:20:30.500000Z";
    let table = [
        (
            "taken",
            lease.taken("me", 15, clock()),
            json!({
                "holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now,
                "leaseTransitions": 4, "strategy": "OldestEmulationVersion",
            }),
        ),
        (
            "renewed",
            lease.renewed(15, clock()),
            json!({
                "holderIdentity": "other", "leaseDurationSeconds": 15, "acquireTime": "then", "renewTime": now,
                "leaseTransitions": 3, "strategy": "OldestEmulationVersion",
            }),
        ),
        (
            "released",
            lease.released(clock()),
            json!({
                "holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": "then", "renewTime": now,
                "leaseTransitions": 3, "strategy": "OldestEmulationVersion",
            }),
        ),
    ];
    for (what, lease, spec) in table {
        assert_eq!(lease.to_object().unwrap(), expected(spec), "{what}");
    }
}

#[test]
fn an_empty_lease_has_no_holder() {
    for spec in [json!({}), json!({ "holderIdentity": null }), json!({ "holderIdentity": "" })] {
        let lease = Lease::read(json!({ "metadata": { "resourceVersion": "1" }, "spec": spec })).unwrap();
        assert_eq!(lease.record().holder(), None, "{lease:?}");
    }
    let without_spec = Lease::read(json!({ "metadata": { "resourceVersion": "1" } })).unwrap();
    assert_eq!(without_spec.record(), &Record::default());
}

#[test]
fn transitions_stay_what_the_server_takes() {
    for (before, after) in
        [(json!(null), 1), (json!(-1), 1), (json!(i32::MAX), 1), (json!(i64::MAX), 1), (json!(6), 7)]
    {
        let object =
            json!({ "metadata": { "resourceVersion": "1" }, "spec": { "leaseTransitions": before } });
        let taken = Lease::read(object).unwrap().taken("me", 15, clock());
        assert_eq!(taken.record().transitions(), after, "{before}");
    }
}

#[test]
fn a_malformed_lease_says_what_is_wrong() {
    let table = [
        (json!("lease"), "invalid type: string"),
        (json!({ "spec": {} }), "missing field `metadata`"),
        (json!({ "metadata": {}, "spec": {} }), "it has no resourceVersion"),
        (json!({ "metadata": { "resourceVersion": 5 } }), "invalid type: integer `5`, expected a string"),
        (json!({ "metadata": { "resourceVersion": "1" }, "spec": [] }), "invalid"),
        (
            json!({ "metadata": { "resourceVersion": "1" }, "spec": { "holderIdentity": 5 } }),
            "expected a string",
        ),
        (
            json!({ "metadata": { "resourceVersion": "1" }, "spec": { "leaseDurationSeconds": "15" } }),
            "expected i64",
        ),
        (
            json!({ "metadata": { "resourceVersion": "1" }, "spec": { "leaseDurationSeconds": u64::MAX } }),
            "expected i64",
        ),
    ];
    for (object, words) in table {
        let message = Lease::read(object.clone()).unwrap_err().to_string();
        assert!(message.contains(words), "{object}: {message}");
    }
}
