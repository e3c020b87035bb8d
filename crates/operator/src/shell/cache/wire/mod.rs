//! From the API server's JSON straight into rows: nothing else of an object is ever built.
//!
//! Decoding is lenient where a default is safe and strict where it is not, and an object that does not decode
//! stops nobody else: a set becomes a row that nothing is rolled for, a pod becomes a missing one.

mod claim;
mod config_map;
mod extended;
mod line;
mod metadata;
mod pod;
mod revision;
mod rollout;
mod scaling;
mod service;
mod set;
mod set_spec;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use sts_plus_planner::selector::Labels;

use super::intern::Interner;

pub(super) use claim::{claim, split_ordinal};
pub(super) use config_map::config_map;
pub(super) use extended::extended;
pub(in crate::shell) use line::Page;
pub(super) use line::{Line, Marker};
pub(super) use metadata::metadata;
pub(super) use pod::pod;
pub(super) use revision::{ReadRevision, revision, revision_row};
pub(super) use rollout::rollout;
pub(super) use scaling::scaling;
pub(super) use service::service;
pub(super) use set::{ReadSet, set, unreadable_set};

/// How much is kept of what the server sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// What is needed to steer sets that somebody else controls.
    #[default]
    Steering,
    /// Also what is needed to control them.
    Controlling,
}

type Map<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    generation: i64,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    labels: Option<Map<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Map<'a>>,
    #[serde(borrow, default)]
    owner_references: Option<Vec<Owner<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(default)]
    controller: Option<bool>,
    #[serde(default)]
    block_owner_deletion: Option<bool>,
}

impl<'a> Meta<'a> {
    /// The one owner that controls the object.
    fn controller(&self) -> Option<&Owner<'a>> {
        self.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }
}

impl Owner<'_> {
    fn is_set(&self) -> bool {
        self.kind == "StatefulSet"
    }
}

fn labels<'a>(pairs: impl IntoIterator<Item = (&'a Cow<'a, str>, &'a Cow<'a, str>)>) -> Labels {
    pairs.into_iter().map(|(key, value)| (key.as_ref().into(), value.as_ref().into())).collect()
}

/// An object's name and version, and its row if it is one we keep.
#[derive(Debug)]
pub(super) struct Decoded<R> {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) resource_version: Box<str>,
    pub(super) row: Option<R>,
}

/// An object that could not be read, as far as it could.
#[derive(Debug)]
pub(super) struct Undecodable {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) uid: String,
    pub(super) error: String,
}

/// How much of what is wrong with an object is kept, in characters: the parser quotes values, which may be long, and it
/// reaches logs, events and a status.
const ERROR_CHARACTERS: usize = 512;

/// A text of so many characters at most. A longer one ends in a character that none of the values has which mean
/// anything, so that no beginning is taken for the whole.
fn bounded(text: &str, characters: usize) -> Box<str> {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}\u{2026}", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

fn undecodable(json: &str, error: &serde_json::Error) -> Undecodable {
    let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let text =
        |key: &str| value.pointer(&format!("/metadata/{key}")).and_then(|v| v.as_str()).unwrap_or_default();
    Undecodable {
        namespace: text("namespace").into(),
        name: text("name").into(),
        uid: text("uid").to_owned(),
        error: bounded(&error.to_string(), ERROR_CHARACTERS).into(),
    }
}
