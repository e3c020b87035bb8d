//! The cluster of the playground: API server, controllers, nodes in three zones and the operator, all in this process.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde::Deserialize;
use serde_json::Value;
use sts_plus_cluster::controllers;
use sts_plus_cluster::machinery::service::Server;
use sts_plus_cluster::nodes::network::{Loopback, Network};
use sts_plus_cluster::nodes::{Config, Delay, Diary, HollowNodes, Node, Placement, Running};
use sts_plus_operator::hooks::Hooks;
use sts_plus_operator::operator::{self, Controllers, Settings};
use sts_plus_operator::outbound::{Dial, Dialled, Reach, Stream, Tcp};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_operator::shell::surroundings::Surroundings;
use sts_plus_planner::statefulset::world::Features;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{ingester, metrics};

/// The zones, a node in each.
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// How long pods take to start, to become Ready and to stop: slow enough to be followed by eye.
const PACE: [Delay; 3] = [seconds(1), seconds(1), seconds(1)];

/// As above, with the delays of `--fast`.
const FAST: [Delay; 3] = [Delay::fixed(Duration::from_millis(50)); 3];

const fn seconds(seconds: u64) -> Delay {
    Delay::fixed(Duration::from_secs(seconds))
}

/// How long the operator may take to stop: its own limit is four seconds.
const END_LIMIT: Duration = Duration::from_secs(6);

/// The field manager of what the playground applies.
const MANAGER: &str = "sts-plus-playground";

/// A running cluster. It stops when this is dropped.
pub(super) struct Cluster {
    /// A client in this process.
    pub(super) client: kube::Client,
    nodes: Running,
    operator: JoinSet<()>,
    stop: watch::Sender<bool>,
    around: JoinSet<()>,
}

impl Cluster {
    /// Starts all of it on a server, which serves the diary as the logs of pods.
    pub(super) async fn start(server: &Server, diary: Diary, fast: bool) -> Result<Self> {
        let client = kube::Client::new(server.clone(), "default");
        let mut around = JoinSet::new();
        around.spawn(controllers::run(server.clone()));
        for definition in sts_plus_api::crds::all() {
            let definition =
                serde_json::to_value(&definition).context("cannot serialise a CustomResourceDefinition")?;
            apply(&client, &definition).await?;
        }
        let network = Network::new();
        metrics::start(&network, client.clone());
        ingester::start(&network, client.clone(), fast);
        let [start_delay, ready_delay, stop_delay] = if fast { FAST } else { PACE };
        let config = Config {
            network: Some(network.clone()),
            nodes: ZONES.map(|zone| Node::new(format!("node-{zone}"), zone)).to_vec(),
            start_delay,
            ready_delay,
            stop_delay,
            placement: Placement::Clusters,
            loopback: Some(Loopback::here()),
            diary: Some(diary),
            ..Config::default()
        };
        let nodes = HollowNodes::new(client.clone(), config).start();
        let (stop, stopped) = watch::channel(false);
        let mut operator = JoinSet::new();
        operator.spawn(operator::run(client.clone(), settings(network), Metrics::new(), stopped));
        Ok(Self { client, nodes, operator, stop, around })
    }

    /// Stops the operator as SIGTERM would, then all the rest.
    pub(super) async fn stop(mut self) {
        self.stop.send_replace(true);
        let ended = async { while self.operator.join_next().await.is_some() {} };
        if tokio::time::timeout(END_LIMIT, ended).await.is_err() {
            self.operator.shutdown().await;
        }
        self.nodes.stop().await;
        self.around.shutdown().await;
    }
}

/// The image of the init container of a lock. Nothing is pulled by simulated nodes.
const IMAGE: &str = "sts-plus:playground";

fn settings(network: Network) -> Settings {
    Settings {
        scope: Scope::Cluster,
        controllers: Controllers::all(),
        features: Features::default(),
        image: Some(IMAGE.into()),
        // Pods, and what the user runs beside the playground, listen on loopback.
        reach: Reach { loopback: true, link_local: false },
        hooks: Hooks::default(),
        dial: Arc::new(PodNetworkFirst { network }),
        surroundings: Surroundings::default(),
        lease: None,
        listener: None,
        webhook: None,
        instance: "playground".to_owned(),
    }
}

/// Connects the operator to hosts of the pod network, and to the machine's own network for all others.
#[derive(Debug)]
struct PodNetworkFirst {
    network: Network,
}

impl Dial for PodNetworkFirst {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Dialled<'a, Vec<SocketAddr>> {
        let found = self.network.resolve(host);
        if found.is_empty() {
            return Tcp.lookup(host, port);
        }
        let found = found.into_iter().map(|address| SocketAddr::new(address, port)).collect();
        Box::pin(async { Ok(found) })
    }

    fn connect(&self, address: SocketAddr) -> Dialled<'_, Box<dyn Stream>> {
        Box::pin(async move {
            match self.network.connect(address).await {
                // It is no address of the pod network.
                Err(error) if error.kind() == io::ErrorKind::HostUnreachable => Tcp.connect(address).await,
                connected => connected.map(|stream| Box::new(stream) as Box<dyn Stream>),
            }
        })
    }
}

/// Applies an object as `kubectl apply --server-side` does.
pub(super) async fn apply(client: &kube::Client, object: &Value) -> Result<()> {
    let head: Head = serde_json::from_value(object.clone()).context("an object has no kind or name")?;
    let (group, version) = head.api_version.split_once('/').unwrap_or(("", &head.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &head.kind));
    let api = match (group, &*head.kind) {
        ("apiextensions.k8s.io", _) => Api::<DynamicObject>::all_with(client.clone(), &resource),
        _ => Api::default_namespaced_with(client.clone(), &resource),
    };
    let applied =
        api.patch(&head.metadata.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await;
    applied.map(drop).with_context(|| format!("cannot apply {} {}", head.kind, head.metadata.name))
}

/// The kind and name of an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: String,
    kind: String,
    metadata: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}
