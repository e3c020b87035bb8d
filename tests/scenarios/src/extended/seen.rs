//! What an onlooker has seen of ExtendedStatefulSets, their sets, pods and endpoints, and whether a guarantee was broken by it.
//!
//! Two active pods, or two endpoints where there may be one, are seen at once. What depends on the order between kinds, such as
//! the removal of a version beside the readiness of its successor, is judged at the end from the versions of the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::DynamicObject;
use sts_plus_api::conditions::Condition;
use sts_plus_api::extended::{ExtendedStatus, Group};
use sts_plus_api::keys;
use tokio::time::Instant;

use super::judge::{Change, judge};
use crate::observer::{Followed, Onlooking};
use crate::view;

/// The label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A pod with its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// What matters of every pod.
    pub pod: view::Pod,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The claims that it mounts.
    pub claims: BTreeSet<String>,
}

/// A set of an ExtendedStatefulSet, or of somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub name: String,
    pub uid: String,
    /// The UID of the object that controls it.
    pub owner: Option<String>,
    /// The number of its version.
    pub number: Option<u32>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// How many pods it shall have.
    pub replicas: u32,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Set {
    /// Whether it is the set of one version, and of which zone.
    pub(super) fn versioned(&self) -> Option<(u32, &str)> {
        let number = self.number.filter(|number| self.name.ends_with(&format!("-v{number}")))?;
        Some((number, self.name.strip_suffix(&format!("-v{number}"))?))
    }
}

/// An ExtendedStatefulSet, as it was once.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub name: String,
    pub uid: String,
    pub status: ExtendedStatus,
    /// Whether the status speaks of the present spec.
    pub observed: bool,
    /// The version it was seen at.
    pub version: u64,
}

impl Object {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// Everything seen so far.
#[derive(Debug)]
pub struct Seen {
    /// Sets by name.
    pub sets: BTreeMap<String, Set>,
    /// Pods by name.
    pub pods: BTreeMap<String, Pod>,
    /// ExtendedStatefulSets by name.
    pub objects: BTreeMap<String, Object>,
    /// Claims by name, with their UID.
    pub claims: BTreeMap<String, Option<String>>,
    /// Every state of each ExtendedStatefulSet, in order.
    pub history: BTreeMap<String, Vec<Object>>,
    /// The UIDs of the pods that have had a name, in order.
    pub lives: BTreeMap<String, Vec<String>>,
    /// The pods that have been active, in order, without repetitions; `None` while none was.
    pub active: Vec<Option<String>>,
    /// The addresses behind each Service, in order.
    pub endpoints: BTreeMap<String, Vec<Vec<String>>>,
    /// Guarantees that were broken.
    pub violations: Vec<String>,
    /// How many pods of a zone must be Ready before another version of it is removed.
    pub min_ready: usize,
    /// The Services that may have one endpoint at most.
    pub single: BTreeSet<String>,
    /// Whether pods of two versions may use a claim at the same time.
    pub shares_claims: bool,
    /// Whether claims may be deleted.
    pub deletes_claims: bool,
    /// All changes of sets and pods with their versions, for the judgement at the end.
    changes: Vec<(u64, Change)>,
    timeline: Vec<(Instant, String)>,
    began: Instant,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            objects: BTreeMap::new(),
            claims: BTreeMap::new(),
            history: BTreeMap::new(),
            lives: BTreeMap::new(),
            active: Vec::new(),
            endpoints: BTreeMap::new(),
            violations: Vec::new(),
            min_ready: 1,
            single: BTreeSet::new(),
            shares_claims: false,
            deletes_claims: false,
            changes: Vec::new(),
            timeline: Vec::new(),
            began: Instant::now(),
        }
    }
}

impl Seen {
    /// Notes something for whoever reads the timeline.
    pub fn note(&mut self, words: String) {
        self.timeline.push((Instant::now(), words));
    }

    /// Somebody other than the operator is about to delete this set, or has asked for its removal.
    pub fn excuse_set(&mut self, set: &str) {
        self.changes.push((0, Change::Excused(set.to_owned())));
    }

    /// Somebody other than the operator is about to delete this pod or make it unready.
    pub fn excuse_pod(&mut self, pod: &str) {
        let uid = self.pods.get(pod).map(|pod| pod.pod.uid.clone());
        self.changes.push((0, Change::Excused(uid.unwrap_or_default())));
    }

    pub fn set_names(&self) -> BTreeSet<&str> {
        self.sets.keys().map(String::as_str).collect()
    }

    /// The UIDs of the pods.
    pub fn uids(&self) -> BTreeSet<String> {
        self.pods.values().map(|pod| pod.pod.uid.clone()).collect()
    }

    pub fn active_pod(&self) -> Option<&Pod> {
        self.pods.values().find(|pod| is_active(pod))
    }

    /// The numbers that versions have had in the status, in order, without repetitions.
    pub fn versions(&self, object: &str) -> Vec<u32> {
        let history = self.history.get(object).into_iter().flatten();
        let mut numbers: Vec<_> = history.filter_map(|past| past.status.update_version).collect();
        numbers.dedup();
        numbers
    }

    /// Judges what could not be judged before.
    pub fn conclude(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_by_key(|(version, _)| *version);
        for fault in judge(changes.into_iter().map(|(_, change)| change), self.min_ready) {
            self.violate(fault);
        }
    }

    fn change(&mut self, version: u64, change: Change) {
        self.changes.push((version, change));
    }
}

/// Whether a pod is labelled as the active one, by either group.
fn is_active(pod: &Pod) -> bool {
    Group::ALL.iter().any(|group| pod.labels.contains_key(&group.key(keys::POD_DESIGNATION)))
}

/// The version of an object: versions are numbers on every cluster here, and order all kinds.
pub(super) fn version(text: Option<&String>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

impl Onlooking for Seen {
    fn note(&mut self, words: String) {
        self.note(words);
    }

    fn timeline(&self) -> String {
        let mut text = String::new();
        for (at, words) in &self.timeline {
            writeln!(text, "{:9.3} {words}", at.duration_since(self.began).as_secs_f64()).unwrap();
        }
        text
    }

    fn violations(&self) -> &[String] {
        &self.violations
    }

    fn violate(&mut self, words: String) {
        self.note(format!("!!!! {words}"));
        self.violations.push(words);
    }

    fn after_a_gap(&mut self, look: impl FnOnce(&mut Self)) {
        self.note("the onlooker looks anew".to_owned());
        look(self);
        // What happened meanwhile cannot be judged.
        self.changes.clear();
    }
}

impl Followed<Seen> for v1::Pod {
    fn seen(self, seen: &mut Seen) {
        let at = version(self.metadata.resource_version.as_ref());
        let labels = self.metadata.labels.clone().unwrap_or_default();
        let annotations = self.metadata.annotations.clone().unwrap_or_default();
        let volumes = self.spec.iter().filter_map(|spec| spec.volumes.as_ref()).flatten();
        let claims =
            volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()));
        let claims = claims.filter(|claim| !claim.ends_with(keys::CLAIM_PLACEHOLDER)).collect();
        let pod = Pod { labels, annotations, claims, pod: self.into() };
        if seen.pods.get(&pod.pod.name) == Some(&pod) {
            return;
        }
        let lives = seen.lives.entry(pod.pod.name.clone()).or_default();
        if !lives.contains(&pod.pod.uid) {
            lives.push(pod.pod.uid.clone());
        }
        let state = match (pod.pod.deleted_at.is_some(), pod.pod.ready, is_active(&pod)) {
            (true, _, active) => format!("terminating{}", if active { ", active" } else { "" }),
            (_, ready, active) => {
                format!(
                    "{}{}",
                    if ready { "Ready" } else { "not Ready" },
                    if active { ", active" } else { "" }
                )
            }
        };
        seen.note(format!("pod {} ({:.8}, {}) {state}", pod.pod.name, pod.pod.uid, pod.pod.image));
        seen.change(at, Change::Pod(pod.clone()));
        let name = pod.pod.name.clone();
        seen.pods.insert(name.clone(), pod);
        seen.judge_claims(&name);
        let active: Vec<_> =
            seen.pods.values().filter(|pod| is_active(pod)).map(|pod| pod.pod.name.clone()).collect();
        if active.len() > 1 {
            seen.violate(format!("{} are active at once", active.join(" and ")));
        }
        let active = active.into_iter().next();
        if seen.active.last() != Some(&active) {
            seen.active.push(active);
        }
    }

    fn gone(name: &str, seen: &mut Seen) {
        seen.pods.remove(name);
    }

    fn deleted(self, seen: &mut Seen) {
        let name = self.name_any();
        seen.note(format!("pod {name} is gone"));
        seen.change(version(self.metadata.resource_version.as_ref()), Change::PodGone(name.clone()));
        Self::gone(&name, seen);
    }

    fn names(seen: &Seen) -> Vec<(String, Option<String>)> {
        seen.pods.values().map(|pod| (pod.pod.name.clone(), Some(pod.pod.uid.clone()))).collect()
    }
}

impl Seen {
    /// No claim may have two pods, on their way out or not: both may write.
    fn judge_claims(&mut self, name: &str) {
        let Some(pod) = self.pods.get(name).filter(|_| !self.shares_claims) else { return };
        let others = self.pods.values().filter(|other| other.pod.name != *name);
        let shared = others.filter(|other| !other.claims.is_disjoint(&pod.claims));
        let shared: Vec<_> = shared.map(|other| other.pod.name.clone()).collect();
        if !shared.is_empty() {
            self.violate(format!("{name} and {} use a claim at the same time", shared.join(", ")));
        }
    }
}

impl Followed<Seen> for v1::PersistentVolumeClaim {
    fn seen(self, seen: &mut Seen) {
        let (name, uid) = (self.name_any(), self.uid());
        seen.claims.insert(name, uid);
    }

    fn gone(name: &str, seen: &mut Seen) {
        seen.claims.remove(name);
    }

    fn deleted(self, seen: &mut Seen) {
        let name = self.name_any();
        seen.note(format!("claim {name} is gone"));
        if !seen.deletes_claims {
            seen.violate(format!("the claim {name} was deleted"));
        }
        Self::gone(&name, seen);
    }

    fn names(seen: &Seen) -> Vec<(String, Option<String>)> {
        seen.claims.iter().map(|(name, uid)| (name.clone(), uid.clone())).collect()
    }
}

impl Followed<Seen> for StatefulSet {
    fn seen(self, seen: &mut Seen) {
        let at = version(self.metadata.resource_version.as_ref());
        let set = Set::from(self);
        if seen.sets.get(&set.name) == Some(&set) {
            return;
        }
        let Set { name, uid, number, replicas, deleting, .. } = &set;
        seen.note(format!("set {name} ({uid:.8}) of {number:?} x {replicas}, deleting {deleting}"));
        seen.change(at, Change::Set(set.clone()));
        seen.sets.insert(set.name.clone(), set);
    }

    fn gone(name: &str, seen: &mut Seen) {
        seen.sets.remove(name);
    }

    fn deleted(self, seen: &mut Seen) {
        let name = self.name_any();
        seen.note(format!("set {name} is gone"));
        seen.change(version(self.metadata.resource_version.as_ref()), Change::SetGone(name.clone()));
        Self::gone(&name, seen);
    }

    fn names(seen: &Seen) -> Vec<(String, Option<String>)> {
        seen.sets.values().map(|set| (set.name.clone(), Some(set.uid.clone()))).collect()
    }
}

impl From<StatefulSet> for Set {
    fn from(set: StatefulSet) -> Self {
        let metadata = set.metadata;
        let annotations = metadata.annotations.unwrap_or_default();
        let number = Group::ALL.iter().find_map(|group| annotations.get(&group.key(keys::VERSION)));
        let owners = metadata.owner_references.unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid);
        let replicas = set.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            owner,
            number: number.and_then(|number| number.parse().ok()),
            labels: metadata.labels.unwrap_or_default(),
            annotations,
            replicas: u32::try_from(replicas).unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

impl Followed<Seen> for DynamicObject {
    fn seen(self, seen: &mut Seen) {
        let status: ExtendedStatus = serde_json::from_value(self.data["status"].clone()).unwrap_or_default();
        let object = Object {
            name: self.name_any(),
            uid: self.uid().unwrap_or_default(),
            observed: status.observed_generation == self.metadata.generation,
            version: version(self.metadata.resource_version.as_ref()),
            status,
        };
        let ready = object.condition("Ready").map_or("unknown", |ready| &ready.reason);
        seen.note(format!(
            "{} {:?} of {:?}, {ready}, observed {}",
            object.name, object.status.current_version, object.status.update_version, object.observed
        ));
        seen.history.entry(object.name.clone()).or_default().push(object.clone());
        seen.objects.insert(object.name.clone(), object);
    }

    fn gone(name: &str, seen: &mut Seen) {
        seen.note(format!("{name} is gone"));
        seen.objects.remove(name);
    }

    fn names(seen: &Seen) -> Vec<(String, Option<String>)> {
        seen.objects.values().map(|object| (object.name.clone(), Some(object.uid.clone()))).collect()
    }
}

impl Followed<Seen> for EndpointSlice {
    fn seen(self, seen: &mut Seen) {
        let service = self.labels().get(SERVICE_NAME).cloned().unwrap_or_default();
        let ready = self.endpoints.into_iter();
        let ready = ready.filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.and_then(|conditions| conditions.ready).unwrap_or(true)
        });
        let addresses: Vec<String> = ready.flat_map(|endpoint| endpoint.addresses).collect();
        if seen.single.contains(&service) && addresses.len() > 1 {
            seen.violate(format!("Service {service} has the endpoints {}", addresses.join(" and ")));
        }
        seen.note(format!("Service {service} has the endpoints {addresses:?}"));
        seen.endpoints.entry(service).or_default().push(addresses);
    }

    fn gone(_: &str, _: &mut Seen) {}

    fn names(_: &Seen) -> Vec<(String, Option<String>)> {
        Vec::new()
    }
}
