//! What a schema demands of a value besides its type.

use serde_json::Value;

use super::cel::Judge;
use super::node::{Edge, flag, text};
use super::pattern::Pattern;

/// The demands of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(super) values: Vec<Value>,
    pub(super) format: Option<String>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<Value>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) unique: bool,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) all_of: Vec<Edge>,
    pub(super) any_of: Vec<Edge>,
    pub(super) one_of: Vec<Edge>,
    pub(super) not: Option<Box<Edge>>,
    /// CEL rules.
    pub(super) judge: Option<Judge>,
}

/// How far a number may go.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) value: Value,
    pub(super) exclusive: bool,
}

impl Rules {
    pub(crate) fn has_format(&self) -> bool {
        self.format.is_some()
    }

    /// The name of the format.
    pub(super) fn format(&self) -> Option<&str> {
        self.format.as_deref()
    }

    pub(super) fn read(
        schema: &Value,
        pattern: Option<Pattern>,
        mut edge: impl FnMut(&Value) -> Edge,
    ) -> Self {
        let count = |name| schema.get(name).and_then(Value::as_u64);
        let list = |name| schema.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let number = |name| schema.get(name).filter(|value| value.is_number()).cloned();
        let bound =
            |name, exclusive| number(name).map(|value| Bound { value, exclusive: flag(schema, exclusive) });
        let mut edges = |name| list(name).iter().map(&mut edge).collect();
        Rules {
            values: list("enum"),
            format: text(schema, "format").map(str::to_owned),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern,
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique: flag(schema, "uniqueItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: edges("allOf"),
            any_of: edges("anyOf"),
            one_of: edges("oneOf"),
            not: schema.get("not").map(|schema| Box::new(edge(schema))),
            judge: Judge::read(schema),
        }
    }
}
