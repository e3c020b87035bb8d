//! `sts-plus playground`: a cluster, the operator and something to roll, in one process and in front of your eyes.
//!
//! ```text
//!   keys ──> deeds ──> API server <── operator, nodes, kubectl
//!                          │ watched
//!                          v
//!                        sight ──> Picture ──> draw (a terminal) or lines (anything else)
//! ```
//!
//! A key changes the cluster by the request that a kubectl command would send, and shows that command: there is no
//! other way in.

mod cluster;
mod deeds;
mod demo;
mod door;
mod draw;
mod folder;
mod guide;
mod lines;
mod metrics;
mod picture;
mod rows;
#[cfg(test)]
mod samples;
mod sight;
mod terminal;

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

use cluster::Cluster;
use deeds::{Wish, deed, perform};
use door::Door;
use folder::Folder;
use guide::Guide;
use picture::Picture;
use sight::Sight;
use terminal::{Display, Input};

/// Changes within this time make one picture.
const SETTLE: Duration = Duration::from_millis(50);

/// How long connections may take to end.
const SHUT_LIMIT: Duration = Duration::from_secs(2);

/// Where kubectl finds the playground unless told otherwise.
const PORT: u16 = 7443;

/// How the playground is to be.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Keep the cluster and its kubeconfig in this folder [default: nothing is kept]
    #[arg(long, env = "STS_PLUS_DATA_DIR", value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Start with an empty cluster
    #[arg(long)]
    no_demo: bool,
    /// The port of the API server, 0 for any
    #[arg(long, env = "STS_PLUS_PORT", default_value_t = PORT)]
    port: u16,
    /// The address to listen on; any other than a loopback one lets others in
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Pods start and stop at once
    #[arg(long)]
    fast: bool,
}

/// Runs until somebody quits.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let folder = Folder::open(arguments.data_dir.as_deref())?;
    let diary = Diary::default();
    // First of all: it makes sure that nobody else has the folder.
    let server = serve_from(&folder)?.with_logs(Arc::new(diary.clone()));
    folder.log()?;
    let door = Door::open(arguments.address, arguments.port, &folder).await?;
    let (stop, stopped) = watch::channel(false);
    stop_on_signals(&stop)?;
    let has_panicked = stop_on_panic(stop);
    let cluster = Cluster::start(&server, diary, arguments.fast).await?;
    let begins = !arguments.no_demo && demo::begin(&cluster.client).await?;
    let guide = Guide::new(&door.kubeconfig(&folder)?, !arguments.no_demo);
    let scene = Scene { address: door.url.clone(), guide, starts_rollout: begins };
    let (shut, is_shut) = watch::channel(false);
    let mut listening = JoinSet::new();
    door.serve(server, is_shut, &mut listening);
    let played = scene.play(&cluster.client, stopped).await;
    cluster.stop().await;
    shut.send_replace(true);
    tokio::time::timeout(SHUT_LIMIT, listening.join_next()).await.ok();
    if has_panicked.load(Ordering::Relaxed) {
        bail!("the playground has stopped, since a part of it has panicked");
    }
    played
}

/// The API server: as it was left in a folder of the user's, else a new one.
fn serve_from(folder: &Folder) -> Result<Server> {
    let now = Timestamp::now();
    // What is made after a restart must not be called as what was made before.
    let seed = now.as_microsecond().unsigned_abs();
    let settings = Settings { seed, ..Settings::new(Clock::at(now)) };
    match folder {
        Folder::Temporary(_) => Server::new(settings).context("cannot start the API server"),
        Folder::Kept(_) => Ok(Server::open(settings, &folder.file("cluster.redb"))?),
    }
}

/// What does not change while the playground runs.
struct Scene {
    address: String,
    guide: Guide,
    /// Whether the first rollout starts by itself.
    starts_rollout: bool,
}

impl Scene {
    /// Shows what happens and does what keys say, until `stopped` turns true or somebody quits.
    async fn play(self, client: &kube::Client, mut stopped: watch::Receiver<bool>) -> Result<()> {
        let mut display = Display::open(&self.address, &self.guide)?;
        let mut inputs = display.inputs();
        let mut watches = JoinSet::new();
        let mut changes = sight::follow(client, &mut watches);
        let mut sight = Sight::default();
        let mut waits_for_pods = self.starts_rollout;
        let (mut last, mut turn) = (None, 0);
        let mut due = Some(Instant::now());
        loop {
            let mut wish = None;
            tokio::select! {
                // The sender lives as long as the process.
                _ = stopped.wait_for(|stop| *stop) => return Ok(()),
                input = inputs.recv() => match input {
                    Some(Input::Key(key)) => wish = Wish::of(key),
                    Some(Input::Resized) => due = Some(Instant::now()),
                    Some(Input::Quit) | None => return Ok(()),
                },
                change = changes.recv() => match change {
                    Some(change) => {
                        sight.take(change, Timestamp::now());
                        due.get_or_insert_with(|| Instant::now() + SETTLE);
                        // Lines tell of everything, also of what is over in a moment.
                        let tells = matches!(display, Display::Lines(_));
                        if tells && !display.show(&self.picture(&sight, None)).context("cannot write")? {
                            return Ok(());
                        }
                    }
                    None => bail!("the cluster can no longer be watched"),
                },
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    due = None;
                    let picture = self.picture(&sight, last.clone());
                    if !display.show(&picture).context("cannot draw")? {
                        return Ok(());
                    }
                }
            }
            if waits_for_pods && demo::is_up(&sight) {
                waits_for_pods = false;
                wish = Some(Wish::NextRollout);
            }
            if let Some(wish) = wish {
                let (command, done) = self.fulfil(client, wish, &sight, turn).await;
                if let Some(command) = command {
                    sight.tell(Timestamp::now(), format!("$ {command}"));
                }
                turn += 1;
                last = Some(done);
                due = Some(Instant::now());
            }
        }
    }

    /// Does what a key stands for. Returns the command that was carried out, and what to show of it.
    async fn fulfil(
        &self,
        client: &kube::Client,
        wish: Wish,
        sight: &Sight,
        turn: usize,
    ) -> (Option<String>, String) {
        match deed(wish, sight, turn) {
            Err(why) => (None, why.to_owned()),
            Ok(deed) => match perform(client, &deed).await {
                Ok(()) => (Some(deed.command.clone()), format!("$ {}", deed.command)),
                Err(error) => (None, format!("{}: {error}", deed.command)),
            },
        }
    }

    fn picture(&self, sight: &Sight, last: Option<String>) -> Picture {
        Picture { address: self.address.clone(), tries: self.guide.short(), last, ..Picture::new(sight) }
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

/// Gives the terminal back before a panic is told, wherever it happens, and ends the playground. Says whether there was one.
fn stop_on_panic(stop: watch::Sender<bool>) -> Arc<AtomicBool> {
    let has_panicked = Arc::new(AtomicBool::new(false));
    let (flag, tell) = (Arc::clone(&has_panicked), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        flag.store(true, Ordering::Relaxed);
        terminal::leave();
        tell(panic);
        stop.send_replace(true);
    }));
    has_panicked
}

#[cfg(test)]
#[path = "playground_tests.rs"]
mod tests;
