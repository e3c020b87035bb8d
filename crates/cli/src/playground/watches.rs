//! Watches of the objects that only the playground shows: nodes, the nodes of pods, ConfigMaps and events.
//!
//! Each kind is followed by a task of its own: a watch that begins with all objects, and is started again when it ends.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::TryStreamExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams};
use sts_plus_api::keys;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::cache;
use super::objects::{Name, Object};
use super::observed::{Change, Seen};

/// Changes that may wait to be shown; then the watches wait, and the server closes those that wait for too long.
pub(super) const MAX_WAITING_CHANGES: usize = 1024;

/// The pause before a watch that has failed is started again.
const RETRY: Duration = Duration::from_millis(500);

/// Follows everything that is shown; the tasks end when `tasks` is dropped.
pub(super) fn follow(client: &kube::Client, tasks: &mut JoinSet<()>) -> mpsc::Receiver<Change> {
    let (changes, received) = mpsc::channel(MAX_WAITING_CHANGES);
    let (listed, is_listed) = oneshot::channel();
    tasks.spawn(cache::follow(client.clone(), changes.clone(), listed));
    let watch = |kind: &str, read: Read| watch(client.clone(), kind.to_owned(), read, changes.clone());
    tasks.spawn(watch("Node", |seen| decoded(seen).map(Change::Nodes)));
    tasks.spawn(watch("Pod", |seen| decoded(seen).map(Change::Scheduled)));
    tasks.spawn(watch("ConfigMap", |seen| decoded(seen).map(Change::ConfigMaps)));
    let events = watch("Event", |seen| decoded(seen).map(Change::Events));
    tasks.spawn(async move {
        // Which events repeat others is known once the PhasedRollouts are.
        is_listed.await.ok();
        events.await;
    });
    received
}

/// Watches a kind of the core group until nobody receives the changes.
async fn watch(client: kube::Client, kind: String, read: Read, changes: mpsc::Sender<Change>) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", &kind));
    let api = Api::<DynamicObject>::all_with(client, &resource);
    while !changes.is_closed() {
        if let Err(error) = watch_once(&api, read, &changes).await {
            tracing::debug!("the playground's watch of {} is started again: {error}", resource.plural);
            tokio::time::sleep(RETRY).await;
        }
    }
}

type Read = fn(Seen<DynamicObject>) -> Option<Change>;

/// An object that cannot be decoded is not shown.
fn decoded<O: Object>(seen: Seen<DynamicObject>) -> Option<Seen<O>> {
    match seen {
        Seen::Object(object) => {
            serde_json::from_value(serde_json::to_value(object).ok()?).ok().map(Seen::Object)
        }
        Seen::Deleted(name) => Some(Seen::Deleted(name)),
        Seen::Listed(names) => Some(Seen::Listed(names)),
    }
}

/// One watch from its beginning to its end.
async fn watch_once(
    api: &Api<DynamicObject>,
    read: Read,
    changes: &mpsc::Sender<Change>,
) -> kube::Result<()> {
    let send = async |seen| {
        if let Some(change) = read(seen) {
            // The receiver is dropped when the playground ends.
            changes.send(change).await.ok();
        }
    };
    let mut listed = Some(BTreeSet::new());
    let mut events = std::pin::pin!(api.watch(&WatchParams::default().initial_events(), "").await?);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                listed.as_mut().map(|listed| listed.insert(name(&object)));
                send(Seen::Object(object)).await;
            }
            WatchEvent::Deleted(object) => send(Seen::Deleted(name(&object))).await,
            WatchEvent::Bookmark(bookmark) => {
                let is_end = bookmark.metadata.annotations.contains_key(keys::INITIAL_EVENTS_END);
                if let Some(listed) = listed.take_if(|_| is_end) {
                    send(Seen::Listed(listed)).await;
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
