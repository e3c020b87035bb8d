//! ScalingPolicies as people see them: what each waits for, and the pods that leave and join.

use serde::Serialize;
use sts_plus_api::conditions::{self, Condition};
use sts_plus_api::scaling_policy::ScalingPolicyStatus;
use sts_plus_planner::scaling::row::ScalingRow;

/// A ScalingPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    pub namespace: String,
    #[serde(rename = "scalingPolicy")]
    pub name: String,
    /// The set that it names; empty where its spec cannot be read.
    pub target: String,
    /// Whether `spec.paused` is set.
    pub paused: bool,
    /// Whether the status describes the present spec.
    pub observed: bool,
    /// Its status as the operator last wrote it.
    pub status: ScalingPolicyStatus,
}

impl Scaling {
    pub(super) fn of(row: &ScalingRow) -> Self {
        Self {
            namespace: row.namespace.to_string(),
            name: row.name.to_string(),
            target: row.target().unwrap_or_default().to_owned(),
            paused: row.spec.policy.as_ref().is_ok_and(|policy| policy.paused),
            observed: row.status.observed_generation == Some(row.generation),
            status: row.status.clone(),
        }
    }

    /// The condition that says what the policy waits for, once an operator has written one.
    pub fn ready(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == conditions::READY)
    }
}
