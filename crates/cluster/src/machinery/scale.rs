//! The scale of a kind that has one: its replicas through a door that is the same for all.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::answer::Refusal;
use super::apply::{self, ApplyError, Manager, Operation};
use super::decode::{self, PatchKind, Wanted};
use super::draft::Draft;
use super::object::{self, text};
use super::patch;
use super::schema::Cause;
use super::selector::Selector;
use super::state::State;
use super::stored::Stored;
use super::write::WriteRequest;
use crate::kinds::{Kind, Scale};

/// The version in which all scales are written.
const API_VERSION: &str = "autoscaling/v1";

/// The scale of an object.
pub(crate) fn show(kind: &Kind, scale: &Scale, object: &Value) -> Result<Value, Refusal> {
    let replicas = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let wanted = replicas(&scale.spec_replicas);
    if kind.custom && wanted.is_none() {
        let path = scale.spec_replicas.replace('/', ".");
        return Err(Refusal::internal_error(format!("the spec replicas field \"{path}\" does not exist")));
    }
    let mut status = json!({ "replicas": replicas(&scale.status_replicas).unwrap_or_default() });
    let selector = scale.selector.as_ref().and_then(|pointer| object.pointer(pointer));
    let selector = match selector {
        Some(Value::String(selector)) if kind.custom => Some(selector.clone()),
        Some(selector) if !kind.custom => Selector::from_json(selector).map(|selector| selector.to_string()),
        _ => None,
    };
    if let (Some(selector), Some(status)) = (selector, status.as_object_mut()) {
        status.insert("selector".into(), selector.into());
    }
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        object::keep(object::fields(&mut metadata), object.get("metadata").unwrap_or(&Value::Null), field);
    }
    let spec = match wanted {
        None | Some(0) => json!({}),
        Some(replicas) => json!({ "replicas": replicas }),
    };
    Ok(
        json!({ "kind": "Scale", "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status }),
    )
}

impl WriteRequest<'_> {
    /// The draft of an object whose scale is written.
    pub(crate) fn draft_scale(&self, state: &mut State, scale: &Scale, name: &str) -> Result<Draft, Refusal> {
        let key = self.kind.key(self.namespace(), name);
        let found = state.store.get(&key).cloned();
        let live = || found.clone().ok_or_else(|| Refusal::not_found(self.kind.resource(), name));
        let (wanted, dry_run, warnings) = if self.request.method == Method::PUT {
            let dry_run = self.request.write_options("UpdateOptions", false)?;
            let wanted = Wanted {
                kind: "Scale",
                api_version: API_VERSION.to_owned(),
                package: "autoscaling",
                custom: false,
            };
            let document = wanted.read(&self.request.content_type, self.body, &state.table)?;
            let schema = state.table.definitions.kind("autoscaling", "v1", "Scale");
            let warnings = schema.map_or(Ok(Vec::new()), |schema| {
                decode::complaints(self.request, &schema, &document.value, &document.complaints)
            });
            let warnings = warnings.map_err(|why| wanted.unhandled(&why))?;
            Self::check_name(&document.value, name)?;
            (document.value, dry_run, warnings)
        } else {
            let how = PatchKind::of(&self.request.content_type, false)?;
            let dry_run = self.request.write_options("PatchOptions", how == PatchKind::Apply)?;
            if how == PatchKind::Apply {
                return self.apply_scale(state, scale, name, &live()?, dry_run);
            }
            let patch = decode::patch(how, self.body)?.value;
            let shown = show(self.kind, scale, &*live()?)?;
            let body = match how {
                PatchKind::Json => patch::json(&shown, &patch).map_err(decode::patch_refusal)?,
                // A scale has no lists: a strategic patch merges.
                _ => patch::merge(&shown, &patch),
            };
            (body, dry_run, Vec::new())
        };
        let live = live()?;
        let said = wanted.pointer("/spec/replicas").filter(|said| !said.is_null());
        if let Some(said) = said.filter(|said| said.as_i64().is_none()) {
            let what = super::go::json_type(said);
            let why = format!(
                "json: cannot unmarshal {what} into Go struct field ScaleSpec.spec.replicas of type int32"
            );
            return Err(Refusal::unfit_patch(&wanted.to_string(), &why));
        }
        let said_version = text(&wanted, "/metadata/resourceVersion");
        if !said_version.is_empty() {
            self.check_version(said_version, &live, name)?;
        }
        let replicas = said.and_then(Value::as_i64).unwrap_or_default();
        self.check_replicas(scale, name, replicas)?;
        let mut object = live.whole();
        put(&mut object, &scale.spec_replicas, replicas.into());
        let manager = self.manager(Operation::Update);
        self.revise(state, &key, Arc::clone(&live), object, dry_run, warnings, |object, before, state| {
            Ok(owned(self, scale, before, object, &manager, state))
        })
    }

    fn check_replicas(&self, scale: &Scale, name: &str, replicas: i64) -> Result<(), Refusal> {
        if replicas >= 0 {
            return Ok(());
        }
        let (about, cause) = if self.kind.custom {
            let field = scale.spec_replicas.replace('/', ".");
            (self.kind.about(), Cause::invalid(field, &replicas.into(), "should be a non-negative integer"))
        } else {
            let why = "must be greater than or equal to 0";
            let about = super::answer::About { group: "autoscaling", name: "Scale" };
            (about, Cause::invalid("spec.replicas", &replicas.into(), why))
        };
        Err(Refusal::invalid(about, name, &[cause]))
    }

    /// Applies a scale: of the object only its replicas are applied.
    fn apply_scale(
        &self,
        state: &State,
        scale: &Scale,
        name: &str,
        live: &Arc<Stored>,
        dry_run: bool,
    ) -> Result<Draft, Refusal> {
        let (said, warnings) = decode::applied(self.request, "Scale", API_VERSION, self.body)?;
        if self.kind.custom {
            // Kubernetes cannot, though it tries.
            let namespace = object::namespace(&said);
            return Err(Refusal::internal(format!(
                "failed to convert new object ({namespace}/{name}; {API_VERSION}, Kind=Scale) to proper version: \
                 request to convert CR to an invalid group/version: {API_VERSION}"
            )));
        }
        let replicas = object::number(&said, "/spec/replicas").unwrap_or_default();
        self.check_replicas(scale, name, replicas)?;
        let mut applied =
            json!({ "apiVersion": self.api_version(), "kind": self.kind.kind, "metadata": { "name": name } });
        put(&mut applied, &scale.spec_replicas, replicas.into());
        let (manager, force) = (self.manager(Operation::Apply), self.request.query.flag("force"));
        let now = state.clock.timestamp();
        let merged = apply::apply(Some(&live.whole()), &applied, &manager, force, &self.version.schema, now);
        let merged = merged.map_err(|error| match error {
            ApplyError::Conflicts(conflicts) => ApplyError::Conflicts(conflicts.through(API_VERSION)),
            other => other,
        });
        let merged = without_times(merged.map_err(decode::apply_refusal)?);
        let key = self.kind.key(self.namespace(), name);
        self.revise(state, &key, Arc::clone(live), merged, dry_run, warnings, |object, _, _| Ok(object))
    }
}

/// Puts a value where a pointer leads.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut steps = pointer.trim_start_matches('/').split('/').collect::<Vec<_>>();
    let last = steps.pop().unwrap_or_default().to_owned();
    let mut fields = object::fields(object);
    for step in steps {
        fields = object::entry(fields, step);
    }
    fields.insert(last, value);
}

/// Who owns the replicas once they were written. Nobody owns none, and from then on nobody comes to own them.
fn owned(
    write: &WriteRequest<'_>,
    scale: &Scale,
    before: &Value,
    mut object: Value,
    manager: &Manager,
    state: &State,
) -> Value {
    let path = scale.spec_replicas.replace('/', "/f:");
    let entries = |object: &Value| object::list(object, "/metadata/managedFields").to_vec();
    let owns = |entry: &Value| entry.pointer(&format!("/fieldsV1{path}")).is_some();
    if !entries(before).iter().any(owns) {
        let metadata = object::metadata(&mut object);
        object::keep(metadata, before.get("metadata").unwrap_or(&Value::Null), "managedFields");
        return object;
    }
    if object.pointer(&scale.spec_replicas).and_then(Value::as_i64) != Some(0) {
        return without_times(write.track(Some(before), object, manager, state));
    }
    let (parent, field) = path.rsplit_once('/').unwrap_or_default();
    let mut kept = entries(before);
    for entry in &mut kept {
        if let Some(parent) = entry.pointer_mut(&format!("/fieldsV1{parent}")).and_then(Value::as_object_mut)
        {
            parent.remove(field);
        }
    }
    kept.retain(|entry| {
        let left = entry.pointer(&format!("/fieldsV1{parent}")).and_then(Value::as_object);
        text(entry, "/subresource") != "scale" || left.is_some_and(|left| !left.is_empty())
    });
    object::metadata(&mut object).insert("managedFields".into(), kept.into());
    object
}

/// Who scales is not noted with a time.
fn without_times(mut object: Value) -> Value {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter(|entry| text(entry, "/subresource") == "scale") {
        object::fields(entry).remove("time");
    }
    object
}
