//! What stands between an object and its claims: the StatefulSets with which cf-operator has created them, and pods that were
//! created while admission did not name their claims.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sts_plus_api::keys;

use super::moves::{Moves, READ_AGAIN, Scene};
use super::wait::Wait;
use crate::plan::{Action, Ask, Kind, Object, object_of};
use crate::pod::{Phase, PodRow};
use crate::reason::Severity;

/// How old a pod without its claims is when it is deleted: where admission stays away, pods are not created in a loop.
const UNMUTATED_FOR: SignedDuration = SignedDuration::from_secs(15);

/// Such pods that are looked at in one pass.
const MAX_UNMUTATED: usize = 5;

/// Removes the sets of cf-operator that only hold claims. Their claims stay: none of them belongs to its set.
pub(super) fn remove(scene: &Scene<'_>, moves: &mut Moves) {
    if scene.spec.stable_claims.is_empty() || scene.world.unconfirmed.is_some() {
        return;
    }
    for helper in &scene.versions.helpers {
        let set = &helper.set;
        let is_owned_by_it = |claim: &&Arc<crate::statefulset::world::ClaimRow>| {
            claim.owners.iter().any(|owner| *owner.uid == *set.uid)
        };
        if let Some(claim) = scene.world.claims.iter().find(is_owned_by_it) {
            moves.waits.push(Wait::ClaimTaken { claim: Arc::from(&*claim.name) });
            continue;
        }
        moves.waits.push(Wait::Changing { set: set.name.to_string() });
        if set.deleting {
            continue;
        }
        let message =
            format!("Removed StatefulSet {}, which held claims for cf-operator. The claims stay.", set.name);
        moves.notes.push(scene.note(Severity::Normal, "ClaimsAdopted", message, object_of(set)));
        moves.writes.extend(Action::delete_helper(&scene.world.row, set));
    }
}

/// Deletes pods whose volumes still have the placeholder, once they have been there for a while: they cannot be scheduled, and
/// the ones that replace them may get their claims.
pub(super) fn replace_unmutated(scene: &Scene<'_>, moves: &mut Moves) {
    let pods = scene.versions.all.iter().flat_map(|version| &version.member.pods);
    for pod in pods.filter(|pod| is_unmutated(pod)).take(MAX_UNMUTATED) {
        moves.waits.push(Wait::NotMutated { pod: pod.name.clone() });
        if scene.world.unconfirmed.is_some() {
            continue;
        }
        let object =
            Object { kind: Kind::Pod, namespace: Arc::clone(&pod.namespace), name: pod.name.clone() };
        let Some(read) = scene.world.reads.get(&object) else {
            moves.asks.push(Ask::Read(object));
            moves.wake(scene.now.checked_add(READ_AGAIN).ok());
            continue;
        };
        let Some(live) = read.as_ref().filter(|live| text(live, "/metadata/uid") == Some(&*pod.uid)) else {
            continue;
        };
        let created: Option<Timestamp> =
            text(live, "/metadata/creationTimestamp").and_then(|created| created.parse().ok());
        let due = created.and_then(|created| created.checked_add(UNMUTATED_FOR).ok()).unwrap_or(scene.now);
        let is_scheduled = text(live, "/spec/nodeName").is_some_and(|node| !node.is_empty());
        let version = text(live, "/metadata/resourceVersion").unwrap_or_default();
        if is_scheduled || text(live, "/metadata/deletionTimestamp").is_some() {
            continue;
        }
        if due > scene.now {
            moves.wake(Some(due));
            continue;
        }
        moves.writes.push(Action::delete_unscheduled(&scene.world.row, pod, version));
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn is_unmutated(pod: &PodRow) -> bool {
    let has_placeholder = |claim: &str| claim.ends_with(keys::CLAIM_PLACEHOLDER);
    !pod.terminating
        && pod.phase == Phase::Pending
        && pod.label(keys::STABLE_CLAIMS) == Some(keys::STABLE_CLAIMS_ON)
        && pod.volumes.iter().any(|volume| volume.claim.as_deref().is_some_and(has_placeholder))
}
