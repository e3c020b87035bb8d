//! The lock on a real kubelet: a container that exits is restarted in place without its init containers, so an init container
//! alone holds nothing; with the restart rule, and without it by the deletion of the pod, the lock of sts-plus does.

use std::collections::BTreeMap;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use sts_plus_harness::{
    RealNode,
    wait::{NotYet, until},
};
use tokio::time::timeout;

use crate::{
    DEADLINE,
    fleet::is_ready,
    operator::{self, ready_pods},
    stages::Stages,
};

/// The namespace of the sets.
const LOCKS: &str = "locks";

/// An application that exits when it is asked to, and runs on until then.
const SERVE: &str = "mkdir -p /www/cgi-bin
echo '#!/bin/sh
touch /tmp-stop
echo Content-Type: text/plain
echo
echo stops' >/www/cgi-bin/shutdown
/bin/busybox chmod 755 /www/cgi-bin/shutdown
touch /www/index.html
trap 'exit 0' TERM
httpd -p 8080 -h /www
until test -e /tmp-stop; do /bin/busybox sleep 0.1; done";

/// Waits for a file that is named like the ordinal of the pod, as the original does.
const PURE: &str = "test -e /lock/${HOSTNAME##*-}";

pub(crate) async fn holds(node: &RealNode) {
    let mut stages = Stages::begin("locks");
    operator::install(node).await;
    node.control_plane().create_namespace(LOCKS).await.unwrap();
    stages.end("sts-plus with its chart");
    an_init_container_alone_holds_nothing(node).await;
    stages.end("an init container alone: the pod serves again");
    let declared = declared(node).await;
    assert!(declared, "this node can restart all containers of a pod");
    held(node, "rule", true).await;
    stages.end("with the restart rule: the pod waits in its init container");
    held(node, "deleted", false).await;
    stages.end("without it: the pod is deleted");
    for set in ["pure", "rule", "deleted"] {
        node.kubectl(&["-n", LOCKS, "delete", "statefulset", set]).await.unwrap();
    }
}

fn pods(node: &RealNode) -> Api<Pod> {
    Api::namespaced(node.control_plane().admin(), LOCKS)
}

fn set(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "app",
            "image": "busybox:1.36",
            "command": ["sh", "-c", SERVE],
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/index.html", "port": 8080}, "periodSeconds": 1},
        }],
    });
    for (key, value) in spec.as_object().unwrap() {
        pod[key] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": LOCKS, "name": name},
        "spec": {
            "replicas": 2,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    })
}

async fn declared(node: &RealNode) -> bool {
    let nodes: Value =
        serde_json::from_str(&node.kubectl(&["get", "nodes", "-o", "json"]).await.unwrap()).unwrap();
    let features = nodes["items"][0]["status"]["declaredFeatures"].as_array().cloned().unwrap_or_default();
    features.iter().any(|feature| feature == "RestartAllContainersOnContainerExits")
}

/// As the original does it: the key is removed, the application exits, and serves again in the same pod.
async fn an_init_container_alone_holds_nothing(node: &RealNode) {
    let lock = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": LOCKS, "name": "pure"},
        "data": {"0": "", "1": ""},
    });
    node.kubectl_with(&["apply", "-f", "-"], &lock.to_string()).await.unwrap();
    let init = json!({
        "initContainers": [{
            "name": "lock",
            "image": "busybox:1.36",
            "command": ["sh", "-c", PURE],
            "volumeMounts": [{"name": "lock", "mountPath": "/lock"}],
        }],
        "volumes": [{"name": "lock", "configMap": {"name": "pure"}}],
    });
    node.kubectl_with(&["apply", "-f", "-"], &set("pure", &init).to_string()).await.unwrap();
    let ready = ready_pods(node, LOCKS, 2).await;
    let before = ready.items.into_iter().find(|pod| pod.name_any() == "pure-1").unwrap();
    node.kubectl(&[
        "-n",
        LOCKS,
        "patch",
        "configmap",
        "pure",
        "--type=merge",
        "-p",
        r#"{"data":{"1":null}}"#,
    ])
    .await
    .unwrap();
    node.kubectl(&["-n", LOCKS, "exec", "pure-1", "--", "touch", "/tmp-stop"]).await.unwrap();
    let after = until(DEADLINE, "the pod that has exited to be Ready again", || async {
        let pod = pods(node).get("pure-1").await?;
        let restarts = restarts(&pod);
        if restarts > 0 && is_ready(&pod) { Ok(pod) } else { Err(NotYet::saw(restarts)) }
    })
    .await;
    assert_eq!(after.uid(), before.uid(), "in place, with its key removed");
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).sum()
}

/// A policy with the lock: the pod that leaves is never Ready again once its hook has succeeded.
async fn held(node: &RealNode, name: &str, exits: bool) {
    let mut workload = set(name, &json!({}));
    if !exits {
        // A container that says itself when it is restarted gets no rule.
        workload["spec"]["template"]["spec"]["containers"][0]["restartPolicy"] = json!("Always");
    }
    node.kubectl_with(&["apply", "-f", "-"], &workload.to_string()).await.unwrap();
    let policy = json!({
        "apiVersion": "sts.plus/v1alpha1",
        "kind": "ScalingPolicy",
        "metadata": {"namespace": LOCKS, "name": name},
        "spec": {
            "targetRef": {"name": name},
            "scaleDown": {
                "fence": "Lock",
                "hook": {
                    "http": {
                        "path": if exits { "/cgi-bin/shutdown" } else { "/index.html" },
                        "method": if exits { "POST" } else { "GET" },
                        "port": "http",
                    },
                    "expectExit": exits,
                },
            },
        },
    });
    node.kubectl_with(&["apply", "-f", "-"], &policy.to_string()).await.unwrap();
    let scaling = reports(node, name, "AsRequested").await;
    assert!(!scaling["status"]["lock"]["templateGeneration"].is_null(), "{scaling}");
    let leaving = format!("{name}-1");
    let pod = pods(node).get(&leaving).await.unwrap();
    let init = pod.spec.as_ref().unwrap().init_containers.clone().unwrap_or_default();
    assert_eq!(init[0].name, "sts-plus-lock");
    let written = node.kubectl(&["-n", LOCKS, "get", "statefulset", name, "-o", "json"]).await.unwrap();
    assert_eq!(written.contains("RestartAllContainers"), exits, "{written}");

    let seen = pods(node).list(&ListParams::default()).await.unwrap();
    let version = seen.metadata.resource_version.unwrap();
    let mut changes = pods(node).watch(&WatchParams::default(), &version).await.unwrap().boxed();
    node.kubectl(&["-n", LOCKS, "scale", "scalingpolicy", name, "--replicas=1"]).await.unwrap();
    // The course of the pod of this ordinal, whichever it is: Ready or not.
    let mut course: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    let mut is_gone = false;
    while !is_gone {
        let change = timeout(DEADLINE, changes.next()).await.unwrap().unwrap().unwrap();
        let (pod, deleted) = match change {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod, false),
            WatchEvent::Deleted(pod) => (pod, true),
            _ => continue,
        };
        if pod.name_any() != leaving {
            continue;
        }
        let ready = is_ready(&pod) && pod.metadata.deletion_timestamp.is_none();
        let course = course.entry(pod.uid().unwrap()).or_insert_with(|| vec![true]);
        if course.last() != Some(&ready) {
            course.push(ready);
        }
        if deleted {
            let set: Value = serde_json::from_str(
                &node.kubectl(&["-n", LOCKS, "get", "statefulset", name, "-o", "json"]).await.unwrap(),
            )
            .unwrap();
            is_gone = set["spec"]["replicas"] == 1;
        }
    }
    for (uid, course) in &course {
        assert!(course.iter().skip(1).all(|ready| !ready), "{leaving} ({uid}) was Ready again: {course:?}");
    }
    reports(node, name, "AsRequested").await;
}

/// Waits until the policy shows a reason, for the present spec.
async fn reports(node: &RealNode, name: &str, reason: &str) -> Value {
    until(DEADLINE, format!("{name} to show {reason}"), || async {
        let found = node.kubectl(&["-n", LOCKS, "get", "scalingpolicy", name, "-o", "json"]).await?;
        let policy: Value = serde_json::from_str(&found)?;
        let ready = policy["status"]["conditions"].as_array().into_iter().flatten();
        let is_it = ready.into_iter().any(|it| {
            it["type"] == "Ready"
                && it["reason"] == reason
                && it["observedGeneration"] == policy["metadata"]["generation"]
        });
        let is_locked = policy["status"]["lock"]["templateGeneration"].is_i64();
        if is_it && is_locked { Ok(policy) } else { Err(NotYet::saw(policy["status"].clone())) }
    })
    .await
}
