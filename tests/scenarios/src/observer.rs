//! Watches a namespace from the start of a scenario to its end.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, ObjectList, WatchEvent, WatchParams};
use kube::{Api, Client, Resource, ResourceExt};
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

/// Follows pods and sets, and answers questions about them.
#[derive(Debug)]
pub struct Observer {
    seen: Seen,
    _tasks: JoinSet<()>,
}

#[derive(Clone, Debug)]
struct Seen {
    view: Arc<Mutex<View>>,
    changes: watch::Sender<()>,
}

impl Observer {
    /// Begins to watch a namespace; what is in it by now is seen when this returns.
    pub async fn start(client: &Client, namespace: &str) -> Self {
        let seen = Seen { view: Arc::default(), changes: watch::Sender::default() };
        let mut tasks = JoinSet::new();
        let pods = Follower { api: Api::<Pod>::namespaced(client.clone(), namespace), seen: seen.clone() };
        let sets =
            Follower { api: Api::<StatefulSet>::namespaced(client.clone(), namespace), seen: seen.clone() };
        let (pods_from, sets_from) = (pods.list().await.unwrap(), sets.list().await.unwrap());
        tasks.spawn(pods.follow(pods_from));
        tasks.spawn(sets.follow(sets_from));
        Self { seen, _tasks: tasks }
    }

    /// All that has been seen so far.
    pub fn view(&self) -> MutexGuard<'_, View> {
        self.seen.lock()
    }

    /// Waits until the view is as asked for; `look` says what it sees instead.
    pub async fn until<T>(&self, what: &str, look: impl Fn(&View) -> Result<T, String>) -> T {
        let mut changes = self.seen.changes.subscribe();
        let deadline = Instant::now() + DEADLINE;
        loop {
            let seen = {
                let view = self.view();
                assert!(view.violations.is_empty(), "while waiting for {what}: {:#?}", view.violations);
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

impl Seen {
    fn lock(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.lock());
        self.changes.send_replace(());
    }
}

/// A kind that is followed.
trait Followed:
    Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static
{
    fn seen(self, view: &mut View);
    fn gone(name: &str, view: &mut View);
    fn names(view: &View) -> Vec<(String, Option<String>)>;
}

impl Followed for Pod {
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

impl Followed for StatefulSet {
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

struct Follower<K> {
    api: Api<K>,
    seen: Seen,
}

impl<K: Followed> Follower<K> {
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
                    self.seen.change(|view| view.violations.push(error.to_string()));
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
                    self.seen.change(|view| K::gone(&object.name_any(), view));
                }
                WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
        }
        Ok(())
    }
}

/// Takes in a complete list, and returns the version it is at.
fn take_in<K: Followed>(list: ObjectList<K>, view: &mut View) -> String {
    for (name, uid) in K::names(view) {
        let still = list.items.iter().find(|object| object.name_any() == name);
        if still.is_none_or(|object| uid.is_some() && object.uid() != uid) {
            K::gone(&name, view);
        }
    }
    list.items.into_iter().for_each(|object| object.seen(view));
    list.metadata.resource_version.unwrap_or_default()
}
