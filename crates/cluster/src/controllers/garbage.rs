//! The garbage collector: what belongs to nobody any more goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Seen;
use crate::kinds::Kind;
use crate::machinery::delete::{self, DeleteOptions, FOREGROUND, ORPHAN, Propagation};
use crate::machinery::object::{self, text};
use crate::machinery::state::State;
use crate::machinery::store::Key;
use crate::machinery::stored::Stored;
use crate::machinery::write;

/// Who belongs to whom, by UID.
#[derive(Default)]
pub(super) struct Collector {
    /// Where each object is kept, with the names of its kind.
    entries: BTreeMap<String, Entry>,
    /// The UIDs of those who name an owner, by the owner's UID.
    dependents: BTreeMap<String, BTreeSet<String>>,
    due: BTreeSet<String>,
}

#[derive(Clone)]
struct Entry {
    key: Key,
    group: String,
    plural: String,
    owners: Vec<String>,
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object::list(object, "/metadata/finalizers").iter().any(|one| one == finalizer)
}

fn owners(object: &Value) -> Vec<String> {
    let references = object::list(object, "/metadata/ownerReferences");
    references.iter().map(|reference| text(reference, "/uid").to_owned()).collect()
}

impl Collector {
    pub(super) fn take(&mut self, seen: &Seen) {
        let uid = object::uid(&seen.object).to_owned();
        let known = self.entries.remove(&uid);
        for owner in known.iter().flat_map(|entry| &entry.owners) {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(&uid);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        // Those whom it belongs to may be waiting for it, those who belong to it have to be looked at.
        let owners = owners(&seen.object);
        self.due.extend(owners.iter().chain(known.iter().flat_map(|entry| &entry.owners)).cloned());
        if seen.deleted || object::is_deleting(&seen.object) {
            self.due.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        if seen.deleted {
            self.due.remove(&uid);
            return;
        }
        for owner in &owners {
            self.dependents.entry(owner.clone()).or_default().insert(uid.clone());
        }
        self.due.insert(uid.clone());
        let Seen { key, group, plural, .. } = seen;
        self.entries
            .insert(uid, Entry { key: key.clone(), group: group.clone(), plural: plural.clone(), owners });
    }

    /// Looks at everything again: something may have gone unseen.
    pub(super) fn recheck(&mut self) {
        self.due.extend(self.entries.keys().cloned());
    }

    pub(super) fn work(&mut self, state: &mut State) {
        for uid in std::mem::take(&mut self.due) {
            let Some(entry) = self.entries.get(&uid).cloned() else {
                continue;
            };
            let Some(kind) = state.row(&entry.group, &entry.plural) else {
                continue;
            };
            let Some(object) =
                state.store.get(&entry.key).filter(|object| object::uid(object) == uid).cloned()
            else {
                continue;
            };
            if object::is_deleting(&object) && has_finalizer(&object, ORPHAN) {
                self.release(state, &uid);
                drop_finalizer(state, &kind, &entry.key, ORPHAN);
            } else if object::is_deleting(&object)
                && has_finalizer(&object, FOREGROUND)
                && !self.is_blocked(state, &uid)
            {
                drop_finalizer(state, &kind, &entry.key, FOREGROUND);
            }
            // The references of now, not those of the last look: who has just been let go belongs to nobody.
            if !object::is_deleting(&object) && !owners(&object).is_empty() {
                self.judge(state, &kind, &entry.key, &object);
            }
        }
    }

    fn object(&self, state: &State, uid: &str) -> Option<Arc<Stored>> {
        let found = state.store.get(&self.entries.get(uid)?.key)?;
        (object::uid(found) == uid).then(|| Arc::clone(found))
    }

    /// Deletes an object none of whose owners is there, and forgets single owners that are not.
    fn judge(&self, state: &mut State, kind: &Arc<Kind>, key: &Key, object: &Value) {
        let references = object::list(object, "/metadata/ownerReferences");
        let (mut solid, mut waiting, mut dangling) = (0, 0, Vec::new());
        for reference in references {
            match self.owner(state, key, reference) {
                None => dangling.push(reference.clone()),
                Some(owner) if object::is_deleting(&owner) && has_finalizer(&owner, FOREGROUND) => {
                    waiting += 1;
                }
                Some(_) => solid += 1,
            }
        }
        if solid > 0 {
            if !dangling.is_empty() {
                write::amend(state, kind, key, |object| {
                    forget(object, |reference| dangling.contains(reference));
                });
            }
            return;
        }
        let has_dependents = self.dependents.contains_key(object::uid(object));
        let propagation = match (waiting > 0 && has_dependents, has_finalizer(object, ORPHAN)) {
            (true, _) => Propagation::Foreground,
            (false, true) => Propagation::Orphan,
            (false, false) if has_finalizer(object, FOREGROUND) => Propagation::Foreground,
            (false, false) => Propagation::Background,
        };
        let options = DeleteOptions {
            uid: Some(object::uid(object).to_owned()),
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        // It may have gone in the meantime, which is what is wanted.
        let _ = delete::delete(state, kind, key, &options);
    }

    /// The owner that a reference means, if it is there.
    fn owner(&self, state: &State, dependent: &Key, reference: &Value) -> Option<Arc<Stored>> {
        let owner = self.object(state, text(reference, "/uid"))?;
        let entry = self.entries.get(text(reference, "/uid"))?;
        let same = object::name(&owner) == text(reference, "/name")
            && text(&owner, "/kind") == text(reference, "/kind");
        (same && (entry.key.namespace.is_empty() || entry.key.namespace == dependent.namespace))
            .then_some(owner)
    }

    /// Whether somebody who wants to go first is still there.
    fn is_blocked(&self, state: &State, uid: &str) -> bool {
        let blocks = |dependent: &String| {
            self.object(state, dependent).is_some_and(|dependent| {
                object::list(&dependent, "/metadata/ownerReferences").iter().any(|reference| {
                    text(reference, "/uid") == uid
                        && reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
                })
            })
        };
        self.dependents.get(uid).into_iter().flatten().any(blocks)
    }

    /// Lets everybody go who belongs to an owner.
    fn release(&self, state: &mut State, uid: &str) {
        for dependent in self.dependents.get(uid).into_iter().flatten() {
            let Some(entry) = self.entries.get(dependent) else {
                continue;
            };
            if let Some(kind) = state.row(&entry.group, &entry.plural) {
                write::amend(state, &kind, &entry.key, |object| {
                    forget(object, |reference| text(reference, "/uid") == uid);
                });
            }
        }
    }
}

/// Drops references to owners.
fn forget(object: &mut Value, is_dropped: impl Fn(&Value) -> bool) {
    let metadata = object::metadata(object);
    if let Some(references) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        references.retain(|reference| !is_dropped(reference));
        if references.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

/// Lets go of an object.
pub(super) fn drop_finalizer(state: &mut State, kind: &Arc<Kind>, key: &Key, finalizer: &str) {
    write::amend(state, kind, key, |object| {
        let metadata = object::metadata(object);
        if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|one| one != finalizer);
            if finalizers.is_empty() {
                metadata.remove("finalizers");
            }
        }
    });
}
