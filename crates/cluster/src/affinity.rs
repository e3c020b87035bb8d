//! What pods and volumes ask of a node's labels and name.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// What a pod asks of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// Labels that the node must carry.
    pub(crate) labels: BTreeMap<String, String>,
    /// Where there are terms, at least one must hold.
    pub(crate) terms: Option<Vec<Term>>,
}

/// Requirements that must hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Term {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|allowed| allowed == value);
        let beyond = |is_beyond: fn(i64, i64) -> bool| {
            let number = |text: &str| text.parse::<i64>().ok();
            let limit = self.values.first().and_then(|limit| number(limit));
            value.and_then(number).zip(limit).is_some_and(|(value, limit)| is_beyond(value, limit))
        };
        match self.operator.as_str() {
            "In" => value.is_some_and(listed),
            "NotIn" => !value.is_some_and(listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => beyond(|value, limit| value > limit),
            "Lt" => beyond(|value, limit| value < limit),
            _ => false,
        }
    }
}

impl Term {
    /// The terms of a node selector at a pointer; none where there is no selector.
    pub(crate) fn read(object: &Value, pointer: &str) -> Option<Vec<Term>> {
        let terms = object.pointer(pointer)?.get("nodeSelectorTerms")?;
        // What cannot be read was not validated here: it holds nowhere.
        Some(Vec::deserialize(terms).unwrap_or_default())
    }

    pub(crate) fn holds<'a>(&self, name: &'a str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        // A term without requirements selects nothing, as the scheduler has it.
        let asks = !self.match_expressions.is_empty() || !self.match_fields.is_empty();
        let field = |key: &str| (key == "metadata.name").then_some(name);
        asks && self.match_expressions.iter().all(|wanted| wanted.holds(label(&wanted.key)))
            && self.match_fields.iter().all(|wanted| wanted.holds(field(&wanted.key)))
    }

    /// As [`Term::holds`], of a node as it is stored.
    pub(crate) fn holds_for(&self, node: &Value) -> bool {
        self.holds(crate::machinery::object::name(node), |key| label(node, key))
    }
}

impl Wants {
    /// What the spec of a pod asks for.
    pub(crate) fn read(spec: &Value) -> Self {
        let labels = spec.get("nodeSelector").map(BTreeMap::deserialize);
        let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        Wants { labels: labels.and_then(Result::ok).unwrap_or_default(), terms: Term::read(spec, required) }
    }

    pub(crate) fn fits<'a>(&self, name: &'a str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.labels.iter().all(|(key, value)| label(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.holds(name, &label)))
    }
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}
