//! What a newcomer finds: the workloads of `examples/playground/`, and a first rollout of them.

use anyhow::{Context, Result};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::Value;

use super::cluster::apply;
use super::rows::State;
use super::sight::Sight;

/// As `kubectl apply -f examples/playground/` would read them.
const MANIFESTS: [(&str, &str); 2] = [
    ("gated.yaml", include_str!("../../../../examples/playground/gated.yaml")),
    ("store.yaml", include_str!("../../../../examples/playground/store.yaml")),
];

/// Says that the workloads were applied, whatever has become of them since.
const DONE: (&str, &str) = ("kube-system", "playground-demo");

/// Applies the workloads, unless that was done before. Says whether it was done now.
pub(super) async fn begin(client: &kube::Client) -> Result<bool> {
    let (namespace, name) = DONE;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let done = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    if done.get_opt(name).await.context("cannot look whether the workloads are there")?.is_some() {
        return Ok(false);
    }
    for object in objects()? {
        apply(client, &object).await?;
    }
    let created = done.create(&PostParams::default(), &DynamicObject::new(name, &resource)).await;
    created.context("cannot note that the workloads are there")?;
    Ok(true)
}

fn objects() -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for (file, text) in MANIFESTS {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)
            .with_context(|| format!("examples/playground/{file} is no YAML"))?;
        objects.extend(documents);
    }
    Ok(objects)
}

/// Whether all that was applied is up, so that there is something to roll.
pub(super) fn is_up(sight: &Sight) -> bool {
    let is_ready = |pod: &super::rows::Pod| pod.state() == State::Ready;
    sight.pods.len() >= PODS && sight.pods.values().all(is_ready)
}

/// How many pods the workloads have.
const PODS: usize = 12;

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;
