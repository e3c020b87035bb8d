//! Kubernetes events, off the critical path: recorded into a bounded queue, combined when they repeat, and
//! limited per object, so that a flapping pod cannot flood the API server through us.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_planner::reason::Severity;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::api::{Api, ApiError, Place, Resource};

/// Events that may wait to be sent; beyond that they are dropped and counted, since nothing depends on them.
const MAX_WAITING_EVENTS: usize = 1024;

/// Events remembered for combining: a repeated one raises a count instead of making a new object.
const MAX_REMEMBERED_EVENTS: usize = 4096;

/// After this time a repeated event is a new one; the API server forgets events after an hour by default.
const COMBINE_FOR: Duration = Duration::from_mins(10);

/// Events one object may have in a burst: a rollout with several waits has fewer.
const BURST_PER_OBJECT: f64 = 25.0;

/// One more event for an object every so often, after its burst.
const REFILL: Duration = Duration::from_secs(30);

/// The API server's limit for messages of new-style events; longer ones are cut.
const MAX_MESSAGE_CHARACTERS: usize = 1024;

/// The longest name an object may have.
const MAX_NAME_CHARACTERS: usize = 253;

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// What it is.
    pub resource: Resource,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
}

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Event {
    regarding: Regarding,
    warning: bool,
    reason: &'static str,
    message: String,
}

/// Takes events without ever waiting.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Event>,
    dropped: prometheus_client::metrics::counter::Counter,
}

/// Sends what the recorder took.
#[derive(Debug)]
pub struct Sender {
    api: Api,
    queue: mpsc::Receiver<Event>,
    instance: String,
    hasher: RandomState,
    sent: HashMap<Event, Sent>,
    allowance: HashMap<Arc<str>, (f64, Instant)>,
}

#[derive(Debug)]
struct Sent {
    name: String,
    count: u64,
    last: Instant,
}

/// A recorder, and the sender to run beside it.
pub fn channel(api: Api, instance: String) -> (Recorder, Sender) {
    let (queue, waiting) = mpsc::channel(MAX_WAITING_EVENTS);
    let recorder = Recorder { queue, dropped: api.metrics().events_dropped.clone() };
    let sender = Sender {
        api,
        queue: waiting,
        instance,
        hasher: RandomState::new(),
        sent: HashMap::new(),
        allowance: HashMap::new(),
    };
    (recorder, sender)
}

impl Recorder {
    /// Records a transition.
    pub fn record(&self, regarding: Regarding, severity: Severity, reason: &'static str, message: &str) {
        let warning = severity != Severity::Normal;
        let message = message.chars().take(MAX_MESSAGE_CHARACTERS).collect();
        if self.queue.try_send(Event { regarding, warning, reason, message }).is_err() {
            self.dropped.inc();
        }
    }

    /// Records a fault.
    pub fn warn(&self, regarding: Regarding, reason: &'static str, message: &str) {
        self.record(regarding, Severity::Warning, reason, message);
    }
}

impl Sender {
    /// Sends until every recorder is gone.
    pub async fn run(mut self) {
        while let Some(event) = self.queue.recv().await {
            if !self.allowed(&event.regarding.uid) {
                self.api.metrics().events_dropped.inc();
                continue;
            }
            if let Err(error) = self.send(event).await {
                self.api.metrics().events_dropped.inc();
                tracing::warn!("an event could not be written: {error}");
                if let ApiError::Throttled { retry_after } = error {
                    tokio::time::sleep(retry_after).await;
                }
            }
        }
    }

    fn allowed(&mut self, uid: &Arc<str>) -> bool {
        let now = Instant::now();
        if self.allowance.len() > MAX_REMEMBERED_EVENTS {
            self.allowance.retain(|_, (_, seen)| now.duration_since(*seen) < COMBINE_FOR);
        }
        let (tokens, seen) = self.allowance.entry(Arc::clone(uid)).or_insert((BURST_PER_OBJECT, now));
        let refilled = now.duration_since(*seen).as_secs_f64() / REFILL.as_secs_f64();
        *tokens = (*tokens + refilled).min(BURST_PER_OBJECT);
        *seen = now;
        let allowed = *tokens >= 1.0;
        if allowed {
            *tokens -= 1.0;
        }
        allowed
    }

    async fn send(&mut self, event: Event) -> Result<(), ApiError> {
        let now = Instant::now();
        if self.sent.len() > MAX_REMEMBERED_EVENTS {
            self.sent.retain(|_, sent| now.duration_since(sent.last) < COMBINE_FOR);
        }
        if let Some(sent) = self.sent.get_mut(&event)
            && now.duration_since(sent.last) < COMBINE_FOR
        {
            sent.count += 1;
            sent.last = now;
            let fields = json!({ "count": sent.count, "lastTimestamp": seconds(Timestamp::now()) });
            let place = Place::object(Resource::Events, &event.regarding.namespace, &sent.name);
            match self.api.merge(place, keys::CONTROLLER, &fields).await {
                Err(ApiError::NotFound(_)) => {}
                other => return other.map(|_| ()),
            }
        }
        let object = self.object(&event);
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let place = Place::collection(Resource::Events, Some(&event.regarding.namespace));
        self.api.create(place, keys::CONTROLLER, &object).await?;
        self.sent.insert(event, Sent { name, count: 1, last: now });
        Ok(())
    }

    fn object(&self, event: &Event) -> Value {
        let Event { regarding, warning, reason, message } = event;
        let (api_version, kind) = regarding.resource.identity();
        let now = Timestamp::now();
        let suffix = format!(".{:016x}", self.hasher.hash_one((event, now.as_nanosecond())));
        let stem: String = regarding.name.chars().take(MAX_NAME_CHARACTERS - suffix.len()).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": format!("{stem}{suffix}"), "namespace": regarding.namespace },
            "involvedObject": {
                "apiVersion": api_version,
                "kind": kind,
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": regarding.uid,
            },
            "type": if *warning { "Warning" } else { "Normal" },
            "reason": reason,
            "message": message,
            "source": { "component": "sts-plus" },
            "reportingComponent": keys::CONTROLLER,
            "reportingInstance": self.instance,
            "firstTimestamp": seconds(now),
            "lastTimestamp": seconds(now),
            "count": 1,
        })
    }
}

/// The API server keeps event times in whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
