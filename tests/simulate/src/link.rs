//! The wire between one life of an operator and the API server, on which things go wrong.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use sts_plus_cluster::machinery::service::Server;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tower::{BoxError, Service, service_fn};

use crate::call::Call;
use crate::dice::Dice;
use crate::faults::{Fault, Plan};
use crate::monitor::Monitor;
use crate::planted::{Lie, Planted, wire};
use crate::refusals::{refusal, refusal_by_webhook};
use crate::sight::{self, Sight};
use crate::trace::Trace;

/// The usual way of a request to the server and back.
const WAY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(40));
/// A slow one; the operator gives a write up after 5 s.
const SLOW_WAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(9));
/// How long after its decision a late write leaves: within the lease, or long after it.
const LATE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(40));
/// By how much a watch lags.
const LAG: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(20));
/// What a stale read is behind by.
const STALE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(2));
/// How long a webhook that hangs is waited for, as its default is: longer than the operator waits for a write.
const WEBHOOK_TIME: Duration = Duration::from_secs(10);
/// Of a thousand writes, so many hit an operator that dies at them, and of a thousand that take a pod away, ...
const CRASHES: (u64, u64) = (12, 80);
/// ... lose their answer, and again, ...
const LOST: (u64, u64) = (40, 200);
/// ... meet an object that has just been changed, ...
const CONFLICTS: u64 = 60;
/// ... or leave late.
const LATES: u64 = 30;
/// Of a thousand requests in a window of trouble, so many have it.
const TROUBLED: u64 = 500;

/// From one bookmark to the next of a watch that says nothing else.
const BOOKMARKS: Duration = Duration::from_secs(30);

/// An answer on its way back.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// What all wires of a run share.
#[derive(Clone)]
pub struct Net {
    pub server: Server,
    /// What goes wrong.
    pub plan: Arc<Plan>,
    /// When the run began.
    pub began: Instant,
    /// What is seen.
    pub trace: Trace,
    /// What is checked.
    pub monitor: Monitor,
    /// Whether lists are streamed, as servers from 1.34 on do.
    pub streams: bool,
    /// What is hidden.
    pub sight: Sight,
    /// The fault that is planted.
    pub planted: Option<&'static Planted>,
}

impl Net {
    /// Since the run began.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether a fault strikes now, if its kind lasts for a while.
    pub fn open(&self, fault: Fault) -> Option<u64> {
        self.plan.open(fault, self.now()).map(|window| window.variant)
    }

    /// Whether the wires lie in this way.
    pub fn lies(&self, lie: Lie) -> bool {
        self.planted.is_some_and(|planted| planted.lies(lie))
    }

    /// Whether things still go wrong.
    pub fn is_chaos(&self) -> bool {
        self.now() < self.plan.chaos
    }
}

/// One life of one operator, as the wire sees it.
#[derive(Clone)]
pub struct Link {
    net: Net,
    dice: Dice,
    /// Which operator, from 0.
    number: u64,
    /// Its name, with the number of its life.
    pub name: Arc<str>,
    dead: Arc<AtomicBool>,
    /// Tells that the operator has to die.
    pub crash: Arc<Notify>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives {
        there: Duration,
        back: Duration,
    },
    DiesBefore,
    DiesAfter,
    AnswerLost,
    Broken,
    Answered {
        code: u16,
        retry_after: Option<u64>,
    },
    Overtaken,
    Late(Duration),
    Hangs,
    /// A webhook fails after this time.
    Refused(Duration),
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Cut(&'static str);

impl Link {
    /// The wire of a new life of an operator.
    pub fn new(net: &Net, number: u64, name: String, seed: u64) -> Self {
        Self {
            net: net.clone(),
            dice: Dice::new(seed, &name),
            number,
            name: name.into(),
            dead: Arc::default(),
            crash: Arc::default(),
        }
    }

    /// A client over this wire.
    pub fn client(&self) -> Client {
        let link = self.clone();
        let service = service_fn(move |request| {
            let link = link.clone();
            async move { link.pass(request).await }
        });
        Client::new(service, "default")
    }

    async fn pass(self, request: Request<Body>) -> Result<Answer, BoxError> {
        let (mut head, body) = request.into_parts();
        let mut body = body.collect().await?.to_bytes();
        if head.method == Method::DELETE && self.net.lies(Lie::NoPreconditions) {
            body = Bytes::from_static(br#"{"apiVersion":"v1","kind":"DeleteOptions"}"#);
        }
        let mut call = Call::read(&head, body.clone(), self.net.now());
        if self.net.planted.is_some_and(|planted| planted.lets_be_stale(&call)) {
            call.query = with_version(&call.query, "0");
            head.uri = format!("{}?{}", head.uri.path(), call.query).parse()?;
        }
        let request = || Request::from_parts(head.clone(), Body::from(body.clone()));
        if self.dead.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let fate = self.fate(&call);
        match fate {
            Fate::Arrives { there, back } => {
                sleep(there).await;
                let answer = self.forward(&call, request()).await?;
                sleep(back).await;
                Ok(answer)
            }
            Fate::DiesBefore => self.die(&call, "before").await,
            Fate::DiesAfter => {
                self.forward(&call, request()).await?;
                self.die(&call, "after").await
            }
            Fate::AnswerLost => {
                self.forward(&call, request()).await?;
                self.say(&call, "its answer is lost");
                Err(Cut("the connection was reset").into())
            }
            Fate::Broken => {
                self.say(&call, "is lost on its way");
                Err(Cut("the connection was refused").into())
            }
            Fate::Answered { code, retry_after } => {
                self.say(&call, &format!("is answered {code}"));
                Ok(refusal(code, retry_after)?)
            }
            Fate::Hangs => {
                self.say(&call, "is never answered");
                std::future::pending().await
            }
            Fate::Refused(after) => {
                sleep(after).await;
                self.say(&call, "is refused by a webhook");
                Ok(refusal_by_webhook()?)
            }
            Fate::Overtaken => {
                self.bump(&call).await;
                self.forward(&call, request()).await
            }
            Fate::Late(after) => {
                self.say(&call, &format!("leaves {} ms late", after.as_millis()));
                let (link, call, request) = (self.clone(), call, request());
                // It leaves whether or not anybody still waits for it.
                let sent = tokio::spawn(async move {
                    sleep(after).await;
                    link.forward(&call, request).await
                });
                sent.await?
            }
        }
    }

    fn fate(&self, call: &Call) -> Fate {
        let dice = &self.dice;
        // Drawn for every request, so that what is decided about one does not move the next.
        let (there, back) = (dice.time(WAY.0, WAY.1), dice.time(WAY.0, WAY.1));
        let slow = (dice.time(SLOW_WAY.0, SLOW_WAY.1), dice.time(SLOW_WAY.0, SLOW_WAY.1));
        let late = dice.time(LATE.0, LATE.1);
        let [crash, lost, conflict, lateness, trouble, side] = std::array::from_fn(|_| dice.below(1000));
        let plain = Fate::Arrives { there, back };
        if !self.net.is_chaos() {
            return plain;
        }
        let troubled = trouble < TROUBLED;
        if let Some(variant) = self.net.sight.hides(&call.plural)
            && !call.writes()
            && call.name.is_empty()
        {
            return match sight::way(variant) {
                0 => Fate::Answered { code: 403, retry_after: None },
                1 => Fate::Answered { code: 500, retry_after: None },
                2 if call.watches() => Fate::Answered { code: 410, retry_after: None },
                2 | 3 => Fate::Broken,
                _ => Fate::Hangs,
            };
        }
        if let Some(variant) = self.net.open(Fault::Partition)
            && variant % 3 != self.number
            && call.writes() == (variant % 2 == 0)
        {
            return Fate::Broken;
        }
        if self.net.open(Fault::Throttled).is_some() && troubled {
            return match side % 3 {
                0 => Fate::Answered { code: 429, retry_after: Some(1 + side % 7) },
                1 => Fate::Arrives { there: slow.0, back },
                _ => Fate::Arrives { there, back: slow.1 },
            };
        }
        if self.net.open(Fault::Error).is_some() && troubled {
            return match side % 3 {
                0 => Fate::Answered { code: 500, retry_after: None },
                1 => Fate::Answered { code: 503, retry_after: None },
                _ => Fate::Broken,
            };
        }
        if self.net.open(Fault::Quota).is_some() && call.plural == "pods" && call.method == Method::POST {
            return Fate::Answered { code: 403, retry_after: None };
        }
        if !call.writes() {
            return plain;
        }
        if let Some(variant) = self.net.open(Fault::RefusingWebhook)
            && is_reviewed(call, variant)
        {
            let hangs = variant % 3 == 0;
            return Fate::Refused(if hangs { WEBHOOK_TIME } else { there });
        }
        let plan = &self.net.plan;
        let of = |(any, grave): (u64, u64)| if call.takes_a_pod() { grave } else { any };
        if plan.has(Fault::Crash) && crash < of(CRASHES) {
            return if side % 2 == 0 { Fate::DiesBefore } else { Fate::DiesAfter };
        }
        if plan.has(Fault::LostAnswer) && lost < of(LOST) {
            return Fate::AnswerLost;
        }
        if plan.has(Fault::LateWrite) && lateness < LATES && !call.is_about_lease() {
            return Fate::Late(late);
        }
        if plan.has(Fault::Conflict) && conflict < CONFLICTS && !call.name.is_empty() {
            return Fate::Overtaken;
        }
        plain
    }

    async fn forward(&self, call: &Call, request: Request<Body>) -> Result<Answer, BoxError> {
        if call.watches() {
            return self.watch(call, request).await;
        }
        let request = self.stale(call, request)?;
        let sent = self.net.monitor.sending(&self.name, call);
        let answer = self.net.server.clone().call(request).await?;
        let code = answer.status();
        if call.writes() {
            self.say(call, &format!("-> {}", code.as_u16()));
            self.net.monitor.sent(&self.name, call, sent, code.is_success());
        } else if code.is_success() {
            self.net.monitor.answered(&self.name, call);
        }
        if call.plural == "configmaps" && self.net.lies(Lie::VersionAsData) {
            let (head, body) = answer.into_parts();
            let list: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            let list = Bytes::from(with_versions(list).to_string());
            return Ok(Response::from_parts(head, boxed(Full::new(list))));
        }
        if call.plural == "pods" && !call.writes() && self.net.lies(Lie::FailedInit) {
            let (head, body) = answer.into_parts();
            let read: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            let read = Bytes::from(wire::with_failed_init(read).to_string());
            return Ok(Response::from_parts(head, boxed(Full::new(read))));
        }
        Ok(answer.map(boxed))
    }

    /// A list that may be stale is.
    fn stale(&self, call: &Call, request: Request<Body>) -> Result<Request<Body>, BoxError> {
        let may_be_stale =
            call.parameter("resourceVersion") == Some("0") && call.name.is_empty() && !call.writes();
        if !may_be_stale || self.net.open(Fault::StaleReads).is_none() {
            return Ok(request);
        }
        let version = self.net.monitor.version_ago(self.dice.time(STALE.0, STALE.1));
        self.say(call, &format!("is answered as of version {version}"));
        let (mut head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        head.uri = format!("{path}?resourceVersion={version}&resourceVersionMatch=Exact").parse()?;
        Ok(Request::from_parts(head, body))
    }

    /// The third party that comes between.
    async fn bump(&self, call: &Call) {
        let path = |subresource: &str| {
            let prefix = if call.group.is_empty() {
                "/api/v1".to_owned()
            } else {
                format!("/apis/{}/{}", call.group, version(&call.group))
            };
            format!("{prefix}/namespaces/{}/{}/{}{subresource}", call.namespace, call.plural, call.name)
        };
        let patch =
            json!({ "metadata": { "annotations": { "simulate/bump": self.dice.draw().to_string() } } });
        let request = Request::patch(path(""))
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(patch.to_string().into_bytes()));
        if let Ok(request) = request
            && let Ok(answer) = self.net.server.clone().call(request).await
        {
            self.say(call, &format!("is overtaken -> {}", answer.status().as_u16()));
        }
    }

    async fn watch(&self, call: &Call, mut request: Request<Body>) -> Result<Answer, BoxError> {
        let streamed = call.parameter("sendInitialEvents").is_some();
        if streamed && !self.net.streams {
            return Ok(refusal(422, None)?);
        }
        if let Some(window) = self.net.plan.open(Fault::Gone, self.net.now())
            && call.parameter("resourceVersion").is_some_and(|version| !version.is_empty() && version != "0")
        {
            if !self.net.lies(Lie::CompactedUnseen) {
                self.say(call, "is answered 410");
                return Ok(refusal(410, None)?);
            }
            // What is compacted has been away for long: between the end of a watch and the next one alone, which is a moment,
            // hardly anything changes that nothing else tells.
            sleep(window.until.saturating_sub(self.net.now())).await;
            self.say(call, "begins with the newest version");
            let (mut head, body) = request.into_parts();
            let query = with_version(&call.query, &self.net.server.version().to_string());
            head.uri = format!("{}?{query}", head.uri.path()).parse()?;
            request = Request::from_parts(head, body);
        }
        let mut first = VecDeque::new();
        let behind = streamed
            && call.parameter("resourceVersion") == Some("0")
            && self.net.open(Fault::StaleReads).is_some();
        if behind {
            (first, request) = self.old_list(call, request).await?;
        }
        let answer = self.net.server.clone().call(request).await?;
        if !answer.status().is_success() {
            return Ok(answer.map(boxed));
        }
        self.net.monitor.answered(&self.name, call);
        let (head, body) = answer.into_parts();
        let lines = BodyStream::new(body).filter_map(|frame| async { frame.ok()?.into_data().ok() });
        let flow = Flow {
            link: self.clone(),
            kind: call.plural.clone(),
            lines: lines.boxed(),
            arrived: first,
            behind,
            opened: self.net.now(),
            last: Instant::now(),
            repeat: None,
            silence: None,
            over: false,
        };
        let frames = futures::stream::unfold(flow, |mut flow| async move {
            let line = flow.next().await?;
            Some((Ok::<_, BoxError>(http_body::Frame::data(line)), flow))
        });
        Ok(Response::from_parts(head, StreamBody::new(frames.boxed()).boxed_unsync()))
    }

    /// What a streamed list from a cache that lags begins with, and the watch that goes on from there.
    async fn old_list(
        &self,
        call: &Call,
        request: Request<Body>,
    ) -> Result<(VecDeque<Bytes>, Request<Body>), BoxError> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let plain = Request::get(path.clone()).body(Body::empty())?;
        let list = self.net.server.clone().call(self.stale(call, plain.map(|_| Body::empty()))?).await?;
        let list: Value = serde_json::from_slice(&list.into_body().collect().await?.to_bytes())?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let identity = |object: &mut Value| {
            let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
            object["kind"] = kind.into();
            object["apiVersion"] = list["apiVersion"].clone();
        };
        let mut lines = VecDeque::new();
        for item in list["items"].as_array().into_iter().flatten() {
            let mut object = item.clone();
            identity(&mut object);
            lines.push_back(line(&json!({ "type": "ADDED", "object": object })));
        }
        let mut mark = json!({ "metadata": { "resourceVersion": version, "annotations": { "k8s.io/initial-events-end": "true" } } });
        identity(&mut mark);
        lines.push_back(line(&json!({ "type": "BOOKMARK", "object": mark })));
        head.uri = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}").parse()?;
        Ok((lines, Request::from_parts(head, body)))
    }

    async fn die<T>(&self, call: &Call, side: &str) -> T {
        self.say(call, &format!("is where the operator dies, {side} it"));
        self.kill();
        std::future::pending().await
    }

    /// Ends this life: nothing passes any more.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.crash.notify_one();
    }

    fn say(&self, call: &Call, words: &str) {
        self.net.trace.line(&format!("{} {call} {words}", self.name));
    }
}

/// A watch on its way to the operator.
struct Flow {
    link: Link,
    kind: String,
    lines: futures::stream::BoxStream<'static, Bytes>,
    arrived: VecDeque<Bytes>,
    /// Whether it comes from a server whose own view is old.
    behind: bool,
    /// Since the run began.
    opened: Duration,
    /// When the last line was delivered; they keep their order.
    last: Instant,
    repeat: Option<Bytes>,
    /// Why it stays open and delivers nothing.
    silence: Option<Silence>,
    over: bool,
}

/// How long a watch delivers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    ForEver,
    /// As long as its kind is out of sight.
    WhileHidden,
}

impl Flow {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let net = self.link.net.clone();
        let (opened, number, kind) = (self.opened, self.link.number, self.kind.clone());
        tokio::select! {
            biased;
            // What is on its way when it breaks never arrives.
            () = net.sight.lost(&kind), if self.silence.is_none() => {
                net.trace.line(&format!("{} WATCH {} is out of sight", self.link.name, self.kind));
                self.silence = net.lies(Lie::LivelyBlindness).then_some(Silence::WhileHidden);
                self.over = self.silence.is_none();
                if self.over { None } else { self.deliver().await }
            }
            end = ended(&net, opened, number), if self.silence != Some(Silence::ForEver) => {
                net.trace.line(&format!("{} WATCH {} {}", self.link.name, self.kind, end.1));
                self.over = true;
                end.0
            }
            line = self.deliver() => line,
        }
    }

    async fn deliver(&mut self) -> Option<Bytes> {
        if let Some(line) = self.repeat.take() {
            return Some(line);
        }
        if let Some(silence) = self.silence {
            let net = &self.link.net;
            if silence == Silence::ForEver && !net.lies(Lie::LivelySilence) {
                return std::future::pending().await;
            }
            sleep(BOOKMARKS).await;
            // What was not delivered meanwhile is lost, so the operator is to list again.
            self.over = silence == Silence::WhileHidden && net.sight.hides(&self.kind).is_none();
            return Some(if self.over { expired() } else { bookmark(&self.kind, net.server.version()) });
        }
        let line = match self.arrived.pop_front() {
            Some(line) => line,
            None => self.lines.next().await?,
        };
        let net = &self.link.net;
        let concerned = |variant: u64| (variant / 7) % 2 == self.link.number % 2;
        if net
            .open(Fault::DeadWatch)
            .is_some_and(|variant| concerned(variant) && variant % 3 == turn(&self.kind))
        {
            net.trace.line(&format!("{} WATCH {} falls silent", self.link.name, self.kind));
            self.silence = Some(Silence::ForEver);
            return Box::pin(self.deliver()).await;
        }
        let line = if self.kind == "configmaps" && net.lies(Lie::VersionAsData) {
            let event: Value = serde_json::from_slice(&line).unwrap_or_default();
            self::line(&with_versions(event))
        } else if self.kind == "pods" && net.lies(Lie::FailedInit) {
            let event: Value = serde_json::from_slice(&line).unwrap_or_default();
            self::line(&wire::with_failed_init(event))
        } else {
            line
        };
        let mut at = Instant::now() + self.link.dice.time(WAY.0, WAY.1);
        let lag = self.link.dice.time(LAG.0, LAG.1);
        if net
            .open(Fault::LaggingWatch)
            .is_some_and(|variant| concerned(variant) && variant % 3 == turn(&self.kind))
        {
            at += lag;
            if self.link.dice.happens(100) {
                self.repeat = Some(line.clone());
            }
        }
        if self.behind
            && self.arrived.is_empty()
            && let Some(window) = net.plan.open(Fault::StaleReads, net.now())
        {
            at = at.max(net.began + window.until);
        }
        self.last = self.last.max(at);
        sleep_until(self.last).await;
        Some(line)
    }
}

/// Which third of the kinds a kind is in, so that a fault of watches hits some of them.
fn turn(kind: &str) -> u64 {
    match kind {
        "pods" => 0,
        "statefulsets" => 1,
        _ => 2,
    }
}

/// Waits until a window of trouble breaks the watch; what it says last, and words for it.
async fn ended(net: &Net, opened: Duration, number: u64) -> (Option<Bytes>, &'static str) {
    let next = |fault: Fault| {
        net.plan
            .windows(fault)
            .filter(move |window| window.variant % 3 != number)
            .map(|window| window.from)
            .find(|from| *from > opened)
    };
    let (broken, gone) = (next(Fault::BrokenWatch), next(Fault::Gone));
    match (broken, gone) {
        (None, None) => std::future::pending().await,
        (broken, Some(gone)) if broken.is_none_or(|broken| gone < broken) => {
            sleep_until(net.began + gone).await;
            if net.lies(Lie::CompactedUnseen) {
                (None, "breaks off")
            } else {
                (Some(expired()), "is told 410")
            }
        }
        (broken, _) => {
            sleep_until(net.began + broken.unwrap_or_default()).await;
            (None, "breaks off")
        }
    }
}

pub(crate) fn boxed<B>(body: B) -> UnsyncBoxBody<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    body.map_err(|never| match never {}).boxed_unsync()
}

fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}

/// A query for another version.
fn with_version(query: &str, version: &str) -> String {
    let others = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("resourceVersion="));
    let version = format!("resourceVersion={version}");
    others.chain([version.as_str()]).collect::<Vec<_>>().join("&")
}

/// What a watch is told whose version is compacted.
fn expired() -> Bytes {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old resource version", "reason": "Expired", "code": 410 });
    line(&json!({ "type": "ERROR", "object": status }))
}

fn version(group: &str) -> &'static str {
    if matches!(group, "sts.plus" | "fissile.cloudfoundry.org") { "v1alpha1" } else { "v1" }
}

/// A list or an event of ConfigMaps in which each has its version among its data.
fn with_versions(mut answer: Value) -> Value {
    let add = |object: &mut Value| {
        object["data"]["version"] = object["metadata"]["resourceVersion"].clone();
    };
    if let Some(items) = answer["items"].as_array_mut() {
        items.iter_mut().for_each(add);
    } else if answer["type"] == "ADDED" || answer["type"] == "MODIFIED" {
        add(&mut answer["object"]);
    }
    answer
}

/// A bookmark of a watch.
fn bookmark(plural: &str, version: u64) -> Bytes {
    let (kind, group) = match plural {
        "pods" => ("Pod", "v1"),
        "statefulsets" => ("StatefulSet", "apps/v1"),
        "persistentvolumeclaims" => ("PersistentVolumeClaim", "v1"),
        "controllerrevisions" => ("ControllerRevision", "apps/v1"),
        "configmaps" => ("ConfigMap", "v1"),
        "services" => ("Service", "v1"),
        "phasedrollouts" => ("PhasedRollout", "sts.plus/v1alpha1"),
        "scalingpolicies" => ("ScalingPolicy", "sts.plus/v1alpha1"),
        _ => ("ExtendedStatefulSet", "sts.plus/v1alpha1"),
    };
    let metadata = json!({ "resourceVersion": version.to_string() });
    line(
        &json!({ "type": "BOOKMARK", "object": { "kind": kind, "apiVersion": group, "metadata": metadata } }),
    )
}

/// Whether a webhook is asked about a write: it is registered for sets, half of the time also for revisions, and for no
/// subresource of them.
fn is_reviewed(call: &Call, variant: u64) -> bool {
    let of_sets = call.plural == "statefulsets" && matches!(call.method, Method::PATCH | Method::PUT);
    let of_revisions = call.plural == "controllerrevisions" && call.method == Method::POST;
    call.subresource.is_empty() && (of_sets || (of_revisions && (variant / 3).is_multiple_of(2)))
}
