//! Theirs against ours.

use std::fmt;

use serde_json::Value;

/// Something that is not the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where: `pods.web-0.spec.hostname`.
    pub path: Vec<String>,
    /// What theirs has there; null for nothing.
    pub theirs: Value,
    /// What ours has there; null for nothing.
    pub ours: Value,
}

/// A difference that is meant to be.
#[derive(Debug)]
pub struct Allowed {
    /// The heading in docs/statefulset-differences.md.
    pub item: &'static str,
    /// Whether a difference is of this kind.
    pub covers: fn(&Difference) -> bool,
}

/// All differences that are meant to be, besides those that are left out of a picture or of the events from the start
/// because theirs does not do the same twice either.
pub const ALLOWED: [Allowed; 0] = [];

impl Difference {
    /// Whether it is meant to be.
    pub fn is_allowed(&self) -> bool {
        ALLOWED.iter().any(|allowed| (allowed.covers)(self))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, theirs, ours } = self;
        write!(f, "{}\n    theirs: {theirs}\n    ours:   {ours}", path.join("."))
    }
}

/// Everything that differs and is not meant to.
pub fn differences(theirs: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(&mut Vec::new(), theirs, ours, &mut found);
    found.retain(|difference| !difference.is_allowed());
    found
}

fn walk(path: &mut Vec<String>, theirs: &Value, ours: &Value, found: &mut Vec<Difference>) {
    let mut step = |key: String, theirs: &Value, ours: &Value| {
        path.push(key);
        walk(path, theirs, ours, found);
        path.pop();
    };
    match (theirs, ours) {
        (Value::Object(one), Value::Object(two)) => {
            let only_ours = two.keys().filter(|key| !one.contains_key(*key));
            for key in one.keys().chain(only_ours) {
                let of =
                    |fields: &serde_json::Map<String, Value>| fields.get(key).cloned().unwrap_or_default();
                step(key.clone(), &of(one), &of(two));
            }
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            for (index, (theirs, ours)) in one.iter().zip(two).enumerate() {
                step(index.to_string(), theirs, ours);
            }
        }
        _ if theirs == ours => {}
        _ => found.push(Difference { path: path.clone(), theirs: theirs.clone(), ours: ours.clone() }),
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
