//! Everything there is in a namespace, without what is never the same twice.

use std::collections::{BTreeMap, HashMap};

use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// What stands for the namespace, which is another one in each run.
const NAMESPACE: &str = "<namespace>";

/// Of an object's metadata, what a controller decides, and the UID, which gets a name.
const METADATA: [&str; 10] = [
    "name",
    "generateName",
    "uid",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Annotations by which hollow nodes say that they have bound a claim.
const BINDER: &str = "pv.kubernetes.io/";

/// Labels by which the API server says where a pod runs.
const TOPOLOGY: &str = "topology.kubernetes.io/";

/// The objects of a namespace as the API server has them.
pub struct Raw {
    pub sets: Vec<Value>,
    pub pods: Vec<Value>,
    pub claims: Vec<Value>,
    revisions: Vec<Revision>,
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Revision {
    metadata: Value,
    #[serde(rename = "revision")]
    number: i64,
    /// As text: the bytes matter.
    data: Box<RawValue>,
}

impl Raw {
    /// Reads everything.
    pub async fn read(client: &Client, namespace: &str) -> kube::Result<Self> {
        let apps = format!("/apis/apps/v1/namespaces/{namespace}");
        let core = format!("/api/v1/namespaces/{namespace}");
        Ok(Self {
            sets: list(client, format!("{apps}/statefulsets")).await?,
            pods: list(client, format!("{core}/pods")).await?,
            claims: list(client, format!("{core}/persistentvolumeclaims")).await?,
            revisions: list(client, format!("{apps}/controllerrevisions")).await?,
        })
    }

    /// Sets, pods and claims: UID, and whether each is on its way out.
    pub fn live(&self) -> impl Iterator<Item = (&str, bool)> {
        let objects = self.sets.iter().chain(&self.pods).chain(&self.claims);
        objects.map(|object| {
            let metadata = &object["metadata"];
            (metadata["uid"].as_str().unwrap_or_default(), metadata.get("deletionTimestamp").is_some())
        })
    }

    /// The same without what is never the same twice; UIDs become callings.
    pub fn tidy(self, namespace: &str, callings: &HashMap<String, String>) -> Picture {
        let Self { sets, pods, claims, revisions } = self;
        let mut picture = json!({
            "sets": by_name(sets.into_iter().map(tidy_set)),
            "pods": by_name(pods.into_iter().map(tidy_pod)),
            "claims": by_name(claims.into_iter().map(tidy_claim)),
            "revisions": by_name(revisions.into_iter().map(tidy_revision)),
        });
        rename(&mut picture, namespace, callings);
        Picture(picture)
    }
}

async fn list<T: serde::de::DeserializeOwned>(client: &Client, path: String) -> kube::Result<Vec<T>> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let text = client.request_text(request).await?;
    let list: List<T> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
    Ok(list.items)
}

/// Everything there is in a namespace, tidied up: `sets`, `pods`, `claims` and `revisions` by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture(pub Value);

impl Picture {
    /// The objects of a kind.
    pub fn all(&self, kind: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.0.get(kind).and_then(Value::as_object).into_iter().flatten()
    }
}

fn by_name(objects: impl Iterator<Item = Value>) -> Value {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Value::Object(objects.map(|object| (name(&object), object)).collect())
}

fn tidy_set(mut set: Value) -> Value {
    json!({ "metadata": metadata(&set), "spec": set["spec"].take(), "status": set["status"].take() })
}

fn tidy_pod(mut pod: Value) -> Value {
    let mut spec = pod["spec"].take();
    // Where it runs is not the controller's business.
    spec.as_object_mut().map(|fields| fields.remove("nodeName"));
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        sort_claims_first(volumes);
    }
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().any(|known| known["type"] == "Ready" && known["status"] == "True");
    let mut metadata = metadata(&pod);
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !key.starts_with(TOPOLOGY));
    }
    json!({
        "metadata": metadata,
        "spec": spec,
        "status": { "phase": pod["status"]["phase"], "ready": ready },
    })
}

/// Theirs come in any order, ours in that of the claim templates (docs/statefulset-differences.md): both are sorted.
/// That they come before all others is kept.
fn sort_claims_first(volumes: &mut [Value]) {
    let claims = volumes.iter().take_while(|volume| volume.get("persistentVolumeClaim").is_some()).count();
    volumes[..claims].sort_by_key(|volume| volume["name"].as_str().unwrap_or_default().to_owned());
}

fn tidy_claim(mut claim: Value) -> Value {
    let mut spec = claim["spec"].take();
    spec.as_object_mut().map(|fields| fields.remove("volumeName"));
    let mut metadata = metadata(&claim);
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.starts_with(BINDER));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    json!({ "metadata": metadata, "spec": spec })
}

fn tidy_revision(Revision { metadata: raw, number, data }: Revision) -> Value {
    let mut metadata = metadata(&json!({ "metadata": raw }));
    metadata.remove("uid");
    json!({ "metadata": metadata, "revision": number, "data": data.get() })
}

fn metadata(object: &Value) -> Map<String, Value> {
    let fields = object["metadata"].as_object().into_iter().flatten();
    let mut metadata: Map<_, _> = fields
        .filter(|(key, _)| METADATA.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if let Some(time) = metadata.get_mut("deletionTimestamp") {
        *time = true.into();
    }
    metadata
}

/// Puts callings in the place of UIDs, and a word in the place of the namespace.
fn rename(value: &mut Value, namespace: &str, callings: &HashMap<String, String>) {
    match value {
        Value::String(text) => match callings.get(text) {
            Some(calling) => text.clone_from(calling),
            None if text.contains(namespace) => *text = text.replace(namespace, NAMESPACE),
            None => {}
        },
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, namespace, callings)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, namespace, callings)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Puts a word in the place of the namespace.
pub fn without_namespace(text: &str, namespace: &str) -> String {
    text.replace(namespace, NAMESPACE)
}

/// The labels of an object, for whoever looks.
pub fn labels(object: &Value) -> BTreeMap<&str, &str> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
