//! Holding the partition: it is what was decided, whoever else writes it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::{Contest, GateState, Phase};

use super::Draft;
use super::gate::{self, later, to_i32};
use super::wait::Wait;
use crate::disruption::Gatekeeper;
use crate::health::Member;
use crate::plan::Action;
use crate::pod::PodRow;
use crate::reason::Reason;
use crate::rollout_group::OBSERVATION_GRACE;
use crate::set::{SetRow, Strategy};

/// Foreign writes to the partition that are undone at once: the first ones may be a person, or a tool that does not
/// know us yet.
const CONTEST_FREE: i32 = 5;

/// The first wait before a foreign write is undone again, doubled with each.
const CONTEST_DELAY: SignedDuration = SignedDuration::from_secs(1);

/// The longest such wait: the set rolls unchecked meanwhile, so that it must not be long.
const CONTEST_MAX_DELAY: SignedDuration = SignedDuration::from_secs(60);

/// A contest is over when nobody has written for so long.
const CONTEST_MEMORY: SignedDuration = SignedDuration::from_mins(10);

impl Draft<'_> {
    /// The set's own controller has not looked at the spec. Its revisions are not known, but a partition that is too
    /// low may be raised, and at once: a template may have come with more replicas, or with a partition of its own.
    pub(super) fn unobserved(&mut self, set: &SetRow, partition: u32) -> Option<Wait> {
        if let Some(own) = self.held_at(set, partition).filter(|own| partition < *own) {
            // If it is contested it is not held now; that is told once the set is observed.
            self.hold(set, partition, own);
        }
        let wait = Wait::NotObserved { generation: set.generation };
        let told_at = self.world.unobserved_since.map(|since| later(since, OBSERVATION_GRACE));
        match told_at {
            Some(told_at) if told_at > self.now && self.before().waiting_for.is_some() => {
                self.wake_at(Some(told_at));
                None
            }
            _ => Some(wait),
        }
    }

    /// Where the partition holds, as far as that can be said without the revisions.
    fn held_at(&self, set: &SetRow, partition: u32) -> Option<u32> {
        let Some(gate) = &self.status.rolling_pod_status else {
            // A set that has just been taken as well: it may have been created over pods of another revision.
            let holds = matches!(
                self.status.phase,
                None | Some(Phase::Updated | Phase::RollingBack | Phase::RolledBack)
            );
            return holds.then_some(set.replicas);
        };
        let own = u32::try_from(gate.partition).unwrap_or(0);
        if gate.status == GateState::Passed && own.checked_sub(1) == Some(partition) {
            // The step was taken and not written down.
            return None;
        }
        let promoted = self.status.update_revision.as_deref() == set.current_revision.as_deref();
        // Where the set was created over pods of another revision, that holds from the first gate on.
        let final_gate = promoted && gate.partition == 0 && !self.has_pods_to_replace();
        let whole = final_gate || gate.partition >= gate.replicas;
        Some(if whole { set.replicas } else { own.min(set.replicas) })
    }

    /// Whether pods of the revision before are there. A set that was created over its pods calls the update revision current
    /// from the start, and its last pod has yet to be replaced when the final gate begins.
    fn has_pods_to_replace(&self) -> bool {
        let Some(member) = &self.world.target else { return false };
        let update = self.status.update_revision.as_deref();
        let to_replace = |pod: &PodRow| self.is_adopted(pod) && pod.revision.as_deref() != update;
        member.pods.iter().any(|pod| to_replace(pod) && member.wanted_ordinal(pod).is_some())
    }

    /// Why the partition that somebody else has raised may not be lowered to `own` again, where that would release pods. Each
    /// of them must have its permit with the partition where it shall be, since that says what it is rebuilt with. The
    /// set's own controller replaces them one by one, so that each is asked for by itself.
    pub(super) fn release_is_held(&mut self, member: &Member, partition: u32, own: u32) -> Option<Reason> {
        let set = &member.set;
        let update = set.target()?;
        let released = set.first_ordinal.saturating_add(own)..set.first_ordinal.saturating_add(partition);
        let is_released = |pod: &&Arc<PodRow>| {
            let ordinal = member.wanted_ordinal(pod);
            ordinal.is_some_and(|ordinal| released.contains(&ordinal)) && !gate::is_of(pod, update)
        };
        let lowered = SetRow { strategy: Strategy::RollingUpdate { partition: own }, ..SetRow::clone(set) };
        let lowered = Member { set: Arc::new(lowered), pods: member.pods.clone() };
        let mut pods = member.pods.iter().filter(is_released).peekable();
        pods.peek()?;
        let domain = self.domain(&lowered);
        let denial = pods.find_map(|pod| Gatekeeper::new(&domain).ask(&set.name, pod).err())?;
        self.wake_at(domain.changes_at());
        Some(self.denied(&denial))
    }

    /// Makes the partition what it has to be. A value that is neither that nor the one last decided on is somebody
    /// else's; whoever keeps writing it makes us wait before the next time.
    pub(super) fn hold(&mut self, set: &SetRow, partition: u32, own: u32) -> Option<Wait> {
        // A time that is yet to come was written by a clock that ran ahead.
        let recent = |time: Timestamp| time <= self.now && later(time, CONTEST_MEMORY) > self.now;
        let contest = self.status.contest.clone().filter(|contest| recent(contest.last_time));
        self.wake_at(contest.as_ref().map(|contest| later(contest.last_time, CONTEST_MEMORY)));
        let foreign = self.status.partition.is_some_and(|last| last != to_i32(partition));
        self.status.contest.clone_from(&contest);
        if partition == own {
            self.status.partition = Some(to_i32(own));
            if !self.is_marked(set) {
                // Somebody has removed the mark, or the value was there before us.
                self.writes.push(Action::pin(set, &self.world.rollout.name, own));
            }
            return None;
        }
        let pin = Action::pin(set, &self.world.rollout.name, own);
        if foreign {
            let times = contest.as_ref().map_or(0, |contest| contest.times);
            let until = contest.as_ref().and_then(|contest| rests_until(contest, self.now));
            if let (Some(until), Some(contest)) = (until, contest) {
                self.wake_at(Some(until));
                return Some(Wait::PartitionContested { manager: contest.manager, until });
            }
            self.decision.plan.asks.extend(self.world.ask_for_manager());
            let manager = self.world.partition_manager.clone().unwrap_or_else(|| "somebody".to_owned());
            let message = format!("{manager} has set the partition to {partition}; it is restored to {own}");
            self.write_and_announce(pin, "PartitionRestored", message);
            let times = times.saturating_add(1);
            self.status.contest = Some(Contest { manager, times, last_time: self.now });
            self.wake_at(Some(later(self.now, CONTEST_MEMORY)));
        } else {
            self.writes.push(pin);
        }
        self.status.partition = Some(to_i32(own));
        None
    }
}

/// Until when a contested partition is left alone.
fn rests_until(contest: &Contest, now: Timestamp) -> Option<Timestamp> {
    let beyond = u32::try_from(contest.times.checked_sub(CONTEST_FREE)?).ok()?;
    let delay = CONTEST_DELAY.checked_mul(2_i32.saturating_pow(beyond)).unwrap_or(CONTEST_MAX_DELAY);
    let delay = delay.min(CONTEST_MAX_DELAY);
    Some(later(contest.last_time, delay)).filter(|until| *until > now)
}
