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
        let mut read = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let Some((field, operator, value)) = split_term(part) else {
                let why = format!("invalid selector: '{text}'; can't understand '{part}'");
                return Err(SelectorError(why));
            };
            read.push((field, operator != "!=", unescape(value)?));
        }
        // Whether fields are known is asked of a text that can be read.
        let mut terms = Vec::new();
        for (field, equal, value) in read {
            let Some((stored, unset)) = known.iter().find_map(|known| stored_as(known, field)) else {
                let known: Vec<String> = known.iter().map(|field| format!("\"{field}\"")).collect();
                let why = if has_own {
                    format!("field label not supported: {field}")
                } else {
                    format!("{field:?} is not a known field selector: only {}", known.join(", "))
                };
                return Err(SelectorError(why));
            };
            let pointer = format!("/{}", stored.replace('.', "/"));
            terms.push(Term { pointer, unset: unset.to_owned(), value, equal });
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

/// Field, operator and value of a term; the first operator counts, escaped or not.
fn split_term(term: &str) -> Option<(&str, &'static str, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (field, rest) = term.split_at(at);
        ["!=", "==", "="]
            .into_iter()
            .find_map(|operator| Some((field, operator, rest.strip_prefix(operator)?)))
    })
}

/// A value without its backslashes, or what Kubernetes has against it; it shows letters that are not escaped as numbers.
fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => escaped,
                other => {
                    let shown: String = ['\\'].into_iter().chain(other).collect();
                    let why = format!("invalid field selector: invalid escape sequence: {shown}");
                    return Err(SelectorError(why));
                }
            },
            ',' | '=' => {
                let why =
                    format!("invalid field selector: unescaped character in value: {}", u32::from(letter));
                return Err(SelectorError(why));
            }
            letter => letter,
        });
    }
    Ok(plain)
}

#[cfg(test)]
#[path = "field_selector_tests.rs"]
mod tests;
