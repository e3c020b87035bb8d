use serde_json::{Value, json};
use sts_plus_planner::pod::{ClaimVolume, Defect, Phase, Waiting};
use sts_plus_planner::selector::Selector;

use super::super::Interner;
use super::{Extent, pod};

fn pod_json(status: &Value) -> Value {
    json!({
        "metadata": {
            "name": "web-1", "namespace": "ns", "uid": "p1", "resourceVersion": "7",
            "labels": {
                "app": "web", "controller-revision-hash": "web-abc",
                "statefulset.kubernetes.io/pod-name": "web-1", "apps.kubernetes.io/pod-index": "1"
            },
            "managedFields": [{ "manager": "kubelet", "fieldsV1": { "f:status": {} } }],
            "ownerReferences": [{ "kind": "StatefulSet", "name": "web", "uid": "s1", "controller": true }]
        },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
        "status": status
    })
}

fn read(json: &Value) -> sts_plus_planner::pod::PodRow {
    pod(&json.to_string(), Extent::Steering, &mut Interner::default())
        .expect("decodes")
        .row
        .expect("a set's pod")
}

#[test]
fn a_pod_becomes_a_row_with_what_decisions_need() {
    let row = read(&pod_json(&json!({
        "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z" }],
        "containerStatuses": [{ "restartCount": 1, "state": { "running": {} } }]
    })));
    assert_eq!((&*row.namespace, &*row.name, &*row.uid, &*row.owner), ("ns", "web-1", "p1", "s1"));
    assert_eq!(&*row.resource_version, "7");
    assert_eq!(row.revision.as_deref(), Some("web-abc"));
    assert!(row.ready());
    assert_eq!(row.ready_since.expect("ready").to_string(), "2026-01-02T03:04:05Z");
    assert_eq!(row.label("app"), Some("web"));
    assert_eq!(row.label("apps.kubernetes.io/pod-index"), Some("1"));
    assert_eq!(row.label("statefulset.kubernetes.io/pod-name"), Some("web-1"));
    assert_eq!(row.label("controller-revision-hash"), Some("web-abc"));
    assert_eq!(row.labels.len(), 1, "per-pod labels are not kept twice");
}

#[test]
fn d_c5_a_label_with_the_ordinal_is_known_and_not_kept_with_those_that_pods_share() {
    let mut json = pod_json(&json!({}));
    assert!(!read(&json).numbered);
    for (value, numbered) in [("1", true), ("2", false)] {
        json["metadata"]["labels"]["fissile.cloudfoundry.org/pod-ordinal"] = json!(value);
        let row = read(&json);
        assert_eq!((row.numbered, row.labels.len()), (numbered, 1));
    }
}

#[test]
fn labels_are_kept_up_to_a_size_that_no_selector_notices() {
    let with_labels = |count: usize| {
        let mut json = pod_json(&json!({}));
        for number in 0..count {
            let key = format!("{}/{number:063}", ["prefix"; 36].join("."));
            json["metadata"]["labels"][key] = json!(format!("{number:063}"));
        }
        json
    };
    let last = format!("{}/{:063}", ["prefix"; 36].join("."), 99);
    let row = read(&with_labels(100));
    for (key, value) in [(&*last, format!("{:063}", 99)), ("app", "web".to_owned())] {
        assert!(Selector::labels([(key, &*value)]).matches(|key| row.label(key)), "{key}");
    }
    let large = with_labels(120).to_string();
    let error = pod(&large, Extent::Steering, &mut Interner::default()).expect_err("too large");
    assert_eq!((&*error.namespace, &*error.name), ("ns", "web-1"));
    assert!(error.error.contains("the labels are larger than 40 KiB"), "{}", error.error);
    let row = pod(&large, Extent::Controlling, &mut Interner::default()).expect("as Kubernetes takes it").row;
    assert_eq!(row.expect("a set's pod").label(&last), Some(&*format!("{:063}", 99)));
    let mut other = with_labels(120);
    other["metadata"]["ownerReferences"][0]["kind"] = json!("ReplicaSet");
    let read = pod(&other.to_string(), Extent::Steering, &mut Interner::default());
    assert!(read.expect("of no interest").row.is_none());
}

#[test]
fn the_worst_wait_of_any_container_counts_init_containers_included() {
    let waiting = |reason: &str| json!({ "restartCount": 2, "state": { "waiting": { "reason": reason } } });
    let row = read(&pod_json(&json!({
        "phase": "Pending",
        "containerStatuses": [waiting("PodInitializing")],
        "initContainerStatuses": [waiting("CrashLoopBackOff")]
    })));
    assert_eq!(row.phase, Phase::Pending);
    assert_eq!(row.defect(), Some(Defect::Waits(Waiting::CrashLoopBackOff)));
    let starting = read(&pod_json(&json!({ "containerStatuses": [waiting("ContainerCreating")] })));
    assert_eq!(starting.defect(), None);
}

#[test]
fn restarts_count_only_while_the_container_is_terminated() {
    let with = |state: Value| {
        let statuses = [json!({ "restartCount": 3, "state": state })];
        read(&pod_json(&json!({ "phase": "Running", "containerStatuses": statuses })))
    };
    assert_eq!(
        with(json!({ "terminated": { "exitCode": 1 } })).defect(),
        Some(Defect::Terminated { restarts: 3 })
    );
    assert_eq!(with(json!({ "running": {} })).defect(), None);
}

#[test]
fn an_init_container_that_ended_well_is_no_defect_however_often_it_was_restarted() {
    let with = |restart_policy: Option<&str>, exit_code: i32| {
        let ended = json!({ "terminated": { "exitCode": exit_code } });
        let mut json = pod_json(&json!({
            "phase": "Running",
            "initContainerStatuses": [{ "name": "setup", "restartCount": 3, "state": ended }],
            "containerStatuses": [{ "name": "c", "restartCount": 0, "state": { "running": {} } }]
        }));
        json["spec"]["initContainers"] = json!([{ "name": "setup", "restartPolicy": restart_policy }]);
        read(&json).defect()
    };
    let defect = Some(Defect::Terminated { restarts: 3 });
    assert_eq!(with(None, 0), None);
    assert_eq!(with(Some("OnFailure"), 0), None);
    assert_eq!(with(None, 1), defect);
    assert_eq!(with(Some("Always"), 0), defect, "a sidecar is to run");
}

#[test]
fn a_pod_is_dead_while_no_regular_container_and_no_sidecar_runs() {
    let dead = |main: Value, init: Value, restart_policy: Option<&str>| {
        let mut json = pod_json(&json!({
            "phase": "Running",
            "initContainerStatuses": [{ "name": "init", "restartCount": 0, "state": init }],
            "containerStatuses": [{ "name": "c", "restartCount": 1, "state": main }]
        }));
        json["spec"]["initContainers"] = json!([{ "name": "init", "restartPolicy": restart_policy }]);
        read(&json).is_dead()
    };
    let (runs, waits) = (json!({ "running": {} }), json!({ "waiting": { "reason": "CrashLoopBackOff" } }));
    let ended = json!({ "terminated": { "exitCode": 0 } });
    assert!(!dead(runs.clone(), ended.clone(), None));
    assert!(dead(waits.clone(), ended.clone(), None));
    assert!(dead(ended.clone(), ended, None));
    assert!(dead(waits.clone(), runs.clone(), None), "an init container serves nobody");
    assert!(!dead(waits, runs, Some("Always")), "a sidecar does its part");
    assert!(read(&pod_json(&json!({ "phase": "Pending" }))).is_dead(), "nothing has been started");
}

#[test]
fn only_pods_that_a_stateful_set_controls_get_a_row_and_those_of_nobody_for_whoever_controls_sets() {
    let row =
        |json: &Value, extent| pod(&json.to_string(), extent, &mut Interner::default()).expect("decodes").row;
    let mut orphan = pod_json(&json!({}));
    orphan["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    assert!(row(&orphan, Extent::Steering).is_none());
    assert_eq!(&*row(&orphan, Extent::Controlling).expect("nothing controls it").owner, "");
    orphan["metadata"]["ownerReferences"] = json!([{ "kind": "ReplicaSet", "uid": "r", "controller": true }]);
    for extent in [Extent::Steering, Extent::Controlling] {
        assert!(row(&orphan, extent).is_none(), "somebody else's");
    }
}

#[test]
fn claims_with_their_usual_names_are_one_list_for_all_pods() {
    let mut interner = Interner::default();
    let mut volumes = |name: &str, claim: &str| {
        let mut json = pod_json(&json!({}));
        json["metadata"]["name"] = json!(name);
        json["spec"]["volumes"] = json!([
            { "name": "config", "configMap": { "name": "c" } },
            { "name": "data", "persistentVolumeClaim": { "claimName": claim } }
        ]);
        let row = pod(&json.to_string(), Extent::Controlling, &mut interner).expect("decodes").row;
        row.expect("a set's pod").volumes
    };
    let usual = [ClaimVolume { name: "data".into(), claim: None }];
    let (first, second) = (volumes("web-1", "data-web-1"), volumes("web-2", "data-web-2"));
    assert_eq!((&*first, &*second), (&usual[..], &usual[..]));
    assert!(std::sync::Arc::ptr_eq(&first, &second), "kept once");
    let other = volumes("web-1", "data-web-11");
    assert_eq!(*other, [ClaimVolume { name: "data".into(), claim: Some("data-web-11".into()) }]);
}

#[test]
fn a_pod_that_does_not_carry_its_own_name_is_told_from_one_that_does() {
    let mut json = pod_json(&json!({}));
    assert!(read(&json).named);
    json["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!("web-2");
    assert!(!read(&json).named);
    json["metadata"]["labels"] = json!(null);
    assert!(!read(&json).named);
}
