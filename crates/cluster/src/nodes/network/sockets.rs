//! Real sockets for hollow pods, on the loopback interface, so that programs outside this process reach them.
//!
//! Where every address of 127.0.0.0/8 is the machine's own, as on Linux, each pod has one and listens on the ports it
//! declares. Elsewhere, and where a port is taken or not ours to take, it listens on 127.0.0.1 and some other port, and an
//! annotation of the pod says where.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tracing::warn;

use super::super::behaviour::PORTS;
use super::super::call::Call;
use super::super::watch::Key;
use super::{Endpoint, Listening, Route, Table, UNANSWERED, serve};

/// Ports that are listened on at once; pods beyond it answer in memory only. A quarter of the files that a process may
/// open on a machine that nobody has set up for more.
const MAX_LISTENERS: usize = 256;
/// Connections at once, of all pods; more wait until one ends. Another quarter.
const MAX_CONNECTIONS: usize = 256;
/// The pause after a connection could not be taken, since there are no more files to open.
const BREATH: Duration = Duration::from_millis(100);

/// Where pods have their sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loopback {
    /// Each at an address of its own, and on its own ports.
    Own,
    /// All at 127.0.0.1, each port at another one.
    Shared,
}

impl Loopback {
    /// Where pods of the machine's hollow nodes are to have their sockets when they can have addresses of their own.
    pub(in super::super) const NETWORK: Ipv4Addr = Ipv4Addr::new(127, 128, 0, 0);

    /// What this machine can do.
    pub fn here() -> Self {
        let first = Ipv4Addr::from_bits(Self::NETWORK.to_bits() | 1);
        if std::net::TcpListener::bind((first, 0)).is_ok() { Self::Own } else { Self::Shared }
    }
}

/// All that listens.
pub(super) struct Sockets {
    loopback: Loopback,
    pods: BTreeMap<Ipv4Addr, Open>,
    connections: Arc<Semaphore>,
    /// Hears of pods that listen elsewhere.
    elsewhere: mpsc::Sender<Call>,
}

/// The sockets of a pod.
struct Open {
    uid: Key,
    ports: BTreeMap<u16, Listener>,
}

/// A task that ends, with its connections, when this is dropped.
struct Listener(AbortHandle, SocketAddr);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Sockets {
    pub(super) fn new(loopback: Loopback, elsewhere: mpsc::Sender<Call>) -> Self {
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Sockets { loopback, pods: BTreeMap::new(), connections, elsewhere }
    }

    /// Opens and closes what a pod needs and no longer needs.
    pub(super) fn keep(&mut self, address: Ipv4Addr, pod: &Endpoint, table: &Weak<Mutex<Table>>) {
        let ports: Vec<u16> = match pod.listening {
            Listening::Yes | Listening::Lost => pod.ports.keys().copied().collect(),
            Listening::No => Vec::new(),
        };
        if self.pods.get(&address).is_some_and(|open| open.uid != pod.uid) {
            self.pods.remove(&address);
        }
        let mut others: usize = self.pods.values().map(|open| open.ports.len()).sum();
        let open =
            self.pods.entry(address).or_insert_with(|| Open { uid: pod.uid.clone(), ports: BTreeMap::new() });
        open.ports.retain(|port, _| ports.contains(port));
        let mut is_new = false;
        for port in ports {
            if open.ports.contains_key(&port) || others >= MAX_LISTENERS {
                continue;
            }
            match bind(self.loopback, address, port) {
                Ok((listener, at)) => {
                    let asked = SocketAddr::from((address, port));
                    let slots = Arc::clone(&self.connections);
                    let task = tokio::spawn(accept(listener, asked, table.clone(), slots));
                    open.ports.insert(port, Listener(task.abort_handle(), at));
                    others += 1;
                    is_new = true;
                }
                Err(error) => warn!(%error, pod = pod.name, port, "a hollow pod answers in memory only"),
            }
        }
        let elsewhere = open.ports.iter().filter(|(port, listener)| listener.1 != (address, **port).into());
        let elsewhere: Vec<String> = elsewhere.map(|(port, at)| format!("{port}={}", at.1)).collect();
        if is_new && !elsewhere.is_empty() {
            // A pod whose annotation is not written still answers; nobody is told where.
            self.elsewhere.try_send(tell(pod, &elsewhere.join(","))).ok();
        }
    }

    /// Closes all that a pod had.
    pub(super) fn close(&mut self, address: Ipv4Addr) {
        self.pods.remove(&address);
    }
}

fn tell(pod: &Endpoint, ports: &str) -> Call {
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
    Call::merge(path, json!({ "metadata": { "uid": *pod.uid, "annotations": { PORTS: ports } } }))
}

/// A socket as near to what the pod declares as there is one.
fn bind(loopback: Loopback, address: Ipv4Addr, port: u16) -> io::Result<(TcpListener, SocketAddr)> {
    let own = match loopback {
        Loopback::Own if address.is_loopback() => std::net::TcpListener::bind((address, port)),
        // A pod from before, when it had another kind of address.
        Loopback::Own | Loopback::Shared => Err(io::ErrorKind::AddrNotAvailable.into()),
    };
    let listener = own.or_else(|_| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, at))
}

/// Takes connections to a port of a pod, whatever its table says of them when they come.
async fn accept(listener: TcpListener, asked: SocketAddr, table: Weak<Mutex<Table>>, slots: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        // The semaphore is never closed.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let Some(table) = table.upgrade() else { return };
        let route = super::locked(&table).route(asked);
        match route {
            Route::To(handler, whom) => {
                connections.spawn(async move {
                    serve::http(stream, handler, whom).await;
                    drop(slot);
                });
            }
            Route::Unanswered => {
                connections.spawn(async move {
                    tokio::time::sleep(UNANSWERED).await;
                    drop((stream, slot));
                });
            }
            Route::Refused | Route::Nowhere => {}
        }
    }
}

#[cfg(test)]
#[path = "sockets_tests.rs"]
mod tests;
