//! The executor: every write of every controller, and the four safety rules in one place.
//!
//! - Rule A: a disruption carries the UID and the version it was decided under. The planner cannot express one
//!   without; here they become preconditions of the request.
//! - Rule B: a lane is entered for planning only when the view shows the lane's own acknowledged writes.
//! - Rule C: nothing is written before the caches have been listed consistently in this term of leadership;
//!   [`Gate`] is closed until then.
//! - Rule D: a disruption without an answer is read back, consistently, before the lane plans again.
//!
//! A lane belongs to one disruption domain (a namespace and group). Whoever wants to disrupt something in a
//! domain plans inside its lane, so that no two controllers get leave from the same view.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use sts_plus_planner::plan::{Action, Batch, Object, Verb};
use sts_plus_planner::set::SetRow;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::Instant;

use super::api::{Api, ApiError, Place};
use super::cache::Store;
use super::expectations::{Expectation, Expectations, SEEN_WITHIN, Unknown};
use super::lease::{Epoch, Leadership};
use super::metrics::WriteLabels;

/// Writes of one batch that are under way together: enough for a wide rollout, few enough not to be a burst.
const MAX_PARALLEL_WRITES: usize = 16;

/// The wait after a conflict that no change in the view will tell the end of: the server itself has tried five times.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);

/// What must not be disturbed by two at once: a rollout group, or a set that is in none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The group's name.
    pub group: Arc<str>,
}

/// Open while this process leads and its caches are consistent in this term.
#[derive(Clone, Debug)]
pub struct Gate {
    leadership: Leadership,
    consistent: watch::Receiver<Option<Epoch>>,
}

impl Gate {
    /// A gate that opens when `consistent` names the present term of `leadership`.
    pub fn new(leadership: Leadership, consistent: watch::Receiver<Option<Epoch>>) -> Self {
        Self { leadership, consistent }
    }

    /// The term in which writes are allowed right now.
    pub fn open(&self) -> Option<Epoch> {
        let consistent = *self.consistent.borrow();
        consistent.filter(|epoch| self.leadership.permits(*epoch))
    }
}

/// Performs plans.
#[derive(Debug)]
pub struct Executor {
    api: Api,
    store: Arc<Store>,
    gate: Gate,
    lanes: Mutex<HashMap<Domain, Arc<tokio::sync::Mutex<Expectations>>>>,
}

/// Why a lane cannot be planned in, or a plan was not carried out to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// This process does not lead, or its view is not consistent yet.
    Closed,
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
        let group = set.group.clone().unwrap_or_else(|| format!("uid/{}", set.uid).into());
        Self { namespace: Arc::clone(&set.namespace), group }
    }
}

impl Executor {
    /// An executor over a client, a view and a gate.
    pub fn new(api: Api, store: Arc<Store>, gate: Gate) -> Self {
        Self { api, store, gate, lanes: Mutex::default() }
    }

    /// Enters the lane of a domain, waiting for whoever is in it, and makes sure that the view may be
    /// planned on.
    pub async fn enter(&self, domain: &Domain) -> Result<Lane<'_>, Halt> {
        let epoch = self.gate.open().ok_or(Halt::Closed)?;
        let lane = {
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(lanes.entry(domain.clone()).or_default())
        };
        let mut lane = Lane { executor: self, epoch, expectations: lane.lock_owned().await };
        lane.settle().await?;
        Ok(lane)
    }

    /// Forgets the lane of a domain that is no more, unless it still waits to see its own writes.
    pub fn forget(&self, domain: &Domain) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = lanes.get(domain).is_some_and(|lane| lane.try_lock().is_ok_and(|lane| lane.is_empty()));
        if idle {
            lanes.remove(domain);
        }
    }

    /// Writes if the term is still on; `None` if not. Asked anew before each write, since the lease may have run
    /// out while another one was under way.
    async fn attempt<'a>(
        &self,
        action: &'a Action,
        epoch: Epoch,
    ) -> (&'a Action, Option<Result<Value, ApiError>>) {
        let permitted = self.gate.open() == Some(epoch);
        (action, if permitted { Some(self.write(action).await) } else { None })
    }

    async fn write(&self, action: &Action) -> Result<Value, ApiError> {
        let Action { object, precondition, verb } = action;
        let place = place(object);
        match verb {
            Verb::Create { body, manager } => {
                let collection = Place::collection(place.resource, place.namespace);
                self.api.create(collection, manager, &named(body.clone(), &place)).await
            }
            Verb::StrategicMerge { body, manager } => {
                self.api.strategic_merge(place, manager, &guarded(body, action)).await
            }
            Verb::Delete => {
                let mut required = json!({ "uid": precondition.uid });
                if let (Some(version), Some(fields)) =
                    (&precondition.resource_version, required.as_object_mut())
                {
                    fields.insert("resourceVersion".to_owned(), json!(version));
                }
                let options = json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": required,
                });
                self.api.delete(place, &options).await
            }
            Verb::Apply { body, manager, .. } => {
                self.api.apply(place, manager, &named(guarded(body, action), &place)).await
            }
            Verb::ReplaceStatus { status, manager } => {
                let body = guarded(&json!({ "status": status }), action);
                self.api.replace(place.subresource("status"), manager, &named(body, &place)).await
            }
            Verb::Merge { body, manager } => self.api.merge(place, manager, &guarded(body, action)).await,
            Verb::MergeStatus { body, manager } => {
                self.api.merge(place.subresource("status"), manager, &guarded(body, action)).await
            }
        }
    }
}

/// A body insists on the UID and the version in its own metadata.
fn guarded(body: &Value, action: &Action) -> Value {
    let mut body = body.clone();
    if let Some(fields) = body.as_object_mut() {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("uid".to_owned(), json!(action.precondition.uid));
            if let Some(version) = &action.precondition.resource_version {
                metadata.insert("resourceVersion".to_owned(), json!(version));
            }
        }
    }
    body
}

/// A whole object says what it is.
fn named(mut body: Value, place: &Place<'_>) -> Value {
    let (api_version, kind) = place.resource.identity();
    if let Some(fields) = body.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!(api_version));
        fields.insert("kind".to_owned(), json!(kind));
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("name".to_owned(), json!(place.name));
            metadata.insert("namespace".to_owned(), json!(place.namespace));
        }
    }
    body
}

fn place(object: &Object) -> Place<'_> {
    Place::object(object.kind.into(), &object.namespace, &object.name)
}

/// Exclusive leave to plan for a domain and to carry the plan out.
#[derive(Debug)]
pub struct Lane<'e> {
    executor: &'e Executor,
    epoch: Epoch,
    expectations: OwnedMutexGuard<Expectations>,
}

impl Lane<'_> {
    /// Rules B and D: the view shows our own writes, and no disruption's answer is missing.
    async fn settle(&mut self) -> Result<(), Halt> {
        let store = &self.executor.store;
        self.expectations.look(|object| store.seen(object), Instant::now());
        let mut unread = self.expectations.to_read().into_iter();
        while let Some(unknown) = unread.next() {
            if let Err(halt) = self.read_back(unknown).await {
                unread.for_each(|unknown| self.expectations.lost_answer(unknown));
                return Err(halt);
            }
        }
        self.expectations.look(|object| store.seen(object), Instant::now());
        match self.expectations.awaited_until() {
            Some(until) => Err(Halt::NotSeenYet { until }),
            None => Ok(()),
        }
    }

    /// Reads an object of unknown state; the view must then be at least as new as what was read.
    async fn read_back(&mut self, unknown: Unknown) -> Result<(), Halt> {
        let text = |value: &Value, key: &str| -> Box<str> {
            value.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default().into()
        };
        let expectation = match self.executor.api.get(place(&unknown.object)).await {
            Ok(value) if text(&value, "uid") == unknown.uid => Expectation::AtLeast {
                uid: unknown.uid.clone(),
                resource_version: text(&value, "resourceVersion"),
            },
            // Also when its successor is there: the view may not even know that it went.
            Ok(_) | Err(ApiError::NotFound(_)) => Expectation::Gone { uid: unknown.uid.clone() },
            Err(error) => {
                // Still unknown: nothing is disrupted before it can be read.
                self.expectations.lost_answer(unknown);
                return Err(halt(error));
            }
        };
        let object = unknown.object;
        tracing::info!(namespace = %object.namespace, name = %object.name, ?expectation, "read back");
        self.expectations.expect(object, expectation, Instant::now());
        Ok(())
    }

    /// Carries out batch after batch. After the first write that did not succeed the rest of its batch ends and
    /// no further batch starts: the next pass plans again.
    pub async fn perform(&mut self, batches: &[Batch]) -> Result<(), Halt> {
        for batch in batches {
            let attempts = batch.actions.iter().map(|action| self.executor.attempt(action, self.epoch));
            let attempts: Vec<_> = attempts.collect();
            let mut under_way = futures::stream::iter(attempts).buffer_unordered(MAX_PARALLEL_WRITES);
            let mut halted = None;
            while let Some((action, answer)) = under_way.next().await {
                let ended = match answer {
                    Some(answer) => self.note(action, answer),
                    None => Err(Halt::Closed),
                };
                halted = halted.or(ended.err());
            }
            if let Some(halt) = halted {
                return Err(halt);
            }
        }
        Ok(())
    }

    /// Notes what an answer means for later plans.
    fn note(&mut self, action: &Action, answer: Result<Value, ApiError>) -> Result<(), Halt> {
        let now = Instant::now();
        let uid = || action.precondition.uid.clone();
        let object = || action.object.clone();
        self.count(action, &answer);
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
            Err(error @ ApiError::Unanswered(_)) if action.disrupts() => {
                self.expectations.lost_answer(Unknown { object: object(), uid: uid() });
                Err(Halt::Failed(error))
            }
            Err(error) => Err(halt(error)),
        }
    }

    fn count(&self, action: &Action, answer: &Result<Value, ApiError>) {
        let verb = match action.verb {
            Verb::Create { .. } => "create",
            Verb::StrategicMerge { .. } => "strategic_merge",
            Verb::Delete => "delete",
            Verb::Apply { .. } => "apply",
            Verb::ReplaceStatus { .. } => "replace_status",
            Verb::Merge { .. } => "merge",
            Verb::MergeStatus { .. } => "merge_status",
        };
        let outcome = match answer {
            Ok(_) => "done",
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => "precondition_failed",
            Err(ApiError::Throttled { .. }) => "throttled",
            Err(ApiError::Unanswered(_)) => "unanswered",
            Err(_) => "refused",
        };
        let Object { namespace, name, .. } = &action.object;
        match answer {
            Ok(_) => tracing::info!(%namespace, %name, verb, "written"),
            // Somebody else was faster, which is what preconditions are for.
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => {
                tracing::info!(%namespace, %name, verb, outcome, "not written");
            }
            Err(error) => tracing::warn!(%namespace, %name, verb, outcome, "not written: {error}"),
        }
        self.executor.api.metrics().writes.get_or_create(&WriteLabels { verb, outcome }).inc();
    }
}

fn halt(error: ApiError) -> Halt {
    match error {
        ApiError::Throttled { retry_after } => Halt::Throttled { retry_after },
        error => Halt::Failed(error),
    }
}

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
