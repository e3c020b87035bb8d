//! The address that the API server listens on, its certificate and token, and the kubeconfig for it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sts_plus_cluster::machinery::service::Server;
use sts_plus_cluster::serve::{self, Identity};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::folder::Folder;

/// The file with certificate and token, kept so that a kubeconfig that was copied elsewhere still works.
const IDENTITY: &str = "identity.json";

/// The file that kubectl uses.
const KUBECONFIG: &str = "kubeconfig";

/// A bound address that does not serve yet.
pub(super) struct ApiListener {
    listener: TcpListener,
    identity: Identity,
    /// The address for clients on this machine.
    pub(super) url: String,
}

/// An identity, and the hosts that its certificate is for.
#[derive(Serialize, Deserialize)]
struct Kept {
    hosts: Vec<String>,
    identity: Identity,
}

impl ApiListener {
    pub(super) async fn bind(address: IpAddr, port: u16, folder: &Folder) -> Result<Self> {
        let wanted = SocketAddr::new(address, port);
        let listener = TcpListener::bind(wanted)
            .await
            .with_context(|| format!("cannot listen on {wanted}: choose another port with --port"))?;
        let bound = listener.local_addr().context("cannot read the port that was bound")?;
        let url = format!("https://{}", SocketAddr::new(reachable(address), bound.port()));
        Ok(Self { identity: identity(address, folder)?, listener, url })
    }

    /// Writes the kubeconfig and returns its path.
    pub(super) fn kubeconfig(&self, folder: &Folder) -> Result<std::path::PathBuf> {
        folder.write(KUBECONFIG, &serve::kubeconfig(&self.url, &self.identity))
    }

    /// Serves clients with the token, until `stop` turns true.
    pub(super) fn serve(self, server: Server, stop: watch::Receiver<bool>, tasks: &mut JoinSet<()>) {
        tasks.spawn(async move {
            if let Err(error) = serve::serve(server, self.listener, &self.identity, stop).await {
                tracing::error!("the API server no longer listens: {error}");
            }
        });
    }
}

/// The address by which a client on this machine reaches a listener.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// The identity that the folder holds, or a new one.
fn identity(address: IpAddr, folder: &Folder) -> Result<Identity> {
    let mut hosts =
        vec!["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string(), reachable(address).to_string()];
    hosts.dedup();
    if let Some(kept) = kept(&folder.file(IDENTITY))?.filter(|kept| kept.hosts == hosts) {
        return Ok(kept.identity);
    }
    let identity = Identity::generate(&hosts).context("cannot generate a certificate")?;
    let kept = Kept { hosts, identity };
    folder.write(IDENTITY, &serde_json::to_string(&kept).context("cannot serialise the identity")?)?;
    Ok(kept.identity)
}

fn kept(file: &Path) -> Result<Option<Kept>> {
    let failed = || format!("cannot read {}: delete it to have a new one generated", file.display());
    match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => serde_json::from_str(&text.with_context(failed)?).map(Some).with_context(failed),
    }
}
