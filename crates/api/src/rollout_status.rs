//! The state of a StatefulSet in its rollout group, which is written to the annotation
//! [`crate::keys::ROLLOUT_STATUS`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of one set in its group: what the set waits for, since when, and what would release it.
///
/// It is written when `state` or `subject` changes, never per pod, so that a long rollout needs only a few writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The rollout group for which this state was determined.
    pub group: String,
    /// The kind of reason in one word, the same as the reason of the event and the label of the metric.
    pub state: String,
    /// The subject of the state: the revision that is rolled out, or the set that is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// A human-readable explanation of the state, as of its beginning.
    pub message: String,
    /// What would release the wait. Absent if the set does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The time at which the state began.
    pub since: Timestamp,
}

impl RolloutStatus {
    /// Parses the value of the annotation. A value that cannot be parsed counts as absent and is overwritten.
    pub fn parse(annotation: &str) -> Option<Self> {
        serde_json::from_str(annotation).ok()
    }
}
