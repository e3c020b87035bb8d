use serde_json::{Value, json};
use sts_plus_planner::pod::{Defect, Phase, Waiting};
use sts_plus_planner::set::Strategy;

use super::{Interner, Line, pod, set, unreadable_set};

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
    pod(&json.to_string(), &mut Interner::default()).expect("decodes").row.expect("a set's pod")
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
fn only_pods_that_a_stateful_set_controls_get_a_row() {
    let mut orphan = pod_json(&json!({}));
    orphan["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    assert!(pod(&orphan.to_string(), &mut Interner::default()).expect("decodes").row.is_none());
    orphan["metadata"]["ownerReferences"] = json!([{ "kind": "ReplicaSet", "uid": "r", "controller": true }]);
    assert!(pod(&orphan.to_string(), &mut Interner::default()).expect("decodes").row.is_none());
}

fn set_json() -> Value {
    json!({
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "s1", "resourceVersion": "9", "generation": 4,
            "labels": { "rollout-group": "g" },
            "annotations": { "rollout-max-unavailable": "30%", "grafana.com/rollout-paused": "true" }
        },
        "spec": {
            "replicas": 5, "minReadySeconds": 10, "ordinals": { "start": 2 },
            "updateStrategy": { "type": "OnDelete" },
            "selector": {
                "matchLabels": { "app": "web" },
                "matchExpressions": [{ "key": "tier", "operator": "NotIn", "values": ["x"] }]
            },
            "template": { "metadata": { "labels": { "app": "web" } } }
        },
        "status": { "observedGeneration": 4, "currentRevision": "web-1", "updateRevision": "web-2" }
    })
}

#[test]
fn a_set_becomes_a_row_with_what_decisions_need() {
    let row = set(&set_json().to_string(), &mut Interner::default()).expect("decodes").row.expect("always");
    assert_eq!(row.group.as_deref(), Some("g"));
    assert_eq!(row.steering.max_unavailable.as_deref(), Some("30%"));
    assert_eq!(row.steering.paused.as_deref(), Some("true"));
    assert_eq!((row.replicas, row.ordinals()), (5, 2..7));
    assert_eq!(row.min_ready.as_secs(), 10);
    assert_eq!(row.strategy, Strategy::OnDelete);
    assert_eq!(row.target(), Some("web-2"));
    assert!(row.selector.matches(|key| (key == "app").then_some("web")));
    assert!(!row.selector.matches(|key| if key == "app" { Some("web") } else { Some("x") }));
}

#[test]
fn a_set_without_optional_fields_gets_the_servers_defaults() {
    let mut bare = set_json();
    bare["spec"] = json!({ "selector": { "matchLabels": { "a": "b" } }, "template": {} });
    bare["status"] = json!({});
    let row = set(&bare.to_string(), &mut Interner::default()).expect("decodes").row.expect("always");
    assert_eq!((row.replicas, row.first_ordinal, row.target()), (1, 0, None));
    assert_eq!(row.strategy, Strategy::RollingUpdate { partition: 0 });
}

#[test]
fn a_set_that_cannot_be_read_still_stops_its_group() {
    let mut broken = set_json();
    broken["spec"]["replicas"] = json!("many");
    let text = broken.to_string();
    let error = set(&text, &mut Interner::default()).expect_err("replicas is a text");
    assert_eq!((&*error.namespace, &*error.name, &*error.uid), ("ns", "web", "s1"));
    let row = unreadable_set(&text, &mut Interner::default()).expect("its metadata can be read");
    assert_eq!(row.group.as_deref(), Some("g"));
    assert_eq!(row.strategy, Strategy::Other("unreadable".into()));
}

#[test]
fn a_line_is_taken_apart_in_the_servers_form_and_in_any_other() {
    let forms = [
        "{\"type\":\"ADDED\",\"object\":{\"a\":\"}\"}}\n",
        "{ \"object\": {\"a\":\"}\"}, \"type\": \"ADDED\" }",
    ];
    for form in forms {
        let line = Line::read(form.as_bytes()).expect("an event");
        assert_eq!((line.kind.as_ref(), line.object), ("ADDED", "{\"a\":\"}\"}"), "{form}");
    }
    for broken in ["", "null", "{\"type\":1}", "{\"object\":{}}", "\u{fffd}"] {
        assert!(Line::read(broken.as_bytes()).is_err(), "{broken:?}");
    }
    assert!(Line::read(&[b'{', 0xff, b'}']).is_err());
}

fn rollout_row(json: &Value) -> sts_plus_planner::phased_rollout::row::RolloutRow {
    super::rollout(&json.to_string(), &mut Interner::default())
        .expect("decodes")
        .row
        .expect("every one has a row")
}

#[test]
fn a_phased_rollout_is_kept_whole_with_its_defaults() {
    let row = rollout_row(&json!({
        "metadata": {
            "name": "gated", "namespace": "ns", "uid": "r1", "resourceVersion": "9", "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["sts.plus/finalizer"],
            "annotations": { "sts.plus/approve": "web-2", "other": "x" },
        },
        "spec": { "targetRef": "web", "check": { "query": { "expr": "up", "url": "prom:9000" } } },
        "status": { "target": { "name": "db", "uid": "s1" } },
    }));
    assert_eq!((&*row.namespace, &*row.name, &*row.uid, row.generation), ("ns", "gated", "r1", 3));
    assert_eq!((row.target(), row.managed()), (Some("web"), Some("db")));
    assert_eq!(row.created.to_string(), "2026-01-02T03:04:05Z");
    assert_eq!((row.approve.as_deref(), row.has_finalizer(), row.deleting), (Some("web-2"), true, false));
    let check = row.spec.expect("readable").check.expect("given");
    assert_eq!(
        (
            check.initial_delay_seconds,
            check.period_seconds,
            check.success_threshold,
            check.query.timeout_seconds
        ),
        (60, 60, 3, 5)
    );
}

#[test]
fn a_phased_rollout_that_cannot_be_read_says_why_and_a_status_of_another_operator_counts_as_none() {
    let meta = json!({ "name": "gated", "namespace": "ns" });
    let row = rollout_row(&json!({ "metadata": meta, "spec": { "targetRef": 7 } }));
    assert!(row.spec.unwrap_err().contains("invalid type"), "the reason reaches the user");
    let row = rollout_row(&json!({ "metadata": meta }));
    assert!(row.spec.is_err());
    let theirs =
        json!({ "phase": "Rolling", "rollingPodStatus": { "status": "WaitForChecks", "partition": 1 } });
    let row = rollout_row(&json!({ "metadata": meta, "spec": { "targetRef": "web" }, "status": theirs }));
    assert_eq!(row.status, sts_plus_api::phased_rollout::PhasedRolloutStatus::default());
}
