//! `sts-plus pause` and `sts-plus resume`.

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use sts_plus_api::keys;
use sts_plus_operator::shell::api::{Api, ApiError, Place, Resource};
use sts_plus_operator::shell::metrics::Metrics;

use crate::connect::Connection;

/// Which sets are meant.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The StatefulSets
    #[arg(required = true, value_name = "STATEFULSET")]
    sets: Vec<String>,
    /// Their namespace [default: the kubeconfig's]
    #[arg(long, short, env = "STS_PLUS_NAMESPACE")]
    namespace: Option<String>,
}

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Pause,
    Resume,
}

/// Sets or removes the annotation on each set, and says so.
pub(crate) async fn steer(connection: &Connection, arguments: &Arguments, wish: Wish) -> Result<()> {
    let (client, default_namespace) = connection.client().await?;
    let api = Api::new(client, Metrics::new());
    let namespace = arguments.namespace.as_deref().unwrap_or(&default_namespace);
    let value = (wish == Wish::Pause).then_some("true");
    let fields = json!({ "metadata": { "annotations": { keys::PAUSED: value } } });
    for set in &arguments.sets {
        let name = set.strip_prefix("statefulset/").or_else(|| set.strip_prefix("sts/")).unwrap_or(set);
        match api
            .merge(Place::object(Resource::StatefulSets, namespace, name), keys::MANAGER_CLI, &fields)
            .await
        {
            Ok(_) => {
                println!("statefulset/{name} {}", if wish == Wish::Pause { "paused" } else { "resumed" });
            }
            Err(ApiError::NotFound(_)) => bail!("there is no StatefulSet {name} in namespace {namespace}"),
            Err(error) => bail!("statefulset/{name} in namespace {namespace}: {error}"),
        }
    }
    Ok(())
}
