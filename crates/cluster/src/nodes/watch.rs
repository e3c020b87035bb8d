//! Following a collection: list, then watch, again and again, into rows of our own shape.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tracing::warn;

/// Objects per page of a list: some hundred kilobytes of pods, decoded and gone before the next.
const PAGE: u32 = 500;
/// Pause after the first failure; each further one doubles it.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause: a test must not wait much longer than its API server takes to come back.
const PAUSE_MOST: Duration = Duration::from_secs(5);
/// The code by which the server says that it no longer has the history asked for.
const GONE: u16 = 410;

/// What identifies an object for as long as it lives: its UID, cheap to pass around.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub(super) struct Key(Arc<str>);

impl From<String> for Key {
    fn from(uid: String) -> Self {
        Key(uid.into())
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self)
    }
}

/// An object as it is kept.
pub(super) trait Row: Clone + DeserializeOwned + Send + 'static {
    /// Which life the object belongs to.
    fn key(&self) -> &Key;
    /// Its resource version.
    fn version(&self) -> &str;
}

/// What happened in a collection.
#[derive(Debug)]
pub(super) enum Event<R> {
    /// The object is there and looks like this.
    Seen(R),
    /// The object is gone.
    Gone(Key),
    /// Everything that was there when following began has been seen. Comes once.
    Synced,
}

/// Why following stopped for a moment.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("cannot ask for {path}: {source}")]
    Ask { path: String, source: kube::core::request::Error },
    #[error("cannot list {path}: {source}")]
    List { path: String, source: kube::Error },
    #[error("cannot watch {path}: {source}")]
    Watch { path: String, source: kube::Error },
    #[error("the history of {path} is gone")]
    Expired { path: String },
    #[error("nobody listens")]
    Unheard,
}

#[derive(Deserialize)]
struct Page<R> {
    metadata: PageMeta,
    items: Vec<R>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Follows one collection and passes on what happens in it.
pub(super) struct Follower<R, I> {
    pub(super) client: Client,
    /// The collection, such as `/api/v1/pods`.
    pub(super) path: String,
    pub(super) listener: mpsc::Sender<I>,
    pub(super) wrap: fn(Event<R>) -> I,
}

/// How far following has come.
#[derive(Default)]
struct Position {
    /// The version to watch from; none before the first list and after the history was lost.
    version: Option<String>,
    known: BTreeSet<Key>,
    synced: bool,
    /// Whether the present attempt has brought anything.
    fruitful: bool,
}

impl<R: Row, I: Send + 'static> Follower<R, I> {
    /// Follows until nobody listens any more.
    pub(super) async fn run(self) {
        let mut position = Position::default();
        let mut failures = 0_u32;
        loop {
            position.fruitful = false;
            match self.step(&mut position).await {
                Ok(()) => {}
                Err(FollowError::Unheard) => return,
                Err(FollowError::Expired { .. }) => position.version = None,
                Err(error) => warn!(%error, "the watch failed and is retried"),
            }
            // In a burst the API server ends a watch every second or so: to go on from the last version without a
            // pause is the ordinary case.
            if position.fruitful {
                failures = 0;
            } else {
                failures = failures.saturating_add(1);
                let doubled = 1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX);
                tokio::time::sleep(PAUSE_FIRST.saturating_mul(doubled).min(PAUSE_MOST)).await;
            }
        }
    }

    async fn step(&self, position: &mut Position) -> Result<(), FollowError> {
        match position.version.clone() {
            None => self.list(position).await,
            Some(version) => self.watch(position, version).await,
        }
    }

    async fn list(&self, position: &mut Position) -> Result<(), FollowError> {
        let mut params = ListParams::default().limit(PAGE);
        let mut unseen = position.known.clone();
        let version = loop {
            let request = Request::new(&self.path).list(&params).map_err(|source| self.ask(source))?;
            let page: Page<R> = self.client.request(request).await.map_err(|source| match source {
                kube::Error::Api(status) if status.code == GONE => {
                    FollowError::Expired { path: self.path.clone() }
                }
                source => FollowError::List { path: self.path.clone(), source },
            })?;
            for row in page.items {
                unseen.remove(row.key());
                self.seen(position, row).await?;
            }
            params.continue_token = page.metadata.next.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break page.metadata.resource_version;
            }
        };
        for key in unseen {
            self.gone(position, key).await?;
        }
        position.version = Some(version);
        position.fruitful = true;
        if !std::mem::replace(&mut position.synced, true) {
            self.tell(Event::Synced).await?;
        }
        Ok(())
    }

    async fn watch(&self, position: &mut Position, version: String) -> Result<(), FollowError> {
        let watching = |source| match source {
            kube::Error::Api(status) if status.code == GONE => {
                FollowError::Expired { path: self.path.clone() }
            }
            source => FollowError::Watch { path: self.path.clone(), source },
        };
        let request = Request::new(&self.path)
            .watch(&WatchParams::default(), &version)
            .map_err(|source| self.ask(source))?;
        let events = self.client.request_events::<R>(request).await.map_err(watching)?;
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event.map_err(watching)? {
                WatchEvent::Added(row) | WatchEvent::Modified(row) => {
                    position.version = Some(row.version().to_owned());
                    self.seen(position, row).await?;
                }
                WatchEvent::Deleted(row) => {
                    position.version = Some(row.version().to_owned());
                    self.gone(position, row.key().clone()).await?;
                }
                WatchEvent::Bookmark(bookmark) => position.version = Some(bookmark.metadata.resource_version),
                WatchEvent::Error(status) => return Err(watching(kube::Error::Api(status))),
            }
            position.fruitful = true;
        }
        Ok(())
    }

    async fn seen(&self, position: &mut Position, row: R) -> Result<(), FollowError> {
        position.known.insert(row.key().clone());
        self.tell(Event::Seen(row)).await
    }

    async fn gone(&self, position: &mut Position, key: Key) -> Result<(), FollowError> {
        position.known.remove(&key);
        self.tell(Event::Gone(key)).await
    }

    async fn tell(&self, event: Event<R>) -> Result<(), FollowError> {
        self.listener.send((self.wrap)(event)).await.map_err(|_| FollowError::Unheard)
    }

    fn ask(&self, source: kube::core::request::Error) -> FollowError {
        FollowError::Ask { path: self.path.clone(), source }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
