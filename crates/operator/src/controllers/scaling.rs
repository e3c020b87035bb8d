//! The scaling controller: which ScalingPolicies a change concerns, and the world of a policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_api::keys;
use sts_plus_planner::disruption::MAX_MEMBERS;
use sts_plus_planner::plan::{Action, Verb};
use sts_plus_planner::reason::Refusal;
use sts_plus_planner::scaling::hook::HookOutcome;
use sts_plus_planner::scaling::row::ScalingRow;
use sts_plus_planner::scaling::wait::Wait;
use sts_plus_planner::scaling::{Decision, World, plan};
use sts_plus_planner::set::SetRow;

use super::Planner;
use crate::runtime::{
    self, Concern, Controller, Doubt, Label, Lanes, Learned, Learning, Measured, Pass, Planned,
};
use crate::shell::api::Kind;
use crate::shell::cache::{Store, Touched};
use crate::shell::executor::Domain;
use crate::shell::metrics::Metrics;
use crate::shell::scaling_metrics::ScalingLabels;

/// What a decision about a ScalingPolicy looks at.
const READS: [Kind; 4] = [Kind::StatefulSet, Kind::Pod, Kind::ScalingPolicy, Kind::ConfigMap];

/// Outcomes of calls that wait for a status to be written: a pod has one call at a time.
const MAX_WAITING_OUTCOMES: usize = 4096;

/// A ScalingPolicy by namespace and name.
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
        Label::Object(&self.name)
    }
}

/// Scales StatefulSets whose pods are prepared for their removal.
#[derive(Clone, Debug)]
pub struct ScalingPolicies {
    /// The image of the init container of a lock; `None` where it is not known.
    pub lock_image: Option<Arc<str>>,
    /// Decides. A test may bring another planner than that of the product.
    pub planner: Planner<World, Decision>,
}

impl Default for ScalingPolicies {
    fn default() -> Self {
        Self { planner: plan, lock_image: None }
    }
}

/// What is remembered of a policy between passes. Losing it repeats a call.
#[derive(Debug, Default)]
pub struct Memory {
    /// Outcomes of calls that no plan which was carried out has seen.
    hooked: Vec<HookOutcome>,
    /// When pods that are not done are asked again, by UID.
    polls_at: BTreeMap<Box<str>, Timestamp>,
    /// The write that was refused.
    refused: Option<Refusal>,
}

impl Controller for ScalingPolicies {
    type Key = Key;
    type Memory = Memory;
    type Detail = Decision;

    fn kind(&self) -> Kind {
        Kind::ScalingPolicy
    }

    fn reads(&self) -> &'static [Kind] {
        &READS
    }

    fn concerned(&self, rows: &Store, touched: &Touched) -> Vec<Concern<Key>> {
        let concern = |namespace: &Arc<str>, name: &Arc<str>| {
            Concern::of(Key { namespace: Arc::clone(namespace), name: Arc::clone(name) })
        };
        match touched {
            Touched::Scaling { namespace, name } => vec![concern(namespace, name)],
            Touched::Object { kind: Kind::ConfigMap, owner: Some(owner), .. } => {
                let row = rows.scaling_of_uid(owner);
                row.iter().map(|row| concern(&row.namespace, &row.name)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn all(&self, rows: &Store) -> Vec<Key> {
        let key =
            |row: Arc<ScalingRow>| Key { namespace: Arc::clone(&row.namespace), name: Arc::clone(&row.name) };
        rows.all_scaling().into_iter().map(key).collect()
    }

    fn lanes(&self, rows: &Store, key: &Key) -> Option<Lanes> {
        let row = rows.scaling(&key.namespace, &key.name)?;
        let target = row.target().and_then(|target| rows.set(&row.namespace, &target.into()));
        let domains = domains(&row, target.as_deref());
        Some(Lanes { domains, own: Some(Arc::clone(&row.uid)) })
    }

    fn plan(&self, pass: &mut Pass<'_, Self>) -> Option<Planned<Decision>> {
        let row = pass.rows.scaling(&pass.key.namespace, &pass.key.name)?;
        let room = MAX_WAITING_OUTCOMES.saturating_sub(pass.memory.hooked.len());
        pass.memory.hooked.extend(pass.answers.hooked.iter().take(room).cloned());
        let world = world(pass, row, self.lock_image.clone());
        let mut decision = (self.planner)(&world, pass.moment.now);
        let domains = domains(&world.row, world.target.as_ref().map(|member| &*member.set));
        let plan = std::mem::take(&mut decision.plan);
        let calling = Some(decision.calling.clone());
        Some(Planned { calling, ..Planned::new(domains, plan, decision) })
    }

    fn learn(&self, learning: Learning<'_, Self>) -> Learned<Decision> {
        let Learning { memory, planned, carried, refusals, answered_at, .. } = learning;
        let mut learned = Learned::of(carried);
        let is_status = |write: &&Action| matches!(write.verb(), Verb::ReplaceStatus { .. });
        // What a status that was written says of them must not be counted once more, whatever became of the writes after it.
        if carried.halt.is_none() || carried.acknowledged().iter().any(is_status) {
            memory.hooked.clear();
            memory.polls_at.clone_from(&planned.detail.polls_at);
        }
        let before = memory.refused.take();
        if carried.halt.is_none() {
            // The condition that reports a refusal is removed by a pass of its own.
            learned.retry_at = before.map(|_| answered_at);
        } else {
            memory.refused = refusals.first().map(|(_, refusal)| refusal.clone());
        }
        learned
    }

    fn measure(&self, metrics: &Metrics, key: &Key, measured: Measured<'_, Self>) {
        let labels =
            ScalingLabels { namespace: Arc::clone(&key.namespace), scaling_policy: Arc::clone(&key.name) };
        match measured {
            Measured::Planned { planned, is_done: true, .. } => {
                let Decision { status, wait, removed, .. } = &planned.detail;
                metrics.scaling.show(&labels, status, wait.as_ref().map(Wait::reason));
                metrics.scaling.removed(&labels, *removed);
            }
            Measured::Hooked { call, result, took } => metrics.scaling.called(&labels, call, result, took),
            Measured::Gone { .. } => metrics.scaling.forget(&labels),
            Measured::Planned { .. } | Measured::Passed { .. } | Measured::Queried { .. } => {}
        }
    }
}

/// The lane of the policy itself, and that of its set.
fn domains(row: &ScalingRow, target: Option<&SetRow>) -> Vec<Domain> {
    let own =
        Domain { namespace: Arc::clone(&row.namespace), group: format!("scalingpolicy/{}", row.uid).into() };
    let mut domains: Vec<_> = std::iter::once(own).chain(target.map(Domain::of)).collect();
    domains.sort();
    domains
}

/// The world of a policy, from rows, answers and what is remembered.
fn world(pass: &Pass<'_, ScalingPolicies>, row: Arc<ScalingRow>, lock_image: Option<Arc<str>>) -> World {
    let (rows, answers) = (pass.rows, pass.answers);
    let target = row.target().and_then(|target| rows.member(&row.namespace, target));
    let group = target.as_ref().and_then(|target| target.set.group.clone());
    let group_sets = group.as_ref().map_or(1, |group| rows.group_sets(&row.namespace, group));
    // A group that is refused for its size is not looked at.
    let group = group.filter(|_| group_sets <= MAX_MEMBERS);
    let mut neighbours = group.map(|group| rows.group(&row.namespace, &group)).unwrap_or_default();
    neighbours.retain(|other| target.as_ref().is_none_or(|target| target.set.uid != other.set.uid));
    let unread = answers.reads.iter().filter(|(_, answer)| answer.is_err());
    let unread = unread.map(|(object, _)| object.clone()).collect();
    let reads = answers.reads.iter();
    let reads = reads.filter_map(|(object, answer)| Some((object.clone(), answer.as_ref().ok()?.clone())));
    World {
        others: rows.scaling_others(&row),
        target,
        group_sets,
        neighbours,
        reads: reads.collect(),
        unread,
        locks: rows.locks_of(&row.uid),
        lock_image,
        declared: answers.declared.get(keys::RESTARTS_ALL_CONTAINERS).copied(),
        hooked: pass.memory.hooked.clone(),
        hooking: answers.hooking.clone(),
        polls_at: pass.memory.polls_at.clone(),
        unconfirmed: pass.doubt.map(Doubt::why).cloned(),
        refused: pass.memory.refused.clone(),
        row,
    }
}

#[cfg(test)]
#[path = "scaling_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "scaling_flow_tests.rs"]
mod flow_tests;
