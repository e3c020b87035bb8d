//! The trait over the embedded cluster: everything in this process, under a clock that may be paused.
//!
//! ```text
//!   user, accounts, nodes ──> Door ──> Server <── controllers
//!                              │ writes down who asked for what, as an audit log would
//!                              └ can be shut, as if the API server were gone
//! ```
//!
//! There is no authorisation here: whoever asks may do everything, and [`Cluster::grant`] changes nothing.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Method;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use sts_plus_cluster::machinery::admission::Webhooks;
use sts_plus_cluster::machinery::admission::https::HttpsWebhooks;
use sts_plus_cluster::machinery::service::{Gates, Server, Settings};
use sts_plus_cluster::nodes::network::Network as PodNetwork;
use sts_plus_cluster::nodes::{Config, Delay, Diary, HollowNodes, Node, Placement, Running};
use sts_plus_cluster::{Clock, controllers};
use sts_plus_harness::Network;
use sts_plus_harness::network::Memory;
use sts_plus_harness::wait::try_until_stable;
use sts_plus_operator::outbound::{Dial, Dialled, Stream};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::shell::surroundings::{self, Chance, Surroundings};
use sts_plus_planner::statefulset::world::Features;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::{BoxError, Service, service_fn};

use crate::admission::{self, ClaimsByOrdinal};
use crate::cluster::{Account, Answer, Cluster, ClusterError, Outside, Request};
use crate::observer::DEADLINE;
use crate::operator::Operator;
use crate::real::{STEP, ZONES};

/// Who the user of a story is.
const USER: &str = "admin";

/// Who the hollow nodes are.
const NODES: &str = "system:nodes";

/// Who controls sets where the scenario leaves that to the cluster.
const NATIVE: &str = "system:serviceaccount:kube-system:statefulset-controller";

/// For how long an account at rest asks for nothing: longer than the operator combines events.
const QUIET: Duration = Duration::from_millis(500);

/// What the operators draw from, so that a run can be repeated.
const SEED: u64 = 1;

/// What an embedded cluster is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Whether somebody controls sets from the start.
    pub native: bool,
    /// Whether lists are streamed, as servers from 1.34 on do.
    pub streaming_lists: bool,
    /// Whether `maxUnavailable` of a set is kept, and heeded by whoever controls sets from the start.
    pub keeps_max_unavailable: bool,
}

/// An API server, the controllers around it and hollow nodes in three zones.
pub struct EmbeddedCluster {
    door: Arc<Door>,
    network: Memory,
    pods: PodNetwork,
    clock: surroundings::Clock,
    chance: Chance,
    native: Mutex<Option<Operator>>,
    newcomers: AtomicUsize,
    _nodes: Running,
    _controllers: JoinSet<()>,
}

impl EmbeddedCluster {
    /// Starts one in the present runtime. Of all webhooks it calls the one that names claims, within this process.
    pub fn start(shape: Shape) -> Self {
        Self::launch(shape, Arc::new(ClaimsByOrdinal))
    }

    /// Starts one that calls webhooks over HTTPS, which needs a runtime with sockets and a clock that is not paused.
    pub fn start_with_https(shape: Shape) -> Self {
        Self::launch(shape, Arc::new(HttpsWebhooks::default()))
    }

    fn launch(shape: Shape, webhooks: Arc<dyn Webhooks>) -> Self {
        let wall = jiff::Timestamp::now();
        let (clock, ours) = (Clock::at(wall), surroundings::Clock::at(wall));
        let settings = Settings {
            gates: Gates {
                watch_list: shape.streaming_lists,
                max_unavailable_stateful_set: shape.keeps_max_unavailable,
            },
            ..Settings::new(clock)
        };
        let diary = Diary::default();
        let server = Server::new(settings).unwrap().with_logs(Arc::new(diary.clone()));
        let server = server.with_webhooks(webhooks);
        let mut work = JoinSet::new();
        work.spawn(controllers::run(server.clone()));
        let door =
            Arc::new(Door { server, clock, open: watch::Sender::new(true), requests: Mutex::default() });
        let pods = PodNetwork::new();
        let config = Config {
            network: Some(pods.clone()),
            nodes: ZONES.map(|zone| Node::new(format!("node-{zone}"), zone)).to_vec(),
            start_delay: Delay::fixed(STEP),
            ready_delay: Delay::fixed(STEP),
            stop_delay: Delay::fixed(STEP),
            placement: Placement::Clusters,
            clock: Some(clock),
            diary: Some(diary),
            config_maps: true,
            ..Config::default()
        };
        let nodes = HollowNodes::new(door.client(NODES), config).start();
        let cluster = Self {
            door,
            network: Memory::default(),
            pods,
            clock: ours,
            chance: Chance::seeded(SEED),
            native: Mutex::default(),
            newcomers: AtomicUsize::new(0),
            _nodes: nodes,
            _controllers: work,
        };
        if shape.native {
            cluster.control_sets(Features { max_unavailable: shape.keeps_max_unavailable });
        }
        cluster
    }

    /// The API server, for whoever puts a listener before it.
    pub fn server(&self) -> Server {
        self.door.server.clone()
    }

    fn control_sets(&self, features: Features) {
        let client = self.door.client(NATIVE);
        let controller = Operator::start_native(&self.outside(), client, Scope::Cluster, "native", features);
        *self.native.lock().unwrap() = Some(controller);
    }

    /// What is the same twice, a while apart.
    async fn settled<T: PartialEq>(&self, what: &str, look: impl Fn() -> T) -> Result<T, ClusterError> {
        let settled = try_until_stable(DEADLINE, QUIET, what, || async { Ok(look()) });
        settled.await.map_err(|error| ClusterError(Box::new(error)))
    }
}

impl Cluster for EmbeddedCluster {
    fn user(&self) -> Client {
        self.door.client(USER)
    }

    fn outside(&self) -> Outside {
        Outside {
            network: Network::Memory(self.network.clone()),
            dial: Arc::new(Wires { local: self.network.clone(), pods: self.pods.clone() }),
            surroundings: Surroundings { clock: self.clock.clone(), chance: self.chance.clone() },
        }
    }

    fn pod_network(&self) -> PodNetwork {
        self.pods.clone()
    }

    fn make_namespace<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            let namespaces = Api::<Namespace>::all(self.user());
            let made = namespaces.create(&PostParams::default(), &namespace).await;
            made.map(drop).map_err(|error| ClusterError(Box::new(error)))
        })
    }

    fn name_claims(&self) -> Answer<'_, ()> {
        Box::pin(admission::install(self.user(), [admission::webhook()]))
    }

    fn newcomer(&self, name: &str) -> Result<Account, ClusterError> {
        let user = format!("{name}-{}", self.newcomers.fetch_add(1, Ordering::Relaxed));
        Ok(Account { client: self.door.client(&user), user })
    }

    fn grant<'a>(&'a self, _: &'a Account, _: Option<&'a str>, _: Vec<PolicyRule>) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn requests(&self, account: &Account) -> Result<Vec<Request>, ClusterError> {
        Ok(self.door.requests_of(&account.user))
    }

    fn settled_requests<'a>(&'a self, account: &'a Account) -> Answer<'a, Vec<Request>> {
        let what = "an account to be at rest";
        Box::pin(self.settled(what, || self.door.requests_of(&account.user)))
    }

    fn makers_of_pods<'a>(&'a self, namespace: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(self.settled("pods to be made no more", || self.door.makers_of_pods(namespace)))
    }

    fn kubeconfig(&self, _: &Account) -> Result<PathBuf, ClusterError> {
        Err(ClusterError("no program outside this process reaches the embedded cluster".into()))
    }

    fn stop_api_server(&self) -> Answer<'_, ()> {
        self.door.open.send_replace(false);
        Box::pin(async { Ok(()) })
    }

    fn start_api_server(&self) -> Answer<'_, ()> {
        self.door.open.send_replace(true);
        Box::pin(async { Ok(()) })
    }

    fn start_native(&self) -> Answer<'_, ()> {
        self.control_sets(Features::default());
        Box::pin(async { Ok(()) })
    }

    fn stop_native(&self) -> Answer<'_, ()> {
        let running = self.native.lock().unwrap().take();
        Box::pin(async move {
            if let Some(running) = running {
                running.crash().await;
            }
            Ok(())
        })
    }
}

/// What every request passes on its way to the server.
struct Door {
    server: Server,
    clock: Clock,
    open: watch::Sender<bool>,
    /// Who asked for what, in the order of the answers.
    requests: Mutex<Vec<(String, Request)>>,
}

/// The body of an answer, which breaks off when the door is shut.
type Answered = UnsyncBoxBody<Bytes, io::Error>;

impl Door {
    /// A client for somebody.
    fn client(self: &Arc<Self>, user: &str) -> Client {
        let (door, user) = (Arc::clone(self), user.to_owned());
        let service = service_fn(move |request| {
            let (door, user) = (Arc::clone(&door), user.clone());
            async move { door.pass(user, request).await }
        });
        Client::new(service, "default")
    }

    async fn pass(
        self: Arc<Self>,
        user: String,
        request: http::Request<Body>,
    ) -> Result<http::Response<Answered>, BoxError> {
        let mut open = self.open.subscribe();
        if !*open.borrow_and_update() {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
        }
        let asked = Asked::read(&request);
        let at = self.clock.timestamp();
        let answer = match self.server.clone().call(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        if let Some(asked) = asked {
            self.requests.lock().unwrap().push((user, asked.answered(answer.status().as_u16(), at)));
        }
        Ok(answer.map(|body| {
            let frames = stream::unfold((BodyStream::new(body), open), async |(mut body, mut open)| {
                let frame = tokio::select! {
                    biased;
                    // Whoever still reads then reads of a connection that broke.
                    _ = open.wait_for(|open| !open) => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                    frame = body.next() => frame?.map_err(|never| match never {}),
                };
                Some((frame, (body, open)))
            });
            BodyExt::boxed_unsync(StreamBody::new(frames))
        }))
    }

    fn requests_of(&self, user: &str) -> Vec<Request> {
        let requests = self.requests.lock().unwrap();
        let theirs = requests.iter().filter(|(asker, _)| asker == user);
        theirs.map(|(_, request)| request.clone()).collect()
    }

    fn makers_of_pods(&self, namespace: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let makes = |request: &Request| {
            request.verb == "create"
                && request.resource == "pods"
                && request.namespace == namespace
                && request.wrote()
        };
        requests.iter().filter(|(_, request)| makes(request)).map(|(user, _)| user.clone()).collect()
    }
}

/// A request as an audit log has it, without its answer.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    verb: &'static str,
    resource: String,
    namespace: String,
    name: String,
}

impl Asked {
    /// What is asked for; nothing where it is no resource.
    fn read(request: &http::Request<Body>) -> Option<Self> {
        let mut path = request.uri().path().trim_matches('/').split('/');
        match path.next()? {
            "api" => drop(path.next()?),
            "apis" => drop((path.next()?, path.next()?)),
            _ => return None,
        }
        let mut parts: Vec<_> = path.collect();
        let within = matches!(parts[..], ["namespaces", _, _, ..])
            && !matches!(parts[..], [_, _, "status" | "finalize"]);
        let namespace = if within { parts.drain(..2).nth(1)?.to_owned() } else { String::new() };
        let mut parts = parts.into_iter();
        let (resource, name) = (parts.next()?.to_owned(), parts.next().unwrap_or_default().to_owned());
        let resource = parts.next().map_or(resource.clone(), |part| format!("{resource}/{part}"));
        // A namespace is in itself, as the audit log sees it.
        let namespace = if resource.starts_with("namespaces") { name.clone() } else { namespace };
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let verb = match (request.method(), name.is_empty()) {
            (&Method::GET, true) if watches => "watch",
            (&Method::GET, true) => "list",
            (&Method::GET, false) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            _ => return None,
        };
        Some(Self { verb, resource, namespace, name })
    }

    fn answered(self, code: u16, at: jiff::Timestamp) -> Request {
        let Self { verb, resource, namespace, name } = self;
        Request { verb: verb.to_owned(), resource, namespace, name, code, at }
    }
}

/// The ways out of an operator, all of them in memory: to the servers of a scenario, which listen on loopback, and to
/// the pods and services of the cluster.
#[derive(Debug)]
struct Wires {
    local: Memory,
    pods: PodNetwork,
}

impl Dial for Wires {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> Dialled<'a, Vec<SocketAddr>> {
        Box::pin(async move {
            let found = match host {
                "localhost" => vec![Ipv4Addr::LOCALHOST.into()],
                _ => self.pods.resolve(host),
            };
            if found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "Name or service not known"));
            }
            Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
        })
    }

    fn connect(&self, address: SocketAddr) -> Dialled<'_, Box<dyn Stream>> {
        Box::pin(async move {
            if address.ip().is_loopback() {
                Ok(Box::new(self.local.connect(address)?) as Box<dyn Stream>)
            } else {
                Ok(Box::new(self.pods.connect(address).await?) as Box<dyn Stream>)
            }
        })
    }
}

#[cfg(test)]
#[path = "embedded_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "embedded_network_tests.rs"]
mod network_tests;
