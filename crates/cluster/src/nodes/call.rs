//! A write as a value: what is to be sent, comparable in tests and performed by the shell.

use http::{Method, Request};
use serde_json::{Value, json};

/// One request that changes something.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    content: &'static str,
    pub(super) body: Value,
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

impl Call {
    pub(super) fn create(path: String, body: Value) -> Self {
        Call { method: Method::POST, path, content: JSON, body }
    }

    pub(super) fn merge(path: String, body: Value) -> Self {
        Call { method: Method::PATCH, path, content: MERGE_PATCH, body }
    }

    /// Merges lists by their key, so that conditions of others stay.
    pub(super) fn strategic_merge(path: String, body: Value) -> Self {
        Call { method: Method::PATCH, path, content: STRATEGIC_MERGE_PATCH, body }
    }

    /// Removes the object at once, if it is still the one that was meant.
    pub(super) fn delete(path: String, uid: &str) -> Self {
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": 0, "preconditions": { "uid": uid },
        });
        Call { method: Method::DELETE, path, content: JSON, body }
    }

    pub(super) fn request(&self) -> Result<Request<Vec<u8>>, http::Error> {
        Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header(http::header::CONTENT_TYPE, self.content)
            .body(self.body.to_string().into_bytes())
    }
}
