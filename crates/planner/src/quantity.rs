//! Quantities of Kubernetes, such as `1.5Gi`: the API server writes them in words of its own.

use serde_json::Value;

/// Suffixes that multiply by a power of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Suffixes that multiply by a power of two.
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The unit that quantities are counted in, as a power of ten: the API server knows no smaller one and rounds up.
const UNIT: i32 = -9;

/// A quantity in billionths. `None` for what is none, or too large to be compared.
pub fn quantity(value: &Value) -> Option<u128> {
    match value {
        Value::Number(number) => parse(&number.to_string()),
        Value::String(text) => parse(text),
        _ => None,
    }
}

fn parse(text: &str) -> Option<u128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    let (binary, decimal) = factor(suffix)?;
    let scaled = digits.checked_mul(1_u128.checked_shl(binary)?)?;
    let power = decimal.checked_sub(places)?.checked_sub(UNIT)?;
    let factor = 10_u128.checked_pow(power.unsigned_abs());
    if power < 0 {
        // A divisor that is larger than all numbers leaves the smallest quantity there is.
        Some(factor.map_or(u128::from(scaled > 0), |divisor| scaled.div_ceil(divisor)))
    } else {
        scaled.checked_mul(factor?)
    }
}

/// What a suffix stands for, as powers of two and of ten.
fn factor(suffix: &str) -> Option<(u32, i32)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((0, *power));
    }
    if let Some((_, power)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((*power, 0));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((0, exponent.parse().ok()?))
}

#[cfg(test)]
#[path = "quantity_tests.rs"]
mod tests;
