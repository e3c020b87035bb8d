//! Events, which two groups show in two shapes.

use serde_json::{Map, Value};

use super::{Convert, Strategy};
use crate::machinery::object;

pub(super) const FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// The same in the words of the other group.
pub(super) const NEW_FIELDS: &[&str] = &[
    "regarding.kind=involvedObject.kind",
    "regarding.namespace=involvedObject.namespace",
    "regarding.name=involvedObject.name",
    "regarding.uid=involvedObject.uid",
    "regarding.apiVersion=involvedObject.apiVersion",
    "regarding.resourceVersion=involvedObject.resourceVersion",
    "regarding.fieldPath=involvedObject.fieldPath",
    "reason",
    "reportingController=reportingComponent",
    "type",
];

pub(super) struct Events;

impl Strategy for Events {
    fn default(&self, object: &mut Value) {
        let fields = object::fields(object);
        for (field, empty) in [
            ("source", Value::Object(Map::new())),
            ("firstTimestamp", Value::Null),
            ("lastTimestamp", Value::Null),
            ("eventTime", Value::Null),
            ("reportingComponent", "".into()),
            ("reportingInstance", "".into()),
        ] {
            fields.entry(field).or_insert(empty);
        }
    }
}

/// The names of a field in the core group and in the events group.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) const CONVERT: Convert = Convert { from_stored, to_stored };

fn from_stored(stored: &Value) -> Value {
    let mut shown = rename(stored.clone(), |(core, events)| (core, events));
    for field in ["reportingController", "reportingInstance"] {
        if shown.get(field).and_then(Value::as_str) == Some("") {
            object::fields(&mut shown).remove(field);
        }
    }
    shown
}

fn to_stored(shown: Value) -> Value {
    rename(shown, |(core, events)| (events, core))
}

fn rename(
    mut event: Value,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let fields = object::fields(&mut event);
    for names in NAMES {
        let (from, to) = direction(names);
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
    event
}
