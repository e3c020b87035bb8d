//! All that the view looks at, kept up to date by watches.
//!
//! Each kind is followed by a task of its own: a watch that begins with all there is, and begins anew when it ends. What
//! a new beginning no longer shows is gone.
//!
//! Watches of different kinds do not wait for each other, so a pod may be seen to be deleted before the revision that it is
//! deleted for. Whether a pod is outdated is shown with every line about it, so the revisions are read before a pod is shown
//! that has just appeared or stops.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, WatchEvent, WatchParams};
use sts_plus_api::keys;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::metrics;
use super::rows::{Event, Name, Node, Pod, Revision, Rollout, Row, Set, Settings};

/// Changes that may wait to be looked at; then the watches wait, and the server cuts off what waits for too long.
const MAX_WAITING_CHANGES: usize = 1024;

/// Reasons that are remembered: more than any screen has lines.
const MAX_REASONS: usize = 200;

/// The pause before a watch that has failed begins anew.
const RETRY: Duration = Duration::from_millis(500);

/// Something that was said, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) at: Timestamp,
    pub(super) words: String,
}

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) nodes: BTreeMap<Name, Node>,
    pub(super) sets: BTreeMap<Name, Set>,
    pub(super) revisions: BTreeMap<Name, Revision>,
    pub(super) pods: BTreeMap<Name, Pod>,
    pub(super) rollouts: BTreeMap<Name, Rollout>,
    /// What the playground's metrics are.
    pub(super) metrics: BTreeMap<String, String>,
    /// The last ones, the latest last.
    pub(super) reasons: VecDeque<Said>,
    /// How many there have been.
    pub(super) told: usize,
}

/// What has changed.
#[derive(Debug)]
pub(super) enum Change {
    Nodes(Shown<Node>),
    Sets(Shown<Set>),
    Revisions(Shown<Revision>),
    Pods(Shown<Pod>),
    Rollouts(Shown<Rollout>),
    Settings(Shown<Settings>),
    Events(Shown<Event>),
}

/// What a watch shows.
#[derive(Debug)]
pub(super) enum Shown<R> {
    Seen(R),
    Gone(Name),
    /// These are all.
    Only(BTreeSet<Name>),
}

impl Sight {
    /// Takes a change in. `now` is the time of a reason that has none of its own.
    pub(super) fn take(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Nodes(shown) => take(&mut self.nodes, shown),
            Change::Sets(shown) => take(&mut self.sets, shown),
            Change::Revisions(Shown::Seen(revision)) if self.knows_later(&revision) => {}
            Change::Revisions(shown) => take(&mut self.revisions, shown),
            Change::Pods(shown) => take(&mut self.pods, shown),
            Change::Rollouts(shown) => take(&mut self.rollouts, shown),
            Change::Settings(Shown::Seen(settings)) if settings.name() == metrics::place() => {
                self.metrics = settings.data;
            }
            Change::Settings(Shown::Gone(name)) if name == metrics::place() => self.metrics.clear(),
            Change::Events(Shown::Seen(event)) if event.is_reason() && !self.tells_twice(&event) => {
                self.tell(event.at().unwrap_or(now), event.words());
            }
            Change::Settings(_) | Change::Events(_) => {}
        }
    }

    /// Whether a revision that is shown has been read before in a later state: its number only grows.
    fn knows_later(&self, shown: &Revision) -> bool {
        self.revisions.get(&shown.name()).is_some_and(|known| known.revision > shown.revision)
    }

    /// The revision that the pods of a set shall have: the latest one. The set's status names it as well, but only after the
    /// first pods have been deleted for it.
    pub(super) fn target<'a>(&'a self, set: &'a Set) -> Option<&'a str> {
        let own = Some(set.name());
        let latest = self
            .revisions
            .values()
            .filter(|revision| revision.set() == own)
            .max_by_key(|revision| revision.revision);
        latest.map(Revision::called).or_else(|| set.target())
    }

    /// Whether an event of a set repeats that of its PhasedRollout, as each of them does.
    fn tells_twice(&self, event: &Event) -> bool {
        event.set().is_some_and(|set| self.rollouts.values().any(|rollout| rollout.target() == set))
    }

    /// Remembers a reason, unless it was said already.
    pub(super) fn tell(&mut self, at: Timestamp, words: String) {
        let said = Said { at, words };
        if self.reasons.contains(&said) {
            return;
        }
        if self.reasons.len() >= MAX_REASONS {
            self.reasons.pop_front();
        }
        self.reasons.push_back(said);
        self.told += 1;
    }

    /// The zones that nodes are in.
    pub(super) fn zones(&self) -> Vec<&str> {
        let zones: BTreeSet<_> = self.nodes.values().filter_map(Node::zone).collect();
        zones.into_iter().collect()
    }
}

fn take<R: Row>(rows: &mut BTreeMap<Name, R>, shown: Shown<R>) {
    match shown {
        Shown::Seen(row) => {
            rows.insert(row.name(), row);
        }
        Shown::Gone(name) => {
            rows.remove(&name);
        }
        Shown::Only(names) => rows.retain(|name, _| names.contains(name)),
    }
}

/// Follows everything that is looked at; the tasks end when `tasks` is dropped.
pub(super) fn follow(client: &kube::Client, tasks: &mut JoinSet<()>) -> mpsc::Receiver<Change> {
    let (changes, received) = mpsc::channel(MAX_WAITING_CHANGES);
    let mut follow = |group: &str, version: &str, kind: &str, send: Send| {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let revisions = (kind == "Pod").then(|| revisions(client));
        let changes = changes.clone();
        tasks.spawn(async move {
            loop {
                if let Err(error) = watch(&api, send, revisions.as_ref(), &changes).await {
                    tracing::debug!("the view's watch of {} begins anew: {error}", resource.plural);
                    tokio::time::sleep(RETRY).await;
                }
                if changes.is_closed() {
                    return;
                }
            }
        });
    };
    follow("", "v1", "Node", |shown| decoded(shown).map(Change::Nodes));
    follow("apps", "v1", "StatefulSet", |shown| decoded(shown).map(Change::Sets));
    follow("apps", "v1", "ControllerRevision", |shown| decoded(shown).map(Change::Revisions));
    follow("", "v1", "Pod", |shown| decoded(shown).map(Change::Pods));
    follow("sts.plus", "v1alpha1", "PhasedRollout", |shown| decoded(shown).map(Change::Rollouts));
    follow("", "v1", "ConfigMap", |shown| decoded(shown).map(Change::Settings));
    follow("", "v1", "Event", |shown| decoded(shown).map(Change::Events));
    received
}

type Send = fn(Shown<DynamicObject>) -> Option<Change>;

/// What cannot be read is not shown: somebody else's kind of the same name, at worst.
fn decoded<R: Row>(shown: Shown<DynamicObject>) -> Option<Shown<R>> {
    match shown {
        Shown::Seen(object) => {
            serde_json::from_value(serde_json::to_value(object).ok()?).ok().map(Shown::Seen)
        }
        Shown::Gone(name) => Some(Shown::Gone(name)),
        Shown::Only(names) => Some(Shown::Only(names)),
    }
}

fn revisions(client: &kube::Client) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "ControllerRevision"));
    Api::all_with(client.clone(), &resource)
}

/// One watch from its beginning to its end. With `revisions`, those there are come before what is shown because of them.
async fn watch(
    api: &Api<DynamicObject>,
    read: Send,
    revisions: Option<&Api<DynamicObject>>,
    changes: &mpsc::Sender<Change>,
) -> kube::Result<()> {
    let send = async |shown| {
        if let Some(change) = read(shown) {
            // The receiver is gone when the view is; then nobody minds.
            changes.send(change).await.ok();
        }
    };
    let catch_up = async || -> kube::Result<()> {
        let Some(revisions) = revisions else { return Ok(()) };
        for revision in revisions.list(&ListParams::default()).await?.items {
            if let Some(shown) = decoded(Shown::Seen(revision)) {
                changes.send(Change::Revisions(shown)).await.ok();
            }
        }
        Ok(())
    };
    let mut all = Some(BTreeSet::new());
    let mut events = std::pin::pin!(api.watch(&WatchParams::default().initial_events(), "").await?);
    catch_up().await?;
    while let Some(event) = events.try_next().await? {
        let follows_from_a_revision = match &event {
            WatchEvent::Added(_) => all.is_none(),
            WatchEvent::Modified(object) => object.metadata.deletion_timestamp.is_some(),
            _ => false,
        };
        if follows_from_a_revision {
            catch_up().await?;
        }
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                all.as_mut().map(|all| all.insert(name(&object)));
                send(Shown::Seen(object)).await;
            }
            WatchEvent::Deleted(object) => send(Shown::Gone(name(&object))).await,
            WatchEvent::Bookmark(bookmark) => {
                let is_end = bookmark.metadata.annotations.contains_key(keys::INITIAL_EVENTS_END);
                if let Some(all) = all.take_if(|_| is_end) {
                    send(Shown::Only(all)).await;
                }
            }
            WatchEvent::Error(error) => return Err(kube::Error::Api(error)),
        }
        if changes.is_closed() {
            return Ok(());
        }
    }
    Ok(())
}

fn name(object: &DynamicObject) -> Name {
    let metadata = &object.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
#[path = "sight_tests.rs"]
mod tests;
