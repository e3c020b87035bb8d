//! Pods.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_planner::pod::{ClaimVolume, Phase, PodRow, Waiting};

use super::{Decoded, Extent, Interner, Meta, Undecodable, undecodable};

/// How long the list of zones of a pod may be, in bytes: 16 zones of 63 characters, quoted.
const ZONES_BYTES: usize = 2 * 1024;

/// How large the labels of a pod may be, in bytes of their keys and values: a hundred labels with the longest keys (a prefix
/// of 253 bytes, a slash, a name of 63) and the longest values (63). Kubernetes limits each label, but not how many there
/// are: an object may have 1.5 MiB of them, and there may be thousands of pods.
const LABELS_BYTES: usize = 40 * 1024;

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    spec: PodSpec<'a>,
    #[serde(borrow, default)]
    status: PodStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec<'a> {
    #[serde(borrow)]
    volumes: Option<Vec<Volume<'a>>>,
    #[serde(borrow)]
    init_containers: Option<Vec<InitContainer<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitContainer<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    restart_policy: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    persistent_volume_claim: Option<ClaimSource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSource<'a> {
    #[serde(borrow, default)]
    claim_name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow)]
    container_statuses: Option<Vec<Container<'a>>>,
    #[serde(borrow)]
    init_container_statuses: Option<Vec<Container<'a>>>,
    #[serde(rename = "podIP", borrow)]
    pod_ip: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(default)]
    last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    restart_count: u32,
    #[serde(borrow, default)]
    state: Option<ContainerState<'a>>,
}

#[derive(Deserialize)]
struct ContainerState<'a> {
    #[serde(borrow, default)]
    waiting: Option<WaitingState<'a>>,
    #[serde(default)]
    running: Option<IgnoredAny>,
    #[serde(default)]
    terminated: Option<TerminatedState>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminatedState {
    #[serde(default)]
    exit_code: Option<i32>,
}

#[derive(Deserialize)]
struct WaitingState<'a> {
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
}

impl PodSpec<'_> {
    /// Whether an init container runs beside the others for as long as the pod lives.
    fn is_sidecar(&self, container: &str) -> bool {
        let mut init = self.init_containers.iter().flatten();
        init.any(|init| init.name == container && init.restart_policy.as_deref() == Some("Always"))
    }
}

impl Container<'_> {
    fn runs(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.running.is_some())
    }

    fn ended_well(&self) -> bool {
        let ended = self.state.as_ref().and_then(|state| state.terminated.as_ref());
        ended.is_some_and(|ended| ended.exit_code == Some(0))
    }
}

/// Reads a pod. Only pods that a StatefulSet controls get a row and, for whoever controls sets, those that nothing
/// controls.
pub(in crate::shell::cache) fn pod(
    json: &str,
    extent: Extent,
    interner: &mut Interner,
) -> Result<Decoded<PodRow>, Undecodable> {
    let pod: Pod<'_> = serde_json::from_str(json).map_err(|error| undecodable(json, &error))?;
    let Pod { metadata, spec, status } = pod;
    let namespace = interner.text(&metadata.namespace);
    let owner = match metadata.controller() {
        Some(owner) => owner.is_set().then(|| owner.uid.as_ref()),
        None => (extent == Extent::Controlling).then_some(""),
    };
    let sizes = metadata.labels.iter().flatten().map(|(key, value)| key.len() + value.len());
    // None is left out, since a selector may be about any of them: the pod counts as missing. Where sets are controlled such a
    // pod would be created again, so there they are kept as Kubernetes takes them, like the template.
    if owner.is_some() && extent == Extent::Steering && sizes.sum::<usize>() > LABELS_BYTES {
        let error = format!("the labels are larger than {} KiB", LABELS_BYTES / 1024);
        return Err(undecodable(json, &serde::de::Error::custom(error)));
    }
    let row = owner.map(|owner| {
        let labels = metadata.labels.as_ref();
        let annotations = metadata.annotations.as_ref();
        let zones = annotations.and_then(|annotations| {
            Group::ALL.iter().find_map(|group| annotations.get(&*group.key(keys::ZONES)))
        });
        let zones = zones.filter(|zones| zones.len() <= ZONES_BYTES);
        let revision = labels.and_then(|labels| labels.get(keys::CONTROLLER_REVISION));
        let own_name = labels.and_then(|labels| labels.get(keys::POD_NAME));
        let own_ordinal = labels.and_then(|labels| labels.get(keys::POD_ORDINAL));
        let ordinal = metadata.name.rsplit_once('-').map(|(_, ordinal)| ordinal);
        let common = |key: &str| {
            let is_own = matches!(key, keys::POD_NAME | keys::POD_INDEX | keys::CONTROLLER_REVISION);
            !is_own && key != keys::POD_ORDINAL
        };
        let labels = labels.into_iter().flatten().filter(|(key, _)| common(key));
        // An init container that ended well has done its work, however often it was tried.
        let init = || status.init_container_statuses.iter().flatten();
        let unfinished =
            || init().filter(|container| !container.ended_well() || spec.is_sidecar(&container.name));
        let regular = || status.container_statuses.iter().flatten();
        let containers = || regular().chain(unfinished());
        let states = || containers().filter_map(|container| Some((container, container.state.as_ref()?)));
        PodRow {
            namespace: Arc::clone(&namespace),
            name: metadata.name.as_ref().into(),
            uid: metadata.uid.as_ref().into(),
            resource_version: metadata.resource_version.as_ref().into(),
            owner: interner.text(owner),
            revision: revision.map(|revision| interner.text(revision)),
            labels: interner.labels(labels.map(|(key, value)| (key.as_ref(), value.as_ref()))),
            phase: phase(&status.phase),
            ready_since: ready_since(status.conditions.as_deref().unwrap_or_default()),
            terminating: metadata.deletion_timestamp.is_some(),
            waiting: states()
                .filter_map(|(_, state)| state.waiting.as_ref())
                .map(|waiting| Waiting::parse(&waiting.reason))
                .max(),
            terminated_restarts: states()
                .filter(|(_, state)| state.terminated.is_some())
                .map(|(container, _)| container.restart_count)
                .max(),
            running: regular().chain(init().filter(|init| spec.is_sidecar(&init.name))).any(Container::runs),
            named: own_name.is_some_and(|name| *name == metadata.name),
            numbered: own_ordinal.is_some_and(|own| ordinal == Some(&**own)),
            volumes: interner.volumes(claim_volumes(&metadata.name, spec.volumes)),
            ip: status.pod_ip.filter(|ip| !ip.is_empty()).map(|ip| ip.as_ref().into()),
            zones: zones.map(|zones| interner.text(zones)),
        }
    });
    let name = metadata.name.as_ref().into();
    Ok(Decoded { namespace, name, resource_version: metadata.resource_version.into(), row })
}

fn claim_volumes(pod: &str, volumes: Option<Vec<Volume<'_>>>) -> Vec<ClaimVolume> {
    let claims = volumes.into_iter().flatten().filter_map(|volume| {
        let claim = volume.persistent_volume_claim?.claim_name;
        let usual = claim.strip_prefix(&*volume.name).and_then(|rest| rest.strip_prefix('-')) == Some(pod);
        Some(ClaimVolume { name: volume.name.into(), claim: (!usual).then(|| claim.into()) })
    });
    claims.collect()
}

fn phase(phase: &str) -> Phase {
    match phase {
        "" | "Pending" => Phase::Pending,
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        _ => Phase::Unknown,
    }
}

fn ready_since(conditions: &[Condition<'_>]) -> Option<Timestamp> {
    let ready = conditions.iter().find(|condition| condition.kind == "Ready" && condition.status == "True");
    // A Ready condition without a time has held for ever as far as anybody can tell.
    ready.map(|ready| ready.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
