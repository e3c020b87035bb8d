//! Objects as answers show them: in the version that was asked for, whole or only their metadata.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::packed::Metadata;
use super::request::Shape;
use super::stored::Stored;
use super::table::Headings;
use crate::clock::Clock;
use crate::kinds::{Kind, Version};

/// How one request wants to see objects.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) kind: Arc<Kind>,
    pub(crate) version: String,
    pub(crate) shape: Shape,
    pub(crate) clock: Clock,
    pub(crate) headings: Headings,
}

const METADATA_VERSION: &str = "meta.k8s.io/v1";

impl View {
    /// What names the objects' kind: their `apiVersion` and their `kind`.
    fn names(&self) -> (String, &str) {
        match self.shape {
            Shape::Whole => (self.kind.api_version(&self.version), &self.kind.kind),
            // The row of a table has its own shape.
            Shape::MetadataOnly | Shape::Table(_) => (METADATA_VERSION.to_owned(), "PartialObjectMetadata"),
        }
    }

    /// What an object says apart from its kind.
    fn fields<'a>(&self, stored: &'a Stored) -> Cow<'a, [u8]> {
        let converts = self.kind.version(&self.version).and_then(|version| version.convert);
        match (self.shape, converts) {
            (Shape::Whole, None) => Cow::Borrowed(stored.fields()),
            (Shape::Whole, Some(convert)) => Cow::Owned(bytes(&Fields(&(convert.from_stored)(stored)))),
            (Shape::MetadataOnly | Shape::Table(_), _) => {
                let metadata = stored.get("metadata").unwrap_or(&Value::Null);
                let mut text = br#"{"metadata":"#.to_vec();
                text.extend(bytes(&Metadata(metadata)));
                text.push(b'}');
                Cow::Owned(text)
            }
        }
    }

    fn write(&self, text: &mut Vec<u8>, stored: &Stored) {
        let (api_version, kind) = self.names();
        // Names of kinds and versions hold nothing that JSON would escape.
        text.extend_from_slice(format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}""#).as_bytes());
        match &*self.fields(stored) {
            [b'{', b'}'] => text.push(b'}'),
            fields => {
                text.push(b',');
                text.extend_from_slice(fields.get(1..).unwrap_or_default());
            }
        }
    }

    /// An object as the answer to a request for it.
    pub(crate) fn object(&self, stored: &Stored) -> Vec<u8> {
        if let Shape::Table(include) = self.shape {
            return self.table_of_one(stored, include);
        }
        let mut text = Vec::new();
        self.write(&mut text, stored);
        text
    }

    /// A list; `metadata` is the list's own.
    pub(crate) fn list<'a>(&self, metadata: &Value, objects: impl Iterator<Item = &'a Stored>) -> Vec<u8> {
        if let Shape::Table(include) = self.shape {
            return self.table_of_many(metadata, objects, include);
        }
        let (api_version, kind) = match self.shape {
            Shape::Whole => (self.kind.api_version(&self.version), &*self.kind.list_kind),
            Shape::MetadataOnly | Shape::Table(_) => {
                (METADATA_VERSION.to_owned(), "PartialObjectMetadataList")
            }
        };
        let mut text = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":"#).into_bytes();
        text.extend(bytes(metadata));
        text.extend_from_slice(br#","items":["#);
        // Built-in kinds leave out what the list says already.
        let is_bare = self.shape == Shape::Whole && !self.kind.custom;
        for (at, stored) in objects.enumerate() {
            if at > 0 {
                text.push(b',');
            }
            if is_bare {
                text.extend_from_slice(&self.fields(stored));
            } else {
                self.write(&mut text, stored);
            }
        }
        text.extend_from_slice(b"]}");
        text
    }

    /// One line of a watch.
    pub(crate) fn event(&self, what: &str, stored: &Stored) -> Vec<u8> {
        let mut line = format!(r#"{{"type":"{what}","object":"#).into_bytes();
        match self.shape {
            Shape::Table(include) => line.extend(self.table_event(stored, include)),
            Shape::Whole | Shape::MetadataOnly => self.write(&mut line, stored),
        }
        line.extend_from_slice(b"}\n");
        line
    }

    /// How far a watch has come.
    pub(crate) fn bookmark(&self, version: u64, is_end_of_initial_events: bool) -> Vec<u8> {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if let (true, Some(metadata)) = (is_end_of_initial_events, metadata.as_object_mut()) {
            metadata.insert("annotations".into(), json!({ "k8s.io/initial-events-end": "true" }));
        }
        let (api_version, kind) = self.names();
        let bookmark = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        if let Shape::Table(include) = self.shape {
            let mut line = br#"{"type":"BOOKMARK","object":"#.to_vec();
            line.extend(self.table_bookmark(&bookmark, include, is_end_of_initial_events));
            line.extend_from_slice(b"}\n");
            return line;
        }
        event("BOOKMARK", &bookmark)
    }
}

/// A stored object as a writer in this version of its kind sees it.
pub(crate) fn convert(kind: &Kind, version: &Version, stored: &Stored) -> Value {
    let whole = stored.whole();
    let mut shown = match version.convert {
        Some(convert) => (convert.from_stored)(&whole),
        None => whole,
    };
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("apiVersion".into(), kind.api_version(&version.name).into());
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
///
/// Go's JSON can stand in a page of HTML: what could end a script there is written as a number. Whoever compares the
/// bytes of stored data, as with revisions, sees them.
pub(crate) fn bytes(value: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_string(value).unwrap_or_default();
    let is_rare = |byte| text.as_bytes().contains(&byte);
    // Nearly no text has any of them: looking for single bytes is what costs least. The last begins both separators.
    if ![b'<', b'>', b'&', b'\xe2'].into_iter().any(is_rare) {
        return text.into_bytes();
    }
    // Outside of strings, JSON has none of these characters.
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
    escaped.into_bytes()
}

/// An object's fields without `apiVersion` and `kind`.
pub(crate) struct Fields<'a>(pub(crate) &'a Value);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let fields = self.0.as_object().into_iter().flatten();
        for (name, value) in fields.filter(|(name, _)| *name != "kind" && *name != "apiVersion") {
            match name.as_str() {
                "metadata" => map.serialize_entry(name, &Metadata(value))?,
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}
