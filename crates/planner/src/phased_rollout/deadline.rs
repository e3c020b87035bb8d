//! The deadline of a gate: which waits count, and how their time adds up.
//!
//! The time is durable: it is added up in the status, from stretches of monotonic time that the process has been through
//! itself. The wall clock has no part in it. A stretch is what lies between two passes that found the gate in a state that
//! counts; one that is open when the process or its term ends, or whose end is seen on a view that cannot be confirmed, is
//! dropped.

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::GateStatus;

use super::gate::{index, later};
use super::progress::Effects;
use super::situation::Scene;
use super::wait::Wait;
use crate::disruption::{Denial, Gatekeeper};
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

/// Whether the gate's time runs while it waits for this, and what it was denied for where that stops it. While another set
/// of the group keeps the step from being taken the checks prove nothing about the revision: their streak gets old and
/// starts again. Nor does a pod that is down and has not been replaced by it.
pub(super) fn counts(scene: &Scene<'_>, gate: &GateStatus, wait: &Wait) -> (bool, Option<Denial>) {
    match wait {
        Wait::PodsNotAvailable { .. } => (has_lost_a_new_pod(scene, gate), None),
        wait if wait.is_about_checks() => {
            let denial = denied_by_others(scene);
            (denial.is_none(), denial)
        }
        wait => (wait.runs_the_deadline(), None),
    }
}

/// Whether a pod that the gates have let through is down. One that is Ready and will not have been for long enough within
/// minReadySeconds is not: its time is that of another clock.
fn has_lost_a_new_pod(scene: &Scene<'_>, gate: &GateStatus) -> bool {
    let (set, member) = (scene.set(), scene.member());
    let first = set.first_ordinal.saturating_add(index(gate));
    let settled_by = later(scene.now(), set.min_ready);
    member.pods.iter().any(|pod| {
        let new = member.wanted_ordinal(pod).is_some_and(|ordinal| ordinal >= first);
        new && match scene.health.why_down(&pod.name) {
            None | Some(Why::Leaving) => false,
            Some(Why::Settling { until }) => *until <= settled_by,
            Some(_) => true,
        }
    })
}

/// Why another set keeps the step from being taken. The checks run while every pod of the set itself is available, so
/// whatever is denied is denied for others.
fn denied_by_others(scene: &Scene<'_>) -> Option<Denial> {
    let pod = scene.member().pods.first().filter(|_| scene.managed.world.group_sets > 1)?;
    Gatekeeper::new(&scene.domain()).ask(&scene.set().name, pod).err()
}

/// A gate whose time was looked at.
pub(super) struct Spent {
    pub(super) gate: GateStatus,
    /// Whether it has used all the time that it has.
    pub(super) used_up: bool,
    pub(super) effects: Effects,
}

/// Adds the open stretch to the time of the gate where it is due. A stretch that nobody has attended to counts as one part
/// at most: nobody knows what was the case meanwhile.
pub(super) fn spend(scene: &Scene<'_>, gate: GateStatus, counts: bool) -> Spent {
    let world = scene.managed.world;
    let Some(limit) = scene.managed.policy.deadline.filter(|_| world.unconfirmed.is_none()) else {
        return Spent { gate, used_up: false, effects: Effects::default() };
    };
    let part = limit.checked_div(PARTS).unwrap_or(limit).max(SHORTEST_PART);
    let open = world.stretch.map_or(SignedDuration::ZERO, |stretch| stretch.open(&gate)).min(part);
    let left = limit.saturating_sub(written(&gate));
    let is_due = !counts || open >= part.min(left);
    let added = if is_due { open.as_secs() } else { 0 };
    let open = open.saturating_sub(SignedDuration::from_secs(added));
    let gate = GateStatus { elapsed_seconds: gate.elapsed_seconds.saturating_add(added), ..gate };
    let left = limit.saturating_sub(written(&gate));
    let used_up = counts && left <= SignedDuration::ZERO;
    // Also where a shorter deadline has ended it: it is said of the cluster as it is now.
    let effects = Effects { adds_time: added > 0 || used_up, ..Effects::default() };
    if !counts || used_up {
        return Spent { gate, used_up, effects };
    }
    let effects = Effects { stretch: Some(Stretch::of(&gate, open)), ..effects };
    let due = later(scene.now(), part.min(left).saturating_sub(open));
    Spent { gate, used_up, effects: effects.wake(Some(due)) }
}
