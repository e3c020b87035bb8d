//! Whether the schema of a custom resource is structural, and its defaults fit it.

use serde_json::Value;

use crate::machinery::object::{self, text};
use crate::machinery::schema::pattern::Patterns;
use crate::machinery::schema::{Cause, Schema};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// What only the structure itself may say, not what is laid over it.
const STRUCTURAL: [&str; 9] = [
    "type",
    "default",
    "nullable",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "description",
];

/// Where a schema stands within another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Root,
    Field,
    Item,
}

/// What is wrong with a schema; `at` is where it stands.
pub(super) fn causes(schema: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    structure(schema, at, Role::Root, &mut Patterns::default(), &mut causes);
    if causes.is_empty() {
        defaults(schema, at, &mut causes);
    }
    causes
}

fn is(schema: &Value, flag: &str) -> bool {
    schema.get(flag) == Some(&Value::Bool(true))
}

fn structure(schema: &Value, at: &str, role: Role, patterns: &mut Patterns, causes: &mut Vec<Cause>) {
    if schema.get("$ref").is_some() {
        causes.push(Cause::forbidden(format!("{at}.$ref"), "$ref is not supported"));
        return;
    }
    let kind = text(schema, "/type");
    let is_free =
        is(schema, "x-kubernetes-int-or-string") || is(schema, "x-kubernetes-preserve-unknown-fields");
    match (kind, role) {
        ("", Role::Root) => {
            causes.push(Cause::required(format!("{at}.type"), "must not be empty at the root"));
        }
        ("", _) if is_free => {}
        ("", Role::Field) => {
            causes
                .push(Cause::required(format!("{at}.type"), "must not be empty for specified object fields"));
        }
        ("", Role::Item) => {
            causes.push(Cause::required(format!("{at}.type"), "must not be empty for specified array items"));
        }
        (kind, _) if !TYPES.contains(&kind) => {
            causes.push(Cause::unsupported(format!("{at}.type"), &kind.into(), &TYPES));
        }
        (kind, Role::Root) if kind != "object" => {
            causes.push(Cause::invalid(format!("{at}.type"), &kind.into(), "must be object at the root"));
        }
        _ => {}
    }
    if is(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(format!("{at}.uniqueItems"), why));
    }
    let has_fields = schema.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    if has_fields && schema.get("additionalProperties").is_some() {
        let why = "additionalProperties and properties are mutual exclusive";
        causes.push(Cause::forbidden(format!("{at}.additionalProperties"), why));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        causes.extend(pattern_cause(pattern, at, patterns));
    }
    lists(schema, kind, at, causes);
    if role == Role::Root || is(schema, "x-kubernetes-embedded-resource") {
        let fields = schema.pointer("/properties/metadata/properties").and_then(Value::as_object);
        if fields.is_some_and(|fields| fields.keys().any(|name| name != "name" && name != "generateName")) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            causes.push(Cause::forbidden(format!("{at}.properties[metadata]"), why));
        }
    }
    for field in ["allOf", "anyOf", "oneOf"] {
        for (index, overlay) in object::list(schema, &format!("/{field}")).iter().enumerate() {
            laid_over(overlay, &format!("{at}.{field}[{index}]"), patterns, causes);
        }
    }
    if let Some(overlay) = schema.get("not") {
        laid_over(overlay, &format!("{at}.not"), patterns, causes);
    }
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        structure(inner, &format!("{at}.properties[{name}]"), Role::Field, patterns, causes);
    }
    if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
        structure(inner, &format!("{at}.additionalProperties"), Role::Field, patterns, causes);
    }
    if let Some(inner) = schema.get("items").filter(|inner| inner.is_object()) {
        structure(inner, &format!("{at}.items"), Role::Item, patterns, causes);
    }
}

fn pattern_cause(pattern: &str, at: &str, patterns: &mut Patterns) -> Option<Cause> {
    let why = patterns.read(pattern).err()?;
    let why =
        format!("must be a valid regular expression, but isn't: error parsing regexp: {why}: `{pattern}`");
    Some(Cause::invalid(format!("{at}.pattern"), &pattern.into(), &why))
}

fn lists(schema: &Value, kind: &str, at: &str, causes: &mut Vec<Cause>) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    if kind == "array" && !schema.get("items").is_some_and(Value::is_object) {
        causes.push(Cause::required(format!("{at}.items"), "must be specified"));
    }
    let Some(list) = schema.get("x-kubernetes-list-type").and_then(Value::as_str) else {
        return;
    };
    if kind != "array" {
        let why = "must be array if x-kubernetes-list-type is specified";
        causes.push(Cause::invalid(format!("{at}.type"), &kind.into(), why));
    }
    let known = ["atomic", "set", "map"];
    if !known.contains(&list) {
        causes.push(Cause::unsupported(format!("{at}.x-kubernetes-list-type"), &list.into(), &known));
    }
    if list != "map" {
        return;
    }
    let keys = object::list(schema, &format!("/{KEYS}"));
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(format!("{at}.{KEYS}"), why));
    }
    let items = schema.get("items").unwrap_or(&Value::Null);
    if text(items, "/type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(format!("{at}.items.type"), &text(items, "/type").into(), why));
        return;
    }
    let property =
        |key: &Value| items.get("properties").and_then(|all| all.get(key.as_str().unwrap_or_default()));
    if keys.iter().any(|key| property(key).is_none()) {
        let why = "entries must all be names of item properties";
        causes.push(Cause::invalid(format!("{at}.{KEYS}"), &keys.into(), why));
    }
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        let is_required = object::list(items, "/required").contains(key);
        if property(key).is_some_and(|property| property.get("default").is_none() && !is_required) {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(format!("{at}.items.properties[{name}].default"), why));
        }
    }
}

/// What is laid over a structure may narrow it, and say nothing of its own.
fn laid_over(schema: &Value, at: &str, patterns: &mut Patterns, causes: &mut Vec<Cause>) {
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        causes.extend(pattern_cause(pattern, at, patterns));
    }
    for field in STRUCTURAL {
        if schema.get(field).is_some() {
            causes.push(Cause::forbidden(format!("{at}.{field}"), "must be empty to be structural"));
        }
    }
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        laid_over(inner, &format!("{at}.properties[{name}]"), patterns, causes);
    }
    if let Some(inner) = schema.get("items").filter(|inner| inner.is_object()) {
        laid_over(inner, &format!("{at}.items"), patterns, causes);
    }
    for field in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in object::list(schema, &format!("/{field}")).iter().enumerate() {
            laid_over(inner, &format!("{at}.{field}[{index}]"), patterns, causes);
        }
    }
    if let Some(inner) = schema.get("not") {
        laid_over(inner, &format!("{at}.not"), patterns, causes);
    }
}

fn defaults(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let shape = Schema::of_value(schema);
        let place = format!("{at}.default");
        if shape.unknown_fields(default).is_empty() {
            for cause in shape.validate(default) {
                let dot = if cause.field.is_empty() { "" } else { "." };
                causes.push(Cause { field: format!("{place}{dot}{}", cause.field), ..cause });
            }
        } else {
            causes.push(Cause::invalid(place, default, "must not have unknown fields"));
        }
    }
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        defaults(inner, &format!("{at}.properties[{name}]"), causes);
    }
    for field in ["additionalProperties", "items"] {
        if let Some(inner) = schema.get(field).filter(|inner| inner.is_object()) {
            defaults(inner, &format!("{at}.{field}"), causes);
        }
    }
}
