//! What a plan waits on while a disruption is denied: a change of it is a reason to plan again.

use sts_plus_api::phased_rollout::{GateState, OnFailure};

use super::cluster::{Cluster, NEW, OLD, WEB, empty, idle};
use super::edges::one_replaced;
use super::states::at;
use crate::disruption::MAX_MEMBERS;
use crate::phased_rollout::plan;
use crate::plan::Awaited;
use crate::set::SetName;

fn neighbour_is_down(cluster: &mut Cluster) {
    cluster.stuck.insert("other-0".to_owned());
    cluster.pod("other-0", |pod| pod.ready_since = None);
}

#[track_caller]
fn waits_on_the_neighbour(cluster: &Cluster, waiting_for: &str) {
    assert_eq!(cluster.status().waiting_for.as_deref(), Some(waiting_for), "{cluster}");
    let neighbour = SetName { namespace: "prod".into(), name: "other".into() };
    assert_eq!(cluster.plan(WEB).1.plan.waits_on, [Awaited::Set(neighbour)], "{cluster}");
}

#[test]
fn a_step_that_is_denied_waits_on_the_set_with_the_pod_that_is_down() {
    let mut cluster = idle().with_neighbour();
    cluster.edit(NEW);
    cluster.quiet();
    neighbour_is_down(&mut cluster);
    cluster.until(|cluster| cluster.status().waiting_for.as_deref() == Some("OtherSetNotReady"));
    waits_on_the_neighbour(&cluster, "OtherSetNotReady");
}

#[test]
fn a_rollback_that_is_denied_waits_on_the_set_with_the_pod_that_is_down() {
    let mut cluster = one_replaced().with_neighbour().with(|spec| spec.on_failure = OnFailure::Rollback);
    cluster.recheck(|check| check.failure_threshold = Some(1));
    cluster.say(empty());
    neighbour_is_down(&mut cluster);
    cluster.until(|cluster| cluster.status().failure.is_some());
    waits_on_the_neighbour(&cluster, "RollingBack");
}

#[test]
fn a_revert_that_is_denied_waits_on_the_set_with_the_pod_that_is_down() {
    let mut cluster = one_replaced().with_neighbour();
    neighbour_is_down(&mut cluster);
    cluster.edit(OLD);
    cluster.quiet();
    assert_eq!(cluster.revisions()[2], NEW, "it is not deleted: {cluster}");
    waits_on_the_neighbour(&cluster, "RollingBack");
}

#[test]
fn a_verification_that_is_denied_waits_on_the_set_with_the_pod_that_is_down() {
    let mut cluster = idle().with_neighbour();
    cluster.edit(NEW);
    cluster.quiet();
    cluster.until(|cluster| {
        cluster.status().rolling_pod_status.as_ref().is_some_and(|gate| gate.partition == 0)
    });
    cluster.pod("web-2", |pod| pod.revision = Some("web-other".into()));
    neighbour_is_down(&mut cluster);
    cluster.pass();
    assert_eq!(cluster.gate().partition, 0, "it is at its final gate: {cluster}");
    waits_on_the_neighbour(&cluster, "RollingBack");
}

#[test]
fn checks_whose_step_would_be_denied_wait_on_the_set_with_the_pod_that_is_down() {
    let mut cluster = at(GateState::WaitForChecks).with_neighbour();
    neighbour_is_down(&mut cluster);
    cluster.pass();
    waits_on_the_neighbour(&cluster, "Checks");
}

#[test]
fn a_step_that_is_denied_for_the_size_of_the_group_waits_on_the_group() {
    let cluster = at(GateState::Passed).with_neighbour();
    let mut world = cluster.world(WEB);
    world.group_sets = MAX_MEMBERS + 1;
    let group = Awaited::Group { namespace: "prod".into(), group: "shop".into() };
    assert_eq!(plan(&world, cluster.now).plan.waits_on, [group]);
}

#[test]
fn a_plan_that_is_permitted_waits_on_nothing() {
    let cluster = at(GateState::Passed).with_neighbour();
    let (_, decision) = cluster.plan(WEB);
    assert!(decision.plan.needs_confirmed_view(), "it takes the step");
    assert!(decision.plan.waits_on.is_empty(), "{:?}", decision.plan.waits_on);
}
