use serde_json::json;
use sts_plus_planner::pod;

use super::super::samples::Sample;
use super::*;

fn pod(uid: &str) -> PodRow {
    PodRow {
        namespace: "default".into(),
        name: "web-0".into(),
        uid: uid.into(),
        resource_version: "1".into(),
        owner: "uid-web".into(),
        revision: None,
        labels: Arc::default(),
        phase: pod::Phase::Pending,
        ready_since: None,
        terminating: false,
        waiting: None,
        terminated_restarts: None,
        running: false,
        named: true,
        numbered: false,
        ip: None,
        zones: None,
        volumes: Arc::default(),
    }
}

fn scheduled(uid: &str, node: Option<&str>) -> Change {
    let metadata = json!({ "name": "web-0", "namespace": "default", "uid": uid });
    let object = json!({ "metadata": metadata, "spec": { "nodeName": node } });
    Change::Scheduled(Seen::Object(serde_json::from_value(object).unwrap()))
}

#[test]
fn a_pod_runs_on_its_own_node_and_not_on_that_of_its_predecessor() {
    let mut sample = Sample::default();
    sample.node("zone-a");
    let location = |node: &str, zone: Option<&str>| {
        Some(Location { node: node.to_owned(), zone: zone.map(str::to_owned) })
    };
    assert_eq!(sample.0.location(&pod("1")), None);
    sample.take(scheduled("1", None));
    assert_eq!(sample.0.location(&pod("1")), None);
    sample.take(scheduled("1", Some("node-zone-a")));
    assert_eq!(sample.0.location(&pod("1")), location("node-zone-a", Some("zone-a")));
    assert_eq!(sample.0.location(&pod("2")), None, "its successor");
    sample.take(scheduled("2", Some("unknown")));
    assert_eq!(sample.0.location(&pod("2")), location("unknown", None));
    sample.take(Change::Scheduled(Seen::Listed(BTreeSet::new())));
    assert_eq!(sample.0.location(&pod("2")), None);
}

#[test]
fn the_metrics_are_those_of_one_config_map() {
    let mut sample = Sample::default();
    sample.metric("9");
    let other = json!({ "metadata": { "name": "other", "namespace": "default" }, "data": { "a": "1" } });
    sample.take(Change::ConfigMaps(Seen::Object(serde_json::from_value(other).unwrap())));
    assert_eq!(sample.0.metrics.get(metrics::ERRORS).map(String::as_str), Some("9"));
    sample.take(Change::ConfigMaps(Seen::Deleted(metrics::config_map())));
    assert!(sample.0.metrics.is_empty());
}
