//! What Secrets hold: read by name, handed on without being shown.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use thiserror::Error;

use crate::shell::api::{Api, ApiError, Kind, Place, escape};

/// What stands where a secret stood.
const HIDDEN: &str = "***";

/// Why a Secret cannot be used. No text holds a value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum SecretError {
    #[error("{0:?} is not the name of a Secret")]
    Name(String),
    #[error("Secret {0} does not exist")]
    Missing(String),
    #[error(
        "Secret {0} may not be read: the chart's secrets.namespaces has to name the namespace {1} for the operator \
         to get permission"
    )]
    Forbidden(String, String),
    #[error("Secret {0} could not be read: {1}")]
    Unread(String, String),
    #[error("Secret {0} has no key {1}")]
    NoKey(String, String),
    #[error("key {1} of Secret {0} is not text")]
    NotText(String, String),
}

/// A text that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Sealed(String);

impl Sealed {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for whom it was meant.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Secret {
    name: String,
    /// Still encoded, as the API server sends them.
    keys: BTreeMap<String, Sealed>,
}

impl Secret {
    /// The text of a key, without the white space around it that editors leave; `None` when there is no such key.
    pub(super) fn find(&self, key: &str) -> Result<Option<Sealed>, SecretError> {
        let Some(encoded) = self.keys.get(key) else {
            return Ok(None);
        };
        let text = STANDARD.decode(encoded.reveal()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| SecretError::NotText(self.name.clone(), printable(key, MAX_KEY)))?;
        Ok(Some(Sealed::new(text.trim())))
    }

    /// The text of a key that has to be there.
    pub(super) fn get(&self, key: &str) -> Result<Sealed, SecretError> {
        self.find(key)?.ok_or_else(|| SecretError::NoKey(self.name.clone(), printable(key, MAX_KEY)))
    }
}

/// Keys and names of Secrets are no longer than this in characters; more of them is not repeated.
const MAX_KEY: usize = 253;

/// The Secrets of one namespace that one question needs, each read once.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    api: &'a Api,
    namespace: &'a str,
    read: Vec<Secret>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(api: &'a Api, namespace: &'a str) -> Self {
        Self { api, namespace, read: Vec::new() }
    }

    pub(super) async fn read(&mut self, name: &str) -> Result<Secret, SecretError> {
        // An empty name would ask for the list, and dots for something else.
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(plain) {
            return Err(SecretError::Name(printable(name, MAX_KEY)));
        }
        if let Some(secret) = self.read.iter().find(|secret| secret.name == name) {
            return Ok(secret.clone());
        }
        let place = Place::object(Kind::Secret, self.namespace, name);
        let object = self.api.get(place).await.map_err(|error| match error {
            ApiError::NotFound(_) => SecretError::Missing(name.to_owned()),
            ApiError::Forbidden(_) => SecretError::Forbidden(name.to_owned(), self.namespace.to_owned()),
            other => SecretError::Unread(name.to_owned(), other.to_string()),
        })?;
        let data = object.get("data").and_then(Value::as_object).into_iter().flatten();
        let keys = data.filter_map(|(key, value)| Some((key.clone(), Sealed::new(value.as_str()?))));
        let secret = Secret { name: name.to_owned(), keys: keys.collect() };
        self.read.push(secret.clone());
        Ok(secret)
    }
}

/// What must not be seen in anything that leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Hidden {
    words: Vec<Sealed>,
}

impl Hidden {
    /// Hides a text in every form in which a server is likely to repeat it.
    pub(super) fn add(&mut self, text: &Sealed) {
        let text = text.reveal();
        let escaped = escape(text).to_string();
        let quoted = Value::from(text).to_string();
        let unquoted = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        let forms = [text, &printable(text, usize::MAX), &escaped, unquoted].map(Sealed::new);
        for form in forms {
            if !form.reveal().is_empty() && !self.words.contains(&form) {
                self.words.push(form);
            }
        }
        // The longest first: one word may be part of another.
        self.words.sort_by_key(|word| std::cmp::Reverse(word.reveal().len()));
    }

    /// The text without what is hidden, without control characters, and cut.
    pub(super) fn tell(&self, text: &str, max_characters: usize) -> String {
        // Once before and once after the control characters go: they may be part of a secret, or lie in one.
        let hidden = self.hide(text);
        printable(&self.hide(&printable(&hidden, usize::MAX)), max_characters)
    }

    fn hide(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, word| text.replace(word.reveal(), HIDDEN))
    }
}

/// The text without control characters and line breaks, and cut.
pub(super) fn printable(text: &str, max_characters: usize) -> String {
    let words = text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    if line.chars().nth(max_characters).is_none() {
        return line;
    }
    let kept: String = line.chars().take(max_characters.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod secrets_tests;
