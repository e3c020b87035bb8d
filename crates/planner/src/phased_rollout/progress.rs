//! What a pass decides, as values: the status as it shall be, and what has to be done and reported for it.

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::PhasedRolloutStatus;

use super::wait::Wait;
use super::{Ended, Stretch};
use crate::disruption::Denial;
use crate::plan::{Action, Ask, Awaited, Note};

/// The decision of a pass.
#[derive(Debug)]
pub(super) struct Progress {
    /// The status as it shall be, without what is reported of `wait`.
    pub(super) status: PhasedRolloutStatus,
    /// Why the rollout is where it is; `None` while that is as before.
    pub(super) wait: Option<Wait>,
    pub(super) effects: Effects,
}

impl Progress {
    pub(super) fn new(status: PhasedRolloutStatus, wait: Wait, effects: Effects) -> Self {
        Self { status, wait: Some(wait), effects }
    }

    /// A wait for which there is nothing to do.
    pub(super) fn waits(status: PhasedRolloutStatus, wait: Wait) -> Self {
        Self::new(status, wait, Effects::default())
    }
}

/// What a step of a pass brings besides a status.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Writes to the set and its pods, in order, before the status is written.
    pub(super) writes: Vec<Action>,
    pub(super) asks: Vec<Ask>,
    pub(super) notes: Vec<Note>,
    pub(super) wake_at: Option<Timestamp>,
    pub(super) waits_on: Vec<Awaited>,
    /// The time that the gate has used and that runs on from here.
    pub(super) stretch: Option<Stretch>,
    /// Whether time of the gate is added up in the status.
    pub(super) adds_time: bool,
    /// How long the gate took that has just passed.
    pub(super) gate_took: Option<SignedDuration>,
    /// How a rollout has just ended.
    pub(super) ended: Option<Ended>,
}

impl Effects {
    /// These, and those of a later step.
    #[must_use]
    pub(super) fn and(mut self, later: Self) -> Self {
        self.writes.extend(later.writes);
        self.asks.extend(later.asks);
        self.notes.extend(later.notes);
        self.waits_on.extend(later.waits_on);
        Self {
            wake_at: [self.wake_at, later.wake_at].into_iter().flatten().min(),
            stretch: later.stretch.or(self.stretch),
            adds_time: self.adds_time || later.adds_time,
            gate_took: later.gate_took.or(self.gate_took),
            ended: later.ended.or(self.ended),
            ..self
        }
    }

    #[must_use]
    pub(super) fn write(self, write: Action) -> Self {
        self.and(Self { writes: vec![write], ..Self::default() })
    }

    #[must_use]
    pub(super) fn note(self, note: Note) -> Self {
        self.and(Self { notes: vec![note], ..Self::default() })
    }

    #[must_use]
    pub(super) fn ask(self, asks: impl IntoIterator<Item = Ask>) -> Self {
        self.and(Self { asks: asks.into_iter().collect(), ..Self::default() })
    }

    /// Looks again at this time, or before.
    #[must_use]
    pub(super) fn wake(self, wake_at: Option<Timestamp>) -> Self {
        self.and(Self { wake_at, ..Self::default() })
    }

    /// Plans again when what a disruption was denied for changes.
    #[must_use]
    pub(super) fn denied<'d>(self, denials: impl IntoIterator<Item = &'d Denial>) -> Self {
        let waits_on = denials.into_iter().map(Denial::awaited).collect();
        self.and(Self { waits_on, ..Self::default() })
    }

    #[must_use]
    pub(super) fn end(self, ended: Ended) -> Self {
        self.and(Self { ended: Some(ended), ..Self::default() })
    }
}
