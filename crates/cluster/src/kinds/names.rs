//! What ports, addresses and amounts may be.

use std::net::IpAddr;

use serde_json::Value;

use crate::machinery::schema::quantity;

/// The highest port.
pub(super) const MAX_PORT: i64 = 65535;
/// Longest name of a port, in characters.
const MAX_PORT_NAME: usize = 15;
pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
pub(super) const ADDRESS_RULE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// What is wrong with the name of a port.
pub(super) fn port_name_problems(name: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if name.len() > MAX_PORT_NAME {
        problems.push("must be no more than 15 characters");
    }
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        problems.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen");
    }
    problems
}

/// What is wrong with a port that is a number or a name.
pub(super) fn port_problems(port: &Value) -> Vec<&'static str> {
    match port {
        Value::String(name) => port_name_problems(name),
        other => {
            let is_port = other.as_i64().is_some_and(|number| (1..=MAX_PORT).contains(&number));
            if is_port { Vec::new() } else { vec![PORT_RANGE] }
        }
    }
}

pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// An amount in billionths.
pub(super) fn amount(value: &Value) -> Option<i128> {
    quantity::amount(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}
