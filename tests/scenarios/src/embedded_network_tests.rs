//! The operator's outbound calls over the cluster's own network: a Prometheus that is a hollow pod.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node as Machine, Pod, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sts_plus_api::phased_rollout::Verdict;
use sts_plus_cluster::nodes::behaviour;
use sts_plus_harness::wait::{NotYet, until};

use super::{EmbeddedCluster, Shape};
use crate::cluster::Cluster;
use crate::fixture::Template;
use crate::gated::{Gated, Rollout, Set};
use crate::observer::DEADLINE;

const SHAPE: Shape = Shape { native: true, streaming_lists: true, keeps_max_unavailable: false };

/// The port that the pod declares, and the one of the service before it.
const PORTS: (u16, u16) = (9090, 80);

/// What Prometheus says to a query that nothing matches, and to one that something does.
const NOTHING: &str = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
const SOMETHING: &str =
    r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,"7"]}]}}"#;

fn says(body: &str) -> Value {
    json!({ behaviour::HTTP: format!("/api/v1/query 200 body {body}") })
}

/// A pod that answers as Prometheus does and the service before it; returns its address once it runs.
async fn given_prometheus(stage: &Gated) -> String {
    let (port, front) = PORTS;
    let pod = json!({
        "metadata": { "name": "prometheus", "labels": { "app": "prometheus" }, "annotations": says(NOTHING) },
        "spec": { "containers": [{ "name": "main", "image": "prometheus:1", "ports": [{ "containerPort": port }] }] },
    });
    stage.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let service = json!({
        "metadata": { "name": "prometheus" },
        "spec": { "selector": { "app": "prometheus" }, "ports": [{ "port": front, "targetPort": port }] },
    });
    let services: Api<Service> = Api::namespaced(stage.cluster.user(), &stage.namespace);
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    until(DEADLINE, "prometheus to be ready", || async {
        let status = stage.pods().get("prometheus").await?.status.unwrap_or_default();
        let ready =
            status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
        match status.pod_ip {
            Some(address) if ready => Ok(address),
            other => Err(NotYet::saw(other)),
        }
    })
    .await
}

async fn annotate(pods: &Api<Pod>, annotations: &Value) {
    let patch = json!({ "metadata": { "annotations": annotations } });
    pods.patch("prometheus", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

async fn lose(cluster: &Arc<dyn Cluster>, machine: &str, lost: bool) {
    let patch = json!({ "metadata": { "annotations": { behaviour::LOST: lost.to_string() } } });
    let machines: Api<Machine> = Api::all(cluster.user());
    machines.patch(machine, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

/// What a rollout tells of its check that got no verdict.
async fn last_error(stage: &Gated, rollout: &str, about: &str) -> String {
    let error = |seen: &crate::gated::seen::Rollout| {
        let checks = seen.status.rolling_pod_status.iter().flat_map(|gate| &gate.checks);
        let failed = checks.into_iter().filter(|check| check.last_verdict == Some(Verdict::Error));
        failed.filter_map(|check| check.last_error.clone()).find(|error| error.contains(about))
    };
    let seen = stage.rollout_is(rollout, about, |seen| error(seen).is_some()).await;
    error(&seen).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_gate_passes_through_a_service_whose_pod_answers() {
    let cluster: Arc<dyn Cluster> = Arc::new(EmbeddedCluster::start(SHAPE));
    let stage = Gated::new(&cluster, "through_a_service").await;
    given_prometheus(&stage).await;
    let url = format!("http://prometheus.{}.svc:{}", stage.namespace, PORTS.1);
    let _operator = stage.operator().await;
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", &url)).await;
    annotate(&stage.pods(), &says(SOMETHING)).await;
    stage.change("web", &Template::new("v2")).await;
    let failing = stage.gate_waits_for("web", 2, "ChecksFailing").await;
    let check = &failing.status.rolling_pod_status.unwrap().checks[0];
    assert_eq!(check.last_value.as_deref(), Some("1 or more series: 7"), "what the pod says");
    annotate(&stage.pods(), &says(NOTHING)).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;
    stage.finish();
}

#[tokio::test(start_paused = true)]
async fn a_gate_passes_through_a_pod_by_its_address_and_tells_who_is_not_there() {
    let cluster: Arc<dyn Cluster> = Arc::new(EmbeddedCluster::start(SHAPE));
    let stage = Gated::new(&cluster, "by_address").await;
    let address = given_prometheus(&stage).await;
    let url = format!("http://{address}:{}", PORTS.0);
    let _operator = stage.operator().await;
    let closed = format!("http://{address}:{}", PORTS.0 + 1);
    stage.given_managed(&Set::new("web", 2), &Rollout::new("web", &closed)).await;
    stage.change("web", &Template::new("v2")).await;
    let told = last_error(&stage, "web", "no connection").await;
    assert!(
        told.contains(&format!("no connection to {address}:{}: connection refused", PORTS.0 + 1)),
        "{told}"
    );

    // On a machine that is lost nobody answers, not even with a refusal.
    let query = json!({ "url": url, "timeoutSeconds": 2 });
    let machine = stage.pods().get("prometheus").await.unwrap().spec.unwrap().node_name.unwrap();
    lose(&cluster, &machine, true).await;
    stage.patch_spec("web", &json!({ "check": { "query": query } })).await;
    let told = last_error(&stage, "web", "does not answer").await;
    assert!(told.contains(&format!("no connection to {address}:{}: it does not answer", PORTS.0)), "{told}");
    lose(&cluster, &machine, false).await;
    stage.updated("web").await;
    stage.serves("web", "v2").await;

    stage.pods().delete("prometheus", &DeleteParams::default().grace_period(0)).await.unwrap();
    until(DEADLINE, "prometheus to be gone", || async {
        let found = stage.pods().get_opt("prometheus").await?;
        found.is_none().then_some(()).ok_or_else(|| NotYet::saw("it is there"))
    })
    .await;
    stage.change("web", &Template::new("v3")).await;
    let told = last_error(&stage, "web", "unreachable").await;
    assert!(told.contains(&format!("no connection to {address}:{}: host unreachable", PORTS.0)), "{told}");
    let nobody = format!("http://nobody.{}.svc", stage.namespace);
    stage.patch_spec("web", &json!({ "check": { "query": { "url": nobody } } })).await;
    let told = last_error(&stage, "web", "no address").await;
    assert!(told.contains("has no address: Name or service not known"), "{told}");
    stage.finish();
}
