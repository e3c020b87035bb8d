//! Where an ExtendedStatefulSet must end once nothing goes wrong any more.

use std::collections::BTreeSet;

use super::cast::Extended;
use super::state::carried;
use crate::goal::{of_set, of_zone};
use crate::truth::{Truth, text};

/// What is missing; empty at the goal.
pub fn of_extended(truth: &Truth, extended: &Extended) -> Vec<String> {
    let name = extended.name;
    let Some((uid, known)) = truth.extended.named(name) else { return vec![format!("{name} is not there")] };
    let (object, mut missing) = (&known.object, Vec::new());
    let (spec, status) = (&object["spec"], &object["status"]);
    if status["observedGeneration"] != object["metadata"]["generation"] {
        missing.push(format!("{name} has not been looked at since its last change"));
    }
    if status["updateVersion"] != status["currentVersion"] || status["updateVersion"].is_null() {
        missing.push(format!(
            "{name} goes from version {} to {}",
            status["currentVersion"], status["updateVersion"]
        ));
    }
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    let ready = conditions().find(|one| one["type"] == "Ready").cloned().unwrap_or_default();
    if ready["status"] != "True" || ready["reason"] != "AsRequested" {
        missing.push(format!("{name} says {}: {}", ready["reason"], ready["message"]));
    }
    if let Some(stalled) = conditions().find(|one| one["type"] == "Stalled" || one["type"] == "Reconciling") {
        missing.push(format!("{name} is {}: {}", stalled["type"], stalled["message"]));
    }
    let listed: Vec<_> = status["versions"].as_array().into_iter().flatten().collect();
    if listed.len() != 1 || listed.iter().any(|version| version["number"] != status["updateVersion"]) {
        missing.push(format!("{name} lists the versions {}", status["versions"]));
    }
    let replicas = extended.allowed(spec["template"]["spec"]["replicas"].as_u64().unwrap_or(1));
    let zones: Vec<_> = spec["zones"].as_array().into_iter().flatten().map(text).collect();
    let image = &spec["template"]["spec"]["template"]["spec"]["containers"][0]["image"];
    let mut served = BTreeSet::new();
    let own = || truth.sets.iter().filter(|(_, set)| truth.extended.sets.get(&set.uid) == Some(uid));
    for (set_name, set) in own() {
        let pods: Vec<_> = truth.pods_of(set_name).collect();
        missing.extend(of_set(set_name, &set.object, &pods));
        if set.group.is_some() {
            missing.extend(of_zone(set_name, &set.object));
        }
        if set.replicas != replicas {
            missing.push(format!("{set_name} has {} replicas, not {replicas}", set.replicas));
        }
        if *image != *set.image {
            missing.push(format!("{set_name} is of {}, not of {image}", set.image));
        }
        let carried = carried(known.group, &set.object);
        let hash = carried.as_ref().map(|carried| carried.hash.clone()).unwrap_or_default();
        if status["updateHash"] != *hash {
            missing.push(format!("{set_name} has the content {hash}, not {}", status["updateHash"]));
        }
        let zone = carried.and_then(|carried| carried.zone).map(|(zone, _)| zone).unwrap_or_default();
        if !served.insert(zone.clone()) {
            missing.push(format!("the zone {zone} of {name} has more than one set"));
        }
    }
    let wanted = if zones.is_empty() { BTreeSet::from([String::new()]) } else { zones.into_iter().collect() };
    if served != wanted {
        missing.push(format!("{name} has sets in the zones {served:?}, not {wanted:?}"));
    }
    if extended.restarts && truth.extended.lags_behind_data(known) {
        missing.push(format!("{name} has no version of its newest data"));
    }
    let is_own = |owner: &String| truth.extended.sets.get(owner) == Some(uid);
    let active: Vec<_> = truth
        .pods
        .values()
        .filter(|pod| pod.active && is_own(&pod.owner))
        .map(|pod| pod.name.as_str())
        .collect();
    let recorded = status["activePod"]["name"].as_str();
    let wants_one = !extended.object["spec"]["activeProbe"].is_null();
    if active.len() != usize::from(wants_one) || recorded != active.first().copied() {
        missing.push(format!("{name} says that {recorded:?} is active, and {active:?} are"));
    }
    if let Some(stranger) = &extended.stranger
        && !truth.sets.contains_key(&text(&stranger["metadata"]["name"]))
    {
        missing.push(format!("{} is not there any more", stranger["metadata"]["name"]));
    }
    missing
}
