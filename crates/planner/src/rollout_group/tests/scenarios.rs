//! The catalogue of behaviours, by id. Where it says "n/3 ready", that many pods are Ready.

use std::sync::Arc;

use jiff::SignedDuration;
use sts_plus_api::keys;
use sts_plus_api::rollout_status::RolloutStatus;

use super::cluster::{NEW, annotation, full, given, short, zones};
use crate::disruption::{Allowance, DomainBudget};
use crate::health::Member;
use crate::plan::{Kind, Object};
use crate::pod::Phase;
use crate::rollout_group::{Memory, World, plan, release};

#[test]
fn e_r1_a_set_that_is_not_on_delete_keeps_the_whole_group_from_rolling() {
    for strategy in ["RollingUpdate", "SomethingOfTomorrow", ""] {
        let group = given().old("a").old("b").strategy("b", strategy);
        let plan = group.then(&["a GroupSkipped b", "b GroupSkipped b"]);
        for report in plan.reports {
            let message = report.reason.to_string();
            assert!(message.contains("ingester-zone-b") && message.contains(strategy), "{message}");
        }
    }
}

#[test]
fn e_r2_two_zones_with_pods_not_ready_stop_each_other() {
    let group = given().old("a").old("b").not_ready("a-1").not_ready("b-0").not_ready("b-2");
    group.then(&["a OtherSetNotReady b", "b NotReady"]);
}

#[test]
fn e_r3_a_terminating_pod_in_each_zone_stops_both_though_their_probes_still_pass() {
    let group = given().old("a").old("b").terminating("a-0").terminating("b-0");
    group.then(&["a OtherSetNotReady b", "b NotReady"]);
}

#[test]
fn e_r4_an_unready_pod_here_and_a_terminating_one_there_stop_both() {
    let group = given().old("a").old("b").not_ready("a-2").terminating("b-1");
    group.then(&["a OtherSetNotReady b", "b NotReady"]);
}

#[test]
fn e_r5_a_group_at_its_goal_is_left_alone() {
    let mut group = given();
    let first_sight = group.then(&["a UpToDate", "b UpToDate"]);
    group.apply_all(&first_sight);
    let plan = group.then(&["a UpToDate", "b UpToDate"]);
    assert!(plan.plan.steps.is_empty(), "once the states are noted nothing is written");
}

#[test]
fn e_r6_a_done_zone_lets_the_next_one_roll_within_its_budget() {
    given().old("b").then(&["delete b-0", "delete b-1", "a UpToDate", "b Rolling"]);
}

#[test]
fn e_r13_an_unusable_budget_counts_as_one_and_is_told() {
    let group = given().old("a").old("b").max_unavailable("a", "xxx");
    group.then(&["delete a-0", "a Rolling", "a warns InvalidMaxUnavailable", "b WaitingForTurn a"]);
}

#[test]
fn e_r14a_the_unready_zone_goes_first_and_its_unready_pod_counts() {
    let group = given().old("a").old("b").not_ready("b-0");
    group.then(&["delete b-0", "a WaitingForTurn b", "b Rolling"]);
}

#[test]
fn e_r14b_the_pod_that_is_lost_already_goes_before_a_healthy_one() {
    let group = given().old("a").old("b").not_ready("b-2");
    group.then(&["delete b-2", "a WaitingForTurn b", "b Rolling"]);
}

#[test]
fn e_r15_a_zone_whose_budget_is_spent_by_pods_lost_otherwise_loses_no_other_pod() {
    let group = given().old("a").old("b").not_ready("b-0").not_ready("b-1");
    group.then(&["delete b-0", "delete b-1", "a WaitingForTurn b", "b Rolling"]);
    let group = given().old("a").old("b").not_ready("b-0").terminating("b-1").absent("b-2");
    group.then(&["a WaitingForTurn b", "b BudgetSpent"]);
}

#[test]
fn e_r16_a_terminating_pod_takes_one_place_of_the_budget() {
    let group = given().old("a").old("b").terminating("a-0");
    group.then(&["delete a-1", "a Rolling", "b WaitingForTurn a"]);
}

#[test]
fn e_r17_a_zone_that_is_done_has_its_target_called_current() {
    let group = given().set("a", |set| set.current_revision = Some("old".into()));
    group.then(&["promote a to new", "a UpToDate", "b UpToDate"]);
    let group = given().set("b", |set| set.current_revision = None);
    group.then(&["promote b to new", "a UpToDate", "b UpToDate"]);
}

#[test]
fn e_r17c_a_zone_is_promoted_only_after_its_controller_has_counted_its_pods() {
    let group = given().set("a", |set| (set.current_revision, set.counted) = (Some("old".into()), false));
    group.then(&["a UpToDate", "b UpToDate"]);
}

#[test]
fn e_r17b_a_zone_is_promoted_while_the_next_one_rolls() {
    let group = given().set("a", |set| set.current_revision = Some("old".into())).old("b");
    group.then(&["delete b-0", "delete b-1", "promote a to new", "a UpToDate", "b Rolling"]);
}

#[test]
fn e_r18_a_zone_with_unready_pods_is_not_promoted() {
    let group = given().set("a", |set| set.current_revision = Some("old".into()));
    group.not_ready("a-1").not_ready("a-2").then(&["a Rolling", "b UpToDate"]);
}

#[test]
fn e_r19_a_zone_with_a_missing_pod_is_not_promoted() {
    let group = given().set("a", |set| set.current_revision = Some("old".into()));
    group.absent("a-2").then(&["a Rolling", "b UpToDate"]);
}

#[test]
fn e_r20_an_updated_zone_that_is_not_ready_keeps_the_next_one_waiting() {
    given().old("b").not_ready("a-1").then(&["a NotReady", "b OtherSetNotReady a"]);
    let just_rolled = given().old("b").set("a", |set| set.current_revision = Some("old".into()));
    just_rolled.not_ready("a-1").then(&["a Rolling", "b WaitingForTurn a"]);
}

#[test]
fn e_r21_an_updated_zone_with_a_terminating_pod_keeps_the_next_one_waiting() {
    given().old("b").terminating("a-0").then(&["a NotReady", "b OtherSetNotReady a"]);
}

#[test]
fn e_r22_an_updated_zone_without_any_pod_keeps_the_next_one_waiting() {
    let group = given().old("b").absent("a-0").absent("a-1").absent("a-2");
    let plan = group.then(&["a NotReady", "b OtherSetNotReady a"]);
    assert_eq!(
        plan.reports[0].down,
        "ingester-zone-a-0 does not exist, ingester-zone-a-1 does not exist, ingester-zone-a-2 does not exist"
    );
}

#[test]
fn e_r23_a_set_without_the_group_label_is_untouched_and_freed_of_our_annotation() {
    let mut group = given().old("b").broken("b-1");
    let as_member = group.then(&["delete b-1", "delete b-0", "a UpToDate", "b Rolling"]);
    group.apply_all(&as_member);
    assert!(release(group.set_mut("b")).is_none(), "nothing is taken from a member");

    let mut group = group.set("b", |set| set.group = None);
    group.then(&["a UpToDate"]);
    let goodbye = release(group.set_mut("b")).expect("our annotation is still there");
    let set = Object { kind: Kind::StatefulSet, namespace: "prod".into(), name: full("b").into() };
    assert_eq!(*goodbye.object(), set);
    assert!(annotation(&goodbye).expect("it is about our annotation").is_null());
    group.apply(&goodbye).unwrap();
    assert!(release(group.set_mut("b")).is_none(), "once is enough");
}

#[test]
fn e_r24_a_paused_zone_is_not_rolled() {
    given().old("a").paused("a", "true").then(&["a Paused", "b UpToDate"]);
}

#[test]
fn e_r25_a_paused_zone_is_passed_over() {
    let group = given().old("a").old("b").paused("a", "true");
    group.then(&["delete b-0", "delete b-1", "a Paused", "b Rolling"]);
}

#[test]
fn e_r26_a_zone_paused_with_any_other_word_rolls() {
    for word in ["false", "", "True", "TRUE", " true", "true ", "1", "yes", "\"true\""] {
        let group = given().old("a").paused("a", word);
        group.then(&["delete a-0", "delete a-1", "a Rolling", "b UpToDate"]);
    }
}

#[test]
fn e_r27_a_group_that_disappeared_leaves_nothing_to_do_or_to_report() {
    let world = World {
        group: "ingester".into(),
        members: Vec::new(),
        overlaps: Vec::new(),
        unobserved_since: [(Arc::from("uid-of-a-set-that-is-gone"), given().now)].into(),
        memory: Memory::default(),
        unconfirmed: None,
    };
    let plan = plan(&world, given().now);
    assert!(plan.plan.steps.is_empty() && plan.reports.is_empty() && plan.plan.wake_at.is_none());
}

#[test]
fn e_r28a_pods_go_in_natural_order() {
    let mut group = zones(&["a"], 21).max_unavailable("a", "100%");
    for pod in ["a-20", "a-11", "a-0", "a-10", "a-1"] {
        group = group.old_pod(pod);
    }
    group.pods.reverse();
    group.then(&["delete a-0", "delete a-1", "delete a-10", "delete a-11", "delete a-20", "a Rolling"]);
}

#[test]
fn e_r28b_zones_go_in_natural_order_and_are_reported_in_it() {
    let group = zones(&["10", "2"], 1).old("2").old("10");
    group.then(&["delete 2-0", "2 Rolling", "10 WaitingForTurn 2"]);
}

#[test]
fn e_r28c_the_only_zone_with_a_pod_down_is_moved_to_the_front() {
    let group = zones(&["a", "b", "c"], 3).old("a").old("b").old("c").terminating("c-1");
    group.then(&["delete c-0", "a WaitingForTurn c", "b WaitingForTurn c", "c Rolling"]);
}

#[test]
fn e_r28d_an_empty_label_names_a_group_like_any_other() {
    let mut group = given().old("a").old("b");
    group.group = "".into();
    group = group.set("a", |set| set.group = Some("".into())).set("b", |set| set.group = Some("".into()));
    let plan = group.then(&["delete a-0", "delete a-1", "a Rolling", "b WaitingForTurn a"]);
    group.apply_all(&plan);
    let told = group.set_mut("a").steering.rollout_status.as_deref().and_then(RolloutStatus::parse);
    assert_eq!(told.expect("a state is told").group, "");
}

#[test]
fn e_r29_a_pod_serves_when_it_is_running_ready_and_not_on_its_way_out() {
    let mut group = given();
    assert!(group.pod_mut("a-0").ready());
    let phases = [Phase::Pending, Phase::Succeeded, Phase::Failed, Phase::Unknown];
    for phase in phases {
        assert!(!given().pod("a-0", |pod| pod.phase = phase).pod_mut("a-0").ready(), "{phase:?}");
    }
    // One unready and one terminated container alike make the Ready condition false.
    assert!(!given().not_ready("a-0").pod_mut("a-0").ready());
    assert!(!given().terminating("a-0").pod_mut("a-0").ready());
    let group = given().old("b").pod("a-0", |pod| pod.phase = Phase::Failed);
    group.then(&["a NotReady", "b OtherSetNotReady a"]);
}

#[test]
fn e_r30_budgets_as_counts_and_percentages() {
    let table: [(u32, Option<&str>, u32); 24] = [
        (3, None, 1),
        (3, Some("3"), 3),
        (3, Some(" 2 "), 2),
        (3, Some("007"), 7),
        (3, Some("xxx"), 1),
        (3, Some(""), 1),
        (3, Some("0"), 1),
        (3, Some("-1"), 1),
        (3, Some("+2"), 1),
        (3, Some("2.0"), 1),
        (3, Some("4294967296"), 1),
        (10, Some("30%"), 3),
        (10, Some("25%"), 2),
        (10, Some("100%"), 10),
        (10, Some(" 20% "), 2),
        (10, Some("300%"), 1),
        (10, Some("101%"), 1),
        (10, Some("0%"), 1),
        (10, Some("-5%"), 1),
        (10, Some("12.5%"), 1),
        (10, Some("%"), 1),
        (3, Some("50%"), 1),
        (1, Some("50%"), 1),
        (0, Some("50%"), 1),
    ];
    for (replicas, written, budget) in table {
        let mut group = given().set("a", |set| {
            (set.replicas, set.steering.max_unavailable) = (replicas, written.map(Into::into));
        });
        let member = Member::new(Arc::new(group.set_mut("a").clone()), []);
        let domain = DomainBudget::of([&member], Allowance::OfSet, group.now);
        assert_eq!(domain.max_unavailable(&full("a")), Some(budget), "{written:?} of {replicas}");
    }
}

#[test]
fn all_zones_follow_each_other_when_the_pods_of_each_come_back() {
    let mut group = zones(&["a", "b"], 1).old("a").old("b");
    let mut order = Vec::new();
    for _ in 0..2 {
        let plan = group.plan();
        group.apply_all(&plan);
        let gone = group.pods.iter_mut().find(|pod| pod.terminating).expect("one pod goes in each round");
        order.push(short(&gone.name).to_owned());
        (gone.terminating, gone.revision) = (false, Some(NEW.into()));
        group.now = group.now.saturating_add(SignedDuration::from_secs(1)).unwrap();
    }
    assert_eq!(order, ["a-0", "b-0"]);
    group.then(&["promote b to new", "a UpToDate", "b UpToDate"]);
}

#[test]
fn our_writes_carry_our_field_manager() {
    use crate::plan::Verb;
    let group = given().old("b").set("a", |set| set.current_revision = Some("old".into()));
    let plan = group.plan();
    let merges =
        plan.plan.steps.iter().flat_map(|step| &step.writes).filter_map(|action| match action.verb() {
            Verb::Merge { manager, .. } | Verb::MergeStatus { manager, .. } => Some(*manager),
            _ => None,
        });
    let managers: Vec<_> = merges.collect();
    assert_eq!(managers, [keys::MANAGER_ROLLOUT_GROUP; 3], "one promotion and two annotations");
}
