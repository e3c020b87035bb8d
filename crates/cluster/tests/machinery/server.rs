//! The real server, and the kinds that are asked about.

use std::{error::Error, time::Duration};

use http::Request;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use sts_plus_cluster::machinery::schema::{Definitions, Schema};
use sts_plus_harness::{
    ControlPlane,
    wait::{NotYet, until},
};

pub(crate) const NAMESPACE: &str = "machinery";
/// A new kind is served within a second or two.
const DEADLINE: Duration = Duration::from_mins(1);

/// A kind that sequences write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub name: &'static str,
    pub plural: &'static str,
    /// What its status endpoint does not take.
    pub status_resets: &'static [&'static str],
    /// What the server fills in after it has noted who wrote what.
    pub filled_in: &'static [&'static str],
}

pub(crate) const POD: Kind = Kind {
    group: "",
    version: "v1",
    name: "Pod",
    plural: "pods",
    status_resets: &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
    filled_in: &[
        "/spec/serviceAccountName",
        "/spec/serviceAccount",
        "/spec/tolerations",
        "/spec/priority",
        "/spec/preemptionPolicy",
        "/status",
    ],
};
pub(crate) const SERVICE: Kind = Kind {
    group: "",
    version: "v1",
    name: "Service",
    plural: "services",
    status_resets: &["spec"],
    filled_in: &["/spec/clusterIP", "/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy"],
};
pub(crate) const SET: Kind = Kind {
    group: "apps",
    version: "v1",
    name: "StatefulSet",
    plural: "statefulsets",
    status_resets: &["spec"],
    filled_in: &[],
};
pub(crate) const DEPLOYMENT: Kind = Kind { name: "Deployment", plural: "deployments", ..SET };
pub(crate) const CONFIG_MAP: Kind = Kind {
    group: "",
    version: "v1",
    name: "ConfigMap",
    plural: "configmaps",
    status_resets: &[],
    filled_in: &[],
};
pub(crate) const THING: Kind = Kind {
    group: "example.com",
    version: "v1",
    name: "Thing",
    plural: "things",
    status_resets: &["metadata", "spec"],
    filled_in: &[],
};

impl Kind {
    pub(crate) fn api_version(self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub(crate) fn path(self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        format!("{root}/{}/namespaces/{NAMESPACE}/{}", self.api_version(), self.plural)
    }
}

/// The real server, and what our functions know.
pub(crate) struct Server {
    pub(crate) client: Client,
    definitions: Definitions,
}

/// What the server says.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    pub(crate) fn is_ok(&self) -> bool {
        self.code < 300
    }
}

impl Server {
    pub(crate) async fn prepare(control_plane: &ControlPlane) -> Result<Self, Box<dyn Error>> {
        control_plane.create_namespace(NAMESPACE).await?;
        let server = Server { client: control_plane.admin(), definitions: Definitions::built_in()? };
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let created = server.send("POST", crds, "application/json", &definition()).await;
        assert!(created.is_ok(), "{created:?}");
        until(DEADLINE, "things are served", || async {
            let list = server.send("GET", &THING.path(), "application/json", &Value::Null).await;
            if list.is_ok() { Ok(()) } else { Err(NotYet::saw(list)) }
        })
        .await;
        Ok(server)
    }

    pub(crate) fn schema(&self, kind: Kind) -> Schema {
        if kind.name == THING.name {
            self.definitions.custom(&thing())
        } else {
            self.definitions.kind(kind.group, kind.version, kind.name).unwrap()
        }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let response = self.client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Answer { code, body }
    }
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": THING.group, "scope": "Namespaced",
            "names": { "plural": THING.plural, "singular": "thing", "kind": THING.name, "listKind": "ThingList" },
            "versions": [{
                "name": THING.version, "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": thing() },
            }],
        },
    })
}

/// One of everything that a structural schema can say.
fn thing() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": { "type": "integer", "minimum": 1, "maximum": 10 },
                    "ratio": { "type": "number", "exclusiveMinimum": true, "minimum": 0, "multipleOf": 0.5 },
                    "small": { "type": "integer", "format": "int32" },
                    "port": { "x-kubernetes-int-or-string": true },
                    "mode": { "type": "string", "enum": ["a", "b"], "default": "a" },
                    "name": { "type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2 },
                    "tags": {
                        "type": "array", "x-kubernetes-list-type": "set", "minItems": 1, "items": { "type": "string" },
                    },
                    "parts": {
                        "type": "array", "maxItems": 3,
                        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object", "required": ["name"],
                            "properties": {
                                "name": { "type": "string" },
                                "value": { "type": "number" },
                                "on": { "type": "boolean", "default": true },
                            },
                        },
                    },
                    "steps": { "type": "array", "items": { "type": "string" } },
                    "range": {
                        "type": "object", "properties": { "from": { "type": "integer" }, "to": { "type": "integer" } },
                        "x-kubernetes-validations": [
                            { "rule": "self.from <= self.to", "message": "the wrong way round" },
                            { "rule": "self.from != 13" },
                            { "rule": "self.to != 13", "fieldPath": ".to", "reason": "FieldValueForbidden" },
                            { "rule": "self.from != 15", "reason": "FieldValueDuplicate", "message": "fifteen" },
                            { "rule": "self.to != 14", "messageExpression": "'not fourteen'" },
                        ],
                    },
                    "word": { "type": "string", "maxLength": 9, "x-kubernetes-validations": [
                        { "rule": "self.startsWith('w')", "reason": "FieldValueRequired", "message": "w" },
                    ] },
                    "pair": {
                        "type": "object", "x-kubernetes-map-type": "atomic",
                        "properties": { "left": { "type": "string" }, "right": { "type": "string" } },
                    },
                    "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                    "any": { "x-kubernetes-preserve-unknown-fields": true },
                    "limits": { "type": "object", "maxProperties": 2, "additionalProperties": { "type": "string" } },
                    "perhaps": { "type": "string", "nullable": true },
                    "surely": { "type": "string", "default": "x" },
                    "when": { "type": "string", "format": "date-time" },
                    "address": { "type": "string", "format": "ipv4" },
                    "embedded": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                    },
                    "nested": {
                        "type": "object", "default": {},
                        "properties": { "deep": { "type": "integer", "default": 3 } },
                    },
                    "either": {
                        "type": "object",
                        "properties": { "left": { "type": "string" }, "right": { "type": "string" } },
                        "oneOf": [{ "required": ["left"] }, { "required": ["right"] }],
                    },
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "ready": { "type": "boolean" },
                    "conditions": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                        "items": {
                            "type": "object", "required": ["type"],
                            "properties": { "type": { "type": "string" }, "status": { "type": "string" } },
                        },
                    },
                },
            },
        },
    })
}
