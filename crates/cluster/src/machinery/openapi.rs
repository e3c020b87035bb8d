//! OpenAPI documents: what kubectl reads before it applies, explains or compares.
//!
//! They are put together from the committed definitions and from custom resources' schemas when somebody asks, and
//! kept until a kind comes, goes or changes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::answer::Refusal;
use super::discovery::{self, JSON, Page};
use super::object;
use super::show;
use super::state::State;
use crate::kinds::{Kind, Version};

const SCHEMAS: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";
/// What a client may send for a patch.
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// Documents that have been asked for, of one edition of the table of kinds.
#[derive(Default)]
pub(crate) struct Cache(Mutex<(u64, Documents)>);

type Documents = BTreeMap<String, Arc<[u8]>>;

impl Cache {
    fn get(&self, edition: u64, name: &str, make: impl FnOnce() -> Value) -> Vec<u8> {
        let mut kept = self.0.lock();
        if kept.0 != edition {
            *kept = (edition, BTreeMap::new());
        }
        kept.1.entry(name.to_owned()).or_insert_with(|| show::bytes(&make()).into()).to_vec()
    }
}

/// The answer to a path below `/openapi`.
pub(crate) fn answer(state: &State, path: &[&str], accept: &str) -> Result<Option<Page>, Refusal> {
    let (group, version) = match path {
        ["v2" | "v3"] => ("", ""),
        ["v3", "api", version] => ("", *version),
        ["v3", "apis", group, version] => (*group, *version),
        _ => return Ok(None),
    };
    let is_json = |wanted: &str| {
        matches!(wanted.split(';').next().map(str::trim), Some(JSON | "*/*" | "application/*"))
    };
    if !accept.trim().is_empty() && !accept.split(',').any(is_json) {
        return Err(Refusal::not_acceptable("only application/json is served of OpenAPI documents"));
    }
    let make: &dyn Fn() -> Value = match path {
        ["v2"] => &|| swagger(state),
        ["v3"] => &|| index(state),
        _ if !discovery::versions(state, group).contains(&version) => return Ok(None),
        _ => &|| document(state, group, version),
    };
    let body = state.openapi.get(state.table.edition(), &path.join("/"), make);
    Ok(Some(Page { content_type: JSON, body }))
}

/// All groups and versions with the paths of their documents.
fn group_versions(state: &State) -> Vec<(&str, &str)> {
    let groups = std::iter::once("").chain(discovery::groups(state));
    groups
        .flat_map(|group| discovery::versions(state, group).into_iter().map(move |version| (group, version)))
        .collect()
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn index(state: &State) -> Value {
    let paths: Map<String, Value> = group_versions(state)
        .into_iter()
        .map(|(group, version)| {
            let root = root(group, version);
            // The text of a document is a fair picture of it, and made only once.
            let text = state.openapi_text(group, version);
            let digest = ring::digest::digest(&ring::digest::SHA512, &text);
            let mut hash = String::new();
            for byte in digest.as_ref() {
                // Writing to a string cannot fail.
                let _ = write!(hash, "{byte:02X}");
            }
            (root.clone(), json!({ "serverRelativeURL": format!("/openapi/v3/{root}?hash={hash}") }))
        })
        .collect();
    json!({ "paths": paths })
}

impl State {
    /// What the hash of a document is drawn from: what it is made of.
    fn openapi_text(&self, group: &str, version: &str) -> Vec<u8> {
        let mut text = format!("{}/{group}/{version}", discovery::VERSION.2).into_bytes();
        for kind in self.table.rows().filter(|kind| kind.group == group && kind.version(version).is_some()) {
            text.extend(kind.kind.as_bytes());
            if kind.custom {
                text.extend(show::bytes(&custom_schema(self, kind, version)));
            }
        }
        text
    }
}

fn document(state: &State, group: &str, version: &str) -> Value {
    let mut writer = Writer::new(state);
    writer.add(group, version);
    json!({
        "openapi": "3.0.0", "info": information(), "paths": writer.paths,
        "components": { "schemas": writer.schemas },
    })
}

fn information() -> Value {
    let (major, minor, _) = discovery::VERSION;
    json!({ "title": "Kubernetes", "version": format!("{major}.{minor}") })
}

/// Everything in the older form, for clients that know no other.
fn swagger(state: &State) -> Value {
    let mut writer = Writer::new(state);
    for (group, version) in group_versions(state) {
        writer.add(group, version);
    }
    let definitions: Map<String, Value> =
        writer.schemas.into_iter().map(|(name, schema)| (name, older(&schema))).collect();
    let paths: Map<String, Value> =
        writer.paths.into_iter().map(|(path, item)| (path, older_path(&item))).collect();
    json!({ "swagger": "2.0", "info": information(), "paths": paths, "definitions": definitions })
}

/// A schema without what version 2 cannot say.
fn older(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            if let [only] = object::list(schema, "/allOf") {
                return older(only);
            }
            if fields.contains_key("oneOf") {
                let mut kept: Map<String, Value> = fields
                    .iter()
                    .filter(|(name, _)| *name != "oneOf")
                    .map(|(n, v)| (n.clone(), v.clone()))
                    .collect();
                kept.insert("type".into(), "string".into());
                return kept.into();
            }
            let fields =
                fields.iter().filter(|(name, _)| !matches!(name.as_str(), "nullable" | "anyOf" | "not"));
            fields
                .map(|(name, value)| {
                    let value = match (name.as_str(), value.as_str()) {
                        ("$ref", Some(to)) => to.replace(SCHEMAS, "#/definitions/").into(),
                        _ => older(value),
                    };
                    (name.clone(), value)
                })
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(older).collect(),
        other => other.clone(),
    }
}

fn older_path(item: &Value) -> Value {
    let operations = item.as_object().into_iter().flatten().map(|(method, operation)| {
        let Some(fields) = operation.as_object() else {
            return (
                method.clone(),
                Value::Array(object::list(item, "/parameters").iter().map(older_parameter).collect()),
            );
        };
        let mut shown = fields.clone();
        let mut parameters: Vec<Value> =
            object::list(operation, "/parameters").iter().map(older_parameter).collect();
        if let Some(content) = shown.remove("requestBody") {
            let contents = content.get("content").and_then(Value::as_object);
            let schema = contents.and_then(|all| all.values().next()).and_then(|one| one.get("schema"));
            parameters.push(json!({ "name": "body", "in": "body", "schema": schema.map(older) }));
            let kinds: Vec<&String> = contents.into_iter().flat_map(Map::keys).collect();
            shown.insert("consumes".into(), json!(kinds));
        }
        if !parameters.is_empty() {
            shown.insert("parameters".into(), parameters.into());
        }
        let schema = operation.pointer("/responses/200/content/application~1json/schema");
        shown.insert(
            "responses".into(),
            json!({ "200": { "description": "OK", "schema": schema.map(older) } }),
        );
        (method.clone(), shown.into())
    });
    operations.collect::<Map<_, _>>().into()
}

fn older_parameter(parameter: &Value) -> Value {
    let mut shown = parameter.clone();
    let fields = object::fields(&mut shown);
    if let Some(Value::Object(schema)) = fields.remove("schema") {
        fields.extend(schema);
    }
    shown
}

/// The name and the schema of a custom resource in one version.
fn custom_schema(state: &State, kind: &Kind, version: &str) -> (String, Value) {
    let name = format!("{}.{}", kind.plural, kind.group);
    let definition = state.object("apiextensions.k8s.io", "customresourcedefinitions", "", &name);
    let versions =
        definition.map(|definition| object::list(definition, "/spec/versions")).unwrap_or_default();
    let said = versions.iter().find(|said| object::text(said, "/name") == version);
    let mut schema =
        said.and_then(|said| said.pointer("/schema/openAPIV3Schema")).cloned().unwrap_or_else(|| json!({}));
    let fields = object::fields(&mut schema);
    fields.insert("type".into(), "object".into());
    let own = json!([{ "group": kind.group, "kind": kind.kind, "version": version }]);
    fields.insert(GROUP_VERSION_KIND.into(), own);
    let properties = object::entry(fields, "properties");
    for field in ["apiVersion", "kind"] {
        properties.entry(field).or_insert_with(|| json!({ "type": "string" }));
    }
    properties.insert("metadata".into(), json!({ "allOf": [reference(&format!("{META}.ObjectMeta"))] }));
    let domain: Vec<&str> = kind.group.split('.').rev().collect();
    (format!("{}.{version}.{}", domain.join("."), kind.kind), schema)
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{SCHEMAS}{name}") })
}

/// A document as it grows.
struct Writer<'a> {
    state: &'a State,
    paths: BTreeMap<String, Value>,
    schemas: BTreeMap<String, Value>,
}

impl<'a> Writer<'a> {
    fn new(state: &'a State) -> Self {
        let mut writer = Writer { state, paths: BTreeMap::new(), schemas: BTreeMap::new() };
        let text = json!({ "type": "string" });
        let list = json!({ "type": "object", "properties": {
            "continue": text, "remainingItemCount": { "type": "integer", "format": "int64" }, "resourceVersion": text,
        } });
        let status = json!({ "type": "object", "properties": {
            "apiVersion": text, "code": { "type": "integer", "format": "int32" }, "details": { "type": "object" },
            "kind": text, "message": text, "metadata": reference(&format!("{META}.ListMeta")), "reason": text,
            "status": text,
        } });
        for (name, schema) in [("Patch", json!({ "type": "object" })), ("ListMeta", list), ("Status", status)]
        {
            writer.schemas.insert(format!("{META}.{name}"), schema);
        }
        writer.need(&format!("{META}.ObjectMeta"));
        writer.need(&format!("{META}.DeleteOptions"));
        writer
    }

    /// Adds what a group's version serves.
    fn add(&mut self, group: &str, version: &str) {
        let rows: Vec<Arc<Kind>> =
            self.state.table.rows().filter(|kind| kind.group == group).cloned().collect();
        for kind in rows {
            if let Some(version) = kind.version(version) {
                self.add_kind(&kind, version);
            }
        }
    }

    fn add_kind(&mut self, kind: &Kind, version: &Version) {
        let name = if kind.custom {
            let (name, schema) = custom_schema(self.state, kind, &version.name);
            self.schemas.insert(name.clone(), schema);
            name
        } else {
            let found = self.built_in(&kind.group, &version.name, &kind.kind);
            let Some(name) = found else { return };
            self.need(&name);
            name
        };
        let own = json!({ "group": kind.group, "kind": kind.list_kind, "version": version.name });
        let list = json!({
            "type": "object", "required": ["items"], GROUP_VERSION_KIND: [own],
            "properties": {
                "apiVersion": { "type": "string" }, "kind": { "type": "string" },
                "items": { "type": "array", "items": { "allOf": [reference(&name)], "default": {} } },
                "metadata": { "allOf": [reference(&format!("{META}.ListMeta"))], "default": {} },
            },
        });
        self.schemas.insert(format!("{name}List"), list);
        self.add_paths(kind, version, &name);
    }

    fn add_paths(&mut self, kind: &Kind, version: &Version, name: &str) {
        let root = format!("/{}", root(&kind.group, &version.name));
        let within = if kind.namespaced { format!("{root}/namespaces/{{namespace}}") } else { root.clone() };
        let gvk = |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
        let own = gvk(&kind.group, &version.name, &kind.kind);
        let of = |method: &str, shown: &str| operation(method, &own, shown);
        let (list, deleted) = (format!("{name}List"), format!("{META}.Status"));
        let in_path = |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
        let (mut many, mut one) =
            (vec![query("pretty", "string")], vec![query("pretty", "string"), in_path("name")]);
        if kind.namespaced {
            many.push(in_path("namespace"));
            one.push(in_path("namespace"));
        }
        let mut collection =
            json!({ "get": of("list", &list), "post": of("post", name), "parameters": many });
        if !kind.habits.one_by_one {
            object::fields(&mut collection).insert("delete".into(), of("deletecollection", &deleted));
        }
        self.paths.insert(format!("{within}/{}", kind.plural), collection);
        if kind.namespaced {
            let everywhere = json!({ "get": of("list", &list), "parameters": [query("pretty", "string")] });
            self.paths.insert(format!("{root}/{}", kind.plural), everywhere);
        }
        let single = format!("{within}/{}/{{name}}", kind.plural);
        let item = json!({
            "get": of("get", name), "put": of("put", name), "delete": of("delete", &deleted), "patch": of("patch", name),
            "parameters": one,
        });
        self.paths.insert(single.clone(), item);
        let part = |own: &Value, shown: &str| {
            let of = |method| operation(method, own, shown);
            json!({ "get": of("get"), "put": of("put"), "patch": of("patch"), "parameters": one })
        };
        if version.status {
            self.paths.insert(format!("{single}/status"), part(&own, name));
        }
        if version.scale.is_some()
            && let Some(shown) = self.built_in("autoscaling", "v1", "Scale")
        {
            self.need(&shown);
            let scale = gvk("autoscaling", "v1", "Scale");
            self.paths.insert(format!("{single}/scale"), part(&scale, &shown));
        }
        for action in kind.actions {
            let (group, version) = action.api_version.split_once('/').unwrap_or(("", action.api_version));
            if let Some(shown) = self.built_in(group, version, action.kind) {
                self.need(&shown);
                let post = operation("post", &gvk(group, version, action.kind), &shown);
                self.paths
                    .insert(format!("{single}/{}", action.name), json!({ "post": post, "parameters": one }));
            }
        }
    }

    /// The definition of a built-in kind.
    fn built_in(&self, group: &str, version: &str, kind: &str) -> Option<String> {
        let wanted = json!({ "group": group, "kind": kind, "version": version });
        let mut all = self.state.table.definitions.raw().iter();
        let found = all.find(|(_, definition)| {
            object::list(definition, &format!("/{GROUP_VERSION_KIND}")).contains(&wanted)
        });
        found.map(|(name, _)| name.clone())
    }

    /// Adds a definition and whatever it refers to.
    fn need(&mut self, name: &str) {
        // Ends: each definition is added once, and there are only so many.
        let mut needed = vec![name.to_owned()];
        while let Some(name) = needed.pop() {
            if self.schemas.contains_key(&name) {
                continue;
            }
            if let Some(definition) = self.state.table.definitions.raw().get(&name) {
                references(definition, &mut needed);
                self.schemas.insert(name, definition.clone());
            }
        }
    }
}

/// The definitions that a schema refers to.
fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().and_then(|to| to.strip_prefix(SCHEMAS)) {
                    Some(to) if name == "$ref" => found.push(to.to_owned()),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn query(name: &str, kind: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } })
}

/// What one method does on a path.
fn operation(action: &str, gvk: &Value, shown: &str) -> Value {
    let writes =
        [query("dryRun", "string"), query("fieldManager", "string"), query("fieldValidation", "string")];
    let parameters: Vec<Value> = match action {
        "post" | "put" => writes.to_vec(),
        "patch" => writes.into_iter().chain([query("force", "boolean")]).collect(),
        "delete" => vec![
            query("dryRun", "string"),
            query("gracePeriodSeconds", "integer"),
            query("propagationPolicy", "string"),
        ],
        "list" | "deletecollection" => vec![
            query("allowWatchBookmarks", "boolean"),
            query("continue", "string"),
            query("fieldSelector", "string"),
            query("labelSelector", "string"),
            query("limit", "integer"),
            query("resourceVersion", "string"),
            query("resourceVersionMatch", "string"),
            query("sendInitialEvents", "boolean"),
            query("timeoutSeconds", "integer"),
            query("watch", "boolean"),
        ],
        _ => Vec::new(),
    };
    let body = |kinds: &[&str], name: &str| -> Map<String, Value> {
        kinds.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": reference(name) }))).collect()
    };
    let mut operation = json!({
        "responses": { "200": { "description": "OK", "content": body(&[JSON], shown) }, "401": { "description": "Unauthorized" } },
        "x-kubernetes-action": action, GROUP_VERSION_KIND: gvk,
    });
    let fields = object::fields(&mut operation);
    if !parameters.is_empty() {
        fields.insert("parameters".into(), parameters.into());
    }
    let content = match action {
        "post" | "put" => Some((body(&["*/*"], shown), true)),
        "patch" => Some((body(&PATCHES, &format!("{META}.Patch")), true)),
        "delete" | "deletecollection" => Some((body(&["*/*"], &format!("{META}.DeleteOptions")), false)),
        _ => None,
    };
    if let Some((content, required)) = content {
        let mut request = json!({ "content": content });
        if required {
            object::fields(&mut request).insert("required".into(), true.into());
        }
        fields.insert("requestBody".into(), request);
    }
    operation
}
