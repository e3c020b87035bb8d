//! The pod network in memory: every pod answers HTTP on the ports it declares, without a socket.
//!
//! Simulations run on a paused clock, which moves on while a socket is pending; a pipe in memory has no such gap.
//! [`Network::connect`] gives one end of such a pipe and serves HTTP/1.1 at the other. [`Network::resolve`] knows
//! services, pods of headless services and the hosts that a test has added. A pod that does not run refuses
//! connections, one on a lost node does not answer at all. Where programs outside this process shall reach pods, those have
//! [`sockets`], too.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

pub(super) use self::answers::Answers;
pub(super) use self::service::Service;
use self::service::Target;
pub use self::sockets::Loopback;
use self::sockets::Sockets;
use super::call::Call;
use super::watch::Key;

mod answers;
mod serve;
mod service;
mod sockets;

/// Bytes that may be under way in each direction of a connection, as much as a socket's buffer.
const PIPE_BYTES: usize = 64 << 10;
/// How long a connection to a machine that does not answer is tried: Linux gives up after six resent packets.
const UNANSWERED: Duration = Duration::from_secs(127);
/// Where added hosts have their addresses, beside those of nodes and pods.
const HOST_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 126, 0, 0);

/// Both directions of a connection.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// A connection, whatever it is made of.
pub type Stream = Box<dyn Connection>;

/// What connects: a [`Network`], or real sockets where pods have some.
pub trait Transport: std::fmt::Debug + Send + Sync {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Stream>>;
}

/// Instead of an answer: the connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection was reset")]
pub struct Reset;

/// What becomes of a request. One that is never answered is a future that never ends.
pub type Answer = Result<http::Response<Bytes>, Reset>;

/// What answers the requests to a port.
pub type Handler = Arc<dyn Fn(http::Request<Bytes>) -> BoxFuture<'static, Answer> + Send + Sync>;

/// Makes a handler of an async function.
pub fn handler<F, A>(answer: F) -> Handler
where
    F: Fn(http::Request<Bytes>) -> A + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    Arc::new(move |request| Box::pin(answer(request)))
}

/// Whom a request is for; each request that reaches a pod has one among its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The UID, which tells a pod from its successor.
    pub uid: String,
    /// The port that was connected to.
    pub port: u16,
}

/// A pod network. Clones are the same network.
#[derive(Clone, Default)]
pub struct Network {
    table: Arc<Mutex<Table>>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Network").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Table {
    pods: BTreeMap<Ipv4Addr, Endpoint>,
    services: BTreeMap<Key, Service>,
    hosts: BTreeMap<String, Host>,
    chosen: BTreeMap<Whose, Handler>,
    /// How many connections to services there have been: they go to their pods in turn.
    turns: usize,
    /// Where pods have sockets, too.
    sockets: Option<Sockets>,
}

/// Whose requests a handler answers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Pod { namespace: String, name: String },
    Set { namespace: String, name: String },
}

struct Host {
    address: Ipv4Addr,
    ports: BTreeMap<u16, Handler>,
}

/// Whether a pod takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listening {
    Yes,
    /// Its containers do not run.
    No,
    /// Its node is lost: nothing comes back.
    Lost,
}

/// A pod, as the network sees it.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) uid: Key,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    /// Its own name below its headless service's.
    pub(super) hostname: Option<String>,
    pub(super) subdomain: Option<String>,
    /// Whom it belongs to.
    pub(super) set: Option<String>,
    /// The ports it listens on, with their names.
    pub(super) ports: BTreeMap<u16, String>,
    pub(super) listening: Listening,
    pub(super) ready: bool,
    pub(super) answers: Answers,
}

enum Route {
    To(Handler, Option<Asked>),
    Refused,
    Unanswered,
    Nowhere,
}

impl Network {
    /// A network without anybody on it.
    pub fn new() -> Self {
        Network::default()
    }

    /// Lets `name` resolve, and `handler` answer on its port. A second port of the same name has the same address.
    pub fn add_host(&self, name: &str, port: u16, handler: Handler) -> IpAddr {
        let mut table = self.lock();
        let next = u32::try_from(table.hosts.len()).unwrap_or(u32::MAX).wrapping_add(1) & 0xffff;
        let address = Ipv4Addr::from_bits(HOST_NETWORK.to_bits() | next);
        let host = table
            .hosts
            .entry(name.to_ascii_lowercase())
            .or_insert_with(|| Host { address, ports: BTreeMap::new() });
        host.ports.insert(port, handler);
        IpAddr::V4(host.address)
    }

    /// Closes a port of a host that was added; its name still resolves.
    pub fn close_port(&self, name: &str, port: u16) {
        if let Some(host) = self.lock().hosts.get_mut(&name.to_ascii_lowercase()) {
            host.ports.remove(&port);
        }
    }

    /// Lets `handler` answer for one pod, before or after that exists, instead of what its annotations say.
    pub fn answer_for_pod(&self, namespace: &str, name: &str, handler: Handler) {
        self.choose(Whose::Pod { namespace: namespace.to_owned(), name: name.to_owned() }, handler);
    }

    /// Lets `handler` answer for all pods that a set of this name controls.
    pub fn answer_for_set(&self, namespace: &str, name: &str, handler: Handler) {
        self.choose(Whose::Set { namespace: namespace.to_owned(), name: name.to_owned() }, handler);
    }

    /// Takes back [`Network::answer_for_pod`].
    pub fn answer_for_pod_as_annotated(&self, namespace: &str, name: &str) {
        let whose = Whose::Pod { namespace: namespace.to_owned(), name: name.to_owned() };
        self.lock().chosen.remove(&whose);
    }

    /// The addresses of a host: one that was added, `service.namespace.svc`, or `pod.service.namespace.svc` of a
    /// headless service, the last two also with `.cluster.local`. None where nobody has that name.
    pub fn resolve(&self, host: &str) -> Vec<IpAddr> {
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        if let Ok(address) = name.parse() {
            return vec![address];
        }
        let table = self.lock();
        if let Some(host) = table.hosts.get(&name) {
            return vec![host.address.into()];
        }
        let short = name.strip_suffix(".cluster.local").unwrap_or(&name);
        match short.split('.').collect::<Vec<_>>().as_slice() {
            [service, namespace] | [service, namespace, "svc"] => table.service_addresses(namespace, service),
            [pod, service, namespace, "svc"] => table.pod_addresses(namespace, service, pod),
            _ => Vec::new(),
        }
    }

    /// Connects to a pod, a service or a host that was added.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        let route = self.lock().route(address);
        match route {
            Route::To(handler, asked) => {
                let (near, far) = tokio::io::duplex(PIPE_BYTES);
                tokio::spawn(serve::http(far, handler, asked));
                Ok(Box::new(near))
            }
            Route::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
            Route::Nowhere => Err(io::ErrorKind::HostUnreachable.into()),
            Route::Unanswered => {
                tokio::time::sleep(UNANSWERED).await;
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    /// Gives pods sockets from now on. Whoever hears of pods that listen elsewhere has to write that down.
    pub(super) fn listen(&self, loopback: Loopback, elsewhere: mpsc::Sender<Call>) {
        self.lock().sockets = Some(Sockets::new(loopback, elsewhere));
    }

    /// Shows a pod at its address.
    pub(super) fn show(&self, address: Ipv4Addr, endpoint: Endpoint) {
        let mut table = self.lock();
        if let Some(sockets) = &mut table.sockets {
            sockets.keep(address, &endpoint, &Arc::downgrade(&self.table));
        }
        table.pods.insert(address, endpoint);
    }

    /// Frees the address of a pod that is gone.
    pub(super) fn hide(&self, address: Ipv4Addr, uid: &Key) {
        let mut table = self.lock();
        if table.pods.get(&address).is_some_and(|endpoint| endpoint.uid == *uid) {
            table.pods.remove(&address);
            if let Some(sockets) = &mut table.sockets {
                sockets.close(address);
            }
        }
    }

    /// Takes in a service.
    pub(super) fn serve(&self, service: Service) {
        self.lock().services.insert(service.key.clone(), service);
    }

    /// Forgets a service.
    pub(super) fn unserve(&self, key: &Key) {
        self.lock().services.remove(key);
    }

    fn choose(&self, whose: Whose, handler: Handler) {
        self.lock().chosen.insert(whose, handler);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        locked(&self.table)
    }
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // Not poisoned by a panic elsewhere: nothing is left half done between two statements that could panic.
    table.lock()
}

impl Transport for Network {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Stream>> {
        let network = self.clone();
        Box::pin(async move { Network::connect(&network, address).await })
    }
}

impl Table {
    fn named(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.services.values().find(|service| service.namespace == namespace && service.name == name)
    }

    /// The pods behind a service.
    fn behind<'a>(&'a self, service: &'a Service) -> impl Iterator<Item = (&'a Ipv4Addr, &'a Endpoint)> {
        self.pods.iter().filter(|(_, pod)| service.reaches(pod))
    }

    fn service_addresses(&self, namespace: &str, name: &str) -> Vec<IpAddr> {
        match self.named(namespace, name) {
            None => Vec::new(),
            Some(Service { address: Some(address), .. }) => vec![*address],
            Some(headless) => self.behind(headless).map(|(address, _)| (*address).into()).collect(),
        }
    }

    fn pod_addresses(&self, namespace: &str, service: &str, pod: &str) -> Vec<IpAddr> {
        let Some(service) = self.named(namespace, service) else {
            return Vec::new();
        };
        let is_called = |endpoint: &Endpoint| {
            endpoint.hostname.as_deref() == Some(pod)
                && endpoint.subdomain.as_deref() == Some(service.name.as_str())
        };
        self.behind(service).filter(|(_, pod)| is_called(pod)).map(|(address, _)| (*address).into()).collect()
    }

    fn route(&mut self, address: SocketAddr) -> Route {
        let (IpAddr::V4(ip), port) = (address.ip(), address.port()) else {
            return Route::Nowhere;
        };
        if let Some(pod) = self.pods.get(&ip) {
            return self.route_to(pod, port);
        }
        if let Some(host) = self.hosts.values().find(|host| host.address == ip) {
            return host
                .ports
                .get(&port)
                .map_or(Route::Refused, |handler| Route::To(Arc::clone(handler), None));
        }
        let Some(service) =
            self.services.values().find(|service| service.address == Some(address.ip())).cloned()
        else {
            return Route::Nowhere;
        };
        let Some(target) = service.target(port) else {
            return Route::Refused;
        };
        let behind: Vec<&Endpoint> = self.behind(&service).map(|(_, pod)| pod).collect();
        let turn = self.turns.checked_rem(behind.len()).and_then(|turn| behind.get(turn).copied());
        let port = turn.and_then(|pod| match &target {
            Target::Number(number) => Some(*number),
            Target::Name(name) => pod.ports.iter().find(|(_, named)| *named == name).map(|(port, _)| *port),
        });
        let route = turn.zip(port).map_or(Route::Refused, |(pod, port)| self.route_to(pod, port));
        self.turns = self.turns.wrapping_add(1);
        route
    }

    fn route_to(&self, pod: &Endpoint, port: u16) -> Route {
        match pod.listening {
            Listening::Lost => return Route::Unanswered,
            Listening::Yes if pod.ports.contains_key(&port) => {}
            Listening::Yes | Listening::No => return Route::Refused,
        }
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        let asked = Asked { namespace, pod: name, uid: pod.uid.to_string(), port };
        Route::To(self.handler_of(pod), Some(asked))
    }

    fn handler_of(&self, pod: &Endpoint) -> Handler {
        let own = Whose::Pod { namespace: pod.namespace.clone(), name: pod.name.clone() };
        let shared = |name: &String| Whose::Set { namespace: pod.namespace.clone(), name: name.clone() };
        let chosen = self
            .chosen
            .get(&own)
            .or_else(|| pod.set.as_ref().and_then(|name| self.chosen.get(&shared(name))));
        chosen.map_or_else(|| pod.answers.handler(), Arc::clone)
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
