//! Sets of fields, as managed fields hold them.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::{Map, Value};

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;

/// A scalar that has an order.
#[derive(Clone, Debug)]
pub(super) struct Scalar(pub(super) Value);

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &Value| match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            _ => 2,
        };
        match (&self.0, &other.0) {
            (Value::Number(left), Value::Number(right)) => {
                let amount = |number: &serde_json::Number| number.as_f64().unwrap_or_default();
                let exactly = || left.to_string().cmp(&right.to_string());
                amount(left).total_cmp(&amount(right)).then_with(exactly)
            }
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (left, right) => {
                rank(left).cmp(&rank(right)).then_with(|| left.to_string().cmp(&right.to_string()))
            }
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

/// One step down into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    /// The field of an object.
    Field(String),
    /// The item of a list whose key fields have these values.
    Key(Vec<(String, Scalar)>),
    /// The item of a list that is this value.
    Value(Scalar),
    /// The item of a list at this place.
    Index(i64),
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(fields) => {
                let fields: Vec<_> =
                    fields.iter().map(|(name, Scalar(value))| format!("{name}={value}")).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Element::Value(Scalar(value)) => write!(f, "[={value}]"),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Element {
    fn encode(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(fields) => {
                let fields: Map<_, _> =
                    fields.iter().map(|(name, Scalar(value))| (name.clone(), value.clone())).collect();
                format!("k:{}", Value::Object(fields))
            }
            Element::Value(Scalar(value)) => format!("v:{value}"),
            Element::Index(index) => format!("i:{index}"),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let (kind, content) = text.split_once(':')?;
        Some(match kind {
            "f" => Element::Field(content.to_owned()),
            "k" => {
                let fields: Map<String, Value> = serde_json::from_str(content).ok()?;
                let mut fields: Vec<_> =
                    fields.into_iter().map(|(name, value)| (name, Scalar(value))).collect();
                fields.sort();
                Element::Key(fields)
            }
            "v" => Element::Value(Scalar(serde_json::from_str(content).ok()?)),
            "i" => Element::Index(content.parse().ok()?),
            _ => return None,
        })
    }
}

/// A set of fields. That a field is a member says nothing of those below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    members: BTreeSet<Element>,
    /// None of them is empty.
    children: BTreeMap<Element, Set>,
}

impl Set {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    pub(super) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(super) fn contains(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    pub(super) fn below(&self, element: &Element) -> Option<&Set> {
        self.children.get(element)
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (&Element, &Set)> {
        self.children.iter()
    }

    pub(super) fn union(&self, other: &Set) -> Set {
        let mut union = self.clone();
        union.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let merged = union.children.get(element).map_or_else(|| child.clone(), |own| own.union(child));
            union.children.insert(element.clone(), merged);
        }
        union
    }

    pub(super) fn intersection(&self, other: &Set) -> Set {
        let members = self.members.intersection(&other.members).cloned().collect();
        let common = |(element, child): (&Element, &Set)| {
            let common = child.intersection(other.children.get(element)?);
            Some((element.clone(), common)).filter(|(_, common)| !common.is_empty())
        };
        Set { members, children: self.children.iter().filter_map(common).collect() }
    }

    /// Without the members of the other; what is below them stays.
    pub(super) fn difference(&self, other: &Set) -> Set {
        let members = self.members.difference(&other.members).cloned().collect();
        let rest = |(element, child): (&Element, &Set)| {
            let rest =
                other.children.get(element).map_or_else(|| child.clone(), |other| child.difference(other));
            Some((element.clone(), rest)).filter(|(_, rest)| !rest.is_empty())
        };
        Set { members, children: self.children.iter().filter_map(rest).collect() }
    }

    /// Without a field and all below it.
    pub(super) fn without(mut self, path: &[&str]) -> Set {
        if let [first, rest @ ..] = path {
            let element = Element::Field((*first).to_owned());
            let child = self.children.remove(&element);
            if rest.is_empty() {
                self.members.remove(&element);
            } else if let Some(child) =
                child.map(|child| child.without(rest)).filter(|child| !child.is_empty())
            {
                self.children.insert(element, child);
            }
        }
        self
    }

    /// With what a function adds to the members of each level.
    pub(super) fn rebuild(
        &self,
        members: impl IntoIterator<Item = Element>,
        below: impl Fn(&Element, &Set) -> Set,
    ) -> Set {
        let members = self.members.iter().cloned().chain(members).collect();
        let children =
            self.children.iter().map(|(element, child)| (element.clone(), below(element, child))).collect();
        Set { members, children }
    }

    /// Every member, from the root.
    pub(super) fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths: Vec<_> = self.members.iter().map(|member| vec![member.clone()]).collect();
        for (element, child) in &self.children {
            paths.extend(child.paths().into_iter().map(|path| {
                let mut whole = vec![element.clone()];
                whole.extend(path);
                whole
            }));
        }
        paths
    }

    /// As managed fields are written.
    pub(super) fn encode(&self) -> Value {
        let mut fields = Map::new();
        for member in self.members.difference(&self.children.keys().cloned().collect()) {
            fields.insert(member.encode(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            let mut below = child.encode();
            if let (true, Value::Object(below)) = (self.members.contains(element), &mut below) {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            fields.insert(element.encode(), below);
        }
        Value::Object(fields)
    }

    /// Nothing, if it is not how managed fields are written.
    pub(super) fn decode(fields: &Value) -> Option<Self> {
        let mut set = Set::default();
        for (name, below) in fields.as_object()?.iter().filter(|(name, _)| *name != ".") {
            let element = Element::decode(name)?;
            let child = Set::decode(below)?;
            if below.get(".").is_some() || child.is_empty() {
                set.members.insert(element.clone());
            }
            if !child.is_empty() {
                set.children.insert(element, child);
            }
        }
        Some(set)
    }
}
