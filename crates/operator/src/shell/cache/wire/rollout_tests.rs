use serde_json::{Value, json};

use sts_plus_planner::phased_rollout::row::{ParsedSpec, RolloutRow};

use super::super::Interner;

fn faults(row: &RolloutRow) -> String {
    let faults = row.spec.policy.as_ref().err().into_iter().flatten();
    faults.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn rollout_row(json: &Value) -> RolloutRow {
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
    let policy = row.spec.policy.expect("without faults");
    let check = policy.checks.first().expect("given");
    assert_eq!(
        (check.delay.as_secs(), check.period.as_secs(), check.successes, check.query.timeout_seconds),
        (60, 60, 3, 5)
    );
}

#[test]
fn a_phased_rollout_that_cannot_be_read_says_why_and_a_status_of_another_operator_counts_as_none() {
    let meta = json!({ "name": "gated", "namespace": "ns" });
    let row = rollout_row(&json!({ "metadata": meta, "spec": { "targetRef": 7 } }));
    assert!(faults(&row).contains("invalid type"), "the reason reaches the user");
    let row = rollout_row(&json!({ "metadata": meta }));
    assert!(row.spec.policy.is_err());
    let theirs =
        json!({ "phase": "Rolling", "rollingPodStatus": { "status": "WaitForChecks", "partition": 1 } });
    let row = rollout_row(&json!({ "metadata": meta, "spec": { "targetRef": "web" }, "status": theirs }));
    assert_eq!(row.status, sts_plus_api::phased_rollout::PhasedRolloutStatus::default());
}

#[test]
fn a_phased_rollout_costs_no_more_than_its_bounds() {
    let long = "x".repeat(300 << 10);
    let meta = json!({ "name": "gated", "namespace": "ns", "annotations": { "sts.plus/approve": long } });
    let query = json!({ "expr": long, "url": "prom" });
    let status = json!({ "message": long });
    let row = rollout_row(&json!({
        "metadata": meta, "spec": { "targetRef": "web", "check": { "query": query } }, "status": status
    }));
    assert_eq!(row.spec, ParsedSpec::unreadable("it is larger than 256 KiB".to_owned()));
    assert_eq!(row.status, sts_plus_api::phased_rollout::PhasedRolloutStatus::default());
    assert!(row.approve.is_some_and(|approve| approve.len() < 2048));
    // The parser quotes what it cannot use.
    let spec = json!({ "targetRef": "web", "check": "x".repeat(200 << 10) });
    let row = rollout_row(&json!({ "metadata": meta, "spec": spec }));
    assert!(row.spec.policy.is_err() && faults(&row).len() < 2048);
}

#[test]
fn a_phased_rollout_with_megabytes_of_finalizers_is_left_alone() {
    let finalizers: Vec<_> = (0..1000).map(|n| format!("example.com/finalizer-{n}")).collect();
    let json = json!({ "metadata": { "name": "gated", "namespace": "ns", "finalizers": finalizers } });
    let error = super::rollout(&json.to_string(), &mut Interner::default()).expect_err("too long");
    assert!(error.error.contains("finalizers are longer than 16 KiB"), "{}", error.error);
}
