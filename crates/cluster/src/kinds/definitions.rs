//! Definitions of custom resources: each adds a row to the table.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Columns, Habits, Kind, Scale, Strategy, Version, meta, structure};
use crate::machinery::object::{self, fill, text};
use crate::machinery::schema::{Cause, cel};
use crate::machinery::state::State;
use crate::machinery::store::KindId;
use crate::machinery::write;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
#[cfg(feature = "persist")]
pub(crate) const KIND: &str = "CustomResourceDefinition";

pub(super) struct CustomDefinitions;
struct Custom;

impl Strategy for Custom {
    fn status_resets(&self) -> &'static [&'static str] {
        &["spec", "metadata"]
    }
}

impl Strategy for CustomDefinitions {
    fn default(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        fill(spec, "conversion", json!({ "strategy": "None" }));
        let kind = spec.get("names").map(|names| text(names, "/kind").to_owned()).unwrap_or_default();
        let names = object::entry(spec, "names");
        for (field, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            if names.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                names.insert(field.into(), value.into());
            }
        }
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let (group, plural) = (text(object, "/spec/group"), text(object, "/spec/names/plural"));
        let mut causes = Vec::new();
        if object::name(object) != format!("{plural}.{group}") {
            let why = "must be spec.names.plural+\".\"+spec.group";
            causes.push(Cause::invalid("metadata.name", &object::name(object).into(), why));
        }
        causes.extend(spec_causes(object));
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        ["spec.group", "spec.names.plural", "spec.names.kind", "spec.scope"]
            .into_iter()
            .filter_map(|field| meta::immutable(field, object, before))
            .chain(spec_causes(object))
            .collect()
    }

    fn written(&self, state: &mut State, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (Some(before), None) => withdraw(state, before),
            (before, Some(after)) if before.and_then(|before| before.get("spec")) != after.get("spec") => {
                establish(state, after);
            }
            _ => {}
        }
    }
}

fn spec_causes(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for pointer in ["/spec/group", "/spec/names/plural", "/spec/names/kind"] {
        if text(object, pointer).is_empty() {
            causes.push(Cause::required(pointer.trim_start_matches('/').replace('/', "."), ""));
        }
    }
    causes.extend(meta::one_of(object, "/spec/scope", &["Cluster", "Namespaced"]));
    causes.extend(version_causes(object));
    causes.extend(name_causes(object));
    if object.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &Value::Bool(true), why));
    }
    causes
}

/// What is wrong with how a kind wants to be called.
fn name_causes(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let names = object.pointer("/spec/names").unwrap_or(&Value::Null);
    for field in ["plural", "singular"] {
        let name = text(names, &format!("/{field}"));
        if !name.is_empty() && !is_label(name) {
            causes.push(Cause::invalid(format!("spec.names.{field}"), &name.into(), LABEL_RULE));
        }
    }
    for field in ["kind", "listKind"] {
        let name = text(names, &format!("/{field}"));
        if !name.is_empty() && !is_label(&name.to_lowercase()) {
            let why = format!("may have mixed case, but should otherwise match: {LABEL_RULE}");
            causes.push(Cause::invalid(format!("spec.names.{field}"), &name.into(), &why));
            // A list is named after its kind: one complaint is enough.
            break;
        }
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in object::list(names, &format!("/{field}")).iter().enumerate() {
            if !is_label(name.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid(format!("spec.names.{field}[{index}]"), name, LABEL_RULE));
            }
        }
    }
    let (kind, list) = (text(names, "/kind"), text(names, "/listKind"));
    if !kind.is_empty() && kind == list {
        let why = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &list.into(), why));
    }
    causes
}

/// What is wrong with the versions of a kind.
fn version_causes(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let versions = object::list(object, "/spec/versions");
    let listed = object.pointer("/spec/versions").filter(|versions| versions.is_array());
    let shown = listed.map_or_else(|| "null".to_owned(), |_| shown_versions(versions));
    let name = |version: &Value| text(version, "/name").to_owned();
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, "/name");
        if !is_label(name) {
            causes.push(Cause::invalid(format!("spec.versions[{index}].name"), &name.into(), LABEL_RULE));
        }
    }
    let mut names: Vec<String> = versions.iter().map(name).collect();
    if let Some(first) = names.first().filter(|first| !is_label(first)) {
        causes.push(Cause::invalid("spec.version", &first.as_str().into(), LABEL_RULE));
    }
    names.sort();
    names.dedup();
    if names.len() < versions.len() {
        causes.push(Cause::invalid_as("spec.versions", &shown, "must contain unique version names"));
    }
    let is_stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let stored: Vec<String> = versions.iter().filter(is_stored).map(name).collect();
    if stored.len() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid_as("spec.versions", &shown, why));
    }
    let at = "status.storedVersions";
    match stored.as_slice() {
        [] => causes.push(Cause::invalid(at, &Value::Null, "must have at least one stored version")),
        [first, .., last] if first != last => {
            causes.push(Cause::invalid(
                at,
                &json!([first]),
                &format!("must have the storage version {last}"),
            ));
        }
        _ => {}
    }
    let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
    // A schema that all versions share is one of the whole definition.
    let is_shared =
        versions.windows(2).all(|pair| matches!(pair, [one, other] if schema(one) == schema(other)));
    for (index, version) in versions.iter().enumerate() {
        let Some(schema) = version.pointer("/schema/openAPIV3Schema") else {
            causes.push(Cause::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
            continue;
        };
        if is_shared && index > 0 {
            break;
        }
        let room =
            if is_shared { "spec.validation".to_owned() } else { format!("spec.versions[{index}].schema") };
        let at = format!("{room}.openAPIV3Schema");
        let wrong = structure::causes(schema, &at);
        if wrong.is_empty() {
            causes.extend(cel::complaints(schema, &at));
        }
        causes.extend(wrong);
    }
    causes
}

/// As Go prints the types behind them.
fn shown_versions(versions: &[Value]) -> String {
    let shown = versions.iter().map(|version| {
        let is = |flag: &str| version.get(flag) == Some(&Value::Bool(true));
        let warning = version.get("deprecationWarning").unwrap_or(&Value::Null);
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{warning},\
             \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
            version.get("name").unwrap_or(&Value::Null),
            is("served"),
            is("storage"),
            is("deprecated"),
        )
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(","))
}

const LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn is_label(name: &str) -> bool {
    meta::label_problem(name).is_none() && name.starts_with(|first: char| first.is_ascii_lowercase())
}

/// What whoever uses a version is told.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        return None;
    }
    if let Some(own) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(own.to_owned());
    }
    let (group, kind) = (text(spec, "/group"), text(spec, "/names/kind"));
    let told = format!("{group}/{} {kind} is deprecated", text(version, "/name"));
    let current = |other: &&Value| {
        other.get("served") == Some(&Value::Bool(true)) && other.get("deprecated") != Some(&Value::Bool(true))
    };
    // Releases come before previews.
    let rank = |version: &&Value| {
        let name = text(version, "/name").to_owned();
        (!name.contains("beta") && !name.contains("alpha"), !name.contains("alpha"), name)
    };
    match object::list(spec, "/versions").iter().filter(current).max_by_key(rank) {
        Some(newest) => Some(format!("{told}; use {group}/{} {kind}", text(newest, "/name"))),
        None => Some(told),
    }
}

/// Puts a definition to work and says so in its status.
pub(crate) fn establish(state: &mut State, definition: &Value) {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let known = state.table.get(group, plural).map(|row| row.id);
    let id = known.unwrap_or_else(|| state.table.new_id());
    let Some(kind) = custom(definition, id, state) else {
        return;
    };
    let stored = kind.stored.clone();
    state.table.insert(kind);
    state.store.begin_kind(id);
    let Some(row) = state.row(GROUP, PLURAL) else {
        return;
    };
    let (key, now) = (row.key("", object::name(definition)), state.now());
    write::amend(state, &row, &key, |definition| {
        let names = definition.pointer("/spec/names").cloned().unwrap_or_default();
        let status = object::child(definition, "status");
        status.insert("acceptedNames".into(), names);
        fill(status, "storedVersions", json!([]));
        let versions = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let Some(versions) = versions.as_array_mut().filter(|all| !all.iter().any(|one| *one == stored)) {
            versions.push(stored.into());
        }
        fill(
            status,
            "conditions",
            json!([
                { "type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found",
                  "lastTransitionTime": now },
                { "type": "Established", "status": "True", "reason": "InitialNamesAccepted",
                  "message": "the initial names have been accepted", "lastTransitionTime": now },
            ]),
        );
    });
}

/// Removes a kind with all its objects.
fn withdraw(state: &mut State, definition: &Value) {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let Some(row) = state.table.remove(group, plural) else {
        return;
    };
    let objects: Vec<_> =
        state.store.list(row.id, None).map(|(key, object)| (key.clone(), Arc::clone(object))).collect();
    for (key, object) in objects {
        state.store.remove(key, (*object).clone());
    }
}

/// The row of a custom resource.
pub(crate) fn custom(definition: &Value, id: KindId, state: &State) -> Option<Kind> {
    let spec = definition.get("spec")?;
    let texts = |pointer: &str| -> Vec<String> {
        object::list(spec, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let versions = object::list(spec, "/versions");
    let is = |version: &Value, field: &str| version.get(field) == Some(&Value::Bool(true));
    let served: Vec<Version> = versions
        .iter()
        .filter(|version| is(version, "served"))
        .map(|version| {
            let path = |field: &str| {
                let path = version.pointer(&format!("/subresources/scale/{field}"))?.as_str()?;
                Some(path.replace('.', "/"))
            };
            let scale = path("specReplicasPath").zip(path("statusReplicasPath"));
            Version {
                name: text(version, "/name").to_owned(),
                schema: state
                    .table
                    .definitions
                    .custom(version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null)),
                convert: None,
                status: version.pointer("/subresources/status").is_some(),
                scale: scale.map(|(spec_replicas, status_replicas)| Scale {
                    spec_replicas,
                    status_replicas,
                    selector: path("labelSelectorPath"),
                }),
                deprecation: deprecation(spec, version),
                columns: Columns::custom(version),
            }
        })
        .collect();
    let stored = versions.iter().find(|version| is(version, "storage"))?;
    let namespaced = text(spec, "/scope") == "Namespaced";
    let place: &[&str] =
        if namespaced { &["metadata.name", "metadata.namespace"] } else { &["metadata.name"] };
    Some(Kind {
        id,
        group: text(spec, "/group").to_owned(),
        kind: text(spec, "/names/kind").to_owned(),
        list_kind: text(spec, "/names/listKind").to_owned(),
        plural: text(spec, "/names/plural").to_owned(),
        singular: text(spec, "/names/singular").to_owned(),
        short_names: texts("/names/shortNames"),
        categories: texts("/names/categories"),
        namespaced,
        versions: served,
        stored: text(stored, "/name").to_owned(),
        custom: true,
        actions: &[],
        fields: place.to_vec(),
        habits: Habits {
            generation: true,
            unconditional_update: false,
            create_on_update: false,
            shows_deleted: false,
            one_by_one: false,
            uncached: false,
        },
        strategy: &Custom,
    })
}
