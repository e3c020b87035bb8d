use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::text;

use super::*;

fn page(registry: &Registry) -> String {
    let mut page = String::new();
    text::encode(&mut page, registry).unwrap();
    page
}

fn record(ordinal: u32, phase: RecordPhase, seconds: i64) -> PodRecord {
    let start_time = Timestamp::UNIX_EPOCH;
    PodRecord {
        ordinal,
        pod_name: format!("db-{ordinal}"),
        pod_uid: format!("uid-{ordinal}"),
        container_restarts: std::collections::BTreeMap::new(),
        hook_hash: String::new(),
        phase,
        attempts: 0,
        message: String::new(),
        last_error: String::new(),
        start_time,
        accepted_time: None,
        drained_time: None,
        claims: None,
        deadline_exceeded: false,
        last_attempt_time: start_time.checked_add(SignedDuration::from_secs(seconds)).ok(),
    }
}

#[test]
fn a_policy_is_shown_while_it_is_there_and_leaves_nothing_behind() {
    let mut registry = Registry::default();
    let metrics = ScalingMetrics::register(&mut registry);
    let policy = ScalingLabels { namespace: "ns".into(), scaling_policy: "db".into() };
    let empty = page(&registry);
    let status = |leaving| ScalingPolicyStatus {
        desired_replicas: Some(1),
        replicas: Some(3),
        ready_replicas: Some(2),
        leaving,
        ..ScalingPolicyStatus::default()
    };
    let leaving = vec![record(2, RecordPhase::Drained, 5), record(1, RecordPhase::Draining, 0)];
    metrics.show(&policy, &status(leaving), Some("Draining"));
    metrics.called(&policy, Call::Prepare, &HookResult::Done, Duration::from_millis(3));
    metrics.called(&policy, Call::Poll, &HookResult::Failed("no".into()), Duration::from_secs(3));
    let of = r#"namespace="ns",scaling_policy="db""#;
    let shown = page(&registry);
    for line in [
        format!("scaling_policy_state{{{of},state=\"Draining\"}} 1"),
        format!("scaling_policy_desired_replicas{{{of}}} 1"),
        format!("scaling_policy_replicas{{{of}}} 3"),
        format!("scaling_policy_ready_replicas{{{of}}} 2"),
        format!("scaling_policy_leaving_pods{{{of},phase=\"Draining\"}} 1"),
        format!("scaling_policy_leaving_pods{{{of},phase=\"Failed\"}} 0"),
        format!("scaling_policy_hook_calls_total{{{of},call=\"prepare\",result=\"done\"}} 1"),
        format!("scaling_policy_hook_calls_total{{{of},call=\"poll\",result=\"failed\"}} 1"),
        format!("scaling_policy_hook_call_duration_seconds_count{{{of}}} 2"),
    ] {
        assert!(shown.contains(&line), "{line} is not in\n{shown}");
    }
    assert!(!shown.contains("drain_duration_seconds_count{"), "another process has drained it: {shown}");
    let leaving = vec![record(2, RecordPhase::Drained, 5), record(1, RecordPhase::Drained, 40)];
    for _ in 0..2 {
        metrics.show(&policy, &status(leaving.clone()), None);
    }
    let shown = page(&registry);
    assert!(shown.contains(&format!("scaling_policy_drain_duration_seconds_count{{{of}}} 1")), "{shown}");
    assert!(shown.contains(&format!("scaling_policy_drain_duration_seconds_sum{{{of}}} 40")), "{shown}");
    assert!(shown.contains(&format!("scaling_policy_state{{{of},state=\"Ready\"}} 1")), "{shown}");
    assert!(!shown.contains("state=\"Draining\""), "a state that is over is not shown: {shown}");
    metrics.removed(&policy, 0);
    assert!(!page(&registry).contains("removed_pods_total{"));
    metrics.removed(&policy, 2);
    assert!(page(&registry).contains(&format!("scaling_policy_removed_pods_total{{{of}}} 2")));
    metrics.forget(&policy);
    assert_eq!(page(&registry), empty);
}
