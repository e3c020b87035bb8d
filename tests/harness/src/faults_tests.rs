use std::{
    error::Error as _,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use tokio::time::{Instant, timeout};

use super::*;

const BOUND: Duration = Duration::from_mins(1);

/// A server that counts and says yes.
fn server() -> (Client, Arc<AtomicUsize>) {
    let arrived = Arc::new(AtomicUsize::new(0));
    let counter = arrived.clone();
    let service = service_fn(move |_: Request<Body>| {
        counter.fetch_add(1, Ordering::SeqCst);
        let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
        async move { Ok::<_, BoxError>(Response::new(Body::from(body.as_bytes().to_vec()))) }
    });
    (Client::new(service, "default"), arrived)
}

fn api(faults: &Faults, server: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(faults.client(server))
}

fn injected(error: &kube::Error) -> &InjectedFault {
    let kube::Error::Service(source) = error else { panic!("unexpected {error:?}") };
    source.downcast_ref().unwrap_or_else(|| panic!("unexpected source {:?}", error.source()))
}

#[tokio::test]
async fn calls_are_recorded_in_order_and_writes_are_numbered() {
    let (server, arrived) = server();
    let faults = Faults::new(|_| Fault::None);
    let api = api(&faults, &server);
    api.get("a").await.unwrap();
    api.create(&PostParams::default(), &ConfigMap::default()).await.unwrap();
    api.get("a").await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();

    let calls = faults.calls();
    let numbers: Vec<_> = calls.iter().map(|call| (call.index, call.write)).collect();
    assert_eq!(numbers, [(0, None), (1, Some(0)), (2, None), (3, Some(1))]);
    assert_eq!(calls[3].method, Method::DELETE);
    assert!(calls[3].path.starts_with("/api/v1/namespaces/default/configmaps/a"), "{}", calls[3].path);
    assert!(String::from_utf8_lossy(&calls[1].body).contains("ConfigMap"));
    assert_eq!(arrived.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_refused_request_fails_and_is_not_forwarded() {
    let (server, arrived) = server();
    let faults = Faults::new(|call| if call.index == 0 { Fault::Refuse } else { Fault::None });
    let api = api(&faults, &server);
    assert!(matches!(injected(&api.get("a").await.unwrap_err()), InjectedFault::Refused));
    assert_eq!(arrived.load(Ordering::SeqCst), 0);
    api.get("a").await.unwrap();
}

#[tokio::test]
async fn a_lost_answer_is_an_error_after_the_effect() {
    let (server, arrived) = server();
    let faults = Faults::new(|_| Fault::LoseAnswer);
    assert!(matches!(
        injected(&api(&faults, &server).get("a").await.unwrap_err()),
        InjectedFault::AnswerLost
    ));
    assert_eq!(arrived.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_answer_in_place_of_the_servers_has_its_status_and_header() {
    let (server, arrived) = server();
    let faults = Faults::new(|_| Fault::Answer { status: 429, retry_after: Some(7) });
    let request = Request::get("/api").body(Body::empty()).unwrap();
    let answer = faults.client(&server).send(request).await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()[RETRY_AFTER]), (429, &"7".parse().unwrap()));
    assert_eq!(arrived.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_arrives_later() {
    let (server, arrived) = server();
    let faults = Faults::new(|_| Fault::Delay(Duration::from_secs(3)));
    let start = Instant::now();
    api(&faults, &server).get("a").await.unwrap();
    assert_eq!((start.elapsed().as_secs(), arrived.load(Ordering::SeqCst)), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_held_request_arrives_when_it_is_released() {
    let (server, arrived) = server();
    let faults = Faults::new(|_| Fault::Hold);
    let api = api(&faults, &server);
    timeout(BOUND, api.get("a")).await.unwrap_err();
    assert_eq!(arrived.load(Ordering::SeqCst), 0);
    faults.release();
    api.get("a").await.unwrap();
    timeout(BOUND, api.get("a")).await.unwrap_err();
    faults.release_all();
    api.get("a").await.unwrap();
    assert_eq!(arrived.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_a_write_forwards_neither_it_nor_anything_later() {
    let (server, arrived) = server();
    let faults = Faults::new(crash_at(1, Side::Before));
    let api = api(&faults, &server);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(faults.blocked().now_or_never().is_none());
    timeout(BOUND, api.delete("b", &DeleteParams::default())).await.unwrap_err();
    faults.blocked().await;
    timeout(BOUND, api.delete("c", &DeleteParams::default())).await.unwrap_err();
    assert_eq!(arrived.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_a_write_forwards_it_and_nothing_later() {
    let (server, arrived) = server();
    let faults = Faults::new(crash_at(0, Side::After));
    let api = api(&faults, &server);
    timeout(BOUND, api.delete("a", &DeleteParams::default())).await.unwrap_err();
    faults.blocked().await;
    assert_eq!(arrived.load(Ordering::SeqCst), 1);
    timeout(BOUND, api.delete("b", &DeleteParams::default())).await.unwrap_err();
    assert_eq!(arrived.load(Ordering::SeqCst), 1);
}
