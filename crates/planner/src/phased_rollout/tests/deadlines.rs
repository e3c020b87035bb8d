//! What a gate's deadline counts, and what it does not: a revision that works is not rolled back because something else
//! was in the way.

use jiff::SignedDuration;
use sts_plus_api::phased_rollout::{Approval, GateState, OnFailure, Phase};

use super::cluster::{Cluster, NEW, OLD, WEB, data, empty, idle};
use super::edges::one_replaced;
use super::states::at;
use crate::disruption::MAX_MEMBERS;
use crate::example;
use crate::set::{SetRow, Strategy};

/// The deadline of these rollouts: longer than a gate takes when nothing is in the way.
const DEADLINE: i32 = 100;
const TENTH: i64 = 10;

fn with_deadline(cluster: Cluster) -> Cluster {
    let mut cluster = cluster.with(|spec| {
        spec.progress_deadline_seconds = Some(DEADLINE);
        spec.on_failure = OnFailure::Rollback;
    });
    cluster.quiet();
    cluster
}

/// A long time passes, and the operator looks every now and then.
fn for_an_hour(cluster: &mut Cluster) {
    for _ in 0..360 {
        cluster.let_pass(10);
        cluster.quiet();
    }
}

#[track_caller]
fn goes_through(mut cluster: Cluster) {
    assert_eq!(cluster.status().failure, None, "{cluster}");
    cluster.finish();
    let web: Vec<_> = cluster.revisions();
    assert_eq!(web, vec![NEW; web.len()], "{cluster}");
    assert_eq!(cluster.announced("GateFailed").len(), 0, "{cluster}");
}

#[test]
fn b_d19_another_zone_that_is_down_for_an_hour_does_not_count() {
    let mut cluster = one_replaced().with_neighbour();
    cluster.stuck.insert("other-0".to_owned());
    cluster.pod("other-0", |pod| pod.ready_since = None);
    let mut cluster = with_deadline(cluster);
    let asked = cluster.questions;
    for_an_hour(&mut cluster);
    assert!(cluster.questions > asked + 20, "the streak gets old and starts again, over and over");
    assert_eq!((cluster.gate().partition, cluster.gate().elapsed_seconds), (2, 0), "{cluster}");
    cluster.stuck.clear();
    cluster.quiet();
    goes_through(cluster);
}

/// A group of thousands would be read as a whole for each change of a pod, so none of its sets takes a step.
#[test]
fn b_d17_in_a_group_of_too_many_sets_no_step_is_taken_and_no_time_counts() {
    let mut cluster = one_replaced();
    cluster.set_mut().group = Some("shop".into());
    for number in 0..MAX_MEMBERS {
        cluster.create_set(SetRow {
            group: Some("shop".into()),
            strategy: Strategy::OnDelete,
            replicas: 0,
            current_revision: Some(OLD.into()),
            update_revision: Some(OLD.into()),
            ..example::set(&format!("n{number}"))
        });
    }
    let mut cluster = with_deadline(cluster);
    for_an_hour(&mut cluster);
    assert_eq!((cluster.gate().partition, cluster.gate().elapsed_seconds), (2, 0), "{cluster}");
    assert!(!cluster.announced("TooManySets").is_empty(), "{cluster}");
    cluster.sets.pop();
    cluster.quiet();
    goes_through(cluster);
}

#[test]
fn b_d19_an_operator_that_is_away_for_an_hour_does_not_count() {
    for state in [
        GateState::WaitForPodToBeUpdated,
        GateState::WaitForAllPodsToBeAvailable,
        GateState::WaitForInitialDelay,
        GateState::WaitForChecks,
        GateState::PrometheusError,
    ] {
        let mut cluster = with_deadline(at(state));
        cluster.die();
        cluster.let_pass(3600);
        cluster.say(data());
        cluster.native = true;
        cluster.stuck.clear();
        cluster.quiet();
        goes_through(cluster);
    }
}

#[test]
fn b_d19_an_operator_that_could_not_look_for_an_hour_counts_it_as_a_tenth() {
    let mut cluster = with_deadline(at(GateState::WaitForAllPodsToBeAvailable));
    cluster.let_pass(3600);
    cluster.quiet();
    assert_eq!(cluster.status().failure, None, "{cluster}");
    assert_eq!(cluster.gate().elapsed_seconds, TENTH);
    cluster.stuck.clear();
    cluster.quiet();
    goes_through(cluster);
}

#[test]
fn b_d19_a_spec_that_is_unobserved_for_an_hour_does_not_count() {
    let mut cluster = with_deadline(at(GateState::WaitForChecks));
    cluster.native = false;
    cluster.reset(|_| {});
    for_an_hour(&mut cluster);
    assert_eq!(cluster.status().waiting_for.as_deref(), Some("NotObserved"));
    assert_eq!(cluster.status().failure, None);
    cluster.native = true;
    cluster.quiet();
    goes_through(cluster);
}

#[test]
fn b_d19_a_partition_that_is_contested_for_long_does_not_count() {
    let mut cluster = with_deadline(at(GateState::WaitForChecks));
    cluster.say(empty());
    cluster.native = false;
    let mut contested = 0;
    for _ in 0..100 {
        cluster.interfere(3);
        cluster.observe();
        cluster.pass();
        cluster.observe();
        if cluster.status().waiting_for.as_deref() == Some("PartitionContested") {
            contested += 1;
            cluster.now = cluster.wake_at.unwrap();
            cluster.pass();
        }
    }
    assert!(contested > 50, "{contested}");
    assert_eq!(cluster.status().failure, None, "{cluster}");
    cluster.say(data());
    cluster.native = true;
    cluster.quiet();
    goes_through(cluster);
}

#[test]
fn b_d19_a_clock_that_is_set_neither_fails_a_gate_nor_gives_it_more_time() {
    for seconds in [86_400, 30, -30, -86_400] {
        for state in [GateState::WaitForAllPodsToBeAvailable, GateState::WaitForChecks] {
            let mut cluster = with_deadline(at(state));
            cluster.set_clock(seconds);
            cluster.quiet();
            assert_eq!(cluster.status().failure, None, "{seconds}: {cluster}");
            cluster.stuck.clear();
            cluster.quiet();
            goes_through(cluster);
        }
        // With something wrong, and a clock that is set again and again, the time is what really passes.
        let mut cluster = with_deadline(at(GateState::WaitForAllPodsToBeAvailable));
        let begun = cluster.elapsed();
        while cluster.status().failure.is_none() {
            cluster.let_pass(5);
            cluster.set_clock(seconds);
            cluster.quiet();
            assert!(cluster.elapsed() - begun < SignedDuration::from_secs(130), "{seconds}: {cluster}");
        }
        assert!(cluster.elapsed() - begun >= SignedDuration::from_secs(DEADLINE.into()), "{seconds}");
    }
}

#[test]
fn b_d19_time_spent_paused_or_waiting_for_approval_does_not_count() {
    for state in [GateState::Paused, GateState::WaitForApproval] {
        let mut cluster = with_deadline(at(state));
        for_an_hour(&mut cluster);
        assert_eq!((cluster.gate().status, &cluster.status().failure), (state, &None), "{cluster}");
        cluster.respec(|spec| {
            spec.paused = false;
            spec.approval = Approval::Never;
        });
        cluster.quiet();
        goes_through(cluster);
    }
}

#[test]
fn b_d19_time_that_has_run_out_does_nothing_in_a_state_that_does_not_count() {
    let mut cluster = with_deadline(at(GateState::Paused));
    let mut used = cluster.status().clone();
    used.rolling_pod_status.as_mut().unwrap().elapsed_seconds = 10 * i64::from(DEADLINE);
    cluster.rollout_mut(WEB).status = used;
    for_an_hour(&mut cluster);
    assert_eq!((cluster.gate().status, &cluster.status().failure), (GateState::Paused, &None));
    cluster.respec(|spec| spec.paused = false);
    cluster.quiet();
    assert_eq!(cluster.status().failure.as_ref().unwrap().reason, "ProgressDeadlineExceeded");
}

#[test]
fn b_d19_the_time_is_written_each_tenth_and_survives_restarts() {
    let mut cluster = with_deadline(at(GateState::WaitForAllPodsToBeAvailable));
    let begun = cluster.elapsed();
    let mut written = Vec::new();
    while cluster.status().failure.is_none() {
        cluster.let_pass(TENTH);
        cluster.quiet();
        written.extend(cluster.status().rolling_pod_status.as_ref().map(|gate| gate.elapsed_seconds));
        // Each second time just after it was written: an open stretch is all that gets lost.
        if written.len() % 2 == 0 {
            cluster.die();
        }
        assert!(cluster.elapsed() - begun < SignedDuration::from_mins(10), "{written:?}");
    }
    assert!(written.is_sorted(), "{written:?}");
    assert!(written.len() >= 10 && written.contains(&TENTH), "{written:?}");
    assert_eq!(cluster.status().failure.as_ref().unwrap().reason, "ProgressDeadlineExceeded");
}

#[test]
fn b_d19_time_whose_writing_was_not_acknowledged_is_counted_once() {
    let mut cluster = with_deadline(at(GateState::WaitForAllPodsToBeAvailable));
    cluster.quiet();
    let begun = cluster.elapsed();
    cluster.answers_lost = true;
    while cluster.status().failure.is_none() {
        cluster.let_pass(1);
        cluster.pass();
        assert!(cluster.elapsed() - begun < SignedDuration::from_mins(10), "{cluster}");
    }
    assert!(cluster.elapsed() - begun >= SignedDuration::from_secs(DEADLINE.into()), "{cluster}");
}

#[test]
fn b_d19_time_that_ends_on_a_view_that_cannot_be_confirmed_does_not_count() {
    let mut cluster = with_deadline(at(GateState::WaitForAllPodsToBeAvailable));
    cluster.quiet();
    let used = cluster.gate().elapsed_seconds;
    cluster.unconfirmed = true;
    for_an_hour(&mut cluster);
    assert_eq!((cluster.gate().elapsed_seconds, &cluster.status().failure), (used, &None), "{cluster}");
    cluster.unconfirmed = false;
    let begun = cluster.elapsed();
    cluster.until(|cluster| cluster.status().failure.is_some());
    assert!(cluster.elapsed() - begun >= SignedDuration::from_secs(i64::from(DEADLINE) - TENTH), "{cluster}");
}

#[test]
fn b_d19_each_state_that_counts_meets_the_deadline() {
    for (state, reply) in [
        (GateState::WaitForPodToBeUpdated, data()),
        (GateState::WaitForAllPodsToBeAvailable, data()),
        (GateState::WaitForChecks, empty()),
        (GateState::PrometheusError, super::cluster::broken()),
    ] {
        let mut cluster = at(state);
        cluster.say(reply);
        let mut cluster = with_deadline(cluster);
        let begun = cluster.elapsed();
        cluster.until(|cluster| cluster.status().failure.is_some());
        let took = cluster.elapsed() - begun;
        assert!(took >= SignedDuration::from_secs(i64::from(DEADLINE) - 2 * TENTH), "{state:?}: {took:?}");
        assert!(took < SignedDuration::from_secs(i64::from(DEADLINE) + TENTH), "{state:?}: {took:?}");
        assert_eq!(cluster.status().failure.as_ref().unwrap().reason, "ProgressDeadlineExceeded");
    }
    // The promotion that is awaited counts as well.
    let mut cluster = idle().with(|spec| {
        spec.progress_deadline_seconds = Some(DEADLINE);
        spec.verify_last = false;
    });
    cluster.edit(NEW);
    cluster.quiet();
    cluster.until(|cluster| cluster.gate().partition == 1);
    cluster.native = false;
    cluster.until(|cluster| cluster.gate().partition == 0);
    let pod = cluster.pods.iter().find(|pod| &*pod.name == "web-0").unwrap().clone();
    cluster.pods.retain(|pod| &*pod.name != "web-0");
    let ready_since = Some(cluster.now);
    let pod = crate::pod::PodRow { uid: "uid-anew".into(), revision: Some(NEW.into()), ready_since, ..pod };
    cluster.pods.push(pod);
    cluster.observe();
    cluster.quiet();
    assert_eq!(cluster.status().waiting_for.as_deref(), Some("Promotion"), "{cluster}");
    cluster.until(|cluster| cluster.status().phase == Some(Phase::Failed));
}

#[test]
fn without_a_deadline_no_time_is_written() {
    let mut cluster = at(GateState::WaitForAllPodsToBeAvailable);
    for_an_hour(&mut cluster);
    assert_eq!(cluster.gate().elapsed_seconds, 0);
    assert!(cluster.pass().plan.steps.is_empty());
}

#[test]
fn b_d19_a_pod_that_has_not_been_replaced_does_not_count_while_it_is_down() {
    for partition in [3, 2] {
        let mut cluster = super::cluster::rolling();
        cluster.until(|cluster| cluster.gate().partition == partition);
        let mut cluster = with_deadline(cluster);
        cluster.stuck.insert("web-0".to_owned());
        cluster.pod("web-0", |pod| pod.ready_since = None);
        cluster.quiet();
        let used = cluster.gate().elapsed_seconds;
        for_an_hour(&mut cluster);
        assert_eq!(cluster.status().waiting_for.as_deref(), Some("PodsToBeAvailable"), "{cluster}");
        assert!(cluster.gate().elapsed_seconds <= used + TENTH, "{cluster}");
        cluster.stuck.clear();
        cluster.quiet();
        goes_through(cluster);
    }
}

#[test]
fn b_d19_a_clock_that_is_behind_does_not_count_while_pods_settle() {
    let mut cluster = one_replaced();
    cluster.native = true;
    cluster.reset(|set| set.min_ready = SignedDuration::from_secs(20));
    let mut cluster = with_deadline(cluster);
    // Two hours behind what the nodes wrote.
    cluster.set_clock(-7_200);
    cluster.quiet();
    for_an_hour(&mut cluster);
    assert_eq!(cluster.status().waiting_for.as_deref(), Some("PodsToBeAvailable"), "{cluster}");
    assert_eq!(cluster.status().failure, None, "{cluster}");
    cluster.set_clock(7_200);
    cluster.quiet();
    goes_through(cluster);
}

#[test]
fn b_d19_a_deadline_made_shorter_than_what_was_used_is_judged_on_a_confirmed_view() {
    let mut cluster = with_deadline(at(GateState::WaitForAllPodsToBeAvailable));
    for _ in 0..5 {
        cluster.let_pass(10);
        cluster.quiet();
    }
    cluster.respec(|spec| spec.progress_deadline_seconds = Some(30));
    let plan = crate::phased_rollout::plan(&cluster.world(WEB), cluster.now);
    assert!(plan.status.failure.is_some() && plan.needs_confirmed_view(), "{plan:?}");
}
