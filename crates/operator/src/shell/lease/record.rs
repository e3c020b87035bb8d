//! The Lease object as we read and write it. What we do not know of it is kept as it was, since every write
//! is a replace of the whole object.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// The server counts transitions in 32 bits and refuses more.
const MAX_TRANSITIONS: i64 = i32::MAX as i64;

/// What a released lease says of its duration: the server refuses zero.
const RELEASED_SECONDS: i64 = 1;

/// The object is not a Lease that we understand.
#[derive(Debug, Error)]
pub enum Malformed {
    /// A field has a value of the wrong type.
    #[error("{0}")]
    Field(#[from] serde_json::Error),
    /// There is no resourceVersion, so no write could be guarded.
    #[error("it has no resourceVersion")]
    NoVersion,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    /// Absent only in what is to be created.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Spec {
    #[serde(flatten)]
    record: Record,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The fields by which candidates talk to each other.
///
/// The times are kept as text and compared for equality only: they come from the clocks of other machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Who holds the lease; empty or absent when nobody does.
    #[serde(default)]
    pub holder_identity: Option<String>,
    /// How long the holder may be silent.
    #[serde(default)]
    pub lease_duration_seconds: Option<i64>,
    /// When the holder's term began.
    #[serde(default)]
    pub acquire_time: Option<String>,
    /// When the holder last wrote.
    #[serde(default)]
    pub renew_time: Option<String>,
    /// How many terms there were.
    #[serde(default)]
    pub lease_transitions: Option<i64>,
}

impl Record {
    /// The holder, if there is one.
    pub fn holder(&self) -> Option<&str> {
        self.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// The number of terms so far.
    pub fn transitions(&self) -> u64 {
        self.lease_transitions.and_then(|count| u64::try_from(count).ok()).unwrap_or_default()
    }
}

impl Lease {
    /// A lease that nobody has held yet, to be created.
    pub fn unheld(namespace: &str, name: &str) -> Self {
        let text = |text: &str| Value::String(text.to_owned());
        let pairs = |pairs: [(&str, Value); 2]| pairs.map(|(key, value)| (key.to_owned(), value)).into_iter();
        Self {
            metadata: Metadata {
                resource_version: String::new(),
                rest: pairs([("namespace", text(namespace)), ("name", text(name))]).collect(),
            },
            spec: Spec::default(),
            rest: pairs([("apiVersion", text("coordination.k8s.io/v1")), ("kind", text("Lease"))]).collect(),
        }
    }

    /// Reads what the server sent.
    pub fn read(object: Value) -> Result<Self, Malformed> {
        let mut lease: Self = serde_json::from_value(object)?;
        if lease.metadata.resource_version.is_empty() {
            return Err(Malformed::NoVersion);
        }
        // The server keeps them where a replace does not mention them.
        lease.metadata.rest.remove("managedFields");
        Ok(lease)
    }

    /// The object for the server.
    pub fn to_object(&self) -> Result<Value, Malformed> {
        Ok(serde_json::to_value(self)?)
    }

    /// The version that guards the next write.
    pub fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    /// What the holder says.
    pub fn record(&self) -> &Record {
        &self.spec.record
    }

    /// This lease with the first record of a new term.
    #[must_use]
    pub fn taken(&self, holder: &str, seconds: u64, clock: Timestamp) -> Self {
        let terms = self.record().lease_transitions.filter(|count| (0..MAX_TRANSITIONS).contains(count));
        self.with(Record {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: i64::try_from(seconds).ok(),
            acquire_time: Some(micro_time(clock)),
            renew_time: Some(micro_time(clock)),
            lease_transitions: Some(terms.unwrap_or_default() + 1),
        })
    }

    /// This lease with a sign of life of its holder.
    #[must_use]
    pub fn renewed(&self, seconds: u64, clock: Timestamp) -> Self {
        self.with(Record {
            lease_duration_seconds: i64::try_from(seconds).ok(),
            renew_time: Some(micro_time(clock)),
            ..self.record().clone()
        })
    }

    /// This lease given back.
    #[must_use]
    pub fn released(&self, clock: Timestamp) -> Self {
        self.with(Record {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(RELEASED_SECONDS),
            renew_time: Some(micro_time(clock)),
            ..self.record().clone()
        })
    }

    /// This lease as the server would have stored it.
    #[cfg(test)]
    pub(super) fn at_version(mut self, version: String) -> Self {
        self.metadata.resource_version = version;
        self
    }

    fn with(&self, record: Record) -> Self {
        Self { spec: Spec { record, rest: self.spec.rest.clone() }, ..self.clone() }
    }
}

/// The server takes exactly six digits.
fn micro_time(clock: Timestamp) -> String {
    format!("{clock:.6}")
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
