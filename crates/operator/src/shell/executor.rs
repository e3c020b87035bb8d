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

mod lane;
mod unanswered;
mod writing;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use sts_plus_planner::plan::{Action, Object};
use sts_plus_planner::reason::Refusal;
use sts_plus_planner::set::SetRow;
use tokio::sync::watch;
use tokio::time::Instant;

use super::api::{Api, ApiError, CALL_TIMEOUT, Kind};
use super::cache::{Cache, Doubt, Round, Store};
use super::lease::{Epoch, Leadership};
use super::ledger::{Ledger, Owner};
use super::metrics::OutcomeLabel;
pub use lane::Lane;
use lane::Turn;
pub(crate) use lane::rests_on_marks;
use unanswered::Streaks;
pub use unanswered::UNANSWERED_REPORTED_AFTER;

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

/// How long the server may act on a write whose answer was lost: it ends a request after a minute unless configured otherwise.
const ARRIVES_WITHIN: Duration = Duration::from_mins(1);

/// What most decisions look at.
pub const SETS_AND_PODS: [Kind; 2] = [Kind::StatefulSet, Kind::Pod];

/// What must not be disturbed by two at once: a rollout group, or a set that is in none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain {
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
        *self.listed.borrow() == Some(epoch)
    }

    /// The term in which writes are allowed right now.
    pub fn open(&self) -> Option<Epoch> {
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
    /// What is awaited of our own writes. Locked after nothing else, and the store after it.
    ledger: Mutex<Ledger>,
    lists: Mutex<Lists>,
    /// Writes that were sent and have not been answered.
    under_way: AtomicUsize,
    /// When the answer to a write was last lost.
    lost: Mutex<Option<Instant>>,
}

/// The lane of a domain, between those who enter it.
#[derive(Debug, Default)]
struct Slot {
    /// Held by whoever is in the lane.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// For each resource, the term in which the domain was last read, and when that was.
    read: Mutex<HashMap<Kind, (Epoch, Instant)>>,
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

/// What became of a step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried<'p> {
    pub writes: &'p [Action],
    /// What was answered to each; `None` for one that was not sent.
    pub answers: Vec<Option<Result<(), ApiError>>>,
    /// How long it held the lane.
    pub took: Duration,
    /// Why it was not carried out to its end; `None` where it was, or was not begun.
    pub halt: Option<Halt>,
}

impl<'p> Carried<'p> {
    /// The writes that were sent, each with its answer.
    pub fn answered(&self) -> impl Iterator<Item = (&'p Action, &Result<(), ApiError>)> {
        self.writes.iter().zip(&self.answers).filter_map(|(action, answer)| Some((action, answer.as_ref()?)))
    }
}

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedOut<'p> {
    /// Its steps, those that were not carried out included.
    pub steps: Vec<Carried<'p>>,
    /// The write that was refused, or has not been answered several times, and what to report of it.
    pub refused: Option<(&'p Action, Refusal)>,
    /// Why it was not carried out to its end; `None` where it was.
    pub halt: Option<Halt>,
}

impl<'p> CarriedOut<'p> {
    /// The writes that were sent, each with its answer.
    pub fn answered(&self) -> impl Iterator<Item = (&'p Action, &Result<(), ApiError>)> {
        self.steps.iter().flat_map(Carried::answered)
    }

    /// The writes that the server acknowledged.
    pub fn acknowledged(&self) -> Vec<&'p Action> {
        self.answered().filter(|(_, answer)| answer.is_ok()).map(|(action, _)| action).collect()
    }

    /// The writes whose answer was lost: they may have taken effect.
    pub fn unanswered(&self) -> Vec<&'p Action> {
        let is_lost = |answer: &Result<(), ApiError>| matches!(answer, Err(ApiError::Unanswered(_)));
        self.answered().filter(|(_, answer)| is_lost(answer)).map(|(action, _)| action).collect()
    }

    /// Whether a write to this object was sent and not acknowledged.
    fn has_failed(&self, object: &Object) -> bool {
        self.answered().any(|(action, answer)| action.object() == object && answer.is_err())
    }
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

impl Halt {
    /// Of two ends the one that keeps the next pass away for longer, and the sooner one of two waits.
    #[must_use]
    pub fn or_worse(self, other: Option<Self>) -> Self {
        let rank = |halt: &Self| match halt {
            Self::NotSeenYet { .. } | Self::Occupied { .. } => 0,
            Self::Unconfirmed(_) => 1,
            Self::Failed(_) => 2,
            Self::Throttled { .. } => 3,
            Self::Closed => 4,
        };
        match (other, self) {
            (Some(Self::NotSeenYet { until: one }), Self::NotSeenYet { until: other }) => {
                Self::NotSeenYet { until: one.min(other) }
            }
            (Some(one), other) => {
                if rank(&other) > rank(&one) {
                    other
                } else {
                    one
                }
            }
            (None, other) => other,
        }
    }
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

    /// The value of the label that the sets of a group carry; `None` for a domain that is no group.
    pub(super) fn label(&self) -> Option<&Arc<str>> {
        Some(&self.group).filter(|group| !group.contains('/'))
    }
}

/// Marks the domain of a set that is in no group: a label has no slash in its value, see [`Domain::label`].
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
            ledger: Mutex::default(),
            lists: Mutex::default(),
            under_way: AtomicUsize::new(0),
            lost: Mutex::default(),
        }
    }

    /// Enters the lanes of these domains and makes sure that the view may be planned on, for a plan about the object with
    /// the UID `own`. A lane in which somebody is already is not waited for, so that one whose writes hang does not hold
    /// workers: the waiter is called when it is free. Lanes are locked in one order for all.
    pub async fn enter(
        &self,
        domains: &[Domain],
        own: Option<&Owner>,
        waiter: Waiter,
    ) -> Result<Lane<'_>, Halt> {
        let epoch = self.gate.open().ok_or(Halt::Closed)?;
        let mut ordered: Vec<_> = domains.iter().collect();
        ordered.sort();
        ordered.dedup();
        let mut turns = Vec::new();
        for domain in ordered {
            let slot = {
                let mut lanes = self.lanes.lock();
                Arc::clone(lanes.entry(domain.clone()).or_default())
            };
            let held = {
                // Under this lock, so that whoever leaves finds the waiter, or has left.
                let mut waiting = slot.waiting.lock();
                let Ok(held) = Arc::clone(&slot.turn).try_lock_owned() else {
                    if waiting.iter().all(|known| known.id != waiter.id) {
                        waiting.push_back(waiter);
                    }
                    return Err(Halt::Occupied { until: Instant::now() + OCCUPIED_RETRY });
                };
                held
            };
            turns.push(Turn::new(domain.clone(), slot, held));
        }
        Lane::enter(self, epoch, turns, own).await
    }

    /// Of whom something is awaited before anybody plans for these domains, or for the object with the UID `own`.
    fn owners<'d>(&self, domains: impl Iterator<Item = &'d Domain>, own: Option<&Owner>) -> Vec<Owner> {
        let ledger = self.ledger.lock();
        if ledger.is_empty() {
            return Vec::new();
        }
        let mut owners: Vec<Owner> = own.into_iter().cloned().collect();
        for domain in domains {
            // One that the view shows in another domain has taken what is awaited along.
            let is_here = |owner: &Owner| {
                let set = self.store.set_of_uid(&domain.namespace, owner);
                set.is_none_or(|set| Domain::of(&set) == *domain)
            };
            owners.extend(ledger.recorded(domain).into_iter().filter(is_here));
            match domain.lone_set() {
                Some(uid) => owners.push(uid.into()),
                None => owners.extend(self.store.group_uids(&domain.namespace, &domain.group)),
            }
        }
        owners.retain(|owner| ledger.knows(owner));
        owners.sort();
        owners.dedup();
        owners
    }

    /// Drops what the view shows of these owners by now.
    fn look(&self, owners: &[Owner]) {
        let store = &self.store;
        // In this order: what is taken in between the two is then shown as well.
        let view = |object: &Object| (store.seen(object), store.reached(object));
        self.ledger.lock().look(owners, view, Instant::now());
    }

    /// Whether it is unknown of some write whether the server has acted on it, or will: also of one that only informs, and
    /// of one that was read back and may still arrive.
    pub fn has_unanswered(&self) -> bool {
        let lately = self.lost.lock().is_some_and(|lost| lost.elapsed() < ARRIVES_WITHIN);
        lately || self.under_way.load(Ordering::SeqCst) > 0 || self.ledger.lock().has_unknown()
    }

    /// Where many domains want to be read at once, everything is listed instead; whoever comes meanwhile looks again soon,
    /// until what it reads is listed. A source that fails lists by itself as soon as it can.
    fn list_everything(
        &self,
        (reads, namespace): (&[Kind], &str),
        doubt: Option<&Doubt>,
        epoch: Epoch,
    ) -> Result<(), Halt> {
        if doubt.is_some_and(|doubt| doubt.failing) {
            return Ok(());
        }
        let now = Instant::now();
        let mut lists = self.lists.lock();
        let is_listed = |round| self.cache.has_listed(round, reads, namespace);
        if lists.whole.is_some_and(|(of, round)| of == epoch && !is_listed(round)) {
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

    /// Whether a list of everything has brought these resources of a namespace in that term.
    fn has_listed_in(&self, epoch: Epoch, reads: &[Kind], namespace: &str) -> bool {
        let whole = self.lists.lock().whole;
        let is_listed = |round| self.cache.has_listed(round, reads, namespace);
        let listed = whole.is_some_and(|(of, round)| of == epoch && is_listed(round));
        listed || self.gate.is_listed_in(epoch)
    }

    fn count_confirmation(&self, outcome: &'static str) {
        self.api.metrics().confirmations.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Forgets the lane of a domain that is no more. `false` where it still waits to see its own writes, so that it has to
    /// be forgotten later; whoever is in it, or about to be, takes that over.
    pub fn forget(&self, domain: &Domain) -> bool {
        let mut lanes = self.lanes.lock();
        let Some(slot) = lanes.get(domain) else { return true };
        // Whoever is about to enter has a share in it already.
        if Arc::strong_count(slot) > 1 || !slot.waiting.lock().is_empty() {
            return true;
        }
        let owners = self.owners(std::iter::once(domain), None);
        self.look(&owners);
        let settled = self.ledger.lock().is_settled(&owners);
        if settled {
            lanes.remove(domain);
        }
        settled
    }

    /// Writes if the term is still on; `None` if not. Asked anew before each write, since the lease may have run
    /// out while another one was under way.
    async fn attempt(&self, action: &Action, epoch: Epoch) -> Option<Result<Value, ApiError>> {
        if self.gate.open() != Some(epoch) {
            return None;
        }
        Some(self.answered(self.write(action)).await)
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
            *self.lost.lock() = Some(Instant::now());
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

    pub fn store(&self) -> &Store {
        &self.store
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
