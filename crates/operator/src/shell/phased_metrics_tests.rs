use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use sts_plus_api::phased_rollout::{Phase, PhasedRolloutStatus, RevisionPods, Verdict};
use sts_plus_planner::phased_rollout::Ended;

use super::{PhasedMetrics, RolloutLabels};

fn page(registry: &Registry) -> String {
    let mut page = String::new();
    text::encode(&mut page, registry).unwrap();
    page
}

#[test]
fn a_rollout_is_shown_while_it_is_there_and_leaves_nothing_behind() {
    let mut registry = Registry::default();
    let metrics = PhasedMetrics::register(&mut registry);
    let rollout = RolloutLabels { namespace: "ns".into(), phased_rollout: "gated".into() };
    let empty = page(&registry);
    let pods = |revision: &str, pods| RevisionPods { revision: revision.to_owned(), pods, ready: pods };
    let status = PhasedRolloutStatus {
        phase: Some(Phase::Rolling),
        update_revision: Some("new".to_owned()),
        since: Some(Timestamp::from_second(100).unwrap()),
        pods: vec![pods("new", 1), pods("old", 2)],
        ..PhasedRolloutStatus::default()
    };
    metrics.show(&rollout, &status);
    metrics.queried(&rollout, "errors", Verdict::Pass, Duration::from_millis(20));
    metrics.passed(&rollout, Duration::from_secs(30));
    metrics.ended(&rollout, Ended::Completed);
    metrics.tick(Timestamp::from_second(130).unwrap());
    let shown = page(&registry);
    let of = r#"namespace="ns",phased_rollout="gated""#;
    for line in [
        format!("phased_rollout_phase{{{of},phase=\"Rolling\"}} 1"),
        format!("phased_rollout_pods{{{of},revision=\"update\"}} 1"),
        format!("phased_rollout_pods{{{of},revision=\"other\"}} 2"),
        format!("phased_rollout_checks_total{{{of},check=\"errors\",verdict=\"Pass\"}} 1"),
        format!("phased_rollout_waiting_seconds{{{of}}} 30.0"),
        format!("phased_rollout_ended_total{{{of},result=\"completed\"}} 1"),
        format!("phased_rollout_gate_duration_seconds_count{{{of}}} 1"),
        format!("phased_rollout_check_duration_seconds_count{{{of}}} 1"),
    ] {
        assert!(shown.contains(&line), "{line} is not in\n{shown}");
    }
    metrics.show(&rollout, &PhasedRolloutStatus { phase: Some(Phase::Updated), ..status });
    assert!(!page(&registry).contains("phase=\"Rolling\""), "a phase that is over is not shown");
    metrics.forget(&rollout);
    assert_eq!(page(&registry), empty);
}
