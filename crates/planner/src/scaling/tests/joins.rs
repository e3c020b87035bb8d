//! Raising the replicas.

use serde_json::json;
use sts_plus_api::scaling_policy::RecordPhase;

use super::cluster::{Answer, Cluster, http, untaken, with};
use crate::scaling::hook::Call;

fn joining(polled: bool) -> Cluster {
    let spec =
        json!({ "replicas": 2, "scaleUp": { "hook": http(polled) }, "scaleDown": { "hook": http(false) } });
    let mut cluster = untaken(2, spec);
    cluster.run();
    cluster.forget();
    cluster
}

#[test]
fn without_a_hook_all_pods_are_added_at_once() {
    let mut cluster = with(2, false);
    cluster.scale(5);
    cluster.run();
    assert_eq!(cluster.story(), ["replicas 5"]);
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn with_a_hook_pods_are_added_one_at_a_time_and_called_when_they_are_ready() {
    let mut cluster = joining(false);
    cluster.scale(4);
    cluster.run();
    assert_eq!(cluster.story(), ["replicas 3", "call web-2 join", "replicas 4", "call web-3 join"]);
    assert_eq!(cluster.events("Joined"), ["web-2 has joined.", "web-3 has joined."]);
    assert_eq!((cluster.status().joining.len(), cluster.status().ready_replicas), (0, Some(4)));
}

#[test]
fn a_pod_does_not_count_as_ready_before_its_hook_has_succeeded() {
    let mut cluster = joining(true);
    cluster.answers.insert(Call::Join, Answer::After(2));
    cluster.answers.insert(Call::Poll, Answer::After(2));
    cluster.scale(3);
    cluster.quiet();
    assert!(cluster.pod("web-2").ready());
    assert_eq!(cluster.status().ready_replicas, Some(2));
    assert_eq!(cluster.state(), ("Joining", "web-2 joins: 2 to go."));
    cluster.run();
    assert_eq!(cluster.status().ready_replicas, Some(3));
    assert_eq!((cluster.called(Call::Join), cluster.called(Call::Poll)), (1, 2));
}

#[test]
fn a_pod_that_never_becomes_ready_keeps_the_next_one_from_being_added() {
    let mut cluster = joining(false);
    cluster.stuck.insert("web-2".to_owned());
    cluster.scale(4);
    cluster.quiet();
    assert_eq!((cluster.set().replicas, cluster.state().0), (3, "PodNotRunning"));
    cluster.stuck.clear();
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (4, "AsRequested"));
}

#[test]
fn a_pod_that_joins_and_is_not_wanted_any_more_is_drained() {
    let mut cluster = joining(true);
    cluster.answers.insert(Call::Join, Answer::After(100));
    cluster.answers.insert(Call::Poll, Answer::After(100));
    cluster.scale(3);
    cluster.quiet();
    cluster.scale(2);
    cluster.run();
    assert_eq!(cluster.story().last(), Some(&"replicas 2"));
    assert!(cluster.status().joining.is_empty());
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn a_join_that_is_forced_counts_and_one_that_is_aborted_stops_the_scaling() {
    for (on_failure, replicas, joined) in [("Force", 4, true), ("Abort", 3, false)] {
        let mut cluster = joining(false);
        cluster.respec("/scaleUp/hook/onFailure", json!(on_failure));
        cluster.answers.insert(Call::Join, Answer::Fail("not yet"));
        cluster.scale(4);
        cluster.run();
        assert_eq!(cluster.set().replicas, replicas, "{on_failure}");
        assert_eq!(cluster.state().0 == "AsRequested", joined, "{on_failure}: {cluster}");
        if !joined {
            assert_eq!(cluster.status().joining[0].phase, RecordPhase::Failed);
            cluster.answers.clear();
            cluster.scale(5);
            cluster.run();
            assert_eq!((cluster.set().replicas, cluster.state().0), (5, "AsRequested"));
        }
    }
}

#[test]
fn an_operator_that_is_lost_between_any_two_writes_of_a_join_resumes() {
    for writes in 0..20 {
        let mut cluster = joining(false);
        cluster.scale(4);
        cluster.dies_after = Some(writes);
        cluster.run();
        assert_eq!((cluster.set().replicas, cluster.state().0), (4, "AsRequested"), "after {writes} writes");
    }
}

#[test]
fn calls_are_taken_back_before_replicas_are_raised() {
    let mut cluster = with(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(9));
    cluster.scale(2);
    cluster.quiet();
    cluster.scale(5);
    cluster.run();
    assert_eq!(
        cluster.story().into_iter().rev().take(2).collect::<Vec<_>>(),
        ["replicas 5", "call web-2 cancel"]
    );
}
