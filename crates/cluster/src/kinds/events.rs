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
    rename(stored.clone(), |(core, events)| (core, events))
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
