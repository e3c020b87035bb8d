//! What somebody else changes of sets and Services that an object has.

use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::cluster::with_and_without_restarts;
use super::promotion::{IMAGE, REPLICAS, served};
use crate::plan::Ask;

/// Somebody else's template.
fn foreign() -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": "foreign" }] } } } })
}

#[test]
fn d_a_version_that_somebody_edits_is_restored_also_while_no_operator_runs() {
    for strategy in ["BlueGreen", "InPlace"] {
        for zones in [&[][..], &["z1", "z2"]] {
            for restarts in [false, true] {
                let mut cluster = served(Group::StsPlus, zones, &json!({}));
                cluster.set_field("/updateStrategy/type", json!(strategy));
                cluster.settle();
                let set = cluster.names()[0].to_owned();
                let before = cluster.live(&set)["spec"].clone();
                cluster.edit_set(&set, &foreign());
                if restarts {
                    cluster.restart();
                }
                cluster.settle();
                assert_eq!(cluster.live(&set)["spec"], before, "{strategy} {zones:?} {restarts}");
                assert!(cluster.condition("Ready").unwrap().0);
            }
        }
    }
}

#[test]
fn d_a_set_that_cannot_be_read_is_read_again_although_nothing_else_happens() {
    for strategy in ["BlueGreen", "InPlace"] {
        let mut cluster = served(Group::StsPlus, &[], &json!({}));
        cluster.set_field("/updateStrategy/type", json!(strategy));
        cluster.settle();
        let set = cluster.names()[0].to_owned();
        cluster.edit_set(&set, &foreign());
        // A read that has failed is not among those that the plan gets.
        let plan = crate::extended::plan(&cluster.world(std::collections::BTreeMap::new()), cluster.now).plan;
        assert!(plan.asks.iter().any(|ask| matches!(ask, Ask::Read(_))), "{strategy}: {:?}", plan.asks);
        assert!(plan.wake_at.is_some_and(|at| at > cluster.now), "{strategy}: {:?}", plan.wake_at);
    }
}

#[test]
fn d_a_restart_reads_no_set_that_nobody_has_changed() {
    for strategy in ["BlueGreen", "InPlace"] {
        let mut cluster = served(Group::StsPlus, &["z1", "z2"], &json!({}));
        cluster.set_field("/updateStrategy/type", json!(strategy));
        cluster.settle();
        cluster.set_field(REPLICAS, json!(3));
        cluster.settle();
        cluster.restart();
        let plan = crate::extended::plan(&cluster.world(std::collections::BTreeMap::new()), cluster.now).plan;
        assert_eq!(plan.asks, []);
        assert_eq!(plan.writes().count(), 0);
    }
}

#[test]
fn d_a_set_that_was_exchanged_for_another_of_its_name_is_read() {
    let mut cluster = served(Group::StsPlus, &[], &json!({}));
    // kubectl replace --force: the same owner and annotations, another template, the first generation.
    let before = cluster.live("foo-v1")["spec"].clone();
    cluster.edit_set("foo-v1", &foreign());
    let (row, live) = cluster.sets.get_mut("foo-v1").unwrap();
    (row.uid, row.generation) = ("uid-again".into(), 1);
    live["metadata"]["uid"] = json!("uid-again");
    live["metadata"]["generation"] = json!(1);
    cluster.settle();
    assert_eq!(cluster.live("foo-v1")["spec"], before);
}

#[test]
fn d_a_version_that_nobody_looked_at_is_compared_when_it_is_asked_for_again() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &[], &json!({}));
        let before = cluster.live("foo-v1")["spec"].clone();
        cluster.becomes = |_, image| image != "b";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        cluster.edit_set("foo-v1", &foreign());
        cluster.settle();
        cluster.set_field(IMAGE, json!("a"));
        cluster.settle();
        assert_eq!((cluster.names(), &cluster.live("foo-v1")["spec"]), (vec!["foo-v1"], &before));
    });
}

#[test]
fn d_c10_a_set_that_was_left_behind_and_edited_is_restored() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &[], &json!({}));
        let before = cluster.live("foo-v1")["spec"].clone();
        cluster.row.status = sts_plus_api::extended::ExtendedStatus::default();
        cluster.row.uid = "uid-foo-again".into();
        cluster.services.clear();
        cluster.edit_set("foo-v1", &foreign());
        let (set, live) = cluster.sets.get_mut("foo-v1").unwrap();
        set.child.as_mut().unwrap().owner = "".into();
        live["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        cluster.restart();
        cluster.settle();
        assert_eq!((cluster.names(), &cluster.live("foo-v1")["spec"]), (vec!["foo-v1"], &before));
    });
}

#[test]
fn d_a13_a_service_that_somebody_edits_is_restored() {
    let edits = [
        json!({ "selector": { "sts.plus/version": "7" } }),
        json!({ "selector": { "sts.plus/extendedstatefulset-name": null } }),
        json!({ "selector": { "team": "a", "sts.plus/pod-designation": "active" } }),
        json!({ "selector": null }),
        json!({ "ports": [] }),
        json!({ "ports": [{ "name": "80-tcp", "port": 80, "targetPort": 81, "protocol": "TCP" }] }),
    ];
    for edit in edits {
        let mut cluster = served(Group::StsPlus, &["z1", "z2"], &json!({}));
        let before = cluster.services.clone();
        for service in ["live", "next", "foo-z0-1"] {
            cluster.edit_service(service, &json!({ "spec": edit }));
        }
        cluster.settle();
        for (name, (_, live)) in &cluster.services {
            assert_eq!(live["spec"], before[name].1["spec"], "{name} {edit}");
        }
    }
    // What the server adds, and what others want besides, stays.
    let mut cluster = served(Group::StsPlus, &[], &json!({}));
    cluster.edit_service("live", &json!({ "spec": { "type": "LoadBalancer", "clusterIP": "10.0.0.1" } }));
    let before = cluster.services.clone();
    cluster.settle();
    assert_eq!(cluster.services, before);
}
