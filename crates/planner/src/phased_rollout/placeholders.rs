//! What stands for what in a query.

use std::fmt::Write;

/// No pod has this name, so that a query about updated pods is about none before the first.
const NO_POD: &str = "-";

/// What a query may name of the step it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The set.
    pub set: &'a str,
    /// The pod that the step is about: the last one let go, or before that the first to go.
    pub pod: &'a str,
    /// The pods of the new revision.
    pub updated: Vec<&'a str>,
    /// The new revision.
    pub revision: &'a str,
}

impl Subject<'_> {
    /// Fills the placeholders in; whatever else stands between braces is none of them and stays.
    pub fn fill(&self, expr: &str) -> String {
        let mut filled = String::with_capacity(expr.len());
        let mut rest = expr;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            let known = after.split_once('}').and_then(|(name, after)| Some((self.value(name)?, after)));
            if let Some((value, after)) = known {
                filled.push_str(&value);
                rest = after;
            } else {
                filled.push_str("${");
                rest = after;
            }
        }
        filled.push_str(rest);
        filled
    }

    fn value(&self, name: &str) -> Option<String> {
        let value = match name {
            "namespace" => self.namespace.to_owned(),
            "set" => self.set.to_owned(),
            "pod" => self.pod.to_owned(),
            "revision" => self.revision.to_owned(),
            "updatedPods" => self.alternation(),
            _ => return None,
        };
        Some(value)
    }

    /// `web-2|web-1`; a dot in a name is a dot, in any kind of quotes.
    fn alternation(&self) -> String {
        let mut names = String::new();
        for (position, pod) in self.updated.iter().enumerate() {
            let separator = if position == 0 { "" } else { "|" };
            // Writing to a string does not fail.
            write!(names, "{separator}{}", pod.replace('.', "[.]")).ok();
        }
        if names.is_empty() { NO_POD.to_owned() } else { names }
    }
}

#[cfg(test)]
#[path = "placeholders_tests.rs"]
mod tests;
