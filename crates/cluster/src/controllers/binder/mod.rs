//! The claim binder: gives claims volumes, makes such volumes, and takes them back.
//!
//! Every class provisions here, whatever its provisioner is called, except `kubernetes.io/no-provisioner`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use self::choice::{Choice, annotate};
use super::Seen;
use super::report::{self, Event};
use super::scheduler::Need;
use crate::kinds::Kind;
use crate::machinery::delete::{self, DeleteOptions};
use crate::machinery::object::{self, text};
use crate::machinery::state::State;
use crate::machinery::stored::Stored;
use crate::machinery::write;
use crate::volumes::{self, BIND_COMPLETED, BOUND_BY_CONTROLLER, Fate};

mod choice;

const COMPONENT: &str = "persistentvolume-controller";
/// Where the scheduler writes which node a claim's first pod goes to.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Namespace and name of a claim.
type ClaimName = (String, String);

/// What the binder remembers between two looks.
#[derive(Default)]
pub(super) struct Binder {
    due_claims: BTreeSet<ClaimName>,
    due_volumes: BTreeSet<String>,
    /// Claims without a volume, which any new volume or class may help.
    pending: BTreeSet<ClaimName>,
    /// Volumes that nobody has by UID.
    free: BTreeSet<String>,
    is_stale: bool,
}

impl Binder {
    pub(super) fn take(&mut self, seen: &Seen) {
        let object = &seen.object;
        if seen.is("", "persistentvolumeclaims") {
            let name = (seen.key.namespace.clone(), seen.key.name.clone());
            let volume = text(object, "/spec/volumeName");
            if !volume.is_empty() {
                self.due_volumes.insert(volume.to_owned());
            }
            self.due_volumes.insert(volumes::name_for(object::uid(object)));
            if seen.deleted {
                self.pending.remove(&name);
            } else {
                self.due_claims.insert(name);
            }
        } else if seen.is("", "persistentvolumes") {
            let name = seen.key.name.clone();
            let claim = |field: &str| text(object, &format!("/spec/claimRef/{field}")).to_owned();
            if !claim("name").is_empty() {
                self.due_claims.insert((claim("namespace"), claim("name")));
            }
            if !seen.deleted && claim("uid").is_empty() {
                self.free.insert(name.clone());
                self.due_claims.append(&mut self.pending.clone());
            } else {
                self.free.remove(&name);
            }
            self.due_volumes.insert(name);
        } else if seen.is("storage.k8s.io", "storageclasses") {
            self.due_claims.append(&mut self.pending.clone());
        }
    }

    /// Something may have gone unseen: everything is looked at again.
    pub(super) fn recheck(&mut self) {
        self.is_stale = true;
    }

    pub(super) fn work(&mut self, state: &mut State) {
        if std::mem::take(&mut self.is_stale) {
            let name = |object: &Arc<Stored>| object::name(object).to_owned();
            self.due_volumes.extend(state.objects("", "persistentvolumes", None).iter().map(name));
            self.free.retain(|name| state.object("", "persistentvolumes", "", name).is_some());
            self.pending.retain(|(namespace, name)| {
                state.object("", "persistentvolumeclaims", namespace, name).is_some()
            });
        }
        let (Some(claims), Some(volumes)) =
            (state.row("", "persistentvolumeclaims"), state.row("", "persistentvolumes"))
        else {
            return;
        };
        for name in std::mem::take(&mut self.due_volumes) {
            self.volume(state, &volumes, &name);
        }
        for name in std::mem::take(&mut self.due_claims) {
            let key = claims.key(&name.0, &name.1);
            let Some(claim) = state.store.get(&key).cloned() else {
                self.pending.remove(&name);
                continue;
            };
            if choice::is_bound(&claim) {
                self.pending.remove(&name);
                keep_bound(state, &claims, &volumes, &claim);
            } else if !object::is_deleting(&claim) {
                self.pending.insert(name);
                self.open(state, &claim, None);
            }
        }
    }

    /// A claim without a volume. `node` is where its first pod goes.
    fn open(&mut self, state: &mut State, claim: &Arc<Stored>, node: Option<&Value>) {
        let Some(claim) = with_class(state, claim) else {
            return;
        };
        let class = class_of(state, &claim);
        match choice::choose(
            &claim,
            class.as_deref().map(Stored::value),
            &self.candidates(state, &claim),
            node,
        ) {
            Choice::Bind(volume) => self.bind(state, &claim, &volume),
            Choice::Provision(terms) => {
                let (Some(class), Some(row)) = (class, state.row("", "persistentvolumes")) else {
                    return;
                };
                let volume = choice::new_volume(&claim, &class, terms);
                let name = object::name(&volume).to_owned();
                write::introduce(state, &row, volume);
                self.bind(state, &claim, &name);
            }
            Choice::Wait(reason, message) => {
                let kind = if reason == "WaitForFirstConsumer" { "Normal" } else { "Warning" };
                report::event(
                    state,
                    &claim,
                    &Event { kind, reason, message: &message, component: COMPONENT },
                );
            }
        }
    }

    /// The volumes that a claim may get.
    fn candidates(&self, state: &State, claim: &Value) -> Vec<Arc<Stored>> {
        let own = volumes::name_for(object::uid(claim));
        let names = self.free.iter().map(String::as_str);
        let reserved = [own.as_str(), text(claim, "/spec/volumeName")];
        let found = names.chain(reserved).filter_map(|name| state.object("", "persistentvolumes", "", name));
        found
            .filter(|volume| {
                text(volume, "/spec/claimRef/name").is_empty() || choice::is_reserved_for(volume, claim)
            })
            .cloned()
            .collect()
    }

    fn bind(&mut self, state: &mut State, claim: &Value, volume: &str) {
        let (Some(claims), Some(rows)) =
            (state.row("", "persistentvolumeclaims"), state.row("", "persistentvolumes"))
        else {
            return;
        };
        let key = rows.key("", volume);
        write::amend(state, &rows, &key, |volume| {
            let is_reserved = !text(volume, "/spec/claimRef/name").is_empty();
            let claim_ref =
                volumes::claim_ref(object::namespace(claim), object::name(claim), object::uid(claim));
            object::child(volume, "spec").insert("claimRef".into(), claim_ref);
            if !is_reserved {
                annotate(volume, BOUND_BY_CONTROLLER, "yes");
            }
            object::child(volume, "status").insert("phase".into(), "Bound".into());
        });
        let Some(bound) = state.store.get(&key).cloned() else {
            return;
        };
        self.free.remove(volume);
        let key = claims.key(object::namespace(claim), object::name(claim));
        write::amend(state, &claims, &key, |claim| {
            annotate(claim, BIND_COMPLETED, "yes");
            if text(claim, "/spec/volumeName").is_empty() {
                annotate(claim, BOUND_BY_CONTROLLER, "yes");
                object::child(claim, "spec").insert("volumeName".into(), volume.into());
            }
            show_bound(claim, &bound);
        });
    }

    /// A volume: whose it is, and what becomes of it without its claim.
    fn volume(&mut self, state: &mut State, rows: &Arc<Kind>, name: &str) {
        let key = rows.key("", name);
        let Some(volume) = state.store.get(&key).cloned() else {
            self.free.remove(name);
            return;
        };
        let field = |field: &str| text(&volume, &format!("/spec/claimRef/{field}")).to_owned();
        let (namespace, claim, uid) = (field("namespace"), field("name"), field("uid"));
        let phase = if uid.is_empty() {
            self.free.insert(name.to_owned());
            "Available"
        } else {
            let claim = state.object("", "persistentvolumeclaims", &namespace, &claim);
            let is_here = claim.is_some_and(|claim| {
                let other = text(claim, "/spec/volumeName");
                object::uid(claim) == uid && (other.is_empty() || other == name)
            });
            if is_here { "Bound" } else { "Released" }
        };
        write::amend(state, rows, &key, |volume| {
            object::child(volume, "status").insert("phase".into(), phase.into());
        });
        let fate = Fate::of(text(&volume, "/spec/persistentVolumeReclaimPolicy"));
        if phase == "Released" && fate == Fate::Delete && !object::is_deleting(&volume) {
            // It may have gone in the meantime, which is what is wanted.
            let _ = delete::delete(state, rows, &key, &DeleteOptions::default());
        }
    }

    /// What the claims of a pod ask of its node, or why no node will do.
    pub(super) fn needs(&self, state: &State, pod: &Value) -> Result<Vec<Need>, String> {
        let mut needs = Vec::new();
        for claim in claims_of(pod) {
            let Some(found) = state.object("", "persistentvolumeclaims", object::namespace(pod), claim)
            else {
                return Err(format!("persistentvolumeclaim {claim:?} not found"));
            };
            if object::is_deleting(found) {
                return Err(format!("persistentvolumeclaim {claim:?} is being deleted"));
            }
            let class = class_of(state, found);
            if choice::is_bound(found) {
                let volume = text(found, "/spec/volumeName");
                let Some(volume) = state.object("", "persistentvolumes", "", volume) else {
                    let why = "bound to non-existent persistentvolume";
                    return Err(format!("persistentvolumeclaim {claim:?} {why} {volume:?}"));
                };
                needs.extend(choice::terms(volume).map(Need::Bound));
            } else if let Some(class) = class.filter(|class| choice::waits_for_pod(Some(class))) {
                needs.push(Need::Open(choice::places(found, &class, &self.candidates(state, found))));
            } else {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
        }
        Ok(needs)
    }

    /// Gives the open claims of a pod their volumes now that its node is known. True where all have one.
    pub(super) fn settle(&mut self, state: &mut State, pod: &Value, node: &Value) -> bool {
        let Some(row) = state.row("", "persistentvolumeclaims") else {
            return false;
        };
        claims_of(pod).into_iter().all(|claim| {
            let key = row.key(object::namespace(pod), claim);
            if state.store.get(&key).is_some_and(|claim| choice::is_bound(claim)) {
                return true;
            }
            write::amend(state, &row, &key, |claim| annotate(claim, SELECTED_NODE, object::name(node)));
            if let Some(claim) = state.store.get(&key).cloned() {
                self.open(state, &claim, Some(node));
            }
            state.store.get(&key).is_some_and(|claim| choice::is_bound(claim))
        })
    }
}

fn claims_of(pod: &Value) -> Vec<&str> {
    let volumes = object::list(pod, "/spec/volumes").iter();
    volumes
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
        .collect()
}

fn class_of(state: &State, claim: &Value) -> Option<Arc<Stored>> {
    state.object("storage.k8s.io", "storageclasses", "", text(claim, "/spec/storageClassName")).cloned()
}

/// A claim with its class: one that names none gets the default, also when that comes later.
fn with_class(state: &mut State, claim: &Arc<Stored>) -> Option<Arc<Stored>> {
    if claim.pointer("/spec/storageClassName").is_some_and(|class| !class.is_null()) {
        return Some(Arc::clone(claim));
    }
    let classes = state.objects("storage.k8s.io", "storageclasses", None);
    let Some(class) = volumes::default_class(&classes) else {
        return Some(Arc::clone(claim));
    };
    let row = state.row("", "persistentvolumeclaims")?;
    let key = row.key(object::namespace(claim), object::name(claim));
    write::amend(state, &row, &key, |claim| {
        object::child(claim, "spec").insert("storageClassName".into(), object::name(class).into());
    })
}

/// Shows on a claim what its volume has.
fn show_bound(claim: &mut Value, volume: &Value) {
    let status = object::child(claim, "status");
    status.insert("phase".into(), "Bound".into());
    let spec = volume.get("spec").unwrap_or(&Value::Null);
    object::keep(status, spec, "accessModes");
    object::keep(status, spec, "capacity");
}

/// A claim that had a volume: lost if that is gone, and grown if it asks for more and may.
fn keep_bound(state: &mut State, claims: &Arc<Kind>, rows: &Arc<Kind>, claim: &Arc<Stored>) {
    let key = claims.key(object::namespace(claim), object::name(claim));
    let volume_key = rows.key("", text(claim, "/spec/volumeName"));
    let is_foreign = |volume: &Arc<Stored>| text(volume, "/spec/claimRef/uid") != object::uid(claim);
    if state.store.get(&volume_key).is_none_or(is_foreign) {
        write::amend(state, claims, &key, |claim| {
            let status = object::child(claim, "status");
            status.clear();
            status.insert("phase".into(), "Lost".into());
        });
        let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        let event = Event { kind: "Warning", reason: "ClaimLost", message, component: COMPONENT };
        report::event(state, claim, &event);
        return;
    }
    let may_grow = class_of(state, claim)
        .is_some_and(|class| class.get("allowVolumeExpansion") == Some(&Value::Bool(true)));
    let wanted = text(claim, "/spec/resources/requests/storage").to_owned();
    write::amend(state, rows, &volume_key, |volume| {
        if may_grow && choice::asked(claim) > choice::capacity_of_volume(volume) {
            let capacity = object::entry(object::child(volume, "spec"), "capacity");
            capacity.insert("storage".into(), wanted.into());
        }
    });
    if let Some(volume) = state.store.get(&volume_key).cloned() {
        write::amend(state, claims, &key, |claim| show_bound(claim, &volume));
    }
}

#[cfg(test)]
#[path = "binder_tests.rs"]
mod tests;
