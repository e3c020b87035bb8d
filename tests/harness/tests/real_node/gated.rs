//! A rollout that a real Prometheus judges: version 2 turns bad after it has started, and goes back.

use std::{collections::BTreeMap, net::SocketAddr};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use sts_plus_harness::{
    Image, Prometheus, RealNode,
    wait::{NotYet, until},
};
use tokio::sync::Mutex;

use crate::{
    DEADLINE,
    operator::{KIND, install, pods, ready_pods},
    stages::Stages,
    workload::{CONTAINER, PORT, set, versions},
};

const GATED: &str = "gated";
const SET: &str = "web";
const REPLICAS: usize = 3;
/// Zero is good.
const METRIC: &str = "app_errors";
/// When version 2 turns bad, in seconds after it has started.
const BAD_AFTER: u32 = 3;
/// Passes in a row that open a gate. They come a second apart, so that version 2 turns bad long before the last.
const PASSES: u32 = 8;

fn image_name(version: &str) -> String {
    format!("localhost/gated:{version}")
}

/// Version 1 stays good, version 2 does not.
pub(crate) fn images() -> [Image; 2] {
    let turn = format!("(sleep {BAD_AFTER}; echo {METRIC} 1 >/www/metrics) &");
    [("v1", ""), ("v2", &*turn)].map(|(version, turn)| {
        let serve = format!("trap exit TERM; {turn} /bin/httpd -f -p {PORT} -h /www & wait");
        Image::new(&image_name(version), &["/bin/sh", "-c", &serve], &[])
            .busybox(&["sh", "httpd", "sleep"])
            .unwrap()
            .file("/www/version", version)
            .file("/www/metrics", format!("{METRIC} 0\n"))
    })
}

pub(crate) async fn rollback(node: &RealNode) {
    let mut stages = Stages::begin("a gated set");
    install(node).await;
    node.control_plane().create_namespace(GATED).await.unwrap();
    node.kubectl_with(&["apply", "-f", "-"], &version_1().to_string()).await.unwrap();
    let before = identities(&ready_pods(node, GATED, REPLICAS).await.items);
    let prometheus = Prometheus::start_at(node.assets(), node.address(), &[]).await.unwrap();
    node.kubectl_with(&["apply", "-f", "-"], &gate(&prometheus).to_string()).await.unwrap();
    followed(node, &prometheus, "Updated").await;
    stages.end("version 1 Ready, sts-plus installed, the partition held");

    let image = format!("{CONTAINER}={}", image_name("v2"));
    node.kubectl(&["-n", GATED, "set", "image", "statefulset", SET, &image]).await.unwrap();
    let ended = followed(node, &prometheus, "RolledBack").await;
    stages.end("rolled to version 2 and back");

    let failure = &ended["status"]["failure"];
    assert_eq!((&failure["reason"], &failure["action"]), (&json!("CheckFailed"), &json!("Rollback")));
    let stalled = condition(&ended, "Stalled");
    assert_eq!((&stalled["status"], &stalled["reason"]), (&json!("True"), &json!("RolledBack")), "{ended:#}");

    let found = ready_pods(node, GATED, REPLICAS).await.items;
    assert_eq!(versions(&found).await, ["v1"; REPLICAS]);
    let after = identities(&found);
    for untouched in ["web-0", "web-1"] {
        assert_eq!(after[untouched], before[untouched], "{untouched}");
    }
    assert_ne!(after["web-2"].0, before["web-2"].0);
    assert!(after.values().all(|(_, restarts)| *restarts == 0), "{after:?}");
    let left: Value = serde_json::from_str(
        &node.kubectl(&["-n", GATED, "get", "statefulset", SET, "-o", "json"]).await.unwrap(),
    )
    .unwrap();
    // The template is the user's: it still asks for version 2, and the partition keeps that from happening.
    assert_eq!(left["spec"]["template"]["spec"]["containers"][0]["image"], image_name("v2"));
    assert_eq!(left["spec"]["updateStrategy"]["rollingUpdate"]["partition"], REPLICAS);
    assert_eq!(left["status"]["currentReplicas"], REPLICAS);
}

fn version_1() -> Value {
    let mut set = set(GATED, SET, REPLICAS, &json!({}));
    set["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image_name("v1"));
    set
}

fn gate(prometheus: &Prometheus) -> Value {
    json!({
        "apiVersion": "sts.plus/v1alpha1",
        "kind": "PhasedRollout",
        "metadata": {"namespace": GATED, "name": SET},
        "spec": {
            "targetRef": SET,
            "onFailure": "Rollback",
            "check": {
                "initialDelaySeconds": 0,
                "periodSeconds": 1,
                "successThreshold": PASSES,
                "failureThreshold": 2,
                "query": {"expr": format!("{METRIC} > 0"), "url": prometheus.url()},
                // A pod that is not scraped is not good.
                "requireData": format!("count({METRIC}) == {REPLICAS}"),
            },
        },
    })
}

/// Waits until the rollout is in this phase. Pods get other addresses meanwhile, and Prometheus is told of them.
async fn followed(node: &RealNode, prometheus: &Prometheus, phase: &str) -> Value {
    let (pods, told) = (pods(node, GATED), Mutex::new(Vec::new()));
    until(DEADLINE, format!("the rollout to be {phase}"), || async {
        let addresses = addresses(&pods).await?;
        if *told.lock().await != addresses {
            prometheus.scrape(&addresses).await?;
            *told.lock().await = addresses;
        }
        let rollout = node.kubectl(&["-n", GATED, "get", KIND, SET, "-o", "json"]).await?;
        let rollout: Value = serde_json::from_str(&rollout)?;
        if rollout["status"]["phase"] == phase { Ok(rollout) } else { Err(NotYet::saw(&rollout["status"])) }
    })
    .await
}

async fn addresses(pods: &Api<Pod>) -> kube::Result<Vec<SocketAddr>> {
    let found = pods.list(&ListParams::default()).await?;
    let address = |pod: Pod| Some(SocketAddr::new(pod.status?.pod_ip?.parse().unwrap(), PORT));
    Ok(found.into_iter().filter_map(address).collect())
}

/// The UID and the restarts of each pod.
fn identities(pods: &[Pod]) -> BTreeMap<String, (String, i32)> {
    let restarts = |pod: &Pod| {
        let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        containers.into_iter().flatten().map(|container| container.restart_count).sum()
    };
    pods.iter().map(|pod| (pod.name_any(), (pod.uid().unwrap(), restarts(pod)))).collect()
}

fn condition<'a>(rollout: &'a Value, kind: &str) -> &'a Value {
    let all = rollout["status"]["conditions"].as_array().unwrap();
    all.iter().find(|condition| condition["type"] == kind).unwrap()
}
