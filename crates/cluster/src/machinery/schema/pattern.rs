//! Patterns, as Go reads them.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

/// What a pattern may take up in memory, in bytes, from the usual to the largest.
const SIZES: [usize; 3] = [64 * 1024, 512 * 1024, 4 * 1024 * 1024];
/// Bytes that the patterns of one schema may take up together, tries included: a few bytes of text can be a program of
/// megabytes. A second or two without optimisation.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// A pattern as it was said, and what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(super) said: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// The patterns of a schema; many are the same.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    known: BTreeMap<String, Pattern>,
    bytes: usize,
}

/// Why a pattern is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("missing closing )")]
    Unclosed,
    #[error("invalid or unsupported Perl syntax")]
    Syntax,
    #[error("invalid repeat count")]
    TooLarge,
}

impl Patterns {
    pub(crate) fn read(&mut self, pattern: &str) -> Result<Pattern, PatternError> {
        if let Some(known) = self.known.get(pattern) {
            return Ok(known.clone());
        }
        let translated = translated(pattern);
        for size in SIZES {
            if self.bytes + size > MAX_BYTES {
                break;
            }
            self.bytes += size;
            match RegexBuilder::new(&translated).size_limit(size).build() {
                Ok(regex) => {
                    let read = Pattern { said: pattern.to_owned(), regex };
                    self.known.insert(pattern.to_owned(), read.clone());
                    return Ok(read);
                }
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => {
                    let is_open = pattern.matches('(').count() > pattern.matches(')').count();
                    return Err(if is_open { PatternError::Unclosed } else { PatternError::Syntax });
                }
            }
        }
        Err(PatternError::TooLarge)
    }
}

/// A pattern in the words of our library: in Go, classes of letters are those of ASCII, and a bracket within brackets
/// is a bracket.
fn translated(pattern: &str) -> String {
    let mut translated = String::with_capacity(pattern.len());
    let mut letters = pattern.chars().peekable();
    // How many letters of a class were read; none outside of one.
    let mut within: Option<usize> = None;
    while let Some(letter) = letters.next() {
        match (letter, within) {
            ('\\', _) => {
                let escaped = letters.next();
                match (escaped, within) {
                    (Some('d'), _) => translated.push_str("[0-9]"),
                    (Some('D'), _) => translated.push_str("[^0-9]"),
                    (Some('w'), _) => translated.push_str("[0-9A-Za-z_]"),
                    (Some('W'), _) => translated.push_str("[^0-9A-Za-z_]"),
                    (Some('s'), _) => translated.push_str("[\\t\\n\\f\\r ]"),
                    (Some('S'), _) => translated.push_str("[^\\t\\n\\f\\r ]"),
                    (Some('b'), None) => translated.push_str("(?-u:\\b)"),
                    (other, _) => {
                        translated.push('\\');
                        translated.extend(other);
                    }
                }
                within = within.map(|read| read + 1);
            }
            ('[', None) => {
                within = Some(0);
                translated.push('[');
                translated.extend(letters.next_if_eq(&'^'));
            }
            ('[', Some(read)) => {
                translated.push_str(if letters.peek() == Some(&':') { "[" } else { "\\[" });
                within = Some(read + 1);
                if letters.peek() == Some(&':') {
                    // As in [[:alpha:]], up to its end.
                    for inner in letters.by_ref() {
                        translated.push(inner);
                        if inner == ']' {
                            break;
                        }
                    }
                }
            }
            // A bracket that comes first does not close.
            (']', Some(1..)) => {
                within = None;
                translated.push(']');
            }
            ('&' | '~', Some(read)) => {
                translated.push('\\');
                translated.push(letter);
                within = Some(read + 1);
            }
            (letter, Some(read)) => {
                translated.push(letter);
                within = Some(read + 1);
            }
            (letter, None) => translated.push(letter),
        }
    }
    translated
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
