use serde_json::json;

use super::*;

fn picture() -> Picture {
    let pod = |image: &str, ready: bool| {
        json!({
            "metadata": {
                "ownerReferences": [{ "uid": "StatefulSet web #1", "controller": true }],
                "labels": { "controller-revision-hash": "web-1" },
            },
            "spec": { "containers": [{ "image": image }] },
            "status": { "phase": "Running", "ready": ready },
        })
    };
    Picture(json!({
        "sets": { "web": {
            "metadata": { "uid": "StatefulSet web #1", "generation": 2 },
            "spec": { "replicas": 2, "updateStrategy": { "type": "RollingUpdate" } },
            "status": {
                "observedGeneration": 2, "replicas": 2, "readyReplicas": 1, "availableReplicas": 1,
                "updatedReplicas": 2, "currentReplicas": 2, "currentRevision": "web-1", "updateRevision": "web-1",
            },
        } },
        "pods": { "web-0": pod("app:v1", true), "web-1": pod("app:v2", false) },
        "claims": { "data-web-0": { "metadata": {
            "ownerReferences": [{ "uid": "StatefulSet web #1", "controller": true }],
        } } },
        "revisions": { "web-1": {} },
    }))
}

#[test]
fn what_is_there_is_recognised() {
    let expect = pods("web-0:v1 web-1:v2!").claims("data-web-0@web").revisions(1);
    assert_eq!(expect.check(&picture()), Ok(()));
}

#[test]
fn everything_that_differs_is_noticed() {
    let all = "web-0 web-1!";
    let wrong = [
        pods("web-0"),
        pods("web-0 web-1! web-2"),
        pods("web-0 web-1"),
        pods("web-0! web-1!"),
        pods("web-0~ web-1!"),
        pods("web-0? web-1!"),
        pods("web-0:v2 web-1!"),
        pods(all).claims("data-web-0"),
        pods(all).claims(""),
        pods(all).claims("data-web-0@web~"),
        pods(all).revisions(2),
    ];
    assert_eq!(pods(all).check(&picture()), Ok(()));
    for expect in wrong {
        assert!(expect.check(&picture()).is_err(), "{expect:?}");
    }
}

#[test]
fn a_status_that_lags_is_noticed() {
    let late = |field: &str, value: Value| {
        let mut picture = picture();
        picture.0["sets"]["web"]["status"][field] = value;
        pods("web-0 web-1!").check(&picture)
    };
    assert_eq!(late("readyReplicas", json!(1)), Ok(()));
    for field in ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas"] {
        assert!(late(field, json!(0)).is_err(), "{field}");
    }
    assert!(late("observedGeneration", json!(1)).is_err());
    assert!(late("updateRevision", json!("web-2")).is_err());
}
