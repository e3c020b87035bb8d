//! What is wrong with pods and pod templates.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::{self, MAX_PORT, PORT_RANGE};
use super::{meta, selectors};
use crate::machinery::label_rules;
use crate::machinery::object::{self, text};
use crate::machinery::schema::Cause;

/// Resources that need no domain.
const STANDARD_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// The most seconds that a deadline can be.
const MAX_DEADLINE: i64 = i32::MAX as i64;
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
/// Fields of a pod that its containers can be told.
const TOLD_FIELDS: [&str; 11] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// What is wrong with a pod's spec; `at` is where it stands, `more_volumes` what else mounts may name.
pub(super) fn validate(spec: &Value, at: &str, more_volumes: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut volumes: BTreeSet<&str> = BTreeSet::new();
    for (index, volume) in object::list(spec, "/volumes").iter().enumerate() {
        causes.extend(volume_causes(volume, &format!("{at}.volumes[{index}]"), &mut volumes));
    }
    volumes.extend(more_volumes);
    if object::list(spec, "/containers").is_empty() {
        causes.push(Cause::required(format!("{at}.containers"), ""));
    }
    let mut names = BTreeSet::new();
    for field in ["containers", "initContainers"] {
        for (index, container) in object::list(spec, &format!("/{field}")).iter().enumerate() {
            let at = format!("{at}.{field}[{index}]");
            causes.extend(container_causes(container, &at, &volumes, &mut names));
        }
    }
    causes.extend(choice(spec, "restartPolicy", at, &["Always", "OnFailure", "Never"]));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    causes.extend(choice(spec, "dnsPolicy", at, &policies));
    if let Some(seconds) = object::number(spec, "/activeDeadlineSeconds")
        && !(1..=MAX_DEADLINE).contains(&seconds)
    {
        let why = format!("must be between 1 and {MAX_DEADLINE}, inclusive");
        causes.push(Cause::invalid(format!("{at}.activeDeadlineSeconds"), &seconds.into(), &why));
    }
    causes.extend(placement_causes(spec, at));
    causes
}

/// What is wrong with where a pod wants to be.
fn placement_causes(spec: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let selector = spec.get("nodeSelector").and_then(Value::as_object);
    causes.extend(meta::label_causes(&format!("{at}.nodeSelector"), selector.into_iter().flatten()));
    let node = text(spec, "/nodeName");
    if let Some(why) = meta::subdomain_problem(node).filter(|_| !node.is_empty()) {
        causes.push(Cause::invalid(format!("{at}.nodeName"), &node.into(), &why));
    }
    causes.extend(affinity_causes(spec, &format!("{at}.affinity")));
    for field in ["hostname", "subdomain"] {
        let name = text(spec, &format!("/{field}"));
        if let Some(why) = meta::label_problem(name).filter(|_| !name.is_empty()) {
            causes.push(Cause::invalid(format!("{at}.{field}"), &name.into(), &why));
        }
    }
    for (index, toleration) in object::list(spec, "/tolerations").iter().enumerate() {
        causes.extend(toleration_causes(toleration, &format!("{at}.tolerations[{index}]")));
    }
    for (index, spread) in object::list(spec, "/topologySpreadConstraints").iter().enumerate() {
        let at = format!("{at}.topologySpreadConstraints[{index}]");
        let skew = object::number(spread, "/maxSkew").unwrap_or_default();
        if skew <= 0 {
            causes.push(Cause::invalid(format!("{at}.maxSkew"), &skew.into(), "must be greater than zero"));
        }
        if text(spread, "/topologyKey").is_empty() {
            causes.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
        }
        let choices = ["DoNotSchedule", "ScheduleAnyway"];
        causes.extend(choice(spread, "whenUnsatisfiable", &at, &choices));
        if let Some(selector) = spread.get("labelSelector") {
            causes.extend(selectors::causes(selector, &format!("{at}.labelSelector")));
        }
    }
    causes
}

fn affinity_causes(spec: &Value, at: &str) -> Vec<Cause> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let mut causes = Vec::new();
    if let Some(required) = spec.pointer(&format!("/affinity/nodeAffinity/{REQUIRED}")) {
        let at = format!("{at}.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        let terms = object::list(required, "/nodeSelectorTerms");
        if terms.is_empty() {
            causes.push(Cause::required(at.clone(), "must have at least one node selector term"));
        }
        for (index, term) in terms.iter().enumerate() {
            causes.extend(node_term_causes(term, &format!("{at}[{index}]")));
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = object::list(spec, &format!("/affinity/{kind}/{REQUIRED}"));
        for (index, term) in terms.iter().enumerate() {
            let at = format!("{at}.{kind}.{REQUIRED}[{index}]");
            if let Some(selector) = term.get("labelSelector") {
                causes.extend(selectors::causes(selector, &format!("{at}.labelSelector")));
            }
            let key = text(term, "/topologyKey");
            if key.is_empty() {
                causes.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
            }
            for why in label_rules::key_problems(key, "a valid label key") {
                causes.push(Cause::invalid(format!("{at}.topologyKey"), &key.into(), &why));
            }
        }
    }
    causes
}

fn node_term_causes(term: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, expression) in object::list(term, "/matchExpressions").iter().enumerate() {
        let at = |field: &str| format!("{at}.matchExpressions[{index}].{field}");
        let values = object::list(expression, "/values");
        match text(expression, "/operator") {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(Cause::required(at("values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(Cause::forbidden(at("values"), why));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                causes.push(Cause::required(at("values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                causes.push(Cause::invalid(at("operator"), &other.into(), "not a valid selector operator"));
            }
        }
        let key = text(expression, "/key");
        for why in label_rules::key_problems(key, "a valid label key") {
            causes.push(Cause::invalid(at("key"), &key.into(), &why));
        }
    }
    causes
}

fn toleration_causes(toleration: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
    for why in label_rules::key_problems(key, "a valid label key").iter().filter(|_| !key.is_empty()) {
        causes.push(Cause::invalid(format!("{at}.key"), &key.into(), why));
    }
    if key.is_empty() && operator != "Exists" {
        let why =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.push(Cause::invalid(format!("{at}.operator"), &operator.into(), why));
    }
    match operator {
        "" | "Equal" => {}
        "Exists" => {
            let value = text(toleration, "/value");
            if !value.is_empty() {
                let why = "value must be empty when `operator` is 'Exists'";
                causes.push(Cause::invalid(format!("{at}.operator"), toleration, why));
            }
        }
        other => {
            causes.push(Cause::unsupported(format!("{at}.operator"), &other.into(), &["Equal", "Exists"]));
        }
    }
    let effect = text(toleration, "/effect");
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.is_empty() && !effects.contains(&effect) {
        causes.push(Cause::unsupported(format!("{at}.effect"), &effect.into(), &effects));
    }
    causes
}

/// What a volume may be, the field that it then needs, and how that is asked for.
const SOURCES: [(&str, &str); 5] = [
    ("hostPath", "path"),
    ("persistentVolumeClaim", "claimName"),
    ("configMap", "name"),
    ("secret", "secretName"),
    ("emptyDir", ""),
];

fn volume_causes<'a>(volume: &'a Value, at: &str, names: &mut BTreeSet<&'a str>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let sources = volume
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, value)| *field != "name" && !value.is_null());
    let mut kinds: Vec<&str> = sources.map(|(field, _)| field.as_str()).collect();
    // Kubernetes looks at them in an order of its own.
    let rank = |kind: &str| ["emptyDir", "hostPath"].iter().position(|first| *first == kind).unwrap_or(2);
    kinds.sort_by_key(|kind| rank(kind));
    for kind in kinds.iter().skip(1) {
        causes.push(Cause::forbidden(format!("{at}.{kind}"), "may not specify more than 1 volume type"));
    }
    if let Some((kind, field)) =
        SOURCES.iter().find(|(kind, field)| kinds.first() == Some(kind) && !field.is_empty())
        && text(volume, &format!("/{kind}/{field}")).is_empty()
    {
        causes.push(Cause::required(format!("{at}.{kind}.{field}"), ""));
    }
    let name = text(volume, "/name");
    let at = format!("{at}.name");
    if name.is_empty() {
        causes.push(Cause::required(at, ""));
    } else if let Some(why) = meta::label_problem(name) {
        causes.push(Cause::invalid(at, &name.into(), &why));
    } else if !names.insert(name) {
        causes.push(Cause::duplicate(at, &name.into()));
    }
    causes
}

fn choice(spec: &Value, field: &str, at: &str, supported: &[&str]) -> Option<Cause> {
    let said = text(spec, &format!("/{field}"));
    if said.is_empty() {
        return Some(Cause::required(format!("{at}.{field}"), ""));
    }
    (!supported.contains(&said)).then(|| Cause::unsupported(format!("{at}.{field}"), &said.into(), supported))
}

fn container_causes<'a>(
    container: &'a Value,
    at: &str,
    volumes: &BTreeSet<&str>,
    names: &mut BTreeSet<&'a str>,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(container, "/name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{at}.name"), ""));
    } else if let Some(why) = meta::label_problem(name) {
        causes.push(Cause::invalid(format!("{at}.name"), &name.into(), &why));
    } else if !names.insert(name) {
        causes.push(Cause::duplicate(format!("{at}.name"), &name.into()));
    }
    let image = text(container, "/image");
    if image.is_empty() {
        causes.push(Cause::required(format!("{at}.image"), ""));
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(format!("{at}.image"), &image.into(), why));
    }
    causes.extend(port_causes(container, at));
    for (index, variable) in object::list(container, "/env").iter().enumerate() {
        causes.extend(variable_causes(variable, &format!("{at}.env[{index}]")));
    }
    causes.extend(mount_causes(container, at, volumes));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.get(probe).filter(|probe| probe.is_object()) {
            causes.extend(probe_causes(found, &format!("{at}.{probe}"), probe != "readinessProbe"));
        }
    }
    causes.extend(choice(container, "imagePullPolicy", at, &["Always", "IfNotPresent", "Never"]));
    causes.extend(resource_causes(container, &format!("{at}.resources")));
    causes
}

fn port_causes(container: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut names = BTreeSet::new();
    for (index, port) in object::list(container, "/ports").iter().enumerate() {
        let at = |field: &str| format!("{at}.ports[{index}].{field}");
        let name = text(port, "/name");
        let problems = names::port_name_problems(name);
        if name.is_empty() {
        } else if problems.is_empty() {
            if !names.insert(name) {
                causes.push(Cause::duplicate(at("name"), &name.into()));
            }
        } else {
            causes.extend(problems.iter().map(|why| Cause::invalid(at("name"), &name.into(), why)));
        }
        let number = object::number(port, "/containerPort").unwrap_or_default();
        if number == 0 {
            causes.push(Cause::required(at("containerPort"), ""));
        } else if !(1..=MAX_PORT).contains(&number) {
            causes.push(Cause::invalid(at("containerPort"), &number.into(), PORT_RANGE));
        }
        let host = object::number(port, "/hostPort").unwrap_or_default();
        if host != 0 && !(1..=MAX_PORT).contains(&host) {
            causes.push(Cause::invalid(at("hostPort"), &host.into(), PORT_RANGE));
        }
        let protocol = text(port, "/protocol");
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.contains(&protocol) {
            causes.push(Cause::unsupported(at("protocol"), &protocol.into(), &protocols));
        }
    }
    causes
}

fn variable_causes(variable: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(variable, "/name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{at}.name"), ""));
    } else if name.contains('=') || !name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        causes.push(Cause::invalid(format!("{at}.name"), &name.into(), why));
    }
    let Some(source) = variable.get("valueFrom").filter(|source| source.is_object()) else {
        return causes;
    };
    let at = format!("{at}.valueFrom");
    if let Some(path) = source.pointer("/fieldRef/fieldPath").and_then(Value::as_str) {
        let plain = path.split('[').next().unwrap_or_default();
        if !TOLD_FIELDS.contains(&plain) {
            let why = format!("error converting fieldPath: field label not supported: {path}");
            causes.push(Cause::invalid(format!("{at}.fieldRef.fieldPath"), &path.into(), &why));
        }
    }
    if source.as_object().is_some_and(serde_json::Map::is_empty) {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        causes.push(Cause::invalid(at, &"".into(), why));
    } else if !text(variable, "/value").is_empty() {
        causes.push(Cause::invalid(at, &"".into(), "may not be specified when `value` is not empty"));
    }
    causes
}

fn mount_causes(container: &Value, at: &str, volumes: &BTreeSet<&str>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut paths = BTreeSet::new();
    for (index, mount) in object::list(container, "/volumeMounts").iter().enumerate() {
        let whole = format!("{at}.volumeMounts");
        let at = format!("{whole}[{index}]");
        let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        if path.is_empty() {
            causes.push(Cause::required(format!("{at}.mountPath"), ""));
        }
        if !volumes.contains(name) {
            causes.push(Cause::not_found(format!("{at}.name"), &name.into()));
        }
        if !path.is_empty() && !paths.insert(path) {
            causes.push(Cause::invalid(format!("{at}.mountPath"), &path.into(), "must be unique"));
        }
        let inner = text(mount, "/subPath");
        if inner.split('/').any(|part| part == "..") {
            causes.push(Cause::invalid(format!("{whole}.subPath"), &inner.into(), "must not contain '..'"));
        } else if inner.starts_with('/') {
            causes.push(Cause::invalid(format!("{whole}.subPath"), &inner.into(), "must be a relative path"));
        }
    }
    causes
}

fn probe_causes(probe: &Value, at: &str, once: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let handlers: Vec<&str> = ["exec", "httpGet", "tcpSocket", "grpc"]
        .into_iter()
        .filter(|kind| probe.get(kind).is_some_and(Value::is_object))
        .collect();
    for kind in handlers.iter().skip(1) {
        causes.push(Cause::forbidden(format!("{at}.{kind}"), "may not specify more than 1 handler type"));
    }
    match handlers.first() {
        None => causes.push(Cause::required(at, "must specify a handler type")),
        Some(kind @ (&"httpGet" | &"tcpSocket")) => {
            let port = probe.pointer(&format!("/{kind}/port")).unwrap_or(&Value::Null);
            for why in names::port_problems(port) {
                causes.push(Cause::invalid(format!("{at}.{kind}.port"), port, why));
            }
        }
        Some(&"exec") if object::list(probe, "/exec/command").is_empty() => {
            causes.push(Cause::required(format!("{at}.exec.command"), ""));
        }
        Some(_) => {}
    }
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        if let Some(number) = object::number(probe, &format!("/{field}")).filter(|number| *number < 0) {
            causes.push(Cause::invalid(format!("{at}.{field}"), &number.into(), NOT_NEGATIVE));
        }
    }
    let successes = object::number(probe, "/successThreshold").unwrap_or(1);
    if once && successes != 1 {
        causes.push(Cause::invalid(format!("{at}.successThreshold"), &successes.into(), "must be 1"));
    }
    causes
}

fn resource_causes(container: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for kind in ["limits", "requests"] {
        let amounts = container.pointer(&format!("/resources/{kind}")).and_then(Value::as_object);
        for (what, said) in amounts.into_iter().flatten() {
            let here = format!("{at}.{kind}[{what}]");
            let standard = STANDARD_RESOURCES.contains(&what.as_str()) || what.starts_with("hugepages-");
            if !standard && !what.contains('/') {
                let value = Value::from(what.as_str());
                let why = "must be a standard resource type or fully qualified";
                causes.push(Cause::invalid(here.clone(), &value, why));
                causes.push(Cause::invalid(
                    here.clone(),
                    &value,
                    "must be a standard resource for containers",
                ));
            }
            let amount = names::amount(said).unwrap_or_default();
            if amount < 0 {
                causes.push(Cause::invalid(here, said, NOT_NEGATIVE));
            }
            let limit = container.pointer("/resources/limits").and_then(|limits| limits.get(what));
            if let (Some(limit), "requests") = (limit, kind)
                && names::amount(limit).is_some_and(|most| amount > most)
            {
                let most = limit.as_str().unwrap_or_default();
                let why = format!("must be less than or equal to {what} limit of {most}");
                causes.push(Cause::invalid(format!("{at}.requests"), said, &why));
            }
        }
    }
    causes
}
