use serde_json::json;

use super::super::Interner;
use super::{claim, split_ordinal};

#[test]
fn only_a_canonical_ordinal_ends_the_name_of_a_sets_claim() {
    assert_eq!(split_ordinal("data-web-0"), Some(("data-web", 0)));
    assert_eq!(split_ordinal("data-web-4294967295"), Some(("data-web", u32::MAX)));
    for other in
        ["data", "data-web", "data-web-", "data-web-01", "data-web--", "data-web-4294967296", "7", ""]
    {
        assert_eq!(split_ordinal(other), None, "{other}");
    }
}

#[test]
fn a_claim_becomes_a_row_with_its_owners_whole() {
    let json = json!({
        "metadata": {
            "name": "data-web-2", "namespace": "ns", "uid": "c1", "resourceVersion": "5",
            "deletionTimestamp": "2026-01-02T03:04:05Z",
            "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s1", "controller": true,
                  "blockOwnerDeletion": true },
                { "apiVersion": "v1", "kind": "Pod", "name": "web-2", "uid": "p1" }
            ]
        },
        "spec": { "accessModes": ["ReadWriteOnce"] },
        "status": { "phase": "Bound" }
    });
    let row = claim(&json.to_string(), &mut Interner::default()).expect("decodes").row.expect("a set's");
    assert_eq!((&*row.name, &*row.uid, &*row.resource_version), ("data-web-2", "c1", "5"));
    assert!(row.terminating);
    let [set, pod] = &row.owners[..] else { panic!("{row:?}") };
    assert_eq!(
        (&*set.api_version, &*set.kind, &*set.name, &*set.uid),
        ("apps/v1", "StatefulSet", "web", "s1")
    );
    assert_eq!((set.controller, set.block_owner_deletion), (Some(true), Some(true)));
    assert_eq!((&*pod.kind, pod.controller, pod.block_owner_deletion), ("Pod", None, None));
}

#[test]
fn a_claim_that_no_set_can_have_named_gets_no_row() {
    let json =
        json!({ "metadata": { "name": "mine", "namespace": "ns", "resourceVersion": "5" } }).to_string();
    let decoded = claim(&json, &mut Interner::default()).expect("decodes");
    assert!(decoded.row.is_none());
    assert_eq!((&*decoded.name, &*decoded.resource_version), ("mine", "5"));
}

#[test]
fn d_s1_of_a_claim_with_a_stable_name_labels_phase_and_request_are_kept() {
    let json = json!({
        "metadata": {
            "name": "data-volume-management-db-z0-1", "namespace": "ns", "uid": "c1", "resourceVersion": "5",
            "labels": { "sts.plus/extendedstatefulset-name": "db" },
        },
        "spec": { "resources": { "requests": { "storage": "1Gi" } } },
        "status": { "phase": "Lost" }
    });
    let row = claim(&json.to_string(), &mut Interner::default()).expect("decodes").row.expect("a set's");
    let stable = row.stable.expect("stable");
    assert_eq!(stable.labels.get("sts.plus/extendedstatefulset-name").map(|name| &**name), Some("db"));
    assert_eq!((stable.lost, stable.requested.as_deref()), (true, Some("1Gi")));
    let other = json!({ "metadata": { "name": "data-db-1", "namespace": "ns", "uid": "c1", "resourceVersion": "5" } });
    let row = claim(&other.to_string(), &mut Interner::default()).expect("decodes").row.expect("a set's");
    assert!(row.stable.is_none());
}
