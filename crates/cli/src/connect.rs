//! Finding the cluster, the way kubectl does.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Which cluster to talk to.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount]
    #[arg(long, global = true, env = "STS_PLUS_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig file [default: its current one]
    #[arg(long, global = true, env = "STS_PLUS_CONTEXT")]
    context: Option<String>,
}

impl Connection {
    /// The configuration, without kube's own retries: the caller decides whether to retry.
    pub(crate) async fn config(&self) -> Result<kube::Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match (&self.kubeconfig, &self.context) {
            (Some(file), _) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("cannot read the kubeconfig {}", file.display()))?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(|| format!("cannot use the kubeconfig {}", file.display()))?
            }
            (None, Some(context)) => kube::Config::from_kubeconfig(&options)
                .await
                .with_context(|| format!("cannot use the context {context}"))?,
            (None, None) => kube::Config::infer().await.context(
                "no cluster is configured: name a kubeconfig with --kubeconfig or $KUBECONFIG, or run in a pod with a ServiceAccount",
            )?,
        };
        config.default_retry = false;
        Ok(config)
    }

    /// A client, and the default namespace.
    pub(crate) async fn client(&self) -> Result<(kube::Client, String)> {
        let config = self.config().await?;
        let namespace = config.default_namespace.clone();
        let client =
            kube::Client::try_from(config).context("cannot create a client from this configuration")?;
        Ok((client, namespace))
    }
}
