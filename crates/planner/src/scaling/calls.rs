//! The calls of hooks: which are due, what their outcomes mean, and what follows when a deadline is over.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::scaling_policy::{OnFailure, PodRecord, RecordPhase};

use super::exit;
use super::fence;
use super::hook::{Call, Hook, HookOutcome, HookRequest, HookResult};
use super::live::{Live, LivePod};
use super::moves::Moves;
use super::record::{bind, cut, deadline, hash, is_of, is_open, later, rests_until, start_anew, unbind};
use super::situation::Scene;
use super::wait::Wait;
use crate::plan::{Ask, Kind, Object};
use crate::reason::Severity;

/// The shortest and the longest time until a pod that is not done is asked again, whatever it asks for.
const POLL_RANGE: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(2), SignedDuration::from_secs(60));

/// The same where it asks for nothing.
const POLL: SignedDuration = SignedDuration::from_secs(5);

/// How often the status has the time of a call that has brought nothing new.
const ATTEMPT_WRITTEN: SignedDuration = SignedDuration::from_secs(30);

/// Which records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Leaving,
    Joining,
}

impl Side {
    pub(super) fn records(self, moves: &mut Moves) -> &mut Vec<PodRecord> {
        match self {
            Self::Leaving => &mut moves.status.leaving,
            Self::Joining => &mut moves.status.joining,
        }
    }

    pub(super) fn hook<'s>(self, scene: &'s Scene<'_>) -> Option<&'s Arc<Hook>> {
        match self {
            Self::Leaving => scene.down.as_ref(),
            Self::Joining => scene.up.as_ref(),
        }
    }

    /// The call that a record is at.
    pub(super) fn call_of(self, record: &PodRecord) -> Option<Call> {
        match (record.phase, self) {
            (RecordPhase::Requested, Self::Leaving) => Some(Call::Prepare),
            (RecordPhase::Requested, Self::Joining) => Some(Call::Join),
            (RecordPhase::Draining, _) => Some(Call::Poll),
            (RecordPhase::Cancelling, _) => Some(Call::Cancel),
            (RecordPhase::Drained | RecordPhase::Failed, _) => None,
        }
    }

    /// Changes each record, and keeps those for which that is so.
    pub(super) fn each(self, moves: &mut Moves, mut change: impl FnMut(&mut Moves, &mut PodRecord) -> bool) {
        let records = std::mem::take(self.records(moves));
        let mut kept = Vec::with_capacity(records.len());
        for mut record in records {
            if change(moves, &mut record) {
                kept.push(record);
            }
        }
        *self.records(moves) = kept;
    }
}

/// Books the outcomes of this pass, and what a change of the spec means for records.
pub(super) fn book(scene: &Scene<'_>, moves: &mut Moves) {
    for side in [Side::Leaving, Side::Joining] {
        side.each(moves, |moves, record| {
            let stays =
                scene.world.hooked.iter().all(|outcome| book_one(scene, moves, side, record, outcome));
            stays && settle(scene, moves, side, record)
        });
    }
}

/// Books one outcome; whether the record stays.
fn book_one(
    scene: &Scene<'_>,
    moves: &mut Moves,
    side: Side,
    record: &mut PodRecord,
    outcome: &HookOutcome,
) -> bool {
    let Some(hook) = side.hook(scene).cloned() else { return true };
    let is_same_hook = record.hook_hash == *hook.hash || outcome.call == Call::Cancel;
    if *outcome.uid != *record.pod_uid
        || outcome.hash != hook.hash
        || !is_same_hook
        || side.call_of(record) != Some(outcome.call)
    {
        return true;
    }
    match &exit::read(&hook, outcome.call, &outcome.result) {
        HookResult::Done => {
            record.attempts = 0;
            record.message.clear();
            record.last_error.clear();
            record.last_attempt_time = Some(outcome.at);
            if outcome.call == Call::Cancel {
                return taken_back(scene, moves, side, record);
            }
            record.phase = RecordPhase::Drained;
            // What succeeds late has succeeded: the pod is looked at before it is removed, as any other.
            record.deadline_exceeded = false;
            record.drained_time = (side == Side::Leaving).then_some(outcome.at);
            return true;
        }
        HookResult::Pending { message, retry_after } => {
            let before = record.clone();
            if record.phase == RecordPhase::Requested {
                record.phase = RecordPhase::Draining;
                record.accepted_time = hook.expect_exit.then_some(outcome.ended);
            }
            record.attempts = 0;
            record.last_error.clear();
            record.message = cut(message);
            let is_old =
                before.last_attempt_time.is_none_or(|last| later(last, ATTEMPT_WRITTEN) <= outcome.at);
            if *record != before || is_old {
                record.last_attempt_time = Some(outcome.at);
            }
            let asked = retry_after.and_then(|wait| SignedDuration::try_from(wait).ok());
            let wait = asked.map_or(POLL, |wait| wait.clamp(POLL_RANGE.0, POLL_RANGE.1));
            moves.polls_at.insert(outcome.uid.clone(), later(scene.now, wait));
        }
        HookResult::Broken(error) | HookResult::Failed(error) => {
            record.attempts = record.attempts.saturating_add(1);
            record.last_error = cut(error);
            record.last_attempt_time = Some(outcome.at);
        }
    }
    overdue(scene, moves, side, record, (&hook, outcome.at))
}

/// What a change of the spec means for a record; whether it stays.
fn settle(scene: &Scene<'_>, moves: &mut Moves, side: Side, record: &mut PodRecord) -> bool {
    let hook = side.hook(scene).cloned();
    let known = scene.world.row.status.conditions.iter();
    let mut known = known.filter(|condition| condition.kind == sts_plus_api::conditions::READY);
    let was_paused = known.any(|condition| condition.reason == Wait::Paused.reason());
    if was_paused && !scene.paused {
        // The time in which nobody was called is not that of the application.
        record.start_time = scene.now;
    }
    match (&hook, record.phase) {
        (None, RecordPhase::Requested | RecordPhase::Draining) => record.phase = RecordPhase::Drained,
        (None, RecordPhase::Cancelling) => return taken_back(scene, moves, side, record),
        (Some(hook), RecordPhase::Requested | RecordPhase::Draining) if record.hook_hash != *hook.hash => {
            start_anew(record);
            record.hook_hash = hash(Some(hook));
            record.start_time = scene.now;
            record.deadline_exceeded = false;
        }
        _ => {}
    }
    true
}

/// What follows from a deadline that was over when a call was sent, or when none could be; whether the record stays.
pub(super) fn overdue(
    scene: &Scene<'_>,
    moves: &mut Moves,
    side: Side,
    record: &mut PodRecord,
    (hook, at): (&Arc<Hook>, Timestamp),
) -> bool {
    let pod = record.pod_name.clone();
    if record.phase == RecordPhase::Cancelling {
        if at < deadline(record, scene.cancel_limit(hook)) {
            return true;
        }
        let error = if record.last_error.is_empty() { "it cannot be called" } else { &record.last_error };
        let message = format!("The call of {pod} could not be taken back before the deadline: {error}");
        moves.note(scene, Severity::Warning, "CancelFailed", crate::reason::sentence(message));
        return taken_back(scene, moves, side, record);
    }
    if !is_open(record) || record.deadline_exceeded || at < deadline(record, hook.deadline) {
        return true;
    }
    record.deadline_exceeded = true;
    match hook.on_failure {
        // The wait that follows is announced.
        OnFailure::Block => {}
        OnFailure::Force => {
            record.phase = RecordPhase::Drained;
            let what = match side {
                Side::Leaving => "is removed without it",
                Side::Joining => "counts without it",
            };
            let message =
                format!("The hook of {pod} has not succeeded before its deadline, and {pod} {what}.");
            moves.note(scene, Severity::Warning, "ForcedRemoval", message);
        }
        OnFailure::Abort if hook.can_cancel() => {
            record.phase = RecordPhase::Cancelling;
            (record.start_time, record.attempts) = (scene.now, 0);
            moves.polls_at.remove(&*record.pod_uid);
        }
        OnFailure::Abort => record.phase = RecordPhase::Failed,
    }
    true
}

/// A call was taken back: the pod stays as it is, or has failed to leave; whether the record stays.
pub(super) fn taken_back(scene: &Scene<'_>, moves: &mut Moves, side: Side, record: &mut PodRecord) -> bool {
    if record.deadline_exceeded {
        record.phase = RecordPhase::Failed;
        return true;
    }
    if side == Side::Leaving {
        let message = format!("{} is not removed: it is wanted again.", record.pod_name);
        moves.note(scene, Severity::Normal, "Cancelled", message);
    }
    false
}

/// Calls the pods whose calls are due.
pub(super) fn call(scene: &Scene<'_>, moves: &mut Moves, side: Side) {
    let Some(hook) = side.hook(scene).cloned() else { return };
    side.each(moves, |moves, record| {
        let is_called = match side {
            Side::Leaving => {
                scene.index(record.ordinal) < scene.replicas() && may_call_leaving(scene, record)
            }
            Side::Joining => scene.index(record.ordinal) < scene.replicas(),
        };
        match side.call_of(record).filter(|_| is_called && is_seen(scene, side, record)) {
            Some(call) => call_one(scene, moves, side, record, (&hook, call)),
            None => true,
        }
    });
}

/// A pod is called once the set says that it leaves and its lock has no key for it; a call is taken back in any case, once the
/// key is back.
fn may_call_leaving(scene: &Scene<'_>, record: &PodRecord) -> bool {
    let allows = || scene.lock().is_none_or(|lock| lock.allows(record.ordinal));
    match record.phase {
        RecordPhase::Cancelling => !scene.is_locked() || allows(),
        // One that is bound to no pod is not called, only looked at.
        _ if record.pod_uid.is_empty() => scene.is_announced(record.ordinal),
        _ => scene.is_announced(record.ordinal) && fence::locks_out(scene, record.ordinal),
    }
}

/// Whether the status has the record as it is here: a call is made for what would be found after a restart.
pub(super) fn is_seen(scene: &Scene<'_>, side: Side, record: &PodRecord) -> bool {
    let status = &scene.world.row.status;
    let records = match side {
        Side::Leaving => &status.leaving,
        Side::Joining => &status.joining,
    };
    let key =
        |record: &PodRecord| (record.ordinal, record.phase, record.pod_uid.clone(), record.hook_hash.clone());
    let is_it =
        |seen: &&PodRecord| key(seen) == key(record) && seen.container_restarts == record.container_restarts;
    records.iter().find(is_it).is_some()
}

fn call_one(
    scene: &Scene<'_>,
    moves: &mut Moves,
    side: Side,
    record: &mut PodRecord,
    (hook, call): (&Arc<Hook>, Call),
) -> bool {
    if scene.paused {
        moves.waits.push(Wait::Paused);
        return true;
    }
    if scene.world.hooking.contains(&*record.pod_uid) {
        return true;
    }
    let limit = if call == Call::Cancel { scene.cancel_limit(hook) } else { hook.deadline };
    let ends = deadline(record, limit);
    let is_awaited = hook.expect_exit && call == Call::Poll && !hook.can_poll();
    let due = rests_until(record).or_else(|| moves.polls_at.get(&*record.pod_uid).copied());
    // The last call before the policy for failures applies is made when the deadline is over.
    let due =
        due.map(|due| if record.deadline_exceeded && call != Call::Cancel { due } else { due.min(ends) });
    // An exit is seen as soon as it happens, whenever the next call is due.
    if !(hook.expect_exit && call == Call::Poll)
        && let Some(due) = due.filter(|due| *due > scene.now)
    {
        moves.wake(due);
        return true;
    }
    let begins = matches!(call, Call::Prepare | Call::Join);
    if let Some(why) = scene.world.unconfirmed.as_ref().filter(|_| begins) {
        moves.waits.push(Wait::ViewUnconfirmed { why: Arc::clone(why) });
        return true;
    }
    let Some(row) = scene.pod(record.ordinal) else {
        return cannot_call(scene, moves, side, record, (hook, "does not exist"));
    };
    if call == Call::Join && !row.ready() {
        return cannot_call(scene, moves, side, record, (hook, "is not Ready"));
    }
    match moves.read(scene, &row.name) {
        Live::Unknown => true,
        Live::Gone => cannot_call(scene, moves, side, record, (hook, "does not exist")),
        Live::Pod(pod) if exit::is_success(scene, record, (hook, &pod)) => true,
        Live::Pod(pod) if waits_in_vain(scene, side, record, &pod) => {
            start_again(scene, moves, record, &pod);
            true
        }
        Live::Pod(pod) if scene.is_locked() && !pod.runs && !is_of(record, &pod) => {
            cannot_call(scene, moves, side, record, (hook, "has no running container"))
        }
        Live::Pod(pod) if !is_of(record, &pod) => {
            rebind(scene, moves, record, &pod);
            true
        }
        Live::Pod(pod) if !pod.callable => {
            cannot_call(scene, moves, side, record, (hook, "has no running container"))
        }
        Live::Pod(_) if is_awaited => exit::wait(scene, moves, side, record, hook),
        Live::Pod(_) if due.is_some_and(|due| due > scene.now) => {
            moves.wake(due.unwrap_or(scene.now));
            true
        }
        Live::Pod(pod) => {
            moves.asks.push(Ask::Hook(Box::new(request(scene, record, &pod, (hook, call)))));
            true
        }
    }
}

fn request(
    scene: &Scene<'_>,
    record: &PodRecord,
    pod: &LivePod<'_>,
    (hook, call): (&Arc<Hook>, Call),
) -> HookRequest {
    let set = scene.set();
    HookRequest {
        pod: Object {
            kind: Kind::Pod,
            namespace: Arc::clone(&set.namespace),
            name: record.pod_name.as_str().into(),
        },
        uid: pod.uid.into(),
        ip: pod.ip(),
        set: Arc::clone(&set.name),
        ordinal: record.ordinal,
        call,
        hook: Arc::clone(hook),
        port: pod.port(hook),
    }
}

/// Whether a pod that is to be called waits for its lock: the one that was to be called is lost, or has restarted, before it was
/// drained, and what came in its place must run to be called.
fn waits_in_vain(scene: &Scene<'_>, side: Side, record: &PodRecord, pod: &LivePod<'_>) -> bool {
    let is_open = matches!(record.phase, RecordPhase::Requested | RecordPhase::Draining);
    side == Side::Leaving
        && scene.is_locked()
        && is_open
        && !record.pod_uid.is_empty()
        && pod.waits_for_lock()
        && !pod.terminates
}

/// Lets a record start anew with the pod that there is: one that runs is called, and any other is let run first.
pub(super) fn start_again(scene: &Scene<'_>, moves: &mut Moves, record: &mut PodRecord, pod: &LivePod<'_>) {
    rebind(scene, moves, record, pod);
    record.hook_hash = hash(scene.down.as_deref());
    if !pod.callable {
        unbind(record);
    }
}

/// Binds a record to the pod as it is now. What was done for another one, or before a restart, is done again; a call is taken
/// back of whatever pod there is.
pub(super) fn rebind(scene: &Scene<'_>, moves: &mut Moves, record: &mut PodRecord, pod: &LivePod<'_>) {
    let was_called = record.phase != RecordPhase::Requested || record.last_attempt_time.is_some();
    if record.phase != RecordPhase::Cancelling {
        if was_called {
            let what = match record.phase {
                _ if record.pod_uid != pod.uid => "was replaced after it was called",
                RecordPhase::Draining if record.accepted_time.is_some() => {
                    "may have exited before its hook was accepted"
                }
                _ => "was restarted after it was called",
            };
            let message = format!("{} {what}. Its hook runs again.", record.pod_name);
            moves.note(scene, Severity::Normal, "HookRestarted", message);
        }
        start_anew(record);
    }
    moves.polls_at.remove(&*record.pod_uid);
    bind(record, pod);
}

/// A pod that cannot be called is waited for, until the deadline; whether the record stays.
pub(super) fn cannot_call(
    scene: &Scene<'_>,
    moves: &mut Moves,
    side: Side,
    record: &mut PodRecord,
    (hook, why): (&Arc<Hook>, &'static str),
) -> bool {
    moves.waits.push(Wait::PodNotRunning { pod: record.pod_name.clone(), why });
    let limit =
        if record.phase == RecordPhase::Cancelling { scene.cancel_limit(hook) } else { hook.deadline };
    let ends = deadline(record, limit);
    if ends > scene.now {
        moves.wake(ends);
    }
    overdue(scene, moves, side, record, (hook, scene.now))
}
