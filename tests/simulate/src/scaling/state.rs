//! The ScalingPolicies as they really are, and what their applications have been asked and have answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use sts_plus_api::keys;

use crate::faults::{Fault, Plan};
use crate::truth::{BEHIND, Past, Pod, Set, text};

/// Whoever has read a pod or a status acts on it within this time, where no watch is behind: a read and a write may take 9 s
/// each, and a lane may be waited for.
const ACTED_ON: Duration = Duration::from_secs(40);

/// One life of the containers of a pod: what was answered by one says nothing about the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    pub uid: String,
    /// How often its containers have been restarted.
    pub restarts: u64,
}

/// What an application is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// To get ready for its removal, and to answer when it is.
    Flush,
    /// To begin with that.
    Begin,
    /// Whether it is ready.
    Progress,
    /// To go on as before.
    Cancel,
    /// To join the others.
    Join,
}

/// What has been between operators and one application.
#[derive(Clone, Debug, Default)]
pub struct Talk {
    /// When it first said that it is ready for its removal.
    pub ready: Option<Duration>,
    /// Whether it was asked to get ready, and not called back since.
    pub leaves: bool,
    /// Whether nobody has to call it back: that was tried for as long as it has to be, or cannot be done.
    pub is_excused: bool,
}

/// A policy, and what it has been.
#[derive(Clone, Debug)]
pub struct Policy {
    pub uid: String,
    /// All of it.
    pub object: Value,
    /// The hook for pods that leave, over time; null where there is none.
    pub hook: Past<Value>,
    /// How many pods may leave at once, over time.
    pub most: Past<u64>,
    /// When each record was first seen, by ordinal and the time that it says that it began.
    begun: BTreeMap<(u64, String), Duration>,
    /// Since when each pod that leaves is done, by UID and restarts, as the status says.
    drained: BTreeMap<Life, Duration>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Policies by name.
    pub policies: BTreeMap<String, Policy>,
    /// The life of each pod over time; `None` while there is no such pod.
    lives: BTreeMap<String, Past<Option<Life>>>,
    talks: BTreeMap<Life, Talk>,
    /// The UIDs of all pods that a status has ever called leaving or joining.
    pub recorded: BTreeSet<String>,
    /// The ordinals that each set calls leaving, over time.
    announced: BTreeMap<String, Past<BTreeSet<u64>>>,
    /// The pods that operators have removed by lowering the replicas of a set: its UID and their ordinals.
    pub lowered: BTreeSet<(String, u64)>,
    /// The claims that may be deleted: those of pods whose hooks have succeeded.
    pub deletable: BTreeSet<String>,
    /// How long what was read may be acted on.
    pub behind: Duration,
    /// Whether the operators' clocks tell how much time has passed.
    pub knows_time: bool,
    /// Whether a set is fenced against what is decided about another one.
    pub fences_zones: bool,
}

impl State {
    /// Nothing yet.
    pub fn new(plan: &Plan) -> Self {
        let is_behind = [Fault::DeadWatch, Fault::LaggingWatch, Fault::Blind, Fault::LateWrite];
        let is_behind = is_behind.into_iter().any(|fault| plan.has(fault));
        Self {
            behind: if is_behind { BEHIND } else { ACTED_ON },
            knows_time: !plan.has(Fault::SkewedClock) && !plan.has(Fault::SteppedClock),
            fences_zones: !plan.has(Fault::LateWrite),
            ..Self::default()
        }
    }

    /// The policy that names a set.
    pub fn policy_of(&self, set: &str) -> Option<&Policy> {
        self.policies.values().find(|policy| policy.object["spec"]["targetRef"]["name"] == set)
    }

    /// Takes in a pod.
    pub fn take_pod(&mut self, now: Duration, pod: &Pod, deleted: bool) {
        let life = (!deleted).then(|| Life { uid: pod.uid.clone(), restarts: pod.restarts });
        match self.lives.get_mut(&pod.name) {
            Some(past) => {
                past.put(now, life);
            }
            None => {
                self.lives.insert(pod.name.clone(), Past::new(now, life));
            }
        }
    }

    /// Takes in a set.
    pub fn take_set(&mut self, now: Duration, name: &str, object: &Value) {
        let leaving = announced(object);
        match self.announced.get_mut(name) {
            Some(past) => {
                past.put(now, leaving);
            }
            None => {
                self.announced.insert(name.to_owned(), Past::new(now, leaving));
            }
        }
    }

    /// Takes in a policy.
    pub fn take_policy(&mut self, now: Duration, name: &str, object: &Value, deleted: bool) {
        if deleted {
            self.policies.remove(name);
            return;
        }
        let (uid, down) = (text(&object["metadata"]["uid"]), &object["spec"]["scaleDown"]);
        let hook = down["hook"].clone();
        let most = down["maxConcurrent"].as_u64().unwrap_or(1);
        if self.policies.get(name).is_none_or(|known| known.uid != uid) {
            let new = Policy {
                uid,
                object: Value::Null,
                hook: Past::new(now, hook.clone()),
                most: Past::new(now, most),
                begun: BTreeMap::new(),
                drained: BTreeMap::new(),
            };
            self.policies.insert(name.to_owned(), new);
        }
        let Some(known) = self.policies.get_mut(name) else { return };
        known.hook.put(now, hook);
        known.most.put(now, most);
        known.object = object.clone();
        let status = &object["status"];
        for record in records(status, "leaving").chain(records(status, "joining")) {
            let uid = text(&record["podUID"]);
            if !uid.is_empty() {
                self.recorded.insert(uid);
            }
        }
        let mut drained = BTreeMap::new();
        for record in records(status, "leaving") {
            let is_ready = self.talks.get(&life_of_record(record)).is_some_and(|talk| talk.ready.is_some());
            if is_ready && record["phase"] == "Drained" {
                let claims = record["claims"].as_array().into_iter().flatten();
                self.deletable.extend(claims.map(|claim| text(&claim["name"])));
            }
            let begun = (record["ordinal"].as_u64().unwrap_or_default(), text(&record["startTime"]));
            known.begun.entry(begun).or_insert(now);
            if record["phase"] == "Drained" {
                let life = life_of_record(record);
                let since = known.drained.get(&life).copied().unwrap_or(now);
                drained.insert(life, since);
            }
        }
        known.drained = drained;
    }

    /// The life of a pod at present, where it is this one.
    pub fn life(&self, pod: &str, uid: &str) -> Option<&Life> {
        self.lives.get(pod)?.last()?.as_ref().filter(|life| life.uid == uid)
    }

    /// The lives that a pod has had within a time, with `None` where it did not exist.
    pub fn lives(&self, pod: &str, now: Duration, within: Duration) -> Vec<Option<&Life>> {
        let past = self.lives.get(pod);
        past.map(|past| past.within(now, within).map(Option::as_ref).collect()).unwrap_or_default()
    }

    /// Whether any life of a pod has been this one in the last time.
    pub fn is_changed(&self, pod: &str, uid: &str, now: Duration, within: Duration) -> bool {
        let lives = self.lives(pod, now, within);
        lives.len() != 1 || lives.iter().any(|life| life.is_none_or(|life| life.uid != uid))
    }

    /// What has been said to and by a life.
    pub fn talk(&self, life: &Life) -> Option<&Talk> {
        self.talks.get(life)
    }

    /// The same, to be changed.
    pub fn talk_mut(&mut self, life: &Life) -> &mut Talk {
        self.talks.entry(life.clone()).or_default()
    }

    /// Whether a set has called an ordinal leaving as far as anybody could know.
    pub fn is_announced(&self, set: &str, ordinal: u64, now: Duration) -> bool {
        let past = self.announced.get(set);
        past.is_some_and(|past| past.within(now, BEHIND).any(|leaving| leaving.contains(&ordinal)))
    }
}

impl Policy {
    /// Whether it has had no hook, as far as anybody could know, or one of which that is so.
    pub fn may_have(&self, now: Duration, is_so: impl Fn(&Value) -> bool) -> bool {
        self.hook.within(now, BEHIND).any(|hook| hook.is_null() || is_so(hook))
    }

    /// The shortest time that its hook has had, as far as anybody could know.
    pub fn deadline(&self, now: Duration) -> Duration {
        let deadlines = self.hook.within(now, BEHIND).filter_map(|hook| hook["deadlineSeconds"].as_u64());
        Duration::from_secs(deadlines.min().unwrap_or_default())
    }

    /// When a record was first seen.
    pub fn begun(&self, record: &Value) -> Option<Duration> {
        let key = (record["ordinal"].as_u64().unwrap_or_default(), text(&record["startTime"]));
        self.begun.get(&key).copied()
    }

    /// Since when its status calls a life drained.
    pub fn drained_since(&self, life: &Life) -> Option<Duration> {
        self.drained.get(life).copied()
    }
}

/// The records of pods that leave, or join.
pub fn records<'v>(status: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> {
    status[list].as_array().into_iter().flatten()
}

/// The life that a record is about.
pub fn life_of_record(record: &Value) -> Life {
    let restarts = record["containerRestarts"].as_object().into_iter().flatten();
    let restarts = restarts.filter_map(|(_, count)| count.as_u64()).sum();
    Life { uid: text(&record["podUID"]), restarts }
}

/// The ordinals that a set calls leaving.
pub fn announced(object: &Value) -> BTreeSet<u64> {
    let value = object["metadata"]["annotations"][keys::LEAVING].as_str().unwrap_or_default();
    value.split(',').filter_map(|ordinal| ordinal.trim().parse().ok()).collect()
}

/// The pods of a set that leave and that the set is still to have.
pub fn leaving(name: &str, set: &Set) -> impl Iterator<Item = String> {
    let ordinals = announced(&set.object).into_iter().filter(|ordinal| *ordinal < set.replicas);
    ordinals.map(move |ordinal| format!("{name}-{ordinal}"))
}
