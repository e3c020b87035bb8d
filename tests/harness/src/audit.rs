//! The API server's own record of who asked for what.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Seek, SeekFrom},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use serde::Deserialize;

/// One line per request, and one more when a watch ends: who and what, never bodies.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "rules": [{"level": "Metadata"}]
}"#;

/// One request that the API server answered or, for a watch, began to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// API group; empty for the core group and for addresses that are no resource.
    pub group: String,
    /// Plural resource name; empty for addresses that are no resource.
    pub resource: String,
    /// `status`, `eviction`, ...; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-wide requests.
    pub namespace: String,
    /// Empty for lists, and for creations whose name the server learns from the body.
    pub name: String,
    /// HTTP status.
    pub code: u16,
    /// Who asked.
    pub user: String,
    /// With which program.
    pub user_agent: String,
    /// When the request arrived.
    pub timestamp: Timestamp,
    /// Path and query.
    pub uri: String,
}

/// Reads the log as it grows. Each request appears once, whatever number of lines it has.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    offset: u64,
    entries: Vec<AuditEntry>,
    by_id: HashMap<String, usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "auditID")]
    id: String,
    verb: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    user: User,
    #[serde(default)]
    user_agent: String,
    request_received_timestamp: Timestamp,
    #[serde(rename = "requestURI")]
    uri: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

impl AuditLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, seen: Mutex::default() }
    }

    /// All requests so far that fulfil the condition, in the order in which they were logged.
    pub(crate) fn requests(&self, wanted: impl Fn(&AuditEntry) -> bool) -> io::Result<Vec<AuditEntry>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.read_on(File::open(&self.path)?)?;
        Ok(seen.entries.iter().filter(|entry| wanted(entry)).cloned().collect())
    }
}

impl Seen {
    fn read_on(&mut self, mut file: File) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.offset))?;
        let mut reader = BufReader::new(file);
        let mut line = String::new();
        loop {
            line.clear();
            let read = reader.read_line(&mut line)?;
            // The server may be in the middle of a line: it is read next time.
            if !line.ends_with('\n') {
                return Ok(());
            }
            self.add(serde_json::from_str(&line)?);
            self.offset += read as u64;
        }
    }

    fn add(&mut self, line: Line) {
        let Line { id, verb, object_ref, response_status, user, user_agent, request_received_timestamp, uri } =
            line;
        let entry = AuditEntry {
            verb,
            group: object_ref.api_group,
            resource: object_ref.resource,
            subresource: object_ref.subresource,
            namespace: object_ref.namespace,
            name: object_ref.name,
            code: response_status.code,
            user: user.username,
            user_agent,
            timestamp: request_received_timestamp,
            uri,
        };
        let next = self.entries.len();
        let at = *self.by_id.entry(id).or_insert(next);
        match self.entries.get_mut(at) {
            Some(earlier) => *earlier = entry,
            None => self.entries.push(entry),
        }
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
