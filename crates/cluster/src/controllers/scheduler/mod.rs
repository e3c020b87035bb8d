//! The scheduler: gives pods to nodes, and says of those that fit nowhere why not.
//!
//! What is asked of a node, and what is not, is in [`place`]; neither resources nor preemption play a part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use self::place::{Nodes, Placed, PodName, Unschedulable};
use super::Seen;
use super::binder::Binder;
use super::report::{self, Event};
use crate::machinery::object::{self, text};
use crate::machinery::state::State;
use crate::machinery::stored::Stored;
use crate::machinery::write;

pub(super) use self::place::{Need, is_tolerated};

mod place;
mod spread;
mod together;

const COMPONENT: &str = "default-scheduler";
/// Pods that are placed while nobody else may write.
const BATCH: usize = 200;

/// What the scheduler remembers between two looks.
#[derive(Default)]
pub(super) struct Scheduler {
    nodes: Nodes,
    namespaces: Nodes,
    placed: Placed,
    due: BTreeSet<PodName>,
    /// Those that fitted nowhere when last looked at.
    waiting: BTreeMap<PodName, Arc<Stored>>,
    is_stale: bool,
}

impl Scheduler {
    pub(super) fn take(&mut self, seen: &Seen) {
        let is_change = match (seen.group.as_str(), seen.plural.as_str()) {
            ("", "nodes") => keep(&mut self.nodes, seen),
            ("", "namespaces") => keep(&mut self.namespaces, seen),
            ("", "pods") => self.pod(seen),
            ("", "persistentvolumeclaims" | "persistentvolumes") | ("storage.k8s.io", "storageclasses") => {
                true
            }
            _ => false,
        };
        if is_change {
            self.due.extend(std::mem::take(&mut self.waiting).into_keys());
        }
    }

    /// Takes in a pod. True where others may find a place because of it.
    fn pod(&mut self, seen: &Seen) -> bool {
        let name = (seen.key.namespace.clone(), seen.key.name.clone());
        if seen.deleted {
            self.due.remove(&name);
            self.waiting.remove(&name);
            return self.placed.forget(&name);
        }
        if is_ours(&seen.object) {
            // What was said of it is no reason to look again; what it asks for is.
            let asks = |pod: &Value| (pod.get("spec").cloned(), pod.pointer("/metadata/labels").cloned());
            if self.waiting.get(&name).is_none_or(|before| asks(before) != asks(&seen.object)) {
                self.waiting.remove(&name);
                self.due.insert(name);
            }
            return false;
        }
        self.due.remove(&name);
        self.waiting.remove(&name);
        self.placed.see(&seen.object)
    }

    /// Something may have gone unseen: what is known is read anew.
    pub(super) fn recheck(&mut self) {
        self.is_stale = true;
    }

    /// Whether there are pods to be looked at.
    pub(super) fn has_work(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn work(&mut self, state: &mut State, binder: &mut Binder) {
        if std::mem::take(&mut self.is_stale) {
            self.read(state);
        }
        let mut due: Vec<Arc<Stored>> = std::mem::take(&mut self.due)
            .into_iter()
            .filter_map(|(namespace, name)| state.object("", "pods", &namespace, &name).cloned())
            .filter(|pod| is_ours(pod))
            .collect();
        // The important first, then the old ones, as a queue would have it.
        due.sort_by_cached_key(|pod| {
            let priority = object::number(pod, "/spec/priority").unwrap_or_default();
            (std::cmp::Reverse(priority), text(pod, "/metadata/creationTimestamp").to_owned())
        });
        let later = due.split_off(due.len().min(BATCH));
        self.due.extend(later.iter().map(name_of));
        for pod in due {
            self.schedule(state, binder, &pod);
        }
    }

    fn read(&mut self, state: &State) {
        let by_name = |plural| {
            let all = state.objects("", plural, None).into_iter();
            all.map(|object| (object::name(&object).to_owned(), object)).collect()
        };
        self.nodes = by_name("nodes");
        self.namespaces = by_name("namespaces");
        self.placed = Placed::default();
        self.due.extend(std::mem::take(&mut self.waiting).into_keys());
        for pod in state.objects("", "pods", None) {
            if is_ours(&pod) {
                self.due.insert(name_of(&pod));
            } else {
                self.placed.see(&pod);
            }
        }
    }

    fn schedule(&mut self, state: &mut State, binder: &mut Binder, pod: &Arc<Stored>) {
        let nodes = self.nodes.len();
        let placed = binder
            .needs(state, pod)
            .map_err(|why| Unschedulable::Pod { nodes, why })
            .and_then(|needs| place::place(pod, &self.nodes, &self.placed, &needs, &self.namespaces));
        match placed {
            Ok(node) => {
                let Some(node) = self.nodes.get(&node).cloned() else {
                    return;
                };
                // A claim that another pod's choice has taken the volume from waits for the next look.
                if binder.settle(state, pod, &node) {
                    self.bind(state, pod, object::name(&node));
                } else {
                    self.waiting.insert(name_of(pod), Arc::clone(pod));
                }
            }
            Err(why) => {
                self.waiting.insert(name_of(pod), Arc::clone(pod));
                complain(state, pod, &why.to_string());
            }
        }
    }

    fn bind(&mut self, state: &mut State, pod: &Arc<Stored>, node: &str) {
        let Some(row) = state.row("", "pods") else {
            return;
        };
        let binding =
            json!({ "metadata": { "uid": object::uid(pod) }, "target": { "kind": "Node", "name": node } });
        let key = row.key(object::namespace(pod), object::name(pod));
        // Refused only if it has changed in the meantime, and then it is seen again.
        if crate::kinds::assign(state, &row, &key, &binding, false).is_err() {
            return;
        }
        if let Some(bound) = state.store.get(&key).cloned() {
            self.placed.see(&bound);
        }
    }
}

fn name_of(pod: &Arc<Stored>) -> PodName {
    (object::namespace(pod).to_owned(), object::name(pod).to_owned())
}

/// Keeps an object by name. True where something that pods are placed by has changed.
fn keep(known: &mut Nodes, seen: &Seen) -> bool {
    let name = seen.key.name.clone();
    if seen.deleted {
        return known.remove(&name).is_some();
    }
    let matters = |node: &Value| {
        let labels = node.pointer("/metadata/labels").cloned();
        (labels, node.get("spec").cloned())
    };
    let before = known.insert(name, Arc::clone(&seen.object));
    before.is_none_or(|before| matters(&before) != matters(&seen.object))
}

/// Whether a pod is to be given a node, by this scheduler.
fn is_ours(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && text(pod, "/spec/schedulerName") == COMPONENT
        && !object::is_deleting(pod)
        && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
        && object::list(pod, "/spec/schedulingGates").is_empty()
}

fn complain(state: &mut State, pod: &Arc<Stored>, why: &str) {
    let Some(row) = state.row("", "pods") else {
        return;
    };
    let key = row.key(object::namespace(pod), object::name(pod));
    let now = state.now();
    write::amend(state, &row, &key, |pod| {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
        });
        crate::kinds::set_condition(pod, condition, &now);
    });
    let event = Event { kind: "Warning", reason: "FailedScheduling", message: why, component: COMPONENT };
    report::event(state, pod, &event);
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
