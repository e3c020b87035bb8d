//! Objects as users and controllers write them.

use kube::api::DynamicObject;
use serde_json::{Value, json};

const DOCUMENTED: &str = include_str!("../../../../examples/phased-rollout/sample.yaml");

pub(crate) fn documented() -> DynamicObject {
    serde_saphyr::from_str(DOCUMENTED).unwrap()
}

pub(crate) fn documented_with_defaults() -> Value {
    let mut spec = least_with_defaults();
    spec["check"]["initialDelaySeconds"] = json!(30);
    spec["check"]["periodSeconds"] = json!(30);
    spec["check"]["query"]["expr"] = json!("up{}");
    spec["check"]["query"]["url"] = json!("prom:9000/xx");
    spec["check"]["query"]["secretRef"] = json!("prom-secret");
    spec
}

/// Only what must be there.
pub(crate) fn least() -> Value {
    json!({"targetRef": "web", "check": {"query": {"expr": "up", "url": "http://prom:9090"}}})
}

pub(crate) fn least_with_defaults() -> Value {
    json!({
        "targetRef": "web",
        "skipCheck": false,
        "standardRollingUpdate": false,
        "suspendPolicy": "Resume",
        "deletionPolicy": "Resume",
        "paused": false,
        "approval": "Never",
        "verifyLast": true,
        "onFailure": "Pause",
        "check": {
            "initialDelaySeconds": 60,
            "periodSeconds": 60,
            "successThreshold": 3,
            "passWhen": "NoData",
            "errorPolicy": "Wait",
            "onWarnings": "Error",
            "query": {
                "expr": "up",
                "url": "http://prom:9090",
                "insecureSkipVerify": false,
                "timeoutSeconds": 5,
            },
        },
    })
}

/// All that the former operator's kind had.
pub(crate) fn former_spec() -> Value {
    json!({
        "targetRef": "web",
        "standardRollingUpdate": true,
        "check": {
            "initialDelaySeconds": 60,
            "periodSeconds": 60,
            "successThreshold": 3,
            "query": {
                "expr": "up",
                "url": "https://prom.example:9090",
                "insecureSkipVerify": true,
                "secretRef": "prom",
            },
        },
    })
}

pub(crate) fn former_status() -> Value {
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    json!({
        "conditions": [condition("Ready"), condition("Updated")],
        "phase": "Rolling",
        "updateRevision": "web-2",
        "rolloutStartTime": "2026-01-02T03:04:05Z",
        "rollingPodStatus": {
            "status": "WaitForChecks",
            "partition": 2,
            "analisysStartTime": "2026-01-02T03:04:05Z",
            "consecutiveSuccessfulChecks": 1,
            "consecutiveFailedChecks": 0,
            "totalFailedChecks": 0,
        },
    })
}

fn full_check() -> Value {
    json!({
        "initialDelaySeconds": 0,
        "periodSeconds": 0,
        "successThreshold": 1,
        "failureThreshold": 2,
        "passWhen": "Compare",
        "compare": {"operator": "<=", "threshold": 0.5, "reduce": "Max"},
        "requireData": "up",
        "noDataPolicy": "Wait",
        "errorPolicy": "Fail",
        "onWarnings": "Ignore",
        "consecutiveErrorLimit": 3,
        "query": {
            "expr": "lag{set=\"${set}\"}",
            "url": "https://prom.example/tenant",
            "secretRef": "prom",
            "insecureSkipVerify": false,
            "caSecretRef": "ca",
            "clientCertSecretRef": "client",
            "headers": [
                {"name": "X-Scope-OrgID", "value": "storage"},
                {"name": "X-Key", "secretKeyRef": {"name": "keys", "key": "one"}},
            ],
            "timeoutSeconds": 60,
        },
    })
}

/// Every field; `check` is left out, since there can be only one of it and `checks`.
pub(crate) fn full_spec() -> Value {
    let mut check = full_check();
    check["name"] = json!("lag");
    json!({
        "targetRef": "web",
        "skipCheck": true,
        "standardRollingUpdate": true,
        "suspendPolicy": "Freeze",
        "deletionPolicy": "Freeze",
        "paused": true,
        "approval": "EveryStep",
        "verifyLast": false,
        "onFailure": "Rollback",
        "progressDeadlineSeconds": 1,
        "checks": [check],
    })
}

/// Every field of the status.
pub(crate) fn full_status() -> Value {
    let time = "2026-01-02T03:04:05.678901Z";
    // Written apart: one literal with all fields is deeper than the macro recurses.
    let gate = json!({
        "status": "WaitForChecks",
        "partition": 2,
        "replicas": 3,
        "startTime": time,
        "elapsedSeconds": 42,
        "analisysStartTime": time,
        "podsReadySince": time,
        "lastCheckTime": time,
        "nextCheckTime": time,
        "consecutiveSuccessfulChecks": 1,
        "consecutiveFailedChecks": 0,
        "totalFailedChecks": 4,
        "first": true,
        "approved": true,
        "checks": [{
            "name": "lag",
            "consecutiveSuccessfulChecks": 1,
            "consecutiveFailedChecks": 0,
            "totalFailedChecks": 4,
            "consecutiveErrors": 0,
            "lastCheckTime": time,
            "lastSuccessTime": time,
            "lastVerdict": "Pass",
            "lastValue": "0.25",
            "lastError": "timed out",
            "warnings": ["slow"],
        }],
    });
    let mut status = json!({
        "observedGeneration": 1,
        "phase": "Rolling",
        "waitingFor": "Checks",
        "message": "check lag has passed 1 of 3 times",
        "since": time,
        "conditions": [{
            "type": "Ready",
            "status": "False",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "Rolling",
            "message": "1 of 3 pods",
        }],
        "target": {"name": "web", "uid": "5f70bf18"},
        "updateRevision": "web-2",
        "previousRevision": "web-1",
        "rolloutStartTime": time,
        "rolloutEndTime": time,
        "partition": 2,
        "failure": {
            "revision": "web-2",
            "reason": "CheckFailed",
            "message": "lag was above 0.5",
            "time": time,
            "action": "Rollback",
        },
        "pods": [{"revision": "web-2", "pods": 1, "ready": 1}, {"revision": "web-1", "pods": 2, "ready": 2}],
        "ungatedPods": ["web-3"],
        "contest": {"manager": "helm", "times": 2, "lastTime": time},
    });
    // Beside the rest, since the macro has an end.
    status["rollingPodStatus"] = gate;
    status["awaitedApproval"] = json!("web-1/web-1");
    status["usedApprovals"] = json!(["web-1/web-2"]);
    status
}
