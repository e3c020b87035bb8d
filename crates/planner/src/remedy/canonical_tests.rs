use serde_json::{Value, json};

use super::*;

/// A spec as people write it.
fn bare() -> Value {
    json!({
        "replicas": 3,
        "selector": { "matchLabels": { "app": "db", "tier": "data" } },
        "template": { "metadata": { "labels": { "app": "db" } } },
        "volumeClaimTemplates": [
            { "metadata": { "name": "data" }, "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } },
            } },
            { "metadata": { "name": "wal" }, "spec": { "resources": { "requests": { "storage": "500Mi" } } } },
        ],
    })
}

/// The same as an API server returns it, and with everything reordered that has no order.
fn served() -> Value {
    json!({
        "podManagementPolicy": "OrderedReady",
        "serviceName": "",
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain", "whenScaled": "Retain" },
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
        "minReadySeconds": 5,
        "replicas": 9,
        "ordinals": { "start": 1 },
        "template": { "metadata": { "creationTimestamp": null, "labels": { "app": "db" } } },
        "selector": { "matchLabels": { "tier": "data", "app": "db" }, "matchExpressions": [] },
        "volumeClaimTemplates": [
            { "apiVersion": "v1", "kind": "PersistentVolumeClaim",
              "metadata": { "name": "wal", "creationTimestamp": null, "annotations": {} },
              "spec": { "volumeMode": "Filesystem", "resources": { "requests": { "storage": "524288000" } } },
              "status": { "phase": "Pending" } },
            { "metadata": { "name": "data", "labels": null },
              "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "limits": {}, "requests": { "storage": "1024Mi" } } },
              "status": { "phase": "Pending" } },
        ],
    })
}

#[test]
fn a_b9_23_defaults_order_and_spelling_make_no_difference() {
    let (one, other) = (Immutable::of(&bare()), Immutable::of(&served()));
    assert_eq!(one.text(), other.text());
    assert_eq!(one.hash(), other.hash());
    assert_eq!(one, Immutable::of(&bare()), "nor does repetition");
}

#[test]
fn a_b9_23_sets_that_are_written_as_lists_have_no_order() {
    let with = |modes: Value, values: Value| {
        let mut spec = bare();
        spec["volumeClaimTemplates"][0]["spec"]["accessModes"] = modes;
        spec["selector"]["matchExpressions"] = json!([
            { "key": "zone", "operator": "In", "values": values },
            { "key": "rack", "operator": "Exists" },
        ]);
        Immutable::of(&spec)
    };
    let one = with(json!(["ReadWriteOnce", "ReadOnlyMany"]), json!(["a", "b"]));
    assert_eq!(one, with(json!(["ReadOnlyMany", "ReadWriteOnce"]), json!(["b", "a"])));
    assert_ne!(one, with(json!(["ReadOnlyMany"]), json!(["b", "a"])));
}

#[test]
fn a_b9_24_each_immutable_field_makes_a_difference() {
    let changes: [(&str, Value); 11] = [
        ("/volumeClaimTemplates/0/spec/resources/requests/storage", json!("2Gi")),
        ("/volumeClaimTemplates/0/spec/accessModes", json!(["ReadWriteMany"])),
        ("/volumeClaimTemplates/0/metadata/name", json!("other")),
        ("/volumeClaimTemplates/0/metadata", json!({ "name": "data", "labels": { "a": "b" } })),
        ("/volumeClaimTemplates/0/metadata", json!({ "name": "data", "annotations": { "a": "b" } })),
        ("/volumeClaimTemplates/1/spec", json!({ "storageClassName": "" })),
        ("/volumeClaimTemplates/1/spec", json!({ "volumeMode": "Block" })),
        ("/volumeClaimTemplates", json!([])),
        ("/selector/matchLabels/app", json!("cache")),
        ("/selector", json!(null)),
        ("/selector/matchLabels", json!({ "app": "db" })),
    ];
    let base = Immutable::of(&bare());
    for (pointer, value) in changes {
        let mut spec = bare();
        *spec.pointer_mut(pointer).unwrap() = value;
        let form = Immutable::of(&spec);
        assert_ne!(form.text(), base.text(), "{pointer}");
        assert_ne!(form.hash(), base.hash(), "{pointer}");
    }
    for (key, value) in [("serviceName", "db"), ("podManagementPolicy", "Parallel"), ("ofLaterServers", "x")]
    {
        let mut spec = bare();
        spec[key] = json!(value);
        assert_ne!(Immutable::of(&spec).hash(), base.hash(), "{key}");
    }
}

#[test]
fn a_b9_25_a_name_that_is_taken_is_followed_by_another_one() {
    let form = Immutable::of(&bare());
    let names: std::collections::BTreeSet<_> = (0..10).map(|taken| form.name("db", taken)).collect();
    assert_eq!(names.len(), 10);
    assert!(names.iter().all(|name| name.starts_with("db-") && name.len() == 19), "{names:?}");
    assert_eq!(form.name("db", 0), Immutable::of(&served()).name("db", 0));
    assert!(form.name(&"x".repeat(300), 3).len() <= 253);
}

#[test]
fn what_is_no_spec_has_a_form_too() {
    for odd in [json!(null), json!([]), json!("x"), json!({ "volumeClaimTemplates": "x", "selector": 3 })] {
        let form = Immutable::of(&odd);
        assert!(!form.text().is_empty());
    }
    let odd = json!({ "volumeClaimTemplates": [null, 5, { "spec": { "resources": { "requests": { "storage": "much" } } } }] });
    assert!(Immutable::of(&odd).text().contains("much"));
}
