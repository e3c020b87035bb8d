//! Answers that are none, as the server words them.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;
use serde_json::json;

use crate::link::{Answer, boxed};

/// What the server says when it cannot call a webhook without which nothing may be written.
pub(crate) fn refusal_by_webhook() -> Result<Answer, http::Error> {
    let message = "Internal error occurred: failed calling webhook \"guard.simulate\": failed to call webhook: context deadline exceeded";
    answer(500, "InternalError", message, None)
}

/// An answer that is none, as the server words it.
pub(crate) fn refusal(code: u16, retry_after: Option<u64>) -> Result<Answer, http::Error> {
    let (reason, message) = match code {
        403 => ("Forbidden", "forbidden: exceeded quota, or not permitted: simulated"),
        410 => ("Expired", "too old resource version"),
        422 => (
            "Invalid",
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        ),
        429 => ("TooManyRequests", "too many requests"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
    };
    answer(code, reason, message, retry_after)
}

fn answer(code: u16, reason: &str, message: &str, retry_after: Option<u64>) -> Result<Answer, http::Error> {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "message": message, "code": code });
    let mut answer = Response::builder()
        .status(StatusCode::from_u16(code)?)
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        answer = answer.header(header::RETRY_AFTER, seconds);
    }
    answer.body(boxed(Full::new(Bytes::from(status.to_string()))))
}
