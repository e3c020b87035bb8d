//! Which node a pod goes to: a pure decision in the order in which Kubernetes' scheduler asks its questions.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::spread::Spread;
use super::together::Together;
use crate::affinity::{Term, Wants};
use crate::machinery::object::{self, text};
use crate::machinery::stored::Stored;

/// Nodes by name.
pub(crate) type Nodes = BTreeMap<String, Arc<Stored>>;

/// Namespace and name of a pod.
pub(crate) type PodName = (String, String);

/// The pods that count, by node: bound, and not at their end.
#[derive(Default)]
pub(crate) struct Placed {
    by_node: BTreeMap<String, BTreeMap<PodName, Arc<Stored>>>,
    /// The node of each.
    places: BTreeMap<PodName, String>,
    /// Those that keep others away: few, and asked for every pod.
    guarded: BTreeMap<PodName, Arc<Stored>>,
}

impl Placed {
    /// Takes in a pod as it is now. True where that may matter to where others go.
    pub(crate) fn see(&mut self, pod: &Arc<Stored>) -> bool {
        let name = (object::namespace(pod).to_owned(), object::name(pod).to_owned());
        let node = text(pod, "/spec/nodeName");
        let is_over = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        if node.is_empty() || is_over {
            return self.forget(&name);
        }
        let is_new = self.places.insert(name.clone(), node.to_owned()).as_deref() != Some(node);
        if Together::keeps_others_away(pod) {
            self.guarded.insert(name.clone(), Arc::clone(pod));
        }
        let before = self.by_node.entry(node.to_owned()).or_default().insert(name, Arc::clone(pod));
        let counts = |pod: &Value| (pod.pointer("/metadata/labels").cloned(), object::is_deleting(pod));
        is_new || before.is_some_and(|before| counts(&before) != counts(pod))
    }

    /// Drops a pod. True where it had a place.
    pub(crate) fn forget(&mut self, name: &PodName) -> bool {
        self.guarded.remove(name);
        let Some(node) = self.places.remove(name) else {
            return false;
        };
        if let Some(there) = self.by_node.get_mut(&node) {
            there.remove(name);
        }
        true
    }

    /// How many pods a node has.
    fn count(&self, node: &str) -> usize {
        self.by_node.get(node).map_or(0, BTreeMap::len)
    }

    /// The pods of a node.
    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &Arc<Stored>> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn guarded(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.guarded.values()
    }
}

/// What the volumes of a pod ask of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A volume that is bound: one of the terms must hold.
    Bound(Vec<Term>),
    /// A claim that waits for its pod: one of these volumes, or places for a new one, must be within reach. No terms
    /// means everywhere.
    Open(Vec<Option<Vec<Term>>>),
}

impl Need {
    fn is_met(&self, node: &Value) -> bool {
        let holds = |terms: &[Term]| terms.iter().any(|term| term.holds_for(node));
        match self {
            Need::Bound(terms) => holds(terms),
            Need::Open(places) => places.iter().any(|terms| terms.as_ref().is_none_or(|terms| holds(terms))),
        }
    }
}

/// Why a node does not take a pod, in the words of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Unschedulable,
    Taint,
    NodeAffinity,
    VolumeAffinity,
    NoVolume,
    SpreadLabel,
    Spread,
    Affinity,
    AntiAffinity,
    ExistingAntiAffinity,
}

impl Reason {
    fn words(self) -> &'static str {
        match self {
            Reason::Unschedulable => "node(s) were unschedulable",
            Reason::Taint => "node(s) had untolerated taint(s)",
            Reason::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Reason::VolumeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Reason::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Reason::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Reason::Spread => "node(s) didn't match pod topology spread constraints",
            Reason::Affinity => "node(s) didn't match pod affinity rules",
            Reason::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Reason::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
        }
    }

    /// Whether the absence of other pods could help.
    fn is_about_pods(self) -> bool {
        matches!(self, Reason::Spread | Reason::AntiAffinity | Reason::ExistingAntiAffinity)
    }
}

/// A pod that fits nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unschedulable {
    /// There is no node at all.
    NoNodes,
    /// Something about the pod itself, whatever the node.
    Pod { nodes: usize, why: String },
    /// How many nodes have what against it.
    Nodes(BTreeMap<Reason, usize>),
}

impl fmt::Display for Unschedulable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNHELPFUL: &str = "Preemption is not helpful for scheduling";
        match self {
            Unschedulable::NoNodes => formatter.write_str("no nodes available to schedule pods"),
            Unschedulable::Pod { nodes, why } => write!(
                formatter,
                "0/{nodes} nodes are available: {why}. preemption: 0/{nodes} nodes are available: {nodes} {UNHELPFUL}."
            ),
            Unschedulable::Nodes(reasons) => {
                let nodes: usize = reasons.values().sum();
                let mut against: Vec<String> =
                    reasons.iter().map(|(reason, count)| format!("{count} {}", reason.words())).collect();
                against.sort();
                let count = |about_pods: bool| -> usize {
                    let chosen = reasons.iter().filter(|(reason, _)| reason.is_about_pods() == about_pods);
                    chosen.map(|(_, count)| count).sum()
                };
                let preemption = [
                    (count(true), "No preemption victims found for incoming pod"),
                    (count(false), UNHELPFUL),
                ];
                let preemption: Vec<String> = preemption
                    .iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, why)| format!("{count} {why}"))
                    .collect();
                write!(
                    formatter,
                    "0/{nodes} nodes are available: {}. preemption: 0/{nodes} nodes are available: {}.",
                    against.join(", "),
                    preemption.join(", ")
                )
            }
        }
    }
}

/// The node for a pod: of those that it may go to, the one it prefers, then the one with the fewest pods, then the
/// first by name. `volumes` is what its claims ask for; `namespaces` is what affinities may select by.
pub(crate) fn place(
    pod: &Value,
    nodes: &Nodes,
    pods: &Placed,
    volumes: &[Need],
    namespaces: &Nodes,
) -> Result<String, Unschedulable> {
    if nodes.is_empty() {
        return Err(Unschedulable::NoNodes);
    }
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let wants = Wants::read(spec);
    let spread = Spread::read(pod, &wants, nodes, pods);
    let together = Together::read(pod, nodes, pods, namespaces);
    let mut reasons: BTreeMap<Reason, usize> = BTreeMap::new();
    let mut best = None;
    for (name, node) in nodes {
        let refused = refusal(spec, &wants, node)
            .or_else(|| {
                let unmet = volumes.iter().find(|need| !need.is_met(node))?;
                Some(if matches!(unmet, Need::Bound(_)) { Reason::VolumeAffinity } else { Reason::NoVolume })
            })
            .or_else(|| spread.refusal(node))
            .or_else(|| together.refusal(node));
        if let Some(reason) = refused {
            *reasons.entry(reason).or_default() += 1;
            continue;
        }
        let rank = (
            Reverse(preference(spec, node) + together.preference(node)),
            taints(node, &["PreferNoSchedule"]).filter(|taint| !tolerates(spec, taint)).count(),
            spread.crowd(node),
            pods.count(name),
        );
        if best.as_ref().is_none_or(|(least, _)| rank < *least) {
            best = Some((rank, name));
        }
    }
    best.map(|(_, name)| name.clone()).ok_or(Unschedulable::Nodes(reasons))
}

/// What a node has against a pod, whatever else is there.
fn refusal(spec: &Value, wants: &Wants, node: &Value) -> Option<Reason> {
    let is_closed = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    let closed = serde_json::json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
    if is_closed && !tolerates(spec, &closed) {
        return Some(Reason::Unschedulable);
    }
    if is_tainted(spec, node) {
        return Some(Reason::Taint);
    }
    (!fits(wants, node)).then_some(Reason::NodeAffinity)
}

pub(super) fn fits(wants: &Wants, node: &Value) -> bool {
    wants.fits(object::name(node), |key| crate::affinity::label(node, key))
}

/// Whether a taint keeps a pod off a node.
pub(super) fn is_tainted(spec: &Value, node: &Value) -> bool {
    taints(node, &["NoSchedule", "NoExecute"]).any(|taint| !tolerates(spec, taint))
}

fn taints<'a>(node: &'a Value, effects: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    object::list(node, "/spec/taints").iter().filter(|taint| effects.contains(&text(taint, "/effect")))
}

fn tolerates(spec: &Value, taint: &Value) -> bool {
    object::list(spec, "/tolerations").iter().any(|toleration| is_tolerated(toleration, taint))
}

/// Whether a toleration is for a taint.
pub(crate) fn is_tolerated(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
    (effect.is_empty() || effect == text(taint, "/effect"))
        && (key.is_empty() || key == text(taint, "/key"))
        && match text(toleration, "/operator") {
            "Exists" => true,
            "" | "Equal" => !key.is_empty() && text(toleration, "/value") == text(taint, "/value"),
            _ => false,
        }
}

/// The weights of the preferred node affinity that a node earns.
fn preference(spec: &Value, node: &Value) -> i64 {
    let preferred = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    let earned = object::list(spec, preferred).iter().filter(|one| {
        let term = one.get("preference").map(Term::deserialize);
        term.and_then(Result::ok).is_some_and(|term| term.holds_for(node))
    });
    earned.map(|one| object::number(one, "/weight").unwrap_or_default()).sum()
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
