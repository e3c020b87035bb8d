//! The hand-over from kubectl's own apply, which keeps what it applied in an annotation.

use serde_json::Value;

use super::{fields, fields::Changes, set::Set, shape::Type, typed};

/// Only this manager is handed what client-side apply owned.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Bytes of all annotations of an object, keys included, which Kubernetes allows.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The fields that client-side apply wrote and that nobody has changed since.
pub(super) fn untouched(live: &Value, api_version: &str, kind: Type<'_>) -> Option<Set> {
    let text = live.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion")?.as_str()? != api_version || !typed::check(&last, kind).is_empty() {
        return None;
    }
    let changes = Changes::between(&last, live, kind);
    Some(fields::of(&last, kind).difference(&changes.written()).difference(&changes.removed))
}

/// Brings the annotation of an object that has one up to date.
pub(super) fn renew(object: &mut Value, applied: &Value) {
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let Some(annotations) = annotations else { return };
    let is_there = annotations.get(ANNOTATION).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if is_there {
        annotations.insert(ANNOTATION.to_owned(), Value::from(format!("{applied}\n")));
        let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
        if annotations.iter().map(size).sum::<usize>() > MAX_ANNOTATIONS {
            annotations.remove(ANNOTATION);
        }
    }
}
