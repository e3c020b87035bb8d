//! Hollow nodes on the embedded server: a whole cluster in one process, under a paused clock.

use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::*;
use crate::controllers;
use crate::machinery::service::{Server, Settings};

/// Far more virtual time than anything here takes.
const DEADLINE: Duration = Duration::from_mins(10);

/// What a run has shown, in order.
async fn life_of_a_pod() -> Vec<String> {
    let clock = Clock::at("2026-01-02T03:04:05Z".parse().unwrap());
    let server = Server::new(Settings::new(clock)).unwrap();
    tokio::spawn(controllers::run(server.clone()));
    let client = Client::new(server, "default");
    let nodes = vec![Node::new("n", "z")];
    let delay: Delay = "2s..5s".parse().unwrap();
    let config =
        Config { nodes, start_delay: delay, ready_delay: delay, clock: Some(clock), ..Config::default() };
    let nodes = HollowNodes::new(client.clone(), config).start();

    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let claim = json!({ "metadata": { "name": "c" }, "spec": spec });
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "a", "image": "b" }] } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();

    let mut told = Vec::new();
    let follow = async {
        let mut events = Box::pin(pods.watch(&WatchParams::default(), "0").await.unwrap());
        while let Some(event) = events.try_next().await.unwrap() {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    let is_deleting = pod.metadata.deletion_timestamp.is_some();
                    let line = seen(&serde_json::to_value(&pod).unwrap());
                    if line.ends_with("True") && !is_deleting {
                        pods.delete("p", &DeleteParams::default()).await.unwrap();
                    }
                    told.push(line);
                }
                WatchEvent::Deleted(pod) => {
                    told.push(format!("{} has gone", pod.name_any()));
                    return;
                }
                other => panic!("{other:?} after {told:#?}"),
            }
        }
    };
    tokio::time::timeout(DEADLINE, follow).await.expect("a pod comes and goes");
    let bound = claims.get("c").await.unwrap().status.unwrap().phase;
    told.push(format!("claim {}", bound.unwrap_or_default()));
    nodes.stop().await;
    told
}

fn seen(pod: &Value) -> String {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let ready = conditions.iter().find(|one| one["type"] == "Ready");
    let ready = ready.map_or("", |one| one["status"].as_str().unwrap_or_default());
    let version = text("/metadata/resourceVersion");
    format!(
        "{version} {} {} {} {ready}",
        text("/metadata/uid"),
        text("/spec/nodeName"),
        text("/status/phase")
    )
}

#[tokio::test(start_paused = true)]
async fn a_pod_comes_up_and_goes_away() {
    let told = life_of_a_pod().await;
    assert!(told.iter().any(|line| line.ends_with(" n Running True")), "{told:#?}");
    assert_eq!(told[told.len() - 2..], ["p has gone", "claim Bound"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    assert_eq!(life_of_a_pod().await, life_of_a_pod().await);
}
