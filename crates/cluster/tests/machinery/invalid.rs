//! Objects that are refused, warned about or written otherwise than they were sent.

use serde_json::{Value, json};

use crate::server::{CONFIG_MAP, NAMESPACE, POD, SERVICE, SET, Server, THING};

fn specs() -> Vec<Value> {
    vec![
        json!({ "size": 11, "port": 1.5, "mode": "c", "name": "toolongname1" }),
        json!({ "size": 0, "name": "a" }),
        json!({ "size": "a", "name": "ABC" }),
        json!({ "size": 1.5 }),
        json!({ "size": 1, "ratio": 0 }),
        json!({ "size": 1, "ratio": 0.3 }),
        json!({ "size": 1, "small": 3_000_000_000_u32 }),
        json!({ "size": 1, "tags": ["a", "a", 1] }),
        json!({ "size": 1, "tags": [] }),
        json!({ "size": 1, "tags": [null], "parts": [null] }),
        json!({ "size": 1, "parts": [{ "name": "a" }, { "name": "a" }, { "value": 1 }, { "name": "c" }] }),
        json!({ "size": 1, "free": "x", "limits": { "a": 1, "b": "2", "c": "3" } }),
        json!({ "size": 1, "limits": [], "parts": {}, "tags": "x", "nested": 3 }),
        json!({ "size": 1, "when": "now", "address": "1.2.3", "perhaps": 3 }),
        json!({ "size": 1, "embedded": {} }),
        json!({ "size": 1, "either": {} }),
        json!({ "size": 1, "either": { "left": "l", "right": "r" } }),
        json!({ "size": true, "port": true, "mode": 3 }),
        json!({ "size": 11, "range": { "from": 2, "to": 1 } }),
        json!({ "size": "x", "range": { "from": 2, "to": 1 } }),
        json!({ "size": 1, "range": { "from": 13, "to": 13 }, "word": "x" }),
        json!({ "size": 1, "range": { "from": 15, "to": 16 } }),
        json!({ "size": 1, "range": { "from": 14, "to": 14 }, "word": "w" }),
        json!([]),
        json!({}),
        Value::Null,
        // These fit.
        json!({ "size": 1.0, "ratio": 1.5, "when": "2020-01-01T00:00:00Z", "address": "1.2.3.4", "perhaps": null }),
        json!({ "size": 10, "port": "x", "tags": ["a", "b"], "surely": null, "either": { "left": "l" } }),
    ]
}

/// The server lists causes in no order.
pub(crate) async fn compare(server: &Server) {
    let schema = server.schema(THING);
    for (position, spec) in specs().into_iter().enumerate() {
        let mut thing = json!({
            "apiVersion": THING.api_version(), "kind": THING.name, "spec": spec,
            "metadata": { "name": format!("invalid-{position}"), "namespace": NAMESPACE },
        });
        let theirs = server.send("POST", &THING.path(), "application/json", &thing).await;
        schema.prune(&mut thing);
        schema.default(&mut thing);
        let ours = schema.judge(&thing, None);
        let mut ours: Vec<_> = ours
            .iter()
            .map(|cause| json!({ "field": cause.field, "reason": cause.reason, "message": cause.message }))
            .collect();
        let mut causes =
            theirs.body.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
        ours.sort_by_key(ToString::to_string);
        causes.sort_by_key(ToString::to_string);
        assert_eq!(ours, causes, "{spec}\nours:   {}\ntheirs: {}", json!(ours), json!(causes));
        assert_eq!(theirs.is_ok(), ours.is_empty(), "{spec}: {}", theirs.body);
    }
}

/// A strict server names the fields that it does not know.
pub(crate) async fn unknown(server: &Server) {
    let objects = [
        (POD, json!({ "spec": { "containers": [{ "name": "a", "image": "a", "x": 1 }], "y": {} }, "z": [] })),
        (POD, json!({ "metadata": { "lables": {}, "ownerReferences": [{ "x": 1 }] }, "status": { "x": 1 } })),
        (SERVICE, json!({ "spec": { "ports": [{ "port": 1 }, { "prot": 1 }], "selector": { "any": "x" } } })),
        (
            SET,
            json!({ "spec": { "template": { "spec": { "volumes": [{ "name": "a", "emptyDir": { "x": 1 } }] } } } }),
        ),
        (CONFIG_MAP, json!({ "data": { "any": "x" }, "dta": {} })),
        (
            THING,
            json!({ "spec": { "size": 1, "x": 1, "parts": [{ "name": "a", "y": 1 }], "free": { "any": 1 } } }),
        ),
        (THING, json!({ "spec": { "size": 1, "limits": { "any": "x" } }, "top": 1, "metadata": { "x": 1 } })),
        (
            THING,
            json!({ "spec": { "size": 1, "embedded": {
            "apiVersion": "v1", "kind": "X", "metadata": { "x": 1 }, "any": 1,
        } } }),
        ),
    ];
    for (kind, mut object) in objects {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.name.into();
        object["metadata"]["name"] = "unknown".into();
        let path = format!("{}?fieldValidation=Strict&dryRun=All", kind.path());
        let theirs = server.send("POST", &path, "application/json", &object).await;
        let message = theirs.body["message"].as_str().unwrap_or_default();
        let (_, list) = message.split_once("strict decoding error: ").unwrap_or_default();
        let mut theirs: Vec<_> = list.split(", ").filter(|entry| !entry.is_empty()).collect();
        let ours: Vec<_> = server.schema(kind).unknown_fields(&object);
        let mut ours: Vec<_> =
            ours.iter().map(|path| format!("unknown field {:?}", path.to_string())).collect();
        theirs.sort_unstable();
        ours.sort();
        assert_eq!(ours, theirs, "{object}: {message}");
    }
}

/// What comes back of an object is what was sent, in the server's own form; what it adds is of no concern here.
pub(crate) async fn normalized(server: &Server) {
    let amounts =
        ["0.5", "1000m", "1024Mi", "1.5Gi", "0.5Ki", "1000k", "2000000", "1e3", "12e-1", "1E6", "7"];
    let mut objects: Vec<_> = amounts
        .iter()
        .map(|amount| {
            let resources = json!({ "requests": { "memory": amount, "example.com/x": 3 }, "limits": { "example.com/x": "3" } });
            json!({ "spec": { "containers": [{ "name": "a", "image": "a", "resources": resources }] } })
        })
        .collect();
    objects.push(json!({ "metadata": { "labels": {}, "annotations": null, "finalizers": [] }, "spec": {
        "nodeSelector": {}, "tolerations": [], "securityContext": {}, "affinity": { "nodeAffinity": {} },
        "volumes": [{ "name": "v", "emptyDir": {} }, { "name": "w", "emptyDir": { "sizeLimit": "1024Ki" } }],
        "containers": [{ "name": "a", "image": "a", "env": [], "command": null, "args": ["x"], "resources": { "limits": {} } }],
    } }));
    for (position, mut object) in objects.into_iter().enumerate() {
        object["metadata"]["name"] = format!("normalized-{position}").into();
        let theirs =
            server.send("POST", &format!("{}?dryRun=All", POD.path()), "application/json", &object).await;
        assert!(theirs.is_ok(), "{object}: {}", theirs.body);
        server.schema(POD).normalize(&mut object);
        // What we dropped must not be there, and what we kept must be.
        let container = |object: &Value| object["spec"]["containers"][0].clone();
        let (ours, theirs_container) = (container(&object), container(&theirs.body));
        for name in ["resources", "env", "command", "args"] {
            assert_eq!(ours.get(name), theirs_container.get(name), "{name} of {object}");
        }
        for pointer in
            ["/metadata/labels", "/metadata/annotations", "/metadata/finalizers", "/spec/nodeSelector"]
        {
            assert_eq!(object.pointer(pointer), theirs.body.pointer(pointer), "{pointer} of {object}");
        }
        if position == amounts.len() {
            let both = [&object, &theirs.body]
                .map(|object| (object["spec"]["affinity"].clone(), object["spec"]["volumes"][1].clone()));
            assert_eq!(both[0], both[1]);
        }
    }
}
