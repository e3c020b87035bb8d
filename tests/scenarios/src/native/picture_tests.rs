use super::*;

fn tidied(pods: Vec<Value>, claims: Vec<Value>) -> Value {
    let callings = HashMap::from([("u-1".to_owned(), "StatefulSet web #1".to_owned())]);
    let raw = Raw { sets: Vec::new(), pods, claims, revisions: Vec::new() };
    raw.tidy("t-space", &callings).0
}

#[test]
fn what_is_never_the_same_twice_is_left_out_or_named() {
    let pod = json!({
        "metadata": {
            "name": "web-0", "namespace": "t-space", "uid": "u-7", "resourceVersion": "12", "managedFields": [],
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:01Z",
            "ownerReferences": [{ "kind": "StatefulSet", "name": "web", "uid": "u-1" }],
            "labels": { "app": "web", "topology.kubernetes.io/zone": "a" },
        },
        "spec": { "nodeName": "node-a", "subdomain": "web" },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }], "podIP": "10.0.0.1" },
    });
    let expected = json!({
        "metadata": {
            "name": "web-0", "uid": "u-7", "deletionTimestamp": true,
            "ownerReferences": [{ "kind": "StatefulSet", "name": "web", "uid": "StatefulSet web #1" }],
            "labels": { "app": "web" },
        },
        "spec": { "subdomain": "web" },
        "status": { "phase": "Running", "ready": true },
    });
    assert_eq!(tidied(vec![pod], Vec::new())["pods"]["web-0"], expected);
}

#[test]
fn volumes_of_claims_are_sorted_and_stay_before_all_others() {
    let claim = |name: &str| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } });
    let other = |name: &str| json!({ "name": name, "emptyDir": {} });
    let pod = |volumes: Value| json!({ "metadata": { "name": "web-0" }, "spec": { "volumes": volumes } });
    let one = tidied(vec![pod(json!([claim("b"), claim("a"), other("y"), other("x")]))], Vec::new());
    let two = tidied(vec![pod(json!([claim("a"), claim("b"), other("y"), other("x")]))], Vec::new());
    assert_eq!(one, two);
    let mixed = tidied(vec![pod(json!([claim("a"), other("y"), claim("b"), other("x")]))], Vec::new());
    assert_ne!(mixed, two);
}

#[test]
fn what_the_binder_wrote_is_left_out() {
    let bound = json!({
        "metadata": { "name": "data-web-0", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": "pv-1", "volumeMode": "Filesystem" },
        "status": { "phase": "Bound" },
    });
    let pending = json!({
        "metadata": { "name": "data-web-0" },
        "spec": { "volumeMode": "Filesystem" },
        "status": { "phase": "Pending" },
    });
    assert_eq!(tidied(Vec::new(), vec![bound]), tidied(Vec::new(), vec![pending]));
}
