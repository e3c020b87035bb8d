//! Approvals: what somebody has to write, and that it counts once.
//!
//! An approval names the revision and the step, and the status remembers those that were used. So a value that stays where
//! it is, or that a tool keeps putting back, approves one step once; the next step, and the next attempt, need another one.

use sts_plus_api::phased_rollout::PhasedRolloutStatus;

use super::row::RolloutRow;

/// Used approvals that the status remembers. An annotation has one value at a time, so that one which comes back is among
/// the last ones.
const MAX_USED: usize = 32;

/// What stands in the place of the pod where a revision that has failed is retried.
pub(super) const RETRY: &str = "retry";

/// What has to be written to approve a step of a revision now.
pub(super) fn approval_for(status: &PhasedRolloutStatus, revision: &str, step: &str) -> String {
    let first = format!("{revision}/{step}");
    let used = status.used_approvals.iter().filter_map(|used| number(used, &first)).max();
    match used {
        None => first,
        Some(used) => format!("{first}/{}", used.saturating_add(1)),
    }
}

/// Whether that is what somebody has written.
pub(super) fn is_given(rollout: &RolloutRow, approval: &str) -> bool {
    rollout.approve.as_deref() == Some(approval)
}

/// Remembers that an approval has been used. It is written together with what it has approved.
pub(super) fn used_up(status: PhasedRolloutStatus, approval: String) -> PhasedRolloutStatus {
    let mut used_approvals = status.used_approvals;
    used_approvals.push(approval);
    let surplus = used_approvals.len().saturating_sub(MAX_USED);
    used_approvals.drain(..surplus);
    PhasedRolloutStatus { awaited_approval: None, used_approvals, ..status }
}

/// Which approval of a step it was; `None` for one of another step.
fn number(used: &str, first: &str) -> Option<u32> {
    match used.strip_prefix(first)? {
        "" => Some(1),
        more => more.strip_prefix('/')?.parse().ok(),
    }
}
