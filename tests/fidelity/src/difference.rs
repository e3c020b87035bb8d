//! Where two JSON values differ.

use std::collections::BTreeSet;

use serde_json::Value;

/// Longest value that is shown, in characters: the rest of a long text says no more.
const SHOWN: usize = 900;

/// One line for each place where the two differ: ours, then theirs.
pub fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    // An answer that is another altogether is told in one line.
    if let (Some(mine), Some(other)) = (ours.get("code"), theirs.get("code"))
        && mine != other
    {
        let said = |answer: &Value| answer.pointer("/body/message").unwrap_or(&Value::Null).to_string();
        return vec![format!("\n    ours:   {mine} {}\n    theirs: {other} {}", said(ours), said(theirs))];
    }
    let mut found = Vec::new();
    compare(ours, theirs, "", &mut found);
    found
}

fn compare(ours: &Value, theirs: &Value, at: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(mine), Value::Object(other)) => {
            let names: BTreeSet<&String> = mine.keys().chain(other.keys()).collect();
            for name in names {
                let at = format!("{at}/{name}");
                match (mine.get(name), other.get(name)) {
                    (Some(mine), Some(other)) => compare(mine, other, &at, found),
                    (Some(mine), None) => {
                        found.push(format!("{at}\n    ours:   {}\n    theirs: -", shown(mine)));
                    }
                    (None, Some(other)) => {
                        found.push(format!("{at}\n    ours:   -\n    theirs: {}", shown(other)));
                    }
                    (None, None) => {}
                }
            }
        }
        (Value::Array(mine), Value::Array(other)) if mine.len() == other.len() => {
            for (index, (mine, other)) in mine.iter().zip(other).enumerate() {
                compare(mine, other, &format!("{at}/{index}"), found);
            }
        }
        _ if ours == theirs => {}
        _ => found.push(format!("{at}\n    ours:   {}\n    theirs: {}", shown(ours), shown(theirs))),
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(SHOWN).collect()
}
