//! The claims of a pod whose claims have stable names.
//!
//! The pod template of a StatefulSet is one text for all its pods, so a volume refers to its claim by a name with a placeholder,
//! `data-volume-management-db.ordinal`. When pod 3 is created, that becomes `data-volume-management-db-3`. The policy of the chart
//! decides the same where the API server evaluates it; a test compares both.

use serde::Deserialize;
use serde_json::Value;
use sts_plus_api::keys::{CLAIM_PLACEHOLDER, POD_INDEX, STABLE_CLAIMS, STABLE_CLAIMS_ON};

use super::{Edit, Operation, Request, Unreadable, Verdict, World};
use crate::ordinal;

/// What decides of a pod.
#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    labels: Option<Labels>,
}

#[derive(Default, Deserialize)]
struct Labels {
    #[serde(default, rename = "sts.plus/stable-claims")]
    stable_claims: Option<String>,
    #[serde(default, rename = "apps.kubernetes.io/pod-index")]
    index: Option<String>,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    volumes: Option<Vec<Volume>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    #[serde(default)]
    persistent_volume_claim: Option<Claim>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    #[serde(default)]
    claim_name: String,
}

/// Replaces placeholders in the names of claims by the pod's ordinal.
///
/// A pod without the label is somebody else's, and nothing is written to it. A pod without an ordinal keeps its placeholders: no
/// claim has that name, so it stays Pending.
pub fn decide(request: &Request<'_>, _world: &World) -> Result<Verdict, Unreadable> {
    let is_new_pod = request.operation == Operation::Create
        && request.group.is_empty()
        && request.resource == "pods"
        && request.subresource.is_empty();
    let (true, Some(object)) = (is_new_pod, request.object) else { return Ok(Verdict::default()) };
    let pod: Pod =
        serde_json::from_str(object).map_err(|error| Unreadable { what: "pod", why: error.to_string() })?;
    let labels = pod.metadata.labels.unwrap_or_default();
    if labels.stable_claims.as_deref() != Some(STABLE_CLAIMS_ON) {
        return Ok(Verdict::default());
    }
    let volumes = pod.spec.volumes.iter().flatten().enumerate();
    let placeholders: Vec<_> = volumes.filter_map(|(at, volume)| Some((at, prefix(volume)?))).collect();
    if placeholders.is_empty() {
        return Ok(Verdict::default());
    }
    let name = pod.metadata.name.unwrap_or_default();
    let Some(ordinal) = ordinal_of(labels.index.as_deref(), &name) else {
        return Ok(Verdict { patch: Vec::new(), warnings: vec![without_ordinal(labels.index.as_deref())] });
    };
    let edit = |(at, prefix): (usize, &str)| Edit {
        path: format!("/spec/volumes/{at}/persistentVolumeClaim/claimName"),
        value: Value::from(format!("{prefix}-{ordinal}")),
    };
    Ok(Verdict { patch: placeholders.into_iter().map(edit).collect(), warnings: Vec::new() })
}

/// What comes before the placeholder in the name of a volume's claim, where there is one.
fn prefix(volume: &Volume) -> Option<&str> {
    let claim = volume.persistent_volume_claim.as_ref()?;
    claim.claim_name.strip_suffix(CLAIM_PLACEHOLDER).filter(|prefix| !prefix.is_empty())
}

/// The ordinal of a pod: its label, which Kubernetes sets since 1.28, or the end of its name where there is no label.
fn ordinal_of(label: Option<&str>, name: &str) -> Option<u32> {
    match label {
        Some(label) => ordinal::whole(label),
        None => name.rsplit_once('-').and_then(|(_, digits)| ordinal::whole(digits)),
    }
}

fn without_ordinal(label: Option<&str>) -> String {
    let why = match label {
        Some(_) => format!("the label {POD_INDEX} is no ordinal"),
        None => format!("there is no label {POD_INDEX}, and the name does not end with an ordinal"),
    };
    format!("The pod stays Pending: the label {STABLE_CLAIMS} asks for claims by ordinal, but {why}.")
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
