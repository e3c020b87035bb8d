//! Hollow nodes: a client-side stand-in for a scheduler, kubelets and the volume binder.
//!
//! They work against any API server and need nothing but a [`kube::Client`]. Pods are bound to nodes that exist in
//! name only and then live a life that their own annotations choose, so a StatefulSet's template can ask for it,
//! and a test can change it on a live pod. The keys are constants in [`behaviour`]; what each means is told in
//! `docs/embedded-cluster.md`.
//!
//! Readiness gates are obeyed. Startup, readiness and liveness probes are really asked, over the pod [`network`] or
//! whatever [`Config::transport`] is; all containers of a pod share their fate.
//!
//! Where nobody else does it ([`Placement::Ours`]), pods go to nodes that fit their `nodeSelector` and required node
//! affinity, neighbours of a set to neighbouring nodes, and every pending claim gets a volume of its own, whatever its
//! storage class; pods do not wait for their claims, and a lost node says so itself. With [`Placement::Clusters`] all of
//! that is left to the cluster. Nodes send no heartbeats: run them where no node lifecycle controller waits for any.
//!
//! What their identity must be allowed; pods, claims, events and services in all namespaces or in those that are
//! configured, volumes and claims only with [`Placement::Ours`]:
//!
//! | resource | verbs |
//! |---|---|
//! | nodes, nodes/status | create, list, patch, watch |
//! | persistentvolumes, persistentvolumes/status | list, watch, create, patch, delete |
//! | pods, pods/binding, pods/status | list, watch, delete; create; patch |
//! | persistentvolumeclaims, persistentvolumeclaims/status | list, watch, patch |
//! | events | create |
//! | services, with a network of the caller's | list, watch |
//! | configmaps, where [`Config::config_maps`] says so | list, watch |
//!
//! ```text
//! watch ---> keeper (rows in, decisions and calls out; pure: lifecycle, claims) ---> shell (one lane per pod) ---> API
//!   ^                                                                                                          |
//!   +----------------------------------------------------------------------------------------------------------+
//! ```

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use kube::Client;
use tokio::sync::{mpsc, watch as latest};
use tokio::task::JoinSet;
use tracing::{debug, warn};

pub use self::behaviour::{Delay, DelayError};
use self::claims::Claims;
pub use self::diary::Diary;
use self::lifecycle::Defaults;
use self::network::{Loopback, Network, Service, Transport};
pub use self::node::Node;
use self::node::{Nodes, Shown};
pub(crate) use self::pod::split_ordinal;
use self::pods::Pods;
use self::shell::{MAX_WAITING_EVENTS, Shell};
use self::watch::{Event, Follower, Row};
use crate::clock::Clock;

pub mod behaviour;
mod call;
mod claims;
mod config_maps;
mod diary;
mod lifecycle;
pub mod network;
mod node;
mod pod;
mod pods;
mod probes;
mod shell;
mod status;
mod watch;
mod wire;

/// Who places pods, binds claims and finds out about lost nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The hollow nodes do it all, as there is nobody else.
    #[default]
    Ours,
    /// The cluster does, as the embedded one's controllers do: nodes only run pods.
    Clusters,
}

/// What hollow nodes there are and how their pods behave where they do not say.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The namespaces whose pods and claims are looked after; none means all.
    pub namespaces: BTreeSet<String>,
    /// The nodes. Their names are theirs alone.
    pub nodes: Vec<Node>,
    /// From bound to Running.
    pub start_delay: Delay,
    /// From Running to Ready.
    pub ready_delay: Delay,
    /// From the deletion request to gone.
    pub stop_delay: Delay,
    /// What the delays of pods are drawn from.
    pub seed: u64,
    /// The clock that pods show; none: the time of day.
    pub clock: Option<Clock>,
    /// Who places pods and binds claims.
    pub placement: Placement,
    /// Where pods are reached. With one of the caller's, services are followed, too, so that it knows their names.
    pub network: Option<Network>,
    /// What probes go over; none: the network.
    pub transport: Option<Arc<dyn Transport>>,
    /// Where pods listen for programs outside this process; none: nowhere.
    pub loopback: Option<Loopback>,
    /// Where it is written down what containers do; the server that is given the same one shows it as their logs. None:
    /// nobody keeps it.
    pub diary: Option<Diary>,
    /// Whether ConfigMaps are followed, for init containers that wait for a key of one.
    pub config_maps: bool,
}

/// There is no hollow node of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no hollow node `{0}`")]
pub struct UnknownNode(pub String);

/// A set of hollow nodes.
pub struct HollowNodes {
    client: Client,
    config: Config,
    lost: latest::Sender<BTreeSet<String>>,
}

/// Hollow nodes at work, from [`HollowNodes::start`]. They stop when this is dropped.
#[must_use = "dropping it stops the nodes"]
pub struct Running {
    nodes: Arc<HollowNodes>,
    work: JoinSet<()>,
}

impl HollowNodes {
    /// Hollow nodes that do nothing yet.
    pub fn new(client: Client, config: Config) -> Self {
        HollowNodes { client, config, lost: latest::Sender::default() }
    }

    /// Works until `shutdown` resolves. All of it happens inside the returned future: dropping that ends it too.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = shutdown => {}
            () = self.work() => {}
        }
    }

    /// Puts the nodes to work in the background.
    pub fn start(self) -> Running {
        let nodes = Arc::new(self);
        let mut work = JoinSet::new();
        let worker = Arc::clone(&nodes);
        work.spawn(async move { worker.run(std::future::pending()).await });
        Running { nodes, work }
    }

    /// Cuts a node off: nothing on it goes on, deletions included, and its pods do not answer. It and its pods are no
    /// longer Ready: at once, or with [`Placement::Clusters`] when the cluster has missed it for long enough.
    pub fn lose(&self, node: &str) -> Result<(), UnknownNode> {
        self.named(node)?;
        self.lost.send_if_modified(|lost| lost.insert(node.to_owned()));
        Ok(())
    }

    /// Brings a lost node back: its pods go on where they would be by now.
    pub fn restore(&self, node: &str) -> Result<(), UnknownNode> {
        self.named(node)?;
        self.lost.send_if_modified(|lost| lost.remove(node));
        Ok(())
    }

    fn named(&self, name: &str) -> Result<&Node, UnknownNode> {
        self.config.nodes.iter().find(|node| node.name == name).ok_or_else(|| UnknownNode(name.to_owned()))
    }

    async fn work(&self) {
        let clock = self.config.clock.unwrap_or_else(Clock::start);
        let mut asked = self.lost.subscribe();
        let mut nodes = Nodes { all: self.config.nodes.clone(), lost: asked.borrow_and_update().clone() };
        // Pods on a node that is not there would look like orphans to a garbage collector.
        self.announce(&nodes, &nodes.all, clock).await;

        let mut tasks = JoinSet::new();
        let (pods, mut shown_nodes) = self.begin(&nodes, clock, &mut tasks);
        // Whom annotations call lost. A machine does not come back because its object is gone.
        let mut annotated: BTreeSet<String> = BTreeSet::new();
        let mut called = nodes.lost.clone();
        loop {
            tokio::select! {
                biased;
                ended = tasks.join_next() => {
                    // Followers and shells end only together, so one that ends has broken.
                    warn!(?ended, "hollow nodes stop");
                    return;
                }
                changed = asked.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let now = asked.borrow_and_update().clone();
                    if self.config.placement == Placement::Clusters {
                        for name in called.symmetric_difference(&now) {
                            self.mark(name, now.contains(name)).await;
                        }
                    }
                    called = now;
                }
                event = shown_nodes.recv() => match event {
                    Some(Event::Seen(node)) if nodes.has(node.name()) && node.is_lost() => {
                        annotated.insert(node.name().to_owned());
                    }
                    Some(Event::Seen(node)) => {
                        annotated.remove(node.name());
                    }
                    Some(Event::Gone(_) | Event::Synced) => {}
                    None => return,
                },
            }
            let now = match self.config.placement {
                Placement::Ours => called.union(&annotated).cloned().collect(),
                Placement::Clusters => annotated.clone(),
            };
            if now == nodes.lost {
                continue;
            }
            let is_changed = |node: &&Node| nodes.lost.contains(&node.name) != now.contains(&node.name);
            let changed: Vec<Node> = nodes.all.iter().filter(is_changed).cloned().collect();
            nodes.lost.clone_from(&now);
            if pods.send(pods::Input::Lost(now)).await.is_err() {
                return;
            }
            self.announce(&nodes, &changed, clock).await;
        }
    }

    /// Starts all that follows and writes. What is returned tells the keeper of pods, and what nodes there are.
    fn begin(
        &self,
        nodes: &Nodes,
        clock: Clock,
        tasks: &mut JoinSet<()>,
    ) -> (mpsc::Sender<pods::Input>, mpsc::Receiver<Event<Shown>>) {
        let network = self.config.network.clone().unwrap_or_default();
        let transport = self.config.transport.clone().unwrap_or_else(|| Arc::new(network.clone()));
        let (pods, pod_inputs) = mpsc::channel(MAX_WAITING_EVENTS);
        let keeper = Pods::new(nodes.clone(), self.defaults(), clock).on(network.clone(), transport);
        let mut keeper = keeper.writing(self.config.diary.clone());
        if let Some(loopback) = self.config.loopback {
            keeper = keeper.listening(loopback);
            tasks.spawn(self.tell_sockets(&network, loopback));
        }
        tasks.spawn(Shell::new(keeper, self.client.clone(), clock).run(pod_inputs));
        for path in self.paths("pods") {
            tasks.spawn(self.follow(path, &pods, |event| pods::Input::Pod(Box::new(event))));
        }
        for path in self.paths("configmaps").into_iter().filter(|_| self.config.config_maps) {
            tasks.spawn(self.follow(path, &pods, pods::Input::ConfigMap));
        }
        if self.config.placement == Placement::Ours {
            let (claims, claim_inputs) = mpsc::channel(MAX_WAITING_EVENTS);
            let keeper = Claims::new(self.config.namespaces.clone());
            tasks.spawn(Shell::new(keeper, self.client.clone(), clock).run(claim_inputs));
            for path in self.paths("persistentvolumeclaims") {
                tasks.spawn(self.follow(path, &claims, claims::Input::Claim));
            }
            tasks.spawn(self.follow("/api/v1/persistentvolumes".to_owned(), &claims, claims::Input::Volume));
        }
        if self.config.network.is_some() {
            let (services, mut shown) = mpsc::channel::<Event<Service>>(MAX_WAITING_EVENTS);
            for path in self.paths("services") {
                tasks.spawn(self.follow(path, &services, std::convert::identity));
            }
            tasks.spawn(async move {
                while let Some(event) = shown.recv().await {
                    match event {
                        Event::Seen(service) => network.serve(service),
                        Event::Gone(key) => network.unserve(&key),
                        Event::Synced => {}
                    }
                }
            });
        }
        let (shown, shown_nodes) = mpsc::channel(MAX_WAITING_EVENTS);
        tasks.spawn(self.follow("/api/v1/nodes".to_owned(), &shown, std::convert::identity));
        (pods, shown_nodes)
    }

    /// Gives pods sockets, and writes down where those are that are not where one would look.
    fn tell_sockets(&self, network: &Network, loopback: Loopback) -> impl Future<Output = ()> + use<> {
        let (elsewhere, mut heard) = mpsc::channel(MAX_WAITING_EVENTS);
        network.listen(loopback, elsewhere);
        let client = self.client.clone();
        async move {
            while let Some(call) = heard.recv().await {
                // The pod may be gone by now.
                if let Err(error) = shell::make(&client, &[call]).await {
                    debug!(%error, "the address at which a hollow pod listens is not published");
                }
            }
        }
    }

    /// Shows nodes as they are now. One that is lost says nothing of itself where the cluster finds out.
    async fn announce(&self, nodes: &Nodes, changed: &[Node], clock: Clock) {
        for node in changed {
            let now = clock.stamp(clock.now());
            let calls = match self.config.placement {
                Placement::Ours => nodes.announce(node, &now),
                Placement::Clusters if nodes.lost.contains(&node.name) => continue,
                Placement::Clusters => nodes.report(node, &now),
            };
            self.insist(node, &calls).await;
        }
    }

    /// Lets the cluster know what it would find out.
    async fn mark(&self, name: &str, is_lost: bool) {
        if let Ok(node) = self.named(name) {
            self.insist(node, &[node::mark(node, is_lost)]).await;
        }
    }

    /// Writes of a node until it works; a node that is not there need not be written.
    async fn insist(&self, node: &Node, calls: &[call::Call]) {
        let mut failures = 0;
        while let Err(error) = shell::make(&self.client, calls).await {
            if error.is_gone() {
                return;
            }
            failures += 1;
            warn!(%error, node = node.name, "a node cannot be registered; retrying");
            tokio::time::sleep(shell::retry_pause(failures)).await;
        }
    }

    fn follow<R: Row, I: Send + 'static>(
        &self,
        path: String,
        listener: &mpsc::Sender<I>,
        wrap: fn(Event<R>) -> I,
    ) -> impl Future<Output = ()> + use<R, I> {
        Follower { client: self.client.clone(), path, listener: listener.clone(), wrap }.run()
    }

    /// The collections of a kind that are looked after.
    fn paths(&self, plural: &str) -> Vec<String> {
        if self.config.namespaces.is_empty() {
            return vec![format!("/api/v1/{plural}")];
        }
        self.config
            .namespaces
            .iter()
            .map(|namespace| format!("/api/v1/namespaces/{namespace}/{plural}"))
            .collect()
    }

    fn defaults(&self) -> Defaults {
        let Config { start_delay, ready_delay, stop_delay, seed, placement, .. } = self.config;
        Defaults { start: start_delay, ready: ready_delay, stop: stop_delay, seed, placement }
    }
}

impl Running {
    /// As [`HollowNodes::lose`].
    pub fn lose(&self, node: &str) -> Result<(), UnknownNode> {
        self.nodes.lose(node)
    }

    /// As [`HollowNodes::restore`].
    pub fn restore(&self, node: &str) -> Result<(), UnknownNode> {
        self.nodes.restore(node)
    }

    /// Stops all work and waits until it has stopped.
    pub async fn stop(mut self) {
        self.work.shutdown().await;
    }
}

#[cfg(test)]
#[path = "embedded_tests.rs"]
mod embedded_tests;
