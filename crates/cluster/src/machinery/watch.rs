//! Watches: the past of a kind from a version on, then whatever happens, as lines of JSON.
//!
//! A watcher holds a position, not a queue: it reads changes from the store's past when it is asked for more. One that
//! falls behind what the store remembers is cut off, and its client starts over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::answer::Refusal;
use super::object;
use super::read::{Filter, ListOptions, parse_version, unread_version};
use super::request::Request;
use super::schema::Cause;
use super::show::{self, View};
use super::state::State;
use super::store::Change;
use super::stored::Stored;

/// How long a watch lasts whose client does not say: as short as Kubernetes may choose.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);
/// How often a quiet watch says how far it has come.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long before its end a watch says how far it has come.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Changes that are looked at while nobody else may.
const BATCH: usize = 100;

/// A watch that has begun.
pub(crate) struct Watch {
    state: Arc<Mutex<State>>,
    view: View,
    filter: Filter,
    /// The version up to which everything has been told.
    position: u64,
    /// What was there when the watch began and has not been told.
    initial: VecDeque<Arc<Stored>>,
    /// Whether the end of what was there is yet to be told.
    owes_end: bool,
    ready: VecDeque<Vec<u8>>,
    changed: super::bell::Ear,
    bookmark: Option<Instant>,
    deadline: Instant,
    ended: bool,
}

/// Begins a watch; what cannot be watched is refused before the first line.
pub(crate) fn begin(shared: &Arc<Mutex<State>>, request: &Request, view: View) -> Result<Watch, Refusal> {
    let query = &request.query;
    let filter = Filter::read(request, &view.kind)?;
    let options = ListOptions::read(query, true)?;
    let timeout = query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
    let timeout = timeout.filter(|seconds| *seconds > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let version = options
        .version
        .as_deref()
        .map(parse_version)
        .transpose()
        .map_err(|why| unread_version(options.version.as_deref().unwrap_or_default(), &why))?;
    let mut state = shared.lock();
    if options.initial_events.is_some() && !state.gates.watch_list {
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        return Err(Refusal::options("ListOptions", &[Cause::forbidden("sendInitialEvents", why)]));
    }
    let current = state.store.version();
    let bookmarks = query.flag("allowWatchBookmarks");
    let begins_with_all = match options.initial_events {
        Some(wanted) => wanted,
        None => version.unwrap_or_default() == 0,
    };
    let from_the_future =
        version.filter(|version| options.initial_events == Some(true) && *version > current);
    let mut watch = Watch {
        changed: state.store.subscribe(view.kind.id),
        state: Arc::clone(shared),
        position: if begins_with_all { current } else { version.unwrap_or(current) },
        initial: VecDeque::new(),
        owes_end: options.initial_events == Some(true) && bookmarks,
        ready: VecDeque::new(),
        bookmark: None,
        deadline: Instant::now() + timeout,
        ended: false,
        view,
        filter,
    };
    if let Some(version) = from_the_future {
        let refusal = Refusal::from_the_future(version, current);
        watch.ready.push_back(show::event("ERROR", &refusal.status()));
        watch.ended = true;
    } else if begins_with_all {
        let namespace = watch.filter.namespace.as_deref();
        let objects = state.store.list(watch.view.kind.id, namespace);
        let wanted = objects.filter(|(key, object)| watch.filter.matches(key, object));
        watch.initial = wanted.map(|(_, object)| Arc::clone(object)).collect();
    } else if let Err(compacted) = state.store.changes(watch.view.kind.id, watch.position, 0).map(|_| ()) {
        let message = if watch.view.kind.habits.uncached {
            "The resourceVersion for the provided watch is too old.".to_owned()
        } else {
            format!("too old resource version: {} ({})", watch.position, compacted.compacted)
        };
        watch.ready.push_back(show::event("ERROR", &Refusal::expired(message).status()));
        watch.ended = true;
    }
    if bookmarks {
        watch.bookmark = Some(watch.next_bookmark(Instant::now()));
    }
    Ok(watch)
}

impl Watch {
    /// The lines, until the watch ends.
    pub(crate) fn lines(self) -> impl Stream<Item = Bytes> {
        futures::stream::unfold(self, async |mut watch| {
            let line = watch.next().await?;
            Some((line.into(), watch))
        })
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            if let Some(object) = self.initial.pop_front() {
                return Some(self.view.event("ADDED", &object));
            }
            if std::mem::take(&mut self.owes_end) {
                return Some(self.view.bookmark(self.position, true));
            }
            self.changed.forget();
            if self.read() {
                continue;
            }
            let bookmark = self.bookmark;
            tokio::select! {
                biased;
                changed = self.changed.hear() => self.ended = changed.is_err(),
                () = tokio::time::sleep_until(bookmark.unwrap_or(self.deadline)), if bookmark.is_some() => {
                    self.bookmark = Some(self.next_bookmark(Instant::now()));
                    let told = self.told();
                    return Some(self.view.bookmark(told, false));
                }
                () = tokio::time::sleep_until(self.deadline) => self.ended = true,
            }
        }
    }

    /// Reads what has changed. True where there may be more to read.
    fn read(&mut self) -> bool {
        let state = self.state.lock();
        let Ok(changes) = state.store.changes(self.view.kind.id, self.position, BATCH) else {
            self.ended = true;
            return true;
        };
        let mut seen = 0;
        for change in changes {
            seen += 1;
            self.position = change.version;
            self.ready.extend(line(&self.view, &self.filter, change));
        }
        seen > 0
    }

    /// The version that a bookmark may name: everything up to it has been told.
    fn told(&mut self) -> u64 {
        let state = self.state.lock();
        // The caller has just found no change after the position, and none came in since: it would have woken up.
        if state
            .store
            .changes(self.view.kind.id, self.position, 1)
            .is_ok_and(|mut changes| changes.next().is_none())
        {
            self.position = self.position.max(state.store.version());
        }
        self.position
    }

    fn next_bookmark(&self, now: Instant) -> Instant {
        let regular = now + BOOKMARK_EVERY;
        match self.deadline.checked_sub(BOOKMARK_BEFORE_END) {
            Some(last) if last > now && last < regular => last,
            _ => regular,
        }
    }
}

/// What a watcher is told of a change: an object that no longer matches is gone for it, one that begins to is new.
fn line(view: &View, filter: &Filter, change: &Change) -> Option<Vec<u8>> {
    let was = change.before.as_ref().filter(|before| filter.matches(&change.key, before));
    let is = !change.deleted && filter.matches(&change.key, &change.object);
    match (was, is) {
        (None, true) => Some(view.event("ADDED", &change.object)),
        (Some(_), true) => Some(view.event("MODIFIED", &change.object)),
        (Some(_), false) if change.deleted => Some(view.event("DELETED", &change.object)),
        (Some(before), false) => {
            let mut last = Value::clone(before);
            object::metadata(&mut last).insert("resourceVersion".into(), change.version.to_string().into());
            Some(view.event("DELETED", &Stored::new(last)))
        }
        (None, false) => None,
    }
}
