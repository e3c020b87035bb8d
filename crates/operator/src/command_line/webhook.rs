//! The flags of the admission server.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::{CommandError, bind};
use crate::webhook::{Certificate, Config, Limits, Own};

/// The admission server.
#[derive(Debug, Args)]
pub(super) struct Webhook {
    /// The port for admission requests, over HTTPS [default: none are answered]
    #[arg(long = "webhook-port", env = "STS_PLUS_WEBHOOK_PORT", value_name = "WEBHOOK_PORT")]
    port: Option<u16>,
    /// The Service in front of that port; the certificate is for its name, and is kept in the Secret NAME-webhook
    #[arg(
        long = "webhook-service",
        env = "STS_PLUS_WEBHOOK_SERVICE",
        value_name = "NAME",
        default_value = "sts-plus"
    )]
    service: String,
    /// A folder with tls.crt and tls.key to use instead, as cert-manager makes them
    #[arg(long = "webhook-cert-dir", env = "STS_PLUS_WEBHOOK_CERT_DIR", value_name = "DIR")]
    cert_dir: Option<PathBuf>,
}

impl Webhook {
    /// What to serve, if anything is to be served.
    pub(super) async fn config(self, namespace: &str) -> Result<Option<Config>, CommandError> {
        let Some(port) = self.port else { return Ok(None) };
        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let listener = bind(address).await.map_err(|source| CommandError::WebhookPort(port, source))?;
        let certificate = match self.cert_dir {
            Some(folder) => Certificate::Files(folder),
            None => Certificate::Own(Own::behind(namespace, &self.service)),
        };
        Ok(Some(Config { listener, certificate, limits: Limits::default() }))
    }
}
