//! The command line of an operator: that of `sts-plus run`, for the binary of sts-plus and for those who build one of their own.
//!
//! An operator with hooks of its own is a program of a few lines, with the crate's feature `command-line`:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use sts_plus_operator::command_line;
//! use sts_plus_operator::hooks::Hooks;
//!
//! fn main() -> ExitCode {
//!     let hooks = Hooks::default(); // .scale_down("drain-broker", DrainBroker)
//!     command_line::main(hooks)
//! }
//! ```
//!
//! It takes the flags and environment variables of `sts-plus run`, so the chart of sts-plus installs it as it is: only
//! the image is another one. `examples/custom-scaling` is such a program, with a test. Who needs more than that, such as
//! subcommands or controllers of their own, calls [`run`] or [`crate::operator::run`].

#![deny(missing_docs, reason = "whoever embeds the operator begins here")]

mod connection;
mod webhook;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgAction, Args, Parser, ValueEnum};
use kube::config::{InferConfigError, KubeconfigError};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

pub use connection::Connection;
use webhook::Webhook;

use crate::controllers::CONTROLLERS;
use crate::hooks::Hooks;
use crate::operator::{self, Clients, Controllers, Features, Settings};
use crate::outbound::Reach;
use crate::shell::api::describe;
use crate::shell::cache::Scope;
use crate::shell::lease;
use crate::shell::metrics::Metrics;

/// The exit code of a program that has failed; clap uses 2 for a command line that it cannot parse.
const FAILED: u8 = 1;

/// Why the operator cannot run.
#[derive(Debug, Error)]
pub enum CommandError {
    /// A kubeconfig cannot be read.
    #[error("cannot read the kubeconfig {0}")]
    Unreadable(String, #[source] Box<KubeconfigError>),
    /// A kubeconfig does not lead to a cluster.
    #[error("cannot use the kubeconfig {0}")]
    Kubeconfig(String, #[source] Box<KubeconfigError>),
    /// A context does not lead to a cluster.
    #[error("cannot use the context {0}")]
    Context(String, #[source] Box<KubeconfigError>),
    /// Nothing says which cluster.
    #[error(
        "no cluster is configured: name a kubeconfig with --kubeconfig or $KUBECONFIG, or run in a pod with a ServiceAccount"
    )]
    NoCluster(#[source] Box<InferConfigError>),
    /// A client cannot be made of the configuration.
    #[error("cannot create a client from this configuration")]
    Client(#[source] Box<kube::Error>),
    /// The port is taken, or may not be used.
    #[error("cannot listen on port {0}: choose another with --server-port")]
    Port(u16, #[source] io::Error),
    /// The port of the admission server is taken, or may not be used.
    #[error("cannot listen on port {0}: choose another with --webhook-port")]
    WebhookPort(u16, #[source] io::Error),
    /// The system refuses what every program needs.
    #[error("cannot {0}")]
    System(&'static str, #[source] io::Error),
    /// There is no such controller.
    #[error("there is no controller {0:?}")]
    Controller(String),
}

/// The whole command line of a program that is nothing but an operator.
#[derive(Debug, Parser)]
#[command(about = "Run the operator.", version, max_term_width = 100)]
struct CommandLine {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    arguments: Arguments,
}

/// The main function of an operator with these hooks. It parses the arguments of the process as `sts-plus run` does, with or without the word
/// `run` in front, logs to standard error, and returns when the process is asked to stop.
pub fn main(hooks: Hooks) -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let program = words.first().map(Path::new).and_then(Path::file_name).map(OsString::from);
    let program = program.unwrap_or_default().to_string_lossy().into_owned();
    // The chart passes it.
    if words.get(1).is_some_and(|word| word == "run") {
        words.remove(1);
    }
    let CommandLine { connection, arguments } = CommandLine::parse_from(words);
    // Fails only where a provider is installed already.
    rustls::crypto::ring::default_provider().install_default().ok();
    let runtime = tokio::runtime::Runtime::new();
    let runtime = runtime.map_err(|source| CommandError::System("start threads", source));
    match runtime.and_then(|runtime| runtime.block_on(run(&connection, arguments, hooks))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line for people: with all causes.
            eprintln!("{program}: {}", describe(&error));
            ExitCode::from(FAILED)
        }
    }
}

/// The settings of the operator.
#[derive(Debug, Args)]
pub struct Arguments {
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
    /// Allow queries, hooks and active probes to loopback addresses
    #[arg(long, env = "STS_PLUS_ALLOW_LOOPBACK")]
    allow_loopback: bool,
    /// Allow queries, hooks and active probes to link-local addresses and to the metadata services of clouds
    #[arg(long, env = "STS_PLUS_ALLOW_LINK_LOCAL")]
    allow_link_local: bool,
    /// The image of sts-plus, which ScalingPolicies with a lock add to pods [default: no locks]
    #[arg(long, env = "STS_PLUS_IMAGE")]
    lock_image: Option<String>,
    /// The port for /ready, /livez and /metrics
    #[arg(long, env = "STS_PLUS_SERVER_PORT", default_value_t = 8001)]
    server_port: u16,
    #[command(flatten)]
    webhook: Webhook,
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

/// Runs an operator with these hooks until SIGTERM or SIGINT. It sets the logger of the process up, so it is called once.
pub async fn run(connection: &Connection, arguments: Arguments, hooks: Hooks) -> Result<(), CommandError> {
    log(arguments.log_format);
    let config = connection.config().await?;
    let own_namespace = arguments.pod_namespace.unwrap_or_else(|| config.default_namespace.clone());
    let instance = arguments.pod_name.unwrap_or_else(|| format!("sts-plus-{}", std::process::id()));
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, arguments.server_port));
    let listener = bind(address).await.map_err(|source| CommandError::Port(arguments.server_port, source))?;
    let bound = listener.local_addr();
    let listening_at =
        bound.map_err(|source| CommandError::System("read the port that was bound", source))?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = %config.cluster_url,
        address = %listening_at,
        leader_elect = arguments.leader_elect,
        controllers = ?arguments.controllers,
        "starting"
    );
    let runs = |name: &str| arguments.controllers.iter().any(|controller| controller == name);
    if runs("extended-statefulset") && !runs("rollout-group") {
        tracing::warn!(
            "without the controller rollout-group, pods of ExtendedStatefulSets with zones that are updated in place are \
             replaced only if another operator rolls their rollout groups"
        );
    }
    let webhook = arguments.webhook.config(&own_namespace).await?;
    let lease = arguments.leader_elect.then(|| {
        let namespace = arguments.lease_namespace.unwrap_or(own_namespace);
        lease::Config::new(namespace, instance.clone())
    });
    let everywhere = arguments.namespace.is_empty();
    let scope = if everywhere { Scope::Cluster } else { Scope::Namespaces(arguments.namespace) };
    let clients = Clients::new(&config).map_err(CommandError::Client)?;
    let names: Vec<_> = arguments.controllers.iter().map(String::as_str).collect();
    let controllers =
        Controllers::named(&names).map_err(|unknown| CommandError::Controller(unknown.to_owned()))?;
    let reach = Reach { loopback: arguments.allow_loopback, link_local: arguments.allow_link_local };
    let (features, listener) = (features(&arguments.feature_gates), Some(listener));
    let image = arguments.lock_image.filter(|image| !image.is_empty()).map(Into::into);
    let settings = Settings::new(instance);
    let settings =
        Settings { scope, controllers, features, image, reach, hooks, lease, listener, webhook, ..settings };
    // It is large, and there is one.
    Box::pin(operator::run(clients, settings, Metrics::new(), stop_signal()?)).await;
    tracing::info!("stopped");
    Ok(())
}

/// Listens on IPv6, which includes IPv4 on most machines, or on IPv4 alone where there is no IPv6.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], address.port()))).await
        }
        bound => bound,
    }
}

fn log(format: LogFormat) {
    // Each failed request is logged by its caller, with a remedy; kube would log it once more, without.
    let filter =
        EnvFilter::try_from_env("STS_PLUS_LOG").unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).with_target(false).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

/// Turns true on the first SIGTERM or SIGINT.
fn stop_signal() -> Result<watch::Receiver<bool>, CommandError> {
    let listen = |kind, what| signal(kind).map_err(|source| CommandError::System(what, source));
    let mut terminate = listen(SignalKind::terminate(), "listen for SIGTERM")?;
    let mut interrupt = listen(SignalKind::interrupt(), "listen for SIGINT")?;
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
