//! Tables: objects as rows of cells, for those who show them to people.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::object::text;
use super::request::{Include, Shape};
use super::show::{self, View};
use super::stored::Stored;
use crate::kinds::{self, Columns};

const KIND: &str = "Table";
const VERSION: &str = "meta.k8s.io/v1";

/// Whether a watch has shown the headings; it does so once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headings(Arc<AtomicBool>);

impl Headings {
    fn are_due(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Table<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: &'a Value,
    column_definitions: Option<Vec<Value>>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    cells: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<Value>,
    object: Option<Box<RawValue>>,
}

impl View {
    fn columns(&self) -> Option<&Columns> {
        self.kind.version(&self.version).map(|version| &version.columns)
    }

    fn row(&self, stored: &Stored, include: Include) -> Row {
        let shape = match include {
            Include::None => None,
            Include::Metadata => Some(Shape::MetadataOnly),
            Include::Object => Some(Shape::Whole),
        };
        let object = shape.and_then(|shape| {
            let text = View { shape, ..self.clone() }.object(stored);
            RawValue::from_string(String::from_utf8(text).ok()?).ok()
        });
        let is_pod = self.kind.group.is_empty() && self.kind.plural == "pods";
        Row {
            cells: self.cells(stored),
            conditions: is_pod.then(|| kinds::row_conditions(stored)).flatten(),
            object,
        }
    }

    fn cells(&self, object: &Value) -> Vec<Value> {
        self.columns().map(|columns| columns.cells(object, self.clock.timestamp())).unwrap_or_default()
    }

    fn table(&self, metadata: &Value, rows: Vec<Row>, with_headings: bool) -> Vec<u8> {
        let headings = || self.columns().map(Columns::definitions).unwrap_or_default();
        show::bytes(&Table {
            kind: KIND,
            api_version: VERSION,
            metadata,
            column_definitions: with_headings.then(headings),
            rows,
        })
    }

    /// One object as a table of one row.
    pub(super) fn table_of_one(&self, stored: &Stored, include: Include) -> Vec<u8> {
        self.table(&metadata(stored), vec![self.row(stored, include)], true)
    }

    /// A list as a table; `metadata` is the list's own.
    pub(super) fn table_of_many<'a>(
        &self,
        metadata: &Value,
        objects: impl Iterator<Item = &'a Stored>,
        include: Include,
    ) -> Vec<u8> {
        self.table(metadata, objects.map(|stored| self.row(stored, include)).collect(), true)
    }

    /// An event of a watch as a table of one row.
    pub(super) fn table_event(&self, stored: &Stored, include: Include) -> Vec<u8> {
        self.table(&metadata(stored), vec![self.row(stored, include)], self.headings.are_due())
    }

    /// How far a watch has come: a row of nothing. Only the end of what was there has an object in it, whose
    /// annotation says so.
    pub(super) fn table_bookmark(&self, bookmark: &Value, include: Include, is_end: bool) -> Vec<u8> {
        let version = text(bookmark, "/metadata/resourceVersion");
        let object = json!({
            "kind": "PartialObjectMetadata", "apiVersion": VERSION, "metadata": bookmark.get("metadata"),
        });
        let object = (is_end || include != Include::None)
            .then(|| RawValue::from_string(object.to_string()).ok())
            .flatten();
        let row = Row { cells: self.cells(&Value::Null), conditions: None, object };
        self.table(&json!({ "resourceVersion": version }), vec![row], self.headings.are_due())
    }
}

/// What a table of one object says of itself.
fn metadata(object: &Value) -> Value {
    json!({ "resourceVersion": text(object, "/metadata/resourceVersion") })
}
