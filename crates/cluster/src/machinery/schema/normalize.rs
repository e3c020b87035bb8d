//! What becomes of an object that is read into Go types and written again.

use serde_json::{Map, Value};

use super::{Kind, Others, Unknown, View, node::Node, quantity};

/// Drops nulls, zeros and empty lists and maps that need not be there, and writes amounts in their canonical form.
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
            let node = view.node();
            let unset = value.is_null() || is_zero(value, name, member, node);
            let needed = node.required.contains(name) || view.property(name).is_none();
            if node.is_null_when_unset(name) {
                return true;
            }
            !unset && (needed || !is_empty(value, member))
        }
        None => !value.is_null() || view.node().unknown == Unknown::Kept,
    });
}

/// Writes whole numbers as such: to Kubernetes 1.0 is 1.
pub(super) fn whole_numbers(value: &mut Value) {
    /// Doubles are exact up to here.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT);
            if let Some(whole) = whole.and_then(|number| format!("{number:.0}").parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

/// Writes empty lists and maps as null where Go does so.
pub(super) fn empty_to_null(value: &mut Value, view: View<'_>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let empty = view.property(name).is_some_and(|member| is_empty(field, member));
                if empty && view.node().is_null_when_unset(name) {
                    *field = Value::Null;
                } else if let Some(member) = view.member(name) {
                    empty_to_null(field, member);
                }
            }
        }
        Value::Array(items) => {
            let Some(view) = view.items() else { return };
            for item in items {
                empty_to_null(item, view);
            }
        }
        _ => {}
    }
}

/// A scalar that is zero is not written, unless it is a pointer or always written, which its default shows.
fn is_zero(value: &Value, name: &str, view: View<'_>, parent: &Node) -> bool {
    let Some(go) = &parent.go else { return false };
    let is_scalar = matches!(view.node().kind, Kind::String | Kind::Integer | Kind::Number | Kind::Boolean);
    let zero = match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(flag) => !flag,
        _ => false,
    };
    let is_written = view.edge().default.is_some() || go.pointers.iter().any(|pointer| pointer == name);
    is_scalar
        && zero
        && !is_written
        && parent.properties.contains_key(name)
        && !parent.required.iter().any(|one| one == name)
}

/// Structs are there when they are empty, lists and maps are not.
fn is_empty(value: &Value, view: View<'_>) -> bool {
    let node = view.node();
    match value {
        // Arbitrary JSON is kept as it is.
        Value::Array(items) => items.is_empty() && node.kind != Kind::Any,
        Value::Object(fields) => {
            fields.is_empty() && node.properties.is_empty() && matches!(node.others, Others::Of(_))
        }
        _ => false,
    }
}
