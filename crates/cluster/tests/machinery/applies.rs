//! Server-side apply.

use serde_json::json;

use crate::{
    patches::{pod, set, thing},
    server::{CONFIG_MAP, POD, SERVICE, SET, THING},
    steps::{Sequence, applied, create, forced, merge_patch, sequence, strategic, update},
};

pub(crate) fn sequences() -> Vec<Sequence> {
    let mut all = maps();
    all.extend(origins_and_refusals());
    all.extend(workloads());
    all.extend(custom());
    all
}

fn maps() -> Vec<Sequence> {
    vec![
        sequence(
            "apply_creates",
            CONFIG_MAP,
            vec![
                applied("a", json!({ "data": { "a": "1", "b": "2" } })),
                applied("a", json!({ "data": { "a": "1", "b": "2" } })),
                applied("a", json!({ "data": { "a": "2" } })),
                applied("a", json!({ "data": {} })),
                applied("a", json!({})),
            ],
        ),
        sequence(
            "apply_shares",
            CONFIG_MAP,
            vec![
                applied("a", json!({ "data": { "a": "1", "b": "2" } })),
                applied("b", json!({ "data": { "a": "1", "c": "3" } })),
                applied("a", json!({ "data": { "b": "2" } })),
                applied("b", json!({ "data": { "c": "3" } })),
                applied("b", json!({ "data": { "b": "9" } })).refused(409),
                forced("b", json!({ "data": { "b": "9" } })),
                applied("a", json!({ "data": {} })),
                forced("a", json!({ "data": { "b": "1" }, "metadata": { "labels": { "x": "y" } } })),
            ],
        ),
        sequence(
            "apply_meets_updates",
            CONFIG_MAP,
            vec![
                create(json!({ "data": { "a": "1", "b": "2" } })),
                applied("a", json!({ "data": { "a": "1" } })),
                applied("a", json!({ "data": { "a": "2" } })).refused(409),
                forced("a", json!({ "data": { "a": "2" } })),
                update(json!({ "data": { "a": "3" } })),
                applied("a", json!({ "data": { "a": "2", "b": "3" } })).refused(409),
                merge_patch(json!({ "data": { "b": null } })),
                forced("a", json!({ "data": { "a": "2", "b": "3" } })),
                merge_patch(json!({ "data": { "a": "2", "z": "1" } })),
            ],
        ),
    ]
}

fn origins_and_refusals() -> Vec<Sequence> {
    vec![
        sequence(
            "apply_after_client_side_apply",
            CONFIG_MAP,
            vec![
                create(json!({ "data": { "a": "1", "b": "1" }, "metadata": { "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": json!({
                        "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "1", "b": "0" },
                    }).to_string(),
                } } })),
                applied("other", json!({ "data": { "a": "2" } })).refused(409),
                applied("kubectl", json!({ "data": { "a": "2", "b": "2" } })).refused(409),
                applied("kubectl", json!({ "data": { "a": "2" } })),
                applied("kubectl", json!({ "data": { "a": "2" }, "metadata": { "labels": { "l": "1" } } })),
                update(json!({ "data": { "a": "3" } })),
                applied("kubectl", json!({ "data": { "a": "4" } })).refused(409),
            ],
        ),
        sequence(
            "apply_before_first",
            CONFIG_MAP,
            vec![
                create(json!({ "data": { "a": "1" } })),
                merge_patch(json!({ "metadata": { "managedFields": [{}] } })),
                merge_patch(json!({ "data": { "b": "2" } })),
                applied("a", json!({ "data": { "a": "2" } })).refused(409),
                forced("a", json!({ "data": { "a": "2" } })),
            ],
        ),
        sequence(
            "apply_refuses",
            CONFIG_MAP,
            vec![
                applied("a", json!({ "data": { "a": "1" } })),
                applied("a", json!({ "data": { "a": "1" }, "typo": 1 })).refused(500),
                applied("a", json!({ "data": { "a": 1 } })).refused(500),
                applied("a", json!({ "data": ["a"] })).refused(500),
                applied("a", json!({ "metadata": { "managedFields": [] } })).refused(400),
            ],
        ),
        sequence(
            "apply_service",
            SERVICE,
            vec![
                applied(
                    "a",
                    json!({ "spec": { "selector": { "app": "a" }, "ports": [
                { "name": "a", "port": 80 }, { "name": "b", "port": 80, "protocol": "UDP" },
            ] } }),
                ),
                applied("b", json!({ "spec": { "ports": [{ "name": "c", "port": 81 }] } })),
                applied(
                    "a",
                    json!({ "spec": { "selector": { "app": "a" }, "ports": [
                { "name": "a", "port": 80, "protocol": "TCP", "targetPort": 8080 },
            ] } }),
                ),
                applied("b", json!({ "spec": { "selector": { "tier": "b" } } })).refused(409),
                forced(
                    "b",
                    json!({ "spec": { "selector": { "tier": "b" }, "ports": [{ "name": "c", "port": 81 }] } }),
                ),
                applied(
                    "a",
                    json!({ "spec": { "ports": [{ "name": "a", "port": 80 }, { "name": "z", "port": 80 }] } }),
                ).refused(500),
                applied("a", json!({ "spec": { "ports": [{ "name": "nameless" }] } })).refused(422),
            ],
        ),
    ]
}

fn workloads() -> Vec<Sequence> {
    let containers = |list| json!({ "spec": { "template": { "spec": { "containers": list } } } });
    vec![
        sequence(
            "apply_set",
            SET,
            vec![
                applied("a", set()),
                applied("b", json!({ "spec": { "replicas": 3 } })),
                forced("b", json!({ "spec": { "replicas": 3 } })),
                applied("c", containers(json!([{ "name": "side", "image": "side:1" }]))),
                applied("c", containers(json!([{ "name": "one", "image": "one:9" }]))).refused(409),
                forced("c", containers(json!([{ "name": "one", "image": "one:9" }]))),
                applied("c", containers(json!([]))).refused(422),
                forced("b", json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 1 } } } })),
                update(json!({ "spec": { "replicas": 7 } })),
                applied(
                    "b",
                    json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 2 } } } }),
                ),
                applied("b", json!({ "spec": { "updateStrategy": { "type": "RollingUpdate" } } })),
                strategic(containers(json!([{ "name": "two", "env": [{ "name": "N", "value": "1" }] }]))),
                applied("d", containers(json!([{ "name": "two", "env": [{ "name": "M", "value": "1" }] }]))),
                applied("d", containers(json!([{ "name": "two" }]))),
                applied(
                    "d",
                    containers(json!([{ "name": "two", "env": [{ "name": "M" }, { "name": "M" }] }])),
                )
                .refused(500),
            ],
        ),
        sequence(
            "apply_set_status",
            SET,
            vec![
                applied("a", set()),
                applied(
                    "s",
                    json!({ "status": { "replicas": 1, "conditions": [{ "type": "A", "status": "True" }] } }),
                )
                .through_status(),
                applied(
                    "t",
                    json!({ "status": { "replicas": 1, "conditions": [{ "type": "B", "status": "True" }] } }),
                )
                .through_status(),
                applied("s", json!({ "status": { "replicas": 2 } })).through_status().refused(409),
                forced("s", json!({ "status": { "replicas": 2 } })).through_status(),
                applied("s", json!({ "spec": { "replicas": 9 }, "status": { "replicas": 2 } }))
                    .through_status(),
                applied("a", json!({ "spec": set()["spec"], "status": { "replicas": 5 } })),
            ],
        ),
        sequence(
            "apply_pod",
            POD,
            vec![
                create(pod()),
                applied(
                    "a",
                    json!({ "metadata": { "labels": { "x": "1" }, "finalizers": ["example.com/a"] } }),
                ),
                applied("b", json!({ "metadata": { "finalizers": ["example.com/b"] } })),
                applied("a", json!({ "metadata": { "labels": { "x": "2" } } })),
                applied("b", json!({ "metadata": { "annotations": { "n": "1" } } })),
                applied("b", json!({ "metadata": { "labels": { "app": "other" } } })).refused(409),
                applied(
                    "a",
                    json!({ "metadata": { "ownerReferences": [
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1" },
            ] } }),
                ),
                applied("k", json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }))
                    .through_status(),
                applied("a", json!({})),
            ],
        ),
    ]
}

fn custom() -> Vec<Sequence> {
    vec![
        sequence(
            "apply_thing",
            THING,
            vec![
                applied("a", thing()),
                applied(
                    "b",
                    json!({ "spec": { "parts": [{ "name": "c", "value": 2 }, { "name": "a", "on": false }] } }),
                ),
                applied("b", json!({ "spec": { "parts": [{ "name": "c", "value": 2 }, { "name": "a" }] } })),
                applied("b", json!({ "spec": { "tags": ["z"], "steps": ["one"] } })),
                applied(
                    "a",
                    json!({ "spec": { "size": 3, "parts": [{ "name": "b" }, { "name": "a" }], "tags": ["y"] } }),
                ),
                applied("c", json!({ "spec": { "steps": ["two"] } })).refused(409),
                forced("c", json!({ "spec": { "steps": ["two"], "pair": { "left": "l" } } })),
                applied("d", json!({ "spec": { "pair": { "right": "r" } } })).refused(409),
                applied("d", json!({ "spec": { "free": { "a": { "b": 1 }, "c": [1] }, "any": { "x": 1 } } })),
                applied("e", json!({ "spec": { "free": { "a": { "d": 1 } }, "any": { "y": 2 } } })),
                applied("d", json!({ "spec": { "free": { "c": [2] } } })),
                applied("e", json!({ "spec": { "any": 5 } })),
                applied("e", json!({ "spec": { "limits": { "a": "1" }, "perhaps": null, "port": 80 } })),
                applied("f", json!({ "spec": { "port": "http" } })).refused(409),
                forced("f", json!({ "spec": { "port": "http", "nested": { "deep": 5 } } })),
                applied("e", json!({ "spec": { "typo": 1 } })).refused(500),
                applied("e", json!({ "spec": { "parts": [{ "value": 1 }] } })).refused(500),
                applied("e", json!({ "spec": { "tags": ["q", "q"] } })).refused(500),
                applied("e", json!({})),
            ],
        ),
        sequence(
            "apply_thing_status",
            THING,
            vec![
                create(thing()),
                applied("s", json!({ "status": { "conditions": [{ "type": "A", "status": "True" }] } }))
                    .through_status(),
                applied(
                    "t",
                    json!({ "status": { "ready": true, "conditions": [{ "type": "B", "status": "True" }] } }),
                )
                .through_status(),
                applied("s", json!({ "status": { "conditions": [{ "type": "B", "status": "False" }] } }))
                    .through_status()
                    .refused(409),
                forced("s", json!({ "status": { "conditions": [{ "type": "B", "status": "False" }] } }))
                    .through_status(),
                applied("s", json!({ "spec": { "size": 8 }, "metadata": { "labels": { "a": "b" } } }))
                    .through_status(),
                applied("t", json!({ "spec": { "size": 3 }, "status": { "ready": false } })),
            ],
        ),
    ]
}
