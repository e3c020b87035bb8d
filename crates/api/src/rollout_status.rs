//! What we tell the user on each StatefulSet of a rollout group, in the annotation
//! [`crate::keys::ROLLOUT_STATUS`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of one set in its group: what is awaited, since when, and what would release it.
///
/// It is written when `state` or `subject` changes, never per pod, so that a long rollout costs a
/// handful of writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The rollout group this state was decided for.
    pub group: String,
    /// The kind of reason, one word, the same as the event's reason and the metric's label.
    pub state: String,
    /// What the state is about: the revision being rolled to, or the set that is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The reason in words, as it was when the state began.
    pub message: String,
    /// What would release the wait; absent when nothing is awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// When the state began.
    pub since: Timestamp,
}

impl RolloutStatus {
    /// Reads the annotation's value; anything unreadable counts as absent and is written anew.
    pub fn parse(annotation: &str) -> Option<Self> {
        serde_json::from_str(annotation).ok()
    }
}
