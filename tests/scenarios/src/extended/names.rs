//! Names and objects of others, and specs that cannot be used: reported, and left alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use sts_plus_api::conditions::Truth;
use sts_plus_api::extended::Group;
use sts_plus_harness::wait::{NotYet, until};

use super::manifest::{healthy, template};
use super::scenarios;
use super::stage::{Extended, NAME, object, objects};
use crate::cluster::Cluster;
use crate::observer::DEADLINE;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        d_two_objects_of_one_name_in_both_groups_do_not_share_a_set,
        d_an_object_whose_set_is_that_of_another_one_reports_it,
        d_s14_a_set_of_somebody_else_is_reported_and_left_alone,
        d_w1_a_pod_of_somebody_else_is_created_and_stays_as_it_was_written,
        d_m2_an_object_in_a_namespace_that_is_not_watched_is_left_alone,
        d_a_name_that_is_too_long_is_reported_before_a_pod_fails,
        d_z10_zones_that_are_empty_or_given_twice_are_refused,
        d_c7_to_c9_what_is_missing_is_derived_and_names_in_the_template_are_ignored,
    ]
}

async fn d_two_objects_of_one_name_in_both_groups_do_not_share_a_set(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.create(json!({ "template": template("v1", 2) })).await;
    stage.ready(1, 2).await;
    let (before, owner) = (stage.uids(), stage.view().sets[NAME].owner.clone());
    let others = objects(cluster.user(), &stage.namespace, Group::Fissile);
    let spec = json!({ "template": template("v1", 1), "updateStrategy": { "type": "InPlace" } });
    others.create(&PostParams::default(), &object(Group::Fissile, NAME, &spec)).await.unwrap();
    let reports = async |reason: &str| {
        until(DEADLINE, format!("the second object to report {reason}"), || async {
            let status = others.get(NAME).await?.data["status"].clone();
            if status["conditions"][0]["reason"] == reason { Ok(()) } else { Err(NotYet::saw(status)) }
        })
        .await;
    };
    reports("NameTaken").await;
    stage.restart().await;
    stage.requests().await;
    assert_eq!((stage.uids(), stage.view().sets[NAME].owner.clone()), (before.clone(), owner));
    // Under a name of its own it works beside the first, and neither counts the pods of the other.
    let fields = json!({ "spec": { "updateStrategy": { "type": "BlueGreen" } } });
    let patch = kube::api::Patch::Merge(fields);
    others.patch(NAME, &kube::api::PatchParams::default(), &patch).await.unwrap();
    reports("AsRequested").await;
    stage.sets_are(["db", "db-v1"].map(str::to_owned).into()).await;
    assert_eq!(stage.present().status.ready_replicas, Some(2));
    assert!(before.is_subset(&stage.uids()));
    stage.finish().await;
}

async fn d_an_object_whose_set_is_that_of_another_one_reports_it(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    stage.create_named("db-z0", json!({ "template": template("v1", 1) })).await;
    stage
        .until("the other object to be Ready", |seen| {
            let ready =
                seen.objects.get("db-z0").is_some_and(|object| object.status.current_version == Some(1));
            if ready { Ok(()) } else { Err(format!("{:?}", seen.objects)) }
        })
        .await;
    let owner = stage.view().sets["db-z0"].owner.clone();
    stage.create(json!({ "template": template("v1", 1), "zones": ["a", "b"] })).await;
    let message = stage.reports("NameTaken").await;
    assert!(message.contains("db-z0"), "{message}");
    assert_eq!(stage.view().sets["db-z0"].owner, owner);
    // Nothing of the other one is changed or removed by an edit or by the end of this one.
    stage.edit(healthy("v2")).await;
    stage.reports("NameTaken").await;
    stage.objects().delete(NAME, &kube::api::DeleteParams::background()).await.unwrap();
    stage
        .until("only the other object to be left", |seen| {
            let left = seen.set_names() == BTreeSet::from(["db-z0"]) && seen.objects.len() == 1;
            if left { Ok(()) } else { Err(format!("{:?}", seen.set_names())) }
        })
        .await;
    assert_eq!(stage.view().sets["db-z0"].owner, owner);
    stage.finish().await;
}

async fn d_s14_a_set_of_somebody_else_is_reported_and_left_alone(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let mut set = template("theirs", 1);
    set["metadata"] = json!({ "name": NAME });
    set["spec"]["selector"] = json!({ "matchLabels": { "app": "db" } });
    set["spec"]["serviceName"] = json!("theirs");
    stage.make::<StatefulSet>(set).await;
    stage.create(json!({ "template": template("v1", 2) })).await;
    stage.reports("NameTaken").await;
    assert_eq!(stage.present().condition("Stalled").map(|stalled| stalled.status), Some(Truth::True));
    stage
        .until("their pod to serve", |seen| {
            let serves = seen.pods.len() == 1 && seen.pods.values().all(|pod| pod.pod.serves());
            if serves { Ok(()) } else { Err(format!("{:?}", seen.pods)) }
        })
        .await;
    assert!(stage.view().pods.values().all(|pod| pod.pod.image == "app:theirs"));
    // Once the name is free it is taken.
    stage.delete_set(NAME).await;
    stage.ready(1, 2).await;
    stage.finish().await;
}

async fn d_w1_a_pod_of_somebody_else_is_created_and_stays_as_it_was_written(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let mut stage = Extended::new(&cluster, name, Group::Fissile).await;
    // Nothing of ours is on the path of a pod: it starts while no operator runs, and one that runs leaves it alone, whatever
    // it shares with pods that have an owner of ours: the labels of the template, a name like theirs, even the object's label.
    stage.stop().await;
    let labels = json!({ "app": "db", "fissile.cloudfoundry.org/extendedstatefulset-name": NAME });
    let spec = json!({ "containers": [{ "name": "main", "image": "app:theirs" }] });
    for pod in ["theirs", "db-v1-7", "db-z0-v1-7"] {
        stage
            .make::<Pod>(
                json!({ "metadata": { "name": pod, "labels": labels.clone() }, "spec": spec.clone() }),
            )
            .await;
    }
    let serving = |pods: usize| {
        move |seen: &super::seen::Seen| {
            let serving = seen.pods.values().filter(|pod| pod.pod.serves()).count();
            if serving == pods { Ok(()) } else { Err(format!("{:?}", seen.pods)) }
        }
    };
    stage.until("their pods to serve", serving(3)).await;
    stage.restart().await;
    let probe = json!({ "main": { "tcpSocket": { "port": 9 }, "periodSeconds": 1 } });
    stage.create(json!({ "template": template("v1", 1), "zones": ["a", "b"], "activeProbe": probe })).await;
    stage.until("the pods of the object to serve as well", serving(5)).await;
    stage.edit(healthy("v2")).await;
    stage.object_is("at version 2", |object, _| object.status.current_version == Some(2)).await;
    stage.stop().await;
    let requests = stage.cluster.settled_requests(stage.account()).await.unwrap();
    let is_theirs = |name: &str| ["theirs", "db-v1-7", "db-z0-v1-7"].contains(&name);
    let written: Vec<_> =
        requests.iter().filter(|request| request.resource == "pods" && is_theirs(&request.name)).collect();
    assert!(written.is_empty(), "{written:?}");
    for pod in ["theirs", "db-v1-7", "db-z0-v1-7"] {
        let pod = stage.pods().get(pod).await.unwrap();
        let managers = pod.managed_fields().iter().filter_map(|fields| fields.manager.as_deref());
        assert!(!managers.into_iter().any(|manager| manager.starts_with("sts-plus")));
    }
    stage.finish().await;
}

async fn d_m2_an_object_in_a_namespace_that_is_not_watched_is_left_alone(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::StsPlus).await;
    let elsewhere = format!("{}-else", stage.namespace);
    cluster.make_namespace(&elsewhere).await.unwrap();
    let others = objects(cluster.user(), &elsewhere, Group::StsPlus);
    let spec = json!({ "template": template("v1", 1) });
    others.create(&PostParams::default(), &object(Group::StsPlus, NAME, &spec)).await.unwrap();
    // Whatever is done for one that was created before is done by the time that this one is Ready and nothing is asked for.
    stage.create(spec).await;
    stage.ready(1, 1).await;
    let requests = stage.requests().await;
    assert!(!requests.iter().any(|request| request.namespace == elsewhere), "{requests:?}");
    assert!(others.get(NAME).await.unwrap().data.get("status").is_none());
    let sets = Api::<StatefulSet>::namespaced(cluster.user(), &elsewhere);
    assert!(sets.list(&ListParams::default()).await.unwrap().items.is_empty());
    stage.finish().await;
}

async fn d_a_name_that_is_too_long_is_reported_before_a_pod_fails(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    let stage = Extended::new(&cluster, name, Group::Fissile).await;
    let long = "x".repeat(52);
    stage.create_named(&long, json!({ "template": template("v1", 1) })).await;
    stage
        .until("the name to be reported", |seen| {
            let object = seen.objects.get(&long);
            let ready = object.and_then(|object| object.condition("Ready"));
            if ready.is_some_and(|ready| ready.reason == "NameTooLong") {
                Ok(())
            } else {
                Err(format!("{object:?}"))
            }
        })
        .await;
    assert!(stage.names().is_empty());
    // Without a version in it the name fits.
    stage.patch(&long, json!({ "spec": { "updateStrategy": { "type": "InPlace" } } })).await;
    stage
        .until("its pod to serve", |seen| {
            let serves = seen.pods.values().any(|pod| pod.pod.serves());
            if serves { Ok(()) } else { Err(format!("{:?}", seen.pods)) }
        })
        .await;
    stage.finish().await;
}

async fn d_z10_zones_that_are_empty_or_given_twice_are_refused(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        for zones in [json!([""]), json!(["a", "a"])] {
            let spec = json!({ "template": template("v1", 1), "zones": zones });
            let created = stage.objects().create(&PostParams::default(), &stage.object(NAME, &spec)).await;
            let refused = created.unwrap_err().to_string();
            assert!(refused.contains("spec.zones"), "{refused}");
        }
        stage.finish().await;
    }
}

async fn d_c7_to_c9_what_is_missing_is_derived_and_names_in_the_template_are_ignored(
    cluster: Arc<dyn Cluster>,
    name: &'static str,
) {
    for group in Group::ALL {
        let stage = Extended::new(&cluster, name, group).await;
        let containers = json!([{ "name": "main", "image": "app:v1" }]);
        // No selector, no labels, no replicas, and the name and namespace of something else.
        let given = json!({
            "metadata": { "name": "other", "namespace": "elsewhere", "labels": { "kept": "yes" } },
            "spec": { "template": { "spec": { "containers": containers, "tolerations": [{ "operator": "Exists" }] } } },
        });
        // An empty label of zones is a missing one, as it was for cf-operator.
        stage.create(json!({ "template": given, "zoneNodeLabel": "" })).await;
        stage.ready(1, 1).await;
        let set = stage.view().sets.values().next().unwrap().clone();
        assert!(set.name.starts_with(NAME), "{}", set.name);
        assert_eq!(set.labels.get("kept").map(String::as_str), Some("yes"));
        stage.finish().await;
    }
}
