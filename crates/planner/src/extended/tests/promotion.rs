//! When a version is promoted and its predecessor removed: I7, midway changes, and what clients reach meanwhile.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sts_plus_api::extended::Group;

use super::cluster::{Cluster, with_and_without_restarts};
use super::creation::template;
use crate::extended::children::belongs;
use crate::pod::PodRow;
use crate::set::SetRow;

pub(super) const IMAGE: &str = "/template/spec/template/spec/containers/0/image";
pub(super) const REPLICAS: &str = "/template/spec/replicas";

/// A BlueGreen object with a port, an active and a preview Service.
pub(super) fn served(group: Group, zones: &[&str], blue_green: &Value) -> Cluster {
    let mut given = template("a", 2);
    given["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80 }]);
    let spec = json!({
        "template": given, "zones": zones, "paused": false,
        "updateStrategy": { "type": "BlueGreen", "blueGreen": blue_green, "onFailure": "Pause" },
        "services": { "active": "live", "preview": "next", "perReplica": true },
    });
    let mut cluster = Cluster::new(group, spec);
    cluster.settle();
    cluster.log.clear();
    cluster
}

fn heal(cluster: &mut Cluster, set: &str) {
    let now = cluster.now;
    for (_, pod) in cluster.pods.iter_mut().filter(|(name, _)| name.starts_with(set)) {
        (pod.ready_since, pod.waiting, pod.running) = (Some(now), None, true);
    }
}

fn fail(cluster: &mut Cluster, set: &str) {
    for (_, pod) in cluster.pods.iter_mut().filter(|(name, _)| name.starts_with(set)) {
        pod.ready_since = None;
    }
}

#[test]
fn d_v19_the_active_service_selects_promoted_versions_only_before_each_write_and_after_it() {
    for zones in [&[][..], &["z1", "z2", "z3"]] {
        let mut cluster = served(Group::StsPlus, zones, &json!({}));
        cluster.becomes = |set, image| image != "b" || set != "foo-z1-v2";
        cluster.set_field(IMAGE, json!("b"));
        for pass in 0..200 {
            let did = cluster.pass_of(1);
            let endpoints = cluster.endpoints("live");
            assert!(!endpoints.is_empty(), "nobody serves: {:?}", cluster.log);
            for pod in endpoints {
                let set = pod.rsplit_once('-').unwrap().0;
                let is_alone =
                    cluster.names().iter().filter(|name| name.starts_with(&set[..set.len() - 1])).count()
                        == 1;
                let ready =
                    |ordinal: u32| cluster.pods.get(&format!("{set}-{ordinal}")).is_some_and(PodRow::ready);
                assert!(is_alone || set.ends_with("-v1") || ready(0) && ready(1), "{pod}: {:?}", cluster.log);
            }
            if did == 0 && !cluster.control() {
                if cluster.row.status.current_version == Some(2) {
                    break;
                }
                // The zone that is stuck recovers.
                assert!(pass < 150);
                assert!(!zones.is_empty());
                let live = cluster.endpoints("live");
                assert_eq!(
                    live,
                    [
                        "foo-z0-v2-0",
                        "foo-z0-v2-1",
                        "foo-z1-v1-0",
                        "foo-z1-v1-1",
                        "foo-z2-v1-0",
                        "foo-z2-v1-1"
                    ]
                );
                assert!(cluster.endpoints("next").iter().all(|pod| pod.contains("-v2-")));
                assert_eq!(cluster.endpoints("foo-z0-0"), ["foo-z0-v2-0"]);
                assert_eq!(cluster.endpoints("foo-z1-0"), ["foo-z1-v1-0"]);
                cluster.becomes = |_, _| true;
                heal(&mut cluster, "foo-z1-v2");
            }
        }
        let selector = &cluster.services["live"].1["spec"]["selector"];
        assert_eq!(*selector, json!({ "sts.plus/extendedstatefulset-name": "foo", "sts.plus/version": "2" }));
    }
}

#[test]
fn d_v19_the_active_service_does_not_follow_a_version_that_is_not_promoted() {
    with_and_without_restarts(|| {
        // The first version never became Ready in full, so no version was promoted everywhere yet.
        let mut cluster = served(Group::Fissile, &[], &json!({ "minReady": 2 }));
        fail(&mut cluster, "foo-v1-1");
        cluster.row.status.current_version = None;
        cluster.becomes = |_, _| false;
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
        assert_eq!(cluster.endpoints("live"), ["foo-v1-0"]);
        assert_eq!(
            cluster.row.status.selector.as_deref(),
            Some(
                "fissile.cloudfoundry.org/extendedstatefulset-name=foo,fissile.cloudfoundry.org/az-index=0,\
                 fissile.cloudfoundry.org/version=1"
            )
        );
        assert_eq!(cluster.row.status.replicas, Some(2));
    });
}

#[test]
fn d_v22_a_version_that_breaks_between_its_promotion_and_the_removal_of_the_old_one_gives_way_to_it() {
    let mut cluster = served(Group::StsPlus, &[], &json!({}));
    cluster.set_field(IMAGE, json!("b"));
    // The operator crashes once the Service selects version 2.
    for _ in 0..100 {
        if cluster.endpoints("live").iter().all(|pod| pod.contains("-v2-")) {
            break;
        }
        cluster.pass_of(1);
        cluster.control();
    }
    assert_eq!((cluster.names(), cluster.endpoints("live").len()), (vec!["foo-v1", "foo-v2"], 2));
    fail(&mut cluster, "foo-v2");
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
    assert_eq!(cluster.endpoints("live"), ["foo-v1-0", "foo-v1-1"]);
}

#[test]
fn d_v19_a_percentage_of_ready_pods_is_rounded_up() {
    let mut cluster = served(Group::StsPlus, &[], &json!({ "minReady": "50%" }));
    cluster.set_field(REPLICAS, json!(3));
    cluster.settle();
    cluster.becomes = |_, _| false;
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    heal(&mut cluster, "foo-v2-0");
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v1", "foo-v2"], "one of three is less than half");
}

#[test]
fn d_v2_a_third_version_midway_takes_over_zone_by_zone() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &["z1", "z2"], &json!({}));
        cluster.becomes = |set, _| set != "foo-z1-v2";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v2", "foo-z1-v1", "foo-z1-v2"]);
        cluster.set_field(IMAGE, json!("c"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v3", "foo-z1-v3"]);
        assert_eq!(cluster.row.status.current_version, Some(3));
    });
}

#[test]
fn d_v18_a_revert_midway_restores_each_zone() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &["z1", "z2"], &json!({}));
        cluster.becomes = |set, _| set != "foo-z1-v2";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        cluster.set_field(IMAGE, json!("a"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v1", "foo-z1-v1"]);
        assert_eq!(cluster.row.status.current_version, Some(1));
    });
}

#[test]
fn d_v18_a_number_is_not_used_twice_for_other_content() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &[], &json!({}));
        cluster.becomes = |_, image| image != "b";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        cluster.set_field(IMAGE, json!("a"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v1"]);
        cluster.set_field(IMAGE, json!("c"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v3"]);
    });
}

#[test]
fn d_v15_scaling_midway_scales_all_versions_and_0_replicas_promote() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &[], &json!({}));
        cluster.becomes = |_, image| image != "b";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        cluster.set_field(REPLICAS, json!(3));
        cluster.settle();
        assert_eq!(cluster.pods.len(), 6);
        cluster.set_field(REPLICAS, json!(0));
        cluster.settle();
        assert_eq!((cluster.names(), cluster.pods.len()), (vec!["foo-v2"], 0));
    });
}

#[test]
fn d_paused_midway_nothing_is_created_promoted_or_removed_and_no_deadline_runs() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &["z1", "z2"], &json!({}));
        cluster.becomes = |_, _| false;
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        cluster.set_field("/paused", json!(true));
        cluster.settle();
        cluster.log.clear();
        let before = cluster.row.status.progress.clone();
        cluster.open = SignedDuration::from_secs(10_000);
        cluster.pass_of(usize::MAX);
        assert_eq!(cluster.row.status.progress, before);
        assert_eq!(cluster.condition("Ready"), Some((true, "Paused".to_owned())));
        heal(&mut cluster, "foo-z0-v2");
        cluster.settle();
        assert_eq!(cluster.log, [""; 0]);
        assert!(cluster.endpoints("live").iter().all(|pod| pod.contains("-v1-")));
        cluster.becomes = |_, _| true;
        cluster.set_field("/paused", json!(false));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v2", "foo-z1-v2"]);
    });
}

/// Lets the deadline of the present version pass.
fn exceed(cluster: &mut Cluster) {
    for _ in 0..11 {
        cluster.open = SignedDuration::from_secs(60);
        cluster.pass_of(usize::MAX);
    }
    cluster.open = SignedDuration::ZERO;
    cluster.settle();
}

#[test]
fn d_v4_a_failed_version_is_not_promoted_by_itself_and_a_revert_removes_it() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &["z1", "z2"], &json!({}));
        cluster.becomes = |_, image| image != "b";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        exceed(&mut cluster);
        assert_eq!(cluster.condition("Stalled"), Some((true, "ProgressDeadlineExceeded".to_owned())));
        heal(&mut cluster, "foo-z0-v2");
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v1", "foo-z0-v2", "foo-z1-v1"], "everything stays as it is");
        cluster.set_field(IMAGE, json!("a"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v1", "foo-z1-v1"]);
        assert_eq!((cluster.condition("Stalled"), &cluster.row.status.failed_version), (None, &None));
    });
}

#[test]
fn d_v4_a_rollback_waits_while_paused_and_a_failed_version_is_not_created_in_a_new_zone() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &["z1"], &json!({}));
        cluster.set_field("/updateStrategy/onFailure", json!("Rollback"));
        cluster.becomes = |_, image| image != "b";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        exceed(&mut cluster);
        assert_eq!(cluster.names(), ["foo-z0-v1"]);
        cluster.set_field("/zones", json!(["z1", "z2"]));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v1"]);
        assert_eq!(cluster.condition("Stalled"), Some((true, "RolledBack".to_owned())));
        cluster.becomes = |_, _| true;
        cluster.row.approve = cluster.row.status.awaited_approval.clone().map(Into::into);
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v2", "foo-z1-v2"]);
    });
    let mut cluster = served(Group::StsPlus, &[], &json!({}));
    cluster.set_field("/updateStrategy/onFailure", json!("Rollback"));
    cluster.becomes = |_, image| image != "b";
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    for _ in 0..11 {
        cluster.open = SignedDuration::from_secs(60);
        let decision = cluster.decide();
        if decision.status.failed_version.is_some() {
            cluster.row.status = decision.status;
            break;
        }
        cluster.pass_of(usize::MAX);
    }
    assert!(cluster.row.status.failed_version.is_some());
    cluster.set_field("/paused", json!(true));
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
}

#[test]
fn d_i7_a_rollback_never_removes_the_version_that_serves() {
    let mut cluster = served(Group::StsPlus, &[], &json!({}));
    cluster.set_field("/updateStrategy/onFailure", json!("Rollback"));
    cluster.becomes = |_, image| image != "b";
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    // Version 1 is asked for again and breaks: version 2 was never promoted.
    fail(&mut cluster, "foo-v1");
    cluster.set_field(IMAGE, json!("a"));
    cluster.settle();
    exceed(&mut cluster);
    assert_eq!(cluster.row.status.failed_version.as_ref().map(|failed| failed.number), Some(1));
    assert!(cluster.names().contains(&"foo-v1"));
}

#[test]
fn d_i7_a_rollback_keeps_the_only_pods_that_are_ready() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &["z1", "z2"], &json!({}));
        cluster.set_field("/updateStrategy/onFailure", json!("Rollback"));
        fail(&mut cluster, "foo-z0-v1");
        cluster.becomes = |_, image| image != "b";
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        // One of two Ready pods is not enough to be promoted, and more than the version before has.
        heal(&mut cluster, "foo-z0-v2-0");
        exceed(&mut cluster);
        assert_eq!(cluster.names(), ["foo-z0-v1", "foo-z0-v2", "foo-z1-v1"]);
        assert!(cluster.pods["foo-z0-v2-0"].ready());
        assert_eq!(cluster.condition("Stalled"), Some((true, "ProgressDeadlineExceeded".to_owned())));
        // The version before serves again.
        heal(&mut cluster, "foo-z0-v1-1");
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v1", "foo-z1-v1"]);
        assert_eq!(cluster.condition("Stalled"), Some((true, "RolledBack".to_owned())));
    });
}

#[test]
fn d_i7_a_change_of_the_strategy_waits_for_the_replicas_that_are_asked_for() {
    let mut cluster = served(Group::StsPlus, &[], &json!({}));
    cluster.becomes = |set, _| set.contains("-v");
    cluster.set_field("/updateStrategy/type", json!("InPlace"));
    cluster.settle();
    cluster.becomes = |_, _| false;
    heal(&mut cluster, "foo-0");
    heal(&mut cluster, "foo-1");
    cluster.set_field(REPLICAS, json!(3));
    cluster.settle();
    assert_eq!(cluster.names(), ["foo", "foo-v1"], "2 of 3 are Ready");
}

#[test]
fn d_an_approval_is_needed_where_a_change_of_zones_or_of_the_strategy_replaces_content() {
    let manual = json!({ "promotion": "Manual" });
    let mut cluster = served(Group::StsPlus, &["z1"], &manual);
    let mut given = cluster.given.clone();
    given["zones"] = json!([]);
    cluster.edit(given);
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v2", "foo-z0-v1"]);
    assert_eq!(cluster.condition("Ready"), Some((false, "AwaitingApproval".to_owned())));
    cluster.row.approve = cluster.row.status.awaited_approval.clone().map(Into::into);
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v2"]);

    let mut cluster = served(Group::StsPlus, &[], &manual);
    cluster.set_field("/updateStrategy/type", json!("InPlace"));
    cluster.settle();
    assert_eq!(cluster.names(), ["foo"]);
    cluster.set_field("/updateStrategy/type", json!("BlueGreen"));
    cluster.settle();
    assert_eq!(cluster.names(), ["foo", "foo-v1"], "the set that serves is removed with the promotion");
    cluster.row.approve = cluster.row.status.awaited_approval.clone().map(Into::into);
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v1"]);
}

#[test]
fn d_a_change_of_the_strategy_keeps_what_serves_until_the_other_does() {
    with_and_without_restarts(|| {
        for zones in [&[][..], &["z1", "z2"]] {
            let mut cluster = served(Group::StsPlus, zones, &json!({}));
            cluster.becomes = |set, _| set.contains("-v");
            cluster.set_field("/updateStrategy/type", json!("InPlace"));
            cluster.settle();
            let both = cluster.sets.len();
            assert_eq!(both, 2 * zones.len().max(1));
            cluster.set_field(REPLICAS, json!(3));
            cluster.settle();
            assert!(cluster.sets.values().all(|(set, _)| set.replicas == 3), "the set that serves is scaled");
            cluster.becomes = |_, _| true;
            heal(&mut cluster, "foo");
            cluster.settle();
            assert!(cluster.names().iter().all(|name| !name.contains("-v")));
            cluster.set_field("/paused", json!(true));
            cluster.set_field("/updateStrategy/type", json!("BlueGreen"));
            cluster.settle();
            assert!(cluster.names().iter().all(|name| !name.contains("-v")), "not while paused");
            cluster.set_field("/paused", json!(false));
            cluster.settle();
            assert_eq!(cluster.sets.len(), zones.len().max(1));
            assert!(cluster.names().iter().all(|name| name.ends_with("-v1")));
        }
    });
}

#[test]
fn d_an_object_whose_name_ends_like_a_version_has_its_own_sets() {
    for strategy in ["BlueGreen", "InPlace"] {
        let mut cluster = Cluster::new(
            Group::StsPlus,
            json!({ "template": template("a", 1), "updateStrategy": { "type": strategy } }),
        );
        cluster.row.name = "foo-v7".into();
        cluster.settle();
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        let name = if strategy == "BlueGreen" { "foo-v7-v2" } else { "foo-v7" };
        assert_eq!(cluster.names(), [name]);
        assert_eq!(cluster.row.status.current_version, Some(2));
    }
}

#[test]
fn d_the_active_pod_is_relieved_before_its_version_is_removed_and_an_unpromoted_one_comes_last() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &[], &json!({ "promotion": "Manual" }));
        let mut given = cluster.given.clone();
        given["activeProbe"] = json!({ "main": { "tcpSocket": { "port": 80 } } });
        cluster.edit(given);
        cluster.settle();
        assert_eq!(cluster.active_pods(), ["foo-v1-0"]);
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        fail(&mut cluster, "foo-v1-0");
        cluster.settle();
        assert_eq!(cluster.active_pods(), ["foo-v1-1"], "version 2 is not promoted");
        heal(&mut cluster, "foo-v1-0");
        cluster.row.approve = cluster.row.status.awaited_approval.clone().map(Into::into);
        // Each deletion of a set is checked for the label.
        cluster.settle();
        assert_eq!((cluster.names(), cluster.active_pods()), (vec!["foo-v2"], vec!["foo-v2-0"]));
    });
}

#[test]
fn d_a8_the_active_pod_of_a_set_that_was_deleted_by_hand_gives_up_the_label_before_another_one_gets_it() {
    let mut cluster = served(Group::StsPlus, &["a", "b"], &json!({}));
    let mut given = cluster.given.clone();
    given["activeProbe"] = json!({ "main": { "tcpSocket": { "port": 80 } } });
    cluster.edit(given);
    cluster.settle();
    assert_eq!(cluster.active_pods(), ["foo-z0-v1-0"]);
    // The garbage collector has not come to its pods yet.
    cluster.sets.remove("foo-z0-v1");
    let plan = cluster.decide().plan;
    let labels: Vec<_> = plan
        .writes()
        .filter(|write| write.object().kind == crate::plan::Kind::Pod)
        .map(|write| (&*write.object().name, write.designates()))
        .collect();
    assert_eq!(labels, [("foo-z0-v1-0", false), ("foo-z1-v1-0", true)]);
}

#[test]
fn d_a8_the_active_pod_fails_over_while_configuration_is_missing() {
    use crate::extended::probe::Digest;
    use crate::plan::{Kind, Object};
    for digest in [Digest::Absent, Digest::Unreadable(Arc::from("forbidden")), Digest::Unknown] {
        let mut cluster = served(Group::StsPlus, &[], &json!({}));
        let mut given = cluster.given.clone();
        given["activeProbe"] = json!({ "main": { "tcpSocket": { "port": 80 } } });
        given["updateOnConfigChange"] = json!(true);
        given["template"]["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
            json!([{ "configMapRef": { "name": "settings" } }]);
        let settings = Object { kind: Kind::ConfigMap, namespace: "ns".into(), name: "settings".into() };
        cluster.digests.insert(settings.clone(), Digest::Known("1".into()));
        cluster.edit(given);
        cluster.settle();
        assert_eq!(cluster.active_pods(), ["foo-v2-0"]);
        cluster.digests.insert(settings, digest);
        fail(&mut cluster, "foo-v2-0");
        cluster.set_field(REPLICAS, json!(3));
        cluster.settle();
        assert_eq!(cluster.active_pods(), ["foo-v2-1"]);
        assert_eq!((cluster.pods.len(), cluster.row.status.replicas), (3, Some(3)));
        assert_eq!(cluster.row.status.update_version, Some(2));
    }
}

#[test]
fn d_a8_the_active_pod_fails_over_while_a_write_is_refused() {
    for strategy in ["BlueGreen", "InPlace"] {
        let mut cluster = served(Group::StsPlus, &[], &json!({}));
        let mut given = cluster.given.clone();
        given["activeProbe"] = json!({ "main": { "tcpSocket": { "port": 80 } } });
        given["updateStrategy"]["type"] = json!(strategy);
        cluster.edit(given);
        cluster.settle();
        let set = cluster.names()[0].to_owned();
        cluster.refused = Some(crate::reason::Refusal { webhook: None, message: "no".to_owned() });
        // Neither a set nor a Service is written meanwhile, and nothing is reported as if it were.
        cluster.set_field(IMAGE, json!("b"));
        cluster.set_field(REPLICAS, json!(3));
        cluster.log.clear();
        let services = cluster.services.clone();
        cluster.edit_service("live", &json!({ "spec": { "selector": { "team": "a" } } }));
        fail(&mut cluster, &format!("{set}-0"));
        let decision = cluster.decide();
        let notes: Vec<_> = decision.plan.notes.iter().map(|note| note.reason).collect();
        assert_eq!(notes, ["WriteRefused", "ActivePod"]);
        cluster.settle();
        assert_eq!((cluster.active_pods(), &cluster.log), (vec![&*format!("{set}-1")], &Vec::new()));
        assert_eq!(cluster.condition("Stalled"), Some((true, "WriteRefused".to_owned())));
        cluster.refused = None;
        cluster.settle();
        assert_eq!((cluster.pods.len(), cluster.services.len()), (3, services.len() + 1));
        assert!(cluster.condition("Ready").unwrap().0);
    }
}

#[test]
fn d_a8_the_active_pod_fails_over_while_the_spec_is_invalid() {
    for zones in [&[][..], &["z1", "z2"]] {
        let mut cluster = served(Group::StsPlus, zones, &json!({}));
        let mut given = cluster.given.clone();
        given["activeProbe"] = json!({ "main": { "tcpSocket": { "port": 80 } } });
        cluster.edit(given.clone());
        cluster.settle();
        let set = cluster.names()[0].to_owned();
        assert_eq!(cluster.active_pods(), [format!("{set}-0")]);
        // What the invalid spec says of the probe is as doubtful as all else of it.
        for probe in [json!({ "main": { "tcpSocket": { "port": 80 } } }), json!({ "other": {} }), json!({})] {
            let mut cluster = cluster.clone();
            cluster.edit(json!({ "template": {}, "activeProbe": probe }));
            cluster.settle();
            assert_eq!(cluster.condition("Stalled"), Some((true, "InvalidSpec".to_owned())));
            assert_eq!(cluster.active_pods(), [format!("{set}-0")]);
            fail(&mut cluster, &format!("{set}-0"));
            cluster.settle();
            assert_eq!(cluster.active_pods(), [format!("{set}-1")], "{probe}");
            assert_eq!(cluster.row.status.active_pod.as_ref().unwrap().name, format!("{set}-1"));
            cluster.edit(given.clone());
            cluster.settle();
            assert_eq!(cluster.active_pods(), [format!("{set}-1")]);
        }
    }
}

#[test]
fn d_a8_without_a_valid_spec_since_the_start_a_pod_that_is_not_ready_gives_up_the_label() {
    let mut cluster = served(Group::StsPlus, &[], &json!({}));
    let mut given = cluster.given.clone();
    given["activeProbe"] = json!({ "main": { "tcpSocket": { "port": 80 } } });
    cluster.edit(given.clone());
    cluster.settle();
    cluster.edit(json!({ "template": {} }));
    cluster.restart();
    cluster.settle();
    assert_eq!(cluster.active_pods(), ["foo-v1-0"], "nothing is wrong with it");
    fail(&mut cluster, "foo-v1-0");
    cluster.settle();
    assert_eq!((cluster.active_pods(), &cluster.row.status.active_pod), (vec![], &None));
    cluster.edit(given);
    cluster.settle();
    assert_eq!(cluster.active_pods(), ["foo-v1-1"]);
}

#[test]
fn d_c10_a_set_that_carries_the_label_and_was_not_left_behind_belongs_to_somebody_else() {
    let cluster = served(Group::StsPlus, &["z1"], &json!({}));
    let (own, _) = cluster.sets["foo-z0-v1"].clone();
    let orphan = |change: fn(&mut SetRow)| {
        let mut set = own.clone();
        set.child.as_mut().unwrap().owner = "".into();
        change(&mut set);
        belongs(&cluster.row, &set)
    };
    assert!(orphan(|_| {}));
    let strangers: [fn(&mut SetRow); 6] = [
        |set| set.name = "foo-kept".into(),
        |set| set.name = "foo-z0-v2".into(),
        |set| set.child.as_mut().unwrap().hash = None,
        |set| set.child.as_mut().unwrap().version = None,
        |set| set.child.as_mut().unwrap().label = Some("bar".into()),
        |set| set.child.as_mut().unwrap().owner = "somebody".into(),
    ];
    for (index, stranger) in strangers.into_iter().enumerate() {
        assert!(!orphan(stranger), "{index}");
    }
}

#[test]
fn d_c10_sets_that_were_left_behind_are_adopted_with_their_content_and_their_numbers() {
    with_and_without_restarts(|| {
        let mut cluster = served(Group::StsPlus, &[], &json!({}));
        for image in ["b", "c"] {
            cluster.set_field(IMAGE, json!(image));
            cluster.settle();
        }
        let uids = cluster.pod_uids();
        // The object was deleted with its sets left behind, and another one of its name exists.
        cluster.row.status = sts_plus_api::extended::ExtendedStatus::default();
        cluster.row.uid = "uid-foo-again".into();
        cluster.services.clear();
        let another =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "another", "uid": "uid-another" });
        let orphan = json!({ "metadata": { "ownerReferences": [another] } });
        cluster.edit_set("foo-v3", &orphan);
        cluster.settle();
        assert_eq!((cluster.names(), cluster.pod_uids()), (vec!["foo-v3"], uids));
        let owners = cluster.live("foo-v3")["metadata"]["ownerReferences"].as_array().unwrap();
        let owners: Vec<_> = owners.iter().map(|owner| (&owner["uid"], &owner["controller"])).collect();
        let ours = json!(["uid-foo-again", true]);
        assert_eq!(owners, [(&json!("uid-another"), &Value::Null), (&ours[0], &ours[1])]);
        cluster.set_field(IMAGE, json!("d"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-v4"]);
    });
}

#[test]
fn d_v20_labels_and_annotations_that_sets_have_lost_are_restored() {
    let key = |suffix: &str| format!("sts.plus/{suffix}");
    let lost = [
        json!({ "labels": { key("extendedstatefulset-name"): null } }),
        json!({ "labels": { key("az-name"): null, key("az-index"): null } }),
        json!({ "annotations": { key("version"): null } }),
        json!({ "annotations": { key("version"): "one" } }),
        json!({ "annotations": { key("version"): "9" } }),
        json!({ "labels": { key("az-name"): "elsewhere", key("az-index"): "7" } }),
        json!({ "labels": { "rollout-group": null } }),
        json!({ "labels": { "rollout-group": "elsewhere" } }),
        json!({ "annotations": { key("content-hash"): null } }),
    ];
    for strategy in ["BlueGreen", "InPlace"] {
        for lost in &lost {
            let mut cluster = served(Group::StsPlus, &["z1", "z2"], &json!({}));
            if strategy == "InPlace" {
                cluster.set_field("/updateStrategy/type", json!("InPlace"));
                cluster.settle();
            }
            if strategy == "BlueGreen" && lost["labels"].get("rollout-group").is_some() {
                continue;
            }
            let (before, uids) = (cluster.sets.clone(), cluster.pod_uids());
            let set = cluster.names()[0].to_owned();
            cluster.edit_set(&set, &json!({ "metadata": lost }));
            cluster.settle();
            assert_eq!(cluster.pod_uids(), uids, "{strategy} {lost}: {:?}", cluster.log);
            let metadata = |sets: &std::collections::BTreeMap<String, (SetRow, Value)>| {
                let live = sets[&set].1["metadata"].clone();
                (live["labels"].clone(), live["annotations"].clone())
            };
            assert_eq!(metadata(&cluster.sets), metadata(&before), "{strategy} {lost}");
            cluster.log.clear();
            cluster.settle();
            assert_eq!(cluster.log, [""; 0], "it rests");
        }
    }
}

#[test]
fn d_v20_an_older_version_without_its_label_is_reported_and_never_deleted() {
    let mut cluster = served(Group::StsPlus, &[], &json!({}));
    cluster.becomes = |_, image| image != "b";
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    cluster.edit_set(
        "foo-v1",
        &json!({ "metadata": { "labels": { "sts.plus/extendedstatefulset-name": null } } }),
    );
    cluster.becomes = |_, _| true;
    heal(&mut cluster, "foo-v2");
    cluster.settle();
    assert_eq!(cluster.names(), ["foo-v1", "foo-v2"]);
    assert!(cluster.condition("Warning").is_some());
}
