//! What an onlooker has seen of a namespace, and whether a guarantee was broken by it.
//!
//! The onlooker sees the pods of a namespace in the order in which the API server changed them, so a deletion can
//! be judged by the moment at which it happened. Whoever deletes in a scenario tells the onlooker beforehand, and
//! what the StatefulSet controller does is known; every other deletion is the operator's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1;
use sts_plus_api::keys;
use sts_plus_api::rollout_status::RolloutStatus;
use tokio::time::Instant;

use crate::observer::Onlooking;
use crate::stage::SeesPods;

/// The waits that a kubelet does not get out of by itself.
const BROKEN: [&str; 6] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// A pod, as far as guarantees speak of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    /// The set that controls it.
    pub set: Option<String>,
    /// The revision it was built from.
    pub revision: Option<String>,
    /// The image of its first container.
    pub image: String,
    /// Running and Ready, whether on its way out or not.
    pub ready: bool,
    /// Since when it is Ready.
    pub ready_since: Option<Timestamp>,
    /// When its deletion was asked for.
    pub deleted_at: Option<Timestamp>,
    /// Not Ready, and not about to become so.
    pub broken: bool,
}

/// A set, as far as guarantees speak of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub name: String,
    pub group: Option<String>,
    /// How many pods it shall have.
    pub replicas: u32,
    /// How many of them may be down, whatever is written.
    pub max_unavailable: usize,
    /// Whether the status speaks of the present spec.
    pub observed: bool,
    /// The revision that the status calls current.
    pub current_revision: String,
    /// The revision that its pods shall have.
    pub update_revision: String,
    /// What the operator has written on it.
    pub told: Option<RolloutStatus>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// A deletion by the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The pod as it was before.
    pub pod: Pod,
    /// The set it belonged to.
    pub set: String,
    /// When it was asked for.
    pub at: Option<Timestamp>,
    /// When the last of the other pods of the group had become Ready.
    pub others_ready_since: Option<Timestamp>,
}

/// A place that a set has had a pod in.
#[derive(Clone, Debug)]
struct Slot {
    set: String,
    ordinal: u32,
    /// The operator has emptied it, and its next pod has not been Ready yet.
    emptied_by_operator: bool,
}

/// Everything seen so far.
#[derive(Debug)]
pub struct View {
    /// Pods by name.
    pub pods: BTreeMap<String, Pod>,
    /// Sets by name.
    pub sets: BTreeMap<String, Set>,
    /// What the operator has deleted, in order.
    pub deletions: Vec<Deletion>,
    /// What the operator has written on sets, in order, without repetitions.
    pub told: Vec<(String, RolloutStatus)>,
    /// For each set, how many of its pods were down at once at most because the operator deleted them.
    pub widest: BTreeMap<String, usize>,
    /// Guarantees that were broken.
    pub violations: Vec<String>,
    /// How often the onlooker had to look anew, so that deletions may have gone unseen.
    pub gaps: usize,
    blind: bool,
    slots: BTreeMap<String, Slot>,
    others: BTreeSet<String>,
    /// How many replicas the user has asked for, where that was changed.
    asked: BTreeMap<String, u32>,
    timeline: Vec<(Instant, String)>,
    began: Instant,
}

impl Default for View {
    fn default() -> Self {
        Self {
            pods: BTreeMap::new(),
            sets: BTreeMap::new(),
            deletions: Vec::new(),
            told: Vec::new(),
            widest: BTreeMap::new(),
            violations: Vec::new(),
            gaps: 0,
            blind: false,
            slots: BTreeMap::new(),
            others: BTreeSet::new(),
            asked: BTreeMap::new(),
            timeline: Vec::new(),
            began: Instant::now(),
        }
    }
}

impl View {
    /// Somebody other than the operator is about to delete this pod.
    pub fn announce_deletion(&mut self, pod: &str) {
        self.others.insert(pod.to_owned());
    }

    /// The user is about to ask for so many replicas. What the controller of the set deletes then may be seen before the set
    /// is: pods and sets are watched each by itself.
    pub fn expect_replicas(&mut self, set: &str, replicas: u32) {
        self.asked.insert(set.to_owned(), replicas);
    }

    /// Notes something for whoever reads the timeline.
    pub fn note(&mut self, words: String) {
        self.timeline.push((Instant::now(), words));
    }

    /// A pod exists, in this state.
    pub fn pod_seen(&mut self, pod: Pod) {
        let before = self.pods.get(&pod.name).cloned();
        if before.as_ref() == Some(&pod) {
            return;
        }
        self.note(pod.describe());
        if let Some(before) = before.as_ref().filter(|before| before.uid != pod.uid) {
            self.violate(format!("{} lives twice, as {} and as {}", pod.name, before.uid, pod.uid));
        }
        if pod.deleted_at.is_some() && before.as_ref().is_none_or(|before| before.deleted_at.is_none()) {
            self.deleted(before.unwrap_or_else(|| pod.clone()), pod.deleted_at);
        }
        if let (Some(set), Some((_, ordinal))) = (&pod.set, pod.name.rsplit_once('-')) {
            let slot = Slot {
                set: set.clone(),
                ordinal: ordinal.parse().unwrap_or(u32::MAX),
                emptied_by_operator: false,
            };
            let slot = self.slots.entry(pod.name.clone()).or_insert(slot);
            slot.emptied_by_operator &= !pod.serves();
        }
        self.pods.insert(pod.name.clone(), pod);
        self.judge_zones();
    }

    pub fn pod_gone(&mut self, name: &str) {
        let Some(before) = self.pods.get(name).cloned() else { return };
        self.note(format!("pod {name} is gone"));
        if before.deleted_at.is_none() {
            self.deleted(before, None);
        }
        self.pods.remove(name);
        self.judge_zones();
    }

    /// A set exists, in this state.
    pub fn set_seen(&mut self, set: Set) {
        if self.sets.get(&set.name) == Some(&set) {
            return;
        }
        self.note(set.describe());
        let last = self.told.iter().rev().find(|(name, _)| *name == set.name).map(|(_, told)| told);
        if let Some(told) = set.told.as_ref().filter(|told| last != Some(told)) {
            self.told.push((set.name.clone(), told.clone()));
        }
        self.sets.insert(set.name.clone(), set);
    }

    pub fn set_gone(&mut self, name: &str) {
        self.note(format!("set {name} is gone"));
        self.sets.remove(name);
    }

    /// The pods of a set, by name.
    pub fn pods_of(&self, set: &str) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(move |pod| pod.set.as_deref() == Some(set))
    }

    /// The names of the pods of a set that the operator has deleted, in order.
    pub fn deleted_of(&self, set: &str) -> Vec<&str> {
        let deletions = self.deletions.iter().filter(|deletion| deletion.set == set);
        deletions.map(|deletion| deletion.pod.name.as_str()).collect()
    }

    /// The kind and subject of everything told about a set, in order.
    pub fn told_of(&self, set: &str) -> Vec<(&str, &str)> {
        let told = self.told.iter().filter(|(name, _)| name == set);
        told.map(|(_, told)| (told.state.as_str(), told.subject.as_deref().unwrap_or_default())).collect()
    }

    /// What is told about a set now.
    pub fn state_of(&self, set: &str) -> Option<&RolloutStatus> {
        self.sets.get(set)?.told.as_ref()
    }

    /// Everything that happened, one line each.
    pub fn timeline(&self) -> String {
        let mut text = String::new();
        for (at, words) in &self.timeline {
            let millis = at.duration_since(self.began).as_millis();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{millis:>7} ms  {words}");
        }
        text
    }

    /// A pod was deleted; `before` is what it was until then.
    fn deleted(&mut self, before: Pod, at: Option<Timestamp>) {
        let name = before.name.clone();
        if self.blind {
            return;
        }
        if self.others.remove(&name) {
            self.note(format!("     {name} was deleted by the scenario"));
            return;
        }
        let Some(set) = before.set.as_ref().and_then(|set| self.sets.get(set)).cloned() else {
            self.violate(format!("{name}, which no set controls, was deleted"));
            return;
        };
        let surplus = self.slots.get(&name).is_some_and(|slot| slot.ordinal >= self.wanted(&set));
        if surplus || set.deleting {
            self.note(format!("     {name} was deleted by the controller of its set"));
            return;
        }
        self.judge_deletion(&before, &set);
        if let Some(slot) = self.slots.get_mut(&name) {
            slot.emptied_by_operator = true;
        }
        let group = self.sets.values().filter(|other| other.group == set.group);
        let others = group.flat_map(|other| self.pods_of(&other.name)).filter(|pod| pod.name != name);
        let others_ready_since = others.filter_map(|pod| pod.ready_since).max();
        self.deletions.push(Deletion { pod: before, set: set.name, at, others_ready_since });
    }

    /// The guarantees, at the moment of a deletion by the operator.
    fn judge_deletion(&mut self, pod: &Pod, set: &Set) {
        let others = self.sets.values().filter(|other| other.group == set.group && other.name != set.name);
        let down_elsewhere: Vec<_> =
            others.filter(|_| set.group.is_some()).flat_map(|other| self.down(other)).collect();
        if !down_elsewhere.is_empty() {
            self.violate(format!(
                "{} was deleted while these pods of other sets of its group were down: {}",
                pod.name,
                down_elsewhere.join(", ")
            ));
        }
        let mut down = self.down(set);
        // A pod that is down already makes no difference, and a broken one may always go.
        if pod.serves() && !down.contains(&pod.name) {
            down.push(pod.name.clone());
            if down.len() > set.max_unavailable {
                let (deleted, most) = (&pod.name, set.max_unavailable);
                self.violate(format!(
                    "{deleted} was deleted; {most} may be down, these are: {}",
                    down.join(", ")
                ));
            }
        }
        if set.group.is_none() {
            self.violate(format!("{} was deleted and is in no group", pod.name));
        }
    }

    /// Whether the operator has left pods of two sets of a group down.
    fn judge_zones(&mut self) {
        let mut emptied: BTreeMap<&str, usize> = BTreeMap::new();
        for slot in self.slots.values().filter(|slot| slot.emptied_by_operator) {
            *emptied.entry(&slot.set).or_default() += 1;
        }
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (set, down) in &emptied {
            let widest = self.widest.entry((*set).to_owned()).or_default();
            *widest = (*widest).max(*down);
            if let Some(group) = self.sets.get(*set).and_then(|set| set.group.as_deref()) {
                groups.entry(group).or_default().push(set);
            }
        }
        let crowded = groups.into_iter().find(|(_, sets)| sets.len() > 1);
        let crowded = crowded
            .map(|(group, sets)| format!("group {group:?}: {} are disturbed at once", sets.join(", ")));
        if let Some(crowded) = crowded {
            self.violate(crowded);
        }
    }

    /// How many pods of a set are wanted, as far as is known of it or of what the user is about to ask for.
    fn wanted(&self, set: &Set) -> u32 {
        self.asked.get(&set.name).map_or(set.replicas, |asked| set.replicas.min(*asked))
    }

    /// The places of a set that have had a pod, are still wanted, and have none that serves.
    fn down(&self, set: &Set) -> Vec<String> {
        let replicas = self.wanted(set);
        let wanted = self.slots.iter().filter(|(_, slot)| slot.set == set.name && slot.ordinal < replicas);
        let down = wanted.filter(|(name, _)| !self.pods.get(*name).is_some_and(Pod::serves));
        down.map(|(name, _)| name.clone()).collect()
    }
}

impl SeesPods for View {
    fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods.get(name)
    }

    fn expect_replicas(&mut self, set: &str, replicas: u32) {
        self.expect_replicas(set, replicas);
    }
}

impl Onlooking for View {
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
        self.gaps += 1;
        self.blind = true;
        look(self);
        self.blind = false;
    }
}

impl Pod {
    /// Whether it serves: Ready and not on its way out.
    pub fn serves(&self) -> bool {
        self.ready && self.deleted_at.is_none()
    }

    fn describe(&self) -> String {
        let Self { name, uid, revision, image, .. } = self;
        let state = match (self.deleted_at.is_some(), self.ready, self.broken) {
            (true, ..) => "terminating",
            (_, true, _) => "Ready",
            (_, _, true) => "broken",
            _ => "not Ready",
        };
        let revision = revision.as_deref().unwrap_or("no revision");
        format!("pod {name} ({uid:.8}, {revision}, {image}) {state}")
    }
}

impl Set {
    fn describe(&self) -> String {
        let Self { name, replicas, update_revision, current_revision, observed, .. } = self;
        let told = self.told.as_ref().map_or("nothing".to_owned(), |told| {
            format!("{} {}", told.state, told.subject.as_deref().unwrap_or_default())
        });
        format!(
            "set {name} x {replicas}, observed {observed}, to {update_revision} from {current_revision}, says {told}"
        )
    }
}

impl From<v1::Pod> for Pod {
    fn from(pod: v1::Pod) -> Self {
        let metadata = pod.metadata;
        let status = pod.status.unwrap_or_default();
        let owners = metadata.owner_references.unwrap_or_default();
        let owner =
            owners.into_iter().find(|owner| owner.controller == Some(true) && owner.kind == "StatefulSet");
        let conditions = status.conditions.unwrap_or_default();
        let ready =
            conditions.into_iter().find(|condition| condition.type_ == "Ready" && condition.status == "True");
        let ready = ready.filter(|_| status.phase.as_deref() == Some("Running"));
        let waits = status.container_statuses.unwrap_or_default().into_iter();
        let mut waits = waits.filter_map(|container| container.state?.waiting?.reason);
        let grace =
            jiff::SignedDuration::from_secs(metadata.deletion_grace_period_seconds.unwrap_or_default());
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            set: owner.map(|owner| owner.name),
            revision: metadata.labels.unwrap_or_default().remove(keys::CONTROLLER_REVISION),
            image: pod.spec.and_then(|spec| spec.containers.into_iter().next()?.image).unwrap_or_default(),
            broken: ready.is_none() && waits.any(|reason| BROKEN.contains(&reason.as_str())),
            ready_since: ready.as_ref().and_then(|ready| Some(ready.last_transition_time.as_ref()?.0)),
            ready: ready.is_some(),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0 - grace),
        }
    }
}

impl From<StatefulSet> for Set {
    fn from(set: StatefulSet) -> Self {
        let metadata = set.metadata;
        let annotations = metadata.annotations.unwrap_or_default();
        let spec = set.spec.unwrap_or_default();
        let status = set.status.unwrap_or_default();
        let replicas = u32::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
        Self {
            name: metadata.name.unwrap_or_default(),
            group: metadata.labels.unwrap_or_default().remove(keys::ROLLOUT_GROUP),
            replicas,
            max_unavailable: max_unavailable(annotations.get(keys::MAX_UNAVAILABLE), replicas),
            observed: status.observed_generation >= metadata.generation,
            current_revision: status.current_revision.unwrap_or_default(),
            update_revision: status.update_revision.unwrap_or_default(),
            told: annotations.get(keys::ROLLOUT_STATUS).and_then(|told| RolloutStatus::parse(told)),
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

/// What the annotation means, read from the documentation and not from the planner.
fn max_unavailable(written: Option<&String>, replicas: u32) -> usize {
    let written = written.map_or("1", |written| written.trim());
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<usize>().ok())?;
    let meant = match written.strip_suffix('%') {
        Some(percent) => {
            let percent = number(percent).filter(|percent| (1..=100).contains(percent));
            percent.map(|percent| percent * replicas as usize / 100)
        }
        None => number(written),
    };
    meant.unwrap_or(1).max(1)
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
