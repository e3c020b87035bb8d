//! What a reply means: what each HTTP status says about asking again, and the reason that a server gives.
//!
//! The texts here repeat what the server said and are not yet fit to be shown.

use http::StatusCode;
use serde::Deserialize;
use sts_plus_planner::phased_rollout::answer::{Answer, QueryError};

use super::call::Reply;
use super::endpoint::Endpoint;
use super::reading::Reading;

/// The types of errors that are about the evaluation and not about the query, as Prometheus and those after it spell them.
const PASSING: [&str; 6] =
    ["execution", "timeout", "canceled", "internal", "unavailable", "too_many_requests"];

/// What an error of the API says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    error_type: Option<String>,
    error: Option<String>,
}

/// Judges a reply. `reading` has read the body of a success.
pub(super) fn judge(reply: &Reply, reading: Reading, endpoint: &Endpoint) -> Result<Answer, QueryError> {
    let code = reply.code;
    if code.is_success() {
        return reading.finish(code.as_u16());
    }
    let said = said(reply);
    let because = |start: String| if said.is_empty() { start } else { format!("{start}: {said}") };
    match code {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY if !passes(reply) => {
            let message = if said.is_empty() { "it gave no reason".to_owned() } else { said };
            Err(QueryError::Rejected { code: code.as_u16(), message })
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(QueryError::Config(because(format!(
            "the server refused the credentials with {}",
            code.as_u16()
        )))),
        StatusCode::NOT_FOUND => {
            Err(QueryError::Config(because(format!("there is no Prometheus API at {endpoint} (404)"))))
        }
        code if code.is_redirection() => Err(QueryError::Failed(redirect(reply))),
        code => Err(QueryError::Failed(because(format!("the server answered {}", code.as_u16())))),
    }
}

/// Whether a server that could read the query could not carry it out this time. Thanos says so with 422 where a store is
/// out of reach and no partial answer is wanted, Prometheus where series do not match one to one at the moment.
fn passes(reply: &Reply) -> bool {
    let kind = failure(reply).and_then(|failure| failure.error_type);
    kind.is_some_and(|kind| PASSING.contains(&kind.as_str()))
}

fn failure(reply: &Reply) -> Option<Failure> {
    serde_json::from_slice(&reply.text).ok()
}

/// What the server gave as its reason: the envelope's error, or else the text of the body.
fn said(reply: &Reply) -> String {
    let Some(Failure { error_type, error }) = failure(reply) else {
        let text = String::from_utf8_lossy(&reply.text);
        // A page for browsers is no reason.
        return if text.trim_start().starts_with('<') { String::new() } else { text.trim().to_owned() };
    };
    reason([error_type, error])
}

/// The parts of a reason that there are.
pub(super) fn reason(parts: [Option<String>; 2]) -> String {
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

/// Where a redirect leads, without what may be a secret in the address: its query and its user.
fn redirect(reply: &Reply) -> String {
    let code = reply.code.as_u16();
    let Some(location) = &reply.location else {
        return format!("the server answered {code}, which is no result");
    };
    let location = location.split(['?', '#']).next().unwrap_or_default();
    let shown = match location.split_once("://") {
        None => location.to_owned(),
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
    };
    format!("the server redirects ({code}) to {shown}, which is not followed: set url to where the API is")
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod reply_tests;
