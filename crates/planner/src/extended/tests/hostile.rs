//! Templates that no API server has checked.

use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::cluster::Cluster;
use crate::extended::probe::Digest;
use crate::plan::{Kind, Object};

/// Every value of a valid spec replaced by each of some hostile ones.
#[test]
fn d_a_hostile_value_anywhere_in_the_template_never_panics() {
    let whole = json!({
        "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } },
        "spec": {
            "replicas": 2, "serviceName": "s", "selector": { "matchLabels": { "a": "b" } },
            "volumeClaimTemplates": [{ "metadata": { "name": "v" } }],
            "template": {
                "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } },
                "spec": {
                    "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "k", "operator": "Exists" }] }],
                    } } },
                    "initContainers": [{ "name": "i", "env": [] }],
                    "containers": [{
                        "name": "app", "ports": [{ "containerPort": 80 }],
                        "envFrom": [{ "secretRef": { "name": "s" } }],
                        "env": [{ "name": "E", "valueFrom": { "configMapKeyRef": { "name": "m", "key": "k" } } }],
                    }],
                    "volumes": [{ "name": "p", "projected": { "sources": [{ "secret": { "name": "t" } }] } }],
                },
            },
        },
    });
    let mut pointers = Vec::new();
    collect(&whole, String::new(), &mut pointers);
    assert!(pointers.len() > 40);
    for pointer in pointers {
        for hostile in
            [json!(null), json!(""), json!(-1), json!([null]), json!({ "": null }), json!([[]]), json!(1e300)]
        {
            let mut template = whole.clone();
            *template.pointer_mut(&pointer).unwrap() = hostile;
            let spec = json!({
                "template": template, "zones": ["z1"], "updateOnConfigChange": true,
                "activeProbe": { "app": { "tcpSocket": { "port": 80 } } },
                "services": { "headless": "h", "perReplica": true, "active": "x" },
            });
            let mut cluster = Cluster::new(Group::StsPlus, spec);
            for (kind, name) in [("ConfigMap", "m"), ("Secret", "s"), ("Secret", "t")] {
                let kind = if kind == "Secret" { Kind::Secret } else { Kind::ConfigMap };
                let object = Object { kind, namespace: "ns".into(), name: name.into() };
                cluster.digests.insert(object, Digest::Known("1".into()));
            }
            let decision = cluster.decide();
            assert!(!decision.status.conditions.is_empty() || decision.wait.is_some(), "{pointer}");
        }
    }
}

fn collect(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            collect(value, format!("{at}/{}", key.replace('/', "~1")), pointers);
        }),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| {
            collect(value, format!("{at}/{index}"), pointers);
        }),
        _ => {}
    }
    if !at.is_empty() {
        pointers.push(at);
    }
}
