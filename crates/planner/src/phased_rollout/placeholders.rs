//! What stands for what in a query.

use super::answer::QueryError;

/// How long an expression may get, in bytes, when its placeholders are filled in. The schema allows 16 KiB before that;
/// this is room for the names of some thousand updated pods, and servers compile such an alternation anew each time.
pub const MAX_FILLED_BYTES: usize = 64 * 1024;

/// No pod has this name, so that a query about updated pods is about none before the first.
const NO_POD: &str = "-";

/// What a query may name of the step it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryContext<'a> {
    pub namespace: &'a str,
    pub set: &'a str,
    /// The pod that the step is about: the last one let go, or before that the first to go.
    pub pod: &'a str,
    /// The pods of the new revision.
    pub updated: Vec<&'a str>,
    /// The new revision.
    pub revision: &'a str,
}

impl QueryContext<'_> {
    /// Fills the placeholders in; whatever else stands between braces is none of them and stays.
    pub fn fill(&self, expr: &str) -> Result<String, QueryError> {
        let mut filled = Filled(String::with_capacity(expr.len()));
        let mut rest = expr;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push(before)?;
            rest = match after.split_once('}') {
                Some((name, behind)) if self.fill_in(name, &mut filled)? => behind,
                _ => {
                    filled.push("${")?;
                    after
                }
            };
        }
        filled.push(rest)?;
        Ok(filled.0)
    }

    /// Writes what a placeholder stands for, unless it is none.
    fn fill_in(&self, name: &str, filled: &mut Filled) -> Result<bool, QueryError> {
        match name {
            "namespace" => filled.push(self.namespace)?,
            "set" => filled.push(self.set)?,
            "pod" => filled.push(self.pod)?,
            "revision" => filled.push(self.revision)?,
            "updatedPods" => self.alternation(filled)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `web-2|web-1`; a dot in a name is a dot, in any kind of quotes.
    fn alternation(&self, filled: &mut Filled) -> Result<(), QueryError> {
        for (position, pod) in self.updated.iter().enumerate() {
            filled.push(if position == 0 { "" } else { "|" })?;
            filled.push(&pod.replace('.', "[.]"))?;
        }
        if self.updated.is_empty() { filled.push(NO_POD) } else { Ok(()) }
    }
}

/// An expression that does not outgrow its limit: the names of ten thousand pods, a thousand times over, would not fit
/// into memory.
struct Filled(String);

impl Filled {
    fn push(&mut self, text: &str) -> Result<(), QueryError> {
        if self.0.len().saturating_add(text.len()) > MAX_FILLED_BYTES {
            return Err(QueryError::Config(format!(
                "with its placeholders filled in it is longer than {} KiB: match pods by ${{set}} or ${{revision}} \
                 instead of ${{updatedPods}}",
                MAX_FILLED_BYTES / 1024
            )));
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
#[path = "placeholders_tests.rs"]
mod tests;
