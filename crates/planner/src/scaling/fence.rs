//! The lock of a set: its ConfigMap, and its part of the pod template.
//!
//! Added in this order: the ConfigMap, the template, which rolls the pods once. Removed the other way round, and the ConfigMap
//! last, when no pod mounts it any more. Pods that have begun to leave without the lock, or with it, finish as they have begun.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::{LockStatus, PodRecord, RecordPhase};

use super::lock;
use super::moves::Moves;
use super::record::{is_under_way, later};
use super::situation::{Ending, Scene};
use super::template::{self, Lock};
use super::wait::{Wait, denied_for};
use crate::contest;
use crate::disruption::Gatekeeper;
use crate::plan::{Action, Ask};
use crate::reason::Severity;

/// How soon a ConfigMap is looked at again that has the name of the lock and is not ours: its owner may be about to be
/// collected.
const FOREIGN_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// What a refusal names that is about the restart rule: a server that does not know it refuses it.
const RULE_FIELD: &str = "restartPolicyRules";

/// Who is said to have changed a template where that cannot be told.
const UNKNOWN_MANAGER: &str = "somebody";

/// Adds the lock to the template, restores it there, or removes it.
pub(super) fn fence(scene: &Scene<'_>, moves: &mut Moves) {
    let is_busy = moves.status.leaving.iter().any(is_under_way);
    match moves.status.lock.clone() {
        None if scene.wants_lock() => begin(scene, moves, is_busy),
        None => {}
        Some(known) if scene.wants_lock() && known.removing => begin(scene, moves, is_busy),
        Some(known) if scene.wants_lock() => keep(scene, moves, known),
        Some(_) if is_busy => {}
        Some(known) => remove(scene, moves, known),
    }
}

/// Whether pods may begin to leave as far as the lock is concerned.
pub(super) fn may_begin(scene: &Scene<'_>) -> bool {
    !scene.wants_lock() || (scene.is_lock_in_place() && scene.lock().is_some())
}

fn begin(scene: &Scene<'_>, moves: &mut Moves, is_busy: bool) {
    if is_busy {
        return;
    }
    if scene.paused {
        moves.waits.push(Wait::Paused);
        return;
    }
    if scene.world.lock_image.is_none() {
        moves.waits.push(Wait::LockUnavailable);
        return;
    }
    moves.status.lock =
        Some(LockStatus { config_map: lock::name_of(&scene.set().name), ..LockStatus::default() });
    moves.waits.push(Wait::AddingLock { set: Arc::clone(&scene.set().name) });
}

/// Keeps the lock in the template.
fn keep(scene: &Scene<'_>, moves: &mut Moves, mut known: LockStatus) {
    let recent = contest::recent(known.contest.as_ref(), scene.now);
    if let Some(contest) = &recent {
        moves.wake(contest::forgotten_at(contest.last_time));
    }
    known.contest = recent;
    moves.status.lock = Some(known.clone());
    let generation = scene.set().generation;
    if known.template_generation == Some(generation) {
        return;
    }
    let was_there = known.template_generation.is_some();
    let set = Arc::clone(&scene.set().name);
    if scene.lock().is_none() {
        // Pods that mount a ConfigMap which does not exist do not start.
        moves.waits.push(Wait::AddingLock { set });
        return;
    }
    let Some(found) = moves.read_set(scene) else {
        if !was_there {
            moves.waits.push(Wait::AddingLock { set });
        }
        return;
    };
    if template::has_lock(found, &known.config_map) {
        moves.status.lock = Some(LockStatus { template_generation: Some(generation), ..known });
        return;
    }
    if scene.paused {
        moves.waits.push(Wait::Paused);
        return;
    }
    let Some(image) = scene.world.lock_image.clone() else {
        moves.waits.push(Wait::LockUnavailable);
        return;
    };
    if let Some((contest, until)) =
        known.contest.as_ref().and_then(|contest| Some((contest, contest::rests_until(contest, scene.now)?)))
    {
        moves.wake(until);
        moves.waits.push(Wait::LockContested { manager: contest.manager.clone(), until });
        return;
    }
    // A template that has lost its lock under a pod that leaves is restored whatever others do: nothing else would hold the
    // pod that comes in its place.
    if moves.set_write.is_some() || (!was_there && !may_roll(scene, moves)) {
        return;
    }
    let Some(restarts_all) = declares_restarts(scene, moves) else { return };
    let lock = Lock { image: &image, config_map: &known.config_map, restarts_all };
    let body = template::with_lock(found, &lock);
    moves.set_write = Some(Action::change_template(scene.set(), body));
    if was_there {
        let manager = writer(found).unwrap_or_else(|| UNKNOWN_MANAGER.to_owned());
        let message = format!(
            "{manager} has removed the lock from the pod template of {set}, and it is restored. Set scaleDown.fence of the ScalingPolicy to None to remove it."
        );
        moves.note(scene, Severity::Warning, "LockRestored", message);
        let contest = contest::again(known.contest.as_ref(), manager, scene.now);
        moves.wake(contest::forgotten_at(scene.now));
        moves.status.lock = Some(LockStatus { contest: Some(contest), ..known });
    } else {
        let message =
            format!("The lock is added to the pod template of {set}, which replaces each of its pods once.");
        moves.note(scene, Severity::Normal, "LockAdded", message);
    }
    moves.waits.push(Wait::AddingLock { set });
}

/// Removes the lock from the template, and the ConfigMap when no pod mounts it any more.
fn remove(scene: &Scene<'_>, moves: &mut Moves, known: LockStatus) {
    let (set, generation) = (scene.set(), scene.set().generation);
    if !known.removing {
        let status = LockStatus { removing: true, template_generation: None, contest: None, ..known };
        moves.status.lock = Some(status);
        moves.waits.push(Wait::RemovingLock { set: Arc::clone(&set.name), pods: String::new() });
        return;
    }
    if known.template_generation != Some(generation) {
        moves.waits.push(Wait::RemovingLock { set: Arc::clone(&set.name), pods: String::new() });
        let Some(found) = moves.read_set(scene) else { return };
        if template::is_free(found) {
            moves.status.lock = Some(LockStatus { template_generation: Some(generation), ..known });
            return;
        }
        if scene.paused {
            moves.waits.push(Wait::Paused);
            return;
        }
        if moves.set_write.is_some() || !may_roll(scene, moves) {
            return;
        }
        moves.set_write = Some(Action::change_template(set, template::without_lock(found)));
        let message = format!(
            "The lock is removed from the pod template of {}, which replaces each of its pods once.",
            set.name
        );
        moves.note(scene, Severity::Normal, "LockRemoved", message);
        return;
    }
    let target = set.target();
    let is_former = |pod: &&Arc<crate::pod::PodRow>| target.is_none() || pod.revision.as_deref() != target;
    let former: Vec<_> = scene.member.pods.iter().filter(is_former).map(|pod| pod.name.to_string()).collect();
    if target.is_none() || !former.is_empty() {
        moves.waits.push(Wait::RemovingLock { set: Arc::clone(&set.name), pods: first_of(&former) });
        return;
    }
    match scene.world.locks.iter().find(|lock| *lock.name == *known.config_map) {
        None => moves.status.lock = None,
        Some(lock) if lock.terminating => {}
        Some(lock) => moves.lock_write = Action::delete_lock(&scene.world.row, lock),
    }
    if moves.status.lock.is_some() {
        moves.waits.push(Wait::RemovingLock { set: Arc::clone(&set.name), pods: String::new() });
    }
}

/// The first few names, in words.
fn first_of(names: &[String]) -> String {
    let shown = names.iter().take(crate::health::NAMED_PODS).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(crate::health::NAMED_PODS) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether the set may be rolled now: as for a pod that is to leave, no other zone of its group may be disturbed.
fn may_roll(scene: &Scene<'_>, moves: &mut Moves) -> bool {
    if let Some(why) = &scene.world.unconfirmed {
        moves.waits.push(Wait::ViewUnconfirmed { why: Arc::clone(why) });
        return false;
    }
    let Some(pod) = scene.member.pods.iter().find(|pod| scene.member.wanted_ordinal(pod).is_some()) else {
        return true;
    };
    let domain = scene.domain();
    let Err(denial) = Gatekeeper::new(&domain).ask_leave(&scene.set().name, pod, u32::MAX) else {
        return true;
    };
    moves.denied(&denial);
    moves.waits.push(Wait::LockHeld { set: Arc::clone(&scene.set().name), reason: denied_for(&denial) });
    false
}

/// Whether the rule is used by which a container that exits restarts all of its pod: where each node declares it and the server
/// has not just refused it. `None` where that is not known yet.
fn declares_restarts(scene: &Scene<'_>, moves: &mut Moves) -> Option<bool> {
    let is_refused = |refusal: &crate::reason::Refusal| refusal.message.contains(RULE_FIELD);
    if scene.world.refused.as_ref().is_some_and(is_refused) {
        return Some(false);
    }
    if scene.world.declared.is_none() {
        if scene.world.hooked.is_empty() {
            moves.asks.push(Ask::Declared(keys::RESTARTS_ALL_CONTAINERS));
        }
        moves.wake(scene.now);
    }
    scene.world.declared
}

/// Who has last written the spec of a set, other than us.
fn writer(set: &Value) -> Option<String> {
    let entries = set.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let is_foreign = |entry: &&Value| {
        text(entry, "manager").as_deref() != Some(keys::MANAGER_SCALING) && entry.get("subresource").is_none()
    };
    let last = entries.iter().filter(is_foreign).max_by_key(|entry| text(entry, "time"));
    last.and_then(|entry| text(entry, "manager"))
}

/// Makes the keys of the lock those of the ordinals that may run.
pub(super) fn allow(scene: &Scene<'_>, moves: &mut Moves) {
    let Some(known) = moves.status.lock.clone() else { return };
    if scene.world.row.status.lock.is_none() || moves.lock_write.is_some() {
        // First remembered, then created.
        return;
    }
    let policy = &scene.world.row;
    let wanted = keys_of(scene, &moves.status.leaving);
    if let Some(row) = scene.lock() {
        if row.keys != wanted {
            let seen = (&*row.uid, &*row.resource_version);
            moves.lock_write = Some(lock::replace(policy, &known.config_map, seen, &wanted));
        }
        return;
    }
    if known.removing || scene.world.locks.iter().any(|lock| *lock.name == *known.config_map) {
        return;
    }
    let Ok(found) = moves.look_up(scene, lock::object(&policy.namespace, &known.config_map)) else {
        return;
    };
    let text =
        |found: &Value, key: &str| found.pointer(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    moves.lock_write = match found {
        None => Some(lock::create(policy, &known.config_map, &wanted)),
        Some(found) if lock::is_of(found, policy) => {
            let (uid, version) = (text(found, "/metadata/uid"), text(found, "/metadata/resourceVersion"));
            Some(lock::replace(policy, &known.config_map, (&uid, &version), &wanted))
        }
        Some(_) => {
            moves.waits.push(Wait::LockForeign { config_map: known.config_map.clone() });
            moves.wake(later(scene.now, FOREIGN_AGAIN));
            None
        }
    };
}

/// The ordinals that may run: all that the set has, or is about to get, without those that leave.
fn keys_of(scene: &Scene<'_>, leaving: &[PodRecord]) -> BTreeSet<Box<str>> {
    let is_raised = scene.ending == Ending::None && !scene.paused;
    let most = if is_raised { scene.wanted } else { 0 };
    let most = most.max(scene.replicas());
    let locked_out: BTreeSet<u32> =
        leaving.iter().filter(|record| is_locked_out(scene, record)).map(|record| record.ordinal).collect();
    let ordinals =
        (0..most).map(|index| scene.ordinal(index)).filter(|ordinal| !locked_out.contains(ordinal));
    ordinals.map(|ordinal| ordinal.to_string().into()).collect()
}

/// Whether nothing may run in the place of a pod that leaves. One whose pod was lost before it was drained must run again, to be
/// called: it is bound to none.
fn is_locked_out(scene: &Scene<'_>, record: &PodRecord) -> bool {
    match record.phase {
        RecordPhase::Drained => scene.is_announced(record.ordinal),
        RecordPhase::Requested | RecordPhase::Draining => {
            scene.is_announced(record.ordinal) && !record.pod_uid.is_empty()
        }
        RecordPhase::Cancelling | RecordPhase::Failed => false,
    }
}

/// Whether the lock was seen without the key of a pod that leaves: from then on nothing starts in its place.
pub(super) fn locks_out(scene: &Scene<'_>, ordinal: u32) -> bool {
    !scene.is_locked() || scene.lock().is_some_and(|lock| !lock.allows(ordinal))
}

/// Whether the lock was seen with the keys of the first pods up to this number: what is created then starts.
pub(super) fn allows_up_to(scene: &Scene<'_>, replicas: u32) -> bool {
    !scene.is_locked()
        || scene.lock().is_some_and(|lock| (0..replicas).all(|index| lock.allows(scene.ordinal(index))))
}
