//! Where sets with a policy must end, once nothing goes wrong any more.

use super::cast::Scaled;
use super::state::announced;
use crate::goal::{of_set, of_zone};
use crate::truth::{Pod, Truth};

/// What is missing; empty at the goal.
pub fn of_scaled(truth: &Truth, scaled: &Scaled) -> Vec<String> {
    let name = scaled.name;
    let Some(set) = truth.sets.get(name) else { return vec![format!("{name} is not there")] };
    let Some(policy) = truth.scaling.policies.get(name) else {
        return vec![format!("the policy {name} is not there")];
    };
    let pods: Vec<_> = truth.pods_of(name).collect();
    let mut missing = of_set(name, &set.object, &pods);
    if scaled.is_zone {
        missing.extend(of_zone(name, &set.object));
    }
    let (spec, status) = (&policy.object["spec"], &policy.object["status"]);
    if spec["replicas"] != set.replicas {
        missing.push(format!("{name} has {} replicas, not {}", set.replicas, spec["replicas"]));
    }
    for count in ["replicas", "readyReplicas", "desiredReplicas", "heldReplicas"] {
        if status[count] != spec["replicas"] {
            missing
                .push(format!("the policy {name} says {count} {}, not {}", status[count], spec["replicas"]));
        }
    }
    for list in ["leaving", "joining"] {
        if !status[list].is_null() {
            missing.push(format!("the policy {name} says {list} {}", status[list]));
        }
    }
    if !announced(&set.object).is_empty() {
        missing.push(format!("{name} says that {:?} leave", announced(&set.object)));
    }
    if scaled.is_locked() && status["lock"]["templateGeneration"] != set.object["metadata"]["generation"] {
        missing.push(format!("the policy {name} says of its lock {}", status["lock"]));
    }
    if scaled.is_locked() && !pods.iter().all(|pod| pod.locked) {
        missing.push(format!("{name} has pods without the lock"));
    }
    if status["observedGeneration"] != policy.object["metadata"]["generation"] {
        missing.push(format!("the policy {name} has not been looked at since its last change"));
    }
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.clone().find(|one| one["type"] == "Ready").cloned().unwrap_or_default();
    if ready["status"] != "True" || ready["reason"] != "AsRequested" {
        missing.push(format!("the policy {name} says {}: {}", ready["reason"], ready["message"]));
    }
    for open in conditions.filter(|one| one["type"] == "Stalled" || one["type"] == "Reconciling") {
        missing.push(format!("the policy {name} is {}: {}", open["type"], open["message"]));
    }
    missing.extend(pods.iter().filter_map(|pod| left_alone(truth, pod)));
    missing
}

/// A pod that was called and stays.
fn left_alone(truth: &Truth, pod: &Pod) -> Option<String> {
    let life = truth.scaling.life(&pod.name, &pod.uid)?;
    let talk = truth.scaling.talk(life)?;
    (talk.leaves && !talk.is_excused)
        .then(|| format!("{} was called, stays, and was not called back", pod.name))
}
