//! The active pod of an object: which pods can be it, in which order, and the writes that make it so.

use std::sync::Arc;

use jiff::Timestamp;

use super::active::{self, ActiveReason, ActiveWorld, Designation};
use super::children::Versions;
use super::moves::{Moves, Scene};
use super::report::Served;
use super::spec::ActivePolicy;
use super::zones::Zone;
use super::{Decision, World};
use crate::plan::{Note, Step, Subject, When, object_of};
use crate::pod::PodRow;
use crate::reason::Severity;
use crate::set::SetRow;

/// Decides which pod is active.
pub(super) fn designate(scene: &Scene<'_>, moves: &Moves, served: &[Option<Served<'_>>]) -> Designation {
    let pods = pods_of(scene, moves, served);
    active::designate(&look(scene.world, scene.spec.active.as_ref(), &pods, scene.now))
}

/// The same while the spec is invalid: by the last valid one, as pods do not stop to fail meanwhile.
pub(super) fn designate_meanwhile(world: &World, now: Timestamp) -> Designation {
    let versions = Versions::of(world, now);
    let recorded = || world.row.status.versions.iter().flat_map(|version| &version.zones);
    let is_promoted = |name: &str| recorded().any(|set| set.promoted && *set.stateful_set == *name);
    let rank = |set: &SetRow| {
        let zone = versions.named(&set.name).map(|version| version.zone);
        (!is_promoted(&set.name), zone.is_none(), zone.flatten())
    };
    let pods = in_order(world, rank, |set| set.deleting);
    match &world.last_spec {
        Some(spec) => active::designate(&look(world, spec.active.as_ref(), &pods, now)),
        None => active::relieve(&look(world, None, &pods, now)),
    }
}

fn look<'w>(
    world: &'w World,
    policy: Option<&'w ActivePolicy>,
    pods: &'w [Arc<PodRow>],
    now: Timestamp,
) -> ActiveWorld<'w> {
    ActiveWorld {
        group: world.row.group,
        owner: &world.row.uid,
        policy,
        pods,
        probes: &world.probes,
        probing: &world.probing,
        recorded: world.row.status.active_pod.as_ref(),
        doubt: world.unconfirmed.is_some(),
        now,
    }
}

/// Why nobody is active, where somebody should be.
pub(super) fn lacking(designation: &Designation) -> Option<ActiveReason> {
    let reason = &designation.reason;
    matches!(reason, ActiveReason::NoneReady | ActiveReason::NonePasses { .. }).then(|| reason.clone())
}

/// Makes it so: the old label goes before the status names another pod, and that before the pod gets its label.
pub(super) fn carry_out(world: &World, decision: &mut Decision, designation: Designation) {
    let uid = |pod: Option<&sts_plus_api::extended::ActivePod>| pod.map(|pod| pod.uid.clone());
    let active = decision.status.active_pod.as_ref();
    if let Some(pod) = active.filter(|_| uid(active) != uid(world.row.status.active_pod.as_ref())) {
        let message = format!("Pod {} is the active one.", pod.name);
        decision.plan.notes.push(Note {
            on: vec![Subject::from(&*world.row)],
            severity: Severity::Normal,
            reason: "ActivePod",
            message,
            when: When::Done,
        });
    }
    let plan = &mut decision.plan;
    plan.asks.extend(designation.asks);
    plan.wake_at = [plan.wake_at, designation.wake_at].into_iter().flatten().min();
    if !designation.removals.is_empty() {
        plan.steps.insert(0, Step::act(designation.removals));
    }
    plan.steps.extend(designation.addition.map(Step::one));
}

/// All pods: those of promoted versions first, then by zone and ordinal. Those of a set that is removed by these moves are on
/// their way out.
fn pods_of(scene: &Scene<'_>, moves: &Moves, served: &[Option<Served<'_>>]) -> Vec<Arc<PodRow>> {
    let is_removed = |set: &SetRow| {
        let mut deletions = moves.writes.iter().filter(|write| write.is_deletion());
        set.deleting || deletions.any(|write| *write.object() == object_of(set))
    };
    let is_promoted = |name: &str| served.iter().flatten().any(|served| *served.version.set().name == *name);
    let place = |name: &str| {
        let version = scene.versions.named(name)?;
        let zone = |zone: &Zone| version.zone == zone.name.as_ref().map(|_| zone.index);
        scene.layout.zones.iter().position(zone)
    };
    let rank = |set: &SetRow| {
        let place = place(&set.name);
        (!is_promoted(&set.name), place.is_none(), place)
    };
    in_order(scene.world, rank, is_removed)
}

/// The pods of all sets, the sets in an order. One of a set that is being removed gives up the label of the active pod before.
fn in_order<R: Ord>(
    world: &World,
    rank: impl Fn(&SetRow) -> R,
    is_removed: impl Fn(&SetRow) -> bool,
) -> Vec<Arc<PodRow>> {
    let on_its_way_out = |pod: &PodRow| Arc::new(PodRow { terminating: true, ..pod.clone() });
    let mut members: Vec<_> = world.children.iter().collect();
    members.sort_by_key(|member| (rank(&member.set), Arc::clone(&member.set.name)));
    let mut pods = Vec::new();
    for member in members {
        let is_removed = is_removed(&member.set);
        let leaving = |pod: &Arc<PodRow>| {
            if is_removed && !pod.terminating { on_its_way_out(pod) } else { Arc::clone(pod) }
        };
        pods.extend(member.pods.iter().map(leaving));
    }
    // A pod of a set that somebody has deleted may serve for a while: it gives up the label as well.
    if let Some(pod) = &world.recorded_active
        && pods.iter().all(|known| known.uid != pod.uid)
    {
        pods.push(on_its_way_out(pod));
    }
    pods
}
