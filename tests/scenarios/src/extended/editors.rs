//! Who else touches the same objects: GitOps, people with kubectl, a PhasedRollout, a budget.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_harness::wait::{NotYet, until};

use super::manifest::{healthy, scaled, template};
use super::scenarios;
use super::stage::{Extended, NAME};
use crate::cluster::{Cluster, Request};
use crate::gated::{Answers, Rollout, Says, manifest};
use crate::observer::DEADLINE;
use crate::real::ZONES;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_c10_sets_that_are_deleted_by_hand_come_back_as_the_same_version,
        d_s15_a_pod_that_is_deleted_while_no_operator_runs_comes_back,
        d_c13_orphans_are_adopted_and_no_pod_is_restarted,
        d_c13_services_that_were_left_are_adopted_and_another_template_is_the_next_version,
        d_what_somebody_else_writes_on_a_set_is_taken_back_or_left_alone,
        d_a_set_that_somebody_edits_while_no_operator_runs_is_restored,
        d_a_service_that_somebody_edits_is_restored,
        d_a_phased_rollout_gates_a_set_that_is_changed_in_place,
        d_a_zone_that_is_paused_holds_the_others,
        d_m1_sets_and_pods_follow_a_deleted_object_and_configuration_stays,
    ]
}

async fn d_c10_sets_that_are_deleted_by_hand_come_back_as_the_same_version(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        stage.create(json!({ "template": template("v1", 2), "zones": ZONES })).await;
        stage.ready(1, 6).await;
        stage.edit(healthy("v2")).await;
        stage.ready(2, 6).await;
        let set = if group == Group::Fissile { "db-z1-v2" } else { "db-z1" };
        let names = stage.names();
        let before = stage.view().sets[set].uid.clone();
        stage.delete_set(set).await;
        stage.restart().await;
        stage
            .until("another set", |seen| match seen.sets.get(set) {
                Some(seen) if seen.uid != before => Ok(()),
                seen => Err(format!("{seen:?}")),
            })
            .await;
        stage.ready(2, 6).await;
        stage.sets_are(names.clone()).await;
        assert_eq!(stage.view().versions(NAME), [1, 2]);
        // All of them at once, and the number stays.
        for set in &names {
            stage.delete_set(set).await;
        }
        stage.ready(2, 6).await;
        stage.finish().await;
    }
}

async fn d_s15_a_pod_that_is_deleted_while_no_operator_runs_comes_back(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        stage.create(json!({ "template": template("v1", 2) })).await;
        stage.ready(1, 2).await;
        stage.stop().await;
        let pod = if group == Group::Fissile { "db-v1-1" } else { "db-1" };
        let before = stage.uids();
        stage.kill(pod).await;
        stage
            .until(&format!("another {pod} to serve"), |seen| match seen.pods.get(pod) {
                Some(seen) if seen.pod.serves() && !before.contains(&seen.pod.uid) => Ok(()),
                seen => Err(format!("{seen:?}")),
            })
            .await;
        stage.restart().await;
        stage.ready(1, 2).await;
        stage.finish().await;
    }
}

async fn d_c13_orphans_are_adopted_and_no_pod_is_restarted(cluster: Arc<dyn Cluster>, name: &'static str) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        let spec = json!({ "template": template("v1", 2), "zones": ["a", "b"] });
        stage.create(spec.clone()).await;
        stage.ready(1, 4).await;
        let before = stage.uids();
        stage.objects().delete(NAME, &DeleteParams::orphan()).await.unwrap();
        stage
            .until("the object to be gone and its sets to be left", |seen| {
                let left = seen.sets.values().filter(|set| set.owner.is_none() && !set.deleting).count();
                if seen.objects.is_empty() && left == 2 { Ok(()) } else { Err(format!("{:?}", seen.sets)) }
            })
            .await;
        stage.create(spec).await;
        stage.ready(1, 4).await;
        assert_eq!(stage.uids(), before, "no pod is restarted");
        let uid = stage.present().uid;
        assert!(stage.view().sets.values().all(|set| set.owner.as_ref() == Some(&uid)));
        stage.finish().await;
    }
}

async fn d_c13_services_that_were_left_are_adopted_and_another_template_is_the_next_version(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for kind in ["BlueGreen", "InPlace"] {
        let stage = Extended::new(&cluster, name, Group::StsPlus).await;
        let mut given = template("v1", 2);
        given["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 8080 }]);
        let spec = json!({
            "template": given, "zones": ["a", "b"], "updateStrategy": { "type": kind },
            "services": { "headless": "db", "active": "db-active", "perReplica": true },
        });
        stage.create(spec.clone()).await;
        stage.ready(1, 4).await;
        stage.objects().delete(NAME, &DeleteParams::orphan()).await.unwrap();
        stage
            .until("the object to be gone", |seen| {
                if seen.objects.is_empty() { Ok(()) } else { Err(format!("{:?}", seen.objects)) }
            })
            .await;
        let mut next = spec;
        next["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("app:v2");
        stage.create(next).await;
        stage.ready(2, 4).await;
        let uid = stage.present().uid;
        let services = stage.api::<Service>().list(&ListParams::default()).await.unwrap();
        let owners: Vec<_> =
            services.iter().flat_map(ResourceExt::owner_references).map(|owner| &owner.uid).collect();
        assert_eq!(owners, vec![&uid; 6], "two by name and one for each replica");
        stage.finish().await;
    }
}

async fn d_what_somebody_else_writes_on_a_set_is_taken_back_or_left_alone(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.create(json!({ "template": template("v1", 2), "zones": ZONES })).await;
    stage.ready(1, 6).await;
    // A label and an annotation of theirs stay; replicas and the template are ours.
    stage
        .merge::<StatefulSet>(
            "db-z0",
            json!({ "metadata": {
            "labels": { "team": "a" }, "annotations": { "gitops.example.com/tracking": "x" },
        } }),
        )
        .await;
    stage.merge::<StatefulSet>("db-z1", json!({ "spec": { "replicas": 5 } })).await;
    let image = json!([{ "name": "main", "image": "app:theirs" }]);
    stage
        .merge::<StatefulSet>("db-z2", json!({ "spec": { "template": { "spec": { "containers": image } } } }))
        .await;
    let sets = stage.sets();
    until(DEADLINE, "the sets to be as they were", || async {
        let (scaled, edited) = (sets.get("db-z1").await?, sets.get("db-z2").await?);
        let image =
            serde_json::to_value(&edited)?["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        let replicas = scaled.spec.and_then(|spec| spec.replicas);
        if replicas == Some(2) && image == "app:v1" { Ok(()) } else { Err(NotYet::saw((replicas, image))) }
    })
    .await;
    stage.ready(1, 6).await;
    let kept = stage.view().sets["db-z0"].clone();
    assert_eq!(kept.labels.get("team").map(String::as_str), Some("a"));
    stage.edit(healthy("v2")).await;
    stage.ready(2, 6).await;
    let kept = stage.view().sets["db-z0"].clone();
    assert!(kept.labels.contains_key("team") && kept.annotations.contains_key("gitops.example.com/tracking"));
    stage.finish().await;
}

async fn d_a_set_that_somebody_edits_while_no_operator_runs_is_restored(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let mut stage = Extended::new(&cluster, name, group).await;
        let set = if group == Group::Fissile { "db-v1" } else { "db" };
        stage.create(json!({ "template": template("v1", 2) })).await;
        stage.ready(1, 2).await;
        stage.stop().await;
        let image = json!([{ "name": "main", "image": "app:theirs" }]);
        let theirs = json!({ "spec": { "template": { "spec": { "containers": image } } } });
        stage.merge::<StatefulSet>(set, theirs).await;
        stage.restart().await;
        let sets = stage.sets();
        until(DEADLINE, "the set to be as it was", || async {
            let live = serde_json::to_value(sets.get(set).await?)?;
            let image = live["spec"]["template"]["spec"]["containers"][0]["image"].clone();
            if image == "app:v1" { Ok(()) } else { Err(NotYet::saw(image)) }
        })
        .await;
        stage
            .object_is("as it was", |object, seen| {
                let ready = object.condition("Ready").is_some_and(|ready| ready.reason == "AsRequested");
                ready && seen.pods.values().all(|pod| pod.pod.image == "app:v1" && pod.pod.serves())
            })
            .await;
        stage.finish().await;
    }
}

async fn d_a_service_that_somebody_edits_is_restored(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let mut given = template("v1", 1);
    given["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 8080 }]);
    let probe = json!({ "main": { "tcpSocket": { "port": 8080 }, "periodSeconds": 3600 } });
    let services = json!({ "active": "db-active", "headless": "db" });
    stage.create(json!({ "template": given, "activeProbe": probe, "services": services })).await;
    stage.ready(1, 1).await;
    let present = async |name: &str| {
        let service = stage.api::<Service>().get(name).await?;
        let spec = serde_json::to_value(service.spec.unwrap_or_default())?;
        Ok::<_, NotYet>((spec["selector"].clone(), spec["ports"].clone(), spec["type"].clone()))
    };
    until(DEADLINE, "both Services to be there", || async {
        present("db").await?;
        present("db-active").await
    })
    .await;
    for (name, edit) in [
        ("db-active", json!({ "selector": { "sts.plus/pod-designation": null } })),
        ("db-active", json!({ "selector": { "app": "another" } })),
        ("db-active", json!({ "ports": [{ "port": 81 }] })),
        ("db", json!({ "selector": { "app": "another" } })),
    ] {
        let before = present(name).await.unwrap();
        stage.merge::<Service>(name, json!({ "spec": edit })).await;
        until(DEADLINE, format!("{name} to be as it was before {edit}"), || async {
            let now = present(name).await?;
            if now == before { Ok(()) } else { Err(NotYet::saw(now)) }
        })
        .await;
    }
    // Its type is the user's, and the ports of nodes that come with it are nobody's business.
    stage.merge::<Service>("db-active", json!({ "spec": { "type": "NodePort" } })).await;
    let written = stage.requests().await.into_iter().filter(Request::wrote);
    let written = written.filter(|request| request.resource == "services").count();
    assert_eq!(written, 6, "two were created, and four edits were taken back");
    assert_eq!(present("db-active").await.unwrap().2, "NodePort");
    stage.finish().await;
}

async fn d_a_phased_rollout_gates_a_set_that_is_changed_in_place(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let answers = Answers::start(&cluster.outside().network, Says::Nothing).await;
    stage.create(json!({ "template": template("v1", 3) })).await;
    stage.ready(1, 3).await;
    let rollouts = kube::Api::namespaced_with(cluster.user(), &stage.namespace, &manifest::kind());
    let rollout = Rollout::new(NAME, &answers.url());
    rollouts.create(&PostParams::default(), &rollout.object()).await.unwrap();
    let phase = async |phase: &str| {
        until(DEADLINE, format!("the PhasedRollout to be {phase}"), || async {
            let seen = rollouts.get(NAME).await?.data["status"].clone();
            if seen["phase"] == phase { Ok(()) } else { Err(NotYet::saw(seen)) }
        })
        .await;
    };
    phase("Updated").await;
    // The checks hold the second version at its first pod, and the object reports that it rolls.
    answers.say_to("db-2", Says::something());
    stage.edit(healthy("v2")).await;
    let gated = |seen: &super::seen::Seen, count: usize| {
        let new = seen.pods.values().filter(|pod| pod.pod.image == "app:v2" && pod.pod.serves()).count();
        if new == count { Ok(()) } else { Err(new.to_string()) }
    };
    stage.until("the first pod of the second version", |seen| gated(seen, 1)).await;
    stage.restart().await;
    stage.edit(scaled(4)).await;
    stage
        .until("the pod that came by scaling", |seen| {
            if seen.pods.len() == 4 { Ok(()) } else { Err(format!("{}", seen.pods.len())) }
        })
        .await;
    stage.requests().await;
    let old = stage.view().pods.values().filter(|pod| pod.pod.image == "app:v1").count();
    assert!(old >= 2, "the gate holds the others: {old} are old");
    answers.say_to("db-2", Says::Nothing);
    stage.ready(2, 4).await;
    phase("Updated").await;
    assert_eq!(stage.view().versions(NAME), [1, 2]);
    stage.finish().await;
}

async fn d_a_zone_that_is_paused_holds_the_others(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.create(json!({ "template": template("v1", 2), "zones": ZONES })).await;
    stage.ready(1, 6).await;
    stage
        .merge::<StatefulSet>("db-z1", json!({ "metadata": { "annotations": { keys::PAUSED: "true" } } }))
        .await;
    stage.edit(healthy("v2")).await;
    let new = |zone: &'static str, count: usize| {
        move |seen: &super::seen::Seen| {
            let pods = seen.pods.values().filter(|pod| pod.pod.set.as_deref() == Some(zone));
            let new = pods.filter(|pod| pod.pod.image == "app:v2" && pod.pod.serves()).count();
            if new == count { Ok(()) } else { Err(new.to_string()) }
        }
    };
    stage.until("the first zone to be rolled", new("db-z0", 2)).await;
    stage.until("the third zone to be rolled past it", new("db-z2", 2)).await;
    stage.until("the paused zone to be left alone", new("db-z1", 0)).await;
    stage
        .merge::<StatefulSet>("db-z1", json!({ "metadata": { "annotations": { keys::PAUSED: null } } }))
        .await;
    stage.ready(2, 6).await;
    stage.finish().await;
}

async fn d_m1_sets_and_pods_follow_a_deleted_object_and_configuration_stays(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        let map = json!({ "metadata": { "name": "settings" }, "data": { "key": "one" } });
        stage.make::<k8s_openapi::api::core::v1::ConfigMap>(map).await;
        let mut given = template("v1", 2);
        given["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
            json!([{ "configMapRef": { "name": "settings" } }]);
        stage.create(json!({ "template": given, "zones": ZONES, "updateOnConfigChange": true })).await;
        stage.ready(1, 6).await;
        for set in stage.names() {
            stage.view().excuse_set(&set);
        }
        stage.objects().delete(NAME, &DeleteParams::background()).await.unwrap();
        stage
            .until("everything to be gone", |seen| {
                let is_gone = seen.objects.is_empty() && seen.sets.is_empty() && seen.pods.is_empty();
                if is_gone { Ok(()) } else { Err(format!("{:?}", seen.set_names())) }
            })
            .await;
        let kept = stage.api::<k8s_openapi::api::core::v1::ConfigMap>().get("settings").await.unwrap();
        assert!(kept.metadata.owner_references.is_none());
        stage.finish().await;
    }
}
