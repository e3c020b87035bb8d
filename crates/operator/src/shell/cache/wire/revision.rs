//! ControllerRevisions.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use sts_plus_planner::selector::Labels;
use sts_plus_planner::statefulset::world::RevisionRow;

use super::{Decoded, Interner, Meta, Owner, Undecodable, undecodable};

#[derive(Deserialize)]
struct Revision<'a> {
    #[serde(borrow)]
    metadata: RevisionMeta<'a>,
    #[serde(default, rename = "revision")]
    number: i64,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RevisionMeta<'a> {
    #[serde(borrow, flatten)]
    meta: Meta<'a>,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
}

#[derive(Debug)]
pub(in crate::shell::cache) struct ReadRevision {
    pub(in crate::shell::cache) row: RevisionRow,
    /// Its labels, where nothing controls it: they decide whose it may become.
    pub(in crate::shell::cache) labels: Option<Arc<Labels>>,
    /// Whether it has a deletion timestamp.
    pub(in crate::shell::cache) terminating: bool,
}

/// Reads a revision. Only those that a StatefulSet controls, or nothing, get a row, whatever their data is.
pub(in crate::shell::cache) fn revision(
    json: &str,
    interner: &mut Interner,
) -> Result<Decoded<ReadRevision>, Undecodable> {
    let read: Revision<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let meta = &read.metadata.meta;
    let ours = meta.controller().is_none_or(Owner::is_set);
    let row = ours.then(|| {
        let row = row(&read, interner);
        let labels = meta.labels.iter().flatten().map(|(key, value)| (key.as_ref(), value.as_ref()));
        let labels = row.owner.is_none().then(|| interner.labels(labels));
        ReadRevision { row, labels, terminating: meta.deletion_timestamp.is_some() }
    });
    Ok(Decoded {
        namespace: interner.text(&meta.namespace),
        name: meta.name.as_ref().into(),
        resource_version: meta.resource_version.as_ref().into(),
        row,
    })
}

/// The row of any revision, whoever controls it.
pub(in crate::shell::cache) fn revision_row(
    json: &str,
    interner: &mut Interner,
) -> Result<RevisionRow, Undecodable> {
    let read: Revision<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    Ok(row(&read, interner))
}

fn row(read: &Revision<'_>, interner: &mut Interner) -> RevisionRow {
    let RevisionMeta { meta, creation_timestamp } = &read.metadata;
    RevisionRow {
        name: meta.name.as_ref().into(),
        uid: meta.uid.as_ref().into(),
        resource_version: meta.resource_version.as_ref().into(),
        owner: meta.controller().map(|owner| interner.text(&owner.uid)),
        number: read.number,
        created: creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        data: interner.text(read.data.map_or("", |data| data.get())),
    }
}

#[cfg(test)]
#[path = "revision_tests.rs"]
mod tests;
