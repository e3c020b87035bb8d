//! The keeper of claims: gives each pending claim a volume of its own, as a provisioner and the volume binder
//! would, and takes the volume back when its claim is gone.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::json;

use super::call::Call;
use super::shell::{Keeper, Next};
use super::watch::{Event, Key, Row};
use crate::clock::Moment;
use crate::volumes::{
    self, BIND_COMPLETED, BOUND_BY_CONTROLLER, Fate, NewVolume, PROVISIONED_BY, PROVISIONER,
};

/// What the keeper of claims is told.
#[derive(Debug)]
pub(super) enum Input {
    /// Something happened to a claim.
    Claim(Event<Claim>),
    /// Something happened to a volume.
    Volume(Event<Volume>),
}

/// A claim, as far as binding it goes.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Claim {
    metadata: Metadata,
    spec: ClaimSpec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: Key,
    resource_version: String,
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSpec {
    #[serde(default)]
    access_modes: Vec<String>,
    #[serde(default)]
    resources: Resources,
    storage_class_name: Option<String>,
    volume_mode: Option<String>,
    volume_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Requests,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Requests {
    storage: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
}

/// A volume, as far as its claim goes.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "VolumeWire")]
pub(super) struct Volume {
    /// The claim that it is for; for a volume without one, itself.
    key: Key,
    uid: Key,
    version: String,
    name: String,
    /// Namespace of its claim, for a volume that we made.
    ours: Option<String>,
    reclaim: Fate,
    phase: String,
    deleting: bool,
}

#[derive(Deserialize)]
struct VolumeWire {
    metadata: Metadata,
    spec: VolumeSpec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeSpec {
    claim_ref: Option<ClaimRef>,
    #[serde(default)]
    persistent_volume_reclaim_policy: String,
}

#[derive(Deserialize)]
struct ClaimRef {
    uid: Option<Key>,
    #[serde(default)]
    namespace: String,
}

impl From<VolumeWire> for Volume {
    fn from(wire: VolumeWire) -> Self {
        let metadata = wire.metadata;
        let made_by_us = metadata.annotations.get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
        let (claim, namespace) =
            wire.spec.claim_ref.map_or((None, None), |claim| (claim.uid, Some(claim.namespace)));
        let reclaim = Fate::of(&wire.spec.persistent_volume_reclaim_policy);
        Volume {
            ours: namespace.filter(|_| made_by_us && claim.is_some()),
            key: claim.unwrap_or_else(|| metadata.uid.clone()),
            uid: metadata.uid,
            version: metadata.resource_version,
            name: metadata.name,
            reclaim,
            phase: wire.status.phase,
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

impl Row for Claim {
    fn key(&self) -> &Key {
        &self.metadata.uid
    }

    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Row for Volume {
    fn key(&self) -> &Key {
        &self.key
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// What is written of a claim and its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Make a volume for the claim.
    Provision,
    /// Say that the volume is bound.
    BindVolume,
    /// Point the claim at its volume and say that it is bound.
    BindClaim,
    /// Remove the volume.
    Reclaim,
    /// Keep the volume, and say that its claim is gone.
    Release,
}

/// All claims and volumes that are known.
pub(super) struct Claims {
    known: BTreeMap<Key, Claim>,
    volumes: BTreeMap<Key, Volume>,
    /// The namespaces whose claims are followed; none means all.
    namespaces: BTreeSet<String>,
    /// How many first lists of claims are still to come: until then a claim may be there unseen.
    lists_missing: usize,
    volumes_missing: bool,
}

impl Claims {
    /// A keeper for the claims of these namespaces, or of all where there is none.
    pub(super) fn new(namespaces: BTreeSet<String>) -> Self {
        Claims {
            known: BTreeMap::new(),
            volumes: BTreeMap::new(),
            lists_missing: namespaces.len().max(1),
            volumes_missing: true,
            namespaces,
        }
    }

    fn decide(&self, claim: Option<&Claim>, volume: Option<&Volume>) -> Option<Write> {
        match (claim, volume) {
            (Some(claim), None) => (claim.is_pending() && !self.volumes_missing).then_some(Write::Provision),
            (Some(claim), Some(volume)) => {
                volume.ours.as_ref()?;
                match (volume.phase.as_str(), claim.status.phase.as_str()) {
                    ("Bound", "Bound") => None,
                    ("Bound", _) => Some(Write::BindClaim),
                    _ => Some(Write::BindVolume),
                }
            }
            (None, Some(volume)) if self.lists_missing == 0 && !volume.deleting => {
                let namespace = volume.ours.as_ref()?;
                let followed = self.namespaces.is_empty() || self.namespaces.contains(namespace);
                match volume.reclaim {
                    _ if !followed => None,
                    Fate::Delete => Some(Write::Reclaim),
                    Fate::Keep => (volume.phase != "Released").then_some(Write::Release),
                }
            }
            (None, _) => None,
        }
    }

    fn all_keys(&self) -> Vec<Key> {
        self.known.keys().chain(self.volumes.keys()).cloned().collect()
    }
}

impl Claim {
    /// Waits for a volume, and for no particular one.
    fn is_pending(&self) -> bool {
        self.status.phase != "Bound"
            && self.spec.volume_name.as_ref().is_none_or(|name| *name == self.volume_name())
            && self.metadata.deletion_timestamp.is_none()
    }

    fn volume_name(&self) -> String {
        volumes::name_for(&self.metadata.uid)
    }

    fn provision(&self) -> Vec<Call> {
        let Metadata { uid, namespace, name, .. } = &self.metadata;
        let volume = NewVolume {
            uid,
            namespace,
            claim: name,
            storage: self.spec.resources.requests.storage.as_deref(),
            access_modes: json!(self.spec.access_modes),
            volume_mode: self.spec.volume_mode.as_deref(),
            class: self.spec.storage_class_name.as_deref(),
            provisioner: PROVISIONER,
            reclaim: "Delete",
        };
        let create = Call::create("/api/v1/persistentvolumes".to_owned(), volume.object());
        vec![create, bind_volume(&self.volume_name(), "Bound")]
    }

    fn bind(&self) -> Vec<Call> {
        let Metadata { uid, namespace, name, .. } = &self.metadata;
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        let binding = json!({
            "metadata": { "uid": **uid, "annotations": {
                BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes",
            } },
            "spec": { "volumeName": self.volume_name() },
        });
        let status = json!({
            "metadata": { "uid": **uid },
            "status": {
                "phase": "Bound",
                "accessModes": self.spec.access_modes,
                "capacity": { "storage": self.spec.resources.requests.storage },
            },
        });
        vec![Call::merge(path.clone(), binding), Call::merge(path + "/status", status)]
    }
}

impl Volume {
    fn path(&self) -> String {
        format!("/api/v1/persistentvolumes/{}", self.name)
    }
}

fn bind_volume(name: &str, phase: &str) -> Call {
    Call::merge(format!("/api/v1/persistentvolumes/{name}/status"), json!({ "status": { "phase": phase } }))
}

impl Keeper for Claims {
    type Input = Input;
    type Write = Write;

    fn take(&mut self, input: Input, _now: Moment) -> Vec<Key> {
        match input {
            Input::Claim(Event::Seen(claim)) => {
                let key = claim.metadata.uid.clone();
                self.known.insert(key.clone(), claim);
                vec![key]
            }
            Input::Volume(Event::Seen(volume)) => {
                let key = volume.key.clone();
                self.volumes.insert(key.clone(), volume);
                vec![key]
            }
            Input::Claim(Event::Gone(key)) => {
                self.known.remove(&key);
                vec![key]
            }
            Input::Volume(Event::Gone(key)) => {
                self.volumes.remove(&key);
                vec![key]
            }
            Input::Claim(Event::Synced) => {
                self.lists_missing = self.lists_missing.saturating_sub(1);
                self.all_keys()
            }
            Input::Volume(Event::Synced) => {
                self.volumes_missing = false;
                self.all_keys()
            }
        }
    }

    fn next(&self, key: &Key, _now: Moment) -> Next<Write> {
        match (self.known.get(key), self.volumes.get(key)) {
            (None, None) => Next::Forget,
            (claim, volume) => self.decide(claim, volume).map_or(Next::Rest, Next::Write),
        }
    }

    fn perform(&mut self, key: &Key, write: &Write, _now: Moment) -> Vec<Call> {
        let (claim, volume) = (self.known.get(key), self.volumes.get(key));
        match (write, claim, volume) {
            (Write::Provision, Some(claim), _) => claim.provision(),
            (Write::BindClaim, Some(claim), _) => claim.bind(),
            (Write::BindVolume, _, Some(volume)) => vec![bind_volume(&volume.name, "Bound")],
            (Write::Release, _, Some(volume)) => vec![bind_volume(&volume.name, "Released")],
            (Write::Reclaim, _, Some(volume)) => vec![
                // The API server protects every volume from removal; its guard's controller need not be running.
                Call::merge(volume.path(), json!({ "metadata": { "uid": *volume.uid, "finalizers": null } })),
                Call::delete(volume.path(), &volume.uid),
            ],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
