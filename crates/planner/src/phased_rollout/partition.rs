//! Holding the partition: it is what was decided, whoever else writes it.

use std::sync::Arc;

use sts_plus_api::phased_rollout::{GateState, Phase, PhasedRolloutStatus};

use super::adoption::is_adopted;
use super::gate::{self, later, to_i32};
use super::progress::{Effects, Progress};
use super::situation::Managed;
use super::wait::{Wait, denied_for};
use crate::contest;
use crate::disruption::Gatekeeper;
use crate::health::Member;
use crate::plan::{Action, When};
use crate::pod::PodRow;
use crate::reason::{Reason, Severity};
use crate::rollout_group::OBSERVATION_GRACE;
use crate::set::{SetRow, Strategy};

/// A partition that was made what it has to be, or is contested.
pub(super) struct Held {
    pub(super) status: PhasedRolloutStatus,
    /// Why it is not held now.
    pub(super) contested: Option<Wait>,
    pub(super) effects: Effects,
}

impl Held {
    /// With the effects of the steps before it.
    pub(super) fn after(self, before: Effects) -> Self {
        Self { effects: before.and(self.effects), ..self }
    }
}

/// The set's own controller has not looked at the spec. Its revisions are not known, but a partition that is too
/// low may be raised, and at once: a template may have come with more replicas, or with a partition of its own.
pub(super) fn unobserved(managed: &Managed<'_>, status: PhasedRolloutStatus, effects: Effects) -> Progress {
    let own = held_at(managed, &status).filter(|own| managed.partition < *own);
    // If it is contested it is not held now; that is reported once the set is observed.
    let (status, effects) = match own {
        Some(own) => {
            let Held { status, effects, .. } = hold(managed, status, own).after(effects);
            (status, effects)
        }
        None => (status, effects),
    };
    let reported_at = managed.world.unobserved_since.map(|since| later(since, OBSERVATION_GRACE));
    match reported_at {
        Some(at) if at > managed.now && managed.rollout().status.waiting_for.is_some() => {
            Progress { status, wait: None, effects: effects.wake(Some(at)) }
        }
        _ => Progress::new(status, Wait::NotObserved { generation: managed.set().generation }, effects),
    }
}

/// Where the partition holds, as far as that can be said without the revisions.
fn held_at(managed: &Managed<'_>, status: &PhasedRolloutStatus) -> Option<u32> {
    let set = managed.set();
    let Some(gate) = &status.rolling_pod_status else {
        // A set that has just been taken as well: it may have been created over pods of another revision.
        let holds =
            matches!(status.phase, None | Some(Phase::Updated | Phase::RollingBack | Phase::RolledBack));
        return holds.then_some(set.replicas);
    };
    let own = gate::index(gate);
    if gate.status == GateState::Passed && own.checked_sub(1) == Some(managed.partition) {
        // The step was taken and not written down.
        return None;
    }
    let promoted = status.update_revision.as_deref() == set.current_revision.as_deref();
    // Where the set was created over pods of another revision, that holds from the first gate on.
    let final_gate = promoted && gate.partition == 0 && !has_pods_to_replace(managed.member, status);
    let whole = final_gate || gate.partition >= gate.replicas;
    Some(if whole { set.replicas } else { own.min(set.replicas) })
}

/// Whether pods of the revision before are there. A set that was created over its pods calls the update revision current
/// from the start, and its last pod has yet to be replaced when the final gate begins.
fn has_pods_to_replace(member: &Member, status: &PhasedRolloutStatus) -> bool {
    let update = status.update_revision.as_deref();
    let to_replace = |pod: &PodRow| is_adopted(status, pod) && pod.revision.as_deref() != update;
    member.pods.iter().any(|pod| to_replace(pod) && member.wanted_ordinal(pod).is_some())
}

/// A partition that may not be lowered.
pub(super) struct LoweringDenied {
    pub(super) reason: Reason,
    pub(super) effects: Effects,
}

/// Why the partition that somebody else has raised may not be lowered to `own` again, where that would release pods. Each
/// of them must have its permit with the partition where it shall be, since that says what it is rebuilt with. The
/// set's own controller replaces them one by one, so that each is asked for by itself.
pub(super) fn lowering_denied(managed: &Managed<'_>, own: u32) -> Option<LoweringDenied> {
    let (set, member) = (managed.set(), managed.member);
    let update = set.target()?;
    let first = set.first_ordinal;
    let released = first.saturating_add(own)..first.saturating_add(managed.partition);
    let is_released = |pod: &&Arc<PodRow>| {
        let ordinal = member.wanted_ordinal(pod);
        ordinal.is_some_and(|ordinal| released.contains(&ordinal)) && !gate::is_of(pod, update)
    };
    let mut pods = member.pods.iter().filter(is_released).peekable();
    pods.peek()?;
    let lowered = SetRow { strategy: Strategy::RollingUpdate { partition: own }, ..SetRow::clone(set) };
    let domain = managed.domain(&Member { set: Arc::new(lowered), pods: member.pods.clone() });
    let denial = pods.find_map(|pod| Gatekeeper::new(&domain).ask(&set.name, pod).err())?;
    let effects = Effects::default().wake(domain.changes_at()).denied([&denial]);
    Some(LoweringDenied { reason: denied_for(&denial), effects })
}

/// Makes the partition what it has to be. A value that is neither that nor the one last decided on is somebody
/// else's; whoever keeps writing it makes us wait before the next time.
pub(super) fn hold(managed: &Managed<'_>, status: PhasedRolloutStatus, own: u32) -> Held {
    let Managed { world, now, partition, .. } = *managed;
    let (set, rollout) = (managed.set(), managed.rollout());
    let contest = contest::recent(status.contest.as_ref(), now);
    let forgotten = contest.as_ref().map(|contest| contest::forgotten_at(contest.last_time));
    let effects = Effects::default().wake(forgotten);
    let foreign = status.partition.is_some_and(|last| last != to_i32(partition));
    let status = PhasedRolloutStatus { contest: contest.clone(), ..status };
    let held_status = |status| PhasedRolloutStatus { partition: Some(to_i32(own)), ..status };
    let pin = Action::pin(set, &rollout.name, own);
    if partition == own || !foreign {
        // With the value but without the mark: somebody has removed it, or the value was there before us.
        let is_held = partition == own && is_marked(managed);
        let effects = if is_held { effects } else { effects.write(pin) };
        return Held { status: held_status(status), contested: None, effects };
    }
    if let Some((until, contest)) = contest.as_ref().and_then(|it| Some((contest::rests_until(it, now)?, it)))
    {
        let wait = Wait::PartitionContested { manager: contest.manager.clone(), until };
        return Held { status, contested: Some(wait), effects: effects.wake(Some(until)) };
    }
    let writer = world.partition_manager.clone().unwrap_or_else(|| "somebody".to_owned());
    let message = format!("{writer} has set the partition to {partition}. It is restored to {own}.");
    let when = When::Written(pin.object().clone());
    let note = world.note(Severity::Warning, "PartitionRestored", message, when);
    let contest = Some(contest::again(contest.as_ref(), writer, now));
    let effects = effects.ask(world.ask_for_manager()).write(pin).note(note);
    Held {
        status: PhasedRolloutStatus { contest, ..held_status(status) },
        contested: None,
        effects: effects.wake(Some(contest::forgotten_at(now))),
    }
}

/// Whether the set carries the mark of this rollout.
pub(super) fn is_marked(managed: &Managed<'_>) -> bool {
    managed.set().steering.phased_rollout.as_deref() == Some(&*managed.rollout().name)
}
