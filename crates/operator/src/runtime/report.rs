//! Notes and ends of passes, in events and in the log.

use sts_plus_planner::plan::{Action, Kind, Note, Object, PodsOf};
use sts_plus_planner::reason::Severity;
use tokio::time::Instant;

use super::controller::{Key, Label, Voice};
use crate::shell::api::ApiError;
use crate::shell::events::Recorder;
use crate::shell::executor::Halt;
use crate::shell::queue::Outcome;

/// The fields of a line of the log; those that are `None` are left out.
#[derive(Clone, Copy, Debug, Default)]
struct Fields<'f> {
    group: Option<&'f str>,
    set: Option<&'f str>,
    rollout: Option<&'f str>,
    object: Option<&'f str>,
}

impl<'f> Fields<'f> {
    fn of<K: Key>(key: &'f K) -> Self {
        Self::default().with(key.label())
    }

    fn with(self, label: Label<'f>) -> Self {
        match label {
            Label::Group(name) => Self { group: Some(name), ..self },
            Label::Set(name) => Self { set: Some(name), ..self },
            Label::Rollout(name) => Self { rollout: Some(name), ..self },
            Label::Object(name) => Self { object: Some(name), ..self },
        }
    }
}

/// A line of the log about a key, at a level.
macro_rules! line {
    ($level:ident, $key:expr, $fields:expr, $($rest:tt)*) => {
        tracing::$level!(
            namespace = %$key.namespace(),
            group = $fields.group.map(tracing::field::display),
            set = $fields.set.map(tracing::field::display),
            rollout = $fields.rollout.map(tracing::field::display),
            object = $fields.object.map(tracing::field::display),
            $($rest)*
        )
    };
}

/// Reports a note: one line of the log, about the first object that it is on, and an event for each.
pub(super) fn announce<K: Key>(recorder: &Recorder, voice: Voice, key: &K, note: &Note) {
    let Note { on, severity, reason, message, .. } = note;
    let mut fields = Fields::of(key);
    if let Some(subject) = on.first() {
        fields = fields.with(match subject.kind {
            Kind::StatefulSet => Label::Set(&subject.name),
            Kind::PhasedRollout => Label::Rollout(&subject.name),
            _ => Label::Object(&subject.name),
        });
    }
    // What is noted of the sets of a group is the state that each of them is in.
    let (state, reason_field) =
        if fields.group.is_some() { (Some(*reason), None) } else { (None, Some(*reason)) };
    match severity {
        Severity::Normal if voice.is_quiet => {
            line!(debug, key, fields, state, reason = reason_field, "{message}");
        }
        Severity::Normal => line!(info, key, fields, state, reason = reason_field, "{message}"),
        Severity::Error if !voice.is_quiet => {
            line!(error, key, fields, state, reason = reason_field, "{message}");
        }
        Severity::Warning | Severity::Error => {
            line!(warn, key, fields, state, reason = reason_field, "{message}");
        }
    }
    for subject in on {
        recorder.record(subject.into(), *severity, reason, message);
    }
}

/// Logs the pods that are about to be deleted.
pub(super) fn log_deletions<'a, K: Key>(key: &K, actions: impl Iterator<Item = &'a Action>) {
    let fields = Fields::of(key);
    for action in actions.filter(|action| action.is_deletion() && action.object().kind == Kind::Pod) {
        line!(info, key, fields, pod = %action.object().name, "replacing an outdated pod");
    }
}

/// Logs why nothing could be planned.
pub(super) fn log_blocked<K: Key>(key: &K, why: &str) {
    line!(info, key, Fields::of(key), "{why}");
}

/// Logs that an object could not be read that a plan asked for.
pub(super) fn log_unread<K: Key>(key: &K, object: &Object, error: &ApiError) {
    let name = &object.name;
    line!(warn, key, Fields::of(key), "cannot read {:?} {name}: {error}", object.kind);
}

/// Logs that pods could not be listed that a plan asked for.
pub(super) fn log_unlisted<K: Key>(key: &K, question: &PodsOf, error: &ApiError) {
    line!(warn, key, Fields::of(key), "cannot list the pods with {}: {error}", question.selector);
}

/// Logs that a pass has planned as often as it may.
pub(super) fn log_endless<K: Key>(key: &K) {
    line!(warn, key, Fields::of(key), "no plan could be carried out: retrying later");
}

/// What a halt means for the next pass, which is due at `wake_at` at the latest.
pub(super) fn halted<K: Key>(key: &K, halt: Halt, wake_at: Option<Instant>) -> Outcome {
    match halt {
        // Everything is looked at again when the gate opens.
        Halt::Closed => Outcome::Settled,
        Halt::NotSeenYet { until } | Halt::Occupied { until } => {
            Outcome::WakeAt(wake_at.map_or(until, |wake_at| wake_at.min(until)))
        }
        Halt::Unconfirmed(_) => Outcome::Unconfirmed,
        Halt::Throttled { retry_after } => Outcome::ComeBack(retry_after),
        Halt::Failed(error) => {
            let fields = Fields::of(key);
            if error.refusal().is_some() {
                // It was announced as such, and may be refused for long.
                line!(debug, key, fields, "the pass failed: {error}");
            } else {
                line!(error, key, fields, "the pass failed: {error}");
            }
            Outcome::Failed
        }
    }
}
