//! Z1 to Z11.

use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::cluster::Cluster;
use super::creation::template;

const IMAGE: &str = "/template/spec/template/spec/containers/0/image";

fn zoned(group: Group, zones: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(group, json!({ "template": template("a", 2), "zones": zones }));
    cluster.settle();
    cluster.log.clear();
    cluster
}

fn terms(set: &Value) -> &Vec<Value> {
    let pointer = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    set.pointer(pointer).unwrap().as_array().unwrap()
}

#[test]
fn d_z1_each_zone_has_a_set_with_its_labels_environment_and_affinity() {
    let cluster = zoned(Group::Fissile, &["z1", "z2", "z3"]);
    assert_eq!(cluster.names(), ["foo-z0-v1", "foo-z1-v1", "foo-z2-v1"]);
    let set = cluster.live("foo-z1-v1");
    let key = |suffix: &str| format!("fissile.cloudfoundry.org/{suffix}");
    assert_eq!(set["metadata"]["labels"][key("az-index")], "1");
    assert_eq!(set["metadata"]["labels"][key("az-name")], "z2");
    assert_eq!(set["metadata"]["annotations"][key("zones")], r#"["z1","z2","z3"]"#);
    assert_eq!(set["spec"]["template"]["metadata"]["annotations"][key("zones")], r#"["z1","z2","z3"]"#);
    let env = set.pointer("/spec/template/spec/initContainers/0/env").unwrap();
    for name in ["KUBE_AZ", "BOSH_AZ", "CF_OPERATOR_AZ"] {
        assert!(env.as_array().unwrap().contains(&json!({ "name": name, "value": "z2" })), "{env}");
    }
    assert!(env.as_array().unwrap().contains(&json!({ "name": "AZ_INDEX", "value": "2" })));
    // A node may have either label.
    assert_eq!(terms(set).len(), 2);
    assert_eq!(cluster.pods.len(), 6);
}

#[test]
fn d_z2_a_label_that_is_given_is_taken_literally() {
    let spec = json!({ "template": template("a", 1), "zones": ["z1"], "zoneNodeLabel": "fake-zone-label" });
    let mut cluster = Cluster::new(Group::Fissile, spec);
    cluster.settle();
    let expected =
        json!([{ "matchExpressions": [{ "key": "fake-zone-label", "operator": "In", "values": ["z1"] }] }]);
    assert_eq!(json!(terms(cluster.live("foo-z0-v1"))), expected);
}

#[test]
fn d_z11_a_beta_label_that_is_spelled_out_means_either_label_and_is_warned_of() {
    let beta = "failure-domain.beta.kubernetes.io/zone";
    let spec = |label: &str| json!({ "template": template("a", 1), "zones": ["z1"], "zoneNodeLabel": label });
    let with = |group: Group, label: &str| {
        let mut cluster = Cluster::new(group, spec(label));
        cluster.settle();
        cluster
    };
    let [given, left_out] = [beta, ""].map(|label| with(Group::Fissile, label));
    let keys: Vec<_> =
        terms(given.live("foo-z0-v1")).iter().map(|term| &term["matchExpressions"][0]["key"]).collect();
    assert_eq!(keys, [beta, "topology.kubernetes.io/zone"]);
    assert_eq!(given.live("foo-z0-v1")["spec"], left_out.live("foo-z0-v1")["spec"]);
    let warning = given.row.status.conditions.iter().find(|condition| condition.kind == "Warning").unwrap();
    assert!(warning.message.contains("topology.kubernetes.io/zone"), "{}", warning.message);
    // To leave it out afterwards ends the warning and restarts nobody.
    let mut cluster = given;
    let uids = cluster.pod_uids();
    cluster.set_field("/zoneNodeLabel", json!(""));
    cluster.settle();
    assert_eq!((cluster.pod_uids(), cluster.condition("Warning")), (uids, None));
    assert_eq!(left_out.condition("Warning"), None);
    // The label of either group is taken literally by the other one.
    for (group, label) in [(Group::Fissile, "topology.kubernetes.io/zone"), (Group::StsPlus, beta)] {
        let cluster = with(group, label);
        let set = cluster.live(cluster.names()[0]);
        assert_eq!(terms(set).len(), 1);
        assert_eq!(terms(set)[0]["matchExpressions"][0]["key"], label);
        assert_eq!(cluster.condition("Warning"), None);
    }
    let mut cluster = Cluster::new(Group::Fissile, {
        let mut spec = spec(beta);
        spec["zones"] = json!([]);
        spec
    });
    cluster.settle();
    assert_eq!(cluster.condition("Warning"), None, "without zones no label is used");
}

#[test]
fn d_z4_an_affinity_of_the_user_must_hold_as_well() {
    let mut given = template("a", 1);
    given["spec"]["template"]["spec"]["affinity"] = json!({ "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["ssd"] }] },
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] },
        ] },
    } });
    let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": given, "zones": ["z1"] }));
    cluster.settle();
    let zone = json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"] });
    let terms = terms(cluster.live("foo-z0"));
    assert_eq!(terms.len(), 2);
    assert!(
        terms.iter().all(|term| term["matchExpressions"].as_array().unwrap().contains(&zone)),
        "{terms:?}"
    );
    assert!(terms[1]["matchFields"].is_array());
}

#[test]
fn d_z5_one_more_zone_restarts_nobody() {
    for group in Group::ALL {
        let mut cluster = zoned(group, &["z1", "z2"]);
        let uids = cluster.pod_uids();
        cluster.set_field("/zones", json!(["z1", "z2", "z3"]));
        cluster.settle();
        assert_eq!(cluster.pods.len(), 6);
        assert!(uids.iter().all(|uid| cluster.pod_uids().contains(uid)));
        assert_eq!(cluster.row.status.update_version, Some(1));
        assert!(cluster.pods.values().all(|pod| pod.zones.as_deref() == Some(r#"["z1","z2","z3"]"#)));
    }
}

#[test]
fn d_z6_a_zone_that_is_removed_goes_last_and_alone() {
    for group in Group::ALL {
        let mut cluster = zoned(group, &["z1", "z2", "z3"]);
        cluster.becomes = |_, _| false;
        cluster.pods.remove(if group == Group::Fissile { "foo-z0-v1-1" } else { "foo-z0-1" });
        cluster.set_field("/zones", json!(["z1", "z3"]));
        cluster.settle();
        assert_eq!(cluster.sets.len(), 3, "not while another zone is not Ready");
        cluster.becomes = |_, _| true;
        cluster.pods.retain(|_, pod| pod.ready());
        cluster.settle();
        assert_eq!(cluster.sets.len(), 2);
        assert!(cluster.names().iter().all(|name| !name.contains("-z1")));
        assert!(cluster.condition("Ready").unwrap().0);
    }
}

#[test]
fn d_z6_the_end_of_a_zone_names_what_becomes_of_its_claims() {
    for (claims, policy, expected) in [
        (json!([]), json!(null), "is removed."),
        (json!([{ "metadata": { "name": "data" } }]), json!(null), "; its claims stay."),
        (
            json!([{ "metadata": { "name": "data" } }]),
            json!({ "whenDeleted": "Delete" }),
            "so are its claims",
        ),
    ] {
        let mut given = template("a", 1);
        given["spec"]["volumeClaimTemplates"] = claims;
        given["spec"]["persistentVolumeClaimRetentionPolicy"] = policy;
        let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": given, "zones": ["z1", "z2"] }));
        cluster.settle();
        cluster.set_field("/zones", json!(["z1"]));
        let message = cluster.decide().wait.unwrap().to_string();
        assert!(message.contains("foo-z1") && message.contains(expected), "{message}");
    }
}

#[test]
fn d_z7_another_order_of_zones_moves_nobody() {
    let mut cluster = zoned(Group::StsPlus, &["z1", "z2"]);
    let uids = cluster.pod_uids();
    cluster.set_field("/zones", json!(["z2", "z1"]));
    cluster.settle();
    assert_eq!(cluster.pod_uids(), uids);
    assert_eq!(cluster.live("foo-z0")["metadata"]["labels"]["sts.plus/az-name"], "z1");
    // Also where the status was lost.
    cluster.row.status = sts_plus_api::extended::ExtendedStatus::default();
    cluster.settle();
    assert_eq!(cluster.pod_uids(), uids);
    assert_eq!(cluster.names(), ["foo-z0", "foo-z1"]);
}

#[test]
fn d_z5_an_index_that_somebody_writes_on_a_set_gives_no_zone_its_name() {
    for index in ["4294967295", "4294967294", "12", "1"] {
        let mut cluster = zoned(Group::StsPlus, &["z1"]);
        cluster.edit_set("foo-z0", &json!({ "metadata": { "labels": { "sts.plus/az-index": index } } }));
        cluster.set_field("/zones", json!(["z1", "z2", "z3"]));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0", "foo-z1", "foo-z2"], "{index}");
        assert_eq!(cluster.live("foo-z0")["metadata"]["labels"]["sts.plus/az-index"], "0");
    }
}

#[test]
fn d_z5_an_index_beyond_all_that_zones_have_is_not_counted_on_from() {
    for greatest in [u32::MAX, u32::MAX - 1, 1 << 20] {
        let mut cluster = zoned(Group::StsPlus, &["z1"]);
        cluster.row.status.zones[0].index = greatest;
        cluster.set_field("/zones", json!(["z1", "z2", "z3"]));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0", "foo-z1", "foo-z2"], "{greatest}");
    }
}

#[test]
fn d_z8_zones_advance_one_after_another_and_keep_the_old_version_until_then() {
    let mut cluster = zoned(Group::Fissile, &["z1", "z2"]);
    cluster.becomes = |set, _| set != "foo-z1-v2";
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    assert_eq!(cluster.log, ["create foo-z0-v2", "delete foo-z0-v1", "create foo-z1-v2"]);
    assert_eq!(cluster.names(), ["foo-z0-v2", "foo-z1-v1", "foo-z1-v2"]);
}

#[test]
fn d_z9_a_crash_between_the_zones_gives_the_same_version() {
    for group in Group::ALL {
        let mut cluster =
            Cluster::new(group, json!({ "template": template("a", 1), "zones": ["z1", "z2", "z3"] }));
        cluster.settle_with_crashes();
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle_with_crashes();
        assert_eq!(cluster.row.status.current_version, Some(2));
        assert_eq!(cluster.sets.len(), 3);
    }
}

#[test]
fn d_z10_zones_that_are_empty_or_given_twice_are_refused() {
    for zones in [json!([""]), json!(["z1", "z1"])] {
        let mut cluster =
            Cluster::new(Group::StsPlus, json!({ "template": template("a", 1), "zones": zones }));
        cluster.settle();
        assert!(cluster.sets.is_empty());
        assert_eq!(cluster.condition("Stalled"), Some((true, "InvalidSpec".to_owned())));
    }
}

#[test]
fn d_z3_in_place_zones_form_a_rollout_group_of_sets_that_wait_for_it() {
    let mut cluster = zoned(Group::StsPlus, &["dal10", "dal13"]);
    let set = cluster.live("foo-z0");
    assert_eq!(set["metadata"]["labels"]["rollout-group"], "foo.ests");
    assert_eq!(set["spec"]["updateStrategy"]["type"], "OnDelete");
    assert_eq!(cluster.pods.len(), 4);
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    assert_eq!(cluster.log, ["replace foo-z0", "replace foo-z1"]);
}

#[test]
fn d_from_one_place_to_zones_the_old_set_goes_last() {
    let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": template("a", 1), "zones": [] }));
    cluster.settle();
    cluster.set_field("/zones", json!(["z1"]));
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-z0"]);
    assert_eq!(cluster.log.last().unwrap(), "delete foo");
}
