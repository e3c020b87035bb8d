//! Merge patch.

use serde_json::{Map, Value};

/// The document after a merge patch: what the patch names is replaced, null removes, objects are merged.
pub fn merge(document: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return settled(patch) };
    let mut merged = document.as_object().cloned().unwrap_or_else(Map::new);
    for (name, change) in changes {
        if change.is_null() {
            merged.remove(name);
        } else {
            let before = merged.get(name).unwrap_or(&Value::Null);
            let after = merge(before, change);
            merged.insert(name.clone(), after);
        }
    }
    Value::Object(merged)
}

/// What a patch puts in a place as a whole: fields that are null within lists are nothing, items are.
fn settled(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(settled).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), settled(value))).collect()
        }
        scalar => scalar.clone(),
    }
}
