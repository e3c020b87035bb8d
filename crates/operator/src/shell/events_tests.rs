use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use sts_plus_planner::reason::Severity;
use tower::{BoxError, service_fn};

use super::{COMBINE_FOR, Regarding, channel};
use crate::shell::api::{Api, Kind};
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
    Regarding { resource: Kind::StatefulSet, namespace: "ns".into(), name: name.into(), uid }
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
async fn an_object_that_flaps_cannot_flood_the_server_and_what_it_says_is_combined_and_others_are_still_heard()
 {
    let (api, asked) = server(200);
    sent(&api, async |recorder| {
        for number in 0..500 {
            recorder.warn(about("flaps"), "R", &number.to_string());
        }
        recorder.warn(about("calm"), "R", "m");
    })
    .await;
    let asked = asked.lock().unwrap();
    let of = |name: &str| {
        let events = asked.iter().map(|(.., event)| event);
        events.filter(|event| event["involvedObject"]["name"] == name).collect::<Vec<_>>()
    };
    let (flaps, calm) = (of("flaps"), of("calm"));
    assert_eq!((flaps.len(), calm.len()), (6, 1), "five word for word, and the rest in one");
    assert_eq!(flaps.iter().map(|event| event["count"].as_u64().unwrap()).sum::<u64>(), 500);
    let combined = flaps[5]["message"].as_str().unwrap();
    assert!(combined.starts_with("(combined from similar events): 5; 6; 7; "), "{combined}");
    assert_eq!(combined.chars().count(), 1024);
    assert_eq!(asked[5].2["involvedObject"]["name"], "calm", "it did not wait for the other one");
    assert_eq!(api.metrics().events_dropped.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_what_is_alike_is_combined_and_the_same_again_just_counts() {
    let (api, asked) = server(200);
    sent(&api, async |recorder| {
        for number in 0..5 {
            recorder.warn(about("a"), "Burst", &number.to_string());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        recorder.warn(about("a"), "R", "same");
        recorder.record(about("a"), Severity::Normal, "R", "another type");
        recorder.warn(about("a"), "S", "one");
        recorder.warn(about("a"), "R", "same");
        recorder.warn(about("a"), "S", "two");
        recorder.warn(about("a"), "S", "one");
    })
    .await;
    let asked = asked.lock().unwrap();
    let told: Vec<_> = asked[5..].iter().map(|(.., event)| (&event["message"], &event["count"])).collect();
    let combined = json!("(combined from similar events): one; two");
    assert_eq!(
        told,
        [(&json!("same"), &json!(2)), (&json!("another type"), &json!(1)), (&combined, &json!(3))]
    );
}

#[tokio::test(start_paused = true)]
async fn what_waited_raises_the_count_of_what_was_sent_before() {
    let (api, asked) = server(200);
    sent(&api, async |recorder| {
        for _ in 0..20 {
            recorder.warn(about("a"), "R", "m");
        }
    })
    .await;
    let asked = asked.lock().unwrap();
    let counts: Vec<_> = asked.iter().map(|(method, _, event)| (method.as_str(), &event["count"])).collect();
    let patched = |count: u64| ("PATCH", json!(count));
    let expected = [("POST", json!(1)), patched(2), patched(3), patched(4), patched(5), patched(20)];
    assert!(counts.iter().map(|(method, count)| (*method, (*count).clone())).eq(expected), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn all_objects_together_have_a_pace_too() {
    let (api, asked) = server(200);
    let started = tokio::time::Instant::now();
    sent(&api, async |recorder| {
        for number in 0..150 {
            recorder.warn(about(&number.to_string()), "R", "m");
        }
    })
    .await;
    assert_eq!(asked.lock().unwrap().len(), 150);
    assert!(started.elapsed() >= Duration::from_millis(4900), "fifty at once and then twenty a second");
    assert_eq!(api.metrics().events_dropped.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_controller_can_speak_under_the_name_that_alerts_know() {
    let (api, asked) = server(200);
    sent(&api, async |recorder| {
        recorder.of_component("statefulset-controller").warn(about("a"), "R", "m");
        recorder.warn(about("a"), "R", "m");
    })
    .await;
    let asked = asked.lock().unwrap();
    let components: Vec<_> = asked.iter().map(|(.., event)| &event["source"]["component"]).collect();
    assert_eq!(components, [&json!("statefulset-controller"), &json!("sts-plus")]);
    assert!(asked.iter().all(|(.., event)| event["reportingComponent"] == "sts.plus/operator"));
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
