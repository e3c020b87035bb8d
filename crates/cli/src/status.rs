//! `sts-plus status`: the operator's own planner on live objects.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use sts_plus_operator::controllers::rollout_group::world;
use sts_plus_operator::shell::api::{Api, ApiError, Kind, Place};
use sts_plus_operator::shell::cache::{Cache, Listener, Scope};
use sts_plus_operator::shell::events;
use sts_plus_operator::shell::executor::Domain;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_planner::rollout_group::plan;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use crate::connect::Connection;
use crate::rollout::Rollout;
use crate::screen::{Group, Section, render};

/// A cluster that has not answered by then is told to the user instead of waited for.
const FIRST_ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// With --watch, changes within this time make one screen.
const SETTLE: Duration = Duration::from_millis(100);

/// What to show.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The namespace to look at [default: the kubeconfig's]
    #[arg(long, short, env = "STS_PLUS_NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Look at all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Show one rollout group only
    #[arg(long)]
    group: Option<String>,
    /// Go on, and show every change
    #[arg(long, short)]
    watch: bool,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// How to show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// For machines; with --watch one document a line.
    Json,
}

/// Shows all groups and rollouts once, or until interrupted.
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
    // Nothing is recorded from here: a screen only looks.
    let (recorder, _unsent) = events::channel(api.clone(), String::new());
    let shown = shown(&api, &scope).await;
    let cache = Cache::start(&api, (&shown, &scope), &recorder, &listener, &mut tasks);
    let first_list = cache.completed(Cache::first_round());
    if tokio::time::timeout(FIRST_ANSWER_LIMIT, first_list).await.is_err() {
        bail!("{}", cache.trouble().unwrap_or_else(|| "the API server does not answer".to_owned()));
    }

    let mut printed = String::new();
    loop {
        let (sections, wake_at) = look(&cache, arguments.group.as_deref());
        let page = match arguments.output {
            Output::Table => render(&sections, &scope, Timestamp::now()),
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
        let wake =
            wake_at.map(|at| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default());
        tokio::select! {
            () = changed.notified() => tokio::time::sleep_until(Instant::now() + SETTLE).await,
            () = tokio::time::sleep(wake.unwrap_or(Duration::from_hours(1))) => {}
        }
    }
}

/// What can be looked at. Whoever may not see rollouts, or has a cluster that does not know them, still sees groups.
async fn shown(api: &Api, scope: &Scope) -> Vec<Kind> {
    let namespace = match scope {
        Scope::Cluster => None,
        Scope::Namespaces(names) => names.first().map(String::as_str),
    };
    let mut shown = vec![Kind::StatefulSet, Kind::Pod];
    match api.list(Place::collection(Kind::PhasedRollout, namespace), &[("limit", "1")]).await {
        Err(ApiError::NotFound(_)) => {}
        Err(ApiError::Forbidden(why)) => eprintln!("sts-plus: PhasedRollouts are not shown: {why}"),
        // Whatever else is wrong is told by whoever looks at the rest.
        Ok(_) | Err(_) => shown.push(Kind::PhasedRollout),
    }
    shown
}

fn print(page: &str, arguments: &Arguments, first: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if arguments.watch && arguments.output == Output::Table && !first {
        writeln!(out)?;
    }
    // A reader that has gone away, such as head, is no failure of ours.
    match out.write_all(page.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

/// Every group as the planner sees it now and every rollout as its status says, and when that changes by itself.
fn look(cache: &Cache, only: Option<&str>) -> (Vec<Section>, Option<Timestamp>) {
    let now = Timestamp::now();
    let mut wake_at: Option<Timestamp> = None;
    let mut sections = Vec::new();
    for (namespace, group) in cache.store().groups() {
        if only.is_some_and(|only| only != &*group) {
            continue;
        }
        let domain = Domain { namespace, group };
        let decision = plan(&world(cache.store(), &domain, BTreeMap::new()), now);
        wake_at = [wake_at, decision.plan.wake_at].into_iter().flatten().min();
        sections.push(Section::Group(Group::new(&domain, &decision)));
    }
    if only.is_none() {
        let rollouts = cache.store().rollouts();
        sections.extend(rollouts.iter().map(|row| Section::Rollout(Box::new(Rollout::new(row)))));
    }
    (sections, wake_at)
}
