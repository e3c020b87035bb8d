//! The caches: our own list-watch, decoding straight into rows.
//!
//! A source ([`list_watch`]) follows one resource in one scope. Its first list is consistent, either streamed
//! or, where the server does not offer that, paged. [`Cache::doubt`] says which rows may be stale, [`Cache::confirm`]
//! takes in a consistent read of what a decision is about, and [`Cache::resync`] makes all sources list again.

mod claims;
mod confirmed;
mod control;
mod extended;
mod freshness;
mod intern;
mod list_watch;
mod locks;
mod object;
mod others;
mod owned;
mod pages;
mod pods;
mod revisions;
mod rollouts;
mod scaling;
mod services;
mod sets;
mod store;
mod tables;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

pub use confirmed::Part;
pub(super) use confirmed::Reading;
pub use freshness::{Doubt, SILENCE_LIMIT};
pub(super) use object::ReadObject;
pub(super) use pages::Pages;
pub use store::{Seen, Store, Touched, is_older};

use super::api::{Api, Kind};
use super::events::Recorder;
use super::kinds::{Handling, Need};
use super::metrics::{Metrics, ResourceLabel};
use freshness::Freshness;
use list_watch::Source;
pub use wire::Extent;
pub(super) use wire::Page;

/// Which namespaces are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    Cluster,
    /// These.
    Namespaces(Vec<String>),
}

#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    pub kinds: &'a [Handling],
    /// Where.
    pub scope: &'a Scope,
    /// How much is kept of sets and pods: more where sets are controlled.
    pub extent: Extent,
}

/// The caches of a process.
#[derive(Clone)]
pub struct Cache {
    store: Arc<Store>,
    freshness: Arc<Freshness>,
    kinds: Arc<[Handling]>,
    listener: Listener,
    /// For each source, the round of lists that is wanted of it. One channel would wake them in random order.
    wanted: Vec<watch::Sender<u64>>,
    progress: watch::Sender<Progress>,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("freshness", &self.freshness).finish_non_exhaustive()
    }
}

/// How far the sources are.
#[derive(Debug, Default)]
struct Progress {
    /// For each source, the highest round of lists that it has completed.
    completed: BTreeMap<usize, u64>,
    /// For each source, what keeps it from going on.
    trouble: BTreeMap<usize, String>,
}

/// Called for everything that a controller may have to look at.
pub type Listener = Arc<dyn Fn(Touched) + Send + Sync>;

impl Cache {
    /// Starts following these kinds in the scope, all of which are needed, to steer sets that somebody else controls; the
    /// tasks live in `tasks`.
    pub fn start(
        api: &Api,
        (kinds, scope): (&[Kind], &Scope),
        recorder: &Recorder,
        listener: &Listener,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let needed = kinds.iter().map(|kind| Handling { need: Need::Required, ..Handling::of(*kind) });
        let kinds: Vec<_> = needed.collect();
        let followed = Followed { kinds: &kinds, scope, extent: Extent::Steering };
        Self::follow(api, followed, recorder, listener, tasks)
    }

    /// Starts following; the tasks live in `tasks`.
    pub fn follow(
        api: &Api,
        Followed { kinds, scope, extent }: Followed<'_>,
        recorder: &Recorder,
        listener: &Listener,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (progress, _) = watch::channel(Progress::default());
        let namespaces: Vec<Option<String>> = match scope {
            Scope::Cluster => vec![None],
            Scope::Namespaces(names) => names.iter().cloned().map(Some).collect(),
        };
        let everywhere = [None];
        let places = kinds.iter().flat_map(|handling| {
            let is_namespaced = handling.kind.definition().namespaced;
            let scopes = if is_namespaced { namespaces.as_slice() } else { everywhere.as_slice() };
            scopes.iter().map(move |namespace| (*handling, namespace))
        });
        let places: Vec<_> = places.collect();
        let wanted = places.iter().map(|_| watch::Sender::new(1)).collect();
        let pulses: Vec<_> = places.iter().map(|(handling, namespace)| (handling.kind, *namespace)).collect();
        let (store, freshness) = (Arc::new(Store::with(extent)), Arc::new(Freshness::new(&pulses)));
        let (listener, kinds) = (Arc::clone(listener), kinds.into());
        let cache = Self { store, freshness, kinds, listener, wanted, progress };
        cache.progress.send_modify(|progress| {
            progress.completed = (0..places.len()).map(|source| (source, 0)).collect();
        });
        for (number, (handling, namespace)) in places.into_iter().enumerate() {
            let source = Source::new(
                number,
                api.clone(),
                cache.clone(),
                (handling, namespace.clone()),
                recorder.clone(),
                Arc::clone(&cache.listener),
            );
            tasks.spawn(source.follow());
        }
        cache
    }

    /// A cache of rows that nothing follows: all of them count as confirmed.
    pub fn unfollowed(store: Arc<Store>) -> Self {
        let (progress, _) = watch::channel(Progress::default());
        let (freshness, kinds) = (Arc::default(), Arc::default());
        Self { store, freshness, kinds, listener: Arc::new(|_| {}), wanted: Vec::new(), progress }
    }

    /// How a kind is handled that is followed, or would be.
    pub fn handling(&self, kind: Kind) -> Handling {
        let followed = self.kinds.iter().find(|followed| followed.kind == kind);
        followed.copied().unwrap_or_else(|| Handling::of(kind))
    }

    /// Whether objects of a kind come into view at all.
    pub fn follows(&self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|followed| followed.kind == kind)
    }

    /// Why rows of these resources in a namespace may be stale; `None` where every source of them is confirmed.
    pub fn doubt(&self, reads: &[Kind], namespace: &str) -> Option<Doubt> {
        self.freshness.doubt(reads, namespace)
    }

    /// Takes a consistent read in, and wakes whom it concerns.
    pub(super) fn confirm(&self, reading: Reading) {
        for touched in self.store.confirm(reading) {
            (self.listener)(touched);
        }
    }

    /// Shows how many sources are unconfirmed. Silence is not an event, so this is also called before the page is read.
    pub fn show_freshness(&self, metrics: &Metrics) {
        for (resource, count) in self.freshness.unconfirmed() {
            let gauge = metrics.unconfirmed_sources.get_or_create(&ResourceLabel { resource }).clone();
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Asks for a fresh consistent list of everything and names the round.
    pub fn resync(&self) -> Round {
        let mut named = Self::first_round();
        for source in &self.wanted {
            source.send_modify(|round| *round += 1);
            named = Round(*source.borrow());
        }
        named
    }

    /// The first round, which starts by itself.
    pub fn first_round() -> Round {
        Round(1)
    }

    /// Whether every source has completed that round.
    pub fn has_completed(&self, round: Round) -> bool {
        self.progress.borrow().completed.values().all(|completed| *completed >= round.0)
    }

    /// Whether every source of these resources in a namespace has completed that round: whoever reads nothing else need not
    /// wait for sources that fail elsewhere.
    pub fn has_listed(&self, round: Round, reads: &[Kind], namespace: &str) -> bool {
        let concerned = self.freshness.concerned(reads, namespace);
        let progress = self.progress.borrow();
        concerned.iter().all(|source| progress.completed.get(source).is_some_and(|done| *done >= round.0))
    }

    /// Waits until every source has completed that round.
    pub async fn completed(&self, round: Round) {
        let mut progress = self.progress.subscribe();
        let done = |progress: &Progress| progress.completed.values().all(|completed| *completed >= round.0);
        // The sender lives in `self`, so the wait cannot fail.
        progress.wait_for(done).await.map(|_| ()).unwrap_or_default();
    }

    /// The round of lists that is wanted of a source.
    fn wanted(&self, source: usize) -> watch::Receiver<u64> {
        match self.wanted.get(source) {
            Some(wanted) => wanted.subscribe(),
            // Nobody will ever want anything of a source that there is not.
            None => watch::channel(1).1,
        }
    }

    /// What keeps a source from going on, if anything does.
    pub fn trouble(&self) -> Option<String> {
        self.progress.borrow().trouble.values().next().cloned()
    }

    fn report(&self, source: usize, completed: Option<u64>, trouble: Option<String>) {
        self.progress.send_if_modified(|progress| {
            if let Some(round) = completed {
                progress.completed.insert(source, round);
            }
            let before = match trouble {
                Some(trouble) => progress.trouble.insert(source, trouble),
                None => progress.trouble.remove(&source),
            };
            completed.is_some() || before.is_some()
        });
    }
}

/// A round of consistent lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round(u64);
