//! A call of an application's hook, as a value that the operator carries out, and its outcome.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sts_plus_api::extended::{IntOrString, Scheme};
use sts_plus_api::phased_rollout::Header;
use sts_plus_api::scaling_policy::OnFailure;
pub use sts_plus_api::scaling_policy::{Authorization, Tls};

use crate::plan::Object;

/// A call to make for one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct HookRequest {
    pub pod: Object,
    /// Its UID. Another pod of the name is another pod.
    pub uid: Box<str>,
    /// Its address; the call of a pod without one fails.
    pub ip: Option<Box<str>>,
    pub set: Arc<str>,
    pub ordinal: u32,
    pub call: Call,
    pub hook: Arc<Hook>,
    /// The port, resolved from the pod's containers; an error in words where it has no such port. 0 for a named hook.
    pub port: Result<u16, Arc<str>>,
}

/// Which call it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum Call {
    /// Prepares a pod for its removal.
    Prepare,
    /// Asks whether a pod that was called is done.
    Poll,
    /// Takes a call back.
    Cancel,
    /// Lets a new pod join.
    Join,
}

impl Call {
    /// The word in the metric's label.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A hook, parsed once when the spec is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    pub kind: HookKind,
    /// How long one call may take.
    pub timeout: Duration,
    /// When `on_failure` applies, from the start of the record.
    pub deadline: SignedDuration,
    pub on_failure: OnFailure,
    /// Whether the first exit of a container after the call was accepted is its success.
    pub expect_exit: bool,
    /// Of what is called, and of nothing else: a record starts anew when it changes, but not for another deadline.
    pub hash: Arc<str>,
}

impl Hook {
    /// Whether a call can be taken back.
    pub fn can_cancel(&self) -> bool {
        match &self.kind {
            HookKind::Http(http) => http.cancel.is_some(),
            HookKind::Named(_) => true,
        }
    }

    /// Whether a pod that has accepted the call can be asked how far it is.
    pub fn can_poll(&self) -> bool {
        match &self.kind {
            HookKind::Http(http) => http.status.is_some(),
            HookKind::Named(_) => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum HookKind {
    Http(Box<HttpHook>),
    /// An implementation that was built into the operator, by name.
    Named(Arc<str>),
}

/// An HTTP request to a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpHook {
    pub method: Arc<str>,
    /// With a leading slash, and the query where there is one.
    pub path: Arc<str>,
    pub port: IntOrString,
    pub scheme: Scheme,
    pub headers: Vec<Header>,
    pub authorization: Option<Authorization>,
    pub tls: Option<Tls>,
    /// The status codes of success.
    pub success: Vec<u16>,
    /// What is polled after success; without it the pod is done.
    pub status: Option<StatusCall>,
    /// What takes the call back.
    pub cancel: Option<CancelCall>,
}

/// A GET request that shows whether a pod is done.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusCall {
    pub path: Arc<str>,
    pub codes: Vec<u16>,
    /// A JSON pointer. It is given together with `equals`.
    pub pointer: Option<Arc<str>>,
    pub equals: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelCall {
    pub method: Arc<str>,
    pub path: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOutcome {
    /// The UID of the pod.
    pub uid: Box<str>,
    pub call: Call,
    /// The hash of the hook that was called.
    pub hash: Arc<str>,
    /// When the call was sent.
    pub at: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    pub result: HookResult,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookResult {
    /// The pod is done; of [`Call::Cancel`]: the call is taken back.
    Done,
    /// The call is accepted and the pod is not done.
    Pending {
        /// What the application reports.
        message: Arc<str>,
        /// When to ask again, where the application says so.
        retry_after: Option<Duration>,
    },
    /// The call has reached the application, which has ended the connection without an answer, and what is known of it: it may
    /// have exited because of the call.
    Broken(Arc<str>),
    /// The call has failed, and why.
    Failed(Arc<str>),
}
