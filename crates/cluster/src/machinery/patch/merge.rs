//! Merge patch.

use serde_json::{Map, Value};

/// The document after a merge patch: what the patch names is replaced, null removes, objects are merged.
pub fn merge(document: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
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
