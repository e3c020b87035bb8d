//! Rollout groups: the StatefulSets of one workload, one per zone, rolled one zone at a time.
//!
//! [`plan`] looks at a whole group at one moment. It judges each set ([`zone`]), finds the one set whose turn it
//! is, asks the gatekeeper for each outdated pod of it, and says of every set why it is where it is
//! ([`report`]). It remembers nothing: the next event brings the next plan.

mod overlap;
pub mod report;
pub mod zone;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::keys;
use sts_plus_api::rollout_status::RolloutStatus;

pub use crate::disruption::MAX_MEMBERS;
use crate::disruption::{Allowance, Denial, DomainBudget, Gatekeeper};
use crate::health::Member;
use crate::ordinal;
use crate::plan::{Action, Awaited, Plan, Step};
use crate::reason::{Reason, Refusal};
use crate::set::{SetName, SetRow};
pub use overlap::{Overlap, overlaps};
use report::{Report, Transition};
use zone::{Stage, Zone};

/// How long a spec may stay unobserved by the set's own controller before it is worth telling: it normally
/// takes milliseconds, and a state that is over before it is read is noise.
pub const OBSERVATION_GRACE: SignedDuration = SignedDuration::from_secs(10);

/// How many sets report in one pass that their group has too many: each is a write, and is followed by another pass.
const TOLD_AT_ONCE: usize = 20;

/// All that the decision may look at.
#[derive(Clone, Debug)]
pub struct World {
    /// The group's name.
    pub group: Arc<str>,
    /// The sets that carry the group's label, with their pods.
    pub members: Vec<Member>,
    /// Members whose selector also matches the pods of another set, each once.
    pub overlaps: Vec<Overlap>,
    /// Since when the spec of a set (by UID) has been seen unobserved. Kept in memory only: losing it
    /// delays a message.
    pub unobserved_since: BTreeMap<Arc<str>, Timestamp>,
    /// What this process knows beyond its caches.
    pub memory: Memory,
    /// Why the view may be stale and could not be confirmed. No pod is deleted then; everything else is planned as usual.
    pub unconfirmed: Option<Arc<str>>,
}

/// What this process knows of a group beyond its caches, by the UID of the set. Losing it repeats a message or asks the
/// server once more, nothing else.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The last state that was reported and that the annotation in the view does not have: not written yet, not shown yet,
    /// or not permitted.
    pub reported: BTreeMap<Arc<str>, RolloutStatus>,
    /// Deletions that the server refused the last time.
    pub refused: BTreeMap<Arc<str>, Refusal>,
    /// Annotations and promotions that the server refuses.
    pub uninformed: BTreeMap<Arc<str>, Refusal>,
}

/// What to do for a group now, and what to report of its sets.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// What to do: pods are deleted first; promotions and states only inform.
    pub plan: Plan,
    /// One report for each set, in natural order of their names.
    pub reports: Vec<Report>,
}

/// Decides what to do for a group at a moment.
pub fn plan(world: &World, now: Timestamp) -> Decision {
    let mut members: Vec<_> = world.members.iter().collect();
    members.sort_by(|left, right| ordinal::natural(&left.set.name, &right.set.name));
    let domain = DomainBudget::of(members.iter().copied(), Allowance::OfSet, now);
    let judged = members.iter().zip(domain.health());
    let zones: Vec<_> = judged.map(|(member, health)| Zone::judge(member, health, &world.memory)).collect();
    let Turns { turn, mut deletions, waits_on } = match zones.iter().find_map(Zone::foreign_strategy) {
        _ if zones.len() > MAX_MEMBERS => {
            Turns::skipped(Reason::TooManySets { sets: zones.len(), limit: MAX_MEMBERS })
        }
        Some(skipped) => Turns::skipped(skipped),
        None => take_turns(&zones, &domain),
    };
    let mut reports: Vec<_> =
        zones.iter().map(|zone| Report::of(zone, &zones, (&turn, &deletions), world, now)).collect();
    if world.unconfirmed.is_some() {
        // Nothing is deleted on a view that could not be confirmed; the reports say so.
        deletions.clear();
    }
    if zones.len() > MAX_MEMBERS {
        let due = reports.iter_mut().filter(|report| report.transition != Transition::None);
        due.skip(TOLD_AT_ONCE).for_each(|report| report.transition = Transition::Unsettled);
    }

    let unobserved = zones
        .iter()
        .filter(|zone| zone.target.is_none())
        .filter_map(|zone| world.unobserved_since.get(&zone.member.set.uid))
        .filter_map(|since| since.saturating_add(OBSERVATION_GRACE).ok())
        .filter(|grace_ends| *grace_ends > now);
    let wake_at = zones.iter().filter_map(|zone| zone.health.changes_at).chain(unobserved).min();

    let promotions = match &turn {
        Turn::Skipped(_) => Vec::new(),
        _ => zones.iter().filter_map(Zone::promotion).collect(),
    };
    let states = reports.iter().filter_map(Report::write).collect();
    // A promotion insists on the set's version, so it is not under way together with the annotation of the same set.
    let steps = [Step::act(deletions), Step::inform(promotions), Step::inform(states)];
    let steps = steps.into_iter().filter(|step| !step.writes.is_empty()).collect();
    let notes = reports.iter().filter_map(Report::note).collect();
    Decision { plan: Plan { asks: Vec::new(), steps, notes, wake_at, waits_on }, reports }
}

/// What a set that has left its group still needs: our annotation taken away.
pub fn release(set: &SetRow) -> Option<Action> {
    let ours = set.group.is_none() && set.steering.rollout_status.is_some();
    ours.then(|| Action::annotate(set, keys::ROLLOUT_STATUS, None, keys::MANAGER_ROLLOUT_GROUP))
}

/// Whose turn it is.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The group is not rolled at all.
    Skipped(Reason),
    /// No set has anything to do or to wait for.
    Nobody,
    /// This set keeps the others waiting without being rolled: it is not Ready, or not observed.
    HeldUpBy(Arc<str>),
    /// This set has outdated pods; some may go now, or something keeps them.
    Rolling {
        set: Arc<str>,
        /// Whether pods of it go now.
        moves: bool,
        /// Why no further pod goes now, if one would like to.
        denied: Option<Denial>,
    },
}

/// Whose turn it is, which pods are deleted now, and what the others wait for.
struct Turns {
    turn: Turn,
    deletions: Vec<Action>,
    waits_on: Vec<Awaited>,
}

impl Turns {
    fn skipped(reason: Reason) -> Self {
        Self { turn: Turn::Skipped(reason), deletions: Vec::new(), waits_on: Vec::new() }
    }
}

/// Decides which pods go now. Dead ones go whosesoever turn it is, as far as the gatekeeper lets them; all others only
/// while it is the turn of their set.
fn take_turns(zones: &[Zone<'_>], domain: &DomainBudget) -> Turns {
    let mut gatekeeper = Gatekeeper::new(domain);
    let (mut deletions, mut denials) = (Vec::new(), Vec::new());
    for zone in zones.iter().filter(|zone| zone.stage() == Stage::Outdated) {
        for pod in zone.candidates().filter(|pod| pod.is_dead()) {
            match gatekeeper.ask(zone.name(), pod) {
                Ok(permit) => deletions.push(Action::delete(&permit)),
                Err(denial) => {
                    denials.push(denial);
                    break;
                }
            }
        }
    }
    let turn = match first_not_done(zones) {
        None => Turn::Nobody,
        Some(zone) if zone.stage() == Stage::HoldsUp => Turn::HeldUpBy(Arc::clone(zone.name())),
        Some(zone) => roll(zone, &mut gatekeeper, &mut deletions),
    };
    let waits_on = waits_on(zones, &turn, &denials);
    Turns { turn, deletions, waits_on }
}

/// What keeps pods from being deleted: what they were denied for, and the set that has the turn without being rolled.
fn waits_on(zones: &[Zone<'_>], turn: &Turn, denials: &[Denial]) -> Vec<Awaited> {
    let is_outdated = zones.iter().any(|zone| zone.stage() == Stage::Outdated);
    let denied = match turn {
        Turn::Rolling { denied, .. } => denied.as_ref(),
        Turn::Skipped(_) | Turn::Nobody | Turn::HeldUpBy(_) => None,
    };
    let holds_up =
        zones.iter().filter(|zone| is_outdated && matches!(turn, Turn::HeldUpBy(set) if set == zone.name()));
    let holds_up = holds_up.map(|zone| Awaited::Set(SetName::from(&*zone.member.set)));
    let awaited: BTreeSet<_> = denials.iter().chain(denied).map(Denial::awaited).chain(holds_up).collect();
    awaited.into_iter().collect()
}

/// Finds the first set that is not done: the one with pods down if there is exactly one such set, so that a
/// disturbed zone is finished before another is touched, then by name. A paused set is passed over, but
/// what is down in it still keeps the others from rolling, since the gatekeeper sees it.
fn first_not_done<'z, 'w>(zones: &'z [Zone<'w>]) -> Option<&'z Zone<'w>> {
    let not_ready: Vec<_> = zones.iter().filter(|zone| !zone.health.all_ready()).collect();
    let first = match not_ready.as_slice() {
        [only] => Some(*only),
        _ => None,
    };
    let by_name = zones.iter().filter(|zone| first.is_none_or(|f| f.name() != zone.name()));
    first.into_iter().chain(by_name).find(|zone| match zone.stage() {
        Stage::PassedOver | Stage::Done => false,
        Stage::HoldsUp | Stage::Outdated => true,
    })
}

/// Asks for the pods of the set whose turn it is that have not been given leave to go.
fn roll(zone: &Zone<'_>, gatekeeper: &mut Gatekeeper<'_>, deletions: &mut Vec<Action>) -> Turn {
    let mut denied = None;
    for pod in zone.candidates() {
        if deletions.iter().any(|deletion| deletion.object().name == pod.name) {
            continue;
        }
        match gatekeeper.ask(zone.name(), pod) {
            Ok(permit) => deletions.push(Action::delete(&permit)),
            Err(denial) => {
                denied = Some(denial);
                break;
            }
        }
    }
    let moves = zone.has_deletion(deletions);
    Turn::Rolling { set: Arc::clone(zone.name()), moves, denied }
}

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
