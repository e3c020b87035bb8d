//! Conditions, as Kubernetes and its tools read them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One aspect of an object's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Truth,
    /// The generation of the object that it speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When `status` last changed, in whole seconds.
    pub last_transition_time: Timestamp,
    /// Why, in one word.
    pub reason: String,
    /// Why, in words.
    pub message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Truth {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody can say.
    Unknown,
}

/// The object does what it is for.
pub const READY: &str = "Ready";
/// Every pod is of the revision it should be of.
pub const UPDATED: &str = "Updated";
/// Something is under way (kstatus).
pub const RECONCILING: &str = "Reconciling";
/// Nothing will go on until somebody acts (kstatus).
pub const STALLED: &str = "Stalled";
/// What the user wrote has a fault that does not keep the rollout from working.
pub const WARNING: &str = "Warning";
/// Somebody else writes what we own.
pub const CONFLICT: &str = "Conflict";
