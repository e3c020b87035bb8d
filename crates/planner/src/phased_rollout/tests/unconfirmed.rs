//! A view that could not be confirmed: the partition is not lowered, everything else is done as usual.

use super::cluster::{Cluster, NEW, WEB, data, given};
use crate::phased_rollout::{World, plan};
use crate::plan::{Action, Verb};

const WHY: &str = "cannot list pods in namespace ns: forbidden: no";

/// A rollout whose next plan lowers the partition.
fn about_to_step() -> Cluster {
    let mut cluster = given().managed();
    cluster.say(data());
    cluster.edit(NEW);
    for _ in 0..500 {
        if cluster.plan(WEB).1.plan.needs_confirmed_view() {
            return cluster;
        }
        let plan = cluster.pass();
        match cluster.work().into_iter().next() {
            Some(work) => cluster.perform(&work),
            None if plan.plan.steps.is_empty() && plan.questions().is_empty() => {
                cluster.now = cluster.now.max(plan.plan.wake_at.expect("something wakes it"));
            }
            None => {}
        }
    }
    panic!("no step:\n{cluster}");
}

#[test]
fn on_an_unconfirmed_view_the_partition_is_not_lowered_and_the_status_says_why() {
    let cluster = about_to_step();
    let world = World { unconfirmed: Some(WHY.into()), ..cluster.world(WEB) };
    let planned = plan(&world, cluster.now);
    assert!(!planned.plan.needs_confirmed_view(), "{:?}", planned.plan.steps);
    assert_eq!(planned.status.waiting_for.as_deref(), Some("ViewUnconfirmed"));
    assert!(planned.status.message.as_deref().is_some_and(|message| message.contains(WHY)));
    let before = &world.rollout.status;
    assert_eq!(planned.status.partition, before.partition);
    assert_eq!(planned.status.rolling_pod_status, before.rolling_pod_status, "the gate is kept");
    assert!(planned.plan.notes.iter().any(|told| told.reason == "ViewUnconfirmed"));
}

#[test]
fn raising_a_partition_needs_no_confirmed_view() {
    let mut cluster = given().managed();
    cluster.interfere(0);
    let world = World { unconfirmed: Some(WHY.into()), ..cluster.world(WEB) };
    let planned = plan(&world, cluster.now);
    let plain = plan(&cluster.world(WEB), cluster.now);
    assert_eq!(planned.plan.steps, plain.plan.steps);
    let raises = |action: &Action| matches!(action.verb(), Verb::Apply { disrupts: false, .. });
    assert!(planned.plan.steps.iter().flat_map(|step| &step.writes).any(raises), "{:?}", planned.plan.steps);
}

#[test]
fn b_a14_8_on_an_unconfirmed_view_the_finalizer_stays_although_no_set_is_seen_to_be_held() {
    let mut cluster = given();
    cluster.pass();
    cluster.delete_rollout(WEB);
    let plain = plan(&cluster.world(WEB), cluster.now);
    let removes = |action: &Action| action.removes_finalizer();
    assert!(plain.plan.steps.iter().flat_map(|step| &step.writes).any(removes), "{:?}", plain.plan.steps);
    assert!(plain.needs_confirmed_view());
    let world = World { unconfirmed: Some(WHY.into()), ..cluster.world(WEB) };
    let planned = plan(&world, cluster.now);
    assert!(planned.plan.steps.is_empty(), "{:?}", planned.plan.steps);
    assert!(planned.plan.notes.iter().any(|told| told.reason == "ViewUnconfirmed"));
}
