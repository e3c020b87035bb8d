//! Strategic merge patch: a merge patch that knows which lists are maps by another name.
//!
//! Directives in the patch say what merging cannot: `$patch` replaces or deletes, `$deleteFromPrimitiveList/NAME`
//! takes out of a list, `$setElementOrder/NAME` sorts one, `$retainKeys` clears what a union no longer holds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::PatchError;
use crate::machinery::{
    go,
    schema::{Origin, Schema, View},
};

#[cfg(test)]
#[path = "strategic_tests.rs"]
mod tests;

const DIRECTIVE: &str = "$patch";
const DELETE: &str = "delete";
const REPLACE: &str = "replace";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

type Fields = Map<String, Value>;
type Merged<T> = Result<T, PatchError>;

/// The document after a strategic merge patch.
pub fn strategic(document: &Value, patch: &Value, schema: &Schema) -> Result<Value, PatchError> {
    if schema.origin() == Origin::Custom {
        return Err(PatchError::Malformed("strategic merge patch format is not supported".to_owned()));
    }
    let (Value::Object(fields), Value::Object(changes)) = (document, patch) else {
        return Err(PatchError::Malformed("invalid JSON document".to_owned()));
    };
    merge_fields(fields.clone(), changes.clone(), Some(schema.view())).map(Value::Object)
}

fn merge_fields(mut fields: Fields, mut changes: Fields, view: Option<View<'_>>) -> Merged<Fields> {
    if let Some(directive) = changes.get(DIRECTIVE) {
        match directive.as_str() {
            Some(REPLACE) => changes.remove(DIRECTIVE),
            Some(DELETE) => return Ok(Fields::new()),
            _ => return Err(unknown_directive(directive, &changes)),
        };
        return Ok(changes);
    }
    retain_keys(&mut fields, &mut changes)?;
    order_lists(&mut fields, &mut changes, view)?;
    for (key, change) in changes {
        let (name, taken_out) = match key.split_once('/') {
            Some((DELETE_FROM_LIST, name)) => (name.to_owned(), true),
            _ if key.starts_with(DELETE_FROM_LIST) => {
                return Err(malformed("invalid patch format of primitive list"));
            }
            _ => (key, false),
        };
        if change.is_null() {
            fields.remove(&name);
            continue;
        }
        let member = view.and_then(|view| view.member(&name));
        match (fields.remove(&name), change) {
            (Some(Value::Object(_)), change @ Value::Object(_))
                if member.is_some_and(|member| member.edge().replace) =>
            {
                fields.insert(name, change);
            }
            (Some(Value::Object(before)), Value::Object(change)) => {
                fields.insert(name, Value::Object(merge_fields(before, change, member)?));
            }
            (Some(Value::Array(before)), Value::Array(change)) => {
                let merged = if taken_out {
                    let gone = Places::of(&change, None)?;
                    before.into_iter().filter(|item| gone.find(item).is_none()).collect()
                } else {
                    merge_list(before, change, member)?
                };
                fields.insert(name, Value::Array(merged));
            }
            (before, _) if taken_out => fields.extend(before.map(|before| (name, before))),
            (_, change) => fields.extend(plain(without_nulls(change)).map(|value| (name, value))),
        }
    }
    Ok(fields)
}

/// Of a union only what the patch lists is kept.
fn retain_keys(fields: &mut Fields, changes: &mut Fields) -> Merged<()> {
    let Some(kept) = changes.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || malformed("invalid patch format of retainKeys");
    let kept: BTreeSet<_> = kept.as_array().ok_or_else(malformed)?.iter().filter_map(Value::as_str).collect();
    let directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(ELEMENT_ORDER);
    if changes
        .iter()
        .any(|(name, value)| !value.is_null() && !directive(name) && !kept.contains(name.as_str()))
    {
        return Err(malformed());
    }
    fields.retain(|name, _| kept.contains(name.as_str()));
    Ok(())
}

/// Merges the lists that the patch orders and sorts them.
fn order_lists(fields: &mut Fields, changes: &mut Fields, view: Option<View<'_>>) -> Merged<()> {
    let directives: Vec<_> = changes.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let format = || malformed("invalid patch format of setElementOrder list");
        let order = changes.remove(&directive).unwrap_or_default();
        let (_, name) = directive.split_once('/').ok_or_else(format)?;
        let Value::Array(order) = order else { return Err(not_a_list(&order)) };
        let member = view.and_then(|view| view.member(name));
        if let (None, Some(strct)) = (member, view.and_then(|view| view.node().go.as_ref())) {
            let strct = &strct.name;
            let message = format!("unable to find api field in struct {strct} for the json field {name:?}");
            return Err(PatchError::Unsupported(message));
        }
        let key = member.and_then(|member| member.edge().merge_key.as_deref());
        let before = take_list(fields, name)?;
        let change = take_list(changes, name)?;
        check_order(change.as_deref().unwrap_or_default(), &order, key)?;
        let merged = match (before.clone(), change) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(change)) => change.into_iter().filter_map(plain).collect(),
            (Some(before), Some(change)) => merge_list(before, change, member)?,
        };
        let sorted = arrange(merged, &order, &before.unwrap_or_default(), key)?;
        fields.insert(name.to_owned(), Value::Array(sorted));
    }
    Ok(())
}

fn take_list(fields: &mut Fields, name: &str) -> Merged<Option<Vec<Value>>> {
    match fields.remove(name) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(not_a_list(&other)),
    }
}

/// What a patch sets has to come in the order that the patch asks for.
fn check_order(change: &[Value], order: &[Value], key: Option<&str>) -> Merged<()> {
    if change.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for item in change.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let own = identity(item, key)?;
        loop {
            let Some(next) = wanted.next() else {
                let shown = |list: &[Value]| go::plain(&Value::from(list.to_vec()));
                let (list, order) = (shown(change), shown(order));
                let message = format!(
                    "The order in patch list:\n{list}\n doesn't match {ELEMENT_ORDER} list:\n{order}\n"
                );
                return Err(PatchError::Unsupported(message));
            };
            if identity(next, key)? == own {
                break;
            }
        }
    }
    Ok(())
}

fn merge_list(before: Vec<Value>, change: Vec<Value>, view: Option<View<'_>>) -> Merged<Vec<Value>> {
    let Some(view) = view.filter(|view| view.edge().merge) else { return Ok(change) };
    let Some(of_objects) = holds_objects(&before, &change)? else { return Ok(before) };
    if !of_objects {
        let mut seen = BTreeSet::new();
        let merged = before.iter().chain(&change).filter(|item| seen.insert(text(item))).cloned().collect();
        return arrange(merged, &change, &before, None);
    }
    let Some(key) = view.edge().merge_key.as_deref() else {
        return Err(PatchError::Unsupported("cannot merge lists without merge key".to_owned()));
    };
    let (before, change) = follow_directives(before, change, key)?;
    let mut merged = before.clone();
    let mut places = Places::of_those_with(&merged, key);
    for item in &change {
        let own = identity(item, Some(key))?;
        let Some(old) = places.find(own).and_then(|place| merged.get_mut(place)) else {
            places.add(own, merged.len());
            merged.push(item.clone());
            continue;
        };
        if let (Value::Object(fields), Value::Object(changes)) = (old.take(), item.clone()) {
            *old = Value::Object(merge_fields(fields, changes, view.items())?);
        }
    }
    arrange(merged, &change, &before, Some(key))
}

/// Whether two lists hold objects, if they hold anything; mixed lists cannot be merged.
fn holds_objects(before: &[Value], change: &[Value]) -> Merged<Option<bool>> {
    let mut all = before.iter().chain(change);
    let Some(first) = all.clone().next() else { return Ok(None) };
    if first.is_array() {
        return Err(PatchError::Inapplicable("lists of lists are not supported".to_owned()));
    }
    let kind = std::mem::discriminant(first);
    if all.any(|item| std::mem::discriminant(item) != kind) {
        let lists = Value::from(vec![before.to_vec(), change.to_vec()]);
        return Err(PatchError::Unsupported(format!(
            "list element types are not identical: {}",
            go::plain(&lists)
        )));
    }
    Ok(Some(first.is_object()))
}

/// Takes out what the patch deletes, and everything if it replaces the list.
fn follow_directives(
    mut before: Vec<Value>,
    change: Vec<Value>,
    key: &str,
) -> Merged<(Vec<Value>, Vec<Value>)> {
    let (mut kept, mut gone, mut replaces) = (Vec::new(), BTreeSet::new(), false);
    for item in change {
        match item.get(DIRECTIVE).map(|directive| (directive, directive.as_str())) {
            None => kept.push(item),
            Some((_, Some(DELETE))) => {
                gone.insert(text(identity(&item, Some(key))?));
            }
            Some((_, Some(REPLACE))) => replaces = true,
            Some((_, Some("merge"))) => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Unsupported(message.to_owned()));
            }
            Some((directive, _)) => {
                return Err(unknown_directive(directive, &item.as_object().cloned().unwrap_or_default()));
            }
        }
    }
    before.retain(|old| old.get(key).is_none_or(|own| !gone.contains(&text(own))));
    Ok(if replaces { (kept, Vec::new()) } else { (before, kept) })
}

/// Puts the items of a patch into its order and weaves them between those that it does not mention.
fn arrange(merged: Vec<Value>, order: &[Value], before: &[Value], key: Option<&str>) -> Merged<Vec<Value>> {
    if merged.is_empty() {
        return Ok(merged);
    }
    let (wanted, before) = (Places::of(order, key)?, Places::of(before, key)?);
    let (mut ordered, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let own = identity(&item, key)?;
        let old = before.find(own);
        match wanted.find(own) {
            Some(position) => ordered.push((position, old, item)),
            None => others.push((old, item)),
        }
    }
    ordered.sort_by_key(|(position, ..)| *position);
    others.sort_by_key(|(old, _)| *old);
    let mut arranged = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, old, item) in ordered {
        let comes_first = |other: &(Option<usize>, Value)| matches!((other.0, old), (Some(left), Some(right)) if left < right);
        while let Some((_, other)) = others.next_if(comes_first) {
            arranged.push(other);
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, other)| other));
    Ok(arranged)
}

/// Where the items of a list are first found, by what they are known by. Lists may be long: each is searched once.
struct Places(BTreeMap<String, usize>);

impl Places {
    fn of(list: &[Value], key: Option<&str>) -> Merged<Self> {
        let mut places = Places(BTreeMap::new());
        for (place, item) in list.iter().enumerate() {
            places.add(identity(item, key)?, place);
        }
        Ok(places)
    }

    /// Of the items that have the key.
    fn of_those_with(list: &[Value], key: &str) -> Self {
        let mut places = Places(BTreeMap::new());
        for (place, item) in list.iter().enumerate() {
            if let Some(own) = item.get(key) {
                places.add(own, place);
            }
        }
        places
    }

    fn add(&mut self, own: &Value, place: usize) {
        self.0.entry(text(own)).or_insert(place);
    }

    fn find(&self, own: &Value) -> Option<usize> {
        self.0.get(&text(own)).copied()
    }
}

/// Equal values have equal texts: fields are in order.
fn text(value: &Value) -> String {
    value.to_string()
}

/// What an item of a list is known by.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Merged<&'a Value> {
    match (key, item) {
        (None, item) => Ok(item),
        (Some(key), Value::Object(fields)) => fields.get(key).ok_or_else(|| {
            PatchError::Unsupported(format!(
                "map: {} does not contain declared merge key: {key}",
                go::plain(item)
            ))
        }),
        (Some(_), item) => {
            let message =
                format!("expected a map[string]interface {{}}, but received a {}", go::type_name(item));
            Err(PatchError::Unsupported(message))
        }
    }
}

/// A value without its directives; nothing if it is one.
fn plain(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            Some(fields.into_iter().filter_map(|(name, value)| Some((name, plain(value)?))).collect())
        }
        Value::Array(items) => Some(items.into_iter().filter_map(plain).collect()),
        scalar => Some(scalar),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

fn malformed(message: &str) -> PatchError {
    PatchError::Malformed(message.to_owned())
}

fn unknown_directive(directive: &Value, fields: &Fields) -> PatchError {
    let name = directive.as_str().map_or_else(|| directive.to_string(), str::to_owned);
    PatchError::Unsupported(format!(
        "unknown patch type: {name} in map: {}",
        go::plain(&Value::Object(fields.clone()))
    ))
}

fn not_a_list(value: &Value) -> PatchError {
    PatchError::Unsupported(format!("expected a []interface {{}}, but received a {}", go::type_name(value)))
}
