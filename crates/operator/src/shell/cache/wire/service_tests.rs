use serde_json::json;
use sts_plus_planner::extended::services::digest_of_ports;

use super::service;
use crate::shell::cache::intern::Interner;

#[test]
fn what_an_extended_statefulset_writes_of_a_service_is_kept() {
    let json = json!({
        "kind": "Service",
        "metadata": {
            "name": "db", "namespace": "ns", "uid": "u1", "resourceVersion": "7",
            "ownerReferences": [{ "kind": "ExtendedStatefulSet", "uid": "e", "controller": true }],
        },
        "spec": {
            "selector": { "app": "db" }, "clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP",
            "ports": [{ "name": "http", "port": 80, "targetPort": 80, "protocol": "TCP", "nodePort": 30000 }],
        },
        "status": { "loadBalancer": {} },
    });
    let row = service(&json.to_string(), &mut Interner::default()).unwrap().row.unwrap();
    assert_eq!((&*row.namespace, &*row.name, &*row.uid, &*row.resource_version), ("ns", "db", "u1", "7"));
    assert_eq!((row.terminating, row.owner.as_deref(), row.headless), (false, Some("e"), true));
    assert_eq!(&*row.selector["app"], "db");
    let written = json!([{ "name": "http", "port": 80, "targetPort": 80, "protocol": "TCP" }]);
    assert_eq!(row.ports, digest_of_ports(&written), "what the server adds to a port does not count");
}

#[test]
fn a_service_without_selector_and_ports_is_read() {
    let json = json!({ "metadata": { "name": "db" }, "spec": { "type": "ExternalName" } });
    let row = service(&json.to_string(), &mut Interner::default()).unwrap().row.unwrap();
    assert!(row.selector.is_empty() && !row.headless);
    assert_eq!(row.ports, digest_of_ports(&json!([])));
}

#[test]
fn a_service_that_was_left_behind_names_the_object_that_it_was_of() {
    let left_by = |labels: serde_json::Value, owners: serde_json::Value| {
        let metadata =
            json!({ "name": "db", "namespace": "ns", "labels": labels, "ownerReferences": owners });
        let json = json!({ "metadata": metadata, "spec": {} });
        service(&json.to_string(), &mut Interner::default()).unwrap().row.unwrap().left_by
    };
    let (managed, name) =
        ("app.kubernetes.io/managed-by", "fissile.cloudfoundry.org/extendedstatefulset-name");
    let labels = json!({ managed: "sts-plus", name: "db" });
    let other = json!({ "kind": "ConfigMap", "uid": "o" });
    for owners in [json!(null), json!([]), json!([other])] {
        assert_eq!(left_by(labels.clone(), owners).as_deref(), Some("fissile.cloudfoundry.org/ns/db"));
    }
    assert_eq!(left_by(labels, json!([{ "uid": "e", "controller": true }])), None);
    for labels in [
        json!(null),
        json!({ managed: "Helm", name: "db" }),
        json!({ name: "db" }),
        json!({ managed: "sts-plus" }),
    ] {
        assert_eq!(left_by(labels, json!([])), None);
    }
}
