//! Sets of one rollout group, each with a rollout of its own.

use serde_json::json;
use sts_plus_api::keys;

use super::play;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Says, Set};
use crate::scenarios::{Place, Scenario};

const ZONES: [&str; 2] = ["zone-a", "zone-b"];

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario {
        name: "a_zone_waits_while_the_pod_that_another_one_has_released_is_still_there",
        // The StatefulSet controller is stopped in the middle.
        place: Place::OwnWithoutNative,
        needs_binary: false,
        play: |cluster, name| Box::pin(play(cluster, name, one_zone_at_a_time)),
    }]
}

async fn one_zone_at_a_time(stage: Gated) {
    stage.cluster.start_native().await.unwrap();
    let answers = stage.answers(Says::Nothing).await;
    let _operator = stage.operator().await;
    for zone in ZONES {
        stage.given_managed(&Set::new(zone, 2), &Rollout::new(zone, &answers.url())).await;
        stage.patch_set(zone, &json!({ "metadata": { "labels": { keys::ROLLOUT_GROUP: "shop" } } })).await;
        stage.patch_spec(zone, &json!({ "paused": true })).await;
        stage.change_and_observe(zone, &Template::new("v2")).await;
    }
    for zone in ZONES {
        stage.waits_for(zone, "Paused").await;
    }
    stage.cluster.stop_native().await.unwrap();
    for zone in ZONES {
        stage.patch_spec(zone, &json!({ "paused": false })).await;
    }
    stage
        .until("one zone to be released and the other one to wait for it", |seen| {
            let is_released = |zone: &&str| seen.sets.get(*zone).is_some_and(|set| set.partition == Some(1));
            let waits = |zone: &&str| {
                let waits_for = seen.rollouts.get(*zone).and_then(|seen| seen.status.waiting_for.as_deref());
                waits_for == Some("OtherSetDisturbed")
            };
            let (released, held): (Vec<_>, Vec<_>) = ZONES.iter().partition(|zone| is_released(zone));
            let so = released.len() == 1 && held.iter().all(waits);
            if so { Ok(()) } else { Err(format!("{:?} {:?}", seen.sets, seen.rollouts)) }
        })
        .await;
    stage.cluster.start_native().await.unwrap();
    for zone in ZONES {
        stage.serves(zone, "v2").await;
        stage.updated(zone).await;
    }
    stage.finish();
}
