//! Verdicts on admission requests, each a pure function of a request and a world.
//!
//! ```text
//! AdmissionReview ──> Request ─┐
//!                              ├──> decide ──> Verdict ──> AdmissionReview
//!            rows ──> World ───┘
//! ```

pub mod claims;

use std::borrow::Cow;

use serde_json::Value;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// A request as the API server describes it before it is carried out.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub operation: Operation,
    /// The group of the resource; empty for the core group.
    pub group: Cow<'a, str>,
    /// The plural.
    pub resource: Cow<'a, str>,
    /// Empty where the object itself is written.
    pub subresource: Cow<'a, str>,
    /// The object as it is to be, as JSON text. A deletion has none.
    pub object: Option<&'a str>,
}

/// What a verdict may depend on besides the request. The claims of a pod depend on nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct World {}

/// What is answered: the request is admitted, with these changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    pub patch: Vec<Edit>,
    /// For whoever has sent the request.
    pub warnings: Vec<String>,
}

/// A change of the object: an operation `replace` of a JSON patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// A JSON pointer.
    pub path: String,
    pub value: Value,
}

/// Why no verdict is possible: the object is not what the request says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub what: &'static str,
    pub why: String,
}

/// A function that decides about requests.
pub type Decide = fn(&Request<'_>, &World) -> Result<Verdict, Unreadable>;
