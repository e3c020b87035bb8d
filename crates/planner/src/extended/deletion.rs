//! The end of an object. Its sets follow it, with their pods; with the deletion policy `Drain` all pods leave before, set after
//! set, for which the object has a finalizer.

use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_api::extended::{DeletionPolicy, ExtendedStatus};

use super::moves::Moves;
use super::policies::{self, Policies};
use super::report::Findings;
use super::row::ExtendedRow;
use super::wait::Wait;
use super::{Decision, World, reported};
use crate::health::Member;
use crate::ordinal;
use crate::plan::{Action, Step};

/// Finalizers with which Kubernetes itself decides about the sets of an object that is deleted: it lets go of them, or deletes
/// them before the object.
const DECIDED_BY_KUBERNETES: [&str; 2] = ["orphan", "foregroundDeletion"];

/// Puts our finalizer on an object, or takes it away, as its deletion policy has it.
pub(super) fn finalizer(row: &ExtendedRow, deletion: DeletionPolicy) -> Option<Action> {
    match (deletion, row.has_finalizer()) {
        (DeletionPolicy::Drain, false) => Some(row.keep()),
        (DeletionPolicy::Delete, true) => Some(row.let_go()),
        _ => None,
    }
}

/// What to do for an object that is being deleted.
pub(super) fn plan(world: &World, now: Timestamp) -> Decision {
    let row = &world.row;
    let status = ExtendedStatus { leaving: policies::leaving(world), ..row.status.clone() };
    let findings = Findings::default();
    if !row.has_finalizer() {
        return reported(world, status, Some(Wait::Deleting), &findings, now);
    }
    let is_decided = row.finalizers.iter().any(|known| DECIDED_BY_KUBERNETES.contains(&&**known));
    let is_kept = row.spec.as_ref().is_ok_and(|spec| spec.deletion == DeletionPolicy::Delete);
    let rules = row.spec.as_ref().ok().and_then(|spec| spec.rules.as_deref());
    let policies = Policies { world, rules };
    let left: Vec<_> = sets(world).into_iter().filter(|member| !policies.is_emptied(member)).collect();
    // The zones of a rollout group wait for one whose pods are not all Ready.
    let is_unready = |member: &&&Member| member.pods.iter().any(|pod| !pod.ready());
    let next = left.iter().find(is_unready).or_else(|| left.first());
    let Some(member) = next.filter(|_| !is_decided && !is_kept) else {
        let mut decision = reported(world, status, Some(Wait::Deleting), &findings, now);
        // The object is gone with this write, so that its status need not be written before.
        decision.plan.steps = vec![Step::one(row.let_go())];
        return decision;
    };
    let mut moves = Moves::default();
    let waits = policies.scale(&member.set, 0, &mut moves);
    let set = Arc::clone(&member.set.name);
    let wait = match (waits, &row.spec) {
        (None, Err(fault)) if rules.is_none() && policies.own(&set).is_none() => Wait::Invalid(fault.clone()),
        (Some(wait), _) if wait.is_stalled() => wait,
        (Some(wait), _) => Wait::Emptying { set, message: wait.to_string().into() },
        (None, _) => Wait::Emptying { set, message: "Its pods are being removed.".into() },
    };
    let mut decision = reported(world, status, Some(wait), &findings, now);
    let plan = &mut decision.plan;
    plan.asks.append(&mut moves.asks);
    plan.notes.append(&mut moves.notes);
    plan.steps.extend(moves.writes.into_iter().map(Step::one));
    decision
}

/// The sets of the object that still live, zone after zone.
fn sets(world: &World) -> Vec<&Member> {
    let is_own = |member: &&Member| {
        let child = member.set.child.as_ref();
        !member.set.deleting && child.is_some_and(|child| child.is_of(&world.row))
    };
    let mut sets: Vec<_> = world.children.iter().filter(is_own).collect();
    sets.sort_by(|one, other| ordinal::natural(&one.set.name, &other.set.name));
    sets
}
