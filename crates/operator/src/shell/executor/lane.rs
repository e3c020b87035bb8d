//! The lane of a domain: who is in it plans and acts alone, on a view that shows its own writes (rules B and D) and that
//! is confirmed before anything is disrupted.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use sts_plus_planner::plan::{Action, Batch, Object, Verb};
use sts_plus_planner::planted::{self, Bug};
use sts_plus_planner::reason::Refusal;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::writing::place;
use super::{Basis, CarriedOut, Domain, Executor, Halt, Performed, SETS_AND_PODS, Slot, lock};
use crate::shell::api::{ApiError, Resource};
use crate::shell::confirmation::Confirmer;
use crate::shell::expectations::{Expectation, Expectations, SEEN_WITHIN, Unknown};
use crate::shell::lease::Epoch;

/// Writes of one batch that are under way together: a batch of 500, the widest there is, takes eight rounds, and one lane
/// alone stays below the streams that the API server lets a connection have (100 by default).
const MAX_PARALLEL_WRITES: usize = 64;

/// How soon to look again at a view that does not show our own writes: what is awaited may be another set's in the same
/// lane, and its coming wakes only that one.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The wait after a conflict that no change in the view will tell the end of: the server itself has tried five times.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);

/// How often a lane whose own writes the watch does not show is read instead.
const READ_EVERY: Duration = Duration::from_secs(5);

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

impl<'e> Lane<'e> {
    /// The lane of whoever has its expectations, once the view may be planned on.
    pub(super) async fn enter(
        executor: &'e Executor,
        epoch: Epoch,
        domain: Domain,
        expectations: OwnedMutexGuard<Expectations>,
        slot: Arc<Slot>,
    ) -> Result<Self, Halt> {
        let (confirmed, marks_confirmed, doubt, turn) = (false, false, None, Turn(slot));
        let mut lane =
            Self { executor, epoch, domain, expectations, confirmed, marks_confirmed, doubt, turn };
        lane.settle().await?;
        Ok(lane)
    }

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
