//! Expressions: made ready to be sent, and looked over.

use super::secrets::printable;

/// Longer expressions are not looked over: the parser's time grows with the square of the length, and nesting of
/// some 20 kB overflows its stack.
pub const MAX_CHECKED_BYTES: usize = 4 * 1024;

/// How much of a complaint is told.
const MAX_FAULT_CHARACTERS: usize = 300;

/// Numbers from here on are not looked over: the parser panics at a duration that the clock cannot hold, some 1.8e19
/// seconds.
const MAX_CHECKED_NUMBER: f64 = 1e18;

/// What looks wrong with an expression whose placeholders are filled. It is a hint and no verdict: servers accept
/// and refuse other things than this parser does.
pub fn fault(expr: &str) -> Option<String> {
    if !is_harmless(expr) {
        return None;
    }
    let complaint = promql_parser::parser::parse(expr).err()?;
    Some(printable(&complaint, MAX_FAULT_CHARACTERS))
}

/// Whether the parser survives an expression. Where a panic ends the process, a hint is not worth one, so anything
/// doubtful is left to the server.
fn is_harmless(expr: &str) -> bool {
    let mut words = expr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
    expr.len() <= MAX_CHECKED_BYTES && expr.is_ascii() && words.all(is_harmless_word)
}

fn is_harmless_word(word: &str) -> bool {
    if !word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return !["inf", "nan"].iter().any(|name| word.eq_ignore_ascii_case(name));
    }
    // A sign may follow, and an exponent after it. What is no number at all is a duration, a hexadecimal number of
    // limited length, or refused.
    !word.ends_with(['e', 'E']) && !word.parse().is_ok_and(|number: f64| number >= MAX_CHECKED_NUMBER)
}

/// Puts an expression onto one line: runs of white space become one space and comments go, except in quoted text,
/// which is what the user wrote.
pub(super) fn one_line(expr: &str) -> String {
    let mut line = String::with_capacity(expr.len());
    let mut gap = false;
    let mut rest = expr.chars();
    while let Some(next) = rest.next() {
        match next {
            // Without its end of line, a comment would swallow what follows it.
            '#' => gap = rest.by_ref().any(|c| c == '\n') || gap,
            c if c.is_whitespace() => gap = true,
            c => {
                if gap && !line.is_empty() {
                    line.push(' ');
                }
                gap = false;
                line.push(c);
                if matches!(c, '"' | '\'' | '`') {
                    copy_quoted(c, &mut rest, &mut line);
                }
            }
        }
    }
    line
}

/// Copies up to and including the closing quote.
fn copy_quoted(quote: char, rest: &mut std::str::Chars<'_>, line: &mut String) {
    while let Some(c) = rest.next() {
        line.push(c);
        if c == quote {
            return;
        }
        // In backquotes a backslash is a backslash.
        if c == '\\' && quote != '`' {
            line.extend(rest.next());
        }
    }
}

#[cfg(test)]
#[path = "promql_tests.rs"]
mod promql_tests;
