//! A view that could not be confirmed: nothing is deleted, everything else is done as usual.

use super::cluster::zones;
use crate::rollout_group::{World, plan};

const WHY: &str = "cannot list pods in namespace ns: forbidden: no";

#[test]
fn on_an_unconfirmed_view_no_pod_is_deleted_and_the_set_says_why() {
    let group = zones(&["a", "b"], 2).old("a").old("b");
    let world = World { unconfirmed: Some(WHY.into()), ..group.world() };
    let plan = plan(&world, group.now);
    let actions: Vec<_> = plan.plan.steps.iter().flat_map(|step| &step.writes).collect();
    assert!(!actions.is_empty() && actions.iter().all(|action| !action.disrupts()), "{actions:?}");
    let [a, b] = &plan.reports[..] else { panic!("{:?}", plan.reports) };
    assert_eq!(a.reason.kind(), "ViewUnconfirmed");
    assert!(a.reason.to_string().contains(WHY), "{}", a.reason);
    assert!(a.reason.release().is_some_and(|release| release.contains("list and watch")));
    assert_eq!(b.reason.kind(), "WaitingForTurn");
}

#[test]
fn on_an_unconfirmed_view_a_set_with_a_dead_pod_says_why_outside_of_its_turn_as_well() {
    let group = zones(&["a", "b", "c"], 2).old("a").old("b").old("c").broken("a-0").broken("b-0");
    let world = World { unconfirmed: Some(WHY.into()), ..group.world() };
    let plan = plan(&world, group.now);
    assert_eq!(plan.plan.acting().count(), 0);
    let kinds: Vec<_> = plan.reports.iter().map(|report| report.reason.kind()).collect();
    assert_eq!(kinds, ["ViewUnconfirmed", "ViewUnconfirmed", "OtherSetNotReady"]);
}

#[test]
fn an_unconfirmed_view_changes_nothing_where_no_pod_would_be_deleted() {
    let group = zones(&["a", "b"], 2).old("a").paused("a", "true");
    let world = World { unconfirmed: Some(WHY.into()), ..group.world() };
    let (with, without) = (plan(&world, group.now), plan(&group.world(), group.now));
    assert_eq!(with.plan.steps, without.plan.steps);
    let kinds = |plan: &crate::rollout_group::Decision| {
        plan.reports.iter().map(|report| report.reason.kind()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&with), kinds(&without));
}
