//! What is wrong with label selectors inside of objects.

use serde_json::Value;

use super::meta;
use crate::machinery::label_rules;
use crate::machinery::object::{self, text};
use crate::machinery::schema::Cause;

/// What is wrong with a selector; `at` is where it stands.
pub(super) fn causes(selector: &Value, at: &str) -> Vec<Cause> {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut causes = meta::label_causes(&format!("{at}.matchLabels"), labels.into_iter().flatten());
    for (index, expression) in object::list(selector, "/matchExpressions").iter().enumerate() {
        causes.extend(expression_causes(expression, &format!("{at}.matchExpressions[{index}]")));
    }
    causes
}

fn expression_causes(expression: &Value, at: &str) -> Vec<Cause> {
    let at = |field: &str| format!("{at}.{field}");
    let values = object::list(expression, "/values");
    let mut causes = Vec::new();
    match text(expression, "/operator") {
        "In" | "NotIn" if values.is_empty() => {
            causes
                .push(Cause::required(at("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(Cause::forbidden(at("values"), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            causes.push(Cause::invalid(at("operator"), &other.into(), "not a valid selector operator"));
        }
    }
    let key = text(expression, "/key");
    for why in label_rules::key_problems(key, "a valid label key") {
        causes.push(Cause::invalid(at("key"), &key.into(), &why));
    }
    causes
}

/// A selector with its fields in the order in which Go writes them.
pub(super) fn shown(selector: &Value) -> String {
    let mut parts = Vec::new();
    parts.extend(selector.get("matchLabels").map(|labels| format!("\"matchLabels\":{labels}")));
    let expressions: Vec<String> = object::list(selector, "/matchExpressions")
        .iter()
        .map(|expression| meta::in_order(expression, &["key", "operator", "values"]))
        .collect();
    if !expressions.is_empty() {
        parts.push(format!("\"matchExpressions\":[{}]", expressions.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}
