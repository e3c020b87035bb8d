//! A request on its way, as the simulator looks at it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use serde_json::Value;

/// A request.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    /// The group of the kind; empty for the core group.
    pub group: String,
    /// The plural of the kind.
    pub plural: String,
    /// The namespace; empty where there is none.
    pub namespace: String,
    /// The object; empty for a collection.
    pub name: String,
    /// The subresource; empty where there is none.
    pub subresource: String,
    /// The query of the URL.
    pub query: String,
    /// What it carries.
    pub body: Bytes,
    /// When it left its operator, since the run began.
    pub left: Duration,
}

impl Call {
    /// Reads a request that leaves now.
    pub fn read(head: &Parts, body: Bytes, left: Duration) -> Self {
        let mut rest = head.uri.path().trim_matches('/').split('/');
        let group = match rest.next() {
            Some("apis") => rest.next().unwrap_or_default(),
            _ => "",
        };
        let _version = rest.next();
        let rest: Vec<_> = rest.collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            all => ("", all),
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        Self {
            method: head.method.clone(),
            group: group.to_owned(),
            plural: part(0),
            namespace: namespace.to_owned(),
            name: part(1),
            subresource: part(2),
            query: head.uri.query().unwrap_or_default().to_owned(),
            body,
            left,
        }
    }

    /// Whether it changes something.
    pub fn writes(&self) -> bool {
        !self.method.is_safe()
    }

    /// Whether it follows changes.
    pub fn watches(&self) -> bool {
        !self.writes() && self.parameter("watch").is_some_and(|value| value == "true" || value == "1")
    }

    /// Whether it takes a pod away.
    pub fn takes_a_pod(&self) -> bool {
        self.plural == "pods" && (self.method == Method::DELETE || self.subresource == "eviction")
    }

    pub fn is_about_lease(&self) -> bool {
        self.plural == "leases"
    }

    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// What it carries, as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.watches() { "WATCH" } else { self.method.as_str() };
        write!(f, "{verb} {}", self.plural)?;
        for part in [&self.name, &self.subresource].into_iter().filter(|part| !part.is_empty()) {
            write!(f, "/{part}")?;
        }
        if self.writes() && self.plural != "events" && !self.is_about_lease() {
            write!(f, " {}", String::from_utf8_lossy(&self.body).chars().take(160).collect::<String>())?;
        }
        Ok(())
    }
}
