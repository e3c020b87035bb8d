//! An API server of a few lines, for tests of passes: says yes to everything that it has no other answer for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::shell::api::Api;
use crate::shell::metrics::Metrics;

/// The answer to the first request whose method and path fit; `None` never comes.
pub(super) type Prepared = (Method, &'static str, Option<(u16, Value)>);

#[derive(Clone, Default)]
pub(super) struct Server {
    pub(super) asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
    prepared: Arc<Mutex<Vec<Prepared>>>,
    /// How long each answer takes.
    takes: Arc<Mutex<Duration>>,
}

impl Server {
    pub(super) fn prepare(&self, method: Method, path: &'static str, answer: Option<(u16, Value)>) {
        self.prepared.lock().unwrap().push((method, path, answer));
    }

    /// Each answer takes so long from now on.
    pub(super) fn slow_down(&self, takes: Duration) {
        *self.takes.lock().unwrap() = takes;
    }

    pub(super) fn api(&self) -> Api {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
                let path = head.uri.path().to_owned();
                server.asked.lock().unwrap().push((head.method.clone(), path.clone(), body));
                let prepared = {
                    let mut prepared = server.prepared.lock().unwrap();
                    let fits = |(verb, part, _): &Prepared| *verb == head.method && path.contains(part);
                    prepared.iter().position(fits).map(|ready| prepared.remove(ready).2)
                };
                let takes = *server.takes.lock().unwrap();
                if !takes.is_zero() {
                    tokio::time::sleep(takes).await;
                }
                let written = json!({ "metadata": { "resourceVersion": "100" } });
                let Some((code, body)) = prepared.unwrap_or(Some((200, written))) else {
                    return std::future::pending().await;
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Api::new(kube::Client::new(service, "ns"), Metrics::new())
    }

    /// The pods whose deletion was asked for since the last time.
    pub(super) fn deletions(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let deleted = asked.iter().filter(|(method, ..)| *method == Method::DELETE);
        deleted.map(|(_, path, _)| path.rsplit('/').next().unwrap_or_default().to_owned()).collect()
    }

    /// What was asked since the last time, as `METHOD object`.
    pub(super) fn take(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let place = |path: &str| path.rsplit("/namespaces/ns/").next().unwrap_or_default().to_owned();
        asked.iter().map(|(method, path, _)| format!("{method} {}", place(path))).collect()
    }

    /// How often each reason was reported of the object with this name, once nothing else can be done: the clock is paused.
    pub(super) async fn reported_of(&self, name: &str) -> Vec<(String, u64)> {
        tokio::time::sleep(Duration::from_mins(2)).await;
        let text = |event: &Value, path: &str| {
            event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let asked = self.asked.lock().unwrap();
        let events = asked.iter().filter(|(_, _, event)| text(event, "/involvedObject/name") == name);
        events.map(|(.., event)| (text(event, "/reason"), event["count"].as_u64().unwrap_or(0))).collect()
    }
}

pub(super) fn refusal(code: u16, message: &str) -> (u16, Value) {
    (code, json!({ "kind": "Status", "message": message }))
}
