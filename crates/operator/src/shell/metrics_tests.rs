use std::time::Duration;

use jiff::Timestamp;
use sts_plus_planner::reason::Reason;

use super::{GroupLabels, Metrics, StateLabels};

fn group(name: &str) -> GroupLabels {
    GroupLabels { namespace: "ns".into(), rollout_group: name.into() }
}

#[test]
fn e_r27_the_series_of_a_group_that_is_no_more_go_and_those_of_others_stay() {
    let metrics = Metrics::new();
    for name in ["gone", "stays"] {
        metrics.group_pass(&group(name), Duration::from_millis(3), Some(Timestamp::UNIX_EPOCH));
        let state = StateLabels { namespace: "ns".into(), rollout_group: name.into(), state: "Rolling" };
        metrics.sets.get_or_create(&state).set(1);
    }
    metrics.forget_group(&group("gone"), Reason::KINDS);
    let page = metrics.encode();
    assert!(!page.contains("gone"), "{page}");
    assert!(
        page.contains(r#"sts_plus_rollout_sets{namespace="ns",rollout_group="stays",state="Rolling"} 1"#)
    );
}

#[test]
fn a_group_has_the_four_series_of_rollout_operator_and_failures_count_from_zero() {
    let metrics = Metrics::new();
    metrics.group_pass(&group("g"), Duration::from_millis(3), Some(Timestamp::from_second(7).unwrap()));
    let page = metrics.encode();
    let labels = r#"{namespace="ns",rollout_group="g"}"#;
    for line in [
        format!("rollout_operator_group_reconciles_total{labels} 1"),
        format!("rollout_operator_group_reconciles_failed_total{labels} 0"),
        format!("rollout_operator_group_reconcile_duration_seconds_count{labels} 1"),
        format!("rollout_operator_last_successful_group_reconcile_timestamp_seconds{labels} 7.0"),
    ] {
        assert!(page.contains(&line), "{line} is not in\n{page}");
    }
    metrics.group_pass(&group("g"), Duration::from_millis(3), None);
    assert!(metrics.encode().contains(&format!("rollout_operator_group_reconciles_failed_total{labels} 1")));
}
