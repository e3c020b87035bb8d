//! The formats of strings that Kubernetes checks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::{Timestamp, civil::Date};

/// Whether a text has a format; formats that nobody checks are always met.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "datetime" => text.parse::<Timestamp>().is_ok(),
        "date" => text.len() == "2006-01-02".len() && text.parse::<Date>().is_ok(),
        "duration" => is_duration(text),
        "byte" => is_base64(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" => is_uuid(text),
        "k8sshortname" => is_label(text),
        "k8slongname" => text.len() <= MAX_NAME && text.split('.').all(is_segment),
        _ => true,
    }
}

/// Characters of a DNS label and of a whole name.
const MAX_LABEL: usize = 63;
const MAX_NAME: usize = 253;

fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_segment(text)
}

fn is_segment(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(inner)
}

/// As Go reads durations: `1h30m`, `1.5s`, `-2ms`.
fn is_duration(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    let mut rest = unsigned;
    while !rest.is_empty() {
        let amount =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(amount);
        let unit = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let named = matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h");
        if !named || !number.contains(|digit: char| digit.is_ascii_digit()) || number.matches('.').count() > 1
        {
            return false;
        }
        rest = after;
    }
    !unsigned.is_empty()
}

fn is_base64(text: &str) -> bool {
    let unpadded = text.trim_end_matches('=');
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    text.len().is_multiple_of(4) && text.len() - unpadded.len() <= 2 && unpadded.bytes().all(letter)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').map(str::len).collect();
    let shape = matches!(groups.as_slice(), [8, 4, 4, 4, 12] | [32]);
    shape && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}
