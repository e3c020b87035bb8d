//! StatefulSets: defaults, and the rules of what may be written and changed.

use serde_json::{Value, json};

use super::{Strategy, claims, meta, pod_rules, pod_spec, selectors};
use crate::machinery::object::{self, fill, text};
use crate::machinery::schema::Cause;
use crate::machinery::selector::Selector;

pub(super) struct StatefulSets {
    /// Whether the gate is on that lets a rolling update go faster.
    pub(super) max_unavailable: bool,
}

/// What may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
const FROZEN: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
    'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
    forbidden";

impl Strategy for StatefulSets {
    fn default(&self, object: &mut Value) {
        let spec = object::child(object, "spec");
        if text_of(spec, "podManagementPolicy").is_empty() {
            spec.insert("podManagementPolicy".into(), "OrderedReady".into());
        }
        let strategy = object::entry(spec, "updateStrategy");
        if text_of(strategy, "type").is_empty() {
            strategy.insert("type".into(), "RollingUpdate".into());
            fill(strategy, "rollingUpdate", json!({}));
        }
        let rolls = text_of(strategy, "type") == "RollingUpdate";
        if let Some(rolling) =
            strategy.get_mut("rollingUpdate").filter(|rolling| rolls && rolling.is_object())
        {
            fill(object::fields(rolling), "partition", 0);
            if self.max_unavailable {
                fill(object::fields(rolling), "maxUnavailable", 1);
            }
        }
        let retention = object::entry(spec, "persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            if text_of(retention, field).is_empty() {
                retention.insert(field.into(), "Retain".into());
            }
        }
        fill(spec, "replicas", 1);
        fill(spec, "revisionHistoryLimit", 10);
        default_template(object::entry(spec, "template"));
        for claim in spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten()
        {
            let fields = object::fields(claim);
            fields.insert("apiVersion".into(), "v1".into());
            fields.insert("kind".into(), "PersistentVolumeClaim".into());
            claims::default(fields);
        }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let limit = object::number(object, "/spec/revisionHistoryLimit").unwrap_or_default();
        let why = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                   recommended";
        if limit < 0 { vec![why.to_owned()] } else { Vec::new() }
    }

    fn prepare_create(&self, object: &mut Value) {
        if !self.max_unavailable {
            drop_disabled(object, None);
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        if !self.max_unavailable {
            drop_disabled(object, Some(old));
        }
    }

    fn name_problem(&self, name: &str) -> Option<String> {
        meta::label_problem(name)
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = spec_causes(object);
        let name = text(object, "/spec/serviceName");
        if let Some(why) = meta::label_problem(name).filter(|_| !name.is_empty()) {
            causes.push(Cause::invalid("spec.serviceName", &name.into(), &why));
        }
        for (index, claim) in object::list(object, "/spec/volumeClaimTemplates").iter().enumerate() {
            causes.extend(claims::spec_causes(claim, &format!("spec.volumeClaimTemplates[{index}].spec")));
        }
        causes.extend(template_causes(object));
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let mut causes = spec_causes(object);
        // What was let in once must stay changeable elsewhere.
        if template_causes(before).is_empty() {
            causes.extend(template_causes(object));
        }
        let frozen = |set: &Value| {
            let mut spec = set.get("spec").cloned().unwrap_or_default();
            object::fields(&mut spec).retain(|field, _| !MUTABLE.contains(&field.as_str()));
            spec
        };
        if frozen(object) != frozen(before) {
            causes.push(Cause::forbidden("spec", FROZEN));
        }
        causes
    }

    fn validate_status(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let count = |field: &str| object::number(object, &format!("/status/{field}")).unwrap_or_default();
        let mut causes: Vec<Cause> = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ]
        .into_iter()
        .filter_map(|field| meta::not_negative(object, &format!("/status/{field}")))
        .collect();
        let mut bounded = |field: &str, bound: &str| {
            if count(field) > count(bound) {
                let why = format!("cannot be greater than status.{bound}");
                causes.push(Cause::invalid(format!("status.{field}"), &count(field).into(), &why));
            }
        };
        for field in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
            bounded(field, "replicas");
        }
        bounded("availableReplicas", "readyReplicas");
        let collisions = |object| object::number(object, "/status/collisionCount").unwrap_or_default();
        if collisions(object) < collisions(before)
            && object.pointer("/status/collisionCount").is_some()
            && before.pointer("/status/collisionCount").is_some()
        {
            let why = "cannot be decremented";
            causes.push(Cause::invalid("status.collisionCount", &collisions(object).into(), why));
        }
        causes
    }
}

fn text_of<'a>(fields: &'a serde_json::Map<String, Value>, field: &str) -> &'a str {
    fields.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Fills in what a pod template leaves out.
pub(super) fn default_template(template: &mut serde_json::Map<String, Value>) {
    fill(template, "metadata", json!({}));
    pod_spec::default(object::entry(template, "spec"));
}

/// Fields behind gates that are off are dropped, unless they are already in use.
fn drop_disabled(object: &mut Value, old: Option<&Value>) {
    let pointer = "/spec/updateStrategy/rollingUpdate";
    let in_use = old.and_then(|old| old.pointer(pointer)?.get("maxUnavailable")).is_some();
    if let (false, Some(rolling)) = (in_use, object.pointer_mut(pointer).and_then(Value::as_object_mut)) {
        rolling.remove("maxUnavailable");
    }
}

/// As Go prints the type behind it.
fn shown_rolling(rolling: Option<&Value>) -> String {
    let Some(rolling) = rolling else {
        return "null".to_owned();
    };
    let partition = object::number(rolling, "/partition").unwrap_or_default();
    let unavailable = rolling.get("maxUnavailable").unwrap_or(&Value::Null);
    format!("{{\"Partition\":{partition},\"MaxUnavailable\":{unavailable}}}")
}

fn spec_causes(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let policy = text(object, "/spec/podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let why = "must be 'OrderedReady' or 'Parallel'";
        causes.push(Cause::invalid("spec.podManagementPolicy", &policy.into(), why));
    }
    let strategy = text(object, "/spec/updateStrategy/type");
    let rolling = object.pointer("/spec/updateStrategy/rollingUpdate").filter(|rolling| !rolling.is_null());
    match strategy {
        "OnDelete" => {
            if rolling.is_some() {
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                let field = "spec.updateStrategy.rollingUpdate";
                causes.push(Cause::invalid_as(field, &shown_rolling(rolling), why));
            }
        }
        "RollingUpdate" => {
            causes.extend(meta::not_negative(object, "/spec/updateStrategy/rollingUpdate/partition"));
        }
        other => {
            let shown =
                format!("{{\"Type\":{},\"RollingUpdate\":{}}}", Value::from(other), shown_rolling(rolling));
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            causes.push(Cause::invalid_as("spec.updateStrategy", &shown, why));
        }
    }
    let retention = "/spec/persistentVolumeClaimRetentionPolicy";
    for field in ["whenDeleted", "whenScaled"] {
        causes.extend(meta::one_of(object, &format!("{retention}/{field}"), &["Retain", "Delete"]));
    }
    for pointer in ["/spec/replicas", "/spec/minReadySeconds", "/spec/ordinals/start"] {
        causes.extend(meta::not_negative(object, pointer));
    }
    causes.extend(selector_causes(object));
    causes
}

/// What is wrong with the selector of a kind that makes pods.
pub(super) fn selector_causes(object: &Value) -> Vec<Cause> {
    let labels = object.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
    let mismatch = || {
        let why = "`selector` does not match template `labels`";
        Cause::invalid("spec.template.metadata.labels", labels, why)
    };
    let Some(selector) = object.pointer("/spec/selector").filter(|selector| selector.is_object()) else {
        return vec![Cause::required("spec.selector", ""), mismatch()];
    };
    let mut causes = selectors::causes(selector, "spec.selector");
    if !causes.is_empty() {
        causes.push(Cause::invalid_as("spec.selector", &selectors::shown(selector), ""));
        return causes;
    }
    let parsed = Selector::from_json(selector);
    if parsed.as_ref().is_none_or(Selector::is_empty) {
        let why = "empty selector is invalid for statefulset";
        return vec![Cause::invalid("spec.selector", selector, why)];
    }
    if !parsed.is_some_and(|selector| selector.matches_labels(labels)) {
        causes.push(mismatch());
    }
    causes
}

fn template_causes(object: &Value) -> Vec<Cause> {
    let claims = object::list(object, "/spec/volumeClaimTemplates");
    let claims: Vec<&str> = claims.iter().map(object::name).collect();
    // The controller overwrites these two, so what they say does not matter.
    let mut spec = object.pointer("/spec/template/spec").cloned().unwrap_or_default();
    for field in ["hostname", "subdomain"] {
        object::fields(&mut spec).remove(field);
    }
    let mut causes = Vec::new();
    let labels = object.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    causes.extend(meta::label_causes("spec.template.labels", labels.into_iter().flatten()));
    causes.extend(pod_rules::validate(&spec, "spec.template.spec", &claims));
    let policy = text(&spec, "/restartPolicy");
    if policy != "Always" && !policy.is_empty() {
        let field = "spec.template.spec.restartPolicy";
        causes.push(Cause::unsupported(field, &policy.into(), &["Always"]));
    }
    if spec.get("activeDeadlineSeconds").is_some() {
        let why = "activeDeadlineSeconds in StatefulSet is not Supported";
        causes.push(Cause::forbidden("spec.template.spec.activeDeadlineSeconds", why));
    }
    causes
}
