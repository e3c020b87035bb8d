//! A server to send inputs to.

use std::sync::{LazyLock, Mutex};

use futures::FutureExt;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use sts_plus_cluster::Clock;
use sts_plus_cluster::machinery::schema::Definitions;
use sts_plus_cluster::machinery::service::{MAX_BODY_BYTES, Server, Settings};
use tower::ServiceExt;

/// Inputs that one server sees: each leaves objects behind.
const INPUTS: usize = 200;

/// What an answer may be at most, in bytes: the largest body and the largest object, who owns it, and a word on each field.
const MAX_ANSWER_BYTES: usize = 16 * MAX_BODY_BYTES;

/// Servers that no input is using, each with how many have.
static SERVERS: Mutex<Vec<(Server, usize)>> = Mutex::new(Vec::new());
static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| Definitions::built_in().unwrap());

/// A server, and a name that it has not seen.
pub(crate) struct Cluster {
    server: Server,
    used: usize,
    pub(crate) name: String,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // After a broken promise nobody knows what it is like.
        if self.used < INPUTS && !std::thread::panicking() {
            SERVERS.lock().unwrap().push((self.server.clone(), self.used));
        }
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) body: Value,
}

/// The shapes of kinds.
pub(crate) fn definitions() -> &'static Definitions {
    &DEFINITIONS
}

impl Cluster {
    /// For one input.
    pub(crate) fn new() -> Self {
        let idle = SERVERS.lock().unwrap().pop();
        let (server, used) = idle.unwrap_or_else(|| {
            let clock = Clock::at("2026-01-02T03:04:05Z".parse().unwrap());
            (Server::new(Settings { history: 16, ..Settings::new(clock) }).unwrap(), 0)
        });
        Cluster { server, used: used + 1, name: format!("x{used}") }
    }

    /// Sends a request. What comes back is checked as far as every answer can be.
    pub(crate) fn send(&self, method: &Method, path: &str, content_type: &str, body: &[u8]) -> Answer {
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(Body::from(body.to_vec())).unwrap();
        let asked = async {
            let answer = self.server.clone().oneshot(request).await.unwrap();
            let code = answer.status();
            (code, answer.into_body().collect().await.unwrap().to_bytes())
        };
        // Nothing here waits for anybody: there are no webhooks and no watches.
        let (code, body) = asked.now_or_never().expect("the server waits for something");
        assert!(body.len() <= MAX_ANSWER_BYTES, "{method} {path}: an answer of {} bytes", body.len());
        let body: Value = serde_json::from_slice(&body)
            .unwrap_or_else(|error| panic!("{method} {path}: {code}, and no client can read it: {error}"));
        let answer = Answer { code, body };
        if !code.is_success() {
            assert_eq!(answer.text("/kind"), "Status", "{method} {path}: {answer:?}");
            assert_eq!(answer.text("/status"), "Failure", "{method} {path}: {answer:?}");
            assert_eq!(answer.body["code"], code.as_u16(), "{method} {path}: {answer:?}");
            assert!(!answer.text("/message").is_empty(), "{method} {path}: {answer:?}");
        }
        answer
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&Method::GET, path, "", b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&Method::POST, path, "application/json", body.to_string().as_bytes())
    }

    /// Writes back what was read, which must change nothing.
    pub(crate) fn put_back(&self, path: &str, object: &Value) {
        let answer = self.send(&Method::PUT, path, "application/json", object.to_string().as_bytes());
        assert_eq!(answer.code, StatusCode::OK, "what was read is refused: {object}\n{answer:?}");
        assert_eq!(&answer.body, object, "what was read is written otherwise");
    }

    /// Everything of a kind can be listed, this object among it, and all of it goes when it is told to.
    pub(crate) fn check_collection(&self, collection: &str, object: &Value) {
        let listed = self.get(collection);
        assert_eq!(listed.code, StatusCode::OK);
        let is_listed = listed.body["items"].as_array().into_iter().flatten().any(|item| {
            item["metadata"]["name"] == object["metadata"]["name"] && item["metadata"] == object["metadata"]
        });
        assert!(is_listed, "{collection}: not listed: {object}");
        let gone = self.send(&Method::DELETE, collection, "", b"");
        assert_eq!(gone.code, StatusCode::OK, "{gone:?}");
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        let left = self.get(&path);
        assert!(
            left.code == StatusCode::NOT_FOUND || left.body["metadata"].get("deletionTimestamp").is_some(),
            "{path}: still there"
        );
    }
}

impl Answer {
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The version of an object.
    pub(crate) fn version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }
}

/// Levels of a value.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
