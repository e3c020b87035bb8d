//! The monitor, as far as it looks at ScalingPolicies.

use std::time::Duration;

use serde_json::Value;
use sts_plus_cluster::machinery::chronicle::Told;

use super::locks;
use super::records::{Change, of_change};
use super::state::{Asks, Life, State, announced, life_of_record, records};
use crate::call::Call;
use crate::monitor::{Inner, Monitor, Sent};
use crate::truth::{Pod, Set, Truth, text};

impl Monitor {
    /// Looks at a change, which `inner.truth` has already.
    pub(crate) fn look_at_scaling(&self, inner: &mut Inner, now: Duration, told: &Told) {
        let Told { plural, name, object, deleted, .. } = told;
        let mut known = std::mem::take(&mut inner.truth.scaling);
        let mut broken = Vec::new();
        match plural.as_str() {
            "pods" => {
                let pod = Pod::read(name, object);
                broken.extend(locks::of_pod(&inner.truth, &known, &pod).filter(|_| !deleted));
                known.take_pod(now, &pod, *deleted);
            }
            "statefulsets" if !deleted => known.take_set(now, name, object),
            "scalingpolicies" => {
                if let Some(policy) = known.policies.get(name) {
                    let nothing = Value::Null;
                    let set = text(&object["spec"]["targetRef"]["name"]);
                    let change = Change {
                        name,
                        before: &policy.object["status"],
                        after: if *deleted { &nothing } else { &object["status"] },
                        set: inner.truth.sets.get(&set),
                        deleting: object["metadata"]["deletionTimestamp"].is_string(),
                    };
                    let found = of_change(&known, now, policy, change);
                    found.excused.iter().for_each(|life| known.talk_mut(life).is_excused = true);
                    broken = found.broken;
                }
                known.take_policy(now, name, object, *deleted);
            }
            _ => {}
        }
        inner.truth.scaling = known;
        for words in broken {
            self.violate(inner, words);
        }
    }

    /// Judges a write of an operator that the server has accepted.
    pub(crate) fn judge_scaling(
        &self,
        inner: &mut Inner,
        now: Duration,
        who: &str,
        call: &Call,
        sent: &Sent,
    ) {
        let Some(before) = sent.set.as_ref().filter(|_| call.subresource.is_empty()) else { return };
        if inner.truth.scaling.policy_of(&call.name).is_none() {
            return;
        }
        let (name, body) = (&call.name, call.json());
        let mut broken = Vec::new();
        if let Some(replicas) = body["spec"]["replicas"].as_u64().filter(|after| *after < before.replicas) {
            let ordinals: Vec<_> = (replicas..before.replicas).collect();
            let Inner { truth, absence, terms, .. } = inner;
            broken.extend(ordinals.iter().filter_map(|ordinal| of_removal(truth, now, who, call, *ordinal)));
            let pods: Vec<_> = ordinals.iter().map(|ordinal| format!("{name}-{ordinal}")).collect();
            let costs = pods.iter().any(|pod| truth.pods.get(pod).is_some_and(Pod::serves));
            if costs && absence.is_blind() {
                broken.push(format!(
                    "I14: {who} removes {pods:?} of {name} although nobody can see what there is"
                ));
            }
            if costs && terms.is_unread(who, call) {
                broken.push(format!("rule C: {who} removes {pods:?} before it has read pods in its term"));
            }
            if !is_bound(&body) {
                broken.push(format!("I5: {who} lowers the replicas of {name} without UID and version"));
            }
            let lowered = ordinals.into_iter().map(|ordinal| (before.uid.clone(), ordinal));
            inner.truth.scaling.lowered.extend(lowered);
        }
        let (leaves, left) = (announced(&body), announced(&before.object));
        let begin: Vec<_> = leaves.difference(&left).copied().collect();
        if !begin.is_empty() {
            if !is_bound(&body) {
                broken.push(format!("I5: {who} lets {begin:?} of {name} leave without UID and version"));
            }
            broken.extend(Self::of_leave(inner, who, name, before, &begin));
        }
        for words in broken {
            self.violate(inner, words);
        }
    }

    /// What is wrong about pods that begin to leave: another zone is disturbed. One that has been called keeps its leave.
    fn of_leave(inner: &Inner, who: &str, name: &str, set: &Set, begin: &[u64]) -> Option<String> {
        let Inner { truth, .. } = inner;
        let policy = truth.scaling.policy_of(name)?;
        let is_new = |ordinal: &&u64| {
            let mut records = records(&policy.object["status"], "leaving");
            let record = records.find(|record| record["ordinal"] == **ordinal);
            let is_dead = truth.pods.get(&format!("{name}-{ordinal}")).is_some_and(Pod::is_dead);
            !is_dead && record.is_none_or(|record| record["phase"] == "Requested")
        };
        let new: Vec<_> = begin.iter().filter(is_new).collect();
        let elsewhere = Self::disturbed_elsewhere(inner, name, set);
        (truth.scaling.fences_zones && !new.is_empty() && !elsewhere.is_empty()).then(|| {
            format!(
                "I3: {who} lets {new:?} of {name} leave while {} of another zone are down by its own doing, or about to be",
                elsewhere.join(", ")
            )
        })
    }

    /// A call arrives at a pod; which life of it is asked. None where the pod has just gone.
    pub fn hook_arrives(&self, pod: &str, uid: &str, asks: Asks) -> Option<Life> {
        self.catch_up();
        let now = self.now();
        self.trace.line(&format!("{pod} is asked: {asks:?}"));
        let mut inner = self.lock();
        let life = inner.truth.scaling.life(pod, uid).cloned()?;
        let broken = of_call(&inner.truth.scaling, now, pod, &life, asks);
        if matches!(asks, Asks::Flush | Asks::Begin) {
            let talk = inner.truth.scaling.talk_mut(&life);
            (talk.leaves, talk.is_excused) = (true, false);
        }
        for words in broken {
            self.violate(&mut inner, words);
        }
        Some(life)
    }

    /// A pod answers a call.
    pub fn hook_answers(&self, life: &Life, asks: Asks, is_done: bool) {
        let now = self.now();
        self.trace.line(&format!("its answer: {asks:?}, {}", if is_done { "done" } else { "not done" }));
        let mut inner = self.lock();
        let talk = inner.truth.scaling.talk_mut(life);
        match asks {
            Asks::Flush | Asks::Progress if is_done => {
                talk.ready.get_or_insert(now);
            }
            Asks::Cancel => talk.leaves = false,
            _ => {}
        }
    }

    /// The present life of a pod, where it is this one.
    pub fn life_of(&self, pod: &str, uid: &str) -> Option<Life> {
        self.look_at(|truth| truth.scaling.life(pod, uid).cloned())
    }
}

/// What is wrong about the removal of a pod by lowered replicas.
fn of_removal(truth: &Truth, now: Duration, who: &str, call: &Call, ordinal: u64) -> Option<String> {
    let state = &truth.scaling;
    if let Some(judged) = locks::of_removal(truth, who, call, ordinal) {
        return judged.err();
    }
    let (policy, pod) = (state.policy_of(&call.name)?, format!("{}-{ordinal}", call.name));
    if policy.may_have(now, |_| false) {
        return None;
    }
    let record = records(&policy.object["status"], "leaving").find(|record| record["ordinal"] == ordinal);
    let is_late = record.is_some_and(|record| record["deadlineExceeded"] == true);
    if is_late && policy.may_have(now, |hook| hook["onFailure"] == "Force") {
        return None;
    }
    // It was looked at before the write left, and may have been restarted or replaced since.
    let looked_at = now.saturating_sub(call.left) + state.behind;
    let is_ready = |life: Option<&Life>| {
        let Some(life) = life else { return record.is_some() };
        state.talk(life).and_then(|talk| talk.ready).is_some_and(|ready| ready <= call.left)
    };
    let lives = state.lives(&pod, now, looked_at);
    (!lives.into_iter().any(is_ready))
        .then(|| format!("drain: {who} removes {pod}, whose hook has not succeeded"))
}

/// What is wrong about a call that arrives at a pod.
fn of_call(state: &State, now: Duration, pod: &str, life: &Life, asks: Asks) -> Vec<String> {
    let mut broken = Vec::new();
    if !state.recorded.contains(&life.uid) {
        broken.push(format!("recorded: {pod} is called before any status says that it leaves or joins"));
    }
    let Some((set, ordinal)) = pod.rsplit_once('-').and_then(|(set, n)| Some((set, n.parse().ok()?))) else {
        return broken;
    };
    let prepares = matches!(asks, Asks::Flush | Asks::Begin);
    if prepares && !state.is_announced(set, ordinal, now) {
        broken.push(format!("recorded: {pod} is called before its set says that it leaves"));
    }
    let policy = state.policy_of(set);
    let drained = policy.and_then(|policy| policy.drained_since(life));
    let is_recorded = policy.is_some_and(|policy| {
        records(&policy.object["status"], "leaving").any(|record| life_of_record(record) == *life)
    });
    if prepares && is_recorded && drained.is_some_and(|since| since + state.behind < now) {
        broken.push(format!("repeat: {pod} is called although its status says that it is drained"));
    }
    broken
}

/// Whether a write of a set insists on its UID and version.
fn is_bound(body: &Value) -> bool {
    let metadata = &body["metadata"];
    metadata["uid"].is_string() && metadata["resourceVersion"].is_string()
}
