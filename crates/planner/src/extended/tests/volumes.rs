//! The claims of a cluster, and which pods use them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::keys;

use super::cluster::Cluster;
use super::rows::{merge, texts};
use crate::extended::claims::{StableClaim, is_named_after};
use crate::plan::{Action, PodsOf, Verb};
use crate::pod::{ClaimVolume, PodRow};
use crate::statefulset::world::{ClaimRow, OwnerRef};

/// The claims, and how pods get and release them.
#[derive(Clone, Default)]
pub(super) struct Volumes {
    pub(super) claims: BTreeMap<String, ClaimRow>,
    pub(super) live: BTreeMap<String, Value>,
    /// Whether admission leaves the placeholder in new pods.
    pub(super) unmutated: bool,
    /// Whether a pod that is deleted stays, terminating, until [`Cluster::let_end`].
    pub(super) lingers: bool,
    /// Whether two versions may use a claim.
    pub(super) shared: bool,
    /// The claims that were deleted.
    pub(super) deleted: Vec<String>,
}

/// The volumes of a pod of a set as admission leaves them.
pub(super) fn volumes_of(set: &Value, pod: &str, unmutated: bool) -> Vec<ClaimVolume> {
    let volumes = set.pointer("/spec/template/spec/volumes").and_then(Value::as_array);
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    let is_selected = labels[keys::STABLE_CLAIMS] == keys::STABLE_CLAIMS_ON && !unmutated;
    let claim = |volume: &Value| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str()?;
        let ordinal = pod.rsplit_once('-').unwrap().1;
        let named = claim.strip_suffix(keys::CLAIM_PLACEHOLDER).filter(|_| is_selected);
        let claim = named.map_or(claim.to_owned(), |stem| format!("{stem}-{ordinal}"));
        Some(ClaimVolume { name: volume["name"].as_str()?.into(), claim: Some(claim.into()) })
    };
    volumes.into_iter().flatten().filter_map(claim).collect()
}

impl Volumes {
    /// Whether all claims of a pod exist.
    pub(super) fn have(&self, volumes: &[ClaimVolume]) -> bool {
        volumes.iter().all(|volume| {
            let claim = volume.claim.as_deref().unwrap_or_default();
            self.claims.get(claim).is_some_and(|claim| !claim.terminating)
        })
    }

    /// Pods are deleted: at once, or when their containers have stopped.
    pub(super) fn drop_pods(&self, pods: &mut BTreeMap<String, PodRow>, which: impl Fn(&PodRow) -> bool) {
        for pod in pods.values_mut().filter(|pod| which(pod)) {
            pod.terminating = true;
        }
        if !self.lingers {
            pods.retain(|_, pod| !which(pod));
        }
    }

    /// No claim may have two pods, unless two versions were allowed to.
    pub(super) fn check(&self, pods: &BTreeMap<String, PodRow>) {
        let mut users: BTreeMap<String, &str> = BTreeMap::new();
        for pod in pods.values().filter(|_| !self.shared) {
            for claim in pod.claims().into_iter().filter(|claim| !claim.ends_with(keys::CLAIM_PLACEHOLDER)) {
                if let Some(other) = users.insert(claim.clone(), &pod.name) {
                    panic!("{other} and {} use {claim}", pod.name);
                }
            }
        }
    }
}

impl Cluster {
    pub(super) fn claims(&self) -> Vec<Arc<ClaimRow>> {
        let stem = |name: &str| name.rsplit_once('-').unwrap().0.to_owned();
        let own =
            self.volumes.claims.values().filter(|claim| is_named_after(&stem(&claim.name), &self.row.name));
        own.cloned().map(Arc::new).collect()
    }

    pub(super) fn users(&self) -> Vec<Arc<PodRow>> {
        let uses = |pod: &&PodRow| pod.claims().iter().any(|claim| claim.contains(keys::STABLE_CLAIM_INFIX));
        self.pods.values().filter(uses).cloned().map(Arc::new).collect()
    }

    /// A consistent list.
    pub(super) fn list(&self, question: &PodsOf) -> BTreeSet<Box<str>> {
        let terms: Vec<_> = question.selector.split(',').map(|term| term.split_once('=').unwrap()).collect();
        let is_selected = |pod: &&PodRow| terms.iter().all(|(key, value)| pod.label(key) == Some(*value));
        self.pods.values().filter(is_selected).map(|pod| pod.name.clone()).collect()
    }

    pub(super) fn live_unscheduled(&self, name: &str) -> Option<Value> {
        let pod = self.pods.get(name)?;
        let created = self.now.checked_sub(jiff::SignedDuration::from_secs(60)).unwrap();
        Some(json!({
            "metadata": { "uid": pod.uid, "resourceVersion": pod.resource_version, "creationTimestamp": created },
            "spec": {},
        }))
    }

    /// The containers of all pods that were deleted have stopped.
    pub(super) fn let_end(&mut self) {
        self.pods.retain(|_, pod| !pod.terminating);
    }

    /// The pods of a set that is gone are deleted.
    pub(super) fn release(&mut self, which: impl Fn(&PodRow) -> bool) {
        self.volumes.clone().drop_pods(&mut self.pods, which);
    }

    /// Somebody creates a claim.
    pub(super) fn create_claim(&mut self, name: &str, live: Value) {
        let version = self.next_version();
        self.volumes.claims.insert(name.to_owned(), claim_row(name, &format!("uid-{name}"), &version, &live));
        self.volumes.live.insert(name.to_owned(), live);
    }

    pub(super) fn write_claim(&mut self, action: &Action, version: &str) {
        let name = action.object().name.to_string();
        match action.verb() {
            Verb::Create { body, .. } => {
                assert!(!self.volumes.claims.contains_key(&name), "{name} exists");
                let uid = format!("uid-{name}-{version}");
                self.volumes.claims.insert(name.clone(), claim_row(&name, &uid, version, body));
                self.volumes.live.insert(name, body.clone());
            }
            Verb::Merge { body, .. } => {
                let live = self.volumes.live.get_mut(&name).unwrap();
                merge(live, body);
                let uid = self.volumes.claims[&name].uid.to_string();
                self.volumes.claims.insert(name.clone(), claim_row(&name, &uid, version, live));
            }
            Verb::Delete => {
                assert!(
                    self.pods.values().all(|pod| !pod.claims().contains(&name)),
                    "{name} is deleted while a pod uses it"
                );
                let policy =
                    self.given.pointer("/template/spec/persistentVolumeClaimRetentionPolicy/whenScaled");
                assert_eq!(policy, Some(&json!("Delete")), "{name} is deleted without a policy that says so");
                self.volumes.claims.remove(&name).unwrap();
                self.volumes.live.remove(&name);
                self.volumes.deleted.push(name);
            }
            verb => panic!("not expected: {verb:?} of a claim"),
        }
    }

    /// Each pod with its claims, without their common part.
    pub(super) fn mounts(&self) -> Vec<String> {
        let mount = |pod: &PodRow| format!("{} {}", pod.name, pod.claims().join(" "));
        self.pods.values().map(mount).collect()
    }
}

fn claim_row(name: &str, uid: &str, version: &str, live: &Value) -> ClaimRow {
    let owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owner = |owner: &Value| OwnerRef {
        api_version: owner["apiVersion"].as_str().unwrap_or_default().into(),
        kind: owner["kind"].as_str().unwrap_or_default().into(),
        name: owner["name"].as_str().unwrap_or_default().into(),
        uid: owner["uid"].as_str().unwrap_or_default().into(),
        controller: owner["controller"].as_bool(),
        block_owner_deletion: owner["blockOwnerDeletion"].as_bool(),
    };
    let labels = texts(&live["metadata"]["labels"]).into_iter();
    let storage = &live["spec"]["resources"]["requests"]["storage"];
    let stable = StableClaim {
        labels: labels.map(|(key, value)| (key.into(), value.into())).collect(),
        lost: live["status"]["phase"] == "Lost",
        requested: storage.as_str().map(Into::into),
    };
    ClaimRow {
        name: name.into(),
        uid: uid.into(),
        resource_version: version.into(),
        terminating: live["metadata"]["deletionTimestamp"].is_string(),
        owners: owners.map(owner).collect(),
        stable: Some(Box::new(stable)),
    }
}
