//! Finding the cluster, the way kubectl does.

use std::path::PathBuf;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::CommandError;

/// Which cluster to talk to.
#[derive(Debug, Args)]
pub struct Connection {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount]
    #[arg(long, global = true, env = "STS_PLUS_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig file [default: its current one]
    #[arg(long, global = true, env = "STS_PLUS_CONTEXT")]
    context: Option<String>,
}

impl Connection {
    /// The configuration, without kube's own retries: the caller decides whether to retry.
    pub async fn config(&self) -> Result<kube::Config, CommandError> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match (&self.kubeconfig, &self.context) {
            (Some(file), _) => {
                let shown = || file.display().to_string();
                let kubeconfig = Kubeconfig::read_from(file)
                    .map_err(|source| CommandError::Unreadable(shown(), Box::new(source)))?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(|source| CommandError::Kubeconfig(shown(), Box::new(source)))?
            }
            (None, Some(context)) => kube::Config::from_kubeconfig(&options)
                .await
                .map_err(|source| CommandError::Context(context.clone(), Box::new(source)))?,
            (None, None) => {
                kube::Config::infer().await.map_err(|source| CommandError::NoCluster(Box::new(source)))?
            }
        };
        config.default_retry = false;
        Ok(config)
    }

    /// A client, and the default namespace.
    pub async fn client(&self) -> Result<(kube::Client, String), CommandError> {
        let config = self.config().await?;
        let namespace = config.default_namespace.clone();
        let client =
            kube::Client::try_from(config).map_err(|source| CommandError::Client(Box::new(source)))?;
        Ok((client, namespace))
    }
}
