//! What is wrong with a value, in Kubernetes' words.

use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::{
    Cause, Kind, List, Path, View, format,
    rules::{Bound, Rules},
};

/// All causes why a value does not fit, in the order of the value.
pub(super) fn validate(value: &Value, view: View<'_>) -> Vec<Cause> {
    let mut found = Findings::default();
    found.check(value, view, &Path::default());
    found.check_uniqueness(value, view, &Path::default());
    found.causes
}

/// Whether a complaint is about something that did not change.
pub(super) fn is_old(field: &str, object: &Value, before: &Value) -> bool {
    // Items of lists may have moved: for them the whole list counts.
    let fields = field.split('[').next().unwrap_or_default();
    let (mut object, mut before) = (object, before);
    for name in fields.split('.') {
        let (Some(inner), Some(old)) = (object.get(name), before.get(name)) else { return false };
        if inner == old {
            return true;
        }
        (object, before) = (inner, old);
    }
    false
}

/// Calls with everything directly inside that the schema knows.
fn each(value: &Value, view: View<'_>, at: &Path, mut visit: impl FnMut(&Value, View<'_>, &Path)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(property) = view.property(name) {
                    visit(field, property, &at.field(name));
                } else if let Some(other) = view.other() {
                    visit(field, other, &at.key(name));
                }
            }
        }
        Value::Array(items) => {
            if let Some(view) = view.items() {
                items.iter().enumerate().for_each(|(index, item)| visit(item, view, &at.index(index)));
            }
        }
        _ => {}
    }
}

/// Kubernetes reports what concerns no field in particular at the place of a missing pointer.
pub(super) const NOWHERE: &str = "<nil>";

/// Bytes of complaints that are told of one object: each says where, and names may be long.
const MAX_TOLD: usize = 3 * 1024 * 1024;

#[derive(Default)]
struct Findings {
    causes: Vec<Cause>,
    /// Bytes of them.
    told: usize,
}

impl Findings {
    fn push(&mut self, cause: Cause) {
        if self.told <= MAX_TOLD {
            self.told += cause.field.len() + cause.message.len();
            self.causes.push(cause);
        }
    }

    fn extend(&mut self, found: Findings) {
        found.causes.into_iter().for_each(|cause| self.push(cause));
    }

    fn add(&mut self, at: &Path, reason: &'static str, message: String) {
        self.push(Cause { field: at.to_string(), reason, message });
    }

    fn invalid(&mut self, at: &Path, value: &Value, complaint: &str) {
        let message = format!("Invalid value: {}: {at} in body {complaint}", shown(value));
        self.add(at, "FieldValueInvalid", message);
    }

    fn mistyped(&mut self, at: &Path, wanted: &str, actual: &str) {
        let message = format!("Invalid value: {actual:?}: {at} in body must be of type {wanted}: {actual:?}");
        self.add(at, "FieldValueTypeInvalid", message);
    }

    fn nowhere(&mut self, message: &str) {
        let message = format!("Invalid value: \"\": {message}");
        self.push(Cause { field: NOWHERE.to_owned(), reason: "FieldValueInvalid", message });
    }

    fn check(&mut self, value: &Value, view: View<'_>, at: &Path) {
        let node = view.node();
        let typed = fits(value, node.kind) || (value.is_null() && node.nullable);
        if let (false, Some(wanted)) = (typed, wording(node.kind)) {
            self.mistyped(at, wanted, type_name(value));
        }
        if value.is_null() {
            return;
        }
        self.check_alternatives(value, view, at);
        match value {
            Value::String(text) => self.check_text(text, &node.rules, at),
            Value::Number(number) => self.check_number(number, node.kind, &node.rules, at),
            Value::Array(items) => self.check_items(items, view, at),
            _ => {}
        }
        self.check_values(value, &node.rules, at);
        if let Value::Object(_) = value {
            self.check_object(value, view, at);
        }
    }

    fn check_text(&mut self, text: &str, rules: &Rules, at: &Path) {
        let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        let value = Value::from(text);
        match (rules.max_length, rules.min_length, &rules.pattern) {
            (Some(most), ..) if length > most => {
                let message = format!("Too long: may not be more than {most} {}", plural(most, "byte"));
                self.add(at, "FieldValueTooLong", message);
            }
            (_, Some(least), _) if length < least => {
                self.invalid(at, &value, &format!("should be at least {least} chars long"));
            }
            (.., Some(pattern)) if !pattern.is_match(text) => {
                self.invalid(at, &value, &format!("should match '{}'", pattern.said));
            }
            _ => {}
        }
        if let Some(name) = rules.format.as_deref().filter(|name| !format::fits(name, text)) {
            self.mistyped(at, name, text);
        }
    }

    fn check_number(&mut self, number: &Number, kind: Kind, rules: &Rules, at: &Path) {
        let value = Value::Number(number.clone());
        if kind == Kind::Integer {
            let narrow = rules.format.as_deref() == Some("int32");
            let whole = number.as_i64().or_else(|| whole(number));
            let inside = whole.is_some_and(|whole| !narrow || i32::try_from(whole).is_ok());
            let named = rules
                .format
                .as_ref()
                .map_or("(default format)".to_owned(), |name| format!("with format {name}"));
            if !inside {
                self.nowhere(&format!("Checked value must be of type integer {named} in {at}"));
            }
        }
        if let Some(factor) = &rules.multiple_of {
            self.check_factor(number, factor, at);
        }
        let amount = number.as_f64().unwrap_or(f64::NAN);
        if let Some(Bound { value: bound, exclusive }) = &rules.minimum {
            let least = bound.as_f64().unwrap_or(f64::NAN);
            let (low, or_equal) =
                if *exclusive { (amount <= least, "") } else { (amount < least, " or equal to") };
            if low {
                self.invalid(at, &value, &format!("should be greater than{or_equal} {bound}"));
            }
        }
        if let Some(Bound { value: bound, exclusive }) = &rules.maximum {
            let most = bound.as_f64().unwrap_or(f64::NAN);
            let (high, or_equal) =
                if *exclusive { (amount >= most, "") } else { (amount > most, " or equal to") };
            if high {
                self.invalid(at, &value, &format!("should be less than{or_equal} {bound}"));
            }
        }
    }

    /// Kubernetes divides whole numbers by whole factors only, and a half is none.
    fn check_factor(&mut self, number: &Number, factor: &Value, at: &Path) {
        let whole_factor = factor.as_i64().or_else(|| factor.as_f64().and_then(truncated));
        match (number.as_i64(), whole_factor) {
            (Some(_), Some(factor)) if factor <= 0 => {
                let message = format!(
                    "Invalid value: {factor}: factor MultipleOf declared for {at} must be positive: {factor}"
                );
                self.add(at, "FieldValueInvalid", message);
            }
            (Some(number), Some(whole)) if number % whole == 0 => {}
            (None, _) if is_multiple(number, factor) => {}
            _ => {
                self.invalid(
                    at,
                    &Value::Number(number.clone()),
                    &format!("should be a multiple of {factor}"),
                );
            }
        }
    }

    fn check_items(&mut self, items: &[Value], view: View<'_>, at: &Path) {
        let rules = &view.node().rules;
        if let Some(view) = view.items() {
            items.iter().enumerate().for_each(|(index, item)| self.check(item, view, &at.index(index)));
        }
        let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
        // The count stands where other complaints have the value, and is none: Kubernetes shows it as text.
        if let Some(least) = rules.min_items.filter(|&least| count < least) {
            self.invalid(at, &Value::from(count), &format!("should have at least {least} items"));
        }
        if let Some(most) = rules.max_items.filter(|&most| count > most) {
            self.too_many(at, count, most);
        }
        let distinct: BTreeSet<_> = items.iter().map(ToString::to_string).collect();
        if rules.unique && distinct.len() < items.len() {
            self.invalid(at, &Value::from(""), "shouldn't contain duplicates");
        }
    }

    fn too_many(&mut self, at: &Path, count: u64, most: u64) {
        let message = format!("Too many: {count}: must have at most {most} {}", plural(most, "item"));
        self.add(at, "FieldValueTooMany", message);
    }

    fn check_values(&mut self, value: &Value, rules: &Rules, at: &Path) {
        if rules.values.is_empty() || rules.values.contains(value) {
            return;
        }
        let name = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let supported: Vec<_> = rules.values.iter().map(|value| format!("{:?}", name(value))).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", shown(value), supported.join(", "));
        self.add(at, "FieldValueNotSupported", message);
    }

    fn check_object(&mut self, value: &Value, view: View<'_>, at: &Path) {
        let Value::Object(fields) = value else { return };
        let node = view.node();
        let count = u64::try_from(fields.len()).unwrap_or(u64::MAX);
        if let Some(least) = node.rules.min_properties.filter(|&least| count < least) {
            self.invalid(at, &Value::from(count), &format!("should have at least {least} properties"));
        }
        if let Some(most) = node.rules.max_properties.filter(|&most| count > most) {
            self.too_many(at, count, most);
        }
        for (name, field) in fields {
            // A map's key reads like a field here.
            if let Some(member) = view.member(name) {
                self.check(field, member, &at.field(name));
            }
        }
        let embedded: &[&str] = if node.embedded { &["apiVersion", "kind"] } else { &[] };
        let required = node.required.iter().map(String::as_str);
        for name in required.chain(embedded.iter().copied()).filter(|&name| !fields.contains_key(name)) {
            self.add(&at.field(name), "FieldValueRequired", "Required value".to_owned());
        }
    }

    fn check_alternatives(&mut self, value: &Value, view: View<'_>, at: &Path) {
        let rules = &view.node().rules;
        let findings = |edge| {
            let mut found = Findings::default();
            found.check(value, view.along(edge), at);
            found
        };
        let (valid, best) = judged(rules.any_of.iter().map(findings));
        if !rules.any_of.is_empty() && valid == 0 {
            self.nowhere(&format!("{:?} must validate at least one schema (anyOf)", at.to_string()));
            self.extend(best);
        }
        let (valid, best) = judged(rules.one_of.iter().map(findings));
        if !rules.one_of.is_empty() && valid != 1 {
            let counted = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            self.nowhere(&format!(
                "{:?} must validate one and only one schema (oneOf). {counted}",
                at.to_string()
            ));
            if valid == 0 {
                self.extend(best);
            }
        }
        let mut valid = 0;
        for found in rules.all_of.iter().map(findings) {
            valid += usize::from(found.causes.is_empty());
            self.extend(found);
        }
        if valid < rules.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.nowhere(&format!("{:?} must validate all the schemas (allOf){none}", at.to_string()));
        }
        if rules.not.as_deref().is_some_and(|edge| findings(edge).causes.is_empty()) {
            self.nowhere(&format!("{:?} must not validate the schema (not)", at.to_string()));
        }
    }

    fn check_uniqueness(&mut self, value: &Value, view: View<'_>, at: &Path) {
        if let Value::Array(items) = value {
            self.check_keys(items, &view.node().list, at);
        }
        each(value, view, at, |value, view, at| self.check_uniqueness(value, view, at));
    }

    /// The second of equal items is reported, the third is not.
    fn check_keys(&mut self, items: &[Value], list: &List, at: &Path) {
        let keys: Vec<_> = match list {
            List::Atomic => return,
            List::Set => items.to_vec(),
            List::Map(keys) => {
                let key = |item: &Value| {
                    keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect()
                };
                items.iter().map(|item| Value::Object(key(item))).collect()
            }
        };
        let (mut seen, mut reported) = (BTreeSet::new(), BTreeSet::new());
        for (index, key) in keys.iter().enumerate() {
            let text = key.to_string();
            if !seen.insert(text.clone()) && reported.insert(text) {
                self.add(&at.index(index), "FieldValueDuplicate", format!("Duplicate value: {}", shown(key)));
            }
        }
    }
}

/// How many alternatives have nothing against a value, and what the first of those that have the least says.
fn judged(alternatives: impl Iterator<Item = Findings>) -> (usize, Findings) {
    let (mut valid, mut best) = (0, None::<Findings>);
    for found in alternatives {
        valid += usize::from(found.causes.is_empty());
        if best.as_ref().is_none_or(|best| found.causes.len() < best.causes.len()) {
            best = Some(found);
        }
    }
    (valid, best.unwrap_or_default())
}

fn fits(value: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Any => true,
        Kind::Object => value.is_object(),
        Kind::Array => value.is_array(),
        Kind::String => value.is_string(),
        Kind::Boolean => value.is_boolean(),
        Kind::Number => value.is_number(),
        Kind::Quantity => value.is_string() || value.is_number(),
        Kind::Integer => is_whole(value),
        Kind::IntOrString => value.is_string() || is_whole(value),
    }
}

fn is_whole(value: &Value) -> bool {
    matches!(value, Value::Number(number) if number.is_i64() || number.is_u64() || whole(number).is_some())
}

/// What a number without a fraction counts.
fn whole(number: &Number) -> Option<i64> {
    /// Doubles are exact up to here.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value = number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() <= EXACT)?;
    format!("{value:.0}").parse().ok()
}

fn truncated(value: f64) -> Option<i64> {
    Number::from_f64(value.trunc()).as_ref().and_then(whole)
}

fn is_multiple(number: &Number, factor: &Value) -> bool {
    let (Some(number), Some(factor)) = (number.as_f64(), factor.as_f64()) else { return false };
    (number / factor).fract() == 0.0
}

/// The types that a kind stands for; any value fits the rest.
fn wording(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Any => None,
        Kind::Object => Some("object"),
        Kind::Array => Some("array"),
        Kind::String => Some("string"),
        Kind::Integer => Some("integer"),
        Kind::Number => Some("number"),
        Kind::Boolean => Some("boolean"),
        Kind::IntOrString => Some("integer,string"),
        Kind::Quantity => Some("string,number"),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Values as complaints show them, which is as JSON.
fn shown(value: &Value) -> String {
    value.to_string()
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}
