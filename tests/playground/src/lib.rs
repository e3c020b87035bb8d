//! Stock clients against the embedded cluster behind its listener.
//!
//! ```text
//! kubectl, helm, Python ──HTTPS──> serve ──> Server <── controllers, hollow nodes, our StatefulSet controller
//!         └──────────────HTTPS──> kube-apiserver <── kube-controller-manager, hollow nodes
//! ```
//!
//! A command that both clusters are asked must say the same, apart from what differs from one run to the next.

pub mod neutral;
pub mod script;
pub mod shell;

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use sts_plus_cluster::serve::{self, Identity};
use sts_plus_scenarios::embedded::{EmbeddedCluster, Shape};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// An embedded cluster that programs reach.
pub struct Playground {
    folder: TempDir,
    stop: watch::Sender<bool>,
    listening: JoinHandle<Result<(), serve::ServeError>>,
    _cluster: EmbeddedCluster,
}

impl Playground {
    /// Starts one in the present runtime.
    pub async fn start() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let shape = Shape { native: true, streaming_lists: true, keeps_max_unavailable: false };
        let cluster = EmbeddedCluster::start(shape);
        let identity = Identity::generate(&[])?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("kubeconfig"), serve::kubeconfig(&url, &identity))?;
        let (stop, stopped) = watch::channel(false);
        let server = cluster.server();
        let listening = tokio::spawn(async move { serve::serve(server, listener, &identity, stopped).await });
        Ok(Playground { folder, stop, listening, _cluster: cluster })
    }

    /// By which programs find it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Stops listening; whoever is connected is told so.
    pub async fn end(self) -> Result<(), io::Error> {
        self.stop.send_replace(true);
        self.listening.await?.map_err(io::Error::other)
    }
}
