//! Looking into objects that are plain JSON.

use serde_json::{Map, Value};

/// The value at a pointer without escapes. `Value::pointer` makes two strings for each step.
pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') {
        return object.pointer(pointer);
    }
    pointer.split('/').skip(1).try_fold(object, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(_) => value.pointer(&format!("/{step}")),
        _ => None,
    })
}

/// The text at a pointer; empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// `None` also for a number that is no whole one.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    at(object, pointer).and_then(Value::as_i64)
}

/// A list at a pointer; empty where there is none.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether an object is on its way out.
pub(crate) fn is_deleting(object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some_and(|stamp| !stamp.is_null())
}

/// The object's metadata, made where there is none.
pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    child(object, "metadata")
}

/// An object inside an object, made where there is none.
pub(crate) fn child<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    entry(fields(object), field)
}

/// As [`child`], of fields.
pub(crate) fn entry<'a>(fields_of: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    fields(fields_of.entry(field).or_insert(Value::Null))
}

/// The fields of a value, which becomes an object if it was none.
pub(crate) fn fields(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("made an object above"),
    }
}

/// Puts `value` into a field that is missing or null.
pub(crate) fn fill(fields: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    match fields.get(field) {
        None | Some(Value::Null) => {
            fields.insert(field.to_owned(), value.into());
        }
        Some(_) => {}
    }
}

/// Copies a field from one object to another, or removes it there.
pub(crate) fn keep(to: &mut Map<String, Value>, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => {
            to.insert(field.to_owned(), value.clone());
        }
        None => {
            to.remove(field);
        }
    }
}
