//! F1 to F4, F13, F16: what a pod refers to.

use serde_json::{Value, json};

use super::*;

fn found(pod: &Value) -> Vec<(Kind, String, bool)> {
    references(pod).into_iter().map(|found| (found.kind, found.name.to_string(), found.optional)).collect()
}

#[test]
fn d_f1_f2_f3_f4_f13_every_kind_of_reference_is_found() {
    use Kind::{ConfigMap, Secret};
    let container = |container: Value| json!({ "containers": [container] });
    let cases = [
        (container(json!({ "envFrom": [{ "configMapRef": { "name": "x" } }] })), ConfigMap),
        (container(json!({ "envFrom": [{ "secretRef": { "name": "x" } }] })), Secret),
        (
            container(
                json!({ "env": [{ "name": "E", "valueFrom": { "configMapKeyRef": { "name": "x", "key": "k" } } }] }),
            ),
            ConfigMap,
        ),
        (
            container(
                json!({ "env": [{ "name": "E", "valueFrom": { "secretKeyRef": { "name": "x", "key": "k" } } }] }),
            ),
            Secret,
        ),
        (json!({ "initContainers": [{ "envFrom": [{ "secretRef": { "name": "x" } }] }] }), Secret),
        (json!({ "volumes": [{ "name": "v", "configMap": { "name": "x" } }] }), ConfigMap),
        (json!({ "volumes": [{ "name": "v", "secret": { "secretName": "x" } }] }), Secret),
        (
            json!({ "volumes": [{ "name": "v", "projected": { "sources": [{ "configMap": { "name": "x" } }] } }] }),
            ConfigMap,
        ),
        (
            json!({ "volumes": [{ "name": "v", "projected": { "sources": [{ "secret": { "name": "x" } }] } }] }),
            Secret,
        ),
    ];
    for (pod, kind) in cases {
        assert_eq!(found(&pod), [(kind, "x".to_owned(), false)], "{pod}");
    }
}

#[test]
fn d_f14_a_reference_is_optional_only_where_all_of_it_are() {
    let pod = |first: bool, second: bool| {
        json!({
            "containers": [{ "envFrom": [{ "secretRef": { "name": "x", "optional": first } }] }],
            "volumes": [{ "name": "v", "secret": { "secretName": "x", "optional": second } }],
        })
    };
    for (first, second, optional) in [(true, true, true), (true, false, false), (false, true, false)] {
        assert_eq!(found(&pod(first, second)), [(Kind::Secret, "x".to_owned(), optional)]);
    }
}

#[test]
fn d_f16_other_fields_and_malformed_ones_are_no_references() {
    for pod in [
        json!(null),
        json!("pod"),
        json!({ "imagePullSecrets": [{ "name": "x" }] }),
        json!({ "containers": { "envFrom": [{ "secretRef": { "name": "x" } }] } }),
        json!({ "containers": [{ "env": { "name": "E" }, "envFrom": "x" }, null, 3] }),
        json!({ "containers": [{ "envFrom": [{ "secretRef": { "name": "" } }, { "secretRef": null }, { "secretRef": { "name": 3 } }] }] }),
        json!({ "volumes": [{ "name": "v", "secret": { "name": "x" } }, { "name": "w", "emptyDir": {} }] }),
        json!({ "volumes": [{ "name": "v", "projected": { "sources": "x" } }] }),
        json!({ "containers": [{ "env": [{ "name": "E", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }] }] }),
    ] {
        assert_eq!(found(&pod), [], "{pod}");
    }
}
