//! Sets, pods, revisions and the objects of sts-plus, followed by the operator's own cache.
//!
//! Every change of a row makes a [`Snapshot`] of all rows, since lines report also what is over in a moment.
//!
//! Sources of different kinds do not wait for each other, so a pod may be seen terminating before the revision that it is
//! deleted for. Every line about a pod says whether it is outdated, so the revisions are read before a snapshot is shown in
//! which a pod has just appeared or terminates.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use sts_plus_operator::shell::api::{Api, ApiError, Kind, Place};
use sts_plus_operator::shell::cache::{Cache, Extent, Followed, Listener, Scope, Store, Touched};
use sts_plus_operator::shell::events;
use sts_plus_operator::shell::kinds::Handling;
use sts_plus_operator::shell::metrics::Metrics;
use sts_plus_operator::view::Snapshot;
use sts_plus_planner::statefulset::world::RevisionRow;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;

use super::objects::Name;
use super::observed::Change;
use super::template::Template;
use super::watches::MAX_WAITING_CHANGES;

/// What the view is made of.
const KINDS: [Kind; 7] = [
    Kind::StatefulSet,
    Kind::Pod,
    Kind::PhasedRollout,
    Kind::Extended,
    Kind::FissileExtended,
    Kind::ScalingPolicy,
    Kind::Revision,
];

/// Follows the rows and sends a change for each of theirs, until nobody receives them. The first one has all rows; `listed`
/// is told when it was sent.
pub(super) async fn follow(client: kube::Client, changes: mpsc::Sender<Change>, listed: oneshot::Sender<()>) {
    let api = Api::new(client, Metrics::new());
    let (queue, mut waiting) = mpsc::channel(MAX_WAITING_CHANGES);
    let snapshots = Arc::new(Snapshots::new(queue));
    let taker = Arc::clone(&snapshots);
    let listener: Listener = Arc::new(move |touched| match touched {
        Touched::Confirmed => {}
        _ => taker.take(),
    });
    let mut sources = JoinSet::new();
    // Objects that cannot be decoded are reported by the operator; this cache is only read.
    let (recorder, _unsent) = events::channel(api.clone(), String::new());
    let kinds = KINDS.map(Handling::of);
    // The keys of the playground edit templates, which the cache keeps where sets are controlled.
    let followed = Followed { kinds: &kinds, scope: &Scope::Cluster, extent: Extent::Controlling };
    let cache = Cache::follow(&api, followed, &recorder, &listener, &mut sources);
    cache.completed(Cache::first_round()).await;
    snapshots.begin(Arc::clone(cache.store()));
    let mut rows = Rows::new(api, Arc::clone(cache.store()));
    let mut listed = Some(listed);
    loop {
        let snapshot = tokio::select! {
            biased;
            Some(snapshot) = waiting.recv() => snapshot,
            () = snapshots.behind.notified() => {
                snapshots.take();
                continue;
            }
        };
        if changes.send(rows.change(snapshot).await).await.is_err() {
            return;
        }
        listed.take().map(|listed| listed.send(()));
    }
}

/// Takes snapshots and queues them.
struct Snapshots {
    /// Set once all objects are listed: before, each of them would make a snapshot.
    store: OnceLock<Arc<Store>>,
    queue: Mutex<mpsc::Sender<Snapshot>>,
    /// A snapshot was dropped because the queue was full, so one has to be taken when it is empty.
    behind: Notify,
}

impl Snapshots {
    fn new(queue: mpsc::Sender<Snapshot>) -> Self {
        Self { store: OnceLock::new(), queue: Mutex::new(queue), behind: Notify::new() }
    }

    /// Takes the first snapshot, and from now on one for every change.
    fn begin(&self, store: Arc<Store>) {
        self.store.set(store).ok();
        self.take();
    }

    fn take(&self) {
        let Some(store) = self.store.get() else { return };
        // Each source has a thread. The rows are read while the queue is locked, so that no snapshot is older than the one
        // queued before it.
        let queue = self.queue.lock();
        if queue.try_send(Snapshot::read(store)).is_err() {
            self.behind.notify_one();
        }
    }
}

/// Turns snapshots into changes.
struct Rows {
    api: Api,
    store: Arc<Store>,
    /// The pods of the snapshot before, by UID, and whether each was terminating.
    pods: HashMap<Box<str>, bool>,
    /// The revisions as they were last read.
    revisions: Vec<Arc<RevisionRow>>,
    /// The templates of the snapshot before, each with the text that it was read from.
    templates: BTreeMap<Name, (Arc<str>, Arc<Template>)>,
}

impl Rows {
    fn new(api: Api, store: Arc<Store>) -> Self {
        Self { api, store, pods: HashMap::new(), revisions: Vec::new(), templates: BTreeMap::new() }
    }

    async fn change(&mut self, mut snapshot: Snapshot) -> Change {
        if self.follows_from_a_revision(&snapshot) {
            match self.read_revisions().await {
                Ok(revisions) => self.revisions = revisions,
                Err(error) => tracing::debug!("ControllerRevisions cannot be read: {error}"),
            }
        }
        for revision in &self.revisions {
            snapshot.learn(Arc::clone(revision));
        }
        self.pods = snapshot.pods().map(|pod| (pod.uid.clone(), pod.terminating)).collect();
        self.templates = self.templates(&snapshot);
        let templates =
            self.templates.iter().map(|(name, (_, template))| (name.clone(), Arc::clone(template)));
        Change::Rows { templates: templates.collect(), snapshot }
    }

    /// Whether a pod has appeared, or terminates, since the snapshot before.
    fn follows_from_a_revision(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods().any(|pod| match self.pods.get(&pod.uid) {
            None => true,
            Some(terminating) => pod.terminating && !terminating,
        })
    }

    /// All revisions there are now. The list is consistent: it has every revision for which a pod in the cache was deleted.
    async fn read_revisions(&self) -> Result<Vec<Arc<RevisionRow>>, ApiError> {
        let bytes = self.api.list(Place::collection(Kind::Revision, None), &[]).await?;
        let list: List<'_> = serde_json::from_slice(&bytes)
            .map_err(|error| ApiError::Unanswered(format!("unreadable list: {error}")))?;
        let read = list.items.iter().filter_map(|item| self.store.read_revision(item.get()).ok());
        Ok(read.map(Arc::new).collect())
    }

    fn templates(&self, snapshot: &Snapshot) -> BTreeMap<Name, (Arc<str>, Arc<Template>)> {
        let sets = snapshot.sets().filter_map(|set| {
            let name = (set.namespace.to_string(), set.name.to_string());
            let text = Arc::clone(&self.store.set_spec(&set.namespace, &set.name)?.patch);
            let known = self.templates.get(&name).filter(|(known, _)| *known == text);
            let template = known.map_or_else(|| Template::parse(&text).into(), |(_, read)| Arc::clone(read));
            Some((name, (text, template)))
        });
        sets.collect()
    }
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
