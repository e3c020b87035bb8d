//! A value with another laid over it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    set::Element,
    shape::{Shape, Type, list, map},
};

/// The live value with the applied one laid over it; nothing if nothing is left.
pub(super) fn merge(live: Option<&Value>, applied: Option<&Value>, kind: Type<'_>) -> Option<Value> {
    let shape = if applied.is_some() { kind.shape(applied) } else { kind.shape(live) };
    let no_items = list(live).is_none_or(<[_]>::is_empty) && list(applied).is_none_or(<[_]>::is_empty);
    let no_fields = map(live).is_none_or(Map::is_empty) && map(applied).is_none_or(Map::is_empty);
    match shape {
        Shape::List { whole: false } if !no_items => {
            let items = merge_items(list(live).unwrap_or_default(), list(applied).unwrap_or_default(), kind);
            Some(Value::Array(items)).filter(|items| items != &Value::Array(Vec::new()))
        }
        Shape::Map { whole: false } if !no_fields => merge_fields(map(live), map(applied), kind),
        _ => applied.or(live).cloned(),
    }
}

fn merge_fields(
    live: Option<&Map<String, Value>>,
    applied: Option<&Map<String, Value>>,
    kind: Type<'_>,
) -> Option<Value> {
    let names: BTreeSet<_> = live.into_iter().chain(applied).flat_map(Map::keys).collect();
    let mut merged = Map::new();
    for name in names {
        let old = live.and_then(|fields| fields.get(name));
        let new = applied.and_then(|fields| fields.get(name));
        merged.extend(merge(old, new, kind.field(name)).map(|value| (name.clone(), value)));
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// The applied items keep their order among each other; live items that are not applied keep their place before the
/// applied item that they stood before.
fn merge_items(live: &[Value], applied: &[Value], kind: Type<'_>) -> Vec<Value> {
    let identify = |items: &[Value]| -> Vec<(Element, usize)> {
        let known = |(place, item): (usize, &Value)| Some((kind.identify(item).ok()?, place));
        items.iter().enumerate().filter_map(known).collect()
    };
    let (old, new) = (identify(live), identify(applied));
    let new_by_element: BTreeMap<_, _> = new.iter().map(|(element, place)| (element, *place)).collect();
    let mut old_by_element: BTreeMap<&Element, Option<usize>> = BTreeMap::new();
    for (element, place) in &old {
        // Those that cannot be told apart are replaced, not merged.
        old_by_element.entry(element).and_modify(|place| *place = None).or_insert(Some(*place));
    }
    let mut shared =
        new.iter().map(|(element, _)| element).filter(|element| old_by_element.contains_key(element));
    let mut next_shared = shared.next();
    let mut done = BTreeSet::new();
    let mut merged = Vec::new();
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    while old.peek().is_some() || new.peek().is_some() {
        if let Some((element, place)) = old.peek() {
            if !new_by_element.contains_key(element) {
                merged.extend(merge(live.get(*place), None, kind.item()));
                old.next();
                continue;
            }
            // An applied item takes the place that the applied list gives it.
            let waits = next_shared.is_some_and(|next| next != element) && new.peek().is_some();
            if waits || done.contains(element) {
                old.next();
                continue;
            }
        }
        let Some((element, place)) = new.next() else {
            old.next();
            continue;
        };
        let old_place = old_by_element.get(element).copied().flatten();
        merged.extend(merge(old_place.and_then(|place| live.get(place)), applied.get(*place), kind.item()));
        done.insert(element);
        if old.peek().is_some_and(|(next, _)| next == element) {
            old.next();
        }
        if next_shared == Some(element) {
            next_shared = shared.next();
        }
    }
    merged
}
