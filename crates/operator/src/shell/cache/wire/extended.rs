//! ExtendedStatefulSets.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_planner::extended::row::ExtendedRow;
use sts_plus_planner::extended::spec::{Fault, Spec};

use super::{Decoded, ERROR_CHARACTERS, Interner, Meta, Undecodable, bounded, undecodable};

/// How large a spec may be, in bytes of JSON: it is kept as a whole, and it has a pod template, which people write.
const SPEC_BYTES: usize = 256 * 1024;

/// How large a status may be, in bytes of JSON: several times what we write there.
const STATUS_BYTES: usize = 256 * 1024;

/// How long the finalizers may be together, in bytes. They are written back as they are.
const FINALIZER_BYTES: usize = 16 * 1024;

/// How much is kept of an approval, in characters: it names a version and a hash.
const APPROVAL_CHARACTERS: usize = 256;

#[derive(Deserialize)]
struct Extended<'a> {
    #[serde(borrow)]
    metadata: ExtendedMeta<'a>,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExtendedMeta<'a> {
    #[serde(borrow, flatten)]
    meta: Meta<'a>,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    finalizers: Vec<String>,
}

/// Reads an ExtendedStatefulSet. A spec that cannot be read is reported on the object; a status that cannot is made anew.
pub(in crate::shell::cache) fn extended(
    group: Group,
    json: &str,
    interner: &mut Interner,
) -> Result<Decoded<ExtendedRow>, Undecodable> {
    let extended: Extended<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let ExtendedMeta { meta, creation_timestamp, finalizers } = extended.metadata;
    if finalizers.iter().map(String::len).sum::<usize>() > FINALIZER_BYTES {
        let error = format!("its finalizers are longer than {} KiB", FINALIZER_BYTES / 1024);
        return Err(undecodable(json, &serde::de::Error::custom(error)));
    }
    let namespace = interner.text(&meta.namespace);
    let name: Arc<str> = meta.name.as_ref().into();
    let approve = meta.annotations.as_ref().and_then(|annotations| annotations.get(keys::APPROVE));
    let status = extended.status.filter(|status| status.get().len() <= STATUS_BYTES);
    let row = ExtendedRow {
        group,
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: interner.text(&meta.uid),
        resource_version: meta.resource_version.as_ref().into(),
        generation: meta.generation,
        created: creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers,
        approve: approve.map(|approve| bounded(approve, APPROVAL_CHARACTERS)),
        spec: spec(group, extended.spec),
        status: status.and_then(|status| serde_json::from_str(status.get()).ok()).unwrap_or_default(),
    };
    Ok(Decoded { namespace, name, resource_version: meta.resource_version.into(), row: Some(row) })
}

fn spec(group: Group, given: Option<&RawValue>) -> Result<Arc<Spec>, Fault> {
    let Some(given) = given else { return Err(Fault::Unreadable("there is none".to_owned())) };
    if given.get().len() > SPEC_BYTES {
        return Err(Fault::Unreadable(format!("it is larger than {} KiB", SPEC_BYTES / 1024)));
    }
    let spec = serde_json::from_str(given.get())
        .map_err(|error| Fault::Unreadable(bounded(&error.to_string(), ERROR_CHARACTERS).into()))?;
    Spec::of(group, &spec).map(Arc::new)
}
