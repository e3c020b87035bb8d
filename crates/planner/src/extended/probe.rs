//! A probe of a pod, as a value that the operator carries out, and its outcome.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sts_plus_api::extended::Scheme;

use crate::plan::Object;

/// A probe to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    pub pod: Object,
    /// Its UID. Another pod of the name is another pod.
    pub uid: Box<str>,
    /// Its address; a probe over the network of a pod without one fails.
    pub ip: Option<Box<str>>,
    pub container: Arc<str>,
    /// What is done.
    pub check: ProbeCheck,
    /// How long it may take.
    pub timeout: Duration,
}

/// What a probe does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeCheck {
    /// Sends an HTTP request to the pod.
    Http {
        /// With or without TLS.
        scheme: Scheme,
        port: u16,
        /// The path, with a leading slash.
        path: Arc<str>,
    },
    /// Opens a TCP connection to the pod.
    Tcp { port: u16 },
    /// Runs a command in the container.
    Exec {
        /// The command with its arguments.
        command: Arc<[String]>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOutcome {
    /// The UID of the pod.
    pub uid: Box<str>,
    /// The container that was probed.
    pub container: Arc<str>,
    /// What was done: the outcome of another check says nothing about the one that is asked for now.
    pub check: ProbeCheck,
    /// When it was sent.
    pub at: Timestamp,
    /// Whether it passed, or why it did not.
    pub result: Result<(), Arc<str>>,
}

/// What is known of the data of a ConfigMap or a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Digest {
    /// It is being read for the first time.
    Unknown,
    /// There is no such object.
    Absent,
    /// The digest of its data.
    Known(Arc<str>),
    /// The digest of the data of a Secret that has versions.
    Versioned(Arc<str>),
    /// It cannot be read, and why.
    Unreadable(Arc<str>),
}
