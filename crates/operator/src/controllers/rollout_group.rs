//! The rollout-group controller: one key per group, one pass per change.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use sts_plus_planner::plan::{Action, Batch};
use sts_plus_planner::reason::{Reason, Severity};
use sts_plus_planner::rollout_group::report::{Report, Transition, Warning};
use sts_plus_planner::rollout_group::{Plan, World, plan, release};
use sts_plus_planner::set::SetRow;
use tokio::time::Instant;

use super::unobserved::Unobserved;
use super::{monotonic, regarding};
use crate::shell::api::ApiError;
use crate::shell::cache::{Cache, Store, Touched};
use crate::shell::events::Recorder;
use crate::shell::executor::{Domain, Executor, Halt};
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
    recorder: Recorder,
    metrics: Metrics,
    clock: Clock,
    memory: Mutex<Memory>,
    unobserved: Unobserved,
}

/// What is remembered between passes. Losing it delays or repeats a message, nothing else.
#[derive(Debug, Default)]
struct Memory {
    /// Per set UID: the warnings told.
    warned: HashMap<Arc<str>, Vec<Warning>>,
}

/// How a pass over a group ended.
#[derive(Debug)]
enum Passed {
    /// No set carries its label any more.
    GroupGone,
    /// All that could be done was done.
    Rolled {
        /// When to look again although nothing has changed.
        wake_at: Option<Timestamp>,
    },
    /// The group cannot be rolled as the user has set it up.
    Skipped,
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

/// The world of a group, from rows.
pub fn world(store: &Store, domain: &Domain, unobserved_since: BTreeMap<Arc<str>, Timestamp>) -> World {
    let members = store.group(&domain.namespace, &domain.group);
    let overlaps = store.overlaps(&domain.namespace, &members);
    World { group: Arc::clone(&domain.group), members, overlaps, unobserved_since }
}

impl RolloutGroups {
    /// A controller that takes its keys from `queue`.
    pub fn new(
        queue: Arc<Queue<Key>>,
        cache: Cache,
        executor: Arc<Executor>,
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock,
    ) -> Self {
        let (memory, unobserved) = (Mutex::default(), Unobserved::default());
        Self { queue, cache, executor, recorder, metrics, clock, memory, unobserved }
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
                Key::Ungrouped { namespace, set } => self.release(namespace, set).await,
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
            }
            Ok(Passed::Rolled { .. }) => {
                self.metrics.group_pass(&group, started.elapsed(), Some(self.clock.now()));
            }
            Ok(Passed::Skipped) | Err(Halt::Failed(_) | Halt::Throttled { .. }) => {
                self.metrics.group_pass(&group, started.elapsed(), None);
            }
            Err(Halt::Closed | Halt::NotSeenYet { .. }) => {}
        }
        match passed {
            Ok(Passed::Rolled { wake_at: Some(wake_at) }) => {
                Outcome::WakeAt(monotonic(wake_at, self.clock.now()))
            }
            Ok(_) => Outcome::Settled,
            Err(halt) => self.halted(domain, halt),
        }
    }

    /// Plans inside the group's lane and carries the plan out.
    async fn roll(&self, domain: &Domain) -> Result<Passed, Halt> {
        let mut lane = self.executor.enter(domain).await?;
        let now = self.clock.now();
        let world = world(self.cache.store(), domain, self.unobserved(domain, now));
        if world.members.is_empty() {
            return Ok(Passed::GroupGone);
        }
        let plan = plan(&world, now);
        self.show(domain, &plan);
        lane.perform(&plan.batches).await?;
        drop(lane);
        self.tell(domain, &plan);
        let skipped = plan.reports.iter().any(|report| report.reason.severity() == Severity::Error);
        Ok(if skipped { Passed::Skipped } else { Passed::Rolled { wake_at: plan.wake_at } })
    }

    /// Takes our annotation from a set that has left its group.
    async fn release(&self, namespace: &Arc<str>, name: &Arc<str>) -> Outcome {
        let action = self.cache.store().set(namespace, name).and_then(|set| release(&set));
        let Some(action) = action else { return Outcome::Settled };
        // Not a disruption, so any lane will do; one of its own keeps it out of the way of groups.
        let domain = Domain { namespace: Arc::clone(namespace), group: Arc::clone(name) };
        match self.carry_out(&domain, action).await {
            Ok(()) => Outcome::Settled,
            Err(halt) => self.halted(&domain, halt),
        }
    }

    async fn carry_out(&self, domain: &Domain, action: Action) -> Result<(), Halt> {
        self.executor.enter(domain).await?.perform(&[Batch { actions: vec![action] }]).await
    }

    /// Since when the specs of this group's sets have been unobserved.
    fn unobserved(&self, domain: &Domain, now: Timestamp) -> BTreeMap<Arc<str>, Timestamp> {
        let members = self.cache.store().group(&domain.namespace, &domain.group);
        let since = |set: &SetRow| Some((Arc::clone(&set.uid), self.unobserved.since(set, now)?));
        members.iter().filter_map(|member| since(&member.set)).collect()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the plan in metrics and, for what disrupts, in the log, before it is carried out.
    fn show(&self, domain: &Domain, plan: &Plan) {
        for state in Reason::KINDS {
            let labels = StateLabels {
                namespace: Arc::clone(&domain.namespace),
                rollout_group: Arc::clone(&domain.group),
                state,
            };
            match plan.reports.iter().filter(|report| report.reason.kind() == state).count() {
                0 => {
                    self.metrics.sets.remove(&labels);
                }
                sets => {
                    self.metrics.sets.get_or_create(&labels).set(i64::try_from(sets).unwrap_or(i64::MAX));
                }
            }
        }
        for action in plan.batches.iter().flat_map(|batch| &batch.actions).filter(|action| action.disrupts())
        {
            tracing::info!(
                namespace = %domain.namespace,
                group = %domain.group,
                pod = %action.object.name,
                "replacing an outdated pod"
            );
        }
    }

    /// Tells of transitions, in the log and as events, once they are written on the sets.
    fn tell(&self, domain: &Domain, plan: &Plan) {
        for report in &plan.reports {
            if report.transition == Transition::Changed {
                self.announce(domain, report);
            }
            self.warn(domain, report);
        }
    }

    fn announce(&self, domain: &Domain, report: &Report) {
        let (kind, message) = (report.reason.kind(), report.reason.to_string());
        let (namespace, group, set) = (&domain.namespace, &domain.group, &report.set.name);
        match report.reason.severity() {
            Severity::Normal => tracing::info!(%namespace, %group, %set, state = kind, "{message}"),
            Severity::Warning => tracing::warn!(%namespace, %group, %set, state = kind, "{message}"),
            Severity::Error => tracing::error!(%namespace, %group, %set, state = kind, "{message}"),
        }
        self.recorder.record(regarding(&report.set), report.reason.severity(), kind, &message);
    }

    /// Tells each fault in what the user wrote once, and again when it changes.
    fn warn(&self, domain: &Domain, report: &Report) {
        let uid = &report.set.uid;
        let before = if report.warnings.is_empty() {
            self.memory().warned.remove(uid)
        } else {
            self.memory().warned.insert(Arc::clone(uid), report.warnings.clone())
        };
        let before = before.unwrap_or_default();
        for warning in report.warnings.iter().filter(|warning| !before.contains(warning)) {
            let (namespace, group, set) = (&domain.namespace, &domain.group, &report.set.name);
            tracing::warn!(%namespace, %group, %set, "{warning}");
            self.recorder.warn(regarding(&report.set), warning.kind(), &warning.to_string());
        }
    }

    fn halted(&self, domain: &Domain, halt: Halt) -> Outcome {
        match halt {
            // Everything is looked at again when the gate opens.
            Halt::Closed => Outcome::Settled,
            Halt::NotSeenYet { until } => Outcome::WakeAt(until),
            Halt::Throttled { retry_after } => Outcome::ComeBack(retry_after),
            Halt::Failed(error) => {
                tracing::error!(namespace = %domain.namespace, group = %domain.group, "the pass failed: {error}");
                if matches!(error, ApiError::Forbidden(_) | ApiError::Refused { .. }) {
                    self.tell_refused(domain, &error);
                }
                Outcome::Failed
            }
        }
    }

    /// A refusal does not pass by itself, so the user is told on the sets.
    fn tell_refused(&self, domain: &Domain, error: &ApiError) {
        for member in self.cache.store().group(&domain.namespace, &domain.group) {
            let message = format!("the API server does not let sts-plus go on: {error}");
            self.recorder.warn(regarding(&member.set), "WriteRefused", &message);
        }
    }
}
