//! A rollout under way: from the first gate to the last one, one step at a time.

use jiff::SignedDuration;
use sts_plus_api::phased_rollout::{Failure, GateState, GateStatus, OnFailure, Phase, PhasedRolloutStatus};

use super::Ended;
use super::adoption::{adopted_revisions, revision_before};
use super::approval::{RETRY, approval_for, is_given, used_up};
use super::course::ended;
use super::deadline::{self, Spent};
use super::gate::{self, GateVerdict, Ground, Look, to_i32};
use super::partition::{Held, hold, lowering_denied};
use super::progress::{Effects, Progress};
use super::rollback::replace_stuck;
use super::situation::Scene;
use super::wait::{Wait, denied_for, gate_failed};
use crate::disruption::Gatekeeper;
use crate::plan::{Action, Ask, Note, When};
use crate::reason::Severity;

/// Pods that the status names as ungated; a set with more of them has said enough.
const MAX_UNGATED: usize = 100;

/// A new revision: the partition is pinned where no further pod moves, and the first gate begins.
pub(super) fn start(
    scene: &Scene<'_>,
    mut status: PhasedRolloutStatus,
    effects: Effects,
    approved: bool,
) -> Progress {
    let set = scene.set();
    let is_restart = status.rolling_pod_status.take().is_some();
    let partition = released(scene).max(scene.managed.partition.min(set.replicas));
    // A rollout that was suspended or rolled back has let pods through already.
    let same = status.update_revision.as_deref() == Some(scene.update);
    let gated_from = status.partition.filter(|_| same).and_then(|from| u32::try_from(from).ok());
    let adopts = scene.update == scene.current;
    let previous = if adopts { revision_before(scene) } else { Some(scene.current) };
    let adopted = if adopts { adopted_revisions(scene, &status) } else { status.adopted_revisions.clone() };
    let status = PhasedRolloutStatus {
        phase: Some(Phase::Rolling),
        update_revision: Some(scene.update.to_owned()),
        previous_revision: previous.map(str::to_owned),
        adopted_revisions: adopted,
        rollout_start_time: Some(scene.now()),
        rollout_end_time: None,
        ungated_pods: Vec::new(),
        ..status
    };
    let ungated_pods = ungated(scene, &status, gated_from.unwrap_or(set.replicas));
    let gate = GateStatus { approved, ..gate::begin(partition, set.replicas, true, scene.now()) };
    let message = if is_restart {
        format!("Revision {} replaces the one being rolled out. The rollout starts again.", scene.update)
    } else {
        format!("Rolling from revision {} to revision {}.", previous.unwrap_or_default(), scene.update)
    };
    let effects = effects.note(note(scene, "RolloutStarted", message));
    roll(scene, PhasedRolloutStatus { ungated_pods, ..status }, gate, effects)
}

/// The rollout is under way and its revision is not the current one, or has pods to replace.
pub(super) fn resume(
    scene: &Scene<'_>,
    status: PhasedRolloutStatus,
    gate: GateStatus,
    effects: Effects,
) -> Progress {
    let (status, gate, effects) = caught_up(scene, status, gate, effects);
    roll(scene, status, gate, effects)
}

/// The gate as it was left, or the one behind it if the step was taken and not written down.
pub(super) fn caught_up(
    scene: &Scene<'_>,
    status: PhasedRolloutStatus,
    gate: GateStatus,
    effects: Effects,
) -> (PhasedRolloutStatus, GateStatus, Effects) {
    let status = PhasedRolloutStatus { phase: Some(Phase::Rolling), ..status };
    let next = gate.partition.saturating_sub(1);
    if gate.status == GateState::Passed && gate.partition > 0 && to_i32(scene.managed.partition) == next {
        let effects = effects.and(step_taken(scene, &gate));
        let gate = next_gate(scene, &gate);
        return (PhasedRolloutStatus { partition: Some(next), ..status }, gate, effects);
    }
    (status, gate, effects)
}

/// Holds the partition at the gate, and looks at the gate.
fn roll(scene: &Scene<'_>, status: PhasedRolloutStatus, gate: GateStatus, effects: Effects) -> Progress {
    let resized = gate.replicas != to_i32(scene.set().replicas);
    let gate = if resized { resized_gate(scene, &gate) } else { gate };
    let own = gate::index(&gate);
    if let Some(denied) = lowering_denied(&scene.managed, own) {
        let status = PhasedRolloutStatus { rolling_pod_status: Some(gate), ..status };
        return Progress::new(status, Wait::Held { reason: denied.reason }, effects.and(denied.effects));
    }
    let Held { status, contested, effects } = hold(&scene.managed, status, own).after(effects);
    let status = PhasedRolloutStatus { ungated_pods: ungated(scene, &status, own), ..status };
    if let Some(wait) = contested {
        let status = PhasedRolloutStatus { rolling_pod_status: Some(gate), ..status };
        return Progress::new(status, wait, effects);
    }
    let is_settled = effects.writes.is_empty();
    let replaced = if is_settled { replace_stuck(scene, &status) } else { Effects::default() };
    pass(scene, status, gate, effects.and(replaced))
}

/// Looks at the gate, and takes the step behind it if it may.
pub(super) fn pass(
    scene: &Scene<'_>,
    status: PhasedRolloutStatus,
    gate: GateStatus,
    effects: Effects,
) -> Progress {
    let needed = needed_approval(scene, &status, &gate);
    let given = needed.clone().filter(|needed| is_given(scene.rollout(), needed));
    let mut status = PhasedRolloutStatus { awaited_approval: needed.clone(), ..status };
    let (status, gate, effects) = match (status.failure.is_some(), given) {
        (true, None) => {
            status.rolling_pod_status = Some(GateStatus { status: GateState::Failed, ..gate });
            let wait = failed(scene, &status);
            return Progress::new(status, wait, effects);
        }
        (true, Some(approval)) => {
            let status = PhasedRolloutStatus { failure: None, ..used_up(status, approval) };
            let anew = gate::begin(gate::index(&gate), scene.set().replicas, gate.first, scene.now());
            let message = format!("Revision {} is retried.", scene.update);
            let effects = effects.note(note(scene, "Approved", message));
            (status, GateStatus { approved: true, ..anew }, effects)
        }
        (false, Some(approval)) => {
            let effects = effects.note(note(scene, "Approved", format!("{approval} is approved.")));
            (used_up(status, approval), GateStatus { approved: true, ..gate }, effects)
        }
        (false, None) => (status, gate, effects),
    };
    let rollout = scene.rollout();
    let ground = Ground {
        rollout: &rollout.name,
        policy: scene.managed.policy,
        member: scene.member(),
        health: &scene.health,
        revision: scene.update,
        generation: rollout.generation,
        approve: rollout.approve.as_deref(),
        needed: needed.as_deref().unwrap_or_default(),
        outcomes: &scene.managed.world.outcomes,
        under_way: &scene.managed.world.under_way,
        now: scene.now(),
    };
    let Look { gate, verdict, questions, wake_at } = gate::look(gate, &ground);
    let effects = effects.wake(wake_at);
    let wait = match verdict {
        GateVerdict::Waits(wait) => wait,
        GateVerdict::Failed { reason, why } => return fail(scene, status, gate, (reason, why), effects),
        GateVerdict::Passed if gate.partition > 0 => {
            let Spent { gate, effects: spent, .. } = deadline::spend(scene, gate, false);
            return step(scene, status, gate, effects.and(spent));
        }
        GateVerdict::Passed if scene.update == scene.current => return complete(scene, status, effects),
        GateVerdict::Passed => Wait::NotPromoted { revision: scene.update.to_owned() },
    };
    let (counts, denial) = deadline::counts(scene, &gate, &wait);
    let Spent { gate, used_up, effects: spent } = deadline::spend(scene, gate, counts);
    let effects = effects.denied(&denial).and(spent);
    if used_up {
        let seconds = scene.managed.policy.deadline_seconds();
        let why = format!("it has not passed within its deadline of {seconds} s: {wait}");
        return fail(scene, status, gate, ("ProgressDeadlineExceeded", why), effects);
    }
    let asks = questions.into_iter().map(|question| Ask::Query(Box::new(question)));
    let status = PhasedRolloutStatus { rolling_pod_status: Some(gate), ..status };
    Progress::new(status, wait, effects.ask(asks))
}

/// What somebody has to write before the rollout resumes: to retry what has failed, or to approve the step behind the
/// gate.
fn needed_approval(scene: &Scene<'_>, status: &PhasedRolloutStatus, gate: &GateStatus) -> Option<String> {
    if status.failure.is_some() {
        return Some(approval_for(status, scene.update, RETRY));
    }
    if gate.approved || !gate::needs_approval(scene.managed.policy, gate) {
        return None;
    }
    Some(approval_for(status, scene.update, &next_pod(scene, gate)?))
}

/// The gate has passed. It is written down first; a gate that was is followed by the step.
fn step(scene: &Scene<'_>, mut status: PhasedRolloutStatus, gate: GateStatus, effects: Effects) -> Progress {
    let is_written = scene.rollout().status.rolling_pod_status.as_ref().is_some_and(|before| {
        before.status == GateState::Passed
            && before.partition == gate.partition
            && before.checks == gate.checks
    });
    let gate = GateStatus { status: GateState::Passed, ..gate };
    status.rolling_pod_status = Some(gate.clone());
    if !is_written || !effects.writes.is_empty() {
        return Progress::new(status, passed(scene, &gate), effects);
    }
    let (set, member) = (scene.set(), scene.member());
    let index = gate::index(&gate).saturating_sub(1);
    let ordinal = set.first_ordinal.saturating_add(index);
    let Some(pod) = member.pods.iter().find(|pod| member.wanted_ordinal(pod) == Some(ordinal)) else {
        // Not to be: a gate passes only while every pod is there.
        let wait = Wait::PodsNotAvailable { down: scene.health.summary() };
        return Progress::new(status, wait, effects);
    };
    let domain = scene.domain();
    match Gatekeeper::new(&domain).ask(&set.name, pod) {
        Ok(permit) => {
            let lowered = Action::let_go(&permit, set, &scene.rollout().name, index);
            let next = next_gate(scene, &gate);
            status.partition = Some(next.partition);
            status.rolling_pod_status = Some(next);
            let wait = Wait::PodNotUpdated { pod: pod.name.to_string(), revision: scene.update.to_owned() };
            Progress::new(status, wait, effects.write(lowered).and(step_taken(scene, &gate)))
        }
        Err(denial) => {
            let effects = effects.wake(domain.changes_at()).denied([&denial]);
            Progress::new(status, Wait::Held { reason: denied_for(&denial) }, effects)
        }
    }
}

/// The gate behind the one that has passed.
fn next_gate(scene: &Scene<'_>, gate: &GateStatus) -> GateStatus {
    let replicas = u32::try_from(gate.replicas).unwrap_or(0);
    gate::begin(gate::index(gate).saturating_sub(1), replicas, false, scene.now())
}

/// What is reported of a gate whose step was taken.
fn step_taken(scene: &Scene<'_>, gate: &GateStatus) -> Effects {
    let note = note(scene, "GatePassed", passed(scene, gate).to_string());
    Effects { gate_took: Some(took(scene, gate)), ..Effects::default() }.note(note)
}

/// The replicas have changed: the gate begins anew, at a partition that is not above them. While no pod has been
/// released, new ones shall not be created in the new revision either.
fn resized_gate(scene: &Scene<'_>, gate: &GateStatus) -> GateStatus {
    let replicas = scene.set().replicas;
    let own = gate::index(gate);
    let partition = if gate.partition >= gate.replicas { replicas } else { own.min(replicas) };
    // An approval names the pod behind the gate.
    let approved = gate.approved && partition == own;
    GateStatus { approved, ..gate::begin(partition, replicas, gate.first, scene.now()) }
}

fn complete(scene: &Scene<'_>, status: PhasedRolloutStatus, effects: Effects) -> Progress {
    let gate = scene.rollout().status.rolling_pod_status.as_ref();
    let gate_took = gate.map(|gate| took(scene, gate));
    let message = format!("All pods are of revision {}.", scene.update);
    let completed = Effects { gate_took, ended: Some(Ended::Completed), ..Effects::default() };
    let effects = effects.and(completed).note(note(scene, "RolloutCompleted", message));
    let status = PhasedRolloutStatus {
        previous_revision: None,
        adopted_revisions: Vec::new(),
        ..ended(scene, status)
    };
    Progress::new(status, Wait::UpToDate { revision: scene.update.to_owned() }, effects)
}

/// The gate will not pass. What is done about it is decided once and written down.
fn fail(
    scene: &Scene<'_>,
    status: PhasedRolloutStatus,
    gate: GateStatus,
    (reason, why): (&'static str, String),
    effects: Effects,
) -> Progress {
    // No gate has let the current revision through where pods have yet to be replaced by it: there is no way back.
    let ungated = scene.update == scene.current || !status.adopted_revisions.is_empty();
    let action = if ungated { OnFailure::Pause } else { scene.managed.policy.on_failure };
    let failure = Failure {
        revision: scene.update.to_owned(),
        reason: reason.to_owned(),
        message: why.clone(),
        time: scene.now(),
        action,
    };
    let rolls_back = action == OnFailure::Rollback;
    let gate = GateStatus { status: GateState::Failed, ..gate };
    let status = PhasedRolloutStatus {
        failure: Some(failure),
        awaited_approval: Some(approval_for(&status, scene.update, RETRY)),
        rolling_pod_status: (!rolls_back).then_some(gate),
        ..status
    };
    let effects = effects.end(Ended::Failed);
    if rolls_back {
        let message = gate_failed(scene.update, &why);
        let note = scene.managed.world.note(Severity::Warning, "GateFailed", message, When::Done);
        let wait = Wait::RollingBack { revision: scene.current.to_owned(), why, held: None };
        return Progress::new(status, wait, effects.note(note));
    }
    let wait = failed(scene, &status);
    Progress::new(status, wait, effects)
}

fn failed(scene: &Scene<'_>, status: &PhasedRolloutStatus) -> Wait {
    let restore = status.previous_revision.clone().filter(|_| scene.update == scene.current);
    Wait::GateFailed {
        rollout: scene.rollout().name.to_string(),
        revision: scene.update.to_owned(),
        approval: status.awaited_approval.clone().unwrap_or_default(),
        why: status.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default(),
        restore,
    }
}

/// The pods of the new revision that no gate has let through: those that are known, and those below the partition.
pub(super) fn ungated(scene: &Scene<'_>, status: &PhasedRolloutStatus, below: u32) -> Vec<String> {
    let (first, mut ungated) = (scene.set().first_ordinal, status.ungated_pods.clone());
    for pod in &scene.member().pods {
        let index = scene.member().wanted_ordinal(pod).map(|ordinal| ordinal.saturating_sub(first));
        let is_ungated = index.is_some_and(|index| index < below) && gate::is_of(pod, scene.update);
        let is_known = ungated.iter().any(|known| **known == *pod.name);
        if is_ungated && !is_known && ungated.len() < MAX_UNGATED {
            ungated.push(pod.name.to_string());
        }
    }
    ungated
}

/// The lowest partition at which no pod moves: one above the highest index that is not of the revision yet.
pub(super) fn released(scene: &Scene<'_>) -> u32 {
    let held = gate::highest_outdated(scene.member(), scene.update);
    held.map_or(0, |ordinal| ordinal.saturating_sub(scene.set().first_ordinal).saturating_add(1))
}

fn passed(scene: &Scene<'_>, gate: &GateStatus) -> Wait {
    Wait::GatePassed { partition: gate::index(gate), pod: next_pod(scene, gate) }
}

/// The pod that the step behind a gate replaces; `None` at the final gate.
fn next_pod(scene: &Scene<'_>, gate: &GateStatus) -> Option<String> {
    let index = gate::index(gate).checked_sub(1)?;
    let ordinal = scene.set().first_ordinal.saturating_add(index);
    Some(format!("{}-{ordinal}", scene.set().name))
}

/// A clock that was set back makes it no less than nothing.
fn took(scene: &Scene<'_>, gate: &GateStatus) -> SignedDuration {
    scene.now().duration_since(gate.start_time).max(SignedDuration::ZERO)
}

fn note(scene: &Scene<'_>, reason: &'static str, message: String) -> Note {
    scene.managed.world.note(Severity::Normal, reason, message, When::Done)
}
