//! The executor: every write of every controller, and the four safety rules in one place.
//!
//! - Rule A: a disruption carries the UID and the version it was decided under. The planner cannot express one
//!   without; here they become preconditions of the request.
//! - Rule B: a lane is entered for planning only when the view shows the lane's own acknowledged writes.
//! - Rule C: nothing is written before the caches have been listed consistently, [`Gate`] is closed until then; and
//!   nothing is disrupted on a view from before this term of leadership, see the last rule.
//! - Rule D: a disruption or a creation without an answer is read back, consistently, before the lane plans again, unless
//!   the view has shown what became of it.
//! - None of them on a stale view: where a source fails or is silent, or a new leader's caches are those of a standby, a
//!   disruption is refused until [`Lane::confirm`] has read what it is about.
//!
//! A lane belongs to one disruption domain (a namespace and group). Whoever wants to disrupt something in a
//! domain plans inside its lane, so that no two controllers get leave from the same view.

mod unanswered;
mod writing;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use sts_plus_planner::plan::{Action, Batch, Object, Verb};
use sts_plus_planner::planted::{self, Bug};
use sts_plus_planner::reason::Refusal;
use sts_plus_planner::set::SetRow;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::Instant;

use super::api::{Api, ApiError, CALL_TIMEOUT, Resource};
use super::cache::{Cache, Doubt, Round, Store};
use super::confirmation::Confirmer;
use super::expectations::{Expectation, Expectations, SEEN_WITHIN, Unknown};
use super::lease::{Epoch, Leadership};
use super::metrics::OutcomeLabel;
use unanswered::Streaks;
pub use unanswered::UNANSWERED_REPORTED_AFTER;
use writing::place;

/// Writes of one batch that are under way together: a batch of 500, the widest there is, takes eight rounds, and one lane
/// alone stays below the streams that the API server lets a connection have (100 by default).
const MAX_PARALLEL_WRITES: usize = 64;

/// How soon to look again at a view that does not show our own writes: what is awaited may be another set's in the same
/// lane, and its coming wakes only that one.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The wait after a conflict that no change in the view will tell the end of: the server itself has tried five times.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);

/// How soon to look again at a lane that is occupied. Its end wakes the next one in the row; this is for the case that this
/// one is no more. As long as a write may take.
const OCCUPIED_RETRY: Duration = CALL_TIMEOUT;

/// Domains that are read one by one within [`TOGETHER`]; for more, one list of everything is cheaper: a domain takes three
/// requests or more, and everything is read in as many.
const MAX_DOMAINS_ONE_BY_ONE: usize = 20;

/// What happens within this time happens at once as far as [`MAX_DOMAINS_ONE_BY_ONE`] is concerned.
const TOGETHER: Duration = Duration::from_secs(10);

/// How soon to look again while everything is listed.
const LISTED_SOON: Duration = Duration::from_millis(500);

/// How often a lane whose own writes the watch does not show is read instead.
const READ_EVERY: Duration = Duration::from_secs(5);

/// What most decisions look at.
pub const SETS_AND_PODS: [Resource; 2] = [Resource::StatefulSets, Resource::Pods];

/// What must not be disturbed by two at once: a rollout group, or a set that is in none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The group's name.
    pub group: Arc<str>,
}

/// Open while this process leads and its caches are complete.
#[derive(Clone, Debug)]
pub struct Gate {
    leadership: Leadership,
    complete: watch::Receiver<Option<Epoch>>,
    listed: watch::Receiver<Option<Epoch>>,
}

impl Gate {
    /// A gate that opens when `listed` names the present term of `leadership`: everything was listed in it.
    pub fn new(leadership: Leadership, listed: watch::Receiver<Option<Epoch>>) -> Self {
        Self { leadership, complete: listed.clone(), listed }
    }

    /// A gate that opens when `complete` names the present term of `leadership`: the caches are complete, be it from before
    /// the term. Unless `listed` names it, too, a domain is read before its first disruption.
    pub fn warm(
        leadership: Leadership,
        complete: watch::Receiver<Option<Epoch>>,
        listed: watch::Receiver<Option<Epoch>>,
    ) -> Self {
        Self { leadership, complete, listed }
    }

    /// Whether everything was listed in that term.
    fn is_listed_in(&self, epoch: Epoch) -> bool {
        planted::has(Bug::InconsistentView) || *self.listed.borrow() == Some(epoch)
    }

    /// The term in which writes are allowed right now.
    pub fn open(&self) -> Option<Epoch> {
        if planted::has(Bug::InconsistentView) {
            return self.leadership.current();
        }
        let complete = *self.complete.borrow();
        complete.filter(|epoch| self.leadership.permits(*epoch))
    }
}

/// Performs plans.
#[derive(Debug)]
pub struct Executor {
    api: Api,
    cache: Cache,
    store: Arc<Store>,
    gate: Gate,
    lanes: Mutex<HashMap<Domain, Arc<Slot>>>,
    lists: Mutex<Lists>,
    /// Writes that were sent and have not been answered.
    under_way: AtomicUsize,
    /// Writes whose answer was lost.
    unanswered: AtomicUsize,
}

/// The lane of a domain, between those who enter it.
#[derive(Debug, Default)]
struct Slot {
    expectations: Arc<tokio::sync::Mutex<Expectations>>,
    /// The term in which the domain was last read, and when that was.
    read: Mutex<Option<(Epoch, Instant)>>,
    unanswered: Mutex<Streaks>,
    waiting: Mutex<VecDeque<Waiter>>,
}

/// Whom to wake when a lane becomes free.
pub struct Waiter {
    /// The same number for the same key, which waits once.
    id: u64,
    wake: Box<dyn FnOnce() + Send>,
}

/// How many domains were read one by one, and the list of everything that takes the place of more.
#[derive(Debug, Default)]
struct Lists {
    since: Option<Instant>,
    domains: usize,
    whole: Option<(Epoch, Round)>,
}

/// What a plan rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The view that it was made on is confirmed.
    Confirmed,
    /// The view has been read again: plan once more.
    Renewed,
}

impl Waiter {
    /// Calls `wake` when the lane is free; of those with the same `id` one waits.
    pub fn new(id: u64, wake: impl FnOnce() + Send + 'static) -> Self {
        Self { id, wake: Box::new(wake) }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Performed {
    /// What was answered to each write, in their order; `None` for one that was not sent, since the term was over.
    pub answers: Vec<Option<Result<(), ApiError>>>,
    /// Why the next batch must not start.
    pub halt: Option<Halt>,
}

/// What became of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedOut<'p> {
    /// The writes that the server acknowledged.
    pub acknowledged: Vec<&'p Action>,
    /// The writes whose answer was lost: they may have taken effect.
    pub unanswered: Vec<&'p Action>,
    /// The write that was refused, or has not been answered several times, and what to report of it.
    pub refused: Option<(&'p Action, Refusal)>,
    /// Why it was not carried out to its end; `None` where it was.
    pub halt: Option<Halt>,
}

/// Why a lane cannot be planned in, or a plan was not carried out to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// This process does not lead, or its caches are not complete yet.
    Closed,
    /// Somebody else plans for the domain; its end wakes the next one.
    Occupied {
        /// When to look again in any case.
        until: Instant,
    },
    /// A disruption was refused: the view may be stale and could not be confirmed, for this reason.
    Unconfirmed(Arc<str>),
    /// The view does not show our own writes yet, or what made a precondition fail; a change of the view, or
    /// that time, will bring the next pass.
    NotSeenYet {
        /// When to read instead of waiting.
        until: Instant,
    },
    /// The server asks to come back later.
    Throttled {
        /// How much later.
        retry_after: Duration,
    },
    /// A request failed.
    Failed(ApiError),
}

impl Domain {
    /// The domain of a set: its group, or else itself, by a name that no group can have.
    pub fn of(set: &SetRow) -> Self {
        let group = set.group.clone().unwrap_or_else(|| format!("{LONE}{}", set.uid).into());
        Self { namespace: Arc::clone(&set.namespace), group }
    }

    /// The UID of the set that is the domain by itself.
    pub(super) fn lone_set(&self) -> Option<&str> {
        self.group.strip_prefix(LONE)
    }
}

/// Marks the domain of a set that is in no group: a label has no slash in its value.
const LONE: &str = "uid/";

impl Executor {
    /// An executor over a client, a view and a gate.
    pub fn new(api: Api, cache: Cache, gate: Gate) -> Self {
        let store = Arc::clone(cache.store());
        Self {
            api,
            cache,
            store,
            gate,
            lanes: Mutex::default(),
            lists: Mutex::default(),
            under_way: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
        }
    }

    /// Enters the lane of a domain and makes sure that the view may be planned on. A lane in which somebody is already is
    /// not waited for, so that one whose writes hang does not hold workers: the waiter is called when it is free.
    pub async fn enter(&self, domain: &Domain, waiter: Waiter) -> Result<Lane<'_>, Halt> {
        let epoch = self.gate.open().ok_or(Halt::Closed)?;
        let slot = {
            let mut lanes = lock(&self.lanes);
            Arc::clone(lanes.entry(domain.clone()).or_default())
        };
        let expectations = {
            // Under this lock, so that whoever leaves finds the waiter, or has left.
            let mut waiting = lock(&slot.waiting);
            let Ok(expectations) = Arc::clone(&slot.expectations).try_lock_owned() else {
                if waiting.iter().all(|known| known.id != waiter.id) {
                    waiting.push_back(waiter);
                }
                return Err(Halt::Occupied { until: Instant::now() + OCCUPIED_RETRY });
            };
            expectations
        };
        let (confirmed, marks_confirmed, doubt, turn) = (false, false, None, Turn(slot));
        let domain = domain.clone();
        let mut lane =
            Lane { executor: self, epoch, domain, expectations, confirmed, marks_confirmed, doubt, turn };
        lane.settle().await?;
        Ok(lane)
    }

    /// Whether it is unknown of some write whether the server has acted on it, or will.
    pub fn has_unanswered(&self) -> bool {
        let of_lane = |slot: &Arc<Slot>| {
            slot.expectations.try_lock().map_or(true, |expectations| expectations.has_unknown())
        };
        self.under_way.load(Ordering::SeqCst) > 0 || lock(&self.lanes).values().any(of_lane)
    }

    /// How many answers have been lost so far.
    pub fn lost_answers(&self) -> usize {
        self.unanswered.load(Ordering::SeqCst)
    }

    /// Where many domains want to be read at once, everything is listed instead; whoever comes meanwhile looks again soon.
    /// A source that fails lists by itself as soon as it can.
    fn list_everything(&self, doubt: Option<&Doubt>, epoch: Epoch) -> Result<(), Halt> {
        if doubt.is_some_and(|doubt| doubt.failing) {
            return Ok(());
        }
        let now = Instant::now();
        let mut lists = lock(&self.lists);
        if lists.whole.is_some_and(|(of, round)| of == epoch && !self.cache.has_completed(round)) {
            return Err(Halt::NotSeenYet { until: now + LISTED_SOON });
        }
        if lists.since.is_none_or(|since| now.duration_since(since) > TOGETHER) {
            (lists.since, lists.domains) = (Some(now), 0);
        }
        lists.domains += 1;
        if lists.domains <= MAX_DOMAINS_ONE_BY_ONE {
            return Ok(());
        }
        tracing::info!("many domains are to be confirmed at once: listing everything instead");
        lists.whole = Some((epoch, self.cache.resync()));
        self.count_confirmation("whole_list");
        Err(Halt::NotSeenYet { until: now + LISTED_SOON })
    }

    fn has_listed_everything_in(&self, epoch: Epoch) -> bool {
        let whole = lock(&self.lists).whole;
        let listed = whole.is_some_and(|(of, round)| of == epoch && self.cache.has_completed(round));
        listed || self.gate.is_listed_in(epoch)
    }

    fn count_confirmation(&self, outcome: &'static str) {
        self.api.metrics().confirmations.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Forgets the lane of a domain that is no more. `false` where it still waits to see its own writes, so that it has to
    /// be forgotten later; whoever is in it, or about to be, takes that over.
    pub fn forget(&self, domain: &Domain) -> bool {
        let mut lanes = lock(&self.lanes);
        let Some(slot) = lanes.get(domain) else { return true };
        // Whoever is about to enter has a share in it already.
        if Arc::strong_count(slot) > 1 || !lock(&slot.waiting).is_empty() {
            return true;
        }
        let settled = slot.expectations.try_lock().is_ok_and(|mut lane| {
            let view = |object: &Object| (self.store.seen(object), self.store.reached(object));
            lane.look(view, Instant::now());
            lane.is_empty()
        });
        if settled {
            lanes.remove(domain);
        }
        settled
    }

    /// Writes if the term is still on; `None` if not. Asked anew before each write, since the lease may have run
    /// out while another one was under way.
    async fn attempt<'a>(
        &self,
        (number, action): (usize, &'a Action),
        epoch: Epoch,
    ) -> (usize, &'a Action, Option<Result<Value, ApiError>>) {
        if self.gate.open() != Some(epoch) {
            return (number, action, None);
        }
        let answer = self.answered(self.write(action)).await;
        (number, action, Some(answer))
    }

    /// Counts a write until it is answered. Not counted down where this future is dropped: then nobody knows what became of
    /// the write.
    async fn answered(
        &self,
        write: impl Future<Output = Result<Value, ApiError>>,
    ) -> Result<Value, ApiError> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let answer = write.await;
        if matches!(answer, Err(ApiError::Unanswered(_))) {
            self.unanswered.fetch_add(1, Ordering::SeqCst);
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    /// The term in which writes are allowed right now.
    pub fn term(&self) -> Option<Epoch> {
        self.gate.open()
    }

    /// The client, with the rights that it was denied.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The view.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

/// Exclusive leave to plan for a domain and to carry the plan out.
#[derive(Debug)]
pub struct Lane<'e> {
    executor: &'e Executor,
    epoch: Epoch,
    domain: Domain,
    expectations: OwnedMutexGuard<Expectations>,
    /// The view that is planned on is confirmed.
    confirmed: bool,
    /// It is confirmed which sets of the namespace carry a mark.
    marks_confirmed: bool,
    /// Why the view cannot be confirmed.
    doubt: Option<Arc<str>>,
    /// After the expectations: fields are dropped in their order, and whoever is woken must find the lane free.
    turn: Turn,
}

/// The turn of whoever is in a lane; its end wakes the next one.
#[derive(Debug)]
struct Turn(Arc<Slot>);

impl Drop for Turn {
    fn drop(&mut self) {
        let next = lock(&self.0.waiting).pop_front();
        if let Some(waiter) = next {
            (waiter.wake)();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane<'_> {
    /// The term in which it was entered.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The domain that it belongs to.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Why the view must not be disrupted on, where that is known already.
    pub fn doubt(&self) -> Option<&Arc<str>> {
        self.doubt.as_ref()
    }

    /// Makes sure that a plan which disrupts something rests on what the cluster is: at no cost where every source of what
    /// it reads is confirmed and was listed in this term; otherwise the domain is read, and must be planned for once more.
    pub async fn confirm(&mut self, reads: &[Resource]) -> Result<Basis, Halt> {
        if let Some(why) = &self.doubt {
            return Err(Halt::Unconfirmed(Arc::clone(why)));
        }
        if self.confirmed {
            return Ok(Basis::Confirmed);
        }
        let doubt = self.executor.cache.doubt(reads, &self.domain.namespace);
        if doubt.is_none() && self.is_known_in_term() {
            self.confirmed = true;
            return Ok(Basis::Confirmed);
        }
        self.executor.list_everything(doubt.as_ref(), self.epoch)?;
        self.read(reads).await.map_err(Halt::Unconfirmed)?;
        self.confirmed = true;
        Ok(Basis::Renewed)
    }

    /// Makes sure that the view shows every set of the namespace that carries the mark of a PhasedRollout, also one outside of
    /// the domain, before the finalizer of that PhasedRollout is removed. Costs as much as [`Self::confirm`].
    pub async fn confirm_marks(&mut self, rollout: &str) -> Result<Basis, Halt> {
        if let Some(why) = &self.doubt {
            return Err(Halt::Unconfirmed(Arc::clone(why)));
        }
        if self.knows_marks() {
            return Ok(Basis::Confirmed);
        }
        let Executor { api, cache, .. } = self.executor;
        let doubt = cache.doubt(&[Resource::StatefulSets], &self.domain.namespace);
        self.executor.list_everything(doubt.as_ref(), self.epoch)?;
        let read = Confirmer { api, cache, domain: &self.domain }.confirm_marks(rollout).await;
        self.executor.count_confirmation(if read.is_ok() { "confirmed" } else { "failed" });
        if let Err(why) = read {
            let namespace = &self.domain.namespace;
            tracing::warn!(%namespace, rollout, "the finalizer is not removed: {why}");
            self.doubt = Some(Arc::clone(&why));
            return Err(Halt::Unconfirmed(why));
        }
        self.marks_confirmed = true;
        Ok(Basis::Renewed)
    }

    /// Whether the view shows every mark of the namespace.
    fn knows_marks(&self) -> bool {
        let Executor { cache, .. } = self.executor;
        let doubt = || cache.doubt(&[Resource::StatefulSets], &self.domain.namespace);
        self.marks_confirmed || (self.executor.has_listed_everything_in(self.epoch) && doubt().is_none())
    }

    /// Whether the domain was read, or everything listed, in this term.
    fn is_known_in_term(&self) -> bool {
        let read = *lock(&self.turn.0.read);
        read.is_some_and(|(epoch, _)| epoch == self.epoch)
            || self.executor.has_listed_everything_in(self.epoch)
    }

    /// Reads the domain consistently.
    async fn read(&mut self, reads: &[Resource]) -> Result<(), Arc<str>> {
        let Executor { api, cache, .. } = self.executor;
        let read = Confirmer { api, cache, domain: &self.domain }.confirm(reads).await;
        self.executor.count_confirmation(if read.is_ok() { "confirmed" } else { "failed" });
        match read {
            Ok(()) => {
                *lock(&self.turn.0.read) = Some((self.epoch, Instant::now()));
                Ok(())
            }
            Err(why) => {
                let Domain { namespace, group } = &self.domain;
                tracing::warn!(%namespace, domain = %group, "nothing is disrupted: {why}");
                self.doubt = Some(Arc::clone(&why));
                Err(why)
            }
        }
    }

    /// Own writes are not shown by a watch that fails or is silent: the domain is read instead, now and then. Where that
    /// fails, too, the lane can be planned in, and nothing disrupted.
    async fn read_own_writes(&mut self) -> Result<(), Halt> {
        let Some(until) = self.expectations.awaited_until() else { return Ok(()) };
        let now = Instant::now();
        let not_shown = Halt::NotSeenYet { until: until.min(now + LOOK_AGAIN) };
        let read = *lock(&self.turn.0.read);
        let lately = read.is_some_and(|(_, at)| now.duration_since(at) < READ_EVERY);
        if lately || self.executor.cache.doubt(&SETS_AND_PODS, &self.domain.namespace).is_none() {
            return Err(not_shown);
        }
        if self.read(&SETS_AND_PODS).await.is_err() {
            return Ok(());
        }
        let store = &self.executor.store;
        self.expectations.look(|object| (store.seen(object), store.reached(object)), Instant::now());
        if self.expectations.awaited_until().is_some() { Err(not_shown) } else { Ok(()) }
    }

    /// Whether a write may be sent as far as the view is concerned.
    fn may_send(&self, action: &Action) -> Result<(), Halt> {
        // A term that is over stops the write by itself, and for that reason.
        if !action.needs_confirmed_view() || self.executor.gate.open() != Some(self.epoch) {
            return Ok(());
        }
        if let Some(why) = &self.doubt {
            return Err(Halt::Unconfirmed(Arc::clone(why)));
        }
        if action.removes_finalizer() {
            let unread = || "the sets of the namespace were not read in this term".into();
            return if self.knows_marks() { Ok(()) } else { Err(Halt::Unconfirmed(unread())) };
        }
        let doubt = self.executor.cache.doubt(&SETS_AND_PODS, &self.domain.namespace);
        if self.confirmed || (doubt.is_none() && self.is_known_in_term()) {
            return Ok(());
        }
        let why = doubt.map_or("the view is from before this term".to_owned(), |doubt| doubt.why);
        Err(Halt::Unconfirmed(why.into()))
    }

    /// Rules B and D: the view shows our own writes, and no disruption's answer is missing.
    async fn settle(&mut self) -> Result<(), Halt> {
        let store = &self.executor.store;
        // In this order: what is taken in between the two is then shown as well.
        let view = |object: &Object| (store.seen(object), store.reached(object));
        self.expectations.look(view, Instant::now());
        let mut unread = self.expectations.to_read().into_iter();
        while let Some(unknown) = unread.next() {
            if let Err(halt) = self.read_back(unknown).await {
                unread.for_each(|unknown| self.expectations.lost_answer(unknown));
                return Err(halt);
            }
        }
        self.expectations.look(view, Instant::now());
        if planted::has(Bug::OwnWritesNotAwaited) {
            return Ok(());
        }
        self.read_own_writes().await
    }

    /// Reads an object of unknown state; the view must then be at least as new as what was read.
    async fn read_back(&mut self, unknown: Unknown) -> Result<(), Halt> {
        let text = |value: &Value, key: &str| -> Box<str> {
            value.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default().into()
        };
        let read = self.executor.api.get(place(&unknown.object)).await;
        let expectation = match (read, &unknown.uid) {
            (Ok(value), None) => Expectation::Shown { resource_version: text(&value, "resourceVersion") },
            // It was not created. Should the request still be on its way, the name keeps it from counting twice.
            (Err(ApiError::NotFound(_)), None) => return Ok(()),
            (Ok(value), Some(uid)) if text(&value, "uid") == *uid => {
                Expectation::AtLeast { uid: uid.clone(), resource_version: text(&value, "resourceVersion") }
            }
            // Also when its successor is there: the view may not even know that it went.
            (Ok(_) | Err(ApiError::NotFound(_)), Some(uid)) => Expectation::Gone { uid: uid.clone() },
            (Err(error), _) => {
                // Still unknown: nothing is disrupted before it can be read.
                self.expectations.lost_answer(unknown);
                return Err(error.into());
            }
        };
        let object = unknown.object;
        tracing::info!(namespace = %object.namespace, name = %object.name, ?expectation, "read back");
        self.expectations.expect(object, expectation, Instant::now());
        Ok(())
    }

    /// As [`Self::carry_out`], where only a plan that was carried out to its end matters.
    pub async fn perform(&mut self, batches: &[Batch]) -> Result<(), Halt> {
        self.carry_out(batches).await.halt.map_or(Ok(()), Err)
    }

    /// Carries out batch after batch. After the first write that did not succeed the rest of its batch ends and
    /// no further batch starts: the next pass plans again.
    pub async fn carry_out<'p>(&mut self, batches: &'p [Batch]) -> CarriedOut<'p> {
        let mut acknowledged = Vec::new();
        for batch in batches {
            let Performed { answers, halt } = self.perform_batch(&batch.actions).await;
            let answered = batch.actions.iter().zip(&answers);
            let written = answered.filter(|(_, answer)| matches!(answer, Some(Ok(()))));
            acknowledged.extend(written.map(|(action, _)| action));
            if halt.is_some() {
                let refused = batch.actions.iter().zip(&answers).find_map(|(action, answer)| match answer {
                    Some(Err(error)) => Some((action, self.refusal(action, error)?)),
                    _ => None,
                });
                let answered = batch.actions.iter().zip(&answers);
                let lost =
                    answered.filter(|(_, answer)| matches!(answer, Some(Err(ApiError::Unanswered(_)))));
                let unanswered = lost.map(|(action, _)| action).collect();
                return CarriedOut { acknowledged, unanswered, refused, halt };
            }
        }
        CarriedOut { acknowledged, unanswered: Vec::new(), refused: None, halt: None }
    }

    /// What to report of a write that has just failed: a refusal, or that it was not answered several times in succession.
    pub fn refusal(&self, action: &Action, error: &ApiError) -> Option<Refusal> {
        lock(&self.turn.0.unanswered).refusal(action, error)
    }

    /// Carries out one batch to its end and says what was answered.
    pub async fn perform_batch<'a>(&mut self, actions: impl IntoIterator<Item = &'a Action>) -> Performed {
        let actions: Vec<_> = actions.into_iter().collect();
        let mut halt = None;
        let mut attempts = Vec::new();
        for (number, action) in actions.iter().copied().enumerate() {
            match self.may_send(action) {
                Ok(()) => attempts.push(self.executor.attempt((number, action), self.epoch)),
                Err(refused) => halt = Some(refused),
            }
        }
        let mut answers = vec![None; actions.len()];
        let is_written = |object: &Object| actions.iter().any(|action| action.object == *object);
        let is_there = |object: &Object| is_written(object) || self.executor.store.seen(object).is_some();
        lock(&self.turn.0.unanswered).retain(is_there);
        let mut under_way = futures::stream::iter(attempts).buffer_unordered(MAX_PARALLEL_WRITES);
        while let Some((number, action, answer)) = under_way.next().await {
            let ended = match &answer {
                Some(answer) => {
                    lock(&self.turn.0.unanswered).note(action, answer);
                    self.note(action, answer)
                }
                None => Err(Halt::Closed),
            };
            halt = halt.or(ended.err());
            if let Some(slot) = answers.get_mut(number) {
                *slot = answer.map(|answer| answer.map(|_| ()));
            }
        }
        Performed { answers, halt }
    }

    /// Notes what an answer means for later plans.
    fn note(&mut self, action: &Action, answer: &Result<Value, ApiError>) -> Result<(), Halt> {
        if matches!(action.verb, Verb::Create { .. }) {
            return self.note_creation(action, answer);
        }
        let now = Instant::now();
        let uid = || action.precondition.uid.clone();
        let object = || action.object.clone();
        self.executor.count(action, answer);
        match answer {
            Ok(_) if action.is_deletion() => {
                self.expectations.expect(object(), Expectation::Leaving { uid: uid() }, now);
                Ok(())
            }
            Ok(written) => {
                let version = written.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                if let Some(version) = version {
                    let expectation = Expectation::AtLeast { uid: uid(), resource_version: version.into() };
                    self.expectations.expect(object(), expectation, now);
                }
                Ok(())
            }
            Err(ApiError::NotFound(_)) => {
                self.expectations.expect(object(), Expectation::Gone { uid: uid() }, now);
                Err(Halt::NotSeenYet { until: now + SEEN_WITHIN })
            }
            Err(ApiError::Conflict(_)) => match action.precondition.resource_version.clone() {
                Some(resource_version) => {
                    let expectation = Expectation::Changed { uid: uid(), resource_version };
                    self.expectations.expect(object(), expectation, now);
                    Err(Halt::NotSeenYet { until: now + SEEN_WITHIN })
                }
                // Any version would have done: the set's controller kept writing to it, and will be done soon.
                None => Err(Halt::NotSeenYet { until: now + AFTER_CONFLICT }),
            },
            Err(error @ ApiError::Unanswered(_))
                if action.must_be_known() && !planted::has(Bug::LostAnswersForgotten) =>
            {
                let version = action.precondition.resource_version.clone();
                self.expectations.lost_answer(Unknown::write(object(), uid(), version));
                Err(Halt::Failed(error.clone()))
            }
            Err(error) => Err(error.clone().into()),
        }
    }

    /// Notes what the answer to a creation means for later plans. Whoever has the name, waiting for a change of the view
    /// would not help: it may show that object already.
    fn note_creation(&mut self, action: &Action, answer: &Result<Value, ApiError>) -> Result<(), Halt> {
        self.executor.count(action, answer);
        let object = || action.object.clone();
        match answer {
            Ok(written) => {
                let version = written.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                if let Some(version) = version {
                    let expectation = Expectation::Shown { resource_version: version.into() };
                    self.expectations.expect(object(), expectation, Instant::now());
                }
                Ok(())
            }
            Err(error) => {
                if matches!(error, ApiError::Unanswered(_)) {
                    self.expectations.lost_answer(Unknown::creation(object()));
                }
                Err(error.clone().into())
            }
        }
    }
}

impl From<ApiError> for Halt {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Throttled { retry_after } => Self::Throttled { retry_after },
            error => Self::Failed(error),
        }
    }
}

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
