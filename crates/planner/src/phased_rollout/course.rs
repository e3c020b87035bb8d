//! Which course an observed set is on, and the steps of each: at rest, rolling, verified, rolled back.

use std::sync::Arc;

use sts_plus_api::phased_rollout::{Failure, GateStatus, OnFailure, Phase, PhasedRolloutStatus};

use super::adoption::{has_adopted, others, replaces_adopted, was_under_way};
use super::gate::{self, to_i32};
use super::partition::{Held, hold};
use super::progress::{Effects, Progress};
use super::report::tally;
use super::situation::Scene;
use super::wait::Wait;
use super::{Ended, rollback, rolling};
use crate::plan::When;
use crate::pod::PodRow;
use crate::reason::Severity;

/// What has to be done for an observed set.
enum Course {
    /// Nothing rolls.
    Rest,
    /// A revision is new: its first gate begins.
    Start,
    /// A rollout is under way, at this gate.
    Resume(GateStatus),
    /// All pods are of the revision: the final gate.
    Verify(GateStatus),
    /// The revision has failed, and its pods go back to the one before.
    RollBack,
}

impl Course {
    fn of(scene: &Scene<'_>, status: &PhasedRolloutStatus) -> Self {
        let same = status.update_revision.as_deref() == Some(scene.update);
        let gate = status.rolling_pod_status.clone().filter(|_| same);
        match (scene.update == scene.current, gate) {
            (true, Some(gate)) if replaces_adopted(scene, status) => Self::Resume(gate),
            (true, Some(gate)) => Self::Verify(gate),
            (true, None) if has_adopted(scene, status) || was_rolled_unseen(scene) => Self::Start,
            (true, None) => Self::Rest,
            (false, _) if rollback::is_due(status) => Self::RollBack,
            (false, Some(gate)) => Self::Resume(gate),
            (false, None) => Self::Start,
        }
    }
}

/// Holds the partition of an observed set and rolls it, gate by gate.
pub(super) fn follow(scene: &Scene<'_>, status: PhasedRolloutStatus, effects: Effects) -> Progress {
    let status = observed(scene, status);
    match Course::of(scene, &status) {
        Course::Rest => rest(scene, status, effects),
        Course::Start => rolling::start(scene, status, effects, false),
        Course::Resume(gate) => rolling::resume(scene, status, gate, effects),
        Course::Verify(gate) => verify(scene, status, gate, effects),
        Course::RollBack => rollback::roll_back(scene, status, effects),
    }
}

/// The status with what is known now that the set is observed and no longer suspended.
fn observed(scene: &Scene<'_>, status: PhasedRolloutStatus) -> PhasedRolloutStatus {
    let suspended = status.phase == Some(Phase::Suspended);
    let of_this_revision = |failure: &Failure| failure.revision == scene.update;
    let status = PhasedRolloutStatus {
        awaited_approval: None,
        pods: tally(scene),
        failure: status.failure.filter(of_this_revision),
        phase: if suspended { Some(Phase::Rolling) } else { status.phase },
        holds_every_pod: status.holds_every_pod && !suspended,
        ..status
    };
    if scene.update == scene.current { paused_on_failure(scene, status) } else { status }
}

/// A revision that failed and was promoted before its pods were back stays where it is: there is nothing to go back to.
fn paused_on_failure(scene: &Scene<'_>, status: PhasedRolloutStatus) -> PhasedRolloutStatus {
    let PhasedRolloutStatus { failure: Some(failure), rolling_pod_status, .. } = status else {
        return status;
    };
    // Where pods of another revision are there, their gates are ahead.
    let anew = || gate::begin(rolling::released(scene), scene.set().replicas, false, scene.now());
    PhasedRolloutStatus {
        failure: Some(Failure { action: OnFailure::Pause, ..failure }),
        rolling_pod_status: rolling_pod_status.or_else(|| Some(anew())),
        ..status
    }
}

/// Whether every pod has got another revision since this set, or the one of its name before it, was last looked at: no
/// gate has let them through.
fn was_rolled_unseen(scene: &Scene<'_>) -> bool {
    let before = &scene.rollout().status;
    let same_name = before.target.as_ref().is_some_and(|target| *target.name == *scene.set().name);
    let another = before.update_revision.as_deref().is_some_and(|revision| revision != scene.update);
    let at_rest = matches!(before.phase, Some(Phase::Updated | Phase::RolledBack));
    let replaced = scene.set().replicas > 0 && others(scene).next().is_none();
    same_name && another && at_rest && replaced
}

/// Why pods of a template that came and went are reverted.
const CHANGED_BACK: &str = "the template was changed back to it";

/// Nothing rolls: the partition is pinned before anything else is reported, and pods of another revision, which a
/// rollout that was taken back has left, are reverted.
fn rest(scene: &Scene<'_>, mut status: PhasedRolloutStatus, effects: Effects) -> Progress {
    let was_under_way = was_under_way(&status);
    let left = status.rolling_pod_status.take().is_some();
    let rolling_back = status.phase == Some(Phase::RollingBack);
    if left {
        // Also while something keeps it from being done: the way back is not over before it is reported.
        status.phase = Some(Phase::RollingBack);
    }
    let Held { mut status, contested, effects } =
        hold(&scene.managed, status, scene.set().replicas).after(effects);
    if let Some(wait) = contested {
        return Progress::new(status, wait, effects);
    }
    let revision = || scene.update.to_owned();
    status.update_revision = Some(revision());
    let changed = rollback::changed_pods(scene, &status, scene.update);
    if was_under_way && !changed.is_empty() {
        return rollback::revert(scene, status, (changed, scene.update, CHANGED_BACK), effects);
    }
    if rolling_back && !scene.health.all_ready() {
        let wait = Wait::RollingBack { revision: revision(), why: CHANGED_BACK.to_owned(), held: None };
        return Progress::new(status, wait, effects.wake(scene.health.changes_at));
    }
    let effects = if left || rolling_back {
        status = ended(scene, status);
        let message = format!("All pods are back on revision {}.", scene.update);
        let note = scene.managed.world.note(Severity::Normal, "RolledBack", message, When::Done);
        effects.note(note).end(Ended::RolledBack)
    } else {
        effects
    };
    status.previous_revision = None;
    status.adopted_revisions.clear();
    status.ungated_pods.clear();
    Progress::new(status, Wait::UpToDate { revision: revision() }, effects)
}

/// All pods are of the revision, and the set's own controller calls it current: the final gate, with the partition
/// pinned again, so that a further template does not slip through.
fn verify(scene: &Scene<'_>, status: PhasedRolloutStatus, gate: GateStatus, effects: Effects) -> Progress {
    let set = scene.set();
    let (mut status, mut gate, effects) = rolling::caught_up(scene, status, gate, effects);
    if gate.partition > 0 {
        status.ungated_pods = rolling::ungated(scene, &status, gate::index(&gate));
    }
    if gate.partition > 0 || gate.replicas != to_i32(set.replicas) {
        gate = gate::begin(0, set.replicas, false, scene.now());
    }
    let Held { mut status, contested, effects } = hold(&scene.managed, status, set.replicas).after(effects);
    if let Some(wait) = contested {
        status.rolling_pod_status = Some(gate);
        return Progress::new(status, wait, effects);
    }
    // A further template has come and gone before the partition was pinned: nobody else reverts its pods. One that
    // terminates is replaced anyway, as the last one of a set that was created over its pods is.
    let left = |pod: &Arc<PodRow>| pod.revision.as_deref() != Some(scene.update) && !pod.terminating;
    let changed = rollback::changed_pods(scene, &status, scene.update);
    if scene.member().pods.iter().any(left) && !changed.is_empty() {
        status.rolling_pod_status = Some(gate);
        return rollback::revert(scene, status, (changed, scene.update, CHANGED_BACK), effects);
    }
    rolling::pass(scene, status, gate, effects)
}

/// The status of a rollout that is over.
pub(super) fn ended(scene: &Scene<'_>, status: PhasedRolloutStatus) -> PhasedRolloutStatus {
    let ended = status.rollout_start_time.map(|_| scene.now()).or(status.rollout_end_time);
    PhasedRolloutStatus { rolling_pod_status: None, rollout_end_time: ended, ..status }
}
