//! What a newcomer finds: the workloads of `examples/playground/`, and a first rollout of them.

use anyhow::{Context, Result};
use serde_json::Value;

use super::cluster::apply;
use super::rows::State;
use super::sight::Sight;

/// As `kubectl apply -f examples/playground/` would read them.
const MANIFESTS: [(&str, &str); 2] = [
    ("gated.yaml", include_str!("../../../../examples/playground/gated.yaml")),
    ("store.yaml", include_str!("../../../../examples/playground/store.yaml")),
];

/// Applies the workloads, unless they were applied before.
pub(super) async fn begin(client: &kube::Client) -> Result<()> {
    for object in objects()? {
        apply(client, &object).await?;
    }
    Ok(())
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

/// Whether all that was applied is up, so that there is something to roll: `expected` pods and all of them Ready.
pub(super) fn is_up(sight: &Sight) -> bool {
    let is_ready = |pod: &super::rows::Pod| pod.state() == State::Ready;
    sight.pods.len() >= PODS && sight.pods.values().all(is_ready)
}

/// How many pods the workloads have.
const PODS: usize = 12;

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;
