//! JSON patch, as forgiving as Kubernetes is: negative indices count from the end, a missing field equals null and
//! can be replaced.

use serde_json::Value;

use super::PatchError;
use crate::machinery::go;
use crate::machinery::json::{MAX_DEPTH, TOO_DEEP, depth};

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;

/// More operations are refused, as Kubernetes does.
pub const MAX_OPERATIONS: usize = 10_000;
/// Bytes that all copies of a patch may add up to, as in Kubernetes: each could double the document.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// Values that all operations of a patch may push aside or carry along: ten thousand of them on a long list would take
/// minutes. Far beyond what people patch.
const MAX_TOUCHED: usize = 32 * 1024 * 1024;

/// What an operation consists of.
const FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// What Go says of fields that no operation has.
pub fn unknown_fields(operations: &[Value]) -> Vec<String> {
    let fields = operations.iter().enumerate().flat_map(|(index, operation)| {
        let names = operation.as_object().into_iter().flatten().map(|(name, _)| name);
        names.filter(|name| !FIELDS.contains(&name.as_str())).map(move |name| (index, name))
    });
    fields.map(|(index, name)| format!("unknown field \"[{index}].{name}\"")).collect()
}

/// The document after a JSON patch.
pub fn json(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    let unread = |what: &Value, into: &str| {
        let what = go::json_type(what);
        PatchError::Malformed(format!("error decoding patch: json: cannot unmarshal {what} into Go {into}"))
    };
    let operations = match patch {
        Value::Null => &[],
        Value::Array(operations) => operations.as_slice(),
        other => return Err(unread(other, "value of type []handlers.jsonPatchOp")),
    };
    for operation in operations {
        if !operation.is_object() {
            return Err(unread(operation, "value of type handlers.jsonPatchOp"));
        }
        for field in FIELDS.into_iter().filter(|field| *field != "value") {
            if let Some(said) = operation.get(field).filter(|said| !said.is_string() && !said.is_null()) {
                return Err(unread(said, &format!("struct field jsonPatchOp.{field} of type string")));
            }
        }
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(operations.len()));
    }
    let mut patched = document.clone();
    let mut work = Work::default();
    for operation in operations {
        step(&mut patched, operation, &mut work)?;
    }
    Ok(patched)
}

/// What a patch has cost so far.
#[derive(Default)]
struct Work {
    /// Bytes of copies.
    copied: usize,
    /// Values that were pushed aside or carried along.
    touched: usize,
}

impl Work {
    fn copy(&mut self, value: &Value) -> Result<(), PatchError> {
        self.copied += value.to_string().len();
        if self.copied > MAX_COPIED {
            return Err(inapplicable(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit \
                 {MAX_COPIED}",
                self.copied
            )));
        }
        Ok(())
    }

    fn touch(&mut self, values: usize) -> Result<(), PatchError> {
        self.touched = self.touched.saturating_add(values);
        if self.touched > MAX_TOUCHED {
            return Err(inapplicable(format!("too much work: more than {MAX_TOUCHED} values are touched")));
        }
        Ok(())
    }
}

fn step(document: &mut Value, operation: &Value, work: &mut Work) -> Result<(), PatchError> {
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or("unknown");
    let value = operation.get("value");
    let path = || part(operation, kind, "path");
    let from = || part(operation, kind, "from");
    let given = || value.cloned().unwrap_or(Value::Null);
    match kind {
        "add" => add(document, path()?, given(), kind, work),
        "remove" => remove(document, path()?, kind, work).map(drop),
        "replace" => replace(document, path()?, given()),
        "move" => {
            let moved = remove(document, from()?, kind, work)?;
            work.touch(count(&moved))?;
            add(document, path()?, moved, kind, work)
        }
        "copy" => {
            let copy = find(document, from()?, kind)?.unwrap_or(&Value::Null);
            work.copy(copy)?;
            let copy = copy.clone();
            add(document, path()?, copy, kind, work)
        }
        "test" => test(document, path()?, value),
        _ => Err(inapplicable(format!("Unexpected kind: {kind}"))),
    }
}

fn part<'a>(operation: &'a Value, kind: &str, name: &str) -> Result<&'a str, PatchError> {
    operation
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| inapplicable(format!("{kind} operation failed to decode {name}: missing value")))
}

fn add(
    document: &mut Value,
    path: &str,
    value: Value,
    kind: &str,
    work: &mut Work,
) -> Result<(), PatchError> {
    check_depth(path, &value)?;
    let (parent, key) = parent(document, path, kind)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key, value);
            Ok(())
        }
        Value::Array(items) => {
            let position = if key == "-" { Ok(items.len()) } else { position(&key, items.len() + 1) };
            let position =
                position.map_err(|why| inapplicable(format!("error in {kind} for path: '{path}': {why}")))?;
            work.touch(items.len() - position)?;
            items.insert(position, value);
            Ok(())
        }
        _ => Err(missing(kind, path)),
    }
}

fn remove(document: &mut Value, path: &str, kind: &str, work: &mut Work) -> Result<Value, PatchError> {
    let (parent, key) = parent(document, path, kind)?;
    let failed = |why: String| inapplicable(format!("error in {kind} for path: '{path}': {why}"));
    match parent {
        Value::Object(fields) => fields
            .remove(&key)
            .ok_or_else(|| failed(format!("Unable to remove nonexistent key: {key}: missing value"))),
        Value::Array(items) => {
            let position = position(&key, items.len()).map_err(failed)?;
            work.touch(items.len() - position)?;
            Ok(items.remove(position))
        }
        _ => Err(missing(kind, path)),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    const KIND: &str = "replace";
    check_depth(path, &value)?;
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (parent, key) = parent(document, path, KIND)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let position = position(&key, items.len());
            let slot = position.ok().and_then(|position| items.get_mut(position)).ok_or_else(|| {
                inapplicable(format!(
                    "replace operation does not apply: doc is missing key: {path}: missing value"
                ))
            })?;
            *slot = value;
        }
        _ => return Err(missing(KIND, path)),
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, wanted: Option<&Value>) -> Result<(), PatchError> {
    let found = if path.is_empty() { Some(&*document) } else { find(document, path, "test")? };
    if found.unwrap_or(&Value::Null) == wanted.unwrap_or(&Value::Null) {
        return Ok(());
    }
    Err(inapplicable(format!("testing value {path} failed: test failed")))
}

fn find<'a>(document: &'a mut Value, path: &str, kind: &str) -> Result<Option<&'a Value>, PatchError> {
    let (parent, key) = parent(document, path, kind)?;
    match parent {
        Value::Object(fields) => Ok(fields.get(&key)),
        Value::Array(items) => {
            let failed = |why| inapplicable(format!("error in {kind} for path: '{path}': {why}"));
            Ok(items.get(position(&key, items.len()).map_err(failed)?))
        }
        _ => Err(missing(kind, path)),
    }
}

fn check_depth(path: &str, value: &Value) -> Result<(), PatchError> {
    if path.matches('/').count() + depth(value) > MAX_DEPTH {
        return Err(inapplicable(TOO_DEEP.to_owned()));
    }
    Ok(())
}

/// All values within a value.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.values().map(count).sum::<usize>() + 1,
        Value::Array(items) => items.iter().map(count).sum::<usize>() + 1,
        _ => 1,
    }
}

/// What holds the place that a path names, and the name of the place in it.
fn parent<'a>(
    document: &'a mut Value,
    path: &str,
    kind: &str,
) -> Result<(&'a mut Value, String), PatchError> {
    let absent = || missing(kind, path);
    let (above, key) = path.rsplit_once('/').ok_or_else(absent)?;
    let mut place = document;
    for step in above.split('/').skip(1) {
        let step = decode(step);
        place = match place {
            Value::Object(fields) => fields.get_mut(&step),
            Value::Array(items) => {
                position(&step, items.len()).ok().and_then(|position| items.get_mut(position))
            }
            _ => None,
        }
        .ok_or_else(absent)?;
    }
    if place.is_object() || place.is_array() { Ok((place, decode(key))) } else { Err(absent()) }
}

fn decode(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// The place of an index among so many; below zero it counts from the end.
fn position(key: &str, length: usize) -> Result<usize, String> {
    let index: i64 = key.parse().map_err(|_| format!("strconv.Atoi: parsing {key:?}: invalid syntax"))?;
    let invalid = || format!("Unable to access invalid index: {index}: invalid index referenced");
    let counted =
        if index < 0 { i64::try_from(length).unwrap_or(i64::MAX).saturating_add(index) } else { index };
    usize::try_from(counted).ok().filter(|&position| position < length).ok_or_else(invalid)
}

fn missing(kind: &str, path: &str) -> PatchError {
    inapplicable(match kind {
        "add" | "remove" => {
            format!("{kind} operation does not apply: doc is missing path: \"{path}\": missing value")
        }
        "test" => format!("test operation does not apply: is missing path: {path}: missing value"),
        "move" | "copy" => {
            format!("{kind} operation does not apply: doc is missing from path: {path}: missing value")
        }
        _ => format!("{kind} operation does not apply: doc is missing path: {path}: missing value"),
    })
}

fn inapplicable(message: String) -> PatchError {
    PatchError::Inapplicable(message)
}
