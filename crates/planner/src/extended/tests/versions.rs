//! V1 to V22, and what configuration does to versions.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::kinds::Kind;

use super::cluster::{Cluster, with_and_without_restarts};
use super::creation::template;
use crate::extended::probe::Digest;
use crate::plan::Object;

const IMAGE: &str = "/template/spec/template/spec/containers/0/image";

fn blue_green(image: &str, replicas: u32) -> Value {
    json!({ "template": template(image, replicas), "updateStrategy": { "type": "BlueGreen" } })
}

fn started(group: Group, spec: Value) -> Cluster {
    let mut cluster = Cluster::new(group, spec);
    cluster.settle();
    cluster.log.clear();
    cluster
}

#[test]
fn d_v1_a_change_makes_version_two_and_then_version_one_goes() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::Fissile, json!({ "template": template("a", 2) }));
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.log, ["create foo-v2", "delete foo-v1"]);
        assert_eq!(cluster.row.status.current_version, Some(2));
        assert!(cluster.condition("Ready").unwrap().0);
    });
}

#[test]
fn d_v3_v4_v8_versions_that_do_not_start_remove_nothing() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::Fissile, json!({ "template": template("bad-1", 1) }));
        cluster.set_field(IMAGE, json!("bad-2"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
        cluster.set_field(IMAGE, json!("bad-3"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2", "foo-v3"]);
        // V5 and V6: one that starts replaces all of them.
        cluster.set_field(IMAGE, json!("good"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v4"]);
    });
}

#[test]
fn d_v7_versions_before_the_newest_that_runs_go_and_the_next_is_waited_for() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::Fissile, json!({ "template": template("a", 1) }));
        cluster.becomes = |set, image| set != "foo-v2" && !image.contains("bad");
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        cluster.set_field(IMAGE, json!("bad"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2", "foo-v3"]);
        cluster.becomes = |_, image| !image.contains("bad");
        cluster.pods.retain(|name, _| !name.starts_with("foo-v2"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v2", "foo-v3"]);
    });
}

#[test]
fn d_v13_v15_a_new_apply_and_a_new_number_of_replicas_make_no_version() {
    with_and_without_restarts(|| {
        for group in Group::ALL {
            let mut cluster = started(group, json!({ "template": template("a", 2) }));
            let uids = cluster.pod_uids();
            cluster.edit(cluster.given.clone());
            cluster.settle();
            assert_eq!(cluster.log, [""; 0]);
            cluster.set_field("/template/spec/replicas", json!(3));
            cluster.settle();
            assert_eq!(cluster.row.status.update_version, Some(1));
            assert!(uids.iter().all(|uid| cluster.pod_uids().contains(uid)), "nobody is restarted");
            assert_eq!(cluster.pods.len(), 3);
        }
    });
}

#[test]
fn d_v16_in_place_an_edit_is_applied_whenever_it_is_seen() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::StsPlus, json!({ "template": template("a", 3) }));
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.log, ["replace foo"]);
        assert_eq!(cluster.live("foo")["metadata"]["annotations"]["sts.plus/version"], "2");
        assert_eq!(cluster.row.status.current_version, Some(2));
        // A revert to content without a set is one more version.
        cluster.set_field(IMAGE, json!("a"));
        cluster.settle();
        assert_eq!(cluster.row.status.current_version, Some(3));
    });
}

#[test]
fn d_v5_in_place_an_upgrade_works_although_pods_are_not_ready() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::StsPlus, json!({ "template": template("bad", 3) }));
        assert!(cluster.pods.values().all(|pod| !pod.ready()));
        cluster.set_field(IMAGE, json!("good"));
        cluster.settle();
        assert!(cluster.pods.values().all(crate::pod::PodRow::ready), "{:?}", cluster.log);
        assert!(cluster.condition("Ready").unwrap().0);
    });
}

#[test]
fn d_v18_a_revert_to_a_version_that_has_a_set_makes_it_current_again() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::Fissile, json!({ "template": template("a", 2) }));
        cluster.set_field(IMAGE, json!("bad"));
        cluster.settle();
        cluster.set_field(IMAGE, json!("a"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1"]);
        assert_eq!(cluster.row.status.current_version, Some(1));
    });
}

#[test]
fn d_v19_by_default_a_version_needs_all_its_pods() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::StsPlus, blue_green("a", 3));
        cluster.becomes = |set, _| set != "foo-v2";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
        for ready in ["foo-v2-0", "foo-v2-1"] {
            cluster.pods.get_mut(ready).unwrap().ready_since = Some(cluster.now);
        }
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2"], "two of three are not enough");
        cluster.pods.get_mut("foo-v2-2").unwrap().ready_since = Some(cluster.now);
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v2"]);
    });
}

#[test]
fn d_v20_a_set_without_a_number_is_reported_and_left_alone() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::Fissile, json!({ "template": template("a", 1) }));
        let mut odd = cluster.sets["foo-v1"].clone();
        odd.0.name = "foo-v0".into();
        odd.0.uid = "uid-odd".into();
        odd.0.child.as_mut().unwrap().version = Some("one".into());
        cluster.sets.insert("foo-v0".to_owned(), odd);
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v0", "foo-v2"]);
        assert!(cluster.condition("Warning").is_some());
    });
}

#[test]
fn d_v21_versions_are_compared_as_numbers() {
    with_and_without_restarts(|| {
        let mut cluster = started(Group::Fissile, json!({ "template": template("a", 1) }));
        for number in 2..=11 {
            cluster.set_field(IMAGE, json!(format!("a{number}")));
            cluster.settle();
        }
        assert_eq!(cluster.names(), ["foo-v11"]);
    });
}

#[test]
fn d_v22_a_version_that_crashes_within_its_soak_time_is_not_promoted() {
    with_and_without_restarts(|| {
        let mut spec = blue_green("a", 1);
        spec["updateStrategy"]["blueGreen"] = json!({ "soakSeconds": 60 });
        let mut cluster = started(Group::StsPlus, spec);
        cluster.now += SignedDuration::from_secs(600);
        cluster.settle();
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
        cluster.now += SignedDuration::from_secs(59);
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
        cluster.pods.get_mut("foo-v2-0").unwrap().ready_since = None;
        cluster.now += SignedDuration::from_secs(60);
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
        cluster.pods.get_mut("foo-v2-0").unwrap().ready_since = Some(cluster.now);
        cluster.now += SignedDuration::from_secs(60);
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v2"]);
    });
}

#[test]
fn d_manual_promotion_waits_for_the_approval_of_this_version() {
    let mut spec = blue_green("a", 1);
    spec["updateStrategy"]["blueGreen"] = json!({ "promotion": "Manual" });
    let mut cluster = started(Group::StsPlus, spec);
    assert!(cluster.condition("Ready").unwrap().0, "the first version replaces nobody");
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    assert_eq!(cluster.condition("Ready"), Some((false, "AwaitingApproval".to_owned())));
    cluster.row.approve = Some("promote-7-00000000".into());
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
    cluster.row.approve = cluster.row.status.awaited_approval.clone().map(Into::into);
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v2"]);
    assert_eq!(cluster.row.status.awaited_approval, None);
}

#[test]
fn d_a_version_that_exceeds_its_deadline_is_paused_or_rolled_back_and_can_be_retried() {
    for (policy, names) in [("Pause", vec!["foo-v1", "foo-v2"]), ("Rollback", vec!["foo-v1"])] {
        let mut spec = blue_green("a", 1);
        spec["updateStrategy"]["onFailure"] = json!(policy);
        spec["updateStrategy"]["progressDeadlineSeconds"] = json!(10);
        let mut cluster = started(Group::StsPlus, spec);
        cluster.set_field(IMAGE, json!("bad"));
        cluster.settle();
        for _ in 0..10 {
            cluster.open = SignedDuration::from_secs(1);
            cluster.pass_of(usize::MAX);
        }
        cluster.open = SignedDuration::ZERO;
        cluster.settle();
        assert_eq!(cluster.names(), names, "{policy}");
        assert!(cluster.condition("Stalled").is_some());
        let retry = cluster.row.status.awaited_approval.clone().unwrap();
        cluster.becomes = |_, _| true;
        cluster.pods.retain(|name, _| !name.starts_with("foo-v2"));
        cluster.row.approve = Some(retry.into());
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v2"], "{policy}: {:?}", cluster.row.status);
    }
}

#[test]
fn d_paused_makes_no_version_and_scales_all_the_same() {
    for group in Group::ALL {
        let mut cluster = started(group, json!({ "template": template("a", 1), "paused": true }));
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.log, [""; 0]);
        cluster.set_field("/template/spec/replicas", json!(2));
        cluster.settle();
        assert_eq!(cluster.pods.len(), 2);
        cluster.set_field("/paused", json!(false));
        cluster.settle();
        assert_eq!(cluster.row.status.current_version, Some(2));
    }
}

#[test]
fn d_the_way_to_a_version_survives_a_crash_after_each_write() {
    for spec in [json!({ "template": template("a", 2) }), blue_green("a", 2)] {
        let mut cluster = Cluster::new(Group::StsPlus, spec.clone());
        cluster.settle_with_crashes();
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle_with_crashes();
        cluster.set_field(IMAGE, json!("c"));
        cluster.settle_with_crashes();
        assert_eq!(cluster.row.status.current_version, Some(3));
        assert_eq!(cluster.sets.len(), 1);
    }
}

#[test]
fn d_in_place_a_version_is_current_when_its_pods_are_replaced_and_not_when_its_sets_are_changed() {
    for zones in [json!([]), json!(["a", "b"])] {
        let spec =
            json!({ "template": template("a", 2), "zones": zones, "updateStrategy": { "type": "InPlace" } });
        let mut cluster = started(Group::StsPlus, spec);
        cluster.set_field(IMAGE, json!("b"));
        cluster.becomes = |_, image| image != "b";
        cluster.settle();
        let status = &cluster.row.status;
        assert_eq!((status.current_version, status.update_version), (Some(1), Some(2)), "{zones}");
        assert_eq!(cluster.condition("Ready"), Some((false, "Rolling".to_owned())), "{zones}");
        cluster.becomes = |_, _| true;
        cluster.pods.retain(|_, pod| pod.ready());
        cluster.settle();
        assert_eq!(cluster.row.status.current_version, Some(2), "{zones}");
    }
}

#[test]
fn d_claims_are_refused_with_blue_green_unless_they_may_be_shared() {
    let mut spec = blue_green("a", 1);
    spec["template"]["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" } }]);
    let mut cluster = started(Group::StsPlus, spec.clone());
    assert!(cluster.sets.is_empty());
    assert_eq!(cluster.condition("Stalled"), Some((true, "ClaimsNeedHandover".to_owned())));
    spec["updateStrategy"]["blueGreen"] = json!({ "sharedClaims": "Allow" });
    cluster.edit(spec);
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v1"]);
}

#[test]
fn d_in_place_a_field_that_cannot_change_is_reported_and_the_set_stays() {
    let mut cluster = started(Group::StsPlus, json!({ "template": template("a", 1) }));
    let mut given = cluster.given.clone();
    given["template"]["spec"]["serviceName"] = json!("other");
    given["template"]["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" } }]);
    cluster.edit(given);
    cluster.settle();
    assert_eq!(cluster.condition("Stalled"), Some((true, "ImmutableField".to_owned())));
    assert_eq!(cluster.log, [""; 0]);
}

/// An object with a claim, as the API server keeps its set: the quantity in its own words, without fields that it does not know.
fn with_claim(storage: &str, kept: &str) -> Cluster {
    let mut given = template("a", 1);
    given["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "unheardOf": 1, "resources": { "requests": { "storage": storage } } },
    }]);
    let mut cluster = started(Group::StsPlus, json!({ "template": given }));
    let claim = &mut cluster.sets.get_mut("foo").unwrap().1["spec"]["volumeClaimTemplates"][0]["spec"];
    claim.as_object_mut().unwrap().remove("unheardOf");
    claim["resources"]["requests"]["storage"] = json!(kept);
    cluster
}

#[test]
fn d_s4_a_claim_that_the_api_server_writes_in_its_own_words_blocks_no_update() {
    let same = [
        ("1Gi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        (".5Ti", "512Gi"),
        ("1024Mi", "1Gi"),
        ("1e3", "1e3"),
        ("1e3", "1k"),
        ("1E3", "1k"),
        ("2Pi", "2048Ti"),
        ("1500m", "1.5"),
        ("1E", "1000P"),
    ];
    for (given, kept) in same {
        let mut cluster = with_claim(given, kept);
        for image in ["b", "c"] {
            cluster.set_field("/template/spec/template/spec/containers/0/image", json!(image));
            cluster.settle();
            assert_eq!(cluster.condition("Stalled"), None, "{given} {kept}");
            assert_eq!(cluster.live("foo")["spec"]["template"]["spec"]["containers"][0]["image"], image);
        }
        // Another size, and another field, are other claims.
        for (pointer, value) in
            [("resources/requests/storage", json!("3Gi")), ("storageClassName", json!("fast"))]
        {
            let mut other = cluster.given.clone();
            let claim = other.pointer_mut("/template/spec/volumeClaimTemplates/0/spec").unwrap();
            claim["storageClassName"] = json!(null);
            *claim.pointer_mut(&format!("/{pointer}")).unwrap() = value;
            let mut cluster = cluster.clone();
            cluster.edit(other);
            cluster.settle();
            assert_eq!(cluster.condition("Stalled"), Some((true, "ImmutableField".to_owned())), "{pointer}");
        }
    }
}

fn with_config(group: Group) -> (Cluster, Object) {
    let mut given = template("a", 2);
    given["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([{ "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "more", "optional": true } }]);
    let mut cluster = Cluster::new(group, json!({ "template": given, "updateOnConfigChange": true }));
    let object = |kind, name: &str| Object { kind, namespace: "ns".into(), name: name.into() };
    cluster.digests.insert(object(Kind::ConfigMap, "settings"), Digest::Known("1".into()));
    cluster.digests.insert(object(Kind::Secret, "more"), Digest::Absent);
    (cluster, object(Kind::ConfigMap, "settings"))
}

#[test]
fn d_f1_f10_a_change_of_data_makes_exactly_one_version() {
    for group in Group::ALL {
        let (mut cluster, settings) = with_config(group);
        cluster.settle();
        assert_eq!(cluster.row.status.current_version, Some(1));
        cluster.digests.insert(settings, Digest::Known("2".into()));
        cluster.settle();
        assert_eq!(cluster.row.status.current_version, Some(2));
        cluster.log.clear();
        cluster.settle();
        assert_eq!(cluster.log, [""; 0], "V17: nothing happens again");
    }
}

#[test]
fn d_f14_a_missing_object_is_waited_for_and_an_optional_one_is_not() {
    let (mut cluster, settings) = with_config(Group::StsPlus);
    cluster.digests.insert(settings.clone(), Digest::Absent);
    cluster.settle();
    assert!(cluster.sets.is_empty());
    assert_eq!(cluster.condition("Stalled"), Some((true, "ConfigMissing".to_owned())));
    cluster.digests.insert(settings.clone(), Digest::Unreadable(Arc::from("forbidden")));
    cluster.settle();
    assert_eq!(cluster.condition("Stalled"), Some((true, "ConfigUnreadable".to_owned())));
    cluster.digests.insert(settings, Digest::Known("1".into()));
    cluster.settle();
    assert_eq!(cluster.pods.len(), 2);
    assert!(cluster.condition("Ready").unwrap().0);
}
