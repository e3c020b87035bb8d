//! ConfigMaps: of their data nothing but the keys.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use sts_plus_planner::scaling::lock::LockRow;

use super::{Decoded, Interner, Meta, Undecodable, undecodable};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMap<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(default)]
    data: Option<Keys>,
    #[serde(default)]
    binary_data: Option<Keys>,
}

/// Of each value no more than that it is there.
type Keys = std::collections::BTreeMap<Box<str>, Option<IgnoredAny>>;

/// Reads a ConfigMap.
pub(in crate::shell::cache) fn config_map(
    json: &str,
    interner: &mut Interner,
) -> Result<Decoded<LockRow>, Undecodable> {
    let read: ConfigMap<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let metadata = read.metadata;
    let (namespace, name) = (interner.text(&metadata.namespace), Arc::from(&*metadata.name));
    let row = LockRow {
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: metadata.uid.as_ref().into(),
        resource_version: metadata.resource_version.as_ref().into(),
        terminating: metadata.deletion_timestamp.is_some(),
        owner: metadata.controller().map(|owner| interner.text(&owner.uid)),
        keys: read.data.into_iter().chain(read.binary_data).flatten().map(|(key, _)| key).collect(),
    };
    Ok(Decoded { namespace, name, resource_version: metadata.resource_version.into(), row: Some(row) })
}

#[cfg(test)]
#[path = "config_map_tests.rs"]
mod tests;
