use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;

use http::{Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;

#[derive(Clone, Debug, Deserialize)]
struct Thing {
    metadata: Meta,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    uid: Key,
    resource_version: String,
}

impl Row for Thing {
    fn key(&self) -> &Key {
        &self.metadata.uid
    }

    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

fn thing(uid: &str, version: &str) -> Value {
    json!({ "metadata": { "uid": uid, "resourceVersion": version } })
}

fn page(things: &[Value], version: &str, next: &str) -> Answer {
    let page = json!({ "metadata": { "resourceVersion": version, "continue": next }, "items": things });
    (StatusCode::OK, page.to_string())
}

/// A watch that shows these events and then ends, as one does at its timeout.
fn stream(events: &[(&str, Value)]) -> Answer {
    let lines =
        events.iter().map(|(kind, object)| json!({ "type": kind, "object": object }).to_string() + "\n");
    (StatusCode::OK, lines.collect())
}

fn failure(code: u16) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": "x", "message": "no" })
}

type Answer = (StatusCode, String);

/// Follows what a server with these answers says, and returns what was told and asked, with the time of asking.
async fn follow(answers: Vec<Answer>) -> (Vec<String>, Vec<(u128, String)>) {
    let script = Arc::new(Mutex::new((VecDeque::from(answers), Vec::new())));
    let server = Arc::clone(&script);
    let start = Instant::now();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let answer = {
                let (answers, asked) = &mut *server.lock().unwrap();
                let query = request.uri().query().unwrap_or_default().trim_start_matches('&').to_owned();
                asked.push((start.elapsed().as_millis(), query));
                answers.pop_front()
            };
            let Some((code, body)) = answer else { return std::future::pending().await };
            Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap())
        }
    });
    let (listener, mut events) = mpsc::channel(100);
    let follower = Follower {
        client: Client::new(service, "default"),
        path: "/api/v1/things".to_owned(),
        listener,
        wrap: |event: Event<Thing>| match event {
            Event::Seen(thing) => format!("{}@{}", thing.key(), thing.version()),
            Event::Gone(key) => format!("-{key}"),
            Event::Synced => "synced".to_owned(),
        },
    };
    let mut work = JoinSet::new();
    work.spawn(follower.run());
    // Virtual time: long enough for any pause, and the script ends in a request that is never answered.
    tokio::time::sleep_until(start + Duration::from_mins(5)).await;
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        told.push(event);
    }
    let asked = script.lock().unwrap().1.clone();
    (told, asked)
}

fn queries(asked: &[(u128, String)]) -> Vec<&str> {
    asked.iter().map(|(_, query)| query.as_str()).collect()
}

const WATCH: &str = "watch=true&timeoutSeconds=290&allowWatchBookmarks=true&resourceVersion=";

#[tokio::test(start_paused = true)]
async fn lists_page_by_page_then_watches_and_goes_on_where_it_stopped() {
    let bookmark = json!({ "kind": "Thing", "apiVersion": "v1", "metadata": { "resourceVersion": "30" } });
    let (told, asked) = follow(vec![
        page(&[thing("a", "1"), thing("b", "2")], "9", "more"),
        page(&[thing("c", "3")], "9", ""),
        stream(&[("ADDED", thing("d", "10")), ("MODIFIED", thing("a", "11")), ("DELETED", thing("b", "12"))]),
        stream(&[("BOOKMARK", bookmark)]),
    ])
    .await;
    assert_eq!(told, ["a@1", "b@2", "c@3", "synced", "d@10", "a@11", "-b"]);
    let watch = |version: &str| format!("{WATCH}{version}");
    assert_eq!(
        queries(&asked),
        ["limit=500", "limit=500&continue=more", &watch("9"), &watch("12"), &watch("30")]
    );
    assert!(asked.iter().all(|(time, _)| *time == 0), "nothing to pause for: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_history_means_a_new_list_that_tells_what_has_gone() {
    for lost in [stream(&[("ERROR", failure(410))]), (StatusCode::GONE, failure(410).to_string())] {
        let (told, asked) = follow(vec![
            page(&[thing("a", "1"), thing("b", "2")], "9", ""),
            lost,
            page(&[thing("b", "2"), thing("c", "20")], "21", ""),
        ])
        .await;
        assert_eq!(told, ["a@1", "b@2", "synced", "b@2", "c@20", "-a"], "synced comes once");
        assert_eq!(queries(&asked), ["limit=500", &format!("{WATCH}9"), "limit=500", &format!("{WATCH}21")]);
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_outlasted_with_growing_pauses() {
    let down = || (StatusCode::INTERNAL_SERVER_ERROR, failure(500).to_string());
    let (told, asked) = follow(vec![
        down(),
        down(),
        page(&[thing("a", "1")], "9", ""),
        down(),
        (StatusCode::OK, "not json\n".to_owned()),
        stream(&[]),
        stream(&[("ADDED", thing("b", "10"))]),
    ])
    .await;
    assert_eq!(told, ["a@1", "synced", "b@10"]);
    let times: Vec<u128> = asked.iter().map(|(time, _)| *time).collect();
    // A watch that ends without a word is a failure too, else a server that does only that is asked without pause.
    assert_eq!(times, [0, 100, 300, 300, 400, 600, 1_000, 1_000], "{asked:?}");
    assert_eq!(queries(&asked)[3..7], [format!("{WATCH}9").as_str(); 4]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_between_pages_starts_over() {
    let (told, asked) = follow(vec![
        page(&[thing("a", "1")], "9", "more"),
        (StatusCode::GONE, failure(410).to_string()),
        page(&[thing("a", "1"), thing("b", "2")], "11", ""),
    ])
    .await;
    assert_eq!(told, ["a@1", "a@1", "b@2", "synced"]);
    assert_eq!(queries(&asked)[1..3], ["limit=500&continue=more", "limit=500"]);
}
