//! The lane of a domain: who is in it plans and acts alone, on a view that shows its own writes (rules B and D) and that
//! is confirmed before anything is disrupted.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use sts_plus_planner::plan::{Action, Mode, Object, Step, Verb};
use sts_plus_planner::reason::Refusal;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::writing::place;
use super::{Basis, CarriedOut, Domain, Executor, Halt, Performed, SETS_AND_PODS, Slot};
use crate::shell::api::{ApiError, Kind};
use crate::shell::confirmation::Confirmer;
use crate::shell::expectations::{Expectation, SEEN_WITHIN, Unknown};
use crate::shell::kinds::Confirmed;
use crate::shell::lease::Epoch;
use crate::shell::ledger::Owner;

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

/// What can carry the mark of a PhasedRollout.
const MARKED: [Kind; 1] = [Kind::StatefulSet];

/// Whether a write rests on what is known of every set of the namespace: any of them may carry the mark of a PhasedRollout,
/// while a ScalingPolicy has one target for ever.
pub(crate) fn rests_on_marks(action: &Action) -> bool {
    action.removes_finalizer() && action.object().kind == Kind::PhasedRollout
}

/// Exclusive leave to plan for one or more domains and to carry the plan out.
#[derive(Debug)]
pub struct Lane<'e> {
    executor: &'e Executor,
    epoch: Epoch,
    /// In the order in which they are locked; never empty.
    turns: Vec<Turn>,
    /// Whose own writes the plan rests on: the sets of the domains, and the object that is planned for.
    owners: Vec<Owner>,
    /// The resources of which the view that is planned on is confirmed.
    confirmed: Vec<Kind>,
    /// It is confirmed which sets of the namespace carry a mark.
    marks_confirmed: bool,
    /// The resources of which the view cannot be confirmed, and why.
    doubts: Vec<(Kind, Arc<str>)>,
}

/// The turn of whoever is in the lane of a domain; its end wakes the next one.
#[derive(Debug)]
pub(super) struct Turn {
    domain: Domain,
    slot: Arc<Slot>,
    /// `None` only while it is dropped: whoever is woken must find the lane free.
    held: Option<OwnedMutexGuard<()>>,
}

impl Turn {
    pub(super) fn new(domain: Domain, slot: Arc<Slot>, held: OwnedMutexGuard<()>) -> Self {
        Self { domain, slot, held: Some(held) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.held.take());
        let next = self.slot.waiting.lock().pop_front();
        if let Some(waiter) = next {
            (waiter.wake)();
        }
    }
}

impl<'e> Lane<'e> {
    /// The lane of whoever has these turns, once the view may be planned on.
    pub(super) async fn enter(
        executor: &'e Executor,
        epoch: Epoch,
        turns: Vec<Turn>,
        own: Option<&Owner>,
    ) -> Result<Self, Halt> {
        let owners = executor.owners(turns.iter().map(|turn| &turn.domain), own);
        let (confirmed, marks_confirmed, doubts) = (Vec::new(), false, Vec::new());
        let mut lane = Self { executor, epoch, turns, owners, confirmed, marks_confirmed, doubts };
        lane.settle().await?;
        Ok(lane)
    }

    fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.turns.iter().map(|turn| &turn.domain)
    }

    /// The domain that a write for this owner is recorded under.
    fn domain_of(&self, owner: &str) -> Option<&Domain> {
        let is_in = |domain: &&Domain| {
            let set = self.executor.store.set_of_uid(&domain.namespace, owner);
            set.is_some_and(|set| Domain::of(&set) == **domain)
        };
        self.domains().find(is_in).or_else(|| self.domains().next())
    }

    /// The term in which it was entered.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Why nothing may be disrupted by a plan that reads these resources, where that is known already.
    pub fn doubt(&self, reads: &[Kind]) -> Option<&Arc<str>> {
        self.doubts.iter().find(|(resource, _)| reads.contains(resource)).map(|(_, why)| why)
    }

    fn set_doubt(&mut self, reads: &[Kind], why: &Arc<str>) {
        self.doubts.extend(reads.iter().map(|resource| (*resource, Arc::clone(why))));
    }

    /// Makes sure that a plan which disrupts something rests on what the cluster is: at no cost where every source of what
    /// it reads is confirmed and was listed in this term; otherwise the domain is read, and must be planned for once more.
    pub async fn confirm(&mut self, reads: &[Kind]) -> Result<Basis, Halt> {
        if let Some(why) = self.doubt(reads).cloned() {
            // Of all that the plan reads, so that nothing of it is sent.
            self.set_doubt(reads, &why);
            return Err(Halt::Unconfirmed(why));
        }
        if self.is_confirmed(reads) {
            return Ok(Basis::Confirmed);
        }
        let executor = self.executor;
        let doubts = self.domains().map(|domain| (domain, executor.cache.doubt(reads, &domain.namespace)));
        let doubts: Vec<_> = doubts.collect();
        if doubts.iter().all(|(_, doubt)| doubt.is_none()) && self.is_known_in_term(reads) {
            self.confirmed.extend(reads);
            return Ok(Basis::Confirmed);
        }
        for (domain, doubt) in doubts {
            executor.list_everything((reads, &domain.namespace), doubt.as_ref(), self.epoch)?;
        }
        self.read(reads).await.map_err(Halt::Unconfirmed)?;
        self.confirmed.extend(reads);
        Ok(Basis::Renewed)
    }

    /// Makes sure that the view shows every set of the namespace that carries the mark of a PhasedRollout, also one outside of
    /// the domain, before the finalizer of that PhasedRollout is removed. Costs as much as [`Self::confirm`].
    pub async fn confirm_marks(&mut self, rollout: &Object) -> Result<Basis, Halt> {
        if let Some(why) = self.doubt(&MARKED) {
            return Err(Halt::Unconfirmed(Arc::clone(why)));
        }
        let Object { namespace, name, .. } = rollout;
        if self.knows_marks(namespace) {
            return Ok(Basis::Confirmed);
        }
        let Executor { api, cache, .. } = self.executor;
        let doubt = cache.doubt(&MARKED, namespace);
        self.executor.list_everything((&MARKED, namespace), doubt.as_ref(), self.epoch)?;
        let Some(domain) = self.domains().find(|domain| domain.namespace == *namespace) else {
            return Err(Halt::Unconfirmed(format!("nothing is planned for in namespace {namespace}").into()));
        };
        let read = Confirmer { api, cache, domain }.confirm_marks(name).await;
        self.executor.count_confirmation(if read.is_ok() { "confirmed" } else { "failed" });
        if let Err(why) = read {
            tracing::warn!(%namespace, rollout = %name, "the finalizer is not removed: {why}");
            self.set_doubt(&MARKED, &why);
            return Err(Halt::Unconfirmed(why));
        }
        self.marks_confirmed = true;
        Ok(Basis::Renewed)
    }

    /// Whether the view shows every mark of the namespace.
    fn knows_marks(&self, namespace: &str) -> bool {
        let executor = self.executor;
        let is_listed = || executor.has_listed_in(self.epoch, &MARKED, namespace);
        self.marks_confirmed || (is_listed() && executor.cache.doubt(&MARKED, namespace).is_none())
    }

    fn is_confirmed(&self, reads: &[Kind]) -> bool {
        reads.iter().all(|resource| self.confirmed.contains(resource))
    }

    /// Whether each of these resources was read of every domain, or everything listed, in this term.
    fn is_known_in_term(&self, reads: &[Kind]) -> bool {
        self.turns.iter().all(|turn| {
            let read = turn.slot.read.lock();
            let is_read = |resource: &Kind| read.get(resource).is_some_and(|(epoch, _)| *epoch == self.epoch);
            self.executor.has_listed_in(self.epoch, reads, &turn.domain.namespace)
                || reads.iter().all(is_read)
        })
    }

    /// Reads the domains consistently.
    async fn read(&mut self, reads: &[Kind]) -> Result<(), Arc<str>> {
        let Executor { api, cache, .. } = self.executor;
        let mut failed = None;
        for turn in &self.turns {
            let read = Confirmer { api, cache, domain: &turn.domain }.confirm(reads).await;
            self.executor.count_confirmation(if read.is_ok() { "confirmed" } else { "failed" });
            match read {
                Ok(()) => {
                    let read_at = (self.epoch, Instant::now());
                    turn.slot.read.lock().extend(reads.iter().map(|resource| (*resource, read_at)));
                }
                Err(why) => {
                    let Domain { namespace, group } = &turn.domain;
                    tracing::warn!(%namespace, domain = %group, "no pod of this domain is disrupted: {why}");
                    failed = Some(why);
                    break;
                }
            }
        }
        let Some(why) = failed else { return Ok(()) };
        self.set_doubt(reads, &why);
        Err(why)
    }

    /// Own writes are not shown by a watch that fails or is silent: what is awaited is read instead, now and then. Where that
    /// fails, too, the lane can be planned in, and nothing disrupted by whoever looks at it. What cannot be read concerns
    /// nobody else: pods are replaced and recreated although rollouts can be neither listed nor watched.
    async fn read_own_writes(&mut self) -> Result<(), Halt> {
        let mut awaited = self.executor.ledger.lock().awaited_kinds(&self.owners);
        while let Some(kind) = awaited.first().copied() {
            let together = self.executor.cache.handling(kind).confirmed_with();
            awaited.retain(|kind| !together.contains(kind));
            self.read_awaited(&together).await?;
        }
        Ok(())
    }

    async fn read_awaited(&mut self, together: &[Kind]) -> Result<(), Halt> {
        let awaited: Vec<_> = together
            .iter()
            .filter_map(|resource| Some((*resource, self.awaited_until(*resource)?)))
            .collect();
        let Some(until) = awaited.iter().map(|(_, until)| *until).min() else { return Ok(()) };
        let awaited: Vec<_> = awaited.into_iter().map(|(resource, _)| resource).collect();
        let now = Instant::now();
        let not_shown = Halt::NotSeenYet { until: until.min(now + LOOK_AGAIN) };
        let doubt = |domain: &Domain| self.executor.cache.doubt(&awaited, &domain.namespace);
        let Some(doubt) = self.domains().find_map(doubt) else { return Err(not_shown) };
        // Some kinds are not read. Where they may only be late it is not reported at once that they are in doubt.
        let is_read = |kind: &Kind| self.executor.cache.handling(*kind).confirmed != Confirmed::Never;
        if !together.iter().all(is_read) {
            let has_waited = until + READ_EVERY <= now + SEEN_WITHIN;
            if !doubt.failing && !has_waited {
                return Err(not_shown);
            }
            self.set_doubt(together, &doubt.why.into());
            return Ok(());
        }
        let lately = |(_, at): &(Epoch, Instant)| now.duration_since(*at) < READ_EVERY;
        let is_read = |turn: &Turn| {
            let read = turn.slot.read.lock();
            together.iter().all(|resource| read.get(resource).is_some_and(lately))
        };
        if self.turns.iter().all(is_read) {
            return Err(not_shown);
        }
        if self.read(together).await.is_err() {
            return Ok(());
        }
        self.look();
        let is_shown = |resource: &Kind| self.awaited_until(*resource).is_none();
        if together.iter().all(is_shown) { Ok(()) } else { Err(not_shown) }
    }

    fn awaited_until(&self, resource: Kind) -> Option<Instant> {
        self.executor.ledger.lock().awaited_until(&self.owners, resource)
    }

    /// Drops what the view shows by now.
    fn look(&self) {
        self.executor.look(&self.owners);
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
        if rests_on_marks(action) {
            let unread = || "the sets of the namespace were not read in this term".into();
            let is_known = self.knows_marks(&action.object().namespace);
            return if is_known { Ok(()) } else { Err(Halt::Unconfirmed(unread())) };
        }
        let doubt = |domain: &Domain| self.executor.cache.doubt(&SETS_AND_PODS, &domain.namespace);
        let doubt = self.domains().find_map(doubt);
        if self.is_confirmed(&SETS_AND_PODS) || (doubt.is_none() && self.is_known_in_term(&SETS_AND_PODS)) {
            return Ok(());
        }
        let why = doubt.map_or("the view is from before this term".to_owned(), |doubt| doubt.why);
        Err(Halt::Unconfirmed(why.into()))
    }

    /// Rules B and D: the view shows our own writes, and no disruption's answer is missing. A write that is in flight was
    /// sent from another lane, which its owner has left since.
    async fn settle(&mut self) -> Result<(), Halt> {
        if self.executor.ledger.lock().is_in_flight(&self.owners) {
            return Err(Halt::Occupied { until: Instant::now() + LOOK_AGAIN });
        }
        self.look();
        self.read_back_unknown().await?;
        self.look();
        self.read_own_writes().await
    }

    /// Reads the objects of writes whose outcome is unknown. Where one cannot be read the lane can be planned in, and nothing
    /// disrupted by whoever looks at its resource.
    async fn read_back_unknown(&mut self) -> Result<(), Halt> {
        let unknown = self.executor.ledger.lock().to_read(&self.owners);
        for (owner, unknown) in unknown {
            let Object { kind, namespace, name } = &unknown.object;
            let resource = *kind;
            if self.doubt(&[resource]).is_some() {
                continue;
            }
            match self.read_back(&unknown).await {
                Ok(expectation) => {
                    tracing::info!(%namespace, %name, ?expectation, "read back a write whose outcome was unknown");
                    let domain = self.domain_of(&owner).cloned();
                    let expectation = expectation.filter(|_| self.executor.cache.follows(resource));
                    let mut ledger = self.executor.ledger.lock();
                    if let Some((expectation, domain)) = expectation.zip(domain) {
                        let what = (unknown.object.clone(), expectation);
                        ledger.expect((&owner, &domain), what, Instant::now());
                    }
                    ledger.found_out(&owner, &unknown);
                }
                Err(ApiError::Throttled { retry_after }) => return Err(Halt::Throttled { retry_after }),
                Err(error) => {
                    let why = format!(
                        "cannot get {resource} {namespace}/{name} to find out what became of a write: {error}"
                    );
                    tracing::warn!(%namespace, "nothing is disrupted: {why}");
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
    pub async fn perform(&mut self, steps: &[Step]) -> Result<(), Halt> {
        self.carry_out(steps).await.halt.map_or(Ok(()), Err)
    }

    /// Carries out step after step, except those that only inform. After the first write that did not succeed the rest of
    /// its step ends and no further step acts: the next pass plans again. Steps that settle are carried out whatever
    /// became of those before them, unless the lease is lost or the API server throttles.
    pub async fn carry_out<'p>(&mut self, steps: &'p [Step]) -> CarriedOut<'p> {
        let mut carried = CarriedOut::default();
        for step in steps {
            let is_carried_out = match &step.mode {
                Mode::Act => carried.halt.is_none(),
                Mode::Settle { unless_failed } => {
                    let is_final = matches!(carried.halt, Some(Halt::Closed | Halt::Throttled { .. }));
                    !is_final && unless_failed.as_ref().is_none_or(|object| !carried.has_failed(object))
                }
                Mode::Inform => false,
            };
            let started = Instant::now();
            let performed = if is_carried_out {
                self.perform_batch(&step.writes).await
            } else {
                Performed { answers: vec![None; step.writes.len()], halt: None }
            };
            if let Some(halt) = performed.halt.clone() {
                let refusal = |(action, answer): (&'p Action, &Option<Result<(), ApiError>>)| match answer {
                    Some(Err(error)) => Some((action, self.refusal(action, error)?)),
                    _ => None,
                };
                let refused = step.writes.iter().zip(&performed.answers).find_map(refusal);
                carried.refused = carried.refused.or(refused);
                carried.halt = Some(halt.or_worse(carried.halt));
            }
            carried.steps.push(super::Carried {
                writes: &step.writes,
                answers: performed.answers,
                took: started.elapsed(),
                halt: performed.halt,
            });
        }
        carried
    }

    /// What to report of a write that has just failed: a refusal, or that it was not answered several times in succession.
    pub fn refusal(&self, action: &Action, error: &ApiError) -> Option<Refusal> {
        self.turns.iter().find_map(|turn| turn.slot.unanswered.lock().refusal(action, error))
    }

    /// Carries out one batch to its end and says what was answered.
    pub async fn perform_batch<'a>(&mut self, actions: impl IntoIterator<Item = &'a Action>) -> Performed {
        let actions: Vec<_> = actions.into_iter().collect();
        let mut halt = None;
        let mut attempts = Vec::new();
        for (number, action) in actions.iter().copied().enumerate() {
            match self.may_send(action) {
                Ok(()) => attempts.push(self.attempt(number, action)),
                Err(refused) => halt = Some(refused),
            }
        }
        let mut answers = vec![None; actions.len()];
        let is_written = |object: &Object| actions.iter().any(|action| action.object() == object);
        let is_there = |object: &Object| is_written(object) || self.executor.store.seen(object).is_some();
        for turn in &self.turns {
            turn.slot.unanswered.lock().retain(is_there);
        }
        let mut under_way = futures::stream::iter(attempts).buffer_unordered(MAX_PARALLEL_WRITES);
        while let Some((number, action, answer)) = under_way.next().await {
            let ended = if let Some(answer) = &answer {
                if let Some(turn) = self.turns.first() {
                    turn.slot.unanswered.lock().note(action, answer);
                }
                self.note(action, answer)
            } else {
                // It was not sent: nothing is in flight because of it.
                self.executor.ledger.lock().answered(action);
                Err(Halt::Closed)
            };
            halt = halt.or(ended.err());
            if let Some(slot) = answers.get_mut(number) {
                *slot = answer.map(|answer| answer.map(|_| ()));
            }
        }
        Performed { answers, halt }
    }

    /// Sends a write, which is in flight for its owner until it is answered.
    async fn attempt<'a>(
        &self,
        number: usize,
        action: &'a Action,
    ) -> (usize, &'a Action, Option<Result<Value, ApiError>>) {
        if let Some(domain) = self.domain_of(action.owner()) {
            self.executor.ledger.lock().sent(action, domain);
        }
        let answer = self.executor.attempt(action, self.epoch).await;
        (number, action, answer)
    }

    /// Notes what an answer means for later plans.
    fn note(&self, action: &Action, answer: &Result<Value, ApiError>) -> Result<(), Halt> {
        self.executor.count(action, answer);
        let (awaited, halt) = if matches!(action.verb(), Verb::Create { .. }) {
            meaning_of_creation(action, answer)
        } else {
            meaning(action, answer)
        };
        let domain = self.domain_of(action.owner()).cloned();
        let mut ledger = self.executor.ledger.lock();
        if let Some(domain) = domain {
            let owner = (action.owner(), &domain);
            match awaited {
                Awaited::Nothing => {}
                // Whoever plans on an object of a kind that is not followed reads it each time.
                Awaited::Shown(_) if !self.executor.cache.follows(action.object().kind) => {}
                Awaited::Shown(expectation) => {
                    ledger.expect(owner, (action.object().clone(), expectation), Instant::now());
                }
                Awaited::Known(unknown) => ledger.lost_answer(owner, unknown),
            }
        }
        ledger.answered(action);
        halt.map_or(Ok(()), Err)
    }
}

/// What has to be seen or found out after an answer, before anybody plans for the owner again.
enum Awaited {
    Nothing,
    /// The view shows this.
    Shown(Expectation),
    /// It is known whether the write has taken effect.
    Known(Unknown),
}

/// What an answer means for later plans.
fn meaning(action: &Action, answer: &Result<Value, ApiError>) -> (Awaited, Option<Halt>) {
    let now = Instant::now();
    let uid = || action.precondition().uid.clone();
    let version = || action.precondition().resource_version.clone();
    match answer {
        Ok(_) if action.is_deletion() => (Awaited::Shown(Expectation::Leaving { uid: uid() }), None),
        Ok(written) => match version_of(written) {
            Some(resource_version) => {
                (Awaited::Shown(Expectation::AtLeast { uid: uid(), resource_version }), None)
            }
            None => (Awaited::Nothing, None),
        },
        Err(ApiError::NotFound(_)) => {
            let halt = Halt::NotSeenYet { until: now + SEEN_WITHIN };
            (Awaited::Shown(Expectation::Gone { uid: uid() }), Some(halt))
        }
        Err(ApiError::Conflict(_)) => match version() {
            Some(resource_version) => {
                let halt = Halt::NotSeenYet { until: now + SEEN_WITHIN };
                (Awaited::Shown(Expectation::Changed { uid: uid(), resource_version }), Some(halt))
            }
            // Any version would have done: the set's controller kept writing to it, and will be done soon.
            None => (Awaited::Nothing, Some(Halt::NotSeenYet { until: now + AFTER_CONFLICT })),
        },
        Err(error @ ApiError::Unanswered(_)) if action.must_be_known() => {
            let unknown = Unknown::write(action.object().clone(), uid(), version());
            (Awaited::Known(unknown), Some(Halt::Failed(error.clone())))
        }
        Err(error) => (Awaited::Nothing, Some(error.clone().into())),
    }
}

/// What the answer to a creation means for later plans. Whoever has the name, waiting for a change of the view would not
/// help: it may show that object already.
fn meaning_of_creation(action: &Action, answer: &Result<Value, ApiError>) -> (Awaited, Option<Halt>) {
    match answer {
        Ok(written) => match version_of(written) {
            Some(resource_version) => (Awaited::Shown(Expectation::Shown { resource_version }), None),
            None => (Awaited::Nothing, None),
        },
        Err(error @ ApiError::Unanswered(_)) => {
            (Awaited::Known(Unknown::creation(action.object().clone())), Some(error.clone().into()))
        }
        Err(error) => (Awaited::Nothing, Some(error.clone().into())),
    }
}

fn version_of(written: &Value) -> Option<Box<str>> {
    written.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(Into::into)
}
