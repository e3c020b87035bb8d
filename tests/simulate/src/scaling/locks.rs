//! Locks: what keeps a drained pod from coming back, and claims that are deleted with their pods.

use std::time::Duration;

use serde_json::Value;

use super::state::{Life, Policy, State, life_of_record, records};
use crate::call::Call;
use crate::truth::{Pod, Truth};

/// The record by which a lock keeps an ordinal: its pod is drained.
fn kept(policy: &Policy, ordinal: u64) -> Option<&Value> {
    let status = &policy.object["status"];
    let is_locked = policy.object["spec"]["scaleDown"]["fence"] == "Lock" && !status["lock"].is_null();
    let is_it = |record: &&Value| {
        record["ordinal"] == ordinal && record["phase"] == "Drained" && record["drainedTime"].is_string()
    };
    records(status, "leaving").find(is_it).filter(|_| is_locked)
}

fn is_ready(state: &State, life: &Life, by: Duration) -> bool {
    state.talk(life).and_then(|talk| talk.ready).is_some_and(|ready| ready <= by)
}

/// Whether an operator may delete a pod because it is drained.
pub fn may_delete(truth: &Truth, call: &Call, pod: &Pod) -> bool {
    let policy = pod.set.as_ref().and_then(|set| truth.scaling.policy_of(set));
    let record = policy.zip(pod.ordinal()).and_then(|(policy, ordinal)| kept(policy, ordinal));
    let life = record.map(life_of_record).filter(|life| life.uid == pod.uid);
    pod.locked && life.is_some_and(|life| is_ready(&truth.scaling, &life, call.left))
}

/// What is wrong about a pod that has just changed: it serves in the place of one that is drained.
pub fn of_pod(truth: &Truth, state: &State, pod: &Pod) -> Option<String> {
    let set = truth.sets.get(pod.set.as_ref()?)?;
    let policy = state.policy_of(pod.set.as_ref()?)?;
    let record = kept(policy, pod.ordinal()?)?;
    let is_of_set = pod.owner == set.uid && policy.object["status"]["target"]["uid"] == *set.uid;
    let life = life_of_record(record);
    (is_of_set && pod.locked && pod.serves() && !life.uid.is_empty() && pod.uid != life.uid)
        .then(|| format!("lock: {} serves in the place of a drained pod", pod.name))
}

/// Whether the removal of an ordinal by lower replicas is that of a drained pod that is held by its lock, and what is wrong with
/// it. `None` where no lock keeps it.
pub fn of_removal(truth: &Truth, who: &str, call: &Call, ordinal: u64) -> Option<Result<(), String>> {
    let state = &truth.scaling;
    let record = kept(state.policy_of(&call.name)?, ordinal)?;
    let name = format!("{}-{ordinal}", call.name);
    let pod = truth.pods.get(&name);
    if pod.is_some_and(|pod| !pod.locked) {
        return None;
    }
    if !is_ready(state, &life_of_record(record), call.left) {
        return Some(Err(format!("drain: {who} removes {name}, whose hook has not succeeded")));
    }
    let runs = pod.is_some_and(|pod| pod.running && !pod.terminating);
    Some(if runs { Err(format!("lock: {who} lowers the replicas past {name}, which runs")) } else { Ok(()) })
}
