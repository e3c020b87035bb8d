//! ScalingPolicies: pods are prepared by a call of their application before they are removed.
//!
//! ```text
//!             row, set, pods, reads, outcomes, now                  writes, calls, status, notes
//! operator  --------------------------------------->     plan     -------------------------------->  operator
//!
//! situation ──> book ──> hold ──> end ──> take back ──> lower | begin ──> announce ──> call ──> raise ──> report
//!               outcomes  foreign         cancel         leaving                                joining
//! ```
//!
//! With a lock (`fence: Lock`) an ordinal may run while the lock has a key for it. The key of a pod that leaves is removed, and
//! seen to be, before its hook is called; after the hook the pod is deleted, or exits by itself, and whatever comes in its place
//! waits in its init container. The replicas are lowered once that is certain. A key comes back before a call is taken back, and
//! before the replicas are raised.
//!
//! First remember, then act: a record is in the status and its ordinal on the set before its pod is called, and the status says
//! `Drained` before the replicas are lowered. Each of these is done in one pass and relied on in a later one, when it is seen, so
//! a restart at any point resumes where it was. What a record says holds for one pod, by UID and restarts of its containers: both
//! are read before each call and before the replicas are lowered.
//!
//! Claims that shall be larger are grown before anything is done about the set, whose claim templates nobody can change: it is
//! deleted without its pods and created again, from a record of the whole object that was stored, and seen, before.
//!
//! A pass that is handed outcomes books them, and reads nothing: an outcome is handed over once, and a plan that reads is made
//! again.

mod calls;
mod claims;
mod drained;
mod exit;
mod fence;
mod hold;
pub mod hook;
mod joining;
mod leaving;
mod live;
pub mod lock;
mod lowering;
mod moves;
pub mod policy;
pub mod pools;
mod record;
mod recreation;
mod remedy;
mod report;
pub mod row;
mod situation;
mod template;
pub mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use sts_plus_api::scaling_policy::ScalingPolicyStatus;

use crate::health::Member;
use crate::phased_rollout::whole_milliseconds;
use crate::plan::{Note, Object, Plan, Step, Subject, When};
use crate::reason::{Refusal, Severity};
use hook::{Call, HookOutcome};
use lock::LockRow;
use moves::Moves;
use row::ScalingRow;
use situation::{Scene, Situation};
use wait::Wait;

/// All that the decision may look at.
#[derive(Clone, Debug)]
pub struct World {
    pub row: Arc<ScalingRow>,
    /// The set that it names, with its pods.
    pub target: Option<Member>,
    /// Other policies that name the same set: at least the first of them.
    pub others: Vec<Arc<ScalingRow>>,
    /// How many sets the target's rollout group has, the target included; 1 for a set in no group.
    pub group_sets: usize,
    /// The other sets of the target's rollout group, with their pods; they may be left out where the group has more than
    /// [`MAX_MEMBERS`](crate::disruption::MAX_MEMBERS).
    pub neighbours: Vec<Member>,
    /// The objects that were read in this pass; `None` for one that is not there. One that could not be read is not in it.
    pub reads: BTreeMap<Object, Option<Value>>,
    /// The objects that could not be read in this pass.
    pub unread: BTreeSet<Object>,
    /// The ConfigMaps that the policy controls.
    pub locks: Vec<Arc<LockRow>>,
    /// The image of the init container of a lock; `None` where the operator does not know its own.
    pub lock_image: Option<Arc<str>>,
    /// Whether each node declares the feature that was asked for in this pass; `None` where that is not known, or none was.
    pub declared: Option<bool>,
    /// The outcomes of calls, each handed over once.
    pub hooked: Vec<HookOutcome>,
    /// The UIDs of the pods with a call under way.
    pub hooking: BTreeSet<Box<str>>,
    /// When pods that are not done are asked again, by UID: [`Decision::polls_at`] of the last plan. Kept in memory only: losing
    /// it asks earlier.
    pub polls_at: BTreeMap<Box<str>, Timestamp>,
    /// Why the view may be stale and could not be confirmed. Nothing is disrupted then; everything else is planned as usual.
    pub unconfirmed: Option<Arc<str>>,
    /// The write that was refused in the last pass.
    pub refused: Option<Refusal>,
}

impl World {
    /// A note on the policy and on its set. What it speaks of is in the status, and news only until that is written.
    fn note(&self, severity: Severity, reason: &'static str, message: String) -> Note {
        let set = self.target.as_ref().map(|member| Subject::from(&*member.set));
        let on = std::iter::once(Subject::from(&*self.row)).chain(set).collect();
        Note { on, severity, reason, message, when: When::Written(self.row.object()) }
    }
}

/// What to do for a policy now, and where it is.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    pub plan: Plan,
    /// What the status is once the writes are done.
    pub status: ScalingPolicyStatus,
    /// What the policy waits for; `None` where everything is as it asks for.
    pub wait: Option<Wait>,
    /// When pods that are not done are asked again.
    pub polls_at: BTreeMap<Box<str>, Timestamp>,
    /// The calls whose outcome still counts, by the UID of the pod: any other that is under way may be given up.
    pub calling: BTreeSet<(Box<str>, Call)>,
    /// How many pods were drained and are gone since the last plan.
    pub removed: usize,
}

/// Decides what to do for a policy at a moment.
pub fn plan(world: &World, now: Timestamp) -> Decision {
    let now = whole_milliseconds(now);
    let row = &world.row;
    if !row.deleting && !row.has_finalizer() {
        let plan = Plan { steps: vec![Step::one(row.keep())], ..Plan::default() };
        return Decision { plan, status: row.status.clone(), ..Decision::default() };
    }
    match Situation::of(world, now) {
        Situation::Gone => Decision { status: row.status.clone(), ..Decision::default() },
        Situation::Free => {
            let plan = Plan { steps: vec![Step::one(row.let_go())], ..Plan::default() };
            Decision { plan, status: row.status.clone(), ..Decision::default() }
        }
        Situation::Recreated(replaced) => {
            let moves = recreation::recreate(world, &replaced, now);
            report::plan(world, None, moves, now)
        }
        Situation::Idle(wait) => report::plan(world, None, Moves::waiting(row.status.clone(), wait), now),
        Situation::Unnumbered(replicas) => {
            let plan = Plan { steps: vec![Step::one(row.adopt_replicas(replicas))], ..Plan::default() };
            Decision { plan, status: row.status.clone(), ..Decision::default() }
        }
        Situation::Managed(scene) => {
            let moves = decide(&scene);
            report::plan(world, Some(&scene), moves, now)
        }
    }
}

/// The pass over a set that is scaled.
fn decide(scene: &Scene<'_>) -> Moves {
    let mut moves = Moves::of(scene);
    calls::book(scene, &mut moves);
    if hold::hold(scene, &mut moves) == hold::Held::Lowered {
        return moves;
    }
    leaving::end(scene, &mut moves);
    leaving::take_back(scene, &mut moves);
    drained::remove(scene, &mut moves);
    let lowered = lowering::lower(scene, &mut moves);
    fence::fence(scene, &mut moves);
    claims::restore_retention(scene, &mut moves);
    if lowered == lowering::Lowered::No {
        leaving::begin(scene, &mut moves);
        leaving::announce(scene, &mut moves);
    }
    calls::call(scene, &mut moves, calls::Side::Leaving);
    joining::join(scene, &mut moves);
    joining::raise(scene, &mut moves);
    fence::allow(scene, &mut moves);
    remedy::treat(scene, &mut moves);
    situation::depart(scene, &mut moves);
    moves
}

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
