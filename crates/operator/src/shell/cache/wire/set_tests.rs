use serde_json::{Value, json};
use sts_plus_planner::set::{SetRow, Strategy};

use super::super::{Extent, Interner};
use super::{set, unreadable_set};

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
    assert!(read.design.is_none(), "only its own controller needs it");
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
