//! What a container has said, as `pods/NAME/log` shows it.

use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::request::Parts;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use super::answer::{About, Refusal};
use super::object::{self, list, text};
use super::request::Query;
use super::schema::Cause;
use super::service::{Outcome, Reply, Server};
use crate::kinds::Kind;

/// Whoever keeps what containers say.
pub trait Logs: Send + Sync {
    /// What the present run of a container has said, or the one before; nothing if there was none.
    fn read(&self, pod_uid: &str, container: &str, previous: bool) -> Option<Log>;

    /// Changes whenever anything is said.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// What one run of a container has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// As far as it has been kept.
    pub lines: Vec<Line>,
    /// Nothing more will be said.
    pub is_over: bool,
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Grows from line to line.
    pub number: u64,
    /// When it was said.
    pub at: Timestamp,
    /// Without its end.
    pub text: String,
}

/// What of a log is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) container: String,
    pub(crate) follow: bool,
    pub(crate) previous: bool,
    timestamps: bool,
    tail: Option<usize>,
    limit: Option<usize>,
    since: Option<Timestamp>,
}

impl Options {
    pub(crate) fn read(query: &Query, pod: &Value, now: Timestamp) -> Result<Self, Refusal> {
        let (tail, limit) = (query.number("tailLines")?, query.number("limitBytes")?);
        let (seconds, time) = (query.number("sinceSeconds")?, query.get("sinceTime"));
        let mut causes = Vec::new();
        if let Some(tail) = tail.filter(|tail| *tail < 0) {
            causes.push(Cause::invalid("tailLines", &tail.into(), "must be greater than or equal to 0"));
        }
        if let Some(limit) = limit.filter(|limit| *limit < 1) {
            causes.push(Cause::invalid("limitBytes", &limit.into(), "must be greater than 0"));
        }
        match (seconds, time) {
            (Some(_), Some(_)) => {
                let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                causes.push(Cause::forbidden("[]", why));
            }
            (Some(seconds), None) if seconds < 1 => {
                causes.push(Cause::invalid("sinceSeconds", &seconds.into(), "must be greater than 0"));
            }
            _ => {}
        }
        if !causes.is_empty() {
            let about = About { group: "", name: "PodLogOptions" };
            return Err(Refusal::invalid(about, object::name(pod), &causes));
        }
        let ago = seconds.map(|seconds| now.saturating_sub(jiff::SignedDuration::from_secs(seconds)));
        Ok(Options {
            container: container(query.get("container"), pod)?,
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            tail: tail.and_then(|tail| usize::try_from(tail).ok()),
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            since: ago.and_then(Result::ok).or_else(|| time?.parse().ok()),
        })
    }

    /// The lines of a log that are wanted, as text.
    fn show<'a>(&self, lines: impl DoubleEndedIterator<Item = &'a Line> + ExactSizeIterator) -> Vec<u8> {
        let skipped = self.tail.map_or(0, |tail| lines.len().saturating_sub(tail));
        let mut text = String::new();
        for line in lines.skip(skipped).filter(|line| self.since.is_none_or(|since| line.at >= since)) {
            if self.timestamps {
                text.push_str(&line.at.to_string());
                text.push(' ');
            }
            text.push_str(&line.text);
            text.push('\n');
        }
        text.into_bytes()
    }
}

/// The container that is meant; who names none means the only one.
fn container(said: Option<&str>, pod: &Value) -> Result<String, Refusal> {
    let names = |pointer| -> Vec<&str> { list(pod, pointer).iter().map(|one| text(one, "/name")).collect() };
    let (containers, before) = (names("/spec/containers"), names("/spec/initContainers"));
    let pod = object::name(pod);
    match (said, containers.as_slice()) {
        (Some(said), _) if containers.contains(&said) || before.contains(&said) => Ok(said.to_owned()),
        (Some(said), _) => Err(Refusal::bad_request(format!("container {said} is not valid for pod {pod}"))),
        (None, [only]) => Ok((*only).to_owned()),
        (None, all) => {
            let all = all.join(" ");
            let mut why = format!("a container name must be specified for pod {pod}, choose one of: [{all}]");
            if !before.is_empty() {
                let before = before.join(" ");
                why += &[" or one of the init containers: [", &before, "]"].concat();
            }
            Err(Refusal::bad_request(why))
        }
    }
}

/// Why a container has no log.
pub(crate) fn silence(pod: &Value, options: &Options) -> Refusal {
    let (container, name) = (&options.container, object::name(pod));
    if options.previous {
        let why = format!("previous terminated container \"{container}\" in pod \"{name}\" not found");
        return Refusal::bad_request(why);
    }
    let all = ["/status/containerStatuses", "/status/initContainerStatuses"];
    let mut statuses = all.into_iter().flat_map(|pointer| list(pod, pointer));
    let status = statuses.find(|status| text(status, "/name") == container);
    let reason = match status.map(|status| text(status, "/state/waiting/reason")) {
        Some("ImagePullBackOff") => "trying and failing to pull image",
        None | Some("") => "ContainerCreating",
        Some(reason) => reason,
    };
    Refusal::bad_request(format!("container \"{container}\" in pod \"{name}\" is waiting to start: {reason}"))
}

/// A log as it is: all at once, or on and on.
pub(crate) fn lines(
    logs: Arc<dyn Logs>,
    pod_uid: String,
    options: Options,
    log: &Log,
) -> impl Stream<Item = Bytes> + use<> {
    let first = options.show(log.lines.iter());
    let changes = logs.changes();
    let reading = Reading {
        next: log.lines.last().map_or(0, |line| line.number + 1),
        left: options.limit.unwrap_or(usize::MAX),
        ended: !options.follow || log.is_over,
        ready: Some(first),
        logs,
        pod_uid,
        options: Options { tail: None, ..options },
        changes,
    };
    futures::stream::unfold(reading, async |mut reading| {
        let text = reading.next().await?;
        Some((Bytes::from(text), reading))
    })
}

/// A log that is being read.
struct Reading {
    logs: Arc<dyn Logs>,
    pod_uid: String,
    options: Options,
    changes: watch::Receiver<u64>,
    ready: Option<Vec<u8>>,
    /// The number of the first line that has not been shown.
    next: u64,
    /// Bytes that may still be shown.
    left: usize,
    ended: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(mut text) = self.ready.take() {
                text.truncate(self.left);
                self.left -= text.len();
                if !text.is_empty() {
                    return Some(text);
                }
            }
            if self.ended || self.left == 0 {
                return None;
            }
            self.changes.mark_unchanged();
            let log = self.logs.read(&self.pod_uid, &self.options.container, self.options.previous);
            let log = log.unwrap_or(Log { lines: Vec::new(), is_over: true });
            // A run whose lines are all older has made room for the next one.
            let new: Vec<Line> = log.lines.into_iter().filter(|line| line.number >= self.next).collect();
            self.ended = log.is_over;
            if let Some(last) = new.last() {
                self.next = last.number + 1;
                self.ready = Some(self.options.show(new.iter()));
            } else if !self.ended && self.changes.changed().await.is_err() {
                self.ended = true;
            }
        }
    }
}

impl Server {
    /// What a container has said.
    pub(super) fn log(
        &self,
        parts: &Parts,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Outcome, Refusal> {
        if parts.method != Method::GET {
            return Err(Refusal::method_not_allowed());
        }
        let (pod, now) = {
            let state = self.lock();
            let pod = state.store.get(&kind.key(namespace, name)).cloned();
            (pod.ok_or_else(|| Refusal::not_found(kind.resource(), name))?, state.clock.timestamp())
        };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let options = Options::read(&query, &pod, now)?;
        let is_placed = !text(&pod, "/spec/nodeName").is_empty();
        let Some(logs) = self.logs.clone().filter(|_| is_placed) else {
            let reply = Reply::new(StatusCode::NO_CONTENT, Vec::new());
            return Ok(Outcome::Reply(reply));
        };
        let uid = object::uid(&pod).to_owned();
        let log = logs.read(&uid, &options.container, options.previous);
        let log = log.ok_or_else(|| silence(&pod, &options))?;
        Ok(Outcome::Text(lines(logs, uid, options, &log).boxed()))
    }
}
