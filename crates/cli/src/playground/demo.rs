//! The workloads of `examples/playground/`, and their first rollout.

use anyhow::{Context, Result};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::Value;
use sts_plus_operator::view::PodState;

use super::cluster::apply;
use super::observed::Observed;

/// As `kubectl apply -f examples/playground/` would read them.
const MANIFESTS: [(&str, &str); 2] = [
    ("gated.yaml", include_str!("../../../../examples/playground/gated.yaml")),
    ("store.yaml", include_str!("../../../../examples/playground/store.yaml")),
];

/// The ConfigMap that records that the workloads were applied: those that were deleted since are not applied again.
const APPLIED: (&str, &str) = ("kube-system", "playground-demo");

/// Applies the workloads, unless they were applied before. Returns whether it has applied them.
pub(super) async fn apply_once(client: &kube::Client) -> Result<bool> {
    let (namespace, name) = APPLIED;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let records = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    if records.get_opt(name).await.context("cannot read whether the workloads were applied")?.is_some() {
        return Ok(false);
    }
    for object in objects()? {
        apply(client, &object).await?;
    }
    let created = records.create(&PostParams::default(), &DynamicObject::new(name, &resource)).await;
    created.context("cannot record that the workloads were applied")?;
    Ok(true)
}

fn objects() -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for (file, text) in MANIFESTS {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)
            .with_context(|| format!("examples/playground/{file} is not valid YAML"))?;
        objects.extend(documents);
    }
    Ok(objects)
}

/// Whether all pods of the workloads are Ready, so that the first rollout can start.
pub(super) fn is_ready(observed: &Observed) -> bool {
    let pods: Vec<_> = observed.view.all_sets().flat_map(|(_, set)| &set.pod_states).collect();
    pods.len() >= PODS && pods.iter().all(|pod| pod.state == PodState::Ready)
}

/// How many pods the workloads have.
const PODS: usize = 12;

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;
