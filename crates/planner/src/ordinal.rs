//! Natural order of names, and the ordinal at the end of a pod's name.

use std::cmp::Ordering;

/// Compares names as people do: runs of digits by value, all else by byte, so `z-2` comes before `z-10`.
pub fn natural(left: &str, right: &str) -> Ordering {
    let (mut left_rest, mut right_rest) = (left, right);
    loop {
        match (left_rest.is_empty(), right_rest.is_empty()) {
            // `a-01` and `a-1` are equal so far; names are unique, so the bytes decide.
            (true, true) => return left.cmp(right),
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let (left_run, left_tail) = split_run(left_rest);
        let (right_run, right_tail) = split_run(right_rest);
        let order = match (is_number(left_run), is_number(right_run)) {
            (true, true) => by_value(left_run, right_run),
            _ => left_run.cmp(right_run),
        };
        if order != Ordering::Equal {
            return order;
        }
        (left_rest, right_rest) = (left_tail, right_tail);
    }
}

/// Splits off the leading run of digits or of non-digits.
fn split_run(text: &str) -> (&str, &str) {
    let digits = is_number(text);
    let end = text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len());
    text.split_at(end)
}

fn is_number(run: &str) -> bool {
    run.starts_with(|c: char| c.is_ascii_digit())
}

/// Numbers of any length: the longer one is larger once leading zeros are gone.
fn by_value(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// The ordinal of a pod that belongs to the set `set`: `web-3` is 3 of `web`, and nothing of `web-3-x`.
pub fn of_pod(pod: &str, set: &str) -> Option<u32> {
    whole(pod.strip_prefix(set)?.strip_prefix('-')?)
}

/// The ordinal that a text is, in the one way to write it: without a sign and without leading zeros.
pub fn whole(digits: &str) -> Option<u32> {
    let canonical = digits == "0" || !digits.starts_with('0');
    let number = digits.bytes().all(|b| b.is_ascii_digit());
    (canonical && number).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
#[path = "ordinal_tests.rs"]
mod tests;
