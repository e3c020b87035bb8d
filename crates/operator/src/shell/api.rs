//! Requests to the API server. Every request of the operator is made here: with a time limit, counted, and
//! with an answer that says what is known of its effect.
//!
//! There is no retry and no rate limit: whoever asked decides what a failure means, and the server's own
//! fairness (429 with Retry-After) is obeyed by the queue.

use std::fmt;
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;
use sts_plus_planner::reason::Refusal;
use sts_plus_planner::revision;
use thiserror::Error;

pub use super::kinds::{Form, Kind};
use super::metrics::{Metrics, RequestLabels};
use super::rights::Rights;
use super::surroundings::{Chance, Surroundings};

/// A write or a single read that takes longer has lost its answer as far as we are concerned; a loaded API
/// server answers in well under a second, and a lease of 15 s needs the verdict sooner than that.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A page of a list may be megabytes behind a busy server.
pub const LIST_TIMEOUT: Duration = Duration::from_mins(1);

/// One object, as an answer, as a line of a watch or as a page of its own: etcd refuses requests over 1.5 MiB, and the API
/// server's JSON has six bytes for each `<`, `>`, `&` or control character, which makes 9 MiB. One object that does not fit
/// would stop its source for the whole cluster, so there is room for etcds that take somewhat more.
pub const MAX_OBJECT_BYTES: usize = 16 * 1024 * 1024;

/// A page of several objects: 500 pods take half of it, and where one does not fit it is asked for with fewer objects.
pub const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// How long to wait after a 429 that does not say.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A longer wait than this is not taken at its word, so that one odd answer cannot stop a rollout for a day.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(2);

/// How much of a refusal is kept: it reaches logs and events.
const MAX_MESSAGE_CHARACTERS: usize = 512;

/// What failed, in terms of what is now known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ApiError {
    /// A precondition did not hold, or somebody else was faster: nothing was done.
    #[error("conflict: {0}")]
    Conflict(String),
    /// An object of that name exists already: nothing was done.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// The object does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// The version asked for is too old to watch from.
    #[error("the requested version is gone: {0}")]
    Gone(String),
    /// The permission is missing.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The server asks to come back later: nothing was done.
    #[error("throttled for {} ms", retry_after.as_millis())]
    Throttled {
        /// When to come back.
        retry_after: Duration,
    },
    /// The server, or an admission webhook, refused for another reason: nothing was done.
    #[error("refused with {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// What the server said.
        message: String,
    },
    /// No usable answer: whether it was done is unknown.
    #[error("no answer: {0}")]
    Unanswered(String),
    /// An answer is larger than it may be.
    #[error("the answer is larger than {} MiB", limit / 1024 / 1024)]
    TooLarge {
        /// So many bytes are taken.
        limit: usize,
    },
}

impl ApiError {
    /// What the server said, without our own words around it.
    pub fn words(&self) -> String {
        match self {
            Self::Conflict(words)
            | Self::AlreadyExists(words)
            | Self::NotFound(words)
            | Self::Gone(words)
            | Self::Forbidden(words)
            | Self::Refused { message: words, .. } => words.clone(),
            Self::Throttled { .. } | Self::Unanswered(_) | Self::TooLarge { .. } => self.to_string(),
        }
    }

    /// The refusal behind it, where the server has understood the request and will not carry it out.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Forbidden(message) | Self::Refused { message, .. } => {
                Some(Refusal { webhook: webhook(message).map(Into::into), message: message.clone() })
            }
            _ => None,
        }
    }

    /// What to report of a write that is not answered time and again: whether it will ever be carried out is not known.
    pub fn silence(&self) -> Option<Refusal> {
        let Self::Unanswered(words) = self else { return None };
        Some(Refusal {
            webhook: None,
            message: format!("not answered, an admission webhook may hang: {words}"),
        })
    }

    /// Whether whoever asked lacks the right, rather than that an admission plugin or a webhook objects: in the words that
    /// the API server has for any authorizer.
    pub fn lacks_right(&self) -> bool {
        matches!(self, Self::Forbidden(words) if words.contains(" cannot ") && words.contains(" resource \""))
    }
}

/// How the API server's message begins about a webhook that could not be asked or did not answer; nothing was done.
const WEBHOOK_FAILED: &str = "failed calling webhook \"";

/// How it begins about a webhook that said no.
const WEBHOOK_DENIED: &str = "admission webhook \"";

/// Whether a webhook said no, rather than that somebody quotes one.
fn is_denial(message: &str) -> bool {
    message.starts_with(WEBHOOK_DENIED) && message.contains("\" denied the request")
}

/// The admission webhook that a message names.
fn webhook(message: &str) -> Option<&str> {
    let named = [WEBHOOK_FAILED, WEBHOOK_DENIED].into_iter().find_map(|words| message.split_once(words));
    named.and_then(|(_, rest)| rest.split_once('"')).map(|(name, _)| name)
}

/// Where a request goes.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub resource: Kind,
    /// The namespace; `None` for all of them.
    pub namespace: Option<&'a str>,
    /// The object; `None` for the collection.
    pub name: Option<&'a str>,
    pub subresource: Option<&'a str>,
    /// What is asked for of each object.
    pub form: Form,
}

impl<'a> Place<'a> {
    /// All objects of a resource, in one namespace or in all.
    pub fn collection(resource: Kind, namespace: Option<&'a str>) -> Self {
        Self { resource, namespace, name: None, subresource: None, form: Form::Json }
    }

    pub fn object(resource: Kind, namespace: &'a str, name: &'a str) -> Self {
        Self { name: Some(name), ..Self::collection(resource, Some(namespace)) }
    }

    /// A subresource of one object.
    #[must_use]
    pub fn subresource(self, subresource: &'a str) -> Self {
        Self { subresource: Some(subresource), ..self }
    }

    /// The same place, asked for in another form than JSON.
    #[must_use]
    pub fn in_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    fn path(&self, query: &[(&str, &str)]) -> String {
        let definition = self.resource.definition();
        let mut path = definition.root();
        if let Some(namespace) = self.namespace.filter(|_| definition.namespaced) {
            path.push_str("/namespaces/");
            path.extend(escape(namespace));
        }
        path.push('/');
        path.push_str(self.resource.plural());
        for segment in [self.name, self.subresource].into_iter().flatten() {
            path.push('/');
            path.extend(escape(segment));
        }
        for (position, (key, value)) in query.iter().enumerate() {
            path.push(if position == 0 { '?' } else { '&' });
            path.push_str(key);
            path.push('=');
            path.extend(escape(value));
        }
        path
    }
}

/// What is encoded: all but the characters that are literal everywhere in a URI.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a text for any part of a URI.
pub(crate) fn escape(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, ENCODED)
}

/// The client of the operator.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    metrics: Metrics,
    surroundings: Surroundings,
    call_limit: Duration,
    rights: Rights,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    /// A client that counts its requests. `client` must not retry by itself.
    pub fn new(client: kube::Client, metrics: Metrics) -> Self {
        let rights = Rights::new(metrics.missing_permissions.clone());
        Self { client, metrics, surroundings: Surroundings::default(), call_limit: CALL_TIMEOUT, rights }
    }

    /// The client itself, for what is no request with one answer.
    pub(super) fn client(&self) -> &kube::Client {
        &self.client
    }

    /// The same client with another limit than [`CALL_TIMEOUT`] for writes and single reads.
    #[must_use]
    pub fn with_call_limit(&self, call_limit: Duration) -> Self {
        Self { call_limit, ..self.clone() }
    }

    /// The same client in other surroundings than the machine's.
    #[must_use]
    pub fn within(self, surroundings: Surroundings) -> Self {
        Self { surroundings, ..self }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        self.surroundings.clock.now()
    }

    /// What spreads retries and makes names unique.
    pub fn chance(&self) -> &Chance {
        &self.surroundings.chance
    }

    /// The rights that were denied to this client and its clones.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// The series that requests are counted in.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Reads one object, consistently.
    pub async fn get(&self, place: Place<'_>) -> Result<Value, ApiError> {
        parse(&self.read(place).await?)
    }

    /// Reads one object, consistently, as the server wrote it.
    pub async fn read(&self, place: Place<'_>) -> Result<Vec<u8>, ApiError> {
        self.call("get", Method::GET, place, &[], None, self.call_limit).await
    }

    /// Reads a page of a list within [`LIST_TIMEOUT`] and [`MAX_PAGE_BYTES`].
    pub async fn list(&self, place: Place<'_>, query: &[(&str, &str)]) -> Result<Vec<u8>, ApiError> {
        self.list_within(place, query, (LIST_TIMEOUT, MAX_PAGE_BYTES)).await
    }

    /// Reads a page of a list that takes so long and has so many bytes at most. One that is larger is reported as such, so
    /// that fewer objects can be asked for.
    pub async fn list_within(
        &self,
        place: Place<'_>,
        query: &[(&str, &str)],
        (limit, bytes): (Duration, usize),
    ) -> Result<Vec<u8>, ApiError> {
        let answer = self.send("list", Method::GET, place, query, None, limit).await?;
        let collected = collect(answer.into_body(), bytes);
        tokio::time::timeout(limit, collected).await.map_err(|_| timed_out(limit))?
    }

    pub async fn create(&self, place: Place<'_>, manager: &str, object: &Value) -> Result<Value, ApiError> {
        let query = [("fieldManager", manager)];
        let body = Some(("application/json", object));
        parse(&self.call("create", Method::POST, place, &query, body, self.call_limit).await?)
    }

    /// Replaces an object at the resourceVersion that it carries.
    pub async fn replace(&self, place: Place<'_>, manager: &str, object: &Value) -> Result<Value, ApiError> {
        let query = [("fieldManager", manager)];
        let body = Some(("application/json", object));
        parse(&self.call("update", Method::PUT, place, &query, body, self.call_limit).await?)
    }

    /// Merges fields into an object.
    pub async fn merge(&self, place: Place<'_>, manager: &str, fields: &Value) -> Result<Value, ApiError> {
        let query = [("fieldManager", manager)];
        let body = Some(("application/merge-patch+json", fields));
        parse(&self.call("patch", Method::PATCH, place, &query, body, self.call_limit).await?)
    }

    /// Merges fields into an object as its kind defines it: entries of lists by their key.
    pub async fn strategic_merge(
        &self,
        place: Place<'_>,
        manager: &str,
        fields: &Value,
    ) -> Result<Value, ApiError> {
        let query = [("fieldManager", manager)];
        let body = Some(("application/strategic-merge-patch+json", fields));
        parse(&self.call("patch", Method::PATCH, place, &query, body, self.call_limit).await?)
    }

    /// Makes a field manager own exactly the fields of this object, whoever else has them.
    pub async fn apply(&self, place: Place<'_>, manager: &str, object: &Value) -> Result<Value, ApiError> {
        let query = [("fieldManager", manager), ("force", "true")];
        // JSON is YAML; servers before 1.34 know no other name for it.
        let body = Some(("application/apply-patch+yaml", object));
        parse(&self.call("patch", Method::PATCH, place, &query, body, self.call_limit).await?)
    }

    /// Deletes an object with the given options.
    pub async fn delete(&self, place: Place<'_>, options: &Value) -> Result<Value, ApiError> {
        let body = Some(("application/json", options));
        parse(&self.call("delete", Method::DELETE, place, &[], body, self.call_limit).await?)
    }

    /// Opens a watch and returns its lines as they come.
    pub async fn watch(&self, place: Place<'_>, query: &[(&str, &str)]) -> Result<Lines, ApiError> {
        let mut query = query.to_vec();
        query.push(("watch", "true"));
        let answer = self.send("watch", Method::GET, place, &query, None, LIST_TIMEOUT).await?;
        Ok(Lines { body: answer.into_body(), buffer: Vec::new(), scanned: 0 })
    }

    async fn call(
        &self,
        verb: &'static str,
        method: Method,
        place: Place<'_>,
        query: &[(&str, &str)],
        body: Option<(&'static str, &Value)>,
        limit: Duration,
    ) -> Result<Vec<u8>, ApiError> {
        let answer = self.send(verb, method, place, query, body, limit).await?;
        let collected = collect(answer.into_body(), MAX_OBJECT_BYTES);
        match tokio::time::timeout(limit, collected).await.map_err(|_| timed_out(limit))? {
            // What a write did whose answer is too large is as unknown as without one.
            Err(error @ ApiError::TooLarge { .. }) => Err(ApiError::Unanswered(error.to_string())),
            collected => collected,
        }
    }

    /// Sends a request; an answer that is not a success becomes an error here.
    async fn send(
        &self,
        verb: &'static str,
        method: Method,
        place: Place<'_>,
        query: &[(&str, &str)],
        body: Option<(&'static str, &Value)>,
        limit: Duration,
    ) -> Result<http::Response<Body>, ApiError> {
        let mut request = Request::builder()
            .method(method)
            .uri(place.path(query))
            .header(header::USER_AGENT, concat!("sts-plus/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, place.form.accept(verb));
        if let Some((content_type, _)) = body {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        // The data of a revision are stored as they come, and compared by their bytes.
        let text = |value: &Value| match place.resource {
            Kind::Revision => revision::canonical(value),
            _ => value.to_string(),
        };
        let bytes = body.map(|(_, value)| text(value).into_bytes()).unwrap_or_default();
        let request = request.body(Body::from(bytes)).map_err(|error| ApiError::Refused {
            code: 0,
            message: format!("the request could not be built: {error}"),
        })?;
        let sent = tokio::time::timeout(limit, self.client.send(request)).await;
        let answered = sent
            .map_err(|_| timed_out(limit))
            .and_then(|sent| sent.map_err(|error| ApiError::Unanswered(shorten(&describe(&error)))));
        let code =
            answered.as_ref().map_or("unanswered".to_owned(), |answer| answer.status().as_u16().to_string());
        self.metrics
            .requests
            .get_or_create(&RequestLabels { verb, resource: place.resource.plural(), code })
            .inc();
        let answer = answered?;
        if answer.status().is_success() { Ok(answer) } else { Err(refusal(answer).await) }
    }
}

/// Collects an answer of so many bytes at most, without ever holding it twice.
async fn collect(mut body: Body, limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::Unanswered(shorten(&describe(&error))))?;
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len().saturating_add(data.len()) > limit {
            return Err(ApiError::TooLarge { limit });
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}

fn timed_out(limit: Duration) -> ApiError {
    ApiError::Unanswered(format!("nothing came within {} s", limit.as_secs()))
}

fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    // A success without a readable object is a success of unknown extent.
    serde_json::from_slice(bytes).map_err(|error| ApiError::Unanswered(format!("unreadable answer: {error}")))
}

/// Errors of the transport nest; the innermost one names the cause.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words = format!("{words}: {inner_words}");
        }
        source = inner.source();
    }
    words
}

fn shorten(message: &str) -> String {
    message.chars().take(MAX_MESSAGE_CHARACTERS).collect()
}

/// Turns a refusal into what is known: 4xx did nothing, 5xx may have, unless a webhook failed.
async fn refusal(answer: http::Response<Body>) -> ApiError {
    let code = answer.status();
    let retry_after =
        answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let collected = tokio::time::timeout(CALL_TIMEOUT, collect(answer.into_body(), MAX_OBJECT_BYTES)).await;
    let bytes = collected.ok().and_then(Result::ok).unwrap_or_default();
    let status: Option<Value> = serde_json::from_slice(&bytes).ok();
    let words = status.as_ref().and_then(|status| status.get("message")?.as_str());
    let message = shorten(words.map_or_else(|| String::from_utf8_lossy(&bytes), Into::into).trim());
    let reason = status.as_ref().and_then(|status| status.get("reason")?.as_str());
    match of_code(code, message, retry_after) {
        // The one code stands for two things.
        ApiError::Conflict(message) if reason == Some("AlreadyExists") => ApiError::AlreadyExists(message),
        // Webhooks are asked before anything is stored, so here a 500 says more than any other does; and whatever code one
        // chooses for its no, it is a no.
        ApiError::Unanswered(_) if words.is_some_and(|words| words.contains(WEBHOOK_FAILED)) => {
            ApiError::Refused { code: code.as_u16(), message: shorten(words.unwrap_or_default()) }
        }
        _ if words.is_some_and(is_denial) => {
            ApiError::Refused { code: code.as_u16(), message: shorten(words.unwrap_or_default()) }
        }
        error => error,
    }
}

pub(crate) fn of_code(code: StatusCode, message: String, retry_after: Option<u64>) -> ApiError {
    match code {
        StatusCode::CONFLICT => ApiError::Conflict(message),
        StatusCode::NOT_FOUND => ApiError::NotFound(message),
        StatusCode::GONE => ApiError::Gone(message),
        StatusCode::FORBIDDEN => ApiError::Forbidden(message),
        StatusCode::TOO_MANY_REQUESTS => {
            let asked = retry_after.map_or(DEFAULT_RETRY_AFTER, Duration::from_secs);
            ApiError::Throttled { retry_after: asked.min(MAX_RETRY_AFTER) }
        }
        code if code.is_server_error() => ApiError::Unanswered(format!("{code}: {message}")),
        code => ApiError::Refused { code: code.as_u16(), message },
    }
}

/// The lines of a watch.
#[derive(Debug)]
pub struct Lines {
    body: Body,
    buffer: Vec<u8>,
    /// How far the buffer is known to hold no end of line.
    scanned: usize,
}

impl Lines {
    /// The next line; `None` when the server has ended the watch.
    pub async fn next(&mut self, idle_limit: Duration) -> Result<Option<Vec<u8>>, ApiError> {
        loop {
            let unscanned = self.buffer.get(self.scanned..).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', unscanned) {
                let rest = self.buffer.split_off(self.scanned + end + 1);
                self.scanned = 0;
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            self.scanned = self.buffer.len();
            if self.buffer.len() > MAX_OBJECT_BYTES {
                return Err(ApiError::Unanswered(format!("a line of over {MAX_OBJECT_BYTES} bytes")));
            }
            match tokio::time::timeout(idle_limit, self.body.frame()).await {
                Err(_) => return Err(timed_out(idle_limit)),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(ApiError::Unanswered(shorten(&describe(&error)))),
                Ok(Some(Ok(frame))) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }
}
