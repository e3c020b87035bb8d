//! ScalingPolicies.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_planner::scaling::row::{ParsedSpec, ScalingRow};

use super::{Decoded, ERROR_CHARACTERS, Interner, Meta, Undecodable, bounded, undecodable};

/// How large a spec may be, in bytes of JSON. Its schema allows two hooks with 16 headers of 4 KiB each, which is more than
/// anybody writes, and a spec is kept as a whole.
const SPEC_BYTES: usize = 256 * 1024;

/// How large a status may be, in bytes of JSON: several times what we write there.
const STATUS_BYTES: usize = 256 * 1024;

/// How long the finalizers may be together, in bytes. They are written back as they are.
const FINALIZER_BYTES: usize = 16 * 1024;

#[derive(Deserialize)]
struct Policy<'a> {
    #[serde(borrow)]
    metadata: PolicyMeta<'a>,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PolicyMeta<'a> {
    #[serde(borrow, flatten)]
    meta: Meta<'a>,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    finalizers: Vec<String>,
}

/// Reads a ScalingPolicy. A spec that cannot be read is reported on the object; a status that cannot is made anew.
pub(in crate::shell::cache) fn scaling(
    json: &str,
    interner: &mut Interner,
) -> Result<Decoded<ScalingRow>, Undecodable> {
    let policy: Policy<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let PolicyMeta { meta, creation_timestamp, finalizers } = policy.metadata;
    if finalizers.iter().map(String::len).sum::<usize>() > FINALIZER_BYTES {
        let error = format!("its finalizers are longer than {} KiB", FINALIZER_BYTES / 1024);
        return Err(undecodable(json, &serde::de::Error::custom(error)));
    }
    let namespace = interner.text(&meta.namespace);
    let name: Arc<str> = meta.name.as_ref().into();
    let status = policy.status.filter(|status| status.get().len() <= STATUS_BYTES);
    let row = ScalingRow {
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: meta.uid.as_ref().into(),
        resource_version: meta.resource_version.as_ref().into(),
        generation: meta.generation,
        created: creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers,
        controller: meta.controller().map_or_else(|| "".into(), |owner| interner.text(&owner.uid)),
        created_for: created_for(&meta, interner),
        spec: spec(policy.spec),
        status: status.and_then(|status| serde_json::from_str(status.get()).ok()).unwrap_or_default(),
    };
    Ok(Decoded { namespace, name, resource_version: meta.resource_version.into(), row: Some(row) })
}

/// The ExtendedStatefulSet whose label it has.
fn created_for(meta: &Meta<'_>, interner: &mut Interner) -> Option<(Group, Arc<str>)> {
    let labels = meta.labels.as_ref()?;
    Group::ALL.into_iter().find_map(|group| {
        let name = labels.get(&*group.key(keys::EXTENDED_NAME))?;
        Some((group, interner.text(name)))
    })
}

fn spec(given: Option<&RawValue>) -> ParsedSpec {
    let Some(given) = given else { return ParsedSpec::unreadable("there is none".to_owned()) };
    if given.get().len() > SPEC_BYTES {
        return ParsedSpec::unreadable(format!("it is larger than {} KiB", SPEC_BYTES / 1024));
    }
    match serde_json::from_str(given.get()) {
        Ok(spec) => ParsedSpec::of(&spec),
        Err(error) => ParsedSpec::unreadable(bounded(&error.to_string(), ERROR_CHARACTERS).into()),
    }
}

#[cfg(test)]
#[path = "scaling_tests.rs"]
mod tests;
