//! Topology spread constraints: how evenly a pod and its likes shall lie.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::place::{Nodes, Placed, Reason, fits, is_tainted};
use crate::affinity::{Wants, label};
use crate::machinery::object::{self, text};
use crate::machinery::selector::Selector;
use crate::machinery::stored::Stored;

/// The constraints of a pod, with what is there counted.
pub(super) struct Spread(Vec<Constraint>);

struct Constraint {
    key: String,
    is_required: bool,
    most: usize,
    /// The pod itself adds to what it counts.
    own: usize,
    counts: BTreeMap<String, usize>,
    least: usize,
}

impl Spread {
    pub(super) fn read(pod: &Value, wants: &Wants, nodes: &Nodes, pods: &Placed) -> Self {
        let constraints = object::list(pod, "/spec/topologySpreadConstraints");
        let required: Vec<&str> = constraints
            .iter()
            .filter(|one| text(one, "/whenUnsatisfiable") != "ScheduleAnyway")
            .map(|one| text(one, "/topologyKey"))
            .collect();
        let read = |constraint| Constraint::read(constraint, pod, wants, nodes, pods, &required);
        Spread(constraints.iter().map(read).collect())
    }

    /// Whether a node would make it too uneven.
    pub(super) fn refusal(&self, node: &Value) -> Option<Reason> {
        self.0.iter().filter(|one| one.is_required).find_map(|constraint| {
            let Some(domain) = label(node, &constraint.key) else {
                return Some(Reason::SpreadLabel);
            };
            let there = constraint.counts.get(domain).copied().unwrap_or_default();
            let skew = (there + constraint.own).saturating_sub(constraint.least);
            (skew > constraint.most).then_some(Reason::Spread)
        })
    }

    /// How many of its likes are where the pod would rather be alone.
    pub(super) fn crowd(&self, node: &Value) -> usize {
        let wished = self.0.iter().filter(|one| !one.is_required);
        wished
            .map(|constraint| match label(node, &constraint.key) {
                Some(domain) => constraint.counts.get(domain).copied().unwrap_or_default(),
                // A node outside of all domains is the last choice.
                None => constraint.counts.values().sum::<usize>() + 1,
            })
            .sum()
    }
}

impl Constraint {
    fn read(
        constraint: &Value,
        pod: &Value,
        wants: &Wants,
        nodes: &Nodes,
        pods: &Placed,
        required: &[&str],
    ) -> Self {
        let key = text(constraint, "/topologyKey").to_owned();
        let is_required = text(constraint, "/whenUnsatisfiable") != "ScheduleAnyway";
        let selector = selector(constraint, pod);
        let is_alike = |other: &Value| selector.as_ref().is_some_and(|selector| selector.matches(other));
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let counts_here = |node: &&Arc<Stored>| {
            (text(constraint, "/nodeAffinityPolicy") == "Ignore" || fits(wants, node))
                && (text(constraint, "/nodeTaintsPolicy") != "Honor" || !is_tainted(spec, node))
                && (!is_required || required.iter().all(|key| label(node, key).is_some()))
        };
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for node in nodes.values().filter(counts_here) {
            let Some(domain) = label(node, &key) else {
                continue;
            };
            let here = pods.on(object::name(node)).filter(|other| {
                object::namespace(other) == object::namespace(pod)
                    && !object::is_deleting(other)
                    && is_alike(other)
            });
            *counts.entry(domain.to_owned()).or_default() += here.count();
        }
        let amount =
            |pointer| object::number(constraint, pointer).and_then(|number| usize::try_from(number).ok());
        let is_few = counts.len() < amount("/minDomains").unwrap_or(1);
        let least = if is_few { 0 } else { counts.values().copied().min().unwrap_or_default() };
        let most = amount("/maxSkew").unwrap_or(1);
        Constraint { key, is_required, most, own: usize::from(is_alike(pod)), counts, least }
    }
}

/// The pods that count, with what `matchLabelKeys` takes from the pod itself. Without a selector there are none.
pub(super) fn selector(asked: &Value, pod: &Value) -> Option<Selector> {
    let mut selector = asked.get("labelSelector").filter(|selector| selector.is_object())?.clone();
    for key in object::list(asked, "/matchLabelKeys").iter().filter_map(Value::as_str) {
        if let Some(value) = label(pod, key) {
            object::child(&mut selector, "matchLabels").insert(key.to_owned(), json!(value));
        }
    }
    Selector::from_json(&selector)
}
