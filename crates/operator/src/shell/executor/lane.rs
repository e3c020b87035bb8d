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

/// What is read together where a watch does not show our own writes. What cannot be read concerns whoever looks at it, and
/// nobody else: pods are replaced and recreated although rollouts can be neither listed nor watched.
const READ_TOGETHER: [&[Resource]; 3] =
    [&SETS_AND_PODS, &[Resource::PhasedRollouts], &[Resource::Claims, Resource::Revisions]];

/// What can carry the mark of a PhasedRollout.
const MARKED: [Resource; 1] = [Resource::StatefulSets];

/// Exclusive leave to plan for a domain and to carry the plan out.
#[derive(Debug)]
pub struct Lane<'e> {
    executor: &'e Executor,
    epoch: Epoch,
    domain: Domain,
    expectations: OwnedMutexGuard<Expectations>,
    /// The resources of which the view that is planned on is confirmed.
    confirmed: Vec<Resource>,
    /// It is confirmed which sets of the namespace carry a mark.
    marks_confirmed: bool,
    /// The resources of which the view cannot be confirmed, and why.
    doubts: Vec<(Resource, Arc<str>)>,
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
        let (confirmed, marks_confirmed, doubts, turn) = (Vec::new(), false, Vec::new(), Turn(slot));
        let mut lane =
            Self { executor, epoch, domain, expectations, confirmed, marks_confirmed, doubts, turn };
        lane.settle().await?;
        Ok(lane)
    }

    /// The term in which it was entered.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Why nothing may be disrupted by a plan that reads these resources, where that is known already.
    pub fn doubt(&self, reads: &[Resource]) -> Option<&Arc<str>> {
        self.doubts.iter().find(|(resource, _)| reads.contains(resource)).map(|(_, why)| why)
    }

    fn set_doubt(&mut self, reads: &[Resource], why: &Arc<str>) {
        self.doubts.extend(reads.iter().map(|resource| (*resource, Arc::clone(why))));
    }

    /// Makes sure that a plan which disrupts something rests on what the cluster is: at no cost where every source of what
    /// it reads is confirmed and was listed in this term; otherwise the domain is read, and must be planned for once more.
    pub async fn confirm(&mut self, reads: &[Resource]) -> Result<Basis, Halt> {
        if let Some(why) = self.doubt(reads).cloned() {
            // Of all that the plan reads, so that nothing of it is sent.
            self.set_doubt(reads, &why);
            return Err(Halt::Unconfirmed(why));
        }
        if self.is_confirmed(reads) {
            return Ok(Basis::Confirmed);
        }
        let doubt = self.executor.cache.doubt(reads, &self.domain.namespace);
        if doubt.is_none() && self.is_known_in_term(reads) {
            self.confirmed.extend(reads);
            return Ok(Basis::Confirmed);
        }
        self.executor.list_everything((reads, &self.domain.namespace), doubt.as_ref(), self.epoch)?;
        self.read(reads).await.map_err(Halt::Unconfirmed)?;
        self.confirmed.extend(reads);
        Ok(Basis::Renewed)
    }

    /// Makes sure that the view shows every set of the namespace that carries the mark of a PhasedRollout, also one outside of
    /// the domain, before the finalizer of that PhasedRollout is removed. Costs as much as [`Self::confirm`].
    pub async fn confirm_marks(&mut self, rollout: &str) -> Result<Basis, Halt> {
        if let Some(why) = self.doubt(&MARKED) {
            return Err(Halt::Unconfirmed(Arc::clone(why)));
        }
        if self.knows_marks() {
            return Ok(Basis::Confirmed);
        }
        let Executor { api, cache, .. } = self.executor;
        let doubt = cache.doubt(&MARKED, &self.domain.namespace);
        self.executor.list_everything((&MARKED, &self.domain.namespace), doubt.as_ref(), self.epoch)?;
        let read = Confirmer { api, cache, domain: &self.domain }.confirm_marks(rollout).await;
        self.executor.count_confirmation(if read.is_ok() { "confirmed" } else { "failed" });
        if let Err(why) = read {
            let namespace = &self.domain.namespace;
            tracing::warn!(%namespace, rollout, "the finalizer is not removed: {why}");
            self.set_doubt(&MARKED, &why);
            return Err(Halt::Unconfirmed(why));
        }
        self.marks_confirmed = true;
        Ok(Basis::Renewed)
    }

    /// Whether the view shows every mark of the namespace.
    fn knows_marks(&self) -> bool {
        let (executor, namespace) = (self.executor, &self.domain.namespace);
        let is_listed = || executor.has_listed_in(self.epoch, &MARKED, namespace);
        self.marks_confirmed || (is_listed() && executor.cache.doubt(&MARKED, namespace).is_none())
    }

    fn is_confirmed(&self, reads: &[Resource]) -> bool {
        reads.iter().all(|resource| self.confirmed.contains(resource))
    }

    /// Whether each of these resources was read of the domain, or everything listed, in this term.
    fn is_known_in_term(&self, reads: &[Resource]) -> bool {
        let read = lock(&self.turn.0.read);
        let is_read = |resource: &Resource| read.get(resource).is_some_and(|(epoch, _)| *epoch == self.epoch);
        self.executor.has_listed_in(self.epoch, reads, &self.domain.namespace) || reads.iter().all(is_read)
    }

    /// Reads the domain consistently.
    async fn read(&mut self, reads: &[Resource]) -> Result<(), Arc<str>> {
        let Executor { api, cache, .. } = self.executor;
        let read = Confirmer { api, cache, domain: &self.domain }.confirm(reads).await;
        self.executor.count_confirmation(if read.is_ok() { "confirmed" } else { "failed" });
        match read {
            Ok(()) => {
                let read_at = (self.epoch, Instant::now());
                lock(&self.turn.0.read).extend(reads.iter().map(|resource| (*resource, read_at)));
                Ok(())
            }
            Err(why) => {
                let Domain { namespace, group } = &self.domain;
                tracing::warn!(%namespace, domain = %group, "what rests on this is not disrupted: {why}");
                self.set_doubt(reads, &why);
                Err(why)
            }
        }
    }

    /// Own writes are not shown by a watch that fails or is silent: what is awaited is read instead, now and then. Where that
    /// fails, too, the lane can be planned in, and nothing disrupted by whoever looks at it.
    async fn read_own_writes(&mut self) -> Result<(), Halt> {
        for together in READ_TOGETHER {
            self.read_awaited(together).await?;
        }
        Ok(())
    }

    async fn read_awaited(&mut self, together: &[Resource]) -> Result<(), Halt> {
        let is_awaited = |resource: &&Resource| self.expectations.awaited_until(**resource).is_some();
        let awaited: Vec<_> = together.iter().filter(is_awaited).copied().collect();
        let until = awaited.iter().filter_map(|resource| self.expectations.awaited_until(*resource)).min();
        let Some(until) = until else { return Ok(()) };
        let now = Instant::now();
        let not_shown = Halt::NotSeenYet { until: until.min(now + LOOK_AGAIN) };
        let Some(doubt) = self.executor.cache.doubt(&awaited, &self.domain.namespace) else {
            return Err(not_shown);
        };
        // Claims and revisions are not read. Where they may only be late it is not reported at once that they are in doubt.
        if !together.iter().all(|resource| Confirmer::reads(*resource)) {
            let has_waited = until + READ_EVERY <= now + SEEN_WITHIN;
            if !doubt.failing && !has_waited {
                return Err(not_shown);
            }
            self.set_doubt(together, &doubt.why.into());
            return Ok(());
        }
        let lately = |(_, at): &(Epoch, Instant)| now.duration_since(*at) < READ_EVERY;
        let is_read = |resource: &Resource| lock(&self.turn.0.read).get(resource).is_some_and(lately);
        if together.iter().all(is_read) {
            return Err(not_shown);
        }
        if self.read(together).await.is_err() {
            return Ok(());
        }
        let store = &self.executor.store;
        self.expectations.look(|object| (store.seen(object), store.reached(object)), Instant::now());
        let is_shown = |resource: &Resource| self.expectations.awaited_until(*resource).is_none();
        if together.iter().all(is_shown) { Ok(()) } else { Err(not_shown) }
    }

    /// Whether a write may be sent as far as the view is concerned.
    fn may_send(&self, action: &Action) -> Result<(), Halt> {
        // A term that is over stops the write by itself, and for that reason.
        if !action.needs_confirmed_view() || self.executor.gate.open() != Some(self.epoch) {
            return Ok(());
        }
        if let Some(why) = self.doubt(&SETS_AND_PODS) {
            return Err(Halt::Unconfirmed(Arc::clone(why)));
        }
        if action.removes_finalizer() {
            let unread = || "the sets of the namespace were not read in this term".into();
            return if self.knows_marks() { Ok(()) } else { Err(Halt::Unconfirmed(unread())) };
        }
        let doubt = self.executor.cache.doubt(&SETS_AND_PODS, &self.domain.namespace);
        if self.is_confirmed(&SETS_AND_PODS) || (doubt.is_none() && self.is_known_in_term(&SETS_AND_PODS)) {
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
        self.read_back_unknown().await?;
        self.expectations.look(view, Instant::now());
        if planted::has(Bug::OwnWritesNotAwaited) {
            return Ok(());
        }
        self.read_own_writes().await
    }

    /// Reads the objects of writes whose outcome is unknown. Where one cannot be read the lane can be planned in, and nothing
    /// disrupted by whoever looks at its resource.
    async fn read_back_unknown(&mut self) -> Result<(), Halt> {
        for unknown in self.expectations.to_read().to_vec() {
            let Object { kind, namespace, name } = &unknown.object;
            let resource = Resource::from(*kind);
            if self.doubt(&[resource]).is_some() {
                continue;
            }
            match self.read_back(&unknown).await {
                Ok(expectation) => {
                    self.expectations.found_out(&unknown);
                    tracing::info!(%namespace, %name, ?expectation, "read back");
                    if let Some(expectation) = expectation {
                        self.expectations.expect(unknown.object, expectation, Instant::now());
                    }
                }
                Err(ApiError::Throttled { retry_after }) => return Err(Halt::Throttled { retry_after }),
                Err(error) => {
                    let why = format!(
                        "cannot get {resource} {namespace}/{name} to find out what became of a write: {error}"
                    );
                    tracing::warn!(%namespace, domain = %self.domain.group, "nothing is disrupted: {why}");
                    self.set_doubt(&[resource], &why.into());
                }
            }
        }
        Ok(())
    }

    /// Reads an object of unknown state; what the view must show then, so that it is at least as new as what was read.
    async fn read_back(&self, unknown: &Unknown) -> Result<Option<Expectation>, ApiError> {
        let text = |value: &Value, key: &str| -> Box<str> {
            value.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default().into()
        };
        let read = self.executor.api.get(place(&unknown.object)).await;
        Ok(match (read, &unknown.uid) {
            (Ok(value), None) => {
                Some(Expectation::Shown { resource_version: text(&value, "resourceVersion") })
            }
            // It was not created. Should the request still be on its way, the name keeps it from counting twice.
            (Err(ApiError::NotFound(_)), None) => None,
            (Ok(value), Some(uid)) if text(&value, "uid") == *uid => {
                let resource_version = text(&value, "resourceVersion");
                Some(Expectation::AtLeast { uid: uid.clone(), resource_version })
            }
            // Also when its successor is there: the view may not even know that it went.
            (Ok(_) | Err(ApiError::NotFound(_)), Some(uid)) => Some(Expectation::Gone { uid: uid.clone() }),
            (Err(error), _) => return Err(error),
        })
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
