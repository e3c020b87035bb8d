//! An API server of a few lines, for tests of passes: says yes to everything that it has no other answer for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::{BoxError, service_fn};

use crate::hooks::Hooks;
use crate::outbound::{HookCaller, Prober, Prometheus, Reach, Tcp};
use crate::runtime::Around;
use crate::shell::api::Api;
use crate::shell::cache::{Cache, Extent, Followed, Scope};
use crate::shell::events;
use crate::shell::executor::{Executor, Gate};
use crate::shell::lease::Leadership;
use crate::shell::metrics::Metrics;
use crate::shell::surroundings::{Clock, Surroundings};

/// The answer to the first request whose method and path fit; `None` never comes.
pub(crate) type Prepared = (Method, &'static str, Option<(u16, Value)>);

#[derive(Clone, Default)]
pub(crate) struct Server {
    pub(crate) asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
    prepared: Arc<Mutex<Vec<Prepared>>>,
    /// How long each answer takes.
    takes: Arc<Mutex<Duration>>,
}

impl Server {
    pub(crate) fn prepare(&self, method: Method, path: &'static str, answer: Option<(u16, Value)>) {
        self.prepared.lock().unwrap().push((method, path, answer));
    }

    /// Each answer takes so long from now on.
    pub(crate) fn slow_down(&self, takes: Duration) {
        *self.takes.lock().unwrap() = takes;
    }

    pub(crate) fn api(&self) -> Api {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
                let path = head.uri.path().to_owned();
                server.asked.lock().unwrap().push((head.method.clone(), path.clone(), body));
                let prepared = {
                    let mut prepared = server.prepared.lock().unwrap();
                    let fits = |(verb, part, _): &Prepared| *verb == head.method && path.contains(part);
                    prepared.iter().position(fits).map(|ready| prepared.remove(ready).2)
                };
                let takes = *server.takes.lock().unwrap();
                if !takes.is_zero() {
                    tokio::time::sleep(takes).await;
                }
                let written = json!({ "metadata": { "resourceVersion": "100" } });
                let Some((code, body)) = prepared.unwrap_or(Some((200, written))) else {
                    return std::future::pending().await;
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Api::new(kube::Client::new(service, "ns"), Metrics::new())
    }

    /// The pods whose deletion was asked for since the last time.
    pub(crate) fn deletions(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let deleted = asked.iter().filter(|(method, ..)| *method == Method::DELETE);
        deleted.map(|(_, path, _)| path.rsplit('/').next().unwrap_or_default().to_owned()).collect()
    }

    /// What was asked since the last time, as `METHOD object`.
    pub(crate) fn take(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let place = |path: &str| path.rsplit("/namespaces/ns/").next().unwrap_or_default().to_owned();
        asked.iter().map(|(method, path, _)| format!("{method} {}", place(path))).collect()
    }

    /// How often each reason was reported of the object with this name, once nothing else can be done: the clock is paused.
    pub(crate) async fn reported_of(&self, name: &str) -> Vec<(String, u64)> {
        tokio::time::sleep(Duration::from_mins(2)).await;
        let text = |event: &Value, path: &str| {
            event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let asked = self.asked.lock().unwrap();
        let events = asked.iter().filter(|(_, _, event)| text(event, "/involvedObject/name") == name);
        events.map(|(.., event)| (text(event, "/reason"), event["count"].as_u64().unwrap_or(0))).collect()
    }
}

pub(crate) fn refusal(code: u16, message: &str) -> (u16, Value) {
    (code, json!({ "kind": "Status", "message": message }))
}

/// What a runtime stands on, with two API servers: one for what controllers ask and write, and one for events. Nothing is
/// followed: the rows come from the test.
pub(crate) struct Ground {
    pub(crate) around: Around,
    /// The sender of events.
    pub(crate) tasks: JoinSet<()>,
}

impl Ground {
    /// A leader that has listed everything in its term.
    pub(crate) fn new(api: Api, events: Api, clock: Clock) -> Self {
        Self::with(api, events, (clock, Extent::Steering), Self::listed)
    }

    /// A gate of a leader that has listed everything in its term.
    pub(crate) fn listed(leadership: Leadership) -> Gate {
        let listed = watch::channel(leadership.current()).1;
        Gate::new(leadership, listed)
    }

    /// A leader whose caches keep so much of sets and pods, with this gate.
    pub(crate) fn with(
        api: Api,
        events: Api,
        (clock, extent): (Clock, Extent),
        gate: impl FnOnce(Leadership) -> Gate,
    ) -> Self {
        let mut tasks = JoinSet::new();
        let (recorder, sender) = events::channel(events, "pod-1".to_owned());
        tasks.spawn(sender.run());
        let api = api.within(Surroundings { clock: clock.clone(), ..Surroundings::default() });
        let followed = Followed { kinds: &[], scope: &Scope::Namespaces(Vec::new()), extent };
        let cache = Cache::follow(&api, followed, &recorder, &(Arc::new(|_| {}) as _), &mut tasks);
        let executor = Arc::new(Executor::new(api.clone(), cache.clone(), gate(Leadership::always())));
        let prometheus =
            Prometheus::new(api.clone(), Reach { loopback: false, link_local: false }, Arc::new(Tcp));
        let prober = Prober::new(api.clone(), Reach { loopback: false, link_local: false }, Arc::new(Tcp));
        let hooks = HookCaller::new(api.clone(), (Reach::default(), Arc::new(Tcp)), Hooks::default());
        let metrics = Metrics::new();
        Self {
            around: Around {
                cache,
                executor,
                configs: api.clone(),
                api,
                prometheus,
                prober,
                hooks,
                recorder,
                metrics,
                clock,
            },
            tasks,
        }
    }
}
