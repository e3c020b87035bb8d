//! The rollout-group controller: one key per group, one pass per change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_planner::plan::{Mode, Note, Plan, Step};
use sts_plus_planner::reason::{Reason, Severity};
use sts_plus_planner::rollout_group::report::{Report, Transition, Warning};
use sts_plus_planner::rollout_group::{self, Decision, MAX_MEMBERS, World, overlaps, plan, release};
use sts_plus_planner::set::SetRow;

use super::Planner;
use super::unobserved::Unobserved;
use crate::runtime::{
    self, Concern, Controller, Doubt, End, Label, Lanes, Learned, Learning, Measured, Moment, Next, Pass,
    Planned,
};
use crate::shell::api::Kind;
use crate::shell::cache::{Store, Touched};
use crate::shell::executor::{Domain, Halt, SETS_AND_PODS};
use crate::shell::lease::Epoch;
use crate::shell::metrics::{GroupLabels, Metrics, StateLabels};

/// What a pass is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Group(Domain),
    /// A set that is in no group, and may still carry our annotation.
    Ungrouped {
        namespace: Arc<str>,
        set: Arc<str>,
    },
}

impl runtime::Key for Key {
    fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Group(Domain { namespace, .. }) | Self::Ungrouped { namespace, .. } => namespace,
        }
    }

    fn label(&self) -> Label<'_> {
        match self {
            Self::Group(Domain { group, .. }) => Label::Group(group),
            Self::Ungrouped { set, .. } => Label::Set(set),
        }
    }
}

impl Key {
    fn domain(&self) -> Domain {
        match self {
            Self::Group(domain) => domain.clone(),
            Self::Ungrouped { namespace, set } => {
                Domain { namespace: Arc::clone(namespace), group: format!("{RELEASED}{set}").into() }
            }
        }
    }
}

/// How the domain of a set without a group begins, under which our annotation is taken from it: no label can hold this.
const RELEASED: &str = "released/";

#[derive(Clone, Copy, Debug)]
pub struct RolloutGroups {
    /// Decides. A test may bring another planner than that of the product.
    pub planner: Planner<World, Decision>,
}

impl Default for RolloutGroups {
    fn default() -> Self {
        Self { planner: plan }
    }
}

/// What is remembered of a key between passes. Losing it delays or repeats a message, nothing else.
#[derive(Debug, Default)]
pub struct Memory {
    /// The warnings that were reported, by the UID of the set. Replaced as a whole, so that nothing is left of sets that are
    /// gone.
    warned: HashMap<Arc<str>, Vec<Warning>>,
    /// What the planner is reminded of, and the term in which it came about: another leader may have reported since.
    group: Option<(Epoch, rollout_group::Memory)>,
    unobserved: Unobserved,
}

/// What a plan was made on, and what it says of the sets.
#[derive(Debug, Default)]
pub struct Detail {
    world: Option<World>,
    reports: Vec<Report>,
    /// What is reported with the plan, by the UID of the set.
    warned: HashMap<Arc<str>, Vec<Warning>>,
}

/// The world of a group, from rows.
pub fn world(store: &Store, domain: &Domain, unobserved_since: BTreeMap<Arc<str>, Timestamp>) -> World {
    let members = store.group(&domain.namespace, &domain.group);
    // A group that is skipped for its size is not looked at any closer.
    let overlaps = if members.len() > MAX_MEMBERS {
        Vec::new()
    } else {
        overlaps(&members, &store.grouped(&domain.namespace))
    };
    let memory = rollout_group::Memory::default();
    let unconfirmed = None;
    World { group: Arc::clone(&domain.group), members, overlaps, unobserved_since, memory, unconfirmed }
}

impl Controller for RolloutGroups {
    type Key = Key;
    type Memory = Memory;
    type Detail = Detail;

    fn kind(&self) -> Kind {
        Kind::StatefulSet
    }

    fn reads(&self) -> &'static [Kind] {
        &SETS_AND_PODS
    }

    fn concerned(&self, _: &Store, touched: &Touched) -> Vec<Concern<Key>> {
        let Touched::Set { namespace, set, group } = touched else { return Vec::new() };
        let (namespace, set) = (Arc::clone(namespace), Arc::clone(set));
        vec![Concern::of(match group.clone() {
            Some(group) => Key::Group(Domain { namespace, group }),
            None => Key::Ungrouped { namespace, set },
        })]
    }

    fn all(&self, rows: &Store) -> Vec<Key> {
        let groups = rows.groups().into_iter();
        let groups = groups.map(|(namespace, group)| Key::Group(Domain { namespace, group }));
        let released = rows
            .released()
            .into_iter()
            .map(|set| Key::Ungrouped { namespace: Arc::clone(&set.namespace), set: Arc::clone(&set.name) });
        groups.chain(released).collect()
    }

    fn lanes(&self, rows: &Store, key: &Key) -> Option<Lanes> {
        let is_there = match key {
            Key::Group(Domain { namespace, group }) => rows.group_sets(namespace, group) > 0,
            Key::Ungrouped { namespace, set } => {
                rows.set(namespace, set).is_some_and(|set| release(&set).is_some())
            }
        };
        is_there.then(|| Lanes { domains: vec![key.domain()], own: None })
    }

    fn plan(&self, pass: &mut Pass<'_, Self>) -> Option<Planned<Detail>> {
        match pass.key {
            Key::Group(domain) => plan_group(pass, domain, self.planner),
            Key::Ungrouped { namespace, set } => {
                let set = pass.rows.set(namespace, set)?;
                plan_release(pass, &set)
            }
        }
    }

    fn learn(&self, learning: Learning<'_, Self>) -> Learned<Detail> {
        let Learning { key, memory, planned, carried, refusals, moment, .. } = learning;
        let mut learned = Learned::of(carried);
        let Detail { world, reports, warned } = &planned.detail;
        let Some(world) = world.as_ref().filter(|_| carried.halt != Some(Halt::Closed)) else {
            if carried.halt.is_none() {
                memory.warned.clone_from(warned);
            }
            return learned;
        };
        let mut refused = BTreeMap::new();
        for (action, refusal) in refusals {
            let member = world.members.iter().find(|member| *member.set.uid == *action.owner());
            if let Some(member) = member {
                refused.entry(Arc::clone(&member.set.uid)).or_insert_with(|| refusal.clone());
            }
        }
        if refused == world.memory.refused {
            memory.group = remembered(moment.term, world.memory.clone(), reports);
            memory.warned.clone_from(warned);
            return learned;
        }
        // What is reported is that it was refused, in the place of what would have been done.
        let mut world = world.clone();
        world.memory.refused = refused;
        let mut instead = decide(key.domain(), world, (self.planner, moment), &memory.warned);
        instead.plan.steps.retain(|step| step.mode == Mode::Inform);
        if let Some(world) = &instead.detail.world {
            memory.group = remembered(moment.term, world.memory.clone(), &instead.detail.reports);
        }
        memory.warned.clone_from(&instead.detail.warned);
        learned.next = Next::Instead(Box::new(instead));
        learned
    }

    fn measure(&self, metrics: &Metrics, key: &Key, measured: Measured<'_, Self>) {
        let Key::Group(domain) = key else { return };
        let group = GroupLabels {
            namespace: Arc::clone(&domain.namespace),
            rollout_group: Arc::clone(&domain.group),
        };
        match measured {
            Measured::Planned { planned, .. } => show(metrics, domain, &planned.detail.reports),
            Measured::Passed { took, succeeded_at } => metrics.group_pass(&group, took, succeeded_at),
            Measured::Gone { .. } => metrics.forget_group(&group, Reason::KINDS),
            Measured::Queried { .. } | Measured::Hooked { .. } => {}
        }
    }
}

fn plan_group(
    pass: &mut Pass<'_, RolloutGroups>,
    domain: &Domain,
    planner: Planner<World, Decision>,
) -> Option<Planned<Detail>> {
    let Moment { now, at, term } = pass.moment;
    let mut world = world(pass.rows, domain, BTreeMap::new());
    if world.members.is_empty() {
        return None;
    }
    let members: BTreeSet<_> = world.members.iter().map(|member| Arc::clone(&member.set.uid)).collect();
    pass.memory.unobserved.retain(|uid| members.contains(uid));
    let unobserved = &mut pass.memory.unobserved;
    let mut since = |set: &SetRow| Some((Arc::clone(&set.uid), unobserved.since(set, (now, at))?));
    world.unobserved_since = world.members.iter().filter_map(|member| since(&member.set)).collect();
    world.unconfirmed = pass.doubt.map(Doubt::why).cloned();
    let known = pass.memory.group.as_ref().filter(|(of, _)| *of == term);
    world.memory = known.map(|(_, memory)| memory.clone()).unwrap_or_default();
    world.memory.reported.retain(|uid, _| members.contains(uid));
    world.memory.refused.retain(|uid, _| members.contains(uid));
    let uninformed = pass.answers.uninformed.iter();
    world.memory.uninformed = uninformed.map(|(uid, refusal)| (Arc::from(&**uid), refusal.clone())).collect();
    Some(decide(domain.clone(), world, (planner, pass.moment), &pass.memory.warned))
}

/// Plans for a world, and adds the warnings that were not reported before.
fn decide(
    domain: Domain,
    world: World,
    (planner, moment): (Planner<World, Decision>, Moment),
    before: &HashMap<Arc<str>, Vec<Warning>>,
) -> Planned<Detail> {
    let Decision { mut plan, reports } = planner(&world, moment.now);
    for report in &reports {
        let known = before.get(&report.set.uid).map(Vec::as_slice).unwrap_or_default();
        let new = report.warnings.iter().filter(|warning| !known.contains(warning));
        plan.notes.extend(new.map(|warning| note(&report.set, warning)));
    }
    let warned = reports.iter().filter(|report| !report.warnings.is_empty());
    let warned = warned.map(|report| (Arc::clone(&report.set.uid), report.warnings.clone())).collect();
    let is_skipped = reports.iter().any(|report| report.reason.severity() == Severity::Error);
    let end = if is_skipped { End::Skipped } else { End::Settled };
    let detail = Detail { world: Some(world), reports, warned };
    Planned { end, ..Planned::new(vec![domain], plan, detail) }
}

/// Takes our annotation from a set that has left its group, and reports once that it cannot be removed.
fn plan_release(pass: &mut Pass<'_, RolloutGroups>, set: &SetRow) -> Option<Planned<Detail>> {
    let action = release(set)?;
    let refused = pass.answers.uninformed.iter().filter(|(uid, _)| **uid == *set.uid);
    let refused = refused.map(|(_, refusal)| Warning::ReleaseRefused { refusal: refusal.clone() });
    let warnings: Vec<_> = refused.collect();
    let known = pass.memory.warned.get(&set.uid).map(Vec::as_slice).unwrap_or_default();
    let notes = warnings.iter().filter(|warning| !known.contains(warning));
    let notes = notes.map(|warning| note(set, warning)).collect();
    let plan = Plan { steps: vec![Step::inform(vec![action])], notes, ..Plan::default() };
    let warned = if warnings.is_empty() { Vec::new() } else { vec![(Arc::clone(&set.uid), warnings)] };
    let detail = Detail { warned: warned.into_iter().collect(), ..Detail::default() };
    Some(Planned::new(vec![pass.key.domain()], plan, detail))
}

/// A fault in what the user wrote.
fn note(set: &SetRow, warning: &Warning) -> Note {
    Note::of_set(set, Severity::Warning, warning.kind(), warning.to_string())
}

/// What the planner is reminded of: the states that were reported and that the view does not show on the sets.
fn remembered(
    term: Epoch,
    mut memory: rollout_group::Memory,
    reports: &[Report],
) -> Option<(Epoch, rollout_group::Memory)> {
    for report in reports {
        if report.is_written {
            memory.reported.remove(&report.set.uid);
        } else if report.transition != Transition::Unsettled {
            memory.reported.insert(Arc::clone(&report.set.uid), report.status.clone());
        }
    }
    (!memory.reported.is_empty() || !memory.refused.is_empty()).then_some((term, memory))
}

/// Shows the states in metrics. A set on which something cannot be written counts as such: there its annotation says
/// something older.
fn show(metrics: &Metrics, domain: &Domain, reports: &[Report]) {
    let refused = |warning: &Warning| matches!(warning, Warning::WriteRefused { .. });
    let state_of = |report: &Report| {
        let is_refused = report.warnings.iter().any(refused);
        if is_refused { Reason::WRITE_REFUSED } else { report.reason.kind() }
    };
    for &state in Reason::KINDS {
        let labels = StateLabels {
            namespace: Arc::clone(&domain.namespace),
            rollout_group: Arc::clone(&domain.group),
            state,
        };
        match reports.iter().filter(|report| state_of(report) == state).count() {
            0 => {
                metrics.sets.remove(&labels);
            }
            sets => {
                metrics.sets.get_or_create(&labels).set(i64::try_from(sets).unwrap_or(i64::MAX));
            }
        }
    }
}

#[cfg(test)]
#[path = "rollout_group_tests.rs"]
mod tests;
