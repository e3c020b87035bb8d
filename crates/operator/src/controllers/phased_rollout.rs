//! The phased-rollout controller: one key per PhasedRollout, one pass per change, queries beside the queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_planner::disruption::MAX_MEMBERS;
use sts_plus_planner::health::Member;
use sts_plus_planner::phased_rollout::gate::{Expressions, Outcome as QueryOutcome, Question, Step};
use sts_plus_planner::phased_rollout::judge::judge;
use sts_plus_planner::phased_rollout::placeholders;
use sts_plus_planner::phased_rollout::policy::{Policy, Warning};
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::phased_rollout::wait::Wait;
use sts_plus_planner::phased_rollout::{Decision, World, plan, refused, whole_milliseconds};
use sts_plus_planner::plan::{Action, Ask, Note, Verb};
use sts_plus_planner::reason::{Reason, Refusal, Severity};
use sts_plus_planner::set::SetRow;
use tokio::time::Instant;

use super::later;
use super::probes::Probes;
use super::stretches::Stretches;
use super::unobserved::Unobserved;
use super::unreported::Unreported;
use crate::outbound::{self, Prometheus, promql};
use crate::shell::api::{Api, ApiError, Kind, Place};
use crate::shell::cache::{Cache, Store, Touched};
use crate::shell::events::{Recorder, Regarding};
use crate::shell::executor::{Basis, Domain, Executor, Halt, Lane};
use crate::shell::lease::Epoch;
use crate::shell::metrics::{ControllerLabel, Metrics};
use crate::shell::phased_metrics::RolloutLabels;
use crate::shell::queue::{Outcome, Queue};

/// The controller's name in flags and metrics.
pub const NAME: &str = "phased-rollout";

/// What a decision about a PhasedRollout looks at.
const READS: [Kind; 3] = [Kind::StatefulSet, Kind::Pod, Kind::PhasedRollout];

/// How often a pass confirms its view: which sets carry a mark, what those read, and that nothing else is to be read.
const MAX_CONFIRMATIONS: usize = 3;

/// How soon to try again to forget a lane that waits to see its own writes: the view shows them in well under a second.
const LEAVE_AGAIN: Duration = Duration::from_secs(5);

/// How a pass ended.
#[derive(Debug)]
enum Passed {
    /// All that could be done was done.
    Planned {
        /// When to look again although nothing has changed.
        wake_at: Option<Instant>,
    },
    /// The view could not be confirmed.
    Unconfirmed,
    /// By what the view shows now it is planned for in another lane.
    Moved,
}

/// A PhasedRollout by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    namespace: Arc<str>,
    name: Arc<str>,
}

/// Rolls sets, gate by gate.
#[derive(Debug)]
pub struct PhasedRollouts {
    queue: Arc<Queue<Key>>,
    cache: Cache,
    executor: Arc<Executor>,
    prometheus: Prometheus,
    api: Api,
    recorder: Recorder,
    metrics: Metrics,
    probes: Probes<Key>,
    unobserved: Unobserved,
    stretches: Stretches<Key, Epoch>,
    unreported: Unreported<Key>,
    syntax: Mutex<HashMap<Key, Syntax>>,
    /// Per key: the domains whose lanes it has entered and that have not been forgotten; the present one is the last.
    domains: Mutex<HashMap<Key, Vec<Domain>>>,
    /// Per key: what was reported of a last pass that was not carried out to its end. Losing it repeats a message.
    reported: Mutex<HashMap<Key, Vec<Note>>>,
    /// Per key: the refusal that was reported by an event alone. Losing it repeats a message.
    refused: Mutex<HashMap<Key, Refusal>>,
}

/// What the built-in parser said of the queries of one generation.
#[derive(Debug)]
struct Syntax {
    uid: Arc<str>,
    generation: i64,
    warnings: Vec<Warning>,
}

/// The queue's listener: which key something touched belongs to.
pub fn key_of(touched: &Touched) -> Option<Key> {
    let Touched::Rollout { namespace, name } = touched else { return None };
    Some(Key { namespace: Arc::clone(namespace), name: Arc::clone(name) })
}

impl PhasedRollouts {
    /// A controller that takes its keys from `queue`.
    pub fn new(
        queue: Arc<Queue<Key>>,
        cache: Cache,
        executor: Arc<Executor>,
        (api, prometheus): (Api, Prometheus),
        recorder: Recorder,
        metrics: Metrics,
    ) -> Self {
        Self {
            queue,
            cache,
            executor,
            prometheus,
            api,
            recorder,
            metrics,
            probes: Probes::default(),
            unobserved: Unobserved::default(),
            stretches: Stretches::default(),
            unreported: Unreported::default(),
            syntax: Mutex::default(),
            domains: Mutex::default(),
            reported: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Asks for a pass over everything.
    pub fn enqueue_all(&self) {
        for rollout in self.cache.store().rollouts() {
            self.queue
                .add(Key { namespace: Arc::clone(&rollout.namespace), name: Arc::clone(&rollout.name) });
        }
    }

    /// Works until the queue is closed.
    pub async fn work(&self) {
        let depth = self.metrics.queue_depth.get_or_create(&ControllerLabel { controller: NAME }).clone();
        while let Some(key) = self.queue.next().await {
            depth.set(i64::try_from(self.queue.depth()).unwrap_or(i64::MAX));
            let outcome = match self.pass(&key).await {
                Ok(Passed::Unconfirmed) => Outcome::Unconfirmed,
                Ok(Passed::Moved) => Outcome::WakeAt(Instant::now()),
                Ok(Passed::Planned { wake_at: Some(wake_at) }) => Outcome::WakeAt(wake_at),
                Ok(Passed::Planned { wake_at: None }) => Outcome::Settled,
                Err(halt) => Self::halted(&key, halt),
            };
            self.queue.done(&key, outcome);
        }
    }

    /// One pass: world, plan, writes, reports, queries. What was done is reported whatever became of the rest.
    async fn pass(&self, key: &Key) -> Result<Passed, Halt> {
        let Some(rollout) = self.row(key) else {
            return Ok(Passed::Planned { wake_at: self.forget(key) });
        };
        let domain = self.domain(&rollout);
        self.leave_others(key, Some(&domain));
        let (domains, own) = (std::slice::from_ref(&domain), Some(&rollout.uid));
        let mut lane = self.executor.enter(domains, own, self.queue.waiter(NAME, key)).await?;
        let now = self.api.now();
        let (planned_at, term) = (Instant::now(), lane.epoch());
        let look = |unconfirmed: Option<Arc<str>>| {
            let stretch = self.stretches.open(key, term, planned_at);
            Some(World { unconfirmed, stretch, ..self.world(key, now)? })
        };
        let Some(mut world) = look(lane.doubt(&READS).cloned()) else {
            return Ok(Passed::Planned { wake_at: None });
        };
        if domain_of(&world) != domain {
            return Ok(Passed::Moved);
        }
        let due = self.unreported.due(key, &world.rollout, self.cache.store());
        self.announce(&due, &[]);
        let mut planned = self.plan(&mut world, now).await;
        for _ in 0..MAX_CONFIRMATIONS {
            if !planned.needs_confirmed_view() {
                break;
            }
            let renewed = match confirm(&mut lane, &planned).await {
                Ok(Basis::Confirmed) => break,
                Ok(Basis::Renewed) => look(None),
                Err(Halt::Unconfirmed(why)) => look(Some(why)),
                Err(halt) => return Err(halt),
            };
            // One that turns out to be gone has its key in the queue again.
            let Some(renewed) = renewed else { return Ok(Passed::Planned { wake_at: None }) };
            // A set that turns out to be in another group is rolled by whoever has the lane of that group: of its neighbours
            // nothing was read. Another set that turns out to carry the mark is released in the lane of its own domain.
            if domain_of(&renewed) != domain {
                return Ok(Passed::Moved);
            }
            world = renewed;
            planned = self.plan(&mut world, now).await;
        }
        let carried_out = lane.carry_out(&planned.plan.steps).await;
        if let Some(halt) = carried_out.halt.clone() {
            let done: Vec<_> = planned.plan.notes_after(&carried_out.acknowledged()).cloned().collect();
            self.announce(&done, &self.reported(key));
            self.unreported.lost(key, &planned, &carried_out.unanswered(), &done);
            self.remember_reported(key, done);
            if let Some((action, refusal)) = carried_out.refused {
                // A status that hangs is not asked for once more while the lane is held, and without our finalizer there is
                // none yet.
                let hangs = matches!(&halt, Halt::Failed(ApiError::Unanswered(_)));
                let is_status = matches!(action.verb(), Verb::ReplaceStatus { .. });
                let is_writable = world.rollout.has_finalizer() && !(hangs && is_status);
                let report = is_writable.then(|| refused(&world, refusal.clone(), now));
                self.report_refusal(key, &mut lane, &world, (refusal, report)).await;
            }
            return Err(halt);
        }
        drop(lane);
        self.refused.lock().remove(key);
        self.unreported.forget(key);
        self.stretches.keep(key, term, planned.stretch, planned_at);
        // While the set is unobserved, or nothing may be disrupted, the gate is not looked at: what was answered meanwhile
        // is counted afterwards.
        let is_looked_at = match &planned.wait {
            None | Some(Wait::NotObserved { .. } | Wait::Held { reason: Reason::ViewUnconfirmed { .. } }) => {
                false
            }
            Some(_) => true,
        };
        if is_looked_at {
            self.probes.counted(key, &world.outcomes);
        }
        self.show(key, &world, &planned);
        self.announce(&planned.plan.notes, &self.reported(key));
        let wake_at = planned.plan.wake_at;
        for ask in planned.plan.asks {
            match ask {
                Ask::Query(question) => self.ask(key, *question),
                // Answered before the plan was carried out.
                Ask::Read(_) => {}
            }
        }
        Ok(if world.unconfirmed.is_some() {
            Passed::Unconfirmed
        } else {
            Passed::Planned { wake_at: wake_at.map(|at| later(planned_at, at, now)) }
        })
    }

    /// Plans, and finds out what the plan asks for.
    async fn plan(&self, world: &mut World, now: Timestamp) -> Decision {
        let planned = plan(world, now);
        if !planned.plan.asks.iter().any(|ask| matches!(ask, Ask::Read(_))) {
            return planned;
        }
        world.partition_manager = Some(self.partition_manager(world).await);
        plan(world, now)
    }

    /// A refusal does not end by itself, so it is reported: in the status or, where that cannot be written either, by an
    /// event, once.
    async fn report_refusal(
        &self,
        key: &Key,
        lane: &mut Lane<'_>,
        world: &World,
        (refusal, report): (Refusal, Option<Decision>),
    ) {
        if let Some(report) = report
            && lane.perform(&report.plan.steps).await.is_ok()
        {
            return self.announce(&report.plan.notes, &[]);
        }
        let before = self.refused.lock().insert(key.clone(), refusal.clone());
        if before.is_none_or(|before| before.webhook != refusal.webhook) {
            self.recorder.warn(about(&world.rollout), Reason::WRITE_REFUSED, &refusal.to_string());
        }
    }

    fn row(&self, key: &Key) -> Option<Arc<RolloutRow>> {
        self.cache.store().rollout(&key.namespace, &key.name)
    }

    fn domain(&self, rollout: &RolloutRow) -> Domain {
        let store = self.cache.store();
        let target = rollout.target().and_then(|target| store.set(&rollout.namespace, &target.into()));
        domain(rollout, &store.held(rollout), target.as_ref())
    }

    fn world(&self, key: &Key, now: Timestamp) -> Option<World> {
        let store = self.cache.store();
        let rollout = self.row(key)?;
        let step = rollout.status.rolling_pod_status.as_ref().map(|gate| Step {
            generation: rollout.generation,
            revision: rollout.status.update_revision.as_deref().unwrap_or_default().into(),
            partition: gate.partition,
        });
        let (outcomes, under_way) = self.probes.look(key, step.as_ref());
        let syntax = self.syntax(key, &rollout);
        let mut world = world(store, rollout);
        world.unobserved_since =
            world.target.as_ref().and_then(|member| self.unobserved.since(&member.set, now));
        Some(World { outcomes, under_way, syntax, ..world })
    }

    /// What the built-in parser says of the queries, found out once for each wording.
    fn syntax(&self, key: &Key, rollout: &RolloutRow) -> Vec<Warning> {
        if let Some(known) = self.syntax.lock().get(key)
            && (&known.uid, known.generation) == (&rollout.uid, rollout.generation)
        {
            return known.warnings.clone();
        }
        let policy = rollout.spec.as_ref().ok().and_then(|spec| Policy::parse(spec).ok());
        let (namespace, set, pod, updated) = ("ns", "set", "set-0", Vec::new());
        let subject = placeholders::Subject { namespace, set, pod, updated, revision: "set-1" };
        let checks = policy.iter().flat_map(|policy| &policy.checks);
        let queries = checks.flat_map(|check| {
            let texts = std::iter::once(&check.query.expr).chain(&check.guard);
            texts.filter_map(|text| Some((check.name.clone(), subject.fill(text).ok()?)))
        });
        let warnings: Vec<_> = queries
            .filter_map(|(check, text)| Some(Warning::Syntax { check, fault: promql::fault(&text)? }))
            .collect();
        let (uid, generation) = (Arc::clone(&rollout.uid), rollout.generation);
        let known = Syntax { uid, generation, warnings: warnings.clone() };
        self.syntax.lock().insert(key.clone(), known);
        warnings
    }

    /// Who besides us has written the partition; read from the object itself, since it is needed so rarely.
    async fn partition_manager(&self, world: &World) -> String {
        let Some(member) = &world.target else { return UNKNOWN_MANAGER.to_owned() };
        let place = Place::object(Kind::StatefulSet, &member.set.namespace, &member.set.name);
        match self.api.get(place).await {
            Ok(set) => manager_of_partition(&set),
            Err(error) => {
                tracing::warn!(set = %member.set.name, "who has written the partition cannot be found out: {error}");
                UNKNOWN_MANAGER.to_owned()
            }
        }
    }

    /// Sends a query beside everything else; its answer brings the next pass.
    fn ask(&self, key: &Key, question: Question) {
        let (prometheus, metrics) = (self.prometheus.clone(), self.metrics.clone());
        let (namespace, labels) = (Arc::clone(&key.namespace), labels(key));
        let (name, step) = (question.check.name.clone(), question.step.clone());
        let ask = async move {
            let Question { check, step, .. } = &question;
            let fill = || {
                let Expressions { query: expr, guard } = question.fill()?;
                let (query, extent) = (check.query.clone(), check.rule.extent());
                Ok(outbound::Question { query, expr, extent, guard })
            };
            let response = prometheus.ask((&namespace, &check.query.url), fill).await;
            let verdict = judge(check, &response.answer, response.guard.as_ref()).verdict;
            metrics.phased.queried(&labels, &check.name, verdict, response.took);
            QueryOutcome {
                check: check.name.clone(),
                step: step.clone(),
                asked_at: whole_milliseconds(response.asked_at),
                answer: response.answer,
                guard: response.guard,
            }
        };
        let (queue, key_then) = (Arc::clone(&self.queue), key.clone());
        self.probes.start(key, (name, step), ask, move |_| queue.add(key_then));
    }

    fn show(&self, key: &Key, world: &World, decision: &Decision) {
        let labels = labels(key);
        if world.rollout.deleting {
            return;
        }
        self.metrics.phased.show(&labels, &decision.status);
        if let Some(took) = decision.gate_took {
            self.metrics.phased.passed(&labels, took.try_into().unwrap_or_default());
        }
        if let Some(ended) = decision.ended {
            self.metrics.phased.ended(&labels, ended);
        }
    }

    /// Takes what the last pass has reported, if that pass was not carried out to its end.
    fn reported(&self, key: &Key) -> Vec<Note> {
        self.reported.lock().remove(key).unwrap_or_default()
    }

    /// Remembers what a pass has reported that was not carried out to its end: the next one may do the same once more.
    fn remember_reported(&self, key: &Key, done: Vec<Note>) {
        if !done.is_empty() {
            self.reported.lock().insert(key.clone(), done);
        }
    }

    /// Reports what has happened, once it is written and unless it was reported before.
    fn announce(&self, notes: &[Note], before: &[Note]) {
        for note in notes.iter().filter(|note| !before.contains(note)) {
            let Note { on, severity, reason, message, .. } = note;
            if let Some(rollout) = on.first() {
                let (namespace, name) = (&rollout.namespace, &rollout.name);
                match severity {
                    Severity::Normal => tracing::info!(%namespace, rollout = %name, reason, "{message}"),
                    Severity::Warning => tracing::warn!(%namespace, rollout = %name, reason, "{message}"),
                    Severity::Error => tracing::error!(%namespace, rollout = %name, reason, "{message}"),
                }
            }
            for subject in on {
                self.recorder.record(subject.into(), *severity, reason, message);
            }
        }
    }

    /// Forgets the lanes that a key has entered, except that of its present domain. Another rollout of the same domain gets
    /// a new one. Returns whether all are forgotten that can be.
    fn leave_others(&self, key: &Key, present: Option<&Domain>) -> bool {
        let mut domains = self.domains.lock();
        let mut entered = domains.remove(key).unwrap_or_default();
        entered.retain(|domain| present != Some(domain) && !self.executor.forget(domain));
        let all_left = entered.is_empty();
        entered.extend(present.cloned());
        if !entered.is_empty() {
            domains.insert(key.clone(), entered);
        }
        all_left
    }

    /// Forgets a key that is no more. When to try again where a lane could not be forgotten yet.
    fn forget(&self, key: &Key) -> Option<Instant> {
        let all_left = self.leave_others(key, None);
        self.probes.forget(key);
        self.stretches.forget(key);
        self.metrics.phased.forget(&labels(key));
        self.syntax.lock().remove(key);
        self.reported.lock().remove(key);
        self.refused.lock().remove(key);
        self.unreported.forget(key);
        (!all_left).then(|| Instant::now() + LEAVE_AGAIN)
    }

    fn halted(key: &Key, halt: Halt) -> Outcome {
        match halt {
            // Everything is looked at again when the gate opens.
            Halt::Closed => Outcome::Settled,
            Halt::NotSeenYet { until } | Halt::Occupied { until } => Outcome::WakeAt(until),
            Halt::Unconfirmed(_) => Outcome::Unconfirmed,
            Halt::Throttled { retry_after } => Outcome::ComeBack(retry_after),
            Halt::Failed(error) => {
                let Key { namespace, name } = key;
                tracing::error!(%namespace, rollout = %name, "the pass failed: {error}");
                Outcome::Failed
            }
        }
    }
}

/// Confirms what a plan rests on: the domain for what disrupts, and for the end of the rollout which sets carry its mark.
async fn confirm(lane: &mut Lane<'_>, decision: &Decision) -> Result<Basis, Halt> {
    let actions = || decision.plan.writes();
    let mut basis = Basis::Confirmed;
    if let Some(removal) = actions().find(|action| action.removes_finalizer()) {
        basis = lane.confirm_marks(removal.object()).await?;
    }
    let of_domain = |action: &Action| action.needs_confirmed_view() && !action.removes_finalizer();
    if (decision.adds_time || actions().any(of_domain)) && lane.confirm(&READS).await? == Basis::Renewed {
        basis = Basis::Renewed;
    }
    Ok(basis)
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

/// The world of a rollout, from rows.
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

fn about(rollout: &RolloutRow) -> Regarding {
    Regarding {
        resource: Kind::PhasedRollout,
        namespace: Arc::clone(&rollout.namespace),
        name: Arc::clone(&rollout.name),
        uid: Arc::clone(&rollout.uid),
    }
}

#[cfg(test)]
#[path = "phased_rollout_tests.rs"]
mod tests;
