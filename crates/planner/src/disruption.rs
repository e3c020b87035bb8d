//! The one gatekeeper. Every voluntary disruption, whoever wants it, asks here first and gets a [`Permit`] or
//! a [`Reason`]. What it knows is read from API objects, so it survives a restart.

use std::sync::Arc;

use crate::health::{Health, Why};
use crate::planted::{self, Bug};
use crate::pod::PodRow;
use crate::reason::Reason;

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

/// One set of a disruption domain: its health and how much of it may be down.
#[derive(Clone, Debug)]
pub struct Guarded {
    /// What is down already.
    pub health: Health,
    /// How many pods may be down at once.
    pub max_unavailable: u32,
}

/// The gatekeeper of one disruption domain: the sets of a rollout group, or one set alone.
#[derive(Debug)]
pub struct Gatekeeper<'d> {
    domain: &'d [Guarded],
    granted: Vec<Grant>,
}

/// A permit given in this round: under way as far as later questions are concerned.
#[derive(Debug)]
struct Grant {
    set: Arc<str>,
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
        Self { domain, granted: Vec::new() }
    }

    /// May this superseded pod of `set` be replaced now?
    ///
    /// Never while a pod of another set of the domain is down or was just given leave to go down. A pod
    /// that is broken goes at no cost, since nothing is lost by it and nothing else would heal the set; any
    /// other pod, Ready or not, needs a free place in the set's budget.
    pub fn ask(&mut self, set: &Arc<str>, pod: &Arc<PodRow>) -> Result<Permit, Reason> {
        self.decide(set, pod, Wish::Replace)
    }

    /// May this pod of a revision that failed go back to the one before?
    ///
    /// As [`Gatekeeper::ask`], but a pod that is not Ready costs nothing more by going, however many others are down: a
    /// way back must be open from a state in which the new revision never gets Ready.
    pub fn ask_back(&mut self, set: &Arc<str>, pod: &Arc<PodRow>) -> Result<Permit, Reason> {
        self.decide(set, pod, Wish::BringBack)
    }

    fn decide(&mut self, set: &Arc<str>, pod: &Arc<PodRow>, wish: Wish) -> Result<Permit, Reason> {
        let mine = self.domain.iter().find(|guarded| guarded.health.set == *set);
        let Some(mine) = mine else {
            return Err(Reason::NotInDomain { set: Arc::clone(set) });
        };
        let others = || self.domain.iter().filter(|guarded| guarded.health.set != *set);
        if let Some(other) = others().find(|guarded| !guarded.health.all_ready())
            && !planted::has(Bug::OtherZonesIgnored)
        {
            return Err(Reason::other_set_not_ready(&other.health));
        }
        if let Some(grant) = self.granted.iter().find(|grant| grant.set != *set)
            && !planted::has(Bug::OtherZonesIgnored)
        {
            return Err(Reason::WaitingForTurn { set: Arc::clone(&grant.set) });
        }
        let why = mine.health.why_down(&pod.name);
        let free = match wish {
            Wish::Replace => matches!(why, Some(Why::Broken(_))),
            Wish::BringBack => matches!(why, Some(Why::Broken(_) | Why::NotReady)),
        };
        // One that has only begun to serve is lost by going, but it is the one that is counted already.
        let own = u32::from(wish == Wish::BringBack && why.is_some());
        let spent = self.granted.iter().filter(|grant| grant.costs_budget).count();
        let down = mine.health.count.saturating_sub(own);
        let used = down.saturating_add(u32::try_from(spent).unwrap_or(u32::MAX));
        if !free && used >= mine.max_unavailable + u32::from(planted::has(Bug::OneTooMany)) {
            return Err(Reason::budget_spent(&mine.health, mine.max_unavailable));
        }
        self.granted.push(Grant { set: Arc::clone(set), costs_budget: !free });
        Ok(Permit { pod: Arc::clone(pod) })
    }
}

#[cfg(test)]
#[path = "disruption_tests.rs"]
mod tests;
