//! A ConfigMap and a Secret, each in the environment and in a file of real containers.

use std::collections::BTreeSet;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use sts_plus_harness::RealNode;
use tokio::time::timeout;

use crate::{
    DEADLINE,
    extended::{CONFIG, KIND, apply, install, leave, ready},
    operator::pods,
    stages::Stages,
};

const NAME: &str = "greeter";
const PODS: usize = 2;
/// How often the data changes.
const CHANGES: usize = 2;

pub(crate) async fn replaced_once(node: &RealNode) {
    let mut stages = Stages::begin("configuration");
    install(node).await;
    let pods = pods(node, CONFIG);
    let mut changes = pods.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    apply(node, CONFIG, &objects().to_string()).await;
    says(node, 1, "hello hello one one").await;
    stages.end("two pods Ready");

    touch(node, "configmap").await;
    merge(node, "configmap", &json!({"data": {"word": "good evening"}})).await;
    says(node, 2, "good evening good evening one one").await;
    stages.end("another ConfigMap: both replaced");

    touch(node, "secret").await;
    merge(node, "secret", &json!({"stringData": {"word": "two"}})).await;
    says(node, 3, "good evening good evening two two").await;
    stages.end("another Secret: both replaced");

    // What metadata did, and whatever was done twice, shows in the number of pods that there have been.
    let after = pods.create(&PostParams::default(), &last()).await.unwrap();
    let mut seen = BTreeSet::new();
    loop {
        let change = timeout(DEADLINE, changes.next()).await.unwrap().unwrap().unwrap();
        match change {
            WatchEvent::Added(pod) if pod.uid() == after.uid() => break,
            WatchEvent::Added(pod) => drop(seen.insert((pod.name_any(), pod.uid()))),
            WatchEvent::Modified(_) | WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            other @ WatchEvent::Error(_) => panic!("{other:?}"),
        }
    }
    assert_eq!(seen.len(), PODS * (1 + CHANGES), "{seen:?}");
    leave(node, CONFIG).await;
}

/// Waits until all pods run in this version, and have printed this when they started.
async fn says(node: &RealNode, version: u64, expected: &str) {
    ready(node, (CONFIG, KIND, NAME), version, PODS as u64).await;
    for ordinal in 0..PODS {
        let logs = node.kubectl(&["-n", CONFIG, "logs", &format!("{NAME}-{ordinal}")]).await.unwrap();
        assert_eq!(logs.trim_end(), expected, "{NAME}-{ordinal}");
    }
}

/// Changes nothing but metadata.
async fn touch(node: &RealNode, kind: &str) {
    node.kubectl(&["-n", CONFIG, "annotate", kind, "words", "note=touched"]).await.unwrap();
    node.kubectl(&["-n", CONFIG, "label", kind, "words", "label=touched"]).await.unwrap();
}

async fn merge(node: &RealNode, kind: &str, fields: &Value) {
    let fields = fields.to_string();
    node.kubectl(&["-n", CONFIG, "patch", kind, "words", "--type=merge", "-p", &fields]).await.unwrap();
}

fn objects() -> Value {
    let container = json!({
        "name": NAME,
        "image": "busybox:1.36",
        "command": [
            "sh", "-c",
            "echo \"$MAP $(cat /etc/map/word) $SECRET $(cat /etc/secret/word)\"; exec sleep 1000000",
        ],
        "env": [
            {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "word"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "words", "key": "word"}}},
        ],
        "volumeMounts": [
            {"name": "map", "mountPath": "/etc/map"},
            {"name": "secret", "mountPath": "/etc/secret"},
        ],
    });
    let volumes = json!([
        {"name": "map", "configMap": {"name": "words"}},
        {"name": "secret", "secret": {"secretName": "words"}},
    ]);
    let pod = json!({"spec": {"containers": [container], "volumes": volumes}});
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"word": "hello"}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "words"}, "stringData": {"word": "one"}},
            {
                "apiVersion": "sts.plus/v1alpha1",
                "kind": "ExtendedStatefulSet",
                "metadata": {"name": NAME},
                "spec": {
                    "updateOnConfigChange": true,
                    "template": {"spec": {"replicas": PODS, "template": pod}},
                },
            },
        ],
    })
}

/// One that nobody runs: it marks the end of what is looked at.
fn last() -> Pod {
    let pod = json!({
        "metadata": {"name": "last"},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "last", "image": "busybox:1.36"}]},
    });
    serde_json::from_value(pod).unwrap()
}
