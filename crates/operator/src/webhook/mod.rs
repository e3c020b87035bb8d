//! The admission server: HTTPS, in every replica, whether it leads or not.
//!
//! ```text
//! API server ──HTTPS──> server ──review──> paths ──> planner::admission ──verdict──> API server
//!                         ^
//!                      serving <── keeper <──follows, renews── one Secret
//!                         ^           └──CA bundle──> webhook configurations
//!                         └── files, where somebody else makes the certificate
//! ```
//!
//! A path is a row of [`paths::PATHS`] with a pure function of a request and a world. Nothing here has a lease or a lane.

mod bundle;
mod files;
mod follow;
mod issue;
mod keeper;
mod keyring;
pub mod paths;
mod renewal;
mod review;
mod server;
mod serving;
mod x509;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use renewal::Timing;
pub use server::Limits;

use crate::shell::api::Api;
use crate::shell::serve::Check;
use keeper::Kept;
use serving::Serving;

/// What to serve, and with which certificate.
#[derive(Debug)]
pub struct Config {
    /// Where requests arrive.
    pub listener: TcpListener,
    /// Where the certificate comes from.
    pub certificate: Certificate,
    /// What is allowed to whoever connects.
    pub limits: Limits,
}

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Certificate {
    /// The replicas make it themselves.
    Own(Own),
    /// The files `tls.crt` and `tls.key` of this folder, which somebody else replaces in time.
    Files(PathBuf),
}

/// A certificate that the replicas make themselves and share by a Secret.
#[derive(Clone, Debug)]
pub struct Own {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The Secret.
    pub secret: String,
    /// The mutating webhook configurations that get the CA bundle.
    pub configurations: Vec<String>,
    /// The names and addresses under which API servers reach this server.
    pub names: Vec<String>,
    /// How long certificates live.
    pub timing: Timing,
}

impl Own {
    /// The certificate of a server behind a Service.
    pub fn behind(namespace: &str, service: &str) -> Self {
        let name = format!("{service}-webhook");
        Self {
            namespace: namespace.to_owned(),
            secret: name.clone(),
            configurations: vec![name],
            names: vec![format!("{service}.{namespace}.svc")],
            timing: Timing::default(),
        }
    }
}

/// Starts the server; returns what tells whether it can answer. The server ends some time after `stop` turns true.
pub(crate) fn start(
    api: Api,
    config: Config,
    stop: watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> (Check, JoinSet<()>) {
    let metrics = api.metrics().webhook.clone();
    let serving = Arc::new(Serving::new(metrics.clone()));
    match config.certificate {
        Certificate::Files(folder) => {
            tasks.spawn(files::follow(folder, Arc::clone(&serving)));
        }
        Certificate::Own(Own { namespace, secret, configurations, names, timing }) => {
            let kept = Kept { namespace, secret, configurations, names, timing };
            tasks.spawn(keeper::keep(api, kept, Arc::clone(&serving)));
        }
    }
    let mut server = JoinSet::new();
    server.spawn(server::serve(config.listener, Arc::clone(&serving), metrics, config.limits, stop));
    (Check::new(move || serving.readiness()), server)
}
