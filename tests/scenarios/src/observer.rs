//! Watches a namespace from the start of a scenario to its end; what it makes of what it sees is up to its view.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, ObjectList, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use sts_plus_harness::wait::{NotYet, try_until};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::view::View;

/// Bounds hanging only: most of what is awaited takes a second or two on an idle machine.
pub const DEADLINE: Duration = Duration::from_mins(2);

/// The version is too old to watch from.
const GONE: u16 = 410;

/// What an onlooker makes of what it sees.
pub trait Onlooking: Debug + Default + Send + 'static {
    /// Guarantees that were broken.
    fn violations(&self) -> &[String];

    /// A guarantee is broken.
    fn violate(&mut self, words: String);

    /// Notes something for whoever reads the timeline, where there is more in it than what was seen.
    fn note(&mut self, _words: String) {}

    /// Everything that happened, one line each, for whoever looks for a fault.
    fn timeline(&self) -> String {
        String::new()
    }

    /// Takes in what is there after an interruption; what happened meanwhile cannot be judged.
    fn after_a_gap(&mut self, look: impl FnOnce(&mut Self));
}

/// Follows kinds of objects, and answers questions about them.
#[derive(Debug)]
pub struct Observer<V = View> {
    seen: Seen<V>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Seen<V> {
    view: Arc<Mutex<V>>,
    changes: watch::Sender<()>,
}

impl<V> Clone for Seen<V> {
    fn clone(&self) -> Self {
        Self { view: Arc::clone(&self.view), changes: self.changes.clone() }
    }
}

impl<V: Onlooking> Observer<V> {
    /// One who sees nothing yet.
    pub fn new() -> Self {
        let seen = Seen { view: Arc::default(), changes: watch::Sender::default() };
        Self { seen, tasks: JoinSet::new() }
    }

    /// Begins to watch objects; what there is by now is seen when this returns.
    pub async fn follow<K: Followed<V>>(&mut self, api: Api<K>) {
        let follower = Follower { api, seen: self.seen.clone() };
        let from = follower.list().await.unwrap();
        self.tasks.spawn(follower.follow(from));
    }

    /// All that has been seen so far.
    pub fn view(&self) -> MutexGuard<'_, V> {
        self.seen.lock()
    }

    /// Waits until the view is as asked for; `look` says what it sees instead.
    pub async fn until<T>(&self, what: &str, look: impl Fn(&V) -> Result<T, String>) -> T {
        let mut changes = self.seen.changes.subscribe();
        let deadline = Instant::now() + DEADLINE;
        loop {
            let seen = {
                let view = self.view();
                assert!(view.violations().is_empty(), "while waiting for {what}: {:#?}", view.violations());
                match look(&view) {
                    Ok(found) => return found,
                    Err(seen) => seen,
                }
            };
            let news = timeout_at(deadline, changes.changed()).await;
            assert!(news.is_ok(), "waited {DEADLINE:?} for {what}; last seen: {seen}");
        }
    }
}

impl<V: Onlooking> Default for Observer<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> Seen<V> {
    fn lock(&self) -> MutexGuard<'_, V> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut V)) {
        change(&mut self.lock());
        self.changes.send_replace(());
    }
}

/// A kind that is followed.
pub trait Followed<V>: Resource + Clone + DeserializeOwned + Debug + Send + 'static {
    /// It exists, in this state.
    fn seen(self, view: &mut V);

    /// One of this name does not exist any more.
    fn gone(name: &str, view: &mut V);

    /// It does not exist any more; this was its last state, with the version of its deletion.
    fn deleted(self, view: &mut V) {
        Self::gone(&self.name_any(), view);
    }

    /// The names that are known, with UIDs where another UID under the same name matters.
    fn names(view: &V) -> Vec<(String, Option<String>)>;
}

impl Followed<View> for Pod {
    fn seen(self, view: &mut View) {
        view.pod_seen(self.into());
    }

    fn gone(name: &str, view: &mut View) {
        view.pod_gone(name);
    }

    fn names(view: &View) -> Vec<(String, Option<String>)> {
        view.pods.values().map(|pod| (pod.name.clone(), Some(pod.uid.clone()))).collect()
    }
}

impl Followed<View> for StatefulSet {
    fn seen(self, view: &mut View) {
        view.set_seen(self.into());
    }

    fn gone(name: &str, view: &mut View) {
        view.set_gone(name);
    }

    fn names(view: &View) -> Vec<(String, Option<String>)> {
        view.sets.keys().map(|name| (name.clone(), None)).collect()
    }
}

struct Follower<K, V> {
    api: Api<K>,
    seen: Seen<V>,
}

impl<K: Followed<V>, V: Onlooking> Follower<K, V> {
    /// Follows for ever; the API server may go and come back meanwhile.
    async fn follow(self, mut version: String) {
        loop {
            let lost = match self.watch(&mut version).await {
                Ok(()) => continue,
                Err(kube::Error::Api(status)) => status.code == GONE,
                Err(_) => false,
            };
            let came_back = try_until(DEADLINE, "the API server to answer the onlooker", || async {
                let everything = self.api.list(&ListParams::default()).await?;
                Ok::<_, NotYet>(if lost {
                    let mut from = String::new();
                    self.seen.change(|view| view.after_a_gap(|view| from = take_in(everything, view)));
                    from
                } else {
                    version.clone()
                })
            });
            match came_back.await {
                Ok(from) => version = from,
                Err(error) => {
                    self.seen.change(|view| view.violate(error.to_string()));
                    return;
                }
            }
        }
    }

    /// Takes in everything there is, and returns the version it is at.
    async fn list(&self) -> kube::Result<String> {
        let everything = self.api.list(&ListParams::default()).await?;
        let mut from = String::new();
        self.seen.change(|view| from = take_in(everything, view));
        Ok(from)
    }

    async fn watch(&self, version: &mut String) -> kube::Result<()> {
        let mut events = self.api.watch(&WatchParams::default(), version).await?.boxed();
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    *version = object.resource_version().unwrap_or_default();
                    self.seen.change(|view| object.seen(view));
                }
                WatchEvent::Deleted(object) => {
                    *version = object.resource_version().unwrap_or_default();
                    self.seen.change(|view| object.deleted(view));
                }
                WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
        }
        Ok(())
    }
}

/// Takes in a complete list, and returns the version it is at.
fn take_in<K: Followed<V>, V>(list: ObjectList<K>, view: &mut V) -> String {
    for (name, uid) in K::names(view) {
        let still = list.items.iter().find(|object| object.name_any() == name);
        if still.is_none_or(|object| uid.is_some() && object.uid() != uid) {
            K::gone(&name, view);
        }
    }
    list.items.into_iter().for_each(|object| object.seen(view));
    list.metadata.resource_version.unwrap_or_default()
}
