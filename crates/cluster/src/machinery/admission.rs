//! Admission webhooks: asked before an object is stored, in the order of their configurations' names.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::answer::Refusal;
use super::draft::Draft;
use super::object::{self, text};
use super::patch;
use super::selector::Selector;
use super::state::State;
use super::store::Key;
use crate::kinds::Kind;

const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";
/// Seconds that a webhook has when its configuration does not say.
const DEFAULT_TIMEOUT_SECONDS: i64 = 10;

/// What carries reviews to webhooks: over HTTPS, or to a service in the same process.
pub trait Webhooks: Send + Sync {
    /// Sends an `AdmissionReview` to where a webhook's `clientConfig` points and returns the one that comes back.
    fn review(&self, client_config: Value, review: Value) -> BoxFuture<'static, Result<Value, String>>;
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// The webhooks of a server.
#[derive(Clone, Default)]
pub(crate) struct Admission {
    webhooks: Option<Arc<dyn Webhooks>>,
}

/// What a webhook is asked about.
struct Question<'a> {
    kind: &'a Kind,
    operation: Operation,
    subresource: &'a str,
    key: &'a Key,
    object: Option<&'a Value>,
    before: Option<&'a Value>,
    dry_run: bool,
}

impl Admission {
    pub(crate) fn new(webhooks: Arc<dyn Webhooks>) -> Self {
        Admission { webhooks: Some(webhooks) }
    }

    /// Whether any webhook wants to see a draft.
    pub(crate) fn concerns(state: &State, draft: &Draft) -> bool {
        let question = of_draft(draft);
        [MUTATING, VALIDATING].into_iter().any(|plural| !hooks(state, plural, &question).is_empty())
    }

    /// Lets mutating webhooks change a draft.
    pub(crate) async fn mutate(&self, state: &Mutex<State>, draft: &mut Draft) -> Result<(), Refusal> {
        for hook in lock_hooks(state, MUTATING, &of_draft(draft)) {
            // An earlier webhook may have changed what this one looks for.
            if !selects(&hook, "/objectSelector", &[Some(&draft.object), draft.before.as_deref()]) {
                continue;
            }
            let (response, warnings) = self.ask(&hook, &of_draft(draft)).await?;
            draft.warnings.extend(warnings);
            let patch = text(&response, "/patch");
            if patch.is_empty() {
                continue;
            }
            let failed = |why: String| {
                Refusal::internal_error(format!("failed calling webhook \"{}\": {why}", text(&hook, "/name")))
            };
            let patch = base64::engine::general_purpose::STANDARD
                .decode(patch)
                .map_err(|error| failed(error.to_string()))?;
            let patch: Value = serde_json::from_slice(&patch).map_err(|error| failed(error.to_string()))?;
            draft.object =
                patch::json(&draft.object, &patch).map_err(|error| failed(format!("jsonpatch: {error}")))?;
            if let Some(version) = draft.kind.version(&draft.kind.stored) {
                version.schema.prune(&mut draft.object);
                version.schema.default(&mut draft.object);
            }
            draft.kind.strategy.default(&mut draft.object);
        }
        Ok(())
    }

    /// Asks validating webhooks about a draft.
    pub(crate) async fn validate(&self, state: &Mutex<State>, draft: &mut Draft) -> Result<(), Refusal> {
        for hook in lock_hooks(state, VALIDATING, &of_draft(draft)) {
            let (_, warnings) = self.ask(&hook, &of_draft(draft)).await?;
            draft.warnings.extend(warnings);
        }
        Ok(())
    }

    /// Asks all webhooks about a deletion.
    pub(crate) async fn deletion(
        &self,
        state: &Mutex<State>,
        kind: &Kind,
        key: &Key,
        dry_run: bool,
    ) -> Result<(), Refusal> {
        let before = {
            let state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.store.get(key).cloned()
        };
        let Some(before) = before else {
            return Ok(());
        };
        let question = Question {
            kind,
            operation: Operation::Delete,
            subresource: "",
            key,
            object: None,
            before: Some(&before),
            dry_run,
        };
        for plural in [MUTATING, VALIDATING] {
            for hook in lock_hooks(state, plural, &question) {
                self.ask(&hook, &question).await?;
            }
        }
        Ok(())
    }

    /// The response of a webhook that allows what it was asked about, and its warnings.
    async fn ask(&self, hook: &Value, question: &Question<'_>) -> Result<(Value, Vec<String>), Refusal> {
        let name = text(hook, "/name");
        let review = question.review();
        let seconds = object::number(hook, "/timeoutSeconds").unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        let timeout = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let config = hook.get("clientConfig").cloned().unwrap_or_default();
        let answer = match &self.webhooks {
            None => Err("nothing reaches webhooks here".to_owned()),
            Some(webhooks) => match tokio::time::timeout(timeout, webhooks.review(config, review)).await {
                Ok(answer) => answer,
                Err(_) => Err("context deadline exceeded".to_owned()),
            },
        };
        let response = answer.and_then(|review| {
            let response = review.get("response").filter(|response| response.is_object()).cloned();
            response.ok_or_else(|| "webhook response was absent".to_owned())
        });
        match response {
            Err(_) if text(hook, "/failurePolicy") == "Ignore" => Ok((Value::Null, Vec::new())),
            Err(why) => Err(Refusal::internal_error(format!(
                "failed calling webhook \"{name}\": failed to call webhook: {why}"
            ))),
            Ok(response) if response.get("allowed") == Some(&Value::Bool(true)) => {
                let warnings = object::list(&response, "/warnings").iter().filter_map(Value::as_str);
                let warnings = warnings.map(str::to_owned).collect();
                Ok((response, warnings))
            }
            Ok(response) => {
                let said = text(&response, "/status/message");
                let message = if said.is_empty() {
                    format!("admission webhook \"{name}\" denied the request without explanation")
                } else {
                    format!("admission webhook \"{name}\" denied the request: {said}")
                };
                let code =
                    object::number(&response, "/status/code").and_then(|code| u16::try_from(code).ok());
                let code = code.filter(|code| *code >= 400).unwrap_or(403);
                let reason = match text(&response, "/status/reason") {
                    "" if code == 403 => "Forbidden",
                    reason => reason,
                };
                Err(Refusal::denied(code, reason, message))
            }
        }
    }
}

fn of_draft(draft: &Draft) -> Question<'_> {
    Question {
        kind: &draft.kind,
        operation: if draft.is_create() { Operation::Create } else { Operation::Update },
        subresource: if draft.is_status { "status" } else { "" },
        key: &draft.key,
        object: Some(&draft.object),
        before: draft.before.as_deref(),
        dry_run: draft.dry_run,
    }
}

impl Question<'_> {
    fn review(&self) -> Value {
        let Kind { group, plural, stored, kind, .. } = self.kind;
        let gvk = json!({ "group": group, "version": stored, "kind": kind });
        let resource = json!({ "group": group, "version": stored, "resource": plural });
        let subject = self.object.or(self.before).unwrap_or(&Value::Null);
        let options = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut request = json!({
            // One question per object and version: its version and UID identify it.
            "uid": format!("{}-{}", object::uid(subject), text(subject, "/metadata/resourceVersion")),
            "kind": gvk, "resource": resource, "requestKind": gvk, "requestResource": resource,
            "name": self.key.name, "operation": self.operation.name(),
            "userInfo": { "username": "admin", "groups": ["system:masters", "system:authenticated"] },
            "object": self.object, "oldObject": self.before, "dryRun": self.dry_run,
            "options": { "kind": options, "apiVersion": "meta.k8s.io/v1" },
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

    /// Whether a rule names what this is about.
    fn falls_under(&self, rule: &Value) -> bool {
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
        names("/operations", self.operation.name())
            && names("/apiGroups", &self.kind.group)
            && self.kind.versions.iter().any(|version| names("/apiVersions", &version.name))
            && is_resource
            && is_scope
    }
}

fn lock_hooks(state: &Mutex<State>, plural: &str, question: &Question<'_>) -> Vec<Value> {
    hooks(&state.lock().unwrap_or_else(PoisonError::into_inner), plural, question)
}

/// The webhooks that want to be asked. Their configurations themselves are never reviewed.
fn hooks(state: &State, plural: &str, question: &Question<'_>) -> Vec<Value> {
    if question.kind.group == GROUP {
        return Vec::new();
    }
    let namespace = state.object("", "namespaces", "", &question.key.namespace);
    let wanted = |hook: &&Value| {
        object::list(hook, "/rules").iter().any(|rule| question.falls_under(rule))
            && selects(hook, "/objectSelector", &[question.object, question.before])
            && (!question.kind.namespaced
                || selects(hook, "/namespaceSelector", &[namespace.map(|found| &**found)]))
    };
    let configurations = state.objects(GROUP, plural, None);
    let all = configurations.iter().flat_map(|configuration| object::list(configuration, "/webhooks"));
    all.filter(wanted).cloned().collect()
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

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
