use serde_json::json;

use super::*;

fn live() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "db", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{ "manager": "helm" }],
            "selfLink": "/x", "deletionGracePeriodSeconds": 0,
            "labels": { "app.kubernetes.io/managed-by": "Helm" },
            "annotations": { "meta.helm.sh/release-name": "db" },
            "ownerReferences": [{ "kind": "Database", "name": "db", "uid": "o", "apiVersion": "x/v1" }],
            "finalizers": ["orphan"],
        },
        "spec": {
            "replicas": 4,
            "template": { "spec": { "containers": [{ "env": [{ "name": "A", "value": "b" }] }] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {}, "status": { "phase": "Pending" } }],
        },
        "status": { "replicas": 4 },
    })
}

#[test]
fn what_people_wrote_is_kept_and_what_the_server_wrote_is_not() {
    let live = live();
    let object = successor(&live, &live["spec"]).unwrap();
    let keys: Vec<_> = object["metadata"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["annotations", "labels", "name", "namespace", "ownerReferences"]);
    for key in keys {
        assert_eq!(object["metadata"][&key], live["metadata"][&key]);
    }
    assert_eq!(object.get("status"), None);
    assert_eq!(object["spec"]["template"], live["spec"]["template"]);
    assert_eq!(object["spec"]["replicas"], 4);
    assert_eq!(
        object["spec"]["volumeClaimTemplates"],
        json!([{ "metadata": { "name": "data" }, "spec": {} }])
    );
}

#[test]
fn a_finalizer_of_somebody_else_is_an_obstacle() {
    let mut live = live();
    live["metadata"]["finalizers"] = json!(["orphan", "example.com/backup"]);
    let obstacle = successor(&live, &live["spec"]).unwrap_err();
    assert_eq!(obstacle, Obstacle::Finalizer("example.com/backup".into()));
}

#[test]
fn an_object_that_cannot_be_stored_is_an_obstacle() {
    let mut live = live();
    live["metadata"]["annotations"]["large"] = json!("x".repeat(MAX_BYTES));
    assert!(matches!(successor(&live, &live["spec"]), Err(Obstacle::TooLarge { .. })));
    assert_eq!(successor(&json!(null), &json!(null)), Err(Obstacle::Unreadable));
}
