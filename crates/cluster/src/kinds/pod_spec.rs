//! What pods and pod templates consist of: defaults.

use serde_json::{Map, Value, json};

use crate::machinery::object::{self, fill};

/// Files that only their owner writes and everybody reads: 0644.
const FILE_MODE: i64 = 420;
/// Seconds that a token of a projected volume is valid.
const TOKEN_SECONDS: i64 = 3600;

pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Fills in what a pod's spec leaves out.
pub(super) fn default(spec: &mut Map<String, Value>) {
    fill(spec, "restartPolicy", "Always");
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "schedulerName", "default-scheduler");
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
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
    for item in volume
        .get_mut("downwardAPI")
        .and_then(|api| api.get_mut("items"))
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(reference) = item.get_mut("fieldRef").filter(|reference| reference.is_object()) {
            fill(object::fields(reference), "apiVersion", "v1");
        }
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
