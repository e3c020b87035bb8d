//! What becomes of an object that is read into Go types and written again.

use serde_json::{Map, Value};

use super::{Kind, Others, Unknown, View, quantity};

/// Drops nulls and empty lists and maps that need not be there, and writes amounts in their canonical form.
pub(super) fn normalize(value: &mut Value, view: View<'_>) {
    match value {
        Value::Object(fields) => normalize_fields(fields, view),
        Value::Array(items) => {
            let Some(view) = view.items() else { return };
            for item in items {
                normalize(item, view);
            }
        }
        Value::String(_) | Value::Number(_) if view.node().kind == Kind::Quantity => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if let Some(canonical) = quantity::canonical(&text) {
                *value = Value::from(canonical);
            }
        }
        _ => {}
    }
}

fn normalize_fields(fields: &mut Map<String, Value>, view: View<'_>) {
    fields.retain(|name, value| match view.member(name) {
        Some(member) => {
            normalize(value, member);
            let needed = view.node().required.contains(name) || view.property(name).is_none();
            !value.is_null() && (needed || !is_empty(value, member))
        }
        None => !value.is_null() || view.node().unknown == Unknown::Kept,
    });
}

/// Structs are there when they are empty, lists and maps are not.
fn is_empty(value: &Value, view: View<'_>) -> bool {
    let node = view.node();
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => {
            fields.is_empty() && node.properties.is_empty() && matches!(node.others, Others::Of(_))
        }
        _ => false,
    }
}
