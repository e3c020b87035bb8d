//! PersistentVolumeClaims.

use std::borrow::Cow;

use serde::Deserialize;
use sts_plus_api::keys;
use sts_plus_planner::extended::claims::StableClaim;
use sts_plus_planner::ordinal;
use sts_plus_planner::statefulset::world::{ClaimRow, OwnerRef};

use super::{Decoded, Interner, Map, Meta, Owner, Undecodable, undecodable};

#[derive(Deserialize)]
struct Claim<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow)]
    resources: Resources<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources<'a> {
    #[serde(borrow)]
    requests: Option<Map<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
}

/// Splits `data-web-3` into `data-web` and 3; `None` for a name that no set gives to a claim.
pub(in crate::shell::cache) fn split_ordinal(name: &str) -> Option<(&str, u32)> {
    let (stem, _) = name.rsplit_once('-')?;
    Some((stem, ordinal::of_pod(name, stem)?))
}

/// Reads a claim. Only one whose name a set may give gets a row.
pub(in crate::shell::cache) fn claim(
    json: &str,
    interner: &mut Interner,
) -> Result<Decoded<ClaimRow>, Undecodable> {
    let Claim { metadata, spec, status } =
        serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let row = split_ordinal(&metadata.name).map(|_| ClaimRow {
        name: metadata.name.as_ref().into(),
        uid: metadata.uid.as_ref().into(),
        resource_version: metadata.resource_version.as_ref().into(),
        terminating: metadata.deletion_timestamp.is_some(),
        owners: metadata.owner_references.iter().flatten().map(owner).collect(),
        stable: metadata.name.contains(keys::STABLE_CLAIM_INFIX).then(|| {
            let storage = spec.resources.requests.as_ref().and_then(|requests| requests.get("storage"));
            Box::new(StableClaim {
                labels: super::labels(metadata.labels.iter().flat_map(|labels| labels.iter())),
                lost: status.phase == "Lost",
                requested: storage.map(|storage| storage.as_ref().into()),
            })
        }),
    });
    Ok(Decoded {
        namespace: interner.text(&metadata.namespace),
        name: metadata.name.as_ref().into(),
        resource_version: metadata.resource_version.into(),
        row,
    })
}

fn owner(owner: &Owner<'_>) -> OwnerRef {
    OwnerRef {
        api_version: owner.api_version.as_ref().into(),
        kind: owner.kind.as_ref().into(),
        name: owner.name.as_ref().into(),
        uid: owner.uid.as_ref().into(),
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
