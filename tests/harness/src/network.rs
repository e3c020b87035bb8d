//! Where the servers of a test listen: on loopback, or in memory, where no socket keeps a paused clock waiting.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, duplex},
    net::TcpListener,
    sync::mpsc,
    task::JoinSet,
};

/// What either side of a connection in memory may have written before the other has read it, in bytes.
const BUFFER: usize = 64 * 1024;

/// Connections that may wait to be accepted; more are refused, as by a kernel.
const BACKLOG: usize = 128;

/// The first port that is given away in memory: from here on nothing is reserved on real machines either.
const FIRST_PORT: u16 = 49152;

/// One side of a connection, whatever it is made of.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A network that the servers of a test listen on.
#[derive(Clone, Debug)]
pub enum Network {
    /// The machine's own loopback addresses.
    Loopback,
    /// The same addresses, within this process.
    Memory(Memory),
}

/// Loopback addresses that only this process knows; clones are the same network.
#[derive(Clone, Default)]
pub struct Memory {
    listeners: Arc<Mutex<BTreeMap<u16, mpsc::Sender<DuplexStream>>>>,
}

impl Memory {
    /// A connection to whoever listens at this address.
    pub fn connect(&self, address: SocketAddr) -> io::Result<DuplexStream> {
        let listener = self.listeners().get(&address.port()).filter(|_| address.ip().is_loopback()).cloned();
        let listener = listener.ok_or(io::ErrorKind::ConnectionRefused)?;
        let (ours, theirs) = duplex(BUFFER);
        listener.try_send(theirs).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(ours)
    }

    fn listen(&self) -> io::Result<(SocketAddr, mpsc::Receiver<DuplexStream>)> {
        let mut listeners = self.listeners();
        listeners.retain(|_, listener| !listener.is_closed());
        let port = (FIRST_PORT..=u16::MAX).find(|port| !listeners.contains_key(port));
        let port = port.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let (listener, connections) = mpsc::channel(BACKLOG);
        listeners.insert(port, listener);
        Ok((SocketAddr::from((Ipv4Addr::LOCALHOST, port)), connections))
    }

    fn listeners(&self) -> MutexGuard<'_, BTreeMap<u16, mpsc::Sender<DuplexStream>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<_> = self.listeners().keys().copied().collect();
        formatter.debug_struct("Memory").field("ports", &ports).finish_non_exhaustive()
    }
}

impl Network {
    /// Listens at an address of its own and hands every connection to `serve`, until the tasks are dropped.
    pub(crate) async fn serve<F>(
        &self,
        serve: impl Fn(Box<dyn Stream>) -> F + Send + 'static,
    ) -> io::Result<(SocketAddr, JoinSet<()>)>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut task = JoinSet::new();
        let address = match self {
            Self::Loopback => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                let address = listener.local_addr()?;
                task.spawn(async move {
                    let mut connections = JoinSet::new();
                    while let Ok((stream, _)) = listener.accept().await {
                        connections.spawn(serve(Box::new(stream)));
                        while connections.try_join_next().is_some() {}
                    }
                });
                address
            }
            Self::Memory(memory) => {
                let (address, mut accepted) = memory.listen()?;
                task.spawn(async move {
                    let mut connections = JoinSet::new();
                    while let Some(stream) = accepted.recv().await {
                        connections.spawn(serve(Box::new(stream)));
                        while connections.try_join_next().is_some() {}
                    }
                });
                address
            }
        };
        Ok((address, task))
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
