//! The API server is away, old, or does not allow what is needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::ListParams;
use sts_plus_harness::faults::{Call, Fault, Faults};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::shell::cache::Scope;

use super::{Place, Scenario, scenarios};
use crate::cluster::Request;
use crate::fixture::{Template, Zone, three_zones};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::rules;
use crate::scene::Scene;

/// Attempts that an operator may make while nobody answers: a source of each of two caches and a group or two,
/// each waiting twice as long after each failure.
const MAX_ATTEMPTS_IN_AN_OUTAGE: usize = 100;

pub(super) fn all() -> Vec<Scenario> {
    [
        scenarios![Place::Own;
            the_api_server_may_be_gone_at_the_start_and_in_the_middle,
            pods_that_can_be_neither_listed_nor_watched_keep_others_from_being_replaced,
        ],
        scenarios![Place::OwnWithoutStreaming; a_server_that_does_not_stream_lists_is_listed_page_by_page],
        scenarios![Place::Shared; a_missing_permission_is_told_and_does_not_become_a_hot_loop],
    ]
    .concat()
}

async fn the_api_server_may_be_gone_at_the_start_and_in_the_middle(mut scene: Scene) {
    // A server that has just started answers before it knows all roles.
    scene.lacks_permission = true;
    let zones = three_zones(3);
    scene.given(&zones).await;
    scene.change_and_observe(&zones, &Template::new("v2").ready_after("100ms")).await;
    let account = scene.account("operator").await;
    scene.cluster.stop_api_server().await.unwrap();

    // Counts attempts, which no server does now.
    let counted = Faults::new(|_| Fault::None);
    let _operator = scene.operator_through(&counted.client(&account.client));
    until(DEADLINE, "the operator to have tried", || async {
        if counted.calls().len() >= 4 { Ok(()) } else { Err(NotYet::saw(counted.calls())) }
    })
    .await;
    scene.cluster.start_api_server().await.unwrap();
    let at_start = counted.calls().len();
    assert!(at_start <= MAX_ATTEMPTS_IN_AN_OUTAGE, "{:?}", counted.calls());

    let deletions = || async {
        let requests = scene.cluster.requests(&account)?;
        Ok::<_, NotYet>(requests.iter().filter(|request| request.deleted_pod()).count())
    };
    until(DEADLINE, "the rollout to be on its way", || async {
        let deletions = deletions().await?;
        if deletions >= 4 { Ok(()) } else { Err(NotYet::saw(deletions)) }
    })
    .await;
    let before = counted.calls().len();
    scene.cluster.stop_api_server().await.unwrap();
    scene.cluster.start_api_server().await.unwrap();
    assert!(counted.calls().len() - before <= MAX_ATTEMPTS_IN_AN_OUTAGE, "{:?}", counted.calls());
    scene.rolled(&zones, "v2").await;
    let deletions = scene.finish().await;
    assert!(deletions <= 9, "no pod is deleted twice: {deletions}");
}

async fn pods_that_can_be_neither_listed_nor_watched_keep_others_from_being_replaced(mut scene: Scene) {
    scene.lacks_permission = true;
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)];
    scene.given(&zones).await;
    let account = scene.account("operator").await;
    let forbidden = Arc::new(AtomicBool::new(false));
    let forbids = Arc::clone(&forbidden);
    let faults = Faults::new(move |call| {
        if reads_pods(call) && forbids.load(Ordering::SeqCst) {
            Fault::Answer { status: 403, retry_after: None }
        } else {
            Fault::None
        }
    });
    let operator = scene.operator_through(&faults.client(&account.client));
    for zone in &zones {
        scene.says(zone.name(), "UpToDate").await;
    }

    // The permission is looked at when a watch is opened, so those that are open have to end.
    forbidden.store(true, Ordering::SeqCst);
    let before = faults.calls().len();
    scene.cluster.stop_api_server().await.unwrap();
    until(DEADLINE, "the watch of pods to have ended", || async {
        let calls = faults.calls();
        if calls.iter().skip(before).any(reads_pods) {
            Ok(())
        } else {
            Err(NotYet::saw(calls.len() - before))
        }
    })
    .await;
    scene.cluster.start_api_server().await.unwrap();
    // A server that has just started answers before it knows all roles, and sets are read before pods.
    let sets = kube::Api::<StatefulSet>::namespaced(account.client.clone(), &scene.namespace);
    until(DEADLINE, "the operator to be permitted to list sets", || async {
        sets.list(&ListParams::default()).await.map(|_| ()).map_err(NotYet::saw)
    })
    .await;
    scene.change(&zones, &Template::new("v2")).await;
    let words = scene.says("zone-a", "ViewUnconfirmed").await;
    assert!(words.contains("cannot list pods in namespace"), "{words}");
    assert_eq!(scene.event("zone-a", "Warning", "ViewUnconfirmed").await, words);
    let page = operator.metrics();
    assert!(page.contains("sts_plus_unconfirmed_sources{resource=\"pods\"} 1"), "{page}");
    assert!(page.contains("sts_plus_confirmations_total{outcome=\"failed\"}"), "{page}");
    assert!(scene.view().deletions.is_empty());

    forbidden.store(false, Ordering::SeqCst);
    scene.rolled(&zones, "v2").await;
    operator.stop().await;
    assert_eq!(scene.finish().await, 4);
}

/// Whether it lists or watches pods.
fn reads_pods(call: &Call) -> bool {
    let path = call.path.split('?').next().unwrap_or_default();
    call.write.is_none() && path.ends_with("/pods")
}

async fn a_server_that_does_not_stream_lists_is_listed_page_by_page(scene: Scene) {
    let zones = three_zones(3);
    scene.given(&zones).await;
    let account = scene.account("operator").await;
    scene.cluster.grant(&account, None, rules::by_default()).await.unwrap();
    let operator =
        Operator::start(&scene.cluster.outside(), account.client.clone(), Scope::Cluster, "operator");
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    operator.stop().await;
    let requests = scene.requests().await;
    for resource in ["pods", "statefulsets"] {
        let about = |verb: &str| {
            let about = requests.iter().filter(move |request| request.resource == resource);
            about.filter(|request| request.verb == verb).map(|request| request.code).collect::<Vec<_>>()
        };
        assert_eq!(about("list"), [200], "{resource}");
        assert_eq!(about("watch")[0], 422, "{resource}: streaming was tried once");
    }
    assert_eq!(scene.finish().await, 9);
}

async fn a_missing_permission_is_told_and_does_not_become_a_hot_loop(mut scene: Scene) {
    const ATTEMPTS: usize = 6;
    scene.lacks_permission = true;
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)];
    scene.given(&zones).await;
    let mut without = rules::by_default();
    for rule in &mut without {
        rule.verbs.retain(|verb| verb != "delete");
    }
    let account = scene.account_with("operator", without).await;
    let operator = scene.operator_of(&account);
    scene.change(&zones, &Template::new("v2")).await;
    let words = scene.event("zone-a", "Warning", "WriteRefused").await;
    assert!(words.contains("cannot delete resource \"pods\""), "{words}");
    assert_eq!(scene.says("zone-a", "WriteRefused").await, words);
    scene.says("zone-b", "WaitingForTurn").await;
    let refused = |requests: &[Request]| {
        let refused = requests.iter().filter(|request| request.verb == "delete" && request.code == 403);
        refused.map(|request| request.at).collect::<Vec<_>>()
    };
    let requests = until(DEADLINE, "more attempts", || async {
        let requests = scene.cluster.requests(&account)?;
        if refused(&requests).len() >= ATTEMPTS { Ok(requests) } else { Err(NotYet::saw(requests.len())) }
    })
    .await;
    let attempts = refused(&requests);
    for (number, pair) in (0_u32..).zip(attempts.windows(2)) {
        // At least half of 50 ms, doubled each time; the server keeps microseconds, so one millisecond is lost.
        let least = jiff::SignedDuration::from_millis((25 << number) - 1);
        assert!(pair[1].duration_since(pair[0]) >= least, "attempt {number}: {attempts:?}");
    }
    // Besides the attempts: an event for each set, and the caches.
    let bound = (attempts.len() + 1) * (1 + zones.len()) + 12;
    assert!(requests.len() <= bound, "{} requests: {requests:#?}", requests.len());
    assert!(scene.view().deletions.is_empty());

    let granted = rules::by_default();
    scene.cluster.grant(&account, Some(&scene.namespace), granted).await.unwrap();
    scene.rolled(&zones, "v2").await;
    operator.stop().await;
    assert_eq!(scene.finish().await, 4);
}
