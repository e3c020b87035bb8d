//! PhasedRollouts.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use sts_plus_api::keys;
use sts_plus_planner::phased_rollout::row::{ParsedSpec, RolloutRow};

use super::{Decoded, ERROR_CHARACTERS, Interner, Meta, Undecodable, bounded, undecodable};

/// How large a spec may be, in bytes of JSON. Its schema allows 16 checks with two expressions of 16 KiB each, which is
/// more than anybody writes, and a spec is kept as a whole.
const SPEC_BYTES: usize = 256 * 1024;

/// How large a status may be, in bytes of JSON: several times what we write there.
const STATUS_BYTES: usize = 256 * 1024;

/// How much is kept of an approval, in characters: it names a revision and a pod.
const APPROVAL_CHARACTERS: usize = 1024;

/// How long the finalizers may be together, in bytes. They are written back as they are.
const FINALIZER_BYTES: usize = 16 * 1024;

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
    if finalizers.iter().map(String::len).sum::<usize>() > FINALIZER_BYTES {
        let error = format!("its finalizers are longer than {} KiB", FINALIZER_BYTES / 1024);
        return Err(undecodable(json, &serde::de::Error::custom(error)));
    }
    let namespace = interner.text(&meta.namespace);
    let name: Arc<str> = meta.name.as_ref().into();
    let approve = meta.annotations.as_ref().and_then(|annotations| annotations.get(keys::APPROVE));
    let status = rollout.status.filter(|status| status.get().len() <= STATUS_BYTES);
    let row = RolloutRow {
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: meta.uid.as_ref().into(),
        resource_version: meta.resource_version.as_ref().into(),
        generation: meta.generation,
        created: creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers,
        approve: approve.map(|approve| bounded(approve, APPROVAL_CHARACTERS)),
        spec: match rollout.spec {
            Some(spec) if spec.get().len() > SPEC_BYTES => {
                ParsedSpec::unreadable(format!("it is larger than {} KiB", SPEC_BYTES / 1024))
            }
            Some(spec) => match serde_json::from_str(spec.get()) {
                Ok(spec) => ParsedSpec::of(&spec),
                Err(error) => ParsedSpec::unreadable(bounded(&error.to_string(), ERROR_CHARACTERS).into()),
            },
            None => ParsedSpec::unreadable("there is none".to_owned()),
        },
        status: status.and_then(|status| serde_json::from_str(status.get()).ok()).unwrap_or_default(),
    };
    Ok(Decoded { namespace, name, resource_version: meta.resource_version.into(), row: Some(row) })
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
