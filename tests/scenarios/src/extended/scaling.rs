//! Scaling, by the scale subresource too, within restrictions.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use sts_plus_api::extended::Group;

use super::manifest::{healthy, template};
use super::scenarios;
use super::stage::{Extended, NAME};
use crate::cluster::Cluster;
use crate::real::ZONES;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_scaling_through_the_subresource_is_restricted_and_the_condition_names_the_restriction,
        d_an_autoscaler_sees_the_pods_that_its_number_is_about,
        d_v15_restrictions_of_a_zoned_blue_green_object_hold_in_every_zone,
    ]
}

/// What an autoscaler does: it writes a number, and nothing else.
async fn scale(stage: &Extended, replicas: u32) {
    stage.view().note(format!("autoscaler: {replicas}"));
    let body = json!({ "spec": { "replicas": replicas } });
    stage.objects().patch_scale(NAME, &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    let written = stage.objects().get(NAME).await.unwrap();
    stage.is_seen(&written).await;
}

async fn d_scaling_through_the_subresource_is_restricted_and_the_condition_names_the_restriction(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let scaling = json!({ "minReplicas": 1, "maxReplicas": 5, "parity": "Odd" });
    stage.create(json!({ "template": template("v1", 3), "scaling": scaling })).await;
    stage.ready(1, 3).await;
    assert!(stage.present().condition("ReplicasRestricted").is_none());
    for (asked, allowed, named) in [(4, 5, "parity Odd"), (9, 5, "maxReplicas 5"), (0, 1, "minReplicas 1")] {
        scale(&stage, asked).await;
        stage.ready(1, allowed).await;
        let present = stage.present();
        let message = &present.condition("ReplicasRestricted").unwrap().message;
        assert!(message.contains(named) && message.contains(&asked.to_string()), "{message}");
        assert_eq!(present.status.desired_replicas, Some(allowed));
        // What was asked for stays as it was written: whoever wrote it is not fought.
        let spec = stage.objects().get_scale(NAME).await.unwrap().spec.unwrap();
        assert_eq!(spec.replicas.unwrap_or(0), i32::try_from(asked).unwrap());
        stage.restart().await;
    }
    stage.edit(json!({ "scaling": null, "template": { "spec": { "replicas": 2 } } })).await;
    stage.ready(1, 2).await;
    assert!(stage.present().condition("ReplicasRestricted").is_none());
    assert_eq!(stage.view().versions(NAME), [1], "restrictions and scaling make no version");
    stage.finish().await;
}

async fn d_an_autoscaler_sees_the_pods_that_its_number_is_about(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        stage.create(json!({ "template": template("v1", 2), "zones": ZONES })).await;
        stage.ready(1, 6).await;
        stage.edit(healthy("v2")).await;
        stage.ready(2, 6).await;
        scale(&stage, 3).await;
        stage.ready(2, 9).await;
        // Its arithmetic: the pods that the selector selects are as many as the status says, and the number is theirs.
        let status = stage.objects().get_scale(NAME).await.unwrap().status.unwrap();
        assert_eq!(status.replicas, 3);
        let selector = status.selector.unwrap();
        let selected = stage.pods().list(&kube::api::ListParams::default().labels(&selector)).await.unwrap();
        assert_eq!(selected.items.len(), 3, "{selector}");
        stage.finish().await;
    }
}

async fn d_v15_restrictions_of_a_zoned_blue_green_object_hold_in_every_zone(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let scaling = json!({ "parity": "Even", "maxReplicas": 4 });
    stage.create(json!({ "template": template("v1", 3), "zones": ZONES, "scaling": scaling })).await;
    stage.ready(1, 12).await;
    stage.event("ReplicasRestricted").await;
    scale(&stage, 1).await;
    stage.ready(1, 6).await;
    scale(&stage, 0).await;
    stage.ready(1, 0).await;
    assert!(stage.present().condition("ReplicasRestricted").is_none(), "none is neither odd nor forbidden");
    stage.finish().await;
}
