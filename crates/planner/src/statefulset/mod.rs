//! The StatefulSet controller: what Kubernetes' own one does, as a pure function.
//!
//! ```text
//!   world -> claiming -> history -> slots -> scale -> update -> Plan
//!            whose pods  which      who is   create,  replace
//!            are these   revisions  where    condemn  outdated ones
//! ```
//!
//! A plan describes the world before it is carried out, and so does its status: any write is followed by another pass.

mod claiming;
mod claims;
mod events;
mod history;
mod identity;
mod scale;
mod slots;
mod status;
mod update;
pub mod world;

use std::fmt;

use jiff::Timestamp;

use crate::plan::Action;
use crate::planted::{self, Bug};
use crate::reason::Severity;
use claiming::Claiming;
pub use events::{tell, tell_refused_revision};
use history::History;
use scale::{Draft, Flow};
use slots::Slots;
use status::Status;
use world::{Standing, World};

/// What shall be done for a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// A read that is needed before anything can be decided; nothing else is planned then.
    pub ask: Option<Ask>,
    /// Writes to pods, claims and revisions: each step only after all of the one before succeeded.
    pub work: Vec<Step>,
    /// The status, where it has to be written now: after the work, as far as [`Plan::status_after`] says.
    pub status: Option<Action>,
    /// Revisions that are not needed any more: after the status, whatever became of that.
    pub trim: Vec<Step>,
    /// What is to be told, whatever becomes of the writes.
    pub notes: Vec<Note>,
    /// When to look again although nothing has changed.
    pub wake_at: Option<Timestamp>,
    /// What the set's metrics show; `None` where upstream shows nothing.
    pub gauges: Option<Gauges>,
}

impl Plan {
    /// The status to write after the work, which ended at the step `failed` if one failed. A revision that could not be
    /// stored must not be named: a rollout group would delete pods for it that nobody can create. As upstream, such a
    /// pass writes no status.
    pub fn status_after(&self, failed: Option<&Step>) -> Option<&Action> {
        let unstored = failed.is_some_and(Step::stores_revision) && !planted::has(Bug::UnstoredRevisionNamed);
        self.status.as_ref().filter(|_| !unstored)
    }
}

/// A read of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Whether the set still is what the cache says: before anything is adopted.
    Standing,
}

/// Writes that may be under way together.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The writes.
    pub tasks: Vec<Task>,
}

impl Step {
    /// Whether it makes the update revision the latest one that is stored.
    pub fn stores_revision(&self) -> bool {
        self.stored_revision().is_some()
    }

    /// The write that does so.
    fn stored_revision(&self) -> Option<&Task> {
        let stores =
            |task: &&Task| matches!(task.purpose, Purpose::CreateRevision | Purpose::RenumberRevision);
        self.tasks.iter().find(stores)
    }
}

/// A write and what it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The write.
    pub action: Action,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a write is for: it decides which events tell of its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A pod for an empty slot.
    CreatePod,
    /// A claim that a pod needs.
    CreateClaim {
        /// The pod.
        pod: Box<str>,
        /// Why the claim is missing.
        need: Need,
    },
    /// A pod that goes: it is terminal, condemned or outdated.
    DeletePod,
    /// Labels or volumes of a pod.
    RepairPod,
    /// The owners of a claim.
    OwnClaim {
        /// The pod.
        pod: Box<str>,
        /// On what occasion.
        alignment: Alignment,
    },
    /// A pod that nothing controlled.
    AdoptPod,
    /// A pod that does not match any more.
    ReleasePod,
    /// A revision that nothing controlled.
    AdoptRevision,
    /// The revision of a new template.
    CreateRevision,
    /// An older revision that becomes the latest.
    RenumberRevision,
    /// A revision beyond the history limit.
    TrimRevision,
}

/// For what a claim is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// For a pod that is about to be created.
    NewPod,
    /// For a pod that is Pending.
    PendingPod,
    /// For a pod whose volumes are repaired.
    Repair,
}

/// On what occasion the owners of a claim are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Its pod is in its slot.
    Repair,
    /// Its pod is Pending.
    Pending,
    /// Its pod is condemned.
    Condemned,
}

/// Something to tell of a set: an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How bad it is.
    pub severity: Severity,
    /// The reason, one word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// It was done.
    Done,
    /// An object of that name exists already.
    AlreadyExists(&'a str),
    /// The object does not exist.
    NotFound(&'a str),
    /// Somebody else was faster.
    Conflict(&'a str),
    /// It was refused or not answered.
    Failed(&'a str),
}

/// What the set's metrics show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauges {
    /// How many pods may be unavailable while the set rolls.
    pub max_unavailable: u32,
    /// How many are.
    pub unavailable: u32,
}

/// Why nothing can be planned for a set: looking again later is all that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Something waits to be adopted by a set that the server says is gone or going.
    NotAlive(Standing),
    /// The data of a revision that is in use does not hold a template.
    UnreadableRevision(Box<str>),
    /// The name of a new revision still belongs to a former set of the same name.
    NameOfFormerSet(Box<str>),
    /// So many revisions of other content have the names of a new one that something is wrong.
    Collisions(u32),
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAlive(standing) => {
                let state = if *standing == Standing::Deleting { "being deleted" } else { "gone" };
                write!(f, "nothing is adopted by a set that is {state} according to the API server")
            }
            Self::UnreadableRevision(name) => write!(
                f,
                "the data of ControllerRevision {name} holds no pod template: restore it, or delete the revision"
            ),
            Self::NameOfFormerSet(name) => write!(
                f,
                "ControllerRevision {name} belongs to a former set of the same name: waiting for its removal"
            ),
            Self::Collisions(count) => {
                write!(f, "{count} names for a new ControllerRevision are all taken by others: delete those")
            }
        }
    }
}

/// Decides what to do for a set.
pub fn plan(world: &World, now: Timestamp) -> Result<Plan, Blocked> {
    match claiming::claim(world)? {
        Claiming::Settled => {}
        Claiming::Ask(ask) => return Ok(Plan { ask: Some(ask), ..Plan::default() }),
        Claiming::Write(step) => return Ok(Plan { work: vec![step], ..Plan::default() }),
    }
    let history = History::of(world)?;
    // A revision in use that cannot be read stops everything before anything is done.
    for revision in [&history.current, &history.update] {
        revision.template()?;
    }
    let slots = Slots::of(world, now);
    let mut draft = Draft { world, now, history, slots, work: Vec::new(), notes: Vec::new() };
    let recorded = draft.history.task.take();
    draft.step(recorded.into_iter().collect());
    if !world.set.deleting && draft.scale()? == Flow::GoOn {
        draft.roll();
    }
    let status = Status::of(&draft);
    let (status, status_due) = status.write(&draft);
    Ok(Plan {
        ask: None,
        status,
        trim: draft.history.trim(world).into_iter().collect(),
        wake_at: [status_due, draft.slots.changes_at()].into_iter().flatten().min(),
        gauges: draft.gauges(),
        work: draft.work,
        notes: draft.notes,
    })
}

#[cfg(test)]
mod tests;
