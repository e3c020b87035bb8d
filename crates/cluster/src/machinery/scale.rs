//! The scale of a kind that has one: its replicas through a door that is the same for all.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::answer::Refusal;
use super::apply::Operation;
use super::decode::{self, PatchKind};
use super::object::{self, text};
use super::patch;
use super::schema::Cause;
use super::selector::Selector;
use super::state::State;
use super::write::{Draft, Wish};
use crate::kinds::{Kind, Scale};

/// The scale of an object.
pub(crate) fn show(kind: &Kind, scale: &Scale, object: &Value) -> Value {
    let replicas = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let mut status = json!({ "replicas": replicas(&scale.status_replicas) });
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
    let spec = match replicas(&scale.spec_replicas) {
        0 => json!({}),
        replicas => json!({ "replicas": replicas }),
    };
    json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status })
}

impl Wish<'_> {
    /// The draft of an object whose scale is written.
    pub(crate) fn draft_scale(&self, state: &mut State, scale: &Scale, name: &str) -> Result<Draft, Refusal> {
        let key = self.kind.key(self.namespace(), name);
        let Some(live) = state.store.get(&key).cloned() else {
            return Err(Refusal::not_found(self.kind.resource(), name));
        };
        let shown = show(self.kind, scale, &live);
        let (wanted, dry_run) = if self.request.method == Method::PUT {
            (decode::options(&self.request.content_type, self.body)?, "UpdateOptions")
        } else {
            let body = match PatchKind::of(&self.request.content_type, false)? {
                PatchKind::Json => {
                    patch::json(&shown, &decode::patch(self.body)?).map_err(|_| Refusal::inapplicable())?
                }
                // A scale has no lists: a strategic patch merges.
                _ => patch::merge(&shown, &decode::patch(self.body)?),
            };
            (body, "PatchOptions")
        };
        let dry_run = self.request.query.dry_run(dry_run)?;
        let said_version = text(&wanted, "/metadata/resourceVersion");
        if !said_version.is_empty() {
            self.check_version(said_version, &live, name)?;
        }
        let replicas = object::number(&wanted, "/spec/replicas").unwrap_or_default();
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            let cause = Cause::invalid("spec.replicas", &replicas.into(), why);
            let scale = super::answer::About { group: "autoscaling", name: "Scale" };
            return Err(Refusal::invalid(scale, name, &[cause]));
        }
        let mut object = (*live).clone();
        let mut steps = scale.spec_replicas.trim_start_matches('/').split('/').collect::<Vec<_>>();
        let last = steps.pop().unwrap_or_default().to_owned();
        let mut fields = object::fields(&mut object);
        for step in steps {
            fields = object::entry(fields, step);
        }
        fields.insert(last, replicas.into());
        let manager = self.manager(Operation::Update);
        self.revise(state, &key, Arc::clone(&live), object, dry_run, Vec::new(), |object, before, state| {
            Ok(self.track(Some(before), object, &manager, state))
        })
    }
}
