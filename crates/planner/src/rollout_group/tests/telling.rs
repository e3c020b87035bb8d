//! What is told, when, and how often.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use sts_plus_api::rollout_status::RolloutStatus;

use super::cluster::{Cluster, NEW, annotation, given, short, zones};
use crate::pod::PodRow;
use crate::reason::{Reason, Refusal};
use crate::rollout_group::OBSERVATION_GRACE;
use crate::rollout_group::report::{Tally, Transition};

/// Lets the cluster come to rest; answers with the states told for each zone and the pods deleted, in order.
#[track_caller]
fn drive(cluster: &mut Cluster) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let (mut told, mut deleted) = (BTreeMap::<String, Vec<String>>::new(), Vec::new());
    cluster.rest(|_, plan| {
        for action in plan.plan.steps.iter().flat_map(|step| &step.writes) {
            let name = short(&action.object().name).to_owned();
            if action.disrupts() {
                deleted.push(name);
            } else if let Some(value) = annotation(action) {
                let status = RolloutStatus::parse(value.as_str().unwrap()).unwrap();
                let subject = status.subject.as_deref().map(short).unwrap_or_default();
                told.entry(name).or_default().push(format!("{} {subject}", status.state));
            }
        }
    });
    (told, deleted)
}

/// Lets things happen, the first that could each time, until the operator has brought this about.
#[track_caller]
fn drive_until(cluster: &mut Cluster, reached: impl Fn(&mut Cluster) -> bool) {
    loop {
        cluster.operate();
        if reached(cluster) {
            return;
        }
        let next = cluster.work().into_iter().next();
        cluster.perform(next.expect("the rollout goes on until then"));
    }
}

fn at_rest(names: &[&str], replicas: u32) -> Cluster {
    let mut cluster = zones(names, replicas);
    cluster.rest(|_, _| {});
    cluster
}

#[test]
fn a_rollout_of_three_zones_of_five_pods_tells_each_state_once_and_not_each_pod() {
    for budget in ["1", "2", "100%"] {
        let mut group = at_rest(&["a", "b", "c"], 5);
        for zone in ["a", "b", "c"] {
            group = group.max_unavailable(zone, budget);
            group.edit(zone, "v2");
        }
        let (told, mut deleted) = drive(&mut group);
        assert_eq!(told["a"], ["Rolling v2", "UpToDate v2"], "budget {budget}");
        assert_eq!(told["b"], ["WaitingForTurn a", "Rolling v2", "UpToDate v2"], "budget {budget}");
        let all = ["WaitingForTurn a", "WaitingForTurn b", "Rolling v2", "UpToDate v2"];
        assert_eq!(told["c"], all, "budget {budget}");
        deleted.sort();
        let each: Vec<_> = "abc".chars().flat_map(|z| (0..5).map(move |i| format!("{z}-{i}"))).collect();
        assert_eq!(deleted, each, "every pod goes once");
        assert!(group.pods.iter().all(|pod| pod.revision.as_deref() == Some("v2")));
        group.then(&["a UpToDate", "b UpToDate", "c UpToDate"]);
    }
}

#[test]
fn a_rollout_with_a_budget_of_one_goes_zone_by_zone_and_pod_by_pod() {
    let mut group = at_rest(&["a", "b"], 3).max_unavailable("a", "1").max_unavailable("b", "1");
    group.edit("a", "v2");
    group.edit("b", "v2");
    assert_eq!(drive(&mut group).1, ["a-0", "a-1", "a-2", "b-0", "b-1", "b-2"]);
}

#[test]
fn a_rollback_midway_undoes_only_what_was_done_and_warns_of_nothing() {
    let mut group = at_rest(&["a", "b"], 3).max_unavailable("a", "1").max_unavailable("b", "1");
    group.edit("a", "v2");
    group.edit("b", "v2");
    drive_until(&mut group, |group| group.pod_mut("b-0").terminating);
    group.edit("a", NEW);
    group.edit("b", NEW);
    let (told, deleted) = drive(&mut group);
    // b-0 is on its way already and comes back from the old template; only zone a has more to undo.
    assert_eq!(deleted, ["a-0", "a-1", "a-2"]);
    assert_eq!(told["a"], ["WaitingForTurn b", "Rolling new", "UpToDate new"]);
    assert_eq!(told["b"], ["Rolling new", "UpToDate new"]);
}

#[test]
fn the_last_pod_of_a_rollback_still_counts_as_rolling() {
    let mut group = at_rest(&["a", "b"], 2).max_unavailable("a", "1").max_unavailable("b", "1");
    group.edit("a", "v2");
    let done = |pod: &PodRow| pod.revision.as_deref() == Some("v2") && pod.ready();
    drive_until(&mut group, |group| group.pods.iter().any(done));
    group.edit("a", NEW);
    group.edit("b", "v3");
    let (told, _) = drive(&mut group);
    assert_eq!(told["a"], ["Rolling new", "UpToDate new"], "not an unexplained pod that is not Ready");
    assert_eq!(told["b"], ["WaitingForTurn a", "Rolling v3", "UpToDate v3"]);
}

#[test]
fn the_time_of_a_state_is_when_it_began() {
    let mut group = given().old("a").old("b");
    let began = group.now;
    group.operate();
    group.pass(SignedDuration::from_mins(7));
    let plan = group.plan();
    assert!(plan.reports.iter().all(|report| report.since == began && report.transition == Transition::None));
    assert!(plan.plan.steps.is_empty(), "a state is not told again as time passes");
}

#[test]
fn a_state_of_another_group_is_not_ours() {
    let mut group = given();
    group.operate();
    group.group = "other".into();
    for zone in ["a", "b"] {
        group = group.set(zone, |set| set.group = Some("other".into()));
    }
    let plan = group.then(&["a UpToDate", "b UpToDate"]);
    assert!(plan.reports.iter().all(|report| report.transition == Transition::Changed));
}

#[test]
fn a_healthy_group_is_noted_at_first_sight_and_not_announced() {
    let plan = given().plan();
    assert!(plan.reports.iter().all(|report| report.transition == Transition::FirstSight));
    assert_eq!(plan.plan.steps.iter().map(|step| step.writes.len()).sum::<usize>(), 2);
    let plan = given().old("a").plan();
    assert_eq!(plan.reports[0].transition, Transition::Changed, "work is announced");
}

#[test]
fn a_state_changes_with_its_subject_too() {
    let mut group = zones(&["a", "b", "c"], 3).old("b").old("c").not_ready("a-0");
    group.operate();
    let group = group.pod("a-0", |pod| pod.ready_since = Some(jiff::Timestamp::UNIX_EPOCH)).not_ready("b-0");
    let plan = group.then(&["delete b-0", "a UpToDate", "b Rolling", "c WaitingForTurn b"]);
    assert!(plan.reports.iter().all(|report| report.transition == Transition::Changed));

    let mut group = zones(&["a", "b"], 3);
    group.operate();
    group.edit("a", "v2");
    group.perform(group.work().remove(0));
    group.operate();
    group.edit("a", "v3");
    group.perform(group.work().remove(0));
    let plan = group.plan();
    assert_eq!(plan.reports[0].reason, Reason::Rolling { revision: "v3".into() });
    assert_eq!(plan.reports[0].transition, Transition::Changed, "another revision is another state");
}

#[test]
fn an_unobserved_spec_is_told_only_when_it_stays_so() {
    let mut group = given().old("b");
    group.operate();
    let mut group = group.unobserved("a");
    let began = group.now;
    let plan = group.operate();
    assert_eq!(plan.reports[0].reason, Reason::NotObserved { generation: 3 });
    assert_eq!(plan.reports[0].transition, Transition::Unsettled);
    assert_eq!(plan.plan.wake_at, Some(began.saturating_add(OBSERVATION_GRACE).unwrap()));

    group.pass(OBSERVATION_GRACE - SignedDuration::from_millis(1));
    assert_eq!(group.operate().reports[0].transition, Transition::Unsettled);
    group.pass(SignedDuration::from_millis(1));
    let plan = group.operate();
    assert_eq!(plan.reports[0].transition, Transition::Changed);
    assert_eq!(plan.reports[0].since, began, "it has been so for longer than it was worth telling");
    assert_eq!(plan.plan.wake_at, None);
    group.pass(SignedDuration::from_hours(1));
    let plan = group.operate();
    assert_eq!((plan.reports[0].transition, plan.reports[0].since), (Transition::None, began));
}

#[test]
fn a_spec_seen_unobserved_for_the_first_time_is_not_told() {
    let group = given().unobserved("a");
    let plan = group.then(&["a NotObserved", "b UpToDate"]);
    assert_eq!(plan.reports[0].transition, Transition::Unsettled);
}

#[test]
fn a_pod_that_settles_asks_for_a_look_when_it_will_have() {
    let settling = |pod: &str, seconds: i64, group: Cluster| {
        let since = group.now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap();
        group.pod(pod, |pod| pod.ready_since = Some(since))
    };
    let mut group = given().old("b").set("a", |set| set.min_ready = SignedDuration::from_secs(30));
    group = settling("a-0", 10, settling("a-1", 25, group));
    group.then(&["a NotReady", "b OtherSetNotReady a", "wake in 5s"]);
    group.pass(SignedDuration::from_secs(5));
    group.then(&["a NotReady", "b OtherSetNotReady a", "wake in 15s"]);
    group.pass(SignedDuration::from_secs(15));
    group.then(&["delete b-0", "delete b-1", "a UpToDate", "b Rolling"]);
}

#[test]
fn the_earliest_of_several_wake_ups_is_taken() {
    let mut group = zones(&["a", "b", "c"], 3).unobserved("b").set("a", |set| {
        set.min_ready = SignedDuration::from_secs(30);
    });
    let since = group.now.saturating_sub(SignedDuration::from_secs(10)).unwrap();
    group = group.pod("a-0", |pod| pod.ready_since = Some(since));
    group.operate();
    group.then(&["a UpToDate", "b NotObserved", "c UpToDate", "wake in 10s"]);
}

#[test]
fn pods_are_counted_by_revision_with_the_target_first() {
    let group = given().old_pod("a-0").not_ready("a-1").pod("a-2", |pod| pod.revision = None);
    let plan = group.plan();
    let tally =
        |revision: Option<&str>, pods, ready| Tally { revision: revision.map(Into::into), pods, ready };
    assert_eq!(plan.reports[0].pods, [tally(Some("new"), 1, 0), tally(None, 1, 1), tally(Some("old"), 1, 1)]);
    assert_eq!(plan.reports[0].down, "ingester-zone-a-1 is not Ready");
    assert_eq!(plan.reports[1].pods, [tally(Some("new"), 3, 3)]);
    assert_eq!(plan.reports[1].down, "");
}

#[test]
fn a_lost_pod_and_its_return_are_told_once_each() {
    let mut group = at_rest(&["a", "b"], 3);
    group.edit("b", "v2");
    group = group.not_ready("a-1");
    group.operate();
    group.perform(group.work().remove(0));
    let (told, deleted) = drive(&mut group);
    assert_eq!(told["a"], ["NotReady ", "UpToDate new"]);
    assert_eq!(told["b"], ["OtherSetNotReady a", "Rolling v2", "UpToDate v2"]);
    assert_eq!(deleted, ["b-0", "b-1", "b-2"]);
}

/// Does what is the rollout of a plan, writes nothing on the sets, and remembers what was reported, as the operator does
/// where it may not write annotations. Answers the transitions.
#[track_caller]
fn act_without_annotations(cluster: &mut Cluster) -> Vec<String> {
    let plan = cluster.plan();
    for action in plan.plan.acting() {
        cluster.apply(action).unwrap();
    }
    let mut told = Vec::new();
    for report in &plan.reports {
        if report.transition == Transition::Changed {
            told.push(format!("{} {}", short(&report.set.name), report.reason.kind()));
        }
        if report.transition != Transition::Unsettled {
            cluster.memory.reported.insert(report.set.uid.clone(), report.status.clone());
        }
    }
    told
}

#[test]
fn without_its_annotations_a_group_rolls_and_reports_each_state_once() {
    let mut group = zones(&["a", "b"], 2);
    for zone in ["a", "b"] {
        group = group.max_unavailable(zone, "1");
    }
    act_without_annotations(&mut group);
    for zone in ["a", "b"] {
        group.edit(zone, "v2");
    }
    let mut told = Vec::new();
    for _ in 0..100 {
        told.extend(act_without_annotations(&mut group));
        match group.work().into_iter().next() {
            Some(work) => group.perform(work),
            None => break,
        }
    }
    assert!(group.pods.iter().all(|pod| pod.revision.as_deref() == Some("v2") && pod.ready()), "{group}");
    let of = |zone: &str| {
        let own = told.iter().filter_map(|told| told.strip_prefix(zone));
        own.map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    for zone in ["a", "b"] {
        let told = of(zone);
        assert_eq!(told.last().map(String::as_str), Some("UpToDate"), "{told:?}");
        let each: BTreeSet<_> = told.iter().collect();
        assert_eq!(each.len(), told.len(), "each once: {told:?}");
        assert!(each.contains(&"Rolling".to_owned()), "{told:?}");
    }
}

#[test]
fn a_state_that_is_not_written_keeps_its_time_and_is_written_as_soon_as_that_works() {
    let mut group = given().old("a").old("b");
    let began = group.now;
    act_without_annotations(&mut group);
    group.pass(SignedDuration::from_mins(7));
    let plan = group.plan();
    assert!(plan.reports.iter().all(|report| report.since == began && report.transition == Transition::None));
    let due: Vec<_> = plan.plan.informing().filter_map(annotation).collect();
    assert_eq!(due.len(), 2, "still due");
    for action in plan.plan.informing() {
        group.apply(action).unwrap();
    }
    assert!(group.plan().plan.informing().next().is_none());
}

#[test]
fn a_refused_deletion_is_the_state_of_its_set_and_is_tried_again() {
    let mut group = given().old("a").old("b");
    group.operate();
    let refusal = Refusal { webhook: Some("guard.example.com".into()), message: "not today".to_owned() };
    let refused = group.set_mut("a").uid.clone();
    group.memory.refused.insert(refused, refusal.clone());
    group = group.pod("a-0", |pod| pod.terminating = false).pod("a-1", |pod| pod.terminating = false);
    let plan = group.plan();
    assert_eq!(plan.plan.acting().count(), 2, "it is retried");
    assert_eq!(plan.reports[0].reason, Reason::WriteRefused { refusal });
    assert_eq!(plan.reports[0].transition, Transition::Changed);
    assert_eq!(plan.reports[1].reason.kind(), "WaitingForTurn");
    group.memory.refused.clear();
    assert_eq!(group.plan().reports[0].reason.kind(), "Rolling");
}

#[test]
fn a_refused_deletion_of_a_dead_pod_is_the_state_of_its_set_outside_of_its_turn_as_well() {
    let mut group = given().old("a").old("b").broken("a-0").broken("b-0");
    group.then(&["delete a-0", "delete b-0", "a Rolling", "b NotReady"]);
    let refusal = Refusal { webhook: Some("guard.example.com".into()), message: "not today".to_owned() };
    let refused = group.set_mut("b").uid.clone();
    group.memory.refused.insert(refused, refusal.clone());
    let plan = group.plan();
    assert_eq!(plan.plan.acting().count(), 2, "it is retried");
    assert_eq!(plan.reports[0].reason.kind(), "Rolling");
    assert_eq!(plan.reports[1].reason, Reason::WriteRefused { refusal });
}

#[test]
fn a_refused_annotation_is_a_warning_and_changes_nothing_else() {
    let group = given().old("a").old("b");
    let before = group.plan();
    let mut group = group;
    let refusal = Refusal { webhook: None, message: "no".to_owned() };
    let set = group.set_mut("a").uid.clone();
    group.memory.uninformed.insert(set, refusal);
    let plan = group.plan();
    assert_eq!(plan.plan.steps, before.plan.steps);
    assert_eq!(plan.reports[0].reason, before.reports[0].reason);
    assert_eq!(plan.reports[0].warnings[0].kind(), "WriteRefused");
    assert!(plan.reports[1].warnings.is_empty());
}
