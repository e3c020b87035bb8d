//! Input at its limits, and input that makes no sense: a clear word where the user looks, nothing lost.

use super::cluster::{Cluster, full, given, zones};
use crate::rollout_group::report::{Transition, Warning};
use crate::rollout_group::{MAX_MEMBERS, Overlap};

#[test]
fn every_budget_that_cannot_be_used_counts_as_one_and_is_told() {
    let values =
        ["", " ", "0", "-1", "+1", "xxx", "1.5", "1e1", "0x2", "２", "0%", "-5%", "12.5%", "101%", "300%"];
    for value in
        values.into_iter().chain(["%", "5 %", "%5", "5%%", "4294967296", "99999999999999999999%", "NaN"])
    {
        let group = given().old("a").max_unavailable("a", value);
        let plan = group.then(&["delete a-0", "a Rolling", "a warns InvalidMaxUnavailable", "b UpToDate"]);
        assert_eq!(plan.reports[0].warnings, [Warning::BadMaxUnavailable { value: value.into() }]);
        let message = plan.reports[0].warnings[0].to_string();
        assert!(message.contains(&format!("{value:?}")), "{message}");
        assert!(message.contains("rollout-max-unavailable") && message.contains("1 is used"), "{message}");
    }
}

#[test]
fn a_budget_that_can_be_used_is_not_warned_of() {
    for value in ["1", "2", " 2\n", "1%", "100%", "4294967295"] {
        let plan = given().max_unavailable("a", value).then(&["a UpToDate", "b UpToDate"]);
        assert!(plan.reports[0].warnings.is_empty(), "{value:?}");
    }
    let without = given().old("a").set("a", |set| set.steering.max_unavailable = None);
    without.then(&["delete a-0", "a Rolling", "b UpToDate"]);
}

#[test]
fn a_budget_above_the_replicas_takes_the_whole_zone_and_no_more() {
    let group = given().old("a").old("b").max_unavailable("a", "4294967295");
    group.then(&["delete a-0", "delete a-1", "delete a-2", "a Rolling", "b WaitingForTurn a"]);
}

#[test]
fn a_huge_value_is_shortened_where_it_is_quoted() {
    let huge = "é".repeat(128 * 1024);
    let plan = given().max_unavailable("a", &huge).plan();
    let message = plan.reports[0].warnings[0].to_string();
    assert!(message.contains(&format!("{}...", "é".repeat(64))), "{message}");
    assert!(message.len() < 400, "{} bytes", message.len());
}

#[test]
fn a_set_that_selects_the_pods_of_another_one_is_told_and_rolls_its_own() {
    let mut group = given().old("a");
    group.overlaps = vec![Overlap { set: full("a").into(), other: "loki-write".into() }];
    let plan =
        group.then(&["delete a-0", "delete a-1", "a Rolling", "a warns SelectorOverlap", "b UpToDate"]);
    let message = plan.reports[0].warnings[0].to_string();
    assert!(message.contains("loki-write"), "{message}");
}

#[test]
fn two_zones_with_one_selector_keep_to_their_own_pods() {
    let mut group = given().old("b");
    for zone in ["a", "b"] {
        group =
            group.set(zone, |set| set.selector = crate::selector::Selector::labels([("app", "ingester")]));
    }
    for pod in &mut group.pods {
        let labels = std::sync::Arc::make_mut(&mut pod.labels);
        labels.insert("app".into(), "ingester".into());
    }
    group.overlaps = [("a", "b"), ("b", "a")]
        .map(|(set, other)| Overlap { set: full(set).into(), other: full(other).into() })
        .into();
    let lines = ["delete b-0", "delete b-1"];
    let warned = ["a UpToDate", "a warns SelectorOverlap", "b Rolling", "b warns SelectorOverlap"];
    group.then(&[&lines[..], &warned[..]].concat());
}

#[test]
fn a_zone_without_pods_says_which_are_missing() {
    let group = zones(&["a"], 5);
    let group = (0..5).fold(group, |group, ordinal| group.absent(&format!("a-{ordinal}")));
    let plan = group.then(&["a UpToDate"]);
    let down = &plan.reports[0].down;
    assert!(down.ends_with("ingester-zone-a-2 does not exist and 2 more"), "{down}");
    group.set("a", |set| set.current_revision = None).then(&["a Rolling"]);
}

#[test]
fn a_zone_of_no_replicas_is_done_and_holds_nobody_up() {
    let empty = |group: Cluster| {
        let group = group.set("a", |set| (set.replicas, set.current_revision) = (0, Some("old".into())));
        (0..3).fold(group, |group, ordinal| group.absent(&format!("a-{ordinal}")))
    };
    empty(given().old("b")).then(&[
        "delete b-0",
        "delete b-1",
        "promote a to new",
        "a UpToDate",
        "b Rolling",
    ]);
    empty(given()).then(&["promote a to new", "a UpToDate", "b UpToDate"]);
}

#[test]
fn a_group_of_one_zone_rolls() {
    zones(&["a"], 3).old("a").then(&["delete a-0", "delete a-1", "a Rolling"]);
    zones(&["a"], 1).old("a").max_unavailable("a", "50%").then(&["delete a-0", "a Rolling"]);
}

#[test]
fn two_billion_pods_that_do_not_exist_are_counted_without_being_looked_for() {
    let group = given().old("b").set("a", |set| set.replicas = i32::MAX.unsigned_abs());
    let plan = group.then(&["a NotReady", "b OtherSetNotReady a"]);
    let expected = "ingester-zone-a-3 does not exist, ingester-zone-a-4 does not exist, ingester-zone-a-5 does not exist \
                    and 2147483641 more";
    assert_eq!(plan.reports[0].down, expected);
    let at_the_edge = given().old("b").set("a", |set| {
        (set.first_ordinal, set.replicas) = (u32::MAX, u32::MAX);
    });
    at_the_edge.then(&["a NotReady", "b OtherSetNotReady a"]);
}

#[test]
fn ordinals_that_start_elsewhere_name_the_pods() {
    let mut group = given().set("a", |set| set.first_ordinal = 5);
    for pod in group.pods.iter_mut().filter(|pod| *pod.owner == *"uid-ingester-zone-a") {
        let ordinal: u32 = pod.name.rsplit_once('-').unwrap().1.parse().unwrap();
        pod.name = full(&format!("a-{}", ordinal + 5)).into();
    }
    let group = group.old("a");
    group.then(&["delete a-5", "delete a-6", "a Rolling", "b UpToDate"]);
    group.absent("a-5").then(&["delete a-6", "a Rolling", "b UpToDate"]);
}

#[test]
fn pods_beyond_the_replicas_are_left_to_their_controller() {
    let group = given().old("a").set("a", |set| set.replicas = 2);
    group.then(&["delete a-0", "delete a-1", "a Rolling", "b UpToDate"]);
    // One that is on its way out is down all the same: it spends budget and holds up the group.
    let leaving = group.terminating("a-2");
    leaving.then(&["delete a-0", "a Rolling", "b UpToDate"]);
    let holds_up = given().old("b").set("a", |set| set.replicas = 2).terminating("a-2");
    holds_up.then(&["a NotReady", "b OtherSetNotReady a"]);
    let only_surplus_is_old = given().set("a", |set| set.replicas = 2).old_pod("a-2");
    only_surplus_is_old.then(&["a UpToDate", "b UpToDate"]);
}

#[test]
fn a_pod_without_a_revision_is_outdated() {
    let group = given().pod("a-1", |pod| pod.revision = None);
    group.then(&["delete a-1", "a Rolling", "b UpToDate"]);
}

#[test]
fn a_set_without_a_revision_in_its_status_is_not_observed() {
    let group = given().old("b").set("a", |set| set.update_revision = None);
    group.then(&["a NotObserved", "b WaitingForTurn a"]);
    // The first in line is known, but nobody knows what will become of the one behind it.
    let group = given().old("a").set("b", |set| set.update_revision = None);
    group.then(&["a OtherSetDisturbed b", "b NotObserved"]);
}

#[test]
fn nothing_is_deleted_in_a_set_whose_spec_is_not_observed() {
    given().old("a").unobserved("a").then(&["a NotObserved", "b UpToDate"]);
    given().old("a").broken("a-0").unobserved("a").then(&["a NotObserved", "b UpToDate"]);
}

#[test]
fn a_status_that_cannot_be_read_is_written_anew() {
    let not_statuses =
        ["", "{", "null", "[]", "{\"group\":\"ingester\"}", "\u{0}", "{\"group\":1,\"state\":2}"];
    for text in not_statuses {
        let mut group = given().set("a", |set| set.steering.rollout_status = Some(text.into()));
        let plan = group.then(&["a UpToDate", "b UpToDate"]);
        group.apply_all(&plan);
        assert!(group.plan().plan.steps.is_empty(), "{text:?} is replaced once");
    }
}

#[test]
fn a_skipped_group_says_so_on_every_set_and_does_nothing_else() {
    let group = zones(&["a", "b", "c"], 3).old("a").broken("a-0").paused("b", "true");
    let group = group.set("c", |set| set.current_revision = None).strategy("b", "RollingUpdate");
    group.then(&["a GroupSkipped b", "b GroupSkipped b", "c GroupSkipped b"]);
    let two = group.strategy("a", "RollingUpdate").unobserved("c");
    two.then(&["a GroupSkipped a", "b GroupSkipped a", "c GroupSkipped a"]);
}

/// A group is the zones of one workload. Thousands of sets under one label are a mistake, or meant to hurt.
#[test]
fn a_group_of_too_many_sets_is_skipped_and_told_so_a_few_sets_at_a_time() {
    let names: Vec<_> = (0..=MAX_MEMBERS).map(|number| format!("n{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut group = zones(&names, 1);
    for name in &names {
        group = group.old(name);
    }
    let at_the_limit = zones(&names[..MAX_MEMBERS], 1).old("n7");
    assert!(at_the_limit.plan().reports.iter().all(|report| report.reason.kind() != "TooManySets"));
    let mut passes = 0;
    loop {
        let plan = group.plan();
        assert_eq!(plan.reports.len(), names.len());
        for report in &plan.reports {
            let message = report.reason.to_string();
            assert!(message.contains("101 sets") && message.contains("at most 100"), "{message}");
        }
        let writes: Vec<_> = plan.plan.steps.iter().flat_map(|step| &step.writes).collect();
        assert!(writes.iter().all(|action| !action.disrupts()));
        let told = plan.reports.iter().filter(|report| report.transition == Transition::Changed).count();
        assert_eq!(writes.len(), told, "what is announced is written");
        assert!(writes.len() <= 20, "{}", writes.len());
        if writes.is_empty() {
            break;
        }
        group.apply_all(&plan);
        passes += 1;
    }
    assert_eq!(passes, 6, "each is reported once");
}
