use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_operator::view::Scaling;

use super::render;

fn page(scaling: &Scaling) -> String {
    let mut page = String::new();
    render(&mut page, scaling, Timestamp::from_second(130).unwrap()).unwrap();
    page
}

fn scaling(status: &Value) -> Scaling {
    Scaling {
        namespace: "ns".to_owned(),
        name: "ingester".to_owned(),
        target: "ingester".to_owned(),
        observed: true,
        status: serde_json::from_value(status.clone()).unwrap(),
        ..Scaling::default()
    }
}

fn condition(kind: &str, truth: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": truth, "reason": reason, "message": message,
        "lastTransitionTime": "1970-01-01T00:01:40Z",
    })
}

#[test]
fn a_drain_shows_how_far_each_pod_is_and_why_the_last_call_failed() {
    let message = "ingester-10 drains.";
    let status = json!({
        "replicas": 11, "readyReplicas": 9, "desiredReplicas": 9,
        "leaving": [
            { "ordinal": 10, "podName": "ingester-10", "podUID": "u", "phase": "Draining", "message": "flushing 12 of 40",
              "startTime": "1970-01-01T00:01:00Z" },
            { "ordinal": 9, "podName": "ingester-9", "podUID": "v", "phase": "Requested", "attempts": 2,
              "lastError": "POST /ingester/shutdown answered 500", "startTime": "1970-01-01T00:02:00Z" },
        ],
        "conditions": [
            condition("Ready", "False", "Draining", message),
            condition("Reconciling", "True", "Draining", message),
        ],
    });
    assert_eq!(
        page(&scaling(&status)),
        "SCALING POLICY ingester of ingester in namespace ns\n  \
           Draining, not Ready for 30s  9 replicas wanted, 11 present, 9 Ready\n    \
             ingester-10 drains.\n    \
             ingester-10  leaves: Draining for 70s\n                   \
                            flushing 12 of 40\n    \
             ingester-9   leaves: Requested for 10s, 2 failed attempts\n                   \
                            last error: POST /ingester/shutdown answered 500\n"
    );
}

#[test]
fn claims_that_grow_show_what_is_done_and_what_is_waited_for() {
    let message = "Waiting for these claims to have their new size: data-ingester-0.";
    let status = json!({
        "replicas": 1, "readyReplicas": 1, "desiredReplicas": 1,
        "remedy": { "type": "Recreate", "message": "Grow 1 claim in place (data to 2Gi). No pod is restarted." },
        "conditions": [condition("Ready", "False", "GrowingClaims", message)],
    });
    assert_eq!(
        page(&scaling(&status)),
        "SCALING POLICY ingester of ingester in namespace ns\n  \
           GrowingClaims, not Ready for 30s  1 replicas wanted, 1 present, 1 Ready\n    \
             Waiting for these claims to have their new size: data-ingester-0.\n    \
             Recreate: Grow 1 claim in place (data to 2Gi). No pod is restarted.\n"
    );
}

#[test]
fn a_policy_at_its_goal_shows_what_others_have_removed_past_it() {
    let status = json!({
        "replicas": 3, "readyReplicas": 3, "desiredReplicas": 3,
        "removedWithoutDrain": [{ "ordinal": 2, "time": "1970-01-01T00:00:10Z", "by": "kubectl-scale" }],
        "conditions": [
            condition("Ready", "True", "AsRequested", "All is well."),
            condition("Conflict", "True", "ForeignWrites", "kubectl-scale has lowered the replicas."),
        ],
    });
    assert_eq!(
        page(&scaling(&status)),
        "SCALING POLICY ingester of ingester in namespace ns\n  \
           Ready for 30s  3 replicas wanted, 3 present, 3 Ready\n    \
             All is well.\n    \
             removed without its hook: ingester-2 by kubectl-scale 2m ago\n    \
             warning: kubectl-scale has lowered the replicas.\n"
    );
}

#[test]
fn a_pod_that_joins_is_shown_and_a_status_of_an_earlier_spec_is_named_as_such() {
    let status = json!({
        "replicas": 2, "readyReplicas": 1,
        "joining": [{ "ordinal": 1, "podName": "ingester-1", "phase": "Requested", "attempts": 1,
                      "lastError": "connection refused", "startTime": "1970-01-01T00:01:00Z" }],
        "conditions": [condition("Ready", "False", "Joining", "ingester-1 joins.")],
    });
    let earlier = Scaling { observed: false, ..scaling(&status) };
    assert_eq!(
        page(&earlier),
        "SCALING POLICY ingester of ingester in namespace ns\n  \
           Joining, not Ready for 30s  2 replicas present, 1 Ready\n    \
             ingester-1 joins.\n    \
             The operator has not yet observed the present spec.\n    \
             ingester-1  joins: Requested for 70s, 1 failed attempt\n                  \
                           last error: connection refused\n"
    );
}

#[test]
fn without_a_status_it_says_what_to_look_for() {
    assert_eq!(
        page(&scaling(&json!({}))),
        "SCALING POLICY ingester of ingester in namespace ns\n  \
         No operator has reported a status: is sts-plus running with the controller scaling?\n"
    );
}
