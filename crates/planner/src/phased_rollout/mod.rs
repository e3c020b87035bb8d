//! PhasedRollout: a rolling update that waits between pods until checks have passed.
//!
//! ```text
//!             row, set, pods, answers, now                 writes, questions, status, announcements
//! operator  ------------------------------>     plan     ----------------------------------------->  operator
//!
//! situation: what is the case?  ->  course, or release: what to do about it?  ->  report: status, writes, notes
//!                                      |
//!                 rolling, rollback: hold the partition, look at the gate, take one step
//! ```
//!
//! Each step returns a value: `Situation` is what was found, `Progress` what was decided, [`Decision`] the plan.
//!
//! The partition of the set is the only lever: pods with an index below it keep the current revision. Its value is
//! decided here and remembered in the status, which is all the memory there is. A gate that has passed is written
//! down first; only then the partition is lowered, by one, with the pod's permit from the gatekeeper. So a restart at
//! any point resumes where it was, and a partition that is one lower than the status says is known as our own. The
//! partition comes with the mark of the rollout, so that a set is released also where the status was never written.

mod adoption;
pub mod answer;
mod approval;
mod course;
mod deadline;
pub mod gate;
pub mod judge;
mod partition;
pub mod placeholders;
pub mod policy;
mod progress;
pub mod query;
mod release;
mod report;
mod rollback;
mod rolling;
pub mod row;
mod situation;
pub mod wait;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::{PhasedRolloutStatus, Target};

use crate::health::Member;
use crate::plan::{Ask, Note, Plan, Step, Subject, When, object_of};
use crate::reason::{Reason, Refusal, Severity};
use crate::set::SetRow;
pub use deadline::Stretch;
use policy::Warning;
use progress::{Effects, Progress};
use query::{Outcome, Question};
use row::RolloutRow;
use situation::{Managed, Situation};
use wait::Wait;

/// How long a target may be missing before it is worth an event: manifests are applied in any order.
pub const TARGET_GRACE: SignedDuration = SignedDuration::from_secs(30);

/// How soon whoever waits for a set, or in line for one, is looked at again. Of thousands in line only the first are woken
/// by a change; a status behind them is right after this time at the latest, and ten thousand cost 17 short looks a second.
pub const IN_LINE_LOOK: SignedDuration = SignedDuration::from_mins(10);

/// All that the decision may look at.
#[derive(Clone, Debug)]
pub struct World {
    pub rollout: Arc<RolloutRow>,
    /// The set that it names, with its pods.
    pub target: Option<Member>,
    /// The sets that it has managed so far or that carry its mark, the target included, in the order in which they are
    /// released: by name, and the one that the status names last.
    pub held: Vec<Arc<SetRow>>,
    /// Other rollouts that name a set that this one names or manages: at least those that are the first in line for it.
    pub others: Vec<Arc<RolloutRow>>,
    /// How many sets the target's rollout group has, the target included; 1 for a set in no group.
    pub group_sets: usize,
    /// The other sets of the target's rollout group, with their pods; they may be left out where the group has more than
    /// [`MAX_MEMBERS`](crate::disruption::MAX_MEMBERS).
    pub neighbours: Vec<Member>,
    /// Answers to queries.
    pub outcomes: Vec<Outcome>,
    /// The checks whose query has been sent and not answered.
    pub under_way: BTreeSet<String>,
    /// Who else has written the partition, where a plan asked for it.
    pub partition_manager: Option<String>,
    /// Faults that the built-in parser finds in the queries.
    pub syntax: Vec<Warning>,
    /// Since when the spec of the set has been seen unobserved. Kept in memory only: losing it delays a message.
    pub unobserved_since: Option<Timestamp>,
    /// The time that the gate has used, by monotonic time and as far as this process has been through it in its present
    /// term: [`Plan::stretch`] of the last plan, and the time since.
    pub stretch: Option<Stretch>,
    /// Why the view may be stale and could not be confirmed. Nothing is disrupted then; everything else is planned as usual.
    pub unconfirmed: Option<Arc<str>>,
}

impl World {
    /// A note on the rollout and on its set.
    fn note(&self, severity: Severity, reason: &'static str, message: String, when: When) -> Note {
        let set = self.target.as_ref().map(|member| &member.set).or(self.held.first());
        let set = set.map(|set| Subject::from(&**set));
        let on = std::iter::once(Subject::from(&*self.rollout)).chain(set).collect();
        Note { on, severity, reason, message, when }
    }

    /// The read that finds out who has written the partition.
    fn ask_for_manager(&self) -> Option<Ask> {
        let target = self.target.as_ref().filter(|_| self.partition_manager.is_none())?;
        Some(Ask::Read(object_of(&target.set)))
    }
}

/// What to do for a rollout now, and where it is.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// What to do.
    pub plan: Plan,
    /// What the status is once the writes are done.
    pub status: PhasedRolloutStatus,
    /// Why the rollout is where it is; `None` while that is as before.
    pub wait: Option<Wait>,
    /// The time that the gate has used and that runs on from here; `None` where no time runs.
    pub stretch: Option<Stretch>,
    /// Whether time of the gate is added up in the status.
    pub adds_time: bool,
    /// How long the gate took that has just passed.
    pub gate_took: Option<SignedDuration>,
    /// How a rollout has just ended.
    pub ended: Option<Ended>,
}

impl Decision {
    /// Whether the decision must rest on a confirmed view: it disrupts something, or says that the gate has had its time.
    pub fn needs_confirmed_view(&self) -> bool {
        self.adds_time || self.plan.needs_confirmed_view()
    }

    /// The queries that are due.
    pub fn questions(&self) -> Vec<&Question> {
        let queries = self.plan.asks.iter().filter_map(|ask| match ask {
            Ask::Query(question) => Some(&**question),
            Ask::Read(_)
            | Ask::Pods(_)
            | Ask::Declared(_)
            | Ask::Digest(_)
            | Ask::Probe(_)
            | Ask::Hook(_) => None,
        });
        queries.collect()
    }
}

/// How a rollout ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Ended {
    /// All pods are of the new revision, and the last gate has passed.
    Completed,
    /// A gate has failed.
    Failed,
    /// All pods are back on the revision before.
    RolledBack,
}

impl Ended {
    /// The word in the metric's label.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Decides what to do for a rollout at a moment.
pub fn plan(world: &World, now: Timestamp) -> Decision {
    let now = whole_milliseconds(now);
    let planned = plan_on_view(world, now);
    match &world.unconfirmed {
        Some(why) if planned.plan.needs_confirmed_view() => unconfirmed(world, why, now),
        _ => planned,
    }
}

/// The plan if the view is what the cluster is.
fn plan_on_view(world: &World, now: Timestamp) -> Decision {
    let rollout = &world.rollout;
    if rollout.deleting {
        return release::depart(world);
    }
    if !rollout.has_finalizer() {
        let plan = Plan { steps: vec![Step::one(rollout.keep())], ..Plan::default() };
        return Decision { plan, status: rollout.status.clone(), ..Decision::default() };
    }
    let situation = Situation::of(world, now);
    let progress = decide(world, &situation);
    report::plan(world, progress, now)
}

/// Decides what to do about what was found.
fn decide(world: &World, situation: &Situation<'_>) -> Progress {
    let status = reworded(world);
    let name = |set: &SetRow| set.name.to_string();
    match situation {
        Situation::InvalidSpec(faults) => {
            let faults = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            // A spec that cannot be used asks nothing: the wording behind it is another one again.
            Progress::waits(world.rollout.status.clone(), Wait::InvalidSpec { faults })
        }
        Situation::FormerSet { managed, held } => release::release_former(world, status, (*managed, *held)),
        Situation::NoTarget => {
            let set = world.rollout.target().unwrap_or_default().to_owned();
            Progress::waits(forget_target(status), Wait::TargetNotFound { set })
        }
        Situation::TargetDeleting(set) => Progress::waits(status, Wait::TargetDeleting { set: name(set) }),
        Situation::ManagedByOther { set, other } => {
            let wait = Wait::ManagedByOther { set: name(set), other: other.name.to_string() };
            Progress::waits(forget_target(status), wait)
        }
        Situation::WrongStrategy(set) => {
            // The gate is kept; there is no partition to hold meanwhile.
            let status = PhasedRolloutStatus { partition: None, ..status };
            let wait = Wait::WrongStrategy { set: name(set), strategy: set.strategy.to_string() };
            Progress::waits(status, wait)
        }
        Situation::Suspended(managed) => {
            let (status, effects) = take_target(managed, status);
            release::suspend(managed, status, effects)
        }
        Situation::Unobserved(managed) => {
            let (status, effects) = take_target(managed, status);
            partition::unobserved(managed, status, effects)
        }
        Situation::Observed(scene) => {
            let (status, effects) = take_target(&scene.managed, status);
            course::follow(scene, status, effects)
        }
    }
}

/// What to report where the server refused a write of the last plan: the rollout is where it was, and that write is tried
/// again. Nothing where it is reported already; the server's words may differ in a port or a time.
pub fn refused(world: &World, refusal: Refusal, now: Timestamp) -> Decision {
    let rollout = &world.rollout;
    let status = rollout.status.clone();
    let by = refusal.webhook.as_deref().unwrap_or_default();
    let is_reported = status.waiting_for.as_deref() == Some(Reason::WRITE_REFUSED)
        && status.observed_generation == Some(rollout.generation)
        && status.message.as_deref().is_some_and(|message| message.contains(by));
    if is_reported || !rollout.has_finalizer() {
        return Decision { status, ..Decision::default() };
    }
    let wait = Wait::Held { reason: Reason::WriteRefused { refusal } };
    report::plan(world, Progress::waits(status, wait), whole_milliseconds(now))
}

/// What remains of a plan that would disrupt something on a view that could not be confirmed: its status says why.
fn unconfirmed(world: &World, why: &Arc<str>, now: Timestamp) -> Decision {
    let reason = Reason::ViewUnconfirmed { why: Arc::clone(why) };
    if world.rollout.deleting {
        let message = format!("The PhasedRollout is not deleted yet. {reason}");
        let note = world.note(reason.severity(), reason.kind(), message, When::Done);
        let plan = Plan { notes: vec![note], ..Plan::default() };
        return Decision { plan, status: world.rollout.status.clone(), ..Decision::default() };
    }
    report::plan(world, Progress::waits(reworded(world), Wait::Held { reason }), now)
}

/// The status without what was found out under another wording of the spec: it does not count, whatever the pass gets to
/// look at.
fn reworded(world: &World) -> PhasedRolloutStatus {
    let mut status = world.rollout.status.clone();
    let is_reworded = status.observed_generation != Some(world.rollout.generation);
    if let Some(gate) = status.rolling_pod_status.as_mut().filter(|_| is_reworded) {
        gate::reword(gate);
    }
    status
}

/// Remembers whose partition it is; a set that was created anew is another one.
fn take_target(managed: &Managed<'_>, status: PhasedRolloutStatus) -> (PhasedRolloutStatus, Effects) {
    let set = managed.set();
    let target = Some(Target { name: set.name.to_string(), uid: set.uid.to_string() });
    if status.target == target {
        return (status, Effects::default());
    }
    let message = format!("StatefulSet {} is managed from now on.", set.name);
    let note = managed.world.note(Severity::Normal, "Managed", message, When::Done);
    (PhasedRolloutStatus { target, ..forget_target(status) }, Effects::default().note(note))
}

/// The status without anything that is about a set.
fn forget_target(status: PhasedRolloutStatus) -> PhasedRolloutStatus {
    PhasedRolloutStatus {
        target: None,
        partition: None,
        rolling_pod_status: None,
        failure: None,
        contest: None,
        update_revision: None,
        previous_revision: None,
        adopted_revisions: Vec::new(),
        holds_every_pod: false,
        phase: None,
        awaited_approval: None,
        ungated_pods: Vec::new(),
        pods: Vec::new(),
        ..status
    }
}

/// What a status keeps of a time: enough to tell two queries apart, and still a time that people read.
pub fn whole_milliseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
}

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
