//! A spec, parsed once when it is read. Everything that is built from it afterwards cannot fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Map, Value};
use sts_plus_api::extended::{
    ActiveFallback, ActiveProbe, DeletionPolicy, ExtendedStatefulSetSpec, Group, IntOrString, OnFailure,
    Parity, Promotion, Services, SharedClaims, StrategyKind,
};
use sts_plus_api::keys;

pub use super::fault::Fault;
use super::policies::Rules;
use super::probe::ProbeCheck;
use super::references::{Reference, references};
use crate::amount::{Amount, DEFAULT_MAX_UNAVAILABLE};
use crate::revision::{canonical, fnv64};

/// How many zones there may be: labels, names and status grow with them, and no region has as many.
pub const MAX_ZONES: usize = 16;

/// How long a probe may take, in seconds: one that takes longer holds its slot from others.
const MAX_PROBE_TIMEOUT: i32 = 60;

/// How many replicas there may be: the API server has a signed number of 32 bits.
pub(super) const MAX_REPLICAS: u64 = i32::MAX as u64;

/// How many ConfigMaps and Secrets a template may refer to with `updateOnConfigChange`: each is followed by a watch with a
/// connection of its own, and a pod refers to a handful.
pub const MAX_REFERENCES: usize = 64;

/// The longest name of a StatefulSet, in characters: pods carry it with the hash of a revision in a label of 63.
pub const MAX_CHILD_NAME: usize = 52;

/// A valid spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The StatefulSet to run, as given: its JSON, since a tree of it takes ten times as much memory.
    pub template_json: Box<str>,
    /// The ports of its containers, each number and protocol once.
    pub ports: Vec<Port>,
    /// Whether it gives its StatefulSet the annotation `rollout-max-unavailable`.
    pub annotates_max_unavailable: bool,
    /// The hash of all of it that makes a version.
    pub base_hash: Arc<str>,
    /// The number of pods per zone that is asked for.
    pub replicas: u32,
    /// The zones in order; none for a workload without zones.
    pub zones: Vec<Arc<str>>,
    /// The labels of nodes that name their zone: a node may have any of them.
    pub zone_labels: Vec<Box<str>>,
    /// Whether `zoneNodeLabel` spells out a default that other labels are accepted besides.
    pub spells_out_zone_label: bool,
    /// The ConfigMaps and Secrets whose data make a version, too.
    pub references: Vec<Reference>,
    /// Whether versions are to stay as they are.
    pub paused: bool,
    /// How versions follow each other.
    pub strategy: Strategy,
    /// For how long a version may be rolled out.
    pub deadline: SignedDuration,
    /// What to do afterwards.
    pub on_failure: OnFailure,
    /// How the active pod is found.
    pub active: Option<ActivePolicy>,
    /// The restrictions of the replicas.
    pub limits: Limits,
    /// How pods leave and join, where that takes more than another number.
    pub rules: Option<Arc<Rules>>,
    pub deletion: DeletionPolicy,
    /// The Services to create.
    pub services: Services,
    /// The claims of the template.
    pub claims: Claims,
    /// The same where all versions use them, so that they are created beside the StatefulSets; empty where Kubernetes creates
    /// them for each StatefulSet.
    pub stable_claims: Vec<StableTemplate>,
    /// What becomes of those.
    pub retention: RetentionPolicy,
    /// The first ordinal of each place.
    pub first_ordinal: u32,
}

/// A claim template of which the claims have stable names.
#[derive(Clone, Debug, PartialEq)]
pub struct StableTemplate {
    pub name: Box<str>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Its spec, as JSON.
    spec: Box<str>,
}

impl StableTemplate {
    /// The spec of its claims.
    pub fn spec(&self) -> Value {
        // It was written from a value.
        serde_json::from_str(&self.spec).unwrap_or_default()
    }

    /// The storage that its claims ask for.
    pub fn storage(&self) -> Option<String> {
        match self.spec().pointer("/resources/requests/storage")? {
            Value::String(storage) => Some(storage.clone()),
            Value::Number(storage) => Some(storage.to_string()),
            _ => None,
        }
    }
}

/// What becomes of claims with stable names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// When the object is deleted.
    pub when_deleted: Retention,
    /// When an ordinal is no longer asked for.
    pub when_scaled: Retention,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    #[default]
    Retain,
    Delete,
}

/// The claims of a template, and whether they are kept when their StatefulSet is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// It has none.
    None,
    Stay,
    /// Kubernetes deletes them with the StatefulSet.
    Deleted,
}

/// A port that a container declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: Box<str>,
    pub number: u64,
    pub protocol: Box<str>,
}

/// How versions follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The StatefulSets are changed.
    InPlace {
        /// How many pods of a zone may be unavailable, as written.
        max_unavailable: Option<Box<str>>,
    },
    /// Each version has its own StatefulSets.
    BlueGreen {
        /// How many pods of a zone must be Ready.
        min_ready: Amount,
        /// For how long.
        soak: SignedDuration,
        /// Whether a person has to approve.
        promotion: Promotion,
    },
    /// Each version has its own StatefulSets, and an ordinal runs in one of them.
    Handover {
        /// How many pods of a zone may be unavailable.
        max_unavailable: Amount,
    },
}

/// How the active pod is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivePolicy {
    /// The container that is probed.
    pub container: Arc<str>,
    /// What a probe does.
    pub check: ProbeCheck,
    /// The time between two probes of a pod.
    pub period: SignedDuration,
    /// How long a probe may take.
    pub timeout: Duration,
    /// How many must fail in succession.
    pub threshold: u32,
    /// Who is active when nobody passes.
    pub fallback: ActiveFallback,
}

/// The restrictions of the replicas per zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    min: Option<u32>,
    max: Option<u32>,
    parity: Option<Parity>,
}

impl Spec {
    /// Parses a spec.
    pub fn of(group: Group, spec: &ExtendedStatefulSetSpec) -> Result<Self, Fault> {
        let template = &spec.template;
        let pod = template.pointer("/spec/template/spec").unwrap_or(&Value::Null);
        if pod.get("containers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            return Err(Fault::NoContainers);
        }
        let zones = zones(&spec.zones)?;
        let claims = claims(template);
        let strategy = strategy(group, spec, claims != Claims::None)?;
        let is_versioned = !matches!(strategy, Strategy::InPlace { .. });
        let stable_claims = if is_versioned { stable_claims(template)? } else { Vec::new() };
        let rules = Rules::of(spec)?.map(Arc::new);
        if matches!(strategy, Strategy::Handover { .. }) && rules.is_some() {
            return Err(Fault::HandoverWithHooks);
        }
        let given = spec.zone_node_label.as_deref().filter(|label| !label.is_empty());
        let by_default = group.zone_node_labels();
        // Manifests that spell out the documented default mean what those mean that leave it out.
        let is_default = given.is_some() && given == by_default.first().copied();
        let zone_labels: Vec<Box<str>> = match given.filter(|_| !is_default) {
            Some(label) => vec![label.into()],
            None => by_default.iter().map(|label| (*label).into()).collect(),
        };
        let references = if spec.update_on_config_change { references(pod) } else { Vec::new() };
        if references.len() > MAX_REFERENCES {
            return Err(Fault::TooManyReferences(references.len()));
        }
        let designation = group.key(keys::POD_DESIGNATION);
        let reserved = ["/spec/selector/matchLabels", "/spec/template/metadata/labels"];
        if reserved.iter().any(|labels| texts(template.pointer(labels)).contains_key(&designation)) {
            return Err(Fault::ReservedLabel(designation));
        }
        let services = spec.services.clone().unwrap_or_default();
        let mut names = BTreeSet::new();
        for name in [&services.headless, &services.active, &services.preview].into_iter().flatten() {
            if !names.insert(name) {
                return Err(Fault::ServiceTwice(name.clone()));
            }
        }
        Ok(Self {
            base_hash: base_hash(template, &zone_labels, !zones.is_empty()),
            replicas: replicas(template)?,
            zones,
            spells_out_zone_label: is_default && zone_labels.len() > 1,
            zone_labels,
            references,
            paused: spec.paused,
            strategy,
            deadline: SignedDuration::from_secs(spec.update_strategy.progress_deadline_seconds.max(1).into()),
            on_failure: spec.update_strategy.on_failure,
            active: active(group, spec, pod)?,
            limits: spec.scaling.as_ref().map_or_else(Limits::default, |scaling| Limits {
                min: scaling.min_replicas.and_then(|min| u32::try_from(min).ok()),
                max: scaling.max_replicas.and_then(|max| u32::try_from(max).ok()),
                parity: scaling.parity,
            }),
            rules,
            deletion: spec.deletion_policy,
            services,
            // Those with stable names do not follow a StatefulSet.
            claims: if stable_claims.is_empty() { claims } else { Claims::Stay },
            retention: retention(template),
            first_ordinal: first_ordinal(template),
            stable_claims,
            ports: ports(pod),
            annotates_max_unavailable: template
                .pointer("/metadata/annotations")
                .is_some_and(|annotations| annotations.get(keys::MAX_UNAVAILABLE).is_some()),
            template_json: template.to_string().into(),
        })
    }

    /// The StatefulSet to run, as given.
    pub fn template(&self) -> Value {
        // It was written from a value.
        serde_json::from_str(&self.template_json).unwrap_or_default()
    }

    /// How many pods of a zone may be unavailable during an update in place, as written.
    pub fn max_unavailable(&self) -> Option<&str> {
        match &self.strategy {
            Strategy::InPlace { max_unavailable } => max_unavailable.as_deref(),
            Strategy::BlueGreen { .. } | Strategy::Handover { .. } => None,
        }
    }

    /// Whether a new version runs beside the current one until it is promoted.
    pub fn is_blue_green(&self) -> bool {
        matches!(self.strategy, Strategy::BlueGreen { .. })
    }

    /// Whether a new version takes over ordinal by ordinal.
    pub fn is_handover(&self) -> bool {
        matches!(self.strategy, Strategy::Handover { .. })
    }

    /// Whether each version has its own StatefulSets.
    pub fn is_versioned(&self) -> bool {
        self.is_blue_green() || self.is_handover()
    }
}

fn ports(pod: &Value) -> Vec<Port> {
    let containers = pod.get("containers").and_then(Value::as_array).into_iter().flatten();
    let declared = containers
        .flat_map(|container| container.get("ports").and_then(Value::as_array).into_iter().flatten());
    let mut known = BTreeSet::new();
    let mut ports = Vec::new();
    for port in declared {
        let Some(number) = port.get("containerPort").and_then(Value::as_u64) else { continue };
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
        if !known.insert((number, protocol)) {
            continue;
        }
        let given = port.get("name").and_then(Value::as_str).map(str::to_owned);
        let by_number = format!("{}-{number}", protocol.to_lowercase());
        // Containers of a pod may give their ports the same name. Those of a Service may not.
        let numbered = (2..=ports.len().saturating_add(2)).map(|count| format!("{by_number}-{count}"));
        let candidates = given.into_iter().chain([by_number.clone()]).chain(numbered);
        let is_free = |name: &String| ports.iter().all(|port: &Port| *port.name != **name);
        let name = candidates.into_iter().find(is_free).unwrap_or_default();
        ports.push(Port { name: name.into(), number, protocol: protocol.into() });
    }
    ports
}

fn claims(template: &Value) -> Claims {
    let claims = template.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    if claims.is_none_or(Vec::is_empty) {
        return Claims::None;
    }
    match template.pointer("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted").and_then(Value::as_str) {
        Some("Delete") => Claims::Deleted,
        _ => Claims::Stay,
    }
}

/// The claim templates, by name, each once.
fn stable_claims(template: &Value) -> Result<Vec<StableTemplate>, Fault> {
    let claims = template.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let mut known: Vec<StableTemplate> = Vec::new();
    for claim in claims.into_iter().flatten() {
        let name = claim.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() || known.iter().any(|known| *known.name == *name) {
            return Err(Fault::BadClaimTemplate(name.to_owned()));
        }
        known.push(StableTemplate {
            name: name.into(),
            labels: texts(claim.pointer("/metadata/labels")),
            annotations: texts(claim.pointer("/metadata/annotations")),
            spec: claim.get("spec").cloned().unwrap_or_default().to_string().into(),
        });
    }
    Ok(known)
}

fn retention(template: &Value) -> RetentionPolicy {
    let policy = template.pointer("/spec/persistentVolumeClaimRetentionPolicy");
    let of = |when: &str| match policy.and_then(|policy| policy.get(when)).and_then(Value::as_str) {
        Some("Delete") => Retention::Delete,
        _ => Retention::Retain,
    };
    RetentionPolicy { when_deleted: of("whenDeleted"), when_scaled: of("whenScaled") }
}

/// Where it cannot be used, the API server refuses the StatefulSet.
fn first_ordinal(template: &Value) -> u32 {
    let start = template.pointer("/spec/ordinals/start").and_then(Value::as_u64);
    let start = start.filter(|start| *start <= MAX_REPLICAS);
    start.and_then(|start| u32::try_from(start).ok()).unwrap_or(0)
}

fn zones(given: &[String]) -> Result<Vec<Arc<str>>, Fault> {
    if given.len() > MAX_ZONES {
        return Err(Fault::TooManyZones(given.len()));
    }
    let mut known = BTreeSet::new();
    for zone in given {
        if zone.is_empty() {
            return Err(Fault::ZoneWithoutName);
        }
        if !known.insert(zone) {
            return Err(Fault::ZoneTwice(zone.clone()));
        }
    }
    Ok(given.iter().map(|zone| zone.as_str().into()).collect())
}

fn replicas(template: &Value) -> Result<u32, Fault> {
    match template.pointer("/spec/replicas") {
        None | Some(Value::Null) => Ok(1),
        Some(value) => {
            let number = value.as_u64().filter(|number| *number <= MAX_REPLICAS);
            let number = number.and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| Fault::BadReplicas(value.to_string()))
        }
    }
}

fn strategy(group: Group, spec: &ExtendedStatefulSetSpec, has_claims: bool) -> Result<Strategy, Fault> {
    let given = &spec.update_strategy;
    match given.kind.unwrap_or(group.strategy(has_claims)) {
        StrategyKind::InPlace => {
            let written = given.max_unavailable.as_ref().map(text);
            let amount = written.as_deref().map(|text| amount("maxUnavailable", text)).transpose()?;
            Ok(Strategy::InPlace { max_unavailable: amount.and(written).map(Into::into) })
        }
        StrategyKind::Handover => {
            let written = given.max_unavailable.as_ref().map(text);
            let allowed = written.as_deref().map(|text| amount("maxUnavailable", text)).transpose()?;
            let max_unavailable = allowed.unwrap_or(Amount::Count(DEFAULT_MAX_UNAVAILABLE));
            Ok(Strategy::Handover { max_unavailable })
        }
        StrategyKind::BlueGreen => {
            let blue_green = &given.blue_green;
            if has_claims && blue_green.shared_claims == SharedClaims::Forbid {
                return Err(Fault::ClaimsNeedHandover);
            }
            let min_ready = blue_green.min_ready.clone().unwrap_or_else(|| group.min_ready());
            Ok(Strategy::BlueGreen {
                min_ready: amount("blueGreen.minReady", &text(&min_ready))?,
                soak: SignedDuration::from_secs(blue_green.soak_seconds.max(0).into()),
                promotion: blue_green.promotion,
            })
        }
    }
}

fn text(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

fn amount(field: &'static str, text: &str) -> Result<Amount, Fault> {
    Amount::parse(text).ok_or_else(|| Fault::BadAmount { field, value: text.to_owned() })
}

fn active(group: Group, spec: &ExtendedStatefulSetSpec, pod: &Value) -> Result<Option<ActivePolicy>, Fault> {
    let mut probes = spec.active_probe.iter();
    let Some((name, probe)) = probes.next() else { return Ok(None) };
    if probes.next().is_some() {
        return Err(Fault::SeveralProbes);
    }
    let containers = pod.get("containers").and_then(Value::as_array);
    let container = containers
        .into_iter()
        .flatten()
        .find(|container| container.get("name").and_then(Value::as_str) == Some(name));
    let Some(container) = container else { return Err(Fault::UnknownContainer(name.clone())) };
    let at_least = |value: Option<i32>, default: i32| value.filter(|value| *value >= 1).unwrap_or(default);
    let timeout = at_least(probe.timeout_seconds, 1).min(MAX_PROBE_TIMEOUT);
    Ok(Some(ActivePolicy {
        container: name.as_str().into(),
        check: check(probe, container)?,
        period: SignedDuration::from_secs(at_least(probe.period_seconds, group.probe_period()).into()),
        timeout: Duration::from_secs(u64::from(timeout.unsigned_abs())),
        threshold: at_least(probe.failure_threshold, 1).unsigned_abs(),
        fallback: spec.active_fallback.unwrap_or(group.active_fallback()),
    }))
}

fn check(probe: &ActiveProbe, container: &Value) -> Result<ProbeCheck, Fault> {
    match (&probe.exec, &probe.http_get, &probe.tcp_socket) {
        (Some(exec), None, None) if !exec.command.is_empty() => {
            Ok(ProbeCheck::Exec { command: exec.command.clone().into() })
        }
        (None, Some(get), None) => {
            let path = get.path.as_deref().unwrap_or("/");
            let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
            let port = port(&get.port, container)?;
            Ok(ProbeCheck::Http { scheme: get.scheme.unwrap_or_default(), port, path: path.into() })
        }
        (None, None, Some(tcp)) => Ok(ProbeCheck::Tcp { port: port(&tcp.port, container)? }),
        _ => Err(Fault::NoCheck),
    }
}

fn port(port: &IntOrString, container: &Value) -> Result<u16, Fault> {
    let number = match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let ports = container.get("ports").and_then(Value::as_array);
            let found = ports
                .into_iter()
                .flatten()
                .find(|port| port.get("name").and_then(Value::as_str) == Some(name));
            let found = found.and_then(|port| port.get("containerPort")).and_then(Value::as_u64);
            found.and_then(|number| u16::try_from(number).ok()).or_else(|| name.parse().ok())
        }
    };
    number.filter(|number| *number > 0).ok_or_else(|| Fault::UnknownPort(text(port)))
}

/// The hash of what makes a version: everything of the template but what can be changed beside the pods, and how its zones
/// are found. The zones themselves are not part of it: one more must restart nobody.
fn base_hash(template: &Value, zone_labels: &[Box<str>], is_zoned: bool) -> Arc<str> {
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        for beside in ["replicas", "updateStrategy", "revisionHistoryLimit"] {
            spec.remove(beside);
        }
    }
    let metadata = |key: &str| template.pointer(&format!("/metadata/{key}")).cloned().unwrap_or_default();
    let labels = if is_zoned { zone_labels } else { &[] };
    let mut content = serde_json::json!({
        "labels": metadata("labels"), "annotations": metadata("annotations"), "spec": spec, "zoneLabels": labels,
    });
    remove_nulls(&mut content);
    for metadata in
        ["/labels", "/annotations", "/spec/template/metadata/labels", "/spec/template/metadata/annotations"]
    {
        // No labels at all are the same as labels that were all removed.
        if let Some(pairs) =
            content.pointer_mut(metadata).filter(|pairs| pairs.as_object().is_some_and(Map::is_empty))
        {
            *pairs = Value::Null;
        }
    }
    remove_nulls(&mut content);
    fnv64(canonical(&content).as_bytes()).into()
}

/// Removes fields without a value, which mean the same as absent ones: as some tools write them and others do not, they must
/// not make a version.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

impl Limits {
    /// The number of replicas that is allowed and nearest to this one, and the restrictions that changed it.
    pub fn clamp(self, replicas: u32) -> (u32, Vec<Restriction>) {
        let mut restrictions = Vec::new();
        let mut allowed = replicas;
        if let Some(min) = self.min.filter(|min| allowed < *min) {
            allowed = min;
            restrictions.push(Restriction::Min(min));
        }
        if let Some(max) = self.max.filter(|max| allowed > *max) {
            allowed = max;
            restrictions.push(Restriction::Max(max));
        }
        let fits = |number: u32| match self.parity {
            Some(Parity::Odd) => !number.is_multiple_of(2),
            Some(Parity::Even) => number.is_multiple_of(2),
            None => true,
        };
        if allowed > 0
            && !fits(allowed)
            && let Some(parity) = self.parity
        {
            let is_in_range = |number: &u32| {
                self.min.is_none_or(|min| *number >= min) && self.max.is_none_or(|max| *number <= max)
            };
            // Nothing is scaled to 0 for the sake of a parity.
            let candidates = [allowed.checked_add(1), allowed.checked_sub(1).filter(|number| *number > 0)];
            match candidates.into_iter().flatten().find(is_in_range) {
                Some(number) => {
                    allowed = number;
                    restrictions.push(Restriction::Parity(parity));
                }
                None => restrictions.push(Restriction::NoSuchParity(parity)),
            }
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            restrictions.push(Restriction::NoRange { min, max });
        }
        (allowed, restrictions)
    }
}

/// A restriction that has changed the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// `minReplicas`.
    Min(u32),
    /// `maxReplicas`.
    Max(u32),
    Parity(Parity),
    /// No number in the range has this parity.
    NoSuchParity(Parity),
    /// The least number is greater than the greatest.
    NoRange {
        /// `minReplicas`.
        min: u32,
        /// `maxReplicas`.
        max: u32,
    },
}

impl Restriction {
    /// Whether it cannot be met.
    pub fn is_conflict(self) -> bool {
        matches!(self, Self::NoSuchParity(_) | Self::NoRange { .. })
    }
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Min(min) => write!(f, "minReplicas {min}"),
            Self::Max(max) => write!(f, "maxReplicas {max}"),
            Self::Parity(parity) | Self::NoSuchParity(parity) => write!(f, "parity {parity:?}"),
            Self::NoRange { min, max } => write!(f, "minReplicas {min} with maxReplicas {max}"),
        }
    }
}

/// The labels of a metadata, or its annotations.
pub(super) fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
#[path = "tests/spec.rs"]
mod tests;
