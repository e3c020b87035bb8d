//! Replicas that somebody else writes.

use serde_json::json;

use super::cluster::{Answer, WEB, with};
use crate::scaling::hook::Call;

#[test]
fn somebody_who_keeps_lowering_makes_it_wait_ever_longer() {
    let mut cluster = with(3, false);
    for _ in 0..8 {
        cluster.scale_set(1, "helm");
        cluster.quiet();
    }
    assert_eq!(cluster.state().0, "ReplicasContested");
    assert!(cluster.state().1.starts_with("helm keeps lowering replicas. They are restored to 3 again at "));
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (3, "AsRequested"));
    assert!(cluster.status().contest.is_none(), "it is over after a while");
}

#[test]
fn removals_that_are_recorded_are_twenty_at_most() {
    let mut cluster = with(9, false);
    for _ in 0..5 {
        cluster.scale_set(1, "helm");
        cluster.run();
        cluster.pass_time(1000);
    }
    let removals = &cluster.status().removed_without_drain;
    assert_eq!(removals.len(), 20);
    assert!(removals.is_sorted_by_key(|removal| removal.time));
}

#[test]
fn lowering_is_restored_also_while_it_is_paused() {
    let mut cluster = with(3, false);
    cluster.respec("/paused", json!(true));
    cluster.quiet();
    cluster.scale_set(0, "kubectl");
    cluster.quiet();
    assert_eq!(cluster.set().replicas, 3);
}

#[test]
fn lowering_in_the_middle_of_a_drain_is_restored_and_the_new_pod_is_drained() {
    let mut cluster = with(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(3));
    cluster.answers.insert(Call::Poll, Answer::After(3));
    cluster.scale(2);
    cluster.quiet();
    cluster.scale_set(2, "kubectl");
    // The StatefulSet controller is faster than the operator.
    while cluster.pods.len() == 3 {
        let work = cluster.work().remove(0);
        cluster.perform(&work);
    }
    cluster.run();
    assert_eq!(cluster.status().removed_without_drain.len(), 1);
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"));
    assert_eq!(cluster.called(Call::Prepare), 2);
}

#[test]
fn a_restoration_that_meets_a_conflict_is_recorded_once() {
    let mut cluster = with(3, false);
    cluster.scale_set(2, "kubectl");
    cluster.dies_after = Some(1);
    cluster.pass();
    assert_eq!((cluster.set().replicas, cluster.status().removed_without_drain.len()), (2, 1));
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.status().removed_without_drain.len()), (3, 1));
}

/// The status that records the removal is written before the restoration, which may meet a conflict: no later plan has the note.
#[test]
fn a_removal_is_announced_once_its_record_is_written() {
    let mut cluster = with(3, false);
    cluster.scale_set(2, "kubectl");
    let decision = std::iter::repeat_with(|| cluster.plan(WEB))
        .find(|decision| decision.plan.writes().next().is_some())
        .expect("a restoration");
    let record = decision.plan.writes().next().expect("a status");
    let acknowledged = [record];
    let announced: Vec<_> = decision.plan.notes_after(&acknowledged).map(|note| note.reason).collect();
    assert!(announced.contains(&"RemovedWithoutDrain"), "{:?}", decision.plan.notes);
}

#[test]
fn a_set_that_is_created_anew_is_accepted_as_it_is() {
    let mut cluster = with(3, false);
    cluster.sets[0].uid = "uid-another".into();
    cluster.sets[0].replicas = 1;
    cluster.objects.pods.clear();
    cluster.run();
    assert!(cluster.status().removed_without_drain.is_empty());
    assert_eq!(
        (cluster.set().replicas, cluster.state().0),
        (3, "AsRequested"),
        "it is scaled to what is asked for"
    );
}
