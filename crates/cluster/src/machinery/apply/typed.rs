//! Whether an applied object can be taken apart.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    set::Element,
    shape::{Shape, Type},
};
use crate::machinery::{go, schema::Kind};

/// What keeps a value from being applied, each with its place, in Kubernetes' words.
pub(super) fn check(value: &Value, kind: Type<'_>) -> Vec<String> {
    let mut found = Vec::new();
    visit(value, kind, "", &mut found);
    found
}

fn visit(value: &Value, kind: Type<'_>, at: &str, found: &mut Vec<String>) {
    match (kind.shape(Some(value)), value) {
        (_, Value::Null) => {}
        (Shape::Scalar, value) => {
            if let Some(complaint) = scalar_complaint(value, kind) {
                found.push(format!("{at}: {complaint}"));
            }
        }
        (Shape::List { whole }, Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let element = match kind.identify(item) {
                    _ if whole => Element::Index(i64::try_from(index).unwrap_or(i64::MAX)),
                    Ok(element) => element,
                    Err(why) => {
                        found.push(format!("{at}: element {index}: {why}"));
                        return;
                    }
                };
                if !seen.insert(element.clone()) {
                    found.push(format!("{at}: duplicate entries for key {element}"));
                }
                visit(item, kind.item(), &format!("{at}{element}"), found);
            }
        }
        (Shape::Map { .. }, Value::Object(fields)) => {
            for (name, field) in fields {
                let place = format!("{at}.{name}");
                let Some(kind) = kind.declared_field(name) else {
                    found.push(format!("{place}: field not declared in schema"));
                    return;
                };
                visit(field, kind, &place, found);
            }
        }
        (Shape::List { .. }, value) => found.push(format!("{at}: expected list, got {}", described(value))),
        (Shape::Map { .. }, value) => found.push(format!("{at}: expected map, got {}", described(value))),
    }
}

fn scalar_complaint(value: &Value, kind: Type<'_>) -> Option<String> {
    let Type::Known(view) = kind else { return None };
    let composite = value.is_object() || value.is_array();
    match view.node().kind {
        Kind::Integer | Kind::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go::type_name(value)))
        }
        // A format frees text from being text.
        Kind::String if view.node().rules.has_format() && !composite => None,
        Kind::String if !value.is_string() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::source(value)))
        }
        Kind::Boolean if !value.is_boolean() => Some(format!("expected boolean, got {}", described(value))),
        Kind::Quantity | Kind::String if composite => {
            Some(format!("expected any scalar, got {}", described(value)))
        }
        _ => None,
    }
}

/// As Kubernetes' apply prints values into complaints.
fn described(value: &Value) -> String {
    format!("&{{{}}}", go::plain(value))
}
