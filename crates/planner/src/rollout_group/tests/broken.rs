//! Broken outdated pods go first and, where nothing of them runs, cost nothing and wait for no other zone;
//! those of the target revision stay; pods that are merely not Ready cost budget.

use super::cluster::{Cluster, NEW, given, zones};
use crate::pod::{Phase, PodRow, Waiting};
use crate::reason::Severity;

const BROKEN_WAITS: [Waiting; 6] = [
    Waiting::CrashLoopBackOff,
    Waiting::ImagePullBackOff,
    Waiting::ErrImagePull,
    Waiting::InvalidImageName,
    Waiting::CreateContainerConfigError,
    Waiting::CreateContainerError,
];

/// Zone `a` is outdated, one pod may be down and one is, of the new revision, so that by budget alone nothing could go.
/// Another one is down as well, and nothing of it runs.
fn lost(change: impl FnOnce(&mut PodRow)) -> Cluster {
    let group = given().old("a").max_unavailable("a", "1").not_ready("a-1").not_ready("a-2");
    let group = group.pod("a-2", |pod| pod.revision = Some(NEW.into()));
    group.pod("a-1", |pod| pod.running = false).pod("a-1", change)
}

#[test]
fn every_error_that_a_container_waits_in_makes_its_pod_broken() {
    for waiting in BROKEN_WAITS {
        for phase in [Phase::Pending, Phase::Running] {
            let group = lost(|pod| (pod.waiting, pod.phase) = (Some(waiting), phase));
            group.then(&["delete a-1", "a Rolling", "b UpToDate"]);
        }
    }
}

#[test]
fn a_container_that_terminated_is_broken_from_the_third_restart_on() {
    for restarts in [0, 1, 2] {
        let group = lost(|pod| pod.terminated_restarts = Some(restarts));
        group.then(&["a BudgetSpent", "b UpToDate"]);
    }
    for restarts in [3, 4, u32::MAX] {
        let group = lost(|pod| pod.terminated_restarts = Some(restarts));
        group.then(&["delete a-1", "a Rolling", "b UpToDate"]);
    }
}

#[test]
fn a_pod_that_is_still_starting_is_merely_not_ready_and_costs_budget() {
    let starting = |pod: &mut PodRow| (pod.phase, pod.waiting) = (Phase::Pending, Some(Waiting::Starting));
    lost(starting).then(&["a BudgetSpent", "b UpToDate"]);
    let room_for_one = lost(starting).max_unavailable("a", "2");
    room_for_one.then(&["delete a-1", "a Rolling", "b UpToDate"]);
}

#[test]
fn a_pod_that_serves_is_not_broken_whatever_a_container_of_it_waits_for() {
    let group = given().old("a").max_unavailable("a", "1").pod("a-2", |pod| {
        (pod.waiting, pod.terminated_restarts) = (Some(Waiting::CrashLoopBackOff), Some(9));
    });
    group.then(&["delete a-0", "a Rolling", "b UpToDate"]);
}

#[test]
fn a_broken_pod_of_the_target_revision_stays_and_is_told() {
    let group = given().old("a").max_unavailable("a", "1").pod("a-0", |pod| pod.revision = Some(NEW.into()));
    let plan = group.broken("a-0").then(&["a PodBroken", "b UpToDate"]);
    let reason = &plan.reports[0].reason;
    assert_eq!(reason.severity(), Severity::Warning);
    let message = reason.to_string();
    assert!(message.contains("ingester-zone-a-0 waits in CrashLoopBackOff"), "{message}");
}

#[test]
fn a_crash_loop_that_runs_for_a_moment_is_no_news() {
    let new_pod = || {
        let group = given().old("a").max_unavailable("a", "1");
        group.pod("a-0", |pod| pod.revision = Some(NEW.into()))
    };
    let told = |subject: &str| {
        let told = format!(
            r#"{{"group":"ingester","state":"PodBroken","subject":"{subject}","message":"m","since":"1970-01-01T00:00:00Z"}}"#
        );
        new_pod().set("a", move |set| set.steering.rollout_status = Some(told.into()))
    };
    told(NEW).not_ready("a-0").then(&["a PodBroken", "b UpToDate"]);
    told("another").not_ready("a-0").then(&["a Rolling", "b UpToDate"]);
    new_pod().not_ready("a-0").then(&["a Rolling", "b UpToDate"]);
}

#[test]
fn a_broken_last_pod_of_the_target_revision_stays_and_is_told() {
    let group = given().set("a", |set| set.current_revision = Some("old".into())).broken("a-2").old("b");
    group.then(&["a PodBroken", "b WaitingForTurn a"]);
}

#[test]
fn a_broken_pod_of_the_target_revision_spends_the_budget_like_any_other() {
    let group = given().old("a").pod("a-0", |pod| pod.revision = Some(NEW.into())).broken("a-0");
    group.then(&["delete a-1", "a Rolling", "b UpToDate"]);
}

#[test]
fn broken_pods_of_both_revisions_lose_only_the_outdated_one() {
    let group = given().old("a").max_unavailable("a", "1").pod("a-0", |pod| pod.revision = Some(NEW.into()));
    group.broken("a-0").broken("a-1").then(&["delete a-1", "a Rolling", "b UpToDate"]);
}

#[test]
fn a_dead_outdated_pod_goes_although_another_zone_has_a_pod_down() {
    let group = given().old("a").old("b").broken("a-0").not_ready("b-1");
    group.then(&["delete a-0", "a Rolling", "b NotReady"]);
    let group = given().old("b").broken("b-0").absent("a-2");
    group.then(&["delete b-0", "a NotReady", "b OtherSetNotReady a"]);
    let group = given().old("a").broken("a-0").unobserved("b");
    group.then(&["delete a-0", "a Rolling", "b NotObserved"]);
}

#[test]
fn dead_outdated_pods_of_two_zones_do_not_wait_for_each_other() {
    let group = given().old("a").old("b").broken("a-0").broken("b-0");
    group.then(&["delete a-0", "delete b-0", "a Rolling", "b NotReady"]);
    let starting = |pod: &mut PodRow| (pod.phase, pod.running) = (Phase::Pending, false);
    let group = given().old("a").old("b").not_ready("a-1").not_ready("b-2");
    let group = group.pod("a-1", starting).pod("b-2", starting);
    group.then(&["delete a-1", "delete b-2", "a Rolling", "b NotReady"]);
}

#[test]
fn a_broken_outdated_pod_of_which_something_runs_counts_as_not_ready() {
    let group = given().old("a").old("b").broken_in_part("a-0").not_ready("b-1");
    group.then(&["a OtherSetNotReady b", "b NotReady"]);
    let group = given().old("a").max_unavailable("a", "1").broken_in_part("a-0").broken_in_part("a-1");
    group.then(&["delete a-0", "a Rolling", "b UpToDate"]);
    let group = given().old("a").max_unavailable("a", "1").broken_in_part("a-0").absent("a-1");
    group.then(&["a BudgetSpent", "b UpToDate"]);
}

#[test]
fn outdated_pods_that_are_not_ready_go_as_far_as_those_that_go_fit_into_the_budget() {
    let all_down = || given().old("a").not_ready("a-0").not_ready("a-1").not_ready("a-2");
    all_down().max_unavailable("a", "1").then(&["delete a-0", "a Rolling", "b UpToDate"]);
    all_down().then(&["delete a-0", "delete a-1", "a Rolling", "b UpToDate"]);
    let one_goes = || all_down().terminating("a-0");
    one_goes().max_unavailable("a", "1").then(&["a BudgetSpent", "b UpToDate"]);
    one_goes().then(&["delete a-1", "a Rolling", "b UpToDate"]);
}

#[test]
fn a_rollout_to_pods_that_run_and_never_get_ready_heals_when_it_is_rolled_back() {
    for budget in ["1", "2"] {
        let mut group = zones(&["a", "b"], 3).max_unavailable("a", budget);
        group.edit("a", "v2-hangs");
        group.rest(|_, _| {});
        group.then(&["a Rolling", "b UpToDate"]);
        group.edit("a", NEW);
        group.rest(|_, _| {});
        assert!(group.pods.iter().all(|pod| pod.ready() && pod.revision.as_deref() == Some(NEW)));
        group.then(&["a UpToDate", "b UpToDate"]);
    }
}

#[test]
fn a_broken_outdated_pod_of_a_paused_zone_stays() {
    let group = given().old("a").broken("a-0").paused("a", "true");
    group.then(&["a Paused", "b UpToDate"]);
}

#[test]
fn a_broken_pod_that_is_on_its_way_out_is_not_deleted_again() {
    let group = given().old("a").broken("a-0").terminating("a-0").max_unavailable("a", "1");
    group.then(&["a Rolling", "b UpToDate"]);
}

#[test]
fn a_bad_rollout_stops_within_its_budget_and_heals_when_the_template_is_fixed() {
    let mut group = zones(&["a", "b"], 3);
    for zone in ["a", "b"] {
        group.edit(zone, "v2-bad");
    }
    group.rest(|_, _| {});
    let broken = group.pods.iter().filter(|pod| pod.defect().is_some()).count();
    assert_eq!(broken, 2, "as many as may be down");
    group.then(&["a PodBroken", "b WaitingForTurn a"]);

    for zone in ["a", "b"] {
        group.edit(zone, "v3");
    }
    group.rest(|_, _| {});
    assert!(group.pods.iter().all(|pod| pod.ready() && pod.revision.as_deref() == Some("v3")));
    group.then(&["a UpToDate", "b UpToDate"]);
}

#[test]
fn a_bad_rollout_heals_when_it_is_rolled_back() {
    let mut group = zones(&["a", "b"], 3).max_unavailable("a", "1");
    group.edit("a", "v2-bad");
    group.rest(|_, _| {});
    group.then(&["a PodBroken", "b UpToDate"]);
    group.edit("a", NEW);
    group.rest(|_, _| {});
    assert!(group.pods.iter().all(|pod| pod.ready() && pod.revision.as_deref() == Some(NEW)));
    group.then(&["a UpToDate", "b UpToDate"]);
}
