//! The one gatekeeper. Every voluntary disruption, whoever wants it, asks here first and gets a [`Permit`] or
//! a [`Reason`]. What it knows is read from API objects, so it survives a restart.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::health::{Health, Member, Why};
use crate::ordinal;
use crate::planted::{self, Bug};
use crate::pod::PodRow;
use crate::reason::Reason;
use crate::set::{SetRow, Strategy};

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

/// One set of a disruption domain, with all that the gatekeeper knows of it. There is one way to make it, from the
/// set and its pods, so that all who ask are judged by the same view.
#[derive(Clone, Debug)]
pub struct Guarded {
    set: Arc<SetRow>,
    health: Health,
    max_unavailable: u32,
    disturbance: Option<Disturbance>,
    /// The pods that are down and outdated and that nobody has deleted: they are down whatever is done.
    left_behind: BTreeSet<Box<str>>,
}

impl Guarded {
    /// Judges a set at a moment; `max_unavailable` is how many of its pods may be down at once.
    pub fn of(member: &Member, max_unavailable: u32, now: Timestamp) -> Self {
        let (set, health) = (Arc::clone(&member.set), Health::of(member, now));
        let left_behind = member
            .pods
            .iter()
            .filter(|pod| !pod.terminating && is_outdated(&set, pod) && health.why_down(&pod.name).is_some());
        let left_behind = left_behind.map(|pod| pod.name.clone()).collect();
        Self { set, health, max_unavailable, disturbance: Disturbance::of(member), left_behind }
    }

    /// What is down already.
    pub fn health(&self) -> &Health {
        &self.health
    }

    fn is_down(&self, pod: &str) -> bool {
        self.health.why_down(pod).is_some()
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

/// How many sets a group may have. A group is the zones of one workload, of which there are three or four; each change of
/// a set or a pod is looked at together with all others of its group, so a group of thousands would cost the operator
/// that many looks for each of its pods.
pub const MAX_MEMBERS: usize = 100;

/// The gatekeeper of one disruption domain: the sets of a rollout group, or one set alone.
#[derive(Debug)]
pub struct Gatekeeper<'d> {
    domain: &'d [Guarded],
    /// How many sets the domain has, also where not all of them are known here.
    sets: usize,
    granted: Vec<Grant>,
}

/// A permit given in this round: under way as far as later questions are concerned.
#[derive(Debug)]
struct Grant {
    set: Arc<str>,
    pod: Box<str>,
    costs_budget: bool,
}

/// What is to become of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Replace,
    BringBack,
}

impl<'d> Gatekeeper<'d> {
    /// A gatekeeper for the domain as it is now, with nothing granted yet.
    pub fn new(domain: &'d [Guarded]) -> Self {
        Self { domain, sets: domain.len(), granted: Vec::new() }
    }

    /// The same for a domain of so many sets. One that has more than [`MAX_MEMBERS`] is not looked at: its sets wait,
    /// except for pods that are dead.
    #[must_use]
    pub fn of_sets(self, sets: usize) -> Self {
        Self { sets: sets.max(self.sets), ..self }
    }

    /// May this superseded pod of `set` be replaced now?
    ///
    /// Never while a pod of another set of the domain is down, will go down or was just given leave to go down, unless
    /// the pod is dead: nothing that serves is lost with it, and two sets must not wait for each other.
    ///
    /// Within the set a dead pod that is broken costs nothing, since nothing else would heal the set. A pod that is
    /// not Ready costs what its deletion adds: pods that are outdated, down and not deleted are not counted. Any
    /// other pod needs a free place in the set's budget.
    pub fn ask(&mut self, set: &Arc<str>, pod: &Arc<PodRow>) -> Result<Permit, Reason> {
        self.decide(set, pod, Wish::Replace)
    }

    /// May this pod of a revision that failed go back to the one before?
    ///
    /// As [`Gatekeeper::ask`], but every dead pod costs nothing: a way back must be open from a state in which no container
    /// of the new revision ever runs. One of which a container runs may still vote in a quorum.
    pub fn ask_back(&mut self, set: &Arc<str>, pod: &Arc<PodRow>) -> Result<Permit, Reason> {
        self.decide(set, pod, Wish::BringBack)
    }

    fn decide(&mut self, set: &Arc<str>, pod: &Arc<PodRow>, wish: Wish) -> Result<Permit, Reason> {
        let mine = self.domain.iter().find(|guarded| guarded.health.set == *set);
        let Some(mine) = mine else {
            return Err(Reason::NotInDomain { set: Arc::clone(set) });
        };
        let outdated = is_outdated(&mine.set, pod);
        let dead = outdated && pod.is_dead();
        if let Some(reason) = self.held_by_others(set).filter(|_| !dead) {
            return Err(reason);
        }
        let why = mine.health.why_down(&pod.name);
        let not_ready = matches!(why, Some(Why::Broken(_) | Why::NotReady));
        let free = dead && (wish == Wish::BringBack || matches!(why, Some(Why::Broken(_))));
        let (uncounted, under_way) = match wish {
            _ if not_ready && outdated && !planted::has(Bug::StuckPodsCount) => {
                (self.left_behind(mine), self.granted_of(mine, |grant| !mine.is_down(&grant.pod)))
            }
            Wish::Replace => (0, self.granted_of(mine, |grant| grant.costs_budget)),
            // One that has only begun to serve is lost by going, but it is the one that is counted already.
            Wish::BringBack => (u32::from(why.is_some()), self.granted_of(mine, |grant| grant.costs_budget)),
        };
        let used = mine.health.count.saturating_sub(uncounted).saturating_add(under_way);
        if !free && used >= mine.max_unavailable + u32::from(planted::has(Bug::OneTooMany)) {
            return Err(Reason::budget_spent(&mine.health, mine.max_unavailable));
        }
        self.granted.push(Grant { set: Arc::clone(set), pod: pod.name.clone(), costs_budget: !free });
        Ok(Permit { pod: Arc::clone(pod) })
    }

    /// How many pods of the set are down and outdated and have not been deleted, nor were given leave to go.
    fn left_behind(&self, mine: &Guarded) -> u32 {
        let left = u32::try_from(mine.left_behind.len()).unwrap_or(u32::MAX);
        left.saturating_sub(self.granted_of(mine, |grant| mine.left_behind.contains(&grant.pod)))
    }

    /// How many permits of this kind the set was given in this round.
    fn granted_of(&self, mine: &Guarded, which: impl Fn(&Grant) -> bool) -> u32 {
        let own = self.granted.iter().filter(|grant| grant.set == mine.health.set);
        u32::try_from(own.filter(|grant| which(grant)).count()).unwrap_or(u32::MAX)
    }

    /// Why no pod of `set` may go because of another set of the domain.
    fn held_by_others(&self, set: &Arc<str>) -> Option<Reason> {
        if planted::has(Bug::OtherZonesIgnored) {
            return None;
        }
        if self.sets > MAX_MEMBERS {
            return Some(Reason::TooManySets { sets: self.sets, limit: MAX_MEMBERS });
        }
        let others = || self.domain.iter().filter(|guarded| guarded.health.set != *set);
        if let Some(other) = others().find(|guarded| !guarded.health.all_ready()) {
            return Some(Reason::other_set_not_ready(&other.health));
        }
        let disturbed = || {
            others().find_map(|guarded| {
                let disturbance = guarded.disturbance.clone()?;
                Some(Reason::OtherSetDisturbed { set: Arc::clone(&guarded.health.set), disturbance })
            })
        };
        if !planted::has(Bug::LoweredPartitionIgnored)
            && let Some(reason) = disturbed()
        {
            return Some(reason);
        }
        let grant = self.granted.iter().find(|grant| grant.set != *set)?;
        Some(Reason::WaitingForTurn { set: Arc::clone(&grant.set) })
    }
}

#[cfg(test)]
#[path = "disruption_tests.rs"]
mod tests;
