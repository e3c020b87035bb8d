//! What a spec must be, also where the schema was not asked.

use serde_json::{Value, json};

use super::cluster::{http, parsed};
use crate::scaling::hook::{Hook, HookKind};

fn spec(change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = json!({ "targetRef": { "name": "web" }, "scaleDown": { "hook": http(true) } });
    change(&mut spec);
    spec
}

fn faults(spec: &Value) -> Vec<String> {
    parsed(spec).policy.unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn a_spec_without_faults_has_the_documented_defaults() {
    let spec = spec(|spec| spec["scaleDown"]["hook"] = json!({ "http": { "path": "/x", "port": 80 } }));
    let policy = parsed(&spec).policy.unwrap();
    assert_eq!((policy.replicas, policy.paused, policy.max_concurrent), (None, false, 1));
    let hook: &Hook = policy.down.as_ref().unwrap();
    assert_eq!((hook.timeout.as_secs(), hook.deadline.as_secs()), (10, 4800));
    let HookKind::Http(http) = &hook.kind else { panic!("{hook:?}") };
    assert_eq!((&*http.method, &http.success[..]), ("POST", &[200, 202, 204][..]));
    assert!(!hook.can_cancel() && policy.up.is_none());
}

#[test]
fn what_is_called_is_hashed_and_nothing_else() {
    let hash =
        |spec: &Value| std::sync::Arc::clone(&parsed(spec).policy.unwrap().down.as_ref().unwrap().hash);
    let first = hash(&spec(|_| {}));
    assert_eq!(first, hash(&spec(|spec| spec["scaleDown"]["hook"]["deadlineSeconds"] = json!(7))));
    assert_ne!(first, hash(&spec(|spec| spec["scaleDown"]["hook"]["http"]["path"] = json!("/y"))));
}

#[test]
fn each_fault_is_named_by_its_field() {
    let hook = |key: &str, value: Value| {
        let key = key.to_owned();
        faults(&spec(move |spec| spec["scaleDown"]["hook"][&key] = value))
    };
    let http = |key: &str, value: Value| {
        let key = key.to_owned();
        faults(&spec(move |spec| spec["scaleDown"]["hook"]["http"][&key] = value))
    };
    let path = "scaleDown.hook.http.path must begin with a slash and consist of characters of a URL";
    for evil in ["", "x", "/a b", "/a\r\nHost: b", "/a#b", "/ä", "http://evil/"] {
        assert_eq!(http("path", json!(evil)), [path], "{evil:?}");
    }
    assert_eq!(hook("deadlineSeconds", json!(0)), ["scaleDown.hook.deadlineSeconds must be at least 1"]);
    assert_eq!(hook("timeoutSeconds", json!(61)), ["scaleDown.hook.timeoutSeconds must be from 1 to 60"]);
    assert_eq!(hook("named", json!("x")), ["scaleDown.hook must have exactly one of http and named"]);
    let port = "scaleDown.hook.http.port must be a number from 1 to 65535, or the name of a port";
    assert_eq!(http("port", json!(0)), [port]);
    assert_eq!(
        http("method", json!("TRACE")),
        ["scaleDown.hook.http.method must be GET, POST, PUT, PATCH or DELETE"]
    );
    assert_eq!(http("tls", json!({})), ["scaleDown.hook.http.tls must be absent unless the scheme is HTTPS"]);
    let codes = "scaleDown.hook.http.successCodes must be status codes from 100 to 599";
    assert_eq!(http("successCodes", json!([])), [codes]);
    let half = "scaleDown.hook.http.status must have jsonPointer and equals, or neither";
    assert_eq!(http("status", json!({ "path": "/s", "equals": 1 })), [half]);
    assert_eq!(faults(&spec(|spec| spec["replicas"] = json!(-1))), ["replicas must be from 0 to 10000"]);
    let most = "scaleDown.maxConcurrent must be from 1 to 100";
    assert_eq!(faults(&spec(|spec| spec["scaleDown"]["maxConcurrent"] = json!(0))), [most]);
    let target = "targetRef must name a StatefulSet of apps/v1";
    assert_eq!(faults(&spec(|spec| spec["targetRef"]["kind"] = json!("Deployment"))), [target]);
}

#[test]
fn a_spec_that_cannot_be_read_is_a_fault() {
    assert!(faults(&json!({ "targetRef": 7 }))[0].starts_with("the spec cannot be read: "));
}
