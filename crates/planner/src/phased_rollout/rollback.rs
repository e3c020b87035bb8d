//! The way back: pods of a revision that failed, or was taken back, return to the one before.
//!
//! The template is the user's and is not written. With the partition at the replicas, a pod that is deleted is built
//! from the current revision again.

use std::cmp::Reverse;
use std::sync::Arc;

use sts_plus_api::phased_rollout::{OnFailure, Phase, PhasedRolloutStatus};

use super::adoption::is_adopted;
use super::approval::{RETRY, approval_for, is_given, used_up};
use super::course::ended;
use super::partition::{Held, hold};
use super::progress::{Effects, Progress};
use super::situation::Scene;
use super::wait::{Wait, denied_for};
use super::{Ended, rolling};
use crate::disruption::Gatekeeper;
use crate::health::Why;
use crate::ordinal;
use crate::plan::{Action, When};
use crate::pod::PodRow;
use crate::reason::Severity;

/// Whether the revision has failed and its pods shall go back.
pub(super) fn is_due(status: &PhasedRolloutStatus) -> bool {
    status.failure.as_ref().is_some_and(|failure| failure.action == OnFailure::Rollback)
}

/// Reverts the pods of a failed revision, and then waits for another template.
pub(super) fn roll_back(scene: &Scene<'_>, status: PhasedRolloutStatus, effects: Effects) -> Progress {
    let approval = approval_for(&status, scene.update, RETRY);
    if is_given(scene.rollout(), &approval) {
        let status = PhasedRolloutStatus { failure: None, ..used_up(status, approval) };
        let message = format!("Revision {} is retried.", scene.update);
        let note = scene.managed.world.note(Severity::Normal, "Approved", message, When::Done);
        return rolling::start(scene, status, effects.note(note), true);
    }
    let status = PhasedRolloutStatus { awaited_approval: Some(approval.clone()), ..status };
    let Held { mut status, contested, effects } =
        hold(&scene.managed, status, scene.set().replicas).after(effects);
    if let Some(wait) = contested {
        return Progress::new(status, wait, effects);
    }
    let why = status.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    let changed = changed_pods(scene, &status, scene.current);
    if !changed.is_empty() {
        return revert(scene, status, (changed, scene.current, &why), effects);
    }
    let revision = scene.current.to_owned();
    // The way back ends once; a pod that is down later is no rollback.
    let ends = status.rollout_end_time.is_none();
    if ends && !scene.health.all_ready() {
        let wait = Wait::RollingBack { revision, why, held: None };
        return Progress::new(status, wait, effects.wake(scene.health.changes_at));
    }
    let effects = if ends { effects.end(Ended::RolledBack) } else { effects };
    status = if ends { ended(scene, status) } else { status };
    status.ungated_pods.clear();
    let rollout = scene.rollout().name.to_string();
    let wait = Wait::RolledBack { rollout, approval, failed: scene.update.to_owned(), revision };
    Progress::new(status, wait, effects)
}

/// The pods that are to be reverted to a revision. Those that the set was created over are not: their gates are ahead.
pub(super) fn changed_pods<'s>(
    scene: &Scene<'s>,
    status: &PhasedRolloutStatus,
    revision: &str,
) -> Vec<&'s Arc<PodRow>> {
    let member = scene.member();
    let changed = |pod: &&Arc<PodRow>| {
        pod.revision.as_deref() != Some(revision)
            && member.wanted_ordinal(pod).is_some()
            && !is_adopted(status, pod)
    };
    member.pods.iter().filter(changed).collect()
}

/// Deletes changed pods, as far as they may be. Nothing is deleted before the partition is known to the set's own
/// controller: it would build the same pods again.
pub(super) fn revert(
    scene: &Scene<'_>,
    status: PhasedRolloutStatus,
    (mut pods, revision, why): (Vec<&Arc<PodRow>>, &str, &str),
    effects: Effects,
) -> Progress {
    let waits = |held| Wait::RollingBack { revision: revision.to_owned(), why: why.to_owned(), held };
    if scene.managed.policy.paused {
        let status = PhasedRolloutStatus { phase: Some(Phase::RollingBack), ..status };
        let wait = Wait::Paused { rollout: scene.rollout().name.to_string() };
        return Progress::new(status, wait, effects);
    }
    if !effects.writes.is_empty() {
        return Progress::new(status, waits(None), effects);
    }
    pods.retain(|pod| !pod.terminating);
    let broken = |pod: &PodRow| matches!(scene.health.why_down(&pod.name), Some(Why::Broken(_)));
    // Dead ones first: they may be deleted when others may not. The newest is the lowest: a rolling update proceeds from
    // the highest ordinal down.
    pods.sort_by(|left, right| {
        let urgency = |pod: &PodRow| Reverse((pod.is_dead(), broken(pod)));
        urgency(left).cmp(&urgency(right)).then_with(|| ordinal::natural(&left.name, &right.name))
    });
    let domain = scene.domain();
    let mut gatekeeper = Gatekeeper::new(&domain);
    let (mut deletions, mut denial) = (Vec::new(), None);
    for pod in pods {
        match gatekeeper.ask_back(&scene.set().name, pod) {
            Ok(permit) => deletions.push(Action::delete(&permit)),
            Err(denied) => {
                denial = Some(denied);
                break;
            }
        }
    }
    let effects = effects.denied(&denial);
    match denial {
        Some(denial) if deletions.is_empty() => {
            Progress::new(status, waits(Some(denied_for(&denial))), effects.wake(domain.changes_at()))
        }
        _ => {
            let deleted = Effects { writes: deletions, ..Effects::default() };
            Progress::new(status, waits(None), effects.and(deleted))
        }
    }
}

/// Replaces outdated pods whose revision never worked. They are below the partition, so that nobody
/// else does, and no gate passes while they are down. A pod that serves stays until it is reached, and so does one that
/// the set was created over, unless it is dead: it may serve again.
pub(super) fn replace_stuck(scene: &Scene<'_>, status: &PhasedRolloutStatus) -> Effects {
    let known = [Some(scene.update), Some(scene.current), status.previous_revision.as_deref()];
    let stuck = |pod: &&Arc<PodRow>| {
        let outdated = !known.contains(&pod.revision.as_deref());
        let down = matches!(scene.health.why_down(&pod.name), Some(Why::Broken(_) | Why::NotReady));
        let lost = pod.is_dead() || !is_adopted(status, pod);
        outdated && down && lost && scene.member().wanted_ordinal(pod).is_some()
    };
    let pods: Vec<_> = scene.member().pods.iter().filter(stuck).collect();
    if scene.managed.policy.paused || pods.is_empty() {
        return Effects::default();
    }
    let domain = scene.domain();
    let mut gatekeeper = Gatekeeper::new(&domain);
    pods.into_iter().fold(Effects::default(), |effects, pod| {
        match gatekeeper.ask_back(&scene.set().name, pod) {
            Ok(permit) => {
                let deletion = Action::delete(&permit);
                let message = format!("{} is replaced: it is outdated and not available.", pod.name);
                let when = When::Written(deletion.object().clone());
                let note = scene.managed.world.note(Severity::Warning, "StuckPodReplaced", message, when);
                effects.write(deletion).note(note)
            }
            Err(denial) => effects.denied([&denial]),
        }
    })
}
