//! What an onlooker has seen of sets, pods and PhasedRollouts, and whether a guarantee was broken by it.
//!
//! Each kind is seen in the order in which the API server changed it, and versions tell the order between kinds. What
//! the user of a story does to pods and replicas is told beforehand, so that every other pod that goes down does so by
//! a rollout.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;
use sts_plus_api::conditions::{Condition, Truth};
use sts_plus_api::keys;
use sts_plus_api::phased_rollout::{GateState, GateStatus, PhasedRolloutSpec, PhasedRolloutStatus};
use tokio::time::Instant;

use crate::observer::{Followed, Onlooking};
use crate::stage::SeesPods;
use crate::view::Pod;

/// A set, as far as guarantees speak of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub name: String,
    pub uid: String,
    /// How many pods it shall have.
    pub replicas: u32,
    /// The ordinal of its first pod.
    pub first: u32,
    /// Its partition; absent with another strategy.
    pub partition: Option<i32>,
    /// Who owns the partition.
    pub owners: Vec<String>,
    /// The PhasedRollout that has it.
    pub managed_by: Option<String>,
    /// Whether the status speaks of the present spec.
    pub observed: bool,
    /// The revision that the status calls current.
    pub current: String,
    /// The revision that its pods shall have.
    pub update: String,
    /// The version it was seen at.
    pub version: u64,
}

/// A PhasedRollout, as it was once.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    pub name: String,
    /// Its spec, as far as it can be read.
    pub spec: Option<PhasedRolloutSpec>,
    pub status: PhasedRolloutStatus,
    pub annotations: BTreeMap<String, String>,
    /// Whether the status speaks of the present spec.
    pub observed: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The version it was seen at.
    pub version: u64,
}

/// A lowering of a partition by the operator that is to be judged once the statuses before it are known.
#[derive(Clone, Debug)]
struct Step {
    set: String,
    from: i32,
    to: i32,
    /// Whether the value before was the operator's own.
    own: bool,
    version: u64,
}

/// Everything seen so far.
#[derive(Debug)]
pub struct Seen {
    /// Sets by name.
    pub sets: BTreeMap<String, Set>,
    /// Pods by name.
    pub pods: BTreeMap<String, Pod>,
    /// PhasedRollouts by name.
    pub rollouts: BTreeMap<String, Rollout>,
    /// The partitions of each set, in order, without repetitions; 0 where there was none.
    pub partitions: BTreeMap<String, Vec<i32>>,
    /// Every state of each PhasedRollout, in order.
    pub history: BTreeMap<String, Vec<Rollout>>,
    /// The pods that have had a name, in order, as UID and revision.
    pub lives: BTreeMap<String, Vec<(String, String)>>,
    /// Guarantees that were broken.
    pub violations: Vec<String>,
    /// How many pods of a set may be down at once, where that is not one.
    at_once: BTreeMap<String, usize>,
    /// How many replicas the user has asked for, where that was changed.
    asked: BTreeMap<String, u32>,
    /// Sets that the user has deleted.
    dismissed: BTreeSet<String>,
    /// Pods that have served and that nobody but a rollout has reason to take down.
    serving: BTreeSet<String>,
    steps: Vec<Step>,
    timeline: Vec<(Instant, String)>,
    began: Instant,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            rollouts: BTreeMap::new(),
            partitions: BTreeMap::new(),
            history: BTreeMap::new(),
            lives: BTreeMap::new(),
            violations: Vec::new(),
            at_once: BTreeMap::new(),
            asked: BTreeMap::new(),
            dismissed: BTreeSet::new(),
            serving: BTreeSet::new(),
            steps: Vec::new(),
            timeline: Vec::new(),
            began: Instant::now(),
        }
    }
}

impl Seen {
    /// So many pods of a set may be down at once in this story.
    pub fn allow_down(&mut self, set: &str, pods: usize) {
        self.at_once.insert(set.to_owned(), pods);
    }

    /// Somebody other than a rollout is about to take this pod down.
    pub fn excuse(&mut self, pod: &str) {
        self.serving.remove(pod);
    }

    /// The user is about to ask for so many replicas.
    pub fn expect_replicas(&mut self, set: &str, replicas: u32) {
        self.asked.insert(set.to_owned(), replicas);
        let first = self.sets.get(set).map_or(0, |set| set.first);
        self.serving.retain(|pod| ordinal(set, pod).is_none_or(|ordinal| ordinal < first + replicas));
    }

    /// The user is about to delete a set.
    pub fn dismiss(&mut self, set: &str) {
        self.dismissed.insert(set.to_owned());
        self.serving.retain(|pod| ordinal(set, pod).is_none());
    }

    /// The user is about to create a set.
    pub fn welcome(&mut self, set: &str) {
        self.dismissed.remove(set);
        self.asked.remove(set);
    }

    /// Notes something for whoever reads the timeline.
    pub fn note(&mut self, words: String) {
        self.timeline.push((Instant::now(), words));
    }

    /// What happened, for whoever looks for a fault.
    pub fn timeline(&self) -> String {
        let mut text = String::new();
        for (at, words) in &self.timeline {
            writeln!(text, "{:9.3} {words}", at.duration_since(self.began).as_secs_f64()).unwrap();
        }
        text
    }

    /// The pods of a set, by name.
    pub fn pods_of<'a>(&'a self, set: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| pod.set.as_deref() == Some(set))
    }

    /// The gate of a PhasedRollout.
    pub fn gate(&self, rollout: &str) -> Option<&GateStatus> {
        self.rollouts.get(rollout)?.status.rolling_pod_status.as_ref()
    }

    /// The gate states of a PhasedRollout so far, as (partition, state), without repetitions.
    pub fn gates(&self, rollout: &str) -> Vec<(i32, GateState)> {
        let history = self.history.get(rollout).into_iter().flatten();
        let gates = history.filter_map(|past| past.status.rolling_pod_status.as_ref());
        let mut gates: Vec<_> = gates.map(|gate| (gate.partition, gate.status)).collect();
        gates.dedup();
        gates
    }

    /// How many pods have had a name.
    pub fn lives_of(&self, pod: &str) -> usize {
        self.lives.get(pod).map_or(0, Vec::len)
    }

    /// The UID of the pod that has a name now.
    pub fn uid(&self, pod: &str) -> Option<&str> {
        self.pods.get(pod).map(|pod| pod.uid.as_str())
    }

    /// The end: judges what could not be judged before.
    pub fn conclude(&mut self) {
        self.judge_steps(u64::MAX);
    }

    fn judge_pods(&mut self) {
        let mut crowded = Vec::new();
        for set in self.sets.values() {
            let down: Vec<_> = self
                .serving
                .iter()
                .filter(|pod| ordinal(&set.name, pod).is_some())
                .filter(|pod| !self.pods.get(*pod).is_some_and(Pod::serves))
                .cloned()
                .collect();
            let allowed = self.at_once.get(&set.name).copied().unwrap_or(1);
            if down.len() > allowed {
                crowded.push(format!("{} are down at once", down.join(" and ")));
            }
        }
        for words in crowded {
            self.violate(words);
        }
    }

    /// Steps before this version, of which every earlier status is known.
    fn judge_steps(&mut self, known: u64) {
        let (ripe, rest) = std::mem::take(&mut self.steps).into_iter().partition(|step| step.version < known);
        self.steps = rest;
        let ripe: Vec<Step> = ripe;
        for step in ripe {
            if let Err(fault) = self.judge_step(&step) {
                let Step { set, from, to, .. } = step;
                self.violate(format!("the partition of {set} went from {from} to {to}: {fault}"));
            }
        }
    }

    fn judge_step(&self, step: &Step) -> Result<(), String> {
        let told = self.history.values().flatten().filter(|past| {
            let target = past.status.target.as_ref().map(|target| target.name.as_str());
            target == Some(&step.set) && past.version < step.version
        });
        let told = told.max_by_key(|past| past.version).ok_or("nobody manages it")?;
        let status = &told.status;
        if !step.own && status.partition == Some(step.to) {
            return Ok(());
        }
        if step.from - step.to != 1 {
            return Err("more than one pod was let go".to_owned());
        }
        let gate = status.rolling_pod_status.as_ref().ok_or("there was no gate")?;
        if gate.status != GateState::Passed || gate.partition != step.from {
            return Err(format!("the gate was {gate:?}"));
        }
        let spec = told.spec.as_ref().ok_or("the spec could not be read")?;
        let single = spec.check.iter().map(|check| ("check", check));
        let several = spec.checks.iter().map(|named| (named.name.as_str(), &named.check));
        for (name, check) in single.chain(several) {
            let passed = gate.checks.iter().find(|status| status.name == name);
            let passed = passed.map_or(0, |status| status.consecutive_successful_checks);
            if passed < check.success_threshold {
                return Err(format!("{name} had passed {passed} times: {gate:?}"));
            }
        }
        Ok(())
    }
}

impl SeesPods for Seen {
    fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods.get(name)
    }

    fn expect_replicas(&mut self, set: &str, replicas: u32) {
        self.expect_replicas(set, replicas);
    }
}

impl Onlooking for Seen {
    fn note(&mut self, words: String) {
        self.note(words);
    }

    fn timeline(&self) -> String {
        self.timeline()
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
        self.steps.clear();
        self.violations.clear();
    }
}

impl Followed<Seen> for v1::Pod {
    fn seen(self, seen: &mut Seen) {
        let pod = Pod::from(self);
        if seen.pods.get(&pod.name) == Some(&pod) {
            return;
        }
        let lives = seen.lives.entry(pod.name.clone()).or_default();
        if lives.last().is_none_or(|(uid, _)| *uid != pod.uid) {
            lives.push((pod.uid.clone(), pod.revision.clone().unwrap_or_default()));
        }
        let state = match (pod.deleted_at.is_some(), pod.ready, pod.broken) {
            (true, ..) => "terminating",
            (_, true, _) => "Ready",
            (_, _, true) => "broken",
            _ => "not Ready",
        };
        let revision = pod.revision.as_deref().unwrap_or_default();
        seen.note(format!("pod {} ({:.8}, {revision}, {}) {state}", pod.name, pod.uid, pod.image));
        let set = pod.set.as_deref().unwrap_or_default();
        let number = ordinal(set, &pod.name).unwrap_or(u32::MAX);
        let asked = seen.asked.get(set).copied();
        let first = seen.sets.get(set).map_or(0, |set| set.first);
        let wanted = asked.is_none_or(|replicas| number < first + replicas) && !seen.dismissed.contains(set);
        if pod.serves() && wanted {
            seen.serving.insert(pod.name.clone());
        }
        seen.pods.insert(pod.name.clone(), pod);
        seen.judge_pods();
    }

    fn gone(name: &str, seen: &mut Seen) {
        seen.note(format!("pod {name} is gone"));
        seen.pods.remove(name);
        seen.judge_pods();
    }

    fn names(seen: &Seen) -> Vec<(String, Option<String>)> {
        seen.pods.values().map(|pod| (pod.name.clone(), Some(pod.uid.clone()))).collect()
    }
}

impl Followed<Seen> for StatefulSet {
    fn seen(self, seen: &mut Seen) {
        let set = Set::from(self);
        let Set { name, replicas, partition, owners, observed, current, update, .. } = &set;
        seen.note(format!(
            "set {name} x {replicas}, partition {partition:?} of {owners:?}, observed {observed}, to {update} from {current}, managed by {:?}",
            set.managed_by
        ));
        let partitions = seen.partitions.entry(name.clone()).or_default();
        if partitions.last() != Some(&partition.unwrap_or(0)) {
            partitions.push(partition.unwrap_or(0));
        }
        let before = seen.sets.get(name).filter(|before| before.uid == set.uid);
        if let (Some(before), Some(to)) = (before, set.partition) {
            let from = before.partition.unwrap_or(0).min(i32::try_from(set.replicas).unwrap());
            if from > to && set.is_ours() {
                let (set, own, version) = (name.clone(), before.is_ours(), set.version);
                seen.steps.push(Step { set, from, to, own, version });
            }
        }
        seen.sets.insert(name.clone(), set);
    }

    fn gone(name: &str, seen: &mut Seen) {
        seen.note(format!("set {name} is gone"));
        seen.sets.remove(name);
    }

    fn names(seen: &Seen) -> Vec<(String, Option<String>)> {
        seen.sets.keys().map(|name| (name.clone(), None)).collect()
    }
}

impl Followed<Seen> for DynamicObject {
    fn seen(self, seen: &mut Seen) {
        let rollout = Rollout::from(self);
        if seen.rollouts.get(&rollout.name).map(|known| &known.status) != Some(&rollout.status) {
            seen.note(rollout.describe());
        }
        let known = rollout.version;
        seen.history.entry(rollout.name.clone()).or_default().push(rollout.clone());
        seen.rollouts.insert(rollout.name.clone(), rollout);
        seen.judge_steps(known);
    }

    fn gone(name: &str, seen: &mut Seen) {
        seen.note(format!("PhasedRollout {name} is gone"));
        seen.rollouts.remove(name);
    }

    fn names(seen: &Seen) -> Vec<(String, Option<String>)> {
        seen.rollouts.keys().map(|name| (name.clone(), None)).collect()
    }
}

impl Set {
    /// Whether the operator owns the partition.
    pub fn is_ours(&self) -> bool {
        self.owners.iter().any(|owner| owner == keys::MANAGER_PHASED_ROLLOUT)
    }
}

impl Rollout {
    /// A condition of its status.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Whether a condition holds, and why.
    pub fn truth(&self, kind: &str) -> Option<(Truth, &str)> {
        self.condition(kind).map(|condition| (condition.status, condition.reason.as_str()))
    }

    /// The word for its phase.
    pub fn phase(&self) -> &'static str {
        self.status.phase.map_or("none", sts_plus_api::phased_rollout::Phase::word)
    }

    fn describe(&self) -> String {
        let Self { name, status, .. } = self;
        let waits = status.waiting_for.as_deref().unwrap_or_default();
        let gate = status.rolling_pod_status.as_ref().map_or_else(String::new, |gate| {
            let (good, bad) = (gate.consecutive_successful_checks, gate.consecutive_failed_checks);
            format!(", gate {} {} +{good} -{bad}", gate.partition, gate.status.word())
        });
        format!("PhasedRollout {name} {} for {waits}{gate}, partition {:?}", self.phase(), status.partition)
    }
}

impl From<StatefulSet> for Set {
    fn from(set: StatefulSet) -> Self {
        let version = version(set.resource_version());
        let managed = set.metadata.managed_fields.clone().unwrap_or_default();
        let owns =
            |fields: &Value| fields.pointer("/f:spec/f:updateStrategy/f:rollingUpdate/f:partition").is_some();
        let owner = managed.into_iter().filter(|entry| entry.fields_v1.as_ref().is_some_and(|f| owns(&f.0)));
        let spec = set.spec.clone().unwrap_or_default();
        let status = set.status.clone().unwrap_or_default();
        let first = spec.ordinals.and_then(|ordinals| ordinals.start).unwrap_or_default();
        let strategy = spec.update_strategy.unwrap_or_default();
        Self {
            name: set.name_any(),
            uid: set.uid().unwrap_or_default(),
            replicas: u32::try_from(spec.replicas.unwrap_or(1)).unwrap(),
            first: u32::try_from(first).unwrap(),
            partition: strategy.rolling_update.and_then(|rolling| rolling.partition),
            owners: owner.filter_map(|entry| entry.manager).collect(),
            managed_by: set.annotations().get(keys::PHASED_ROLLOUT).cloned(),
            observed: status.observed_generation >= set.metadata.generation,
            current: status.current_revision.unwrap_or_default(),
            update: status.update_revision.unwrap_or_default(),
            version,
        }
    }
}

impl From<DynamicObject> for Rollout {
    fn from(object: DynamicObject) -> Self {
        let part = |name: &str| object.data.get(name).cloned().unwrap_or_default();
        let status: PhasedRolloutStatus = serde_json::from_value(part("status")).unwrap_or_default();
        Self {
            name: object.name_any(),
            spec: serde_json::from_value(part("spec")).ok(),
            observed: status.observed_generation == object.metadata.generation,
            annotations: object.annotations().clone(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            version: version(object.resource_version()),
            status,
        }
    }
}

/// Versions of one server can be compared, whatever the kind.
pub fn version(text: Option<String>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The number of a pod of a set.
fn ordinal(set: &str, pod: &str) -> Option<u32> {
    pod.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}

#[cfg(test)]
#[path = "seen_tests.rs"]
mod tests;
