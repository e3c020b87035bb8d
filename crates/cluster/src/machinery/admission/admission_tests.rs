use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use kube::core::ApiResource;
use kube::{Client, Error};

use serde_json::json;

use super::*;
use crate::clock::Clock;
use crate::machinery::service::{Server, Settings};

/// Labels what is created, refuses what is named `bad` and all deletions, and never answers about `slow`.
struct Reviewer;

impl Webhooks for Reviewer {
    fn review(&self, hook: Hook, review: Value) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(async move {
            let request = &review["request"];
            let patch = match (hook.client_config["service"]["path"].as_str(), request["name"].as_str()) {
                (_, Some("slow")) => std::future::pending().await,
                (Some("/mutate"), _) => json!([{ "op": "add", "path": "/data", "value": { "seen": "yes" } }]),
                (_, Some("bad")) => {
                    return Ok(answer(
                        request,
                        json!({ "allowed": false, "status": { "message": "is bad" } }),
                    ));
                }
                _ if request["operation"] == "DELETE" => {
                    return Ok(answer(request, json!({ "allowed": false })));
                }
                _ => return Ok(answer(request, json!({ "allowed": true, "warnings": ["looked at"] }))),
            };
            let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
            Ok(answer(request, json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch })))
        })
    }
}

fn answer(request: &Value, mut response: Value) -> Value {
    response["uid"] = request["uid"].clone();
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

async fn configure(client: &Client, kind: &str, path: &str, operations: &[&str], policy: &str) {
    let gvk = GroupVersionKind::gvk(GROUP, "v1", kind);
    let configurations: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    let configuration = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": { "name": "c" },
        "webhooks": [{
            "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": policy,
            "clientConfig": { "service": { "namespace": "default", "name": "s", "path": path } },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": operations,
            }],
            "objectSelector": { "matchLabels": { "watched": "yes" } },
        }],
    });
    let configuration: DynamicObject = serde_json::from_value(configuration).unwrap();
    configurations.create(&PostParams::default(), &configuration).await.unwrap();
}

fn cluster() -> Client {
    let clock = Clock::at("2026-01-02T03:04:05Z".parse().unwrap());
    Client::new(Server::new(Settings::new(clock)).unwrap().with_webhooks(Arc::new(Reviewer)), "default")
}

fn map(name: &str, watched: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "watched": watched } } })).unwrap()
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) -> (u16, String) {
    match answer.unwrap_err() {
        Error::Api(status) => (status.code, status.message),
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn webhooks_change_and_refuse_what_they_are_asked_about() {
    let client = cluster();
    configure(&client, "MutatingWebhookConfiguration", "/mutate", &["CREATE"], "Fail").await;
    configure(&client, "ValidatingWebhookConfiguration", "/validate", &["*"], "Fail").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let good = maps.create(&PostParams::default(), &map("good", "yes")).await.unwrap();
    assert_eq!(good.data.unwrap()["seen"], "yes");
    let unseen = maps.create(&PostParams::default(), &map("unseen", "no")).await.unwrap();
    assert_eq!(unseen.data, None);
    let denied = refused(maps.create(&PostParams::default(), &map("bad", "yes")).await);
    assert_eq!(denied, (400, "admission webhook \"hook.example.com\" denied the request: is bad".into()));
    assert!(maps.get_opt("bad").await.unwrap().is_none());
    let denied = refused(maps.delete("good", &DeleteParams::default()).await.map(|_| ()));
    let silent = "admission webhook \"hook.example.com\" denied the request without explanation";
    assert_eq!(denied, (400, silent.into()));
    maps.delete("unseen", &DeleteParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_answer_fails_or_is_ignored_as_it_was_configured() {
    for (policy, is_refused) in [("Fail", true), ("Ignore", false)] {
        let client = cluster();
        configure(&client, "ValidatingWebhookConfiguration", "/validate", &["CREATE"], policy).await;
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let answer = maps.create(&PostParams::default(), &map("slow", "yes")).await;
        if is_refused {
            let (code, message) = refused(answer);
            assert_eq!(code, 500);
            assert!(message.contains("failed calling webhook \"hook.example.com\""), "{message}");
        } else {
            answer.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_the_same_in_both_groups() {
    let client = cluster();
    let core: Api<Event> = Api::default_namespaced(client.clone());
    let event = json!({
        "metadata": { "name": "e" }, "involvedObject": { "kind": "Pod", "name": "p", "namespace": "default" },
        "reason": "Why", "message": "because", "type": "Normal", "count": 3,
    });
    core.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
    let other: Api<k8s_openapi::api::events::v1::Event> = Api::default_namespaced(client);
    let shown = other.get("e").await.unwrap();
    assert_eq!((shown.note.as_deref(), shown.deprecated_count), (Some("because"), Some(3)));
    assert_eq!(shown.regarding.unwrap().name.as_deref(), Some("p"));
}
