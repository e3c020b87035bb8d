//! What must never happen to ExtendedStatefulSets and what belongs to them.

use std::time::Duration;

use serde_json::Value;
use sts_plus_api::keys;

use super::state::{Carried, State, carried};
use crate::truth::{BEHIND, Pod, Set, Truth, text};

/// What is wrong after a set of an object was created or changed.
pub fn of_set(state: &mut State, truth: &Truth, name: &str, uid: &str, carried: &Carried) -> Vec<String> {
    let mut broken = Vec::new();
    let Some((owner, object)) = state.object_of(uid) else { return broken };
    let (owner, group, label) = (owner.clone(), object.group, object.name.clone());
    let others = truth.sets.iter().filter(|(other, _)| *other != name);
    for (other, set) in others.filter(|(_, set)| state.sets.get(&set.uid) == Some(&owner)) {
        let Some(theirs) = super::state::carried(group, &set.object) else { continue };
        if theirs.number == carried.number && theirs.hash != carried.hash {
            broken.push(format!(
                "version: {name} and {other} are of version {}, one with the content {} and one with {}",
                carried.number, carried.hash, theirs.hash
            ));
        }
        if theirs.hash == carried.hash && theirs.number != carried.number {
            broken.push(format!(
                "version: {name} and {other} have the content {}, one as version {} and one as {}",
                carried.hash, carried.number, theirs.number
            ));
        }
    }
    let states = state.states_of_data(&label);
    let Some(object) = state.objects.get_mut(&owner) else { return broken };
    if let Some((zone, index)) = &carried.zone {
        let known = object.indexes.entry(zone.clone()).or_insert_with(|| index.clone());
        if known != index {
            broken.push(format!("zone: {zone} of {label} had the index {known}, and {name} has {index}"));
        }
    }
    let (base, data) = carried.hash.split_once('.').unwrap_or((&carried.hash, ""));
    object.bases.insert(base.to_owned());
    if !data.is_empty() {
        object.data.insert(data.to_owned());
    }
    if object.bases.len() > object.templates.len() {
        broken.push(format!(
            "version: {name} is of content {base} although {label} has had only {} templates",
            object.templates.len()
        ));
    }
    if object.data.len() > states {
        broken.push(format!(
            "config: {name} is restarted for {data} although the data has had only {states} states"
        ));
    }
    broken
}

/// What is wrong after a pod got the label of the active one.
pub fn of_label(state: &State, truth: &Truth, pod: &Pod) -> Option<String> {
    let (owner, object) = state.object_of(&pod.owner)?;
    let is_other =
        |other: &&Pod| other.active && other.uid != pod.uid && state.sets.get(&other.owner) == Some(owner);
    let other = truth.pods.values().find(is_other)?;
    let state = if other.terminating { ", which is terminating," } else { "" };
    Some(format!(
        "active: {} becomes active while {}{state} still is, both of {}",
        pod.name, other.name, object.name
    ))
}

/// What is wrong after an operator has changed a set: another template of the same content restarts pods for nothing, and
/// the replicas obey the restrictions.
pub fn of_write(state: &State, who: &str, before: Option<&Set>, name: &str, after: &Set) -> Vec<String> {
    let mut broken = Vec::new();
    let Some((_, object)) = state.object_of(&after.uid) else { return broken };
    let template = |set: &Set| set.object["spec"]["template"].clone();
    if let Some(before) = before.filter(|before| before.uid == after.uid) {
        let hash =
            |set: &Set| carried(object.group, &set.object).map(|carried| (carried.hash, carried.number));
        if hash(before) == hash(after) && template(before) != template(after) {
            broken.push(format!("version: {who} changes the template of {name}, whose content is the same"));
        }
    }
    let limits = &object.object["spec"]["scaling"];
    let replicas = after.replicas;
    let is_within = limits["minReplicas"].as_u64().is_none_or(|min| replicas >= min)
        && limits["maxReplicas"].as_u64().is_none_or(|max| replicas <= max)
        && (limits["parity"] != "Odd" || replicas % 2 == 1);
    if !is_within && before.is_none_or(|before| before.replicas != replicas) {
        broken.push(format!("scaling: {who} gives {name} {replicas} replicas, which {limits} forbids"));
    }
    broken
}

/// What is wrong about the removal of a set by an operator, given as it was before.
pub fn of_removal(
    state: &State,
    now: Duration,
    truth: &Truth,
    who: &str,
    name: &str,
    set: &Set,
) -> Vec<String> {
    let mut broken = Vec::new();
    let owner = super::state::controller(&set.object);
    let object = owner.as_ref().and_then(|owner| Some((owner, state.objects.get(owner)?)));
    let is_labelled = |object: &super::state::Object| {
        set.object["metadata"]["labels"][object.group.key(keys::EXTENDED_NAME)] == *object.name
    };
    let Some((owner, object)) = object.filter(|(_, object)| is_labelled(object)) else {
        return vec![format!("owned: {who} deletes {name}, which belongs to somebody else")];
    };
    let Some(carried) = carried(object.group, &set.object).filter(|_| !object.gone && !set.deleting) else {
        return broken;
    };
    let zone = carried.zone.as_ref().map(|(zone, _)| zone.clone());
    let is_left =
        |zones: &Vec<String>| zone.as_ref().is_none_or(|zone| !zones.contains(zone)) && zone.is_some();
    if object.zones.within(now, BEHIND).any(is_left) {
        return broken;
    }
    let mut others = truth.sets.iter().filter_map(|(other, set)| {
        let is_own = other != name && state.sets.get(&set.uid) == Some(owner);
        let theirs = super::state::carried(object.group, &set.object).filter(|_| is_own)?;
        (theirs.zone == carried.zone).then_some((set, theirs))
    });
    let has_failed = object.failed.within(now, BEHIND).any(|hash| *hash == carried.hash);
    let rolls_back = object.object["spec"]["updateStrategy"]["onFailure"] == "Rollback";
    // A rollback may remove what serves only where another version of the zone serves as well.
    let has_served = |set: &Set| state.served.get(&set.uid).is_some_and(|at| *at + BEHIND >= now);
    let is_last =
        state.is_known_to_serve(now, truth, name) && !others.clone().any(|(other, _)| has_served(other));
    if has_failed && rolls_back && others.clone().next().is_some() && !is_last {
        return broken;
    }
    let is_wanted = |hash: &String| object.wanted.within(now, BEHIND).any(|wanted| wanted == hash);
    let succeeds = others.any(|(other, theirs)| {
        let met = state.met.get(&other.uid).is_some_and(|met| *met + BEHIND >= now);
        met && (theirs.number > carried.number || is_wanted(&theirs.hash))
    });
    if !succeeds {
        broken.push(format!(
            "I7: {who} deletes {name} and no other version of its zone has met the promotion rule"
        ));
    }
    broken
}

/// Whether a deletion carries what it was decided on.
pub fn is_bound(body: &Value) -> bool {
    let conditions = &body["preconditions"];
    !text(&conditions["uid"]).is_empty() && !text(&conditions["resourceVersion"]).is_empty()
}
