//! Claims that shall be larger, and the set that cannot say so: it is created again around its pods.
//!
//! ```text
//! announce ──> grow claims ──> record ──> decide ──> delete the set ──> create it from the record ──> adopted: forget the record
//! status        claims          status,    status     without its pods    (super::recreation)
//!                               object
//! ```
//!
//! Each arrow is a pass, and what is left of it was seen before: the status that announces before a claim is grown, the record
//! before the status that decides, and that before the deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_api::remedy::{RemedyKind, RemedyStatus};

use super::moves::{Moves, NotRead, READ_AGAIN};
use super::record::{is_under_way, later};
use super::row::ScalingRow;
use super::situation::Scene;
use super::wait::Wait;
use crate::plan::{Action, Kind, Object, Precondition};
use crate::reason::Severity;
use crate::remedy::canonical::Immutable;
use crate::remedy::claim::{Growth, growth};
use crate::remedy::classify::{Remedy, Verdict};
use crate::remedy::manifest;
use crate::remedy::record::{Asker, Found};
use crate::remedy::sizes::{self, Size};

/// Claims of a set that are looked at: each is read, and a set of more is refused.
const MAX_CLAIMS: usize = 2_000;

/// How long the claims that are read in a pass keep the next look away, for each of them: ten reads in a second.
const AGAIN_PER_CLAIM: SignedDuration = SignedDuration::from_millis(100);

/// Names of a record that turn out to be taken before somebody else is asked to make room.
const MAX_COLLISIONS: u32 = 8;

/// Claims that are named in a message.
const NAMED_CLAIMS: usize = 3;

/// Where a StorageClass says whether its volumes can grow.
const STORAGE_CLASS: Kind = Kind::Other(
    &sts_plus_api::kinds::Definition::built_in("storage.k8s.io/v1", "StorageClass", "storageclasses")
        .cluster_wide(),
);

/// The policy as the one that asks for a record.
pub(super) fn asker(policy: &ScalingRow) -> Asker<'_> {
    Asker {
        kind: Kind::ScalingPolicy,
        namespace: &policy.namespace,
        name: &policy.name,
        uid: &policy.uid,
        manager: keys::MANAGER_SCALING,
    }
}

/// How far the claims of a set are.
#[derive(Default)]
struct Claims<'w> {
    /// To be grown: the claim, its version, and its size.
    wanted: Vec<(Object, Precondition, &'w Size)>,
    unbound: Vec<String>,
    growing: Vec<String>,
    /// What is reported about one of them.
    why: String,
}

/// Looks after the sizes of claims.
pub(super) fn treat(scene: &Scene<'_>, moves: &mut Moves) {
    let known = scene.world.row.status.remedy.clone();
    let Some(known) = known else {
        if !scene.sizes.is_empty() {
            judge(scene, moves, RemedyStatus::default());
        }
        return;
    };
    if known.replaces.as_deref().is_some_and(|replaced| *replaced != *scene.set().uid) {
        complete(scene, moves, known);
    } else if scene.sizes.is_empty() {
        give_up(scene, moves, &known);
    } else if !is_settled(scene, &known) {
        judge(scene, moves, known);
    }
}

/// Whether the claims of all pods were found as asked for.
fn is_settled(scene: &Scene<'_>, known: &RemedyStatus) -> bool {
    known.kind == RemedyKind::None
        && known.record.is_none()
        && is_about(scene, known)
        && known.replicas == Some(scene.replicas())
}

/// Whether a remedy was chosen for this set and these sizes.
fn is_about(scene: &Scene<'_>, known: &RemedyStatus) -> bool {
    *known.target_uid == *scene.set().uid && known.asked == sizes::hash(scene.sizes)
}

/// Nothing is asked for any more.
fn give_up(scene: &Scene<'_>, moves: &mut Moves, known: &RemedyStatus) {
    if known.replaces.is_some() {
        // The record goes once nobody relies on it.
        moves.status.remedy = Some(RemedyStatus { replaces: None, ..known.clone() });
    } else if forget_record(scene, moves, known) {
        moves.status.remedy = None;
    }
}

/// Deletes the record that a status names; whether it is gone.
fn forget_record(scene: &Scene<'_>, moves: &mut Moves, known: &RemedyStatus) -> bool {
    let Some(name) = &known.record else { return true };
    let asker = asker(&scene.world.row);
    let Ok(found) = moves.look_up(scene, asker.object(name)) else { return false };
    let Found::Own(record) = asker.found(found) else { return true };
    if let Some(why) = &scene.world.unconfirmed {
        moves.waits.push(Wait::ViewUnconfirmed { why: Arc::clone(why) });
    } else {
        moves.record_write = Some(asker.delete(name, record));
        moves.wake(scene.now);
    }
    false
}

/// The set has been created again: its record goes once it has adopted its pods.
fn complete(scene: &Scene<'_>, moves: &mut Moves, known: RemedyStatus) {
    let set = scene.set();
    let has_all = set.ordinals().all(|ordinal| scene.pod(ordinal).is_some());
    if set.target().is_none() || !has_all {
        moves.waits.push(Wait::Adopting { set: Arc::clone(&set.name) });
        return;
    }
    if forget_record(scene, moves, &known) {
        let message = format!("StatefulSet {} has adopted its pods.", set.name);
        moves.note(scene, Severity::Normal, "Adopted", message);
        moves.status.remedy = Some(RemedyStatus { record: None, replaces: None, ..known });
    }
    moves.waits.push(Wait::Adopting { set: Arc::clone(&set.name) });
}

/// Chooses a remedy, announces it, and takes its next step.
fn judge(scene: &Scene<'_>, moves: &mut Moves, known: RemedyStatus) {
    let set = Arc::clone(&scene.set().name);
    let Some(live) = moves.read_set(scene) else {
        moves.waits.push(Wait::Judging { set });
        return;
    };
    let spec = live.get("spec").cloned().unwrap_or_default();
    let wanted = match sizes::apply(&spec, scene.sizes) {
        Ok(wanted) => wanted,
        Err(fault) => {
            let why = fault.to_string();
            return refuse(scene, moves, known, Wait::SizeRefused { set, why });
        }
    };
    let verdict = Verdict::of(&spec, &wanted);
    if let Some(why) = verdict.refused() {
        return refuse(scene, moves, known, Wait::SizeRefused { set, why });
    }
    let claims = match claims(scene, moves) {
        Ok(claims) => claims,
        Err(Some(wait)) => return refuse(scene, moves, known, wait),
        Err(None) => {
            moves.waits.push(Wait::Judging { set });
            return;
        }
    };
    let kind = match verdict.remedy {
        Remedy::None if claims.wanted.is_empty() && claims.growing.is_empty() => RemedyKind::None,
        Remedy::None => RemedyKind::ExpandClaims,
        _ => RemedyKind::Recreate,
    };
    if kind == RemedyKind::None && claims.unbound.is_empty() {
        return settle(scene, moves, known);
    }
    let is_announced = known.kind == kind && is_about(scene, &known);
    let is_ahead = kind == RemedyKind::ExpandClaims && known.kind == RemedyKind::Recreate;
    if kind != RemedyKind::None && !is_announced && !(is_ahead && is_about(scene, &known)) {
        return announce(scene, moves, known, (kind, &verdict, &claims));
    }
    if scene.paused {
        return hold_back(moves, known, Wait::Paused);
    }
    if let Some(why) = &scene.world.unconfirmed {
        return hold_back(moves, known, Wait::ViewUnconfirmed { why: Arc::clone(why) });
    }
    if let Some(wait) = grow(scene, moves, claims) {
        return hold_back(moves, known, wait);
    }
    if kind == RemedyKind::Recreate {
        replace(scene, moves, known, (live, &wanted));
    }
}

/// Reads the claims of all pods; what keeps them from growing, or nothing while that is not known.
fn claims<'w>(scene: &Scene<'w>, moves: &mut Moves) -> Result<Claims<'w>, Option<Wait>> {
    let set = scene.set();
    let count = scene.sizes.len().saturating_mul(usize::try_from(scene.replicas()).unwrap_or(usize::MAX));
    if count > MAX_CLAIMS {
        return Err(Some(Wait::TooManyClaims { set: Arc::clone(&set.name), count, limit: MAX_CLAIMS }));
    }
    let mut claims = Claims::default();
    let mut is_known = true;
    let mut classes: BTreeMap<String, String> = BTreeMap::new();
    for (size, ordinal) in scene.sizes.iter().flat_map(|size| set.ordinals().map(move |it| (size, it))) {
        let name = format!("{}-{}", size.claim, scene.pod_name(ordinal));
        let object =
            Object { kind: Kind::Claim, namespace: Arc::clone(&set.namespace), name: name.as_str().into() };
        let Ok(found) = moves.look_up(scene, object.clone()) else {
            is_known = false;
            continue;
        };
        let text = |value: &Value, key: &str| {
            value.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let is_there = |claim: &&Value| claim.pointer("/metadata/deletionTimestamp").is_none();
        let Some(claim) = found.filter(is_there) else { continue };
        match growth(claim, size) {
            Growth::Done => {}
            Growth::Unbound => claims.unbound.push(name),
            Growth::Wanted { class: None } => {
                return Err(Some(Wait::ClaimFixed { claim: name, class: None }));
            }
            Growth::Wanted { class: Some(class) } => {
                classes.entry(class).or_insert(name);
                let seen = Precondition::exactly(&text(claim, "uid"), &text(claim, "resourceVersion"));
                claims.wanted.push((object, seen, size));
            }
            Growth::Growing { why } => {
                claims.growing.push(name);
                if claims.why.is_empty() {
                    claims.why = why;
                }
            }
            Growth::Failed { why } => return Err(Some(Wait::GrowthFailed { claim: name, why })),
        }
    }
    for (class, claim) in classes {
        match can_grow(scene, moves, &class) {
            None => is_known = false,
            Some(true) => {}
            Some(false) => return Err(Some(Wait::ClaimFixed { claim, class: Some(class) })),
        }
    }
    if is_known { Ok(claims) } else { Err(None) }
}

/// Whether volumes of a class can grow. Where that cannot be read it is tried: the API server refuses it if not.
fn can_grow(scene: &Scene<'_>, moves: &mut Moves, class: &str) -> Option<bool> {
    let object = Object { kind: STORAGE_CLASS, namespace: "".into(), name: class.into() };
    if scene.world.unread.contains(&object) {
        return Some(true);
    }
    match moves.look_up(scene, object) {
        Err(NotRead) => None,
        Ok(found) => {
            let allows = found.and_then(|class| class.get("allowVolumeExpansion")).and_then(Value::as_bool);
            Some(allows.unwrap_or(false))
        }
    }
}

/// Nothing is done, and nothing was.
fn refuse(scene: &Scene<'_>, moves: &mut Moves, known: RemedyStatus, wait: Wait) {
    // What a person does about it concerns claims and classes, which are not followed.
    moves.wake(later(scene.now, again(scene)));
    hold_back(moves, known, wait);
}

/// Waits. A set that is not replaced yet may be deleted by somebody else meanwhile, and must not come back then.
fn hold_back(moves: &mut Moves, known: RemedyStatus, wait: Wait) {
    moves.waits.push(wait);
    if known.replaces.is_some() {
        moves.status.remedy = Some(RemedyStatus { replaces: None, ..known });
    }
}

/// Everything is as asked for.
fn settle(scene: &Scene<'_>, moves: &mut Moves, known: RemedyStatus) {
    if known.replaces.is_some() {
        moves.status.remedy = Some(RemedyStatus { replaces: None, ..known });
        return;
    }
    if !forget_record(scene, moves, &known) {
        return;
    }
    if known.kind != RemedyKind::None {
        let message = format!("The claims of {} have the sizes of volumeClaims.", scene.set().name);
        moves.note(scene, Severity::Normal, "ClaimsGrown", message);
    }
    moves.status.remedy = Some(RemedyStatus {
        target_uid: scene.set().uid.to_string(),
        asked: sizes::hash(scene.sizes),
        replicas: Some(scene.replicas()),
        ..RemedyStatus::default()
    });
}

/// Says what will be done, before any of it is.
fn announce(
    scene: &Scene<'_>,
    moves: &mut Moves,
    known: RemedyStatus,
    (kind, verdict, claims): (RemedyKind, &Verdict, &Claims<'_>),
) {
    let set = &scene.set().name;
    let grown = claims.wanted.len().saturating_add(claims.growing.len());
    let sizes: Vec<_> =
        scene.sizes.iter().map(|size| format!("{} to {}", size.claim, size.storage)).collect();
    let mut parts = Vec::new();
    if grown > 0 {
        let claims = if grown == 1 { "1 claim".to_owned() } else { format!("{grown} claims") };
        parts.push(format!("Grow {claims} in place ({})", sizes.join(", ")));
    }
    if kind == RemedyKind::Recreate {
        let again = "create StatefulSet";
        let verb =
            if parts.is_empty() { format!("C{}", again.trim_start_matches('c')) } else { again.into() };
        parts.push(format!("{verb} {set} again around its pods ({})", sizes.join(", ")));
    }
    let message = format!("{}. No pod is restarted.", parts.join(", then "));
    moves.note(scene, Severity::Normal, "RemedyChosen", message.clone());
    moves.waits.push(if grown > 0 {
        Wait::Growing {
            claims: named(&claims.wanted.iter().map(|it| it.0.name.to_string()).collect::<Vec<_>>()),
            why: String::new(),
        }
    } else {
        Wait::Recreating { set: Arc::clone(set) }
    });
    moves.status.remedy = Some(RemedyStatus {
        kind,
        message,
        restarts: verdict.restarts(),
        moves_data: verdict.moves_data(),
        target_uid: scene.set().uid.to_string(),
        asked: sizes::hash(scene.sizes),
        replicas: None,
        record: known.record,
        replaces: None,
    });
}

/// How soon claims are looked at again.
fn again(scene: &Scene<'_>) -> SignedDuration {
    let claims = scene.sizes.len().saturating_mul(usize::try_from(scene.replicas()).unwrap_or(usize::MAX));
    let count = i32::try_from(claims.min(MAX_CLAIMS)).unwrap_or(i32::MAX);
    AGAIN_PER_CLAIM.checked_mul(count).unwrap_or(READ_AGAIN).max(READ_AGAIN)
}

/// Asks claims to grow; what is waited for until all have.
fn grow(scene: &Scene<'_>, moves: &mut Moves, claims: Claims<'_>) -> Option<Wait> {
    let Claims { wanted, unbound, growing, why } = claims;
    let names: Vec<_> = wanted.iter().map(|(claim, ..)| claim.name.to_string()).chain(growing).collect();
    let policy = &scene.world.row;
    let writes =
        wanted.into_iter().map(|(claim, seen, size)| Action::grow_claim(policy, claim, seen, &size.storage));
    moves.claim_writes = writes.collect();
    if names.is_empty() && unbound.is_empty() {
        return None;
    }
    moves.wake(later(scene.now, again(scene)));
    let claims = named(if names.is_empty() { &unbound } else { &names });
    Some(if names.is_empty() { Wait::ClaimUnbound { claims } } else { Wait::Growing { claims, why } })
}

fn named(names: &[String]) -> String {
    let shown = names.iter().take(NAMED_CLAIMS).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_CLAIMS) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Takes the next step towards a set that is created again.
fn replace(scene: &Scene<'_>, moves: &mut Moves, known: RemedyStatus, (live, wanted): (&Value, &Value)) {
    let set = scene.set();
    if let Some(wait) = held(scene, moves) {
        return hold_back(moves, known, wait);
    }
    let object = match manifest::successor(live, wanted) {
        Ok(object) => object,
        Err(obstacle) => {
            let why = obstacle.to_string();
            return hold_back(moves, known, Wait::NotReplaceable { set: Arc::clone(&set.name), why });
        }
    };
    let base = format!("{}-successor", set.name);
    let asker = asker(&scene.world.row);
    let form = Immutable::of(wanted);
    for collisions in 0..MAX_COLLISIONS {
        let name = form.name(&base, collisions);
        let Ok(answer) = moves.look_up(scene, asker.object(&name)) else { return };
        let found = asker.found(answer);
        if found == Found::Foreign {
            continue;
        }
        if known.record.as_deref() != Some(&*name) {
            // First remembered. A record of another name holds something else.
            if forget_record(scene, moves, &known) {
                moves.status.remedy = Some(RemedyStatus { record: Some(name), replaces: None, ..known });
            }
            moves.waits.push(Wait::Recreating { set: Arc::clone(&set.name) });
            return;
        }
        match found {
            Found::Own(record) if *record.data == object => {
                if known.replaces.as_deref() == Some(&*set.uid) {
                    moves.set_write = Some(Action::orphan(set));
                } else {
                    moves.status.remedy = Some(RemedyStatus { replaces: Some(set.uid.to_string()), ..known });
                }
                moves.waits.push(Wait::Recreating { set: Arc::clone(&set.name) });
            }
            Found::Own(record) => {
                // The set has been changed since. Nobody may rely on the record when it goes.
                if known.replaces.is_none() {
                    moves.record_write = Some(asker.delete(&name, record));
                    moves.wake(scene.now);
                }
                hold_back(moves, known, Wait::Recreating { set: Arc::clone(&set.name) });
            }
            _ => {
                if known.replaces.is_none() {
                    moves.record_write = Some(asker.create(&name, &object));
                    moves.wake(scene.now);
                }
                hold_back(moves, known, Wait::Recreating { set: Arc::clone(&set.name) });
            }
        }
        return;
    }
    let name = form.name(&base, 0);
    hold_back(moves, known, Wait::RecordTaken { record: name });
}

/// Why the set is not created again now: nothing else may be under way, since what its status knows of that is lost with it.
fn held(scene: &Scene<'_>, moves: &Moves) -> Option<Wait> {
    let set = scene.set();
    let status = &moves.status;
    let has_records = status.leaving.iter().any(is_under_way) || !status.joining.is_empty();
    let is_scaling = has_records
        || scene.replicas() != scene.wanted
        || set.steering.leaving.is_some()
        || status.claim_retention.is_some()
        || moves.set_write.is_some()
        || moves.lock_write.is_some();
    if is_scaling {
        return Some(Wait::RemedyHeld { set: Arc::clone(&set.name), by: "pods leave or join".to_owned() });
    }
    if scene.wants_lock() && !scene.is_lock_in_place() {
        return Some(Wait::RemedyHeld {
            set: Arc::clone(&set.name),
            by: "its lock is being added".to_owned(),
        });
    }
    let Some(target) = set.target() else {
        return Some(Wait::NotObserved { set: Arc::clone(&set.name), generation: set.generation });
    };
    let by = |what: String| Some(Wait::RemedyHeld { set: Arc::clone(&set.name), by: what });
    for ordinal in set.ordinals() {
        match scene.pod(ordinal) {
            None => return by(format!("{} does not exist", scene.pod_name(ordinal))),
            Some(pod) if pod.terminating => return by(format!("{} is being deleted", pod.name)),
            Some(pod) if pod.revision.as_deref() != Some(target) => {
                return by(format!("{} does not have the newest revision", pod.name));
            }
            Some(_) => {}
        }
    }
    let beyond = scene.member.pods.iter().find(|pod| scene.member.wanted_ordinal(pod).is_none());
    beyond.and_then(|pod| by(format!("{} is being removed", pod.name)))
}
