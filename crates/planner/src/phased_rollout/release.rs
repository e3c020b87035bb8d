//! Releasing a set: when the rollout is deleted, suspended, or names another target.

use sts_plus_api::keys;
use sts_plus_api::phased_rollout::{Phase, PhasedRolloutStatus, ReleasePolicy, Target};

use super::partition::{Held, hold, is_marked, lowering_denied};
use super::progress::{Effects, Progress};
use super::situation::Managed;
use super::wait::Wait;
use super::{Decision, World, forget_target};
use crate::plan::{Action, Note, Plan, Step, When};
use crate::reason::Severity;
use crate::set::{SetRow, Strategy};

/// The end of a rollout that is being deleted: every set that it holds is released, then our finalizer. One set per pass,
/// since each is released in the lane of its own domain.
pub(super) fn depart(world: &World) -> Decision {
    let rollout = &world.rollout;
    let mut plan = Plan::default();
    if rollout.has_finalizer() {
        let mut held = world.held.iter();
        if let Some(set) = held.next() {
            let (writes, note) = release(world, set);
            plan.steps.extend(writes.into_iter().map(Step::one));
            plan.notes.push(note);
        }
        if held.next().is_none() {
            plan.steps.push(Step::one(rollout.let_go()));
        }
    }
    Decision { plan, status: rollout.status.clone(), ..Decision::default() }
}

/// What it takes to release a set, and what to report of it. Another rollout that waits for the set takes it over as it is,
/// with the mark of its own, so that nothing moves in between and nothing is left if it is deleted as well.
fn release(world: &World, set: &SetRow) -> (Vec<Action>, Note) {
    let policy = world.rollout.spec.deletion;
    let marked = set.steering.phased_rollout.as_deref() == Some(&*world.rollout.name);
    // The mark may have other owners besides our apply: whoever restored a backup, or an earlier version of ours.
    let unmark = Action::annotate(set, keys::PHASED_ROLLOUT, None, keys::MANAGER_PHASED_ROLLOUT);
    let unmark = marked.then_some(unmark);
    let successor = world.others.iter().find(|other| !other.deleting && other.target() == Some(&*set.name));
    let (writes, message): (Vec<Action>, _) = match (successor, &set.strategy, policy) {
        (Some(successor), Strategy::RollingUpdate { partition }, _) => (
            vec![Action::pin(set, &successor.name, *partition)],
            format!("{} is handed over to the PhasedRollout {}.", set.name, successor.name),
        ),
        (_, _, ReleasePolicy::Freeze) => (
            unmark.into_iter().collect(),
            format!("{} is released: its partition keeps its value and no pod is replaced.", set.name),
        ),
        (_, _, ReleasePolicy::Resume) => (
            std::iter::once(Action::release(set)).chain(unmark).collect(),
            format!("{} is released: the StatefulSet controller rolls it without checks.", set.name),
        ),
    };
    let when = writes.first().map_or(When::Done, |write| When::Written(write.object().clone()));
    (writes, world.note(Severity::Normal, "Released", message, when))
}

/// Another target was named, or a set other than the target carries our mark: it is released first, and that
/// is all that the pass does.
pub(super) fn release_former(
    world: &World,
    status: PhasedRolloutStatus,
    (managed, held): (Option<&Target>, Option<&SetRow>),
) -> Progress {
    let released = held.map(|set| release(world, set));
    let effects = released
        .map_or_else(Effects::default, |(writes, note)| Effects { writes, ..Effects::default() }.note(note));
    match managed {
        Some(managed) if held.is_none_or(|set| managed.uid == *set.uid) => {
            let wait = Wait::Releasing { set: managed.name.clone() };
            Progress::new(forget_target(status), wait, effects)
        }
        // The status does not know it, and has nothing to say of it.
        _ => Progress { status, wait: None, effects },
    }
}

/// Gating is suspended: the partition is given up, or stays.
pub(super) fn suspend(managed: &Managed<'_>, status: PhasedRolloutStatus, effects: Effects) -> Progress {
    let status = PhasedRolloutStatus {
        rolling_pod_status: None,
        awaited_approval: None,
        phase: Some(Phase::Suspended),
        ..status
    };
    match managed.policy.suspend {
        ReleasePolicy::Freeze => freeze(managed, status, effects),
        ReleasePolicy::Resume => give_up(managed, status, effects),
    }
}

fn freeze(managed: &Managed<'_>, status: PhasedRolloutStatus, effects: Effects) -> Progress {
    let status = PhasedRolloutStatus { holds_every_pod: holds_every_pod(managed, &status), ..status };
    let own = status.partition.and_then(|own| u32::try_from(own).ok()).unwrap_or(managed.partition);
    let own = if status.holds_every_pod { own.max(managed.set().replicas) } else { own };
    if let Some(denied) = lowering_denied(managed, own) {
        return Progress::new(status, Wait::Held { reason: denied.reason }, effects.and(denied.effects));
    }
    let suspended = Wait::Suspended { policy: ReleasePolicy::Freeze };
    let Held { status, contested, effects } = hold(managed, status, own).after(effects);
    Progress::new(status, contested.unwrap_or(suspended), effects)
}

/// Whether a suspended set is frozen as a whole, however many replicas it gets: where the value last decided on held every
/// pod, and where no rollout was under way. Pods of a revision that no gate has let through would be created otherwise.
fn holds_every_pod(managed: &Managed<'_>, status: &PhasedRolloutStatus) -> bool {
    let before = &managed.rollout().status;
    if before.phase == Some(Phase::Suspended) && status.target == before.target {
        return status.holds_every_pod;
    }
    let gated = before.rolling_pod_status.as_ref().map(|gate| gate.replicas);
    let replicas = gated.and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or(managed.set().replicas);
    let own = status.partition.and_then(|own| u32::try_from(own).ok());
    status.previous_revision.is_none() || own.is_none_or(|own| own >= replicas)
}

fn give_up(managed: &Managed<'_>, status: PhasedRolloutStatus, effects: Effects) -> Progress {
    // One that an earlier rollout has left is ours as well, and given up once; one that is not stays anyway.
    let left = managed.partition > 0 && managed.rollout().status.phase != Some(Phase::Suspended);
    let (set, rollout) = (managed.set(), &managed.rollout().name);
    let effects = if status.partition.is_some() || left {
        effects.write(Action::give_up_partition(set, rollout))
    } else if is_marked(managed) {
        effects
    } else {
        effects.write(Action::mark(set, rollout))
    };
    let status = PhasedRolloutStatus {
        partition: None,
        contest: None,
        failure: None,
        holds_every_pod: false,
        ..status
    };
    Progress::new(status, Wait::Suspended { policy: ReleasePolicy::Resume }, effects)
}
