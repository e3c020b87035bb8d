//! Workloads that are kept as plain objects, and revisions.

use serde_json::{Value, json};

use super::sets::{default_template, selector_causes};
use super::{Strategy, meta, pod_rules};
use crate::machinery::object::{self, fill};
use crate::machinery::schema::Cause;

pub(super) struct Revisions;
pub(super) struct Deployments;
pub(super) struct ReplicaSets;
pub(super) struct Jobs;

impl Strategy for Revisions {
    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes: Vec<Cause> = Vec::new();
        if object.get("data").is_none_or(Value::is_null) {
            causes.push(Cause::required("data", "data is mandatory"));
        } else if !object.get("data").is_some_and(Value::is_object) {
            causes.push(Cause::required("data", "data must be a valid JSON object"));
        }
        causes.extend(meta::not_negative(object, "/revision"));
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        meta::immutable("data", object, before).into_iter().chain(self.validate(object)).collect()
    }
}

fn template_causes(object: &Value) -> Vec<Cause> {
    let spec = object.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    pod_rules::validate(spec, "spec.template.spec", &[])
}

impl Strategy for Deployments {
    fn default(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        fill(spec, "replicas", 1);
        fill(spec, "revisionHistoryLimit", 10);
        fill(spec, "progressDeadlineSeconds", 600);
        let strategy = object::entry(spec, "strategy");
        fill(strategy, "type", "RollingUpdate");
        if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
            fill(strategy, "rollingUpdate", json!({}));
            let rolling = object::entry(strategy, "rollingUpdate");
            fill(rolling, "maxUnavailable", "25%");
            fill(rolling, "maxSurge", "25%");
        }
        default_template(object::entry(spec, "template"));
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes: Vec<Cause> = meta::not_negative(object, "/spec/replicas").into_iter().collect();
        causes.extend(selector_causes(object));
        causes.extend(template_causes(object));
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let selector = meta::immutable("spec.selector", object, before);
        [self.validate(object), selector.into_iter().collect()].concat()
    }
}

impl Strategy for ReplicaSets {
    fn default(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        fill(spec, "replicas", 1);
        default_template(object::entry(spec, "template"));
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        Deployments.validate(object)
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        Deployments.validate_update(object, before)
    }
}

impl Strategy for Jobs {
    fn default(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        fill(spec, "parallelism", 1);
        fill(spec, "completions", 1);
        fill(spec, "backoffLimit", 6);
        fill(spec, "completionMode", "NonIndexed");
        fill(spec, "suspend", false);
        fill(spec, "manualSelector", false);
        fill(spec, "podReplacementPolicy", "TerminatingOrFailed");
        default_template(object::entry(spec, "template"));
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        template_causes(object)
    }
}
