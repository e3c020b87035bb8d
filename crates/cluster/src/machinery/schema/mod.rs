//! The shape of a kind, from the OpenAPI definitions of built-in kinds or from a custom resource's schema.
//!
//! ```text
//! definitions ──> Definitions ──> Schema ──> default, prune, validate
//!                      ^             └──> View: what patch and apply walk along
//!    a CRD's schema ───┘
//! ```
//!
//! Everything here recurses along a value or a schema; both come out of a JSON parser that bounds their depth.

pub(crate) mod cel;
mod default;
mod format;
mod mistyped;
mod node;
mod normalize;
mod path;
pub(crate) mod pattern;
mod prune;
pub(crate) mod quantity;
mod rules;
mod steps;
mod validate;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde_json::{Map, Value};

pub use path::Path;

use node::GoType;
pub(crate) use node::{Edge, Graph, Kind, List, Others, Unknown, View};

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;

/// The built-in kinds as the real server describes them.
const BUILT_IN: &str = include_str!("../../kinds/schemas.json");
/// Causes that keep rules from being judged: they may read what is missing or of another type.
const BLOCKING: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];
const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
                         errors to complete validation";
/// What OpenAPI does not say of the Go types behind them; `make schemas` writes both.
const GO_FIELDS: &str = include_str!("../../kinds/go_fields.json");
const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// The shape of one kind.
#[derive(Clone, Debug)]
pub struct Schema {
    graph: Arc<Graph>,
    root: Edge,
    origin: Origin,
}

/// Where a schema comes from: Kubernetes treats the two differently in places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A Go type: what is not there is its zero value.
    BuiltIn,
    /// A custom resource: what is not there is not there.
    Custom,
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// Where, as in `spec.containers[0].name`.
    pub field: String,
    /// The kind of wrong, as in `FieldValueRequired`.
    pub reason: &'static str,
    /// What is wrong, without the field.
    pub message: String,
}

/// Definitions of kinds, by what they call themselves.
#[derive(Clone, Debug)]
pub struct Definitions {
    raw: Arc<Map<String, Value>>,
    go: Arc<BTreeMap<String, GoType>>,
    graph: Arc<Graph>,
    kinds: Arc<BTreeMap<GroupVersionKind, Edge>>,
}

type GroupVersionKind = (String, String, String);

/// Why definitions cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the definitions are no JSON object: {0}")]
pub struct DefinitionsError(#[from] serde_json::Error);

impl Definitions {
    /// Those of the built-in kinds.
    pub fn built_in() -> Result<Self, DefinitionsError> {
        // Read once for all servers of a process: simulations start thousands of them.
        static READ: OnceLock<Definitions> = OnceLock::new();
        if let Some(read) = READ.get() {
            return Ok(read.clone());
        }
        let read = Self::parse(BUILT_IN)?;
        Ok(READ.get_or_init(|| read).clone())
    }

    /// Reads definitions, a JSON object by name.
    pub fn parse(definitions: &str) -> Result<Self, DefinitionsError> {
        let raw: Map<String, Value> = serde_json::from_str(definitions)?;
        let go: BTreeMap<String, GoType> = serde_json::from_str(GO_FIELDS)?;
        let mut builder = node::Builder::knowing(go.clone());
        builder.define(&raw);
        let mut kinds = BTreeMap::new();
        for (name, definition) in &raw {
            for said in definition.get(GROUP_VERSION_KIND).and_then(Value::as_array).into_iter().flatten() {
                let part = |part| node::text(said, part).unwrap_or_default().to_owned();
                kinds.insert((part("group"), part("version"), part("kind")), builder.definition(name));
            }
        }
        Ok(Definitions {
            raw: Arc::new(raw),
            go: Arc::new(go),
            graph: builder.finish(),
            kinds: Arc::new(kinds),
        })
    }

    /// As they were read, by name.
    pub(crate) fn raw(&self) -> &Map<String, Value> {
        &self.raw
    }

    /// The shape of a built-in kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        let root = self.kinds.get(&(group.to_owned(), version.to_owned(), kind.to_owned()))?.clone();
        Some(Schema { graph: self.graph.clone(), root, origin: Origin::BuiltIn })
    }

    /// The shape of a custom resource, from the `openAPIV3Schema` of its definition.
    pub fn custom(&self, schema: &Value) -> Schema {
        // Only what metadata consists of is needed of the built-in definitions.
        let of_metadata = |name: &&String| name.starts_with("io.k8s.apimachinery.");
        let metadata = self.raw.iter().filter(|(name, _)| of_metadata(name));
        let go = (*self.go).clone();
        let mut builder = node::Builder::knowing(go);
        builder.define(&metadata.map(|(name, definition)| (name.clone(), definition.clone())).collect());
        let root = builder.resource(schema);
        Schema { graph: builder.finish(), root, origin: Origin::Custom }
    }
}

impl Schema {
    /// The shape of a value that is no object of its own.
    pub(crate) fn of_value(schema: &Value) -> Self {
        let mut builder = node::Builder::default();
        let root = builder.value(schema);
        Schema { graph: builder.finish(), root, origin: Origin::Custom }
    }

    /// Fills in what has a default and is missing; of a built-in kind, drops nulls.
    pub fn default(&self, object: &mut Value) {
        default::default(object, self.view(), self.origin);
    }

    /// Drops nulls where null is no value and there is no default for it, as Kubernetes does with what it reads.
    pub(crate) fn drop_unset(&self, object: &mut Value) {
        default::drop_unset(object, self.view());
    }

    /// Drops what the schema does not know.
    pub fn prune(&self, object: &mut Value) {
        prune::prune(object, self.view());
    }

    /// Writes an object as a server does that has read it into types of its own: without nulls and empty lists and
    /// maps, amounts in their canonical form. Of a custom resource only the metadata is read like that.
    pub fn normalize(&self, object: &mut Value) {
        match self.origin {
            Origin::BuiltIn => normalize::normalize(object, self.view()),
            Origin::Custom => {
                normalize::whole_numbers(object);
                if let (Some(metadata), Some(view)) =
                    (object.get_mut("metadata"), self.view().property("metadata"))
                {
                    normalize::normalize(metadata, view);
                }
            }
        }
    }

    /// Writes empty lists and maps as null where Go does so.
    pub(crate) fn empty_to_null(&self, object: &mut Value) {
        if self.origin == Origin::BuiltIn {
            normalize::empty_to_null(object, self.view());
        }
    }

    /// The fields that the schema does not know, in order.
    pub fn unknown_fields(&self, object: &Value) -> Vec<Path> {
        prune::unknown(object, self.view())
    }

    /// What Go says about the first value that does not fit its type.
    pub(crate) fn mistyped(&self, object: &Value) -> Option<String> {
        mistyped::mistyped(object, self.view())
    }

    /// What Go says about the first value that cannot be put into its type, if it comes as a value and not as text.
    pub(crate) fn unrestorable(&self, object: &Value) -> Option<String> {
        mistyped::unrestorable(object, self.view())
    }

    /// What is wrong with an object.
    pub fn validate(&self, object: &Value) -> Vec<Cause> {
        validate::validate(object, self.view())
    }

    /// What is wrong with a custom resource, its CEL rules included; `before` is what it replaces. What did not change
    /// is not held against it, so that a schema may become stricter.
    pub fn judge(&self, object: &Value, before: Option<&Value>) -> Vec<Cause> {
        let mut causes = self.validate(object);
        if let Some(before) = before {
            causes.retain(|cause| !validate::is_old(&cause.field, object, before));
        }
        if !self.graph.has_rules() {
            return causes;
        }
        if causes.iter().any(|cause| BLOCKING.contains(&cause.reason)) {
            causes.push(Cause::invalid(validate::NOWHERE, &Value::Null, UNCHECKED));
        } else {
            causes.extend(cel::judge(object, before, self.view()));
        }
        causes
    }

    /// Drops what a built-in kind reads as nothing.
    pub(crate) fn drop_nulls(&self, object: &mut Value) {
        default::drop_all_nulls(object, self.view());
    }

    /// An object of this kind of which nothing is said.
    pub(crate) fn zero(&self) -> Value {
        default::zero(self.view(), self.origin)
    }

    pub(crate) fn view(&self) -> View<'_> {
        View::new(&self.graph, &self.root)
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }
}
