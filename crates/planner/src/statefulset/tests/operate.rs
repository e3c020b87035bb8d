//! The controller's part: passes as the operator makes them, with the faults that a scenario asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::super::world::{Memory, Presence, RevisionRow, World};
use super::super::{Answer, Blocked, Decision, Purpose, Task, plan, report};
use super::cluster::{Chance, Cluster, FOO, Move};
use super::decode::Row;
use super::invariants;
use super::server::{Objects, Refusal};
use super::{trim, work};
use crate::ordinal;
use crate::plan::{Action, Kind, Mode, Object, Step, Verb};

/// Plans within one pass: more than a scenario needs, so that a loop is found.
const PLANS_PER_PASS: usize = 20;
/// Steps until a cluster of a scenario's size must have come to rest; far above what any needs.
const STEPS_TO_REST: usize = 5_000;

/// The sort of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Op {
    Get,
    Create,
    Delete,
    Patch,
    Status,
}

/// A request that goes wrong.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) op: Op,
    pub(super) kind: Kind,
    /// Requests of that sort that go well before it.
    pub(super) after: usize,
    pub(super) how: How,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub(super) enum How {
    Refused(Refusal),
    /// It is done, but the answer is lost.
    Lost,
    /// The controller dies before it is sent.
    DiesBefore,
    /// The controller dies after it was done.
    DiesAfter,
}

/// How the steps of a plan ended.
enum Worked {
    /// All of them went well.
    Out,
    /// One did not; the revision that it was to store, if it was to.
    Failed(Option<Object>),
    /// The name of a new revision belongs to this one.
    NameTaken(Arc<RevisionRow>),
}

/// What became of a pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Pass {
    /// What was planned, the last one last.
    pub(super) plans: Vec<Decision>,
    pub(super) blocked: Option<Blocked>,
    /// What went wrong.
    pub(super) errors: Vec<String>,
    pub(super) writes: usize,
    pub(super) wake_at: Option<Timestamp>,
    pub(super) died: bool,
}

impl Pass {
    /// Whether the operator would retry after a while.
    pub(super) fn failed(&self) -> bool {
        self.blocked.is_some() || !self.errors.is_empty() || self.died
    }

    #[track_caller]
    pub(super) fn plan(&self) -> &Decision {
        self.plans.last().unwrap_or_else(|| panic!("no plan: {:?}", self.blocked))
    }
}

pub(super) fn op(verb: &Verb) -> Op {
    match verb {
        Verb::Create { .. } => Op::Create,
        Verb::Delete => Op::Delete,
        Verb::MergeStatus { .. } => Op::Status,
        _ => Op::Patch,
    }
}

pub(super) fn internal_error() -> How {
    How::Refused(Refusal::Failed("API server failed".to_owned()))
}

/// The purpose of a write of the status, which is no task of a step.
const STATUS: Option<&Purpose> = None;

impl Cluster {
    /// Lets a request go wrong once, after so many of its sort that go well.
    pub(super) fn fail(&mut self, op: Op, kind: Kind, after: usize, how: How) {
        self.faults.push(Fault { op, kind, after, how });
    }

    /// One pass for the set `foo`.
    #[track_caller]
    pub(super) fn sync(&mut self) -> Pass {
        self.sync_of(FOO)
    }

    /// A pass for `foo` in which nothing goes wrong.
    #[track_caller]
    pub(super) fn sync_well(&mut self) -> Pass {
        let pass = self.sync();
        assert!(!pass.failed(), "{:?} {:?}\n{self}", pass.errors, pass.blocked);
        pass
    }

    /// One pass for a set.
    #[track_caller]
    pub(super) fn sync_of(&mut self, name: &str) -> Pass {
        let mut pass = Pass::default();
        let Some(mut world) = self.world(name) else { return pass };
        for _ in 0..PLANS_PER_PASS {
            let decided = match plan(&world, self.server.now) {
                Ok(decided) => decided,
                Err(blocked) => {
                    pass.blocked = Some(blocked);
                    return pass;
                }
            };
            invariants::check(&world, &decided, self.server.now);
            pass.plans.push(decided.clone());
            if !decided.plan.asks.is_empty() {
                *self.requests.entry((Op::Get, Kind::StatefulSet)).or_default() += 1;
                world.memory.presence = Some(self.presence(&world));
                continue;
            }
            let failed = match self.work(&world, &work(&decided), &mut pass) {
                Worked::NameTaken(taken) => {
                    world.memory.taken.insert(taken.name.clone(), taken);
                    continue;
                }
                Worked::Failed(revision) => revision,
                Worked::Out => None,
            };
            if !pass.died {
                self.conclude(&world, &decided, failed.as_ref(), &mut pass);
            }
            return pass;
        }
        panic!("still planning after {PLANS_PER_PASS} plans:\n{self}");
    }

    /// What follows the work: status, trimming, notes.
    fn conclude(&mut self, world: &World, decided: &Decision, failed: Option<&Object>, pass: &mut Pass) {
        let unless_failed = |step: &&Step| match &step.mode {
            Mode::Settle { unless_failed: Some(object) } => failed != Some(object),
            _ => true,
        };
        let status = decided.status().filter(|status| {
            decided.plan.steps.iter().filter(unless_failed).any(|step| step.writes.contains(status))
        });
        if let Some(status) = status {
            let answer = self.request(status, pass);
            match answer {
                Ok(()) => {
                    let uid = (*world.set.uid).into();
                    self.status_written.insert(uid, self.server.now);
                }
                Err(_) if pass.died => return,
                Err(refusal) => pass.fail(STATUS, &refusal),
            }
        }
        for step in &trim(decided) {
            if !self.step(world, step, pass) {
                break;
            }
        }
        if !pass.died {
            self.events.extend(decided.plan.notes.iter().cloned());
        }
        pass.wake_at = decided.plan.wake_at;
    }

    /// Performs steps until one fails.
    fn work(&mut self, world: &World, steps: &[Vec<Task>], pass: &mut Pass) -> Worked {
        for step in steps {
            let (errors, events) = (pass.errors.len(), self.events.len());
            if self.step(world, step, pass) {
                continue;
            }
            let task = step.first().filter(|task| task.purpose == Purpose::CreateRevision);
            let taken = pass.errors.last().is_some_and(|error| error.contains("AlreadyExists"));
            let name = task.filter(|_| taken).map(|task| &task.action.object().name);
            if let Some(name) = name.filter(|name| !world.memory.taken.contains_key(*name)) {
                *self.requests.entry((Op::Get, Kind::Revision)).or_default() += 1;
                let holder = self.revisions().into_iter().find(|row| row.name == *name);
                if let Some(holder) = holder {
                    pass.errors.truncate(errors);
                    self.events.truncate(events);
                    return Worked::NameTaken(holder);
                }
            }
            let stores =
                |purpose: &Purpose| matches!(purpose, Purpose::CreateRevision | Purpose::RenumberRevision);
            let revision = step.iter().find(|task| stores(&task.purpose));
            return Worked::Failed(revision.map(|task| task.action.object().clone()));
        }
        Worked::Out
    }

    /// Performs a step to its end. Answers whether all went well.
    fn step(&mut self, world: &World, step: &[Task], pass: &mut Pass) -> bool {
        let mut together: BTreeMap<(Op, Kind), usize> = BTreeMap::new();
        for task in step {
            *together.entry((op(task.action.verb()), task.action.object().kind)).or_default() += 1;
        }
        for (sort, count) in together {
            let widest = self.widest.entry(sort).or_default();
            *widest = count.max(*widest);
        }
        let mut answers = Vec::new();
        for task in step {
            let answer = self.request(&task.action, pass);
            if pass.died {
                return false;
            }
            answers.push(answer);
        }
        let before = pass.errors.len();
        for (task, answer) in step.iter().zip(&answers) {
            if let Err(refusal) = answer
                && !forgiven(task, refusal)
            {
                pass.fail(Some(&task.purpose), refusal);
            }
        }
        let answered = step.iter().zip(&answers);
        let answered = answered.map(|(task, given)| (&task.action, &task.purpose, answer(given)));
        self.events.extend(report(world, answered));
        pass.errors.len() == before
    }

    fn request(&mut self, action: &Action, pass: &mut Pass) -> Result<(), Refusal> {
        let (op, kind) = (op(action.verb()), action.object().kind);
        let fault = self.next_fault(op, kind);
        if let Some(How::DiesBefore) = fault {
            self.die(pass);
            return Err(Refusal::Failed(String::new()));
        }
        *self.requests.entry((op, kind)).or_default() += 1;
        pass.writes += 1;
        let verb = format!("{op:?}").to_lowercase();
        self.trace.push(format!("{verb} {kind:?} {}", action.object().name));
        if let Some(How::Refused(refusal)) = fault {
            return Err(refusal);
        }
        let answer = self.server.write(action);
        match fault {
            Some(How::DiesAfter) => {
                self.die(pass);
                Err(Refusal::Failed(String::new()))
            }
            Some(How::Lost) => {
                // Rule D: what was not answered is read before the next plan.
                self.seen.insert(kind, self.server.version);
                Err(Refusal::Failed("timeout".to_owned()))
            }
            _ => {
                if answer.is_ok() {
                    self.seen.insert(kind, self.server.version);
                }
                answer
            }
        }
    }

    fn next_fault(&mut self, op: Op, kind: Kind) -> Option<How> {
        let due =
            self.faults.iter().position(|fault| fault.op == op && fault.kind == kind && fault.after == 0);
        let due = due.map(|position| self.faults.remove(position).how);
        for fault in self.faults.iter_mut().filter(|fault| fault.op == op && fault.kind == kind) {
            fault.after = fault.after.saturating_sub(1);
        }
        due
    }

    /// The process ends, and another one starts with a consistent view.
    fn die(&mut self, pass: &mut Pass) {
        pass.died = true;
        self.status_written.clear();
        for kind in [Kind::Pod, Kind::StatefulSet, Kind::Claim, Kind::Revision] {
            self.seen.insert(kind, self.server.version);
        }
    }

    /// The set as the server has it now.
    fn presence(&self, world: &World) -> Presence {
        match self.server.get(Kind::StatefulSet, &world.set.name).map(|stored| &stored.row) {
            Some(Row::Set(set, _)) if set.uid == world.set.uid => {
                if set.deleting {
                    Presence::Deleting
                } else {
                    Presence::Alive
                }
            }
            _ => Presence::Gone,
        }
    }

    /// The objects of a kind as its cache has them: behind by as much as the scenario says, but never behind the
    /// controller's own writes.
    fn cache(&self, kind: Kind) -> &Objects {
        let lag = self.lag.get(&kind).copied().unwrap_or_default();
        let seen = self.seen.get(&kind).copied().unwrap_or_default();
        let newest = self.server.past.len();
        let behind = newest.checked_sub(lag + 1).and_then(|position| self.server.past.get(position));
        let (mut view, mut position) = (behind, newest.saturating_sub(lag + 1));
        while view.is_some_and(|(version, _)| *version < seen) {
            position += 1;
            view = self.server.past.get(position);
        }
        view.map_or(&self.server.objects, |(_, objects)| objects)
    }

    /// How long ago the status of a set was written, where that is known.
    fn status_age(&self, uid: &str) -> Option<std::time::Duration> {
        let written = self.status_written.get(uid).filter(|_| self.paced)?;
        self.server.now.duration_since(*written).try_into().ok()
    }

    /// The world of a set as the caches show it; `None` where they do not have the set.
    pub(super) fn world(&self, name: &str) -> Option<World> {
        let stored = self.cache(Kind::StatefulSet).get(&(Kind::StatefulSet, name.into()))?;
        let Row::Set(set, spec) = &stored.row else { return None };
        let mut world = World {
            set: Arc::clone(set),
            spec: Arc::clone(spec),
            pods: Vec::new(),
            orphans: Vec::new(),
            claims: spec.claim_templates.iter().map(|_| BTreeMap::new()).collect(),
            revisions: Vec::new(),
            memory: Memory { status_age: self.status_age(&set.uid), ..Memory::default() },
            features: self.features,
        };
        for stored in self.cache(Kind::Pod).values() {
            if let Row::Pod(pod) = &stored.row {
                if pod.owner == set.uid {
                    world.pods.push(Arc::clone(pod));
                } else if pod.owner.is_empty() && set.selector.matches(|key| pod.label(key)) {
                    world.orphans.push(Arc::clone(pod));
                }
            }
        }
        for (claims, template) in world.claims.iter_mut().zip(spec.claim_templates.iter()) {
            let of_set = format!("{}-{}", template.name, set.name);
            for stored in self.cache(Kind::Claim).values() {
                if let Row::Claim(claim) = &stored.row
                    && let Some(number) = ordinal::of_pod(&claim.name, &of_set)
                {
                    claims.insert(number, Arc::clone(claim));
                }
            }
        }
        for stored in self.cache(Kind::Revision).values() {
            if let Row::Revision(revision) = &stored.row {
                let label = |key: &str| stored.value["metadata"]["labels"][key].as_str();
                let orphan = revision.owner.is_none() && set.selector.matches(label);
                if orphan || revision.owner.as_ref() == Some(&set.uid) {
                    world.revisions.push(Arc::clone(revision));
                }
            }
        }
        Some(world)
    }
}

impl Pass {
    fn fail(&mut self, purpose: Option<&Purpose>, refusal: &Refusal) {
        self.errors.push(format!("{purpose:?}: {refusal:?}"));
    }
}

/// Whether a refusal is as good as success: what shall go is gone.
fn forgiven(task: &Task, refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::NotFound(_))
        && matches!(task.purpose, Purpose::DeletePod | Purpose::AdoptPod | Purpose::ReleasePod)
}

fn answer(result: &Result<(), Refusal>) -> Answer<'_> {
    match result {
        Ok(()) => Answer::Done,
        Err(Refusal::AlreadyExists(why)) => Answer::AlreadyExists(why),
        Err(Refusal::NotFound(why)) => Answer::NotFound(why),
        Err(Refusal::Conflict(why)) => Answer::Conflict(why),
        Err(Refusal::Failed(why)) => Answer::Failed(why),
    }
}

/// Drivers.
impl Cluster {
    /// Passes, kubelets and time until nothing happens any more; each time one random thing, then a pass, then `seen`.
    #[track_caller]
    pub(super) fn drive(&mut self, chance: &mut Chance, mut seen: impl FnMut(&Cluster)) -> Pass {
        for _ in 0..STEPS_TO_REST {
            let pass = self.sync();
            seen(self);
            if pass.failed() {
                return pass;
            }
            let moves = self.moves();
            if moves.is_empty() && pass.writes == 0 {
                let Some(wake_at) = pass.wake_at else { return pass };
                self.server.now = wake_at.max(self.server.now);
            } else if !moves.is_empty() {
                self.perform(&moves[chance.below(moves.len())]);
            }
        }
        panic!("no rest after {STEPS_TO_REST} steps:\n{self}");
    }

    /// Drives to rest in a fixed order, and nothing may go wrong on the way.
    #[track_caller]
    pub(super) fn rest(&mut self) -> Pass {
        let pass = self.drive(&mut Chance(1), |_| {});
        assert!(!pass.failed(), "{:?} {:?}\n{self}", pass.errors, pass.blocked);
        pass
    }

    /// All kubelets do all they can, without the controller.
    pub(super) fn kubelets(&mut self) {
        for _ in 0..STEPS_TO_REST {
            let Some(next) = self.moves().into_iter().next() else { return };
            self.perform(&next);
        }
        panic!("the kubelets do not come to rest:\n{self}");
    }

    /// Pods on their way out are gone.
    pub(super) fn finish(&mut self) {
        for next in self.moves() {
            if let Move::Finish(_) = next {
                self.perform(&next);
            }
        }
    }
}
