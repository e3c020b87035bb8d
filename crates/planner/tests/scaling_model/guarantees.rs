//! What must always be.

use std::fmt;

/// A guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// A pod that we remove was drained when it was looked at last, unless `Force` gave it up.
    Drained,
    /// A pod that is gone when we remove its ordinal had been drained.
    DrainedWhenGone,
    /// Replicas are lowered past pods only whose records say so.
    Remembered,
    /// Replicas are lowered past pods only that the set names as leaving.
    Named,
    /// A pod is called only while the status has its record and the set its ordinal.
    Announced,
    /// No more pods leave than may.
    Concurrency,
    /// No pod is removed that the policy, as far as it was seen, asks for.
    Wanted,
    /// A pod that stays is not left prepared for its removal.
    TakenBack,
    /// Replicas that we lowered ourselves are not restored.
    OwnWrite,
    /// Nothing starts in the place of a drained pod while it is recorded as drained.
    Fenced,
    /// Claims are deleted only after a recorded drain.
    ClaimsKept,
    /// At the goal nothing is written.
    Rest,
}

/// The guarantees that do not hold any more.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Broken(u16);

impl Broken {
    pub(crate) fn add(&mut self, guarantee: Guarantee) {
        self.0 |= 1 << guarantee as u16;
    }

    pub(crate) fn add_all(&mut self, others: Self) {
        self.0 |= others.0;
    }

    pub(crate) fn has(self, guarantee: Guarantee) -> bool {
        self.0 & 1 << guarantee as u16 != 0
    }

    /// What is broken besides these.
    pub(crate) fn without(self, others: &[Guarantee]) -> Self {
        Self(others.iter().fold(self.0, |mask, other| mask & !(1 << *other as u16)))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Guarantee::{
            Announced, ClaimsKept, Concurrency, Drained, DrainedWhenGone, Fenced, Named, OwnWrite,
            Remembered, Rest, TakenBack, Wanted,
        };
        let all = [
            Drained,
            DrainedWhenGone,
            Remembered,
            Named,
            Announced,
            Concurrency,
            Wanted,
            TakenBack,
            OwnWrite,
            Fenced,
            ClaimsKept,
            Rest,
        ];
        f.debug_set().entries(all.into_iter().filter(|guarantee| self.has(*guarantee))).finish()
    }
}
