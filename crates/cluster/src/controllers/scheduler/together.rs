//! Affinity between pods: who wants to be near whom, and who keeps whom away.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::place::{Nodes, Placed, Reason};
use super::spread::selector;
use crate::affinity::label;
use crate::machinery::object::{self, text};
use crate::machinery::selector::Selector;

const AFFINITY: &str = "/spec/affinity/podAffinity";
const ANTI_AFFINITY: &str = "/spec/affinity/podAntiAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// What a pod and those that are there already ask of each other.
pub(super) struct Together {
    near: Vec<Domains>,
    away: Vec<Domains>,
    /// Where those that are there already do not want this pod: values by topology key.
    closed: BTreeMap<String, BTreeSet<String>>,
    wished: Vec<(i64, Domains)>,
    /// The first of a group that wants to be together may go anywhere.
    is_first: bool,
}

/// The domains in which a term finds pods.
struct Domains {
    key: String,
    found: BTreeSet<String>,
}

impl Domains {
    fn holds(&self, node: &Value) -> bool {
        label(node, &self.key).is_some_and(|domain| self.found.contains(domain))
    }
}

/// Which pods a term means.
struct Term {
    key: String,
    selector: Option<Selector>,
    namespaces: Reach,
}

enum Reach {
    Some(BTreeSet<String>),
    All,
}

impl Term {
    fn read(term: &Value, owner: &Value, namespaces: &Nodes) -> Self {
        let named = object::list(term, "/namespaces").iter().filter_map(Value::as_str).map(str::to_owned);
        let mut named: BTreeSet<String> = named.collect();
        let by_label = term.get("namespaceSelector").filter(|selector| selector.is_object());
        let by_label = by_label.and_then(Selector::from_json);
        let reach = match by_label {
            Some(selector) if selector.is_empty() => Reach::All,
            Some(selector) => {
                let chosen = namespaces.iter().filter(|(_, namespace)| selector.matches(namespace));
                named.extend(chosen.map(|(name, _)| name.clone()));
                Reach::Some(named)
            }
            None if named.is_empty() => Reach::Some(BTreeSet::from([object::namespace(owner).to_owned()])),
            None => Reach::Some(named),
        };
        Term {
            key: text(term, "/topologyKey").to_owned(),
            selector: selector(term, owner),
            namespaces: reach,
        }
    }

    fn means(&self, pod: &Value) -> bool {
        let is_reached = match &self.namespaces {
            Reach::All => true,
            Reach::Some(names) => names.contains(object::namespace(pod)),
        };
        is_reached && self.selector.as_ref().is_some_and(|selector| selector.matches(pod))
    }

    fn domains(&self, nodes: &Nodes, pods: &Placed) -> Domains {
        let has_one = |node: &str| pods.on(node).any(|pod| self.means(pod));
        let found = nodes
            .iter()
            .filter_map(|(name, node)| label(node, &self.key).filter(|_| has_one(name)))
            .map(str::to_owned);
        Domains { key: self.key.clone(), found: found.collect() }
    }
}

fn required<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    object::list(pod, &format!("{kind}/{REQUIRED}"))
}

impl Together {
    /// Whether a pod asks that others stay away.
    pub(super) fn keeps_others_away(pod: &Value) -> bool {
        !required(pod, ANTI_AFFINITY).is_empty()
    }

    pub(super) fn read(pod: &Value, nodes: &Nodes, pods: &Placed, namespaces: &Nodes) -> Self {
        let terms = |kind: &str| -> Vec<Term> {
            required(pod, kind).iter().map(|term| Term::read(term, pod, namespaces)).collect()
        };
        let near = terms(AFFINITY);
        let is_own = near.iter().all(|term| term.means(pod));
        let near: Vec<Domains> = near.iter().map(|term| term.domains(nodes, pods)).collect();
        let is_first = is_own && near.iter().all(|domains| domains.found.is_empty());
        let away = terms(ANTI_AFFINITY).iter().map(|term| term.domains(nodes, pods)).collect();
        let mut closed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for other in pods.guarded() {
            let Some(node) = nodes.get(text(other, "/spec/nodeName")) else {
                continue;
            };
            for term in required(other, ANTI_AFFINITY) {
                let term = Term::read(term, other, namespaces);
                if let Some(domain) = label(node, &term.key).filter(|_| term.means(pod)) {
                    closed.entry(term.key.clone()).or_default().insert(domain.to_owned());
                }
            }
        }
        let wished = [(AFFINITY, 1), (ANTI_AFFINITY, -1)].into_iter().flat_map(|(kind, sign)| {
            let wished = object::list(pod, &format!("{kind}/{PREFERRED}")).iter();
            wished.map(move |one| (sign * object::number(one, "/weight").unwrap_or_default(), one))
        });
        let wished = wished.filter_map(|(weight, one)| {
            let term = Term::read(one.get("podAffinityTerm")?, pod, namespaces);
            Some((weight, term.domains(nodes, pods)))
        });
        Together { wished: wished.collect(), near, away, closed, is_first }
    }

    /// What stands against a node.
    pub(super) fn refusal(&self, node: &Value) -> Option<Reason> {
        let is_near =
            |domains: &Domains| domains.holds(node) || self.is_first && label(node, &domains.key).is_some();
        let is_closed = self
            .closed
            .iter()
            .any(|(key, domains)| label(node, key).is_some_and(|domain| domains.contains(domain)));
        if !self.near.iter().all(is_near) {
            Some(Reason::Affinity)
        } else if self.away.iter().any(|domains| domains.holds(node)) {
            Some(Reason::AntiAffinity)
        } else {
            is_closed.then_some(Reason::ExistingAntiAffinity)
        }
    }

    /// The weights that a node earns.
    pub(super) fn preference(&self, node: &Value) -> i64 {
        self.wished.iter().filter(|(_, domains)| domains.holds(node)).map(|(weight, _)| weight).sum()
    }
}
