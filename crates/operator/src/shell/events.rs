//! Kubernetes events, off the critical path: recorded into a bounded queue and paced, so that neither a flapping pod nor
//! a hundred sets at once can flood the API server through us.
//!
//! What may not be sent yet waits. Of what waits, the same event again raises a count, and events of the same object,
//! type and reason become one that says all they had to say. Nothing is dropped before that.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use sts_plus_api::keys;
use sts_plus_planner::plan::Subject;
use sts_plus_planner::reason::Severity;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::api::{Api, ApiError, Kind, Place};
use super::rights::Right;

/// Events that may wait to be sent; beyond that they are dropped and counted, since nothing depends on them.
const MAX_WAITING_EVENTS: usize = 1024;

/// Events remembered for combining: a repeated one raises a count instead of making a new object.
const MAX_REMEMBERED_EVENTS: usize = 4096;

/// After this time a repeated event is a new one; the API server forgets events after an hour by default.
const COMBINE_FOR: Duration = Duration::from_mins(10);

/// Events of one object: a step of a rollout is told word for word, and of a long one what happened in every few seconds.
const OBJECT_PACE: Pace = Pace { burst: 5.0, refill: Duration::from_secs(5) };

/// Events of all objects: telling must cost less than what is told of, which is two writes for each pod that is replaced.
const GLOBAL_PACE: Pace = Pace { burst: 25.0, refill: Duration::from_millis(100) };

/// How an event begins that stands for several: as upstream's do.
const COMBINED: &str = "(combined from similar events): ";

/// What is between their messages.
const SEPARATOR: &str = "; ";

/// The API server's limit for messages of new-style events; longer ones are cut.
const MAX_MESSAGE_CHARACTERS: usize = 1024;

/// The longest name an object may have.
const MAX_NAME_CHARACTERS: usize = 253;

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regarding {
    pub resource: Kind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

impl From<&Subject> for Regarding {
    fn from(subject: &Subject) -> Self {
        Self {
            resource: subject.kind,
            namespace: Arc::clone(&subject.namespace),
            name: Arc::clone(&subject.name),
            uid: Arc::clone(&subject.uid),
        }
    }
}

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Event {
    component: &'static str,
    regarding: Regarding,
    warning: bool,
    reason: &'static str,
    message: String,
}

impl Event {
    /// Whether one event can speak for both.
    fn is_similar(&self, other: &Self) -> bool {
        let kind = |event: &Self| (event.component, event.warning, event.reason);
        kind(self) == kind(other) && self.regarding == other.regarding
    }
}

/// Takes events without ever waiting.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Event>,
    dropped: prometheus_client::metrics::counter::Counter,
    component: &'static str,
}

/// Sends what the recorder took.
#[derive(Debug)]
pub struct Sender {
    api: Api,
    queue: mpsc::Receiver<Event>,
    instance: String,
    waiting: Vec<Waiting>,
    sent: HashMap<Event, Sent>,
    allowances: HashMap<Arc<str>, Allowance>,
    allowance: Allowance,
}

/// An event that may not be sent yet, and those like it that came since.
#[derive(Debug)]
struct Waiting {
    /// The first of them.
    event: Event,
    /// The other messages, as far as they will go into one.
    others: Vec<String>,
    count: u64,
}

#[derive(Debug)]
struct Sent {
    name: String,
    count: u64,
    last: Instant,
}

/// How many events at once, and then one every so often.
#[derive(Clone, Copy, Debug)]
struct Pace {
    burst: f64,
    refill: Duration,
}

/// What is left of a pace.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    tokens: f64,
    at: Instant,
}

impl Allowance {
    fn full(pace: Pace, now: Instant) -> Self {
        Self { tokens: pace.burst, at: now }
    }

    fn refill(&mut self, pace: Pace, now: Instant) {
        let refilled = now.saturating_duration_since(self.at).as_secs_f64() / pace.refill.as_secs_f64();
        self.tokens = (self.tokens + refilled).min(pace.burst);
        self.at = self.at.max(now);
    }

    /// When the next event may be sent.
    fn due(&self, pace: Pace) -> Instant {
        self.at + pace.refill.mul_f64((1.0 - self.tokens).max(0.0))
    }
}

impl Waiting {
    /// Takes in one more event like it.
    fn fold(&mut self, message: String) {
        self.count += 1;
        let known = self.event.message == message || self.others.contains(&message);
        if !known && self.length() < MAX_MESSAGE_CHARACTERS {
            self.others.push(message);
        }
    }

    fn length(&self) -> usize {
        let messages = std::iter::once(&self.event.message).chain(&self.others);
        messages.map(|message| message.chars().count()).sum()
    }

    /// The event that speaks for all of them.
    fn spoken(&self) -> Event {
        let mut event = self.event.clone();
        if !self.others.is_empty() {
            let messages: Vec<_> = std::iter::once(&event.message).chain(&self.others).cloned().collect();
            let message = format!("{COMBINED}{}", messages.join(SEPARATOR));
            event.message = message.chars().take(MAX_MESSAGE_CHARACTERS).collect();
        }
        event
    }
}

/// A recorder, and the sender to run beside it.
pub fn channel(api: Api, instance: String) -> (Recorder, Sender) {
    let (queue, waiting) = mpsc::channel(MAX_WAITING_EVENTS);
    let recorder =
        Recorder { queue, dropped: api.metrics().events_dropped.clone(), component: keys::COMPONENT };
    let sender = Sender {
        api,
        queue: waiting,
        instance,
        waiting: Vec::new(),
        sent: HashMap::new(),
        allowances: HashMap::new(),
        allowance: Allowance::full(GLOBAL_PACE, Instant::now()),
    };
    (recorder, sender)
}

impl Recorder {
    /// The same recorder, whose events say that they come from this component.
    #[must_use]
    pub fn of_component(&self, component: &'static str) -> Self {
        Self { component, ..self.clone() }
    }

    /// Records a transition.
    pub fn record(&self, regarding: Regarding, severity: Severity, reason: &'static str, message: &str) {
        let warning = severity != Severity::Normal;
        let message = message.chars().take(MAX_MESSAGE_CHARACTERS).collect();
        let event = Event { component: self.component, regarding, warning, reason, message };
        if self.queue.try_send(event).is_err() {
            self.dropped.inc();
        }
    }

    /// Records a fault.
    pub fn warn(&self, regarding: Regarding, reason: &'static str, message: &str) {
        self.record(regarding, Severity::Warning, reason, message);
    }
}

impl Sender {
    /// Sends until every recorder is gone and nothing waits any more.
    pub async fn run(mut self) {
        let mut open = true;
        while open || !self.waiting.is_empty() {
            let due = self.due(Instant::now());
            if let Some((first, due)) = due
                && due <= Instant::now()
            {
                self.send_waiting(first).await;
                continue;
            }
            tokio::select! {
                biased;
                event = self.queue.recv(), if open => match event {
                    Some(event) => self.wait(event),
                    None => open = false,
                },
                () = async { tokio::time::sleep_until(due.map_or_else(Instant::now, |(_, due)| due)).await },
                    if due.is_some() => {}
            }
        }
    }

    /// Puts an event to those that wait, or into one of them.
    fn wait(&mut self, event: Event) {
        if let Some(similar) = self.waiting.iter_mut().find(|waiting| waiting.event.is_similar(&event)) {
            similar.fold(event.message);
        } else if self.waiting.len() < MAX_WAITING_EVENTS {
            self.waiting.push(Waiting { event, others: Vec::new(), count: 1 });
        } else {
            self.api.metrics().events_dropped.inc();
        }
    }

    /// Which of those that wait is next, and when: the first one that may go, else the one that may go soonest.
    fn due(&mut self, now: Instant) -> Option<(usize, Instant)> {
        self.allowance.refill(GLOBAL_PACE, now);
        let global = self.allowance.due(GLOBAL_PACE);
        let due = |waiting: &Waiting| {
            let allowance = self.allowances.get(&waiting.event.regarding.uid);
            allowance.map_or(now, |allowance| allowance.due(OBJECT_PACE)).max(now)
        };
        let next = self.waiting.iter().map(due).enumerate().min_by_key(|(_, due)| *due);
        next.map(|(first, due)| (first, due.max(global)))
    }

    async fn send_waiting(&mut self, number: usize) {
        let waiting = self.waiting.remove(number);
        let now = Instant::now();
        let create = right("create", &waiting.event.regarding.namespace);
        if self.api.rights().denied_until(&create).is_some() {
            self.api.metrics().events_dropped.inc_by(waiting.count);
            return;
        }
        self.spend(&waiting.event.regarding.uid, now);
        match self.send(waiting.spoken(), waiting.count).await {
            Ok(()) => self.api.rights().grant(&create),
            // Nothing was done, so nothing is lost: it waits with the others.
            Err(ApiError::Throttled { retry_after }) => {
                self.waiting.insert(0, waiting);
                tokio::time::sleep(retry_after).await;
            }
            Err(error) => {
                self.api.metrics().events_dropped.inc_by(waiting.count);
                if error.lacks_right() {
                    self.api.rights().deny(&create, &error.words());
                } else {
                    tracing::warn!("an event could not be written: {error}");
                }
            }
        }
    }

    fn spend(&mut self, uid: &Arc<str>, now: Instant) {
        self.allowance.tokens -= 1.0;
        if self.allowances.len() > MAX_REMEMBERED_EVENTS {
            self.allowances.retain(|_, allowance| now.duration_since(allowance.at) < COMBINE_FOR);
        }
        let full = || Allowance::full(OBJECT_PACE, now);
        let allowance = self.allowances.entry(Arc::clone(uid)).or_insert_with(full);
        allowance.refill(OBJECT_PACE, now);
        allowance.tokens -= 1.0;
    }

    /// Sends an event that happened so often; if it is one that was sent already, its count is raised.
    async fn send(&mut self, event: Event, count: u64) -> Result<(), ApiError> {
        let now = Instant::now();
        if self.sent.len() > MAX_REMEMBERED_EVENTS {
            self.sent.retain(|_, sent| now.duration_since(sent.last) < COMBINE_FOR);
        }
        let patch = right("patch", &event.regarding.namespace);
        if let Some(sent) = self.sent.get_mut(&event)
            && now.duration_since(sent.last) < COMBINE_FOR
            && self.api.rights().denied_until(&patch).is_none()
        {
            sent.count += count;
            sent.last = now;
            let fields = json!({ "count": sent.count, "lastTimestamp": seconds(self.api.now()) });
            let place = Place::object(Kind::Event, &event.regarding.namespace, &sent.name);
            match self.api.merge(place, keys::CONTROLLER, &fields).await {
                Err(ApiError::NotFound(_)) => {}
                // Where it may not be counted it is a new one.
                Err(error) if error.lacks_right() => self.api.rights().deny(&patch, &error.words()),
                other => return other.map(|_| ()),
            }
        }
        let object = self.object(&event, count);
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let place = Place::collection(Kind::Event, Some(&event.regarding.namespace));
        self.api.create(place, keys::CONTROLLER, &object).await?;
        self.sent.insert(event, Sent { name, count, last: now });
        Ok(())
    }

    fn object(&self, event: &Event, count: u64) -> Value {
        let Event { component, regarding, warning, reason, message } = event;
        let definition = regarding.resource.definition();
        let now = self.api.now();
        let suffix = format!(".{:016x}", self.api.chance().draw());
        let stem: String = regarding.name.chars().take(MAX_NAME_CHARACTERS - suffix.len()).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": format!("{stem}{suffix}"), "namespace": regarding.namespace },
            "involvedObject": {
                "apiVersion": definition.api_version,
                "kind": definition.kind,
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": regarding.uid,
            },
            "type": if *warning { "Warning" } else { "Normal" },
            "reason": reason,
            "message": message,
            "source": { "component": component },
            "reportingComponent": keys::CONTROLLER,
            "reportingInstance": self.instance,
            "firstTimestamp": seconds(now),
            "lastTimestamp": seconds(now),
            "count": count,
        })
    }
}

fn right(verb: &'static str, namespace: &Arc<str>) -> Right {
    Right { verb, resource: Kind::Event.plural().into(), namespace: Arc::clone(namespace) }
}

/// The API server keeps event times in whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
