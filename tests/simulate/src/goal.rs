//! What a run must come to once nothing goes wrong any more.

use std::time::Duration;

use serde_json::Value;
use sts_plus_api::keys;

use crate::cast::{Cast, is_bad};
use crate::endings::{Frozen, Left};
use crate::extended::goal::of_extended;
use crate::scaling::goal::of_scaled;
use crate::truth::{Pod, Truth, text};

/// What is missing; empty at the goal.
pub fn missing(truth: &Truth, cast: &Cast) -> Vec<String> {
    let mut missing = Vec::new();
    for name in cast.names() {
        match truth.sets.get(&name) {
            None => missing.push(format!("{name} is not there")),
            Some(set) => {
                let pods: Vec<_> = truth.pods_of(&name).collect();
                missing.extend(of_set(&name, &set.object, &pods));
                if cast.zones.contains(&name) {
                    missing.extend(of_zone(&name, &set.object));
                }
            }
        }
    }
    // One that has lost its owner before its set went, and for good, is nobody's to adopt.
    let could_be_adopted =
        |pod: &Pod| pod.name.rsplit_once('-').is_some_and(|(set, _)| truth.sets.contains_key(set));
    let strangers = truth.pods.values().filter(|pod| pod.set.is_none() && could_be_adopted(pod));
    missing.extend(strangers.map(|pod| format!("{} belongs to nobody", pod.name)));
    for name in cast.gated() {
        let rollout = truth.rollouts.get(&name).cloned().unwrap_or_default();
        missing.extend(of_rollout(truth, &name, &rollout, &name));
    }
    for object in &cast.extended {
        missing.extend(of_extended(truth, object));
    }
    for scaled in &cast.scaled {
        missing.extend(of_scaled(truth, scaled));
    }
    missing
}

/// What is missing after a bad version has come for what has gates; empty once all of it has been taken back.
pub fn not_taken_back(truth: &Truth, cast: &Cast) -> Vec<String> {
    let gated = cast.gated();
    let mut missing: Vec<_> = gated.iter().flat_map(|name| not_back(truth, name)).collect();
    // The others have nothing to do with it.
    let others: Vec<_> = cast.names().into_iter().filter(|name| !gated.contains(name)).collect();
    missing.extend(self::missing(truth, &cast.only(&others)));
    missing
}

/// What is missing after rollouts were deleted or have got another target; empty once nothing is left of them on their former
/// sets, and every pod of those is of the last version.
pub fn not_left(truth: &Truth, cast: &Cast, left: &[Left]) -> Vec<String> {
    let mut missing = Vec::new();
    for Left { set: name, target } in left {
        match (truth.rollouts.get(name), target) {
            (Some(_), None) => missing.push(format!("the rollout {name} is still there")),
            (None, Some(_)) => missing.push(format!("the rollout {name} is not there")),
            (Some(rollout), Some(target)) => missing.extend(of_rollout(truth, name, rollout, target)),
            (None, None) => {}
        }
        let set = truth.sets.get(name).map(|set| set.object.clone()).unwrap_or_default();
        let mark = &set["metadata"]["annotations"][keys::PHASED_ROLLOUT];
        let partition = &set["spec"]["updateStrategy"]["rollingUpdate"]["partition"];
        if !mark.is_null() || partition.as_u64().unwrap_or(0) != 0 {
            missing
                .push(format!("{name} was released and keeps the mark {mark} and the partition {partition}"));
        }
    }
    let sets = Cast { rollouts: Vec::new(), ..cast.clone() };
    missing.extend(self::missing(truth, &sets));
    missing
}

/// The sets whose last change has not been observed within this time, once nothing goes wrong any more.
pub fn unobserved(truth: &Truth, now: Duration, chaos: Duration, within: Duration) -> Vec<String> {
    let late = truth.sets.iter().filter(|(_, set)| {
        let (observed, generation) =
            (&set.object["status"]["observedGeneration"], &set.object["metadata"]["generation"]);
        observed != generation && set.generation.since().max(chaos) + within < now
    });
    let seconds = within.as_secs();
    late.map(|(name, _)| format!("observed: {name} was changed over {seconds} s ago and is not observed"))
        .collect()
}

/// What is missing for a set that is frozen: its partition is what it was, and every pod serves.
pub fn not_held(truth: &Truth, frozen: &Frozen) -> Vec<String> {
    let Frozen { name, partition, .. } = frozen;
    let mut missing = Vec::new();
    let Some(set) = truth.sets.get(name) else { return vec![format!("{name} is not there")] };
    if set.partition != Some(*partition) {
        missing.push(format!("{name} is frozen at {partition} and has the partition {:?}", set.partition));
    }
    let wanted = (0..set.replicas).map(|ordinal| format!("{name}-{ordinal}"));
    let down = wanted.filter(|pod| !truth.pods.get(pod).is_some_and(Pod::serves));
    missing.extend(down.map(|pod| format!("{pod} does not serve")));
    missing
}

fn not_back(truth: &Truth, name: &str) -> Vec<String> {
    let mut missing = Vec::new();
    let set = truth.sets.get(name).map(|set| set.object.clone()).unwrap_or_default();
    let current = text(&set["status"]["currentRevision"]);
    if set["status"]["observedGeneration"] != set["metadata"]["generation"] {
        missing.push(format!("{name} has not been looked at since its last change"));
    }
    for ordinal in 0..set["spec"]["replicas"].as_u64().unwrap_or(1) {
        let wanted = format!("{name}-{ordinal}");
        if !truth
            .pods
            .get(&wanted)
            .is_some_and(|pod| pod.serves() && pod.revision == current && !is_bad(&pod.image))
        {
            missing.push(format!("{wanted} does not serve as {current}"));
        }
    }
    let status = truth.rollouts.get(name).map(|rollout| rollout["status"].clone()).unwrap_or_default();
    if status["phase"] != "RolledBack" {
        missing.push(format!(
            "{name} is in phase {}, not RolledBack, and waits for {}",
            status["phase"], status["waitingFor"]
        ));
    }
    missing
}

pub(crate) fn of_set(name: &str, set: &Value, pods: &[&Pod]) -> Vec<String> {
    let mut missing = Vec::new();
    let (spec, status) = (&set["spec"], &set["status"]);
    let (replicas, update) = (spec["replicas"].as_u64().unwrap_or(1), text(&status["updateRevision"]));
    let image = text(&spec["template"]["spec"]["containers"][0]["image"]);
    for ordinal in 0..replicas {
        let wanted = format!("{name}-{ordinal}");
        match pods.iter().find(|pod| pod.name == wanted) {
            None => missing.push(format!("{wanted} is not there")),
            Some(pod) if !pod.serves() => missing.push(format!("{wanted} does not serve")),
            Some(pod) if pod.image != image || pod.revision != update => {
                missing.push(format!(
                    "{wanted} is of {} and {}, not of {image} and {update}",
                    pod.image, pod.revision
                ));
            }
            Some(_) => {}
        }
    }
    if pods.len() as u64 > replicas {
        missing.push(format!("{name} has {} pods, not {replicas}", pods.len()));
    }
    let counted = ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas"];
    for count in counted {
        if status[count].as_u64().unwrap_or(0) != replicas {
            missing.push(format!("{name} says {count} {}, not {replicas}", status[count]));
        }
    }
    if status["currentRevision"] != status["updateRevision"] {
        missing.push(format!("{name} says that it goes from {} to {update}", status["currentRevision"]));
    }
    if status["observedGeneration"] != set["metadata"]["generation"] {
        missing.push(format!("{name} has not been looked at since its last change"));
    }
    missing
}

pub(crate) fn of_zone(name: &str, set: &Value) -> Option<String> {
    let told = text(&set["metadata"]["annotations"][keys::ROLLOUT_STATUS]);
    let told: Value = serde_json::from_str(&told).unwrap_or_default();
    (told["state"] != "UpToDate").then(|| format!("{name} says {told}, not UpToDate"))
}

/// A rollout at rest says so, and holds its set: a version that comes next passes its gates.
fn of_rollout(truth: &Truth, name: &str, rollout: &Value, target: &str) -> Vec<String> {
    let status = &rollout["status"];
    let mut missing = Vec::new();
    let known = truth.sets.get(target);
    let set = known.map(|set| set.object.clone()).unwrap_or_default();
    if let Some(partition) = known.filter(|set| set.partition < Some(set.replicas)).map(|set| set.partition) {
        missing.push(format!("{target} is not held: its partition is {partition:?}"));
    }
    if set["metadata"]["annotations"][keys::PHASED_ROLLOUT] != *name {
        missing.push(format!("{target} is not marked by {name}"));
    }
    if status["phase"] != "Updated" {
        missing.push(format!(
            "{name} is in phase {}, not Updated, and waits for {}",
            status["phase"], status["waitingFor"]
        ));
    }
    if status["updateRevision"] != set["status"]["updateRevision"] {
        missing.push(format!("{name} speaks of {}", status["updateRevision"]));
    }
    missing
}
