//! Bodies in protobuf, read into JSON: kubectl sends what it makes itself, such as a ConfigMap, in no other way.
//!
//! The numbers and types of fields are data that `make schemas` writes. What is answered is always JSON.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What such a body calls itself.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every such body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages within messages: no type of Kubernetes goes that deep.
const MAX_DEPTH: usize = 64;
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Why a body cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error("the table of fields cannot be read")]
    Table,
    #[error("provided data does not appear to be a protobuf message")]
    Magic,
    #[error("no kind \"{0}\" is known here")]
    Kind(String),
    #[error("unexpected EOF")]
    End,
    #[error("messages within messages, too many of them")]
    Depth,
}

/// The types behind kinds, and their fields.
#[derive(Deserialize)]
struct Types {
    /// By group, version and kind.
    kinds: BTreeMap<String, String>,
    types: BTreeMap<String, Vec<(u64, String, String)>>,
}

static TYPES: LazyLock<Option<Types>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../kinds/protobuf.json")).ok());

/// An object as JSON has it.
pub(crate) fn read(body: &[u8]) -> Result<Value, ProtobufError> {
    let types = TYPES.as_ref().ok_or(ProtobufError::Table)?;
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields(envelope) {
        match field? {
            (1, Content::Bytes(names)) => {
                for name in Fields(names) {
                    match name? {
                        (1, Content::Bytes(text)) => api_version = lossy(text),
                        (2, Content::Bytes(text)) => kind = lossy(text),
                        _ => {}
                    }
                }
            }
            (2, Content::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    // Every group has options of deletions, all of them alike.
    let name = if kind == "DeleteOptions" { format!("v1/{kind}") } else { format!("{api_version}/{kind}") };
    let root = types.kinds.get(&name).ok_or(ProtobufError::Kind(name))?;
    let mut object = types.message(root, raw, 0)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(object.into())
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

impl Types {
    fn message(&self, name: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, ProtobufError> {
        if depth > MAX_DEPTH {
            return Err(ProtobufError::Depth);
        }
        let mut object = Map::new();
        let known = self.types.get(name).map(Vec::as_slice).unwrap_or_default();
        for field in Fields(bytes) {
            let (number, content) = field?;
            let Some((_, name, kind)) = known.iter().find(|(known, ..)| *known == number) else {
                continue;
            };
            if let Some(item) = kind.strip_prefix("[]") {
                let item = self.value(item, content, depth)?;
                let items = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                items.as_array_mut().into_iter().for_each(|items| items.push(item.clone()));
            } else if let Some(value) = kind.strip_prefix("{}") {
                let (key, value) = self.entry(value, content, depth)?;
                let entries = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
                entries.as_object_mut().into_iter().for_each(|entries| {
                    entries.insert(key.clone(), value.clone());
                });
            } else {
                let set = kind.strip_prefix('*');
                let value = self.value(set.unwrap_or(kind), content, depth)?;
                match value {
                    // What is zero and cannot be told from nothing is nothing.
                    value if set.is_none() && is_zero(&value) => {}
                    Value::Object(inlined) if name.is_empty() => object.extend(inlined),
                    value => {
                        object.insert(name.clone(), value);
                    }
                }
            }
        }
        Ok(object)
    }

    fn entry(
        &self,
        kind: &str,
        content: Content<'_>,
        depth: usize,
    ) -> Result<(String, Value), ProtobufError> {
        let (mut key, mut value) = (String::new(), self.value(kind, Content::Bytes(&[]), depth)?);
        for field in Fields(content.bytes()) {
            match field? {
                (1, text) => key = lossy(text.bytes()),
                (2, content) => value = self.value(kind, content, depth)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn value(&self, kind: &str, content: Content<'_>, depth: usize) -> Result<Value, ProtobufError> {
        let bytes = content.bytes();
        if let Some(item) = kind.strip_prefix("items ") {
            let items = Fields(bytes).map(|field| self.value(item, field?.1, depth + 1));
            return items.collect();
        }
        let short = kind.strip_prefix(META).unwrap_or(kind);
        Ok(match short {
            "string" => lossy(bytes).into(),
            "bytes" => STANDARD.encode(bytes).into(),
            "bool" => (content.number() != 0).into(),
            "int" => content.number().into(),
            ".Time" => time(bytes, 0)?,
            ".MicroTime" => time(bytes, 6)?,
            ".FieldsV1" | "io.k8s.apimachinery.pkg.runtime.RawExtension" => {
                let raw = part(bytes, 1)?.map(|raw| serde_json::from_slice(raw.bytes()).unwrap_or_default());
                raw.unwrap_or_default()
            }
            "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
                part(bytes, 1)?.map_or(Value::Null, |text| lossy(text.bytes()).into())
            }
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
                let is_text = part(bytes, 1)?.is_some_and(|kind| kind.number() == 1);
                match part(bytes, if is_text { 3 } else { 2 })? {
                    Some(text) if is_text => lossy(text.bytes()).into(),
                    number => number.map(Content::number).unwrap_or_default().into(),
                }
            }
            _ => self.message(kind, bytes, depth + 1)?.into(),
        })
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) => false,
    }
}

/// A time, with so many digits after the second.
fn time(bytes: &[u8], digits: usize) -> Result<Value, ProtobufError> {
    let number = |field| -> Result<i64, ProtobufError> { Ok(part(bytes, field)?.map_or(0, Content::number)) };
    let (seconds, nanos) = (number(1)?, number(2)?);
    let then = i32::try_from(nanos).ok().and_then(|nanos| Timestamp::new(seconds, nanos).ok());
    Ok(match then {
        Some(then) if !bytes.is_empty() && digits == 0 => crate::clock::whole_seconds(then).into(),
        Some(then) if !bytes.is_empty() => format!("{then:.digits$}").into(),
        _ => Value::Null,
    })
}

/// The last field of this number.
fn part(bytes: &[u8], number: u64) -> Result<Option<Content<'_>>, ProtobufError> {
    let mut found = None;
    for field in Fields(bytes) {
        let (said, content) = field?;
        if said == number {
            found = Some(content);
        }
    }
    Ok(found)
}

/// What a field holds.
#[derive(Clone, Copy)]
enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Content<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Content::Bytes(bytes) => bytes,
            Content::Number(_) => &[],
        }
    }

    fn number(self) -> i64 {
        match self {
            Content::Number(number) => number.cast_signed(),
            Content::Bytes(_) => 0,
        }
    }
}

/// The fields of a message, in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0;
        // Ten groups of seven bits are more than a number has.
        for shift in 0..10 {
            let (byte, rest) = self.0.split_first().ok_or(ProtobufError::End)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << (7 * shift);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(ProtobufError::End)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(ProtobufError::End)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Content<'a>), ProtobufError> {
        let tag = self.number()?;
        let content = match tag & 7 {
            0 => Content::Number(self.number()?),
            1 => Content::Bytes(self.take(8)?),
            2 => {
                let length = self.number()?;
                Content::Bytes(self.take(usize::try_from(length).map_err(|_| ProtobufError::End)?)?)
            }
            5 => Content::Bytes(self.take(4)?),
            _ => return Err(ProtobufError::End),
        };
        Ok((tag >> 3, content))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Content<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
#[path = "protobuf_tests.rs"]
mod tests;
