//! One set of a group, judged: its target, its budget, what is outdated and what is down.

use std::cmp::Reverse;
use std::sync::Arc;

use sts_plus_api::keys;
use sts_plus_api::rollout_status::RolloutStatus;

use super::Memory;
use crate::health::{Health, Member, Why};
use crate::ordinal;
use crate::plan::Action;
use crate::pod::PodRow;
use crate::reason::Reason;
use crate::set::Strategy;

/// A member of the group as the plan sees it.
#[derive(Debug)]
pub struct Zone<'w> {
    /// The set and its pods.
    pub member: &'w Member,
    /// The revision its pods shall have; `None` until the set's controller has observed the spec.
    pub target: Option<&'w str>,
    /// Its pods of another revision, or of none, that the spec asks for.
    pub outdated: Vec<&'w Arc<PodRow>>,
    /// Whether outdated pods leave instead of being replaced.
    pub keeps_outdated: bool,
    /// What is down.
    pub health: &'w Health,
    /// The annotation's value, where it could not be used.
    pub bad_max_unavailable: Option<&'w str>,
    /// Whether the user has paused it.
    pub paused: bool,
    /// The state that was reported last: as far as this process knows, else as written on the set.
    pub told: Option<RolloutStatus>,
    /// The state that is written on the set, if one is and can be read.
    pub written: Option<RolloutStatus>,
}

/// How far a set is in the eyes of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not to be rolled now: paused, or being deleted.
    PassedOver,
    /// Nothing outdated, all Ready.
    Done,
    /// Nothing outdated but something down, or the target unknown.
    HoldsUp,
    /// Some pods are outdated.
    Outdated,
}

impl<'w> Zone<'w> {
    /// Judges a member of this health.
    pub fn judge(member: &'w Member, health: &'w Health, memory: &Memory) -> Self {
        let set = &member.set;
        let written = set.steering.rollout_status.as_deref().and_then(RolloutStatus::parse);
        let target = set.target();
        // A pod that is to leave is not replaced only to be removed, unless it is broken: it has to run to be prepared.
        let stays = |pod: &PodRow| {
            let is_broken = || matches!(health.why_down(&pod.name), Some(Why::Broken(_)));
            let ordinal = member.wanted_ordinal(pod);
            ordinal.is_some_and(|ordinal| !set.is_doomed(ordinal) || is_broken())
        };
        let is_outdated = |pod: &PodRow| target.is_some_and(|target| pod.revision.as_deref() != Some(target));
        let (outdated, kept): (Vec<_>, Vec<_>) =
            member.pods.iter().filter(|pod| is_outdated(pod)).partition(|pod| stays(pod));
        let keeps_outdated = kept.iter().any(|pod| member.wanted_ordinal(pod).is_some());
        Self {
            member,
            target,
            outdated,
            keeps_outdated,
            health,
            bad_max_unavailable: set.max_unavailable().err(),
            paused: set.steering.paused.as_deref() == Some("true"),
            told: memory.reported.get(&set.uid).cloned().or_else(|| written.clone()),
            written,
        }
    }

    pub fn name(&self) -> &Arc<str> {
        &self.member.set.name
    }

    /// Why the whole group is skipped, if this set does not leave deletions to us.
    pub(crate) fn foreign_strategy(&self) -> Option<Reason> {
        match &self.member.set.strategy {
            Strategy::OnDelete => None,
            strategy => Some(Reason::GroupSkipped {
                set: Arc::clone(self.name()),
                strategy: strategy.to_string().into(),
            }),
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        if self.paused || self.member.set.deleting {
            Stage::PassedOver
        } else if !self.outdated.is_empty() {
            Stage::Outdated
        } else if self.target.is_none() || !self.health.all_ready() {
            Stage::HoldsUp
        } else {
            Stage::Done
        }
    }

    /// The outdated pods that are not on their way out already, in the order in which they should go: dead ones, broken
    /// ones before others, then broken ones of which something runs, then others that are down, so that no healthy pod is
    /// lost while one that is lost already would do; then by ordinal, the lowest first. Those that leave come last: they are
    /// not replaced, and must not keep the others waiting.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = &'w Arc<PodRow>> {
        let mut pods: Vec<_> = self.outdated.iter().filter(|pod| !pod.terminating).copied().collect();
        pods.sort_by(|left, right| {
            let urgency = |pod: &PodRow| (self.leaves(pod), Reverse(self.urgency(pod)));
            urgency(left).cmp(&urgency(right)).then_with(|| ordinal::natural(&left.name, &right.name))
        });
        pods.into_iter()
    }

    /// Whether one of these deletions is of an outdated pod of the set.
    pub(crate) fn has_deletion(&self, deletions: &[Action]) -> bool {
        self.candidates().any(|pod| deletions.iter().any(|deletion| deletion.object().name == pod.name))
    }

    fn leaves(&self, pod: &PodRow) -> bool {
        let ordinal = self.member.wanted_ordinal(pod);
        ordinal.is_some_and(|ordinal| self.member.set.leaving().contains(&ordinal))
    }

    fn urgency(&self, pod: &PodRow) -> u8 {
        match self.why_down(pod) {
            Some(Why::Broken(_)) if pod.is_dead() => 4,
            Some(_) if pod.is_dead() => 3,
            Some(Why::Broken(_)) => 2,
            Some(_) => 1,
            None => 0,
        }
    }

    /// Why a pod of the set is down, if it is.
    pub fn why_down(&self, pod: &PodRow) -> Option<&Why> {
        self.health.why_down(&pod.name)
    }

    /// Whether the set's rollout has begun and is not over: pods are outdated, or the last ones have been
    /// replaced and are not Ready yet.
    pub fn unfinished(&self) -> bool {
        let begun = || self.promotable().is_some() || self.told_rolling();
        !self.outdated.is_empty() || (!self.health.all_ready() && begun())
    }

    /// Whether the set says that it rolls. A rollback midway needs it: the status never called another
    /// revision current than the one that is the target again.
    fn told_rolling(&self) -> bool {
        self.told.as_ref().is_some_and(|told| Reason::ROLLING_KINDS.contains(&&*told.state))
    }

    /// The target, where the status still calls another revision current.
    fn promotable(&self) -> Option<&'w str> {
        self.target.filter(|target| self.member.set.current_revision.as_deref() != Some(target))
    }

    /// Once every pod is of the target revision and Ready, the status should say so. The set's controller is about
    /// to count the last pod at that moment, and goes first: both insist on the version they have read.
    pub(crate) fn promotion(&self) -> Option<Action> {
        let due = self.stage() == Stage::Done && self.member.set.counted && !self.keeps_outdated;
        let revision = self.promotable().filter(|_| due)?;
        Some(Action::promote(&self.member.set, revision, keys::MANAGER_ROLLOUT_GROUP))
    }
}
