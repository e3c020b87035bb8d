//! One action becomes one request, and its answer is counted.

use serde_json::{Value, json};
use sts_plus_planner::plan::{Action, Object, Verb};

use super::Executor;
use crate::shell::api::{ApiError, Place};
use crate::shell::lease::Epoch;
use crate::shell::metrics::WriteLabels;

impl Executor {
    /// Carries out a write that only informs, outside of any lane: no plan depends on it. `None` if the term is over.
    pub async fn inform(&self, action: &Action, epoch: Epoch) -> Option<Result<Value, ApiError>> {
        let answer = self.attempt(action, epoch).await;
        if let Some(answer) = &answer {
            self.count(action, answer);
        }
        answer
    }

    /// The same for fields of a status, for whoever may update a status and not patch it: a read, and a replacement at the
    /// version that the write was decided under.
    pub async fn inform_by_update(&self, action: &Action, epoch: Epoch) -> Option<Result<Value, ApiError>> {
        let Verb::MergeStatus { body, manager } = action.verb() else {
            return Some(Err(ApiError::Refused {
                code: 0,
                message: "not the fields of a status".to_owned(),
            }));
        };
        let place = place(action.object());
        let read = self.api.get(place).await.and_then(|object| with_status(object, body, action));
        if self.gate.open() != Some(epoch) {
            return None;
        }
        let answer = match read {
            Ok(object) => {
                self.answered(self.api.replace(place.subresource("status"), manager, &object)).await
            }
            Err(error) => Err(error),
        };
        self.count(action, &answer);
        Some(answer)
    }

    pub(super) async fn write(&self, action: &Action) -> Result<Value, ApiError> {
        let precondition = action.precondition();
        let place = place(action.object());
        match action.verb() {
            Verb::Create { body, manager } => {
                let collection = Place::collection(place.resource, place.namespace);
                self.api.create(collection, manager, &named(body.clone(), &place)).await
            }
            Verb::StrategicMerge { body, manager } => {
                self.api.strategic_merge(place, manager, &guarded(body, action)).await
            }
            Verb::Delete | Verb::Orphan => {
                let mut required = json!({ "uid": precondition.uid });
                if let (Some(version), Some(fields)) =
                    (&precondition.resource_version, required.as_object_mut())
                {
                    fields.insert("resourceVersion".to_owned(), json!(version));
                }
                let mut options = json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": required,
                });
                if let (Verb::Orphan, Some(fields)) = (action.verb(), options.as_object_mut()) {
                    fields.insert("propagationPolicy".to_owned(), json!("Orphan"));
                }
                self.api.delete(place, &options).await
            }
            Verb::Apply { body, manager, .. } => {
                self.api.apply(place, manager, &named(guarded(body, action), &place)).await
            }
            Verb::Replace { body, manager, .. } => {
                self.api.replace(place, manager, &named(guarded(body, action), &place)).await
            }
            Verb::ReplaceStatus { status, manager } => {
                let body = guarded(&json!({ "status": status }), action);
                self.api.replace(place.subresource("status"), manager, &named(body, &place)).await
            }
            Verb::Merge { body, manager, .. } => self.api.merge(place, manager, &guarded(body, action)).await,
            Verb::MergeStatus { body, manager } => {
                self.api.merge(place.subresource("status"), manager, &guarded(body, action)).await
            }
        }
    }

    pub(super) fn count(&self, action: &Action, answer: &Result<Value, ApiError>) {
        let verb = match action.verb() {
            Verb::Create { .. } => "create",
            Verb::StrategicMerge { .. } => "strategic_merge",
            Verb::Delete => "delete",
            Verb::Orphan => "orphan",
            Verb::Apply { .. } => "apply",
            Verb::Replace { .. } => "replace",
            Verb::ReplaceStatus { .. } => "replace_status",
            Verb::Merge { .. } => "merge",
            Verb::MergeStatus { .. } => "merge_status",
        };
        let outcome = match answer {
            Ok(_) => "done",
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => "precondition_failed",
            Err(ApiError::AlreadyExists(_)) => "already_exists",
            Err(ApiError::Throttled { .. }) => "throttled",
            Err(ApiError::Unanswered(_)) => "unanswered",
            Err(_) => "refused",
        };
        let Object { namespace, name, .. } = action.object();
        match answer {
            Ok(_) => tracing::info!(%namespace, %name, verb, "written"),
            // Somebody else was faster, which is what preconditions are for.
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => {
                tracing::info!(%namespace, %name, verb, outcome, "not written");
            }
            // Reported once, with what it means.
            Err(error) if error.lacks_right() && !action.disrupts() => {
                tracing::debug!(%namespace, %name, verb, outcome, "not written: {error}");
            }
            Err(error) => tracing::warn!(%namespace, %name, verb, outcome, "not written: {error}"),
        }
        self.api.metrics().writes.get_or_create(&WriteLabels { verb, outcome }).inc();
    }
}

/// An object with these fields in its status, if it still is the one that they were decided for.
fn with_status(mut object: Value, body: &Value, action: &Action) -> Result<Value, ApiError> {
    let metadata = |key: &str| object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
    let version = action.precondition().resource_version.as_deref();
    let is_same = metadata("uid") == Some(&*action.precondition().uid)
        && version.is_none_or(|version| metadata("resourceVersion") == Some(version));
    if !is_same {
        return Err(ApiError::Conflict("it has changed since it was looked at".to_owned()));
    }
    let fields = body.get("status").and_then(Value::as_object);
    if let Some(object) = object.as_object_mut() {
        let status = object.entry("status").or_insert_with(|| json!({}));
        if let (Some(status), Some(fields)) = (status.as_object_mut(), fields) {
            status.extend(fields.clone());
        }
    }
    Ok(object)
}

/// A body insists on the UID and the version in its own metadata.
fn guarded(body: &Value, action: &Action) -> Value {
    let mut body = body.clone();
    if let Some(fields) = body.as_object_mut() {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("uid".to_owned(), json!(action.precondition().uid));
            if let Some(version) = &action.precondition().resource_version {
                metadata.insert("resourceVersion".to_owned(), json!(version));
            }
        }
    }
    body
}

/// A whole object says what it is.
fn named(mut body: Value, place: &Place<'_>) -> Value {
    let definition = place.resource.definition();
    if let Some(fields) = body.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!(definition.api_version));
        fields.insert("kind".to_owned(), json!(definition.kind));
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("name".to_owned(), json!(place.name));
            if definition.namespaced {
                metadata.insert("namespace".to_owned(), json!(place.namespace));
            }
        }
    }
    body
}

pub(super) fn place(object: &Object) -> Place<'_> {
    Place::object(object.kind, &object.namespace, &object.name)
}
