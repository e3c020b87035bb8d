//! The holes of the behaviour that we took over. Each test fails on that behaviour; its name says what it was.

use std::sync::Arc;

use jiff::SignedDuration;
use sts_plus_api::extended::Group;

use super::cluster::{Cluster, given, zones};
use crate::set::Child;

#[test]
fn e_g1_a_zone_with_fewer_pods_than_its_spec_asks_for_is_not_done() {
    // The status may well say "2 of 2 ready" here: it is not read.
    given().old("b").absent("a-2").then(&["a NotReady", "b OtherSetNotReady a"]);
    let never_observed = given().old("b").set("a", |set| set.replicas = 4);
    never_observed.then(&["a NotReady", "b OtherSetNotReady a"]);
}

#[test]
fn e_g2_a_fresh_pod_that_is_not_ready_yet_spends_the_budget_whatever_the_status_says() {
    let group = given().old("a").max_unavailable("a", "1");
    let group = group.pod("a-0", |pod| (pod.revision, pod.ready_since) = (Some("new".into()), None));
    group.then(&["a Rolling", "b UpToDate"]);
}

#[test]
fn e_g3_a_paused_zone_that_is_not_ready_still_blocks_the_others() {
    let group = given().old("a").old("b").paused("a", "true").not_ready("a-1");
    group.then(&["a Paused", "b OtherSetNotReady a"]);
    let group = given().old("b").paused("a", "true").absent("a-2");
    group.then(&["a Paused", "b OtherSetNotReady a"]);
}

#[test]
fn e_g3b_a_zone_that_is_being_deleted_still_blocks_the_others_while_its_pods_go() {
    let group = given().old("a").old("b").set("a", |set| set.deleting = true);
    group.then(&["delete b-0", "delete b-1", "a Deleting", "b Rolling"]);
    group.terminating("a-2").then(&["a Deleting", "b OtherSetNotReady a"]);
}

#[test]
fn e_g4_broken_outdated_pods_that_eat_the_budget_do_not_keep_a_fixed_template_out() {
    let group = given().old("a").broken("a-0").broken("a-1").max_unavailable("a", "1");
    group.then(&["delete a-0", "delete a-1", "a Rolling", "b UpToDate"]);
}

#[test]
fn e_g5_a_healthy_pod_is_not_lost_while_one_that_is_lost_already_would_do() {
    let group = given().old("a").broken("a-2").max_unavailable("a", "1");
    group.then(&["delete a-2", "a Rolling", "b UpToDate"]);
    given().old("a").not_ready("a-1").then(&["delete a-1", "a Rolling", "b UpToDate"]);
    let both = zones(&["a"], 4).old("a").max_unavailable("a", "3").not_ready("a-1").broken("a-3");
    both.then(&["delete a-3", "delete a-1", "a Rolling"]);
}

#[test]
fn e_g6_terminating_pods_are_charged_once_so_that_the_configured_width_is_used() {
    let group = zones(&["a"], 5).old("a").max_unavailable("a", "3").terminating("a-0").terminating("a-1");
    group.then(&["delete a-2", "a Rolling"]);
}

#[test]
fn e_g7_a_pod_with_the_same_labels_that_the_set_does_not_control_is_not_its_pod() {
    let stranger = |owner: &str, name: &str, group: &mut Cluster| {
        let set = group.set_mut("a").clone();
        let mut pod = group.pod_row(&set, 0);
        (pod.name, pod.owner, pod.revision) = (name.into(), owner.into(), None);
        group.pods.push(pod);
    };
    let mut group = given();
    stranger("", "ingester-zone-a-debug", &mut group);
    stranger("uid-of-a-job", "ingester-zone-a-7", &mut group);
    stranger("uid-of-a-set-of-the-same-name-before", "ingester-zone-a-8", &mut group);
    group.then(&["a UpToDate", "b UpToDate"]);

    let mut group = group.old("a").absent("a-1");
    stranger("", "ingester-zone-a-1", &mut group);
    group.then(&["delete a-0", "a Rolling", "b UpToDate"]);
}

#[test]
fn e_g7b_a_pod_that_the_set_controls_but_does_not_select_is_not_its_pod() {
    let strange: crate::selector::Labels = [("name".into(), "something-else".into())].into();
    let group = given().old("b").pod("a-1", |pod| pod.labels = Arc::new(strange));
    // The set's own controller lets go of such a pod; until its successor is there, one is missing.
    group.then(&["a NotReady", "b OtherSetNotReady a"]);
}

#[test]
fn e_g7c_a_pod_of_the_same_name_in_another_namespace_is_not_its_pod() {
    let group = given().old("b").pod("a-1", |pod| pod.namespace = "staging".into());
    group.then(&["a NotReady", "b OtherSetNotReady a"]);
}

fn ready_for(group: Cluster, pod: &str, seconds: i64) -> Cluster {
    let since = group.now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap();
    group.pod(pod, |pod| pod.ready_since = Some(since))
}

fn min_ready(group: Cluster, zone: &str, seconds: i64) -> Cluster {
    group.set(zone, |set| set.min_ready = SignedDuration::from_secs(seconds))
}

#[test]
fn e_g25_a_pod_serves_only_after_min_ready_seconds() {
    let group = min_ready(given().old("b"), "a", 60);
    ready_for(group.clone(), "a-0", 59).then(&["a NotReady", "b OtherSetNotReady a", "wake in 1s"]);
    ready_for(group, "a-0", 60).then(&["delete b-0", "delete b-1", "a UpToDate", "b Rolling"]);
}

#[test]
fn e_g25b_a_pod_that_has_not_settled_spends_the_budget_of_its_own_zone() {
    let group = min_ready(given().old("a").max_unavailable("a", "1"), "a", 60);
    let group = ready_for(group.pod("a-0", |pod| pod.revision = Some("new".into())), "a-0", 20);
    group.then(&["a Rolling", "b UpToDate", "wake in 40s"]);
}

#[test]
fn e_g25c_a_zone_is_promoted_only_once_its_last_pod_has_settled() {
    let group = min_ready(given(), "a", 60).set("a", |set| set.current_revision = Some("old".into()));
    ready_for(group.clone(), "a-2", 50).then(&["a Rolling", "b UpToDate", "wake in 10s"]);
    ready_for(group, "a-2", 70).then(&["promote a to new", "a UpToDate", "b UpToDate"]);
}

#[test]
fn without_min_ready_seconds_the_clock_of_the_node_does_not_matter() {
    let group = ready_for(given().old("b"), "a-0", -300);
    group.then(&["delete b-0", "delete b-1", "a UpToDate", "b Rolling"]);
}

#[test]
fn a_b9_27_a_pod_that_is_to_leave_is_not_replaced_before_unless_it_is_broken() {
    let staying = |staying| {
        let child = Child {
            group: Group::StsPlus,
            owner: "uid-db".into(),
            owner_name: "db".into(),
            label: Some("db".into()),
            version: None,
            hash: None,
            zone_index: None,
            zone_name: None,
            zones: None,
            template_zones: None,
            staying,
            taker: None,
            has_claims: false,
            ready_replicas: 0,
            status_replicas: 0,
        };
        given().old("a").set("a", |set| set.child = Some(Box::new(child)))
    };
    staying(Some(1)).then(&["delete a-0", "a Rolling", "b UpToDate"]);
    staying(None).then(&["delete a-0", "delete a-1", "a Rolling", "b UpToDate"]);
    staying(Some(0)).old("b").then(&["delete b-0", "delete b-1", "a UpToDate", "b Rolling"]);
    // It has to run to be prepared.
    staying(Some(1)).broken("a-2").then(&["delete a-2", "delete a-0", "a Rolling", "b UpToDate"]);
}
