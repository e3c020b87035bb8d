//! Nodes that fall silent: what is said of them and their pods, and when these go.
//!
//! A node that has been lost for [`GRACE`] is Unknown and tainted, and its pods are not Ready. A pod that tolerates
//! the taint for a time is deleted when that is over, and stays, since nobody is there to stop it. Once its node is
//! deleted too, it is removed.
//!
//! That a node is lost is read from its annotation: heartbeats would tell the same, at the price of a cluster that never
//! falls silent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Seen;
use super::report::{self, Event};
use super::scheduler::is_tolerated;
use crate::clock::Moment;
use crate::kinds::set_condition;
use crate::machinery::delete::{self, DeleteOptions};
use crate::machinery::object::{self, text};
use crate::machinery::state::State;
use crate::machinery::store::Key;
use crate::machinery::stored::Stored;
use crate::machinery::write;
use crate::nodes::behaviour::LOST;

/// How long a node may be silent, as Kubernetes has it by default.
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// How long pods stay whose node is not there, for one that comes late; as Kubernetes has it.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const SILENT: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What is remembered between two looks.
#[derive(Default)]
pub(super) struct Loss {
    /// Since when nodes are lost.
    lost: BTreeMap<String, Timestamp>,
    /// The pods of each node.
    pods: BTreeMap<String, BTreeSet<Key>>,
    places: BTreeMap<Key, String>,
    /// Since when nodes are missing that pods name.
    missing: BTreeMap<String, Timestamp>,
    /// Nodes whose pods have to be looked at whenever one changes.
    troubled: BTreeSet<String>,
    is_due: bool,
    wake: Option<Moment>,
}

impl Loss {
    pub(super) fn take(&mut self, seen: &Seen) {
        if seen.is("", "nodes") {
            self.is_due = true;
        } else if seen.is("", "pods") {
            self.pod(seen);
        }
    }

    fn pod(&mut self, seen: &Seen) {
        let node = text(&seen.object, "/spec/nodeName");
        if let Some(before) = self.places.remove(&seen.key)
            && let Some(pods) = self.pods.get_mut(&before)
        {
            pods.remove(&seen.key);
            if pods.is_empty() {
                self.pods.remove(&before);
                self.missing.remove(&before);
            }
        }
        if !seen.deleted && !node.is_empty() {
            let is_new = !self.pods.contains_key(node);
            self.is_due |= is_new || self.troubled.contains(node);
            self.places.insert(seen.key.clone(), node.to_owned());
            self.pods.entry(node.to_owned()).or_default().insert(seen.key.clone());
        }
    }

    /// Something may have gone unseen.
    pub(super) fn recheck(&mut self) {
        self.is_due = true;
    }

    /// When to look again though nothing has changed.
    pub(super) fn wake(&self) -> Option<Moment> {
        self.wake
    }

    pub(super) fn work(&mut self, state: &mut State) {
        let now = state.clock.timestamp();
        if !self.is_due && self.wake.is_none_or(|wake| state.clock.now() < wake) {
            return;
        }
        self.is_due = false;
        let mut next: Option<Timestamp> = None;
        let mut later = |at: Timestamp| next = Some(next.map_or(at, |next| next.min(at)));
        self.troubled.clear();
        let nodes = state.objects("", "nodes", None);
        for node in &nodes {
            let name = object::name(node);
            if annotation(node, LOST) == Some("true") {
                self.lost.entry(name.to_owned()).or_insert(now);
            } else {
                self.lost.remove(name);
            }
            let deadline = self.lost.get(name).and_then(|since| since.checked_add(GRACE).ok());
            let is_silent = deadline.is_some_and(|deadline| deadline <= now);
            if let Some(deadline) = deadline.filter(|_| !is_silent) {
                later(deadline);
            }
            self.node(state, node, is_silent, &mut later);
        }
        let is_there = |name: &str| nodes.iter().any(|node| object::name(node) == name);
        let missing: Vec<String> = self.pods.keys().filter(|name| !is_there(name)).cloned().collect();
        self.missing.retain(|name, _| missing.contains(name));
        self.lost.retain(|name, _| is_there(name));
        for name in missing {
            self.troubled.insert(name.clone());
            let since = *self.missing.entry(name.clone()).or_insert(now);
            match since.checked_add(QUARANTINE) {
                Ok(end) if end > now => later(end),
                _ => self.remove_pods(state, &name),
            }
        }
        self.wake = next.map(|next| {
            let rest = std::time::Duration::try_from(next.duration_since(now)).unwrap_or_default();
            // A stamp is whole seconds: what is due within one would otherwise be asked for over and over.
            state.clock.now() + rest.max(std::time::Duration::from_millis(1))
        });
    }

    fn node(
        &mut self,
        state: &mut State,
        node: &Arc<Stored>,
        is_silent: bool,
        later: &mut dyn FnMut(Timestamp),
    ) {
        let Some(row) = state.row("", "nodes") else {
            return;
        };
        let key = row.key("", object::name(node));
        let now = state.now();
        let is_news = is_silent && ready(node).is_some_and(|ready| ready != "Unknown");
        write::amend(state, &row, &key, |node| {
            if is_news {
                for kind in SILENT {
                    let unknown = json!({
                        "type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
                        "message": "Kubelet stopped posting node status.",
                        "lastHeartbeatTime": heartbeat(node, kind),
                    });
                    set_condition(node, unknown, &now);
                }
            }
            taint(node, &now);
        });
        let Some(node) = state.store.get(&key).cloned() else {
            return;
        };
        if is_news {
            let message = format!("Node {} status is now: NodeNotReady", key.name);
            let component = "node-controller";
            report::event(
                state,
                &node,
                &Event { kind: "Normal", reason: "NodeNotReady", message: &message, component },
            );
        }
        let is_lost = ready(&node).is_some_and(|ready| ready != "True");
        let evicting: Vec<&Value> = object::list(&node, "/spec/taints")
            .iter()
            .filter(|taint| text(taint, "/effect") == "NoExecute")
            .collect();
        if !is_lost && evicting.is_empty() {
            return;
        }
        self.troubled.insert(key.name.clone());
        let Some(row) = state.row("", "pods") else {
            return;
        };
        for key in self.pods.get(&key.name).cloned().unwrap_or_default() {
            if is_lost {
                write::amend(state, &row, &key, |pod| not_ready(pod, &now));
            }
            let Some(pod) = state.store.get(&key).cloned() else {
                continue;
            };
            match stay(&pod, &evicting, state.clock.timestamp()) {
                _ if object::is_deleting(&pod) => {}
                Stay::Forever => {}
                Stay::Until(end) if end > state.clock.timestamp() => later(end),
                Stay::Until(_) => {
                    disrupt(
                        state,
                        &key,
                        "DeletionByTaintManager",
                        "Taint manager: deleting due to NoExecute taint",
                    );
                    // It may have gone in the meantime, which is what is wanted.
                    let _ = delete::delete(state, &row, &key, &DeleteOptions::default());
                }
            }
        }
    }

    /// Removes the pods of a node that is not coming back.
    fn remove_pods(&self, state: &mut State, node: &str) {
        let Some(row) = state.row("", "pods") else {
            return;
        };
        for key in self.pods.get(node).into_iter().flatten() {
            disrupt(state, key, "DeletionByPodGC", "PodGC: node no longer exists");
            let now_over = |pod: &mut Value| {
                if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
                    object::child(pod, "status").insert("phase".into(), "Failed".into());
                }
            };
            write::amend(state, &row, key, now_over);
            let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
            // As above.
            let _ = delete::delete(state, &row, key, &options);
        }
    }
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object::list(object, "/status/conditions").iter().find(|one| text(one, "/type") == kind)
}

fn ready(node: &Value) -> Option<&str> {
    condition(node, "Ready").map(|ready| text(ready, "/status"))
}

fn heartbeat(node: &Value, kind: &str) -> Value {
    condition(node, kind).and_then(|shown| shown.get("lastHeartbeatTime")).cloned().unwrap_or_default()
}

/// Gives a node the taints that its state asks for, beside those that others gave it.
fn taint(node: &mut Value, now: &str) {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    match ready(node) {
        Some("False") => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        _ => {}
    }
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let is_ours = |taint: &Value| [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&text(taint, "/key"));
    let before = object::list(node, "/spec/taints").to_vec();
    let (ours, mut taints): (Vec<Value>, Vec<Value>) = before.into_iter().partition(is_ours);
    for (key, effect) in wanted {
        let shown = ours.iter().find(|taint| text(taint, "/key") == key && text(taint, "/effect") == effect);
        taints.push(
            shown.cloned().unwrap_or_else(|| json!({ "key": key, "effect": effect, "timeAdded": now })),
        );
    }
    let spec = object::child(node, "spec");
    if taints.is_empty() {
        spec.remove("taints");
    } else {
        spec.insert("taints".into(), taints.into());
    }
}

/// All that can be seen of the pods of a lost node.
fn not_ready(pod: &mut Value, now: &str) {
    let shown = condition(pod, "Ready").filter(|ready| text(ready, "/status") == "True").cloned();
    if let Some(mut ready) = shown {
        object::fields(&mut ready).insert("status".into(), "False".into());
        set_condition(pod, ready, now);
    }
}

/// How long a pod stays on a node with taints.
enum Stay {
    Forever,
    Until(Timestamp),
}

fn stay(pod: &Value, taints: &[&Value], now: Timestamp) -> Stay {
    let tolerations = object::list(pod, "/spec/tolerations");
    let mut end: Option<Timestamp> = None;
    for taint in taints {
        let mut tolerated =
            tolerations.iter().filter(|toleration| is_tolerated(toleration, taint)).peekable();
        if tolerated.peek().is_none() {
            return Stay::Until(now);
        }
        let since: Timestamp = text(taint, "/timeAdded").parse().unwrap_or(now);
        for seconds in tolerated.filter_map(|toleration| object::number(toleration, "/tolerationSeconds")) {
            let own = since.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX);
            end = Some(end.map_or(own, |end| end.min(own)));
        }
    }
    end.map_or(Stay::Forever, Stay::Until)
}

fn disrupt(state: &mut State, key: &Key, reason: &str, message: &str) {
    let Some(row) = state.row("", "pods") else {
        return;
    };
    let now = state.now();
    write::amend(state, &row, key, |pod| {
        if !object::is_deleting(pod) {
            let target =
                json!({ "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message });
            set_condition(pod, target, &now);
        }
    });
}
