//! What a controller is: a value that says whom a change concerns and what to do for a key. It has no client, no clock, no
//! queue, no lane and no recorder; [`super::Runtime`] has them.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use sts_plus_api::phased_rollout::Verdict;
use sts_plus_planner::extended::probe::{Digest, ProbeOutcome};
use sts_plus_planner::phased_rollout::query::{GateId, Outcome};
use sts_plus_planner::plan::{Action, Ask, Note, Object, Plan, PodsOf};
use sts_plus_planner::reason::Refusal;
use sts_plus_planner::scaling::hook::{Call, HookOutcome, HookResult};
use tokio::time::Instant;

use crate::shell::api::{ApiError, Kind};
use crate::shell::cache::{Store, Touched};
use crate::shell::executor::{CarriedOut, Domain, Halt};
use crate::shell::lease::Epoch;
use crate::shell::metrics::Metrics;

/// What a pass is about.
pub trait Key: Clone + Ord + Hash + Debug + Send + Sync + 'static {
    /// The namespace that its object, or all sets of its group, are in.
    fn namespace(&self) -> &Arc<str>;

    /// How lines of the log name it.
    fn label(&self) -> Label<'_>;
}

/// How lines of the log name a key: the name of the field, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label<'k> {
    /// A rollout group.
    Group(&'k str),
    /// A StatefulSet.
    Set(&'k str),
    /// A PhasedRollout.
    Rollout(&'k str),
    /// Any other object.
    Object(&'k str),
}

impl<'k> Label<'k> {
    pub(super) fn text(self) -> &'k str {
        match self {
            Self::Group(name) | Self::Set(name) | Self::Rollout(name) | Self::Object(name) => name,
        }
    }
}

/// Decides for keys. It may keep nothing between passes except in [`Self::Memory`], which the runtime holds for each key
/// and drops with it.
pub trait Controller: Send + Sync + Sized + 'static {
    /// What a pass is about.
    type Key: Key;

    /// What is remembered of a key between passes. Nothing that safety needs: a restart loses it.
    type Memory: Default + Send + 'static;

    /// What the controller wants to see again of a plan, once its writes are answered.
    type Detail: Send + Sync + 'static;

    /// The resource that keys are made of. Where it cannot be followed and other controllers run, only this one stands still.
    fn kind(&self) -> Kind;

    /// The resources that its decisions read, all of which are followed.
    fn reads(&self) -> &'static [Kind];

    /// Whether it controls StatefulSets, so that their templates are kept as well.
    fn controls_sets(&self) -> bool {
        false
    }

    /// The keys that something touched concerns. Whatever a plan waits for by name wakes its key besides these.
    fn concerned(&self, rows: &Store, touched: &Touched) -> Vec<Concern<Self::Key>>;

    /// All keys, in an order that does not change: after the start, and for a new leader.
    fn all(&self, rows: &Store) -> Vec<Self::Key>;

    /// The lanes in which a key is planned for; `None` where it is gone, so that everything about it is forgotten.
    fn lanes(&self, rows: &Store, key: &Self::Key) -> Option<Lanes>;

    /// What to do for a key now; `None` where it is gone.
    fn plan(&self, pass: &mut Pass<'_, Self>) -> Option<Planned<Self::Detail>>;

    /// What the answers to the writes of a plan mean. Called for every plan that was carried out, however far.
    fn learn(&self, learning: Learning<'_, Self>) -> Learned<Self::Detail> {
        Learned::of(learning.carried)
    }

    /// The gate for which queries are sent now: those for any other one are given up.
    fn asking(&self, rows: &Store, key: &Self::Key) -> Option<GateId> {
        let _ = (rows, key);
        None
    }

    /// Shows a pass in metrics, and removes the series of a key that is gone.
    fn measure(&self, metrics: &Metrics, key: &Self::Key, measured: Measured<'_, Self>) {
        let _ = (metrics, key, measured);
    }

    /// How it reports.
    fn voice(&self) -> Voice {
        Voice::default()
    }
}

/// How a controller reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Voice {
    /// The component that its events name, where that is not sts-plus.
    pub component: Option<&'static str>,
    /// Whether what goes well is logged at the level of debugging: it has an event for each write.
    pub is_quiet: bool,
}

/// A key that something touched concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern<K> {
    /// Enters the queue, unless it is there already.
    pub key: K,
    /// Whether a back-off has lost its reason: what failed is no more what is asked for.
    pub is_urgent: bool,
}

impl<K> Concern<K> {
    /// A key that is looked at when its back-off is over.
    pub fn of(key: K) -> Self {
        Self { key, is_urgent: false }
    }
}

/// What a plan for a key may disrupt, and whose own writes it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The disruption domains, at least one; the runtime locks them in one order for all.
    pub domains: Vec<Domain>,
    /// The UID of the object that is planned for; another one of the same name is another key.
    pub own: Option<Arc<str>>,
}

/// All that a plan may look at, beside the controller's own settings.
#[derive(Debug)]
pub struct Pass<'p, C: Controller> {
    /// The cache, which others change meanwhile: what belongs together is read in one call.
    pub rows: &'p Store,
    /// The key to plan for, whose lanes are held.
    pub key: &'p C::Key,
    /// What the key's last pass left; empty in the first pass of a process.
    pub memory: &'p mut C::Memory,
    /// What earlier plans asked: reads of this pass, and outcomes that have arrived since the last one.
    pub answers: &'p Answers,
    /// Why nothing may be disrupted. `None` does not mean confirmed: that is done once a plan needs it.
    pub doubt: Option<&'p Doubt>,
    /// The only clock of a plan.
    pub moment: Moment,
}

/// A moment, on both clocks at once, so that whoever sets the one later on does not move what was computed from it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time of day.
    pub now: Timestamp,
    /// The same on the clock that timers run on.
    pub at: Instant,
    /// The term of leadership that writes of this moment belong to.
    pub term: Epoch,
}

impl Moment {
    /// When a time of day will be, on the clock that timers run on.
    pub(super) fn instant_of(self, at: Timestamp) -> Instant {
        self.at + Duration::try_from(at.duration_since(self.now)).unwrap_or_default()
    }
}

/// Why nothing may be disrupted by a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Own writes are not shown, and could not be read: what is missing might be created twice.
    OwnWrites(Arc<str>),
    /// The view could not be confirmed.
    View(Arc<str>),
}

impl Doubt {
    /// What could not be read, and why.
    pub fn why(&self) -> &Arc<str> {
        match self {
            Self::OwnWrites(why) | Self::View(why) => why,
        }
    }
}

/// What was asked and answered.
#[derive(Debug, Default)]
pub struct Answers {
    /// The objects that were read in this pass; `None` for one that is not there.
    pub reads: HashMap<Object, Result<Option<Value>, ApiError>>,
    /// The names of the pods that were listed in this pass, see [`Ask::Pods`](sts_plus_planner::plan::Ask::Pods).
    pub listed: HashMap<PodsOf, BTreeSet<Box<str>>>,
    /// The lists that have failed in this pass.
    pub unlisted: BTreeSet<PodsOf>,
    /// Whether each node declares the features that were asked for in this pass.
    pub declared: HashMap<&'static str, bool>,
    /// Answers to queries that have not been counted.
    pub outcomes: Vec<Outcome>,
    /// The checks whose query was sent and not answered.
    pub under_way: BTreeSet<String>,
    /// What is known of the data of the ConfigMaps and Secrets that the last plan asked for.
    pub digests: HashMap<Object, Digest>,
    /// The outcomes of probes, each handed over once.
    pub probed: Vec<ProbeOutcome>,
    /// The UIDs of the pods with a probe that was sent and not answered.
    pub probing: BTreeSet<Box<str>>,
    /// The outcomes of calls of hooks, each handed over once.
    pub hooked: Vec<HookOutcome>,
    /// The UIDs of the pods with a call of a hook that has not ended.
    pub hooking: BTreeSet<Box<str>>,
    /// The objects, by UID, on which an informing write is refused.
    pub uninformed: Vec<(Box<str>, Refusal)>,
}

/// What to do for a key.
#[derive(Debug)]
pub struct Planned<D> {
    /// The domains of what the plan was made on. Where they are not those whose lanes are held, it is not carried out.
    pub domains: Vec<Domain>,
    /// The writes, notes and questions, and when to plan again.
    pub plan: Plan,
    /// What the controller wants to see again.
    pub detail: D,
    /// Whether the plan must rest on a confirmed view although none of its writes must.
    pub must_be_confirmed: bool,
    /// Whether the answers to queries are counted once the plan is carried out.
    pub counts_answers: bool,
    /// The pods, by UID, with the calls of hooks that may go on, where any others are given up.
    pub calling: Option<BTreeSet<(Box<str>, Call)>>,
    /// How the pass ends once the plan is carried out.
    pub end: End,
}

impl<D> Planned<D> {
    /// A plan that ends well.
    pub fn new(domains: Vec<Domain>, plan: Plan, detail: D) -> Self {
        let (must_be_confirmed, counts_answers, calling, end) = (false, false, None, End::Settled);
        Self { domains, plan, detail, must_be_confirmed, counts_answers, calling, end }
    }

    pub(super) fn needs_confirmed_view(&self) -> bool {
        self.must_be_confirmed || self.plan.needs_confirmed_view()
    }
}

/// How a pass ends whose plan was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// There is nothing to do until something changes, or the plan's time comes.
    Settled,
    /// Somebody has to change what they wrote: nothing is tried until then, and it is no success.
    Skipped,
    /// Nothing could be planned, which passes: retried after a growing wait. What to log.
    Blocked(Option<String>),
    /// Nothing could be planned for the reason that a write could not be carried out.
    Halted(Halt),
}

/// The answers to the writes of a plan.
#[derive(Debug)]
pub struct Learning<'l, C: Controller> {
    /// The cache, which may not show the plan's own writes yet.
    pub rows: &'l Store,
    /// The key that was planned for, whose lanes are still held.
    pub key: &'l C::Key,
    /// What the key's next pass gets.
    pub memory: &'l mut C::Memory,
    /// The plan whose writes were answered.
    pub planned: &'l Planned<C::Detail>,
    /// How far the plan was carried out, with the answer to each write.
    pub carried: &'l CarriedOut<'l>,
    /// The writes that were refused, or have not been answered several times, and what to report of each.
    pub refusals: &'l [(&'l Action, Refusal)],
    /// What was asked and answered before.
    pub answers: &'l Answers,
    /// When the plan was made.
    pub moment: Moment,
    /// When the last write was answered.
    pub answered_at: Instant,
    /// How long to wait after so many failures in succession.
    pub backoff: Backoff<'l>,
}

/// How long to wait after so many failures in succession.
#[derive(Clone, Copy, Debug)]
pub struct Backoff<'c>(pub(super) &'c crate::shell::surroundings::Chance);

impl Backoff<'_> {
    /// Drawn anew by each call, so that what failed together is not retried together.
    pub fn delay(self, failures: u32) -> Duration {
        crate::shell::backoff::delay(failures, self.0)
    }
}

/// What was learned from the answers to the writes of a plan.
#[derive(Debug)]
pub struct Learned<D> {
    /// Reported in addition to the notes of the plan.
    pub notes: Vec<Note>,
    /// Why the pass was not carried out to its end, as far as that matters for the next one.
    pub halt: Option<Halt>,
    /// When to look again besides the plan's own time.
    pub retry_at: Option<Instant>,
    /// Whether the controller itself waits before it tries again what was not carried out, so that nothing keeps the next pass
    /// away that other changes bring.
    pub waits_by_itself: bool,
    /// What follows in this pass.
    pub next: Next<D>,
}

impl<D> Learned<D> {
    /// Nothing but what became of the plan.
    pub fn of(carried: &CarriedOut<'_>) -> Self {
        let halt = carried.halt.clone();
        Self { notes: Vec::new(), halt, retry_at: None, waits_by_itself: false, next: Next::Done }
    }
}

/// What follows in a pass whose plan was carried out.
#[derive(Debug)]
pub enum Next<D> {
    /// The pass ends.
    Done,
    /// These are found out, and it is planned again.
    Again(Vec<Ask>),
    /// This is carried out as well. It reports what became of the plan, and the pass ends as if there was nothing of it.
    Report(Box<Planned<D>>),
    /// This is reported in the place of what was planned; it has no writes of its own except those that inform.
    Instead(Box<Planned<D>>),
}

/// What metrics show.
#[derive(Debug)]
pub enum Measured<'m, C: Controller> {
    /// A plan, once it is carried out as far as it can be.
    Planned {
        /// What was decided, whether or not it could be carried out.
        planned: &'m Planned<C::Detail>,
        /// What is remembered of the key.
        memory: &'m mut C::Memory,
        /// Whether it was carried out to its end.
        is_done: bool,
    },
    /// A pass that has succeeded or failed; one that waits for something is neither.
    Passed {
        /// How long it took.
        took: Duration,
        /// When it has succeeded; `None` where it has failed.
        succeeded_at: Option<Timestamp>,
    },
    /// A query to Prometheus that was answered or given up.
    Queried {
        /// The name of the check, as the spec has it.
        check: &'m str,
        /// What its answer means.
        verdict: Verdict,
        /// How long it took.
        took: Duration,
    },
    /// A call of a hook.
    Hooked {
        /// Which call.
        call: Call,
        /// What came of it.
        result: &'m HookResult,
        /// How long it took.
        took: Duration,
    },
    /// The key is gone.
    Gone {
        /// What was remembered of it.
        memory: &'m C::Memory,
    },
}
