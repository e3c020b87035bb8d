//! Which fields a value has, which differ between two, and a value without some.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    set::{Element, Set},
    shape::{Shape, Type, list, map},
};

/// The fields of a value that somebody who sends it owns.
pub(super) fn of(value: &Value, kind: Type<'_>) -> Set {
    let mut set = Set::default();
    gather(value, kind, &mut Vec::new(), &mut set);
    set
}

fn gather(value: &Value, kind: Type<'_>, path: &mut Vec<Element>, set: &mut Set) {
    match (kind.shape(Some(value)), value) {
        (Shape::Scalar | Shape::List { whole: true } | Shape::Map { whole: true }, _) => set.insert(path),
        (Shape::List { whole: false }, Value::Array(items)) => {
            for (element, same) in by_element(Some(items), kind) {
                path.push(element);
                // Items that cannot be told apart are owned together.
                if let [only] = same.as_slice() {
                    gather(only, kind.item(), path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        (Shape::Map { whole: false }, Value::Object(fields)) => {
            for (name, field) in fields {
                path.push(Element::Field(name.clone()));
                gather(field, kind.field(name), path, set);
                let is_empty = field.is_null() || field.as_object().is_some_and(Map::is_empty);
                if is_empty || !kind.declares(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        _ => {}
    }
}

/// The items of a list by what they are known by.
fn by_element<'v>(items: Option<&'v [Value]>, kind: Type<'_>) -> BTreeMap<Element, Vec<&'v Value>> {
    let mut known: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for item in items.unwrap_or_default() {
        if let Ok(element) = kind.identify(item) {
            known.entry(element).or_default().push(item);
        }
    }
    known
}

/// What became of the fields of an object.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) added: Set,
    pub(super) modified: Set,
    pub(super) removed: Set,
}

impl Changes {
    pub(super) fn between(before: &Value, after: &Value, kind: Type<'_>) -> Self {
        let mut changes = Changes::default();
        changes.compare(Some(before), Some(after), kind, &mut Vec::new());
        changes
    }

    /// Without fields, and all below them, whose change goes for nothing.
    pub(super) fn except(mut self, paths: &[&str]) -> Self {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            *set = paths
                .iter()
                .fold(std::mem::take(set), |set, path| set.without(&path.split('.').collect::<Vec<_>>()));
        }
        self
    }

    /// What is there and was not there like this before.
    pub(super) fn written(&self) -> Set {
        self.modified.union(&self.added)
    }

    fn compare(
        &mut self,
        before: Option<&Value>,
        after: Option<&Value>,
        kind: Type<'_>,
        path: &mut Vec<Element>,
    ) {
        let (old, new) = (kind.shape(before), kind.shape(after));
        let whole = match (before, after) {
            (_, None) => self.compare_as(old, before, after, kind, path),
            (None, _) => self.compare_as(new, before, after, kind, path),
            _ if old == new => self.compare_as(new, before, after, kind, path),
            _ => {
                self.compare_as(old, before, after, kind, path);
                self.compare_as(new, before, after, kind, path)
            }
        };
        if !whole {
            match (before, after) {
                (None, _) => self.added.insert(path),
                (_, None) => self.removed.insert(path),
                _ => {}
            }
        }
    }

    /// Tells whether the values were compared as wholes.
    fn compare_as(
        &mut self,
        shape: Shape,
        before: Option<&Value>,
        after: Option<&Value>,
        kind: Type<'_>,
        path: &mut Vec<Element>,
    ) -> bool {
        let no_items = list(before).is_none_or(<[_]>::is_empty) && list(after).is_none_or(<[_]>::is_empty);
        let no_fields = map(before).is_none_or(Map::is_empty) && map(after).is_none_or(Map::is_empty);
        match shape {
            Shape::List { whole: false } if !no_items => {
                self.compare_items(list(before), list(after), kind, path);
            }
            Shape::Map { whole: false } if !no_fields => {
                self.compare_fields(map(before), map(after), kind, path);
            }
            _ => {
                match (before, after) {
                    (None, _) => self.added.insert(path),
                    (_, None) => self.removed.insert(path),
                    (before, after) if before != after => self.modified.insert(path),
                    _ => {}
                }
                return true;
            }
        }
        false
    }

    fn compare_fields(
        &mut self,
        before: Option<&Map<String, Value>>,
        after: Option<&Map<String, Value>>,
        kind: Type<'_>,
        path: &mut Vec<Element>,
    ) {
        let names: BTreeSet<_> = before.into_iter().chain(after).flat_map(Map::keys).collect();
        for name in names {
            let old = before.and_then(|fields| fields.get(name));
            let new = after.and_then(|fields| fields.get(name));
            path.push(Element::Field(name.clone()));
            self.compare(old, new, kind.field(name), path);
            path.pop();
        }
    }

    fn compare_items(
        &mut self,
        before: Option<&[Value]>,
        after: Option<&[Value]>,
        kind: Type<'_>,
        path: &mut Vec<Element>,
    ) {
        let (old, new) = (by_element(before, kind), by_element(after, kind));
        let elements: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        for element in elements {
            let old = old.get(element).map_or(&[][..], Vec::as_slice);
            let new = new.get(element).map_or(&[][..], Vec::as_slice);
            path.push(element.clone());
            match (old, new) {
                ([_, _, ..], [_, _, ..]) if old != new => self.modified.insert(path),
                ([_, _, ..], [_, _, ..]) => {}
                // What could not be told apart is owned together, one that can be is owned field by field.
                ([_, _, ..], rest) => {
                    if let [only] = rest {
                        self.compare(None, Some(only), kind.item(), path);
                    }
                    self.removed.insert(path);
                }
                (rest, [_, _, ..]) => {
                    if let [only] = rest {
                        self.compare(Some(only), None, kind.item(), path);
                    }
                    self.added.insert(path);
                }
                (old, new) => self.compare(old.first().copied(), new.first().copied(), kind.item(), path),
            }
            path.pop();
        }
    }
}

/// A value without some of its fields; null where nothing is left.
pub(super) fn remove(value: &Value, kind: Type<'_>, fields: &Set) -> Value {
    match (kind.shape(Some(value)), value) {
        (Shape::Scalar, value) => value.clone(),
        (Shape::List { whole: false }, Value::Array(items)) => {
            let kept: Vec<_> = items.iter().filter_map(|item| remaining_item(item, kind, fields)).collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Shape::Map { whole: false }, Value::Object(members)) => {
            let mut kept = Map::new();
            for (name, member) in members {
                let element = Element::Field(name.clone());
                if fields.contains(&element) {
                    continue;
                }
                let below = fields.below(&element).map(|below| remove(member, kind.field(name), below));
                kept.insert(name.clone(), below.unwrap_or_else(|| member.clone()));
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        _ => Value::Null,
    }
}

fn remaining_item(item: &Value, kind: Type<'_>, fields: &Set) -> Option<Value> {
    let Ok(element) = kind.identify(item) else { return Some(item.clone()) };
    if fields.contains(&element) {
        return None;
    }
    let below = fields.below(&element).map(|below| remove(item, kind.item(), below));
    Some(below.unwrap_or_else(|| item.clone()))
}

/// A set in which every field that the schema names is a member if anything below it is.
pub(super) fn with_named_fields(set: &Set, kind: Type<'_>) -> Set {
    let named = set.children().map(|(element, _)| element).filter(|element| match element {
        Element::Field(name) => kind.declares(name),
        Element::Key(_) | Element::Value(_) | Element::Index(_) => false,
    });
    set.rebuild(named.cloned(), |element, child| with_named_fields(child, kind.below(element)))
}
