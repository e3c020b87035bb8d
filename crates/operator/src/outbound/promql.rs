//! Expressions: made ready to be sent, and looked over.

use super::secrets::printable;

/// Longer expressions are not looked over: the parser's time grows with the square of the length, and nesting of
/// some 20 kB overflows its stack.
pub const MAX_CHECKED_BYTES: usize = 4 * 1024;

/// How much of a complaint is told.
const MAX_FAULT_CHARACTERS: usize = 300;

/// What looks wrong with an expression whose placeholders are filled. It is a hint and no verdict: servers accept
/// and refuse other things than this parser does.
pub fn fault(expr: &str) -> Option<String> {
    if expr.len() > MAX_CHECKED_BYTES {
        return None;
    }
    let complaint = promql_parser::parser::parse(expr).err()?;
    Some(printable(&complaint, MAX_FAULT_CHARACTERS))
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
