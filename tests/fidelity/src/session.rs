//! One server, asked what a sequence asks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use serde_json::{Value, json};
use sts_plus_harness::wait::{NotYet, try_until};
use tokio::time::timeout;

use crate::neutral::Neutral;
use crate::sequence::{Ask, Body, Send, Sequence, Step, Until, merge};
use crate::webhook::Webhook;

/// How long an answer, an event or a change that takes effect may take; a moment each, on idle cores.
const DEADLINE: Duration = Duration::from_secs(40);

/// A server that is asked.
pub struct Server {
    /// How it is told apart where both are reached, as by webhooks.
    pub name: &'static str,
    /// Who asks.
    pub client: Client,
    /// What it asks back.
    pub webhook: Webhook,
    /// What all sequences refer to by name.
    pub known: BTreeMap<String, String>,
}

/// What a server has said, step by step.
#[derive(Debug)]
pub struct Transcript {
    /// One for each step, made neutral.
    pub answers: Vec<Value>,
    /// Where it did not say what the sequence expects.
    pub surprises: Vec<String>,
    /// What its steps have remembered.
    pub known: BTreeMap<String, String>,
}

/// Asks a server what a sequence asks.
pub async fn play(sequence: &Sequence, server: &Server) -> Transcript {
    let namespace = sequence.name.replace('_', "-");
    let mut known = server.known.clone();
    known.extend([
        ("ns".to_owned(), namespace.clone()),
        ("ca".to_owned(), server.webhook.ca_bundle()),
        ("webhook".to_owned(), server.webhook.url(server.name, &namespace)),
    ]);
    let mut session = Session {
        server,
        known,
        last: BTreeMap::new(),
        watches: BTreeMap::new(),
        neutral: Neutral::default(),
        surprises: Vec::new(),
    };
    session.neutral.call(&server.webhook.url(server.name, &namespace), "webhook");
    session.settle_in(&namespace).await;
    let mut answers = Vec::new();
    for (index, step) in sequence.steps.iter().enumerate() {
        answers.push(session.step(step, index + 1).await);
    }
    Transcript { answers, surprises: session.surprises, known: session.known }
}

struct Session<'a> {
    server: &'a Server,
    /// What steps refer to by name.
    known: BTreeMap<String, String>,
    /// Objects as they were last seen, by path.
    last: BTreeMap<String, Value>,
    watches: BTreeMap<String, Lines>,
    neutral: Neutral,
    surprises: Vec<String>,
}

struct Answer {
    code: u16,
    headers: http::HeaderMap,
    body: Value,
}

impl Session<'_> {
    /// Makes the namespace, in which pods can be created once it has its account.
    async fn settle_in(&mut self, namespace: &str) {
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        let made =
            self.ask("POST", "/api/v1/namespaces", Some("application/json"), None, body.to_string()).await;
        if made.code != 201 {
            self.surprises.push(format!("{}: namespace: {}", self.server.name, made.body));
        }
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        let look = async || {
            let found = self.ask("GET", &account, None, None, String::new()).await;
            if found.code == 200 { Ok(()) } else { Err(NotYet::saw(found.body)) }
        };
        if let Err(late) = try_until(DEADLINE, "the account of the namespace", look).await {
            self.surprises.push(format!("{}: {late}", self.server.name));
        }
    }

    async fn step(&mut self, step: &Step, position: usize) -> Value {
        match &step.ask {
            Ask::Send(send) => {
                let answer = if step.eventually {
                    let look = async || {
                        let answer = self.send(send).await;
                        if is_expected(step, answer.code) {
                            Ok(answer)
                        } else {
                            Err(NotYet::saw(answer.code))
                        }
                    };
                    let answered = try_until(DEADLINE, "the answer that is expected", look).await;
                    answered.unwrap_or_else(|late| Answer::none(&late.to_string()))
                } else {
                    self.send(send).await
                };
                if !is_expected(step, answer.code) {
                    let Answer { code, body, .. } = &answer;
                    self.surprises.push(format!("{}, step {position}: {code} {body}", self.server.name));
                }
                self.remember(step, send, &answer.body);
                self.shown(step, &answer)
            }
            Ask::Watch { path, name, accept } => {
                self.watch(step, position, (path, accept.as_deref()), name).await
            }
            Ask::Events { name, until } => self.events(step, position, name, until).await,
            Ask::Reviews { ordered } => {
                let namespace = self.known.get("ns").cloned().unwrap_or_default();
                let mut reviews = self.server.webhook.reviews(self.server.name, &namespace);
                if !ordered {
                    let text =
                        |review: &Value, pointer: &str| review.pointer(pointer).map(ToString::to_string);
                    reviews.sort_by_key(|review| (text(review, "/request/name"), text(review, "/hook")));
                }
                let shown = reviews.into_iter().map(|mut review| {
                    for pointer in step.ignore.iter().map(String::as_str).chain(["/request/userInfo"]) {
                        remove(&mut review, pointer);
                    }
                    self.neutral.value(&review)
                });
                shown.collect()
            }
        }
    }

    /// Begins a watch.
    async fn watch(
        &mut self,
        step: &Step,
        position: usize,
        (path, accept): (&str, Option<&str>),
        name: &str,
    ) -> Value {
        let path = self.fill(path);
        let request = request("GET", &path, None, accept, String::new());
        let response = match timeout(DEADLINE, self.server.client.send(request)).await {
            Ok(Ok(response)) => response,
            other => return json!({ "failed": format!("{:?}", other.map(|sent| sent.map(|_| ()))) }),
        };
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            let lines = Lines { body, text: Vec::new(), ready: VecDeque::new() };
            self.watches.insert(name.to_owned(), lines);
            if step.refused.is_some() {
                self.surprises.push(format!("{}, step {position}: watches", self.server.name));
            }
            return json!({ "code": parts.status.as_u16() });
        }
        let body = parse(&body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default());
        let answer = Answer { code: parts.status.as_u16(), headers: parts.headers, body };
        if !is_expected(step, answer.code) {
            self.surprises.push(format!("{}, step {position}: {}", self.server.name, answer.body));
        }
        self.shown(step, &answer)
    }

    /// Collects the events of a watch.
    async fn events(&mut self, step: &Step, position: usize, name: &str, until: &Until) -> Value {
        let Some(mut lines) = self.watches.remove(name) else { return json!("no such watch") };
        let mut events = Vec::new();
        loop {
            match timeout(DEADLINE, lines.next()).await {
                Ok(Some(event)) => {
                    let is_last = match until {
                        Until::End => false,
                        Until::Bookmark => event.get("type") == Some(&json!("BOOKMARK")),
                        Until::Object(name) => {
                            let of_row = || event.pointer("/object/rows/0/object/metadata/name");
                            let shown = event.pointer("/object/metadata/name").or_else(of_row);
                            shown == Some(&json!(name))
                        }
                    };
                    let mut event = event;
                    for pointer in &step.ignore {
                        remove(&mut event, pointer);
                    }
                    events.push(self.neutral.value(&event));
                    if is_last {
                        break;
                    }
                }
                Ok(None) => {
                    events.push(json!("END"));
                    break;
                }
                Err(_) => {
                    self.surprises.push(format!("{}, step {position}: {events:?}", self.server.name));
                    break;
                }
            }
        }
        self.watches.insert(name.to_owned(), lines);
        events.into()
    }

    /// What of an answer is compared.
    fn shown(&mut self, step: &Step, answer: &Answer) -> Value {
        let mut body = answer.body.clone();
        for pointer in &step.ignore {
            remove(&mut body, pointer);
        }
        let header = |name: &str| -> Vec<String> {
            let values = answer.headers.get_all(name).iter();
            values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
        };
        let media =
            header("content-type").first().and_then(|text| text.split(';').next()).unwrap_or("").to_owned();
        let mut shown = json!({
            "code": answer.code, "type": media, "warnings": header("warning"), "retry": header("retry-after"),
            "allow": header("allow"),
        });
        if let Some(fields) = shown.as_object_mut() {
            fields.retain(|_, value| value.as_array().is_none_or(|values| !values.is_empty()));
            fields.insert("body".into(), body);
        }
        self.neutral.value(&shown)
    }

    fn remember(&mut self, step: &Step, send: &Send, body: &Value) {
        for (name, pointer) in &step.remember {
            let found = match body.pointer(pointer) {
                Some(Value::String(text)) => text.clone(),
                other => other.map(ToString::to_string).unwrap_or_default(),
            };
            self.neutral.call(&found, name);
            self.known.insert(name.clone(), found);
        }
        let kind = body.get("kind").and_then(Value::as_str).unwrap_or_default();
        let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if matches!(kind, "" | "Status" | "PartialObjectMetadata")
            || name.is_empty()
            || body.get("items").is_some()
        {
            return;
        }
        let path = self.fill(&send.path);
        let path = path.split('?').next().unwrap_or_default();
        let path = path.strip_suffix("/status").unwrap_or(path);
        let path =
            if send.method == "POST" && kind != "Scale" { format!("{path}/{name}") } else { path.to_owned() };
        self.last.insert(path, body.clone());
    }

    async fn send(&self, send: &Send) -> Answer {
        let path = expand(&self.fill(&send.path));
        let body = match &send.body {
            Body::None => String::new(),
            Body::Text(text) => expand(&self.fill(text)),
            Body::Json(body) => expand(&self.fill(&body.to_string())),
            Body::Changed(change) => {
                let object = path.split('?').next().unwrap_or_default();
                let object = object.strip_suffix("/status").unwrap_or(object);
                let mut body = self.last.get(object).cloned().unwrap_or(Value::Null);
                merge(&mut body, change);
                self.fill(&body.to_string())
            }
        };
        self.ask(&send.method, &path, send.content_type.as_deref(), send.accept.as_deref(), body).await
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        accept: Option<&str>,
        body: String,
    ) -> Answer {
        let request = request(method, path, content_type, accept, body);
        let response = match timeout(DEADLINE, self.server.client.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Answer::none(&error.to_string()),
            Err(_) => return Answer::none("no answer"),
        };
        let (parts, body) = response.into_parts();
        let bytes = timeout(DEADLINE, body.collect()).await;
        let bytes =
            bytes.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Answer { code: parts.status.as_u16(), headers: parts.headers, body: parse(&bytes) }
    }

    /// Puts in what steps refer to as `${name}`.
    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.known {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        text
    }
}

impl Answer {
    fn none(why: &str) -> Self {
        Answer { code: 0, headers: http::HeaderMap::new(), body: why.into() }
    }
}

fn is_expected(step: &Step, code: u16) -> bool {
    step.refused.map_or((200..300).contains(&code), |refused| code == refused)
}

fn request(
    method: &str,
    path: &str,
    content_type: Option<&str>,
    accept: Option<&str>,
    body: String,
) -> Request<kube::client::Body> {
    // Sequences write selectors as people do.
    let uri = path.replace(' ', "%20").replace('<', "%3C").replace('>', "%3E");
    let mut request = Request::builder().method(method).uri(uri).header("user-agent", "fidelity/1");
    if let Some(kind) = content_type {
        request = request.header("content-type", kind);
    }
    if let Some(accept) = accept {
        request = request.header("accept", accept);
    }
    #[expect(clippy::unwrap_used, reason = "sequences name paths and headers that exist")]
    request.body(kube::client::Body::from(body.into_bytes())).unwrap()
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned().into())
}

/// `${pad:N}` is a text of that length, `${nest:N}` a value within that many others, `${ops:N}` as many operations of a
/// JSON patch.
fn expand(text: &str) -> String {
    let mut text = text.to_owned();
    for name in ["pad", "nest", "ops"] {
        let start = format!("${{{name}:");
        while let Some(at) = text.find(&start) {
            let Some(end) = text.get(at..).and_then(|rest| rest.find('}')).map(|end| at + end) else { break };
            let count = text.get(at + start.len()..end).and_then(|count| count.parse().ok()).unwrap_or(0);
            let filling = match name {
                "pad" => "x".repeat(count),
                "ops" => vec![r#"{"op":"add","path":"/data/a","value":"2"}"#; count].join(","),
                _ => format!("{}1{}", "{\"a\":".repeat(count), "}".repeat(count)),
            };
            text.replace_range(at..=end, &filling);
        }
    }
    text
}

/// Removes what a pointer leads to; `*` is every item of a list.
fn remove(value: &mut Value, pointer: &str) {
    let (first, rest) =
        pointer.trim_start_matches('/').split_once('/').unwrap_or((pointer.trim_start_matches('/'), ""));
    match (first, rest, &mut *value) {
        ("*", "", Value::Array(items)) => items.clear(),
        ("*", rest, Value::Array(items)) => items.iter_mut().for_each(|item| remove(item, rest)),
        (name, "", Value::Object(fields)) => {
            fields.remove(&name.replace("~1", "/"));
        }
        (name, rest, value) => {
            if let Some(inner) = value.pointer_mut(&format!("/{name}")) {
                remove(inner, rest);
            }
        }
    }
}

/// The events of a watch.
struct Lines {
    body: kube::client::Body,
    text: Vec<u8>,
    ready: VecDeque<Value>,
}

impl Lines {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let frame = self.body.frame().await?.ok()?;
            self.text.extend(frame.into_data().unwrap_or_default());
            while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                self.ready.push_back(parse(&line));
            }
        }
    }
}
