//! The edges of a drain: rollouts, other sets, pods that change under it, an operator that is lost.

use serde_json::json;
use sts_plus_api::scaling_policy::RecordPhase;

use super::cluster::{Answer, Cluster, NEW, WEB, http, policy, untaken, with};
use crate::plan::Awaited;
use crate::pod::Waiting;
use crate::scaling::hook::Call;
use crate::scaling::wait::Wait;

/// A drain of web-2 that is polled.
fn draining() -> Cluster {
    let mut cluster = with(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(3));
    cluster.answers.insert(Call::Poll, Answer::After(3));
    cluster.scale(2);
    cluster.quiet();
    assert_eq!(cluster.record(2).phase, RecordPhase::Draining);
    cluster
}

#[test]
fn creating_a_policy_never_changes_the_number_of_pods() {
    let mut cluster = untaken(3, json!({ "scaleDown": { "hook": http(false) } }));
    cluster.run();
    assert_eq!(
        cluster.row().spec.policy.as_ref().unwrap().replicas,
        Some(3),
        "it is taken from the set, once"
    );
    assert_eq!((cluster.set().replicas, cluster.status().held_replicas), (3, Some(3)));
    assert_eq!(cluster.state().0, "AsRequested");
    assert!(cluster.row().has_finalizer());
    assert!(cluster.story().is_empty());
    assert_eq!(cluster.status().selector.as_deref(), Some("name=web"));
}

#[test]
fn the_finalizer_is_on_before_anything_else_is_written() {
    let mut cluster = untaken(3, json!({ "replicas": 1, "scaleDown": { "hook": http(false) } }));
    let made = cluster.pass();
    assert_eq!(made.plan.writes().count(), 1);
    assert!(cluster.row().has_finalizer());
    cluster.run();
    assert_eq!(cluster.set().replicas, 1);
}

#[test]
fn of_two_policies_for_a_set_the_older_one_scales_it() {
    let mut cluster = with(3, false);
    let created = cluster.now;
    let spec = json!({ "targetRef": { "name": WEB }, "replicas": 1 });
    cluster.policies.push(policy("second", &spec, created));
    for _ in 0..3 {
        cluster.pass_for("second");
    }
    let second = cluster.policies.iter().find(|row| &*row.name == "second").unwrap();
    let ready = &second.status.conditions[0];
    assert_eq!(ready.reason, "TargetClaimed");
    let message =
        "StatefulSet web is scaled by the ScalingPolicy web, which is older. Delete one of the two.";
    assert_eq!(ready.message, message);
    assert_eq!(cluster.set().replicas, 3);
    cluster.delete_policy();
    cluster.run();
    assert!(cluster.policies.iter().all(|row| &*row.name == "second"));
    let made = cluster.plan("second");
    assert!(!matches!(made.wait, Some(Wait::TargetClaimed { .. })), "{made:?}");
}

#[test]
fn a_set_that_another_object_controls_is_left_alone() {
    let mut cluster = with(3, false);
    cluster.change_set(WEB, |set| set.controller = Some("ExtendedStatefulSet db".into()));
    cluster.scale(1);
    cluster.run();
    let message = "StatefulSet web is controlled by ExtendedStatefulSet db, which scales it. Scale that object instead.";
    assert_eq!(cluster.state(), ("TargetControlled", message));
    assert!(cluster.is_stalled() && cluster.story().is_empty());
}

#[test]
fn a_missing_set_is_waited_for() {
    let mut cluster = with(3, false);
    let set = cluster.sets.remove(0);
    cluster.pass();
    assert_eq!(cluster.state(), ("TargetMissing", "StatefulSet web does not exist."));
    cluster.sets.push(set);
    cluster.run();
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn no_pod_begins_to_leave_while_a_rollout_is_under_way() {
    let mut cluster = with(3, false);
    cluster.stuck.insert("web-2".to_owned());
    cluster.edit(NEW);
    for _ in 0..12 {
        let Some(work) = cluster.work().first().cloned() else { break };
        cluster.perform(&work);
    }
    cluster.scale(2);
    cluster.run();
    assert_eq!(cluster.state().0, "RolloutUnderWay");
    assert!(cluster.calls.is_empty());
    cluster.stuck.clear();
    cluster.run();
    assert_eq!(cluster.story(), ["call web-2 prepare", "replicas 2"]);
}

#[test]
fn no_pod_begins_to_leave_while_another_zone_of_the_group_is_disturbed() {
    let mut cluster = with(3, false);
    cluster.change_set(WEB, |set| set.group = Some("zones".into()));
    cluster.create_set("web-b", 2, Some("zones"));
    cluster.stuck.insert("web-b-1".to_owned());
    cluster.change_pod("web-b-1", |pod| pod.ready_since = None);
    cluster.scale(2);
    cluster.run();
    let message =
        "web-2 does not leave yet. Blocked: not all pods of web-b are Ready (web-b-1 is not Ready).";
    assert_eq!(cluster.state(), ("OtherSetNotReady", message));
    let made = cluster.pass();
    assert!(matches!(&made.plan.waits_on[..], [Awaited::Set(set)] if &*set.name == "web-b"));
    assert!(cluster.calls.is_empty());
    cluster.stuck.clear();
    cluster.run();
    assert_eq!(cluster.set().replicas, 2);
}

#[test]
fn several_pods_leave_at_once_and_replicas_are_lowered_in_one_write() {
    let mut cluster = with(6, true);
    cluster.respec("/scaleDown/maxConcurrent", json!(2));
    cluster.answers.insert(Call::Prepare, Answer::After(2));
    cluster.answers.insert(Call::Poll, Answer::After(2));
    cluster.scale(3);
    cluster.run();
    let replicas: Vec<_> = cluster.story().into_iter().filter(|line| line.starts_with("replicas")).collect();
    assert_eq!(replicas, ["replicas 4", "replicas 3"]);
    assert!(cluster.trace.contains(&"leaving 4,5".to_owned()));
    assert_eq!(cluster.called(Call::Prepare), 3);
}

#[test]
fn a_template_that_changes_in_the_middle_of_a_drain_makes_the_hook_run_again() {
    let mut cluster = draining();
    cluster.edit(NEW);
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"));
    assert_eq!(cluster.called(Call::Prepare), 2, "once for each pod of the name");
}

#[test]
fn a_pod_that_is_replaced_in_the_middle_of_a_drain_is_called_again() {
    let mut cluster = draining();
    cluster.kill("web-2");
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.called(Call::Prepare)), (2, 2));
    let message = "web-2 was replaced after it was called. Its hook runs again.";
    assert_eq!(cluster.events("HookRestarted"), [message]);
}

#[test]
fn a_container_that_is_restarted_in_the_middle_of_a_drain_is_called_again() {
    let mut cluster = draining();
    cluster.restart("web-2");
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.called(Call::Prepare)), (2, 2));
}

#[test]
fn an_operator_that_is_lost_between_any_two_writes_resumes() {
    let mut deaths = 0;
    for writes in 0..40 {
        let mut cluster = with(4, true);
        cluster.answers.insert(Call::Prepare, Answer::After(1));
        cluster.answers.insert(Call::Poll, Answer::After(1));
        cluster.scale(2);
        cluster.dies_after = Some(writes);
        cluster.run();
        deaths += usize::from(cluster.dies_after.is_none());
        assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"), "after {writes} writes");
        let replicas: Vec<_> =
            cluster.story().into_iter().filter(|line| line.starts_with("replicas")).collect();
        assert_eq!(replicas, ["replicas 3", "replicas 2"], "after {writes} writes");
        assert!(cluster.status().removed_without_drain.is_empty());
        assert!(cluster.called(Call::Prepare) <= 3, "after {writes} writes");
    }
    assert!(deaths > 8, "{deaths}");
}

#[test]
fn a_pod_that_cannot_be_called_is_waited_for() {
    let mut cluster = with(3, false);
    cluster.stuck.insert("web-2".to_owned());
    cluster.change_pod("web-2", |pod| (pod.ready_since, pod.running) = (None, false));
    cluster.scale(2);
    cluster.run();
    assert_eq!(cluster.called(Call::Prepare), 0);
    assert_eq!(cluster.state().0, "DeadlineExceeded");
    cluster.change_pod("web-2", |pod| {
        (pod.ready_since, pod.running) = (Some(pod.ready_since.unwrap_or_default()), true);
    });
    cluster.run();
    assert_eq!(cluster.set().replicas, 2);
}

#[test]
fn a_pod_that_cannot_be_called_is_removed_at_the_deadline_where_that_is_asked_for() {
    let mut cluster = with(3, false);
    cluster.forced = true;
    cluster.respec("/scaleDown/hook/onFailure", json!("Force"));
    cluster.stuck.insert("web-2".to_owned());
    cluster.change_pod("web-2", |pod| (pod.ready_since, pod.running) = (None, false));
    cluster.scale(2);
    cluster.quiet();
    assert_eq!(cluster.state().0, "PodNotRunning");
    cluster.run();
    assert_eq!((cluster.set().replicas, cluster.called(Call::Prepare)), (2, 0));
    assert_eq!(cluster.events("ForcedRemoval").len(), 1);
}

#[test]
fn without_a_hook_pods_leave_in_order_without_calls() {
    let mut cluster = untaken(4, json!({ "replicas": 2 }));
    cluster.run();
    assert_eq!(cluster.story(), ["replicas 3", "replicas 2"]);
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn while_it_is_paused_nothing_begins_and_nobody_is_called() {
    let mut cluster = draining();
    cluster.respec("/paused", json!(true));
    let calls = cluster.calls.clone();
    cluster.run();
    cluster.pass_time(100_000);
    cluster.run();
    assert_eq!(cluster.calls, calls);
    assert_eq!(cluster.state(), ("Paused", "Paused by spec.paused."));
    assert_eq!(cluster.record(2).phase, RecordPhase::Draining, "what has begun stays as it is");
    cluster.respec("/scaleDown/hook/onFailure", json!("Force"));
    cluster.respec("/paused", json!(false));
    cluster.run();
    assert_eq!(cluster.set().replicas, 2);
    assert!(cluster.events("ForcedRemoval").is_empty(), "time in which nobody was called does not count");
}

#[test]
fn on_a_view_that_cannot_be_confirmed_no_pod_begins_to_leave_or_is_removed() {
    let mut cluster = with(3, false);
    cluster.unconfirmed = true;
    cluster.scale(2);
    cluster.run();
    assert_eq!(cluster.state().0, "ViewUnconfirmed");
    assert!(cluster.calls.is_empty() && cluster.set().steering.leaving.is_none());
    cluster.unconfirmed = false;
    cluster.run();
    assert_eq!(cluster.set().replicas, 2);
}

#[test]
fn nothing_is_done_to_pods_that_cannot_be_read() {
    let mut cluster = with(3, false);
    cluster.unreadable = true;
    cluster.scale(2);
    for _ in 0..20 {
        cluster.pass();
        cluster.pass_time(5);
    }
    assert!(cluster.calls.is_empty());
    cluster.unreadable = false;
    cluster.run();
    assert_eq!(cluster.set().replicas, 2);
}

#[test]
fn a_call_that_hangs_is_not_made_twice() {
    let mut cluster = with(3, false);
    cluster.answers.insert(Call::Prepare, Answer::Hang);
    cluster.scale(2);
    cluster.run();
    cluster.pass_time(1000);
    cluster.run();
    assert_eq!(cluster.called(Call::Prepare), 1);
    cluster.answers.clear();
    cluster.run();
    assert_eq!(cluster.set().replicas, 2);
}

#[test]
fn a_polled_pod_does_not_cost_a_status_write_per_poll() {
    let mut cluster = with(3, true);
    cluster.answers.insert(Call::Prepare, Answer::After(u32::MAX));
    cluster.answers.insert(Call::Poll, Answer::After(u32::MAX));
    cluster.scale(2);
    cluster.quiet();
    // The message is another one after the first poll, and then for every one: it is what people look at.
    let (writes, before) = (cluster.writes_made, cluster.called(Call::Poll));
    for _ in 0..12 {
        cluster.wake();
    }
    assert_eq!(cluster.called(Call::Poll) - before, 12);
    assert_eq!(cluster.writes_made - writes, 12);
}

#[test]
fn a_cancel_that_fails_is_repeated_until_the_deadline() {
    let mut cluster = draining();
    cluster.answers.insert(Call::Cancel, Answer::Fail("answered 503"));
    cluster.scale(3);
    cluster.quiet();
    let message = "The call of web-2 cannot be taken back; that has failed once: answered 503.";
    assert_eq!(cluster.state(), ("CancelFailing", message));
    cluster.run();
    assert_eq!(cluster.events("CancelFailed").len(), 1);
    assert_eq!((cluster.state().0, cluster.status().leaving.len()), ("AsRequested", 0));
}

#[test]
fn a_drained_pod_that_is_wanted_again_is_called_off() {
    let mut cluster = with(3, false);
    cluster.scale(2);
    while cluster.status().leaving.first().is_none_or(|record| record.phase != RecordPhase::Drained) {
        cluster.pass();
        cluster.answer();
    }
    cluster.scale(3);
    cluster.run();
    assert_eq!(cluster.story(), ["call web-2 prepare", "call web-2 cancel"]);
    assert_eq!(cluster.state().0, "AsRequested");
}

#[test]
fn an_annotation_that_somebody_removes_is_written_again() {
    let mut cluster = draining();
    cluster.change_set(WEB, |set| set.steering.leaving = None);
    cluster.quiet();
    assert_eq!(cluster.set().steering.leaving.as_deref(), Some("2"));
    cluster.run();
    assert_eq!(cluster.called(Call::Prepare), 1);
}

#[test]
fn a_b9_19_two_broken_pods_leave_one_after_the_other() {
    for hook in [json!(null), http(false)] {
        let mut cluster = untaken(4, json!({ "scaleDown": { "hook": hook }, "replicas": 4 }));
        cluster.run();
        for name in ["web-2", "web-3"] {
            // Its container waits, and a second one of it runs and can be called.
            cluster.stuck.insert(name.to_owned());
            cluster.change_pod(name, |pod| {
                (pod.waiting, pod.ready_since) = (Some(Waiting::CrashLoopBackOff), None);
            });
        }
        cluster.scale(2);
        cluster.pass();
        let leaving =
            |cluster: &Cluster| cluster.status().leaving.iter().map(|it| it.ordinal).collect::<Vec<_>>();
        assert_eq!(leaving(&cluster), [3], "it does not wait for web-2: {cluster}");
        cluster.run();
        assert_eq!((cluster.set().replicas, cluster.state().0), (2, "AsRequested"), "{cluster}");
        assert!(cluster.pods.iter().all(crate::pod::PodRow::ready), "{cluster}");
        let lowered: Vec<_> = cluster.trace.iter().filter(|line| line.starts_with("replicas")).collect();
        assert_eq!(lowered, ["replicas 3", "replicas 2"], "one at a time: {cluster}");
    }
}
