//! What holds for every plan of every scenario.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sts_plus_api::conditions;
use sts_plus_api::keys;
use sts_plus_api::phased_rollout::{Approval, GateState, NoDataPolicy, Phase, ReleasePolicy};

use super::cluster::{Cluster, partition_of};
use crate::health::Health;
use crate::ordinal;
use crate::phased_rollout::policy::Rule;
use crate::phased_rollout::wait::Wait;
use crate::phased_rollout::{Decision, World};
use crate::plan::{Action, Kind, Verb};
use crate::set::Strategy;

/// Holds a plan against all that must hold for any.
#[track_caller]
pub(super) fn check(world: &World, plan: &Decision, now: Timestamp) {
    let mut partition = None;
    for action in plan.plan.steps.iter().flat_map(|step| &step.writes) {
        assert!(is_guarded(action), "a write that disrupts insists on what it was decided under: {action:?}");
        if let (Kind::StatefulSet, Verb::Apply { body, .. }) = (action.object().kind, action.verb()) {
            let value = &body["spec"]["updateStrategy"]["rollingUpdate"]["partition"];
            if value.is_null() {
                assert!(body.get("spec").is_none(), "nothing else is owned");
                let suspended = world.rollout.spec.policy.as_ref().is_ok_and(|policy| policy.suspended);
                let kept = body.pointer("/metadata/annotations").is_some();
                assert_eq!(kept, suspended && !world.rollout.deleting, "the mark stays while it is managed");
                let disrupts = action.disrupts();
                assert!(
                    !disrupts || may_give_up(world),
                    "given up only when released or suspended:\n{world:#?}"
                );
            } else {
                let value = u32::try_from(value.as_u64().unwrap()).unwrap();
                let mark = &body["metadata"]["annotations"][keys::PHASED_ROLLOUT];
                assert!(mark.is_string(), "a partition and the mark of who holds it are one write: {body}");
                if *mark == *world.rollout.name {
                    check_step(world, value, now);
                    partition = Some(value);
                } else {
                    assert!(!action.disrupts(), "a hand-over moves nothing: {action:?}");
                }
            }
        }
    }
    check_words(world, plan);
    let set = world.target.as_ref().map(|member| &member.set);
    let contested = matches!(plan.wait, Some(Wait::PartitionContested { .. }));
    let rests = plan.status.phase == Some(Phase::Updated) && !world.rollout.deleting;
    if let Some(set) = set.filter(|_| rests && !contested) {
        let pinned = partition.unwrap_or_else(|| partition_of(set));
        let resting = plan.status.contest.is_some() && plan.wait.is_none();
        assert!(
            pinned >= set.replicas || resting,
            "Updated is said of a pinned set only:\n{world:#?}\n{plan:#?}"
        );
    }
}

fn is_guarded(action: &Action) -> bool {
    let claims = matches!((action.object().kind, action.verb()), (Kind::StatefulSet, Verb::Merge { .. }));
    claims || action.precondition().resource_version.is_some()
}

fn may_give_up(world: &World) -> bool {
    let rollout = &world.rollout;
    let policy = rollout.spec.policy.as_ref().unwrap();
    let suspended = policy.suspended && policy.suspend == ReleasePolicy::Resume;
    let strays = world.held.iter().any(|set| rollout.target() != Some(&*set.name));
    let left = rollout.deleting || rollout.managed() != rollout.target() || strays;
    suspended || (left && rollout.spec.deletion == ReleasePolicy::Resume)
}

/// The gate whose step a lowering is; `None` where it only restores what was decided before.
pub(super) fn step_of(world: &World, partition: u32) -> Option<(String, i32, Timestamp)> {
    let status = &world.rollout.status;
    let restores = status.partition == i32::try_from(partition).ok();
    let gate = status.rolling_pod_status.as_ref().filter(|_| !restores)?;
    Some((status.update_revision.clone().unwrap(), gate.partition, gate.start_time))
}

/// A lowering below the replicas needs k fresh consecutive successes of every check, in the status as it was written.
#[track_caller]
fn check_step(world: &World, partition: u32, now: Timestamp) {
    let set = &world.target.as_ref().unwrap().set;
    if partition >= partition_of(set) || partition >= set.replicas {
        return;
    }
    let status = &world.rollout.status;
    if step_of(world, partition).is_none() {
        return;
    }
    let gate = status.rolling_pod_status.as_ref().unwrap();
    let seen = format!("{gate:#?} at {now}");
    assert_eq!(gate.status, GateState::Passed, "written down first: {seen}");
    assert_eq!(gate.partition, i32::try_from(partition_of(set)).unwrap(), "the gate of this step: {seen}");
    assert_eq!(gate.partition, i32::try_from(partition).unwrap() + 1, "by one: {seen}");
    assert_eq!(status.update_revision.as_deref(), set.target(), "of the observed revision: {seen}");
    assert_eq!(status.observed_generation, Some(world.rollout.generation), "of this wording: {seen}");
    let policy = world.rollout.spec.policy.as_ref().unwrap();
    assert!(!policy.paused && !policy.suspended, "while it may: {seen}");
    let asked = match policy.approval {
        Approval::Never => false,
        Approval::FirstPod => gate.first,
        Approval::EveryStep => true,
    };
    assert!(!asked || gate.approved, "somebody agreed: {seen}");
    for check in &policy.checks {
        let row = gate.checks.iter().find(|row| row.name == check.name).expect("each check has a row");
        assert!(row.consecutive_successful_checks >= check.successes, "k consecutive: {seen}");
        let last = row.last_success_time.unwrap();
        assert!(last <= now && last + check.freshness() > now, "fresh: {seen}");
    }
    let members = world.neighbours.iter().chain(&world.target);
    for member in members {
        assert!(Health::of(member, now).all_ready(), "I2, I3: nothing else is down: {seen}");
    }
    for member in &world.neighbours {
        let other = &member.set;
        assert!(other.target().is_some() || other.deleting, "I3: {} is observed: {seen}", other.name);
        let from = partition_of(other) + other.first_ordinal;
        let rolls = matches!(other.strategy, Strategy::RollingUpdate { .. });
        for pod in member.pods.iter().filter(|_| rolls) {
            let released = member.wanted_ordinal(pod).is_some_and(|ordinal| ordinal >= from);
            let updated = pod.revision.as_deref() == other.update_revision.as_deref();
            assert!(updated || !released, "I3: {} is about to go: {seen}", pod.name);
        }
    }
}

/// I6, without believing the status: the last k answers that were counted for this step are passes, and none is from
/// before pods were down. The fixture's checks pass on data.
#[track_caller]
pub(super) fn proven(cluster: &Cluster, world: &World) {
    let status = &world.rollout.status;
    let gate = status.rolling_pod_status.as_ref().unwrap();
    let policy = world.rollout.spec.policy.as_ref().unwrap();
    for check in &policy.checks {
        let step = cluster.counted.iter().filter(|(_, outcome)| {
            let step = &outcome.gate;
            outcome.check == check.name
                && step.partition == gate.partition
                && step.generation == world.rollout.generation
                && Some(&*step.revision) == status.update_revision.as_deref()
        });
        let last: Vec<_> = step.rev().take(usize::try_from(check.successes).unwrap()).collect();
        assert_eq!(last.len(), usize::try_from(check.successes).unwrap(), "k answers:\n{cluster}");
        for (asked, outcome) in last {
            let empty_passes = matches!(
                &check.rule,
                Rule::Data { no_data: NoDataPolicy::Pass }
                    | Rule::Compare { no_data: NoDataPolicy::Pass, .. }
            );
            let answer = &outcome.judgement;
            let empty = answer.value.as_deref() == Some("no data");
            assert!(answer.error.is_none() && (!empty || empty_passes), "each a pass:\n{cluster}");
            assert!(cluster.disturbed_at < *asked, "since all pods were there:\n{cluster}");
        }
    }
}

/// What is said is complete.
#[track_caller]
fn check_words(world: &World, plan: &Decision) {
    let Some(wait) = &plan.wait else { return };
    let status = &plan.status;
    assert_eq!(status.observed_generation, Some(world.rollout.generation));
    assert_eq!(status.waiting_for.as_deref(), Some(wait.kind()));
    assert!(status.since.is_some() && status.phase.is_some());
    let kinds: BTreeSet<_> = status.conditions.iter().map(|condition| &condition.kind).collect();
    assert_eq!(kinds.len(), status.conditions.len(), "conditions are a map by type");
    for kind in [conditions::READY, conditions::UPDATED, conditions::RECONCILING, conditions::STALLED] {
        assert!(kinds.contains(&kind.to_owned()), "{kind} is there from first sight");
    }
    for condition in &status.conditions {
        assert_eq!(condition.observed_generation, Some(world.rollout.generation));
        assert!(!condition.message.is_empty() && !condition.reason.is_empty(), "{condition:?}");
    }
    // The next pass goes on by itself where nothing is awaited.
    let transient = matches!(wait, Wait::UpToDate { .. } | Wait::GatePassed { .. } | Wait::Releasing { .. });
    assert_eq!(wait.release().is_none(), transient, "a wait says what would end it: {wait:?}");
    assert_eq!(status.message.as_ref().unwrap().contains(" Continues when "), !transient);
}

/// Of the pods that we delete while they serve, at most one is down at a time.
#[track_caller]
pub(super) fn may_go(cluster: &Cluster, pod: &str) {
    let wanted = |name: &str| {
        cluster.sets.iter().any(|set| {
            ordinal::of_pod(name, &set.name).is_some_and(|ordinal| set.ordinals().contains(&ordinal))
        })
    };
    let down: Vec<_> = cluster.deleted.iter().filter(|name| wanted(name)).collect();
    assert!(down.is_empty(), "one at a time, {pod} is one too many after {down:?}:\n{cluster}");
}
