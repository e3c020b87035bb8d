//! The scenarios of the catalogue, by number.

use std::sync::Arc;

use serde_json::json;
use sts_plus_api::scaling_policy::RecordPhase;

use super::cluster::{Answer, Cluster, NEW, OLD, with};
use crate::scaling::hook::Call;

#[test]
fn a_b9_1_the_hook_runs_on_the_highest_ordinal_before_replicas_are_lowered() {
    let mut cluster = with(3, false);
    let uids = cluster.uids();
    cluster.scale(2);
    cluster.run();
    assert_eq!(cluster.story(), ["call web-2 prepare", "replicas 2"]);
    assert_eq!(cluster.set().replicas, 2);
    for pod in ["web-0", "web-1"] {
        assert_eq!(cluster.pod(pod).uid, uids[pod]);
        assert!(!cluster.app(pod).called);
    }
    assert_eq!(cluster.state(), ("AsRequested", "All 2 pods are Ready."));
    assert_eq!((cluster.status().leaving.len(), cluster.status().held_replicas), (0, Some(2)));
    assert_eq!(cluster.set().steering.leaving, None);
    assert_eq!(cluster.removed, 1);
    let made = cluster.pass();
    assert!(made.plan.steps.is_empty() && made.plan.asks.is_empty(), "I11: {made:?}");
}

#[test]
fn a_b9_2_pods_leave_one_after_another_from_the_highest_ordinal_down() {
    let mut cluster = with(5, false);
    cluster.scale(2);
    cluster.run();
    let expected = [
        "call web-4 prepare",
        "replicas 4",
        "call web-3 prepare",
        "replicas 3",
        "call web-2 prepare",
        "replicas 2",
    ];
    assert_eq!(cluster.story(), expected);
    let gone = cluster.trace.iter().position(|line| line == "delete web-4").unwrap();
    let next = cluster.trace.iter().position(|line| line == "leaving 3").unwrap();
    assert!(gone < next, "web-4 is gone before web-3 begins to leave");
}

#[test]
fn a_b9_3_replicas_are_lowered_only_when_the_pod_is_done_and_the_status_shows_its_progress() {
    let mut cluster = with(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(5));
    cluster.answers.insert(Call::Poll, Answer::After(5));
    cluster.scale(2);
    cluster.quiet();
    let mut seen = vec![cluster.state().1.to_owned()];
    while cluster.set().replicas == 3 {
        assert!(cluster.wake(), "{cluster}");
        seen.push(cluster.state().1.to_owned());
    }
    assert_eq!(seen.first().unwrap(), "web-2 drains: 5 to go.");
    assert!(seen.contains(&"web-2 drains: 1 to go.".to_owned()), "{seen:?}");
    assert_eq!(cluster.called(Call::Prepare), 1);
    assert_eq!(cluster.called(Call::Poll), 5);
    assert_eq!(cluster.story().last(), Some(&"replicas 2"));
}

fn failing(on_failure: &str) -> Cluster {
    let mut cluster = with(3, false);
    cluster.respec("/scaleDown/hook/onFailure", json!(on_failure));
    cluster.answers.insert(Call::Prepare, Answer::Fail("answered 500"));
    cluster.quiet();
    cluster.forget();
    cluster.scale(2);
    cluster
}

#[test]
fn a_b9_4_a_hook_that_fails_for_ever_blocks_by_default() {
    let mut cluster = failing("Block");
    cluster.quiet();
    assert_eq!(cluster.state(), ("HookFailing", "The call of web-2 has failed once: answered 500."));
    let before = cluster.now;
    cluster.run();
    assert_eq!(cluster.set().replicas, 3);
    assert_eq!(cluster.state().0, "DeadlineExceeded");
    assert!(cluster.is_stalled());
    let message = "The hook of web-2 has not succeeded before its deadline: answered 500. The pod stays, and the calls are repeated.";
    assert_eq!(cluster.events("DeadlineExceeded"), [message], "one event");
    let calls = cluster.called(Call::Prepare);
    let minutes = cluster.now.duration_since(before).as_mins();
    assert!(
        calls > 100 && i64::try_from(calls).unwrap() <= minutes + 8,
        "{calls} calls in {minutes} minutes"
    );
    cluster.answers.clear();
    cluster.run();
    assert_eq!(cluster.state().0, "AsRequested", "it goes on as soon as the hook succeeds");
    assert_eq!(cluster.set().replicas, 2);
}

/// A pass truncates its time to milliseconds: one that is woken within the millisecond before would find nothing due and ask
/// to be woken at once.
#[test]
fn a_wait_after_a_failed_call_ends_at_a_whole_millisecond() {
    let mut cluster = failing("Block");
    cluster.quiet();
    for _ in 0..20 {
        assert!(cluster.wake(), "{cluster}");
        let at = cluster.wake_at.expect("another attempt");
        assert_eq!(at.subsec_nanosecond() % 1_000_000, 0, "{at}");
    }
}

#[test]
fn a_b9_4_a_hook_that_fails_for_ever_is_forced_at_its_deadline() {
    let mut cluster = failing("Force");
    cluster.forced = true;
    cluster.quiet();
    let before = cluster.now;
    while cluster.set().replicas == 3 {
        assert!(cluster.wake(), "{cluster}");
    }
    let seconds = cluster.now.duration_since(before).as_secs();
    assert!((599..=661).contains(&seconds), "after {seconds} s");
    cluster.run();
    assert_eq!(cluster.events("ForcedRemoval").len(), 1);
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn a_b9_4_a_hook_that_fails_for_ever_is_aborted_and_the_wanted_number_reported_as_unmet() {
    let mut cluster = failing("Abort");
    cluster.run();
    assert_eq!(cluster.called(Call::Cancel), 1);
    assert_eq!((cluster.set().replicas, cluster.record(2).phase), (3, RecordPhase::Failed));
    let message = "3 replicas instead of 2: the hook of web-2 has not succeeded before its deadline. Change spec.replicas or the hook to try again.";
    assert_eq!(cluster.state(), ("Aborted", message));
    assert_eq!(cluster.set().steering.leaving, None, "it serves, and is not leaving");
    assert_eq!(cluster.status().ready_replicas, Some(3));
    let calls = cluster.called(Call::Prepare);
    cluster.pass_time(100_000);
    cluster.run();
    assert_eq!(cluster.called(Call::Prepare), calls, "nothing is tried until somebody acts");
    cluster.answers.clear();
    cluster.respec("/scaleDown/hook/http/path", json!("/other"));
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"));
}

#[test]
fn a_b9_4_an_aborted_number_is_tried_again_when_another_one_is_asked_for() {
    let mut cluster = failing("Abort");
    cluster.run();
    cluster.answers.clear();
    cluster.scale(1);
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (1, "AsRequested"));
}

#[test]
fn a_b9_5_a_pod_that_is_wanted_again_is_called_off_and_kept_without_a_restart() {
    let mut cluster = with(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(9));
    cluster.answers.insert(Call::Poll, Answer::After(9));
    let uids = cluster.uids();
    cluster.scale(2);
    cluster.quiet();
    assert_eq!(cluster.record(2).phase, RecordPhase::Draining);
    assert!(cluster.app("web-2").called);
    cluster.scale(3);
    cluster.run();
    assert_eq!(cluster.called(Call::Cancel), 1);
    assert!(!cluster.app("web-2").called);
    assert_eq!(cluster.uids(), uids);
    assert_eq!((cluster.state().0, cluster.created), ("AsRequested", 0));
    assert_eq!(cluster.set().steering.leaving, None);
    assert!(cluster.story().iter().all(|line| !line.starts_with("replicas")));
}

#[test]
fn a_b9_6_after_a_restart_of_the_operator_the_hook_runs_once_for_the_same_pod() {
    let mut cluster = drained();
    cluster.die();
    cluster.run();
    assert_eq!(cluster.called(Call::Prepare), 1);
    assert_eq!(cluster.set().replicas, 2);
}

/// The hook is done and written down, and the operator has not lowered the replicas yet.
fn drained() -> Cluster {
    let mut cluster = with(3, false);
    cluster.scale(2);
    while cluster.status().leaving.first().is_none_or(|record| record.phase != RecordPhase::Drained) {
        cluster.pass();
        cluster.answer();
    }
    assert_eq!(cluster.set().replicas, 3);
    cluster
}

#[test]
fn a_b9_6_the_hook_runs_again_when_a_container_was_restarted_after_it() {
    let mut cluster = drained();
    cluster.die();
    cluster.restart("web-2");
    cluster.run();
    assert_eq!(cluster.story(), ["call web-2 prepare", "call web-2 prepare", "replicas 2"]);
    let message = "web-2 was restarted after it was called. Its hook runs again.";
    assert_eq!(cluster.events("HookRestarted"), [message]);
}

#[test]
fn a_b9_6_a_hook_that_succeeded_after_its_deadline_runs_again_when_a_container_was_restarted_after_it() {
    let mut cluster = failing("Block");
    cluster.run();
    assert_eq!(cluster.state().0, "DeadlineExceeded");
    cluster.answers.clear();
    while cluster.record(2).phase != RecordPhase::Drained {
        cluster.pass_time(61);
        cluster.pass();
        cluster.answer();
    }
    assert_eq!(cluster.set().replicas, 3);
    let calls = cluster.called(Call::Prepare);
    cluster.restart("web-2");
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.called(Call::Prepare)), (2, calls + 1));
}

#[test]
fn a_b9_6_the_hook_runs_again_when_the_pod_was_replaced_after_it() {
    let mut cluster = drained();
    cluster.kill("web-2");
    // The StatefulSet controller is faster than the operator.
    while cluster.pods.iter().filter(|pod| pod.ready()).count() < 3 {
        let work = cluster.work().remove(0);
        cluster.perform(&work);
    }
    cluster.run();
    assert_eq!(cluster.called(Call::Prepare), 2);
    assert_eq!(cluster.set().replicas, 2);
    assert_eq!(cluster.events("HookRestarted").len(), 1);
}

#[test]
fn a_b9_6_a_drained_pod_that_is_gone_is_not_waited_for() {
    let mut cluster = drained();
    cluster.kill("web-2");
    cluster.pass();
    assert_eq!(cluster.set().replicas, 2, "{cluster}");
}

#[test]
fn a_b9_8_ordinals_of_two_digits_leave_in_order() {
    let mut cluster = with(13, false);
    cluster.scale(9);
    cluster.run();
    let called: Vec<_> = cluster.story().into_iter().filter(|line| line.starts_with("call")).collect();
    let expected =
        ["call web-12 prepare", "call web-11 prepare", "call web-10 prepare", "call web-9 prepare"];
    assert_eq!(called, expected);
    assert_eq!(cluster.set().replicas, 9);
}

#[test]
fn a_b9_8_ordinals_that_do_not_start_at_zero_leave_in_order() {
    let mut cluster = with(3, false);
    cluster.objects.pods.clear();
    let set = crate::set::SetRow { first_ordinal: 9, ..cluster.set().clone() };
    for ordinal in set.ordinals() {
        let mut pod = cluster.objects.new_pod(&set, ordinal, OLD);
        (pod.phase, pod.running) = (crate::pod::Phase::Running, true);
        pod.ready_since = Some(cluster.now);
        cluster.pods.push(pod);
    }
    cluster.sets[0] = set;
    cluster.scale(1);
    cluster.run();
    let expected = ["call web-11 prepare", "replicas 2", "call web-10 prepare", "replicas 1"];
    assert_eq!(cluster.story(), expected);
}

#[test]
fn a_b9_11_a_template_change_with_growth_costs_a_restart_of_each_pod_and_new_ones_are_born_new() {
    let mut cluster = with(3, false);
    let uids = cluster.uids();
    cluster.edit(NEW);
    cluster.scale(5);
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (5, "AsRequested"));
    assert_eq!(cluster.created, 5, "three restarts and two new ones");
    assert!(cluster.pods.iter().all(|pod| pod.revision.as_deref() == Some(NEW)));
    assert!(uids.values().all(|uid| cluster.pods.iter().all(|pod| pod.uid != *uid)));
    assert!(cluster.calls.is_empty());
}

#[test]
fn a_b9_26_a_policy_that_is_deleted_with_drain_scales_down_in_order_first() {
    let mut cluster = with(3, false);
    cluster.respec("/deletionPolicy", json!("Drain"));
    cluster.quiet();
    cluster.forget();
    cluster.delete_policy();
    cluster.run();
    let expected = [
        "call web-2 prepare",
        "replicas 2",
        "call web-1 prepare",
        "replicas 1",
        "call web-0 prepare",
        "replicas 0",
    ];
    assert_eq!(cluster.story(), expected);
    assert!(cluster.policies.is_empty() && cluster.pods.is_empty());
}

#[test]
fn a_b9_30_replicas_that_somebody_lowers_are_restored_and_the_removal_is_recorded() {
    let mut cluster = with(3, false);
    cluster.scale_set(2, "kubectl-scale");
    cluster.run();
    assert_eq!(cluster.story(), ["replicas 3"]);
    assert_eq!((cluster.set().replicas, cluster.pods.len()), (3, 3));
    let removals = &cluster.status().removed_without_drain;
    assert_eq!(removals.len(), 1);
    assert_eq!((removals[0].ordinal, removals[0].by.as_str()), (2, "kubectl-scale"));
    let message = "kubectl-scale has set replicas to 2, which removes web-2 without the hook. They are restored to 3. Change spec.replicas of the ScalingPolicy instead.";
    assert_eq!(cluster.events("RemovedWithoutDrain"), [message]);
    let ours: Vec<Arc<str>> =
        cluster.announced.iter().flat_map(|note| &note.on).map(|on| Arc::clone(&on.name)).collect();
    assert!(!ours.is_empty());
}

#[test]
fn a_b9_30_replicas_that_somebody_raises_are_accepted_and_their_pods_drained() {
    let mut cluster = with(3, false);
    cluster.scale_set(5, "hpa");
    cluster.run();
    let expected = ["call web-4 prepare", "replicas 4", "call web-3 prepare", "replicas 3"];
    assert_eq!(cluster.story(), expected);
    assert!(cluster.status().removed_without_drain.is_empty());
}
