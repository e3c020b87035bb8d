//! PhasedRollouts.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use sts_plus_api::keys;
use sts_plus_planner::phased_rollout::row::RolloutRow;

use super::{Decoded, Interner, Meta, Undecodable, undecodable};

#[derive(Deserialize)]
struct Rollout<'a> {
    #[serde(borrow)]
    metadata: RolloutMeta<'a>,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RolloutMeta<'a> {
    #[serde(borrow, flatten)]
    meta: Meta<'a>,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    finalizers: Vec<String>,
}

/// Reads a PhasedRollout. A spec that cannot be read is told on the object; a status that cannot is made anew.
pub(in crate::shell::cache) fn rollout(
    json: &str,
    interner: &mut Interner,
) -> Result<Decoded<RolloutRow>, Undecodable> {
    let rollout: Rollout<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let RolloutMeta { meta, creation_timestamp, finalizers } = rollout.metadata;
    let namespace = interner.text(&meta.namespace);
    let name: Arc<str> = meta.name.as_ref().into();
    let approve = meta.annotations.as_ref().and_then(|annotations| annotations.get(keys::APPROVE));
    let row = RolloutRow {
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: meta.uid.as_ref().into(),
        resource_version: meta.resource_version.as_ref().into(),
        generation: meta.generation,
        created: creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers,
        approve: approve.map(|approve| approve.as_ref().into()),
        spec: match rollout.spec {
            Some(spec) => serde_json::from_str(spec.get()).map_err(|error| error.to_string()),
            None => Err("there is none".to_owned()),
        },
        status: rollout.status.and_then(|status| serde_json::from_str(status.get()).ok()).unwrap_or_default(),
    };
    Ok(Decoded { namespace, name, resource_version: meta.resource_version.into(), row: Some(row) })
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
