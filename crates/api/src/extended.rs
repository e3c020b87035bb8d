//! `ExtendedStatefulSet`: a StatefulSet in versions, zones and roles.
//!
//! Two API groups serve it: `sts.plus` and `fissile.cloudfoundry.org`. They share this schema; [`Group`] has what differs, so a
//! field whose default differs has none in the schema. The doc comments are the descriptions that `kubectl explain` shows.

mod status;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "crd")]
use crate::crds;
use crate::scaling_policy::{ScaleDown, ScaleUp};

pub use status::{
    ActivePod, ChildStatus, ExtendedStatus, FailedVersion, Progress, VersionStatus, ZoneStatus,
};

/// The desired state of the ExtendedStatefulSet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource, schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = crds::EXTENDED)),
    kube(
        group = "sts.plus",
        version = "v1alpha1",
        kind = "ExtendedStatefulSet",
        namespaced,
        status = "ExtendedStatus",
        shortname = "ests",
        category = "all",
        category = "sts-plus",
        derive = "PartialEq",
        doc = "An ExtendedStatefulSet runs a StatefulSet in versions and zones, with one active pod where asked for.",
        scale(
            spec_replicas_path = ".spec.template.spec.replicas",
            status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"
        ),
        printcolumn = r#"{"name": "version", "type": "integer", "jsonPath": ".status.currentVersion"}"#,
        printcolumn = r#"{"name": "update", "type": "integer", "jsonPath": ".status.updateVersion"}"#,
        printcolumn = r#"{"name": "replicas", "type": "integer", "jsonPath": ".status.desiredReplicas"}"#,
        printcolumn = r#"{"name": "ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
        printcolumn = r#"{"name": "active", "type": "string", "jsonPath": ".status.activePod.name"}"#,
        printcolumn = r#"{"name": "state", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#,
        printcolumn = r#"{"name": "age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedStatefulSetSpec {
    /// The StatefulSet to run. `metadata.name` and `metadata.namespace` are ignored. `spec.replicas` is the number of
    /// pods in each zone. A missing selector and missing pod labels are derived.
    #[cfg_attr(feature = "crd", schemars(schema_with = "crds::stateful_set_template"))]
    pub template: Value,
    /// The zones, each of which runs `replicas` pods in a StatefulSet of its own. If empty, there is one StatefulSet
    /// without a zone. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "crd",
        schemars(
            length(max = 16),
            inner(length(min = 1, max = 63), regex(pattern = crds::LABEL_VALUE)),
            extend("x-kubernetes-list-type" = "set")
        )
    )]
    pub zones: Vec<String>,
    /// The label of nodes that names their zone. If empty, `topology.kubernetes.io/zone`; in the group
    /// `fissile.cloudfoundry.org` `failure-domain.beta.kubernetes.io/zone` or `topology.kubernetes.io/zone`, whichever a
    /// node has, which there also holds if the former is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(max = 317)))]
    pub zone_node_label: Option<String>,
    /// Whether the pods are replaced when the data of a ConfigMap or Secret changes that the pod template refers to.
    /// Defaults to false.
    #[serde(default)]
    pub update_on_config_change: bool,
    /// Pauses changes of the version: no version is created, promoted or removed. Scaling continues. Defaults to false.
    #[serde(default)]
    pub paused: bool,
    /// How a change of the template reaches the pods.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// By the name of a container: the probe that a pod must pass to be the active one. At most one container may have
    /// a probe. If empty, no pod is labelled as active.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "crd", schemars(length(max = 1)))]
    pub active_probe: BTreeMap<String, ActiveProbe>,
    /// Which pod is active when no pod passes the probe. `None`: no pod. `FirstRunning`: the first running pod. Defaults
    /// to `None`; in the group `fissile.cloudfoundry.org` to `FirstRunning`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "ActiveFallback"))]
    pub active_fallback: Option<ActiveFallback>,
    /// Restrictions of the number of replicas per zone. A number that violates them is adjusted, and a condition reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// How pods are removed, when the number of replicas is lowered and when a version or a zone is removed. The fields are those
    /// of a ScalingPolicy. sts-plus creates a ScalingPolicy for each StatefulSet if a hook is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScaleDown>,
    /// How pods are added when the number of replicas is raised. The fields are those of a ScalingPolicy. The first pods of a
    /// StatefulSet are created without a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScaleUp>,
    /// What happens when this object is deleted. `Delete`: its StatefulSets are deleted with it. `Drain`: first all pods are
    /// removed in order, zone after zone, with their hooks. Defaults to `Delete`.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Services to create. Their ports are those of the containers; a Service without ports is not created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Services>,
}

/// What happens when an ExtendedStatefulSet is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum DeletionPolicy {
    /// Its StatefulSets are deleted with it.
    #[default]
    Delete,
    /// All pods are removed in order before the object is gone.
    Drain,
}

/// How a change of the template reaches the pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// `InPlace`: the StatefulSet of each zone is changed, and its pods are replaced one by one, zone after zone.
    /// `BlueGreen`: a new version runs beside the current one until it is promoted. `Handover`: a new version takes over
    /// ordinal by ordinal, with the same claims, and never runs an ordinal beside the current one. Defaults to `InPlace`; in
    /// the group `fissile.cloudfoundry.org` to `BlueGreen`, or to `Handover` if the template has claims.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    // Otherwise the description of the enum would replace that of the field.
    #[cfg_attr(feature = "crd", schemars(with = "StrategyKind"))]
    pub kind: Option<StrategyKind>,
    /// How many pods of a zone may be unavailable during an update in place or a handover, as a number or a percentage.
    /// Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(schema_with = "crds::int_or_string"))]
    pub max_unavailable: Option<IntOrString>,
    /// The maximum number of seconds in which a new version must be rolled out. Only time in which it could have
    /// progressed counts. Defaults to 600.
    #[serde(default = "progress_deadline")]
    #[cfg_attr(feature = "crd", schemars(range(min = 1)))]
    pub progress_deadline_seconds: i32,
    /// What to do when a version exceeds the deadline. `Pause`: everything stays as it is until the template changes.
    /// `Rollback` (BlueGreen and Handover): the failed version is removed, with Handover ordinal by ordinal, and the version
    /// before serves. With Handover that version finds what the failed one has written. Defaults to `Pause`.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Settings of BlueGreen.
    #[serde(default)]
    pub blue_green: BlueGreen,
}

/// How a change of the template reaches the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum StrategyKind {
    /// One StatefulSet per zone, changed in place.
    InPlace,
    /// One StatefulSet per zone and version.
    BlueGreen,
    /// One StatefulSet per zone and version, which share the ordinals of their pods.
    Handover,
}

/// What to do when a version exceeds its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum OnFailure {
    /// Everything stays as it is.
    #[default]
    Pause,
    /// The failed version is removed.
    Rollback,
}

/// Settings of BlueGreen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BlueGreen {
    /// How many pods of a zone must be Ready before the new version is promoted there, as a number or a percentage of
    /// the replicas. Defaults to `100%`; in the group `fissile.cloudfoundry.org` to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(schema_with = "crds::int_or_string"))]
    pub min_ready: Option<IntOrString>,
    /// For how many seconds each of these pods must have been Ready. Defaults to 0.
    #[serde(default)]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub soak_seconds: i32,
    /// `Automatic`: a version is promoted as soon as enough pods are Ready. `Manual`: it waits for an approval in
    /// addition, see `status.awaitedApproval`. Defaults to `Automatic`.
    #[serde(default)]
    pub promotion: Promotion,
    /// Whether two versions may use the same claims at the same time. `Forbid`: a template with claims is refused. `Allow`:
    /// the pods of both versions mount the claim of their ordinal while both run. Defaults to `Forbid`.
    #[serde(default)]
    pub shared_claims: SharedClaims,
}

/// When a version is promoted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Promotion {
    /// As soon as enough pods are Ready.
    #[default]
    Automatic,
    /// After an approval in addition.
    Manual,
}

/// Whether two versions may use the same claims at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum SharedClaims {
    /// A template with claims is refused.
    #[default]
    Forbid,
    /// The pods of both versions mount the claim of their ordinal.
    Allow,
}

/// The probe that a pod must pass to be the active one. Exactly one of `exec`, `httpGet` and `tcpSocket` must be set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = crds::ACTIVE_PROBE, "x-kubernetes-preserve-unknown-fields" = true))
)]
#[serde(rename_all = "camelCase")]
pub struct ActiveProbe {
    /// A command to run in the container. Exit code 0 passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// An HTTP request to the pod. A status from 200 to 399 passes; redirects are not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// A TCP connection to the pod. Its establishment passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocketAction>,
    /// The number of seconds between two probes of a pod. Defaults to 10; in the group `fissile.cloudfoundry.org` to 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub period_seconds: Option<i32>,
    /// The number of seconds after which a probe has failed. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub timeout_seconds: Option<i32>,
    /// How many probes of the active pod must fail in succession before it is no longer active. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub failure_threshold: Option<i32>,
}

/// A command to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct ExecAction {
    /// The command with its arguments. It is not run in a shell.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 64)))]
    pub command: Vec<String>,
}

/// An HTTP request to a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HttpGetAction {
    /// The path, which begins with a slash. Defaults to `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(max = 2048)))]
    pub path: Option<String>,
    /// The number or the name of a port of the container.
    #[cfg_attr(feature = "crd", schemars(schema_with = "crds::int_or_string"))]
    pub port: IntOrString,
    /// `HTTP` or `HTTPS`, of which the certificate is not verified. Defaults to `HTTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Otherwise the description of the enum would replace that of the field.
    #[cfg_attr(feature = "crd", schemars(with = "Scheme"))]
    pub scheme: Option<Scheme>,
}

/// A TCP connection to a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct TcpSocketAction {
    /// The number or the name of a port of the container.
    #[cfg_attr(feature = "crd", schemars(schema_with = "crds::int_or_string"))]
    pub port: IntOrString,
}

/// The scheme of an HTTP request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Scheme {
    /// Without TLS.
    #[default]
    #[serde(rename = "HTTP")]
    Http,
    /// With TLS; as with the kubelet's probes, the certificate is not verified.
    #[serde(rename = "HTTPS")]
    Https,
}

/// A number or a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A text.
    String(String),
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

/// Which pod is active when no pod passes the probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum ActiveFallback {
    /// No pod.
    #[default]
    None,
    /// The first running pod.
    FirstRunning,
}

/// Restrictions of the number of replicas per zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = crds::SCALING))
)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// The least number of replicas per zone. A lower number is raised to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub min_replicas: Option<i32>,
    /// The greatest number of replicas per zone. A higher number is lowered to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub max_replicas: Option<i32>,
    /// `Odd` or `Even`: a number of the other parity is raised by one, or lowered by one where `maxReplicas` forbids
    /// that. 0 replicas are always allowed unless `minReplicas` forbids them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "Parity"))]
    pub parity: Option<Parity>,
}

/// The parity of a number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Parity {
    /// 1, 3, 5 and so on.
    Odd,
    /// 2, 4, 6 and so on.
    Even,
}

/// Services to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Services {
    /// The name of a headless Service that selects all pods. It is the `serviceName` of the StatefulSets where the
    /// template has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 63), regex(pattern = crds::LABEL)))]
    pub headless: Option<String>,
    /// Whether to create one Service per replica, `<name>[-z<index>]-<ordinal>`. Defaults to false.
    #[serde(default)]
    pub per_replica: bool,
    /// The name of a Service that selects the active pod where `activeProbe` is set, and otherwise the pods of the
    /// version that is promoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 63), regex(pattern = crds::LABEL)))]
    pub active: Option<String>,
    /// The name of a Service that selects the pods of the newest version, promoted or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 63), regex(pattern = crds::LABEL)))]
    pub preview: Option<String>,
}

fn progress_deadline() -> i32 {
    600
}

impl Default for UpdateStrategy {
    fn default() -> Self {
        Self {
            kind: None,
            max_unavailable: None,
            progress_deadline_seconds: progress_deadline(),
            on_failure: OnFailure::default(),
            blue_green: BlueGreen::default(),
        }
    }
}

/// The API group of an object: the prefix of its labels and annotations, and its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// `sts.plus`.
    StsPlus,
    /// `fissile.cloudfoundry.org`.
    Fissile,
}

impl Group {
    /// Both.
    pub const ALL: [Self; 2] = [Self::StsPlus, Self::Fissile];

    /// The group's name, which is also the prefix of keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StsPlus => "sts.plus",
            Self::Fissile => "fissile.cloudfoundry.org",
        }
    }

    /// Group and version.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::StsPlus => "sts.plus/v1alpha1",
            Self::Fissile => "fissile.cloudfoundry.org/v1alpha1",
        }
    }

    /// A label or annotation of this group.
    pub fn key(self, suffix: &str) -> String {
        format!("{}/{suffix}", self.name())
    }

    /// The strategy where none is given, for a template with or without claims.
    pub const fn strategy(self, has_claims: bool) -> StrategyKind {
        match (self, has_claims) {
            (Self::StsPlus, _) => StrategyKind::InPlace,
            (Self::Fissile, false) => StrategyKind::BlueGreen,
            (Self::Fissile, true) => StrategyKind::Handover,
        }
    }

    /// `blueGreen.minReady` where none is given.
    pub fn min_ready(self) -> IntOrString {
        match self {
            Self::StsPlus => IntOrString::String("100%".to_owned()),
            Self::Fissile => IntOrString::Int(1),
        }
    }

    /// The labels of nodes that name their zone where `zoneNodeLabel` is not given: a node may have any of them. The first one
    /// is the documented default.
    pub const fn zone_node_labels(self) -> &'static [&'static str] {
        match self {
            Self::StsPlus => &["topology.kubernetes.io/zone"],
            Self::Fissile => &["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"],
        }
    }

    /// The period of an active probe where none is given, in seconds.
    pub const fn probe_period(self) -> i32 {
        match self {
            Self::StsPlus => 10,
            Self::Fissile => 30,
        }
    }

    /// Which pod is active when none passes, where that is not given.
    pub const fn active_fallback(self) -> ActiveFallback {
        match self {
            Self::StsPlus => ActiveFallback::None,
            Self::Fissile => ActiveFallback::FirstRunning,
        }
    }

    /// Whether pods without a zone have the environment variables of zones as well.
    pub const fn always_injects_zone(self) -> bool {
        matches!(self, Self::Fissile)
    }
}
