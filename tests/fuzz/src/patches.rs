//! Patches: what the RFCs say of them, and what a stored object becomes.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use sts_plus_cluster::machinery::patch::{self, PatchError};

use crate::cluster::{Cluster, definitions, depth};
use crate::{parts, reference};

/// Bytes that all copies of a JSON patch may add up to.
const MAX_COPIED: usize = 3 * 1024 * 1024;
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A document and a JSON patch of it.
pub fn json_patch(data: &[u8]) {
    let parts = parts(data);
    let [document, body, ..] = parts.as_slice() else { return };
    if let (Ok(document), Ok(patch)) = (parse(document), parse(body)) {
        let patched = patch::json(&document, &patch);
        if let Ok(patched) = &patched {
            let most = document.to_string().len() + patch.to_string().len() + MAX_COPIED;
            assert!(patched.to_string().len() <= most, "the document grows too much");
            assert!(depth(patched) <= depth(&document).max(MAX_DEPTH), "the document is too deep");
        }
        // What has grown too large is not worked out again.
        let is_limited = match &patched {
            Err(PatchError::TooLarge(_)) => true,
            Err(PatchError::Inapplicable(why)) => is_a_limit(why),
            _ => false,
        };
        // Kubernetes forgives what the RFC does not; the other way round nothing is refused.
        if let Some(expected) = (!is_limited).then(|| reference::json(&document, &patch)).flatten() {
            assert_eq!(patched, Ok(expected), "{document} patched by {patch}");
        }
    }
    patch_a_thing(document, JSON, body);
}

/// What is refused although the RFC has nothing against it.
fn is_a_limit(why: &str) -> bool {
    ["exceeded max depth", "Unable to complete the copy", "too much work"]
        .iter()
        .any(|limit| why.starts_with(limit))
}

/// Levels that no patch goes beyond, however deep the document.
const MAX_DEPTH: usize = 110;

/// A document and a merge patch of it.
pub fn merge_patch(data: &[u8]) {
    let parts = parts(data);
    let [document, body, ..] = parts.as_slice() else { return };
    if let (Ok(document), Ok(patch)) = (parse(document), parse(body)) {
        let merged = patch::merge(&document, &patch);
        assert_eq!(merged, reference::merge(document.clone(), &patch), "{document} merged with {patch}");
        assert_eq!(patch::merge(&merged, &patch), merged, "{document} merged with {patch} twice");
        assert!(depth(&merged) <= depth(&document).max(depth(&patch)), "the document gets deeper");
    }
    patch_a_thing(document, MERGE, body);
}

/// An object and a strategic merge patch of it.
pub fn strategic_patch(data: &[u8]) {
    let parts = parts(data);
    let [document, body, ..] = parts.as_slice() else { return };
    let Ok(object) = parse(document) else { return };
    let Some((kind, collection)) = built_in(&object) else { return };
    if let Ok(patch) = parse(body) {
        let schema = definitions().kind(kind.0, kind.1, kind.2).unwrap();
        let merged = patch::strategic(&object, &patch, &schema);
        if let Ok(merged) = &merged {
            assert!(depth(merged) <= depth(&object).max(depth(&patch)), "the document gets deeper");
            let has = |sign: &str| patch.to_string().contains(sign);
            // In new items nulls are left, which go when Go reads them.
            if !has("$") && !has("null") {
                let twice = patch::strategic(merged, &patch, &schema);
                assert_eq!(twice.as_ref(), Ok(merged), "{object} merged with {patch} twice");
                if !has("[") {
                    assert_eq!(merged, &patch::merge(&object, &patch), "{object} merged with {patch}");
                }
            }
        }
    }
    let cluster = Cluster::new();
    let mut object = object;
    name(&mut object, &cluster.name);
    if cluster.post(&collection, &object).code == StatusCode::CREATED {
        patch_object(&cluster, &collection, STRATEGIC, body);
    }
}

pub(crate) type GroupVersionKind<'a> = (&'a str, &'a str, &'a str);

/// The built-in kind of an object and where its objects are kept, for some kinds.
pub(crate) fn built_in(object: &Value) -> Option<(GroupVersionKind<'static>, String)> {
    let (kind, plural) = match object.get("kind")?.as_str()? {
        "ConfigMap" => (("", "v1", "ConfigMap"), "configmaps"),
        "Pod" => (("", "v1", "Pod"), "pods"),
        "Service" => (("", "v1", "Service"), "services"),
        "ServiceAccount" => (("", "v1", "ServiceAccount"), "serviceaccounts"),
        "PersistentVolumeClaim" => (("", "v1", "PersistentVolumeClaim"), "persistentvolumeclaims"),
        "StatefulSet" => (("apps", "v1", "StatefulSet"), "statefulsets"),
        "PodDisruptionBudget" => (("policy", "v1", "PodDisruptionBudget"), "poddisruptionbudgets"),
        "EndpointSlice" => (("discovery.k8s.io", "v1", "EndpointSlice"), "endpointslices"),
        "Lease" => (("coordination.k8s.io", "v1", "Lease"), "leases"),
        _ => return None,
    };
    let root = if kind.0.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.0) };
    Some((kind, format!("{root}/v1/namespaces/default/{plural}")))
}

/// Gives an object this name and no other place than ours.
pub(crate) fn name(object: &mut Value, name: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("name".into(), name.into());
        metadata.remove("namespace");
    }
}

pub(crate) fn parse(data: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(data)
}

/// A custom kind that keeps whatever it is given.
pub(crate) fn things(cluster: &Cluster) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "tags": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" },
            "parts": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": { "type": "object", "required": ["name"], "x-kubernetes-preserve-unknown-fields": true,
                    "properties": { "name": { "type": "string" } } } },
            "plain": { "type": "object", "additionalProperties": { "type": "string" } },
        } },
    } });
    let answer = cluster.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &definition("things", "Thing", &schema),
    );
    assert!(matches!(answer.code, StatusCode::CREATED | StatusCode::CONFLICT), "{answer:?}");
}

/// The definition of a custom kind.
pub(crate) fn definition(plural: &str, kind: &str, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

/// Makes a thing of a document and patches it.
fn patch_a_thing(document: &[u8], content_type: &str, body: &[u8]) {
    let cluster = Cluster::new();
    things(&cluster);
    let mut thing = parse(document).ok().filter(Value::is_object).unwrap_or_else(|| json!({ "spec": {} }));
    name(&mut thing, &cluster.name);
    thing["apiVersion"] = "example.com/v1".into();
    thing["kind"] = "Thing".into();
    if cluster.post(THINGS, &thing).code == StatusCode::CREATED {
        patch_object(&cluster, THINGS, content_type, body);
    }
}

/// Patches the object of this input.
fn patch_object(cluster: &Cluster, collection: &str, content_type: &str, body: &[u8]) {
    let path = &format!("{collection}/{}", cluster.name);
    let before = cluster.get(path);
    let answer = cluster.send(&Method::PATCH, path, content_type, body);
    let after = cluster.get(path);
    if !answer.code.is_success() {
        let expected = [400, 409, 413, 422, 500];
        assert!(expected.contains(&answer.code.as_u16()), "{answer:?}");
        assert_eq!(before.body, after.body, "a patch that was refused changed something: {answer:?}");
        return;
    }
    assert_eq!(answer.body, after.body, "another object is stored than was answered");
    let text = String::from_utf8_lossy(body);
    if content_type == MERGE || content_type == STRATEGIC && !text.contains('$') {
        let again = cluster.send(&Method::PATCH, path, content_type, body);
        let is_about_one_version = text.contains("resourceVersion") && again.code == StatusCode::CONFLICT;
        assert!(
            again.version() == after.version() || is_about_one_version,
            "the same patch again changes something: {after:?}\n{again:?}"
        );
    }
    cluster.put_back(path, &after.body);
    cluster.check_collection(collection, &after.body);
}
