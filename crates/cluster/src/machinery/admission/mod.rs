//! Admission webhooks: asked before an object is stored, in the order of their configurations' names.
//!
//! ```text
//! draft ──> question (who wants to be asked, and what) ──> conditions ──> Webhooks: https, or a service in process
//! ```

mod conditions;
pub mod https;
mod question;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;

use super::answer::Refusal;
use super::draft::Draft;
use super::object::{self, text};
use super::patch;
use super::state::State;
use super::store::Key;
use crate::kinds::{Action, Kind};
pub(crate) use conditions::complaint;
use question::{Call, Question};

pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";
/// Seconds that a webhook has when its configuration does not say.
const DEFAULT_TIMEOUT_SECONDS: i64 = 10;

/// What carries reviews to webhooks: over HTTPS, or to a service in the same process.
pub trait Webhooks: Send + Sync {
    /// Sends an `AdmissionReview` to a webhook and returns the one that comes back, or why none did.
    fn review(&self, hook: Hook, review: Value) -> BoxFuture<'static, Result<Value, String>>;
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// What it is called in refusals.
    pub name: String,
    /// Where its configuration points.
    pub client_config: Value,
    /// How long it is waited for.
    pub timeout: Duration,
}

impl Hook {
    fn of(hook: &Value) -> Self {
        let seconds = object::number(hook, "/timeoutSeconds").unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        Hook {
            name: text(hook, "/name").to_owned(),
            client_config: hook.get("clientConfig").cloned().unwrap_or_default(),
            timeout: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
        }
    }

    /// Its address, as refusals tell it.
    pub(crate) fn address(&self) -> String {
        let seconds = self.timeout.as_secs();
        let url = text(&self.client_config, "/url");
        if url.is_empty() {
            let service = |field: &str| text(&self.client_config, &format!("/service/{field}"));
            let port = object::number(&self.client_config, "/service/port").unwrap_or(https::PORT.into());
            let (namespace, name, path) = (service("namespace"), service("name"), service("path"));
            return format!("https://{name}.{namespace}.svc:{port}{path}?timeout={seconds}s");
        }
        format!("{url}?timeout={seconds}s")
    }
}

/// The webhooks of a server.
#[derive(Clone, Default)]
pub(crate) struct Admission {
    webhooks: Option<Arc<dyn Webhooks>>,
}

/// What a webhook said that allows what it was asked about.
#[derive(Default)]
struct Allowed {
    /// A JSON patch.
    patch: Option<Value>,
    warnings: Vec<String>,
}

impl Admission {
    pub(crate) fn new(webhooks: Arc<dyn Webhooks>) -> Self {
        Admission { webhooks: Some(webhooks) }
    }

    /// Whether any webhook wants to see a draft.
    pub(crate) fn concerns(state: &State, draft: &Draft) -> bool {
        let question = Question::of_draft(draft);
        [MUTATING, VALIDATING].into_iter().any(|plural| !question.calls(state, plural).is_empty())
    }

    /// Lets mutating webhooks change a draft.
    pub(crate) async fn mutate(&self, state: &Mutex<State>, draft: &mut Draft) -> Result<(), Refusal> {
        // Those that want to be asked again once another has changed what they saw.
        let mut returning: Vec<(Call, bool)> = Vec::new();
        for call in lock(state, |state| Question::of_draft(draft).calls(state, MUTATING)) {
            // An earlier webhook may have changed what this one looks for.
            let Some(changed) = self.let_change(state, &call, draft).await? else {
                continue;
            };
            if changed {
                for (_, is_due) in &mut returning {
                    *is_due = true;
                }
            }
            if text(&call.hook, "/reinvocationPolicy") == "IfNeeded" {
                returning.push((call, false));
            }
        }
        for (call, _) in returning.into_iter().filter(|(_, is_due)| *is_due) {
            self.let_change(state, &call, draft).await?;
        }
        Ok(())
    }

    /// Whether a webhook has changed a draft; nothing where it does not want to.
    async fn let_change(
        &self,
        state: &Mutex<State>,
        call: &Call,
        draft: &mut Draft,
    ) -> Result<Option<bool>, Refusal> {
        let question = Question::of_draft(draft).before_it_exists();
        if !question.is_selected(&call.hook) {
            return Ok(None);
        }
        let Some(allowed) = self.ask(state, call, &question).await? else {
            return Ok(None);
        };
        draft.warnings.extend(allowed.warnings);
        let Some(patch) = allowed.patch else {
            return Ok(Some(false));
        };
        let changed =
            patch::json(&draft.object, &patch).map_err(|error| Refusal::internal_error(error.to_string()))?;
        let is_other = changed != draft.object;
        draft.replace(changed).map_err(Refusal::internal_error)?;
        Ok(Some(is_other))
    }

    /// Asks validating webhooks about a draft.
    pub(crate) async fn validate(&self, state: &Mutex<State>, draft: &mut Draft) -> Result<(), Refusal> {
        for call in lock(state, |state| Question::of_draft(draft).calls(state, VALIDATING)) {
            let allowed = self.ask(state, &call, &Question::of_draft(draft)).await?;
            draft.warnings.extend(allowed.unwrap_or_default().warnings);
        }
        Ok(())
    }

    /// Asks all webhooks about a deletion; returns their warnings.
    pub(crate) async fn deletion(
        &self,
        state: &Mutex<State>,
        kind: &Kind,
        key: &Key,
        options: Value,
    ) -> Result<Vec<String>, Refusal> {
        let Some(before) = lock(state, |state| state.store.get(key).cloned()) else {
            return Ok(Vec::new());
        };
        let question = Question::of_deletion(kind, key, &before, options);
        self.ask_all(state, &question).await
    }

    /// Asks all webhooks about an act on an object.
    pub(crate) async fn act(
        &self,
        state: &Mutex<State>,
        kind: &Kind,
        key: &Key,
        action: &Action,
        (body, options): (&Value, Value),
    ) -> Result<Vec<String>, Refusal> {
        let question = Question::of_act(kind, key, action, body, options);
        self.ask_all(state, &question).await
    }

    async fn ask_all(&self, state: &Mutex<State>, question: &Question<'_>) -> Result<Vec<String>, Refusal> {
        let mut warnings = Vec::new();
        for plural in [MUTATING, VALIDATING] {
            for call in lock(state, |state| question.calls(state, plural)) {
                warnings.extend(self.ask(state, &call, question).await?.unwrap_or_default().warnings);
            }
        }
        Ok(warnings)
    }

    /// What a webhook says that allows what it is asked; nothing where its conditions keep it from being asked.
    async fn ask(
        &self,
        state: &Mutex<State>,
        call: &Call,
        question: &Question<'_>,
    ) -> Result<Option<Allowed>, Refusal> {
        let hook = &call.hook;
        let uid = lock(state, State::uid);
        let review = question.review(&uid, &call.version);
        let is_lenient = text(hook, "/failurePolicy") == "Ignore";
        match conditions::hold(hook, &review) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if is_lenient => return Ok(None),
            Err(why) => {
                return Err(Refusal::forbidden(question.kind.resource(), &question.key.name, &why, None));
            }
        }
        let target = Hook::of(hook);
        let name = target.name.clone();
        match self.response(target, review, &uid).await {
            Err(_) if is_lenient => Ok(Some(Allowed::default())),
            Err(why) => Err(Refusal::internal_error(format!("failed calling webhook \"{name}\": {why}"))),
            Ok(response) => allowed(&name, &response).map(Some),
        }
    }

    /// The response of a webhook, whatever it says.
    async fn response(&self, hook: Hook, review: Value, uid: &str) -> Result<Value, String> {
        let uncalled = |why: String| format!("failed to call webhook: {why}");
        let Some(webhooks) = &self.webhooks else {
            return Err(uncalled("nothing reaches webhooks here".to_owned()));
        };
        let late = uncalled(format!("Post \"{}\": context deadline exceeded", hook.address()));
        let answer = tokio::time::timeout(hook.timeout, webhooks.review(hook, review)).await;
        let answer = answer.map_err(|_| late)?.map_err(uncalled)?;
        let unfit = |why: String| format!("received invalid webhook response: {why}");
        let response = answer.get("response").filter(|response| response.is_object()).cloned();
        let response = response.ok_or_else(|| unfit("webhook response was absent".to_owned()))?;
        let said = text(&response, "/uid");
        if said != uid {
            return Err(unfit(format!("expected response.uid=\"{uid}\", got \"{said}\"")));
        }
        let has = |field: &str| !text(&response, &format!("/{field}")).is_empty();
        if has("patch") && !has("patchType") {
            return Err(unfit("webhook returned response.patch but not response.patchType".to_owned()));
        }
        Ok(response)
    }
}

/// What follows from a response.
fn allowed(name: &str, response: &Value) -> Result<Allowed, Refusal> {
    if response.get("allowed") != Some(&Value::Bool(true)) {
        let (said, reason) = (text(response, "/status/message"), text(response, "/status/reason"));
        let why = if said.is_empty() { reason } else { said };
        let message = if why.is_empty() {
            format!("admission webhook \"{name}\" denied the request without explanation")
        } else {
            format!("admission webhook \"{name}\" denied the request: {why}")
        };
        let code = object::number(response, "/status/code").and_then(|code| u16::try_from(code).ok());
        let details = response.pointer("/status/details").cloned();
        return Err(Refusal::denied(code, reason, message, details));
    }
    let warnings = object::list(response, "/warnings").iter().filter_map(Value::as_str);
    let warnings = warnings.map(str::to_owned).collect();
    let failed = |why: String| Refusal::internal_error(format!("failed calling webhook \"{name}\": {why}"));
    let patch = Some(text(response, "/patch")).filter(|patch| !patch.is_empty());
    let patch = patch.map(|patch| {
        let patch = base64::engine::general_purpose::STANDARD.decode(patch);
        let patch = patch.map_err(|error| failed(error.to_string()))?;
        super::json::read(&patch).map(|document| document.value).map_err(failed)
    });
    Ok(Allowed { patch: patch.transpose()?, warnings })
}

fn lock<T>(state: &Mutex<State>, look: impl FnOnce(&mut State) -> T) -> T {
    look(&mut state.lock())
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
