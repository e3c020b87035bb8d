//! What no client can do to the server: make it panic, fill its memory, or hold up others.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use kube::client::Body;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;

fn server(history: usize) -> Server {
    let clock = Clock::at("2026-01-02T03:04:05Z".parse().unwrap());
    Server::new(Settings { history, ..Settings::new(clock) }).unwrap()
}

async fn send(server: &Server, method: &Method, path: &str, kind: &str, body: Body) -> Response<AnswerBody> {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    server.clone().oneshot(request.body(body).unwrap()).await.unwrap()
}

async fn post(server: &Server, path: &str, body: &Value) -> StatusCode {
    let body = Body::from(body.to_string().into_bytes());
    send(server, &Method::POST, path, "application/json", body).await.status()
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Parts that requests are put together from; each is harmless somewhere.
const PATHS: [&str; 17] = [
    MAPS,
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/pods/p",
    "/api/v1/namespaces/default/pods/p/eviction",
    "/api/v1/namespaces/default/pods/p/binding",
    "/api/v1/namespaces/default/pods/p/status",
    "/apis/apps/v1/namespaces/default/statefulsets",
    "/apis/apps/v1/namespaces/default/statefulsets/s",
    "/apis/apps/v1/namespaces/default/statefulsets/s/scale",
    "/apis/apps/v1/namespaces/default/statefulsets/s/status",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/api/v1/namespaces",
    "/api/v1/namespaces/default/finalize",
    "/apis/example.com/v1/namespaces/default/things",
];
const QUERIES: [&str; 14] = [
    "",
    "watch=1&timeoutSeconds=1",
    "limit=1",
    "limit=-9",
    "continue=AAAA",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "resourceVersion=18446744073709551615",
    "resourceVersion=-1&resourceVersionMatch=Exact",
    "fieldManager=x&force=1",
    "labelSelector=a%20in%20(b",
    "labelSelector=%FF%00!",
    "fieldSelector=a=b%5C",
    "dryRun=All",
    "gracePeriodSeconds=-1",
];
const TYPES: [&str; 6] = [
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const BODIES: [&str; 16] = [
    "",
    "{}",
    "[]",
    "null",
    "7",
    "{\"a\":{\"a\":{\"a\":[[[[{}]]]]}}}",
    "- a\n- b: {c\n",
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"managedFields\":[{}]},\"data\":{\"k\":\"v\"}}",
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"s\"},\"spec\":{\"replicas\":3,\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}",
    "{\"metadata\":{\"name\":\"p\",\"finalizers\":[\"a/b\"]},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"limits\":{\"cpu\":\"1e99\"}}}]}}",
    "{\"metadata\":{\"name\":\"things.example.com\"},\"spec\":{\"group\":\"example.com\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"things\",\"kind\":\"Thing\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"x-kubernetes-validations\":[{\"rule\":\"self.a > 1\"}],\"properties\":{\"a\":{\"type\":\"integer\"}}}}}}}]}}",
    "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"t\"},\"spec\":{\"a\":9007199254740993}}",
    "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/data/a\"},{\"op\":\"move\",\"from\":\"/data\",\"path\":\"/data/a/b\"}]",
    "{\"metadata\":{\"$patch\":\"replace\",\"$setElementOrder/finalizers\":[1]},\"spec\":{\"$retainKeys\":[\"a\"]}}",
    "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"gracePeriodSeconds\":-9223372036854775808,\"preconditions\":{}}",
    "{\"webhooks\":[{\"matchConditions\":[{\"expression\":\"object.a.b.c[9223372036854775807] == -1\"}]}]}",
];
/// Which body fits which path.
const FITTING: [(&str, usize); 5] =
    [("configmaps", 7), ("statefulsets", 8), ("pods", 9), ("customresourcedefinitions", 10), ("things", 11)];
/// Requests that are tried; each takes well under a millisecond.
const REQUESTS: usize = 6000;

/// A text with some of its bytes changed, left out or doubled.
fn mutated(text: &str, chance: &mut StdRng) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..chance.random_range(0..4) {
        if bytes.is_empty() {
            break;
        }
        let at = chance.random_range(0..bytes.len());
        match chance.random_range(0..4) {
            0 => bytes[at] = chance.random(),
            1 => {
                bytes.remove(at);
            }
            2 => {
                let end = (at + 8).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes[at] = b"{}[]\",:0-"[chance.random_range(0..9)],
        }
    }
    bytes
}

#[tokio::test(start_paused = true)]
async fn no_request_makes_it_panic() {
    let seed = 0x5eed_f1de;
    println!("seed {seed:#x}");
    let mut chance = StdRng::seed_from_u64(seed);
    let server = server(100);
    let mut codes = std::collections::BTreeMap::new();
    for number in 0..REQUESTS {
        let mut pick = |count: usize| chance.random_range(0..count);
        let (path, query) = (PATHS[pick(PATHS.len())], QUERIES[pick(QUERIES.len())]);
        let (mut kind, mut body) = (TYPES[pick(TYPES.len())], BODIES[pick(BODIES.len())]);
        // Most requests fit their path, so that they get somewhere.
        let is_object = path.rsplit('/').next().is_some_and(|last| last.len() == 1);
        let method = match pick(10) {
            0 => Method::HEAD,
            1 => Method::GET,
            2 => Method::DELETE,
            3..=5 if is_object || path.ends_with("status") || path.ends_with("scale") => Method::PATCH,
            6 if is_object => Method::PUT,
            _ => Method::POST,
        };
        if method != Method::PATCH && pick(5) > 0 {
            kind = TYPES[pick(2)];
        }
        if method == Method::POST && pick(2) > 0 {
            let fitting = FITTING.iter().find(|(end, _)| path.ends_with(end));
            body = fitting.map_or(body, |(_, at)| BODIES[*at]);
        }
        let method = &method;
        let body = mutated(body, &mut chance);
        let shown = String::from_utf8_lossy(&body).into_owned();
        let answer = send(&server, method, &format!("{path}?{query}"), kind, Body::from(body)).await;
        *codes.entry(answer.status().as_u16()).or_insert(0) += 1;
        // Time is paused: a watch ends as soon as nothing else is to be done.
        let read = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(
            method == Method::HEAD || !read.is_empty() || query.starts_with("watch"),
            "{number}: {path} {shown}"
        );
    }
    // Requests that are refused at the door would show nothing.
    assert!(codes.len() > 8 && codes[&201] > 50 && codes[&200] > 200, "{codes:?}");
    assert_eq!(post(&server, MAPS, &json!({ "metadata": { "name": "alive" } })).await, StatusCode::CREATED);
}

/// A body without end that counts what is taken of it.
struct Endless(Arc<AtomicUsize>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.fetch_add(PIECE, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; PIECE])))))
    }
}

/// Bytes that are handed over at once.
const PIECE: usize = 64 * 1024;

#[tokio::test]
async fn of_a_body_without_end_no_more_is_read_than_may_be() {
    let taken = Arc::new(AtomicUsize::new(0));
    let body = Endless(Arc::clone(&taken)).map_err(std::io::Error::other).boxed_unsync();
    let refusal = read_body(body).await.unwrap_err();
    assert_eq!(refusal.code(), StatusCode::PAYLOAD_TOO_LARGE);
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken <= MAX_BODY_BYTES + PIECE, "took {taken} bytes");
}

/// Changes that a server remembers, in the test below.
const REMEMBERED: usize = 50;

#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_read_is_cut_off_and_holds_up_nobody() {
    let server = server(REMEMBERED);
    let path = format!("{MAPS}?watch=1&resourceVersion={}", server.lock().store.version());
    let watch = || send(&server, &Method::GET, &path, "application/json", Body::empty());
    let (slow, quick) = (watch().await, watch().await);
    let mut quick = quick.into_body().into_data_stream();
    for number in 0..4 * REMEMBERED {
        let name = format!("m{number}");
        assert_eq!(post(&server, MAPS, &json!({ "metadata": { "name": name } })).await, StatusCode::CREATED);
        let line: Value = serde_json::from_slice(&quick.next().await.unwrap().unwrap()).unwrap();
        assert_eq!(line["object"]["metadata"]["name"], name);
    }
    // The slow one holds a place, not a queue; its place is gone.
    let told = slow.into_body().collect().await.unwrap().to_bytes();
    assert!(told.is_empty(), "{}", String::from_utf8_lossy(&told));
}
