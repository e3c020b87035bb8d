//! Which volume a claim gets: a pure decision from the claim, its class and the volumes that are free.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::affinity::{self, Term};
use crate::chance;
use crate::machinery::object::{self, text};
use crate::machinery::schema::quantity::amount;
use crate::machinery::selector::Selector;
use crate::machinery::stored::Stored;
use crate::volumes::{BIND_COMPLETED, NewVolume};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// What a class names that provisions nothing.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// What is to be done for a claim that has no volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Choice {
    /// Bind it to this volume.
    Bind(String),
    /// Make a volume, which nodes of these terms can reach; without terms, all.
    Provision(Option<Value>),
    /// Nothing for now; why, as reason and message of an event.
    Wait(&'static str, String),
}

/// Whether a claim says that it has a volume.
pub(super) fn is_bound(claim: &Value) -> bool {
    !text(claim, "/spec/volumeName").is_empty() && annotation(claim, BIND_COMPLETED).is_some()
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// Whether a class leaves the choice to the first pod.
pub(super) fn waits_for_pod(class: Option<&Value>) -> bool {
    class.is_some_and(|class| text(class, "/volumeBindingMode") == "WaitForFirstConsumer")
}

fn storage(object: &Value, pointer: &str) -> i128 {
    amount(text(object, pointer)).unwrap_or_default()
}

/// How much a claim asks for.
pub(super) fn asked(claim: &Value) -> i128 {
    storage(claim, "/spec/resources/requests/storage")
}

/// How much a volume holds.
pub(super) fn capacity_of_volume(volume: &Value) -> i128 {
    storage(volume, "/spec/capacity/storage")
}

/// Whether a volume is reserved for a claim: by UID, or by name as its administrator writes it.
pub(super) fn is_reserved_for(volume: &Value, claim: &Value) -> bool {
    let named = |field: &str| text(volume, &format!("/spec/claimRef/{field}"));
    !named("name").is_empty()
        && named("name") == object::name(claim)
        && named("namespace") == object::namespace(claim)
        && (named("uid").is_empty() || named("uid") == object::uid(claim))
}

fn is_free(volume: &Value) -> bool {
    text(volume, "/spec/claimRef/name").is_empty() && !object::is_deleting(volume)
}

/// Whether a volume could serve a claim, free or not.
fn suits(volume: &Value, claim: &Value) -> bool {
    let modes = object::list(volume, "/spec/accessModes");
    let selector = claim.pointer("/spec/selector").filter(|selector| selector.is_object());
    let mode = |of: &Value| match text(of, "/spec/volumeMode") {
        "" => "Filesystem".to_owned(),
        mode => mode.to_owned(),
    };
    text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
        && mode(volume) == mode(claim)
        && object::list(claim, "/spec/accessModes").iter().all(|mode| modes.contains(mode))
        && capacity_of_volume(volume) >= asked(claim)
        && selector.and_then(Selector::from_json).is_none_or(|selector| selector.matches(volume))
}

/// The terms that a node must meet to reach a volume.
pub(super) fn terms(volume: &Value) -> Option<Vec<Term>> {
    Term::read(volume, "/spec/nodeAffinity/required")
}

fn is_reachable(volume: &Value, node: Option<&Value>) -> bool {
    let Some(node) = node else { return true };
    terms(volume).is_none_or(|terms| terms.iter().any(|term| term.holds_for(node)))
}

/// Where a class may make a volume: a list of terms, or everywhere.
fn allowed(class: &Value) -> Option<Vec<Term>> {
    let topologies = object::list(class, "/allowedTopologies");
    let terms = topologies.iter().map(|one| requirements(one, None));
    let terms: Value = terms.collect();
    (!topologies.is_empty()).then(|| serde_json::from_value(terms).unwrap_or_default())
}

/// The requirements of an allowed topology as a term, of several values only the `pick`th.
fn requirements(topology: &Value, pick: Option<u64>) -> Value {
    let labels = object::list(topology, "/matchLabelExpressions").iter().map(|label| {
        let values = object::list(label, "/values");
        let turn = pick.and_then(|pick| pick.checked_rem(values.len() as u64));
        let picked = turn.and_then(|turn| values.get(usize::try_from(turn).ok()?));
        let values = picked.map_or_else(|| json!(values), |value| json!([value]));
        json!({ "key": text(label, "/key"), "operator": "In", "values": values })
    });
    json!({ "matchExpressions": labels.collect::<Value>() })
}

/// What to do for a claim without a volume. `volumes` are those that are free or reserved for it; `node` is where its
/// first pod goes, if that is known.
pub(super) fn choose(
    claim: &Value,
    class: Option<&Value>,
    volumes: &[Arc<Stored>],
    node: Option<&Value>,
) -> Choice {
    let wanted = text(claim, "/spec/volumeName");
    if !wanted.is_empty() {
        return match volumes.iter().find(|volume| object::name(volume) == wanted) {
            None => Choice::Wait(
                "FailedBinding",
                format!("volume {wanted:?} not found or bound to another claim"),
            ),
            Some(volume) if suits(volume, claim) => Choice::Bind(object::name(volume).to_owned()),
            Some(_) => {
                let why = format!("Cannot bind to requested volume {wanted:?}: it does not fit the claim");
                Choice::Wait("VolumeMismatch", why)
            }
        };
    }
    if let Some(volume) = volumes.iter().find(|volume| is_reserved_for(volume, claim)) {
        return Choice::Bind(object::name(volume).to_owned());
    }
    if waits_for_pod(class) && node.is_none() {
        let why = "waiting for first consumer to be created before binding";
        return Choice::Wait("WaitForFirstConsumer", why.to_owned());
    }
    let fitting = volumes
        .iter()
        .filter(|volume| is_free(volume) && suits(volume, claim) && is_reachable(volume, node))
        .min_by_key(|volume| (capacity_of_volume(volume), object::name(volume).to_owned()));
    if let Some(volume) = fitting {
        return Choice::Bind(object::name(volume).to_owned());
    }
    provision(claim, class, node)
}

fn provision(claim: &Value, class: Option<&Value>, node: Option<&Value>) -> Choice {
    let name = text(claim, "/spec/storageClassName");
    match class {
        None if name.is_empty() => {
            let why = "no persistent volumes available for this claim and no storage class is set";
            Choice::Wait("FailedBinding", why.to_owned())
        }
        None => Choice::Wait("ProvisioningFailed", format!("storageclass.storage.k8s.io {name:?} not found")),
        Some(class) if text(class, "/provisioner") == NO_PROVISIONER => {
            let why = "no volume plugin matched name: kubernetes.io/no-provisioner";
            Choice::Wait("ProvisioningFailed", why.to_owned())
        }
        Some(class) => Choice::Provision(topology(claim, class, node)),
    }
}

/// The terms of a new volume: the zone of its pod's node, or one of those that its class allows.
fn topology(claim: &Value, class: &Value, node: Option<&Value>) -> Option<Value> {
    let term = if let Some(node) = node {
        let zone = affinity::label(node, ZONE)?;
        json!({ "matchExpressions": [{ "key": ZONE, "operator": "In", "values": [zone] }] })
    } else {
        // Neighbours of a set go to neighbouring zones, as the built-in provisioners did it.
        let name = object::name(claim);
        let (set, ordinal) = crate::nodes::split_ordinal(name).unwrap_or((name, 0));
        let turn = chance::draw(0, set).wrapping_add(u64::from(ordinal));
        requirements(object::list(class, "/allowedTopologies").first()?, Some(turn))
    };
    Some(json!([term]))
}

/// Where a pod may go whose claim is still open: next to a volume that suits, or where one can be made.
pub(super) fn places(claim: &Value, class: &Value, volumes: &[Arc<Stored>]) -> Vec<Option<Vec<Term>>> {
    let suiting = volumes.iter().filter(|volume| is_free(volume) && suits(volume, claim));
    let mut places: Vec<Option<Vec<Term>>> = suiting.map(|volume| terms(volume)).collect();
    if text(class, "/provisioner") != NO_PROVISIONER {
        places.push(allowed(class));
    }
    places
}

/// The volume that a class makes for a claim.
pub(super) fn new_volume(claim: &Value, class: &Value, terms: Option<Value>) -> Value {
    let volume = NewVolume {
        uid: object::uid(claim),
        namespace: object::namespace(claim),
        claim: object::name(claim),
        storage: Some(text(claim, "/spec/resources/requests/storage")),
        access_modes: claim.pointer("/spec/accessModes").cloned().unwrap_or_default(),
        volume_mode: claim.pointer("/spec/volumeMode").and_then(Value::as_str),
        class: Some(object::name(class)),
        provisioner: text(class, "/provisioner"),
        reclaim: text(class, "/reclaimPolicy"),
    };
    let mut volume = volume.object();
    let spec = object::child(&mut volume, "spec");
    if let Some(terms) = terms {
        spec.insert("nodeAffinity".into(), json!({ "required": { "nodeSelectorTerms": terms } }));
    }
    if let Some(options) = class.get("mountOptions") {
        spec.insert("mountOptions".into(), options.clone());
    }
    object::metadata(&mut volume).insert("finalizers".into(), json!([crate::kinds::VOLUME_PROTECTION]));
    volume
}

/// Puts a value into an object's annotations.
pub(super) fn annotate(object: &mut Value, key: &str, value: &str) {
    let annotations: &mut Map<String, Value> = object::entry(object::metadata(object), "annotations");
    annotations.insert(key.to_owned(), value.into());
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
