//! Domains with a PhasedRollout, where rollouts cannot be followed while sets and pods can.

use std::time::Duration;

use serde_json::json;
use sts_plus_planner::plan::{Action, Kind, Object, Precondition, Step};

use super::{Bench, LONG, deletion};
use crate::shell::cache::Scope;
use crate::shell::executor::{Basis, Domain, Halt, SETS_AND_PODS, Waiter};
use crate::shell::lease::Leadership;

const READS: [Kind; 3] = [Kind::StatefulSet, Kind::Pod, Kind::PhasedRollout];

async fn bench() -> Bench {
    Bench::following((&READS, &Scope::Cluster), Leadership::always().current()).await
}

/// The status of the rollout of the first group.
fn report() -> Vec<Step> {
    let object = Object { kind: Kind::PhasedRollout, namespace: "ns".into(), name: "gated".into() };
    let precondition = Precondition { uid: "rollout".into(), resource_version: Some("1".into()) };
    vec![Step::one(Action::replace_status(object, "rollout", precondition, (json!({}), "m")))]
}

/// Reads of rollouts whose address holds these parts are refused from now on, and the source knows.
async fn refuse(bench: &Bench, parts: &'static [&'static str]) {
    bench.server.refused.lock().unwrap().push(parts);
    bench.server.cut_rollouts.notify_waiters();
    doubted(bench, true).await;
    bench.server.take_asked();
}

async fn doubted(bench: &Bench, failing: bool) {
    let doubted = async {
        while bench.cache.doubt(&[Kind::PhasedRollout], "ns").is_none_or(|doubt| doubt.failing != failing) {
            tokio::task::yield_now().await;
            tokio::time::advance(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, doubted).await.expect("the watch fails, or is back");
}

#[tokio::test(start_paused = true)]
async fn own_writes_to_a_rollout_that_a_failing_watch_does_not_show_are_read() {
    let bench = bench().await;
    bench.enter(0).await.unwrap().perform(&report()).await.unwrap();
    let halt = bench.enter(0).await.map(|_| ()).unwrap_err();
    assert!(matches!(halt, Halt::NotSeenYet { .. }), "the watch will show it: {halt:?}");
    refuse(&bench, &["/phasedrollouts", "watch=true"]).await;
    let lane = bench.enter(0).await.expect("it is read");
    assert_eq!(lane.doubt(&READS), None);
    let asked = bench.server.take_asked();
    let [one] = asked.as_slice() else { panic!("one list: {asked:?}") };
    assert!(one.contains("/namespaces/ns/phasedrollouts?"), "sets and pods are not in doubt: {one}");
}

#[tokio::test(start_paused = true)]
async fn own_writes_to_a_rollout_are_read_where_the_watch_is_back_and_silent() {
    let bench = bench().await;
    bench.enter(0).await.unwrap().perform(&report()).await.unwrap();
    refuse(&bench, &["/phasedrollouts", "watch=true"]).await;
    bench.server.refused.lock().unwrap().clear();
    doubted(&bench, false).await;
    bench.enter(0).await.map(|_| ()).expect("it is read");
}

#[tokio::test(start_paused = true)]
async fn rollouts_that_cannot_be_read_keep_nobody_from_planning_who_does_not_look_at_them() {
    let bench = bench().await;
    bench.enter(0).await.unwrap().perform(&report()).await.unwrap();
    refuse(&bench, &["/phasedrollouts"]).await;
    {
        let mut lane = bench.enter(0).await.expect("it can be planned in");
        let Err(Halt::Unconfirmed(why)) = lane.confirm(&READS).await else { panic!("confirmed") };
        assert!(why.contains("cannot list phasedrollouts in namespace ns"), "{why}");
        let refused = lane.perform(&deletion(&bench)).await;
        assert!(matches!(refused, Err(Halt::Unconfirmed(_))), "{refused:?}");
    }
    let mut lane = bench.enter(0).await.expect("it can be planned in");
    assert_eq!(lane.doubt(&SETS_AND_PODS), None);
    assert_eq!(lane.confirm(&SETS_AND_PODS).await, Ok(Basis::Confirmed));
    lane.perform(&deletion(&bench)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rule_c_what_was_read_in_a_term_is_known_for_what_was_read_and_for_nothing_else() {
    let bench = Bench::following((&READS, &Scope::Cluster), None).await;
    assert_eq!(bench.confirm(0).await, Ok(Basis::Renewed), "sets and pods");
    bench.server.take_asked();
    let confirm = async || bench.enter(0).await.unwrap().confirm(&READS).await;
    assert_eq!(confirm().await, Ok(Basis::Renewed), "the rollouts are from before the term");
    let asked = bench.server.take_asked();
    assert!(asked.iter().any(|asked| asked.contains("/phasedrollouts?")), "{asked:?}");
    assert_eq!(confirm().await, Ok(Basis::Confirmed));
    assert_eq!(bench.confirm(0).await, Ok(Basis::Confirmed), "a part of it");
    assert!(bench.server.take_asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_a_rollout_without_a_target_no_sets_and_pods_are_read() {
    let bench = Bench::following((&READS, &Scope::Cluster), None).await;
    let domain = Domain { namespace: "ns".into(), group: "phasedrollout/rollout".into() };
    let mut lane =
        bench.executor.enter(std::slice::from_ref(&domain), None, Waiter::new(0, || {})).await.unwrap();
    assert_eq!(lane.confirm(&READS).await, Ok(Basis::Renewed));
    let asked = bench.server.take_asked();
    let [one] = asked.as_slice() else { panic!("one list: {asked:?}") };
    assert!(one.contains("/namespaces/ns/phasedrollouts?"), "{one}");
}
