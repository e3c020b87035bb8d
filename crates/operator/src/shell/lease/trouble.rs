//! What can go wrong with the lease, in words that say what to do about it.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use thiserror::Error;

use super::decide::Failure;
use super::record::Malformed;
use crate::shell::api::{ApiError, of_code};

/// What went wrong.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    #[error(
        "the permission to {verb} leases in this namespace is missing ({message}): install the chart's Role and \
         RoleBinding for the lease there, or run a single replica with --leader-elect=false"
    )]
    Forbidden { verb: &'static str, message: String },
    #[error(
        "the namespace of the lease does not exist ({0}): create it, or name the one the operator runs in"
    )]
    NoNamespace(String),
    #[error("the lease is not readable ({0}): delete it, and it is created again")]
    Malformed(#[from] Malformed),
    #[error("another replica wrote the lease first: {0}")]
    Raced(String),
    #[error("{verb} failed: {error}; is the API server up and reachable from here?")]
    Call { verb: &'static str, error: ApiError },
    #[error("the watch broke: {0}")]
    Watch(ApiError),
    #[error("the watch sent something unreadable: {0}")]
    Event(serde_json::Error),
    #[error("the watch ended at once")]
    WatchEnded,
}

impl Trouble {
    /// A request that failed.
    pub(super) fn of(verb: &'static str, error: ApiError) -> Self {
        match error {
            ApiError::Forbidden(message) => Self::Forbidden { verb, message },
            ApiError::Conflict(message) | ApiError::AlreadyExists(message) => Self::Raced(message),
            // A collection is always there, unless its namespace is not.
            ApiError::NotFound(message) if verb == "create" => Self::NoNamespace(message),
            error => Self::Call { verb, error },
        }
    }

    /// The error that a watch delivers as an event.
    pub(super) fn of_watch(status: &Value) -> Self {
        let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let code = code.and_then(|code| StatusCode::from_u16(code).ok());
        let message = status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self::Watch(of_code(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), message, None))
    }

    /// What this tells about the effect of a write.
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Forbidden { .. } | Self::NoNamespace(_) => Failure::Refused,
            Self::Call { error: ApiError::Throttled { .. } | ApiError::Refused { .. }, .. } => {
                Failure::Refused
            }
            Self::Call { error: ApiError::NotFound(_), .. } => Failure::Absent,
            _ => Failure::Unknown,
        }
    }

    /// How long the server asks to be left alone.
    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Call { error: ApiError::Throttled { retry_after }, .. } => *retry_after,
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
#[path = "trouble_tests.rs"]
mod tests;
