//! Definitions of custom resources: each adds a row to the table.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Habits, Kind, Scale, Strategy, Version, meta};
use crate::machinery::object::{self, fill, text};
use crate::machinery::schema::{Cause, cel};
use crate::machinery::state::State;
use crate::machinery::store::KindId;
use crate::machinery::write;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

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
        let mut causes = Vec::new();
        let (group, plural) = (text(object, "/spec/group"), text(object, "/spec/names/plural"));
        let expected = format!("{plural}.{group}");
        if object::name(object) != expected {
            let why = "must be spec.names.plural+\".\"+spec.group";
            causes.push(Cause::invalid("metadata.name", &object::name(object).into(), why));
        }
        for pointer in ["/spec/group", "/spec/names/plural", "/spec/names/kind"] {
            if text(object, pointer).is_empty() {
                causes.push(Cause::required(pointer.trim_start_matches('/').replace('/', "."), ""));
            }
        }
        causes.extend(meta::one_of(object, "/spec/scope", &["Cluster", "Namespaced"]));
        let versions = object::list(object, "/spec/versions");
        let stored =
            versions.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true))).count();
        if stored != 1 {
            let shown = object.pointer("/spec/versions").unwrap_or(&Value::Null);
            let why = "must have exactly one version marked as storage version";
            causes.push(Cause::invalid("spec.versions", shown, why));
        }
        for (index, version) in versions.iter().enumerate() {
            let at = format!("spec.versions[{index}]");
            match version.pointer("/schema/openAPIV3Schema") {
                None => {
                    let why = "schemas are required";
                    causes.push(Cause::required(format!("{at}.schema.openAPIV3Schema"), why));
                }
                Some(schema) if text(schema, "/type") != "object" => {
                    let field = format!("{at}.schema.openAPIV3Schema.type");
                    causes.push(Cause::invalid(
                        field,
                        &text(schema, "/type").into(),
                        "must be object at the root",
                    ));
                }
                Some(schema) => {
                    causes.extend(cel::complaints(schema, &format!("{at}.schema.openAPIV3Schema")));
                }
            }
        }
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        ["spec.group", "spec.names.plural", "spec.names.kind", "spec.scope"]
            .into_iter()
            .filter_map(|field| meta::immutable(field, object, before))
            .chain(self.validate(object))
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

/// Puts a definition to work and says so in its status.
fn establish(state: &mut State, definition: &Value) {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let known = state.table.get(group, plural).map(|row| row.id);
    let id = known.unwrap_or_else(|| state.table.new_id());
    let Some(kind) = custom(definition, id, state) else {
        return;
    };
    let stored = kind.stored.clone();
    state.table.insert(kind);
    let Some(row) = state.row(GROUP, PLURAL) else {
        return;
    };
    let (key, now) = (row.key("", object::name(definition)), state.now());
    write::amend(state, &row, &key, |definition| {
        let names = definition.pointer("/spec/names").cloned().unwrap_or_default();
        let status = object::child(definition, "status");
        status.insert("acceptedNames".into(), names);
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
        },
        strategy: &Custom,
    })
}
