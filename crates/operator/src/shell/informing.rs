//! Writes that only inform: the annotation with the state of a set, its current revision. The rollout does not depend on
//! them, so they are carried out beside the lanes, and a webhook that hangs or a missing permission slows nothing down.
//!
//! ```text
//!   pass ── submit(key, all that is due now) ──> slots, one per object ──> run: one write at a time per object
//!                                                     newer words replace older ones that were not sent yet
//! ```
//!
//! What is due is decided anew in each pass. What was written and is not shown by the view yet is not written again; what
//! failed is retried with a back-off of its own.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use sts_plus_planner::plan::{Action, Object, Verb};
use sts_plus_planner::reason::Refusal;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::api::ApiError;
use super::backoff;
use super::executor::{Executor, UNANSWERED_REPORTED_AFTER};
use super::expectations::Expectation;
use super::lease::Epoch;
use super::rights::{Right, Rights};

/// Informing writes under way together: those of a large group at once, and a hanging webhook cannot take the streams that
/// acting writes need.
const MAX_UNDER_WAY: usize = 32;

/// Called with a key whose refusals have changed, so that it is looked at again.
pub type Wake<K> = Arc<dyn Fn(&K) + Send + Sync>;

/// Takes the informing writes that passes over keys `K` decide on; clones share them.
pub struct Informing<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    executor: Arc<Executor>,
    wake: Wake<K>,
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    slots: BTreeMap<K, BTreeMap<Object, Slot>>,
    closed: bool,
}

/// What is to be written on one object, in order, and what became of it so far.
#[derive(Debug)]
struct Slot {
    epoch: Epoch,
    uid: Box<str>,
    wanted: Vec<Action>,
    /// Written, and not shown by the view yet: the write and the version it was answered with.
    acknowledged: Vec<(Action, Box<str>)>,
    under_way: bool,
    /// By what the write does: a webhook on sets says nothing about their status, and the other way round.
    trouble: HashMap<Discriminant<Verb>, Trouble>,
}

/// How many consecutive times one sort of write has failed on an object, when it is retried, and what is reported of it.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    not_before: Option<Instant>,
    refused: Option<Refusal>,
}

/// One write to send.
#[derive(Debug)]
struct Job<K> {
    key: K,
    epoch: Epoch,
    action: Action,
}

/// What became of it.
#[derive(Debug)]
enum Sent {
    /// The term is over.
    Closed,
    /// It was written.
    Written(Option<Box<str>>),
    /// The object is not what the write was decided for: the next pass knows better.
    Outdated,
    /// The right is missing.
    Denied,
    /// The server asks to come back later.
    Later(Duration),
    /// It was refused.
    Refused(Refusal),
    /// It was not answered, or somebody else kept writing.
    Failed(String),
}

impl Sent {
    fn of(answer: Result<Value, ApiError>, action: &Action) -> Self {
        let error = match answer {
            Ok(written) => {
                let version = written.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                return Self::Written(version.map(Into::into));
            }
            Err(error) => error,
        };
        match error {
            ApiError::Throttled { retry_after } => Self::Later(retry_after),
            ApiError::NotFound(_) => Self::Outdated,
            ApiError::Conflict(_) if action.precondition().resource_version.is_some() => Self::Outdated,
            error if error.lacks_right() => Self::Denied,
            error => match error.refusal() {
                Some(refusal) => Self::Refused(refusal),
                None => {
                    Self::Failed(error.silence().map_or_else(|| error.to_string(), |silence| silence.message))
                }
            },
        }
    }
}

impl<K> Clone for Informing<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> fmt::Debug for Informing<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informing").finish_non_exhaustive()
    }
}

impl Slot {
    fn new(epoch: Epoch, uid: Box<str>) -> Self {
        Self {
            epoch,
            uid,
            wanted: Vec::new(),
            acknowledged: Vec::new(),
            under_way: false,
            trouble: HashMap::new(),
        }
    }

    fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.acknowledged.is_empty() && !self.under_way
    }

    /// Until when a write is not to be retried.
    fn not_before(&self, action: &Action, now: Instant) -> Option<Instant> {
        let own = self.trouble.get(&discriminant(action.verb()));
        own.and_then(|trouble| trouble.not_before).filter(|at| *at > now)
    }

    /// What is reported of the object.
    fn refused(&self) -> Option<&Refusal> {
        self.trouble
            .values()
            .filter_map(|trouble| trouble.refused.as_ref())
            .min_by_key(|refusal| &refusal.message)
    }

    /// Notes what became of a write.
    fn sent<K>(&mut self, job: &Job<K>, sent: Sent, delay: impl FnOnce(u32) -> Duration) {
        let action = &job.action;
        self.under_way = false;
        match sent {
            Sent::Closed if self.epoch == job.epoch => self.wanted.clear(),
            Sent::Written(version) => {
                self.trouble.remove(&discriminant(action.verb()));
                self.wanted.retain(|wanted| wanted != action);
                self.acknowledged.extend(version.map(|version| (action.clone(), version)));
            }
            Sent::Outdated => self.wanted.retain(|wanted| wanted != action),
            // What is wanted now was submitted in a later term, or the rights know when it may be retried.
            Sent::Closed | Sent::Denied => {}
            Sent::Later(after) => self.trouble_of(action).not_before = Some(Instant::now() + after),
            Sent::Refused(refusal) => self.trouble_of(action).failed(Some(refusal), delay),
            Sent::Failed(message) => {
                let trouble = self.trouble_of(action);
                let lasts = trouble.failures + 1 >= UNANSWERED_REPORTED_AFTER;
                trouble.failed(lasts.then_some(Refusal { webhook: None, message }), delay);
            }
        }
    }

    fn trouble_of(&mut self, action: &Action) -> &mut Trouble {
        self.trouble.entry(discriminant(action.verb())).or_default()
    }
}

impl Trouble {
    fn failed(&mut self, refusal: Option<Refusal>, delay: impl FnOnce(u32) -> Duration) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + delay(self.failures));
        // The first words of a refusal are kept: the next ones may differ in a port or a time.
        let webhook = |refusal: &Refusal| refusal.webhook.clone();
        if refusal.is_some() && self.refused.as_ref().map(webhook) != refusal.as_ref().map(webhook) {
            self.refused = refusal;
        }
    }
}

impl<K: Clone + Ord> Informing<K> {
    /// Informs through this executor.
    pub fn new(executor: Arc<Executor>, wake: Wake<K>) -> Self {
        let state = Mutex::new(State { slots: BTreeMap::new(), closed: false });
        let changed = Notify::new();
        Self { shared: Arc::new(Shared { executor, wake, state, changed }) }
    }

    /// All that is due for a key now, in the order in which it is to be written on each object. What was due before and
    /// is not any more is not written.
    pub fn submit<'a>(&self, key: &K, epoch: Epoch, actions: impl IntoIterator<Item = &'a Action>) {
        let mut due: BTreeMap<&Object, Vec<&Action>> = BTreeMap::new();
        for action in actions {
            due.entry(action.object()).or_default().push(action);
        }
        let mut state = self.state();
        if state.closed || (due.is_empty() && !state.slots.contains_key(key)) {
            return;
        }
        let slots = state.slots.entry(key.clone()).or_default();
        for (object, actions) in &due {
            if !slots.contains_key(*object) {
                let uid = actions.first().map(|action| action.precondition().uid.clone()).unwrap_or_default();
                slots.insert((*object).clone(), Slot::new(epoch, uid));
            }
        }
        for (object, slot) in slots.iter_mut() {
            let seen = self.shared.executor.store().seen(object);
            slot.acknowledged.retain(|(action, version)| {
                let (uid, resource_version) = (action.precondition().uid.clone(), version.clone());
                !Expectation::AtLeast { uid, resource_version }.is_met(seen.as_ref(), None)
            });
            let wanted = due.remove(object).unwrap_or_default().into_iter();
            let acknowledged = |action: &&Action| slot.acknowledged.iter().any(|(done, _)| done == *action);
            slot.wanted = wanted.filter(|action| !acknowledged(action)).cloned().collect();
            slot.epoch = epoch;
        }
        let outlived = slots.values().any(|slot| slot.is_idle() && slot.refused().is_some());
        slots.retain(|_, slot| !slot.is_idle());
        if slots.is_empty() {
            state.slots.remove(key);
        }
        drop(state);
        self.shared.changed.notify_one();
        if outlived {
            (self.shared.wake)(key);
        }
    }

    /// The objects of a key, by UID, on which something cannot be written, and why.
    pub fn refusals(&self, key: &K) -> Vec<(Box<str>, Refusal)> {
        let state = self.state();
        let slots = state.slots.get(key).into_iter().flat_map(BTreeMap::values);
        slots.filter_map(|slot| Some((slot.uid.clone(), slot.refused()?.clone()))).collect()
    }

    /// Takes nothing more; [`Self::run`] ends once no write is under way.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        for slot in state.slots.values_mut().flat_map(BTreeMap::values_mut) {
            slot.wanted.clear();
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Sends what is submitted until it is closed.
    pub async fn run(self) {
        let mut under_way = FuturesUnordered::new();
        loop {
            let (jobs, due) = self.take_due(MAX_UNDER_WAY.saturating_sub(under_way.len()));
            under_way.extend(jobs.into_iter().map(|job| self.send(job)));
            if under_way.is_empty() && self.state().closed {
                return;
            }
            tokio::select! {
                biased;
                () = self.shared.changed.notified() => {}
                Some((job, sent)) = under_way.next(), if !under_way.is_empty() => self.done(&job, sent),
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.shared.state.lock()
    }

    /// Takes as many writes as may be sent now, and says when the next one may be.
    fn take_due(&self, limit: usize) -> (Vec<Job<K>>, Option<Instant>) {
        let now = Instant::now();
        let (mut jobs, mut next) = (Vec::new(), None::<Instant>);
        let mut state = self.state();
        for (key, slots) in &mut state.slots {
            for slot in slots.values_mut().filter(|slot| !slot.under_way && !slot.wanted.is_empty()) {
                let later = |at: Instant, next: Option<Instant>| Some(next.map_or(at, |next| next.min(at)));
                let waits = |action: &Action| self.denied_until(action).max(slot.not_before(action, now));
                let permitted = slot.wanted.iter().find(|action| waits(action).is_none());
                match permitted {
                    // The end of one that is under way brings the next look.
                    Some(_) if jobs.len() >= limit => {}
                    Some(action) => {
                        let (key, action) = (key.clone(), action.clone());
                        jobs.push(Job { key, epoch: slot.epoch, action });
                        slot.under_way = true;
                    }
                    None => {
                        let until = slot.wanted.iter().filter_map(waits).min();
                        next = until.map_or(next, |until| later(until, next));
                    }
                }
            }
        }
        (jobs, next)
    }

    /// Until when no way to carry out a write is permitted.
    fn denied_until(&self, action: &Action) -> Option<Instant> {
        let rights = self.shared.executor.api().rights();
        let patch = rights.denied_until(&patch_right(action))?;
        match update_right(action) {
            Some(update) => rights.denied_until(&update).map(|update| update.min(patch)),
            None => Some(patch),
        }
    }

    async fn send(&self, job: Job<K>) -> (Job<K>, Sent) {
        let sent = self.write(&job.action, job.epoch).await.unwrap_or(Sent::Closed);
        (job, sent)
    }

    /// Patches or, where only that is permitted, reads and updates; `None` once the term is over.
    async fn write(&self, action: &Action, epoch: Epoch) -> Option<Sent> {
        let executor = &self.shared.executor;
        let rights = executor.api().rights();
        let (patch, update) = (patch_right(action), update_right(action));
        if rights.attempt(&patch) {
            let answer = executor.inform(action, epoch).await?;
            let is_denied = note(rights, &patch, &answer);
            if !is_denied || update.is_none() {
                return Some(Sent::of(answer, action));
            }
        }
        // The write of another object finds out whether the right has been granted since.
        let Some(update) = update.filter(|update| rights.attempt(update)) else { return Some(Sent::Denied) };
        let answer = executor.inform_by_update(action, epoch).await?;
        note(rights, &update, &answer);
        Some(Sent::of(answer, action))
    }

    fn done(&self, job: &Job<K>, sent: Sent) {
        let chance = self.shared.executor.api().chance();
        let mut state = self.state();
        let Some(slots) = state.slots.get_mut(&job.key) else { return };
        let Some(slot) = slots.get_mut(job.action.object()) else { return };
        let before = slot.refused().cloned();
        slot.sent(job, sent, |failures| backoff::delay(failures, chance));
        let changed = slot.refused() != before.as_ref();
        slots.retain(|_, slot| !slot.is_idle());
        if slots.is_empty() {
            state.slots.remove(&job.key);
        }
        drop(state);
        if changed {
            (self.shared.wake)(&job.key);
        }
    }
}

/// Notes what an answer says about a right: whether it is denied.
fn note(rights: &Rights, right: &Right, answer: &Result<Value, ApiError>) -> bool {
    match answer {
        Ok(_) => rights.grant(right),
        Err(error) if error.lacks_right() => {
            rights.deny(right, &error.words());
            return true;
        }
        Err(_) => {}
    }
    false
}

fn patch_right(action: &Action) -> Right {
    let resource = match action.verb() {
        Verb::MergeStatus { .. } | Verb::ReplaceStatus { .. } => status_of(action),
        _ => action.object().kind.plural().into(),
    };
    Right { verb: "patch", resource, namespace: Arc::clone(&action.object().namespace) }
}

/// What is needed instead of the right to patch, where there is another way.
fn update_right(action: &Action) -> Option<Right> {
    let namespace = Arc::clone(&action.object().namespace);
    let update = || Right { verb: "update", resource: status_of(action), namespace };
    matches!(action.verb(), Verb::MergeStatus { .. }).then(update)
}

/// The status subresource as RBAC names it.
fn status_of(action: &Action) -> Cow<'static, str> {
    format!("{}/status", action.object().kind).into()
}

#[cfg(test)]
#[path = "informing_tests.rs"]
mod tests;
