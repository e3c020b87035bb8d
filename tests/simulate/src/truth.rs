//! The state of the cluster as it really is, from every change of every object.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use sts_plus_api::extended::Group;
use sts_plus_api::keys;
use sts_plus_cluster::nodes::behaviour;

use crate::extended::cast::answer;
use crate::extended::state::State;
use crate::faults::Plan;
use crate::scaling::state::State as Scaling;

/// Those who read what was before may be this far behind: longer than a watch may be silent, and a lag on top.
pub const BEHIND: Duration = Duration::from_mins(5);

/// What a broken container waits for.
const ERRORS: [&str; 6] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];
/// A container that has ended after so many restarts is broken.
const RESTARTS: u64 = 3;

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not by itself")]
pub struct Pod {
    pub name: String,
    pub uid: String,
    /// The set that controls it.
    pub set: Option<String>,
    /// The UID of that set.
    pub owner: String,
    /// Whether it is labelled as the active one of an ExtendedStatefulSet.
    pub active: bool,
    /// Whether it says that it must not be active.
    pub refuses: bool,
    pub revision: String,
    /// The image it runs.
    pub image: String,
    pub ready: bool,
    /// Whether it is on its way out.
    pub terminating: bool,
    /// Whether something is the matter with it.
    pub ill: bool,
    /// Whether one of its containers runs. Init containers do not count: those of a run all come to an end.
    pub running: bool,
    /// Whether it will not become Ready by itself, as far as can be seen.
    pub broken: bool,
    /// How often its containers have been restarted.
    pub restarts: u64,
    /// Whether it was made with a lock.
    pub locked: bool,
}

impl Pod {
    pub fn read(name: &str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array();
        let owner = owners
            .into_iter()
            .flatten()
            .find(|owner| owner["controller"] == true && owner["kind"] == "StatefulSet");
        let conditions = object["status"]["conditions"].as_array();
        Self {
            name: name.to_owned(),
            uid: text(&metadata["uid"]),
            set: owner.map(|owner| text(&owner["name"])),
            owner: owner.map(|owner| text(&owner["uid"])).unwrap_or_default(),
            active: Group::ALL
                .iter()
                .any(|group| metadata["labels"][group.key(keys::POD_DESIGNATION)] == keys::ACTIVE),
            refuses: metadata["annotations"][behaviour::HTTP]
                .as_str()
                .is_some_and(|text| text != answer(true)),
            revision: text(&metadata["labels"][keys::CONTROLLER_REVISION]),
            image: text(&object["spec"]["containers"][0]["image"]),
            ready: conditions
                .into_iter()
                .flatten()
                .any(|one| one["type"] == "Ready" && one["status"] == "True"),
            terminating: metadata["deletionTimestamp"].is_string(),
            running: object["status"]["containerStatuses"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|one| one["state"]["running"].is_object()),
            broken: is_broken(&object["status"]),
            restarts: restarts(&object["status"]),
            locked: object["spec"]["initContainers"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|one| one["name"] == keys::LOCK),
            ill: !text(&metadata["annotations"][behaviour::FAULT]).is_empty(),
        }
    }

    pub fn serves(&self) -> bool {
        self.ready && !self.terminating
    }

    /// Whether nothing of it serves or could.
    pub fn is_dead(&self) -> bool {
        !self.serves() && !self.running
    }

    /// Its number within its set.
    pub fn ordinal(&self) -> Option<u64> {
        self.name.rsplit_once('-')?.1.parse().ok()
    }
}

/// Whether a container waits in an error, or has ended after several restarts. An init container that ended well is done.
fn is_broken(status: &Value) -> bool {
    let all = |list: &str| status[list].as_array().into_iter().flatten();
    let unfinished = all("initContainerStatuses").filter(|one| one["state"]["terminated"]["exitCode"] != 0);
    all("containerStatuses").chain(unfinished).any(|one| {
        let waits = one["state"]["waiting"]["reason"].as_str().is_some_and(|reason| ERRORS.contains(&reason));
        waits || one["state"]["terminated"].is_object() && one["restartCount"].as_u64() >= Some(RESTARTS)
    })
}

/// How often the containers of a pod have been restarted. Init containers do not count.
fn restarts(status: &Value) -> u64 {
    let all = status["containerStatuses"].as_array().into_iter().flatten();
    all.filter_map(|one| one["restartCount"].as_u64()).sum()
}

/// A value that has changed over time.
#[derive(Clone, Debug)]
pub struct Past<T>(Vec<(Duration, T)>);

impl<T: PartialEq + Clone> Past<T> {
    /// It is this from now on.
    pub fn new(at: Duration, value: T) -> Self {
        Self(vec![(at, value)])
    }

    /// Takes a value in; whether it is another one than before.
    pub fn put(&mut self, at: Duration, value: T) -> bool {
        let differs = self.0.last().is_none_or(|(_, last)| *last != value);
        if differs {
            self.0.push((at, value));
        }
        differs
    }

    /// What it has been within this time before now.
    pub fn within(&self, now: Duration, time: Duration) -> impl Iterator<Item = &T> {
        let from = now.saturating_sub(time);
        let first = self.0.iter().rposition(|(at, _)| *at <= from).unwrap_or(0);
        self.0.iter().skip(first).map(|(_, value)| value)
    }

    /// What it is.
    pub fn last(&self) -> Option<&T> {
        self.0.last().map(|(_, value)| value)
    }

    /// Whether it has never been anything else.
    pub fn never_changed(&self) -> bool {
        self.0.len() == 1
    }

    /// Whether it has ever been this.
    pub fn has_been(&self, value: &T) -> bool {
        self.0.iter().any(|(_, known)| known == value)
    }

    /// Since when it was this the last time that it was by a time.
    pub fn since_before(&self, value: &T, by: Duration) -> Option<Duration> {
        self.0.iter().rev().find(|(at, known)| *at <= by && known == value).map(|(at, _)| *at)
    }

    /// Since when it has been what it is.
    pub fn since(&self) -> Duration {
        self.0.last().map(|(at, _)| *at).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub struct Set {
    pub uid: String,
    pub group: Option<String>,
    /// How many pods it shall have.
    pub replicas: u64,
    /// The same over time.
    pub replicas_past: Past<u64>,
    /// How many of its pods may be down, over time.
    pub budget: Past<u64>,
    pub partition: Option<u64>,
    /// The same over time.
    pub partition_past: Past<Option<u64>>,
    /// Its template, over time.
    pub template: Past<String>,
    /// Its generation, over time.
    pub generation: Past<u64>,
    /// The generation that its template came with.
    pub template_generation: u64,
    /// The revision it goes to, over time.
    pub update: Past<String>,
    pub strategy: String,
    /// The image of its template.
    pub image: String,
    /// What becomes of its claims when it goes, and when it shrinks.
    pub retention: (String, String),
    /// Whether it is on its way out.
    pub deleting: bool,
    /// All of it.
    pub object: Value,
}

impl Set {
    /// Whether the set's policy condemns the claim of an ordinal, as far as anybody who lags behind could know.
    pub fn condemns_claim(&self, now: Duration, ordinal: u64) -> bool {
        let surplus = self.replicas_past.within(now, BEHIND).any(|replicas| ordinal >= *replicas);
        (self.deleting && self.retention.0 == "Delete") || (surplus && self.retention.1 == "Delete")
    }
}

/// Everything that invariants look at.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Pods by name.
    pub pods: BTreeMap<String, Pod>,
    /// Sets by name.
    pub sets: BTreeMap<String, Set>,
    /// The last set of each name that was deleted, as it was then.
    pub ended: BTreeMap<String, Set>,
    /// PhasedRollouts by name.
    pub rollouts: BTreeMap<String, Value>,
    /// Claims by name.
    pub claims: BTreeMap<String, Value>,
    /// Revisions by name.
    pub revisions: BTreeMap<String, Value>,
    /// ExtendedStatefulSets, and what belongs to them.
    pub extended: State,
    /// ScalingPolicies, and what their pods have been asked for.
    pub scaling: Scaling,
}

impl Truth {
    /// Nothing yet.
    pub fn new(plan: &Plan) -> Self {
        Self { extended: State::new(plan), scaling: Scaling::new(plan), ..Self::default() }
    }

    /// Takes a change in.
    pub fn take(&mut self, now: Duration, plural: &str, name: &str, object: &Value, deleted: bool) {
        match plural {
            "pods" if deleted => {
                self.pods.remove(name);
            }
            "pods" => {
                self.pods.insert(name.to_owned(), Pod::read(name, object));
            }
            "statefulsets" if deleted => {
                if let Some(set) = self.sets.remove(name) {
                    self.ended.insert(name.to_owned(), set);
                }
            }
            "statefulsets" => self.take_set(now, name, object),
            "phasedrollouts" => keep(&mut self.rollouts, name, object, deleted),
            "persistentvolumeclaims" => keep(&mut self.claims, name, object, deleted),
            "controllerrevisions" => keep(&mut self.revisions, name, object, deleted),
            _ => {}
        }
    }

    fn take_set(&mut self, now: Duration, name: &str, object: &Value) {
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let replicas = spec["replicas"].as_u64().unwrap_or(1);
        let budget = metadata["annotations"][keys::MAX_UNAVAILABLE]
            .as_str()
            .and_then(|text| text.parse().ok())
            .unwrap_or(1);
        let partition = spec["updateStrategy"]["rollingUpdate"]["partition"].as_u64();
        let (template, update) = (spec["template"].to_string(), text(&object["status"]["updateRevision"]));
        let retention = &spec["persistentVolumeClaimRetentionPolicy"];
        let uid = text(&metadata["uid"]);
        let generation = metadata["generation"].as_u64().unwrap_or(0);
        let known = self.sets.get(name).filter(|set| set.uid == uid).cloned();
        let mut set = known.unwrap_or_else(|| Set {
            uid,
            group: None,
            replicas,
            replicas_past: Past::new(now, replicas),
            budget: Past::new(now, budget),
            partition,
            partition_past: Past::new(now, partition),
            template: Past::new(now, template.clone()),
            generation: Past::new(now, generation),
            template_generation: generation,
            update: Past::new(now, update.clone()),
            strategy: String::new(),
            image: String::new(),
            retention: (String::new(), String::new()),
            deleting: false,
            object: Value::Null,
        });
        set.group = metadata["labels"][keys::ROLLOUT_GROUP].as_str().map(str::to_owned);
        set.replicas = replicas;
        set.replicas_past.put(now, replicas);
        set.budget.put(now, budget);
        set.generation.put(now, generation);
        set.partition = partition;
        set.partition_past.put(now, partition);
        if set.template.put(now, template) {
            set.template_generation = generation;
        }
        set.update.put(now, update);
        set.strategy = text(&spec["updateStrategy"]["type"]);
        set.image = text(&spec["template"]["spec"]["containers"][0]["image"]);
        set.retention = (text(&retention["whenDeleted"]), text(&retention["whenScaled"]));
        set.deleting = metadata["deletionTimestamp"].is_string();
        set.object = object.clone();
        self.sets.insert(name.to_owned(), set);
    }

    /// Since when a set has the template that it is rolled to. A template that returns to the update revision before
    /// another one was observed has never been left, as far as anybody could know who looks at revisions.
    pub fn rolled_since(&self, set: &Set) -> Duration {
        let mut stored = set.object["status"]["updateRevision"]
            .as_str()
            .and_then(|update| self.revisions.get(update))
            .map(|revision| revision["data"]["spec"]["template"].clone())
            .unwrap_or_default();
        if let Some(stored) = stored.as_object_mut() {
            stored.remove("$patch");
        }
        let template = &set.object["spec"]["template"];
        let observed = Some(set.update.since()).filter(|_| stored == *template);
        let before = observed.and_then(|at| set.template.since_before(&template.to_string(), at));
        before.unwrap_or_else(|| set.template.since())
    }

    /// The PhasedRollouts that name a set.
    pub fn rollouts_of(&self, set: &str) -> impl Iterator<Item = &Value> {
        self.rollouts.values().filter(move |rollout| rollout["spec"]["targetRef"] == *set)
    }

    /// The pods that a set controls.
    pub fn pods_of(&self, set: &str) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(move |pod| pod.set.as_deref() == Some(set))
    }
}

fn keep(all: &mut BTreeMap<String, Value>, name: &str, object: &Value, deleted: bool) {
    if deleted {
        all.remove(name);
    } else {
        all.insert(name.to_owned(), object.clone());
    }
}

/// A text in JSON; empty where there is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
