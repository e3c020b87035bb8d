//! Objects as answers show them: in the version that was asked for, whole or only their metadata.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::request::Shape;
use crate::kinds::{Kind, Version};

/// How one request wants to see objects.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) kind: Arc<Kind>,
    pub(crate) version: String,
    pub(crate) shape: Shape,
}

const METADATA_VERSION: &str = "meta.k8s.io/v1";

impl View {
    /// An object in the version that is spoken.
    pub(crate) fn convert<'a>(&self, stored: &'a Value) -> Cow<'a, Value> {
        let version = self.kind.version(&self.version);
        convert(&self.kind, version, stored)
    }

    /// An object as the answer to a request for it.
    pub(crate) fn object<'a>(&self, stored: &'a Value) -> Cow<'a, Value> {
        match self.shape {
            Shape::Whole => self.convert(stored),
            Shape::MetadataOnly => Cow::Owned(json!({
                "kind": "PartialObjectMetadata", "apiVersion": METADATA_VERSION,
                "metadata": stored.get("metadata").unwrap_or(&Value::Null),
            })),
        }
    }

    /// An object in a list: built-in kinds leave out what the list says already.
    fn item<'a>(&self, stored: &'a Value) -> Item<'a> {
        let is_bare = self.shape == Shape::Whole && !self.kind.custom;
        Item { object: self.object(stored), is_bare }
    }

    /// A list; `metadata` is the list's own.
    pub(crate) fn list<'a>(&self, metadata: Value, objects: impl Iterator<Item = &'a Value>) -> Vec<u8> {
        let (kind, api_version) = match self.shape {
            Shape::Whole => (self.kind.list_kind.clone(), self.kind.api_version(&self.version)),
            Shape::MetadataOnly => ("PartialObjectMetadataList".to_owned(), METADATA_VERSION.to_owned()),
        };
        let items: Vec<Item<'_>> = objects.map(|object| self.item(object)).collect();
        bytes(&List { kind, api_version, metadata, items })
    }

    /// One line of a watch.
    pub(crate) fn event(&self, what: &str, stored: &Value) -> Vec<u8> {
        event(what, &self.object(stored))
    }

    /// How far a watch has come.
    pub(crate) fn bookmark(&self, version: u64, is_end_of_initial_events: bool) -> Vec<u8> {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if let (true, Some(metadata)) = (is_end_of_initial_events, metadata.as_object_mut()) {
            metadata.insert("annotations".into(), json!({ "k8s.io/initial-events-end": "true" }));
        }
        let (kind, api_version) = match self.shape {
            Shape::Whole => (self.kind.kind.clone(), self.kind.api_version(&self.version)),
            Shape::MetadataOnly => ("PartialObjectMetadata".to_owned(), METADATA_VERSION.to_owned()),
        };
        event("BOOKMARK", &json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata }))
    }
}

/// A stored object in another version of its kind.
pub(crate) fn convert<'a>(kind: &Kind, version: Option<&Version>, stored: &'a Value) -> Cow<'a, Value> {
    let Some(version) = version else {
        return Cow::Borrowed(stored);
    };
    let mut shown = match version.convert {
        Some(convert) => Cow::Owned((convert.from_stored)(stored)),
        None => Cow::Borrowed(stored),
    };
    let api_version = kind.api_version(&version.name);
    if shown.get("apiVersion").and_then(Value::as_str) != Some(&api_version)
        && let Some(fields) = shown.to_mut().as_object_mut()
    {
        fields.insert("apiVersion".into(), api_version.into());
    }
    shown
}

/// One line of a watch.
pub(crate) fn event(what: &str, object: &Value) -> Vec<u8> {
    #[derive(serde::Serialize)]
    struct Event<'a> {
        r#type: &'a str,
        object: &'a Value,
    }
    let mut line = bytes(&Event { r#type: what, object });
    line.push(b'\n');
    line
}

/// JSON text as Go writes it. Values of JSON can always be written as such.
pub(crate) fn bytes(value: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::new();
    let written = value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, ForPages));
    written.map(|()| text).unwrap_or_default()
}

/// Go's JSON can stand in a page of HTML: what could end a script there is written as a number. Whoever compares the
/// bytes of stored data, as with revisions, sees them.
struct ForPages;

impl serde_json::ser::Formatter for ForPages {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_escaped = |character| matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
        let mut rest = fragment;
        while let Some((at, found)) = rest.char_indices().find(|(_, character)| is_escaped(*character)) {
            let (plain, after) = rest.split_at(at);
            write!(writer, "{plain}\\u{:04x}", u32::from(found))?;
            rest = after.get(found.len_utf8()..).unwrap_or_default();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: String,
    api_version: String,
    metadata: Value,
    items: Vec<Item<'a>>,
}

struct Item<'a> {
    object: Cow<'a, Value>,
    is_bare: bool,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.is_bare, self.object.as_object()) {
            (true, Some(fields)) => {
                let mut map = serializer.serialize_map(None)?;
                for (name, value) in
                    fields.iter().filter(|(name, _)| *name != "kind" && *name != "apiVersion")
                {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
            _ => self.object.serialize(serializer),
        }
    }
}
