//! What goes on around an API server whether or not anybody asks.
//!
//! One task follows all changes and hands each to those whom it concerns: the [`garbage`] collector, namespaces that
//! end, protection of claims in use, budgets, quotas and endpoint slices. Each decides from what is stored now; missing a
//! change or seeing it twice makes no difference. They write to the store directly, in a fixed order, so that a run
//! repeats.

mod budgets;
mod garbage;
mod namespaces;
mod protection;
mod quotas;
mod slices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::machinery::object;
use crate::machinery::service::Server;
use crate::machinery::state::State;
use crate::machinery::store::{Key, KindId};

/// Changes of a kind that are looked at while nobody else may write.
const BATCH: usize = 200;

/// Rounds in a row while nobody else may write: as many as a change takes to come to its end, and some more.
const ROUNDS: usize = 8;

/// An object that has changed, as a controller needs it.
struct Seen {
    key: Key,
    /// Group and plural of its kind.
    group: String,
    plural: String,
    object: Arc<Value>,
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
    /// Namespaces in which claims, budgets or slices may have to change.
    claims: BTreeSet<String>,
    budgets: BTreeSet<String>,
    slices: BTreeSet<String>,
    /// Namespaces in which something came, went or changed.
    quotas: BTreeSet<String>,
    volumes: bool,
}

/// Runs the controllers of a server until it is dropped.
pub async fn run(server: Server) {
    let mut controllers = Controllers::default();
    let mut changed = server.lock().store.subscribe_all();
    loop {
        changed.forget();
        while controllers.rounds(&mut server.lock()) {
            // Others may write meanwhile.
            tokio::task::yield_now().await;
        }
        if changed.hear().await.is_err() {
            return;
        }
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
        if seen.is_empty() {
            return false;
        }
        for one in &seen {
            self.garbage.take(one);
            self.namespaces.take(one);
            self.note(one);
        }
        self.garbage.work(state);
        self.namespaces.work(state);
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
            let seen = |key: &Key, object: &Arc<Value>, deleted: bool| Seen {
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
            }
        }
        found
    }
}

#[cfg(test)]
#[path = "controllers_tests.rs"]
mod tests;
