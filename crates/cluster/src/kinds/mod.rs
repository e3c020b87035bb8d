//! The kinds that are served: one table, in which a custom resource is a row like any other.
//!
//! A row says what its kind is called, what it offers, and how its objects are prepared and judged where the schema
//! cannot say it. No kind has code anywhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::machinery::answer::{About, Refusal};
use crate::machinery::schema::{Cause, Definitions, Schema};
use crate::machinery::service::Gates;
use crate::machinery::state::State;
use crate::machinery::store::{Key, KindId};

mod apps;
mod built_in_columns;
mod claims;
pub(crate) mod columns;
pub(crate) mod definitions;
mod disruption;
mod events;
pub(crate) mod meta;
mod names;
mod namespaces;
mod paths;
mod pod_columns;
mod pod_rules;
mod pod_spec;
mod pods;
pub(crate) mod quotas;
mod rows;
mod selectors;
mod services;
mod sets;
mod small;
mod structure;

pub(crate) use claims::{CLAIM_PROTECTION, VOLUME_PROTECTION};
pub(crate) use columns::Columns;
pub(crate) use namespaces::found;
pub(crate) use pod_columns::row_conditions;
pub(crate) use pods::{assign, set_condition};

/// How objects of a kind are prepared and judged beyond their schema. The order is Kubernetes' own: prepare, default,
/// admit, validate.
pub(crate) trait Strategy: Send + Sync {
    /// Removes what a creator may not set.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Takes back what an update may not change silently.
    fn prepare_update(&self, _object: &mut Value, _old: &Value) {}

    /// Fields that a write of the status does not take, and so nobody comes to own by it.
    fn status_resets(&self) -> &'static [&'static str] {
        &["spec"]
    }

    /// Takes back what an update of the status may not change.
    fn prepare_status(&self, _object: &mut Value, _old: &Value) {}

    /// Fills in what depends on more than the field's own absence.
    fn default(&self, _object: &mut Value) {}

    /// What the server's own admission adds to a new object.
    fn admit(&self, _object: &mut Value, _state: &State) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether changes are counted where the kind has a generation at all.
    fn counts_changes(&self) -> bool {
        true
    }

    /// What is wrong with a new object.
    fn validate(&self, _object: &Value) -> Vec<Cause> {
        Vec::new()
    }

    /// What a writer is told about an object that is not wrong.
    fn warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// What is wrong with an update.
    fn validate_update(&self, object: &Value, _old: &Value) -> Vec<Cause> {
        self.validate(object)
    }

    /// What is wrong with an update of the status.
    fn validate_status(&self, _object: &Value, _old: &Value) -> Vec<Cause> {
        Vec::new()
    }

    /// What is wrong with the name of an object.
    fn name_problem(&self, name: &str) -> Option<String> {
        meta::subdomain_problem(name)
    }

    /// The seconds that a deletion leaves an object, if that is more than none; `asked` is the client's wish.
    fn grace(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether something other than finalizers in its metadata keeps a deleted object there.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Why an object of this name may never be deleted.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// What a deletion that is not the end writes besides the timestamp.
    fn mark_deleted(&self, _object: &mut Value) {}

    /// What else changes once an object was written or, with `None`, is gone.
    fn written(&self, _state: &mut State, _before: Option<&Value>, _after: Option<&Value>) {}
}

/// A kind that needs nothing beyond its schema.
pub(crate) struct Plain;
impl Strategy for Plain {}

/// An act on an object that is no ordinary write of it, such as an eviction. Returns the body of a 201.
pub(crate) type Act =
    fn(&mut State, &Kind, &Key, &Value, &crate::machinery::request::Query) -> Result<Value, Refusal>;

/// A subresource that acts.
pub(crate) struct Action {
    pub(crate) name: &'static str,
    /// What its body is.
    pub(crate) kind: &'static str,
    pub(crate) api_version: &'static str,
    pub(crate) act: Act,
}

/// Where a kind keeps what its scale shows, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    /// A label selector: JSON in built-in kinds, text in custom resources.
    pub(crate) selector: Option<String>,
}

/// What is peculiar to a kind beyond its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent peculiarities, each named once per row")]
pub(crate) struct Habits {
    /// Counts changes of what is neither metadata nor status.
    pub(crate) generation: bool,
    /// An update may come without a resource version and then overwrites.
    pub(crate) unconditional_update: bool,
    /// An update of what does not exist creates it.
    pub(crate) create_on_update: bool,
    /// A deletion answers with the object instead of a status.
    pub(crate) shows_deleted: bool,
    /// There is no deletion of many; a subresource lets go of the last hold.
    pub(crate) one_by_one: bool,
    /// Kubernetes keeps no cache of it, and has other words for a past that is gone.
    pub(crate) uncached: bool,
}

/// One version of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) schema: Schema,
    /// What turns a stored object into one of this version; nothing where only its name differs.
    pub(crate) convert: Option<Convert>,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    /// What whoever uses it is told.
    pub(crate) deprecation: Option<String>,
    /// What tables show of its objects.
    pub(crate) columns: Columns,
}

/// A version that looks different from what is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convert {
    pub(crate) from_stored: fn(&Value) -> Value,
    pub(crate) to_stored: fn(Value) -> Value,
}

/// A row of the table.
#[expect(clippy::struct_field_names, reason = "a kind is what Kubernetes calls a row's name, too")]
pub(crate) struct Kind {
    pub(crate) id: KindId,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Served versions; objects are stored in the one named by `stored`.
    pub(crate) versions: Vec<Version>,
    pub(crate) stored: String,
    pub(crate) custom: bool,
    pub(crate) actions: &'static [Action],
    /// Fields that selectors may name.
    pub(crate) fields: Vec<&'static str>,
    pub(crate) habits: Habits,
    pub(crate) strategy: &'static dyn Strategy,
}

impl Kind {
    /// The resource in refusals.
    pub(crate) fn resource(&self) -> About<'_> {
        About { group: &self.group, name: &self.plural }
    }

    /// The kind in refusals.
    pub(crate) fn about(&self) -> About<'_> {
        About { group: &self.group, name: &self.kind }
    }

    /// Whether selectors may name more than the name and the namespace.
    pub(crate) fn has_own_fields(&self) -> bool {
        self.custom || self.fields.iter().any(|field| !field.starts_with("metadata."))
    }

    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub(crate) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    pub(crate) fn key(&self, namespace: &str, name: &str) -> Key {
        let namespace = if self.namespaced { namespace.to_owned() } else { String::new() };
        Key { kind: self.id, namespace, name: name.to_owned() }
    }
}

/// All kinds. Names are looked up by group and plural; what shares storage shares its id.
pub(crate) struct Table {
    rows: BTreeMap<(String, String), Arc<Kind>>,
    next: u32,
    edition: u64,
    pub(crate) definitions: Definitions,
}

impl Table {
    /// The built-in kinds, as gates have them.
    pub(crate) fn new(definitions: Definitions, gates: Gates) -> Self {
        let mut table = Table { rows: BTreeMap::new(), next: 0, edition: 0, definitions };
        for row in rows::BUILT_IN {
            let id = table.new_id();
            let shared = row.stored_with.and_then(|(group, plural)| Some(table.get(group, plural)?.id));
            let mut kind = row.kind(shared.unwrap_or(id), &table.definitions);
            if gates.max_unavailable_stateful_set && (row.plural, row.group) == ("statefulsets", "apps") {
                kind.strategy = &sets::StatefulSets { max_unavailable: true };
            }
            table.insert(kind);
        }
        table
    }

    pub(crate) fn new_id(&mut self) -> KindId {
        self.next += 1;
        KindId(self.next)
    }

    /// Grows whenever a kind comes, goes or changes.
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    pub(crate) fn insert(&mut self, kind: Kind) {
        self.edition += 1;
        self.rows.insert((kind.group.clone(), kind.plural.clone()), Arc::new(kind));
    }

    pub(crate) fn remove(&mut self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        self.edition += 1;
        self.rows.remove(&(group.to_owned(), plural.to_owned()))
    }

    pub(crate) fn get(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.rows.get(&(group.to_owned(), plural.to_owned()))
    }

    /// By kind, as owner references name it.
    pub(crate) fn named(&self, group: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.rows.values().find(|row| row.group == group && row.kind == kind)
    }

    /// All rows, by group and plural.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.rows.values()
    }

    /// Whether a group has this version at all.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.rows.values().any(|row| row.group == group && row.version(version).is_some())
    }
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
