//! Fields that a schema does not know.

use serde_json::Value;

use super::{Kind, Others, Path, Unknown, View};

/// Drops unknown fields.
pub(super) fn prune(value: &mut Value, view: View<'_>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| is_known(name, view));
            for (name, field) in fields {
                if let Some(member) = view.member(name) {
                    prune(field, member);
                }
            }
        }
        Value::Array(items) => {
            if let Some(view) = view.items() {
                for item in items {
                    prune(item, view);
                }
            }
        }
        _ => {}
    }
}

/// The unknown fields; what is inside of one is not looked at.
pub(super) fn unknown(value: &Value, view: View<'_>) -> Vec<Path> {
    let (mut found, mut within) = (Vec::new(), Vec::new());
    search(value, view, &Path::default(), &mut found, &mut within);
    found.sort_by_key(ToString::to_string);
    within.sort_by_key(ToString::to_string);
    // The metadata of objects within objects is looked at last.
    [found, within].concat()
}

fn search(value: &Value, view: View<'_>, at: &Path, found: &mut Vec<Path>, within: &mut Vec<Path>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if !is_known(name, view) {
                    found.push(at.field(name));
                } else if let Some(member) = view.member(name) {
                    if view.node().embedded && name == "metadata" {
                        let mut more = Vec::new();
                        search(field, member, &at.field(name), within, &mut more);
                        within.append(&mut more);
                    } else {
                        search(field, member, &at.field(name), found, within);
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(view) = view.items() {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(index, item)| search(item, view, &at.index(index), found, within));
            }
        }
        _ => {}
    }
}

fn is_known(name: &str, view: View<'_>) -> bool {
    let node = view.node();
    let open = match node.others {
        Others::Free | Others::Of(_) => true,
        Others::Forbidden => false,
        // Arbitrary JSON has no type; an object without properties is one only where it says so.
        Others::Unsaid => node.kind == Kind::Any && node.properties.is_empty(),
    };
    node.unknown == Unknown::Kept || open || node.properties.contains_key(name)
}
