//! The one observer: a single watch that stamps everything, so that its own delay cancels out.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use futures::StreamExt;
use kube::Client;
use kube::api::WatchEvent;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::say;
use crate::timeline::{Pod, Sight, Tracker, Turn};

/// Longer than any benchmark runs, in seconds.
const WATCH_SECONDS: u32 = 3600;

/// A server may end a watch early, one that falls behind for instance. An observer whose watch ends so often stamps
/// nothing in time.
const WATCHES: usize = 10;

/// Watches all pods of a cluster.
pub(crate) struct Observer {
    sights: Arc<Mutex<Vec<Sight>>>,
    renewals: Arc<AtomicUsize>,
    news: watch::Receiver<usize>,
    work: JoinSet<Result<()>>,
}

#[derive(Deserialize)]
struct Listed {
    metadata: ListMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

impl Observer {
    /// Begins to watch; pods that are there already are not told of.
    pub(crate) async fn start(client: Client) -> Result<Self> {
        let sights = Arc::<Mutex<Vec<Sight>>>::default();
        let renewals = Arc::<AtomicUsize>::default();
        let (tell, news) = watch::channel(0);
        let request = http::Request::get("/api/v1/pods?limit=1").body(Vec::new())?;
        let listed: Listed = client.request(request).await.context("list pods")?;
        let mut work = JoinSet::new();
        let (version, renewed) = (listed.metadata.resource_version, Arc::clone(&renewals));
        work.spawn(follow(client, version, Arc::clone(&sights), renewed, tell));
        Ok(Self { sights, renewals, news, work })
    }

    /// How often the server has ended the watch so far: what was seen next was stamped late.
    pub(crate) fn renewals(&self) -> usize {
        self.renewals.load(Ordering::Relaxed)
    }

    /// A point in the record, to ask later what came after it.
    pub(crate) fn mark(&self) -> usize {
        lock(&self.sights).len()
    }

    /// What was seen in a namespace since that point.
    pub(crate) fn since(&self, mark: usize, namespace: &str) -> Vec<Sight> {
        let sights = lock(&self.sights);
        sights.iter().skip(mark).filter(|sight| sight.namespace == namespace).cloned().collect()
    }

    /// Waits until a turn has been seen so often in a namespace since that point.
    pub(crate) async fn until(
        &mut self,
        mark: usize,
        namespace: &str,
        turn: Turn,
        times: usize,
        deadline: Duration,
    ) -> Result<()> {
        let (mut looked_at, mut count) = (mark, 0);
        let counted = async {
            loop {
                self.news.borrow_and_update();
                {
                    let sights = lock(&self.sights);
                    let new = sights.get(looked_at..).unwrap_or_default();
                    let wanted = |sight: &&Sight| sight.turn == turn && sight.namespace == namespace;
                    count += new.iter().filter(wanted).count();
                    looked_at = sights.len();
                }
                if count >= times {
                    return Ok(());
                }
                if self.news.changed().await.is_err() {
                    return self.work.join_next().await.context("the observer has ended")??;
                }
            }
        };
        match timeout(deadline, counted).await {
            Ok(counted) => counted,
            Err(_) => {
                Err(anyhow!("after {deadline:?} only {count} of {times} pods in {namespace} were {turn:?}"))
            }
        }
    }
}

async fn follow(
    client: Client,
    mut version: String,
    sights: Arc<Mutex<Vec<Sight>>>,
    renewed: Arc<AtomicUsize>,
    tell: watch::Sender<usize>,
) -> Result<()> {
    let start = Instant::now();
    let mut tracker = Tracker::default();
    for _ in 0..WATCHES {
        let path =
            format!("/api/v1/pods?watch=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}");
        let request = http::Request::get(path).body(Vec::new())?;
        let mut events = pin!(client.request_events::<Pod>(request).await.context("watch pods")?);
        while let Some(event) = events.next().await {
            let at = start.elapsed();
            let event = event.context("the observer's watch")?;
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) = &event {
                pod.version().clone_into(&mut version);
            }
            let new = match event {
                WatchEvent::Added(pod) => tracker.seen(&pod, at),
                WatchEvent::Modified(pod) => tracker.changed(&pod, at),
                WatchEvent::Deleted(pod) => vec![tracker.gone(&pod, at)],
                WatchEvent::Bookmark(_) => Vec::new(),
                WatchEvent::Error(status) => bail!("the observer's watch: {status:?}"),
            };
            let seen = {
                let mut sights = lock(&sights);
                sights.extend(new);
                sights.len()
            };
            tell.send_replace(seen);
        }
        say!("the server ended the observer's watch, which goes on from where it was");
        renewed.fetch_add(1, Ordering::Relaxed);
    }
    bail!("the server ended {WATCHES} watches of the observer")
}

fn lock(sights: &Mutex<Vec<Sight>>) -> MutexGuard<'_, Vec<Sight>> {
    sights.lock().unwrap_or_else(PoisonError::into_inner)
}
