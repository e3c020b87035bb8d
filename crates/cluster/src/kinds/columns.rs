//! What tables show of the objects of a kind, column by column.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::built_in_columns::{NAME, UNKNOWN};
use super::paths::JsonPath;
use crate::machinery::object::{list, name, number, text};

/// The columns of one version of a kind.
#[derive(Clone, Debug)]
pub(crate) enum Columns {
    BuiltIn(&'static [Column]),
    /// The name, and then what a definition asks for.
    Custom(Vec<OwnColumn>),
}

/// A column of a built-in kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// Shown only where there is room.
    pub(super) wide: bool,
    pub(super) cell: fn(&Value, Timestamp) -> Value,
}

/// A column that a custom resource's definition asks for.
#[derive(Clone, Debug)]
pub(crate) struct OwnColumn {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    path: Option<JsonPath>,
}

impl Columns {
    /// Those of a version of a custom resource.
    pub(super) fn custom(version: &Value) -> Self {
        let own = list(version, "/additionalPrinterColumns").iter().map(OwnColumn::read);
        let mut own: Vec<OwnColumn> = own.collect();
        if own.is_empty() {
            own.push(OwnColumn::read(&json!({
                "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            })));
        }
        Columns::Custom(own)
    }

    /// The headings.
    pub(crate) fn definitions(&self) -> Vec<Value> {
        let definition = |name: &str, kind: &str, format: &str, description: &str, priority: i64| json!({ "name": name, "type": kind, "format": format, "description": description, "priority": priority });
        match self {
            Columns::BuiltIn(columns) => columns
                .iter()
                .map(|column| {
                    let format = if column.name == NAME.name { "name" } else { "" };
                    definition(column.name, column.kind, format, "", column.wide.into())
                })
                .collect(),
            Columns::Custom(columns) => std::iter::once(definition("Name", "string", "name", "", 0))
                .chain(columns.iter().map(|column| {
                    let OwnColumn { name, kind, format, description, priority, .. } = column;
                    definition(name, kind, format, description, *priority)
                }))
                .collect(),
        }
    }

    /// What one object shows under them.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Columns::BuiltIn(columns) => columns.iter().map(|column| (column.cell)(object, now)).collect(),
            Columns::Custom(columns) => std::iter::once(name(object).into())
                .chain(columns.iter().map(|column| column.cell(object, now)))
                .collect(),
        }
    }
}

impl OwnColumn {
    fn read(column: &Value) -> Self {
        let path = text(column, "/jsonPath");
        let said = text(column, "/description");
        let description = if said.is_empty() {
            format!("Custom resource definition column (in JSONPath format): {path}")
        } else {
            said.to_owned()
        };
        OwnColumn {
            name: text(column, "/name").to_owned(),
            kind: text(column, "/type").to_owned(),
            format: text(column, "/format").to_owned(),
            description,
            priority: number(column, "/priority").unwrap_or_default(),
            path: JsonPath::parse(path),
        }
    }

    /// A value of another type than the column's is not shown.
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(found) = self.path.as_ref().and_then(|path| path.find(object)) else {
            return Value::Null;
        };
        match (self.kind.as_str(), found) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => {
                found.clone()
            }
            ("string", other) => other.to_string().into(),
            #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
            ("integer", Value::Number(number)) => {
                let whole = number.as_i64().or_else(|| number.as_f64().map(|number| number as i64));
                whole.map_or(Value::Null, Value::from)
            }
            ("date", Value::String(said)) => match said.parse::<Timestamp>() {
                Ok(then) => since(then, now).into(),
                Err(_) => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

/// How long something took or is ago, as people say it.
pub(crate) fn duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |whole: i64, unit: &str, rest: i64, part: &str| {
        if rest == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{rest}{part}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

pub(super) fn since(then: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(then).as_secs())
}

/// How long ago a time is that a pointer leads to.
pub(super) fn ago(object: &Value, pointer: &str, now: Timestamp) -> String {
    match text(object, pointer).parse::<Timestamp>() {
        Ok(then) => since(then, now),
        Err(_) => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
