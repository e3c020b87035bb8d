//! What an object has left behind that was deleted with `--cascade=orphan`, and another one of its name takes back.

use serde_json::{Value, json};
use sts_plus_api::extended::{ExtendedStatus, Group};

use super::cluster::{Cluster, with_and_without_restarts};
use super::promotion::{IMAGE, REPLICAS, served};
use crate::plan::Kind;
use crate::reason::Refusal;

/// The object was deleted with all that it controls left behind, and another one of its name exists.
fn left_behind(cluster: &mut Cluster) {
    cluster.row.status = ExtendedStatus::default();
    cluster.row.uid = "uid-foo-again".into();
    let nobody = json!({ "metadata": { "ownerReferences": [] } });
    for set in cluster.sets.keys().cloned().collect::<Vec<_>>() {
        cluster.edit_set(&set, &nobody);
    }
    for service in cluster.services.keys().cloned().collect::<Vec<_>>() {
        cluster.edit_service(&service, &nobody);
    }
    cluster.restart();
}

fn owners(live: &Value) -> Vec<&str> {
    let owners = live["metadata"]["ownerReferences"].as_array().unwrap();
    owners.iter().map(|owner| owner["uid"].as_str().unwrap()).collect()
}

#[test]
fn d_c10_services_that_were_left_behind_are_adopted_with_the_sets_and_the_version_goes_on() {
    with_and_without_restarts(|| {
        for group in Group::ALL {
            for (strategy, zones) in
                [("BlueGreen", &[][..]), ("BlueGreen", &["z1", "z2"]), ("InPlace", &["z1"])]
            {
                let mut cluster = served(group, zones, &json!({}));
                cluster.set_field("/updateStrategy/type", json!(strategy));
                cluster.settle();
                let services: Vec<_> = cluster.services.keys().cloned().collect();
                let uids = cluster.pod_uids();
                left_behind(&mut cluster);
                cluster.settle();
                assert_eq!(cluster.pod_uids(), uids, "{strategy} {zones:?}");
                assert!(cluster.condition("Ready").unwrap().0, "{strategy} {zones:?}");
                assert_eq!(cluster.services.keys().cloned().collect::<Vec<_>>(), services);
                for (name, (_, live)) in &cluster.services {
                    assert_eq!(owners(live), ["uid-foo-again"], "{name}");
                }
                cluster.set_field(IMAGE, json!("b"));
                cluster.settle();
                assert!(cluster.condition("Ready").unwrap().0);
                assert_eq!(cluster.endpoints("live").len(), cluster.pods.len());
            }
        }
    });
}

#[test]
fn d_c10_an_object_with_another_template_gives_no_number_that_its_orphans_had() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &["z1", "z2"], &json!({}));
        for image in ["b", "c"] {
            cluster.set_field(IMAGE, json!(image));
            cluster.settle();
        }
        assert_eq!(cluster.names(), ["foo-z0-v3", "foo-z1-v3"]);
        left_behind(&mut cluster);
        cluster.set_field(IMAGE, json!("a"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v4", "foo-z1-v4"]);
        assert_eq!(cluster.endpoints("live").len(), 4);
        assert_eq!(cluster.row.status.current_version, Some(4));
    });
}

#[test]
fn d_c10_a_service_that_was_left_behind_keeps_its_other_owners_and_one_of_somebody_else_stays() {
    let mut cluster = served(Group::StsPlus, &[], &json!({}));
    left_behind(&mut cluster);
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "uid-other" });
    cluster.edit_service("live", &json!({ "metadata": { "ownerReferences": [other] } }));
    // Of another object, and one that is no longer asked for.
    let name = json!({ "metadata": { "labels": { "sts.plus/extendedstatefulset-name": "bar" } } });
    cluster.edit_service("foo-0", &name);
    cluster.set_field(REPLICAS, json!(1));
    let (foreign, surplus) = (cluster.services.remove("foo-0").unwrap(), cluster.services["foo-1"].clone());
    cluster.settle();
    assert_eq!(owners(&cluster.services["live"].1), ["uid-other", "uid-foo-again"]);
    assert_eq!(cluster.services["foo-1"], surplus);
    assert!(foreign.0.left_by.as_deref() != Some(&*cluster.row.path()));
}

#[test]
fn d_a_service_that_cannot_be_written_holds_up_no_set_but_the_removal_of_what_it_selects() {
    for strategy in ["BlueGreen", "InPlace"] {
        let mut cluster = served(Group::StsPlus, &[], &json!({}));
        cluster.set_field("/updateStrategy/type", json!(strategy));
        cluster.settle();
        let before = cluster.names().join(" ");
        cluster.refused = Some(Refusal { webhook: None, message: "taken".to_owned() });
        cluster.held = Kind::Service;
        let services = cluster.services.clone();
        cluster.set_field(REPLICAS, json!(3));
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert!(cluster.names().join(" ").starts_with(&before), "{:?}", cluster.names());
        let new = cluster.pods.values().filter(|pod| pod.ready()).count();
        assert_eq!(new, if strategy == "BlueGreen" { 6 } else { 3 });
        assert_eq!(cluster.services, services);
        assert_eq!(cluster.condition("Stalled"), Some((true, "WriteRefused".to_owned())));
        cluster.refused = None;
        cluster.settle();
        assert_eq!(cluster.pods.len(), 3);
        assert!(cluster.condition("Ready").unwrap().0);
    }
}
