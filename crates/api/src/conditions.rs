//! Conditions, in the form that Kubernetes and its tools expect.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One aspect of an object's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status of the condition: `True`, `False` or `Unknown`.
    pub status: Truth,
    /// The generation of the object that the condition describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last time at which `status` changed, in whole seconds.
    pub last_transition_time: Timestamp,
    /// A one-word reason for the current status.
    pub reason: String,
    /// A human-readable explanation of the current status.
    pub message: String,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Truth {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is not known whether the condition holds.
    Unknown,
}

/// The object is managed and nothing blocks it.
pub const READY: &str = "Ready";
/// Every pod has the update revision and its gates have passed.
pub const UPDATED: &str = "Updated";
/// A change is in progress (kstatus).
pub const RECONCILING: &str = "Reconciling";
/// Nothing progresses until a person acts (kstatus).
pub const STALLED: &str = "Stalled";
/// The spec has a fault that does not prevent the rollout.
pub const WARNING: &str = "Warning";
/// Another field manager writes a field that sts-plus owns.
pub const CONFLICT: &str = "Conflict";
