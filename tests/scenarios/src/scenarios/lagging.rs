//! The operator's view of pods stands still while the world goes on: a slow watch, at the worst moment.

use http::Method;
use sts_plus_api::keys;
use sts_plus_harness::faults::{Fault, Faults};
use sts_plus_harness::wait::{NotYet, until};
use sts_plus_operator::shell::cache::Scope;
use tokio::sync::watch;

use super::{Place, Scenario, scenarios};
use crate::binary::holder;
use crate::fixture::{Template, Zone};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::rules;
use crate::scene::Scene;
use crate::stale::stale;

/// How often a set changes while the view of pods stands still: each time the operator looks again, and would do
/// the wrong thing if it did.
const LOOKS: usize = 20;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![Place::Shared;
        rule_c_a_new_leader_lists_anew_before_it_decides,
        rule_b_nothing_is_decided_before_the_view_shows_an_acknowledged_deletion,
        rule_d_nothing_is_decided_before_the_view_shows_a_deletion_whose_answer_was_lost,
    ]
}

async fn rule_b_nothing_is_decided_before_the_view_shows_an_acknowledged_deletion(scene: Scene) {
    decides_late(scene, Fault::None).await;
}

async fn rule_d_nothing_is_decided_before_the_view_shows_a_deletion_whose_answer_was_lost(scene: Scene) {
    decides_late(scene, Fault::LoseAnswer).await;
}

/// In the view that stands still all is well in zone-a, which is now paused, so it would be zone-b's turn.
async fn decides_late(scene: Scene, fate_of_deletions: Fault) {
    let zones = two_zones(&scene).await;
    let account = scene.account("operator").await;
    let (flow, flows) = watch::channel(true);
    let faults =
        Faults::new(move |call| if call.method == Method::DELETE { fate_of_deletions } else { Fault::None });
    let _operator = scene.operator_through(&faults.client(&stale(account.client, "pods", flows)));
    for zone in &zones {
        scene.says(zone.name(), "UpToDate").await;
    }
    flow.send_replace(false);
    zone_a_is_held_and_paused(&scene, &zones).await;
    look_again(&scene).await;
    goes_on(scene, &zones, &flow).await;
}

/// The same for the view of a standby, in which nothing has happened yet when it becomes the leader.
async fn rule_c_a_new_leader_lists_anew_before_it_decides(scene: Scene) {
    let zones = two_zones(&scene).await;
    let account = scene.account_with("operator", [rules::by_default(), rules::home()].concat()).await;
    let (flow, flows) = watch::channel(true);
    let (outside, scope) = (scene.cluster.outside(), || Scope::Namespaces(vec![scene.namespace.clone()]));
    let leader =
        Operator::start_elected(&outside, account.client.clone(), scope(), "leader", &scene.namespace);
    for zone in &zones {
        scene.says(zone.name(), "UpToDate").await;
    }
    let client = stale(account.client, "pods", flows);
    let standby = Operator::start_elected(&outside, client, scope(), "standby", &scene.namespace);
    until(DEADLINE, "the standby to have listed pods", || async {
        let page = standby.metrics();
        let listed = page.lines().any(|line| line == "sts_plus_consistent_lists_total{resource=\"pods\"} 1");
        if listed { Ok(()) } else { Err(NotYet::saw(page)) }
    })
    .await;
    flow.send_replace(false);
    zone_a_is_held_and_paused(&scene, &zones).await;
    scene.says("zone-b", "OtherSetNotReady").await;
    leader.stop().await;
    until(DEADLINE, "the standby to lead", || async {
        let holder = holder(&scene).await?;
        if holder.starts_with("standby") { Ok(()) } else { Err(NotYet::saw(holder)) }
    })
    .await;
    look_again(&scene).await;
    goes_on(scene, &zones, &flow).await;
}

async fn two_zones(scene: &Scene) -> [Zone; 2] {
    let zones = [Zone::new("zone-a", 2), Zone::new("zone-b", 2)];
    scene.given(&zones).await;
    zones
}

async fn zone_a_is_held_and_paused(scene: &Scene, zones: &[Zone]) {
    scene.change(&zones[..1], &Template::new("v2").held_at(0)).await;
    scene.change(&zones[1..], &Template::new("v2")).await;
    scene.pod_is("zone-a-0", "new and not Ready", |pod| pod.image == "app:v2" && !pod.ready).await;
    scene.annotate_set("zone-a", keys::PAUSED, Some("true")).await;
}

async fn look_again(scene: &Scene) {
    for look in 0..LOOKS {
        scene.annotate_set("zone-b", "example.com/look", Some(&look.to_string())).await;
    }
    assert_eq!(scene.view().deletions.len(), 1);
}

async fn goes_on(scene: Scene, zones: &[Zone], flow: &watch::Sender<bool>) {
    flow.send_replace(true);
    scene.says("zone-a", "Paused").await;
    scene.says("zone-b", "OtherSetNotReady").await;
    scene.afflict("zone-a-0", None).await;
    scene.rolled(&zones[1..], "v2").await;
    assert_eq!(scene.view().deleted_of("zone-a"), ["zone-a-0"]);
    assert_eq!(scene.finish().await, 3);
}
