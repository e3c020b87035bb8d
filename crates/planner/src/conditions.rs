//! Conditions of a status, which keep the time of their last transition.

use jiff::Timestamp;
use sts_plus_api::conditions::{Condition, Truth};

/// What conditions are made from.
#[derive(Clone, Copy)]
pub(crate) struct Conditions<'c> {
    /// Those of the status before.
    pub(crate) known: &'c [Condition],
    /// The generation that they describe.
    pub(crate) generation: i64,
    pub(crate) now: Timestamp,
}

impl Conditions<'_> {
    /// The condition of a type as it was before.
    pub(crate) fn known(&self, kind: &str) -> Option<&Condition> {
        self.known.iter().find(|condition| condition.kind == kind)
    }

    /// A condition as it is now.
    pub(crate) fn of(&self, kind: &str, holds: bool, reason: &str, message: String) -> Condition {
        let status = if holds { Truth::True } else { Truth::False };
        let same = self.known(kind).filter(|known| known.status == status);
        Condition {
            kind: kind.to_owned(),
            status,
            observed_generation: Some(self.generation),
            last_transition_time: same
                .map_or_else(|| whole_seconds(self.now), |known| known.last_transition_time),
            reason: reason.to_owned(),
            message,
        }
    }
}

/// Conditions have times in whole seconds everywhere in Kubernetes.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
