//! The columns of built-in kinds, as Kubernetes shows them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::columns::{Column, ago, since};
use super::pod_columns::{self, Shown};
use crate::machinery::object::{is_deleting, list, name, number, text};

pub(super) const UNKNOWN: &str = "<unknown>";
pub(super) const NONE: &str = "<none>";
const UNSET: &str = "<unset>";

/// The text, or that there is none.
pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

fn texts(object: &Value, pointer: &str, field: &str) -> String {
    let all: Vec<&str> = list(object, pointer).iter().map(|item| text(item, field)).collect();
    all.join(",")
}

fn size(object: &Value, pointer: &str) -> usize {
    match object.pointer(pointer) {
        Some(Value::Object(fields)) => fields.len(),
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    }
}

fn count(object: &Value, pointer: &str) -> i64 {
    number(object, pointer).unwrap_or_default()
}

/// A map as `a=b,c=d`.
pub(super) fn labels(object: &Value, pointer: &str) -> String {
    let pairs = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let pairs: BTreeSet<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.into_iter().collect::<Vec<_>>().join(",") }
}

/// A selector as people write it.
fn selector(object: &Value, pointer: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    let said = labels(object, &format!("{pointer}/matchLabels"));
    parts.extend((said != NONE).then_some(said));
    for rule in list(object, &format!("{pointer}/matchExpressions")) {
        let values: BTreeSet<&str> = list(rule, "/values").iter().filter_map(Value::as_str).collect();
        let values = values.into_iter().collect::<Vec<_>>().join(",");
        let key = text(rule, "/key");
        parts.push(match text(rule, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() { NONE.to_owned() } else { parts.join(",") }
}

const fn column(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> Column {
    Column { name, kind: "string", wide: false, cell }
}

const fn integer(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> Column {
    Column { kind: "integer", ..column(name, cell) }
}

const fn wide(column: Column) -> Column {
    Column { wide: true, ..column }
}

pub(super) const NAME: Column = column("Name", |object, _| name(object).into());
const AGE: Column = column("Age", |object, now| ago(object, "/metadata/creationTimestamp", now).into());
const CREATED: Column = Column {
    kind: "date",
    ..column("Created At", |object, _| text(object, "/metadata/creationTimestamp").into())
};
const CONTAINERS: Column =
    wide(column("Containers", |object, _| texts(object, "/spec/template/spec/containers", "/name").into()));
const IMAGES: Column =
    wide(column("Images", |object, _| texts(object, "/spec/template/spec/containers", "/image").into()));
const SELECTOR: Column = wide(column("Selector", |object, _| selector(object, "/spec/selector").into()));
/// So many are ready of so many.
const READY: Column = column("Ready", |object, _| {
    let (ready, wanted) = (count(object, "/status/readyReplicas"), count(object, "/spec/replicas"));
    format!("{ready}/{wanted}").into()
});

pub(super) const SIMPLE: &[Column] = &[NAME, CREATED];
pub(super) const NAMESPACES: &[Column] =
    &[NAME, column("Status", |object, _| text(object, "/status/phase").into()), AGE];
pub(super) const CONFIG_MAPS: &[Column] =
    &[NAME, column("Data", |object, _| (size(object, "/data") + size(object, "/binaryData")).into()), AGE];
pub(super) const SECRETS: &[Column] = &[
    NAME,
    column("Type", |object, _| text(object, "/type").into()),
    column("Data", |object, _| size(object, "/data").into()),
    AGE,
];
pub(super) const QUOTAS: &[Column] = &[
    NAME,
    column("Request", |object, _| quota(object, false).into()),
    column("Limit", |object, _| quota(object, true).into()),
    AGE,
];
pub(super) const ACCOUNTS: &[Column] = &[NAME, AGE];
pub(super) const SERVICES: &[Column] = &[
    NAME,
    column("Type", |object, _| text(object, "/spec/type").into()),
    column("Cluster-IP", |object, _| or(text(object, "/spec/clusterIPs/0"), NONE).into()),
    column("External-IP", |object, _| external_ip(object).into()),
    column("Port(s)", |object, _| service_ports(object).into()),
    AGE,
    wide(column("Selector", |object, _| labels(object, "/spec/selector").into())),
];
pub(super) const PODS: &[Column] = &[
    NAME,
    column("Ready", |object, now| Shown::of(object, now).ready.into()),
    column("Status", |object, now| Shown::of(object, now).status.into()),
    column("Restarts", |object, now| Shown::of(object, now).restarts.into()),
    AGE,
    wide(column("IP", |object, _| {
        or(or(text(object, "/status/podIPs/0/ip"), text(object, "/status/podIP")), NONE).into()
    })),
    wide(column("Node", |object, _| or(text(object, "/spec/nodeName"), NONE).into())),
    wide(column("Nominated Node", |object, _| or(text(object, "/status/nominatedNodeName"), NONE).into())),
    wide(column("Readiness Gates", |object, _| pod_columns::gates(object).into())),
];
pub(super) const NODES: &[Column] = &[
    NAME,
    column("Status", |object, _| node_status(object).into()),
    column("Roles", |object, _| node_roles(object).into()),
    AGE,
    column("Version", |object, _| text(object, "/status/nodeInfo/kubeletVersion").into()),
    wide(column("Internal-IP", |object, _| node_address(object, "InternalIP").into())),
    wide(column("External-IP", |object, _| node_address(object, "ExternalIP").into())),
    wide(column("OS-Image", |object, _| or(text(object, "/status/nodeInfo/osImage"), UNKNOWN).into())),
    wide(column("Kernel-Version", |object, _| {
        or(text(object, "/status/nodeInfo/kernelVersion"), UNKNOWN).into()
    })),
    wide(column("Container-Runtime", |object, _| {
        or(text(object, "/status/nodeInfo/containerRuntimeVersion"), UNKNOWN).into()
    })),
];
pub(super) const VOLUMES: &[Column] = &[
    NAME,
    column("Capacity", |object, _| text(object, "/spec/capacity/storage").into()),
    column("Access Modes", |object, _| access_modes(object, "/spec/accessModes").into()),
    column("Reclaim Policy", |object, _| text(object, "/spec/persistentVolumeReclaimPolicy").into()),
    column("Status", |object, _| phase(object).into()),
    column("Claim", |object, _| match text(object, "/spec/claimRef/name") {
        "" => "".into(),
        claim => format!("{}/{claim}", text(object, "/spec/claimRef/namespace")).into(),
    }),
    column("StorageClass", |object, _| storage_class(object).into()),
    column("VolumeAttributesClass", |object, _| {
        or(text(object, "/spec/volumeAttributesClassName"), UNSET).into()
    }),
    column("Reason", |object, _| text(object, "/status/reason").into()),
    AGE,
    VOLUME_MODE,
];
pub(super) const CLAIMS: &[Column] = &[
    NAME,
    column("Status", |object, _| phase(object).into()),
    column("Volume", |object, _| text(object, "/spec/volumeName").into()),
    column("Capacity", |object, _| {
        if is_bound(object) { or(text(object, "/status/capacity/storage"), "0").into() } else { "".into() }
    }),
    column("Access Modes", |object, _| {
        if is_bound(object) { access_modes(object, "/status/accessModes").into() } else { "".into() }
    }),
    column("StorageClass", |object, _| storage_class(object).into()),
    column("VolumeAttributesClass", |object, _| {
        or(text(object, "/spec/volumeAttributesClassName"), UNSET).into()
    }),
    AGE,
    VOLUME_MODE,
];
const VOLUME_MODE: Column =
    wide(column("VolumeMode", |object, _| or(text(object, "/spec/volumeMode"), UNSET).into()));
pub(super) const EVENTS: &[Column] = &[
    column("Last Seen", |object, now| event_last_seen(object, now).into()),
    column("Type", |object, _| text(object, "/type").into()),
    column("Reason", |object, _| text(object, "/reason").into()),
    column("Object", |object, _| {
        let (kind, name) = (text(object, "/involvedObject/kind"), text(object, "/involvedObject/name"));
        if kind.is_empty() { name.into() } else { format!("{}/{name}", kind.to_lowercase()).into() }
    }),
    wide(column("Subobject", |object, _| text(object, "/involvedObject/fieldPath").into())),
    wide(column("Source", |object, _| event_source(object).into())),
    column("Message", |object, _| text(object, "/message").trim().into()),
    wide(column("First Seen", |object, now| event_first_seen(object, now).into())),
    wide(column("Count", |object, _| {
        let series = number(object, "/series/count");
        series.unwrap_or_else(|| count(object, "/count").max(1)).into()
    })),
    wide(NAME),
];
pub(super) const SETS: &[Column] = &[NAME, READY, AGE, CONTAINERS, IMAGES];
pub(super) const REVISIONS: &[Column] = &[
    NAME,
    column("Controller", |object, _| controller(object).into()),
    column("Revision", |object, _| count(object, "/revision").into()),
    AGE,
];
pub(super) const DEPLOYMENTS: &[Column] = &[
    NAME,
    READY,
    column("Up-to-date", |object, _| count(object, "/status/updatedReplicas").into()),
    column("Available", |object, _| count(object, "/status/availableReplicas").into()),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const REPLICA_SETS: &[Column] = &[
    NAME,
    integer("Desired", |object, _| count(object, "/spec/replicas").into()),
    integer("Current", |object, _| count(object, "/status/replicas").into()),
    integer("Ready", |object, _| count(object, "/status/readyReplicas").into()),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const JOBS: &[Column] = &[
    NAME,
    column("Status", |object, _| job_status(object).into()),
    column("Completions", |object, _| {
        let done = count(object, "/status/succeeded");
        match (number(object, "/spec/completions"), count(object, "/spec/parallelism")) {
            (Some(wanted), _) => format!("{done}/{wanted}").into(),
            (None, 2..) => format!("{done}/1 of {}", count(object, "/spec/parallelism")).into(),
            _ => format!("{done}/1").into(),
        }
    }),
    column("Duration", |object, now| {
        let at = |pointer| text(object, pointer).parse::<Timestamp>().ok();
        let end = at("/status/completionTime").unwrap_or(now);
        at("/status/startTime").map_or_else(String::new, |start| since(start, end)).into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(super) const BUDGETS: &[Column] = &[
    NAME,
    column("Min Available", |object, _| amount(object, "/spec/minAvailable")),
    column("Max Unavailable", |object, _| amount(object, "/spec/maxUnavailable")),
    integer("Allowed Disruptions", |object, _| count(object, "/status/disruptionsAllowed").into()),
    AGE,
];
pub(super) const LEASES: &[Column] =
    &[NAME, column("Holder", |object, _| text(object, "/spec/holderIdentity").into()), AGE];
pub(super) const SLICES: &[Column] = &[
    NAME,
    column("AddressType", |object, _| text(object, "/addressType").into()),
    column("Ports", |object, _| {
        let port =
            |port: &Value| number(port, "/port").map_or_else(|| "*".to_owned(), |port| port.to_string());
        some(list(object, "/ports").iter().map(port).collect()).into()
    }),
    column("Endpoints", |object, _| {
        let addresses = list(object, "/endpoints").iter().flat_map(|endpoint| list(endpoint, "/addresses"));
        some(addresses.filter_map(Value::as_str).map(str::to_owned).collect()).into()
    }),
    AGE,
];
pub(super) const CLASSES: &[Column] = &[
    column("Name", |object, _| {
        let default = text(object, "/metadata/annotations/storageclass.kubernetes.io~1is-default-class");
        if default == "true" { format!("{} (default)", name(object)).into() } else { name(object).into() }
    }),
    column("Provisioner", |object, _| text(object, "/provisioner").into()),
    column("ReclaimPolicy", |object, _| or(text(object, "/reclaimPolicy"), "Delete").into()),
    column("VolumeBindingMode", |object, _| or(text(object, "/volumeBindingMode"), UNSET).into()),
    column("AllowVolumeExpansion", |object, _| {
        (object.get("allowVolumeExpansion") == Some(&Value::Bool(true))).into()
    }),
    AGE,
];
pub(super) const PRIORITIES: &[Column] = &[
    NAME,
    integer("Value", |object, _| count(object, "/value").into()),
    Column {
        kind: "boolean",
        ..column("Global-Default", |object, _| {
            (object.get("globalDefault") == Some(&Value::Bool(true))).into()
        })
    },
    AGE,
    column("PreemptionPolicy", |object, _| text(object, "/preemptionPolicy").into()),
];
pub(super) const BINDINGS: &[Column] = &[
    NAME,
    column("Role", |object, _| {
        format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name")).into()
    }),
    AGE,
    wide(column("Users", |object, _| subjects(object, "User").into())),
    wide(column("Groups", |object, _| subjects(object, "Group").into())),
    wide(column("ServiceAccounts", |object, _| subjects(object, "ServiceAccount").into())),
];
pub(super) const WEBHOOKS: &[Column] =
    &[NAME, integer("Webhooks", |object, _| size(object, "/webhooks").into()), AGE];

fn quota(object: &Value, limits: bool) -> String {
    let hard = object.pointer("/status/hard").and_then(Value::as_object).into_iter().flatten();
    let mut all: Vec<(&String, &Value)> =
        hard.filter(|(name, _)| name.starts_with("limits") == limits).collect();
    all.sort_by_key(|(name, _)| *name);
    let shown = all.into_iter().map(|(name, hard)| {
        let used = object.pointer("/status/used").and_then(|used| used.get(name)).and_then(Value::as_str);
        format!("{name}: {}/{}", used.unwrap_or("0"), hard.as_str().unwrap_or("0"))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn external_ip(service: &Value) -> String {
    let own = list(service, "/spec/externalIPs").iter().filter_map(Value::as_str);
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let ingress = list(service, "/status/loadBalancer/ingress").iter();
            let given = ingress.map(|ingress| or(text(ingress, "/ip"), text(ingress, "/hostname")));
            let all: Vec<&str> = given.chain(own).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ => or(&own.collect::<Vec<_>>().join(","), NONE).to_owned(),
    }
}

fn service_ports(service: &Value) -> String {
    let shown = list(service, "/spec/ports").iter().map(|port| {
        let (number, protocol) = (count(port, "/port"), text(port, "/protocol"));
        match count(port, "/nodePort") {
            0 => format!("{number}/{protocol}"),
            outside => format!("{number}:{outside}/{protocol}"),
        }
    });
    or(&shown.collect::<Vec<_>>().join(","), NONE).to_owned()
}

/// The status of a condition.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let mut all = list(object, "/status/conditions").iter();
    all.find(|condition| text(condition, "/type") == kind).map(|condition| text(condition, "/status"))
}

fn node_status(node: &Value) -> String {
    let ready = match condition(node, "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let is_cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    if is_cordoned { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn node_roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            None if key == "kubernetes.io/role" => value.as_str(),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    or(&roles.into_iter().collect::<Vec<_>>().join(","), NONE).to_owned()
}

fn node_address(node: &Value, kind: &str) -> String {
    let mut all = list(node, "/status/addresses").iter();
    let found = all.find(|address| text(address, "/type") == kind);
    or(found.map(|address| text(address, "/address")).unwrap_or_default(), NONE).to_owned()
}

fn access_modes(object: &Value, pointer: &str) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let said: Vec<&str> = list(object, pointer).iter().filter_map(Value::as_str).collect();
    let shown = SHORT.iter().filter(|(mode, _)| said.contains(mode)).map(|(_, short)| *short);
    shown.collect::<Vec<_>>().join(",")
}

fn phase(object: &Value) -> &str {
    if is_deleting(object) { "Terminating" } else { text(object, "/status/phase") }
}

fn is_bound(claim: &Value) -> bool {
    !text(claim, "/spec/volumeName").is_empty()
}

fn storage_class(object: &Value) -> &str {
    let said = text(object, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    or(said, text(object, "/spec/storageClassName"))
}

fn event_first_seen(event: &Value, now: Timestamp) -> String {
    let at = if text(event, "/firstTimestamp").is_empty() { "/eventTime" } else { "/firstTimestamp" };
    ago(event, at, now)
}

fn event_last_seen(event: &Value, now: Timestamp) -> String {
    if !text(event, "/series/lastObservedTime").is_empty() {
        return ago(event, "/series/lastObservedTime", now);
    }
    if text(event, "/lastTimestamp").is_empty() {
        return event_first_seen(event, now);
    }
    ago(event, "/lastTimestamp", now)
}

fn event_source(event: &Value) -> String {
    let component = or(text(event, "/source/component"), text(event, "/reportingComponent"));
    match or(text(event, "/source/host"), text(event, "/reportingInstance")) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}

fn controller(object: &Value) -> String {
    let owners = list(object, "/metadata/ownerReferences");
    let is_controller = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    let Some(owner) = owners.iter().find(is_controller) else {
        return NONE.to_owned();
    };
    let kind = text(owner, "/kind").to_lowercase();
    match text(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text(owner, "/name")),
        None => format!("{kind}/{}", text(owner, "/name")),
    }
}

fn job_status(job: &Value) -> &'static str {
    let is = |kind| condition(job, kind) == Some("True");
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if is_deleting(job) {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

/// A number or a percentage.
fn amount(object: &Value, pointer: &str) -> Value {
    match object.pointer(pointer) {
        Some(Value::String(share)) => share.as_str().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => "N/A".into(),
    }
}

/// The first three, and how many more there are.
fn some(all: Vec<String>) -> String {
    const SHOWN: usize = 3;
    if all.is_empty() {
        return UNSET.to_owned();
    }
    let more = all.len().saturating_sub(SHOWN);
    let shown = all.into_iter().take(SHOWN).collect::<Vec<_>>().join(",");
    if more == 0 { shown } else { format!("{shown} + {more} more...") }
}

fn subjects(binding: &Value, kind: &str) -> String {
    let all = list(binding, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
    let shown = all.map(|subject| match text(subject, "/namespace") {
        namespace if kind == "ServiceAccount" && !namespace.is_empty() => {
            format!("{namespace}/{}", text(subject, "/name"))
        }
        _ => text(subject, "/name").to_owned(),
    });
    shown.collect::<Vec<_>>().join(", ")
}
