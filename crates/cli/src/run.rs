//! `sts-plus run`: the operator.

use std::io::IsTerminal;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgAction, Args, ValueEnum};
use sts_plus_operator::controllers::CONTROLLERS;
use sts_plus_operator::operator::{self, Clients, Controllers, Settings};
use sts_plus_operator::outbound::{Reach, Tcp};
use sts_plus_operator::shell::cache::Scope;
use sts_plus_operator::shell::lease;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_operator::shell::surroundings::Surroundings;
use sts_plus_planner::statefulset::world::Features;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

use crate::connect::Connection;

/// The settings of the operator.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A namespace to watch; may be given several times [default: all namespaces]
    #[arg(long, env = "STS_PLUS_NAMESPACE", value_delimiter = ',')]
    namespace: Vec<String>,
    /// The controllers to run
    #[arg(
        long,
        env = "STS_PLUS_CONTROLLERS",
        value_delimiter = ',',
        value_parser = known_controllers(),
        default_values_t = default_controllers()
    )]
    controllers: Vec<String>,
    /// Feature gates of the statefulset controller, as NAME=true or NAME=false: MaxUnavailableStatefulSet
    #[arg(long, env = "STS_PLUS_FEATURE_GATES", value_delimiter = ',', value_parser = gate)]
    feature_gates: Vec<FeatureGate>,
    /// Allow queries to loopback addresses
    #[arg(long, env = "STS_PLUS_ALLOW_LOOPBACK")]
    allow_loopback: bool,
    /// Allow queries to link-local addresses and to the metadata services of clouds
    #[arg(long, env = "STS_PLUS_ALLOW_LINK_LOCAL")]
    allow_link_local: bool,
    /// The port for /ready, /livez and /metrics
    #[arg(long, env = "STS_PLUS_SERVER_PORT", default_value_t = 8001)]
    server_port: u16,
    /// The format of log lines
    #[arg(long, env = "STS_PLUS_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Write only while holding the lease, so that several replicas can run
    #[arg(
        long,
        env = "STS_PLUS_LEADER_ELECT",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    leader_elect: bool,
    /// The namespace of the lease [default: the pod's own, or the kubeconfig's]
    #[arg(long, env = "STS_PLUS_LEASE_NAMESPACE")]
    lease_namespace: Option<String>,
    /// The namespace of the pod this runs in
    #[arg(long, env = "POD_NAMESPACE", hide = true)]
    pod_namespace: Option<String>,
    /// The name of the pod this runs in
    #[arg(long, env = "POD_NAME", hide = true)]
    pod_name: Option<String>,
}

/// The names of controllers, and what each of them does.
fn known_controllers() -> PossibleValuesParser {
    CONTROLLERS.iter().map(|row| PossibleValue::new(row.name).help(row.about)).collect::<Vec<_>>().into()
}

/// The names of those that run by default.
fn default_controllers() -> Vec<String> {
    let rows = CONTROLLERS.iter().filter(|row| row.is_default);
    rows.map(|row| row.name.to_owned()).collect()
}

/// A feature gate with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeatureGate {
    /// Honours `maxUnavailable` of a rolling update.
    MaxUnavailableStatefulSet(bool),
}

/// Parses a gate as the binaries of Kubernetes do.
fn gate(text: &str) -> Result<FeatureGate, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=true or NAME=false")?;
    let on = value.trim().parse().map_err(|_| format!("{name} must be true or false, not {value:?}"))?;
    match name.trim() {
        "MaxUnavailableStatefulSet" => Ok(FeatureGate::MaxUnavailableStatefulSet(on)),
        unknown => {
            Err(format!("there is no feature gate {unknown:?}; the only one is MaxUnavailableStatefulSet"))
        }
    }
}

/// The features after all gates: of several values for one, the last counts.
fn features(gates: &[FeatureGate]) -> Features {
    let mut features = Features::default();
    for FeatureGate::MaxUnavailableStatefulSet(on) in gates {
        features.max_unavailable = *on;
    }
    features
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Text for people
    Text,
    /// JSON, one object per line
    Json,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) async fn run(connection: &Connection, arguments: Arguments) -> Result<()> {
    log(arguments.log_format);
    let config = connection.config().await?;
    let own_namespace = arguments.pod_namespace.unwrap_or_else(|| config.default_namespace.clone());
    let instance = arguments.pod_name.unwrap_or_else(|| format!("sts-plus-{}", std::process::id()));
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, arguments.server_port));
    let listener = bind(address).await?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = %config.cluster_url,
        address = %listener.local_addr()?,
        leader_elect = arguments.leader_elect,
        controllers = ?arguments.controllers,
        "starting"
    );
    let lease = arguments.leader_elect.then(|| {
        let namespace = arguments.lease_namespace.unwrap_or(own_namespace);
        lease::Config::new(namespace, instance.clone())
    });
    let everywhere = arguments.namespace.is_empty();
    let scope = if everywhere { Scope::Cluster } else { Scope::Namespaces(arguments.namespace) };
    let clients = Clients::new(&config).context("cannot create a client from this configuration")?;
    let names: Vec<_> = arguments.controllers.iter().map(String::as_str).collect();
    let controllers = Controllers::named(&names)
        .map_err(|unknown| anyhow::anyhow!("there is no controller {unknown:?}"))?;
    let reach = Reach { loopback: arguments.allow_loopback, link_local: arguments.allow_link_local };
    let features = features(&arguments.feature_gates);
    let listener = Some(listener);
    let (dial, surroundings) = (Arc::new(Tcp), Surroundings::default());
    let settings =
        Settings { scope, controllers, features, reach, dial, surroundings, lease, listener, instance };
    operator::run(clients, settings, Metrics::new(), stop_signal()?).await;
    tracing::info!("stopped");
    Ok(())
}

/// Listens on IPv6, which includes IPv4 on most machines, or on IPv4 alone where there is no IPv6.
async fn bind(address: SocketAddr) -> Result<TcpListener> {
    let either = match TcpListener::bind(address).await {
        Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], address.port()))).await
        }
        bound => bound,
    };
    either.with_context(|| {
        format!("cannot listen on port {}: choose another with --server-port", address.port())
    })
}

fn log(format: LogFormat) {
    // Each failed request is logged by its caller, with a remedy; kube would log it once more, without.
    let filter =
        EnvFilter::try_from_env("STS_PLUS_LOG").unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

/// Turns true on the first SIGTERM or SIGINT.
fn stop_signal() -> Result<watch::Receiver<bool>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: finishing the passes under way"),
            _ = interrupt.recv() => tracing::info!("SIGINT: finishing the passes under way"),
        }
        stop.send_replace(true);
    });
    Ok(stopped)
}
