//! What a pass finds: judged from the rows and the status as they are, before anything is decided.

use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_api::phased_rollout::Target;

use super::World;
use super::policy::{Fault, Policy};
use super::row::RolloutRow;
use crate::disruption::{Allowance, DomainBudget};
use crate::health::{Health, Member};
use crate::set::{SetRow, Strategy};

/// What is the case for a rollout.
pub(super) enum Situation<'w> {
    /// The spec has faults.
    InvalidSpec(&'w [Fault]),
    /// Another target was named, or a set other than the target carries the mark of the rollout.
    FormerSet {
        /// The set that the status names.
        managed: Option<&'w Target>,
        /// The set to release, where it exists.
        held: Option<&'w SetRow>,
    },
    /// The target does not exist.
    NoTarget,
    TargetDeleting(&'w SetRow),
    /// An older rollout has the same target.
    ManagedByOther {
        /// The target.
        set: &'w SetRow,
        /// The older rollout.
        other: &'w RolloutRow,
    },
    /// The target's strategy leaves no partition to steer.
    WrongStrategy(&'w SetRow),
    Suspended(Managed<'w>),
    /// The StatefulSet controller has not reported the revisions of the present spec.
    Unobserved(Managed<'w>),
    /// The set can be rolled.
    Observed(Scene<'w>),
}

/// A set whose partition is steered.
#[derive(Clone, Copy)]
pub(super) struct Managed<'w> {
    pub(super) world: &'w World,
    pub(super) now: Timestamp,
    pub(super) policy: &'w Policy,
    pub(super) member: &'w Member,
    /// The partition as it is on the set.
    pub(super) partition: u32,
}

/// A managed set whose revisions are known.
pub(super) struct Scene<'w> {
    pub(super) managed: Managed<'w>,
    pub(super) health: Health,
    pub(super) update: &'w str,
    pub(super) current: &'w str,
}

impl<'w> Situation<'w> {
    pub(super) fn of(world: &'w World, now: Timestamp) -> Self {
        let rollout = &world.rollout;
        let policy = match &rollout.spec.policy {
            Ok(policy) => policy,
            Err(faults) => return Self::InvalidSpec(faults),
        };
        let is_other = |name: &str| rollout.target() != Some(name);
        let managed = rollout.status.target.as_ref().filter(|managed| is_other(&managed.name));
        let held = world.held.iter().find(|set| is_other(&set.name)).map(|set| &**set);
        if managed.is_some() || held.is_some() {
            return Self::FormerSet { managed, held };
        }
        let Some(member) = &world.target else { return Self::NoTarget };
        let set = &*member.set;
        if set.deleting {
            return Self::TargetDeleting(set);
        }
        let rivals =
            world.others.iter().filter(|other| !other.deleting && other.target() == Some(&*set.name));
        if let Some(other) = rivals.map(|rival| &**rival).find(|rival| rival.precedes(rollout)) {
            return Self::ManagedByOther { set, other };
        }
        let Strategy::RollingUpdate { partition } = set.strategy else { return Self::WrongStrategy(set) };
        let managed = Managed { world, now, policy, member, partition };
        if policy.suspended {
            return Self::Suspended(managed);
        }
        match (set.target(), set.current_revision.as_deref()) {
            (Some(update), Some(current)) => {
                Self::Observed(Scene { managed, health: Health::of(member, now), update, current })
            }
            _ => Self::Unobserved(managed),
        }
    }
}

impl<'w> Managed<'w> {
    pub(super) fn set(&self) -> &'w Arc<SetRow> {
        &self.member.set
    }

    pub(super) fn rollout(&self) -> &'w RolloutRow {
        &self.world.rollout
    }

    /// The budget that binds the rollout, with the set as it is here: its own, and that of the other sets of its group.
    pub(super) fn domain(&self, member: &Member) -> DomainBudget {
        let members = std::iter::once(member).chain(&self.world.neighbours);
        DomainBudget::of(members, Allowance::OnePod, self.now).of_sets(self.world.group_sets)
    }
}

impl<'w> Scene<'w> {
    pub(super) fn set(&self) -> &'w Arc<SetRow> {
        self.managed.set()
    }

    pub(super) fn member(&self) -> &'w Member {
        self.managed.member
    }

    pub(super) fn rollout(&self) -> &'w RolloutRow {
        self.managed.rollout()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.managed.now
    }

    pub(super) fn domain(&self) -> DomainBudget {
        self.managed.domain(self.managed.member)
    }
}
