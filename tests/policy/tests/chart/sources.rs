//! The chart's files among themselves and with the rest of the repository; no helm needed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sts_plus_operator::controllers::CONTROLLERS;

use crate::helm::root;

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn values() -> Value {
    yaml("charts/sts-plus/values.yaml")
}

pub(crate) fn versions_agree() {
    let chart = yaml("charts/sts-plus/Chart.yaml");
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

pub(crate) fn image_agrees_with_chart() {
    let containerfile = text("Containerfile");
    let deployment = text("charts/sts-plus/templates/deployment.yaml");
    for line in [
        format!("FROM rust:{} AS build", env!("CARGO_PKG_RUST_VERSION")),
        format!("EXPOSE {}", values()["serverPort"]),
        "USER 65532:65532".to_owned(),
    ] {
        assert!(containerfile.lines().any(|found| found == line), "{line}");
    }
    assert!(deployment.contains("runAsUser: 65532\n"));
}

/// Whoever reads values.yaml finds a comment right above each key and each list item.
pub(crate) fn every_value_is_documented() {
    let values = text("charts/sts-plus/values.yaml");
    let lines: Vec<_> = values.lines().map(str::trim).collect();
    let bare: Vec<_> = lines
        .windows(2)
        .filter(|pair| !pair[1].is_empty() && !pair[1].starts_with('#') && !pair[0].starts_with('#'))
        .map(|pair| pair[1])
        .collect();
    assert!(lines[0].starts_with('#') && bare.is_empty(), "without a comment: {bare:?}");
}

/// Every key with what it holds, by its path; lists and empty maps are leaves.
fn leaves(prefix: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
    let Some(map) = value.as_object().filter(|map| !map.is_empty()) else {
        found.insert(prefix.to_owned(), value.clone());
        return;
    };
    for (key, value) in map {
        leaves(&format!("{prefix}/{key}"), value, found);
    }
}

/// Every key that a schema names, by its path; what it refers to with `$ref` is free in its keys.
fn schema_keys(prefix: &str, schema: &Value, found: &mut Vec<String>) {
    let Some(map) = schema["properties"].as_object() else {
        found.push(prefix.to_owned());
        return;
    };
    for (key, value) in map {
        schema_keys(&format!("{prefix}/{key}"), value, found);
    }
}

pub(crate) fn schema_and_values_name_the_same_keys() {
    let schema: Value = serde_json::from_str(&text("charts/sts-plus/values.schema.json")).unwrap();
    let mut named = Vec::new();
    schema_keys("", &schema, &mut named);
    named.retain(|key| key != "/global");
    let mut set = BTreeMap::new();
    leaves("", &values(), &mut set);
    for key in &named {
        assert!(values().pointer(key).is_some(), "values.yaml lacks {key}");
    }
    for key in set.keys() {
        let known = |name: &String| key == name || key.starts_with(&format!("{name}/"));
        assert!(named.iter().any(known), "the schema lacks {key}");
    }
}

/// The schema accepts, values.yaml explains and the default selects what the table of controllers has.
pub(crate) fn the_chart_knows_the_controllers_there_are() {
    let schema: Value = serde_json::from_str(&text("charts/sts-plus/values.schema.json")).unwrap();
    let names: Vec<_> = CONTROLLERS.iter().map(|row| row.name).collect();
    assert_eq!(schema.pointer("/properties/controllers/items/enum"), Some(&json!(names)));
    let defaults: Vec<_> = CONTROLLERS.iter().filter(|row| row.is_default).map(|row| row.name).collect();
    assert_eq!(values()["controllers"], json!(defaults));
    let values = text("charts/sts-plus/values.yaml");
    for row in CONTROLLERS {
        let line = format!("#   {}: {}", row.name, row.about);
        assert!(values.lines().any(|found| found == line), "values.yaml lacks {line:?}");
    }
}

/// So that a test of all values is one, also for the next value.
pub(crate) fn everything_on_changes_every_value() {
    /// On by default, and off would take away what other values need to be seen.
    const SAME: [&str; 3] = ["/podDisruptionBudget/enabled", "/rbac/create", "/serviceAccount/create"];
    let everything = yaml("tests/policy/tests/chart/everything.yaml");
    let mut defaults = BTreeMap::new();
    leaves("", &values(), &mut defaults);
    for (key, default) in defaults.iter().filter(|(key, _)| !SAME.contains(&key.as_str())) {
        let changed = everything.pointer(key);
        assert!(changed.is_some_and(|value| value != default), "{key} is {changed:?}");
    }
}
