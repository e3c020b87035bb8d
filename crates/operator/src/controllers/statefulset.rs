//! The statefulset controller: one key per set, one pass per change.

use std::sync::Arc;

use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_planner::plan::{Action, Ask, Note, Object, Plan, object_of};
use sts_plus_planner::reason::{Reason, Refusal, Severity};
use sts_plus_planner::set::SetRow;
use sts_plus_planner::statefulset::world::{Features, Memory, Presence, World};
use sts_plus_planner::statefulset::{
    Answer, Blocked, Decision, Gauges, Purpose, plan, report, report_refused_revision,
};
use tokio::time::Instant;

use super::Planner;
use super::trouble::Trouble;
use crate::runtime::{
    self, Concern, Controller, Doubt, End, Label, Lanes, Learned, Learning, Measured, Next, Pass, Planned,
    Voice,
};
use crate::shell::api::{ApiError, Kind};
use crate::shell::cache::{Store, Touched};
use crate::shell::executor::{self, Domain, Halt};
use crate::shell::metrics::Metrics;
use crate::shell::statefulset_metrics::SetLabels;

/// What a plan for a set looks at.
const READS: [Kind; 4] = [Kind::StatefulSet, Kind::Pod, Kind::Claim, Kind::Revision];

/// A set by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl runtime::Key for Key {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn label(&self) -> Label<'_> {
        Label::Set(&self.name)
    }
}

#[derive(Debug)]
pub struct StatefulSets {
    features: Features,
    planner: Planner<World, Result<Decision, Blocked>>,
}

/// What is remembered of a set between passes. Losing it costs a status write, nothing else.
#[derive(Debug, Default)]
pub struct Known {
    status_written: Option<Instant>,
    /// Why the status could not be written. The pods do not wait for that.
    status_trouble: Trouble,
    /// Whether it was reported that the update revision cannot be stored.
    revision_refused: bool,
    shown: Option<SetLabels>,
}

/// What a plan was made on, and what it says beyond its writes.
#[derive(Debug)]
pub struct Detail {
    world: World,
    /// For each step of the plan, what each of its writes is for.
    purposes: Vec<Vec<Purpose>>,
    gauges: Option<Gauges>,
    /// The revision that the plan makes the latest one that is stored.
    stored: Option<Object>,
}

impl StatefulSets {
    /// A controller with these features.
    pub fn new(features: Features) -> Self {
        Self { features, planner: plan }
    }

    /// The same with another planner than that of the product, which a test may bring.
    #[must_use]
    pub fn planned_by(self, planner: Planner<World, Result<Decision, Blocked>>) -> Self {
        Self { planner, ..self }
    }
}

impl Controller for StatefulSets {
    type Key = Key;
    type Memory = Known;
    type Detail = Detail;

    fn kind(&self) -> Kind {
        Kind::StatefulSet
    }

    fn reads(&self) -> &'static [Kind] {
        &READS
    }

    fn controls_sets(&self) -> bool {
        true
    }

    fn concerned(&self, _: &Store, touched: &Touched) -> Vec<Concern<Key>> {
        let (namespace, set, is_urgent) = match touched {
            // Only a new spec cuts a back-off short.
            Touched::Respecified { namespace, set } => (namespace, set, true),
            Touched::Set { namespace, set, .. } | Touched::Surroundings { namespace, set } => {
                (namespace, set, false)
            }
            Touched::Rollout { .. }
            | Touched::Scaling { .. }
            | Touched::Extended { .. }
            | Touched::Object { .. }
            | Touched::Confirmed => return Vec::new(),
        };
        let key = Key { namespace: Arc::clone(namespace), name: Arc::clone(set) };
        vec![Concern { key, is_urgent }]
    }

    fn all(&self, rows: &Store) -> Vec<Key> {
        rows.controlled().into_iter().map(|(namespace, name)| Key { namespace, name }).collect()
    }

    fn lanes(&self, rows: &Store, key: &Key) -> Option<Lanes> {
        let set = rows.set(&key.namespace, &key.name)?;
        Some(Lanes { domains: vec![Domain::of(&set)], own: Some(Arc::clone(&set.uid)) })
    }

    fn plan(&self, pass: &mut Pass<'_, Self>) -> Option<Planned<Detail>> {
        let Key { namespace, name } = pass.key;
        let set = pass.rows.set(namespace, name)?;
        let found = found_out(pass, &set);
        let (memory, found) = match found {
            Ok(memory) => (memory, Ok(())),
            Err(halt) => (Memory::default(), Err(halt)),
        };
        let world = pass.rows.world_of_set(namespace, name, memory, self.features)?;
        let planned = |world: World, plan: Plan, end: End| {
            let domains = vec![Domain::of(&world.set)];
            let detail = Detail { world, purposes: Vec::new(), gauges: None, stored: None };
            Some(Planned { end, ..Planned::new(domains, plan, detail) })
        };
        if let Err(halt) = found {
            return planned(world, Plan::default(), End::Halted(halt));
        }
        if let Some(Doubt::OwnWrites(why)) = pass.doubt {
            let plan = Plan { notes: vec![unconfirmed(&world.set, why)], ..Plan::default() };
            return planned(world, plan, End::Halted(Halt::Unconfirmed(Arc::clone(why))));
        }
        match (self.planner)(&world, pass.moment.now) {
            Err(blocked) => {
                let (notes, end) = explain(&world.set, &blocked);
                planned(world, Plan { notes, ..Plan::default() }, end)
            }
            Ok(mut decision) => {
                if pass.memory.status_trouble.retry_at(pass.moment.at).is_some() {
                    decision.drop_status();
                }
                let stored = decision.stored_revision().map(|action| action.object().clone());
                let Decision { plan, purposes, gauges } = decision;
                let domains = vec![Domain::of(&world.set)];
                Some(Planned::new(domains, plan, Detail { world, purposes, gauges, stored }))
            }
        }
    }

    fn learn(&self, learning: Learning<'_, Self>) -> Learned<Detail> {
        let Learning { memory, planned, carried, refusals, answered_at, backoff, .. } = learning;
        let Detail { world, purposes, stored, .. } = &planned.detail;
        let is_stored = |action: &Action| stored.as_ref() == Some(action.object());
        let answer = carried.answered().find(|(action, _)| is_stored(action));
        if let Some((revision, Err(ApiError::AlreadyExists(_)))) = answer {
            let asks = vec![Ask::Read(revision.object().clone())];
            return Learned { next: Next::Again(asks), ..Learned::of(carried) };
        }
        let mut notes = Vec::new();
        if let Some((revision, _)) = answer {
            let refusal = refusals.iter().find(|(action, _)| is_stored(action)).map(|(_, refusal)| refusal);
            notes.extend(revision_refused(memory, &world.set, revision, refusal));
        }
        let mut halt = None;
        for (step, purposes) in carried.steps.iter().zip(purposes) {
            notes.extend(answers(world, step, purposes));
            let is_status = purposes.contains(&Purpose::Status);
            match step.halt.clone() {
                None if is_status && step.answers.iter().any(Option::is_some) => {
                    memory.status_written = Some(answered_at);
                    memory.status_trouble = Trouble::default();
                }
                // A status that could not be written has a back-off of its own.
                Some(Halt::Failed(error)) if is_status => {
                    let (namespace, name) = (&world.set.namespace, &world.set.name);
                    tracing::warn!(%namespace, set = %name, "the status could not be written: {error}");
                    let delay = |failures| backoff.delay(failures);
                    // A refusal does not pass by itself, so it is reported once.
                    let refusal = memory.status_trouble.failed(&error, (answered_at, step.took), delay);
                    notes.extend(refusal.map(|refusal| refused(&world.set, &refusal)));
                }
                None => {}
                Some(other) => halt = Some(other.or_worse(halt)),
            }
        }
        if let Some(Halt::Unconfirmed(why)) = &halt {
            notes.push(unconfirmed(&world.set, why));
        }
        let retry_at = memory.status_trouble.retry_at(answered_at);
        Learned { notes, halt, retry_at, ..Learned::of(carried) }
    }

    fn measure(&self, metrics: &Metrics, key: &Key, measured: Measured<'_, Self>) {
        match measured {
            Measured::Planned { planned, memory, .. } if planned.end == End::Settled => {
                show(metrics, key, &planned.detail, memory);
            }
            Measured::Gone { memory } => {
                if let Some(labels) = &memory.shown {
                    metrics.statefulset.forget(labels);
                }
            }
            Measured::Planned { .. }
            | Measured::Passed { .. }
            | Measured::Queried { .. }
            | Measured::Hooked { .. } => {}
        }
    }

    fn voice(&self) -> Voice {
        Voice { component: Some(keys::STATEFULSET_COMPONENT), is_quiet: true }
    }
}

/// What a plan knows beyond rows: the set, and the revisions with names that were to be given to a new one, as they were read
/// in this pass.
fn found_out(pass: &Pass<'_, StatefulSets>, set: &SetRow) -> Result<Memory, Halt> {
    let status_age = pass.memory.status_written.map(|written| pass.moment.at.duration_since(written));
    let mut memory = Memory { status_age, ..Memory::default() };
    for (object, answer) in &pass.answers.reads {
        let found = answer.clone().map_err(Halt::from)?;
        if *object == object_of(set) {
            memory.presence = Some(found.map_or(Presence::Gone, |found| presence(&found, &set.uid)));
        } else if let Some(found) = found {
            // One that is gone again leaves its name free.
            let name = &object.name;
            let row = pass.rows.read_revision(&found.to_string()).map_err(|error| {
                Halt::Failed(ApiError::Unanswered(format!("unreadable ControllerRevision {name}: {error}")))
            })?;
            memory.taken.insert(name.clone(), Arc::new(row));
        }
    }
    Ok(memory)
}

/// Nothing can be planned: what the user can mend is reported, and the rest passes.
fn explain(set: &SetRow, blocked: &Blocked) -> (Vec<Note>, End) {
    let reason = match blocked {
        Blocked::UnreadableRevision(_) => "RevisionUnreadable",
        Blocked::Collisions(_) => "RevisionCollisions",
        Blocked::NotAlive(_) | Blocked::NameOfFormerSet(_) => {
            return (Vec::new(), End::Blocked(Some(blocked.to_string())));
        }
    };
    (vec![Note::of_set(set, Severity::Warning, reason, blocked.to_string())], End::Blocked(None))
}

/// A pod is not deleted because the view could not be confirmed.
fn unconfirmed(set: &SetRow, why: &Arc<str>) -> Note {
    let reason = Reason::ViewUnconfirmed { why: Arc::clone(why) };
    Note::of_set(set, reason.severity(), reason.kind(), reason.to_string())
}

fn refused(set: &SetRow, refusal: &Refusal) -> Note {
    Note::of_set(set, Severity::Warning, Reason::WRITE_REFUSED, refusal.to_string())
}

/// Reports once that the update revision cannot be stored, until it is.
fn revision_refused(
    memory: &mut Known,
    set: &SetRow,
    revision: &Action,
    refusal: Option<&Refusal>,
) -> Option<Note> {
    let before = std::mem::replace(&mut memory.revision_refused, refusal.is_some());
    refusal.filter(|_| !before).map(|refusal| report_refused_revision(set, revision, refusal))
}

/// What to report of the answers to a step.
fn answers(world: &World, step: &executor::Carried<'_>, purposes: &[Purpose]) -> Vec<Note> {
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
    report(world, answered)
}

/// Shows what the plan says of the budget; nothing where it says nothing any more.
fn show(metrics: &Metrics, key: &Key, Detail { world, gauges, .. }: &Detail, memory: &mut Known) {
    let labels = SetLabels {
        namespace: Arc::clone(&key.namespace),
        name: Arc::clone(&key.name),
        pod_management_policy: world.spec.management.into(),
    };
    let shown = gauges.map(|gauges| {
        metrics.statefulset.show(&labels, gauges);
        labels
    });
    let before = std::mem::replace(&mut memory.shown, shown);
    if let Some(before) = before.filter(|before| memory.shown.as_ref() != Some(before)) {
        metrics.statefulset.forget(&before);
    }
}

fn presence(found: &Value, uid: &str) -> Presence {
    let metadata = |key: &str| found.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
    if metadata("uid") != Some(uid) {
        Presence::Gone
    } else if metadata("deletionTimestamp").is_some() {
        Presence::Deleting
    } else {
        Presence::Alive
    }
}

#[cfg(test)]
#[path = "statefulset_tests.rs"]
mod tests;
