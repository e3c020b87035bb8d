//! Which sources may be believed before a disruption.
//!
//! A source is confirmed while its last request did not fail and it was heard of lately. Age alone says little about a
//! kind that rarely changes, and a server need not send bookmarks: an unconfirmed source only leads to a consistent read
//! of what a decision is about (see `shell::confirmation`).

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::shell::kinds::Kind;

/// A source that is silent for longer is unconfirmed: the server sends a bookmark every minute, and half a minute more
/// leaves room for one that is late.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(90);

/// Why the rows of a source may be stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Whether its last request failed; otherwise it is silent, or has not caught up after a failure.
    pub failing: bool,
    /// The source and what is wrong with it.
    pub why: String,
}

/// What is known of all sources.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    sources: Mutex<Vec<Pulse>>,
}

#[derive(Debug)]
struct Pulse {
    resource: Kind,
    /// `None` for all of them.
    namespace: Option<String>,
    /// When it was last known to be up to date.
    heard: Option<Instant>,
    gap: Gap,
}

/// Whether something may have happened that a source has not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gap {
    None,
    /// The last request failed.
    Failed(String),
    /// It is answered again, and no list or bookmark has come since: events alone do not say how many are to follow.
    CatchingUp,
}

impl Pulse {
    fn concerns(&self, reads: &[Kind], namespace: &str) -> bool {
        reads.contains(&self.resource) && self.namespace.as_deref().is_none_or(|ns| ns == namespace)
    }

    fn is_confirmed(&self, now: Instant) -> bool {
        self.gap == Gap::None && self.heard.is_some_and(|heard| now.duration_since(heard) <= SILENCE_LIMIT)
    }

    fn doubt(&self) -> Doubt {
        let scope =
            self.namespace.as_deref().map_or("all namespaces".to_owned(), |ns| format!("namespace {ns}"));
        let resource = self.resource;
        match &self.gap {
            Gap::Failed(why) => Doubt { failing: true, why: why.clone() },
            Gap::CatchingUp => {
                let why = format!("the watch of {resource} in {scope} has not caught up after a failure");
                Doubt { failing: false, why }
            }
            Gap::None => {
                let limit = SILENCE_LIMIT.as_secs();
                let why = format!("the watch of {resource} in {scope} has been silent for over {limit} s");
                Doubt { failing: false, why }
            }
        }
    }
}

impl Freshness {
    pub(super) fn new(places: &[(Kind, &Option<String>)]) -> Self {
        let pulse = |(resource, namespace): &(Kind, &Option<String>)| Pulse {
            resource: *resource,
            namespace: (*namespace).clone(),
            heard: None,
            gap: Gap::None,
        };
        Self { sources: Mutex::new(places.iter().map(pulse).collect()) }
    }

    fn sources(&self) -> MutexGuard<'_, Vec<Pulse>> {
        self.sources.lock()
    }

    /// An event has come, in its order.
    pub(super) fn event(&self, source: usize) {
        let now = Instant::now();
        if let Some(pulse) = self.sources().get_mut(source).filter(|pulse| pulse.is_confirmed(now)) {
            pulse.heard = Some(now);
        }
    }

    /// A list is complete, or a bookmark has come: all that happened before has been delivered. Whether the source was
    /// unconfirmed until now.
    pub(super) fn complete(&self, source: usize) -> bool {
        let now = Instant::now();
        let mut sources = self.sources();
        let Some(pulse) = sources.get_mut(source) else { return false };
        let was_confirmed = pulse.is_confirmed(now);
        (pulse.heard, pulse.gap) = (Some(now), Gap::None);
        !was_confirmed
    }

    /// A request has failed.
    pub(super) fn failed(&self, source: usize, why: String) {
        if let Some(pulse) = self.sources().get_mut(source) {
            pulse.gap = Gap::Failed(why);
        }
    }

    /// A watch is answered.
    pub(super) fn opened(&self, source: usize) {
        if let Some(pulse) = self.sources().get_mut(source).filter(|pulse| pulse.gap != Gap::None) {
            pulse.gap = Gap::CatchingUp;
        }
    }

    /// Why rows of these resources in a namespace may be stale; `None` where every source of them is confirmed.
    pub(super) fn doubt(&self, reads: &[Kind], namespace: &str) -> Option<Doubt> {
        let now = Instant::now();
        let sources = self.sources();
        let concerned = sources.iter().filter(|pulse| pulse.concerns(reads, namespace));
        let doubts = concerned.filter(|pulse| !pulse.is_confirmed(now)).map(Pulse::doubt);
        doubts.max_by_key(|doubt| doubt.failing)
    }

    /// The numbers of the sources of these resources in a namespace.
    pub(super) fn concerned(&self, reads: &[Kind], namespace: &str) -> Vec<usize> {
        let sources = self.sources();
        let concerned = sources.iter().enumerate().filter(|(_, pulse)| pulse.concerns(reads, namespace));
        concerned.map(|(number, _)| number).collect()
    }

    /// How many sources of each resource are unconfirmed.
    pub(super) fn unconfirmed(&self) -> BTreeMap<&'static str, usize> {
        let now = Instant::now();
        let mut counts = BTreeMap::new();
        for pulse in self.sources().iter() {
            *counts.entry(pulse.resource.plural()).or_default() += usize::from(!pulse.is_confirmed(now));
        }
        counts
    }
}

#[cfg(test)]
#[path = "freshness_tests.rs"]
mod tests;
