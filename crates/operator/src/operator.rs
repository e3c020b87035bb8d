//! The whole operator as one future: dropping it stops everything at once, as a crash would.

use std::sync::Arc;
use std::time::Duration;

use sts_plus_planner::statefulset::world::Features;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::controllers::phased_rollout::{self, PhasedRollouts};
use crate::controllers::rollout_group::{self, RolloutGroups};
use crate::controllers::statefulset::{self, StatefulSets};
use crate::outbound::{Dial, Prometheus, Reach};
use crate::shell::api::{Api, CALL_TIMEOUT};
use crate::shell::cache::{Cache, Extent, Followed, Listener, Scope, Touched};
use crate::shell::events::{self, Recorder};
use crate::shell::executor::{Executor, Gate};
use crate::shell::informing::Informing;
use crate::shell::kinds;
use crate::shell::lease::{self, Epoch, Leadership};
use crate::shell::metrics::Metrics;
use crate::shell::queue::Queue;
use crate::shell::serve::{Health, serve};
use crate::shell::surroundings::{Chance, Clock, Surroundings};

/// Keys of one controller worked on at once: passes mostly wait for the API server, and one slow group must not hold up another.
pub(crate) const WORKERS: usize = 8;

/// The same for the statefulset controller, whose passes wait for several writes in a row, each of some milliseconds: fifty
/// sets that roll at once do not wait for each other. A worker without a key costs nothing.
const SET_WORKERS: usize = 64;

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
    /// Which addresses may be asked that are refused by default.
    pub reach: Reach,
    /// How hosts are reached.
    pub dial: Arc<dyn Dial>,
    /// The time of day and chance.
    pub surroundings: Surroundings,
    /// The lease to hold while writing; `None` to write without one.
    pub lease: Option<lease::Config>,
    /// Where `/ready`, `/livez` and `/metrics` are served.
    pub listener: Option<TcpListener>,
    /// This process in events: normally the pod's name.
    pub instance: String,
}

/// Which controllers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Rolls the sets of a group one zone at a time.
    pub rollout_group: bool,
    /// Rolls a set gate by gate.
    pub phased_rollout: bool,
    /// Creates and replaces the pods of sets, in the place of Kubernetes' own controller.
    pub statefulset: bool,
}

impl Controllers {
    /// All that any cluster can use: one that controls sets itself must not have a second one do so.
    pub const ALL: Self = Self { rollout_group: true, phased_rollout: true, statefulset: false };

    /// The names of those that run.
    fn names(self) -> Vec<&'static str> {
        let all = [
            (self.rollout_group, rollout_group::NAME),
            (self.phased_rollout, phased_rollout::NAME),
            (self.statefulset, statefulset::NAME),
        ];
        all.into_iter().filter(|(runs, _)| *runs).map(|(_, name)| name).collect()
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

/// Runs until `stop` turns true, then ends passes under way and gives the lease up.
pub async fn run(
    clients: impl Into<Clients>,
    settings: Settings,
    metrics: Metrics,
    mut stop: watch::Receiver<bool>,
) {
    let clients = clients.into();
    let surroundings = settings.surroundings;
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
    let health = Health::new(metrics.clone(), leadership.clone());
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

    let queues = Queues::new(&surroundings.chance);
    let running = settings.controllers;
    let kinds = kinds::asked_by(&running.names());
    let extent = if running.statefulset { Extent::Controlling } else { Extent::Steering };
    let followed = Followed { kinds: &kinds, scope: &settings.scope, extent };
    let cache =
        Cache::follow(&api(clients.watches), followed, &recorder, &queues.listener(running), &mut tasks);
    let (complete, complete_view) = watch::channel(None);
    let (listed, listed_view) = watch::channel(None);
    let gate = Gate::warm(leadership.clone(), complete_view, listed_view);
    health.started(cache.clone(), gate.clone());
    let executor = Arc::new(Executor::new(api(clients.writes.clone()), cache.clone(), gate));
    // Secrets are read with a client of their own: a slow answer must not hold up writes.
    let prometheus = Prometheus::new(api(clients.secrets), settings.reach, settings.dial);
    let asking = (api(clients.writes), prometheus);
    let around = (&cache, &recorder, &metrics);
    let work = Work::new(queues, around, &executor, asking, settings.features, surroundings.clock);
    let mut workers = work.start();

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
                work.enqueue_all(running);
            }
        }
    }

    work.queues.close();
    work.informing.close();
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

/// The keys of each controller.
#[derive(Debug)]
struct Queues {
    groups: Arc<Queue<rollout_group::Key>>,
    phased: Arc<Queue<phased_rollout::Key>>,
    sets: Arc<Queue<statefulset::Key>>,
}

impl Queues {
    fn new(chance: &Chance) -> Self {
        Self {
            groups: Arc::new(Queue::new(chance.clone())),
            phased: Arc::new(Queue::new(chance.clone())),
            sets: Arc::new(Queue::new(chance.clone())),
        }
    }

    /// Puts whatever is touched into the queues of the controllers that run.
    fn listener(&self, running: Controllers) -> Listener {
        let (groups, phased) = (Arc::clone(&self.groups), Arc::clone(&self.phased));
        let sets = Arc::clone(&self.sets);
        Arc::new(move |touched| {
            if touched == Touched::Confirmed {
                groups.confirmed();
                phased.confirmed();
                sets.confirmed();
            }
            if running.statefulset {
                statefulset::enqueue(&sets, &touched);
            }
            if let Some(key) = rollout_group::key_of(&touched).filter(|_| running.rollout_group) {
                groups.add(key);
            }
            if let Some(key) = phased_rollout::key_of(&touched).filter(|_| running.phased_rollout) {
                phased.add(key);
            }
        })
    }

    fn close(&self) {
        self.groups.close();
        self.phased.close();
        self.sets.close();
    }
}

/// The controllers at work.
#[derive(Debug)]
struct Work {
    queues: Queues,
    groups: Arc<RolloutGroups>,
    phased: Arc<PhasedRollouts>,
    sets: Arc<StatefulSets>,
    informing: Informing,
}

impl Work {
    fn new(
        queues: Queues,
        (cache, recorder, metrics): (&Cache, &Recorder, &Metrics),
        executor: &Arc<Executor>,
        asking: (Api, Prometheus),
        features: Features,
        clock: Clock,
    ) -> Self {
        let acting = (Arc::clone(executor), asking.0.clone());
        let set_keys = Arc::clone(&queues.sets);
        let sets = StatefulSets::new(set_keys, cache.clone(), acting, recorder, metrics.clone(), features);
        let (cache, recorder, metrics) = (|| cache.clone(), || recorder.clone(), || metrics.clone());
        let (group_keys, phased_keys) = (Arc::clone(&queues.groups), Arc::clone(&queues.phased));
        let informing = Informing::new(Arc::clone(executor), rollout_group::wake(&group_keys));
        let acting = (Arc::clone(executor), informing.clone());
        let groups = RolloutGroups::new(group_keys, cache(), acting, recorder(), metrics(), clock);
        let acting = Arc::clone(executor);
        let phased = PhasedRollouts::new(phased_keys, cache(), acting, asking, recorder(), metrics());
        Self { queues, groups: Arc::new(groups), phased: Arc::new(phased), sets: Arc::new(sets), informing }
    }

    fn start(&self) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        workers.spawn(self.informing.clone().run());
        for _ in 0..WORKERS {
            let (groups, phased) = (Arc::clone(&self.groups), Arc::clone(&self.phased));
            workers.spawn(async move { groups.work().await });
            workers.spawn(async move { phased.work().await });
        }
        for _ in 0..SET_WORKERS {
            let sets = Arc::clone(&self.sets);
            workers.spawn(async move { sets.work().await });
        }
        workers
    }

    fn enqueue_all(&self, running: Controllers) {
        if running.rollout_group {
            self.groups.enqueue_all();
        }
        if running.phased_rollout {
            self.phased.enqueue_all();
        }
        if running.statefulset {
            self.sets.enqueue_all();
        }
    }
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
