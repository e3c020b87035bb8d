//! Server-side apply: who owns which field, and what follows when an owner changes its mind.
//!
//! ```text
//! managers (who) ── set (which fields) ── fields, merge (of which values) ── shape (by schema)
//! ```

mod fields;
mod last_applied;
mod managers;
mod merge;
mod set;
mod shape;
mod typed;

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::schema::{Cause, Origin, Schema};
use fields::Changes;
use managers::{Managers, Name, Owned};
use set::Set;
use shape::Type;

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;

/// Owns what was there before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// What identifies an object or belongs to the server is nobody's.
const UNOWNED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// How a manager writes, as `managedFields` spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Everything else.
    Update,
}

/// Who writes, and through what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    /// The name that the client gave itself.
    pub name: String,
    /// How it writes.
    pub operation: Operation,
    /// The version of the kind that it speaks, as in `apps/v1`.
    pub api_version: String,
    /// The subresource that it writes to, if any.
    pub subresource: Option<String>,
    /// Fields that are not taken from it there, as in `status` or `metadata.ownerReferences`: it does not come to own
    /// them.
    pub resets: &'static [&'static str],
}

/// Why an apply did not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Others own what it would change; Kubernetes answers 409.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// Managed fields are not applied; Kubernetes answers 400.
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// The object does not follow the schema; Kubernetes answers 500.
    #[error("failed to create typed patch object ({object}): {complaint}")]
    Untyped {
        /// What was applied.
        object: String,
        /// What is wrong with it.
        complaint: String,
    },
    /// The live object's managed fields cannot be read; Kubernetes answers 500.
    #[error("failed to decode managed fields")]
    Unreadable,
}

/// Fields that belong to others, who would have to agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

/// A field that belongs to another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Conflict {
    manager: String,
    field: String,
}

impl Conflicts {
    /// The same as seen through a subresource, in which the others' fields are those of this version.
    pub(crate) fn through(self, api_version: &str) -> Self {
        let told = |Conflict { manager, field }| {
            let name = manager.split(" using ").next().unwrap_or_default();
            Conflict { manager: format!("{name} using {api_version}"), field }
        };
        Conflicts(self.0.into_iter().map(told).collect())
    }

    /// One for each field.
    pub fn causes(&self) -> Vec<Cause> {
        let cause = |conflict: &Conflict| Cause {
            field: conflict.field.clone(),
            reason: "FieldManagerConflict",
            message: format!("conflict with {}", conflict.manager),
        };
        self.0.iter().map(cause).collect()
    }
}

impl std::error::Error for Conflicts {}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Conflict { manager, field }] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {field}");
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut lines: Vec<String> = Vec::new();
        for (position, Conflict { manager, field }) in self.0.iter().enumerate() {
            let before = position.checked_sub(1).and_then(|before| self.0.get(before));
            if before.is_none_or(|before| &before.manager != manager) {
                lines.push(format!("conflicts with {manager}:"));
            }
            lines.push(format!("- {field}"));
        }
        write!(f, "{}", lines.join("\n"))
    }
}

/// The object after an apply, with its managed fields.
///
/// What the manager applied before and applies no longer goes, unless somebody else owns it too. What is not there
/// yet is made of what was applied.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    manager: &Manager,
    force: bool,
    schema: &Schema,
    now: Timestamp,
) -> Result<Value, ApplyError> {
    if applied.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::ManagedFields);
    }
    let kind = Type::Known(schema.view());
    let complaints = typed::check(applied, kind);
    if !complaints.is_empty() {
        return Err(ApplyError::Untyped { object: described(applied), complaint: listed(&complaints) });
    }
    let mut managers = Managers::decode(live.and_then(listed_managers)).ok_or(ApplyError::Unreadable)?;
    let mut live = live.cloned().unwrap_or_else(|| nothing_but_its_type(applied, schema));
    forget_managers(&mut live);
    if managers.is_empty() {
        let before =
            Manager { name: BEFORE_FIRST_APPLY.to_owned(), operation: Operation::Update, ..manager.clone() };
        record(&mut managers, &nothing_but_its_type(&live, schema), &live, &before, kind, now);
    }

    let attempt = |force| lay_over(&live, managers.clone(), applied, manager, force, kind, now);
    let (mut object, managers) = attempt(force).or_else(|mut contested| {
        if manager.name == last_applied::KUBECTL
            && let Some(untouched) = last_applied::untouched(&live, &manager.api_version, kind)
        {
            contested.concede(&untouched);
        }
        if contested.0.is_empty() { attempt(true) } else { Err(contested) }
    })?;
    if schema.origin() == Origin::BuiltIn {
        schema.drop_nulls(&mut object);
    }
    if manager.name == last_applied::KUBECTL {
        last_applied::renew(&mut object, applied);
    }
    remember_managers(&mut object, &managers);
    Ok(object)
}

/// The live object with the applied one laid over it, and who owns what then.
fn lay_over(
    live: &Value,
    mut managers: Managers,
    applied: &Value,
    manager: &Manager,
    force: bool,
    kind: Type<'_>,
    now: Timestamp,
) -> Result<(Value, Managers), Contested> {
    let name = Name::of(manager);
    let last = managers.0.get(&name).cloned();
    let set = manager
        .resets
        .iter()
        .fold(fields::of(applied, kind), |set, path| set.without(&path.split('.').collect::<Vec<_>>()));
    let time = last.as_ref().and_then(|last| last.time);
    managers.0.insert(name.clone(), Owned { set, api_version: manager.api_version.clone(), time });
    let merged = merge::merge(Some(live), Some(applied), kind).unwrap_or_default();
    let merged = prune(merged, &managers, last.as_ref(), kind);

    let changes = Changes::between(live, &merged, kind).except(manager.resets);
    settle(&mut managers, &changes, &name, force)?;
    if let Some(owned) = managers.0.get_mut(&name) {
        owned.set = owned.set.difference(&unowned());
        if &merged != live {
            owned.time = Some(now);
        }
    }
    managers.0.retain(|_, owned| !owned.set.is_empty());
    Ok((merged, managers))
}

/// The object after an ordinary write, with its managed fields: the writer owns what it changed.
pub fn track(
    before: Option<&Value>,
    after: Value,
    manager: &Manager,
    schema: &Schema,
    now: Timestamp,
) -> Value {
    let kind = Type::Known(schema.view());
    let mut after = after;
    let mut managers = managers_of_write(before, &after, manager);
    forget_managers(&mut after);
    // An object whose managers were cleared is not tracked until somebody applies it.
    let is_new = before.is_none_or(|before| before.pointer("/metadata/uid").is_none());
    if managers.is_empty() && !is_new {
        return after;
    }
    let mut before = before.cloned().unwrap_or_else(|| nothing_but_its_type(&after, schema));
    forget_managers(&mut before);
    record(&mut managers, &before, &after, manager, kind, now);
    managers.cap();
    remember_managers(&mut after, &managers);
    after
}

/// An object as it is to be stored: one that differs only in when its managers wrote does not differ. Their order, which
/// is one of times, counts, as it does in Kubernetes: an apply that changes nothing is a write when it changes that.
pub fn without_needless_times(before: &Value, after: Value) -> Value {
    if is_same_but(&["metadata", "managedFields"], before, &after) { before.clone() } else { after }
}

/// Whether two objects are the same but for the times of the entries in the list at this path.
fn is_same_but(path: &[&str], before: &Value, after: &Value) -> bool {
    match (path, before, after) {
        ([field, rest @ ..], Value::Object(before), Value::Object(after)) => {
            before.len() == after.len()
                && before.iter().zip(after).all(|((name, was), (other, is))| {
                    let is_same = || if name == field { is_same_but(rest, was, is) } else { was == is };
                    name == other && is_same()
                })
        }
        ([], Value::Array(before), Value::Array(after)) => {
            before.len() == after.len()
                && before.iter().zip(after).all(|(was, is)| match (was, is) {
                    (Value::Object(was), Value::Object(is)) => {
                        fn timeless(entry: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
                            entry.iter().filter(|(name, _)| *name != "time")
                        }
                        timeless(was).eq(timeless(is))
                    }
                    (was, is) => was == is,
                })
        }
        (_, before, after) => before == after,
    }
}

/// Makes a writer own what it changed, and nobody else.
fn record(
    managers: &mut Managers,
    before: &Value,
    after: &Value,
    manager: &Manager,
    kind: Type<'_>,
    now: Timestamp,
) {
    let changes = Changes::between(before, after, kind).except(manager.resets);
    let written = changes.written();
    managers.take(|_| Some(written.union(&changes.removed)));
    let set = written.difference(&unowned());
    if set.is_empty() {
        return;
    }
    let name = Name::of(manager);
    let set = managers.0.get(&name).map_or_else(|| set.clone(), |previous| previous.set.union(&set));
    managers.0.insert(name, Owned { set, api_version: manager.api_version.clone(), time: Some(now) });
}

/// What others own of that which an apply would change.
struct Contested(BTreeMap<Name, Set>);

impl Contested {
    /// Takes out what is not worth a conflict.
    fn concede(&mut self, conceded: &Set) {
        for set in self.0.values_mut() {
            *set = set.difference(conceded);
        }
        self.0.retain(|_, set| !set.is_empty());
    }
}

impl From<Contested> for ApplyError {
    fn from(contested: Contested) -> Self {
        let conflict = |(name, set): (&Name, &Set)| -> Vec<Conflict> {
            let shown = |path: &Vec<set::Element>| path.iter().map(ToString::to_string).collect::<String>();
            let paths = set.paths();
            paths.iter().map(|path| Conflict { manager: name.shown(), field: shown(path) }).collect()
        };
        ApplyError::Conflicts(Conflicts(contested.0.iter().flat_map(conflict).collect()))
    }
}

/// Without force, nobody loses a field that is still there; a field that is gone is nobody's.
fn settle(managers: &mut Managers, changes: &Changes, applier: &Name, force: bool) -> Result<(), Contested> {
    let written = changes.written();
    let contested: BTreeMap<_, _> = managers
        .0
        .iter()
        .filter(|(name, _)| *name != applier)
        .map(|(name, owned)| (name.clone(), owned.set.intersection(&written)))
        .filter(|(_, set)| !set.is_empty())
        .collect();
    if !force && !contested.is_empty() {
        return Err(Contested(contested));
    }
    managers.take(|name| {
        let contested = contested.get(name).cloned().unwrap_or_default();
        (name != applier).then(|| contested.union(&changes.removed))
    });
    Ok(())
}

/// Takes out what the manager applied last time and not now, unless it belongs to somebody.
fn prune(merged: Value, managers: &Managers, last: Option<&Owned>, kind: Type<'_>) -> Value {
    let Some(last) = last.filter(|last| !last.set.is_empty()) else { return merged };
    let named = |set: &Set| fields::with_named_fields(set, kind);
    let last = named(&last.set);
    let pruned = fields::remove(&merged, kind, &last);
    let owned = managers.0.values().fold(Set::default(), |all, owned| all.union(&owned.set));
    let all = named(&fields::of(&merged, kind));
    let kept = named(&fields::of(&pruned, kind)).union(&named(&owned));
    let pruned = fields::remove(&merged, kind, &all.difference(&kept));
    // What hung on a removed field and was never the manager's stays.
    let gone = all.difference(&named(&fields::of(&pruned, kind))).intersection(&last);
    fields::remove(&merged, kind, &gone)
}

/// A write may bring managers of its own, unless it goes through a subresource.
fn managers_of_write(before: Option<&Value>, after: &Value, manager: &Manager) -> Managers {
    let previous = || Managers::decode(before.and_then(listed_managers)).unwrap_or_default();
    let listed = listed_managers(after);
    if manager.subresource.is_some() {
        return previous();
    }
    // An empty list, or one empty entry, asks to forget them.
    match listed.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => return Managers::default(),
        Some([only]) if only.as_object().is_some_and(Map::is_empty) => {
            return Managers::default();
        }
        _ => {}
    }
    Managers::decode(listed).filter(|managers| !managers.is_empty()).unwrap_or_else(previous)
}

fn listed_managers(object: &Value) -> Option<&Value> {
    object.pointer("/metadata/managedFields")
}

fn forget_managers(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn remember_managers(object: &mut Value, managers: &Managers) {
    let (Some(object), Some(entries)) = (object.as_object_mut(), managers.encode()) else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".to_owned(), entries);
    }
}

/// What an object of this type is before anything is said of it.
fn nothing_but_its_type(object: &Value, schema: &Schema) -> Value {
    let mut nothing = schema.zero();
    if let Some(fields) = nothing.as_object_mut() {
        for name in ["apiVersion", "kind"] {
            fields.extend(object.get(name).map(|value| (name.to_owned(), value.clone())));
        }
    }
    nothing
}

fn unowned() -> Set {
    let mut set = Set::default();
    for path in UNOWNED {
        let path: Vec<_> = path.iter().map(|&name| set::Element::Field(name.to_owned())).collect();
        set.insert(&path);
    }
    set
}

/// As complaints name an object: `default/web; apps/v1, Kind=StatefulSet`.
fn described(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    format!("{namespace}/{name}; {slash}{version}, Kind={}", text("/kind"))
}

fn listed(complaints: &[String]) -> String {
    match complaints {
        [only] => only.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    }
}
