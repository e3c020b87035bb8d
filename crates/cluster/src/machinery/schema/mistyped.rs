//! What Go says about a value that it cannot read into its type.

use serde_json::{Number, Value};

use super::{Kind, Others, View, quantity};
use crate::machinery::go;

/// Where a value stands: the Go struct, and the fields that lead to it from the outermost one.
struct GoField<'a> {
    strct: &'a str,
    path: String,
}

/// The first complaint, if there is any.
pub(super) fn mistyped(object: &Value, view: View<'_>) -> Option<String> {
    let strct = view.node().go.as_ref().map_or("", |go| &go.name);
    check(object, view, &GoField { strct, path: String::new() }, None)
}

fn check(value: &Value, view: View<'_>, at: &GoField<'_>, named: Option<&str>) -> Option<String> {
    let node = view.node();
    let wrong = |what: &str| {
        let wanted = named.map_or_else(|| type_name(view), str::to_owned);
        let GoField { strct, path } = at;
        let place =
            if strct.is_empty() { "value".to_owned() } else { format!("struct field {strct}.{path}") };
        Some(format!("json: cannot unmarshal {what} into Go {place} of type {wanted}"))
    };
    match (value, node.kind) {
        (Value::Null, _)
        | (_, Kind::Any)
        | (Value::Bool(_), Kind::Boolean)
        | (Value::Number(_), Kind::Number) => None,
        (Value::Object(fields), Kind::Object) => fields.iter().find_map(|(name, field)| {
            if let Some(property) = view.property(name) {
                let go = node.go.as_ref();
                let strct = go.map_or(at.strct, |go| &go.name);
                let path = if at.path.is_empty() { name.clone() } else { format!("{}.{name}", at.path) };
                let named = go.and_then(|go| go.types.get(name)).map(String::as_str);
                return check(field, property, &GoField { strct, path }, named);
            }
            check(field, view.other()?, &GoField { strct: at.strct, path: at.path.clone() }, None)
        }),
        (Value::Array(items), Kind::Array) => {
            let view = view.items()?;
            items
                .iter()
                .find_map(|item| check(item, view, &GoField { strct: at.strct, path: at.path.clone() }, None))
        }
        (_, Kind::Quantity) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let refused =
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
            quantity::canonical(&text).is_none().then(|| refused.to_owned())
        }
        (_, Kind::IntOrString) => match value {
            Value::String(_) => None,
            Value::Number(number) if is_integer(number, true) => None,
            Value::Number(number) => wrong(&format!("number {number}")),
            other => wrong(go::json_type(other)),
        },
        (Value::String(text), Kind::String) => match node.rules.format() {
            Some("date-time") => unread_time(text, node.go.as_ref().is_some_and(|go| go.name == "MicroTime")),
            Some("byte") => unread_bytes(text),
            _ => None,
        },
        (Value::Number(number), Kind::Integer) => {
            let narrow = node.rules.format() == Some("int32");
            if is_integer(number, narrow) { None } else { wrong(&format!("number {number}")) }
        }
        (other, Kind::String) if node.rules.format() == Some("date-time") => {
            Some(format!("json: cannot unmarshal {} into Go value of type string", go::json_type(other)))
        }
        (other, _) => wrong(go::json_type(other)),
    }
}

/// The first complaint about a list or an object that is something else, if there is any.
pub(super) fn unrestorable(value: &Value, view: View<'_>) -> Option<String> {
    let node = view.node();
    match (value, node.kind) {
        (Value::Object(fields), Kind::Object) => {
            fields.iter().find_map(|(name, field)| unrestorable(field, view.member(name)?))
        }
        (Value::Array(items), Kind::Array) => {
            let view = view.items()?;
            items.iter().find_map(|item| unrestorable(item, view))
        }
        (Value::Null, _) => None,
        (other, Kind::Array) => Some(format!("cannot restore slice from {}", go::kind(other))),
        (other, Kind::Object) if matches!(node.others, Others::Of(_)) => {
            Some(format!("cannot restore map from {}", go::kind(other)))
        }
        (other, Kind::Object) => Some(format!("cannot restore struct from: {}", go::kind(other))),
        _ => None,
    }
}

fn is_integer(number: &Number, narrow: bool) -> bool {
    number.as_i64().is_some_and(|whole| !narrow || i32::try_from(whole).is_ok())
}

/// A type as Go prints it.
fn type_name(view: View<'_>) -> String {
    let node = view.node();
    match node.kind {
        Kind::String if node.rules.format() == Some("byte") => "[]uint8".to_owned(),
        Kind::String => "string".to_owned(),
        Kind::Integer => node.rules.format().unwrap_or("int64").to_owned(),
        Kind::Number => "float64".to_owned(),
        Kind::Boolean => "bool".to_owned(),
        Kind::IntOrString => "int32".to_owned(),
        Kind::Quantity => "resource.Quantity".to_owned(),
        Kind::Array => format!("[]{}", view.items().map(type_name).unwrap_or_default()),
        Kind::Object => match (&node.go, &node.others) {
            (_, Others::Of(_)) => format!("map[string]{}", view.other().map(type_name).unwrap_or_default()),
            (Some(go), _) => format!("v1.{}", go.name),
            (None, _) => "map[string]interface {}".to_owned(),
        },
        Kind::Any => "interface {}".to_owned(),
    }
}

/// How Go writes times, piece by piece.
const LAYOUT: [&str; 12] = ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05", "Z07:00"];

fn unread_time(text: &str, is_micro: bool) -> Option<String> {
    if text.parse::<jiff::Timestamp>().is_ok() {
        return None;
    }
    let whole = if is_micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let mut rest = text;
    for piece in LAYOUT {
        let digits = piece.bytes().all(|byte| byte.is_ascii_digit());
        let taken = if digits {
            rest.get(..piece.len()).filter(|found| found.bytes().all(|byte| byte.is_ascii_digit()))
        } else {
            rest.get(..piece.len()).filter(|found| *found == piece)
        };
        let Some(taken) = taken else {
            return Some(format!("parsing time {text:?} as {whole:?}: cannot parse {rest:?} as {piece:?}"));
        };
        rest = rest.get(taken.len()..).unwrap_or_default();
        if piece == "05" && rest.starts_with('.') {
            rest = rest.trim_start_matches(|letter: char| letter == '.' || letter.is_ascii_digit());
        }
    }
    Some(format!("parsing time {text:?} as {whole:?}: cannot parse {rest:?} as {:?}", "Z07:00"))
}

fn unread_bytes(text: &str) -> Option<String> {
    use base64::Engine;
    let refused = base64::engine::general_purpose::STANDARD.decode(text).err()?;
    let place = match refused {
        base64::DecodeError::InvalidByte(place, _) => place,
        _ => text.len() / 4 * 4,
    };
    Some(format!("illegal base64 data at input byte {place}"))
}
