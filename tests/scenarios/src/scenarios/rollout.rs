//! Rollouts that go well.

use super::{Scenario, Stage, scenarios};
use crate::fixture::{Template, Zone, three_zones};
use crate::scene::Scene;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![Stage::Shared; three_zones_of_five_pods_are_rolled_one_zone_at_a_time]
}

async fn three_zones_of_five_pods_are_rolled_one_zone_at_a_time(scene: Scene) {
    let zones: Vec<_> = three_zones(5).into_iter().map(Zone::ordered).collect();
    scene.given(&zones).await;
    let _operator = scene.operator().await;
    scene.change(&zones, &Template::new("v2")).await;
    scene.rolled(&zones, "v2").await;
    let in_order: Vec<_> = zones.iter().flat_map(Zone::pods).collect();
    let deleted: Vec<_> = scene.view().deletions.iter().map(|deletion| deletion.pod.name.clone()).collect();
    assert_eq!(deleted, in_order, "zone after zone, the lowest ordinal first");
    scene.finish(15).await;
}
