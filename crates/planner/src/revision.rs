//! The names and the content of ControllerRevisions, byte for byte as Kubernetes makes them: a set that is handed over
//! from one controller to the other must not roll for it.
//!
//! A revision stores a patch that replaces the whole template, as canonical JSON in the way Go writes it, and its name
//! carries a hash of those bytes.

use std::fmt::Write;

use serde_json::{Map, Number, Value};

/// How much of a set's name a revision's name keeps, in bytes: with a dash and ten digits it stays below 253.
const NAME_BYTES: usize = 223;

/// The start of FNV-1 with 32 bits.
const FNV_OFFSET: u32 = 2_166_136_261;

/// Its multiplier.
const FNV_PRIME: u32 = 16_777_619;

/// The characters that stand for the digits of a hash: none that could spell a word.
const DIGITS: [char; 10] = ['4', '5', '6', '7', '8', '9', 'b', 'c', 'd', 'f'];

/// The directive that makes a patch replace an object.
const DIRECTIVE: &str = "$patch";

/// What the directive says.
const REPLACE: &str = "replace";

/// A time that servers before 1.34 write although it is unset.
const CREATION_TIMESTAMP: &str = "creationTimestamp";

/// From this magnitude on Go writes numbers with an exponent.
const LARGE: f64 = 1e21;

/// Below this magnitude too.
const SMALL: f64 = 1e-6;

/// The data of a revision with this template.
pub fn patch(template: &Value) -> String {
    let mut template = template.as_object().cloned().unwrap_or_default();
    template.insert(DIRECTIVE.to_owned(), REPLACE.into());
    let spec = Map::from_iter([("template".to_owned(), Value::Object(template))]);
    canonical(&Value::Object(Map::from_iter([("spec".to_owned(), Value::Object(spec))])))
}

/// JSON in the way Go writes what it has read without types. A revision must be sent like this: its data are stored as they
/// come, and Kubernetes' own controller compares bytes.
pub fn canonical(value: &Value) -> String {
    let mut json = String::new();
    write_value(value, &mut json);
    json
}

/// The 64-bit FNV-1a hash of some bytes, as 16 hexadecimal digits.
pub fn fnv64(bytes: &[u8]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}

/// The template in a revision's data; `None` where there is none.
pub fn template(data: &str) -> Option<Map<String, Value>> {
    let mut data: Value = serde_json::from_str(data).ok()?;
    let Value::Object(mut template) = data.pointer_mut("/spec/template")?.take() else { return None };
    let directive = template.remove(DIRECTIVE)?;
    (directive == REPLACE).then_some(template)
}

/// The hash of a revision's data after so many collisions.
pub fn hash(data: &str, collisions: u32) -> String {
    let bytes = data.bytes().chain(collisions.to_string().into_bytes());
    let sum = bytes.fold(FNV_OFFSET, |hash, byte| hash.wrapping_mul(FNV_PRIME) ^ u32::from(byte));
    let digit = |digit: char| DIGITS.get(digit.to_digit(10)? as usize);
    sum.to_string().chars().filter_map(digit).collect()
}

/// The name of a set's revision with this hash.
pub fn name(set: &str, hash: &str) -> String {
    let mut end = set.len().min(NAME_BYTES);
    while !set.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", set.get(..end).unwrap_or_default())
}

fn write_value(value: &Value, json: &mut String) {
    match value {
        Value::Null => json.push_str("null"),
        Value::Bool(truth) => json.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => write_number(number, json),
        Value::String(text) => write_text(text, json),
        Value::Array(items) => {
            json.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    json.push(',');
                }
                write_value(item, json);
            }
            json.push(']');
        }
        Value::Object(fields) => write_object(fields, json),
    }
}

/// Keys come in the order of their bytes, which is the order of the map.
fn write_object(fields: &Map<String, Value>, json: &mut String) {
    json.push('{');
    let present = fields.iter().filter(|(key, value)| !(value.is_null() && *key == CREATION_TIMESTAMP));
    for (position, (key, value)) in present.enumerate() {
        if position > 0 {
            json.push(',');
        }
        write_text(key, json);
        json.push(':');
        write_value(value, json);
    }
    json.push('}');
}

/// Go reads every number of untyped JSON as a 64-bit float, and writes it so that it reads the same.
fn write_number(number: &Number, json: &mut String) {
    let value = number.as_f64().unwrap_or_default();
    let size = value.abs();
    if size != 0.0 && !(SMALL..LARGE).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        // Writing to a text cannot fail.
        write!(json, "{digits}e{sign}{exponent}").unwrap_or_default();
    } else {
        json.push_str(&value.to_string());
    }
}

/// Go escapes what could end a script element or a line of JavaScript, besides what JSON asks for.
fn write_text(text: &str, json: &mut String) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing to a text cannot fail.
                write!(json, "\\u{:04x}", u32::from(character)).unwrap_or_default();
            }
            other => json.push(other),
        }
    }
    json.push('"');
}

#[cfg(test)]
#[path = "revision_tests.rs"]
mod tests;
