//! The runtime: one for each controller that runs. It owns all of a pass that is not a decision.
//!
//! ```text
//!   touched ──> concerned ──> queue ──> worker ──> lanes ──> plan ──> reads asked for ──> confirmation ──> writes
//!                 ^                                 ^          |              |               |              |
//!                 +── what a plan waits for         |          +<─────────────+───────────────+              v
//!                                                   +── events, log, metrics, informing writes, queries <── learn
//! ```
//!
//! What is remembered of a key lives here and ends with it: its memory, what it waits for, its queries, probes and calls of hooks, its
//! informing writes, its lanes and its series.

#![deny(missing_docs, reason = "whoever embeds the operator begins here")]

mod controller;
mod digests;
mod listed;
mod nodes;
mod pass;
mod pod_calls;
mod probes;
mod registry;
mod report;
mod waiting;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sts_plus_planner::extended::probe::ProbeOutcome;
use sts_plus_planner::plan::Note;
use sts_plus_planner::scaling::hook::{Call, HookOutcome};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::outbound::{HookCaller, Prober, Prometheus};
use crate::shell::api::Api;
use crate::shell::cache::{Cache, Touched};
use crate::shell::events::Recorder;
use crate::shell::executor::{Domain, Executor};
use crate::shell::informing::Informing;
use crate::shell::metrics::{ControllerLabel, Metrics};
use crate::shell::queue::{Outcome, Queue};
use crate::shell::surroundings::Clock;
pub use controller::{
    Answers, Backoff, Concern, Controller, Doubt, End, Key, Label, Lanes, Learned, Learning, Measured,
    Moment, Next, Pass, Planned, Voice,
};
use digests::Digests;
#[cfg(test)]
pub(crate) use pass::Passed;
use pod_calls::PodCalls;
use probes::Probes;
pub use registry::{Made, Options, Registration, Row, made};
pub(crate) use registry::{extent, followed};
use waiting::Waiting;

/// How soon to retry to forget a lane that waits to see its own writes: the view shows them in well under a second.
const LEAVE_AGAIN: Duration = Duration::from_secs(5);

/// What all runtimes of a process share.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub(crate) cache: Cache,
    pub(crate) executor: Arc<Executor>,
    /// For live reads that plans ask for.
    pub(crate) api: Api,
    /// For following ConfigMaps and Secrets that plans ask for.
    pub(crate) configs: Api,
    pub(crate) prometheus: Prometheus,
    pub(crate) prober: Prober,
    pub(crate) hooks: HookCaller,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
}

/// A controller at work, whichever it is.
pub(crate) trait Running: Send + Sync + fmt::Debug {
    /// Something was touched that it may have to look at.
    fn touched(&self, touched: &Touched);

    /// Asks for a pass over everything.
    fn enqueue_all(&self);

    /// Starts its workers.
    fn start(self: Arc<Self>, workers: &mut JoinSet<()>);

    /// Ends its workers once the passes under way have ended.
    fn close(&self);
}

/// Runs a controller.
pub(crate) struct Runtime<C: Controller> {
    name: &'static str,
    workers: usize,
    controller: Arc<C>,
    around: Around,
    queue: Arc<Queue<C::Key>>,
    informing: Informing<C::Key>,
    probes: Probes<C::Key>,
    pod_probes: PodCalls<C::Key, (), ProbeOutcome>,
    hook_calls: PodCalls<C::Key, Call, HookOutcome>,
    digests: Digests<C::Key>,
    waiting: Waiting<C::Key>,
    /// Of the keys of which no pass is under way.
    entries: Mutex<HashMap<C::Key, Entry<C::Memory>>>,
}

/// What is kept of a key.
#[derive(Debug)]
struct Entry<M> {
    memory: M,
    own: Option<Arc<str>>,
    /// The domains whose lanes it has entered and that have not been forgotten, the present ones included.
    entered: Vec<Domain>,
    /// What a pass has reported that was not carried out to its end: the next one may report it once more.
    reported: Vec<Note>,
}

impl<M: Default> Default for Entry<M> {
    fn default() -> Self {
        Self { memory: M::default(), own: None, entered: Vec::new(), reported: Vec::new() }
    }
}

impl<C: Controller> fmt::Debug for Runtime<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<C: Controller> Running for Runtime<C> {
    fn touched(&self, touched: &Touched) {
        if *touched == Touched::Confirmed {
            self.queue.confirmed();
        }
        for Concern { key, is_urgent } in self.controller.concerned(self.around.cache.store(), touched) {
            if is_urgent {
                self.queue.urge(key);
            } else {
                self.queue.add(key);
            }
        }
        for key in self.waiting.woken_by(touched) {
            self.queue.add(key);
        }
    }

    fn enqueue_all(&self) {
        for key in self.controller.all(self.around.cache.store()) {
            self.queue.add(key);
        }
    }

    fn start(self: Arc<Self>, workers: &mut JoinSet<()>) {
        workers.spawn(self.informing.clone().run());
        for _ in 0..self.workers {
            let runtime = Arc::clone(&self);
            workers.spawn(async move { runtime.work().await });
        }
    }

    fn close(&self) {
        self.queue.close();
        self.informing.close();
    }
}

impl<C: Controller> Runtime<C> {
    /// Runs a controller under a name, with so many keys worked on at once.
    pub(crate) fn new(name: &'static str, workers: usize, controller: C, around: &Around) -> Self {
        let queue = Arc::new(Queue::new(around.api.chance().clone()));
        let informed = Arc::clone(&queue);
        let wake = Arc::new(move |key: &C::Key| informed.add(key.clone()));
        let mut around = around.clone();
        if let Some(component) = controller.voice().component {
            around.recorder = around.recorder.of_component(component);
        }
        Self {
            name,
            workers,
            controller: Arc::new(controller),
            queue,
            informing: Informing::new(Arc::clone(&around.executor), wake),
            probes: Probes::default(),
            pod_probes: PodCalls::default(),
            hook_calls: PodCalls::default(),
            digests: Digests::default(),
            waiting: Waiting::default(),
            entries: Mutex::default(),
            around,
        }
    }

    /// Works until the queue is closed.
    async fn work(&self) {
        let label = ControllerLabel { controller: self.name };
        let depth = self.around.metrics.queue_depth.get_or_create(&label).clone();
        while let Some(key) = self.queue.next().await {
            depth.set(i64::try_from(self.queue.depth()).unwrap_or(i64::MAX));
            let outcome = self.look_at(&key).await;
            self.queue.done(&key, outcome);
        }
    }

    /// One pass over a key, and what it means for the next one.
    pub(crate) async fn look_at(&self, key: &C::Key) -> Outcome {
        let started = Instant::now();
        let passed = self.pass(key).await;
        if let Some(is_success) = passed.success() {
            let succeeded_at = is_success.then(|| self.around.clock.now());
            let measured = Measured::Passed { took: started.elapsed(), succeeded_at };
            self.controller.measure(&self.around.metrics, key, measured);
        }
        passed.outcome(key)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<C::Key, Entry<C::Memory>>> {
        self.entries.lock()
    }

    /// Drops all that is known of a key that is gone; when to retry where a lane could not be forgotten yet.
    fn forget(&self, key: &C::Key, mut entry: Entry<C::Memory>) -> Option<Instant> {
        self.probes.forget(key);
        self.pod_probes.forget(key);
        self.hook_calls.forget(key);
        self.digests.forget(key);
        self.waiting.forget(key);
        if let Some(term) = self.around.executor.term() {
            self.informing.submit(key, term, []);
        }
        self.controller.measure(&self.around.metrics, key, Measured::Gone { memory: &entry.memory });
        self.leave(&mut entry, &[]);
        if entry.entered.is_empty() {
            return None;
        }
        self.entries().insert(key.clone(), Entry { entered: entry.entered, ..Entry::default() });
        Some(Instant::now() + LEAVE_AGAIN)
    }

    /// Forgets the lanes that a key has entered, except those of its present domains. Whoever else plans for a domain gets a
    /// new lane.
    fn leave(&self, entry: &mut Entry<C::Memory>, present: &[Domain]) {
        entry.entered.retain(|domain| !present.contains(domain) && !self.around.executor.forget(domain));
        entry.entered.extend(present.iter().cloned());
    }
}

#[cfg(test)]
#[path = "example_tests.rs"]
mod example;
#[cfg(test)]
#[path = "runtime_tests.rs"]
mod tests;
