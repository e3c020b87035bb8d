//! The steps of phased rollouts: has a pod passed a gate, and might it?

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::call::Call;
use crate::monitor::{Inner, Monitor};
use crate::truth::{Pod, Set, Truth, text};

/// A gate's last pass may be older than its own rule says by what a write takes on the way, twice.
const GATE_SLACK: Duration = Duration::from_secs(45);
/// What was answered so shortly before a step may not have reached the decision about it.
const UNDER_WAY: Duration = Duration::from_secs(2);
/// The partition of a set that no operator has given one.
const NONE: u64 = u64::MAX;

/// How far operators have come with each set.
#[derive(Debug, Default)]
pub(super) struct Steps(BTreeMap<String, Rolls>);

/// The steps of one set.
#[derive(Clone, Debug, Default)]
struct Rolls {
    /// What was answered before proves nothing: since then a rollout has failed, or begun to hold the set.
    proves: Duration,
    /// The steps, by when the set was given the template that is rolled. A template that returns before another revision
    /// was observed is still at its former step.
    steps: BTreeMap<Duration, Step>,
}

/// How far an operator has come with a template.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The operator's own partition.
    own: u64,
    /// What is at or above it has passed its gates: the operator's lowest partition since it last had to begin again. An
    /// operator that raises its partition on an old status, and is followed by one that lowers it to where it was, lets
    /// nobody pass who had not passed before.
    passed: u64,
    /// The replicas that the partition was for: scaling begins again.
    replicas: u64,
    /// Whether the rollout has failed since: then a raised partition begins again.
    failed: bool,
    /// Passes of the next gate count from then on. A foreign partition that is taken back begins no new step.
    from: Duration,
    /// The same when `passed` was reached: an operator that comes back to it is at the gate that began then.
    reached: Duration,
}

impl Steps {
    fn of(&self, truth: &Truth, name: &str, set: &Set) -> Step {
        let (rolls, since) = (self.0.get(name), truth.rolled_since(set));
        let from = rolls.map_or(since, |rolls| rolls.proves.max(since));
        let new =
            Step { own: NONE, passed: NONE, replicas: set.replicas, failed: false, from, reached: from };
        rolls.and_then(|rolls| rolls.steps.get(&since)).copied().unwrap_or(new)
    }

    fn put(&mut self, truth: &Truth, name: &str, set: &Set, step: Step) {
        let rolls = self.0.entry(name.to_owned()).or_default();
        rolls.steps.insert(truth.rolled_since(set), step);
    }

    /// What passed before proves nothing any more, whatever the set is rolled to.
    fn reset(&mut self, now: Duration, name: &str, change: impl Fn(Step) -> Step) {
        let rolls = self.0.entry(name.to_owned()).or_default();
        rolls.proves = now;
        for step in rolls.steps.values_mut() {
            *step = Step { from: now, reached: now, ..change(*step) };
        }
    }

    /// A rollout of the set has failed: what passed before proves nothing any more.
    pub(super) fn failed(&mut self, now: Duration, truth: &Truth, name: &str) {
        if truth.sets.contains_key(name) {
            self.reset(now, name, |step| Step { passed: step.own, failed: true, ..step });
        }
    }

    /// The set is nobody's for now: whoever holds it next begins at its first gate.
    pub(super) fn released(&mut self, now: Duration, truth: &Truth, name: &str) {
        if truth.sets.contains_key(name) {
            self.reset(now, name, |step| Step { own: NONE, passed: NONE, ..step });
        }
    }

    /// An operator has given the set a partition.
    fn took(&mut self, (now, truth): (Duration, &Truth), call: &Call, set: &Set, step: Step, lowers: bool) {
        let after = set.partition.unwrap_or(0);
        let continues = step.own != NONE && !step.failed && step.replicas == set.replicas;
        let from = match step.own {
            own if own == after => step.from,
            _ if continues && after == step.passed => step.reached,
            // A gate begins with the plan that lowers, and no query of it is asked before that.
            _ if lowers => now,
            NONE => step.from,
            _ => call.left,
        };
        let passed = if continues { step.passed.min(after) } else { after };
        let reached = if continues && step.passed <= after { step.reached } else { from };
        let step = Step { own: after, passed, replicas: set.replicas, failed: false, from, reached };
        self.put(truth, &call.name, set, step);
    }
}

/// What a rollout does about its set at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Gates,
    Holds,
    Releases,
}

fn mode(rollout: &Value) -> Mode {
    let spec = &rollout["spec"];
    let suspended = spec["skipCheck"] == true || spec["standardRollingUpdate"] == true;
    match () {
        () if rollout["metadata"]["deletionTimestamp"].is_string() => Mode::Releases,
        () if suspended && spec["suspendPolicy"] == "Freeze" => Mode::Holds,
        () if suspended => Mode::Releases,
        () => Mode::Gates,
    }
}

impl Monitor {
    /// An operator has written a set that has a partition: has a pod passed a gate, and might it?
    pub(super) fn judge_step(
        &self,
        inner: &mut Inner,
        now: Duration,
        who: &str,
        call: &Call,
        before: u64,
        outdated: &[u64],
    ) {
        let Some(set) = inner.truth.sets.get(&call.name).cloned() else { return };
        let after = set.partition.unwrap_or(0);
        for ordinal in outdated.iter().filter(|ordinal| (after..before).contains(*ordinal)) {
            let name = format!("{}-{ordinal}", call.name);
            if let Some(pod) = inner.truth.pods.get(&name).filter(|pod| !pod.terminating) {
                inner.released.insert(name, (call.name.clone(), pod.uid.clone()));
            }
        }
        if after < before {
            self.lowered.notify_waiters();
        }
        let rollouts: Vec<_> = inner.truth.rollouts_of(&call.name).cloned().collect();
        let rollout = if let [rollout] = rollouts.as_slice() { Some(rollout) } else { None };
        let mode = rollout.map_or(Mode::Releases, mode);
        let step = inner.steps.of(&inner.truth, &call.name, &set);
        let body = call.json();
        let writes = !body["spec"]["updateStrategy"]["rollingUpdate"]["partition"].is_null();
        match mode {
            Mode::Gates if writes => inner.steps.took((now, &inner.truth), call, &set, step, after < before),
            Mode::Releases if after != before => inner.steps.released(now, &inner.truth, &call.name),
            _ => {}
        }
        // A partition that is taken back lets nobody pass who had not passed before.
        let released: Vec<_> = outdated
            .iter()
            .filter(|ordinal| (after..before).contains(*ordinal) && **ordinal < step.passed)
            .collect();
        if released.is_empty() {
            return;
        }
        if !body["metadata"]["resourceVersion"].is_string() || !body["metadata"]["uid"].is_string() {
            self.violate(
                inner,
                format!("I5: {who} lowers the partition of {} without UID and version", call.name),
            );
        }
        let Some(rollout) = rollout.filter(|_| mode == Mode::Gates) else { return };
        let (name, check) = (text(&rollout["metadata"]["name"]), &rollout["spec"]["check"]);
        let needed = usize::try_from(check["successThreshold"].as_u64().unwrap_or(1)).unwrap_or(1);
        let period = Duration::from_secs(check["periodSeconds"].as_u64().unwrap_or(1).max(1));
        let limit = Duration::from_secs(check["query"]["timeoutSeconds"].as_u64().unwrap_or(10));
        // What is answered once the write has left changes nothing: it cannot be called back, however late it arrives.
        let decided = call.left;
        let of_step = |at: Duration| (step.from..=decided).contains(&at);
        let heard: Vec<_> =
            inner.heard.iter().filter(|heard| heard.rollout == name && of_step(heard.at)).collect();
        let refuted = heard
            .iter()
            .rev()
            .find(|heard| !heard.passed && *heard.who == *who && heard.at + UNDER_WAY < decided)
            .map(|heard| heard.at);
        let passes: Vec<_> =
            heard.iter().filter(|heard| heard.passed && refuted.is_none_or(|at| heard.at > at)).collect();
        let fresh = (2 * period).max(period + 2 * limit) + GATE_SLACK;
        let mut broken = Vec::new();
        let elsewhere = Self::disturbed_elsewhere(inner, &call.name, &set);
        if !elsewhere.is_empty() {
            broken.push(format!(
                "I3: {who} releases {released:?} of {} while {} of another zone are down by its own doing, or about to be",
                call.name,
                elsewhere.join(", ")
            ));
        }
        let serves = |ordinal: &&&u64| {
            inner.truth.pods.get(&format!("{}-{ordinal}", call.name)).is_some_and(Pod::serves)
        };
        let costs = released.iter().any(|ordinal| serves(&ordinal));
        if costs && inner.absence.is_blind() {
            broken.push(format!(
                "I14: {who} releases {released:?} of {} although nobody can see what there is",
                call.name
            ));
        }
        if costs && let Some(other) = inner.absence.long_elsewhere(now, &inner.truth, &call.name, &set) {
            broken.push(format!(
                "I14: {who} releases {released:?} of {} although {other} of another zone has long not served",
                call.name
            ));
        }
        if costs && inner.terms.is_unread(who, call) {
            broken.push(format!(
                "rule C: {who} releases {released:?} of {} before it has read pods in its term",
                call.name
            ));
        }
        if released.len() > 1 {
            broken.push(format!("I6: {who} lets {released:?} of {} pass one gate", call.name));
        }
        if passes.len() < needed {
            broken.push(format!(
                "I6: {who} lets {released:?} of {} pass after {} of {needed} passes in a row",
                call.name,
                passes.len()
            ));
        } else if passes.last().is_none_or(|last| last.at + fresh < decided) {
            broken.push(format!(
                "I6: {who} lets {released:?} of {} pass although the last answer is old",
                call.name
            ));
        }
        for words in broken {
            self.violate(inner, words);
        }
    }
}
