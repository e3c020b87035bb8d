//! PodDisruptionBudgets, and evictions, which ask them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Kind, Strategy, meta, pods, selectors};
use crate::machinery::answer::{self, About, Refusal};
use crate::machinery::apply::{self, Manager, Operation};
use crate::machinery::delete::{self, DeleteOptions};
use crate::machinery::object::{self, text};
use crate::machinery::packed;
use crate::machinery::request::Query;
use crate::machinery::schema::Cause;
use crate::machinery::selector::Selector;
use crate::machinery::state::State;
use crate::machinery::store::Key;
use crate::machinery::stored::Stored;
use crate::machinery::write;

/// Seconds after which an eviction may be retried while a budget is being counted.
const RECOUNT_SECONDS: u64 = 10;
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

pub(super) struct Budgets;

impl Strategy for Budgets {
    fn validate(&self, object: &Value) -> Vec<Cause> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let mut causes = Vec::new();
        if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
            let why = "minAvailable and maxUnavailable cannot be both set";
            causes.push(Cause::invalid_as("spec", &shown(spec), why));
        }
        for field in ["minAvailable", "maxUnavailable"] {
            causes.extend(meta::not_negative(object, &format!("/spec/{field}")));
            if let Some(share) = spec.get(field).and_then(Value::as_str) {
                let number = share.strip_suffix('%').and_then(|number| number.parse::<u32>().ok());
                let why = match number {
                    None => {
                        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                         '93%', regex used for validation is '[0-9]+%')"
                    }
                    Some(0..=100) => continue,
                    Some(_) => "must not be greater than 100%",
                };
                causes.push(Cause::invalid(format!("spec.{field}"), &share.into(), why));
            }
        }
        if let Some(selector) = spec.get("selector").filter(|selector| selector.is_object()) {
            causes.extend(selectors::causes(selector, "spec.selector"));
        }
        let policy = text(spec, "/unhealthyPodEvictionPolicy");
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        if !policy.is_empty() && !policies.contains(&policy) {
            causes.push(Cause::unsupported("spec.unhealthyPodEvictionPolicy", &policy.into(), &policies));
        }
        causes
    }

    fn validate_status(&self, object: &Value, _: &Value) -> Vec<Cause> {
        ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
            .iter()
            .filter_map(|field| meta::not_negative(object, &format!("/status/{field}")))
            .collect()
    }

    fn name_problem(&self, _: &str) -> Option<String> {
        None
    }
}

/// As Go prints the type behind it.
fn shown(spec: &Value) -> String {
    let field = |name: &str| spec.get(name).unwrap_or(&Value::Null);
    let selector = spec.get("selector").map_or_else(|| "null".to_owned(), selectors::shown);
    format!(
        "{{\"MinAvailable\":{},\"Selector\":{selector},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
        field("minAvailable"),
        field("maxUnavailable"),
        field("unhealthyPodEvictionPolicy")
    )
}

fn is_ready(pod: &Value) -> bool {
    let conditions = object::list(pod, "/status/conditions");
    conditions.iter().any(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True")
}

/// Deletes a pod if its budget allows it.
pub(super) fn evict(
    state: &mut State,
    kind: &Kind,
    key: &Key,
    eviction: &Value,
    query: &Query,
) -> Result<Value, Refusal> {
    let row = state.row("", &kind.plural).ok_or_else(Refusal::no_such_resource)?;
    let Some(pod) = state.store.get(key).cloned() else {
        return Err(Refusal::not_found(kind.resource(), &key.name));
    };
    let said = |pointer: &str| Some(text(eviction, pointer).to_owned()).filter(|said| !said.is_empty());
    let asked_dry = eviction.pointer("/deleteOptions/dryRun").is_some_and(|asked| *asked == json!(["All"]));
    let options = DeleteOptions {
        grace: object::number(eviction, "/deleteOptions/gracePeriodSeconds"),
        uid: said("/deleteOptions/preconditions/uid"),
        version: said("/deleteOptions/preconditions/resourceVersion"),
        propagation: None,
        dry_run: asked_dry || query.dry_run("CreateOptions")?,
    };
    let ends_anyway = object::is_deleting(&pod)
        || matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed" | "Pending");
    if !ends_anyway {
        let budgets = state.objects("policy", "poddisruptionbudgets", Some(&key.namespace));
        let covers = |budget: &Arc<Stored>| {
            let selector = budget.pointer("/spec/selector").and_then(Selector::from_json);
            selector.is_some_and(|selector| selector.matches(&pod))
        };
        let budgets: Vec<Arc<Stored>> = budgets.into_iter().filter(covers).collect();
        match budgets.as_slice() {
            [] => {}
            [budget] => spend(state, budget, &pod, options.dry_run)?,
            _ => {
                let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
                           support.";
                return Err(Refusal::internal(why));
            }
        }
    }
    let is_lasting =
        !options.dry_run && !object::is_deleting(&pod) && row.strategy.grace(&pod, options.grace) != Some(0);
    if is_lasting {
        let now = state.now();
        write::amend(state, &row, key, |pod| {
            let target = json!({
                "type": "DisruptionTarget",
                "status": "True",
                "lastProbeTime": null,
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            pods::set_condition(pod, target, &now);
        });
    }
    delete::delete(state, &row, key, &options)?;
    Ok(answer::created())
}

/// Who counts disruptions.
fn server() -> Manager {
    Manager {
        name: "kube-apiserver".to_owned(),
        operation: Operation::Update,
        api_version: "policy/v1".to_owned(),
        subresource: Some("status".to_owned()),
        resets: &["spec"],
    }
}

/// Takes one disruption out of a budget.
fn spend(state: &mut State, budget: &Value, pod: &Value, dry_run: bool) -> Result<(), Refusal> {
    let status = |field: &str| object::number(budget, &format!("/status/{field}")).unwrap_or_default();
    let (healthy, desired) = (status("currentHealthy"), status("desiredHealthy"));
    if !is_ready(pod) {
        let policy = text(budget, "/spec/unhealthyPodEvictionPolicy");
        if policy == "AlwaysAllow" || healthy >= desired && desired > 0 {
            return Ok(());
        }
    }
    let name = object::name(budget);
    let generation = object::number(budget, "/metadata/generation").unwrap_or_default();
    if status("observedGeneration") < generation {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        let causes = json!([{ "reason": "DisruptionBudget", "message": message }]);
        return Err(Refusal::too_many_requests(REFUSED, &causes, Some(RECOUNT_SECONDS)));
    }
    let allowed = status("disruptionsAllowed");
    if allowed <= 0 {
        let message =
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        let causes = json!([{ "reason": "DisruptionBudget", "message": message }]);
        return Err(Refusal::too_many_requests(REFUSED, &causes, None));
    }
    if dry_run {
        return Ok(());
    }
    let about = About { group: "policy", name: "poddisruptionbudgets" };
    let row = state.row(about.group, about.name).ok_or_else(Refusal::no_such_resource)?;
    let key = row.key(object::namespace(budget), name);
    let (now, pod) = (state.now(), object::name(pod).to_owned());
    let stamp = state.clock.timestamp();
    let schema = row.version("v1").map(|version| version.schema.clone());
    let mut before = budget.clone();
    packed::unpack(&mut before);
    write::amend(state, &row, &key, |budget| {
        let status = object::child(budget, "status");
        status.insert("disruptionsAllowed".into(), (allowed - 1).into());
        object::entry(status, "disruptedPods").insert(pod, now.clone().into());
        if allowed == 1 {
            let condition = json!({
                "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                "observedGeneration": generation, "lastTransitionTime": now,
            });
            let conditions = status.entry("conditions").or_insert_with(|| json!([]));
            if let Some(conditions) = conditions.as_array_mut() {
                conditions.retain(|one| text(one, "/type") != "DisruptionAllowed");
                conditions.push(condition);
            }
        }
        if let Some(schema) = schema {
            *budget = apply::track(Some(&before), std::mem::take(budget), &server(), &schema, stamp);
        }
    });
    Ok(())
}
