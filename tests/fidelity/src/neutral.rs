//! Answers without what differs from one run to the next.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};
use serde_json::{Value, json};

/// What one server has called things in one sequence so far.
#[derive(Default)]
pub(crate) struct Neutral {
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
    /// Other texts that differ, and what to call them.
    texts: Vec<(String, String)>,
}

#[expect(clippy::unwrap_used, reason = "patterns that are written here")]
static UID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap());
#[expect(clippy::unwrap_used, reason = "patterns that are written here")]
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z").unwrap());
#[expect(clippy::unwrap_used, reason = "patterns that are written here")]
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b10\.96\.\d+\.\d+\b").unwrap());
#[expect(clippy::unwrap_used, reason = "patterns that are written here")]
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)((?:resource ?version(?: in record)?|current|in the precondition)(?:: | )\(?)\d+( \(\d+\))?",
    )
    .unwrap()
});
#[expect(clippy::unwrap_used, reason = "patterns that are written here")]
static AGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(|\d+ \()\d+[smhd](\d+[smhd])?(| ago\))$").unwrap());
/// Times this close to now are those of the run, not of the sequence.
const RECENT: SignedDuration = SignedDuration::from_hours(24);

impl Neutral {
    /// Calls a text by this name from now on.
    pub(crate) fn call(&mut self, text: &str, name: &str) {
        if !text.is_empty() && text.parse::<u64>().is_err() && !UID.is_match(text) {
            self.texts.push((text.to_owned(), format!("<{name}>")));
        }
    }

    /// An answer, or an event.
    pub(crate) fn value(&mut self, value: &Value) -> Value {
        self.walk(value, "")
    }

    fn walk(&mut self, value: &Value, key: &str) -> Value {
        match value {
            Value::String(text) if key == "resourceVersion" && !text.is_empty() && text != "0" => {
                let next = self.versions.len() + 1;
                format!("<version {}>", self.versions.entry(text.clone()).or_insert(next)).into()
            }
            Value::String(text) if key == "continue" && !text.is_empty() => "<continue>".into(),
            Value::String(text) if key == "cell" => {
                AGE.replace_all(&self.text(text), "$1<age>$3").into_owned().into()
            }
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => {
                let inside = if key == "cells" { "cell" } else { "" };
                let mut items: Vec<Value> = items.iter().map(|item| self.walk(item, inside)).collect();
                if key == "managedFields" {
                    // Ordered by time, which is none of anybody's concern.
                    items.sort_by_key(ToString::to_string);
                }
                items.into()
            }
            Value::Object(fields) => {
                let is_list = fields.get("items").is_some_and(Value::is_array)
                    || fields.get("kind") == Some(&json!("Table"));
                let is_bookmark = fields.get("type") == Some(&json!("BOOKMARK"));
                let fields = fields.iter().map(|(name, value)| {
                    let mut value = value.clone();
                    let metadata =
                        if is_bookmark { value.pointer_mut("/metadata") } else { Some(&mut value) };
                    if (is_list && name == "metadata" || is_bookmark && name == "object")
                        && let Some(version) =
                            metadata.and_then(|metadata| metadata.get_mut("resourceVersion"))
                    {
                        // How far the whole server has come.
                        let known = version.as_str().is_some_and(|version| version.parse::<u64>().is_ok());
                        *version = if known { "0".into() } else { "none".into() };
                    }
                    (self.key(name), self.walk(&value, name))
                });
                let mut fields = Value::Object(fields.collect());
                sort_causes(&mut fields);
                fields
            }
            other => other.clone(),
        }
    }

    /// UIDs are keys of managed fields.
    fn key(&mut self, name: &str) -> String {
        if name.contains("uid") { self.text(name) } else { name.to_owned() }
    }

    fn text(&mut self, text: &str) -> String {
        // Some refusals end with what has changed in the object as Go prints it.
        let mut text = text.split("\n@@ ").next().unwrap_or_default().to_owned();
        for (value, name) in &self.texts {
            text = text.replace(value, name);
        }
        let uids = &mut self.uids;
        let text = UID.replace_all(&text, |found: &Captures<'_>| {
            let next = uids.len() + 1;
            format!("<uid {}>", uids.entry(found[0].to_owned()).or_insert(next))
        });
        let text = TIME.replace_all(&text, |found: &Captures<'_>| {
            let time: Option<Timestamp> = found[0].parse().ok();
            let recent = time.is_some_and(|time| time.duration_since(Timestamp::now()).abs() < RECENT);
            if recent { "<time>".to_owned() } else { found[0].to_owned() }
        });
        let text = ADDRESS.replace_all(&text, "<address>");
        VERSION.replace_all(&text, "$1<version>").into_owned()
    }
}

/// Of custom resources, and of conflicts between managers, Kubernetes lists causes in no order.
fn sort_causes(status: &mut Value) {
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_conflict = text("/details/causes/0/reason") == "FieldManagerConflict";
    if !text("/details/group").ends_with("example.com") && !is_conflict {
        return;
    }
    let Some(causes) = status.pointer_mut("/details/causes").and_then(Value::as_array_mut) else {
        return;
    };
    causes.sort_by_key(ToString::to_string);
    let said = |cause: &Value| {
        let text = |field: &str| cause.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!("{}: {}", text("field"), text("message"))
    };
    let all: Vec<String> = causes.iter().map(said).collect();
    let message = status.get("message").and_then(Value::as_str).unwrap_or_default();
    let inside = |start: usize, message: &str| {
        let mut rest = message.get(start..message.len().saturating_sub(1))?.to_owned();
        let length = all.iter().map(String::len).sum::<usize>() + 2 * all.len().saturating_sub(1);
        all.iter()
            .all(|one| {
                let has = rest.contains(one.as_str());
                rest = rest.replacen(one.as_str(), "", 1);
                has
            })
            .then_some(())?;
        (message.len() - 1 - start == length)
            .then(|| format!("{}[{}]", &message[..start - 1], all.join(", ")))
    };
    let sorted = message.find('[').and_then(|start| inside(start + 1, message));
    if let (Some(sorted), Some(fields)) = (sorted, status.as_object_mut()) {
        fields.insert("message".into(), sorted.into());
    }
}
