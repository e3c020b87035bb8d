//! The hands of users and other third parties: requests that nothing happens to.

use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use sts_plus_cluster::machinery::service::Server;
use tower::Service;

use crate::cast::NAMESPACE;
use crate::trace::Trace;

/// Somebody's hands.
#[derive(Clone)]
pub struct Hand {
    server: Server,
    trace: Trace,
    who: &'static str,
}

impl Hand {
    /// The hands of somebody.
    pub fn new(server: &Server, trace: &Trace, who: &'static str) -> Self {
        Self { server: server.clone(), trace: trace.clone(), who }
    }

    /// Creates an object; its path follows from its kind.
    pub async fn create(&self, plural: &str, object: &Value) -> bool {
        self.send(Method::POST, plural, "", "application/json", object).await.0 < 300
    }

    /// Changes fields of an object.
    pub async fn patch(&self, plural: &str, name: &str, fields: &Value) -> bool {
        self.send(Method::PATCH, plural, name, "application/merge-patch+json", fields).await.0 < 300
    }

    /// Deletes an object.
    pub async fn delete(&self, plural: &str, name: &str, options: &Value) -> bool {
        self.send(Method::DELETE, plural, name, "application/json", options).await.0 < 300
    }

    /// Asks for the eviction of a pod.
    pub async fn evict(&self, pod: &str) -> bool {
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod, "namespace": NAMESPACE } });
        self.send(Method::POST, "pods", &format!("{pod}/eviction"), "application/json", &eviction).await.0
            < 300
    }

    /// One object; null where there is none.
    pub async fn get(&self, plural: &str, name: &str) -> Value {
        let (code, object) = self.send(Method::GET, plural, name, "application/json", &Value::Null).await;
        if code < 300 { object } else { Value::Null }
    }

    async fn send(&self, method: Method, plural: &str, name: &str, kind: &str, body: &Value) -> (u16, Value) {
        let (plural, group) = plural.split_once('.').unwrap_or((plural, ""));
        let named = format!("/apis/{group}/v1alpha1");
        let group = match plural {
            _ if !group.is_empty() => &named,
            "pods" | "persistentvolumeclaims" | "events" | "configmaps" => "/api/v1",
            "statefulsets" => "/apis/apps/v1",
            "customresourcedefinitions" => "/apis/apiextensions.k8s.io/v1",
            _ => "/apis/sts.plus/v1alpha1",
        };
        let namespace = if plural == "customresourcedefinitions" {
            String::new()
        } else {
            format!("/namespaces/{NAMESPACE}")
        };
        let slash = if name.is_empty() { "" } else { "/" };
        let path = format!("{group}{namespace}/{plural}{slash}{name}");
        let carried = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header(header::CONTENT_TYPE, kind)
            .body(Body::from(carried));
        let Ok(request) = request else { return (0, Value::Null) };
        let Ok(answer) = self.server.clone().call(request).await;
        let code = answer.status().as_u16();
        let answer =
            answer.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        if method != Method::GET {
            let why = if code >= 300 { answer["message"].as_str().unwrap_or_default() } else { "" };
            let words: String = body.to_string().chars().take(200).collect();
            self.trace.line(&format!("{} {method} {plural}{slash}{name} {words} -> {code} {why}", self.who));
        }
        (code, answer)
    }
}
