//! A server that knows one Lease, and lines to it that can be made to fail, each on its own.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::shell::api::Api;
use crate::shell::metrics::Metrics;

pub(super) const NAMESPACE: &str = "operators";

/// A test that is still waiting by then (on the paused clock) never gets what it waits for.
const PATIENCE: Duration = Duration::from_mins(10);

/// A loop in haste makes requests while the paused clock stands still; after so many its line goes dead, so that
/// the test fails and does not hang.
const MAX_REQUESTS: usize = 10_000;

#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    /// Every change so far with its version, as lines of a watch.
    history: Vec<(u64, String)>,
    watchers: Vec<mpsc::UnboundedSender<String>>,
    /// A watch from before this version gets 410.
    compacted: u64,
}

/// How a line treats the requests of one verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The request never arrives, and no answer comes.
    Drop,
    /// The request is carried out, but no answer comes.
    LoseAnswer,
    /// The answer is this status and nothing is done. A watch that is opened ends at once with 200.
    Status(u16),
    /// A watch that is opened stays silent for ever.
    Mute,
}

/// One client's way to the server.
#[derive(Clone, Default)]
pub(super) struct Line(Arc<Mutex<LineState>>);

#[derive(Default)]
struct LineState {
    faults: HashMap<&'static str, Fault>,
    /// A fault for a single request, counted from the first.
    single: Option<(usize, Fault)>,
    requests: Vec<&'static str>,
}

impl Line {
    pub(super) fn fail(&self, verbs: &[&'static str], fault: Fault) {
        self.0.lock().unwrap().faults.extend(verbs.iter().map(|verb| (*verb, fault)));
    }

    pub(super) fn fail_once(&self, request: usize, fault: Fault) {
        self.0.lock().unwrap().single = Some((request, fault));
    }

    pub(super) fn heal(&self) {
        self.0.lock().unwrap().faults.clear();
    }

    pub(super) fn requests(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().requests.clone()
    }

    fn treat(&self, verb: &'static str) -> Option<Fault> {
        let mut line = self.0.lock().unwrap();
        line.requests.push(verb);
        if line.requests.len() > MAX_REQUESTS {
            return Some(Fault::Drop);
        }
        let single = line.single.filter(|(request, _)| *request == line.requests.len() - 1);
        single.map(|(_, fault)| fault).or_else(|| line.faults.get(verb).copied())
    }
}

impl Server {
    /// A client of its own.
    pub(super) fn connect(&self) -> (Api, Line) {
        let line = Line::default();
        let (server, through) = (self.clone(), line.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, line) = (server.clone(), through.clone());
            async move {
                let (status, text) = server.answer(&line, request).await;
                let body = stream::unfold(text, |mut text| async {
                    let (receiver, until) = &mut text;
                    let chunk = timeout_at(*until, receiver.recv()).await.ok().flatten()?;
                    Some((Body::from(chunk.into_bytes()).frame().await?, text))
                });
                let response = Response::builder().status(status).body(StreamBody::new(Box::pin(body)));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        (Api::new(kube::Client::new(service, NAMESPACE), Metrics::new()), line)
    }

    pub(super) fn lease(&self) -> Option<Value> {
        self.0.lock().unwrap().lease.clone()
    }

    pub(super) fn spec(&self, field: &str) -> Value {
        self.lease().map_or(Value::Null, |lease| lease["spec"][field].clone())
    }

    /// A third party changes the lease.
    pub(super) fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut state = self.0.lock().unwrap();
        let mut lease = state.lease.clone().unwrap_or_else(|| json!({ "metadata": {} }));
        change(&mut lease);
        state.store("MODIFIED", lease);
    }

    /// A third party deletes the lease.
    pub(super) fn delete(&self) {
        let mut state = self.0.lock().unwrap();
        let lease = state.lease.clone().unwrap();
        state.store("DELETED", lease);
        state.lease = None;
    }

    /// Forgets the history, as a server does in time.
    pub(super) fn compact(&self) {
        let mut state = self.0.lock().unwrap();
        state.compacted = state.version;
        state.watchers.clear();
    }

    async fn answer(&self, line: &Line, request: Request<Body>) -> (StatusCode, Text) {
        let (parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let watching = query.contains("watch=true");
        let verb = match parts.method {
            Method::GET if watching => "watch",
            Method::GET => "get",
            Method::POST => "create",
            Method::PUT => "update",
            method => panic!("{method} is not a permission that the chart grants"),
        };
        let name = sts_plus_api::keys::LEASE;
        let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
        let object = format!("{collection}/{name}");
        assert_eq!(parts.uri.path(), if watching || verb == "create" { collection } else { object });
        let fault = line.treat(verb);
        match fault {
            Some(Fault::Drop) => return pending().await,
            Some(Fault::Status(code)) => {
                let status = json!({ "kind": "Status", "code": code, "message": "as the test asked for" });
                return once(StatusCode::from_u16(code).unwrap(), &status);
            }
            Some(Fault::Mute) => return (StatusCode::OK, forever(mpsc::unbounded_channel())),
            Some(Fault::LoseAnswer) | None => {}
        }
        let bytes = body.collect().await.unwrap().to_bytes();
        let answer = match verb {
            "watch" => self.watch(&query),
            "get" => self.get(),
            _ => self.write(verb, serde_json::from_slice(&bytes).unwrap()),
        };
        if fault == Some(Fault::LoseAnswer) { pending().await } else { answer }
    }

    fn get(&self) -> (StatusCode, Text) {
        match self.lease() {
            Some(lease) => once(StatusCode::OK, &lease),
            None => once(StatusCode::NOT_FOUND, &json!({ "message": "leases \"sts-plus\" not found" })),
        }
    }

    fn write(&self, verb: &str, lease: Value) -> (StatusCode, Text) {
        let mut state = self.0.lock().unwrap();
        let stored = state.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        let code = match (verb, stored) {
            ("create", None) => StatusCode::CREATED,
            ("create", Some(_)) => StatusCode::CONFLICT,
            (_, None) => StatusCode::NOT_FOUND,
            _ if lease["metadata"]["resourceVersion"].is_null() => StatusCode::UNPROCESSABLE_ENTITY,
            (_, Some(version)) if version != lease["metadata"]["resourceVersion"] => StatusCode::CONFLICT,
            _ => StatusCode::OK,
        };
        if !code.is_success() {
            return once(code, &json!({ "message": "refused" }));
        }
        once(code, &state.store(if verb == "create" { "ADDED" } else { "MODIFIED" }, lease))
    }

    fn watch(&self, query: &str) -> (StatusCode, Text) {
        let mut state = self.0.lock().unwrap();
        let asked = |key: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
            pair.unwrap_or_else(|| panic!("{key} is missing in {query}")).to_owned()
        };
        assert_eq!(asked("fieldSelector"), "metadata.name%3Dsts-plus");
        let since: u64 = asked("resourceVersion").parse().unwrap();
        let until = Instant::now() + Duration::from_secs(asked("timeoutSeconds").parse().unwrap());
        let (sender, receiver) = mpsc::unbounded_channel();
        if since < state.compacted {
            let status = json!({ "kind": "Status", "code": 410, "message": "too old resource version" });
            sender.send(format!("{}\n", json!({ "type": "ERROR", "object": status }))).unwrap();
            return (StatusCode::OK, (receiver, until));
        }
        for (_, line) in state.history.iter().filter(|(version, _)| *version > since) {
            sender.send(line.clone()).unwrap();
        }
        state.watchers.push(sender);
        (StatusCode::OK, (receiver, until))
    }
}

/// What is left to be sent of a body, and when it ends.
type Text = (mpsc::UnboundedReceiver<String>, Instant);

fn once(status: StatusCode, object: &Value) -> (StatusCode, Text) {
    let (sender, receiver) = mpsc::unbounded_channel();
    sender.send(object.to_string()).unwrap();
    (status, (receiver, Instant::now() + PATIENCE))
}

fn forever((sender, receiver): (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>)) -> Text {
    // The stream stays open as long as its sender does.
    tokio::spawn(async move { sender.closed().await });
    (receiver, Instant::now() + PATIENCE)
}

impl State {
    fn store(&mut self, kind: &str, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let line = format!("{}\n", json!({ "type": kind, "object": lease }));
        self.watchers.retain(|watcher| watcher.send(line.clone()).is_ok());
        self.history.push((self.version, line));
        self.lease = Some(lease.clone());
        lease
    }
}

/// Waits on the paused clock until something holds.
pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never happened: {what}");
        pass(Duration::from_millis(10)).await;
    }
}

/// Lets time pass on the paused clock, which jumps to the next thing that is due: nobody really waits.
pub(super) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
