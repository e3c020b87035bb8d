//! The schemas of the kinds that the embedded cluster serves, as a real API server describes them.
//!
//! Descriptions are dropped: they are nine tenths of the text, and nothing reads them. Definitions are sorted and
//! one to a line, so that the change of a Kubernetes version can be read.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::{Map, Value};

/// Which kinds of which group and version.
const KINDS: [(&str, &[&str]); 13] = [
    (
        "api/v1",
        &[
            "Binding",
            "ConfigMap",
            "Event",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "apis/admissionregistration.k8s.io/v1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    ),
    ("apis/apiextensions.k8s.io/v1", &["CustomResourceDefinition"]),
    ("apis/apps/v1", &["ControllerRevision", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("apis/autoscaling/v1", &["Scale"]),
    ("apis/batch/v1", &["Job"]),
    ("apis/coordination.k8s.io/v1", &["Lease"]),
    ("apis/discovery.k8s.io/v1", &["EndpointSlice"]),
    ("apis/events.k8s.io/v1", &["Event"]),
    ("apis/policy/v1", &["Eviction", "PodDisruptionBudget"]),
    ("apis/rbac.authorization.k8s.io/v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("apis/scheduling.k8s.io/v1", &["PriorityClass"]),
    ("apis/storage.k8s.io/v1", &["StorageClass"]),
];
const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";
const REFERENCE: &str = "#/components/schemas/";

type Definitions = BTreeMap<String, Value>;

/// Why there are no schemas.
#[derive(Debug, thiserror::Error)]
pub enum SchemasError {
    /// The server did not answer.
    #[error("{path}: {source}")]
    Read {
        /// What was asked for.
        path: String,
        /// Its answer.
        source: Box<kube::Error>,
    },
    /// A group's name makes no path.
    #[error("{path} is no request: {source}")]
    Request {
        path: String,
        /// What is wrong with it.
        source: http::Error,
    },
    /// The server does not have a kind.
    #[error("{group} has no kind {kind}")]
    Kind {
        /// Where it was looked for.
        group: &'static str,
        /// Its name.
        kind: &'static str,
    },
    /// A definition refers to one that is not there.
    #[error("there is no definition {0}")]
    Dangling(String),
}

/// The definitions of all kinds, as JSON.
pub async fn schemas(client: &Client) -> Result<String, SchemasError> {
    // Subresources such as Scale are defined where they are served, which is not in their own group.
    let mut all = Map::new();
    for (group, _) in KINDS {
        all.append(&mut read(client, &format!("/openapi/v3/{group}")).await?);
    }
    let mut kept = Definitions::new();
    for (group, kinds) in KINDS {
        for &kind in kinds {
            let name = definition_of(&all, group, kind).ok_or(SchemasError::Kind { group, kind })?;
            keep(name, &all, &mut kept)?;
        }
    }
    let lines: Vec<_> = kept.iter().map(|(name, definition)| format!("\"{name}\":{definition}")).collect();
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
}

async fn read(client: &Client, path: &str) -> Result<Map<String, Value>, SchemasError> {
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|source| SchemasError::Request { path: path.to_owned(), source })?;
    let mut document = client
        .request::<Value>(request)
        .await
        .map_err(|source| SchemasError::Read { path: path.to_owned(), source: Box::new(source) })?;
    match document.pointer_mut("/components/schemas").map(Value::take) {
        Some(Value::Object(definitions)) => Ok(definitions),
        _ => Ok(Map::new()),
    }
}

fn definition_of<'a>(all: &'a Map<String, Value>, group: &str, kind: &str) -> Option<&'a str> {
    let (group, version) = match group.strip_prefix("apis/") {
        Some(named) => named.split_once('/')?,
        None => ("", "v1"),
    };
    let says = |definition: &Value| {
        definition.get(GROUP_VERSION_KIND).and_then(Value::as_array).is_some_and(|kinds| {
            kinds
                .iter()
                .any(|said| said["group"] == group && said["version"] == version && said["kind"] == kind)
        })
    };
    all.iter().find(|(_, definition)| says(definition)).map(|(name, _)| name.as_str())
}

/// Keeps a definition and those that it refers to.
fn keep(name: &str, all: &Map<String, Value>, kept: &mut Definitions) -> Result<(), SchemasError> {
    if kept.contains_key(name) {
        return Ok(());
    }
    let mut definition = all.get(name).cloned().ok_or_else(|| SchemasError::Dangling(name.to_owned()))?;
    strip(&mut definition, true);
    kept.insert(name.to_owned(), definition.clone());
    let mut references = Vec::new();
    refer(&definition, &mut references);
    references.iter().try_for_each(|name| keep(name, all, kept))
}

/// Drops the descriptions of schemas, though not properties of that name.
fn strip(value: &mut Value, schema: bool) {
    match value {
        Value::Object(fields) => {
            if schema {
                fields.remove("description");
                // Options are of every group there is.
                if fields
                    .get(GROUP_VERSION_KIND)
                    .and_then(Value::as_array)
                    .is_some_and(|kinds| kinds.len() > 1)
                {
                    fields.remove(GROUP_VERSION_KIND);
                }
            }
            for (name, field) in fields {
                strip(field, !(schema && name == "properties"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, true)),
        _ => {}
    }
}

fn refer(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(name) =
                fields.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix(REFERENCE))
            {
                references.push(name.to_owned());
            }
            fields.values().for_each(|field| refer(field, references));
        }
        Value::Array(items) => items.iter().for_each(|item| refer(item, references)),
        _ => {}
    }
}
