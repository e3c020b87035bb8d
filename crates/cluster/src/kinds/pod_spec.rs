//! What pods and pod templates consist of: defaults and what is wrong with them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::meta;
use crate::machinery::object::{self, fill, text};
use crate::machinery::schema::Cause;

/// Files that only their owner writes and everybody reads: 0644.
const FILE_MODE: i64 = 420;
/// Seconds that a token of a projected volume is valid.
const TOKEN_SECONDS: i64 = 3600;
/// The highest port.
const MAX_PORT: i64 = 65535;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Fills in what a pod's spec leaves out.
pub(super) fn default(spec: &mut Map<String, Value>) {
    fill(spec, "restartPolicy", "Always");
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "securityContext", json!({}));
    let account = ["serviceAccountName", "serviceAccount"]
        .into_iter()
        .filter_map(|field| spec.get(field)?.as_str())
        .find(|account| !account.is_empty())
        .map(str::to_owned);
    if let Some(account) = account {
        spec.insert("serviceAccountName".into(), account.clone().into());
        spec.insert("serviceAccount".into(), account.into());
    }
    for field in CONTAINERS {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            default_container(object::fields(container));
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        default_volume(object::fields(volume));
    }
}

fn default_container(container: &mut Map<String, Value>) {
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill(container, "resources", json!({}));
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", policy);
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(field).filter(|probe| probe.is_object()) {
            let probe = object::fields(probe);
            for (field, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                if probe.get(field).and_then(Value::as_i64).unwrap_or_default() == 0 {
                    probe.insert(field.into(), value.into());
                }
            }
            default_handler(probe);
            if let Some(grpc) = probe.get_mut("grpc").filter(|grpc| grpc.is_object()) {
                fill(object::fields(grpc), "service", "");
            }
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle").filter(|lifecycle| lifecycle.is_object()) {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.get_mut(hook).filter(|hook| hook.is_object()) {
                default_handler(object::fields(hook));
            }
        }
    }
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            fill(object::fields(reference), "apiVersion", "v1");
        }
    }
}

fn default_handler(handler: &mut Map<String, Value>) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        let get = object::fields(get);
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
}

/// Whether an image name means the newest there is.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest" || tag.is_empty())
}

fn default_volume(volume: &mut Map<String, Value>) {
    if volume.keys().all(|field| field == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
    for field in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(field).filter(|source| source.is_object()) {
            fill(object::fields(source), "defaultMode", FILE_MODE);
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|path| path.is_object()) {
        fill(object::fields(path), "type", "");
    }
    let sources = volume.get_mut("projected").and_then(|projected| projected.get_mut("sources"));
    for source in sources.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
            fill(object::fields(token), "expirationSeconds", TOKEN_SECONDS);
        }
    }
}

/// How a pod is treated when its node runs out of something.
pub(super) fn quality(spec: &Value) -> &'static str {
    let containers = CONTAINERS.iter().take(2).flat_map(|field| object::list(spec, &format!("/{field}")));
    let mut is_guaranteed = true;
    let mut asks = false;
    for container in containers {
        let amount = |kind: &str, what: &str| container.pointer(&format!("/resources/{kind}/{what}"));
        for what in ["cpu", "memory"] {
            let (request, limit) = (amount("requests", what), amount("limits", what));
            asks |= request.is_some() || limit.is_some();
            is_guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (asks, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// What is wrong with a pod's spec; `at` is where it stands, `more_volumes` what else mounts may name.
pub(super) fn validate(spec: &Value, at: &str, more_volumes: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut volumes: BTreeSet<&str> = BTreeSet::new();
    for (index, volume) in object::list(spec, "/volumes").iter().enumerate() {
        let name = text(volume, "/name");
        let at = format!("{at}.volumes[{index}].name");
        if name.is_empty() {
            causes.push(Cause::required(at, ""));
        } else if let Some(why) = meta::label_problem(name) {
            causes.push(Cause::invalid(at, &name.into(), &why));
        } else if !volumes.insert(name) {
            causes.push(Cause::duplicate(at, &name.into()));
        }
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
    let policies = ["Always", "OnFailure", "Never"];
    causes.extend(choice(spec, "restartPolicy", at, &policies));
    causes.extend(choice(
        spec,
        "dnsPolicy",
        at,
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ));
    if let Some(seconds) = object::number(spec, "/terminationGracePeriodSeconds").filter(|n| *n < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(format!("{at}.terminationGracePeriodSeconds"), &seconds.into(), why));
    }
    for field in ["hostname", "subdomain"] {
        let name = text(spec, &format!("/{field}"));
        if let Some(why) = meta::label_problem(name).filter(|_| !name.is_empty()) {
            causes.push(Cause::invalid(format!("{at}.{field}"), &name.into(), &why));
        }
    }
    let selector = spec.get("nodeSelector").and_then(Value::as_object);
    causes.extend(meta::label_causes(&format!("{at}.nodeSelector"), selector.into_iter().flatten()));
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
    causes.extend(choice(container, "imagePullPolicy", at, &["Always", "IfNotPresent", "Never"]));
    for (index, port) in object::list(container, "/ports").iter().enumerate() {
        let number = object::number(port, "/containerPort").unwrap_or_default();
        let at = format!("{at}.ports[{index}].containerPort");
        if number == 0 {
            causes.push(Cause::required(at, ""));
        } else if !(1..=MAX_PORT).contains(&number) {
            causes.push(Cause::invalid(at, &number.into(), "must be between 1 and 65535, inclusive"));
        }
    }
    for (index, variable) in object::list(container, "/env").iter().enumerate() {
        if text(variable, "/name").is_empty() {
            causes.push(Cause::required(format!("{at}.env[{index}].name"), ""));
        }
    }
    let mut paths = BTreeSet::new();
    for (index, mount) in object::list(container, "/volumeMounts").iter().enumerate() {
        let at = format!("{at}.volumeMounts[{index}]");
        let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        } else if !volumes.contains(name) {
            causes.push(Cause::not_found(format!("{at}.name"), &name.into()));
        }
        if path.is_empty() {
            causes.push(Cause::required(format!("{at}.mountPath"), ""));
        } else if !paths.insert(path) {
            causes.push(Cause::invalid(format!("{at}.mountPath"), &path.into(), "must be unique"));
        }
    }
    causes
}
