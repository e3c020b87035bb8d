//! The claims of pods that were removed: those of a drained pod are deleted where the policy asks for it; those of a pod that is
//! removed without its hook are kept, whatever the set itself says.

use std::sync::Arc;

use serde_json::Value;
use sts_plus_api::scaling_policy::{ClaimName, PodRecord};

use super::live::Live;
use super::moves::{Moves, READ_AGAIN};
use super::record::{is_forced, later};
use super::situation::Scene;
use super::wait::Wait;
use crate::plan::{Action, Kind, Object};
use crate::reason::Severity;

/// The claims that a pod may have by its set, at most.
const MAX_CLAIMS: usize = 64;

const WHEN_SCALED: &str = "/spec/persistentVolumeClaimRetentionPolicy/whenScaled";
const DELETE: &str = "Delete";
const RETAIN: &str = "Retain";

/// Records the claims of a pod that is drained, by their UIDs; whether the status has them.
pub(super) fn remember(scene: &Scene<'_>, moves: &mut Moves, ordinal: u32) -> bool {
    let find = |records: &[PodRecord]| records.iter().find(|record| record.ordinal == ordinal).cloned();
    let Some(record) = find(&moves.status.leaving) else { return true };
    if !scene.deletes_claims || record.drained_time.is_none() {
        return true;
    }
    if find(&scene.world.row.status.leaving).is_some_and(|seen| seen.claims.is_some()) {
        return true;
    }
    let Some(found) = of_pod(scene, moves, &record.pod_name) else { return false };
    let mut leaving = moves.status.leaving.iter_mut();
    if let Some(record) = leaving.find(|record| record.ordinal == ordinal) {
        record.claims = Some(found);
    }
    false
}

/// The claims that a set has made for a pod: by the names of its claim templates and the labels that it gives them. `None` while
/// they are not known.
fn of_pod(scene: &Scene<'_>, moves: &mut Moves, pod: &str) -> Option<Vec<ClaimName>> {
    let set = moves.read_set(scene)?;
    let templates = set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).into_iter().flatten();
    let names = templates.filter_map(|template| template.pointer("/metadata/name").and_then(Value::as_str));
    let selected = set.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let mut claims = Vec::new();
    let mut is_known = true;
    for name in names.take(MAX_CLAIMS) {
        let name = format!("{name}-{pod}");
        let Ok(found) = moves.look_up(scene, object(scene, &name)) else {
            is_known = false;
            continue;
        };
        let labels = |claim: &Value| claim.pointer("/metadata/labels").cloned().unwrap_or_default();
        let is_of_set = |claim: &&Value| {
            let labels = labels(claim);
            selected.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        };
        if let Some(uid) = found.filter(is_of_set).and_then(uid_of) {
            claims.push(ClaimName { name, uid: uid.to_owned() });
        }
    }
    is_known.then_some(claims)
}

/// Deletes the claims of a pod that is gone; whether all are gone, or on their way out.
pub(super) fn delete(scene: &Scene<'_>, moves: &mut Moves, record: &PodRecord) -> bool {
    let Some(claims) = record.claims.as_ref().filter(|claims| !claims.is_empty()) else { return true };
    let pod = &record.pod_name;
    let named = || claims.iter().map(|claim| &*claim.name).collect::<Vec<_>>().join(", ");
    if scene.index(record.ordinal) < scene.wanted || !scene.deletes_claims {
        moves.note(
            scene,
            Severity::Normal,
            "ClaimsKept",
            format!("The claims of {pod} are kept: {}.", named()),
        );
        return true;
    }
    if scene.paused {
        moves.waits.push(Wait::Paused);
        return false;
    }
    // The cache may lack a pod that has come in the place of the one that is gone, before the replicas were lowered.
    let is_pod_gone = matches!(moves.read(scene, &record.pod_name), Live::Gone);
    let mut is_done = true;
    let mut deletions = Vec::new();
    for claim in claims {
        let object = object(scene, &claim.name);
        let Ok(found) = moves.look_up(scene, object.clone()) else {
            is_done = false;
            continue;
        };
        let is_it = |found: &&Value| uid_of(found) == Some(&*claim.uid) && !is_terminating(found);
        if let Some(found) = found.filter(is_it) {
            is_done = false;
            let version =
                found.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
            deletions.push(Action::delete_claim(&scene.world.row, object, (&claim.uid, version)));
        }
    }
    if !is_pod_gone {
        moves.wake(later(scene.now, READ_AGAIN));
        return false;
    }
    if is_done {
        let message = format!("{pod} was drained. Its claims are deleted: {}.", named());
        moves.note(scene, Severity::Normal, "ClaimsDeleted", message);
    } else if let Some(why) = scene.world.unconfirmed.as_ref().filter(|_| !deletions.is_empty()) {
        moves.waits.push(Wait::ViewUnconfirmed { why: Arc::clone(why) });
    } else {
        moves.deletions.extend(deletions);
        // Claims are not watched: what became of the deletion is looked at.
        moves.wake(later(scene.now, READ_AGAIN));
    }
    is_done
}

/// Keeps the claims of pods that are removed without their hook: a set with `whenScaled: Delete` gets `Retain` first. Returns
/// whether its controller has observed that.
pub(super) fn retain(scene: &Scene<'_>, moves: &mut Moves, drained: &[PodRecord]) -> bool {
    if scene.down.is_none() || !drained.iter().any(is_forced) {
        return true;
    }
    let Some(set) = moves.read_set(scene) else { return false };
    if set.pointer(WHEN_SCALED).and_then(Value::as_str) != Some(DELETE) {
        // The controller deletes what the spec said when it last looked.
        return scene.set().target().is_some();
    }
    if scene.world.row.status.claim_retention.is_none() {
        moves.status.claim_retention = Some(DELETE.to_owned());
        return false;
    }
    let message = format!(
        "Pods of {} are removed without their hook, so their claims are kept: whenScaled is {RETAIN} until they are gone.",
        scene.set().name
    );
    moves.note(scene, Severity::Warning, "ClaimsRetained", message);
    moves.set_write = Some(Action::retain_claims(scene.set(), RETAIN));
    false
}

/// Gives a set back what it said of the claims of removed pods, once the pods that were removed without their hook are gone.
pub(super) fn restore_retention(scene: &Scene<'_>, moves: &mut Moves) {
    let Some(before) = moves.status.claim_retention.clone() else { return };
    let is_needed = |records: &[PodRecord]| records.iter().any(is_forced);
    if is_needed(&moves.status.leaving)
        || is_needed(&scene.world.row.status.leaving)
        || moves.set_write.is_some()
    {
        return;
    }
    let Some(set) = moves.read_set(scene) else { return };
    if set.pointer(WHEN_SCALED).and_then(Value::as_str) == Some(RETAIN) {
        moves.set_write = Some(Action::retain_claims(scene.set(), &before));
    } else {
        moves.status.claim_retention = None;
    }
}

fn object(scene: &Scene<'_>, name: &str) -> Object {
    Object { kind: Kind::Claim, namespace: Arc::clone(&scene.set().namespace), name: name.into() }
}

fn uid_of(claim: &Value) -> Option<&str> {
    claim.pointer("/metadata/uid").and_then(Value::as_str)
}

fn is_terminating(claim: &Value) -> bool {
    claim.pointer("/metadata/deletionTimestamp").is_some()
}
