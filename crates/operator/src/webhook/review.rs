//! AdmissionReviews of version v1: read, judged, answered.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sts_plus_planner::admission::{Decide, Edit, Operation, Request, Unreadable, Verdict, World};
use thiserror::Error;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A UID has 36 characters; what is much longer is not one, and would be repeated in the answer.
const MAX_UID_BYTES: usize = 256;

/// A warning is shown to a person; API servers cut off longer ones.
const MAX_WARNING_CHARACTERS: usize = 256;

/// Why a body is no review.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum ReviewError {
    #[error("the body is not an AdmissionReview in JSON: {0}")]
    Json(String),
    #[error(
        "the body is a {kind} of {api_version}; this server answers AdmissionReview of admission.k8s.io/v1"
    )]
    Kind { kind: String, api_version: String },
    #[error("the AdmissionReview has no request")]
    NoRequest,
    #[error("the request of the AdmissionReview has no uid of 1 to {MAX_UID_BYTES} bytes")]
    Uid,
    #[error("the object of the AdmissionReview is not a readable {what}: {why}")]
    Object { what: &'static str, why: String },
}

/// An answer, and what is counted of it.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    pub(super) result: &'static str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(default, borrow)]
    api_version: Cow<'a, str>,
    #[serde(default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    request: Option<Body<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(default, borrow)]
    uid: Cow<'a, str>,
    operation: Operation,
    #[serde(default, borrow)]
    resource: Resource<'a>,
    #[serde(default, borrow)]
    sub_resource: Cow<'a, str>,
    /// Not decoded before it is known whether it matters.
    #[serde(default, borrow)]
    object: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Resource<'a> {
    #[serde(default, borrow)]
    group: Cow<'a, str>,
    #[serde(default, borrow)]
    resource: Cow<'a, str>,
}

/// Answers a review.
pub(super) fn answer(body: &[u8], decide: Decide) -> Result<Answer, ReviewError> {
    let review: Review<'_> =
        serde_json::from_slice(body).map_err(|error| ReviewError::Json(error.to_string()))?;
    if review.api_version != API_VERSION || review.kind != KIND {
        let short = |text: &str| text.chars().take(64).collect();
        return Err(ReviewError::Kind { kind: short(&review.kind), api_version: short(&review.api_version) });
    }
    let request = review.request.ok_or(ReviewError::NoRequest)?;
    let uid = request.uid;
    if uid.is_empty() || uid.len() > MAX_UID_BYTES {
        return Err(ReviewError::Uid);
    }
    let asked = Request {
        operation: request.operation,
        group: request.resource.group,
        resource: request.resource.resource,
        subresource: request.sub_resource,
        object: request.object.map(RawValue::get),
    };
    let verdict = decide(&asked, &World::default())
        .map_err(|Unreadable { what, why }| ReviewError::Object { what, why })?;
    let result = match &verdict {
        Verdict { patch, .. } if !patch.is_empty() => "patched",
        Verdict { warnings, .. } if !warnings.is_empty() => "warned",
        _ => "unchanged",
    };
    Ok(Answer { body: written(&uid, &verdict).to_string().into_bytes(), result })
}

/// The review that goes back.
fn written(uid: &str, verdict: &Verdict) -> Value {
    let mut response = Map::new();
    response.insert("uid".to_owned(), uid.into());
    response.insert("allowed".to_owned(), true.into());
    if !verdict.patch.is_empty() {
        let operation =
            |Edit { path, value }: &Edit| json!({ "op": "replace", "path": path, "value": value });
        let patch: Vec<_> = verdict.patch.iter().map(operation).collect();
        response.insert("patchType".to_owned(), "JSONPatch".into());
        response.insert("patch".to_owned(), STANDARD.encode(Value::from(patch).to_string()).into());
    }
    if !verdict.warnings.is_empty() {
        let cut = |text: &String| text.chars().take(MAX_WARNING_CHARACTERS).collect::<String>();
        response.insert("warnings".to_owned(), verdict.warnings.iter().map(cut).collect());
    }
    json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response })
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
