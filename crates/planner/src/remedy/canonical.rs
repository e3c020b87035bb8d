//! The immutable fields of a StatefulSet in one form, whoever has written them: with defaults, without what is empty, in one order
//! where the order means nothing, and with quantities that are equal when they are written differently.

use serde_json::{Map, Value, json};

use crate::quantity::quantity;
use crate::revision::{canonical, fnv64};

/// The fields of a spec that the API server lets everybody change. All others are immutable, also those of later servers.
pub const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// The immutable fields of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Immutable {
    fields: Map<String, Value>,
    text: String,
}

impl Immutable {
    /// Those of a spec, which may lack what the API server would add.
    pub fn of(spec: &Value) -> Self {
        let given = spec.as_object().into_iter().flatten();
        let mut fields: Map<String, Value> = given
            .filter(|(key, value)| !MUTABLE.contains(&key.as_str()) && !is_empty(value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let or = |fields: &mut Map<String, Value>, key: &str, default: &str| {
            let field = fields.entry(key).or_insert(Value::Null);
            if field.is_null() {
                *field = json!(default);
            }
        };
        or(&mut fields, "podManagementPolicy", "OrderedReady");
        or(&mut fields, "serviceName", "");
        fields.insert("selector".to_owned(), selector(spec.get("selector")));
        let templates = spec.get("volumeClaimTemplates").and_then(Value::as_array).into_iter().flatten();
        let mut templates: Vec<_> = templates.map(claim_template).collect();
        templates.sort_by_cached_key(canonical);
        fields.insert("volumeClaimTemplates".to_owned(), Value::Array(templates));
        let text = canonical(&Value::Object(fields.clone()));
        Self { fields, text }
    }

    /// The whole form. Two specs are equal if this is, however equal their hashes are.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A short hash of the form, for names.
    pub fn hash(&self) -> String {
        fnv64(self.text.as_bytes())
    }

    /// A name for an object that belongs to this form, after so many that turned out to be taken.
    pub fn name(&self, base: &str, collisions: u32) -> String {
        let tail = match collisions {
            0 => self.hash(),
            collisions => fnv64(format!("{}{collisions}", self.text).as_bytes()),
        };
        crate::revision::name(base, &tail)
    }

    pub(super) fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    pub(super) fn claim_templates(&self) -> impl Iterator<Item = &Value> {
        let templates = self.fields.get("volumeClaimTemplates").and_then(Value::as_array);
        templates.into_iter().flatten()
    }
}

/// Whether a field says as much as one that is absent. An empty text is a value: a class of that name means none.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let present = fields.iter().filter(|(_, value)| !is_empty(value));
            Value::Object(present.map(|(key, value)| (key.clone(), without_empty(value))).collect())
        }
        other => other.clone(),
    }
}

fn sorted(value: &mut Value) {
    if let Some(items) = value.as_array_mut() {
        items.sort_by_cached_key(canonical);
        items.dedup();
    }
}

/// The conditions of a selector are all to be met, and the values of one are a set.
fn selector(given: Option<&Value>) -> Value {
    let mut selector = given.map_or_else(|| json!({}), without_empty);
    if let Some(expressions) = selector.get_mut("matchExpressions") {
        let each = expressions.as_array_mut().into_iter().flatten();
        each.filter_map(|expression| expression.get_mut("values")).for_each(sorted);
        sorted(expressions);
    }
    selector
}

fn claim_template(given: &Value) -> Value {
    let part = |pointer: &str| given.pointer(pointer).map_or(Value::Null, without_empty);
    let mut spec = match part("/spec") {
        Value::Object(spec) => spec,
        _ => Map::new(),
    };
    spec.entry("volumeMode").or_insert(json!("Filesystem"));
    spec.get_mut("accessModes").into_iter().for_each(sorted);
    if let Some(claim_selector) = spec.get("selector") {
        let claim_selector = selector(Some(claim_selector));
        spec.insert("selector".to_owned(), claim_selector);
    }
    for side in ["requests", "limits"] {
        let amounts = spec.get_mut("resources").and_then(|resources| resources.get_mut(side));
        for amount in amounts.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            // What is no quantity is refused by the API server, and stays what it is until then.
            if let Some(counted) = quantity(amount) {
                *amount = json!(counted.to_string());
            }
        }
    }
    // The API server keeps the two alike where it can.
    if let Some(source) = spec.remove("dataSource") {
        spec.entry("dataSourceRef").or_insert(source);
    }
    let metadata = json!({
        "name": part("/metadata/name"),
        "labels": part("/metadata/labels"),
        "annotations": part("/metadata/annotations"),
    });
    json!({ "metadata": without_empty(&metadata), "spec": spec })
}

#[cfg(test)]
#[path = "canonical_tests.rs"]
mod tests;
