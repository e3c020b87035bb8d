//! Approvals: what somebody has to write, and that it counts once.
//!
//! An approval names the revision and the step, and the status remembers those that were used. So a value that stays where
//! it is, or that a tool keeps putting back, approves one step once; the next step, and the next attempt, need another one.

use super::Draft;

/// Used approvals that the status remembers. An annotation has one value at a time, so that one which comes back is among
/// the last ones.
const MAX_USED: usize = 32;

/// What stands in the place of the pod where a revision that has failed is retried.
pub(super) const RETRY: &str = "retry";

impl Draft<'_> {
    /// What has to be written to approve a step of a revision now.
    pub(super) fn approval_for(&self, revision: &str, step: &str) -> String {
        let first = format!("{revision}/{step}");
        let used = self.status.used_approvals.iter().filter_map(|used| number(used, &first)).max();
        match used {
            None => first,
            Some(used) => format!("{first}/{}", used.saturating_add(1)),
        }
    }

    /// Whether that is what somebody has written.
    pub(super) fn is_given(&self, approval: &str) -> bool {
        self.world.rollout.approve.as_deref() == Some(approval)
    }

    /// Remembers that an approval has been used. It is written together with what it has approved.
    pub(super) fn use_up(&mut self, approval: String) {
        self.status.awaited_approval = None;
        self.status.used_approvals.push(approval);
        let surplus = self.status.used_approvals.len().saturating_sub(MAX_USED);
        self.status.used_approvals.drain(..surplus);
    }
}

/// Which approval of a step it was; `None` for one of another step.
fn number(used: &str, first: &str) -> Option<u32> {
    match used.strip_prefix(first)? {
        "" => Some(1),
        more => more.strip_prefix('/')?.parse().ok(),
    }
}
