use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_planner::amount::Amount;
use sts_plus_planner::set::{SetRow, Strategy};

use super::super::{Extent, Interner};
use super::{TEMPLATE_LABELS, set, unreadable_set};

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

fn read(json: &Value) -> SetRow {
    let read = set(&json.to_string(), Extent::Steering, &mut Interner::default()).expect("decodes").row;
    let read = read.expect("every one has a row");
    assert!(read.spec.is_none(), "only its own controller needs it");
    read.row
}

#[test]
fn a_set_becomes_a_row_with_what_decisions_need() {
    let row = read(&set_json());
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
fn a_set_names_what_controls_it_and_its_pods_that_leave() {
    let row = read(&set_json());
    assert_eq!((row.controller.as_deref(), row.leaving().len()), (None, 0));
    let mut json = set_json();
    json["metadata"]["annotations"] = json!({ keys::LEAVING: "3, x,11," });
    let owner = |kind: &str, controls: bool| json!({ "apiVersion": "a.example/v1", "kind": kind, "name": "db", "uid": "o1", "controller": controls });
    json["metadata"]["ownerReferences"] = json!([owner("Application", false), owner("Database", true)]);
    let row = read(&json);
    assert_eq!(row.controller.as_deref(), Some("Database db"));
    assert!(row.leaving().iter().eq(&[3, 11]));
    assert!(row.child.is_none(), "it is no ExtendedStatefulSet's");
    json["metadata"]["ownerReferences"] = json!([owner("Application", false)]);
    assert_eq!(read(&json).controller, None);
}

#[test]
fn a_set_without_optional_fields_gets_the_servers_defaults() {
    let mut bare = set_json();
    bare["spec"] = json!({ "selector": { "matchLabels": { "a": "b" } }, "template": {} });
    bare["status"] = json!({});
    let row = read(&bare);
    assert_eq!((row.replicas, row.first_ordinal, row.target()), (1, 0, None));
    assert_eq!(row.strategy, Strategy::RollingUpdate { partition: 0 });
}

#[test]
fn a_set_that_cannot_be_read_still_stops_its_group() {
    let mut broken = set_json();
    broken["spec"]["replicas"] = json!("many");
    let text = broken.to_string();
    let error = set(&text, Extent::Steering, &mut Interner::default()).expect_err("replicas is a text");
    assert_eq!((&*error.namespace, &*error.name, &*error.uid), ("ns", "web", "s1"));
    let row = unreadable_set(&text, &mut Interner::default()).expect("its metadata can be read");
    assert_eq!(row.group.as_deref(), Some("g"));
    assert_eq!(row.strategy, Strategy::Other("unreadable".into()));
}

/// Thousands of sets with a quarter of a megabyte in one annotation each must not be kept.
#[test]
fn a_row_is_small_whatever_the_annotations_and_labels_hold() {
    let long = "1".repeat(250 << 10);
    let word =
        [keys::MAX_UNAVAILABLE, keys::PAUSED, keys::ROLLOUT_STATUS, keys::PHASED_ROLLOUT, keys::LEAVING];
    for key in word {
        let mut json = set_json();
        json["metadata"]["annotations"] = json!({ key: long });
        let steering = read(&json).steering;
        let kept = [&steering.max_unavailable, &steering.paused, &steering.rollout_status];
        let kept = kept.into_iter().chain([&steering.phased_rollout, &steering.leaving]).flatten();
        assert!(kept.map(|value| value.len()).sum::<usize>() < 17 << 10, "{key}");
        assert_eq!(steering.max_unavailable.is_some(), key == keys::MAX_UNAVAILABLE, "it is still reported");
        assert_eq!(steering.rollout_status.is_some(), key == keys::ROLLOUT_STATUS, "it is still removed");
        assert_eq!(steering.phased_rollout, None, "no object has such a name");
    }
    let labels: serde_json::Map<_, _> = (0..10_000).map(|n| (format!("l{n}"), json!("x"))).collect();
    let mut json = set_json();
    json["spec"]["template"]["metadata"]["labels"] = json!(labels);
    assert_eq!(read(&json).template_labels.len(), TEMPLATE_LABELS);
}

#[test]
fn what_is_cut_off_a_value_does_not_make_it_another_one() {
    for value in ["1".to_owned() + &" ".repeat(100) + "x", "1".repeat(65), "30%".to_owned() + &" ".repeat(90)]
    {
        let mut json = set_json();
        json["metadata"]["annotations"] = json!({ keys::MAX_UNAVAILABLE: value });
        let kept = read(&json).steering.max_unavailable.unwrap();
        assert_eq!(Amount::parse(&kept), None, "{value:?} became {kept:?}");
    }
}

#[test]
fn a_selector_that_no_request_can_carry_makes_a_set_unreadable() {
    let mut json = set_json();
    let values: Vec<_> = (0..1000).map(|n| format!("a-rather-long-value-{n}")).collect();
    json["spec"]["selector"]["matchExpressions"][0]["values"] = json!(values);
    let text = json.to_string();
    let error = set(&text, Extent::Steering, &mut Interner::default()).expect_err("too large");
    assert!(error.error.contains("the selector is larger than 16 KiB"), "{}", error.error);
    assert!(set(&text, Extent::Controlling, &mut Interner::default()).is_ok(), "as Kubernetes takes it");
}
