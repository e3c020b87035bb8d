//! Field selectors.

use serde_json::Value;

use super::selector::SelectorError;

/// A field selector: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    /// Where it is stored.
    pointer: String,
    /// What it is when it is not there.
    unset: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Reads the text of a query, such as `metadata.name=a,status.phase!=Failed`. `known` are the kind's fields, as in
    /// `said=stored?unset`; a kind whose fields are those of all kinds is refused in other words.
    pub fn parse(text: &str, known: &[&str], has_own: bool) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_terms(text) {
            if part.is_empty() {
                continue;
            }
            let found = ["!=", "==", "="].into_iter().filter_map(|operator| {
                let at = unescaped(part, operator)?;
                Some((at, operator))
            });
            let Some((at, operator)) = found.min_by_key(|(at, operator)| (*at, usize::MAX - operator.len()))
            else {
                let why = format!("invalid selector: '{text}'; can't understand '{part}'");
                return Err(SelectorError(why));
            };
            let (field, value) = part.split_at(at);
            let value = value.get(operator.len()..).unwrap_or_default();
            let Some((stored, unset)) = known.iter().find_map(|known| stored_as(known, field)) else {
                let known: Vec<String> = known.iter().map(|field| format!("\"{field}\"")).collect();
                let why = if has_own {
                    format!("field label not supported: {field}")
                } else {
                    format!("\"{field}\" is not a known field selector: only {}", known.join(", "))
                };
                return Err(SelectorError(why));
            };
            let pointer = format!("/{}", stored.replace('.', "/"));
            let unset = unset.to_owned();
            terms.push(Term { pointer, unset, value: unescape(value), equal: operator != "!=" });
        }
        Ok(FieldSelector { terms })
    }

    /// Whether there is nothing to ask for.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object's fields satisfy it.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| {
            let value = match object.pointer(&term.pointer) {
                None | Some(Value::Null) => term.unset.clone(),
                Some(Value::String(value)) => value.clone(),
                Some(other) => other.to_string(),
            };
            (value == term.value) == term.equal
        })
    }
}

/// Where a field of this name is stored, and what it is when it is not there.
fn stored_as<'a>(known: &'a str, field: &str) -> Option<(&'a str, &'a str)> {
    let (names, unset) = known.split_once('?').unwrap_or((known, ""));
    let (said, stored) = names.split_once('=').unwrap_or((names, names));
    (said == field).then_some((stored, unset))
}

/// Splits at commas that no backslash guards.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut guarded) = (0, false);
    for (at, next) in text.char_indices() {
        match next {
            '\\' => guarded = !guarded,
            ',' if !guarded => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => guarded = false,
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

fn unescaped(text: &str, operator: &str) -> Option<usize> {
    text.match_indices(operator)
        .map(|(at, _)| at)
        .find(|at| !text.get(..*at).unwrap_or_default().ends_with('\\'))
}

fn unescape(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut guarded = false;
    for next in value.chars() {
        if next == '\\' && !guarded {
            guarded = true;
        } else {
            plain.push(next);
            guarded = false;
        }
    }
    plain
}

#[cfg(test)]
#[path = "field_selector_tests.rs"]
mod tests;
