//! Kinds with little to say.

use serde_json::{Value, json};

use super::{Strategy, meta};
use crate::machinery::admission;
use crate::machinery::object::{self, fill, text};
use crate::machinery::schema::Cause;

/// All data of a ConfigMap or a Secret together, in bytes.
const MAX_DATA_BYTES: usize = 1024 * 1024;

pub(super) struct ConfigMaps;
pub(super) struct Secrets;
pub(super) struct Nodes;
pub(super) struct Leases;
pub(super) struct PriorityClasses;
pub(super) struct Rbac;
pub(super) struct Webhooks {
    pub(super) mutating: bool,
}

fn data_causes(object: &Value, fields: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for field in fields {
        for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
            size += value.as_str().map_or(0, str::len);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            let why = match key.as_str() {
                "." => "must not be '.'",
                ".." => "must not be '..'",
                key if key.starts_with("..") => "must not start with '..'",
                key if key.is_empty() || !key.bytes().all(is_plain) => {
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                }
                key if *field == "data"
                    && object.pointer("/binaryData").is_some_and(|data| data.get(key).is_some()) =>
                {
                    "duplicate of key present in binaryData"
                }
                _ => continue,
            };
            causes.push(Cause::invalid(format!("{field}[{key}]"), &key.as_str().into(), why));
        }
    }
    if size > MAX_DATA_BYTES {
        let message = format!("Too long: may not be more than {MAX_DATA_BYTES} bytes");
        // Of what concerns more than one field Kubernetes says that it is nowhere.
        let field = if let [only] = fields { (*only).to_owned() } else { "[]".to_owned() };
        causes.push(Cause { field, reason: "FieldValueTooLong", message });
    }
    causes
}

/// What was declared immutable stays as it was.
fn sealed(object: &Value, before: &Value, fields: &[&str]) -> Vec<Cause> {
    if before.get("immutable") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let mut causes = Vec::new();
    if object.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    let changed = fields.iter().filter(|field| object.get(field) != before.get(field));
    causes
        .extend(changed.map(|field| Cause::forbidden(*field, "field is immutable when `immutable` is set")));
    causes
}

impl Strategy for ConfigMaps {
    fn validate(&self, object: &Value) -> Vec<Cause> {
        data_causes(object, &["data", "binaryData"])
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        [sealed(object, before, &["data", "binaryData"]), self.validate(object)].concat()
    }
}

impl Strategy for Secrets {
    fn prepare_create(&self, object: &mut Value) {
        merge_text(object);
    }

    fn prepare_update(&self, object: &mut Value, _: &Value) {
        merge_text(object);
    }

    fn default(&self, object: &mut Value) {
        merge_text(object);
        fill(object::fields(object), "type", "Opaque");
        if text(object, "/type").is_empty() {
            object::fields(object).insert("type".into(), json!("Opaque"));
        }
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let needed: &[&str] = match text(object, "/type") {
            "kubernetes.io/tls" => &["tls.crt", "tls.key"],
            "kubernetes.io/basic-auth" => &["username", "password"],
            "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
            _ => &[],
        };
        let has = |key: &&str| object.pointer("/data").is_some_and(|data| data.get(key).is_some());
        let missing: Vec<&&str> = needed.iter().filter(|key| !has(key)).collect();
        // Of a name and a password one is enough.
        let excused = text(object, "/type") == "kubernetes.io/basic-auth" && missing.len() < needed.len();
        let mut causes = data_causes(object, &["data"]);
        causes.extend(
            missing.iter().filter(|_| !excused).map(|key| Cause::required(format!("data[{key}]"), "")),
        );
        causes
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let kind = meta::immutable("type", object, before);
        [kind.into_iter().collect(), sealed(object, before, &["data"]), self.validate(object)].concat()
    }
}

/// Text that was written as such is kept encoded, and never shown again.
fn merge_text(object: &mut Value) {
    use base64::Engine;
    let fields = object::fields(object);
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    let data = object::entry(fields, "data");
    for (key, value) in texts {
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        data.insert(key, encoded.into());
    }
}

impl Strategy for Nodes {
    fn default(&self, object: &mut Value) {
        let status = object::child(object, "status");
        if let (Some(capacity), false) = (status.get("capacity").cloned(), status.contains_key("allocatable"))
        {
            status.insert("allocatable".into(), capacity);
        }
    }
}

impl Strategy for Leases {
    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let Some(seconds) = object::number(object, "/spec/leaseDurationSeconds").filter(|n| *n <= 0) {
            causes.push(Cause::invalid(
                "spec.leaseDurationSeconds",
                &seconds.into(),
                "must be greater than 0",
            ));
        }
        if let Some(count) = object::number(object, "/spec/leaseTransitions").filter(|n| *n < 0) {
            let why = "must be greater than or equal to 0";
            causes.push(Cause::invalid("spec.leaseTransitions", &count.into(), why));
        }
        causes
    }
}

/// The highest priority that users may give.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;
/// The classes that every cluster has.
pub(super) const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

impl Strategy for PriorityClasses {
    fn counts_changes(&self) -> bool {
        false
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        let name = object::name(object);
        let value = object::number(object, "/value").unwrap_or_default();
        let is_system = SYSTEM_CLASSES.iter().any(|(known, ..)| *known == name);
        if name.starts_with("system-") && !is_system {
            let why = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a \
                 known system priority class"
            );
            causes.push(Cause::forbidden("metadata.name", &why));
        } else if value > MAX_USER_PRIORITY && !is_system {
            let why = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
            causes.push(Cause::forbidden("value", &why));
        }
        let (policy, policies) = (text(object, "/preemptionPolicy"), ["PreemptLowerPriority", "Never"]);
        if !policies.contains(&policy) {
            causes.push(Cause::unsupported("preemptionPolicy", &policy.into(), &policies));
        }
        causes
    }

    fn default(&self, object: &mut Value) {
        fill(object::fields(object), "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let value = object.get("value") != before.get("value");
        let value = value.then(|| Cause::forbidden("value", "may not be changed in an update."));
        let policy = meta::immutable("preemptionPolicy", object, before);
        value.into_iter().chain(policy).collect()
    }
}

impl Strategy for Rbac {
    fn name_problem(&self, name: &str) -> Option<String> {
        let problem = match name {
            "." => "may not be '.'",
            ".." => "may not be '..'",
            name if name.contains('/') => "may not contain '/'",
            name if name.contains('%') => "may not contain '%'",
            _ => return None,
        };
        Some(problem.to_owned())
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        for (index, rule) in object::list(object, "/rules").iter().enumerate() {
            let mut need = |field: &str, why: &str| {
                if object::list(rule, &format!("/{field}")).is_empty() {
                    causes.push(Cause::required(format!("rules[{index}].{field}"), why));
                }
            };
            need("verbs", "verbs must contain at least one value");
            if object::list(rule, "/nonResourceURLs").is_empty() {
                need("apiGroups", "resource rules must supply at least one api group");
                need("resources", "resource rules must supply at least one resource");
            }
        }
        causes
    }

    fn default(&self, object: &mut Value) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let fields = object::fields(object);
        if fields.contains_key("roleRef") {
            let reference = object::entry(fields, "roleRef");
            if reference.get("apiGroup").and_then(Value::as_str).unwrap_or_default().is_empty() {
                reference.insert("apiGroup".into(), GROUP.into());
            }
        }
        for subject in fields.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            if matches!(text(subject, "/kind"), "User" | "Group") {
                fill(object::fields(subject), "apiGroup", GROUP);
            }
        }
    }

    fn validate_update(&self, object: &Value, before: &Value) -> Vec<Cause> {
        let changed = object.get("roleRef") != before.get("roleRef");
        let cause = || {
            let field = |name: &str| Value::from(text(object, &format!("/roleRef/{name}")));
            let shown = format!(
                "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
                field("apiGroup"),
                field("kind"),
                field("name")
            );
            Cause::invalid_as("roleRef", &shown, "cannot change roleRef")
        };
        changed.then(cause).into_iter().chain(self.validate(object)).collect()
    }
}

impl Strategy for Webhooks {
    fn default(&self, object: &mut Value) {
        for hook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
            let fields = object::fields(hook);
            fill(fields, "failurePolicy", "Fail");
            fill(fields, "matchPolicy", "Equivalent");
            fill(fields, "namespaceSelector", json!({}));
            fill(fields, "objectSelector", json!({}));
            fill(fields, "timeoutSeconds", 10);
            if self.mutating {
                fill(fields, "reinvocationPolicy", "Never");
            }
            for rule in fields.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
                fill(object::fields(rule), "scope", "*");
            }
            let config = object::entry(fields, "clientConfig");
            if config.get("service").is_some_and(Value::is_object) {
                fill(object::entry(config, "service"), "port", 443);
            }
        }
    }

    fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        for (index, hook) in object::list(object, "/webhooks").iter().enumerate() {
            let at = |field: &str| format!("webhooks[{index}].{field}");
            let name = text(hook, "/name");
            if name.split('.').filter(|part| !part.is_empty()).count() < 3 {
                let why = "should be a domain with at least three segments separated by dots";
                causes.push(Cause::invalid(at("name"), &name.into(), why));
            }
            let effects = text(hook, "/sideEffects");
            if !matches!(effects, "None" | "NoneOnDryRun") {
                causes.push(if effects.is_empty() {
                    Cause::required(at("sideEffects"), "must specify one of None, NoneOnDryRun")
                } else {
                    Cause::unsupported(at("sideEffects"), &effects.into(), &["None", "NoneOnDryRun"])
                });
            }
            let versions = object::list(hook, "/admissionReviewVersions");
            if versions.is_empty() {
                let why = "must specify one of v1, v1beta1";
                causes.push(Cause::required(at("admissionReviewVersions"), why));
            } else if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
                let why = "must include at least one of v1, v1beta1";
                causes.push(Cause::invalid(at("admissionReviewVersions"), &versions.into(), why));
            }
            for (field, known) in [
                ("failurePolicy", ["Fail", "Ignore"]),
                ("matchPolicy", ["Equivalent", "Exact"]),
                ("reinvocationPolicy", ["IfNeeded", "Never"]),
            ] {
                let said = text(hook, &format!("/{field}"));
                if !said.is_empty() && !known.contains(&said) {
                    causes.push(Cause::unsupported(at(field), &said.into(), &known));
                }
            }
            let seconds = object::number(hook, "/timeoutSeconds").unwrap_or(10);
            if !(1..=30).contains(&seconds) {
                let why = "the timeout value must be between 1 and 30 seconds";
                causes.push(Cause::invalid(at("timeoutSeconds"), &seconds.into(), why));
            }
            for (index, condition) in object::list(hook, "/matchConditions").iter().enumerate() {
                let at = |field: &str| at(&format!("matchConditions[{index}].{field}"));
                let expression = condition.get("expression").unwrap_or(&Value::Null);
                // What cannot be judged is refused, never skipped.
                if let Some(why) = admission::complaint(expression.as_str().unwrap_or_default()) {
                    causes.push(Cause::invalid(at("expression"), expression, &why));
                }
                if text(condition, "/name").is_empty() {
                    causes.push(Cause::required(at("name"), ""));
                }
            }
            let config = hook.get("clientConfig").unwrap_or(&Value::Null);
            let scheme = text(config, "/url").split("://").next().unwrap_or_default();
            if !matches!(scheme, "" | "https") {
                let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                causes.push(Cause::invalid(at("clientConfig.url"), &scheme.into(), why));
            }
            if config.get("url").is_some() == config.get("service").is_some() {
                let why = "exactly one of url or service is required";
                causes.push(Cause::required(at("clientConfig"), why));
            }
        }
        causes
    }
}
