//! The whole operator as one future: dropping it stops everything at once, as a crash would.

#![deny(missing_docs, reason = "whoever embeds the operator begins here")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use sts_plus_planner::statefulset::world::Features;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use crate::controllers::Controllers;
use crate::hooks::Hooks;
use crate::outbound::{Dial, HookCaller, Prober, Prometheus, Reach, Tcp};
use crate::runtime::{Around, Options, Running, extent, followed};
use crate::shell::api::{Api, CALL_TIMEOUT};
use crate::shell::cache::{Cache, Followed, Listener, Scope, Touched};
use crate::shell::events;
use crate::shell::executor::{Executor, Gate};
use crate::shell::lease::{self, Epoch, Leadership};
use crate::shell::metrics::Metrics;
use crate::shell::serve::{Check, Health, serve};
use crate::shell::surroundings::Surroundings;
use crate::webhook;

/// How long passes under way may take to end when the process is asked to stop: no new write is sent then, and each that
/// was has its time limit. A second more is for what comes after its answer.
const DRAIN_LIMIT: Duration = CALL_TIMEOUT.saturating_add(Duration::from_secs(1));

/// How long the release of the lease may take after that.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Debug)]
pub struct Settings {
    /// The namespaces to look at.
    pub scope: Scope,
    /// The controllers to run.
    pub controllers: Controllers,
    /// What the statefulset controller does besides what it always does.
    pub features: Features,
    /// The image of the operator, which the init container of a lock has, too; `None` where it is not known.
    pub image: Option<Arc<str>>,
    /// Which addresses may be asked that are refused by default.
    pub reach: Reach,
    /// What ScalingPolicies may call by name.
    pub hooks: Hooks,
    /// How hosts are reached.
    pub dial: Arc<dyn Dial>,
    /// The time of day and chance.
    pub surroundings: Surroundings,
    /// The lease to hold while writing; `None` to write without one.
    pub lease: Option<lease::Config>,
    /// Where `/ready`, `/livez` and `/metrics` are served.
    pub listener: Option<TcpListener>,
    /// The admission server; `None` for none.
    pub webhook: Option<webhook::Config>,
    /// This process in events: normally the pod's name.
    pub instance: String,
}

impl Settings {
    /// Those of `sts-plus run` without flags, but without a lease and a listener: all namespaces, the controllers that run by
    /// default, no hooks. `instance` is this process in events.
    ///
    /// ```
    /// use sts_plus_operator::hooks::Hooks;
    /// use sts_plus_operator::operator::Settings;
    /// use sts_plus_operator::shell::cache::Scope;
    ///
    /// let scope = Scope::Namespaces(vec!["brokers".to_owned()]);
    /// let settings = Settings { scope, hooks: Hooks::default(), ..Settings::new("my-operator-0") };
    /// # drop(settings);
    /// ```
    pub fn new(instance: impl Into<String>) -> Self {
        Self {
            scope: Scope::Cluster,
            controllers: Controllers::default(),
            features: Features::default(),
            image: None,
            reach: Reach::default(),
            hooks: Hooks::default(),
            dial: Arc::new(Tcp),
            surroundings: Surroundings::default(),
            lease: None,
            listener: None,
            webhook: None,
            instance: instance.into(),
        }
    }
}

/// One client per purpose, so that a stalled connection of one does not hold up another: above all, the lease is
/// renewed whatever the watches do.
#[derive(Clone)]
pub struct Clients {
    lease: kube::Client,
    watches: kube::Client,
    writes: kube::Client,
    events: kube::Client,
    secrets: kube::Client,
}

impl Clients {
    /// Clients of their own for each purpose. The configuration must have kube's retries off.
    pub fn new(config: &kube::Config) -> Result<Self, Box<kube::Error>> {
        let client = || kube::Client::try_from(config.clone()).map_err(Box::new);
        Ok(Self {
            lease: client()?,
            watches: client()?,
            writes: client()?,
            events: client()?,
            secrets: client()?,
        })
    }
}

impl From<kube::Client> for Clients {
    /// One client for everything, where a test stands between it and the server.
    fn from(client: kube::Client) -> Self {
        Self {
            lease: client.clone(),
            watches: client.clone(),
            writes: client.clone(),
            events: client.clone(),
            secrets: client,
        }
    }
}

/// Runs until `stop` turns true, then ends passes under way and gives the lease up. Admission requests are answered a few
/// seconds longer.
pub async fn run(
    clients: impl Into<Clients>,
    mut settings: Settings,
    metrics: Metrics,
    stop: watch::Receiver<bool>,
) {
    let clients = clients.into();
    let mut tasks = JoinSet::new();
    let webhook = settings.webhook.take().map(|config| {
        let api = Api::new(clients.secrets.clone(), metrics.clone()).within(settings.surroundings.clone());
        webhook::start(api, config, stop.clone(), &mut tasks)
    });
    let (check, mut server) = webhook.unzip();
    lead(clients, settings, metrics, stop, check).await;
    if let Some(server) = &mut server {
        while server.join_next().await.is_some() {}
    }
}

/// Runs the controllers.
async fn lead(
    clients: Clients,
    settings: Settings,
    metrics: Metrics,
    mut stop: watch::Receiver<bool>,
    check: Option<Check>,
) {
    let surroundings = settings.surroundings;
    metrics.read_clock(&surroundings.clock);
    let api = |client| Api::new(client, metrics.clone()).within(surroundings.clone());
    let mut tasks = JoinSet::new();
    let (recorder, sender) = events::channel(api(clients.events), settings.instance);
    tasks.spawn(sender.run());

    let mut lease_loop = JoinSet::new();
    let mut leadership = if let Some(config) = settings.lease {
        let (leadership, work) = lease::start(api(clients.lease), config, stop.clone());
        lease_loop.spawn(work);
        leadership
    } else {
        // Without a lease this process always leads.
        metrics.leader.set(1);
        Leadership::always()
    };
    let health = Health::new(metrics.clone(), leadership.clone(), check);
    if let Some(listener) = settings.listener {
        tasks.spawn(serve(listener, health.clone()));
    }
    // The caches start after the first word about the lease, so that a process that leads from the start has
    // listed in its own term and need not list twice.
    tokio::select! {
        biased;
        () = leadership.decided() => {}
        () = stopped(&mut stop) => return,
    }
    let mut listed_in = leadership.current();

    let options = Options { features: settings.features, image: settings.image };
    let controllers = settings.controllers.registrations().iter();
    let controllers: Vec<_> = controllers.map(|registration| registration.make(&options)).collect();
    let kinds = followed(&controllers);
    let followed = Followed { kinds: &kinds, scope: &settings.scope, extent: extent(&controllers) };
    // What is touched before the controllers run is among everything that they are asked to look at then.
    let running = Arc::new(OnceLock::new());
    let listener = listener(Arc::clone(&running));
    let cache = Cache::follow(&api(clients.watches.clone()), followed, &recorder, &listener, &mut tasks);
    let (complete, complete_view) = watch::channel(None);
    let (listed, listed_view) = watch::channel(None);
    let gate = Gate::warm(leadership.clone(), complete_view, listed_view);
    health.started(cache.clone(), gate.clone());
    let executor = Arc::new(Executor::new(api(clients.writes.clone()), cache.clone(), gate));
    // Secrets are read with a client of their own: a slow answer must not hold up writes.
    let (outbound, dial) = (api(clients.secrets), settings.dial);
    let around = Around {
        cache: cache.clone(),
        executor: Arc::clone(&executor),
        api: api(clients.writes),
        configs: api(clients.watches),
        hooks: HookCaller::new(outbound.clone(), (settings.reach, Arc::clone(&dial)), settings.hooks),
        prober: Prober::new(outbound.clone(), settings.reach, Arc::clone(&dial)),
        prometheus: Prometheus::new(outbound, settings.reach, dial),
        recorder,
        metrics,
        clock: surroundings.clock,
    };
    let controllers = controllers.into_iter().map(|controller| controller.start(&around)).collect();
    let controllers: &Vec<_> = running.get_or_init(|| controllers);
    let mut workers = JoinSet::new();
    for controller in controllers {
        Arc::clone(controller).start(&mut workers);
    }

    let mut term: Option<Epoch> = None;
    loop {
        let current = leadership.current();
        if current != term {
            complete.send_replace(None);
            term = current;
        }
        let pending = term.filter(|epoch| *complete.borrow() != Some(*epoch));
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            () = leadership.changed() => {}
            epoch = completed(&cache, pending) => {
                // Rule C: a view from before this term may miss what the former leader wrote last. Then each domain is
                // read before its first disruption; a process that leads from the start has listed in its own term.
                if listed_in.take() == Some(epoch) {
                    listed.send_replace(Some(epoch));
                }
                complete.send_replace(Some(epoch));
                for controller in controllers {
                    controller.enqueue_all();
                }
            }
        }
    }

    for controller in controllers {
        controller.close();
    }
    let drained = tokio::time::timeout(DRAIN_LIMIT, async { while workers.join_next().await.is_some() {} });
    if drained.await.is_err() {
        tracing::warn!("passes under way did not end in time");
        workers.abort_all();
    }
    // Another one leads as soon as the lease is released: a write that lands later would be in its term.
    if executor.has_unanswered() {
        tracing::warn!("a write was not answered: the lease is not released and runs out by itself");
        return;
    }
    leadership.resign();
    let released = async { while lease_loop.join_next().await.is_some() {} };
    if tokio::time::timeout(RELEASE_LIMIT, released).await.is_err() {
        tracing::warn!("the lease could not be released in time: it runs out by itself");
    }
}

/// Tells the controllers that run what was touched.
fn listener(running: Arc<OnceLock<Vec<Arc<dyn Running>>>>) -> Listener {
    Arc::new(move |touched: Touched| {
        for controller in running.get().into_iter().flatten() {
            controller.touched(&touched);
        }
    })
}

/// Waits until the first lists are complete, for the term that waits for them.
async fn completed(cache: &Cache, pending: Option<Epoch>) -> Epoch {
    match pending {
        Some(epoch) => {
            cache.completed(Cache::first_round()).await;
            epoch
        }
        None => std::future::pending().await,
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone will never ask: then only dropping the future ends it.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
