//! The other edge cases (A10), in the order of the table, and some that it does not have.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use sts_plus_api::phased_rollout::{GateState, OnFailure, Phase, ReleasePolicy};

use super::cluster::{NEW, OLD, WEB, data, given, idle, rolling, rollout, with_replicas};
use super::edges::one_replaced;
use super::states::at;
use crate::example;
use crate::phased_rollout::{IN_LINE_LOOK, plan, wait::Wait};
use crate::set::{SetRow, Strategy};

pub(super) fn other_set(name: &str) -> SetRow {
    SetRow {
        strategy: Strategy::RollingUpdate { partition: 0 },
        current_revision: Some(OLD.into()),
        update_revision: Some(OLD.into()),
        ..example::set(name)
    }
}

#[test]
fn b_a10_15_whoever_keeps_writing_the_partition_is_answered_ever_more_slowly() {
    let mut cluster = idle();
    cluster.native = false;
    let mut delays = Vec::new();
    for time in 1..=40 {
        cluster.interfere(0);
        let begun = cluster.now;
        let plan = cluster.pass();
        if plan.wait.is_none() || matches!(plan.wait, Some(Wait::NotObserved { .. })) {
            cluster.observe();
            cluster.pass();
        }
        if cluster.partition() == 0 {
            assert_eq!(cluster.status().waiting_for.as_deref(), Some("PartitionContested"), "{time}");
            assert_eq!(cluster.condition("Ready"), Some(("False", "PartitionContested")));
            let message = cluster.status().message.clone().unwrap();
            assert!(message.contains("argocd keeps writing the partition"), "{message}");
            cluster.now = cluster.wake_at.unwrap();
            cluster.pass();
        }
        assert_eq!(cluster.partition(), 3, "restored in the end, {time}:\n{cluster}");
        cluster.observe();
        delays.push(cluster.now.duration_since(begun).as_secs());
    }
    assert_eq!(delays[..5], [0; 5], "the first ones at once");
    assert!(delays[5..].windows(2).all(|two| two[0] <= two[1]), "{delays:?}");
    assert!(delays[39] >= 59 && delays[39] <= 60, "and never for long: {delays:?}");
    assert_eq!(cluster.status().contest.as_ref().unwrap().times, 40);
    cluster.native = true;
    cluster.quiet();
    cluster.until(|cluster| cluster.wake_at.is_none());
    assert_eq!(cluster.status().contest, None, "forgotten when nobody writes for long");
    assert_eq!(cluster.status().phase, Some(Phase::Updated));
}

#[test]
fn b_a10_16_of_two_rollouts_the_oldest_wins_and_then_the_first_by_name() {
    for (ours, theirs, winner) in [(0, 1, WEB), (1, 0, "alpha"), (0, 0, "alpha")] {
        let mut cluster = given();
        cluster.create_rollout(rollout("alpha", WEB));
        let base = cluster.now;
        cluster.rollout_mut(WEB).created = base + SignedDuration::from_secs(ours);
        cluster.rollout_mut("alpha").created = base + SignedDuration::from_secs(theirs);
        cluster.quiet();
        let loser = if winner == WEB { "alpha" } else { WEB };
        assert_eq!(cluster.rollout(winner).status.phase, Some(Phase::Updated));
        let status = &cluster.rollout(loser).status;
        assert_eq!(status.phase, Some(Phase::ErrorCannotManage));
        assert!(status.message.as_deref().unwrap().contains(winner));
        assert_eq!(status.target, None, "it holds nothing");
        assert_eq!(cluster.set().steering.phased_rollout.as_deref(), Some(winner));
        assert_eq!(cluster.rollout(winner).status.target.as_ref().unwrap().uid, *cluster.set().uid);
    }
}

#[test]
fn b_a10_17_another_target_lets_the_former_one_go_first() {
    for (policy, left_at) in [(ReleasePolicy::Resume, 0), (ReleasePolicy::Freeze, 2)] {
        let mut cluster = one_replaced().with(|spec| spec.deletion_policy = policy);
        cluster.quiet();
        cluster.create_set(other_set("other"));
        cluster.respec(|spec| spec.target_ref = "other".to_owned());
        cluster.pass();
        assert_eq!(cluster.partition(), left_at);
        assert_eq!(cluster.set().steering.phased_rollout, None);
        let other = cluster.sets.iter().find(|set| &*set.name == "other").unwrap();
        assert_eq!(other.strategy, Strategy::RollingUpdate { partition: 0 }, "not yet");
        cluster.quiet();
        let other = cluster.sets.iter().find(|set| &*set.name == "other").unwrap();
        assert_eq!(other.strategy, Strategy::RollingUpdate { partition: 3 });
        assert_eq!(other.steering.phased_rollout.as_deref(), Some(WEB));
        assert_eq!(cluster.status().target.as_ref().unwrap().name, "other");
        assert_eq!(cluster.announced("Released").len(), 1);
        assert!(cluster.announced("PartitionRestored").is_empty());
    }
}

#[test]
fn b_a10_18_deleted_during_a_gate_the_set_goes_on_or_stays_as_the_policy_says() {
    for (policy, partition, revisions) in
        [(ReleasePolicy::Resume, 0, [NEW; 3]), (ReleasePolicy::Freeze, 2, [OLD, OLD, NEW])]
    {
        let mut cluster = one_replaced().with(|spec| spec.deletion_policy = policy);
        cluster.quiet();
        cluster.delete_rollout(WEB);
        cluster.quiet();
        assert!(cluster.rollouts.is_empty());
        assert_eq!((cluster.partition(), cluster.revisions()), (partition, revisions.to_vec()));
        assert_eq!(cluster.set().steering.phased_rollout, None);
    }
}

#[test]
fn b_a10_19_a_set_created_anew_is_a_fresh_start() {
    let mut cluster = one_replaced();
    let old = cluster.sets.remove(0);
    cluster.pods.clear();
    cluster.quiet();
    assert_eq!(cluster.status().phase, Some(Phase::ErrorSTSNotFound));
    assert_eq!(cluster.status().rolling_pod_status, None);
    cluster.create_set(SetRow { uid: "uid-anew".into(), ..other_set(WEB) });
    cluster.quiet();
    assert_eq!(cluster.status().phase, Some(Phase::Updated));
    assert_eq!(cluster.partition(), 3);
    assert_ne!(cluster.status().target.as_ref().unwrap().uid, *old.uid);
}

#[test]
fn b_a10_19_a_set_exchanged_between_two_looks_is_a_fresh_start_too() {
    let mut cluster = one_replaced();
    cluster.sets.clear();
    cluster.pods.clear();
    cluster.create_set(SetRow { uid: "uid-anew".into(), ..other_set(WEB) });
    cluster.quiet();
    assert_eq!((cluster.status().phase, cluster.partition()), (Some(Phase::Updated), 3));
    assert!(cluster.announced("PartitionRestored").is_empty(), "its partition is nobody's doing");
}

#[test]
fn b_a10_19_a_set_exchanged_on_the_way_back_is_not_called_rolled_back() {
    let mut cluster = one_replaced();
    cluster.edit(OLD);
    cluster.observe();
    cluster.pass();
    cluster.observe();
    cluster.pass();
    assert_eq!(cluster.status().phase, Some(Phase::RollingBack), "{cluster}");
    cluster.sets.clear();
    cluster.pods.clear();
    cluster.create_set(SetRow { uid: "uid-anew".into(), ..other_set(WEB) });
    cluster.quiet();
    assert_eq!(cluster.status().phase, Some(Phase::Updated));
    assert!(cluster.announced("RolledBack").is_empty());
}

#[test]
fn b_a10_20_a_pod_down_during_the_checks_starts_the_delay_anew() {
    let mut cluster = at(GateState::WaitForChecks);
    cluster.stuck.insert("web-0".to_owned());
    cluster.pod("web-0", |pod| pod.ready_since = None);
    cluster.quiet();
    assert_eq!(cluster.gate().status, GateState::WaitForAllPodsToBeAvailable);
    assert_eq!(cluster.gate().consecutive_successful_checks, 0);
    assert_eq!(cluster.wake_at, None, "the pod brings the next look");
    cluster.stuck.clear();
    cluster.quiet();
    assert_eq!(cluster.gate().status, GateState::WaitForInitialDelay);
}

#[test]
fn b_a10_21_a_pod_that_never_gets_available_meets_the_deadline() {
    let mut cluster = idle().with(|spec| {
        spec.progress_deadline_seconds = Some(300);
        spec.on_failure = OnFailure::Rollback;
    });
    cluster.edit("second-bad");
    cluster.quiet();
    cluster.until(|cluster| cluster.partition() == 2);
    let begun = cluster.gate().start_time;
    cluster.until(|cluster| cluster.status().failure.is_some());
    let failure = cluster.status().failure.clone().unwrap();
    assert_eq!(failure.reason, "ProgressDeadlineExceeded");
    assert!(failure.message.contains("300 s") && failure.message.contains("CrashLoopBackOff"), "{failure:?}");
    assert!(failure.time >= begun + SignedDuration::from_secs(300));
    cluster.until(|cluster| cluster.status().phase == Some(Phase::RolledBack));
    assert_eq!(
        (cluster.revisions(), cluster.partition()),
        (vec![OLD; 3], 3),
        "replaced although it was stuck"
    );
}

#[test]
fn b_a10_22_ordinals_that_do_not_begin_at_0_are_counted_from_where_they_do() {
    let mut cluster = given();
    cluster.pods.clear();
    let mut set = cluster.sets.remove(0);
    set.first_ordinal = 5;
    cluster.create_set(set);
    cluster.quiet();
    assert_eq!(cluster.partition(), 3);
    cluster.recheck(|check| check.query.expr = "up{pod=\"${pod}\"}".to_owned());
    cluster.prometheus = Arc::new(|question, cluster| {
        let (partition, pod) = (question.gate.partition, question.fill().unwrap().query);
        let about = match partition {
            3 | 2 => "web-7",
            1 => "web-6",
            _ => "web-5",
        };
        assert_eq!(pod, format!("up{{pod=\"{about}\"}}"), "{cluster}");
        data()
    });
    cluster.edit(NEW);
    cluster.quiet();
    cluster.finish();
    let rolled: Vec<_> = cluster.trace.iter().filter(|line| line.starts_with("roll ")).collect();
    assert_eq!(rolled, ["roll web-7", "roll web-6", "roll web-5"]);
    assert_eq!(cluster.partitions(), ["3", "2", "1", "0", "3"]);
}

#[test]
fn b_a10_23_nothing_is_decided_on_a_spec_that_is_not_observed() {
    let mut cluster = at(GateState::Passed);
    cluster.native = false;
    cluster.reset(|_| {});
    let plan = cluster.pass();
    let asked = plan.questions().len();
    assert_eq!((plan.wait, plan.plan.steps.len(), asked), (None, 0, 0), "silent at first");
    assert_eq!(cluster.partition(), 2);
    cluster.wake();
    assert_eq!(cluster.status().waiting_for.as_deref(), Some("NotObserved"));
    assert_eq!(cluster.status().phase, Some(Phase::Rolling));
    assert_eq!(cluster.partition(), 2);
    cluster.native = true;
    cluster.quiet();
    cluster.finish();
}

#[test]
fn b_a10_24_an_old_view_takes_no_second_step() {
    let mut cluster = at(GateState::Passed);
    let old = cluster.clone();
    cluster.pass();
    assert_eq!(cluster.partition(), 1);
    let (world, again) = old.plan(WEB);
    assert!(cluster.clone().write(&world, &again, usize::MAX).is_err(), "the set has another version");
    cluster.observe();
    let mut mixed = cluster.world(WEB);
    mixed.rollout = world.rollout;
    let plan = plan(&mixed, cluster.now);
    let touches = |action: &crate::plan::Action| action.disrupts();
    assert!(!plan.plan.steps.iter().flat_map(|step| &step.writes).any(touches), "{plan:?}");
    assert_eq!(plan.status.rolling_pod_status.unwrap().partition, 1, "the next gate, and no step");
}

#[test]
fn b_a10_25_a_slow_query_is_not_asked_again_and_holds_nothing_else_up() {
    let mut cluster = at(GateState::WaitForChecks).with(|spec| spec.progress_deadline_seconds = Some(600));
    cluster.now = cluster.wake_at.unwrap();
    let mut world = cluster.world(WEB);
    assert_eq!(plan(&world, cluster.now).questions().len(), 1, "due");
    world.under_way = BTreeSet::from(["check".to_owned()]);
    let slow = plan(&world, cluster.now);
    assert!(slow.questions().is_empty());
    let tenth = cluster.now + SignedDuration::from_mins(1);
    assert_eq!(slow.plan.wake_at, Some(tenth), "only a tenth of the deadline is awaited besides the answer");
}

#[test]
fn b_a10_26_a_restart_goes_on_from_the_status() {
    let mut cluster = at(GateState::WaitForChecks);
    let before = cluster.gate().clone();
    cluster.outcomes.clear();
    cluster.quiet();
    assert_eq!(*cluster.gate(), before);
    cluster.wake();
    assert_eq!(cluster.partition(), 1, "one more success was enough");
}

#[test]
fn b_a10_27_a_row_of_successes_that_is_too_old_is_discarded() {
    // The period is 10 s and the timeout 5 s: the row holds for 20 s.
    for (seconds, kept) in [(19, true), (21, false)] {
        let mut cluster = at(GateState::WaitForChecks);
        let last = cluster.gate().checks[0].last_success_time.unwrap();
        cluster.now = last + SignedDuration::from_secs(seconds);
        cluster.quiet();
        assert_eq!(cluster.partition() == 1, kept, "{seconds}: {cluster}");
    }
}

#[test]
fn b_a10_27_times_from_a_clock_that_ran_ahead_are_not_believed() {
    for state in [GateState::WaitForInitialDelay, GateState::WaitForChecks, GateState::Passed] {
        let mut cluster = at(state);
        cluster.now -= SignedDuration::from_hours(24);
        cluster.quiet();
        assert_eq!(cluster.partition(), 2, "nothing passes on successes that are yet to come: {cluster}");
        cluster.finish();
        assert_eq!(cluster.revisions(), [NEW; 3], "{state:?}");
    }
    let mut cluster = idle();
    (0..7).for_each(|_| {
        cluster.interfere(0);
        cluster.pass();
    });
    cluster.now -= SignedDuration::from_hours(24);
    cluster.quiet();
    assert_eq!(cluster.partition(), 3, "nor is a contest");
}

#[test]
fn an_answer_for_another_step_revision_or_wording_does_not_count() {
    let mut cluster = at(GateState::WaitForChecks);
    cluster.now = cluster.wake_at.unwrap();
    cluster.pass();
    let counts = |change: &dyn Fn(&mut crate::phased_rollout::query::Outcome)| {
        let mut world = cluster.world(WEB);
        change(&mut world.outcomes[0]);
        let gate = plan(&world, cluster.now).status.rolling_pod_status.unwrap();
        gate.checks[0].consecutive_successful_checks
    };
    assert_eq!(counts(&|_| {}), 2);
    assert_eq!(counts(&|outcome| outcome.gate.partition = 3), 1);
    assert_eq!(counts(&|outcome| outcome.gate.generation -= 1), 1);
    assert_eq!(counts(&|outcome| outcome.gate.revision = OLD.into()), 1);
    assert_eq!(counts(&|outcome| outcome.check = "other".to_owned()), 1);
    assert_eq!(
        counts(&|outcome| outcome.asked_at = cluster.gate().checks[0].last_check_time.unwrap()),
        1,
        "twice"
    );
}

#[test]
fn an_answer_to_a_question_from_before_a_pod_was_down_does_not_count() {
    let mut cluster = at(GateState::WaitForChecks);
    cluster.now = cluster.wake_at.unwrap();
    cluster.pass();
    let late = std::mem::take(&mut cluster.outcomes);
    assert_eq!(late.len(), 1);
    cluster.stuck.insert("web-0".to_owned());
    cluster.pod("web-0", |pod| pod.ready_since = None);
    cluster.pass();
    cluster.stuck.clear();
    cluster.quiet();
    assert_eq!(cluster.gate().status, GateState::WaitForInitialDelay);
    cluster.outcomes = late;
    cluster.quiet();
    assert_eq!(
        (cluster.gate().consecutive_successful_checks, cluster.gate().last_check_time.is_some()),
        (0, true)
    );
}

#[test]
fn a_spec_reworded_while_nobody_could_look_does_not_keep_the_row() {
    let mut cluster = at(GateState::WaitForChecks);
    cluster.native = false;
    cluster.reset(|set| set.strategy = Strategy::OnDelete);
    cluster.recheck(|check| check.query.expr = "sum(up)".to_owned());
    cluster.quiet();
    assert_eq!(cluster.status().phase, Some(Phase::ErrorCannotManage));
    cluster.reset(|set| set.strategy = Strategy::RollingUpdate { partition: 2 });
    cluster.observe();
    let asked = cluster.questions;
    cluster.quiet();
    cluster.until(|cluster| cluster.partition() == 1);
    assert_eq!(cluster.questions - asked, 2, "both under the new wording");
}

#[test]
fn a_name_of_253_characters_goes_through_whole() {
    let long = "w".repeat(253);
    let mut cluster = given();
    cluster.pods.clear();
    cluster.sets.clear();
    cluster.create_set(other_set(&long));
    cluster.respec(|spec| spec.target_ref.clone_from(&long));
    cluster.quiet();
    assert_eq!(cluster.sets[0].strategy, Strategy::RollingUpdate { partition: 3 });
    assert_eq!(cluster.status().target.as_ref().unwrap().name, long);
}

#[test]
fn two_billion_replicas_without_pods_take_no_time() {
    let mut cluster = idle();
    cluster.native = false;
    cluster.pods.clear();
    cluster.reset(|set| set.replicas = 2_147_483_647);
    cluster.observe();
    cluster.quiet();
    assert_eq!(cluster.partition(), 2_147_483_647);
    cluster.edit(NEW);
    cluster.observe();
    cluster.quiet();
    assert_eq!(cluster.gate().status, GateState::WaitForAllPodsToBeAvailable);
    assert_eq!(cluster.gate().partition, i32::MAX);
}

#[test]
fn one_replica_has_one_gate_before_it_and_one_after() {
    let mut cluster = with_replicas(1).managed();
    cluster.edit(NEW);
    cluster.quiet();
    cluster.finish();
    assert_eq!((cluster.partitions(), cluster.questions), (vec!["1", "0", "1"], 4));
}

#[test]
fn pods_must_have_been_ready_for_as_long_as_the_set_asks() {
    let mut cluster = idle();
    cluster.reset(|set| set.min_ready = SignedDuration::from_secs(45));
    cluster.quiet();
    cluster.edit(NEW);
    cluster.quiet();
    cluster.until(|cluster| cluster.revisions()[2] == NEW);
    assert_eq!(cluster.gate().status, GateState::WaitForAllPodsToBeAvailable);
    let ready = cluster.pods.iter().find(|pod| &*pod.name == "web-2").unwrap().ready_since.unwrap();
    cluster.wake();
    assert!(
        cluster.gate().analysis_start_time.unwrap() >= ready + SignedDuration::from_secs(45),
        "{cluster}"
    );
    cluster.finish();
}

#[test]
fn a_rollout_at_rest_plans_nothing() {
    let mut cluster = rolling();
    cluster.finish();
    for seconds in [0, 60, 86_400] {
        cluster.let_pass(seconds);
        let plan = cluster.pass();
        assert!(
            plan.plan.steps.is_empty() && plan.questions().is_empty() && plan.plan.notes.is_empty(),
            "{plan:?}"
        );
        assert_eq!(plan.plan.wake_at, None);
    }
}

/// Of thousands in line for a set only the first are woken by a change, so the others must not wait for one.
#[test]
fn whoever_waits_for_a_set_or_in_line_for_it_looks_again_by_itself() {
    let mut cluster = given();
    cluster.create_rollout(rollout("z-second", WEB));
    cluster.create_rollout(rollout("z-lost", "missing"));
    cluster.quiet();
    cluster.let_pass(60);
    cluster.quiet();
    for (name, waits_for) in [("z-second", "CannotManage"), ("z-lost", "TargetNotFound")] {
        let plan = cluster.pass_for(name);
        assert!(plan.plan.steps.is_empty(), "{name}: {plan:?}");
        let soon = cluster.now + IN_LINE_LOOK;
        assert!(plan.plan.wake_at.is_some_and(|at| at <= soon), "{name}: {:?}", plan.plan.wake_at);
        assert_eq!(cluster.rollout(name).status.waiting_for.as_deref(), Some(waits_for));
    }
}
