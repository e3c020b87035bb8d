//! The metadata of objects of any kind.

use std::sync::Arc;

use serde::Deserialize;
use sts_plus_planner::metadata::MetadataRow;

use super::{Decoded, Interner, Meta, Undecodable, bounded, undecodable};
use crate::shell::kinds::Kind;

/// How much is kept of an annotation, in characters: more than a word, and of those that hold a document, as kubectl's copy of
/// the last applied object does, next to nothing.
const ANNOTATION_CHARACTERS: usize = 1024;

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
}

/// Reads the metadata of an object.
pub(in crate::shell::cache) fn metadata(
    kind: Kind,
    json: &str,
    interner: &mut Interner,
) -> Result<Decoded<MetadataRow>, Undecodable> {
    let Object { metadata } = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let (namespace, name) = (interner.text(&metadata.namespace), Arc::from(&*metadata.name));
    let labels = metadata.labels.iter().flatten().map(|(key, value)| (key.as_ref(), value.as_ref()));
    let annotations = metadata.annotations.iter().flatten();
    let annotations =
        annotations.map(|(key, value)| (key.as_ref().into(), bounded(value, ANNOTATION_CHARACTERS)));
    let row = MetadataRow {
        kind,
        namespace: Arc::clone(&namespace),
        name: Arc::clone(&name),
        uid: metadata.uid.as_ref().into(),
        resource_version: metadata.resource_version.as_ref().into(),
        labels: interner.labels(labels),
        annotations: Arc::new(annotations.collect()),
        terminating: metadata.deletion_timestamp.is_some(),
        owner: metadata.controller().map(|owner| interner.text(&owner.uid)),
    };
    Ok(Decoded { namespace, name, resource_version: metadata.resource_version.into(), row: Some(row) })
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
