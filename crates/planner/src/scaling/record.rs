//! The record of a pod that leaves or joins: what it is bound to, and when its next call is due.

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::scaling_policy::{PodRecord, RecordPhase};

use super::hook::Hook;
use super::live::LivePod;
use crate::revision::fnv64;

/// The wait after the first failed call, doubled with each.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(1);

/// The longest wait after a failed call.
const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(60);

/// By how much of itself a back-off is longer at most, so that pods that failed together are not called together.
const JITTER_PARTS: i32 = 4;

/// How much is kept of what an application reports, in characters.
const MESSAGE_CHARACTERS: usize = 256;

/// A record that has just begun.
pub(super) fn begun(ordinal: u32, pod: &str, hook: Option<&Hook>, now: Timestamp) -> PodRecord {
    PodRecord {
        ordinal,
        pod_name: pod.to_owned(),
        pod_uid: String::new(),
        container_restarts: std::collections::BTreeMap::new(),
        hook_hash: hash(hook),
        phase: RecordPhase::Requested,
        attempts: 0,
        message: String::new(),
        last_error: String::new(),
        start_time: now,
        deadline_exceeded: false,
        accepted_time: None,
        drained_time: None,
        claims: None,
        last_attempt_time: None,
    }
}

pub(super) fn hash(hook: Option<&Hook>) -> String {
    hook.map(|hook| hook.hash.to_string()).unwrap_or_default()
}

/// Binds a record to a pod.
pub(super) fn bind(record: &mut PodRecord, pod: &LivePod<'_>) {
    pod.uid.clone_into(&mut record.pod_uid);
    record.container_restarts.clone_from(&pod.restarts);
}

/// Whether what a record says holds for a pod.
pub(super) fn is_of(record: &PodRecord, pod: &LivePod<'_>) -> bool {
    record.pod_uid == pod.uid && record.container_restarts == pod.restarts
}

/// Lets a record start anew, for a pod that is not the one that was called. Its deadline is that of the whole drain.
pub(super) fn start_anew(record: &mut PodRecord) {
    record.phase = RecordPhase::Requested;
    record.attempts = 0;
    record.message.clear();
    record.last_error.clear();
    record.last_attempt_time = None;
    record.accepted_time = None;
    forget_drain(record);
}

/// Whether a pod is removed although its hook has not succeeded.
pub(super) fn is_forced(record: &PodRecord) -> bool {
    record.deadline_exceeded && record.drained_time.is_none()
}

/// What was done for the pod does not hold any more.
pub(super) fn forget_drain(record: &mut PodRecord) {
    record.drained_time = None;
    record.claims = None;
}

/// Takes a record from its pod: it is bound again to whatever runs next.
pub(super) fn unbind(record: &mut PodRecord) {
    start_anew(record);
    record.pod_uid.clear();
    record.container_restarts.clear();
}

/// Whether the pod is prepared, or being prepared, so that it counts as one that leaves.
pub(super) fn is_under_way(record: &PodRecord) -> bool {
    record.phase != RecordPhase::Failed
}

/// Whether the record waits for calls to end.
pub(super) fn is_open(record: &PodRecord) -> bool {
    matches!(record.phase, RecordPhase::Requested | RecordPhase::Draining)
}

/// When the deadline of a record is over.
pub(super) fn deadline(record: &PodRecord, limit: SignedDuration) -> Timestamp {
    later(record.start_time, limit)
}

/// When the next call after a failed one is due; `None` where the last one has not failed.
pub(super) fn rests_until(record: &PodRecord) -> Option<Timestamp> {
    let doublings = u32::try_from(record.attempts.checked_sub(1)?).ok()?;
    let wait =
        FIRST_BACKOFF.checked_mul(2_i32.saturating_pow(doublings)).unwrap_or(MAX_BACKOFF).min(MAX_BACKOFF);
    let last = record.last_attempt_time?;
    let drawn = fnv64(format!("{}/{}", record.pod_uid, record.attempts).as_bytes());
    let drawn = drawn.bytes().last().map_or(0, |digit| i32::from(digit % 16));
    let jitter = wait.checked_div(JITTER_PARTS).and_then(|most| most.checked_mul(drawn)?.checked_div(16));
    Some(later(last, wait.saturating_add(jitter.unwrap_or_default())))
}

/// As much of a text as a status keeps.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(MESSAGE_CHARACTERS).collect()
}

pub(super) fn later(time: Timestamp, wait: SignedDuration) -> Timestamp {
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
