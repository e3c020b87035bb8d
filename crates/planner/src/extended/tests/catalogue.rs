//! Rows of the catalogue that have no scenario of their own elsewhere, and what an update in place waits for.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::cluster::{Cluster, with_and_without_restarts};
use super::creation::template;
use crate::extended::probe::Digest;
use crate::plan::{Kind, Object};

const IMAGE: &str = "/template/spec/template/spec/containers/0/image";

fn started(group: Group, spec: Value) -> Cluster {
    let mut cluster = Cluster::new(group, spec);
    cluster.settle();
    cluster.log.clear();
    cluster
}

fn ready(cluster: &mut Cluster, pods: &str, is_ready: bool) {
    let now = cluster.now;
    for (_, pod) in cluster.pods.iter_mut().filter(|(name, _)| name.starts_with(pods)) {
        (pod.ready_since, pod.waiting, pod.running) = (is_ready.then_some(now), None, true);
    }
}

#[test]
fn d_c5_w2_pods_of_fissile_objects_have_their_ordinal() {
    with_and_without_restarts(|| {
        let cluster = started(Group::Fissile, json!({ "template": template("a", 4) }));
        assert!(cluster.pods.values().all(|pod| pod.numbered));
        let ordinals: Vec<_> =
            cluster.pods.values().map(|pod| pod.label("fissile.cloudfoundry.org/pod-ordinal")).collect();
        assert_eq!(ordinals, ["0", "1", "2", "3"].map(Some));
        let cluster = started(Group::StsPlus, json!({ "template": template("a", 4) }));
        assert!(cluster.pods.values().all(|pod| !pod.numbered), "Kubernetes labels them");
    });
}

#[test]
fn d_c7_m1_an_object_that_is_being_deleted_is_left_to_the_garbage_collector() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::Fissile, json!({ "template": template("a", 1) }));
        cluster.row.deleting = true;
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.log, [""; 0]);
        assert_eq!(cluster.condition("Ready"), Some((false, "Deleting".to_owned())));
    });
}

#[test]
fn d_v5_v6_v9_versions_before_one_that_runs_are_removed_once_and_the_only_one_never() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::Fissile, json!({ "template": template("a", 2) }));
        ready(&mut cluster, "foo-v1", false);
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1"]);
        cluster.becomes = |_, _| false;
        for image in ["b", "c"] {
            cluster.set_field(IMAGE, json!(image));
            cluster.settle();
        }
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2", "foo-v3"]);
        ready(&mut cluster, "foo-v2-0", true);
        ready(&mut cluster, "foo-v3-0", true);
        cluster.settle();
        let deletions: Vec<_> = cluster.log.iter().filter(|line| line.starts_with("delete")).collect();
        assert_eq!((deletions.len(), cluster.names()), (2, vec!["foo-v3"]));
    });
}

#[test]
fn d_v14_v17_labels_of_the_object_and_restarts_make_no_version() {
    with_and_without_restarts(|| {
        for group in Group::ALL {
            let mut cluster = started(group, json!({ "template": template("a", 2), "zones": ["z1", "z2"] }));
            let uids = cluster.pod_uids();
            cluster.row.resource_version = "900".into();
            cluster.row.approve = Some("anything".into());
            cluster.restart();
            assert_eq!(cluster.pass_of(usize::MAX), 0, "{:?}", cluster.log);
            assert_eq!(cluster.pod_uids(), uids);
        }
    });
}

#[test]
fn d_v18_two_edits_within_a_second_leave_the_last_content() {
    with_and_without_restarts(|| {
        for group in Group::ALL {
            let mut cluster = started(group, json!({ "template": template("a", 2), "zones": ["z1", "z2"] }));
            cluster.set_field(IMAGE, json!("b"));
            cluster.pass_of(2);
            cluster.set_field(IMAGE, json!("c"));
            cluster.settle();
            assert!(cluster.row.status.update_version.unwrap() <= 3);
            let images: Vec<_> = cluster
                .names()
                .iter()
                .map(|set| {
                    cluster.live(set).pointer("/spec/template/spec/containers/0/image").unwrap().clone()
                })
                .collect();
            assert_eq!(images, ["c", "c"]);
        }
    });
}

#[test]
fn d_v20_a_set_that_is_no_version_by_name_is_reported_and_left_alone() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::Fissile, json!({ "template": template("a", 1) }));
        let mut copy = cluster.sets["foo-v1"].clone();
        (copy.0.name, copy.0.uid) = ("foo-copy".into(), "uid-copy".into());
        copy.0.child.as_mut().unwrap().version = Some("1.5".into());
        cluster.sets.insert("foo-copy".to_owned(), copy);
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-copy", "foo-v2"]);
        assert_eq!(cluster.condition("Warning").unwrap().1, "Warning");
    });
}

#[test]
fn d_v21_a_number_beyond_all_numbers_is_no_hot_loop() {
    let mut cluster = started(Group::StsPlus, json!({ "template": template("a", 1) }));
    let version = json!({ "metadata": { "annotations": { "sts.plus/version": "4294967295" } } });
    cluster.edit_set("foo", &version);
    for image in ["b", "c"] {
        cluster.set_field(IMAGE, json!(image));
        cluster.settle();
        assert_eq!(cluster.live("foo").pointer("/spec/template/spec/containers/0/image").unwrap(), image);
    }
}

#[test]
fn d_a_partition_and_a_pause_of_others_are_named_and_are_not_the_versions_fault() {
    let deadline = json!({ "progressDeadlineSeconds": 1 });
    let spec = json!({ "template": template("a", 2), "zones": [], "updateStrategy": deadline });
    for (zones, patch, reason) in [
        (
            json!([]),
            json!({
                "metadata": { "annotations": { "sts.plus/phasedRollout": "gate" } },
                "spec": { "updateStrategy": { "rollingUpdate": { "partition": 1 } } },
            }),
            "PartitionHeld",
        ),
        (
            json!([]),
            json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 1 } } } }),
            "PartitionHeld",
        ),
        (
            json!(["z1"]),
            json!({ "metadata": { "annotations": { "grafana.com/rollout-paused": "true" } } }),
            "GroupPaused",
        ),
    ] {
        let mut cluster = started(Group::StsPlus, {
            let mut spec = spec.clone();
            spec["zones"] = zones;
            spec
        });
        let set = cluster.names()[0].to_owned();
        cluster.edit_set(&set, &patch);
        cluster.set_field(IMAGE, json!("b"));
        cluster.pass_of(usize::MAX);
        if reason == "PartitionHeld" {
            cluster.settle();
        } else {
            // The controller has observed the change; the group deletes nothing.
            let pods = cluster.pods.clone();
            cluster.control();
            cluster.pods = pods;
        }
        cluster.open = SignedDuration::from_secs(600);
        let decision = cluster.decide();
        assert_eq!(decision.wait.as_ref().map(crate::extended::wait::Wait::reason), Some(reason));
        assert_eq!((decision.open, &decision.status.failed_version), (None, &None));
        if reason == "PartitionHeld" {
            assert_eq!(cluster.live(&set)["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 1);
        }
    }
}

#[test]
fn d_a_broken_pod_below_a_partition_is_not_replaced_by_itself() {
    let mut cluster = started(Group::StsPlus, json!({ "template": template("a", 2) }));
    cluster
        .edit_set("foo", &json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 1 } } } }));
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    ready(&mut cluster, "foo-0", false);
    let uids = cluster.pod_uids();
    cluster.settle();
    assert_eq!(cluster.pod_uids(), uids, "it would come back from the old revision");
}

#[test]
fn d_max_unavailable_reaches_whoever_replaces_the_pods() {
    with_and_without_restarts(|| {
        for zones in [json!([]), json!(["z1"])] {
            let spec = json!({
                "template": template("a", 4), "zones": zones, "updateStrategy": { "maxUnavailable": 2 },
            });
            let mut cluster = started(Group::StsPlus, spec);
            let set = cluster.names()[0].to_owned();
            let seen = |cluster: &Cluster| {
                let live = cluster.live(&set);
                (
                    live["metadata"]["annotations"]["rollout-max-unavailable"].clone(),
                    live["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"].clone(),
                )
            };
            let is_zoned = set == "foo-z0";
            let native = |value: Value| if is_zoned { Value::Null } else { value };
            assert_eq!(seen(&cluster), (json!("2"), native(json!(2))));
            cluster.edit_set(
                &set,
                &json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 3 } } } }),
            );
            cluster.set_field("/updateStrategy/maxUnavailable", json!("50%"));
            cluster.settle();
            assert_eq!(seen(&cluster), (json!("50%"), native(json!("50%"))));
            cluster.set_field("/updateStrategy", json!({}));
            cluster.settle();
            assert_eq!(seen(&cluster), (Value::Null, Value::Null));
            assert_eq!(cluster.live(&set)["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 3);
            assert_eq!(cluster.row.status.update_version, Some(1));
        }
    });
}

#[test]
fn d_a_limit_that_the_template_gives_its_sets_stays() {
    let mut given = template("a", 4);
    given["metadata"]["annotations"]["rollout-max-unavailable"] = json!("3");
    let mut cluster = started(Group::StsPlus, json!({ "template": given, "zones": ["z1"] }));
    cluster.settle();
    assert_eq!(cluster.live("foo-z0")["metadata"]["annotations"]["rollout-max-unavailable"], "3");
}

#[test]
fn d_z6_a_zone_that_serves_nobody_is_removed_although_others_wait_for_it() {
    with_and_without_restarts(|| {
        let mut cluster =
            started(Group::StsPlus, json!({ "template": template("a", 2), "zones": ["z1", "z2"] }));
        ready(&mut cluster, "foo-z0", false);
        // The other zone is not Ready either: its rollout waits for the zone that is lost.
        ready(&mut cluster, "foo-z1-0", false);
        cluster.set_field("/zones", json!(["z2"]));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z1"]);
    });
}

#[test]
fn d_z6_z7_a_zone_that_returns_has_its_index_again() {
    with_and_without_restarts(|| {
        let mut cluster =
            started(Group::Fissile, json!({ "template": template("a", 1), "zones": ["z1", "z2"] }));
        for (zones, sets) in [
            (json!(["z2"]), vec!["foo-z1-v1"]),
            (json!(["z3", "z2"]), vec!["foo-z1-v1", "foo-z2-v1"]),
            (json!(["z1", "z3", "z2"]), vec!["foo-z0-v1", "foo-z1-v1", "foo-z2-v1"]),
        ] {
            cluster.set_field("/zones", zones);
            cluster.settle();
            assert_eq!(cluster.names(), sets);
        }
        assert!(cluster.row.status.selector.as_ref().unwrap().contains("az-index=0"));
    });
}

#[test]
fn d_z1_labels_of_zones_that_a_template_without_zones_has_are_not_taken_for_ours() {
    with_and_without_restarts(|| {
        let mut given = template("a", 1);
        given["metadata"]["labels"]["fissile.cloudfoundry.org/az-name"] = json!("z9");
        given["spec"]["template"]["metadata"]["labels"]["fissile.cloudfoundry.org/az-name"] = json!("z9");
        let mut cluster = started(Group::Fissile, json!({ "template": given }));
        assert_eq!(cluster.names(), ["foo-v1"]);
        let uids = cluster.pod_uids();
        cluster.settle();
        assert_eq!(cluster.pod_uids(), uids);
        cluster.becomes = |_, _| false;
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
    });
}

fn with_config(group: Group, opted_in: bool) -> (Cluster, Object) {
    let mut given = template("a", 2);
    given["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{ "configMapRef": { "name": "settings" } }]);
    let mut cluster = Cluster::new(group, json!({ "template": given, "updateOnConfigChange": opted_in }));
    let settings = Object { kind: Kind::ConfigMap, namespace: "ns".into(), name: "settings".into() };
    cluster.digests.insert(settings.clone(), Digest::Known("1".into()));
    cluster.settle();
    cluster.log.clear();
    (cluster, settings)
}

#[test]
fn d_f5_without_consent_data_are_neither_followed_nor_waited_for() {
    let (mut cluster, settings) = with_config(Group::StsPlus, false);
    for digest in
        [Digest::Known("2".into()), Digest::Absent, Digest::Unknown, Digest::Unreadable(Arc::from("no"))]
    {
        cluster.digests.insert(settings.clone(), digest);
        assert!(cluster.decide().plan.asks.is_empty());
        cluster.settle();
        assert_eq!(cluster.log, [""; 0]);
    }
}

#[test]
fn d_f9_a_reference_that_is_removed_makes_a_version_and_is_followed_no_longer() {
    for group in Group::ALL {
        let (mut cluster, settings) = with_config(group, true);
        assert_eq!(cluster.decide().plan.asks.len(), 1);
        cluster.set_field("/template/spec/template/spec/containers/0/envFrom", json!([]));
        // Of ConfigMaps nothing is ever written: the cluster takes no such write.
        cluster.settle();
        assert_eq!(cluster.row.status.current_version, Some(2));
        assert_eq!(cluster.decide().plan.asks, []);
        cluster.log.clear();
        for digest in [Digest::Known("2".into()), Digest::Absent] {
            cluster.digests.insert(settings.clone(), digest);
            cluster.settle();
        }
        assert_eq!(cluster.log, [""; 0]);
    }
}

#[test]
fn d_f17_data_that_change_back_before_they_settle_restart_nobody() {
    for group in Group::ALL {
        let (mut cluster, settings) = with_config(group, true);
        let uids = cluster.pod_uids();
        cluster.settled_at = Some(cluster.now + SignedDuration::from_secs(1));
        cluster.digests.insert(settings.clone(), Digest::Known("2".into()));
        let decision = cluster.decide();
        assert_eq!(decision.plan.wake_at, cluster.settled_at);
        cluster.settle();
        assert_eq!(cluster.condition("Ready"), Some((true, "ConfigSettling".to_owned())));
        cluster.digests.insert(settings.clone(), Digest::Known("1".into()));
        cluster.settle();
        assert_eq!((cluster.pod_uids(), &*cluster.log), (uids, &[][..]));
        // Once it has settled it is rolled out.
        cluster.digests.insert(settings, Digest::Known("2".into()));
        cluster.settled_at = None;
        cluster.settle();
        assert!(cluster.row.status.update_version > Some(1));
    }
}

#[test]
fn d_f8_f12_data_are_part_of_the_hash_and_of_the_pod_template() {
    let (mut cluster, settings) = with_config(Group::StsPlus, true);
    let hash = |cluster: &Cluster| {
        cluster
            .live("foo")
            .pointer("/spec/template/metadata/annotations/sts.plus~1config-hash")
            .unwrap()
            .clone()
    };
    let before = hash(&cluster);
    cluster.digests.insert(settings, Digest::Known("2".into()));
    cluster.settle();
    assert_ne!(hash(&cluster), before);
    let content = cluster.row.status.update_hash.clone().unwrap();
    assert_eq!(content.split_once('.').unwrap().1, hash(&cluster).as_str().unwrap());
}
