//! What must hold for every plan, whatever the scenario: judged anew from the API objects, without the
//! planner's own words for health, budgets and targets.

use std::collections::BTreeSet;

use sts_plus_api::rollout_status::RolloutStatus;

use super::cluster::{Cluster, annotation};
use crate::plan::{Action, Kind, Verb};
use crate::pod::{Phase, PodRow, Waiting};
use crate::reason::Reason;
use crate::rollout_group::Decision;
use crate::rollout_group::report::{Report, Transition};
use crate::set::{SetRow, Strategy};

/// Rounds of own writes, besides one for each pod, until a plan must be empty: a state told before and one
/// told after the deletions, a promotion, and the round that finds nothing.
const ROUNDS_BESIDES_PODS: usize = 4;

/// Holds one plan against all invariants.
#[track_caller]
pub(super) fn check(cluster: &Cluster, plan: &Decision) {
    steps_are_orderly(plan);
    deletions_are_guarded(cluster, plan);
    budgets_hold(cluster, plan);
    one_zone_at_a_time(cluster, plan);
    promotions_tell_the_truth(cluster, plan);
    reports_are_complete(cluster, plan);
}

/// While nothing else happens our own writes come to an end, and then nothing is written.
#[track_caller]
pub(super) fn writes_end(mut cluster: Cluster) {
    let rounds = cluster.pods.len() + ROUNDS_BESIDES_PODS;
    for _ in 0..rounds {
        let plan = cluster.plan();
        if plan.plan.steps.is_empty() {
            return;
        }
        cluster.apply_all(&plan);
    }
    panic!("still writing after {rounds} rounds although nothing else happened:\n{cluster}");
}

/// Whether the set controls the pod and selects it; the fixture selects by the label `name`.
fn owns(set: &SetRow, pod: &PodRow) -> bool {
    let selected = pod.labels.get("name").is_some_and(|name| **name == *set.name);
    pod.namespace == set.namespace && pod.owner == set.uid && selected
}

/// Whether the spec asks for a pod of this name.
fn wanted(set: &SetRow, pod: &PodRow) -> bool {
    let ordinal = pod.name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<u64>().ok());
    let (first, replicas) = (u64::from(set.first_ordinal), u64::from(set.replicas));
    ordinal.is_some_and(|ordinal| {
        (first..first + replicas).contains(&ordinal) && *pod.name == format!("{}-{ordinal}", set.name)
    })
}

fn serves(set: &SetRow, pod: &PodRow, cluster: &Cluster) -> bool {
    let age = pod.ready_since.map(|since| cluster.now.duration_since(since));
    let settled = set.min_ready.is_zero() || age.is_some_and(|age| age >= set.min_ready);
    pod.phase == Phase::Running && age.is_some() && !pod.terminating && settled
}

fn broken(pod: &PodRow) -> bool {
    let waits = !matches!(pod.waiting, None | Some(Waiting::Starting));
    let ready = pod.phase == Phase::Running && pod.ready_since.is_some();
    !ready && (waits || pod.terminated_restarts.is_some_and(|restarts| restarts >= 3))
}

fn ready(pod: &PodRow) -> bool {
    pod.phase == Phase::Running && pod.ready_since.is_some() && !pod.terminating
}

fn dead(pod: &PodRow) -> bool {
    !ready(pod) && !pod.running
}

fn pods<'c>(cluster: &'c Cluster, set: &'c SetRow) -> impl Iterator<Item = &'c PodRow> {
    cluster.pods.iter().filter(|pod| owns(set, pod))
}

/// How many pods of the set do not serve, those that do not exist included.
pub(super) fn down(cluster: &Cluster, set: &SetRow) -> u64 {
    let present = pods(cluster, set).filter(|pod| wanted(set, pod)).count() as u64;
    let not_serving = pods(cluster, set).filter(|pod| !serves(set, pod, cluster)).count() as u64;
    not_serving + u64::from(set.replicas) - present
}

fn budget(set: &SetRow) -> u64 {
    let Some(text) = set.steering.max_unavailable.as_deref().map(str::trim) else { return 1 };
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.starts_with('+')).map(u64::from);
    match text.strip_suffix('%') {
        Some(percent) => match number(percent) {
            Some(percent @ 1..=100) => (u64::from(set.replicas) * percent / 100).max(1),
            _ => 1,
        },
        None => number(text).unwrap_or(1).max(1),
    }
}

/// The set and the row of every pod that a plan deletes.
fn deleted<'c>(cluster: &'c Cluster, plan: &Decision) -> Vec<(&'c SetRow, &'c PodRow)> {
    let actions = plan.plan.steps.iter().flat_map(|step| &step.writes);
    let deletions = actions.filter(|action| action.disrupts());
    let found = deletions.map(|action| {
        let same =
            |pod: &&PodRow| pod.name == action.object().name && pod.namespace == action.object().namespace;
        let pod = cluster.pods.iter().find(same).expect("only pods that exist are deleted");
        assert_eq!(action.precondition().uid, pod.uid, "I5: a deletion carries the pod's UID");
        let version = action.precondition().resource_version.as_ref();
        assert_eq!(version, Some(&pod.resource_version), "I5: a deletion carries the pod's version");
        let set = cluster.sets.iter().find(|set| owns(set, pod)).expect("I5: only pods of a set are deleted");
        (set, pod)
    });
    found.collect()
}

fn steps_are_orderly(plan: &Decision) {
    for (position, step) in plan.plan.steps.iter().enumerate() {
        assert!(!step.writes.is_empty(), "an empty step");
        let objects: BTreeSet<_> = step.writes.iter().map(Action::object).collect();
        assert_eq!(objects.len(), step.writes.len(), "writes of a step are under way together");
        let deletions = step.writes.iter().filter(|action| action.disrupts()).count();
        assert!(deletions == 0 || position == 0, "deletions come first");
        assert!(deletions == 0 || deletions == step.writes.len(), "deletions come alone");
    }
}

/// I5: only pods that may go are deleted, and only where the user lets us.
fn deletions_are_guarded(cluster: &Cluster, plan: &Decision) {
    for (set, pod) in deleted(cluster, plan) {
        assert!(wanted(set, pod), "I5: {} is not one that the spec asks for", pod.name);
        assert!(!pod.terminating, "I5: {} is on its way out already", pod.name);
        assert_eq!(set.generation, set.observed_generation, "I5: {} is not observed", set.name);
        assert!(set.update_revision.is_some(), "I5: {} has no target", set.name);
        assert_ne!(pod.revision.as_deref(), set.update_revision.as_deref(), "I5: {} is up to date", pod.name);
        assert_ne!(set.steering.paused.as_deref(), Some("true"), "I5: {} is paused", set.name);
        assert!(!set.deleting, "I5: {} is being deleted", set.name);
        assert_eq!(set.group.as_ref(), Some(&cluster.group), "I5: {} is not of the group", set.name);
        let members = cluster.sets.iter().filter(|set| set.group.as_ref() == Some(&cluster.group));
        for member in members {
            assert_eq!(member.strategy, Strategy::OnDelete, "I5: the group is skipped");
        }
    }
}

/// I2: our deletions never take a set above its budget. A dead and broken pod costs nothing. Where another pod is
/// deleted that is not Ready, outdated pods that are down and stay do not count; where one is deleted that is Ready, all do.
fn budgets_hold(cluster: &Cluster, plan: &Decision) {
    for set in &cluster.sets {
        let deleted = deleted(cluster, plan);
        let mine: Vec<_> =
            deleted.iter().filter(|(owner, _)| owner.uid == set.uid).map(|(_, pod)| *pod).collect();
        let goes = |pod: &PodRow| mine.iter().any(|gone| gone.uid == pod.uid);
        let (down, budget) = (down(cluster, set), budget(set));
        let newly_down = mine.iter().filter(|pod| serves(set, pod, cluster)).count() as u64;
        if mine.iter().any(|pod| ready(pod)) {
            let after = down + newly_down;
            assert!(after <= budget, "I2: {after} of {} down, {budget} may be", set.name);
        }
        if mine.iter().any(|pod| !(dead(pod) && broken(pod))) {
            let outdated = |pod: &&PodRow| pod.revision.as_deref() != set.update_revision.as_deref();
            let stays = |pod: &&PodRow| !serves(set, pod, cluster) && !pod.terminating && !goes(pod);
            let own = pods(cluster, set).filter(|pod| wanted(set, pod));
            let left_behind = own.filter(outdated).filter(stays).count() as u64;
            let after = down - left_behind + newly_down;
            assert!(after <= budget, "I2: {after} of {} down by us, {budget} may be", set.name);
        }
    }
}

/// I3: never two zones, and none while another one has a pod down or is not observed; a dead pod may be deleted in any case.
fn one_zone_at_a_time(cluster: &Cluster, plan: &Decision) {
    for (set, pod) in deleted(cluster, plan).into_iter().filter(|(_, pod)| !dead(pod)) {
        let group = cluster.sets.iter().filter(|other| other.group.as_ref() == Some(&cluster.group));
        for other in group.filter(|other| other.uid != set.uid) {
            let down = down(cluster, other);
            assert_eq!(down, 0, "I3: {} is deleted while {down} pods of {} are down", pod.name, other.name);
            let observed = other.observed_generation == other.generation && other.update_revision.is_some();
            assert!(
                observed || other.deleting,
                "I3: {} is deleted, {} is not observed",
                pod.name,
                other.name
            );
        }
        for (other, other_pod) in deleted(cluster, plan) {
            assert_eq!(other.uid, set.uid, "I3: {} and {} go together", pod.name, other_pod.name);
        }
    }
}

/// The status says that a set is at its target only when it is.
fn promotions_tell_the_truth(cluster: &Cluster, plan: &Decision) {
    for action in plan.plan.steps.iter().flat_map(|step| &step.writes) {
        let Verb::MergeStatus { body, .. } = action.verb() else { continue };
        assert_eq!(action.object().kind, Kind::StatefulSet);
        let set = cluster.sets.iter().find(|set| *set.name == *action.object().name).unwrap();
        let revision = body["status"]["currentRevision"].as_str();
        assert_eq!(revision, set.update_revision.as_deref());
        assert_eq!(action.precondition().resource_version.as_ref(), Some(&set.resource_version));
        assert_eq!(down(cluster, set), 0, "{} is called done with pods down", set.name);
        assert!(set.counted, "{} is promoted in a race with its own controller", set.name);
        let wanted = pods(cluster, set).filter(|pod| wanted(set, pod));
        for pod in wanted {
            assert_eq!(pod.revision.as_deref(), revision, "{} is called done, {} is not", set.name, pod.name);
        }
    }
}

/// Every set of the group has one report, and its annotation is written when, and only when, it should
/// say something else.
fn reports_are_complete(cluster: &Cluster, plan: &Decision) {
    let members = || cluster.sets.iter().filter(|set| set.group.as_ref() == Some(&cluster.group));
    let reported: BTreeSet<_> = plan.reports.iter().map(|report| &report.set.name).collect();
    assert_eq!(reported, members().map(|set| &set.name).collect());
    assert_eq!(reported.len(), plan.reports.len(), "a set is reported once");
    for report in &plan.reports {
        annotation_fits(cluster, plan, report);
    }
    if let Some(wake_at) = plan.plan.wake_at {
        assert!(wake_at > cluster.now, "a wake-up lies in the future");
    }
}

fn annotation_fits(cluster: &Cluster, plan: &Decision, report: &Report) {
    let name = &report.set.name;
    assert!(Reason::KINDS.contains(&report.reason.kind()));
    let set = cluster.sets.iter().find(|set| set.name == *name).unwrap();
    let there = set.steering.rollout_status.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let there: Option<RolloutStatus> = there;
    let told = |status: &RolloutStatus| {
        *status.group == *cluster.group
            && status.state == report.reason.kind()
            && status.subject.as_deref() == report.reason.subject()
    };
    let is_there = there.as_ref().is_some_and(told);
    let known = cluster.memory.reported.get(&set.uid).cloned().or(there);
    let same = known.as_ref().filter(|status| told(status));
    assert_eq!(same.is_some(), report.transition == Transition::None, "{name}: a transition is a change");
    if let Some(same) = same {
        assert_eq!(report.since, same.since, "{name}: the time of a state is kept");
    }
    let actions = plan.plan.steps.iter().flat_map(|step| &step.writes);
    let writes = actions.filter(|action| {
        action.object().kind == Kind::StatefulSet
            && *action.object().name == **name
            && annotation(action).is_some()
    });
    let written: Vec<RolloutStatus> = writes
        .map(|action| {
            assert_eq!(*action.precondition().uid, *set.uid);
            serde_json::from_str(annotation(action).unwrap().as_str().unwrap()).unwrap()
        })
        .collect();
    let due = report.transition != Transition::Unsettled && !is_there;
    assert_eq!(written.len(), usize::from(due), "{name}: told when it is due");
    for status in written {
        assert!(told(&status), "{name}: what is told is what is reported");
        if report.transition != Transition::None {
            assert_eq!(status.message, report.reason.to_string());
            assert_eq!(status.release, report.reason.release());
        }
        assert_eq!(status.since, report.since);
    }
}
