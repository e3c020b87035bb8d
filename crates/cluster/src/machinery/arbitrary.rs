//! Random JSON that looks like objects often enough to get deep into the code.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::schema::{Definitions, Schema};

/// Fields of objects and directives of patches.
const NAMES: [&str; 34] = [
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "labels",
    "finalizers",
    "ownerReferences",
    "uid",
    "managedFields",
    "fieldsV1",
    "fieldsType",
    "operation",
    "manager",
    "f:spec",
    "k:{\"name\":\"a\"}",
    "spec",
    "containers",
    "env",
    "ports",
    "containerPort",
    "volumes",
    "resources",
    "status",
    "conditions",
    "type",
    "parts",
    "tags",
    "free",
    "size",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$setElementOrder/env",
    "$deleteFromPrimitiveList/finalizers",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(0_i64), Just(80), Just(-1), any::<i64>()].prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof!["[ab]", "delete|replace|merge", "Apply|Update|FieldsV1|v1", "/[a-z/~01-]{0,8}"]
            .prop_map(Value::from),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![8 => proptest::sample::select(&NAMES[..]).prop_map(str::to_owned), 1 => "[a-c]"]
}

/// Any JSON of a moderate size.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(6, 48, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name(), inner, 0..5)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// Any JSON object.
pub(crate) fn object() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map(name(), value(), 0..5).prop_map(|fields| fields.into_iter().collect())
}

/// The container list of a pod: names, images and variables from a few.
pub(crate) fn containers() -> impl Strategy<Value = Value> {
    let texts = |name: &'static str, values: &'static [&'static str]| {
        proptest::option::of(proptest::sample::select(values))
            .prop_map(move |value| value.map(|value| (name, json!(value))))
    };
    let variable = (proptest::sample::select(&["A", "B", "C"][..]), texts("value", &["1", "2"]))
        .prop_map(|(name, value)| named(name, value));
    let variables = by_name(proptest::collection::vec(variable, 0..3).boxed())
        .prop_map(|list| (!list.is_empty()).then(|| ("env", Value::from(list))));
    let container =
        (proptest::sample::select(&["a", "b", "c"][..]), texts("image", &["x:1", "x:2"]), variables)
            .prop_map(|(name, image, env)| named(name, image.into_iter().chain(env)));
    by_name(proptest::collection::vec(container, 0..4).boxed()).prop_map(Value::from)
}

fn named(name: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let mut object = Map::new();
    object.insert("name".to_owned(), json!(name));
    object.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Value::Object(object)
}

/// Lists in which each name comes once.
fn by_name(lists: BoxedStrategy<Vec<Value>>) -> impl Strategy<Value = Vec<Value>> {
    lists.prop_map(|mut list| {
        let mut seen = std::collections::BTreeSet::new();
        list.retain(|item| seen.insert(item["name"].to_string()));
        list
    })
}

/// A pod with these containers.
pub(crate) fn pod(containers: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "containers": containers } })
}

static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| Definitions::built_in().unwrap());

/// The shape of a built-in kind.
pub(crate) fn built_in(group: &str, kind: &str) -> Schema {
    DEFINITIONS.kind(group, "v1", kind).unwrap()
}

/// The shape of a custom resource.
pub(crate) fn custom(schema: &Value) -> Schema {
    DEFINITIONS.custom(schema)
}

/// A custom resource with a list of each type.
pub(crate) fn thing() -> Schema {
    static THING: LazyLock<Schema> = LazyLock::new(|| custom(&thing_schema()));
    THING.clone()
}

fn thing_schema() -> Value {
    json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": {
            "size": { "type": "integer", "default": 1 },
            "tags": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": { "type": "object", "required": ["name"], "properties": {
                    "name": { "type": "string" }, "on": { "type": "boolean", "default": true },
                } },
            },
        } },
        "status": { "type": "object", "properties": { "ready": { "type": "boolean" } } },
    } })
}
