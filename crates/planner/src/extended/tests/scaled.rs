//! Objects whose pods are prepared before they leave: the decisions for the object and for its ScalingPolicies together.

use jiff::SignedDuration;
use serde_json::{Value, json};
use sts_plus_api::extended::{ExtendedStatus, Group};
use sts_plus_api::scaling_policy::RecordPhase;

use super::cluster::{Cluster, with_and_without_restarts};
use super::creation::template;
use crate::pod::Waiting;
use crate::scaling::hook::{Call, HookResult};

const IMAGE: &str = "/template/spec/template/spec/containers/0/image";
const REPLICAS: &str = "/template/spec/replicas";

fn hook() -> Value {
    json!({ "http": { "path": "/shutdown", "port": 8080, "cancel": { "path": "/shutdown" } } })
}

/// An object with a hook, and other fields of its spec.
fn spec(replicas: u32, fields: &Value) -> Value {
    let mut spec = json!({ "template": template("a", replicas), "scaleDown": { "hook": hook() } });
    let fields = fields.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    spec
}

fn started(replicas: u32, fields: &Value) -> Cluster {
    let mut cluster = Cluster::new(Group::StsPlus, spec(replicas, fields));
    cluster.settle();
    assert_eq!(
        cluster.condition("Ready"),
        Some((true, "AsRequested".to_owned())),
        "{:#?}",
        cluster.row.status
    );
    cluster.log.clear();
    cluster.scaling.forget();
    cluster
}

/// A new template and another number in one write.
fn change(cluster: &mut Cluster, image: &str, replicas: u32) {
    let mut given = cluster.given.clone();
    *given.pointer_mut(IMAGE).unwrap() = json!(image);
    *given.pointer_mut(REPLICAS).unwrap() = json!(replicas);
    cluster.edit(given);
}

fn message(cluster: &Cluster) -> String {
    let mut conditions = cluster.row.status.conditions.iter();
    conditions.find(|condition| condition.kind == "Ready").unwrap().message.clone()
}

fn reason(cluster: &Cluster) -> String {
    cluster.condition("Ready").unwrap().1
}

#[test]
fn a_b9_2_fewer_pods_leave_one_after_the_other_with_their_hooks() {
    with_and_without_restarts(|| {
        let mut cluster = started(4, &json!({}));
        assert_eq!(cluster.number("foo"), Some(4));
        cluster.set_field(REPLICAS, json!(2));
        cluster.settle();
        assert_eq!(cluster.scaling.prepared, ["foo-3", "foo-2"]);
        assert_eq!(cluster.scaling.removed, ["foo-3", "foo-2"]);
        assert_eq!((cluster.pods.len(), reason(&cluster)), (2, "AsRequested".to_owned()));
        assert!(cluster.row.status.leaving.is_empty());
        cluster.set_field(REPLICAS, json!(3));
        cluster.settle();
        assert_eq!((cluster.pods.len(), cluster.number("foo")), (3, Some(3)));
    });
}

#[test]
fn a_b9_9_a_new_template_and_fewer_pods_in_one_write_restart_and_drain_each_pod_once() {
    for zones in [json!([]), json!(["z1"]), json!(["z1", "z2"])] {
        with_and_without_restarts(|| {
            let mut cluster = started(5, &json!({ "zones": zones }));
            change(&mut cluster, "b", 3);
            cluster.settle();
            let places = zones.as_array().unwrap().len().max(1);
            assert_eq!(cluster.scaling.prepared.len(), 2 * places, "{:?}", cluster.scaling.prepared);
            assert_eq!(cluster.scaling.removed.len(), 2 * places);
            assert_eq!(cluster.scaling.restarts.len(), 3 * places, "{:?}", cluster.scaling.restarts);
            let doomed = |pod: &String| pod.ends_with("-3") || pod.ends_with("-4");
            assert!(!cluster.scaling.restarts.iter().any(doomed), "{:?}", cluster.scaling.restarts);
            assert_eq!(reason(&cluster), "AsRequested");
        });
    }
}

#[test]
fn a_b9_11_new_pods_are_born_with_the_new_template() {
    with_and_without_restarts(|| {
        let mut cluster = started(2, &json!({}));
        change(&mut cluster, "b", 4);
        cluster.settle();
        assert_eq!(cluster.scaling.restarts.len(), 2, "{:?}", cluster.scaling.restarts);
        assert_eq!((cluster.pods.len(), reason(&cluster)), (4, "AsRequested".to_owned()));
    });
}

#[test]
fn a_b9_18_nothing_leaves_and_nothing_is_created_while_the_new_version_crashes() {
    with_and_without_restarts(|| {
        let mut cluster = started(3, &json!({}));
        change(&mut cluster, "bad", 3);
        cluster.settle();
        assert_eq!(cluster.pods["foo-2"].waiting, Some(Waiting::CrashLoopBackOff));
        cluster.set_field(REPLICAS, json!(5));
        cluster.settle();
        assert_eq!((cluster.pods.len(), reason(&cluster)), (3, "Rolling".to_owned()));
        cluster.set_field(REPLICAS, json!(1));
        cluster.settle();
        assert!(cluster.scaling.removed.is_empty(), "{:?}", cluster.scaling.removed);
        // The way out: a template that works. It does not wait for pods that cannot leave.
        change(&mut cluster, "b", 1);
        cluster.settle();
        assert_eq!((cluster.pods.len(), reason(&cluster)), (1, "AsRequested".to_owned()));
        assert_eq!(cluster.scaling.removed, ["foo-2", "foo-1"]);
    });
}

#[test]
fn a_b9_4_a_hook_that_blocks_says_how_the_new_version_is_reached() {
    with_and_without_restarts(|| {
        let mut cluster = started(3, &json!({}));
        cluster.scaling.answers = |_, _| Some(HookResult::Failed("HTTP 404".into()));
        change(&mut cluster, "b", 2);
        cluster.settle();
        assert_eq!(reason(&cluster), "LeavingFirst");
        let message = message(&cluster);
        assert!(message.contains("404") && message.contains("raise template.spec.replicas"), "{message}");
        assert!(cluster.scaling.restarts.is_empty());
        assert_eq!(cluster.row.status.leaving.len(), 1);
        // As the message says.
        cluster.scaling.answers = |_, _| Some(HookResult::Done);
        cluster.set_field(REPLICAS, json!(3));
        cluster.settle();
        assert_eq!((cluster.scaling.restarts.len(), reason(&cluster)), (3, "AsRequested".to_owned()));
        assert!(cluster.scaling.removed.is_empty());
    });
}

#[test]
fn a_b9_4_a_deadline_that_is_exceeded_is_the_objects_condition_and_lets_the_new_version_go_on() {
    let mut cluster = started(3, &json!({}));
    cluster.scaling.answers = |_, _| Some(HookResult::Failed("HTTP 500".into()));
    change(&mut cluster, "b", 2);
    cluster.settle();
    assert_eq!(reason(&cluster), "LeavingFirst");
    for _ in 0..3 {
        cluster.now += SignedDuration::from_hours(2);
        cluster.settle();
    }
    assert_eq!(cluster.condition("Stalled"), Some((true, "ScalingBlocked".to_owned())));
    assert!(message(&cluster).contains("DeadlineExceeded"), "{}", message(&cluster));
    assert_eq!(cluster.scaling.restarts.len(), 3, "the new version may be what heals the hook");
    cluster.scaling.answers = |_, _| Some(HookResult::Done);
    cluster.now += SignedDuration::from_hours(2);
    cluster.settle();
    assert_eq!((cluster.pods.len(), reason(&cluster)), (2, "AsRequested".to_owned()));
}

#[test]
fn a_b9_27_an_autoscaler_that_scales_during_a_rollout_wastes_no_restart_in_zones() {
    with_and_without_restarts(|| {
        let mut cluster = started(5, &json!({ "zones": ["z1"] }));
        change(&mut cluster, "b", 5);
        while cluster.scaling.restarts.len() < 2 {
            cluster.pass_of(usize::MAX);
            cluster.scale_all(usize::MAX);
            cluster.control();
        }
        let before = cluster.scaling.restarts.clone();
        cluster.set_field(REPLICAS, json!(2));
        cluster.settle();
        let after = &cluster.scaling.restarts[before.len()..];
        let stays = |pod: &&String| pod.ends_with("-0") || pod.ends_with("-1");
        // At most the one that was next when the number came.
        assert!(after.iter().filter(|pod| !stays(pod)).count() <= 1, "{before:?} {after:?}");
        assert_eq!(cluster.scaling.removed, ["foo-z0-4", "foo-z0-3", "foo-z0-2"]);
        assert_eq!((cluster.pods.len(), reason(&cluster)), (2, "AsRequested".to_owned()));
    });
}

#[test]
fn a_b9_28_a_phased_rollout_of_the_set_begins_when_the_pods_have_left() {
    with_and_without_restarts(|| {
        let mut cluster = started(4, &json!({}));
        let held = json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 4 } } },
            "metadata": { "annotations": { "sts.plus/phasedRollout": "gate" } } });
        cluster.edit_set("foo", &held);
        cluster.settle();
        change(&mut cluster, "b", 2);
        cluster.settle();
        assert_eq!(cluster.scaling.removed, ["foo-3", "foo-2"]);
        assert_eq!(reason(&cluster), "PartitionHeld");
        assert_eq!(cluster.scaling.restarts, [""; 0]);
        // Between two gates a pod may leave, as everything is as the partition asks for.
        let partition = json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 1 } } } });
        cluster.edit_set("foo", &partition);
        cluster.settle();
        assert_eq!(cluster.scaling.restarts, ["foo-1"]);
        cluster.set_field(REPLICAS, json!(1));
        cluster.settle();
        assert_eq!(cluster.scaling.removed, ["foo-3", "foo-2", "foo-1"]);
        cluster.edit_set(
            "foo",
            &json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } } }),
        );
        cluster.settle();
        assert_eq!((cluster.pods.len(), reason(&cluster)), (1, "AsRequested".to_owned()));
    });
}

#[test]
fn a_b9_5_a_pod_that_is_wanted_again_is_called_back() {
    with_and_without_restarts(|| {
        let mut cluster = started(3, &json!({}));
        cluster.scaling.answers = |_, _| None;
        cluster.set_field(REPLICAS, json!(2));
        cluster.settle();
        assert_eq!(reason(&cluster), "Scaling");
        assert_eq!(cluster.row.status.leaving[0].phase, RecordPhase::Requested);
        cluster.scaling.answers = |_, call| (call == Call::Cancel).then_some(HookResult::Done);
        cluster.set_field(REPLICAS, json!(3));
        cluster.settle();
        assert_eq!((cluster.scaling.removed.len(), reason(&cluster)), (0, "AsRequested".to_owned()));
    });
}

#[test]
fn a_pods_of_an_old_version_leave_before_it_is_removed_one_zone_after_the_other() {
    with_and_without_restarts(|| {
        let fields = json!({ "zones": ["z1", "z2"], "updateStrategy": { "type": "BlueGreen" } });
        let mut cluster = started(2, &fields);
        cluster.set_field(IMAGE, json!("b"));
        cluster.settle();
        assert_eq!(cluster.names(), ["foo-z0-v2", "foo-z1-v2"]);
        assert_eq!(cluster.scaling.removed, ["foo-z0-v1-1", "foo-z0-v1-0", "foo-z1-v1-1", "foo-z1-v1-0"]);
        let policies: Vec<_> = cluster.scaling.policies.keys().cloned().collect();
        assert_eq!(
            (policies, reason(&cluster)),
            (vec!["foo-z0-v2".into(), "foo-z1-v2".into()], "AsRequested".into())
        );
    });
}

#[test]
fn a_no_further_pod_of_an_old_version_leaves_while_the_new_one_does_not_serve() {
    let mut cluster = started(3, &json!({ "updateStrategy": { "type": "BlueGreen" } }));
    cluster.scaling.answers = |pod, _| (!pod.ends_with("-1")).then_some(HookResult::Done);
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    assert_eq!(cluster.scaling.removed, ["foo-v1-2"]);
    assert!(cluster.row.status.versions[0].zones[0].retiring);
    assert_eq!(reason(&cluster), "Scaling");
    let pod = cluster.pods.get_mut("foo-v2-0").unwrap();
    pod.ready_since = None;
    cluster.settle();
    assert_eq!(cluster.number("foo-v1"), Some(2), "what is left stays");
    let now = cluster.now;
    cluster.pods.get_mut("foo-v2-0").unwrap().ready_since = Some(now);
    cluster.scaling.answers = |_, _| Some(HookResult::Done);
    cluster.settle();
    assert_eq!((cluster.names(), reason(&cluster)), (vec!["foo-v2"], "AsRequested".to_owned()));
}

#[test]
fn a_going_back_to_an_old_version_raises_it_again() {
    let mut cluster = started(3, &json!({ "updateStrategy": { "type": "BlueGreen" } }));
    cluster.scaling.answers = |pod, _| (!pod.ends_with("-1")).then_some(HookResult::Done);
    cluster.set_field(IMAGE, json!("b"));
    cluster.settle();
    assert_eq!(cluster.sets["foo-v1"].0.replicas, 2);
    cluster.scaling.answers = |_, _| Some(HookResult::Done);
    cluster.set_field(IMAGE, json!("a"));
    cluster.settle();
    assert_eq!((cluster.names(), cluster.pods.len()), (vec!["foo-v1"], 3));
    assert!(!cluster.row.status.versions[0].zones[0].retiring);
    assert_eq!(reason(&cluster), "AsRequested");
}

#[test]
fn a_another_strategy_empties_what_it_replaces() {
    with_and_without_restarts(|| {
        let mut cluster = started(2, &json!({ "updateStrategy": { "type": "InPlace" } }));
        cluster.set_field("/updateStrategy/type", json!("BlueGreen"));
        cluster.set_field(IMAGE, json!("b"));
        cluster.pass_of(usize::MAX);
        cluster.control();
        cluster.set_field(IMAGE, json!("c"));
        cluster.settle();
        assert_eq!((cluster.names().len(), reason(&cluster)), (1, "AsRequested".to_owned()));
        assert_eq!(cluster.scaling.removed.iter().filter(|pod| pod.starts_with("foo-v")).count(), 2);
        assert_eq!(cluster.scaling.removed.iter().filter(|pod| !pod.starts_with("foo-v")).count(), 2);
    });
}

#[test]
fn a_pods_of_a_zone_that_is_removed_leave_before_its_set() {
    with_and_without_restarts(|| {
        let mut cluster = started(2, &json!({ "zones": ["z1", "z2"] }));
        cluster.set_field("/zones", json!(["z1"]));
        cluster.settle();
        assert_eq!(cluster.scaling.removed, ["foo-z1-1", "foo-z1-0"]);
        assert_eq!((cluster.names(), reason(&cluster)), (vec!["foo-z0"], "AsRequested".to_owned()));
    });
}

#[test]
fn a_b9_26_an_object_that_is_deleted_with_drain_empties_its_zones_in_order() {
    with_and_without_restarts(|| {
        let mut cluster = started(2, &json!({ "zones": ["z1", "z2"], "deletionPolicy": "Drain" }));
        assert_eq!(cluster.row.finalizers, ["sts.plus/finalizer"]);
        cluster.row.deleting = true;
        cluster.settle();
        assert_eq!(cluster.scaling.prepared, ["foo-z0-1", "foo-z0-0", "foo-z1-1", "foo-z1-0"]);
        assert!(cluster.row.finalizers.is_empty() && cluster.pods.is_empty());
        assert_eq!(cluster.names(), ["foo-z0", "foo-z1"], "Kubernetes deletes them");
    });
}

#[test]
fn a_b9_26_a_drain_at_the_end_reports_what_it_waits_for_and_ends_when_it_is_given_up() {
    let mut cluster = started(2, &json!({ "deletionPolicy": "Drain" }));
    cluster.scaling.answers = |_, _| None;
    cluster.row.deleting = true;
    cluster.settle();
    assert_eq!(reason(&cluster), "Deleting");
    assert!(message(&cluster).contains("foo-1 drains"), "{}", message(&cluster));
    assert_eq!(cluster.row.status.leaving[0].pod_name, "foo-1");
    // A spec that cannot be used any more stops nothing that has begun.
    cluster.set_field("/template/spec/template/spec/containers", json!([]));
    cluster.settle();
    assert_eq!(cluster.row.finalizers.len(), 1);
    cluster.set_field("/template/spec/template/spec/containers", json!([{ "name": "app", "image": "a" }]));
    cluster.set_field("/deletionPolicy", json!("Delete"));
    cluster.settle();
    assert!(cluster.row.finalizers.is_empty());
    assert_eq!(cluster.pods.len(), 2);
}

#[test]
fn a_b9_26_kubernetes_decides_about_the_sets_of_an_orphaning_or_a_foreground_deletion() {
    for finalizer in ["orphan", "foregroundDeletion"] {
        let mut cluster = started(2, &json!({ "deletionPolicy": "Drain" }));
        cluster.row.finalizers.push(finalizer.to_owned());
        cluster.row.deleting = true;
        cluster.settle();
        assert_eq!((&*cluster.row.finalizers, cluster.pods.len()), (&[finalizer.to_owned()][..], 2));
        assert!(cluster.scaling.prepared.is_empty());
    }
}

#[test]
fn a_without_rules_there_is_no_policy_and_no_finalizer_and_removing_them_gives_the_number_back() {
    with_and_without_restarts(|| {
        let mut cluster = started(3, &json!({ "deletionPolicy": "Drain" }));
        let mut given = cluster.given.clone();
        given.as_object_mut().unwrap().remove("scaleDown");
        given["deletionPolicy"] = json!("Delete");
        cluster.edit(given);
        cluster.settle();
        assert!(cluster.scaling.policies.is_empty() && cluster.row.finalizers.is_empty());
        cluster.set_field(REPLICAS, json!(1));
        cluster.settle();
        assert_eq!((cluster.pods.len(), reason(&cluster)), (1, "AsRequested".to_owned()));
        assert!(cluster.scaling.prepared.is_empty());
    });
}

#[test]
fn a_policy_of_somebody_else_is_reported_and_left_alone() {
    let mut cluster = Cluster::new(Group::StsPlus, spec(2, &json!({})));
    let foreign =
        json!({ "metadata": { "name": "foo" }, "spec": { "targetRef": { "name": "other" }, "replicas": 7 } });
    cluster.create_policy("foo", &foreign);
    cluster.settle();
    assert_eq!(cluster.condition("Stalled"), Some((true, "PolicyTaken".to_owned())));
    assert_eq!(cluster.number("foo"), Some(7));
    cluster.set_field(REPLICAS, json!(1));
    cluster.settle();
    assert_eq!(cluster.pods.len(), 2, "no pod leaves without being prepared");
    cluster.scaling.policies.clear();
    cluster.settle();
    assert_eq!(
        (&*cluster.scaling.removed, reason(&cluster)),
        (&["foo-1".to_owned()][..], "AsRequested".to_owned())
    );
}

#[test]
fn a_users_own_policy_for_a_set_of_the_object_scales_nothing_even_if_it_is_older() {
    let mut cluster = started(2, &json!({}));
    let foreign =
        json!({ "metadata": { "name": "a" }, "spec": { "targetRef": { "name": "foo" }, "replicas": 1 } });
    cluster.create_policy("a", &foreign);
    cluster.settle();
    let state = |cluster: &Cluster, name: &str| cluster.policy(name).status.conditions[0].reason.clone();
    assert_eq!(state(&cluster, "a"), "TargetControlled");
    assert_eq!((state(&cluster, "foo"), cluster.pods.len()), ("AsRequested".to_owned(), 2));
}

#[test]
fn a_what_somebody_writes_into_a_policy_of_the_object_is_taken_back() {
    with_and_without_restarts(|| {
        let mut cluster = started(3, &json!({}));
        for patch in [
            json!({ "spec": { "replicas": 5 } }),
            json!({ "spec": { "scaleDown": { "hook": null } } }),
            json!({ "spec": { "paused": true, "scaleUp": { "hook": hook() } } }),
            json!({ "spec": { "deletionPolicy": "Drain" } }),
        ] {
            let before = cluster.policy("foo").spec.clone();
            cluster.merge_policy("foo", &patch);
            assert_ne!(cluster.policy("foo").spec, before, "{patch}");
            cluster.settle();
            assert_eq!(cluster.policy("foo").spec, before, "{patch}");
        }
        cluster.delete_policy("foo");
        cluster.settle();
        assert_eq!((cluster.number("foo"), cluster.pods.len()), (Some(3), 3));
    });
}

#[test]
fn a_b9_30_replicas_that_somebody_lowers_on_the_set_are_restored() {
    let mut cluster = started(3, &json!({}));
    cluster.edit_set("foo", &json!({ "spec": { "replicas": 1 } }));
    cluster.settle();
    assert_eq!((cluster.pods.len(), cluster.sets["foo"].0.replicas), (3, 3));
    assert_eq!(cluster.policy("foo").status.removed_without_drain.len(), 2);
}

#[test]
fn a_restrictions_clamp_what_the_policy_is_asked_for() {
    let mut cluster = started(3, &json!({ "scaling": { "minReplicas": 2, "parity": "Odd" } }));
    cluster.set_field(REPLICAS, json!(0));
    cluster.settle();
    assert_eq!((cluster.number("foo"), cluster.scaling.removed.len()), (Some(3), 0));
}

#[test]
fn a_without_the_controller_of_policies_nothing_leaves_and_the_condition_names_it() {
    let mut cluster = started(3, &json!({}));
    cluster.scaling.runs = false;
    cluster.set_field(REPLICAS, json!(1));
    cluster.settle();
    assert_eq!((cluster.pods.len(), reason(&cluster)), (3, "Scaling".to_owned()));
    assert!(
        message(&cluster).contains("The controller scaling has not observed it"),
        "{}",
        message(&cluster)
    );
}

#[test]
fn a_sets_and_policies_that_were_left_behind_are_adopted() {
    with_and_without_restarts(|| {
        let mut cluster = started(2, &json!({}));
        cluster.row.uid = "uid-new".into();
        cluster.row.status = ExtendedStatus::default();
        let nobody = json!({ "metadata": { "ownerReferences": [] } });
        cluster.edit_set("foo", &nobody);
        cluster.merge_policy("foo", &nobody);
        cluster.settle();
        assert_eq!(
            (&*cluster.policy("foo").controller, reason(&cluster)),
            ("uid-new", "AsRequested".to_owned())
        );
        cluster.set_field(REPLICAS, json!(1));
        cluster.settle();
        assert_eq!(cluster.scaling.removed, ["foo-1"]);
    });
}

#[test]
fn a_rules_that_cannot_be_used_are_a_fault_of_the_spec() {
    for (field, wrong) in [
        ("scaleDown", json!({ "hook": { "http": { "path": "no-slash", "port": 80 } } })),
        ("scaleDown", json!({ "hook": {} })),
        ("scaleDown", json!({ "maxConcurrent": 0 })),
        ("scaleUp", json!({ "hook": { "named": "a", "deadlineSeconds": 0 } })),
    ] {
        let mut given = json!({ "template": template("a", 1) });
        given[field] = wrong;
        let mut cluster = Cluster::new(Group::StsPlus, given);
        cluster.settle();
        assert_eq!(cluster.condition("Stalled"), Some((true, "InvalidSpec".to_owned())));
        assert!(message(&cluster).contains(field), "{}", message(&cluster));
        assert!(cluster.sets.is_empty());
    }
}

#[test]
fn a_fields_that_ask_for_nothing_more_than_a_number_make_no_policy() {
    for fields in [json!({ "maxConcurrent": 3 }), json!({})] {
        let spec = json!({ "template": template("a", 1), "scaleDown": fields, "scaleUp": {} });
        let mut cluster = Cluster::new(Group::StsPlus, spec);
        cluster.settle();
        assert!(cluster.scaling.policies.is_empty());
    }
}

#[test]
fn a_b9_19_i9_the_broken_pods_of_a_version_that_is_given_up_do_not_wait_for_each_other() {
    with_and_without_restarts(|| {
        let mut hook = hook();
        (hook["deadlineSeconds"], hook["onFailure"]) = (json!(60), json!("Force"));
        let fields = json!({ "updateStrategy": { "type": "BlueGreen" }, "scaleDown": { "maxConcurrent": 1, "hook": hook } });
        let mut cluster = started(3, &fields);
        change(&mut cluster, "bad", 3);
        cluster.settle();
        assert_eq!(cluster.pods["foo-v2-2"].waiting, Some(Waiting::CrashLoopBackOff));
        change(&mut cluster, "a", 3);
        for _ in 0..4 {
            cluster.settle();
            cluster.now += SignedDuration::from_secs(61);
        }
        assert_eq!(
            cluster.scaling.removed,
            ["foo-v2-2", "foo-v2-1", "foo-v2-0"],
            "{:#?}",
            cluster.row.status
        );
        assert_eq!((cluster.pods.len(), reason(&cluster)), (3, "AsRequested".to_owned()));
    });
}

/// An object with two zones, of which the second one is broken.
fn with_a_broken_zone() -> Cluster {
    let mut hook = hook();
    (hook["deadlineSeconds"], hook["onFailure"]) = (json!(60), json!("Force"));
    let fields = json!({ "zones": ["z1", "z2"], "scaleDown": { "hook": hook }, "deletionPolicy": "Drain" });
    let mut cluster = started(2, &fields);
    cluster.becomes = |set, _| set != "foo-z1";
    cluster.delete_by_hand("foo-z1");
    cluster.settle();
    assert_eq!(cluster.pods["foo-z1-1"].waiting, Some(Waiting::CrashLoopBackOff));
    cluster
}

#[test]
fn a_i9_a_broken_zone_leaves_first_when_all_zones_are_removed() {
    with_and_without_restarts(|| {
        let mut cluster = with_a_broken_zone();
        cluster.set_field("/zones", json!([]));
        for _ in 0..4 {
            cluster.settle();
            cluster.now += SignedDuration::from_secs(61);
        }
        assert_eq!(cluster.scaling.removed, ["foo-z1-1", "foo-z1-0", "foo-z0-1", "foo-z0-0"]);
        assert_eq!((cluster.names(), reason(&cluster)), (vec!["foo"], "AsRequested".to_owned()));
    });
}

#[test]
fn a_i9_a_broken_zone_leaves_first_when_the_object_is_deleted() {
    with_and_without_restarts(|| {
        let mut cluster = with_a_broken_zone();
        cluster.row.deleting = true;
        for _ in 0..4 {
            cluster.settle();
            cluster.now += SignedDuration::from_secs(61);
        }
        assert_eq!(cluster.scaling.removed, ["foo-z1-1", "foo-z1-0", "foo-z0-1", "foo-z0-0"]);
        assert!(cluster.row.finalizers.is_empty() && cluster.pods.is_empty());
    });
}
