//! S1 to S16 and B1: versions that share ordinals and claims.

use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::keys;

use super::cluster::{Cluster, with_and_without_restarts};
use super::creation::template;

/// A template with a claim.
pub(super) fn with_claims(image: &str, replicas: u32) -> Value {
    let mut given = template(image, replicas);
    given["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "pvc" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    given
}

fn settled(group: Group, replicas: u32) -> Cluster {
    let spec = json!({ "template": with_claims("a", replicas), "updateStrategy": { "type": "Handover" } });
    let mut cluster = Cluster::new(group, spec);
    cluster.settle();
    cluster
}

const IMAGE: &str = "/template/spec/template/spec/containers/0/image";
const REPLICAS: &str = "/template/spec/replicas";

fn ready(cluster: &Cluster) {
    assert_eq!(
        cluster.condition("Ready"),
        Some((true, "AsRequested".to_owned())),
        "{:#?}",
        cluster.row.status
    );
}

/// The ranges of the sets, each as `<version>:<ordinals>`.
fn ranges(cluster: &Cluster) -> Vec<String> {
    let sets = cluster.sets.iter();
    sets.map(|(name, (set, _))| format!("{name}:{:?}", set.ordinals())).collect()
}

/// Passes and the StatefulSet controller until this holds.
fn until(cluster: &mut Cluster, holds: impl Fn(&Cluster) -> bool) {
    for _ in 0..200 {
        if holds(cluster) {
            return;
        }
        cluster.pass_of(1);
        cluster.control();
    }
    panic!("{:?} {:#?} {:#?}", ranges(cluster), cluster.log, cluster.row.status);
}

#[test]
fn d_s1_pods_mount_claims_of_their_ordinal_in_every_version() {
    with_and_without_restarts(|| {
        let mut cluster = Cluster::new(Group::Fissile, json!({ "template": with_claims("a", 2) }));
        cluster.settle();
        ready(&cluster);
        assert_eq!(cluster.names(), ["foo-v1"], "handover is the default with claims");
        let claims = ["foo-v1-0 pvc-volume-management-foo-0", "foo-v1-1 pvc-volume-management-foo-1"];
        assert_eq!(cluster.mounts(), claims);
        let claim = &cluster.volumes.live["pvc-volume-management-foo-1"];
        let labels = &claim["metadata"]["labels"];
        assert_eq!(labels["fissile.cloudfoundry.org/extendedstatefulset-name"], "foo");
        assert_eq!(labels["fissile.cloudfoundry.org/az-index"], "0");
        assert_eq!(labels["fissile.cloudfoundry.org/pod-ordinal"], "1");
        assert_eq!(claim["metadata"]["ownerReferences"], Value::Null);
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        ready(&cluster);
        let claims = ["foo-v2-0 pvc-volume-management-foo-0", "foo-v2-1 pvc-volume-management-foo-1"];
        assert_eq!(cluster.mounts(), claims);
        assert_eq!((cluster.names(), cluster.volumes.claims.len()), (vec!["foo-v2"], 2));
    });
}

#[test]
fn d_s1_a_set_has_a_placeholder_volume_and_no_claim_templates() {
    let cluster = settled(Group::StsPlus, 1);
    let live = cluster.live("foo-v1");
    assert_eq!(live["spec"]["volumeClaimTemplates"], Value::Null);
    assert_eq!(live["spec"]["podManagementPolicy"], "Parallel");
    let pod = &live["spec"]["template"];
    let volume = json!({ "name": "pvc", "persistentVolumeClaim": { "claimName": "pvc-volume-management-foo.ordinal" } });
    assert_eq!(pod["spec"]["volumes"], json!([volume]));
    assert_eq!(pod["metadata"]["labels"][keys::STABLE_CLAIMS], "true");
}

#[test]
fn d_b1_the_highest_ordinal_goes_first_and_each_next_one_when_it_is_ready() {
    with_and_without_restarts(|| {
        let mut cluster = settled(Group::StsPlus, 3);
        cluster.log.clear();
        cluster.becomes = |_, image| image == "a";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(ranges(&cluster), ["foo-v1:0..2", "foo-v2:2..3"], "the canary is not Ready");
        assert_eq!(cluster.condition("Ready"), Some((false, "HandingOver".to_owned())));
        assert_eq!(cluster.row.status.current_version, Some(1));
        assert_eq!(cluster.row.status.versions[1].zones[0].ordinals, "2");
        cluster.becomes = |_, _| true;
        for pod in cluster.pods.values_mut() {
            pod.ready_since = Some(cluster.now);
            (pod.waiting, pod.running, pod.phase) = (None, true, crate::pod::Phase::Running);
        }
        cluster.settle();
        ready(&cluster);
        assert_eq!(ranges(&cluster), ["foo-v2:0..3"]);
        assert_eq!(cluster.row.status.current_version, Some(2));
    });
}

#[test]
fn d_s8_a_pod_that_terminates_is_waited_for_and_never_forced() {
    with_and_without_restarts(|| {
        let mut cluster = settled(Group::StsPlus, 2);
        cluster.volumes.lingers = true;
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(ranges(&cluster), ["foo-v1:0..1", "foo-v2:0..0"], "nobody has ordinal 1 meanwhile");
        assert_eq!(cluster.condition("Ready"), Some((false, "VolumeInUse".to_owned())));
        let message = &cluster.row.status.conditions[0].message;
        assert!(message.contains("foo-v1-1"), "{message}");
        cluster.let_end();
        cluster.settle();
        assert_eq!(ranges(&cluster), ["foo-v1:0..0", "foo-v2:1..2"]);
        cluster.let_end();
        cluster.settle();
        ready(&cluster);
        assert_eq!(ranges(&cluster), ["foo-v2:0..2"]);
    });
}

#[test]
fn d_s2_s3_s4_claims_belong_to_ordinals_through_versions_and_scaling() {
    with_and_without_restarts(|| {
        let mut cluster = settled(Group::StsPlus, 1);
        for (field, value, pods) in [
            (REPLICAS, json!(2), 2),
            (IMAGE, json!("b"), 2),
            (REPLICAS, json!(4), 4),
            (REPLICAS, json!(1), 1),
            (IMAGE, json!("c"), 1),
            (REPLICAS, json!(3), 3),
        ] {
            cluster.set_field(field, value);
            cluster.settle();
            ready(&cluster);
            let names = cluster.names();
            let [set] = &names[..] else { panic!("{names:?}") };
            let mounts: Vec<_> =
                (0..pods).map(|pod| format!("{set}-{pod} pvc-volume-management-foo-{pod}")).collect();
            assert_eq!(cluster.mounts(), mounts);
        }
        assert_eq!(cluster.volumes.claims.len(), 4, "claims of removed ordinals stay");
        assert_eq!(cluster.row.status.current_version, Some(3), "scaling makes no version");
    });
}

#[test]
fn d_s4_claims_of_removed_ordinals_are_deleted_where_the_policy_says_so() {
    with_and_without_restarts(|| {
        let mut given = with_claims("a", 3);
        given["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({ "whenScaled": "Delete" });
        let spec = json!({ "template": given, "updateStrategy": { "type": "Handover" } });
        let mut cluster = Cluster::new(Group::StsPlus, spec);
        cluster.settle();
        cluster.volumes.lingers = true;
        cluster.set_field(REPLICAS, json!(1));
        cluster.settle();
        assert_eq!(cluster.volumes.claims.len(), 3, "their pods still exist");
        cluster.let_end();
        cluster.settle();
        ready(&cluster);
        assert_eq!(cluster.volumes.claims.keys().collect::<Vec<_>>(), ["pvc-volume-management-foo-0"]);
    });
}

#[test]
fn d_s7_claims_belong_to_the_object_only_where_the_policy_says_delete() {
    let mut cluster = settled(Group::StsPlus, 1);
    let owners = |cluster: &Cluster| {
        let claims = cluster.volumes.claims.values();
        claims.map(|claim| claim.owners.len()).collect::<Vec<_>>()
    };
    assert_eq!(owners(&cluster), [0]);
    let mut given = with_claims("a", 2);
    given["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({ "whenDeleted": "Delete" });
    cluster.edit(json!({ "template": given, "updateStrategy": { "type": "Handover" } }));
    cluster.settle();
    assert_eq!(owners(&cluster), [1, 1]);
    assert_eq!(&*cluster.volumes.claims["pvc-volume-management-foo-0"].owners[0].uid, "uid-foo");
    cluster.edit(json!({ "template": with_claims("a", 2), "updateStrategy": { "type": "Handover" } }));
    cluster.settle();
    assert_eq!(owners(&cluster), [0, 0]);
}

#[test]
fn d_s9_each_zone_has_claims_of_its_own_and_zones_follow_each_other() {
    with_and_without_restarts(|| {
        let spec = json!({
            "template": with_claims("a", 2), "zones": ["a", "b"], "updateStrategy": { "type": "Handover" },
        });
        let mut cluster = Cluster::new(Group::StsPlus, spec);
        cluster.settle();
        ready(&cluster);
        let mounts = cluster.mounts();
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[2], "foo-z1-v1-0 pvc-volume-management-foo-z1-0");
        assert_eq!(cluster.row.status.zones[1].claim_prefix, "foo-z1");
        cluster.becomes = |set, image| image == "a" || !set.starts_with("foo-z0");
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(ranges(&cluster), ["foo-z0-v1:0..1", "foo-z0-v2:1..2", "foo-z1-v1:0..2"]);
    });
}

#[test]
fn d_s10_a_claim_template_that_is_added_gives_new_pods_new_claims() {
    with_and_without_restarts(|| {
        let mut cluster = settled(Group::StsPlus, 1);
        let mut more = with_claims("a", 1);
        let wal = json!({ "metadata": { "name": "wal", "labels": { "tier": "fast" } }, "spec": {} });
        more["spec"]["volumeClaimTemplates"].as_array_mut().unwrap().push(wal);
        cluster.edit(json!({ "template": more, "updateStrategy": { "type": "Handover" } }));
        cluster.settle();
        ready(&cluster);
        let mounts = "foo-v2-0 pvc-volume-management-foo-0 wal-volume-management-foo-0";
        assert_eq!(cluster.mounts(), [mounts]);
        assert_eq!(cluster.volumes.live["wal-volume-management-foo-0"]["metadata"]["labels"]["tier"], "fast");
    });
}

#[test]
fn d_s11_a_claim_grows_with_its_template_and_never_shrinks() {
    with_and_without_restarts(|| {
        let mut cluster = settled(Group::StsPlus, 2);
        let storage = "/template/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
        let sizes = |cluster: &Cluster| {
            let claims = cluster.volumes.live.values();
            claims.map(|claim| claim["spec"]["resources"]["requests"]["storage"].clone()).collect::<Vec<_>>()
        };
        cluster.set_field(storage, json!("2Gi"));
        cluster.settle();
        ready(&cluster);
        assert_eq!(sizes(&cluster), ["2Gi", "2Gi"]);
        cluster.set_field(storage, json!("512Mi"));
        cluster.settle();
        assert_eq!(sizes(&cluster), ["2Gi", "2Gi"]);
    });
}

#[test]
fn d_s12_a_claim_template_that_is_removed_leaves_its_claims_and_a_warning() {
    with_and_without_restarts(|| {
        let mut cluster = settled(Group::StsPlus, 2);
        let mut without = template("a", 2);
        without["spec"]["template"]["spec"]["volumes"] = json!([{ "name": "pvc", "emptyDir": {} }]);
        cluster.edit(json!({ "template": without, "updateStrategy": { "type": "Handover" } }));
        cluster.settle();
        ready(&cluster);
        assert_eq!((cluster.names(), cluster.volumes.claims.len()), (vec!["foo-v2"], 2));
        assert_eq!(cluster.mounts(), ["foo-v2-0 ", "foo-v2-1 "]);
        let warning =
            cluster.row.status.conditions.iter().find(|condition| condition.kind == "Warning").unwrap();
        assert!(warning.message.contains("pvc-volume-management-foo-0"), "{}", warning.message);
    });
}

#[test]
fn d_s15_a_pod_that_is_deleted_comes_back_without_the_operator() {
    let mut cluster = settled(Group::StsPlus, 2);
    cluster.pods.remove("foo-v1-1").unwrap();
    cluster.control();
    assert_eq!(cluster.mounts()[1], "foo-v1-1 pvc-volume-management-foo-1");
}

#[test]
fn d_s16_claims_of_cf_operator_are_adopted_and_its_helper_is_removed() {
    with_and_without_restarts(|| {
        let mut cluster = Cluster::new(Group::Fissile, json!({ "template": with_claims("a", 2) }));
        let claim = json!({ "metadata": { "labels": { "app": "foo" } }, "spec": {} });
        cluster.create_claim("pvc-volume-management-foo-0", claim);
        helper(&mut cluster);
        cluster.control();
        cluster.volumes.lingers = true;
        cluster.settle();
        assert!(!cluster.names().contains(&"volume-management-foo"), "{:?}", cluster.log);
        assert_eq!(
            cluster.condition("Ready"),
            Some((false, "VolumeInUse".to_owned())),
            "its pod still has the volume"
        );
        cluster.let_end();
        cluster.settle();
        ready(&cluster);
        assert_eq!(cluster.names(), ["foo-v1"]);
        let adopted = &cluster.volumes.claims["pvc-volume-management-foo-0"];
        assert_eq!(&*adopted.uid, "uid-pvc-volume-management-foo-0");
        let labels = &cluster.volumes.live["pvc-volume-management-foo-0"]["metadata"]["labels"];
        assert_eq!(
            (&labels["app"], &labels["fissile.cloudfoundry.org/extendedstatefulset-name"]),
            (&json!("foo"), &json!("foo"))
        );
    });
}

/// The StatefulSet that cf-operator has left, with a pod that has a claim.
fn helper(cluster: &mut Cluster) {
    let mut live = json!({
        "metadata": {
            "name": "volume-management-foo", "namespace": "ns",
            "ownerReferences": [{
                "apiVersion": "fissile.cloudfoundry.org/v1alpha1", "kind": "ExtendedStatefulSet", "name": "foo",
                "uid": "uid-foo", "controller": true,
            }],
        },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "helper" } }, "template": {
            "metadata": { "labels": { "app": "helper" } },
            "spec": {
                "containers": [{ "name": "main", "image": "a" }],
                "volumes": [{
                    "name": "pvc", "persistentVolumeClaim": { "claimName": "pvc-volume-management-foo-0" },
                }],
            },
        } },
    });
    let row = super::rows::set_row(Group::Fissile, &live, "1");
    live["metadata"]["uid"] = json!(row.uid);
    cluster.sets.insert("volume-management-foo".to_owned(), (row, live));
}

#[test]
fn a_claim_of_somebody_else_is_left_alone_and_its_ordinal_waits() {
    with_and_without_restarts(|| {
        let spec = json!({ "template": with_claims("a", 2), "updateStrategy": { "type": "Handover" } });
        let mut cluster = Cluster::new(Group::StsPlus, spec);
        let theirs =
            json!({ "metadata": { "labels": { "sts.plus/extendedstatefulset-name": "bar" } }, "spec": {} });
        cluster.create_claim("pvc-volume-management-foo-0", theirs.clone());
        cluster.settle();
        assert_eq!(cluster.condition("Stalled"), Some((true, "ClaimTaken".to_owned())));
        assert_eq!(cluster.volumes.live["pvc-volume-management-foo-0"], theirs);
        assert_eq!(cluster.mounts(), ["foo-v1-1 pvc-volume-management-foo-1"]);
    });
}

#[test]
fn a_claim_that_is_being_deleted_or_has_lost_its_volume_is_reported() {
    for (field, state) in [
        (json!({ "metadata": { "deletionTimestamp": "2026-11-16T10:00:00Z" } }), "ClaimTerminating"),
        (json!({ "status": { "phase": "Lost" } }), "ClaimLost"),
    ] {
        let mut cluster = settled(Group::StsPlus, 2);
        let mut live = cluster.volumes.live["pvc-volume-management-foo-1"].clone();
        super::rows::merge(&mut live, &field);
        cluster.create_claim("pvc-volume-management-foo-1", live);
        cluster.settle();
        assert_eq!(cluster.condition("Ready"), Some((false, state.to_owned())));
        assert_eq!(cluster.volumes.claims.len(), 2);
        // No other version gets it.
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.condition("Ready").unwrap().1, state);
    }
}

#[test]
fn d_v3_a_third_version_takes_over_from_two_that_share_the_ordinals() {
    with_and_without_restarts(|| {
        let mut cluster = settled(Group::StsPlus, 3);
        cluster.becomes = |_, image| image != "bad";
        cluster.set_field(IMAGE, json!("bad"));
        cluster.settle();
        assert_eq!(ranges(&cluster), ["foo-v1:0..2", "foo-v2:2..3"]);
        cluster.set_field(IMAGE, json!("c"));
        cluster.settle();
        ready(&cluster);
        assert_eq!(ranges(&cluster), ["foo-v3:0..3"]);
    });
}

#[test]
fn d_v3_a_broken_version_can_always_be_replaced() {
    with_and_without_restarts(|| {
        let spec = json!({ "template": with_claims("bad", 2), "updateStrategy": { "type": "Handover" } });
        let mut cluster = Cluster::new(Group::StsPlus, spec);
        cluster.settle();
        assert_eq!(ranges(&cluster), ["foo-v1:0..2"]);
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        ready(&cluster);
        assert_eq!(ranges(&cluster), ["foo-v2:0..2"]);
    });
}

#[test]
fn d_v20_a_revert_in_the_middle_hands_the_ordinals_back() {
    with_and_without_restarts(|| {
        let mut cluster = settled(Group::StsPlus, 3);
        let kept = cluster.pods["foo-v1-0"].uid.clone();
        cluster.becomes = |set, _| set != "foo-v2";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        cluster.set_field(IMAGE, json!("a"));
        cluster.settle();
        ready(&cluster);
        assert_eq!(ranges(&cluster), ["foo-v1:0..3"]);
        assert_eq!(cluster.pods["foo-v1-0"].uid, kept);
        assert_eq!(cluster.row.status.current_version, Some(1));
    });
}

#[test]
fn a_handover_goes_on_while_it_is_scaled_in_both_directions() {
    with_and_without_restarts(|| {
        for replicas in [0, 1, 2, 5] {
            for begun in ["foo-v1:0..3", "foo-v1:0..2", "foo-v1:0..1"] {
                let mut cluster = settled(Group::StsPlus, 3);
                cluster.set_field(IMAGE, json!("b"));
                until(&mut cluster, |cluster| ranges(cluster)[0] == begun && cluster.sets.len() == 2);
                cluster.set_field(REPLICAS, json!(replicas));
                cluster.settle();
                ready(&cluster);
                let (set, _) = &cluster.sets["foo-v2"];
                assert_eq!(
                    (cluster.names(), set.replicas, cluster.pods.len()),
                    (vec!["foo-v2"], replicas, replicas as usize)
                );
                assert!(set.first_ordinal == 0 || replicas == 0, "{:?}", ranges(&cluster));
            }
        }
    });
}

#[test]
fn a_pause_keeps_ordinals_where_they_are_and_scaling_continues() {
    with_and_without_restarts(|| {
        let mut cluster = settled(Group::StsPlus, 3);
        cluster.set_field(IMAGE, json!("b"));
        until(&mut cluster, |cluster| ranges(cluster) == ["foo-v1:0..2", "foo-v2:2..3"]);
        cluster.edit(json!({
            "template": with_claims("a", 4), "updateStrategy": { "type": "Handover" }, "paused": true,
        }));
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(ranges(&cluster), ["foo-v1:0..2", "foo-v2:2..4"]);
        assert_eq!(cluster.condition("Ready"), Some((true, "Paused".to_owned())));
        cluster.set_field("/paused", json!(false));
        cluster.settle();
        ready(&cluster);
    });
}

#[test]
fn a_pause_before_the_first_ordinal_lets_the_old_version_scale() {
    let mut cluster = settled(Group::StsPlus, 2);
    cluster.edit(json!({
        "template": with_claims("b", 3), "updateStrategy": { "type": "Handover" }, "paused": true,
    }));
    cluster.settle();
    assert_eq!(ranges(&cluster), ["foo-v1:0..3"]);
}

#[test]
fn d_v22_a_failed_version_stays_where_it_is_by_default_and_is_handed_back_with_rollback() {
    with_and_without_restarts(|| {
        for on_failure in ["Pause", "Rollback"] {
            let spec = json!({
                "template": with_claims("a", 3), "updateStrategy": { "type": "Handover", "onFailure": on_failure },
            });
            let mut cluster = Cluster::new(Group::StsPlus, spec);
            cluster.settle();
            cluster.set_field(IMAGE, json!("bad"));
            cluster.settle();
            assert_eq!(ranges(&cluster), ["foo-v1:0..2", "foo-v2:2..3"]);
            cluster.open = jiff::SignedDuration::from_secs(600);
            for _ in 0..20 {
                cluster.open = jiff::SignedDuration::from_secs(600);
                cluster.pass_of(usize::MAX);
            }
            cluster.settle();
            let reason = cluster.condition("Stalled").unwrap().1;
            if on_failure == "Pause" {
                assert_eq!(ranges(&cluster), ["foo-v1:0..2", "foo-v2:2..3"]);
                assert_eq!(reason, "ProgressDeadlineExceeded");
            } else {
                assert_eq!(ranges(&cluster), ["foo-v1:0..3"]);
                assert_eq!(reason, "RolledBack");
            }
            cluster.set_field(IMAGE, json!("c"));
            cluster.settle();
            ready(&cluster);
        }
    });
}

#[test]
fn i2_another_pod_that_is_not_ready_blocks_the_next_ordinal() {
    let mut cluster = settled(Group::StsPlus, 3);
    cluster.pods.get_mut("foo-v1-1").unwrap().ready_since = None;
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    assert_eq!(ranges(&cluster), ["foo-v1:0..3", "foo-v2:0..0"]);
    assert_eq!(cluster.condition("Ready"), Some((false, "HandoverBlocked".to_owned())));
    let message = &cluster.row.status.conditions[0].message;
    assert!(message.contains("foo-v1-2 is deleted: foo-v1-1 is not Ready"), "{message}");
    cluster.edit(json!({
        "template": with_claims("a", 3), "updateStrategy": { "type": "Handover", "maxUnavailable": 2 },
    }));
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    ready(&cluster);
}

#[test]
fn d_v3_a_pod_that_is_not_ready_at_either_end_goes_first() {
    for (pod, begun) in
        [("foo-v1-0", ["foo-v1:1..3", "foo-v2:0..1"]), ("foo-v1-2", ["foo-v1:0..2", "foo-v2:2..3"])]
    {
        let mut cluster = settled(Group::StsPlus, 3);
        cluster.pods.get_mut(pod).unwrap().ready_since = None;
        cluster.set_field(IMAGE, json!("b"));
        until(&mut cluster, |cluster| ranges(cluster) == begun);
        cluster.settle();
        ready(&cluster);
        assert_eq!(ranges(&cluster), ["foo-v2:0..3"]);
    }
}

#[test]
fn a_pod_that_admission_has_not_seen_is_reported_and_replaced() {
    let mut cluster = settled(Group::StsPlus, 1);
    cluster.volumes.unmutated = true;
    cluster.set_field(REPLICAS, json!(2));
    for _ in 0..20 {
        cluster.pass_of(usize::MAX);
        cluster.control();
    }
    assert_eq!(cluster.condition("Ready"), Some((false, "NotMutated".to_owned())));
    assert!(cluster.log.contains(&"delete foo-v1-1".to_owned()), "{:?}", cluster.log);
    cluster.volumes.unmutated = false;
    cluster.settle();
    ready(&cluster);
}

#[test]
fn data_does_not_stay_behind_unnoticed_when_the_strategy_changes() {
    let mut cluster = Cluster::new(Group::StsPlus, json!({ "template": with_claims("a", 2) }));
    cluster.settle();
    assert_eq!(cluster.names(), ["foo"]);
    cluster.edit(json!({ "template": with_claims("a", 2), "updateStrategy": { "type": "Handover" } }));
    cluster.settle();
    assert_eq!(cluster.condition("Stalled"), Some((true, "ClaimsStayBehind".to_owned())));
    assert_eq!(cluster.names(), ["foo"]);
    let mut cluster = settled(Group::StsPlus, 2);
    cluster.edit(json!({ "template": with_claims("a", 2) }));
    cluster.settle();
    assert_eq!(cluster.condition("Stalled"), Some((true, "ClaimsStayBehind".to_owned())));
    assert_eq!(cluster.names(), ["foo-v1"]);
}

#[test]
fn blue_green_shares_the_claims_where_that_is_allowed() {
    with_and_without_restarts(|| {
        let blue_green = json!({ "type": "BlueGreen", "blueGreen": { "sharedClaims": "Allow" } });
        let spec = json!({ "template": with_claims("a", 2), "updateStrategy": blue_green });
        let mut cluster = Cluster::new(Group::StsPlus, spec);
        cluster.volumes.shared = true;
        cluster.settle();
        ready(&cluster);
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        ready(&cluster);
        let claims = ["foo-v2-0 pvc-volume-management-foo-0", "foo-v2-1 pvc-volume-management-foo-1"];
        assert_eq!(cluster.mounts(), claims);
        assert_eq!(cluster.volumes.claims.len(), 2);
    });
}

#[test]
fn hooks_are_refused_with_a_message() {
    for fields in [json!({ "scaleDown": { "fence": "Lock" } }), json!({ "deletionPolicy": "Drain" })] {
        let mut spec = json!({ "template": with_claims("a", 1), "updateStrategy": { "type": "Handover" } });
        super::rows::merge(&mut spec, &fields);
        let mut cluster = Cluster::new(Group::StsPlus, spec);
        cluster.settle();
        assert_eq!(cluster.condition("Stalled"), Some((true, "InvalidSpec".to_owned())));
    }
}

#[test]
fn without_claims_a_handover_never_runs_an_ordinal_twice() {
    with_and_without_restarts(|| {
        let spec = json!({ "template": template("a", 3), "updateStrategy": { "type": "Handover" } });
        let mut cluster = Cluster::new(Group::StsPlus, spec);
        cluster.settle();
        cluster.volumes.lingers = true;
        cluster.set_field(IMAGE, json!("b"));
        for _ in 0..10 {
            cluster.settle();
            let mut ordinals: Vec<_> = cluster.pods.keys().map(|pod| super::rows::ordinal(pod)).collect();
            ordinals.sort_unstable();
            assert!(ordinals.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", cluster.pods.keys());
            cluster.let_end();
        }
        cluster.settle();
        ready(&cluster);
        assert_eq!(ranges(&cluster), ["foo-v2:0..3"]);
    });
}
