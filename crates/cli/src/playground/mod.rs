//! `sts-plus playground`: a cluster, the operator and two workloads in one process, shown on a screen or line by line.
//!
//! ```text
//!   keys ──> commands ──> API server <── operator, nodes, kubectl
//!                             │
//!                 cache (the operator's own), watches
//!                             v
//!                         Observed ──> View ──> Layout ──> draw (a terminal) or lines (anything else)
//! ```
//!
//! A key sends the requests of a kubectl command and shows that command: keys have no other way to change the cluster.

mod api_listener;
mod cache;
mod cluster;
mod commands;
mod commands_extended;
mod commands_scaling;
mod demo;
mod draw;
mod folder;
mod guide;
mod ingester;
mod layout;
mod lines;
mod metrics;
mod objects;
mod observed;
#[cfg(test)]
mod samples;
mod template;
mod terminal;
mod watches;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use jiff::Timestamp;
use sts_plus_cluster::Clock;
use sts_plus_cluster::machinery::service::{Server, Settings};
use sts_plus_cluster::nodes::Diary;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use api_listener::ApiListener;
use cluster::Cluster;
use commands::Key;
use demo::{Demo, Opening};
use folder::Folder;
use guide::Guide;
use layout::Layout;
use observed::Observed;
use terminal::{Display, Input};

/// Changes within this time are drawn together.
const SETTLE: Duration = Duration::from_millis(50);

/// How long connections may take to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// The default port of the API server.
const PORT: u16 = 7443;

/// The flags of the playground.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Keep the cluster and its kubeconfig in this folder [default: a temporary folder]
    #[arg(long, env = "STS_PLUS_DATA_DIR", value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The workloads to start with
    #[arg(long, value_enum, default_value_t, conflicts_with = "no_demo")]
    demo: Demo,
    /// Start without workloads
    #[arg(long)]
    no_demo: bool,
    /// The port of the API server; 0 for any free port
    #[arg(long, env = "STS_PLUS_PORT", default_value_t = PORT)]
    port: u16,
    /// The address of the API server; other machines can reach it unless it is a loopback address
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Start and stop pods without delay
    #[arg(long)]
    fast: bool,
}

/// Runs until the user quits or the process is asked to stop.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let folder = Folder::open(arguments.data_dir.as_deref())?;
    let diary = Diary::default();
    // First, since it locks the folder.
    let server = server(&folder)?.with_logs(Arc::new(diary.clone()));
    folder.log()?;
    let listener = ApiListener::bind(arguments.address, arguments.port, &folder).await?;
    let (stop, stopped) = watch::channel(false);
    stop_on_signals(&stop)?;
    let has_panicked = stop_on_panic(stop);
    let cluster = Cluster::start(&server, diary, arguments.fast).await?;
    let demo = (!arguments.no_demo).then_some(arguments.demo);
    let opening = match demo {
        Some(demo) if demo.apply_once(&cluster.client).await? => Opening::of(demo),
        _ => Opening::none(),
    };
    let guide = Guide::new(&listener.kubeconfig(&folder)?, demo);
    let playground = Playground { address: listener.url.clone(), guide, demo: demo.unwrap_or_default() };
    let (close, closed) = watch::channel(false);
    let mut listening = JoinSet::new();
    listener.serve(server, closed, &mut listening);
    let result = playground.run(&cluster.client, opening, stopped).await;
    cluster.stop().await;
    close.send_replace(true);
    tokio::time::timeout(CLOSE_LIMIT, listening.join_next()).await.ok();
    if has_panicked.load(Ordering::Relaxed) {
        bail!("the playground has stopped because a part of it has panicked");
    }
    result
}

/// The API server, with the objects that a kept folder holds.
fn server(folder: &Folder) -> Result<Server> {
    let now = Timestamp::now();
    // Generated names must differ from those of the run before.
    let seed = now.as_microsecond().unsigned_abs();
    let settings = Settings { seed, ..Settings::new(Clock::at(now)) };
    match folder {
        Folder::Temporary(_) => Server::new(settings).context("cannot start the API server"),
        Folder::Kept(_) => Ok(Server::open(settings, &folder.file("cluster.redb"))?),
    }
}

/// What does not change while the playground runs.
struct Playground {
    address: String,
    guide: Guide,
    /// Whose keys there are.
    demo: Demo,
}

impl Playground {
    /// Shows changes and runs the commands of keys, until `stopped` turns true or the user quits.
    async fn run(
        self,
        client: &kube::Client,
        mut opening: Opening,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<()> {
        let mut display = Display::open(&self.address, &self.guide)?;
        let mut inputs = display.inputs();
        let mut tasks = JoinSet::new();
        let mut changes = watches::follow(client, &mut tasks);
        let mut observed = Observed::default();
        let (mut last, mut turn) = (None, 0);
        let mut due = Some(Instant::now());
        loop {
            let mut key = None;
            tokio::select! {
                // The sender lives as long as the process.
                _ = stopped.wait_for(|stop| *stop) => return Ok(()),
                input = inputs.recv() => match input {
                    Some(Input::Key(character)) => key = Key::of(character, self.demo),
                    Some(Input::Resized) => due = Some(Instant::now()),
                    Some(Input::Quit) | None => return Ok(()),
                },
                change = changes.recv() => match change {
                    Some(change) => {
                        observed.take(change, Timestamp::now());
                        // Lines report every change, also what is over in a moment.
                        let is_lines = matches!(display, Display::Lines(_));
                        if is_lines && !self.show(&mut display, &mut observed, None)? {
                            return Ok(());
                        }
                        let soon = Instant::now() + SETTLE;
                        due = Some(due.map_or(soon, |due| due.min(soon)));
                    }
                    None => bail!("the cluster can no longer be watched"),
                },
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    if !self.show(&mut display, &mut observed, last.as_ref())? {
                        return Ok(());
                    }
                    let wait = |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now()));
                    let wait = observed.view.changes_at.map(|at| wait(at).unwrap_or_default());
                    due = wait.and_then(|wait| Instant::now().checked_add(wait));
                }
            }
            match key {
                Some(_) => opening.end(),
                None => key = opening.next(&observed),
            }
            if let Some(key) = key {
                let (command, shown) = press(client, key, &observed, turn).await;
                if let Some(command) = command {
                    observed.report(Timestamp::now(), format!("$ {command}"));
                }
                turn += 1;
                last = Some(shown);
                due = Some(Instant::now());
            }
        }
    }

    /// Shows what is observed now. False: the reader has closed the pipe.
    fn show(&self, display: &mut Display, observed: &mut Observed, last: Option<&String>) -> Result<bool> {
        observed.refresh(Timestamp::now());
        let (address, tries, last) = (self.address.clone(), self.guide.short(), last.cloned());
        let layout = Layout { address, tries, last, demo: self.demo, ..Layout::new(observed) };
        display.show(&layout).context("cannot write to the terminal")
    }
}

/// Runs the command of a key. Returns the command if it was run, and what to show of it.
async fn press(
    client: &kube::Client,
    key: Key,
    observed: &Observed,
    turn: usize,
) -> (Option<String>, String) {
    match commands::command(key, observed, turn) {
        Err(why) => (None, why.to_owned()),
        Ok(command) => match commands::run(client, &command).await {
            Ok(()) => (Some(command.line.clone()), format!("$ {}", command.line)),
            Err(error) => (None, format!("{}: {error}", command.line)),
        },
    }
}

/// Turns `stop` true when the process is asked to end.
fn stop_on_signals(stop: &watch::Sender<bool>) -> Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind).context("cannot listen for signals")?;
        let stop = stop.clone();
        tokio::spawn(async move {
            signals.recv().await;
            stop.send_replace(true);
        });
    }
    Ok(())
}

/// Restores the terminal before a panic is reported, in whichever thread, and ends the playground. Returns whether there was
/// one.
fn stop_on_panic(stop: watch::Sender<bool>) -> Arc<AtomicBool> {
    let has_panicked = Arc::new(AtomicBool::new(false));
    let (flag, report) = (Arc::clone(&has_panicked), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        flag.store(true, Ordering::Relaxed);
        terminal::restore();
        report(panic);
        stop.send_replace(true);
    }));
    has_panicked
}

#[cfg(test)]
#[path = "playground_tests.rs"]
mod tests;
