//! Hooks that make a container exit: the first exit after the call was accepted is their success.
//!
//! Between the last look at the pod and the answer, its container may exit by itself and be restarted, and then it is the new one
//! that has accepted the call and is at work. So an exit counts once whatever may have accepted the call has ended, by the clock
//! of the node. Where that cannot be said the hook runs again: a call that is made too often costs a restart.

use std::sync::Arc;

use sts_plus_api::scaling_policy::{PodRecord, RecordPhase};

use super::calls::{self, Side};
use super::hook::{Call, Hook, HookResult};
use super::live::LivePod;
use super::moves::Moves;
use super::record::{cut, deadline};
use super::situation::Scene;

/// What is said of a pod that has accepted the call and says nothing itself.
const WAITS_FOR_EXIT: &str = "waiting for a container to exit";

/// What a result of a call means where an exit is expected: what would be its success otherwise is that it was accepted, and so
/// is a connection that ended without an answer. No exit is expected of a call that is taken back.
pub(super) fn read(hook: &Hook, call: Call, result: &HookResult) -> HookResult {
    let expects_exit = hook.expect_exit && matches!(call, Call::Prepare | Call::Poll);
    let accepted = || HookResult::Pending { message: WAITS_FOR_EXIT.into(), retry_after: None };
    match result {
        HookResult::Done | HookResult::Broken(_) if expects_exit => accepted(),
        HookResult::Broken(why) => HookResult::Failed(Arc::clone(why)),
        other => other.clone(),
    }
}

/// Whether the pod of a record has exited because of its call; then it is drained. Another pod is no exit.
pub(super) fn is_success(
    scene: &Scene<'_>,
    record: &mut PodRecord,
    (hook, pod): (&Hook, &LivePod<'_>),
) -> bool {
    let is_success = hook.expect_exit
        && scene.is_locked()
        && record.phase == RecordPhase::Draining
        && record.pod_uid == pod.uid
        && record.accepted_time.is_some_and(|at| pod.has_exited_after(&record.container_restarts, at));
    if is_success {
        record.phase = RecordPhase::Drained;
        record.drained_time = Some(scene.now);
        record.attempts = 0;
        record.message = cut("a container has exited");
        record.last_error.clear();
    }
    is_success
}

/// Waits for the exit of a pod that cannot be asked; whether the record stays.
pub(super) fn wait(
    scene: &Scene<'_>,
    moves: &mut Moves,
    side: Side,
    record: &mut PodRecord,
    hook: &Arc<Hook>,
) -> bool {
    let ends = deadline(record, hook.deadline);
    if ends > scene.now {
        moves.wake(ends);
        return true;
    }
    calls::overdue(scene, moves, side, record, (hook, scene.now))
}
