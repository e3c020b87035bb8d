//! The rollout-group controller: one key per group, one pass per change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use sts_plus_planner::plan::{Action, Note};
use sts_plus_planner::reason::{Reason, Refusal, Severity};
use sts_plus_planner::rollout_group::report::{Report, Transition, Warning};
use sts_plus_planner::rollout_group::{self, Decision, MAX_MEMBERS, World, overlaps, plan, release};
use sts_plus_planner::set::SetRow;
use tokio::time::Instant;

use super::unobserved::Unobserved;
use super::{later, regarding};
use crate::shell::cache::{Cache, Store, Touched};
use crate::shell::events::Recorder;
use crate::shell::executor::{Basis, Domain, Executor, Halt, Lane, SETS_AND_PODS};
use crate::shell::informing::{Informing, Wake};
use crate::shell::lease::Epoch;
use crate::shell::metrics::{ControllerLabel, GroupLabels, Metrics, StateLabels};
use crate::shell::queue::{Outcome, Queue};
use crate::shell::surroundings::Clock;

/// The controller's name in flags and metrics.
pub const NAME: &str = "rollout-group";

/// What a pass is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A group.
    Group(Domain),
    /// A set that is in no group, and may still carry our annotation.
    Ungrouped {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        set: Arc<str>,
    },
}

/// Rolls groups.
#[derive(Debug)]
pub struct RolloutGroups {
    queue: Arc<Queue<Key>>,
    cache: Cache,
    executor: Arc<Executor>,
    informing: Informing,
    recorder: Recorder,
    metrics: Metrics,
    clock: Clock,
    memory: Mutex<Memory>,
    unobserved: Unobserved,
}

/// What is remembered between passes. Losing it delays or repeats a message, nothing else.
#[derive(Debug, Default)]
struct Memory {
    /// Per group and set UID: the warnings that were reported. Replaced as a whole, so that nothing is left of sets that are gone.
    warned: HashMap<Domain, HashMap<Arc<str>, Vec<Warning>>>,
    /// What the planner is reminded of, and the term in which it came about: another leader may have reported since.
    groups: HashMap<Domain, (Epoch, rollout_group::Memory)>,
}

/// How a pass over a group ended.
#[derive(Debug)]
enum Passed {
    /// No set carries its label any more.
    GroupGone,
    /// All that could be done was done.
    Rolled {
        /// When to look again although nothing has changed.
        wake_at: Option<Instant>,
    },
    /// The group cannot be rolled as the user has set it up.
    Skipped,
    /// A pod was not deleted because the view could not be confirmed.
    Unconfirmed,
}

/// The queue's listener: which key something touched belongs to.
pub fn key_of(touched: &Touched) -> Option<Key> {
    let Touched::Set { namespace, set, group } = touched else { return None };
    let (namespace, set) = (Arc::clone(namespace), Arc::clone(set));
    Some(match group.clone() {
        Some(group) => Key::Group(Domain { namespace, group }),
        None => Key::Ungrouped { namespace, set },
    })
}

/// Has a domain looked at again whose informing writes are refused, or not any more.
pub fn wake(queue: &Arc<Queue<Key>>) -> Wake {
    let queue = Arc::clone(queue);
    Arc::new(move |domain| match domain.group.strip_prefix(RELEASED) {
        Some(set) => queue.add(Key::Ungrouped { namespace: Arc::clone(&domain.namespace), set: set.into() }),
        None => queue.add(Key::Group(domain.clone())),
    })
}

/// How the domain of a set without a group begins, under which our annotation is taken from it: no label can hold this.
const RELEASED: &str = "released/";

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

impl RolloutGroups {
    /// A controller that takes its keys from `queue`.
    pub fn new(
        queue: Arc<Queue<Key>>,
        cache: Cache,
        (executor, informing): (Arc<Executor>, Informing),
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock,
    ) -> Self {
        let (memory, unobserved) = (Mutex::default(), Unobserved::default());
        Self { queue, cache, executor, informing, recorder, metrics, clock, memory, unobserved }
    }

    /// Asks for a pass over everything.
    pub fn enqueue_all(&self) {
        for (namespace, group) in self.cache.store().groups() {
            self.queue.add(Key::Group(Domain { namespace, group }));
        }
        for set in self.cache.store().released() {
            self.queue
                .add(Key::Ungrouped { namespace: Arc::clone(&set.namespace), set: Arc::clone(&set.name) });
        }
    }

    /// Works until the queue is closed.
    pub async fn work(&self) {
        let depth = self.metrics.queue_depth.get_or_create(&ControllerLabel { controller: NAME }).clone();
        while let Some(key) = self.queue.next().await {
            depth.set(i64::try_from(self.queue.depth()).unwrap_or(i64::MAX));
            let outcome = match &key {
                Key::Group(domain) => self.pass(domain).await,
                Key::Ungrouped { namespace, set } => self.release(namespace, set),
            };
            self.queue.done(&key, outcome);
        }
    }

    /// One pass over a group.
    async fn pass(&self, domain: &Domain) -> Outcome {
        let group = GroupLabels {
            namespace: Arc::clone(&domain.namespace),
            rollout_group: Arc::clone(&domain.group),
        };
        let started = Instant::now();
        let passed = self.roll(domain).await;
        match &passed {
            Ok(Passed::GroupGone) => {
                self.metrics.forget_group(&group, &Reason::KINDS);
                self.executor.forget(domain);
                self.memory().groups.remove(domain);
                self.memory().warned.remove(domain);
            }
            Ok(Passed::Rolled { .. }) => {
                self.metrics.group_pass(&group, started.elapsed(), Some(self.clock.now()));
            }
            Ok(Passed::Skipped | Passed::Unconfirmed)
            | Err(Halt::Failed(_) | Halt::Throttled { .. } | Halt::Unconfirmed(_)) => {
                self.metrics.group_pass(&group, started.elapsed(), None);
            }
            Err(Halt::Closed | Halt::NotSeenYet { .. } | Halt::Occupied { .. }) => {}
        }
        match passed {
            Ok(Passed::Unconfirmed) => Outcome::Unconfirmed,
            Ok(Passed::Rolled { wake_at: Some(wake_at) }) => Outcome::WakeAt(wake_at),
            Ok(_) => Outcome::Settled,
            Err(halt) => halted(domain, halt),
        }
    }

    /// Plans inside the group's lane and carries the rollout out; what only informs is handed over. What was done is
    /// reported whatever became of the rest.
    async fn roll(&self, domain: &Domain) -> Result<Passed, Halt> {
        let waiter = self.queue.waiter(NAME, &Key::Group(domain.clone()));
        let mut lane = self.executor.enter(std::slice::from_ref(domain), None, waiter).await?;
        let (now, started, epoch) = (self.clock.now(), Instant::now(), lane.epoch());
        let look = |unconfirmed: Option<Arc<str>>| {
            let world = world(self.cache.store(), domain, self.unobserved(domain, now));
            World { unconfirmed, ..world }
        };
        let mut world = look(lane.doubt(&SETS_AND_PODS).cloned());
        world.memory = self.recall(domain, epoch, &world);
        let mut planned = plan(&world, now);
        if planned.plan.needs_confirmed_view() {
            let renewed = match lane.confirm(&SETS_AND_PODS).await {
                Ok(Basis::Confirmed) => None,
                Ok(Basis::Renewed) => Some(look(None)),
                Err(Halt::Unconfirmed(why)) => Some(look(Some(why))),
                Err(halt) => {
                    self.remember(domain, epoch, world.memory, &planned);
                    return Err(halt);
                }
            };
            if let Some(renewed) = renewed {
                world = World { memory: world.memory, ..renewed };
                planned = plan(&world, now);
            }
        }
        if world.members.is_empty() {
            self.informing.submit(domain, epoch, []);
            return Ok(Passed::GroupGone);
        }
        log_disruptions(domain, &planned);
        let acted = act(&mut lane, &world, &planned).await;
        drop(lane);
        if acted.halt == Some(Halt::Closed) {
            return Err(Halt::Closed);
        }
        if acted.refused != world.memory.refused {
            world.memory.refused = acted.refused;
            planned = plan(&world, now);
        }
        self.show(domain, &planned);
        self.report(domain, &planned);
        self.informing.submit(domain, epoch, planned.plan.informing());
        let unconfirmed = world.unconfirmed.is_some();
        self.remember(domain, epoch, world.memory, &planned);
        if let Some(halt) = acted.halt {
            return Err(halt);
        }
        if unconfirmed {
            return Ok(Passed::Unconfirmed);
        }
        let skipped = planned.reports.iter().any(|report| report.reason.severity() == Severity::Error);
        let wake_at = planned.plan.wake_at.map(|at| later(started, at, now));
        Ok(if skipped { Passed::Skipped } else { Passed::Rolled { wake_at } })
    }

    /// Takes our annotation from a set that has left its group.
    fn release(&self, namespace: &Arc<str>, name: &Arc<str>) -> Outcome {
        let set = self.cache.store().set(namespace, name);
        let action = set.as_ref().and_then(|set| release(set));
        // Everything is looked at again when the gate opens.
        if let Some(epoch) = self.executor.term() {
            let domain =
                Domain { namespace: Arc::clone(namespace), group: format!("{RELEASED}{name}").into() };
            self.informing.submit(&domain, epoch, &action);
            self.report_unreleased(&domain, set.as_deref());
        }
        Outcome::Settled
    }

    /// Reports once that our annotation cannot be removed from a set.
    fn report_unreleased(&self, domain: &Domain, set: Option<&SetRow>) {
        let before = self.memory().warned.remove(domain).unwrap_or_default();
        let refused = self.informing.refusals(domain).into_iter();
        let refused =
            refused.filter_map(|(uid, refusal)| Some((set.filter(|set| *set.uid == *uid)?, refusal)));
        for (set, refusal) in refused {
            let warning = Warning::ReleaseRefused { refusal };
            let is_new = !before.get(&set.uid).is_some_and(|before| before.contains(&warning));
            if is_new {
                tracing::warn!(namespace = %set.namespace, set = %set.name, "{warning}");
                self.recorder.warn(regarding(set), warning.kind(), &warning.to_string());
            }
            let warned = HashMap::from([(Arc::clone(&set.uid), vec![warning])]);
            self.memory().warned.insert(domain.clone(), warned);
        }
    }

    /// What is remembered of a group for the planner, as far as it was found out in this term and its sets are still there.
    fn recall(&self, domain: &Domain, epoch: Epoch, world: &World) -> rollout_group::Memory {
        let known = self.memory().groups.remove(domain).filter(|(term, _)| *term == epoch);
        let (_, mut memory) = known.unwrap_or_else(|| (epoch, rollout_group::Memory::default()));
        if !memory.reported.is_empty() || !memory.refused.is_empty() {
            let members: BTreeSet<_> = world.members.iter().map(|member| &member.set.uid).collect();
            memory.reported.retain(|uid, _| members.contains(uid));
            memory.refused.retain(|uid, _| members.contains(uid));
        }
        let refusals = self.informing.refusals(domain).into_iter();
        memory.uninformed = refusals.map(|(uid, refusal)| (Arc::from(uid), refusal)).collect();
        memory
    }

    /// Remembers the states that were reported and that the view does not show on the sets.
    fn remember(
        &self,
        domain: &Domain,
        epoch: Epoch,
        mut memory: rollout_group::Memory,
        decision: &Decision,
    ) {
        for report in &decision.reports {
            if report.is_written {
                memory.reported.remove(&report.set.uid);
            } else if report.transition != Transition::Unsettled {
                memory.reported.insert(Arc::clone(&report.set.uid), report.status.clone());
            }
        }
        if !memory.reported.is_empty() || !memory.refused.is_empty() {
            self.memory().groups.insert(domain.clone(), (epoch, memory));
        }
    }

    /// Since when the specs of this group's sets have been unobserved.
    fn unobserved(&self, domain: &Domain, now: Timestamp) -> BTreeMap<Arc<str>, Timestamp> {
        let members = self.cache.store().group(&domain.namespace, &domain.group);
        let since = |set: &SetRow| Some((Arc::clone(&set.uid), self.unobserved.since(set, now)?));
        members.iter().filter_map(|member| since(&member.set)).collect()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// Shows the states in metrics. A set on which something cannot be written counts as such: there its annotation says
    /// something older.
    fn show(&self, domain: &Domain, decision: &Decision) {
        let refused = |warning: &Warning| matches!(warning, Warning::WriteRefused { .. });
        let state_of = |report: &Report| {
            let is_refused = report.warnings.iter().any(refused);
            if is_refused { Reason::WRITE_REFUSED } else { report.reason.kind() }
        };
        for state in Reason::KINDS {
            let labels = StateLabels {
                namespace: Arc::clone(&domain.namespace),
                rollout_group: Arc::clone(&domain.group),
                state,
            };
            match decision.reports.iter().filter(|report| state_of(report) == state).count() {
                0 => {
                    self.metrics.sets.remove(&labels);
                }
                sets => {
                    self.metrics.sets.get_or_create(&labels).set(i64::try_from(sets).unwrap_or(i64::MAX));
                }
            }
        }
    }

    /// Reports transitions, in the log and as events.
    fn report(&self, domain: &Domain, decision: &Decision) {
        for note in &decision.plan.notes {
            self.announce(domain, note);
        }
        let before = self.memory().warned.remove(domain).unwrap_or_default();
        for report in &decision.reports {
            self.warn(domain, report, before.get(&report.set.uid).map(Vec::as_slice).unwrap_or_default());
        }
        let warned = decision.reports.iter().filter(|report| !report.warnings.is_empty());
        let warned: HashMap<_, _> =
            warned.map(|report| (Arc::clone(&report.set.uid), report.warnings.clone())).collect();
        if !warned.is_empty() {
            self.memory().warned.insert(domain.clone(), warned);
        }
    }

    fn announce(&self, domain: &Domain, note: &Note) {
        let Note { on, severity, reason, message, .. } = note;
        let (namespace, group) = (&domain.namespace, &domain.group);
        for subject in on {
            let set = &subject.name;
            match severity {
                Severity::Normal => tracing::info!(%namespace, %group, %set, state = reason, "{message}"),
                Severity::Warning => tracing::warn!(%namespace, %group, %set, state = reason, "{message}"),
                Severity::Error => tracing::error!(%namespace, %group, %set, state = reason, "{message}"),
            }
            self.recorder.record(subject.into(), *severity, reason, message);
        }
    }

    /// Reports each fault in what the user wrote once, and again when it changes.
    fn warn(&self, domain: &Domain, report: &Report, before: &[Warning]) {
        for warning in report.warnings.iter().filter(|warning| !before.contains(warning)) {
            let (namespace, group, set) = (&domain.namespace, &domain.group, &report.set.name);
            tracing::warn!(%namespace, %group, %set, "{warning}");
            self.recorder.warn(regarding(&report.set), warning.kind(), &warning.to_string());
        }
    }
}

/// What the end of a pass means for the next one.
fn halted(domain: &Domain, halt: Halt) -> Outcome {
    match halt {
        // Everything is looked at again when the gate opens.
        Halt::Closed => Outcome::Settled,
        Halt::NotSeenYet { until } | Halt::Occupied { until } => Outcome::WakeAt(until),
        Halt::Unconfirmed(_) => Outcome::Unconfirmed,
        Halt::Throttled { retry_after } => Outcome::ComeBack(retry_after),
        Halt::Failed(error) => {
            let (namespace, group) = (&domain.namespace, &domain.group);
            // A refusal is the state of its set by now, and was announced as such.
            if error.refusal().is_none() {
                tracing::error!(%namespace, %group, "the pass failed: {error}");
            }
            Outcome::Failed
        }
    }
}

/// Logs what disrupts, before it is carried out.
fn log_disruptions(domain: &Domain, decision: &Decision) {
    for action in decision.plan.acting() {
        tracing::info!(
            namespace = %domain.namespace,
            group = %domain.group,
            pod = %action.object().name,
            "replacing an outdated pod"
        );
    }
}

/// What became of the writes that are the rollout.
struct Acted {
    /// The sets, by UID, of which a deletion was refused.
    refused: BTreeMap<Arc<str>, Refusal>,
    halt: Option<Halt>,
}

/// Carries out what is the rollout in a plan.
async fn act(lane: &mut Lane<'_>, world: &World, decision: &Decision) -> Acted {
    let actions: Vec<_> = decision.plan.acting().collect();
    let performed = lane.perform_batch(actions.iter().copied()).await;
    let mut refused = BTreeMap::new();
    for (action, answer) in actions.iter().zip(&performed.answers) {
        let Some(Err(error)) = answer else { continue };
        if let (Some(refusal), Some(set)) = (lane.refusal(action, error), set_of(world, action)) {
            refused.entry(Arc::clone(&set.uid)).or_insert(refusal);
        }
    }
    Acted { refused, halt: performed.halt }
}

/// The set whose pod an action is about.
fn set_of<'w>(world: &'w World, action: &Action) -> Option<&'w SetRow> {
    let member = world.members.iter().find(|member| *member.set.uid == *action.owner())?;
    Some(&member.set)
}

#[cfg(test)]
#[path = "rollout_group_tests.rs"]
mod tests;
