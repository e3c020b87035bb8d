//! Specs that the API server refuses, each with what the user reads.

use std::sync::Arc;

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::manifest::{down, hook, policy, with};
use super::scenarios;
use super::stage::{NAME, Scaled};
use crate::cluster::Cluster;
use crate::scenarios::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![a_spec_that_is_wrong_is_refused_with_the_reason]
}

async fn a_spec_that_is_wrong_is_refused_with_the_reason(cluster: Arc<dyn Cluster>, name: &'static str) {
    let stage = Scaled::new(&cluster, name).await;
    let path = |path: &str| json!({ "http": { "path": path } });
    let cases: [(Value, &str); 11] = [
        (json!({ "named": "own" }), "exactly one of http and named"),
        (json!({ "http": null }), "exactly one of http and named"),
        (json!({ "deadlineSeconds": 0 }), "deadlineSeconds"),
        (json!({ "timeoutSeconds": 61 }), "timeoutSeconds"),
        (json!({ "onFailure": "Ignore" }), "onFailure"),
        (path("shutdown"), "path"),
        (path("/a b"), "path"),
        (path("/a\r\nHost: b"), "path"),
        (path("/a#b"), "path"),
        (json!({ "http": { "tls": { "serverName": "a" } } }), "tls is only for the scheme HTTPS"),
        (json!({ "http": { "method": "CONNECT" } }), "method"),
    ];
    for (fields, words) in cases {
        let spec = down(NAME, &with(hook(), &fields));
        let refused = stage.policies().create(&PostParams::default(), &policy("wrong", &spec)).await;
        let refused = refused.map(|_| fields.clone()).unwrap_err().to_string();
        assert!(refused.contains(words), "{fields}: {refused}");
    }
    for (fields, words) in [
        (json!({ "replicas": -1 }), "replicas"),
        (json!({ "scaleDown": { "maxConcurrent": 0 } }), "maxConcurrent"),
        (json!({ "targetRef": { "kind": "Deployment" } }), "kind"),
    ] {
        let spec = with(down(NAME, &hook()), &fields);
        let refused = stage.policies().create(&PostParams::default(), &policy("wrong", &spec)).await;
        let refused = refused.map(|_| fields.clone()).unwrap_err().to_string();
        assert!(refused.contains(words), "{fields}: {refused}");
    }
    stage.create(&down(NAME, &hook())).await;
    let other = Patch::Merge(json!({ "spec": { "targetRef": { "name": "other" } } }));
    let refused =
        stage.policies().patch(NAME, &PatchParams::default(), &other).await.unwrap_err().to_string();
    assert!(refused.contains("targetRef cannot be changed"), "{refused}");
    // What a schema cannot say of a port that is a number or a name, the operator does.
    stage.edit(json!({ "scaleDown": { "hook": { "http": { "port": 0 } } } })).await;
    let message = stage.reports("InvalidSpec").await;
    assert!(message.contains("scaleDown.hook.http.port"), "{message}");
    stage.finish(&[]).await;
}
