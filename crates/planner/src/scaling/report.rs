//! What is said about a policy: its status, its conditions, what is announced; and the plan, in the order of its writes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sts_plus_api::conditions::{self, Condition, Truth};
use sts_plus_api::scaling_policy::{PodRecord, RecordPhase, ScalingPolicyStatus};

use super::calls::Side;
use super::moves::Moves;
use super::record::{is_open, is_under_way};
use super::situation::Scene;
use super::wait::Wait;
use super::{Decision, World};
use crate::conditions::Conditions;
use crate::health::{Health, Why};
use crate::phased_rollout::wait::in_succession;
use crate::plan::{Plan, Step};
use crate::reason::Severity;

/// Puts the plan together: what later passes rely on is written first.
pub(super) fn plan(world: &World, scene: Option<&Scene<'_>>, moves: Moves, now: Timestamp) -> Decision {
    let Moves { mut status, mut waits, mut notes, asks, .. } = moves;
    if let Some(scene) = scene {
        count(scene, &mut status);
        waits.extend(status.leaving.iter().filter_map(|record| describe(scene, Side::Leaving, record)));
        waits.extend(status.joining.iter().filter_map(|record| describe(scene, Side::Joining, record)));
        let health = health(scene, &status);
        waits.extend((!health.all_ready()).then(|| Wait::PodsNotReady { down: health.summary() }));
    }
    waits.extend(world.refused.clone().map(Wait::Refused));
    let wait = waits.into_iter().min_by_key(Wait::rank);
    status.observed_generation = Some(world.row.generation);
    let reported = report(world, &status, wait.as_ref(), now);
    let begins = wait.as_ref().filter(|wait| wait.is_announced() && is_news(world, wait));
    notes.extend(begins.map(|wait| world.note(wait.severity(), wait.reason(), wait.to_string())));
    let was_ready = world.row.status.conditions.iter().find(|condition| condition.kind == conditions::READY);
    if wait.is_none() && was_ready.is_some_and(|was| was.status == Truth::False) {
        let replicas = status.replicas.unwrap_or_default();
        notes.push(world.note(Severity::Normal, "Ready", as_requested(replicas)));
    }
    status.conditions = reported;
    let is_news = status != world.row.status && moves.departure.is_none();
    let writes = is_news.then(|| world.row.report(&status));
    let writes = writes.into_iter().chain(moves.lock_write).chain(moves.deletions);
    let writes = writes.chain(moves.claim_writes).chain(moves.record_write);
    let writes = writes.chain(moves.set_write).chain(moves.departure);
    let waits_on: BTreeSet<_> = moves.waits_on.into_iter().collect();
    let calling = calling(&status);
    let plan = Plan {
        asks,
        steps: writes.map(Step::one).collect(),
        notes,
        wake_at: moves.wake_at,
        waits_on: waits_on.into_iter().collect(),
    };
    Decision { plan, status, wait, polls_at: moves.polls_at, calling, removed: moves.removed }
}

/// The calls whose outcome counts.
fn calling(status: &ScalingPolicyStatus) -> BTreeSet<(Box<str>, super::hook::Call)> {
    let leaving = status.leaving.iter().map(|record| (Side::Leaving, record));
    let all = leaving.chain(status.joining.iter().map(|record| (Side::Joining, record)));
    all.filter_map(|(side, record)| Some((record.pod_uid.as_str().into(), side.call_of(record)?))).collect()
}

/// Fills in the numbers.
fn count(scene: &Scene<'_>, status: &mut ScalingPolicyStatus) {
    let health = Health::of(scene.member, scene.now);
    let is_counted = |ordinal: u32| {
        let is_it = |record: &&PodRecord| record.ordinal == ordinal;
        let leaves = status.leaving.iter().filter(is_it).any(is_under_way);
        let joins = status.joining.iter().any(|record| is_it(&record));
        !leaves && !joins
    };
    let is_ready = |pod: &&std::sync::Arc<crate::pod::PodRow>| {
        let ordinal = scene.member.wanted_ordinal(pod);
        ordinal.is_some_and(is_counted) && health.why_down(&pod.name).is_none()
    };
    let ready = scene.member.pods.iter().filter(is_ready).count();
    status.replicas = Some(scene.replicas());
    status.ready_replicas = u32::try_from(ready).ok();
    status.desired_replicas = Some(scene.wanted);
    status.selector = Some(scene.set().selector.to_string());
}

/// The pods that are down without leaving.
fn health(scene: &Scene<'_>, status: &ScalingPolicyStatus) -> Health {
    let mut health = Health::of(scene.member, scene.now);
    let before = health.down.len();
    let leaves =
        |pod: &str| status.leaving.iter().any(|record| record.pod_name == pod && is_under_way(record));
    health.down.retain(|down| down.why != Why::Leaving && !leaves(&down.pod));
    let fewer = u32::try_from(before.saturating_sub(health.down.len())).unwrap_or(u32::MAX);
    health.count = health.count.saturating_sub(fewer);
    health
}

/// What is waited for because of a record.
fn describe(scene: &Scene<'_>, side: Side, record: &PodRecord) -> Option<Wait> {
    let pod = record.pod_name.clone();
    let (message, error, attempts) = (record.message.clone(), record.last_error.clone(), record.attempts);
    Some(match record.phase {
        RecordPhase::Failed => Wait::Aborted { pod, wanted: scene.wanted, replicas: scene.replicas() },
        RecordPhase::Drained if side == Side::Leaving => Wait::Removing { pod },
        RecordPhase::Drained => return None,
        RecordPhase::Cancelling if attempts > 0 => Wait::CancelFailing { pod, error, attempts },
        RecordPhase::Cancelling => Wait::Cancelling { pod },
        _ if record.deadline_exceeded && is_open(record) => Wait::DeadlineExceeded { pod, error },
        _ if attempts > 0 => Wait::HookFailing { pod, error, attempts },
        _ if side == Side::Joining => Wait::Joining { pod, message },
        RecordPhase::Requested | RecordPhase::Draining => Wait::Draining { pod, message },
    })
}

/// Whether the last status did not have this wait.
fn is_news(world: &World, wait: &Wait) -> bool {
    let mut known = world.row.status.conditions.iter();
    let was = known.find(|condition| condition.kind == conditions::READY);
    was.is_none_or(|was| was.reason != wait.reason() || (names_pod(wait) && !same_pod(&was.message, wait)))
}

/// Whether each pod is worth an event.
fn names_pod(wait: &Wait) -> bool {
    matches!(wait, Wait::Draining { .. } | Wait::DeadlineExceeded { .. } | Wait::Aborted { .. })
}

fn same_pod(message: &str, wait: &Wait) -> bool {
    match wait {
        Wait::Draining { pod, .. } | Wait::DeadlineExceeded { pod, .. } | Wait::Aborted { pod, .. } => {
            message.contains(pod.as_str())
        }
        _ => true,
    }
}

fn as_requested(replicas: u32) -> String {
    match replicas {
        0 => "There are no pods, as requested.".to_owned(),
        1 => "The pod is Ready.".to_owned(),
        replicas => format!("All {replicas} pods are Ready."),
    }
}

/// The conditions of a status.
fn report(
    world: &World,
    status: &ScalingPolicyStatus,
    wait: Option<&Wait>,
    now: Timestamp,
) -> Vec<Condition> {
    let made = Conditions { known: &world.row.status.conditions, generation: world.row.generation, now };
    let (reason, message) = match wait {
        None => ("AsRequested", as_requested(status.replicas.unwrap_or_default())),
        Some(wait) => (wait.reason(), wait.to_string()),
    };
    let is_stalled = wait.is_some_and(Wait::is_stalled);
    let mut conditions = vec![made.of(conditions::READY, wait.is_none(), reason, message.clone())];
    if is_stalled {
        conditions.push(made.of(conditions::STALLED, true, reason, message));
    } else if wait.is_some() {
        conditions.push(made.of(conditions::RECONCILING, true, reason, message));
    }
    if let Some(contest) = &status.contest {
        let message = format!(
            "{} has lowered replicas {}. They are restored; change spec.replicas of the ScalingPolicy instead.",
            contest.manager,
            in_succession(contest.times)
        );
        conditions.push(made.of(conditions::CONFLICT, true, "ReplicasContested", message));
    }
    conditions
}
