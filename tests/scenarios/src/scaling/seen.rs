//! What an onlooker has seen of policies, their sets and pods.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;
use sts_plus_api::conditions::Condition;
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::{PodRecord, ScalingPolicySpec, ScalingPolicyStatus};
use tokio::time::Instant;

use super::judge::{Change, judge};
use crate::observer::{Followed, Onlooking};
use crate::stage::SeesPods;
use crate::view;

/// A pod with its ordinal and the restarts of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// What matters of every pod.
    pub pod: view::Pod,
    pub ordinal: u32,
    pub restarts: BTreeMap<String, i32>,
}

/// A set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub name: String,
    pub uid: String,
    /// How many pods it shall have.
    pub replicas: u32,
    /// The annotation that lists the ordinals of the pods that leave.
    pub leaving: Option<String>,
    /// Whether the status speaks of the present spec.
    pub observed: bool,
    pub current_revision: String,
    pub update_revision: String,
    /// What the rollout group says on it.
    pub told: Option<String>,
}

/// A policy, as it was once.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub name: String,
    pub uid: String,
    pub version: u64,
    pub deleting: bool,
    pub finalizers: Vec<String>,
    /// Nothing where it cannot be read.
    pub spec: Option<ScalingPolicySpec>,
    pub status: ScalingPolicyStatus,
    /// Whether the status speaks of the present spec.
    pub observed: bool,
}

impl Policy {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// The reason of the condition Ready.
    pub fn reason(&self) -> &str {
        self.condition("Ready").map_or("", |ready| &ready.reason)
    }

    /// The record of an ordinal that leaves.
    pub fn leaving(&self, ordinal: u32) -> Option<&PodRecord> {
        self.status.leaving.iter().find(|record| record.ordinal == ordinal)
    }
}

/// Everything seen so far.
#[derive(Debug)]
pub struct Seen {
    pub sets: BTreeMap<String, Set>,
    pub pods: BTreeMap<String, Pod>,
    pub policies: BTreeMap<String, Policy>,
    /// Every state of each policy, in order.
    pub history: BTreeMap<String, Vec<Policy>>,
    /// The numbers of replicas that each set has had, in order, without repetitions.
    pub replicas: BTreeMap<String, Vec<u32>>,
    /// The UIDs of the pods that have had a name, in order.
    pub lives: BTreeMap<String, Vec<String>>,
    /// Guarantees that were broken.
    pub violations: Vec<String>,
    changes: Vec<(u64, Change)>,
    timeline: Vec<(Instant, String)>,
    began: Instant,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            policies: BTreeMap::new(),
            history: BTreeMap::new(),
            replicas: BTreeMap::new(),
            lives: BTreeMap::new(),
            violations: Vec::new(),
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

    /// The pods of a set.
    pub fn pods_of<'a>(&'a self, set: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| pod.pod.set.as_deref() == Some(set))
    }

    /// Judges everything that was seen, in the order of the versions of the objects, which is that of the writes.
    pub fn conclude(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_by_key(|(version, _)| *version);
        for fault in judge(changes.into_iter().map(|(_, change)| change)) {
            self.violate(fault);
        }
    }

    fn change(&mut self, version: u64, change: Change) {
        self.changes.push((version, change));
    }
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

impl SeesPods for Seen {
    fn pod(&self, name: &str) -> Option<&view::Pod> {
        self.pods.get(name).map(|pod| &pod.pod)
    }

    /// Somebody other than the operator writes this number: what it removes is not the operator's doing.
    fn expect_replicas(&mut self, set: &str, replicas: u32) {
        self.change(0, Change::Foreign { set: set.to_owned(), replicas });
    }
}

impl Followed<Seen> for v1::Pod {
    fn seen(self, seen: &mut Seen) {
        let at = version(self.metadata.resource_version.as_ref());
        let statuses = self.status.as_ref().and_then(|status| status.container_statuses.clone());
        let restarts =
            statuses.into_iter().flatten().map(|status| (status.name, status.restart_count)).collect();
        let name = self.name_any();
        let ordinal = name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse().ok()).unwrap_or(u32::MAX);
        let pod = Pod { ordinal, restarts, pod: self.into() };
        if seen.pods.get(&name) == Some(&pod) {
            return;
        }
        let lives = seen.lives.entry(name.clone()).or_default();
        if !lives.contains(&pod.pod.uid) {
            lives.push(pod.pod.uid.clone());
        }
        let state = match (pod.pod.deleted_at.is_some(), pod.pod.ready) {
            (true, _) => "terminating",
            (false, true) => "Ready",
            (false, false) => "not Ready",
        };
        let restarts: Vec<_> = pod.restarts.values().collect();
        seen.note(format!(
            "pod {name} ({:.8}, {}) {state}, restarts {restarts:?}",
            pod.pod.uid, pod.pod.image
        ));
        seen.change(at, Change::Pod(pod.clone()));
        seen.pods.insert(name, pod);
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

impl Followed<Seen> for StatefulSet {
    fn seen(self, seen: &mut Seen) {
        let at = version(self.metadata.resource_version.as_ref());
        let set = Set::from(self);
        if seen.sets.get(&set.name) == Some(&set) {
            return;
        }
        let Set { name, replicas, leaving, observed, .. } = &set;
        seen.note(format!("set {name} x {replicas}, leaving {leaving:?}, observed {observed}"));
        let numbers = seen.replicas.entry(name.clone()).or_default();
        if numbers.last() != Some(replicas) {
            numbers.push(*replicas);
        }
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
        let status = set.status.unwrap_or_default();
        let replicas = set.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            replicas: u32::try_from(replicas).unwrap_or_default(),
            leaving: annotations.get(keys::LEAVING).cloned(),
            observed: status.observed_generation == metadata.generation,
            current_revision: status.current_revision.unwrap_or_default(),
            update_revision: status.update_revision.unwrap_or_default(),
            told: annotations.get(keys::ROLLOUT_STATUS).cloned(),
        }
    }
}

impl Followed<Seen> for DynamicObject {
    fn seen(self, seen: &mut Seen) {
        let at = version(self.metadata.resource_version.as_ref());
        let policy = Policy::of(&self);
        let records: Vec<_> = policy.status.leaving.iter().chain(&policy.status.joining).collect();
        let records: Vec<_> = records
            .into_iter()
            .map(|record| format!("{} {} {}", record.ordinal, record.phase.word(), record.last_error))
            .collect();
        let ready = policy.condition("Ready").map(|ready| (&ready.reason, &ready.message));
        seen.note(format!(
            "policy {} of {:?}: {records:?}, {ready:?}, observed {}, deleting {}",
            policy.name,
            policy.spec.as_ref().map(|spec| spec.replicas),
            policy.observed,
            policy.deleting
        ));
        seen.history.entry(policy.name.clone()).or_default().push(policy.clone());
        seen.change(at, Change::Policy(Box::new(policy.clone())));
        seen.policies.insert(policy.name.clone(), policy);
    }

    fn gone(name: &str, seen: &mut Seen) {
        seen.policies.remove(name);
    }

    fn deleted(self, seen: &mut Seen) {
        let name = self.name_any();
        seen.note(format!("policy {name} is gone"));
        seen.change(version(self.metadata.resource_version.as_ref()), Change::PolicyGone(name.clone()));
        Self::gone(&name, seen);
    }

    fn names(seen: &Seen) -> Vec<(String, Option<String>)> {
        seen.policies.values().map(|policy| (policy.name.clone(), Some(policy.uid.clone()))).collect()
    }
}

impl Policy {
    fn of(object: &DynamicObject) -> Self {
        let of = |field: &str| object.data.get(field).cloned().unwrap_or(Value::Null);
        let status: ScalingPolicyStatus = serde_json::from_value(of("status")).unwrap_or_default();
        Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            version: version(object.metadata.resource_version.as_ref()),
            deleting: object.metadata.deletion_timestamp.is_some(),
            finalizers: object.metadata.finalizers.clone().unwrap_or_default(),
            spec: serde_json::from_value(of("spec")).ok(),
            observed: status.observed_generation == object.metadata.generation,
            status,
        }
    }
}
