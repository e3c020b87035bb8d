//! The deadline of a gate: which waits count, and how their time adds up.
//!
//! The time is durable: it is added up in the status, from stretches of monotonic time that the process has been through
//! itself. The wall clock has no part in it. A stretch is what lies between two passes that found the gate in a state that
//! counts; one that is open when the process or its term ends, or whose end is seen on a view that cannot be confirmed, is
//! dropped.

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::GateStatus;

use super::Draft;
use super::gate::later;
use super::manage::Scene;
use super::wait::Wait;
use crate::disruption::Gatekeeper;
use crate::health::Why;

/// The parts of a deadline in which its time is written: a process that ends loses one of them at most, and a gate costs
/// no more than this many writes.
const PARTS: i32 = 10;

/// The shortest part: the status counts whole seconds.
const SHORTEST_PART: SignedDuration = SignedDuration::from_secs(1);

/// The time that a gate has used, as far as this process knows: what its status says, and the open stretch. Both in one, so
/// that a stretch which was written to the status is not added once more where the answer to that write was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    start_time: Timestamp,
    partition: i32,
    used: SignedDuration,
}

impl Stretch {
    /// Of a gate, and open for so long.
    pub fn of(gate: &GateStatus, open: SignedDuration) -> Self {
        let used = written(gate).saturating_add(open);
        Self { start_time: gate.start_time, partition: gate.partition, used }
    }

    /// The same, some time later.
    #[must_use]
    pub fn after(self, time: SignedDuration) -> Self {
        Self { used: self.used.saturating_add(time), ..self }
    }

    /// What the status of the gate lacks; nothing where this is another gate's time.
    fn open(self, gate: &GateStatus) -> SignedDuration {
        if (self.start_time, self.partition) == (gate.start_time, gate.partition) {
            self.used.saturating_sub(written(gate)).max(SignedDuration::ZERO)
        } else {
            SignedDuration::ZERO
        }
    }
}

fn written(gate: &GateStatus) -> SignedDuration {
    SignedDuration::from_secs(gate.elapsed_seconds)
}

impl Draft<'_> {
    /// Whether the gate's time runs while it waits for this. While another set of the group keeps the step from being taken
    /// the checks prove nothing about the revision: their streak gets old and starts again. Nor does a pod that is down and
    /// has not been replaced by it.
    pub(super) fn counts(&self, scene: &Scene<'_>, gate: &GateStatus, wait: &Wait) -> bool {
        match wait {
            Wait::PodsNotAvailable { .. } => self.has_lost_a_new_pod(scene, gate),
            wait if wait.is_about_checks() => !self.is_held_by_others(scene),
            wait => wait.runs_the_deadline(),
        }
    }

    /// Whether a pod that the gates have let through is down. One that is Ready and will not have been for long enough within
    /// minReadySeconds is not: its time is that of another clock.
    fn has_lost_a_new_pod(&self, scene: &Scene<'_>, gate: &GateStatus) -> bool {
        let set = scene.set();
        let first = set.first_ordinal.saturating_add(u32::try_from(gate.partition).unwrap_or(0));
        let settled_by = later(self.now, set.min_ready);
        scene.member.pods.iter().any(|pod| {
            let new = scene.member.wanted_ordinal(pod).is_some_and(|ordinal| ordinal >= first);
            new && match scene.health.why_down(&pod.name) {
                None => false,
                Some(Why::Settling { until }) => *until <= settled_by,
                Some(_) => true,
            }
        })
    }

    fn is_held_by_others(&self, scene: &Scene<'_>) -> bool {
        // The checks run while every pod of the set itself is available, so whatever is refused is refused for others.
        let pod = scene.member.pods.first().filter(|_| self.world.group_sets > 1);
        pod.is_some_and(|pod| {
            Gatekeeper::new(&self.domain(scene.member)).ask(&scene.set().name, pod).is_err()
        })
    }

    /// Adds the open stretch to the time of the gate where it is due, and says whether the gate has used all it has. A
    /// stretch that nobody has attended to counts as one part at most: nobody knows what was the case meanwhile.
    pub(super) fn spend(&mut self, scene: &Scene<'_>, gate: &mut GateStatus, counts: bool) -> bool {
        let Some(limit) = scene.policy.deadline else { return false };
        let part = limit.checked_div(PARTS).unwrap_or(limit).max(SHORTEST_PART);
        if self.world.unconfirmed.is_some() {
            return false;
        }
        let mut open =
            self.world.stretch.map_or(SignedDuration::ZERO, |stretch| stretch.open(gate)).min(part);
        let left = limit.saturating_sub(written(gate));
        if !counts || open >= part.min(left) {
            let whole = open.as_secs();
            gate.elapsed_seconds = gate.elapsed_seconds.saturating_add(whole);
            self.decision.adds_time |= whole > 0;
            open = open.saturating_sub(SignedDuration::from_secs(whole));
        }
        if !counts {
            return false;
        }
        let left = limit.saturating_sub(written(gate));
        if left <= SignedDuration::ZERO {
            // Also where a shorter deadline has ended it: it is said of the cluster as it is now.
            self.decision.adds_time = true;
            return true;
        }
        self.decision.stretch = Some(Stretch::of(gate, open));
        self.wake_at(Some(later(self.now, part.min(left).saturating_sub(open))));
        false
    }
}
