//! C1 to C12.

use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::cluster::{Cluster, with_and_without_restarts};

pub(super) fn template(image: &str, replicas: u32) -> Value {
    json!({
        "metadata": { "name": "ignored", "namespace": "elsewhere", "labels": { "team": "a" }, "annotations": { "note": "b" } },
        "spec": {
            "replicas": replicas,
            "template": {
                "metadata": { "labels": { "app": "foo" } },
                "spec": {
                    "initContainers": [{ "name": "first", "image": image }],
                    "containers": [{ "name": "main", "image": image, "env": [{ "name": "OWN", "value": "1" }] }],
                    "tolerations": [{ "key": "k", "operator": "Exists" }],
                },
            },
        },
    })
}

fn env(set: &Value, container: &str) -> Vec<(String, String)> {
    let entries = set.pointer(&format!("/spec/template/spec/{container}/0/env")).unwrap().as_array().unwrap();
    entries
        .iter()
        .map(|entry| {
            (entry["name"].as_str().unwrap().to_owned(), entry["value"].as_str().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn d_c1_a_version_one_exists_and_is_controlled() {
    with_and_without_restarts(|| {
        let mut cluster = Cluster::new(Group::Fissile, json!({ "template": template("a", 1) }));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1"]);
        let set = cluster.live("foo-v1");
        assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], "uid-foo");
        assert_eq!(set["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!(set["metadata"]["annotations"]["fissile.cloudfoundry.org/version"], "1");
        assert_eq!(cluster.condition("Ready"), Some((true, "AsRequested".to_owned())));
        assert_eq!(cluster.row.status.current_version, Some(1));
    });
}

#[test]
fn d_c4_c7_c11_what_the_template_has_is_kept_and_its_name_ignored() {
    with_and_without_restarts(|| {
        let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": template("a", 1) }));
        cluster.settle();
        let set = cluster.live("foo");
        assert_eq!(
            (&set["metadata"]["labels"]["team"], &set["metadata"]["annotations"]["note"]),
            (&json!("a"), &json!("b"))
        );
        assert_eq!(set["metadata"]["namespace"], "ns");
        assert_eq!(set["spec"]["template"]["metadata"]["labels"]["app"], "foo");
        assert_eq!(set["spec"]["template"]["spec"]["tolerations"][0]["key"], "k");
        assert_eq!(env(set, "containers"), [("OWN".to_owned(), "1".to_owned())]);
    });
}

#[test]
fn d_c6_pods_without_a_zone_have_index_0_and_the_documented_environment() {
    with_and_without_restarts(|| {
        let mut cluster = Cluster::new(Group::Fissile, json!({ "template": template("a", 2) }));
        cluster.settle();
        let set = cluster.live("foo-v1");
        assert_eq!(set["spec"]["template"]["metadata"]["labels"]["fissile.cloudfoundry.org/az-index"], "0");
        for list in ["containers", "initContainers"] {
            let env = env(set, list);
            assert!(env.contains(&("AZ_INDEX".to_owned(), "1".to_owned())), "{env:?}");
            assert!(env.contains(&("KUBE_AZ".to_owned(), String::new())), "{env:?}");
        }
    });
}

#[test]
fn d_c8_a_missing_selector_is_derived_and_one_that_is_given_is_kept_with_ours() {
    with_and_without_restarts(|| {
        let mut given = template("a", 1);
        let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": given.clone() }));
        cluster.settle();
        let selector = &cluster.live("foo")["spec"]["selector"]["matchLabels"];
        assert_eq!(
            *selector,
            json!({ "sts.plus/extendedstatefulset-name": "foo", "sts.plus/az-index": "0" })
        );
        given["spec"]["selector"] = json!({ "matchLabels": { "app": "foo", "tier": "db" } });
        let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": given }));
        cluster.settle();
        let set = cluster.live("foo");
        assert_eq!(set["spec"]["selector"]["matchLabels"]["tier"], "db");
        assert_eq!(
            set["spec"]["template"]["metadata"]["labels"]["tier"], "db",
            "a label that the selector needs is added"
        );
    });
}

#[test]
fn d_c9_missing_replicas_are_one() {
    with_and_without_restarts(|| {
        let mut given = template("a", 1);
        given["spec"].as_object_mut().unwrap().remove("replicas");
        let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": given }));
        cluster.settle();
        assert_eq!(cluster.pods.len(), 1);
    });
}

#[test]
fn d_c10_a_set_that_was_deleted_by_hand_comes_back_with_its_version() {
    with_and_without_restarts(|| {
        for group in Group::ALL {
            let mut cluster = Cluster::new(group, json!({ "template": template("a", 1) }));
            cluster.settle();
            cluster.set_field("/template/spec/template/spec/containers/0/image", json!("b"));
            cluster.settle();
            let name = cluster.names()[0].to_owned();
            cluster.sets.clear();
            cluster.pods.clear();
            cluster.settle();
            assert_eq!(cluster.names(), [name]);
            assert_eq!(cluster.row.status.update_version, Some(2));
        }
    });
}

#[test]
fn d_c12_an_entry_of_the_environment_with_our_name_is_replaced() {
    with_and_without_restarts(|| {
        let mut given = template("a", 1);
        let entry =
            json!([{ "name": "KUBE_AZ", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }]);
        given["spec"]["template"]["spec"]["containers"][0]["env"] = entry;
        let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": given, "zones": ["z1"] }));
        cluster.settle();
        let env = env(cluster.live("foo-z0"), "containers");
        assert_eq!(
            env.iter().filter(|(name, _)| name == "KUBE_AZ").collect::<Vec<_>>(),
            [&("KUBE_AZ".to_owned(), "z1".to_owned())]
        );
    });
}

#[test]
fn d_a_set_of_somebody_else_with_the_name_is_left_alone() {
    let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": template("a", 1) }));
    cluster.strangers.insert("foo".into());
    cluster.settle();
    assert!(cluster.sets.is_empty());
    assert_eq!(cluster.condition("Stalled"), Some((true, "NameTaken".to_owned())));
}

#[test]
fn d_restrictions_change_the_number_and_are_reported() {
    let spec = json!({ "template": template("a", 4), "scaling": { "minReplicas": 1, "maxReplicas": 5, "parity": "Odd" } });
    let mut cluster = Cluster::new(Group::StsPlus, spec);
    cluster.settle();
    assert_eq!(cluster.pods.len(), 5);
    assert_eq!(cluster.condition("ReplicasRestricted"), Some((true, "Adjusted".to_owned())));
    cluster.set_field("/template/spec/replicas", json!(3));
    cluster.settle();
    assert_eq!((cluster.pods.len(), cluster.condition("ReplicasRestricted")), (3, None));
    assert_eq!(cluster.row.status.update_version, Some(1));
}
