//! The extended-statefulset controller: which objects a change concerns, and the world of an object.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sts_plus_api::extended::Group;
use sts_plus_planner::extended::active::{ProbeState, count};
use sts_plus_planner::extended::probe::Digest;
use sts_plus_planner::extended::row::ExtendedRow;
use sts_plus_planner::extended::spec::{ActivePolicy, Spec};
use sts_plus_planner::extended::wait::Wait;
use sts_plus_planner::extended::{CONFIG_SETTLES, Decision, World, plan};
use sts_plus_planner::plan::{Action, Object, Verb};
use sts_plus_planner::reason::Refusal;
use sts_plus_planner::set::SetRow;
use tokio::time::Instant;

use super::Planner;
use crate::runtime::{
    self, Answers, Concern, Controller, Doubt, Label, Lanes, Learned, Learning, Measured, Pass, Planned,
};
use crate::shell::api::{ApiError, Kind};
use crate::shell::cache::{Store, Touched};
use crate::shell::executor::{CarriedOut, Domain};
use crate::shell::extended_metrics::ExtendedLabels;
use crate::shell::lease::Epoch;
use crate::shell::metrics::Metrics;

/// What a decision about an ExtendedStatefulSet looks at.
const READS: [Kind; 7] = [
    Kind::StatefulSet,
    Kind::Pod,
    Kind::Extended,
    Kind::FissileExtended,
    Kind::Service,
    Kind::ScalingPolicy,
    Kind::Claim,
];

/// An ExtendedStatefulSet by group, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    group: Group,
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

/// Runs StatefulSets in versions, zones and roles.
#[derive(Clone, Copy, Debug)]
pub struct ExtendedStatefulSets {
    /// Decides. A test may bring another planner than that of the product.
    pub planner: Planner<World, Decision>,
}

impl Default for ExtendedStatefulSets {
    fn default() -> Self {
        Self { planner: plan }
    }
}

/// What is remembered of an object between passes. Losing it delays a version or a failover, or costs a read.
#[derive(Debug, Default)]
pub struct Memory {
    /// Of each set that was written and is not recorded yet, by UID, the generation that its write has made: what the server
    /// made of it is as it was written, also where it has dropped a field that it does not know.
    written: BTreeMap<Arc<str>, i64>,
    /// The names of the sets that were created in the last pass.
    created: BTreeSet<Box<str>>,
    /// The data of the last pass, and when it will have stayed as it is for long enough.
    config: Option<(HashMap<Object, Digest>, Option<Timestamp>)>,
    /// The open stretch of the version's time: its term, what was open, and since when.
    open: Option<(Epoch, SignedDuration, Instant)>,
    /// What probes have shown of each pod, by UID.
    probes: BTreeMap<Box<str>, ProbeState>,
    /// The policy under which they were sent: another check says nothing about this one.
    policy: Option<ActivePolicy>,
    /// The last valid spec.
    spec: Option<Arc<Spec>>,
    /// The write that was refused.
    refused: Option<Refused>,
}

/// A write that was refused.
#[derive(Clone, Debug)]
struct Refused {
    refusal: Refusal,
    /// What it was of.
    kind: Kind,
    /// How often in succession.
    failures: u32,
    /// The generation of the object that it was made from: another one may be accepted.
    generation: i64,
    /// Until when objects of its kind are left alone, where they are sets or Services.
    until: Instant,
}

impl Refused {
    fn holds(&self, generation: i64, at: Instant) -> bool {
        self.generation == generation && self.until > at
    }
}

impl Controller for ExtendedStatefulSets {
    type Key = Key;
    type Memory = Memory;
    type Detail = Decision;

    fn kind(&self) -> Kind {
        Kind::Extended
    }

    fn reads(&self) -> &'static [Kind] {
        &READS
    }

    fn concerned(&self, rows: &Store, touched: &Touched) -> Vec<Concern<Key>> {
        let key = |(group, (namespace, name))| Concern::of(Key { group, namespace, name });
        rows.extended_of(touched).into_iter().map(key).collect()
    }

    fn all(&self, rows: &Store) -> Vec<Key> {
        let key = |row: Arc<ExtendedRow>| Key {
            group: row.group,
            namespace: Arc::clone(&row.namespace),
            name: Arc::clone(&row.name),
        };
        let mut keys: Vec<_> = rows.all_extended().into_iter().map(key).collect();
        keys.sort();
        keys
    }

    fn lanes(&self, rows: &Store, key: &Key) -> Option<Lanes> {
        let row = rows.extended(key.group, &key.namespace, &key.name)?;
        let children = rows.children(&row);
        let domains = domains(&row, children.iter().map(|member| &*member.set));
        Some(Lanes { domains, own: Some(Arc::clone(&row.uid)) })
    }

    fn plan(&self, pass: &mut Pass<'_, Self>) -> Option<Planned<Decision>> {
        let row = pass.rows.extended(pass.key.group, &pass.key.namespace, &pass.key.name)?;
        let world = world(pass, row);
        let mut decision = (self.planner)(&world, pass.moment.now);
        let domains = domains(&world.row, world.children.iter().map(|member| &*member.set));
        let plan = std::mem::take(&mut decision.plan);
        let must_be_confirmed = decision.adds_time;
        Some(Planned { must_be_confirmed, ..Planned::new(domains, plan, decision) })
    }

    fn learn(&self, learning: Learning<'_, Self>) -> Learned<Decision> {
        let Learning { memory, planned, carried, refusals, moment, answered_at, backoff, .. } = learning;
        let mut learned = Learned::of(carried);
        memory.open = planned.detail.open.map(|open| (moment.term, open, moment.at));
        remember_written(memory, &carried.acknowledged());
        let generation = planned.detail.status.observed_generation.unwrap_or_default();
        let before = memory.refused.take();
        let held = before.clone().filter(|refused| refused.holds(generation, moment.at));
        if carried.halt.is_none() {
            // The condition that reports a refusal is removed by a pass of its own.
            learned.retry_at = before.map(|_| held.as_ref().map_or(answered_at, |held| held.until));
            memory.refused = held;
            return learned;
        }
        let Some((action, refusal)) = refused(carried, refusals) else {
            memory.refused = held;
            return learned;
        };
        let earlier =
            before.filter(|before| before.generation == generation).map_or(0, |before| before.failures);
        let failures = earlier.saturating_add(1);
        let mut until = answered_at;
        if matches!(
            action.object().kind,
            Kind::StatefulSet | Kind::Service | Kind::ScalingPolicy | Kind::Claim
        ) {
            // Who is active is decided meanwhile, so only writes like this one wait.
            until += backoff.delay(failures);
            (learned.retry_at, learned.waits_by_itself) = (Some(until), true);
        }
        let kind = action.object().kind;
        memory.refused = Some(Refused { refusal, kind, failures, generation, until });
        learned
    }

    fn measure(&self, metrics: &Metrics, key: &Key, measured: Measured<'_, Self>) {
        let labels = ExtendedLabels {
            group: key.group.name(),
            namespace: Arc::clone(&key.namespace),
            extended_statefulset: Arc::clone(&key.name),
        };
        match measured {
            Measured::Planned { planned, is_done: true, .. } => {
                let Decision { status, wait, .. } = &planned.detail;
                metrics.extended.show(&labels, status, wait.as_ref().map(Wait::reason));
            }
            Measured::Gone { .. } => metrics.extended.forget(&labels),
            Measured::Planned { .. }
            | Measured::Passed { .. }
            | Measured::Queried { .. }
            | Measured::Hooked { .. } => {}
        }
    }
}

/// Remembers what was written, until it is recorded.
fn remember_written(memory: &mut Memory, acknowledged: &[&Action]) {
    for write in acknowledged.iter().filter(|write| write.object().kind == Kind::StatefulSet) {
        match write.verb() {
            Verb::Create { .. } => {
                memory.created.insert(write.object().name.clone());
            }
            Verb::Replace { body, .. } => {
                // It was made from this generation, and counts as one change of the spec at most.
                let generation = body.pointer("/metadata/generation").and_then(Value::as_i64);
                let uid = Arc::from(&*write.precondition().uid);
                memory.written.extend(generation.map(|generation| (uid, generation.saturating_add(1))));
            }
            _ => {}
        }
    }
}

/// The write that was refused: by the server or a webhook, or as its name is taken.
fn refused<'c>(
    carried: &CarriedOut<'c>,
    refusals: &[(&'c Action, Refusal)],
) -> Option<(&'c Action, Refusal)> {
    let taken = || {
        carried.answered().find_map(|(action, answer)| {
            let is_taken = matches!(answer, Err(ApiError::AlreadyExists(_)));
            let is_creation = matches!(action.verb(), Verb::Create { .. });
            let object = action.object();
            (is_taken && is_creation).then(|| {
                let kind = object.kind.definition().kind;
                let message = format!(
                    "{kind} {} exists and does not belong to this object; delete or rename it",
                    object.name
                );
                (action, Refusal { webhook: None, message })
            })
        })
    };
    refusals.first().cloned().or_else(taken)
}

/// The lane of the object itself, and those of its sets.
fn domains<'s>(row: &ExtendedRow, sets: impl Iterator<Item = &'s SetRow>) -> Vec<Domain> {
    let own = Domain {
        namespace: Arc::clone(&row.namespace),
        group: format!("extendedstatefulset/{}", row.uid).into(),
    };
    let mut domains: Vec<_> = std::iter::once(own).chain(sets.map(Domain::of)).collect();
    domains.sort();
    domains.dedup();
    domains
}

/// The world of an object, from rows, answers and what is remembered.
fn world(pass: &mut Pass<'_, ExtendedStatefulSets>, row: Arc<ExtendedRow>) -> World {
    let (rows, memory, moment) = (pass.rows, &mut *pass.memory, pass.moment);
    let children = rows.children(&row);
    let created = std::mem::take(&mut memory.created);
    // Nobody has changed the spec of a set of the first generation since it was created.
    let new =
        children.iter().filter(|member| member.set.generation == 1 && created.contains(&*member.set.name));
    memory.written.extend(new.map(|member| (Arc::clone(&member.set.uid), 1)));
    memory.written.retain(|uid, _| children.iter().any(|member| member.set.uid == *uid));
    if let Ok(spec) = &row.spec {
        memory.spec = Some(Arc::clone(spec));
    }
    let policy = memory.spec.as_ref().and_then(|spec| spec.active.as_ref());
    if memory.policy.as_ref() != policy {
        memory.probes.clear();
        memory.policy = policy.cloned();
    }
    count(&mut memory.probes, memory.policy.as_ref(), &pass.answers.probed);
    let pods: BTreeSet<&str> = children.iter().flat_map(|member| &member.pods).map(|pod| &*pod.uid).collect();
    memory.probes.retain(|uid, _| pods.contains(&**uid));
    let reads = pass
        .answers
        .reads
        .iter()
        .filter_map(|(object, answer)| answer.as_ref().ok().map(|found| (object.clone(), found.clone())));
    let (claims, users) = rows.stable_claims(&row);
    World {
        claims,
        users,
        listed: pass.answers.listed.clone().into_iter().collect(),
        strangers: rows.strangers(&row),
        recorded_active: rows.recorded_active(&row),
        policies: rows.scaling_of((&row.namespace, &row.uid), children.iter().map(|member| &member.set.name)),
        services: rows.services_of(&row),
        digests: pass.answers.digests.clone().into_iter().collect(),
        reads: reads.collect(),
        config_settled_at: settled_at(memory, pass.answers, moment.now),
        written: memory.written.clone(),
        last_spec: memory.spec.clone(),
        unconfirmed: pass.doubt.map(Doubt::why).cloned(),
        open: open(memory, moment.term, moment.at),
        refused: memory.refused.as_ref().map(|refused| refused.refusal.clone()),
        held: memory
            .refused
            .as_ref()
            .filter(|refused| refused.holds(row.generation, moment.at))
            .map(|refused| refused.kind),
        probes: memory.probes.clone(),
        probing: pass.answers.probing.clone(),
        children,
        row,
    }
}

/// When the data that is known now will have stayed as it is for long enough. What a process finds at its start has done so.
fn settled_at(memory: &mut Memory, answers: &Answers, now: Timestamp) -> Option<Timestamp> {
    let is_known =
        |digests: &HashMap<Object, Digest>| !digests.values().any(|digest| *digest == Digest::Unknown);
    match &memory.config {
        Some((known, at)) if *known == answers.digests => *at,
        Some((known, _)) if is_known(known) && !known.is_empty() => {
            let at = now.saturating_add(CONFIG_SETTLES).ok();
            memory.config = Some((answers.digests.clone(), at));
            at
        }
        _ => {
            memory.config = Some((answers.digests.clone(), None));
            None
        }
    }
}

/// The open stretch at a moment of this term.
fn open(memory: &Memory, term: Epoch, now: Instant) -> SignedDuration {
    let Some((_, open, since)) = memory.open.filter(|(known, ..)| *known == term) else {
        return SignedDuration::ZERO;
    };
    let passed = SignedDuration::try_from(now.saturating_duration_since(since));
    open.saturating_add(passed.unwrap_or(SignedDuration::MAX))
}

#[cfg(test)]
#[path = "extended_absent_tests.rs"]
mod absent_tests;
