//! The phased-rollout controller: one key per PhasedRollout, one pass per change, queries beside the queue.

use std::sync::Arc;

use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_planner::disruption::MAX_MEMBERS;
use sts_plus_planner::health::Member;
use sts_plus_planner::phased_rollout::placeholders;
use sts_plus_planner::phased_rollout::policy::Warning;
use sts_plus_planner::phased_rollout::query::GateId;
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::phased_rollout::wait::Wait;
use sts_plus_planner::phased_rollout::{Decision, World, plan, refused};
use sts_plus_planner::plan::{Note, Subject, Verb, When, object_of};
use sts_plus_planner::reason::{Reason, Refusal, Severity};
use sts_plus_planner::set::SetRow;

use super::Planner;
use super::stretches::Stretches;
use super::unobserved::Unobserved;
use super::unreported::Unreported;
use crate::outbound::promql;
use crate::runtime::{
    self, Answers, Concern, Controller, Doubt, Label, Lanes, Learned, Learning, Measured, Next, Pass, Planned,
};
use crate::shell::api::{ApiError, Kind};
use crate::shell::cache::{Store, Touched};
use crate::shell::executor::{Domain, Halt};
use crate::shell::lease::Epoch;
use crate::shell::metrics::Metrics;
use crate::shell::phased_metrics::RolloutLabels;

/// What a decision about a PhasedRollout looks at.
const READS: [Kind; 3] = [Kind::StatefulSet, Kind::Pod, Kind::PhasedRollout];

/// A PhasedRollout by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl runtime::Key for Key {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn label(&self) -> Label<'_> {
        Label::Rollout(&self.name)
    }
}

/// Rolls sets, gate by gate.
#[derive(Clone, Copy, Debug)]
pub struct PhasedRollouts {
    /// Decides. A test may bring another planner than that of the product.
    pub planner: Planner<World, Decision>,
}

impl Default for PhasedRollouts {
    fn default() -> Self {
        Self { planner: plan }
    }
}

/// What is remembered of a rollout between passes. Losing it delays or repeats a message, or costs time of a gate.
#[derive(Debug, Default)]
pub struct Memory {
    unobserved: Unobserved,
    stretches: Stretches<Epoch>,
    unreported: Unreported,
    syntax: Option<Syntax>,
    /// The refusal that was reported by an event alone.
    refused: Option<Refusal>,
}

/// What the built-in parser said of the queries of one generation.
#[derive(Debug)]
struct Syntax {
    generation: i64,
    warnings: Vec<Warning>,
}

/// What a plan was made on, and what it says beyond its writes.
#[derive(Debug)]
pub struct Detail {
    world: World,
    /// The decision without its plan.
    decision: Decision,
    /// The lost writes of which it is still open whether they took effect.
    open: Unreported,
    /// The refusal that this plan reports, where it was made for nothing else.
    reports: Option<Refusal>,
}

impl Controller for PhasedRollouts {
    type Key = Key;
    type Memory = Memory;
    type Detail = Detail;

    fn kind(&self) -> Kind {
        Kind::PhasedRollout
    }

    fn reads(&self) -> &'static [Kind] {
        &READS
    }

    fn concerned(&self, _: &Store, touched: &Touched) -> Vec<Concern<Key>> {
        let Touched::Rollout { namespace, name } = touched else { return Vec::new() };
        vec![Concern::of(Key { namespace: Arc::clone(namespace), name: Arc::clone(name) })]
    }

    fn all(&self, rows: &Store) -> Vec<Key> {
        let key = |rollout: &Arc<RolloutRow>| Key {
            namespace: Arc::clone(&rollout.namespace),
            name: Arc::clone(&rollout.name),
        };
        rows.rollouts().iter().map(key).collect()
    }

    fn lanes(&self, rows: &Store, key: &Key) -> Option<Lanes> {
        let rollout = rows.rollout(&key.namespace, &key.name)?;
        let target = rollout.target().and_then(|target| rows.set(&rollout.namespace, &target.into()));
        let domain = domain(&rollout, &rows.held(&rollout), target.as_ref());
        Some(Lanes { domains: vec![domain], own: Some(Arc::clone(&rollout.uid)) })
    }

    fn asking(&self, rows: &Store, key: &Key) -> Option<GateId> {
        let rollout = rows.rollout(&key.namespace, &key.name)?;
        let gate = rollout.status.rolling_pod_status.as_ref()?;
        Some(GateId {
            generation: rollout.generation,
            revision: rollout.status.update_revision.as_deref().unwrap_or_default().into(),
            partition: gate.partition,
        })
    }

    fn plan(&self, pass: &mut Pass<'_, Self>) -> Option<Planned<Detail>> {
        let rollout = pass.rows.rollout(&pass.key.namespace, &pass.key.name)?;
        let (now, at, term) = (pass.moment.now, pass.moment.at, pass.moment.term);
        let (due, open) = pass.memory.unreported.due(&rollout, pass.rows);
        let syntax = syntax(pass.memory, &rollout);
        let mut world = world(pass.rows, rollout);
        if let Some(member) = &world.target {
            let uid = Arc::clone(&member.set.uid);
            pass.memory.unobserved.retain(|known| *known == uid);
            world.unobserved_since = pass.memory.unobserved.since(&member.set, (now, at));
            world.partition_manager = partition_manager(&member.set, pass.answers);
        }
        world.outcomes.clone_from(&pass.answers.outcomes);
        world.under_way.clone_from(&pass.answers.under_way);
        world.syntax = syntax;
        world.stretch = pass.memory.stretches.open(term, at);
        world.unconfirmed = pass.doubt.map(Doubt::why).cloned();
        let mut decision = (self.planner)(&world, now);
        let mut plan = std::mem::take(&mut decision.plan);
        plan.notes.splice(0..0, due.into_iter().map(|note| Note { when: When::Always, ..note }));
        // While the set is unobserved, or nothing may be disrupted, the gate is not looked at: what was answered meanwhile
        // is counted afterwards.
        let counts_answers = match &decision.wait {
            None | Some(Wait::NotObserved { .. } | Wait::Held { reason: Reason::ViewUnconfirmed { .. } }) => {
                false
            }
            Some(_) => true,
        };
        let (domains, must_be_confirmed) = (vec![domain_of(&world)], decision.adds_time);
        let detail = Detail { world, decision, open, reports: None };
        Some(Planned { must_be_confirmed, counts_answers, ..Planned::new(domains, plan, detail) })
    }

    fn learn(&self, learning: Learning<'_, Self>) -> Learned<Detail> {
        let Learning { memory, planned, carried, refusals, moment, .. } = learning;
        let Detail { world, decision, open, reports } = &planned.detail;
        let mut learned = Learned::of(carried);
        if let Some(refusal) = reports {
            if carried.halt.is_some() {
                learned.notes.extend(refused_by_event(memory, &world.rollout, refusal));
            }
            return learned;
        }
        let Some(halt) = &carried.halt else {
            memory.refused = None;
            memory.unreported = Unreported::default();
            memory.stretches.keep(moment.term, decision.stretch, moment.at);
            return learned;
        };
        if *halt != Halt::Closed {
            memory.unreported = open.clone();
        }
        let acknowledged = carried.acknowledged();
        let done: Vec<_> = planned.plan.notes_after(&acknowledged).collect();
        memory.unreported.lost((&planned.plan, &decision.status), &carried.unanswered(), &done);
        // A refusal does not end by itself, so it is reported: in the status or, where that cannot be written either, by an
        // event, once.
        if let Some((action, refusal)) = refusals.first() {
            // A status that hangs is not asked for once more while the lane is held, and without our finalizer there is
            // none yet.
            let hangs = matches!(halt, Halt::Failed(ApiError::Unanswered(_)));
            let is_status = matches!(action.verb(), Verb::ReplaceStatus { .. });
            if world.rollout.has_finalizer() && !(hangs && is_status) {
                let mut decision = refused(world, refusal.clone(), moment.now);
                let plan = std::mem::take(&mut decision.plan);
                let (world, open, reports) = (world.clone(), open.clone(), Some(refusal.clone()));
                let detail = Detail { world, decision, open, reports };
                let report = Planned::new(planned.domains.clone(), plan, detail);
                learned.next = Next::Report(Box::new(report));
            } else {
                learned.notes.extend(refused_by_event(memory, &world.rollout, refusal));
            }
        }
        learned
    }

    fn measure(&self, metrics: &Metrics, key: &Key, measured: Measured<'_, Self>) {
        let labels = labels(key);
        match measured {
            Measured::Planned { planned, is_done, .. } => {
                let Detail { world, decision, .. } = &planned.detail;
                if !is_done || world.rollout.deleting {
                    return;
                }
                metrics.phased.show(&labels, &decision.status);
                if let Some(took) = decision.gate_took {
                    metrics.phased.passed(&labels, took.try_into().unwrap_or_default());
                }
                if let Some(ended) = decision.ended {
                    metrics.phased.ended(&labels, ended);
                }
            }
            Measured::Queried { check, verdict, took } => {
                metrics.phased.queried(&labels, check, verdict, took);
            }
            Measured::Gone { .. } => metrics.phased.forget(&labels),
            Measured::Passed { .. } | Measured::Hooked { .. } => {}
        }
    }
}

/// Reports a refusal by an event, once.
fn refused_by_event(memory: &mut Memory, rollout: &RolloutRow, refusal: &Refusal) -> Option<Note> {
    let before = memory.refused.replace(refusal.clone());
    let is_new = before.is_none_or(|before| before.webhook != refusal.webhook);
    is_new.then(|| Note {
        on: vec![Subject::from(rollout)],
        severity: Severity::Warning,
        reason: Reason::WRITE_REFUSED,
        message: refusal.to_string(),
        when: When::Always,
    })
}

/// What the built-in parser says of the queries, found out once for each wording.
fn syntax(memory: &mut Memory, rollout: &RolloutRow) -> Vec<Warning> {
    if let Some(known) = memory.syntax.as_ref().filter(|known| known.generation == rollout.generation) {
        return known.warnings.clone();
    }
    let (namespace, set, pod, updated) = ("ns", "set", "set-0", Vec::new());
    let subject = placeholders::QueryContext { namespace, set, pod, updated, revision: "set-1" };
    let checks = rollout.spec.policy.iter().flat_map(|policy| &policy.checks);
    let queries = checks.flat_map(|check| {
        let texts = std::iter::once(&check.query.expr).chain(&check.guard);
        texts.filter_map(|text| Some((check.name.clone(), subject.fill(text).ok()?)))
    });
    let warnings: Vec<_> = queries
        .filter_map(|(check, text)| Some(Warning::Syntax { check, fault: promql::fault(&text)? }))
        .collect();
    memory.syntax = Some(Syntax { generation: rollout.generation, warnings: warnings.clone() });
    warnings
}

/// Who besides us has written the partition, where that was asked for; read from the object itself, since it is needed so
/// rarely.
fn partition_manager(set: &SetRow, answers: &Answers) -> Option<String> {
    let answer = answers.reads.get(&object_of(set))?;
    Some(match answer {
        Ok(Some(found)) => manager_of_partition(found),
        Ok(None) | Err(_) => UNKNOWN_MANAGER.to_owned(),
    })
}

/// The lane of the set that is released next, or else of the one to be managed; of a rollout without one, its own.
fn domain(rollout: &RolloutRow, held: &[Arc<SetRow>], target: Option<&Arc<SetRow>>) -> Domain {
    let released = held.iter().find(|set| rollout.deleting || rollout.target() != Some(&*set.name));
    match released.or(target) {
        Some(set) => Domain::of(set),
        None => Domain {
            namespace: Arc::clone(&rollout.namespace),
            group: format!("phasedrollout/{}", rollout.uid).into(),
        },
    }
}

/// The lane in which a world has to be planned for.
fn domain_of(world: &World) -> Domain {
    domain(&world.rollout, &world.held, world.target.as_ref().map(|member| &member.set))
}

/// What is said where the other writer of a partition cannot be told.
const UNKNOWN_MANAGER: &str = "an unknown manager";

pub fn world(store: &Store, rollout: Arc<RolloutRow>) -> World {
    let others = store.rivals(&rollout);
    let precedes = |other: &&Arc<RolloutRow>| other.target() == rollout.target() && other.precedes(&rollout);
    // Whoever waits in line for a set looks at no pod: there may be thousands in line, and thousands of pods.
    let waits = others.iter().any(|other| precedes(&other) && !other.deleting);
    let member = |name: &str| {
        if waits {
            store.set(&rollout.namespace, &name.into()).map(|set| Member::new(set, []))
        } else {
            store.member(&rollout.namespace, name)
        }
    };
    let target = rollout.target().and_then(member);
    let group = target.as_ref().filter(|_| !waits).and_then(|target| target.set.group.clone());
    let group_sets = group.as_ref().map_or(1, |group| store.group_sets(&rollout.namespace, group));
    // A group that is refused for its size is not looked at.
    let group = group.filter(|_| group_sets <= MAX_MEMBERS);
    let mut neighbours = group.map(|group| store.group(&rollout.namespace, &group)).unwrap_or_default();
    neighbours.retain(|other| target.as_ref().is_none_or(|target| target.set.uid != other.set.uid));
    World {
        target,
        held: store.held(&rollout),
        others,
        group_sets,
        neighbours,
        outcomes: Vec::new(),
        under_way: std::collections::BTreeSet::new(),
        partition_manager: None,
        syntax: Vec::new(),
        unobserved_since: None,
        stretch: None,
        unconfirmed: None,
        rollout,
    }
}

/// The field manager, other than ours, that owns the partition, or has written last where none does.
fn manager_of_partition(set: &Value) -> String {
    let entries = set.pointer("/metadata/managedFields").and_then(Value::as_array);
    let name = |entry: &Value| entry.get("manager").and_then(Value::as_str).map(str::to_owned);
    let foreign = |entry: &&Value| {
        entry.get("manager").and_then(Value::as_str) != Some(keys::MANAGER_PHASED_ROLLOUT)
            && entry.get("subresource").is_none()
    };
    let owns = |entry: &&Value| {
        let fields = entry.pointer("/fieldsV1/f:spec/f:updateStrategy/f:rollingUpdate");
        fields.is_some_and(|fields| fields.get("f:partition").is_some())
    };
    let time = |entry: &&Value| entry.get("time").and_then(Value::as_str).map(str::to_owned);
    let entries = || entries.into_iter().flatten().filter(foreign);
    let owner = entries().filter(owns).max_by_key(time);
    let found = owner.or_else(|| entries().max_by_key(time)).and_then(name);
    found.unwrap_or_else(|| UNKNOWN_MANAGER.to_owned())
}

fn labels(key: &Key) -> RolloutLabels {
    RolloutLabels { namespace: Arc::clone(&key.namespace), phased_rollout: Arc::clone(&key.name) }
}

#[cfg(test)]
#[path = "phased_rollout_tests.rs"]
mod tests;
