//! Who is where: the slots that the spec asks for, the pods that fill them, and those that are condemned.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;

use super::claiming::members;
use super::world::World;
use crate::ordinal;
use crate::pod::{Phase, PodRow};

/// The pods of a set by their place.
pub(super) struct Slots<'w> {
    /// The ordinals that the spec asks for.
    pub(super) range: Range<u32>,
    /// The pods in that range.
    pub(super) filled: BTreeMap<u32, &'w Arc<PodRow>>,
    /// The pods outside of it, with their ordinals, the highest first.
    pub(super) condemned: Vec<(u32, &'w Arc<PodRow>)>,
    judge: Judge,
}

/// What makes a pod available, at one moment.
#[derive(Clone, Copy)]
pub(super) struct Judge {
    min_ready: jiff::SignedDuration,
    now: Timestamp,
}

impl<'w> Slots<'w> {
    pub(super) fn of(world: &'w World, now: Timestamp) -> Self {
        let range = world.set.ordinals();
        let placed = members(world)
            .filter_map(|pod| Some((ordinal::of_pod(&pod.name, &world.set.name)?, pod)))
            .collect::<BTreeMap<_, _>>();
        let (filled, condemned): (BTreeMap<_, _>, Vec<_>) = placed.into_iter().rev().fold(
            Default::default(),
            |(mut filled, mut condemned), (ordinal, pod)| {
                if range.contains(&ordinal) {
                    filled.insert(ordinal, pod);
                } else {
                    condemned.push((ordinal, pod));
                }
                (filled, condemned)
            },
        );
        Self { range, filled, condemned, judge: Judge { min_ready: world.set.min_ready, now } }
    }

    pub(super) fn judge(&self) -> Judge {
        self.judge
    }

    /// All pods with a place.
    pub(super) fn pods(&self) -> impl Iterator<Item = &'w Arc<PodRow>> {
        self.filled.values().copied().chain(self.condemned.iter().map(|(_, pod)| *pod))
    }

    /// How many slots have no available pod.
    pub(super) fn unavailable(&self) -> u32 {
        let filled = u32::try_from(self.filled.len()).unwrap_or(u32::MAX);
        let missing = u32::try_from(self.range.len()).unwrap_or(u32::MAX).saturating_sub(filled);
        let down = self.filled.values().filter(|pod| self.judge.is_unavailable(pod)).count();
        missing.saturating_add(u32::try_from(down).unwrap_or(u32::MAX))
    }

    /// Whether every slot has an available pod and there is none besides.
    pub(super) fn settled(&self) -> bool {
        self.condemned.is_empty() && self.unavailable() == 0
    }

    /// When a pod that is Ready will be available, so that the world changes by time alone.
    pub(super) fn changes_at(&self) -> Option<Timestamp> {
        let Judge { min_ready, now } = self.judge;
        let waiting = self.pods().filter(|pod| is_ready(pod) && !self.judge.is_available(pod));
        let fallback = || now.saturating_add(min_ready).ok();
        let due = waiting.filter_map(|pod| {
            let due = pod.ready_since?.saturating_add(min_ready).ok();
            due.filter(|due| *due > now).or_else(fallback)
        });
        due.min()
    }
}

impl Judge {
    /// Whether the pod has been Ready for minReadySeconds, whatever its phase.
    pub(super) fn is_available(self, pod: &PodRow) -> bool {
        pod.ready_since.is_some_and(|since| {
            // A Ready condition without a time is read as the epoch: nobody knows for how long it has held.
            let known = since != Timestamp::UNIX_EPOCH;
            let long_enough = since.saturating_add(self.min_ready).is_ok_and(|due| due <= self.now);
            self.min_ready.is_zero() || (known && long_enough)
        })
    }

    /// Whether the pod is not available, or on its way out.
    pub(super) fn is_unavailable(self, pod: &PodRow) -> bool {
        pod.terminating || !self.is_available(pod)
    }

    /// Whether an orderly set goes past this pod.
    pub(super) fn is_healthy(self, pod: &PodRow) -> bool {
        !pod.terminating && is_ready(pod) && self.is_available(pod)
    }
}

/// Whether the pod is Running and Ready, also on its way out.
pub(super) fn is_ready(pod: &PodRow) -> bool {
    pod.phase == Phase::Running && pod.ready_since.is_some()
}

/// Whether the pod has ended.
pub(super) fn is_terminal(pod: &PodRow) -> bool {
    matches!(pod.phase, Phase::Failed | Phase::Succeeded)
}
