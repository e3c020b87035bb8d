//! What carries objects: lines of a watch and pages of a list.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// One line of a watch.
#[derive(Debug)]
pub(in crate::shell::cache) struct Line<'a> {
    pub(in crate::shell::cache) kind: Cow<'a, str>,
    pub(in crate::shell::cache) object: &'a str,
}

#[derive(Deserialize)]
struct LineInAnyForm<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<'a> Line<'a> {
    /// Takes a line apart.
    pub(in crate::shell::cache) fn read(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        if let Some(line) = Self::split(line) {
            return Ok(line);
        }
        let LineInAnyForm { kind, object } = serde_json::from_slice(line)?;
        Ok(Self { kind, object: object.get() })
    }

    /// The form in which kube-apiserver writes it: found without reading the object, which is read once, later.
    fn split(line: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?.trim_end();
        let (kind, rest) = text.strip_prefix("{\"type\":\"")?.split_once('"')?;
        let object = rest.strip_prefix(",\"object\":")?.strip_suffix('}')?;
        Some(Self { kind: kind.into(), object })
    }
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(in crate::shell) struct Page<'a> {
    pub(in crate::shell) metadata: PageMeta,
    #[serde(borrow, default, deserialize_with = "null_is_none")]
    pub(in crate::shell) items: Vec<&'a RawValue>,
}

/// A list of metadata alone that has no items says null instead of an empty list.
fn null_is_none<'de, D: Deserializer<'de>>(items: D) -> Result<Vec<&'de RawValue>, D::Error> {
    Option::deserialize(items).map(Option::unwrap_or_default)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::shell) struct PageMeta {
    #[serde(default)]
    pub(in crate::shell) resource_version: String,
    #[serde(default, rename = "continue")]
    pub(in crate::shell) next: String,
}

/// A bookmark, or the Status in an error event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::shell::cache) struct Marker {
    pub(in crate::shell::cache) metadata: MarkerMeta,
    pub(in crate::shell::cache) code: u16,
    pub(in crate::shell::cache) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::shell::cache) struct MarkerMeta {
    pub(in crate::shell::cache) resource_version: String,
    pub(in crate::shell::cache) annotations: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
