use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use sts_plus_planner::reason::Severity;
use tower::{BoxError, service_fn};

use super::{COMBINE_FOR, Regarding, channel};
use crate::shell::api::{Api, Resource};
use crate::shell::metrics::Metrics;

type Asked = Arc<Mutex<Vec<(Method, String, Value)>>>;

fn server(code: u16) -> (Api, Asked) {
    let asked = Asked::default();
    let record = Arc::clone(&asked);
    let service = service_fn(move |request: Request<Body>| {
        let record = Arc::clone(&record);
        async move {
            let (head, body) = request.into_parts();
            let body = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
            record.lock().unwrap().push((head.method, head.uri.path().to_owned(), body));
            Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(b"{}".to_vec()))?)
        }
    });
    (Api::new(kube::Client::new(service, "ns"), Metrics::new()), asked)
}

fn about(name: &str) -> Regarding {
    let uid = Arc::from(format!("uid-{name}"));
    Regarding { resource: Resource::StatefulSets, namespace: "ns".into(), name: name.into(), uid }
}

/// Records what `tell` says and sends all of it.
async fn sent(api: &Api, tell: impl AsyncFnOnce(&super::Recorder)) {
    let (recorder, sender) = channel(api.clone(), "pod-1".to_owned());
    let sending = tokio::spawn(sender.run());
    tell(&recorder).await;
    drop(recorder);
    sending.await.expect("the sender ends when its recorders are gone");
}

#[tokio::test(start_paused = true)]
async fn a_transition_becomes_an_event_on_the_set() {
    let (api, asked) = server(201);
    sent(&api, async |recorder| {
        recorder.record(about("a"), Severity::Error, "GroupSkipped", "the group is skipped");
    })
    .await;
    let asked = asked.lock().unwrap();
    let [(method, path, event)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((method, path.as_str()), (&Method::POST, "/api/v1/namespaces/ns/events"));
    assert_eq!(event["involvedObject"]["kind"], "StatefulSet");
    assert_eq!(event["involvedObject"]["uid"], "uid-a");
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("GroupSkipped")));
    assert_eq!((&event["message"], &event["count"]), (&json!("the group is skipped"), &json!(1)));
    assert_eq!(event["reportingInstance"], "pod-1");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_raises_a_count_and_after_a_while_it_is_a_new_one() {
    let (api, asked) = server(200);
    sent(&api, async |recorder| {
        recorder.warn(about("a"), "R", "m");
        recorder.warn(about("a"), "R", "m");
        recorder.warn(about("a"), "R", "other words");
        tokio::time::sleep(COMBINE_FOR).await;
        recorder.warn(about("a"), "R", "m");
    })
    .await;
    let asked = asked.lock().unwrap();
    let methods: Vec<_> = asked.iter().map(|(method, ..)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST", "POST"]);
    assert_eq!(asked[1].2["count"], 2);
    assert!(asked[1].1.ends_with(asked[0].2["metadata"]["name"].as_str().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_flaps_cannot_flood_the_server_and_others_are_still_heard() {
    let (api, asked) = server(200);
    sent(&api, async |recorder| {
        for number in 0..500 {
            recorder.warn(about("flaps"), "R", &number.to_string());
        }
        recorder.warn(about("calm"), "R", "m");
    })
    .await;
    let asked = asked.lock().unwrap();
    let of = |name: &str| asked.iter().filter(|(.., event)| event["involvedObject"]["name"] == name).count();
    assert_eq!((of("flaps"), of("calm")), (25, 1));
    assert_eq!(api.metrics().events_dropped.get(), 475);
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_what_is_too_much_is_counted() {
    let (api, _) = server(200);
    let (recorder, _waiting) = channel(api.clone(), String::new());
    for number in 0..2000 {
        recorder.warn(about("a"), "R", &number.to_string());
    }
    assert_eq!(api.metrics().events_dropped.get(), 2000 - 1024);
}

#[tokio::test(start_paused = true)]
async fn long_words_and_long_names_are_cut_to_what_the_server_takes() {
    let (api, asked) = server(201);
    sent(&api, async |recorder| recorder.warn(about(&"n".repeat(253)), "R", &"ä".repeat(5000))).await;
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0].2["message"].as_str().unwrap().chars().count(), 1024);
    assert!(asked[0].2["metadata"]["name"].as_str().unwrap().len() <= 253);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_refused_is_counted_and_the_next_one_is_sent() {
    let (api, asked) = server(403);
    sent(&api, async |recorder| {
        recorder.warn(about("a"), "R", "one");
        tokio::time::sleep(Duration::from_secs(1)).await;
        recorder.warn(about("a"), "R", "two");
    })
    .await;
    assert_eq!(asked.lock().unwrap().len(), 2);
    assert_eq!(api.metrics().events_dropped.get(), 2);
}
