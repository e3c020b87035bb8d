//! The one gatekeeper. Every voluntary disruption, whoever wants it, asks here first and gets a [`Permit`] or
//! a [`Denial`]. What it knows is read from API objects, so it survives a restart.
//!
//! A denial is data: each system has its own words for it, and whatever it names wakes the one denied when it changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::amount::DEFAULT_MAX_UNAVAILABLE;
use crate::health::{Health, Member, Why};
use crate::ordinal;
use crate::plan::Awaited;
use crate::pod::PodRow;
use crate::set::{SetName, SetRow, Strategy};

/// Leave to disrupt one pod, in the state in which it was seen. Only the gatekeeper makes one, and a
/// deletion cannot be written down without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    pod: Arc<PodRow>,
}

impl Permit {
    /// The pod that may go, at the UID and version the leave was given for.
    pub fn pod(&self) -> &PodRow {
        &self.pod
    }
}

/// Which budget binds whoever asks: how many pods of a set may be unavailable at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// That of the set: `rollout-max-unavailable`, otherwise one pod.
    OfSet,
    /// One pod, whatever the annotation says: it is for rollout groups, and a gate speaks of one pod at a time.
    OnePod,
}

/// The budget of a disruption domain at a moment: its sets, their health, how many of their pods may be unavailable, and
/// what will become unavailable. There is one way to make it, from the sets and their pods, so that all who ask are judged
/// by the same view.
#[derive(Clone, Debug)]
pub struct DomainBudget {
    members: Vec<Guarded>,
    /// How many sets the domain has, also where not all of them are known here.
    sets: usize,
}

impl DomainBudget {
    /// Judges the sets of a domain at a moment.
    pub fn of<'m>(
        members: impl IntoIterator<Item = &'m Member>,
        allowance: Allowance,
        now: Timestamp,
    ) -> Self {
        let members: Vec<_> = members.into_iter().map(|member| Guarded::of(member, allowance, now)).collect();
        Self { sets: members.len(), members }
    }

    /// The same for a domain of so many sets. One that has more than [`MAX_MEMBERS`] is not looked at: its sets wait,
    /// except for pods that are dead.
    #[must_use]
    pub fn of_sets(self, sets: usize) -> Self {
        Self { sets: sets.max(self.sets), ..self }
    }

    /// The health of each set, in the order in which they were given.
    pub fn health(&self) -> impl Iterator<Item = &Health> {
        self.members.iter().map(|guarded| &guarded.health)
    }

    /// How many pods of a set may be unavailable at once.
    pub fn max_unavailable(&self, set: &str) -> Option<u32> {
        let found = self.members.iter().find(|guarded| *guarded.set.name == *set);
        found.map(|guarded| guarded.max_unavailable)
    }

    /// When the health of a set changes without an event.
    pub fn changes_at(&self) -> Option<Timestamp> {
        self.health().filter_map(|health| health.changes_at).min()
    }
}

/// One set of a disruption domain, with all that the gatekeeper knows of it.
#[derive(Clone, Debug)]
struct Guarded {
    set: Arc<SetRow>,
    health: Health,
    max_unavailable: u32,
    disturbance: Option<Disturbance>,
    /// The pods that are down and outdated and that nobody has deleted: they are down whatever is done.
    left_behind: BTreeSet<Box<str>>,
    /// The ordinals of the pods that are being prepared for their removal.
    leaving: BTreeSet<u32>,
    /// The ordinals of the wanted pods that exist.
    present: BTreeSet<u32>,
    /// Whether any of its pods is Ready.
    serves: bool,
}

impl Guarded {
    fn of(member: &Member, allowance: Allowance, now: Timestamp) -> Self {
        let (set, health) = (Arc::clone(&member.set), Health::of(member, now));
        let is_lost = |pod: &PodRow| health.why_down(&pod.name).is_some_and(|why| *why != Why::Leaving);
        let is_left = |pod: &&Arc<PodRow>| !pod.terminating && is_outdated(&set, pod) && is_lost(pod);
        let left_behind = member.pods.iter().filter(is_left);
        let left_behind = left_behind.map(|pod| pod.name.clone()).collect();
        let max_unavailable = match allowance {
            Allowance::OfSet => set.max_unavailable().unwrap_or(DEFAULT_MAX_UNAVAILABLE),
            Allowance::OnePod => DEFAULT_MAX_UNAVAILABLE,
        };
        let (disturbance, leaving) = (Disturbance::of(member), set.leaving());
        let present = member.pods.iter().filter_map(|pod| member.wanted_ordinal(pod)).collect();
        let serves = member.pods.iter().any(|pod| pod.ready());
        Self { set, health, max_unavailable, disturbance, left_behind, leaving, present, serves }
    }

    /// How many pods do not exist because the set's own controller waits for this one. Where another pod serves, they are
    /// counted: one of them may have been deleted a moment ago, and this pod be Ready again in the next.
    fn missing_after(&self, pod: &str) -> u32 {
        let waits = self.set.is_ordered && !self.serves;
        let ordinal = ordinal::of_pod(pod, &self.set.name).filter(|_| waits);
        let Some(next) = ordinal.and_then(|ordinal| ordinal.checked_add(1)) else { return 0 };
        let wanted = self.set.ordinals().end.saturating_sub(next);
        wanted.saturating_sub(u32::try_from(self.present.range(next..).count()).unwrap_or(u32::MAX))
    }

    fn name(&self) -> SetName {
        SetName::from(&*self.set)
    }

    fn is_down(&self, pod: &str) -> bool {
        self.health.why_down(pod).is_some()
    }

    /// How many of its pods leave or are being deleted.
    fn on_their_way(&self) -> u32 {
        let is_on_its_way = |why: &Why| matches!(why, Why::Leaving | Why::Terminating);
        let all = self.health.down.iter().filter(|down| is_on_its_way(&down.why));
        u32::try_from(all.count()).unwrap_or(u32::MAX)
    }

    /// Whether the pod is being prepared for its removal.
    fn leaves(&self, pod: &str) -> bool {
        ordinal::of_pod(pod, &self.set.name).is_some_and(|ordinal| self.leaving.contains(&ordinal))
    }
}

/// Whether the set's own controller would build a wanted pod from another revision than it has.
fn is_outdated(set: &SetRow, pod: &PodRow) -> bool {
    let ordinal = ordinal::of_pod(&pod.name, &set.name).filter(|ordinal| set.ordinals().contains(ordinal));
    let revision = ordinal.and_then(|ordinal| set.revision_for(ordinal));
    revision.is_some_and(|revision| pod.revision.as_deref() != Some(revision))
}

/// Why the other sets of its domain wait for a set although all its pods are Ready: one of them will go down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The set's own controller will replace this pod, which is at or above the partition and outdated.
    Released {
        /// The pod's name.
        pod: Box<str>,
    },
    /// The set's own controller has not observed the spec, so that nobody knows what it will do.
    Unobserved {
        /// The generation of the spec.
        generation: i64,
    },
}

impl Disturbance {
    fn of(member: &Member) -> Option<Self> {
        let set = &member.set;
        let Some(update) = set.target() else {
            return (!set.deleting).then_some(Self::Unobserved { generation: set.generation });
        };
        let Strategy::RollingUpdate { partition } = set.strategy else { return None };
        let released = member.pods.iter().find(|pod| {
            let index = member.wanted_ordinal(pod).map(|ordinal| ordinal.saturating_sub(set.first_ordinal));
            index.is_some_and(|index| index >= partition) && pod.revision.as_deref() != Some(update)
        });
        released.map(|pod| Self::Released { pod: pod.name.clone() })
    }
}

/// Why a pod may not be disrupted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The domain has more sets than a domain may have.
    TooManySets {
        /// The set that asks.
        set: SetName,
        group: Option<Arc<str>>,
        /// How many sets there are.
        sets: usize,
    },
    /// Pods of another set are unavailable.
    OtherSetNotReady {
        set: SetName,
        /// Its pods that are unavailable.
        health: Health,
    },
    /// A pod of another set will become unavailable.
    OtherSetDisturbed {
        set: SetName,
        /// What will happen to it.
        disturbance: Disturbance,
    },
    /// A pod of another set was permitted to be disrupted in this round.
    OtherSetPermitted { set: SetName, pod: Box<str> },
    /// As many pods of the set as may be unavailable are, or will be by permits of this round.
    BudgetSpent {
        /// The set itself.
        set: SetName,
        /// Its pods that are unavailable.
        health: Health,
        /// How many may be.
        max_unavailable: u32,
    },
    /// The pod is being prepared for its removal: whoever does that removes it.
    Leaving { set: SetName, pod: Box<str> },
    /// The set is not one of the domain.
    NotInDomain { set: SetName },
}

impl Denial {
    /// The set that it is about.
    pub fn about(&self) -> &SetName {
        match self {
            Self::TooManySets { set, .. }
            | Self::OtherSetNotReady { set, .. }
            | Self::OtherSetDisturbed { set, .. }
            | Self::OtherSetPermitted { set, .. }
            | Self::BudgetSpent { set, .. }
            | Self::Leaving { set, .. }
            | Self::NotInDomain { set } => set,
        }
    }

    /// What has to change before the answer can be another one.
    pub fn awaited(&self) -> Awaited {
        match self {
            Self::TooManySets { set, group: Some(group), .. } => {
                Awaited::Group { namespace: Arc::clone(&set.namespace), group: Arc::clone(group) }
            }
            Self::TooManySets { set, group: None, .. }
            | Self::OtherSetNotReady { set, .. }
            | Self::OtherSetDisturbed { set, .. }
            | Self::OtherSetPermitted { set, .. }
            | Self::BudgetSpent { set, .. }
            | Self::Leaving { set, .. }
            | Self::NotInDomain { set } => Awaited::Set(set.clone()),
        }
    }
}

/// How many sets a group may have. A group is the zones of one workload, of which there are three or four; each change of
/// a set or a pod is looked at together with all others of its group, so a group of thousands would cost the operator
/// that many looks for each of its pods.
pub const MAX_MEMBERS: usize = 100;

/// The gatekeeper of one disruption domain: the sets of a rollout group, or one set alone.
#[derive(Debug)]
pub struct Gatekeeper<'d> {
    domain: &'d DomainBudget,
    granted: Vec<Grant>,
}

/// A permit given in this round: under way as far as later questions are concerned.
#[derive(Debug)]
struct Grant {
    set: SetName,
    pod: Box<str>,
    costs_budget: bool,
}

/// Why a pod is to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    /// It is outdated.
    Replace,
    /// Its revision failed, or was taken back.
    Revert,
}

impl<'d> Gatekeeper<'d> {
    /// A gatekeeper for the domain as it is now, with nothing granted yet.
    pub fn new(domain: &'d DomainBudget) -> Self {
        Self { domain, granted: Vec::new() }
    }

    /// May this superseded pod of `set` be replaced now?
    ///
    /// Never while a pod of another set of the domain is down, will go down or was just given leave to go down, unless
    /// the pod is dead: nothing that serves is lost with it, and two sets must not wait for each other.
    ///
    /// Within the set a dead pod that is broken costs nothing, since nothing else would heal the set. A pod that is
    /// not Ready costs what its deletion adds: pods that are outdated, down and not deleted are not counted, nor are those
    /// that do not exist because the set's own controller waits for this one and no pod of the set is Ready. Any other pod
    /// needs a free place in the set's budget.
    pub fn ask(&mut self, set: &Arc<str>, pod: &Arc<PodRow>) -> Result<Permit, Denial> {
        self.decide(set, pod, Deletion::Replace)
    }

    /// May this pod of a revision that failed go back to the one before?
    ///
    /// As [`Gatekeeper::ask`], but every dead pod costs nothing: a way back must be open from a state in which no container
    /// of the new revision ever runs. One of which a container runs may still vote in a quorum.
    pub fn ask_back(&mut self, set: &Arc<str>, pod: &Arc<PodRow>) -> Result<Permit, Denial> {
        self.decide(set, pod, Deletion::Revert)
    }

    /// May this pod of `set` begin to leave, if at most `max_concurrent` pods of the set leave at the same time?
    ///
    /// Never while another set of the domain is down, will go down or was just given leave to, unless the pod is dead. Within
    /// the set the pods that are down or leave already, and those that were just given leave, must be fewer; whether the pod
    /// itself is down does not matter, since it goes down whatever it is. With a broken pod nothing is lost, so for it only those
    /// that leave are counted: two broken ones must not wait for each other.
    pub fn ask_leave(
        &mut self,
        set: &Arc<str>,
        pod: &Arc<PodRow>,
        max_concurrent: u32,
    ) -> Result<Permit, Denial> {
        let mine = self.guarded(set, pod)?;
        if mine.leaves(&pod.name) {
            return Err(Denial::Leaving { set: mine.name(), pod: pod.name.clone() });
        }
        if let Some(denial) = self.denied_by_others(mine).filter(|_| !pod.is_dead()) {
            return Err(denial);
        }
        let (besides, granted) = match mine.health.why_down(&pod.name) {
            Some(Why::Broken(_)) => (mine.on_their_way(), self.granted_of(mine, |_| true)),
            why => {
                let besides = mine.health.count.saturating_sub(u32::from(why.is_some()));
                (besides, self.granted_of(mine, |grant| !mine.is_down(&grant.pod)))
            }
        };
        if besides.saturating_add(granted) >= max_concurrent {
            let (set, health) = (mine.name(), mine.health.clone());
            return Err(Denial::BudgetSpent { set, health, max_unavailable: max_concurrent });
        }
        self.granted.push(Grant { set: mine.name(), pod: pod.name.clone(), costs_budget: true });
        Ok(Permit { pod: Arc::clone(pod) })
    }

    /// May this pod of `set`, which leaves, be deleted, now that it is drained?
    ///
    /// It was given leave to leave, and whoever else asks counts it as down since: nothing that serves is lost with it. `None`
    /// for one that does not leave.
    pub fn ask_drained(&self, set: &Arc<str>, pod: &Arc<PodRow>) -> Option<Permit> {
        let mine = self.guarded(set, pod).ok()?;
        mine.leaves(&pod.name).then(|| Permit { pod: Arc::clone(pod) })
    }

    /// May this pod of `set` be deleted so that another set of its place gets its ordinal?
    ///
    /// Never while a pod of a set of another place is down, will go down or was just given leave to, unless the pod is dead. How
    /// many pods of the place may be down is decided by whoever knows its ordinals: they are shared by its sets.
    pub fn ask_handover(
        &mut self,
        set: &Arc<str>,
        pod: &Arc<PodRow>,
        place: &BTreeSet<Arc<str>>,
    ) -> Result<Permit, Denial> {
        let mine = self.guarded(set, pod)?;
        if mine.leaves(&pod.name) {
            return Err(Denial::Leaving { set: mine.name(), pod: pod.name.clone() });
        }
        if let Some(denial) =
            self.denied_by(mine, |other| !place.contains(&other.name)).filter(|_| !pod.is_dead())
        {
            return Err(denial);
        }
        self.granted.push(Grant { set: mine.name(), pod: pod.name.clone(), costs_budget: true });
        Ok(Permit { pod: Arc::clone(pod) })
    }

    /// What is known of the set of a pod.
    fn guarded(&self, set: &Arc<str>, pod: &PodRow) -> Result<&'d Guarded, Denial> {
        self.domain.members.iter().find(|guarded| guarded.set.name == *set).ok_or_else(|| {
            let namespace = Arc::clone(&pod.namespace);
            Denial::NotInDomain { set: SetName { namespace, name: Arc::clone(set) } }
        })
    }

    fn decide(&mut self, set: &Arc<str>, pod: &Arc<PodRow>, deletion: Deletion) -> Result<Permit, Denial> {
        let mine = self.guarded(set, pod)?;
        if mine.leaves(&pod.name) {
            return Err(Denial::Leaving { set: mine.name(), pod: pod.name.clone() });
        }
        let outdated = is_outdated(&mine.set, pod);
        let dead = outdated && pod.is_dead();
        if let Some(denial) = self.denied_by_others(mine).filter(|_| !dead) {
            return Err(denial);
        }
        let why = mine.health.why_down(&pod.name);
        let not_ready = matches!(why, Some(Why::Broken(_) | Why::NotReady));
        let free = dead && (deletion == Deletion::Revert || matches!(why, Some(Why::Broken(_))));
        let (uncounted, under_way) = match deletion {
            _ if not_ready && outdated => {
                let uncounted = self.left_behind(mine).saturating_add(mine.missing_after(&pod.name));
                (uncounted, self.granted_of(mine, |grant| !mine.is_down(&grant.pod)))
            }
            Deletion::Replace => (0, self.granted_of(mine, |grant| grant.costs_budget)),
            // One that has only begun to serve is lost by going, but it is the one that is counted already.
            Deletion::Revert => (u32::from(why.is_some()), self.granted_of(mine, |grant| grant.costs_budget)),
        };
        let used = mine.health.count.saturating_sub(uncounted).saturating_add(under_way);
        if !free && used >= mine.max_unavailable {
            let (set, health) = (mine.name(), mine.health.clone());
            return Err(Denial::BudgetSpent { set, health, max_unavailable: mine.max_unavailable });
        }
        self.granted.push(Grant { set: mine.name(), pod: pod.name.clone(), costs_budget: !free });
        Ok(Permit { pod: Arc::clone(pod) })
    }

    /// How many pods of the set are down and outdated and have not been deleted, nor were given leave to go.
    fn left_behind(&self, mine: &Guarded) -> u32 {
        let left = u32::try_from(mine.left_behind.len()).unwrap_or(u32::MAX);
        left.saturating_sub(self.granted_of(mine, |grant| mine.left_behind.contains(&grant.pod)))
    }

    /// How many permits of this kind the set was given in this round.
    fn granted_of(&self, mine: &Guarded, which: impl Fn(&Grant) -> bool) -> u32 {
        let own = self.granted.iter().filter(|grant| grant.set.name == mine.set.name);
        u32::try_from(own.filter(|grant| which(grant)).count()).unwrap_or(u32::MAX)
    }

    /// Why no pod of the set may be disrupted because of another set of the domain.
    fn denied_by_others(&self, mine: &Guarded) -> Option<Denial> {
        self.denied_by(mine, |other| other.name != mine.set.name)
    }

    /// The same for those of the sets that are asked about.
    fn denied_by(&self, mine: &Guarded, is_other: impl Fn(&SetRow) -> bool) -> Option<Denial> {
        let sets = self.domain.sets;
        if sets > MAX_MEMBERS {
            return Some(Denial::TooManySets { set: mine.name(), group: mine.set.group.clone(), sets });
        }
        let others = || self.domain.members.iter().filter(|guarded| is_other(&guarded.set));
        if let Some(other) = others().find(|guarded| !guarded.health.all_ready()) {
            return Some(Denial::OtherSetNotReady { set: other.name(), health: other.health.clone() });
        }
        let disturbed = others().find_map(|guarded| {
            let disturbance = guarded.disturbance.clone()?;
            Some(Denial::OtherSetDisturbed { set: guarded.name(), disturbance })
        });
        if disturbed.is_some() {
            return disturbed;
        }
        let is_of_other = |grant: &&Grant| others().any(|other| other.name() == grant.set);
        let grant = self.granted.iter().find(is_of_other)?;
        Some(Denial::OtherSetPermitted { set: grant.set.clone(), pod: grant.pod.clone() })
    }
}

#[cfg(test)]
#[path = "disruption_tests.rs"]
mod tests;
