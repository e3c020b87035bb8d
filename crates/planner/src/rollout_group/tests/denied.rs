//! What a plan waits on while deletions are denied: a change of it is a reason to plan again.

use super::cluster::{Cluster, full, given};
use crate::plan::Awaited;
use crate::set::SetName;

#[track_caller]
fn waits_on(group: &Cluster, zones: &[&str]) {
    let set = |zone: &&str| Awaited::Set(SetName { namespace: "prod".into(), name: full(zone).into() });
    assert_eq!(group.plan().plan.waits_on, zones.iter().map(set).collect::<Vec<_>>());
}

#[test]
fn a_deletion_that_is_denied_waits_on_the_set_that_it_was_denied_for() {
    waits_on(&given().old("b").paused("a", "true").absent("a-2"), &["a"]);
    waits_on(&given().old("b").unobserved("a").paused("a", "true"), &["a"]);
    waits_on(&given().old("a").max_unavailable("a", "1"), &["a"]);
    waits_on(&given().old("a").max_unavailable("a", "3"), &[]);
}

#[test]
fn outdated_pods_wait_on_the_set_that_has_the_turn_and_is_not_rolled() {
    waits_on(&given().old("b").absent("a-2"), &["a"]);
    waits_on(&given().absent("a-2"), &[]);
    waits_on(&given(), &[]);
}

#[test]
fn a_dead_pod_that_is_denied_waits_on_its_own_set_whosesoever_turn_it_is() {
    let group = given().old("b").max_unavailable("b", "1").absent("a-2").terminating("b-2");
    let group = group.pod("b-0", |pod| (pod.ready_since, pod.running) = (None, false));
    waits_on(&group, &["a", "b"]);
}
