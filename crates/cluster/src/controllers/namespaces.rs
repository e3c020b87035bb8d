//! Namespaces that end: first what is in them, then they themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Seen;
use crate::kinds::Kind;
use crate::machinery::delete::{self, DeleteOptions};
use crate::machinery::object;
use crate::machinery::state::State;
use crate::machinery::store::Key;
use crate::machinery::write;

/// The namespaces that are ending.
#[derive(Default)]
pub(super) struct Ending {
    names: BTreeSet<String>,
    due: BTreeSet<String>,
}

impl Ending {
    pub(super) fn take(&mut self, seen: &Seen) {
        if seen.is("", "namespaces") {
            if seen.deleted {
                self.names.remove(&seen.key.name);
            } else if object::is_deleting(&seen.object) {
                self.names.insert(seen.key.name.clone());
                self.due.insert(seen.key.name.clone());
            }
        } else if self.names.contains(&seen.key.namespace) {
            self.due.insert(seen.key.namespace.clone());
        }
    }

    pub(super) fn work(&mut self, state: &mut State) {
        for namespace in std::mem::take(&mut self.due) {
            let kinds: Vec<Arc<Kind>> = state.table.rows().filter(|row| row.namespaced).cloned().collect();
            let mut is_empty = true;
            for kind in kinds {
                let content: Vec<(Key, bool)> = state
                    .store
                    .list(kind.id, Some(&namespace))
                    .map(|(key, object)| (key.clone(), object::is_deleting(object)))
                    .collect();
                for (key, _) in content.iter().filter(|(_, is_deleting)| !is_deleting) {
                    // It may have gone in the meantime, which is what is wanted.
                    let _ = delete::delete(state, &kind, key, &DeleteOptions::default());
                }
                is_empty &= state.store.list(kind.id, Some(&namespace)).next().is_none();
            }
            if let (true, Some(row)) = (is_empty, state.row("", "namespaces")) {
                let key = row.key("", &namespace);
                write::amend(state, &row, &key, |namespace| {
                    object::child(namespace, "spec").remove("finalizers");
                });
            }
        }
    }
}
