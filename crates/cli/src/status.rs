//! `sts-plus status`: the operator's own view of live objects.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;
use sts_plus_operator::command_line::Connection;
use sts_plus_operator::shell::api::{Api, ApiError, Kind, Place};
use sts_plus_operator::shell::cache::{Cache, Listener, Scope};
use sts_plus_operator::shell::events;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_operator::view::{Extended, Group, Rollout, Scaling, Snapshot, View};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use crate::table::render;

/// How long to wait for the first lists before reporting what is wrong.
const FIRST_ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// With --watch, changes within this time are shown together.
const SETTLE: Duration = Duration::from_millis(100);

/// Which objects to show, and how.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The namespace to show [default: the kubeconfig's]
    #[arg(long, short, env = "STS_PLUS_NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Show all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Show only this rollout group, or the ExtendedStatefulSet whose zones form it
    #[arg(long)]
    group: Option<String>,
    /// Keep running and show every change
    #[arg(long, short)]
    watch: bool,
    /// The output format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text for people
    Table,
    /// JSON; with --watch one document per line
    Json,
}

/// One part of the output: an element of the JSON array.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Section<'a> {
    Group(&'a Group),
    Rollout(&'a Rollout),
    Extended(&'a Extended),
    Scaling(&'a Scaling),
}

/// Shows all groups, rollouts, ExtendedStatefulSets and ScalingPolicies once, or until interrupted.
pub(crate) async fn status(connection: &Connection, arguments: &Arguments) -> Result<()> {
    let (client, default_namespace) = connection.client().await?;
    let api = Api::new(client, Metrics::new());
    let scope = if arguments.all_namespaces {
        Scope::Cluster
    } else {
        Scope::Namespaces(vec![arguments.namespace.clone().unwrap_or(default_namespace)])
    };
    let mut tasks = JoinSet::new();
    let changed = Arc::new(Notify::new());
    let notify = Arc::clone(&changed);
    let listener: Listener = Arc::new(move |_| notify.notify_one());
    // This process only reads, so nothing is ever recorded.
    let (recorder, _unsent) = events::channel(api.clone(), String::new());
    let resources = resources(&api, &scope).await;
    let cache = Cache::start(&api, (&resources, &scope), &recorder, &listener, &mut tasks);
    let first_list = cache.completed(Cache::first_round());
    if tokio::time::timeout(FIRST_ANSWER_LIMIT, first_list).await.is_err() {
        bail!("{}", cache.trouble().unwrap_or_else(|| "the API server does not answer".to_owned()));
    }

    let mut printed = String::new();
    loop {
        let now = Timestamp::now();
        let view = View::of(&Snapshot::read(cache.store()), |_| None, now);
        let sections = sections(&view, arguments.group.as_deref());
        let page = match arguments.output {
            Output::Table => render(&sections, &scope, now),
            Output::Json if arguments.watch => format!("{}\n", serde_json::to_string(&sections)?),
            Output::Json => format!("{}\n", serde_json::to_string_pretty(&sections)?),
        };
        if page != printed {
            print(&page, arguments, printed.is_empty())?;
            printed = page;
        }
        if !arguments.watch {
            return Ok(());
        }
        let wake = view
            .changes_at
            .map(|at| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default());
        tokio::select! {
            () = changed.notified() => tokio::time::sleep_until(Instant::now() + SETTLE).await,
            () = tokio::time::sleep(wake.unwrap_or(Duration::from_hours(1))) => {}
        }
    }
}

/// Kinds of ours: without them, where they may not be listed or are not defined, the rest is shown.
const OPTIONAL: [Kind; 4] = [Kind::PhasedRollout, Kind::Extended, Kind::FissileExtended, Kind::ScalingPolicy];

/// The resources to follow.
async fn resources(api: &Api, scope: &Scope) -> Vec<Kind> {
    let namespace = match scope {
        Scope::Cluster => None,
        Scope::Namespaces(names) => names.first().map(String::as_str),
    };
    let mut resources = vec![Kind::StatefulSet, Kind::Pod];
    for kind in OPTIONAL {
        match api.list(Place::collection(kind, namespace), &[("limit", "1")]).await {
            Err(ApiError::NotFound(_)) => {}
            Err(ApiError::Forbidden(why)) => {
                eprintln!("sts-plus: {} are not shown: {why}", kind.definition().plural);
            }
            // Any other error is reported by the cache, which meets it as well.
            Ok(_) | Err(_) => resources.push(kind),
        }
    }
    resources
}

fn print(page: &str, arguments: &Arguments, first: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if arguments.watch && arguments.output == Output::Table && !first {
        writeln!(out)?;
    }
    // A reader that has closed the pipe, such as head, is not an error.
    match out.write_all(page.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

/// The groups, rollouts, ExtendedStatefulSets and ScalingPolicies of a view; of one group alone where it is named.
fn sections<'a>(view: &'a View, only: Option<&str>) -> Vec<Section<'a>> {
    let groups = view.groups.iter().filter(|group| only.is_none_or(|only| only == group.name));
    let rollouts = view.rollouts.iter().filter(|_| only.is_none());
    let extended = view
        .extended
        .iter()
        .filter(|extended| only.is_none_or(|only| extended.rollout_group.as_deref() == Some(only)));
    let scaling = view.scaling.iter().filter(|_| only.is_none());
    let groups = groups.map(Section::Group).chain(rollouts.map(Section::Rollout));
    groups.chain(extended.map(Section::Extended)).chain(scaling.map(Section::Scaling)).collect()
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
