//! Defaults.

use serde_json::{Map, Value};

use super::{Kind, Origin, Unknown, View};

/// Fills in what has a default and is missing; null counts as missing where it is no value.
pub(super) fn default(value: &mut Value, view: View<'_>, origin: Origin) {
    match value {
        Value::Object(fields) => {
            if origin == Origin::BuiltIn {
                drop_nulls(fields, view, origin);
            }
            for (name, property) in view.properties() {
                // Few properties have one, so the others are not looked for in the object.
                let Some(standard) = &property.edge().default else { continue };
                if fields.get(name).is_none_or(|value| value.is_null() && !property.node().nullable) {
                    fields.insert(name.to_owned(), standard.clone());
                }
            }
            if origin == Origin::BuiltIn {
                for name in view.node().go.iter().flat_map(|go| &go.nulls) {
                    fields.entry(name.clone()).or_insert(Value::Null);
                }
            }
            for (name, field) in fields {
                if let Some(member) = view.member(name) {
                    default(field, member, origin);
                }
            }
        }
        Value::Array(items) => {
            let Some(view) = view.items() else { return };
            for item in items {
                if let (true, false, Some(standard)) =
                    (item.is_null(), view.node().nullable, &view.edge().default)
                {
                    *item = standard.clone();
                }
                default(item, view, origin);
            }
        }
        _ => {}
    }
}

/// Drops nulls that are no value and have no default.
pub(super) fn drop_unset(value: &mut Value, view: View<'_>) {
    match value {
        Value::Object(fields) => {
            drop_nulls(fields, view, Origin::Custom);
            for (name, field) in fields {
                if let Some(member) = view.member(name) {
                    drop_unset(field, member);
                }
            }
        }
        Value::Array(items) => {
            let Some(view) = view.items() else { return };
            for item in items {
                drop_unset(item, view);
            }
        }
        _ => {}
    }
}

/// A Go field that is set to null is not set; a custom resource keeps a null that its schema does not mention.
fn drop_nulls(fields: &mut Map<String, Value>, view: View<'_>, origin: Origin) {
    if origin == Origin::BuiltIn {
        zero_nulls(fields, view);
    }
    fields.retain(|name, value| {
        !value.is_null()
            || match view.member(name) {
                Some(member) => {
                    member.node().nullable
                        || member.edge().default.is_some()
                        || origin == Origin::BuiltIn && view.node().is_null_when_unset(name)
                }
                None => origin == Origin::Custom || view.node().unknown == Unknown::Kept,
            }
    });
}

/// In a Go map null is the zero value.
fn zero_nulls(fields: &mut Map<String, Value>, view: View<'_>) {
    let unnamed = fields.iter_mut().filter(|(name, value)| value.is_null() && view.property(name).is_none());
    for (_, value) in unnamed {
        match view.other().map(|other| other.node().kind) {
            Some(Kind::String) => *value = Value::String(String::new()),
            Some(Kind::Object) => *value = Value::Object(Map::new()),
            _ => {}
        }
    }
}

/// Drops nulls, which a Go type reads as nothing, but not those inside of arbitrary JSON.
pub(super) fn drop_all_nulls(value: &mut Value, view: View<'_>) {
    match value {
        Value::Object(fields) => {
            zero_nulls(fields, view);
            fields.retain(|name, value| {
                !value.is_null()
                    || view.node().is_null_when_unset(name)
                    || (view.member(name).is_none() && view.node().unknown == Unknown::Kept)
            });
            for (name, field) in fields {
                if let Some(member) = view.member(name) {
                    drop_all_nulls(field, member);
                }
            }
        }
        Value::Array(items) => {
            let Some(view) = view.items() else { return };
            for item in items {
                drop_all_nulls(item, view);
            }
        }
        _ => {}
    }
}

/// What an object holds of which nothing is said: a Go struct without a pointer is there, and so is a number or text
/// that is always written; what has no zero value of its own is null.
pub(super) fn zero(view: View<'_>, origin: Origin) -> Value {
    let mut fields = Map::new();
    if origin == Origin::BuiltIn {
        for name in view.node().go.iter().flat_map(|go| &go.nulls) {
            fields.insert(name.clone(), Value::Null);
        }
        for (name, property) in view.properties() {
            match &property.edge().default {
                Some(Value::Object(_)) => fields.insert(name.to_owned(), zero(property, origin)),
                Some(scalar) => fields.insert(name.to_owned(), scalar.clone()),
                None if view.node().required.iter().any(|required| required == name) => {
                    fields.insert(name.to_owned(), Value::Null)
                }
                None => None,
            };
        }
    }
    Value::Object(fields)
}
