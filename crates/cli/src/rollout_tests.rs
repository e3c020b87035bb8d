use jiff::Timestamp;
use serde_json::json;

use super::Rollout;

fn rollout(status: &serde_json::Value) -> Rollout {
    Rollout {
        namespace: "ns".to_owned(),
        name: "gated".to_owned(),
        target: "web".to_owned(),
        status: serde_json::from_value(status.clone()).unwrap(),
    }
}

fn page(status: &serde_json::Value) -> String {
    let mut page = String::new();
    rollout(status).page(Timestamp::from_second(130).unwrap(), &mut page).unwrap();
    page
}

#[test]
fn a_rollout_in_its_gate_reads_as_a_page_of_its_own() {
    let status = json!({
        "phase": "Rolling",
        "waitingFor": "ChecksFailing",
        "since": "1970-01-01T00:01:40Z",
        "message": "errors has failed 2 times in a row: 1 series: 5; until errors passes again",
        "updateRevision": "web-2",
        "pods": [{ "revision": "web-2", "pods": 1, "ready": 1 }, { "revision": "web-1", "pods": 2, "ready": 2 }],
        "rollingPodStatus": {
            "status": "WaitForChecks", "partition": 2, "replicas": 3, "startTime": "1970-01-01T00:01:40Z",
            "nextCheckTime": "1970-01-01T00:02:15Z",
            "consecutiveSuccessfulChecks": 0, "consecutiveFailedChecks": 2, "totalFailedChecks": 2,
            "checks": [{ "name": "errors", "consecutiveFailedChecks": 2, "lastVerdict": "Fail", "lastValue": "1 series: 5", "warnings": ["partial"] }],
        },
        "ungatedPods": ["web-2"],
        "conditions": [{
            "type": "Warning", "status": "True", "lastTransitionTime": "1970-01-01T00:01:40Z",
            "reason": "Suspicious", "message": "the url of errors has no scheme: http:// is used",
        }],
    });
    assert_eq!(
        page(&status),
        "PHASED ROLLOUT gated of web in namespace ns\n  \
           Rolling  ChecksFailing for 30s  1/1 Ready on web-2 (target), 2/2 Ready on web-1\n    \
             errors has failed 2 times in a row: 1 series: 5; until errors passes again\n    \
             gate at partition 2: WaitForChecks\n    \
             errors: Fail (1 series: 5), 0 passes and 2 failures in a row\n    \
             errors warns: partial\n    \
             next check in 5s\n    \
             started without a gate: web-2\n    \
             warning: the url of errors has no scheme: http:// is used\n"
    );
}

#[test]
fn a_rollout_that_nobody_has_looked_at_says_what_to_look_for() {
    assert_eq!(
        page(&json!({})),
        "PHASED ROLLOUT gated of web in namespace ns\n  \
         no operator has looked at it yet: is sts-plus running, with the controller phased-rollout?\n"
    );
}
