//! The statefulset controller: one key per set, one pass per change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_planner::plan::{Action, Ask, Note, Object};
use sts_plus_planner::reason::{Reason, Refusal, Severity};
use sts_plus_planner::set::SetRow;
use sts_plus_planner::statefulset::world::{Features, Management, Memory, Standing, World};
use sts_plus_planner::statefulset::{
    Answer, Blocked, Decision, Gauges, Purpose, plan, report, report_refused_revision,
};
use tokio::time::Instant;

use super::later;
use super::trouble::Trouble;
use crate::shell::api::{Api, ApiError, Kind, Place};
use crate::shell::backoff;
use crate::shell::cache::{Cache, Touched};
use crate::shell::events::Recorder;
use crate::shell::executor::{self, Basis, CarriedOut, Domain, Executor, Halt, Lane, SETS_AND_PODS};
use crate::shell::metrics::{ControllerLabel, Metrics};
use crate::shell::queue::{Outcome, Queue};
use crate::shell::statefulset_metrics::SetLabels;

/// The controller's name in flags and metrics.
pub const NAME: &str = "statefulset";

/// Plans made in one pass: one that asks for the set, and one for each name of a revision that turns out to be taken, of
/// which the planner itself bears sixteen.
const MAX_PLANS: usize = 20;

/// What a plan for a set looks at.
const READS: [Kind; 4] = [Kind::StatefulSet, Kind::Pod, Kind::Claim, Kind::Revision];

/// A set by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    namespace: Arc<str>,
    name: Arc<str>,
}

/// Controls sets.
#[derive(Debug)]
pub struct StatefulSets {
    queue: Arc<Queue<Key>>,
    cache: Cache,
    executor: Arc<Executor>,
    api: Api,
    recorder: Recorder,
    metrics: Metrics,
    features: Features,
    known: Mutex<HashMap<Key, Known>>,
}

/// What is remembered of a set between passes. Losing it costs a status write, nothing else.
#[derive(Debug)]
struct Known {
    uid: Arc<str>,
    domain: Domain,
    status_written: Option<Instant>,
    /// Why the status could not be written. The pods do not wait for that.
    status_trouble: Trouble,
    /// Whether it was reported that the update revision cannot be stored.
    revision_refused: bool,
    shown: Option<SetLabels>,
}

/// How the writes of a plan ended.
#[derive(Debug)]
enum Carried {
    /// As far as they go; what went wrong where something did.
    Out(Option<Halt>),
    /// The name of the new revision belongs to another one: nothing was written.
    NameTaken(Box<str>),
}

/// Puts what was touched into the queue, at once where a back-off has lost its reason.
pub fn enqueue(queue: &Queue<Key>, touched: &Touched) {
    let key = |namespace: &Arc<str>, set: &Arc<str>| Key {
        namespace: Arc::clone(namespace),
        name: Arc::clone(set),
    };
    match touched {
        Touched::Respecified { namespace, set } => queue.urge(key(namespace, set)),
        Touched::Set { namespace, set, .. } | Touched::Surroundings { namespace, set } => {
            queue.add(key(namespace, set));
        }
        Touched::Rollout { .. } | Touched::Object { .. } | Touched::Confirmed => {}
    }
}

impl StatefulSets {
    /// A controller that takes its keys from `queue`.
    pub fn new(
        queue: Arc<Queue<Key>>,
        cache: Cache,
        (executor, api): (Arc<Executor>, Api),
        recorder: &Recorder,
        metrics: Metrics,
        features: Features,
    ) -> Self {
        let recorder = recorder.of_component(keys::STATEFULSET_COMPONENT);
        Self { queue, cache, executor, api, recorder, metrics, features, known: Mutex::default() }
    }

    /// Asks for a pass over everything.
    pub fn enqueue_all(&self) {
        for (namespace, name) in self.cache.store().controlled() {
            self.queue.add(Key { namespace, name });
        }
    }

    /// Works until the queue is closed.
    pub async fn work(&self) {
        let depth = self.metrics.queue_depth.get_or_create(&ControllerLabel { controller: NAME }).clone();
        while let Some(key) = self.queue.next().await {
            depth.set(i64::try_from(self.queue.depth()).unwrap_or(i64::MAX));
            let outcome = self.pass(&key).await;
            self.queue.done(&key, outcome);
        }
    }

    /// One pass over a set: its lane, then plans until one can be carried out.
    async fn pass(&self, key: &Key) -> Outcome {
        let Some(set) = self.cache.store().set(&key.namespace, &key.name) else {
            self.forget(key);
            return Outcome::Settled;
        };
        let domain = Domain::of(&set);
        let status_written = self.recall(key, &set, &domain);
        let mut memory = Memory::default();
        let (domains, waiter) = (std::slice::from_ref(&domain), self.queue.waiter(NAME, key));
        let mut lane = match self.executor.enter(domains, Some(&set.uid), waiter).await {
            Ok(lane) => lane,
            Err(halt) => return ended(key, Some(halt), None),
        };
        // Own writes are not shown, and could not be read: what is missing might be created twice.
        if let Some(why) = lane.doubt(&READS) {
            let halt = Halt::Unconfirmed(Arc::clone(why));
            self.tell_unconfirmed(&set, Some(&halt));
            return ended(key, Some(halt), None);
        }
        for _ in 0..MAX_PLANS {
            memory.status_age = status_written.map(|at| at.elapsed());
            let world = self.world(key, memory.clone());
            // A set that has come, gone or moved to another lane meanwhile has its key in the queue again.
            let Some(world) = world.filter(|world| Domain::of(&world.set) == domain) else {
                return Outcome::Settled;
            };
            // Both clocks at once: whoever sets the one while the pass is under way does not move its wake-up.
            let (now, started) = (self.api.now(), Instant::now());
            let mut decision = match plan(&world, now) {
                Err(blocked) => return self.blocked(&world, &blocked),
                Ok(decision) => decision,
            };
            if self.status_retry(key).is_some() {
                decision.drop_status();
            }
            let learned = match (decision.plan.asks.first(), self.renews(&mut lane, &decision).await) {
                (Some(Ask::Read(object)), _) => {
                    self.standing(object, &world.set).await.map(|standing| memory.standing = Some(standing))
                }
                // Nothing of a set is asked of Prometheus.
                (Some(Ask::Query(_)), _) | (None, Ok(true)) => Ok(()),
                (None, Ok(false)) => match self.carry_out(key, &mut lane, &world, &decision).await {
                    Carried::NameTaken(name) => self.read_holder(key, &name, &mut memory).await,
                    Carried::Out(halt) => {
                        drop(lane);
                        self.show(key, &world, decision.gauges);
                        self.tell_unconfirmed(&world.set, halt.as_ref());
                        let wake_at = decision.plan.wake_at.map(|at| later(started, at, now));
                        let wake_at = [wake_at, self.status_retry(key)].into_iter().flatten().min();
                        return ended(key, halt, wake_at);
                    }
                },
                (None, Err(halt)) => Err(halt),
            };
            if let Err(halt) = learned {
                return ended(key, Some(halt), None);
            }
        }
        tracing::warn!(namespace = %key.namespace, set = %key.name, "no plan could be carried out: trying again later");
        Outcome::Failed
    }

    /// Confirms the view for a plan that needs it; whether it was read again, so that the plan has to be made anew. Where it
    /// could not be confirmed, the lane itself refuses what needs it and lets the rest pass.
    async fn renews(&self, lane: &mut Lane<'_>, decision: &Decision) -> Result<bool, Halt> {
        if !decision.plan.needs_confirmed_view() {
            return Ok(false);
        }
        match lane.confirm(&SETS_AND_PODS).await {
            Ok(basis) => Ok(basis == Basis::Renewed),
            Err(Halt::Unconfirmed(_)) => Ok(false),
            Err(halt) => Err(halt),
        }
    }

    /// Reports on the set that a pod is not deleted because the view could not be confirmed.
    fn tell_unconfirmed(&self, set: &SetRow, halt: Option<&Halt>) {
        if let Some(Halt::Unconfirmed(why)) = halt {
            let reason = Reason::ViewUnconfirmed { why: Arc::clone(why) };
            let (severity, message) = (reason.severity(), reason.to_string());
            self.announce(&Note::of_set(set, severity, reason.kind(), message));
        }
    }

    fn world(&self, key: &Key, memory: Memory) -> Option<World> {
        self.cache.store().world_of_set(&key.namespace, &key.name, memory, self.features)
    }

    /// Writes what is planned, and reports what was answered. A status that could not be written has a back-off of its own.
    async fn carry_out(&self, key: &Key, lane: &mut Lane<'_>, world: &World, decision: &Decision) -> Carried {
        let carried = lane.carry_out(&decision.plan.steps).await;
        if let Some(name) = taken_name(decision, &carried) {
            return Carried::NameTaken(name);
        }
        if let Some(revision) = decision.stored_revision() {
            let mut answers = carried.answered().filter(|(action, _)| *action == revision);
            if let Some((_, answer)) = answers.next() {
                let refusal = answer.as_ref().err().and_then(|error| lane.refusal(revision, error));
                self.revision_refused(key, &world.set, revision, refusal);
            }
        }
        let mut halted = None;
        for (step, purposes) in carried.steps.iter().zip(&decision.purposes) {
            self.tell(world, step, purposes);
            let is_status = purposes.contains(&Purpose::Status);
            match step.halt.clone() {
                None if is_status && step.answers.iter().any(Option::is_some) => {
                    self.status_written(key, &world.set);
                }
                Some(Halt::Failed(error)) if is_status => {
                    self.status_failed(key, &world.set, &error, step.took);
                }
                None => {}
                Some(halt) => halted = Some(halt.or_worse(halted)),
            }
        }
        for note in &decision.plan.notes {
            self.announce(note);
        }
        Carried::Out(halted)
    }

    /// The set as the server has it right now.
    async fn standing(&self, object: &Object, set: &SetRow) -> Result<Standing, Halt> {
        let place = Place::object(object.kind, &object.namespace, &object.name);
        match self.api.get(place).await {
            Ok(found) => Ok(standing(&found, &set.uid)),
            Err(ApiError::NotFound(_)) => Ok(Standing::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the revision that has the name which a new one was to be given.
    async fn read_holder(&self, key: &Key, name: &str, memory: &mut Memory) -> Result<(), Halt> {
        let read = self.api.read(Place::object(Kind::Revision, &key.namespace, name)).await;
        let bytes = match read {
            Ok(bytes) => bytes,
            // It has gone again: the name is free.
            Err(ApiError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let text = String::from_utf8_lossy(&bytes);
        let row = self.cache.store().read_revision(&text).map_err(|error| {
            Halt::Failed(ApiError::Unanswered(format!("unreadable ControllerRevision {name}: {error}")))
        })?;
        memory.taken.insert(name.into(), Arc::new(row));
        Ok(())
    }

    /// Reports what was answered to a step.
    fn tell(&self, world: &World, step: &executor::Carried<'_>, purposes: &[Purpose]) {
        let sent = step.writes.iter().zip(purposes).zip(&step.answers);
        let sent = sent.filter_map(|((action, purpose), answer)| Some((action, purpose, answer.as_ref()?)));
        let sent: Vec<(&Action, &Purpose, _)> = sent.collect();
        let words: Vec<_> = sent
            .iter()
            .map(|(.., answer)| match answer {
                Err(error) => error.words(),
                Ok(()) => String::new(),
            })
            .collect();
        let answered = sent.iter().zip(&words).map(|((action, purpose, answer), words)| {
            let answer = match answer {
                Err(ApiError::AlreadyExists(_)) => Answer::AlreadyExists(words),
                Err(ApiError::NotFound(_)) => Answer::NotFound(words),
                Err(ApiError::Conflict(_)) => Answer::Conflict(words),
                Err(_) => Answer::Failed(words),
                Ok(()) => Answer::Done,
            };
            (*action, *purpose, answer)
        });
        for note in report(world, answered) {
            self.announce(&note);
        }
    }

    fn announce(&self, note: &Note) {
        let Note { on, severity, reason, message, .. } = note;
        for subject in on {
            let (namespace, set) = (&subject.namespace, &subject.name);
            if *severity == Severity::Normal {
                tracing::debug!(%namespace, %set, reason, "{message}");
            } else {
                tracing::warn!(%namespace, %set, reason, "{message}");
            }
            self.recorder.record(subject.into(), *severity, reason, message);
        }
    }

    /// Nothing can be planned: what the user can mend is told, and the rest passes.
    fn blocked(&self, world: &World, blocked: &Blocked) -> Outcome {
        let reason = match blocked {
            Blocked::UnreadableRevision(_) => Some("RevisionUnreadable"),
            Blocked::Collisions(_) => Some("RevisionCollisions"),
            Blocked::NotAlive(_) | Blocked::NameOfFormerSet(_) => None,
        };
        let (set, message) = (&world.set, blocked.to_string());
        if let Some(reason) = reason {
            self.announce(&Note::of_set(set, Severity::Warning, reason, message));
        } else {
            tracing::info!(namespace = %set.namespace, set = %set.name, "{message}");
        }
        Outcome::Failed
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.known.lock()
    }

    /// When this process last wrote the status of this very set.
    fn recall(&self, key: &Key, set: &SetRow, domain: &Domain) -> Option<Instant> {
        if self.known().get(key).is_some_and(|known| known.uid != set.uid) {
            self.forget(key);
        }
        let mut known = self.known();
        let known = known.entry(key.clone()).or_insert_with(|| Known {
            uid: Arc::clone(&set.uid),
            domain: domain.clone(),
            status_written: None,
            status_trouble: Trouble::default(),
            revision_refused: false,
            shown: None,
        });
        known.domain = domain.clone();
        known.status_written
    }

    fn status_written(&self, key: &Key, set: &SetRow) {
        if let Some(known) = self.known().get_mut(key).filter(|known| known.uid == set.uid) {
            known.status_written = Some(Instant::now());
            known.status_trouble = Trouble::default();
        }
    }

    /// When a status that could not be written may be tried again; `None` for now.
    fn status_retry(&self, key: &Key) -> Option<Instant> {
        self.known().get(key).and_then(|known| known.status_trouble.retry_at())
    }

    /// The status is tried again with a back-off of its own. A refusal does not pass by itself, so it is reported once.
    fn status_failed(&self, key: &Key, set: &SetRow, error: &ApiError, held: Duration) {
        tracing::warn!(namespace = %set.namespace, set = %set.name, "the status could not be written: {error}");
        let mut known = self.known();
        let known = known.get_mut(key).filter(|known| known.uid == set.uid);
        let delay = |failures| backoff::delay(failures, self.api.chance());
        if let Some(refusal) = known.and_then(|known| known.status_trouble.failed(error, held, delay)) {
            let (severity, reason) = (Severity::Warning, Reason::WRITE_REFUSED);
            self.announce(&Note::of_set(set, severity, reason, refusal.to_string()));
        }
    }

    /// Reports once that the update revision cannot be stored, until it is.
    fn revision_refused(&self, key: &Key, set: &SetRow, revision: &Action, refusal: Option<Refusal>) {
        let mut known = self.known();
        let Some(known) = known.get_mut(key).filter(|known| known.uid == set.uid) else { return };
        let before = std::mem::replace(&mut known.revision_refused, refusal.is_some());
        if let Some(refusal) = refusal.filter(|_| !before) {
            self.announce(&report_refused_revision(set, revision, &refusal));
        }
    }

    /// Shows what the plan says of the budget; nothing where it says nothing any more.
    fn show(&self, key: &Key, world: &World, gauges: Option<Gauges>) {
        let labels = SetLabels {
            namespace: Arc::clone(&key.namespace),
            name: Arc::clone(&key.name),
            pod_management_policy: match world.design.management {
                Management::OrderedReady => "OrderedReady",
                Management::Parallel => "Parallel",
            },
        };
        let shown = gauges.map(|gauges| {
            self.metrics.statefulset.show(&labels, gauges);
            labels
        });
        let mut known = self.known();
        let Some(known) = known.get_mut(key) else { return };
        let before = std::mem::replace(&mut known.shown, shown);
        if let Some(before) = before.filter(|before| known.shown.as_ref() != Some(before)) {
            self.metrics.statefulset.forget(&before);
        }
    }

    /// Drops all that is remembered of a set that is no more.
    fn forget(&self, key: &Key) {
        let Some(known) = self.known().remove(key) else { return };
        if let Some(labels) = &known.shown {
            self.metrics.statefulset.forget(labels);
        }
        self.executor.forget(&known.domain);
    }
}

/// What the end of a pass means for the next one.
fn ended(key: &Key, halt: Option<Halt>, wake_at: Option<Instant>) -> Outcome {
    match halt {
        None => wake_at.map_or(Outcome::Settled, Outcome::WakeAt),
        // Everything is looked at again when the gate opens.
        Some(Halt::Closed) => Outcome::Settled,
        Some(Halt::Unconfirmed(_)) => Outcome::Unconfirmed,
        Some(Halt::NotSeenYet { until } | Halt::Occupied { until }) => {
            Outcome::WakeAt(wake_at.map_or(until, |wake_at| wake_at.min(until)))
        }
        Some(Halt::Throttled { retry_after }) => Outcome::ComeBack(retry_after),
        Some(Halt::Failed(error)) => {
            tracing::error!(namespace = %key.namespace, set = %key.name, "the pass failed: {error}");
            Outcome::Failed
        }
    }
}

/// The revision that could not be created since its name is taken.
fn taken_name(decision: &Decision, carried: &CarriedOut<'_>) -> Option<Box<str>> {
    let revision = decision.stored_revision()?;
    let is_taken = |(action, answer): (&Action, &Result<(), ApiError>)| {
        action == revision && matches!(answer, Err(ApiError::AlreadyExists(_)))
    };
    carried.answered().any(is_taken).then(|| revision.object().name.clone())
}

fn standing(found: &Value, uid: &str) -> Standing {
    let metadata = |key: &str| found.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
    if metadata("uid") != Some(uid) {
        Standing::Gone
    } else if metadata("deletionTimestamp").is_some() {
        Standing::Deleting
    } else {
        Standing::Alive
    }
}

#[cfg(test)]
#[path = "statefulset_tests.rs"]
mod tests;
