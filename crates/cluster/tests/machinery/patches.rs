//! Patches and updates.

use serde_json::{Value, json};

use crate::{
    server::{CONFIG_MAP, DEPLOYMENT, POD, SERVICE, SET, THING},
    steps::{Sequence, create, json_patch, merge_patch, sequence, strategic, update},
};

pub(crate) fn pod() -> Value {
    json!({ "metadata": { "labels": { "app": "a" } }, "spec": {
        "automountServiceAccountToken": false,
        "containers": [{ "name": "one", "image": "one:1" }, { "name": "two", "image": "two:1" }],
    } })
}

pub(crate) fn set() -> Value {
    json!({ "spec": {
        "selector": { "matchLabels": { "app": "a" } }, "serviceName": "a",
        "template": {
            "metadata": { "labels": { "app": "a" } },
            "spec": {
                "containers": [
                    {
                        "name": "one", "image": "one:1",
                        "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
                        "ports": [{ "containerPort": 80 }, { "containerPort": 80, "protocol": "UDP" }],
                        "resources": { "requests": { "cpu": "1", "memory": "1Gi" } },
                    },
                    { "name": "two", "image": "two:1" },
                ],
                "volumes": [{ "name": "data", "emptyDir": {} }],
            },
        },
        "volumeClaimTemplates": [{ "metadata": { "name": "disk" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        } }],
    } })
}

pub(crate) fn thing() -> Value {
    json!({ "spec": { "size": 3, "parts": [{ "name": "a", "value": 1 }, { "name": "b" }], "tags": ["x", "y"] } })
}

fn containers(list: &Value) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": list } } } })
}

pub(crate) fn sequences() -> Vec<Sequence> {
    let mut all = json_patches();
    all.extend(merge_patches());
    all.extend(strategic_patches());
    all.extend(directives());
    all
}

fn json_patches() -> Vec<Sequence> {
    vec![
        sequence(
            "json_fields",
            CONFIG_MAP,
            vec![
                create(
                    json!({ "metadata": { "annotations": { "x.y/z": "3" } }, "data": { "a": "1", "b": "2" } }),
                ),
                json_patch(json!([{ "op": "add", "path": "/data/c", "value": "3" }])),
                json_patch(
                    json!([{ "op": "replace", "path": "/metadata/annotations/x.y~1z", "value": "4" }]),
                ),
                json_patch(json!([{ "op": "remove", "path": "/data/b" }])),
                json_patch(json!([{ "op": "move", "from": "/data/a", "path": "/data/d" }])),
                json_patch(json!([{ "op": "copy", "from": "/data/d", "path": "/data/e" }])),
                json_patch(
                    json!([{ "op": "test", "path": "/data/e", "value": "1" }, { "op": "remove", "path": "/data/e" }]),
                ),
                json_patch(json!([{ "op": "test", "path": "/metadata/finalizers", "value": null }])),
                json_patch(json!([{ "op": "add", "path": "/metadata/labels", "value": { "l": "1" } }])),
                json_patch(json!([{ "op": "replace", "path": "/metadata/labels/new", "value": "2" }])),
                json_patch(json!([{ "op": "replace", "path": "/data", "value": { "only": "one" } }])),
                json_patch(json!([])),
            ],
        ),
        sequence(
            "json_refused",
            CONFIG_MAP,
            vec![
                create(json!({ "data": { "a": "1" } })),
                json_patch(json!([{ "op": "remove", "path": "/data/missing" }])).refused(422),
                json_patch(json!([{ "op": "test", "path": "/data/a", "value": "2" }])).refused(422),
                json_patch(json!([{ "op": "test", "path": "/nothing/a", "value": "2" }])).refused(422),
                json_patch(json!([{ "op": "add", "path": "/nothing/a", "value": "2" }])).refused(422),
                json_patch(json!([{ "op": "remove", "path": "/nothing/a" }])).refused(422),
                json_patch(json!([{ "op": "replace", "path": "/nothing/a", "value": "2" }])).refused(422),
                json_patch(json!([{ "op": "move", "from": "/data/b", "path": "/data/c" }])).refused(422),
                json_patch(json!([{ "op": "copy", "from": "/nothing/b", "path": "/data/c" }])).refused(422),
                json_patch(json!([{ "op": "add", "path": "/metadata/ownerReferences/0", "value": {} }]))
                    .refused(422),
                json_patch(json!([{ "op": "sing", "path": "/data/a" }])).refused(422),
            ],
        ),
        sequence(
            "json_lists",
            THING,
            vec![
                create(json!({ "spec": { "size": 1, "steps": ["a", "b", "c"] } })),
                json_patch(json!([{ "op": "add", "path": "/spec/steps/-", "value": "d" }])),
                json_patch(json!([{ "op": "add", "path": "/spec/steps/0", "value": "0" }])),
                json_patch(json!([{ "op": "remove", "path": "/spec/steps/1" }])),
                json_patch(json!([{ "op": "replace", "path": "/spec/steps/-1", "value": "z" }])),
                json_patch(json!([{ "op": "remove", "path": "/spec/steps/-1" }])),
                json_patch(json!([{ "op": "add", "path": "/spec/steps/-1", "value": "last" }])),
                json_patch(json!([{ "op": "remove", "path": "/spec/steps/9" }])).refused(422),
                json_patch(json!([{ "op": "add", "path": "/spec/steps/9", "value": "x" }])).refused(422),
                json_patch(json!([{ "op": "replace", "path": "/spec/steps/9", "value": "x" }])).refused(422),
                json_patch(json!([{ "op": "test", "path": "/spec/steps/9", "value": null }])).refused(422),
            ],
        ),
    ]
}

fn merge_patches() -> Vec<Sequence> {
    vec![
        sequence(
            "merge_fields",
            CONFIG_MAP,
            vec![
                create(json!({ "data": { "a": "1", "b": "2" }, "metadata": { "labels": { "l": "1" } } })),
                merge_patch(json!({ "data": { "a": "2", "c": "3" } })),
                merge_patch(json!({ "data": { "a": null, "absent": null } })),
                merge_patch(json!({ "metadata": { "annotations": { "n": "1" }, "labels": null } })),
                merge_patch(json!({ "data": null })),
                merge_patch(json!({})),
                update(json!({ "data": { "z": "1" } })),
                update(json!({ "metadata": { "annotations": { "n": "2" } } })),
            ],
        ),
        sequence(
            "merge_replaces_lists",
            SET,
            vec![
                create(set()),
                merge_patch(containers(&json!([{ "name": "one", "image": "one:2" }]))),
                merge_patch(
                    json!({ "spec": { "replicas": 3, "template": { "spec": { "volumes": null } } } }),
                ),
                update(json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 2 } } } })),
                merge_patch(json!({ "status": { "replicas": 3 } })),
                merge_patch(
                    json!({ "status": { "replicas": 3, "conditions": [{ "type": "A", "status": "True" }] } }),
                )
                .through_status(),
            ],
        ),
        sequence(
            "merge_custom",
            THING,
            vec![
                create(thing()),
                merge_patch(json!({ "spec": { "parts": [{ "name": "c" }], "tags": null, "mode": null } })),
                merge_patch(
                    json!({ "spec": { "perhaps": null, "surely": "y", "nested": { "deep": 4 }, "typo": 1 } }),
                ),
                merge_patch(json!({ "spec": { "free": { "a": { "b": 1 } }, "any": [1, { "a": true }] } })),
                merge_patch(
                    json!({ "spec": { "free": { "a": { "b": null, "c": [] } }, "limits": { "a": "1" } } }),
                ),
                update(json!({ "spec": { "size": 4, "pair": { "left": "l" } } })),
                update(json!({ "spec": { "pair": { "right": "r" }, "limits": {} } })),
                merge_patch(json!({ "status": { "ready": true } })),
                merge_patch(json!({ "spec": { "size": 9 }, "status": { "ready": true } })).through_status(),
                merge_patch(json!({ "status": { "conditions": [{ "type": "A", "status": "True" }] } }))
                    .through_status(),
                merge_patch(json!({ "spec": { "embedded": {
                "apiVersion": "v1", "kind": "X", "metadata": { "labels": { "a": "b" }, "typo": 1 }, "free": 1,
            } } })),
            ],
        ),
    ]
}

fn strategic_patches() -> Vec<Sequence> {
    vec![
        sequence("strategic_containers", SET, vec![
            create(set()),
            strategic(containers(&json!([{ "name": "one", "image": "one:2" }]))),
            strategic(containers(&json!([{ "name": "three", "image": "three:1" }]))),
            strategic(containers(&json!([{ "name": "two", "env": [{ "name": "Z", "value": "9" }] }]))),
            strategic(containers(&json!([{ "name": "one", "env": [{ "name": "B", "value": "3" }, { "name": "C", "value": "4" }] }]))),
            strategic(containers(&json!([{ "name": "one", "env": [{ "name": "A", "$patch": "delete" }] }]))),
            strategic(containers(&json!([{ "name": "one", "command": ["a", "b"] }]))),
            strategic(containers(&json!([{ "name": "one", "command": ["c"] }]))),
            strategic(containers(&json!([{ "name": "one", "resources": { "requests": { "cpu": null, "memory": "2Gi" } } }]))),
            strategic(containers(&json!([{ "name": "three", "$patch": "delete" }]))),
            strategic(containers(&json!([{ "name": "two", "image": "two:2" }, { "name": "one", "image": "one:3" }]))),
            strategic(json!({ "spec": { "replicas": 5, "template": { "metadata": { "labels": { "extra": "1" } } } } })),
            strategic(containers(&json!([{ "image": "nameless" }]))).refused(500),
        ]),
        sequence("strategic_volumes", SET, vec![
            create(set()),
            strategic(json!({ "spec": { "template": { "spec": { "volumes": [
                { "name": "more", "configMap": { "name": "c" } },
            ] } } } })),
            strategic(json!({ "spec": { "template": { "spec": { "volumes": [
                { "name": "data", "$retainKeys": ["name", "secret"], "secret": { "secretName": "s" } },
            ] } } } })),
            strategic(json!({ "spec": { "template": { "spec": { "volumes": [
                { "name": "data", "$retainKeys": ["name"], "emptyDir": {} },
            ] } } } })).refused(400),
            strategic(json!({ "spec": { "template": { "spec": { "tolerations": [{ "key": "a", "operator": "Exists" }] } } } })),
            strategic(json!({ "spec": { "template": { "spec": { "tolerations": [{ "key": "b", "operator": "Exists" }] } } } })),
        ]),
        sequence("strategic_service", SERVICE, vec![
            create(json!({ "spec": { "selector": { "app": "a" }, "ports": [
                { "name": "a", "port": 80 }, { "name": "b", "port": 81 },
            ] } })),
            strategic(json!({ "spec": { "ports": [{ "port": 81, "targetPort": "web" }] } })),
            strategic(json!({ "spec": { "ports": [{ "name": "c", "port": 82 }] } })),
            strategic(json!({ "spec": { "selector": { "tier": "b" } } })),
            strategic(json!({ "spec": { "selector": { "$patch": "replace", "only": "c" } } })),
            strategic(json!({ "spec": { "ports": [{ "port": 80, "$patch": "delete" }] } })),
            update(json!({ "spec": { "sessionAffinity": "ClientIP" } })),
            merge_patch(json!({ "spec": { "ports": [{ "port": 9000 }] } })),
        ]),
        sequence("strategic_pod", POD, vec![
            create(pod()),
            strategic(json!({ "metadata": { "finalizers": ["example.com/a"] } })),
            strategic(json!({ "metadata": { "finalizers": ["example.com/b"] } })),
            strategic(json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["example.com/a"] } })),
            strategic(json!({ "metadata": { "finalizers": null } })),
            strategic(json!({ "spec": { "containers": [{ "name": "two", "image": "two:2" }] } })),
            strategic(json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } })).through_status(),
            strategic(json!({ "status": { "conditions": [{ "type": "Other", "status": "False" }] } })).through_status(),
            strategic(json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }], "phase": "Running" } })).through_status(),
            strategic(json!({ "metadata": { "labels": { "seen": "1" } }, "spec": { "nodeName": "x" } })).through_status(),
            strategic(json!({ "metadata": { "ownerReferences": [
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1" },
            ] } })),
            strategic(json!({ "metadata": { "ownerReferences": [
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "2" },
            ] } })),
            strategic(json!({ "metadata": { "ownerReferences": [{ "$patch": "delete", "uid": "1" }] } })),
        ]),
        sequence("strategic_config_map", CONFIG_MAP, vec![
            create(json!({ "data": { "a": "1", "b": "2" } })),
            strategic(json!({ "data": { "a": null, "c": "3" } })),
            strategic(json!({ "data": { "$patch": "replace", "only": "1" } })),
            strategic(json!({ "data": { "$patch": "sing" } })).refused(500),
            strategic(json!({ "data": { "$patch": "delete" } })),
        ]),
    ]
}

fn directives() -> Vec<Sequence> {
    let env = |list: Value| containers(&json!([{ "name": "one", "env": list }]));
    vec![
        sequence(
            "element_order",
            SET,
            vec![
                create(set()),
                strategic(json!({ "spec": { "template": { "spec": {
                "$setElementOrder/containers": [{ "name": "two" }, { "name": "one" }],
            } } } })),
                strategic(json!({ "spec": { "template": { "spec": {
                "$setElementOrder/containers": [{ "name": "zero" }, { "name": "one" }],
                "containers": [{ "name": "zero", "image": "zero:1" }],
            } } } })),
                strategic(json!({ "spec": { "template": { "spec": {
                "$setElementOrder/containers": [{ "name": "one" }, { "name": "two" }],
                "containers": [{ "name": "one", "image": "one:2" }, { "name": "zero", "$patch": "delete" }],
            } } } })),
                strategic(json!({ "spec": { "template": { "spec": {
                "$setElementOrder/containers": [{ "name": "two" }, { "name": "one" }],
                "containers": [{ "name": "one", "image": "one:3" }, { "name": "two", "image": "two:3" }],
            } } } }))
                .refused(500),
                strategic(
                    json!({ "spec": { "template": { "spec": { "$setElementOrder/containers": "no" } } } }),
                )
                .refused(500),
            ],
        ),
        sequence(
            "directives_in_lists",
            SET,
            vec![
                create(set()),
                strategic(env(json!([{ "$patch": "replace" }, { "name": "Q", "value": "1" }]))),
                strategic(env(json!([{ "name": "R", "value": "2" }, { "name": "S", "value": "3" }]))),
                strategic(env(json!([{ "name": "R", "$patch": "merge" }]))).refused(500),
                strategic(env(json!([{ "name": "R", "$patch": "sing" }]))).refused(500),
                strategic(env(json!(["text"]))).refused(500),
                strategic(
                    json!({ "spec": { "template": { "$patch": "replace", "metadata": { "labels": { "app": "a" } }, "spec": {
                "containers": [{ "name": "solo", "image": "solo:1" }],
            } } } }),
                ),
            ],
        ),
        sequence(
            "deployment_strategy",
            DEPLOYMENT,
            vec![
                create(json!({ "spec": {
                "selector": { "matchLabels": { "app": "a" } },
                "template": {
                    "metadata": { "labels": { "app": "a" } },
                    "spec": { "containers": [{ "name": "one", "image": "one:1" }] },
                },
            } })),
                strategic(json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" } } })),
                strategic(
                    json!({ "spec": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 2 } } } }),
                ),
                strategic(json!({ "spec": { "strategy": { "rollingUpdate": { "maxSurge": "50%" } } } })),
            ],
        ),
    ]
}
