//! Refusals, worded as Kubernetes words them: clients match on the code and the reason, people read the message.

use std::borrow::Cow;
use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::schema::Cause;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    code: StatusCode,
    reason: Cow<'static, str>,
    message: String,
    details: Option<Value>,
    aside: Box<Aside>,
}

/// What few refusals say besides.
#[derive(Clone, Debug, Default, PartialEq)]
struct Aside {
    /// With what a list may go on all the same.
    token: Option<String>,
    warnings: Vec<String>,
}

/// What a refusal is about: a resource as paths name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The plural, or the kind where Kubernetes speaks of kinds.
    pub name: &'a str,
}

impl About<'_> {
    /// As in `statefulsets.apps`.
    fn qualified(self) -> String {
        if self.group.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.name, self.group) }
    }

    fn details(self, name: &str) -> Map<String, Value> {
        let mut details = Map::new();
        if !name.is_empty() {
            details.insert("name".into(), name.into());
        }
        if !self.group.is_empty() {
            details.insert("group".into(), self.group.into());
        }
        if !self.name.is_empty() {
            details.insert("kind".into(), self.name.into());
        }
        details
    }
}

impl Refusal {
    /// The HTTP status.
    pub fn code(&self) -> StatusCode {
        self.code
    }

    /// One word that clients match on; empty where Kubernetes gives none.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What people read.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if let Some(fields) = status.as_object_mut() {
            if !self.reason.is_empty() {
                fields.insert("reason".into(), (*self.reason).into());
            }
            if let Some(details) = &self.details {
                fields.insert("details".into(), details.clone());
            }
            if let Some(token) = &self.aside.token {
                fields.insert("metadata".into(), json!({ "continue": token }));
            }
        }
        status
    }

    /// What the client is told besides.
    pub fn warnings(&self) -> &[String] {
        &self.aside.warnings
    }

    /// The same with warnings.
    pub(crate) fn warning(mut self, warnings: &[String]) -> Self {
        self.aside.warnings = warnings.to_vec();
        self
    }

    /// The seconds after which the client is asked to come back.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    fn new(
        code: StatusCode,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        details: Option<Value>,
    ) -> Self {
        Refusal { code, reason: reason.into(), message: message.into(), details, aside: Box::default() }
    }

    pub(crate) fn not_found(about: About<'_>, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", about.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, Some(about.details(name).into()))
    }

    pub(crate) fn already_exists(about: About<'_>, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", about.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message, Some(about.details(name).into()))
    }

    pub(crate) fn conflict(about: About<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", about.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message, Some(about.details(name).into()))
    }

    /// Somebody else was faster.
    pub(crate) fn modified(about: About<'_>, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(about, name, why)
    }

    /// Fields that belong to others.
    pub(crate) fn apply_conflict(message: String, causes: &[Cause]) -> Self {
        let causes: Vec<Value> = causes.iter().map(cause).collect();
        Self::new(StatusCode::CONFLICT, "Conflict", message, Some(json!({ "causes": causes })))
    }

    pub(crate) fn forbidden(about: About<'_>, name: &str, why: &str, cause: Option<Value>) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", about.qualified());
        let mut details = about.details(name);
        if let Some(cause) = cause {
            details.insert("causes".into(), json!([cause]));
        }
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, Some(details.into()))
    }

    /// `kind` and `name` are those of the object.
    pub(crate) fn invalid(kind: About<'_>, name: &str, causes: &[Cause]) -> Self {
        // Each complaint is told once, however often it is counted.
        let mut seen = BTreeSet::new();
        let said = causes.iter().filter(|cause| seen.insert((&cause.field, &cause.message)));
        let said: Vec<String> = said.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let said = match said.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let mut details = kind.details(name);
        details.insert("causes".into(), causes.iter().map(cause).collect());
        let message = format!("{} \"{name}\" is invalid: {said}", kind.qualified());
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details.into()))
    }

    /// Options of a request that do not fit, such as `ListOptions`.
    pub(crate) fn options(kind: &'static str, causes: &[Cause]) -> Self {
        Self::invalid(About { group: "meta.k8s.io", name: kind }, "", causes)
    }

    /// A patch whose outcome is no object of its kind; `shown` is that outcome.
    pub(crate) fn unfit_patch(shown: &str, why: &str) -> Self {
        let cause = Cause::invalid("patch", &shown.into(), why);
        let message = format!(" \"\" is invalid: patch: {}", cause.message);
        let details = json!({ "causes": [self::cause(&cause)] });
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }

    /// A patch that does not fit the object; Kubernetes says no more than this.
    pub(crate) fn inapplicable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(json!({})))
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message, None)
    }

    /// What Kubernetes did not foresee either: no reason is given.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, None)
    }

    /// A failure on the way to something else, such as a webhook.
    pub(crate) fn internal_error(message: impl Into<String>) -> Self {
        let message = message.into();
        let details = json!({ "causes": [{ "message": message }] });
        let message = format!("Internal error occurred: {message}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message, Some(details))
    }

    pub(crate) fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, Some(json!({})))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, Some(json!({})))
    }

    /// Nobody the server knows.
    #[cfg(feature = "serve")]
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
    }

    /// A request that took longer than anything may.
    #[cfg(feature = "serve")]
    pub(crate) fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(json!({})))
    }

    pub(crate) fn unsupported_media(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message, None)
    }

    /// Nothing that the client accepts is offered.
    pub(crate) fn not_acceptable(message: &str) -> Self {
        let details = message.starts_with("406").then(|| json!({}));
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, details)
    }

    pub(crate) fn unknown_patch() -> Self {
        let message = "415: Unsupported Media Type";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message, Some(json!({})))
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, None)
    }

    pub(crate) fn too_large_patch(why: &str) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, None)
    }

    /// The history that was asked for is gone.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message, None)
    }

    /// The list that was begun is gone; whoever does not mind goes on with the latest one.
    pub(crate) fn expired_page(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                       new list without the continue parameter, or use the continue token in this response to retrieve \
                       the remainder of the results. Continuing with the provided token results in an inconsistent \
                       list - objects that were created, modified, or deleted between the time the first chunk was \
                       returned and now may show up in the list.";
        let mut refusal = Self::expired(message);
        refusal.aside.token = Some(token);
        refusal
    }

    pub(crate) fn from_the_future(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let details = json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        });
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(details))
    }

    /// A budget does not allow an eviction.
    pub(crate) fn too_many_requests(message: &str, causes: &Value, retry_after: Option<u64>) -> Self {
        let mut details = json!({ "causes": causes });
        if let (Some(seconds), Some(details)) = (retry_after, details.as_object_mut()) {
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message, Some(details))
    }

    /// A webhook's own refusal.
    pub(crate) fn denied(code: Option<u16>, reason: &str, message: String, details: Option<Value>) -> Self {
        let code = code.and_then(|code| StatusCode::from_u16(code).ok()).filter(|code| code.as_u16() >= 400);
        Self::new(code.unwrap_or(StatusCode::BAD_REQUEST), reason.to_owned(), message, details)
    }
}

fn cause(cause: &Cause) -> Value {
    json!({ "reason": cause.reason, "message": cause.message, "field": cause.field })
}

/// The answer to a deletion that left nothing behind.
pub(crate) fn deleted(about: About<'_>, name: &str, uid: &str) -> Value {
    let mut details = about.details(name);
    details.insert("uid".into(), uid.into());
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

/// The answer to a write that has no object to show.
pub(crate) fn created() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}

/// Builders for causes, with the messages that Kubernetes begins them with.
impl Cause {
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Cause { field: field.into(), reason: "FieldValueRequired", message }
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {}: {detail}", shown(value));
        Cause { field: field.into(), reason: "FieldValueInvalid", message }
    }

    /// As [`Cause::invalid`], of a value that is shown otherwise than as JSON in our order.
    pub(crate) fn invalid_as(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        let colon = if detail.is_empty() { "" } else { ": " };
        let message = format!("Invalid value: {shown}{colon}{detail}");
        Cause { field: field.into(), reason: "FieldValueInvalid", message }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Cause { field: field.into(), reason: "FieldValueForbidden", message: format!("Forbidden: {detail}") }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Duplicate value: {}", shown(value));
        Cause { field: field.into(), reason: "FieldValueDuplicate", message }
    }

    pub(crate) fn not_found(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Not found: {}", shown(value));
        Cause { field: field.into(), reason: "FieldValueNotFound", message }
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", shown(value), supported.join(", "));
        Cause { field: field.into(), reason: "FieldValueNotSupported", message }
    }
}

/// A value as messages show it.
fn shown(value: &Value) -> String {
    if value.is_null() { "null".to_owned() } else { value.to_string() }
}
