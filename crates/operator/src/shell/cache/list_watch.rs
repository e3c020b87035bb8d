//! Following one resource in one scope: a consistent first list, then every change, for ever.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sts_plus_api::keys;
use tokio::sync::watch;
use tokio::time::Instant;

use super::pages::Pages;
use super::store::{Applied, Name, Touched};
use super::wire::{Line, Marker, Page, Undecodable};
use super::{Cache, Listener};
use crate::shell::api::{Api, ApiError, LIST_TIMEOUT, Lines, Place, of_code};
use crate::shell::backoff;
use crate::shell::events::{Recorder, Regarding};
use crate::shell::kinds::{Handling, Kind, Need};
use crate::shell::metrics::ResourceLabel;
use crate::shell::rights::Right;

/// How long the server keeps a watch open. Long, since each renewal is a request; dead connections are found
/// by their silence instead.
const WATCH_SECONDS: &str = "590";

/// A watch that is silent for longer is dead: the server sends a bookmark every minute.
const IDLE_LIMIT: Duration = Duration::from_secs(150);

/// A list that sends nothing for that long has lost its connection.
const LIST_IDLE_LIMIT: Duration = Duration::from_secs(30);

/// From this consecutive failure on, what is the matter is logged as an error: the first ones may be a restart.
const LOUD_AFTER_FAILURES: u32 = 3;

/// How long after its definition a kind is seen at the latest: four requests a minute where nobody uses it.
const UNDEFINED_RETRY: Duration = Duration::from_secs(15);

/// The namespace of a right that is asked for in all of them.
const EVERYWHERE: &str = "*";

/// One resource in one scope.
pub(super) struct Source {
    number: usize,
    api: Api,
    cache: Cache,
    handling: Handling,
    namespace: Option<String>,
    recorder: Recorder,
    listener: Listener,
    /// The version to go on from; `None` when a list is needed.
    version: Option<String>,
    /// The round of lists that was last completed.
    completed: u64,
    /// Whether the server streams first lists; found out by trying.
    streams: bool,
    failures: u32,
}

impl Source {
    pub(super) fn new(
        number: usize,
        api: Api,
        cache: Cache,
        (handling, namespace): (Handling, Option<String>),
        recorder: Recorder,
        listener: Listener,
    ) -> Self {
        Self {
            number,
            api,
            cache,
            handling,
            namespace,
            recorder,
            listener,
            version: None,
            completed: 0,
            streams: true,
            failures: 0,
        }
    }

    /// Follows for ever; every failure is reported and retried.
    pub(super) async fn follow(mut self) {
        let mut wanted = self.cache.wanted(self.number);
        loop {
            wanted.borrow_and_update();
            let followed = tokio::select! {
                biased;
                () = changed(&mut wanted) => continue,
                followed = self.step() => followed,
            };
            match followed {
                Ok(()) => self.failures = 0,
                Err(error @ ApiError::Gone(_)) if self.version.is_some() => {
                    self.doubt(format!("cannot follow {} from where it was: {error}", self.handling.kind));
                    self.version = None;
                }
                Err(ApiError::NotFound(_)) if self.handling.kind.definition().custom => {
                    self.undefined(&mut wanted).await;
                }
                Err(error @ ApiError::Forbidden(_)) if self.handling.need == Need::Optional => {
                    self.forbidden(&error, &mut wanted).await;
                }
                // The feature for streamed lists is off, or the server is too old to know it.
                Err(ApiError::Refused { code: 400 | 422, .. }) if self.streams && self.version.is_none() => {
                    tracing::info!(resource = %self.handling.kind, "the API server does not support streaming lists; listing in pages");
                    self.streams = false;
                }
                Err(error) => self.wait_after(&error).await,
            }
        }
    }

    /// Lists if need be, then watches until the server ends it.
    async fn step(&mut self) -> Result<(), ApiError> {
        let round = *self.cache.wanted(self.number).borrow();
        // Compared rather than told: a round may be asked for at any time, also during the wait after a failure.
        if self.completed < round {
            self.version = None;
        }
        match self.version.clone() {
            Some(version) => {
                let query = [
                    ("resourceVersion", version.as_str()),
                    ("allowWatchBookmarks", "true"),
                    ("timeoutSeconds", WATCH_SECONDS),
                ];
                let lines = self.watch(&query).await?;
                self.cache.freshness.opened(self.number);
                self.cache.report(self.number, None, None);
                self.drain(lines).await
            }
            None if self.streams => self.stream(round).await,
            None => self.page(round).await,
        }
    }

    /// A streamed list with an empty version, which is a consistent read, and the watch that it turns into.
    async fn stream(&mut self, round: u64) -> Result<(), ApiError> {
        let query = [
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("resourceVersion", ""),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", WATCH_SECONDS),
        ];
        let mut lines = self.watch(&query).await?;
        let mut listed = HashSet::new();
        loop {
            let Some(line) = lines.next(LIST_IDLE_LIMIT).await? else {
                return Err(ApiError::Unanswered("the list ended before it was complete".to_owned()));
            };
            match self.take(&line)? {
                Taken::Object(name) => listed.extend(name),
                Taken::Bookmark { version, ends_list: true } => {
                    self.listed(round, version, &listed);
                    return self.drain(lines).await;
                }
                Taken::Bookmark { .. } => {}
            }
        }
    }

    /// A paged list without a version, which is a consistent read.
    async fn page(&mut self, round: u64) -> Result<(), ApiError> {
        let mut listed = HashSet::new();
        let mut pages = Pages::of(self.handling.selection.query(), LIST_TIMEOUT);
        loop {
            let bytes = pages.next(&self.api, self.place()).await?;
            let page: Page<'_> = serde_json::from_slice(&bytes)
                .map_err(|error| ApiError::Unanswered(format!("unreadable page: {error}")))?;
            for item in &page.items {
                listed.extend(self.upsert(item.get()).name);
            }
            if !pages.turn(&page) {
                self.listed(round, page.metadata.resource_version, &listed);
                return Ok(());
            }
        }
    }

    fn listed(&mut self, round: u64, version: String, listed: &HashSet<Name>) {
        let swept =
            self.cache.store.sweep(self.handling.kind, self.namespace.as_deref(), (listed, version.as_str()));
        for touched in swept {
            (self.listener)(touched);
        }
        self.cache.store.reach(self.handling.kind, self.namespace.as_deref(), &version);
        self.version = Some(version);
        self.completed = round;
        let label = ResourceLabel { resource: self.handling.kind.plural() };
        self.api.metrics().lists.get_or_create(&label).inc();
        tracing::info!(
            resource = %self.handling.kind,
            namespace = self.namespace.as_deref().unwrap_or("*"),
            objects = listed.len(),
            "listed"
        );
        self.count();
        self.cache.report(self.number, Some(round), None);
        for verb in ["list", "watch"] {
            self.api.rights().grant(&self.right(verb));
        }
        self.complete();
        // Also where it was confirmed before: a round of lists may be what somebody waits for.
        (self.listener)(Touched::Confirmed);
    }

    /// All that happened so far has been delivered.
    fn complete(&self) {
        if self.cache.freshness.complete(self.number) {
            self.cache.show_freshness(self.api.metrics());
            (self.listener)(Touched::Confirmed);
        }
    }

    /// A request has failed: until it is known that nothing was missed, the rows may be stale.
    fn doubt(&self, why: String) {
        self.cache.freshness.failed(self.number, why);
        self.cache.show_freshness(self.api.metrics());
    }

    async fn drain(&mut self, mut lines: Lines) -> Result<(), ApiError> {
        let mut silent = true;
        while let Some(line) = lines.next(IDLE_LIMIT).await? {
            if let Taken::Bookmark { version, .. } = self.take(&line)? {
                self.cache.store.reach(self.handling.kind, self.namespace.as_deref(), &version);
                self.version = Some(version);
                self.complete();
            } else {
                self.cache.freshness.event(self.number);
            }
            self.failures = 0;
            silent = false;
        }
        // One that runs its time brings bookmarks; asking again at once might go on for ever.
        if silent { Err(ApiError::Unanswered("the watch ended at once".to_owned())) } else { Ok(()) }
    }

    /// Takes in one line of a watch.
    fn take(&mut self, line: &[u8]) -> Result<Taken, ApiError> {
        let event = Line::read(line)
            .map_err(|error| ApiError::Unanswered(format!("unreadable watch event: {error}")))?;
        let marker = || serde_json::from_str::<Marker>(event.object).unwrap_or_default();
        match event.kind.as_ref() {
            "ADDED" | "MODIFIED" => Ok(Taken::Object(self.advance(event.object, true))),
            "DELETED" => {
                self.advance(event.object, false);
                Ok(Taken::Object(None))
            }
            "BOOKMARK" => {
                let metadata = marker().metadata;
                let annotations = metadata.annotations.unwrap_or_default();
                let ends_list =
                    annotations.get(keys::INITIAL_EVENTS_END).is_some_and(|value| value == "true");
                Ok(Taken::Bookmark { version: metadata.resource_version, ends_list })
            }
            _ => {
                let marker = marker();
                let code = http::StatusCode::from_u16(marker.code);
                Err(of_code(code.unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR), marker.message, None))
            }
        }
    }

    /// Takes in an object, and goes on from its version once the list is complete.
    fn advance(&mut self, object: &str, exists: bool) -> Option<Name> {
        let applied = if exists { self.upsert(object) } else { self.remove(object) };
        if self.version.is_some() {
            // Without a version the place in the stream is lost, and the next list finds it again.
            self.version = applied.version.map(Into::into);
            // Events come in the order of their versions, except during a list.
            if let Some(version) = &self.version {
                self.cache.store.reach(self.handling.kind, self.namespace.as_deref(), version);
            }
            self.count();
        }
        applied.name
    }

    fn upsert(&self, object: &str) -> Applied {
        let mut applied = self.cache.store.upsert(self.handling.kind, object);
        if let Some(undecodable) = &applied.undecodable {
            self.tell_undecodable(undecodable);
        }
        applied.touched.drain(..).for_each(|touched| (self.listener)(touched));
        applied
    }

    fn remove(&self, object: &str) -> Applied {
        let mut applied = self.cache.store.remove(self.handling.kind, object);
        applied.touched.drain(..).for_each(|touched| (self.listener)(touched));
        applied
    }

    fn count(&self) {
        let label = ResourceLabel { resource: self.handling.kind.plural() };
        let rows = i64::try_from(self.cache.store.count(self.handling.kind)).unwrap_or(i64::MAX);
        self.api.metrics().cached.get_or_create(&label).set(rows);
    }

    fn tell_undecodable(&self, object: &Undecodable) {
        let label = ResourceLabel { resource: self.handling.kind.plural() };
        self.api.metrics().undecodable.get_or_create(&label).inc();
        let message = format!("sts-plus cannot read this object and leaves it alone: {}", object.error);
        tracing::error!(resource = %self.handling.kind, namespace = %object.namespace, name = %object.name, message);
        let regarding = Regarding {
            resource: self.handling.kind,
            namespace: Arc::clone(&object.namespace),
            name: Arc::clone(&object.name),
            uid: object.uid.as_str().into(),
        };
        self.recorder.warn(regarding, "Undecodable", &message);
    }

    /// The server does not know the kind: there are no objects of it, and whoever does not use it is not kept waiting.
    async fn undefined(&mut self, wanted: &mut watch::Receiver<u64>) {
        let round = *self.cache.wanted(self.number).borrow();
        if self.failures == 0 {
            let definition = match self.handling.kind {
                Kind::Other(_) => "its CustomResourceDefinition",
                _ => "its definition with `sts-plus crds | kubectl apply -f -`",
            };
            tracing::warn!(
                resource = %self.handling.kind,
                "the cluster does not know this kind: apply {definition}"
            );
        }
        self.failures = self.failures.saturating_add(1);
        self.listed(round, String::new(), &HashSet::new());
        self.version = None;
        self.completed = 0;
        tokio::select! {
            biased;
            () = tokio::time::sleep(UNDEFINED_RETRY) => {}
            () = changed(wanted) => {}
        }
    }

    /// What can be done without the resource is done without it. The rows that are there stay, and stay unconfirmed, so that
    /// nothing is disrupted for what they say; rounds of lists do not wait for a list that will not come.
    async fn forbidden(&mut self, error: &ApiError, wanted: &mut watch::Receiver<u64>) {
        self.failures = self.failures.saturating_add(1);
        let round = *wanted.borrow_and_update();
        let (what, right) = (self.trouble(error), self.right(self.verb()));
        self.api.rights().deny(&right, &what);
        self.doubt(what.clone());
        self.cache.report(self.number, Some(round), Some(what));
        let soon = Instant::now() + backoff::delay(self.failures, self.api.chance());
        let until = self.api.rights().denied_until(&right).unwrap_or(soon);
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(until) => {}
            () = changed(wanted) => {}
        }
    }

    /// The verb that a list is asked for with.
    fn verb(&self) -> &'static str {
        if self.streams || self.version.is_some() { "watch" } else { "list" }
    }

    fn right(&self, verb: &'static str) -> Right {
        let namespace = self.namespace.as_deref().unwrap_or(EVERYWHERE).into();
        Right { verb, resource: self.handling.kind.plural().into(), namespace }
    }

    /// What keeps the source from going on, and what can be done about it.
    fn trouble(&self, error: &ApiError) -> String {
        let scope =
            self.namespace.as_deref().map_or("all namespaces".to_owned(), |ns| format!("namespace {ns}"));
        format!("cannot follow {} in {scope}: {error}; {}", self.handling.kind, remedy(error))
    }

    async fn wait_after(&mut self, error: &ApiError) {
        self.failures = self.failures.saturating_add(1);
        let delay = match error {
            ApiError::Throttled { retry_after } => *retry_after,
            _ => backoff::delay(self.failures, self.api.chance()),
        };
        let what = self.trouble(error);
        if self.failures == LOUD_AFTER_FAILURES || matches!(error, ApiError::Forbidden(_)) {
            tracing::error!(failures = self.failures, "{what}");
        } else {
            tracing::warn!(failures = self.failures, retry_in_ms = delay.as_millis(), "{what}");
        }
        self.doubt(what.clone());
        self.cache.report(self.number, None, Some(what));
        tokio::time::sleep(delay).await;
    }

    async fn watch(&self, query: &[(&str, &str)]) -> Result<Lines, ApiError> {
        let selection = self.handling.selection.query();
        let selection = selection.iter().map(|(key, value)| (*key, value.as_str()));
        let query: Vec<_> = query.iter().copied().chain(selection).collect();
        self.api.watch(self.place(), &query).await
    }

    fn place(&self) -> Place<'_> {
        let Handling { kind, form, .. } = self.handling;
        Place::collection(kind, self.namespace.as_deref()).in_form(form)
    }
}

/// What a line held.
enum Taken {
    /// An object, and its name if it exists.
    Object(Option<Name>),
    /// A version to go on from.
    Bookmark { version: String, ends_list: bool },
}

/// What the user can do about it.
fn remedy(error: &ApiError) -> &'static str {
    match error {
        ApiError::Forbidden(_) => {
            "grant the verbs list and watch as the chart's role does, or name the permitted namespaces with --namespace"
        }
        ApiError::NotFound(_) => "is this address a Kubernetes API server of version 1.33 or later?",
        _ => "is the API server up and reachable from here? Retrying",
    }
}

async fn changed(wanted: &mut watch::Receiver<u64>) {
    if wanted.changed().await.is_err() {
        // The cache is gone and so is this task soon.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
#[path = "list_watch_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "outage_tests.rs"]
mod outage_tests;

#[cfg(test)]
#[path = "undefined_tests.rs"]
mod undefined_tests;
