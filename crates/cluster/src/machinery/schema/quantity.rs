//! Amounts of resources, in the way in which Kubernetes writes each.

/// Nine digits behind the point are kept.
const ONE: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// How an amount is written: `1500m`, `3Gi` or `1e3`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Decimal,
    Binary,
    Exponent,
}

/// The form that the server gives back; nothing if the text is no amount, or one beyond all use.
pub(super) fn canonical(text: &str) -> Option<String> {
    let end = text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (notation, base, exponent) = scale(suffix)?;
    let amount = nanos(number, base, exponent)?;
    if is_kept(number, notation, exponent) {
        return Some(text.to_owned());
    }
    Some(match notation {
        // Small and broken amounts lose their unit rather than their meaning.
        Notation::Binary if amount.abs() >= 1024 * ONE && amount % ONE == 0 => binary(amount / ONE),
        Notation::Binary | Notation::Decimal => decimal(amount, |suffix, _| suffix.to_owned()),
        Notation::Exponent => {
            decimal(amount, |_, exponent| if exponent == 0 { String::new() } else { format!("e{exponent}") })
        }
    })
}

/// How many billionths an amount is.
pub(crate) fn amount(text: &str) -> Option<i128> {
    let end = text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (_, base, exponent) = scale(suffix)?;
    nanos(number, base, exponent)
}

/// Kubernetes leaves alone what could be canonical at a glance, such as `01`, `1.500` or `1E3`.
fn is_kept(number: &str, notation: Notation, exponent: u32) -> bool {
    /// Digits of a number that it reads at a glance.
    const GLANCE: usize = 18;
    let unsigned = number.trim_start_matches(['+', '-']);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole = whole.trim_start_matches('0');
    let digits = format!("{whole}{fraction}");
    let first_counts = !whole.is_empty() && digits.len() <= GLANCE;
    match notation {
        Notation::Binary => {
            let by_eight = digits.parse::<u64>().is_ok_and(|value| value.is_multiple_of(8));
            first_counts && fraction.is_empty() && !by_eight
        }
        Notation::Decimal | Notation::Exponent => {
            let places = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
            let thousands = exponent.checked_sub(places).is_some_and(|rest| rest.is_multiple_of(3));
            first_counts && thousands && !digits.ends_with("000")
        }
    }
}

fn scale(suffix: &str) -> Option<(Notation, i128, u32)> {
    if let Some(position) = BINARY.iter().position(|binary| *binary == suffix) {
        return Some((Notation::Binary, 1024, u32::try_from(position).ok()? + 1));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(decimal, _)| *decimal == suffix) {
        return Some((Notation::Decimal, 10, u32::try_from(exponent + 9).ok()?));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Notation::Exponent, 10, u32::try_from(exponent + 9).ok()?))
}

/// How many billionths a number and its scale are; what is smaller is rounded up.
fn nanos(number: &str, base: i128, exponent: u32) -> Option<i128> {
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains(['.', '+', '-']) {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    // The scale of decimal suffixes already counts in billionths.
    let unit = if base == 10 { 1 } else { ONE };
    let scaled = digits.checked_mul(base.checked_pow(exponent)?)?.checked_mul(unit)?;
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let rounded = scaled / divisor + i128::from(scaled % divisor != 0);
    Some(if negative { -rounded } else { rounded })
}

/// The largest unit that leaves no fraction.
fn decimal(amount: i128, suffix: impl Fn(&str, i32) -> String) -> String {
    if amount == 0 {
        return "0".to_owned();
    }
    let (mut mantissa, mut place) = (amount, 0);
    while mantissa % 1000 == 0 && place < 9 {
        mantissa /= 1000;
        place += 1;
    }
    let (unit, exponent) = DECIMAL.get(place).copied().unwrap_or_default();
    format!("{mantissa}{}", suffix(unit, exponent))
}

fn binary(amount: i128) -> String {
    let (mut mantissa, mut unit) = (amount, "");
    for next in BINARY {
        if mantissa % 1024 != 0 {
            break;
        }
        mantissa /= 1024;
        unit = next;
    }
    format!("{mantissa}{unit}")
}
