//! What goes on around an API server whether or not anybody asks.
//!
//! One task follows all changes and hands each to those whom it concerns: the [`garbage`] collector, namespaces that
//! end, nodes that fall silent and what they leave behind, the claim [`binder`] and protection of claims in use, the
//! [`scheduler`], budgets, quotas and endpoint slices. Each decides from what is stored now; missing a change or seeing
//! it twice makes no difference. They write to the store directly, in a fixed order, so that a run repeats.

mod binder;
mod budgets;
mod garbage;
mod loss;
mod namespaces;
mod protection;
mod quotas;
mod report;
mod scheduler;
mod slices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::machinery::object;
use crate::machinery::service::Server;
use crate::machinery::state::State;
use crate::machinery::store::{Key, KindId};
use crate::machinery::stored::Stored;

/// Changes of a kind that are looked at while nobody else may write.
const BATCH: usize = 200;

/// Consecutive rounds while nobody else may write: as many as a change takes to come to its end, and some more.
const ROUNDS: usize = 8;

/// An object that has changed, as a controller needs it.
struct Seen {
    key: Key,
    /// Group and plural of its kind.
    group: String,
    plural: String,
    object: Arc<Stored>,
    deleted: bool,
}

impl Seen {
    fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}

/// Everything that the controllers remember between two looks.
#[derive(Default)]
struct Controllers {
    /// The version up to which each kind has been seen.
    positions: BTreeMap<KindId, u64>,
    garbage: garbage::Collector,
    namespaces: namespaces::Ending,
    loss: loss::Loss,
    binder: binder::Binder,
    scheduler: scheduler::Scheduler,
    /// Namespaces in which claims, budgets or slices may have to change.
    claims: BTreeSet<String>,
    budgets: BTreeSet<String>,
    slices: BTreeSet<String>,
    /// Namespaces in which something came, went or changed.
    quotas: BTreeSet<String>,
    volumes: bool,
}

/// Runs the controllers of a server for as long as it is polled. A cluster without a storage class gets one, `standard`,
/// which is the default and whose volumes are made at once and reached from everywhere.
///
/// Hollow nodes on the same server leave pods and claims to these controllers:
/// [`Placement::Clusters`](crate::nodes::Placement::Clusters).
pub async fn run(server: Server) {
    let mut controllers = Controllers::default();
    let (mut changed, clock) = {
        let mut state = server.lock();
        found_storage(&mut state);
        (state.store.subscribe_all(), state.clock)
    };
    loop {
        changed.forget();
        while controllers.rounds(&mut server.lock()) {
            // Others may write meanwhile.
            tokio::task::yield_now().await;
        }
        let wake = controllers.loss.wake();
        tokio::select! {
            biased;
            heard = changed.hear() => if heard.is_err() {
                return;
            },
            () = tokio::time::sleep_until(clock.instant(wake.unwrap_or_default())), if wake.is_some() => {}
        }
    }
}

fn found_storage(state: &mut State) {
    const GROUP: &str = "storage.k8s.io";
    let has_some = !state.objects(GROUP, "storageclasses", None).is_empty();
    if let (false, Some(row)) = (has_some, state.row(GROUP, "storageclasses")) {
        crate::machinery::write::introduce(state, &row, crate::volumes::standard_class());
    }
}

impl Controllers {
    /// Acts until nothing changes any more, or for some rounds. True where there is more to do. What one of them does often
    /// takes another round to complete, such as the end of an owner after that of its last dependent: were everybody
    /// let in between, somebody who makes the dependent anew at once would be faster every time.
    fn rounds(&mut self, state: &mut State) -> bool {
        (0..ROUNDS).all(|_| self.round(state))
    }

    /// Looks at what has changed and acts. True where there is more to look at.
    fn round(&mut self, state: &mut State) -> bool {
        let seen = self.look(state);
        let is_late = self.loss.wake().is_some_and(|wake| wake <= state.clock.now());
        if seen.is_empty() && !is_late && !self.scheduler.has_work() {
            return false;
        }
        for one in &seen {
            self.garbage.take(one);
            self.namespaces.take(one);
            self.loss.take(one);
            self.binder.take(one);
            self.scheduler.take(one);
            self.note(one);
        }
        self.garbage.work(state);
        self.namespaces.work(state);
        self.loss.work(state);
        self.binder.work(state);
        self.scheduler.work(state, &mut self.binder);
        for namespace in std::mem::take(&mut self.claims) {
            protection::claims(state, &namespace);
        }
        if std::mem::take(&mut self.volumes) {
            protection::volumes(state);
        }
        for namespace in std::mem::take(&mut self.budgets) {
            budgets::count(state, &namespace);
        }
        for namespace in std::mem::take(&mut self.quotas) {
            quotas::count(state, &namespace);
        }
        for namespace in std::mem::take(&mut self.slices) {
            slices::write(state, &namespace);
        }
        true
    }

    fn note(&mut self, seen: &Seen) {
        let namespace = || seen.key.namespace.clone();
        if !seen.key.namespace.is_empty() {
            self.quotas.insert(namespace());
        }
        match (seen.group.as_str(), seen.plural.as_str()) {
            ("", "pods") => {
                if seen.deleted || object::is_deleting(&seen.object) {
                    self.claims.insert(namespace());
                }
                self.budgets.insert(namespace());
                self.slices.insert(namespace());
            }
            ("", "persistentvolumeclaims") if object::is_deleting(&seen.object) => {
                self.claims.insert(namespace());
            }
            ("", "persistentvolumes") if object::is_deleting(&seen.object) => self.volumes = true,
            ("", "services") => {
                self.slices.insert(namespace());
            }
            ("policy", "poddisruptionbudgets") | ("apps", "statefulsets" | "replicasets") => {
                self.budgets.insert(namespace());
            }
            _ => {}
        }
    }

    /// What has changed since the last look; all there is of a kind whose past is gone.
    fn look(&mut self, state: &State) -> Vec<Seen> {
        let mut found = Vec::new();
        let mut done = BTreeSet::new();
        for row in
            state.table.rows().filter(|row| row.versions.iter().all(|version| version.convert.is_none()))
        {
            if !done.insert(row.id) {
                continue;
            }
            let position = self.positions.entry(row.id).or_default();
            let seen = |key: &Key, object: &Arc<Stored>, deleted: bool| Seen {
                key: key.clone(),
                group: row.group.clone(),
                plural: row.plural.clone(),
                object: Arc::clone(object),
                deleted,
            };
            if let Ok(changes) = state.store.changes(row.id, *position, BATCH) {
                for change in changes {
                    *position = change.version;
                    found.push(seen(&change.key, &change.object, change.deleted));
                }
            } else {
                *position = state.store.version();
                found.extend(state.store.list(row.id, None).map(|(key, object)| seen(key, object, false)));
                self.garbage.recheck();
                self.loss.recheck();
                self.binder.recheck();
                self.scheduler.recheck();
            }
        }
        found
    }
}

#[cfg(test)]
#[path = "controllers_tests.rs"]
mod tests;
