//! What a pass finds: judged from the rows and the status as they are, before anything is decided.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::scaling_policy::{DeletionPolicy, LockStatus, PodRecord, RecordPhase};

use super::World;
use super::hook::Hook;
use super::lock::LockRow;
use super::moves::Moves;
use super::policy::Policy;
use super::record::is_under_way;
use super::wait::Wait;
use crate::disruption::{Allowance, DomainBudget};
use crate::health::Member;
use crate::ordinal;
use crate::pod::PodRow;
use crate::remedy::sizes::Size;
use crate::set::SetRow;

/// How long the calls of a policy that is deleted are taken back at most: whoever deletes it does not wait for an application
/// that does not answer.
const MAX_RELEASE: SignedDuration = SignedDuration::from_secs(60);

/// What is the case for a policy.
pub(super) enum Situation<'w> {
    /// It is being deleted, and nothing of it is ours any more.
    Gone,
    /// It is being deleted, and holds no set.
    Free,
    /// Nothing can be done, and why.
    Idle(Wait),
    /// It does not say how many pods it wants: as many as this.
    Unnumbered(u32),
    /// Its set, of this UID, has been deleted to be created again.
    Recreated(Box<str>),
    /// Its set is scaled.
    Managed(Box<Scene<'w>>),
}

/// How a policy ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It does not.
    None,
    /// The set keeps its replicas.
    Release,
    /// All pods are removed first.
    Drain,
}

/// A set that is scaled.
pub(super) struct Scene<'w> {
    pub(super) world: &'w World,
    pub(super) member: &'w Member,
    pub(super) paused: bool,
    pub(super) max_concurrent: u32,
    /// Whether the policy asks for a lock.
    asks_lock: bool,
    pub(super) deletes_claims: bool,
    pub(super) down: Option<Arc<Hook>>,
    pub(super) up: Option<Arc<Hook>>,
    /// The sizes of claims that are asked for.
    pub(super) sizes: &'w [Size],
    /// The number of pods that is asked for.
    pub(super) wanted: u32,
    pub(super) ending: Ending,
    pub(super) now: Timestamp,
}

impl<'w> Situation<'w> {
    pub(super) fn of(world: &'w World, now: Timestamp) -> Self {
        let row = &world.row;
        if row.deleting && !row.has_finalizer() {
            return Self::Gone;
        }
        if let Some(replaced) = replaced(world) {
            return Self::Recreated(replaced);
        }
        let idle = |wait: Wait| if row.deleting { Self::Free } else { Self::Idle(wait) };
        let policy = match &row.spec.policy {
            Ok(policy) => Some(policy),
            Err(faults) if !row.deleting => {
                let faults = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                return Self::Idle(Wait::Invalid { faults });
            }
            Err(_) => None,
        };
        let named = || row.target().or(row.status.target.as_ref().map(|target| &*target.name));
        let Some(member) = &world.target else {
            return idle(Wait::TargetMissing { set: named().unwrap_or_default().into() });
        };
        let set = &member.set;
        if let Some(by) = set.controller.as_ref().filter(|_| !row.may_scale(set)) {
            return idle(Wait::TargetControlled { set: Arc::clone(&set.name), by: Arc::clone(by) });
        }
        let others = world.others.iter().filter(|other| other.may_scale(set) && other.precedes(row));
        if let Some(other) = others.min_by_key(|it| it.created) {
            return idle(Wait::TargetClaimed { set: Arc::clone(&set.name), other: Arc::clone(&other.name) });
        }
        if set.deleting {
            return idle(Wait::TargetDeleting { set: Arc::clone(&set.name) });
        }
        let ending = match (row.deleting, policy.map(|_| row.spec.deletion)) {
            (false, _) => Ending::None,
            (true, Some(DeletionPolicy::Drain)) => Ending::Drain,
            (true, Some(DeletionPolicy::Release) | None) => Ending::Release,
        };
        let wanted = match (ending, policy.and_then(|policy| policy.replicas)) {
            (Ending::Release, _) => set.replicas,
            (Ending::Drain, _) => 0,
            (Ending::None, Some(wanted)) => wanted,
            (Ending::None, None) => return Self::Unnumbered(held_of(world, set).unwrap_or(set.replicas)),
        };
        Self::Managed(Box::new(Scene::new(world, member, policy.map(|it| &**it), (wanted, ending), now)))
    }
}

/// The UID of the set that is being replaced by another object of its name, where that is not there yet.
fn replaced(world: &World) -> Option<Box<str>> {
    let replaced = world.row.status.remedy.as_ref()?.replaces.as_deref()?;
    let is_over = match &world.target {
        None => true,
        Some(member) => *member.set.uid == *replaced && member.set.deleting,
    };
    is_over.then(|| replaced.into())
}

/// The number of replicas that was held of this set, or of the one that it has replaced.
fn held_of(world: &World, set: &SetRow) -> Option<u32> {
    let status = &world.row.status;
    let replaced = status.remedy.as_ref().and_then(|remedy| remedy.replaces.as_deref());
    let is_same = |uid: &str| uid == &*set.uid || Some(uid) == replaced;
    let is_same = status.target.as_ref().is_some_and(|target| is_same(&target.uid));
    status.held_replicas.filter(|_| is_same)
}

impl<'w> Scene<'w> {
    fn new(
        world: &'w World,
        member: &'w Member,
        policy: Option<&'w Policy>,
        (wanted, ending): (u32, Ending),
        now: Timestamp,
    ) -> Self {
        Self {
            world,
            member,
            // Whoever deletes a policy wants it gone, also where it was paused.
            paused: policy.is_some_and(|policy| policy.paused) && ending != Ending::Release,
            max_concurrent: policy.map_or(1, |policy| policy.max_concurrent),
            asks_lock: policy.is_some_and(|policy| policy.lock),
            deletes_claims: policy.is_some_and(|policy| policy.deletes_claims) && ending != Ending::Release,
            down: policy.and_then(|policy| policy.down.clone()),
            up: policy.and_then(|policy| policy.up.clone()),
            sizes: policy.filter(|_| ending == Ending::None).map_or(&[], |policy| &policy.volume_claims),
            wanted,
            ending,
            now,
        }
    }

    pub(super) fn set(&self) -> &'w Arc<SetRow> {
        &self.member.set
    }

    /// The replicas of the set.
    pub(super) fn replicas(&self) -> u32 {
        self.set().replicas
    }

    /// The number of replicas that was held of this set.
    pub(super) fn held(&self) -> Option<u32> {
        held_of(self.world, self.set())
    }

    /// The pod at an index: its ordinal counts from the first one of the set.
    pub(super) fn ordinal(&self, index: u32) -> u32 {
        self.set().first_ordinal.saturating_add(index)
    }

    /// The index of an ordinal.
    pub(super) fn index(&self, ordinal: u32) -> u32 {
        ordinal.saturating_sub(self.set().first_ordinal)
    }

    pub(super) fn pod_name(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}", self.set().name)
    }

    /// The pod of an ordinal, as it was observed.
    pub(super) fn pod(&self, ordinal: u32) -> Option<&'w Arc<PodRow>> {
        let is_it = |pod: &&Arc<PodRow>| ordinal::of_pod(&pod.name, &self.set().name) == Some(ordinal);
        self.member.pods.iter().find(is_it)
    }

    /// How many pods remain, as far as can be said now: none below one that failed to leave is removed.
    pub(super) fn floor(&self, leaving: &[PodRecord]) -> u32 {
        let failed = leaving.iter().filter(|record| record.phase == RecordPhase::Failed);
        let kept = failed.map(|record| self.index(record.ordinal).saturating_add(1)).max();
        kept.unwrap_or(0).max(self.wanted)
    }

    /// Whether the set is to have a lock. A policy that ends takes it away at last.
    pub(super) fn wants_lock(&self) -> bool {
        let is_left = match self.ending {
            Ending::None => false,
            Ending::Release => true,
            Ending::Drain => self.replicas() == 0 && self.member.pods.is_empty(),
        };
        self.asks_lock && !is_left
    }

    /// What the status says of the lock of this set.
    pub(super) fn lock_status(&self) -> Option<LockStatus> {
        let status = &self.world.row.status;
        let is_same = status.target.as_ref().is_some_and(|target| target.uid == *self.set().uid);
        let lock = status.lock.clone()?;
        Some(if is_same { lock } else { LockStatus { template_generation: None, contest: None, ..lock } })
    }

    /// The ConfigMap of the lock.
    pub(super) fn lock(&self) -> Option<&'w Arc<LockRow>> {
        let name = &self.world.row.status.lock.as_ref()?.config_map;
        self.world.locks.iter().find(|lock| *lock.name == **name && !lock.terminating)
    }

    /// Whether pods leave by the lock: it has been added, and is not being removed.
    pub(super) fn is_locked(&self) -> bool {
        self.lock_status().is_some_and(|lock| !lock.removing && lock.template_generation.is_some())
    }

    /// Whether the template has the lock now, so that every pod that is created does.
    pub(super) fn is_lock_in_place(&self) -> bool {
        let generation = Some(self.set().generation);
        self.is_locked() && self.lock_status().is_some_and(|lock| lock.template_generation == generation)
    }

    /// Whether the set says that the pod of this ordinal leaves.
    pub(super) fn is_announced(&self, ordinal: u32) -> bool {
        self.set().leaving().contains(&ordinal)
    }

    /// The budget of the set and of the other sets of its group.
    pub(super) fn domain(&self) -> DomainBudget {
        let members = std::iter::once(self.member).chain(&self.world.neighbours);
        DomainBudget::of(members, Allowance::OnePod, self.now).of_sets(self.world.group_sets)
    }

    /// How long a call is taken back.
    pub(super) fn cancel_limit(&self, hook: &Hook) -> SignedDuration {
        if self.ending == Ending::Release { hook.deadline.min(MAX_RELEASE) } else { hook.deadline }
    }
}

/// Lets the policy go once nothing of it is left on the set.
pub(super) fn depart(scene: &Scene<'_>, moves: &mut Moves) {
    let before = &scene.world.row.status;
    let is_clear = |records: &[PodRecord]| records.iter().all(|record| !is_under_way(record));
    let is_released = is_clear(&before.leaving)
        && is_clear(&moves.status.leaving)
        && scene.set().steering.leaving.is_none()
        && before.lock.is_none()
        && moves.status.lock.is_none()
        && moves.status.claim_retention.is_none()
        && moves.status.remedy.as_ref().is_none_or(|remedy| remedy.replaces.is_none())
        && moves.set_write.is_none();
    let is_over = match scene.ending {
        Ending::None => false,
        Ending::Release => is_released,
        Ending::Drain => is_released && scene.replicas() == 0 && scene.member.pods.is_empty(),
    };
    if !is_over {
        if scene.ending != Ending::None {
            moves.waits.push(Wait::Deleting);
        }
        return;
    }
    match &scene.world.unconfirmed {
        Some(why) => moves.waits.push(Wait::ViewUnconfirmed { why: Arc::clone(why) }),
        None => moves.departure = Some(scene.world.row.let_go()),
    }
}
