//! What webhooks are asked, and which of them want to be.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::super::draft::Draft;
use super::super::object::{self, text};
use super::super::packed;
use super::super::selector::Selector;
use super::super::state::State;
use super::super::store::Key;
use super::super::stored::Stored;
use super::GROUP;
use crate::kinds::{Action, Kind};

/// What is done to an object, as rules of webhooks spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE")]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
}

/// A webhook that wants to be asked, and the version of the kind in which it does.
pub(super) struct Call {
    pub(super) hook: Value,
    pub(super) version: String,
}

/// What webhooks are asked about.
pub(super) struct Question<'a> {
    pub(super) kind: &'a Kind,
    /// The version in which the request came.
    version: &'a str,
    operation: Operation,
    subresource: &'a str,
    pub(super) key: &'a Key,
    object: Option<Cow<'a, Value>>,
    before: Option<Cow<'a, Value>>,
    /// Kind and version of what is written, where that is not the object itself.
    body: Option<(&'a str, &'a str)>,
    options: Value,
}

impl<'a> Question<'a> {
    pub(super) fn of_draft(draft: &'a Draft) -> Self {
        let scale = (draft.subresource == "scale").then_some(("Scale", "autoscaling/v1"));
        let shown = |object: &'a Value| match &draft.scale {
            Some(scale) => super::super::scale::show(&draft.kind, scale, object)
                .map_or(Cow::Borrowed(object), Cow::Owned),
            None => Cow::Borrowed(object),
        };
        Question {
            kind: &draft.kind,
            version: &draft.version,
            operation: if draft.is_create() { Operation::Create } else { Operation::Update },
            subresource: &draft.subresource,
            key: &draft.key,
            object: Some(shown(&draft.object)),
            before: draft.before.as_deref().map(Stored::value).map(shown),
            body: scale,
            options: draft.options.clone(),
        }
    }

    pub(super) fn of_deletion(kind: &'a Kind, key: &'a Key, before: &'a Value, options: Value) -> Self {
        Question {
            kind,
            version: &kind.stored,
            operation: Operation::Delete,
            subresource: "",
            key,
            object: None,
            before: Some(Cow::Borrowed(before)),
            body: None,
            options,
        }
    }

    pub(super) fn of_act(
        kind: &'a Kind,
        key: &'a Key,
        action: &Action,
        body: &'a Value,
        options: Value,
    ) -> Self {
        Question {
            kind,
            version: &kind.stored,
            operation: Operation::Create,
            subresource: action.name,
            key,
            object: Some(Cow::Borrowed(body)),
            before: None,
            body: Some((action.kind, action.api_version)),
            options,
        }
    }

    /// As mutating webhooks see what is being made: without what the server gives it once it is to be.
    pub(super) fn before_it_exists(mut self) -> Self {
        if let (Operation::Create, Some(object)) = (self.operation, &mut self.object) {
            let metadata = object::metadata(object.to_mut());
            for field in ["uid", "creationTimestamp", "generation"] {
                metadata.remove(field);
            }
        }
        self
    }

    /// The webhooks that want to be asked. Their configurations themselves are never reviewed.
    pub(super) fn calls(&self, state: &State, plural: &str) -> Vec<Call> {
        if self.kind.group == GROUP {
            return Vec::new();
        }
        let namespace = match self.kind.namespaced {
            true => state.object("", "namespaces", "", &self.key.namespace).map(|found| found.value()),
            // Of a namespace its own labels count.
            false if self.kind.plural == "namespaces" => self.object.as_deref().or(self.before.as_deref()),
            false => None,
        };
        let configurations = state.objects(GROUP, plural, None);
        let all = configurations.iter().flat_map(|configuration| object::list(configuration, "/webhooks"));
        all.filter(|hook| self.is_selected(hook))
            .filter(|hook| namespace.is_none() || selects(hook, "/namespaceSelector", &[namespace]))
            .filter_map(|hook| Some(Call { version: self.matched(hook)?, hook: hook.clone() }))
            .collect()
    }

    /// Whether a webhook looks for objects like this one.
    pub(super) fn is_selected(&self, hook: &Value) -> bool {
        selects(hook, "/objectSelector", &[self.object.as_deref(), self.before.as_deref()])
    }

    /// The version in which a webhook wants to be asked: that of the request or, where it does not insist on that,
    /// another of the same kind.
    fn matched(&self, hook: &Value) -> Option<String> {
        let rules = object::list(hook, "/rules");
        let in_version = |version: &str| rules.iter().any(|rule| self.falls_under(rule, version));
        if in_version(self.version) {
            return Some(self.version.to_owned());
        }
        if text(hook, "/matchPolicy") == "Exact" {
            return None;
        }
        self.kind.versions.iter().map(|version| version.name.clone()).find(|version| in_version(version))
    }

    /// Whether a rule names what this is about.
    fn falls_under(&self, rule: &Value, version: &str) -> bool {
        let names = |pointer: &str, wanted: &str| {
            object::list(rule, pointer).iter().any(|one| one == "*" || *one == wanted)
        };
        let resource = if self.subresource.is_empty() {
            self.kind.plural.clone()
        } else {
            format!("{}/{}", self.kind.plural, self.subresource)
        };
        let is_resource = object::list(rule, "/resources").iter().filter_map(Value::as_str).any(|one| {
            one == resource
                || one == "*/*"
                || one == "*" && self.subresource.is_empty()
                || one == format!("*/{}", self.subresource) && !self.subresource.is_empty()
                || one == format!("{}/*", self.kind.plural)
        });
        let is_scope = match text(rule, "/scope") {
            "Namespaced" => self.kind.namespaced,
            "Cluster" => !self.kind.namespaced,
            _ => true,
        };
        names("/operations", self.operation.into())
            && names("/apiGroups", &self.kind.group)
            && names("/apiVersions", version)
            && is_resource
            && is_scope
    }

    /// The question in a version of the kind.
    pub(super) fn review(&self, uid: &str, version: &str) -> Value {
        let Kind { group, plural, kind, .. } = self.kind;
        let resource = |version: &str| json!({ "group": group, "version": version, "resource": plural });
        let gvk = |version: &str| match self.body {
            None => json!({ "group": group, "version": version, "kind": kind }),
            Some((kind, api_version)) => {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                json!({ "group": group, "version": version, "kind": kind })
            }
        };
        let shown = |object: Option<&Value>| {
            let mut object = object.cloned().unwrap_or_default();
            packed::unpack(&mut object);
            if let (None, Some(fields)) = (self.body, object.as_object_mut()) {
                fields.insert("apiVersion".into(), self.kind.api_version(version).into());
            }
            object
        };
        let is_dry = !object::list(&self.options, "/dryRun").is_empty();
        let mut request = json!({
            "uid": uid, "kind": gvk(version), "resource": resource(version),
            "requestKind": gvk(self.version), "requestResource": resource(self.version),
            "name": self.key.name, "operation": <&str>::from(self.operation),
            "userInfo": { "username": "admin", "groups": ["system:masters", "system:authenticated"] },
            "object": shown(self.object.as_deref()), "oldObject": shown(self.before.as_deref()),
            "dryRun": is_dry, "options": self.options,
        });
        let fields = object::fields(&mut request);
        if !self.key.namespace.is_empty() {
            fields.insert("namespace".into(), self.key.namespace.clone().into());
        }
        if !self.subresource.is_empty() {
            fields.insert("subResource".into(), self.subresource.into());
            fields.insert("requestSubResource".into(), self.subresource.into());
        }
        json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request })
    }
}

/// Whether a selector of a webhook selects one of these.
fn selects(hook: &Value, pointer: &str, objects: &[Option<&Value>]) -> bool {
    let Some(selector) = hook.pointer(pointer) else {
        return true;
    };
    Selector::from_json(selector).is_none_or(|selector| {
        selector.is_empty() || objects.iter().flatten().any(|object| selector.matches(object))
    })
}
