use jiff::Timestamp;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use sts_plus_api::extended::{ActivePod, ExtendedStatus};

use super::{ExtendedLabels, ExtendedMetrics};

fn page(registry: &Registry) -> String {
    let mut page = String::new();
    text::encode(&mut page, registry).unwrap();
    page
}

fn active(uid: &str) -> ActivePod {
    ActivePod { name: "db-0".to_owned(), uid: uid.to_owned(), since: Timestamp::UNIX_EPOCH }
}

#[test]
fn an_object_is_shown_while_it_is_there_and_leaves_nothing_behind() {
    let mut registry = Registry::default();
    let metrics = ExtendedMetrics::register(&mut registry);
    let object =
        ExtendedLabels { group: "sts.plus", namespace: "ns".into(), extended_statefulset: "db".into() };
    let empty = page(&registry);
    let status = ExtendedStatus {
        current_version: Some(2),
        ready_replicas: Some(3),
        active_pod: Some(active("a")),
        ..ExtendedStatus::default()
    };
    metrics.show(&object, &status, Some("VersionStarting"));
    let of = r#"group="sts.plus",namespace="ns",extended_statefulset="db""#;
    let shown = page(&registry);
    for line in [
        format!("extended_statefulset_state{{{of},state=\"VersionStarting\"}} 1"),
        format!("extended_statefulset_current_version{{{of}}} 2"),
        format!("extended_statefulset_ready_replicas{{{of}}} 3"),
        format!("extended_statefulset_active{{{of}}} 1"),
    ] {
        assert!(shown.contains(&line), "{line} is not in\n{shown}");
    }
    assert!(!shown.contains("active_pod_changes_total{"), "the first active pod is no change: {shown}");
    metrics.show(&object, &ExtendedStatus { active_pod: None, ..status.clone() }, None);
    metrics.show(&object, &ExtendedStatus { active_pod: Some(active("b")), ..status }, None);
    let shown = page(&registry);
    assert!(shown.contains(&format!("extended_statefulset_state{{{of},state=\"Ready\"}} 1")), "{shown}");
    assert!(!shown.contains("VersionStarting"), "a state that is over is not shown: {shown}");
    let changes = format!("extended_statefulset_active_pod_changes_total{{{of}}} 1");
    assert!(shown.contains(&changes), "{shown}");
    metrics.forget(&object);
    assert_eq!(page(&registry), empty);
}
