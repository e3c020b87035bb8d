//! More than one operator: replicas that hand over, and operators that do not know of each other.

use jiff::Timestamp;
use sts_plus_harness::faults::{Fault, Faults};
use sts_plus_harness::process::Signal;
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::shell::cache::Scope;

use super::{Place, Scenario, scenarios};
use crate::binary::{Replica, holder, leader_and_standby};
use crate::cluster::Request;
use crate::fixture::{Template, Zone, three_zones};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::rules;
use crate::scene::Scene;

/// How often a group may be read where once is enough: a read that is not answered in time is repeated. Whoever read the
/// group before each deletion would read it more often.
const MAX_READS_OF_A_GROUP: usize = 3;

pub(super) fn all() -> Vec<Scenario> {
    let of_the_binary = scenarios![Place::Shared;
        a_leader_paused_past_its_lease_and_woken_starts_no_new_write,
        a_killed_leader_is_followed_when_its_lease_has_run_out,
        a_leader_that_is_asked_to_stop_hands_over,
        an_operator_killed_in_the_middle_goes_on_when_it_is_started_again,
    ];
    let of_the_binary = of_the_binary.into_iter().map(|scenario| Scenario { needs_binary: true, ..scenario });
    let in_process = scenarios![Place::Shared;
        two_operators_at_once_keep_the_guarantees,
        a_leader_whose_write_is_unanswered_does_not_release_its_lease,
    ];
    of_the_binary.chain(in_process).collect()
}

async fn a_leader_that_is_asked_to_stop_hands_over(scene: Scene) {
    let zones = slowly_rolled(&scene).await;
    let [mut leader, standby] = leader_and_standby(&scene).await;
    rolls(&scene, 3).await;
    let follows_pods = |request: &Request| request.verb == "watch" && request.resource == "pods";
    let streams = until(DEADLINE, "the standby to follow pods", || async {
        let requests = standby.requests(&scene);
        let streams = requests.iter().filter(|request| follows_pods(request)).count();
        if streams > 0 { Ok(streams) } else { Err(NotYet::saw(requests.len())) }
    })
    .await;
    leader.signal(&scene, Signal::TERM);
    let status = leader.ended().await;
    assert!(status.success(), "{status}");
    scene.rolled(&zones, "v2").await;
    let requests = standby.requests(&scene);
    assert!(requests.iter().any(Request::deleted_pod));
    let listed = |resource: &str| {
        requests.iter().filter(|request| request.verb == "list" && request.resource == resource).count()
    };
    let (sets, pods) = (listed("statefulsets"), listed("pods"));
    assert!((1..=MAX_READS_OF_A_GROUP).contains(&sets), "the group is read once: {sets} times");
    // A list of everything would be a stream, or one list of pods for one of sets.
    assert!((zones.len()..=zones.len() * sets).contains(&pods), "by the selectors of its sets: {pods}");
    let streams_after = requests.iter().filter(|request| follows_pods(request)).count();
    assert_eq!(streams_after, streams, "the caches are kept as they are");
    drop([leader, standby]);
    assert_eq!(scene.finish().await, 15);
}

async fn a_killed_leader_is_followed_when_its_lease_has_run_out(scene: Scene) {
    let zones = slowly_rolled(&scene).await;
    let [mut leader, standby] = leader_and_standby(&scene).await;
    rolls(&scene, 3).await;
    leader.signal(&scene, Signal::KILL);
    scene.rolled(&zones, "v2").await;
    assert!(standby.requests(&scene).iter().any(Request::deleted_pod));
    drop([leader, standby]);
    assert_eq!(scene.finish().await, 15);
}

async fn a_leader_paused_past_its_lease_and_woken_starts_no_new_write(scene: Scene) {
    let zones = slowly_rolled(&scene).await;
    let [mut leader, standby] = leader_and_standby(&scene).await;
    rolls(&scene, 3).await;
    leader.signal(&scene, Signal::STOP);
    let paused_at = Timestamp::now();
    let successor = until(DEADLINE, "the other replica to lead", || async {
        let holder = holder(&scene).await?;
        if holder.starts_with(standby.name) { Ok(holder) } else { Err(NotYet::saw(holder)) }
    })
    .await;
    until(DEADLINE, "the other replica to roll", || async {
        let requests = standby.requests(&scene);
        if requests.iter().any(Request::deleted_pod) { Ok(()) } else { Err(NotYet::saw(requests.len())) }
    })
    .await;
    leader.signal(&scene, Signal::CONT);
    until(DEADLINE, "the woken replica to look at the lease", || async {
        let requests = leader.requests(&scene);
        let looked = requests.iter().any(|request| request.resource == "leases" && request.at > paused_at);
        if looked { Ok(()) } else { Err(NotYet::saw(requests.len())) }
    })
    .await;
    scene.rolled(&zones, "v2").await;
    assert_eq!(holder(&scene).await.unwrap(), successor, "the woken replica does not take the lease back");

    let writes: Vec<_> = leader
        .requests(&scene)
        .into_iter()
        .filter(|request| request.attempts_write() && request.at > paused_at && request.resource != "leases")
        .collect();
    assert!(writes.len() <= 1, "one may have been under way: {writes:#?}");
    drop([leader, standby]);
    assert_eq!(scene.finish().await, 15, "no pod was deleted twice");
}

async fn an_operator_killed_in_the_middle_goes_on_when_it_is_started_again(scene: Scene) {
    let zones = slowly_rolled(&scene).await;
    let mut operator = Replica::start_alone(&scene, "one").await;
    rolls(&scene, 7).await;
    operator.signal(&scene, Signal::KILL);
    operator.ended().await;
    let operator = operator.restart_alone(&scene);
    scene.rolled(&zones, "v2").await;
    drop(operator);
    assert_eq!(scene.finish().await, 15);
}

/// By order and preconditions alone: both see the same group and choose the same pod.
async fn two_operators_at_once_keep_the_guarantees(scene: Scene) {
    let zones = three_zones(3);
    scene.given(&zones).await;
    let accounts = [scene.account("one").await, scene.account("two").await];
    let _operators = accounts.clone().map(|account| scene.operator_of(&account));
    scene.change(&[zones[0].clone(), zones[2].clone()], &Template::new("v2")).await;
    scene.change(&zones[1..2], &Template::new("v2").held_at(1)).await;
    scene.pod_is("zone-b-1", "new and not Ready", |pod| pod.image == "app:v2" && !pod.ready).await;
    scene.says("zone-c", "WaitingForTurn").await;

    // While no pod that serves may be deleted, so that neither acts on a template that the other no longer knows. The pod that
    // is not Ready is outdated then: both want to replace it, and with its successor zone-b is Ready again.
    scene.change_and_observe(&zones, &Template::new("v1")).await;
    scene.rolled(&zones, "v1").await;
    for account in &accounts {
        let requests = scene.cluster.requests(account).unwrap();
        assert!(requests.iter().any(|request| request.resource == "pods"), "both were at work");
    }
    assert_eq!(scene.view().deleted_of("zone-c").len(), 0);
    assert_eq!(scene.finish().await, 10);
}

async fn a_leader_whose_write_is_unanswered_does_not_release_its_lease(scene: Scene) {
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)];
    scene.given(&zones).await;
    let accounts = [scene.account("one").await, scene.account("two").await];
    for account in &accounts {
        scene.cluster.grant(account, Some(&scene.namespace), rules::home()).await.unwrap();
    }
    let start = |client: &kube::Client, name: &str| {
        let scope = Scope::Namespaces(vec![scene.namespace.clone()]);
        Operator::start_elected(&scene.cluster.outside(), client.clone(), scope, name, &scene.namespace)
    };
    let hangs = Faults::new(|call| if call.method == "DELETE" { Fault::Block } else { Fault::None });
    let leader = start(&hangs.client(&accounts[0].client), "one");
    scene.says("zone-a", "UpToDate").await;
    scene.change(&zones, &Template::new("v2")).await;
    hangs.blocked().await;
    leader.stop().await;
    assert!(holder(&scene).await.unwrap().starts_with("one"), "it runs out by itself");

    let successor = start(&accounts[1].client, "two");
    scene.rolled(&zones, "v2").await;
    successor.stop().await;
    assert_eq!(holder(&scene).await.unwrap(), "", "released, since all is answered");
    assert_eq!(scene.finish().await, 4);
}

/// Three zones of five pods that take their time, with a new template.
async fn slowly_rolled(scene: &Scene) -> Vec<Zone> {
    let zones = three_zones(5);
    scene.given(&zones).await;
    scene.change_and_observe(&zones, &Template::new("v2").ready_after("300ms")).await;
    zones
}

/// Waits until so many pods have been deleted.
async fn rolls(scene: &Scene, deletions: usize) {
    scene
        .until("the rollout to be on its way", |view| {
            let seen = view.deletions.len();
            if seen >= deletions { Ok(()) } else { Err(format!("{seen} deletions")) }
        })
        .await;
}
