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

use crate::plan::{Action, Ask, Mode, Plan, Step, object_of};
use claiming::Claiming;
pub use events::{report, report_refused_revision};
use history::History;
use scale::{Flow, SetPass};
use slots::Slots;
use status::Status;
use world::{Presence, World};

/// What to do for a set, and what its metrics show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to do: writes to pods, claims and revisions, then the status, then what is not needed any more.
    pub plan: Plan,
    /// For each step of the plan, what each of its writes is for.
    pub purposes: Vec<Vec<Purpose>>,
    /// What the set's metrics show; `None` where upstream shows nothing.
    pub gauges: Option<Gauges>,
}

impl Decision {
    fn ask(ask: Ask) -> Self {
        Self { plan: Plan { asks: vec![ask], ..Plan::default() }, ..Self::default() }
    }

    fn push(&mut self, tasks: Vec<Task>, mode: Mode) {
        if tasks.is_empty() {
            return;
        }
        let (writes, purposes) = tasks.into_iter().map(|task| (task.action, task.purpose)).unzip();
        self.plan.steps.push(Step { writes, mode });
        self.purposes.push(purposes);
    }

    /// The writes of each step, each with what it is for.
    pub fn tasks(&self) -> impl Iterator<Item = impl Iterator<Item = (&Action, &Purpose)>> {
        let steps = self.plan.steps.iter().zip(&self.purposes);
        steps.map(|(step, purposes)| step.writes.iter().zip(purposes))
    }

    /// The write of the status, where it has to be written now.
    pub fn status(&self) -> Option<&Action> {
        let mut tasks = self.tasks().flatten();
        tasks.find(|(_, purpose)| **purpose == Purpose::Status).map(|(action, _)| action)
    }

    /// Leaves the status out.
    pub fn drop_status(&mut self) {
        let is_status = |purposes: &Vec<Purpose>| purposes.contains(&Purpose::Status);
        if let Some(at) = self.purposes.iter().position(is_status) {
            self.plan.steps.remove(at);
            self.purposes.remove(at);
        }
    }

    /// The write that makes the update revision the latest one that is stored.
    pub fn stored_revision(&self) -> Option<&Action> {
        let stores =
            |purpose: &Purpose| matches!(purpose, Purpose::CreateRevision | Purpose::RenumberRevision);
        self.tasks().flatten().find(|(_, purpose)| stores(purpose)).map(|(action, _)| action)
    }
}

/// A write and what it is for.
#[derive(Clone, Debug, PartialEq)]
struct Task {
    action: Action,
    purpose: Purpose,
}

/// What a write is for: it decides which events tell of its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A pod for an empty slot.
    CreatePod,
    /// A claim that a pod needs.
    CreateClaim {
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
    /// The status of the set.
    Status,
}

/// For what a claim is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// For a pod that is about to be created.
    NewPod,
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
    NotAlive(Presence),
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
            Self::NotAlive(presence) => {
                let state = if *presence == Presence::Deleting { "being deleted" } else { "gone" };
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
pub fn plan(world: &World, now: Timestamp) -> Result<Decision, Blocked> {
    match claiming::claim(world)? {
        Claiming::Settled => {}
        Claiming::Ask => return Ok(Decision::ask(Ask::Read(object_of(&world.set)))),
        Claiming::Write(tasks) => {
            let mut decision = Decision::default();
            decision.push(tasks, Mode::Act);
            return Ok(decision);
        }
    }
    let history = History::of(world)?;
    // A revision in use that cannot be read stops everything before anything is done.
    for revision in [&history.current, &history.update] {
        revision.template()?;
    }
    let slots = Slots::of(world, now);
    let mut pass = SetPass { world, now, history, slots, work: Vec::new(), notes: Vec::new() };
    let recorded = pass.history.task.take();
    pass.step(recorded.into_iter().collect());
    if !world.set.deleting && pass.scale()? == Flow::GoOn {
        pass.roll();
    }
    let status = Status::of(&pass);
    let (status, status_due) = status.write(&pass);
    let trim = pass.history.trim(world);
    let mut decision = Decision { gauges: pass.gauges(), ..Decision::default() };
    decision.plan.wake_at = [status_due, pass.slots.changes_at()].into_iter().flatten().min();
    decision.plan.notes = pass.notes;
    for tasks in pass.work {
        decision.push(tasks, Mode::Act);
    }
    // A revision that could not be stored must not be named: a rollout group would delete pods for it that nobody can
    // create. As upstream, such a pass writes no status.
    let unless_failed = decision.stored_revision().map(|action| action.object().clone());
    let status = status.map(|action| Task { action, purpose: Purpose::Status });
    decision.push(status.into_iter().collect(), Mode::Settle { unless_failed });
    decision.push(trim, Mode::Settle { unless_failed: None });
    Ok(decision)
}

#[cfg(test)]
mod tests;
