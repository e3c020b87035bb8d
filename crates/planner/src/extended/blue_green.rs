//! One set per zone and version. A new version runs beside the old one until its promotion rule holds; then the old one is
//! removed, zone after zone.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use sts_plus_api::extended::{OnFailure, Promotion};

use super::children::Version;
use super::claims;
use super::helpers;
use super::moves::{Moves, Scene};
use super::render::set_name;
use super::spec::Strategy;
use super::wait::Wait;
use super::zones::Zone;
use crate::amount::Amount;
use crate::ordinal;

/// When a version is promoted in a zone.
#[derive(Clone, Copy, Debug)]
struct Rule {
    min_ready: Amount,
    soak: SignedDuration,
    promotion: Promotion,
}

impl Rule {
    fn of(scene: &Scene<'_>) -> Option<Self> {
        let Strategy::BlueGreen { min_ready, soak, promotion } = scene.spec.strategy else { return None };
        Some(Self { min_ready, soak, promotion })
    }

    /// How many pods must be Ready. A percentage is rounded up: it is the least that is accepted.
    fn needed(self, replicas: u32) -> u32 {
        let needed = match self.min_ready {
            Amount::Count(count) => count,
            Amount::Percent(percent) => {
                let share = (u64::from(replicas) * u64::from(percent)).div_ceil(100);
                u32::try_from(share).unwrap_or(u32::MAX)
            }
        };
        needed.min(replicas)
    }
}

/// What to do for an object with a set for each version.
pub(super) fn plan(scene: &Scene<'_>) -> Moves {
    let mut moves = Moves { done: true, ..Moves::default() };
    let Some(rule) = Rule::of(scene) else { return moves };
    helpers::remove(scene, &mut moves);
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    let mut earlier: Option<String> = None;
    for zone in &scene.layout.zones {
        let name = set_name(&scene.world.row, scene.spec, zone, scene.number);
        wanted.extend(scene.versions.of_zone(zone).map(|version| version.set().name.to_string()));
        wanted.insert(name.clone());
        let before = moves.waits.len();
        zone_moves(scene, rule, (zone, &name, earlier.as_deref()), &mut moves);
        if moves.waits.len() > before {
            moves.done = false;
            earlier.get_or_insert(name);
        }
    }
    helpers::replace_unmutated(scene, &mut moves);
    scene.drain(&wanted, &mut moves);
    moves
}

/// Makes the claims that all versions share what they shall be; whether a version may be created with them.
fn provide_claims(scene: &Scene<'_>, zone: &Zone, moves: &mut Moves) -> bool {
    let before = moves.waits.len();
    let first = scene.spec.first_ordinal;
    let wanted = first..first.saturating_add(scene.replicas);
    claims::provide(scene, zone, &wanted, moves);
    let mut sets = scene.versions.of_zone(zone).filter(|version| !version.set().deleting);
    if let Some(other) = sets.find(|version| !scene.spec.stable_claims.is_empty() && version.child.has_claims)
    {
        moves.waits.push(Wait::ClaimsStayBehind { set: Some(Arc::clone(&other.set().name)) });
    }
    let is_used = |ordinal: u32| {
        let mut sets = scene.versions.of_zone(zone);
        sets.any(|version| {
            let set = version.set();
            let mut pods = version.member.pods.iter();
            set.ordinals().contains(&ordinal)
                || set.observed_generation < set.generation
                || pods.any(|pod| ordinal::of_pod(&pod.name, &set.name) == Some(ordinal))
        })
    };
    claims::release(scene, zone, (&wanted, is_used), moves);
    moves.waits.len() == before
}

/// The version that serves a zone, and whether it has been promoted. `None` where the zone has no set.
pub(super) fn serving<'s>(scene: &Scene<'s>, zone: &Zone) -> Option<(&'s Version<'s>, bool)> {
    let rule = Rule::of(scene)?;
    let name = set_name(&scene.world.row, scene.spec, zone, scene.number);
    let alive: Vec<_> = scene.versions.of_zone(zone).filter(|version| !version.set().deleting).collect();
    let others: Vec<_> = alive.iter().copied().filter(|version| *version.set().name != *name).collect();
    let target = alive.iter().copied().find(|version| *version.set().name == *name);
    if scene.held(None).is_none() {
        let may_be_promoted = others.is_empty() || !scene.has_failed();
        let meets = |version: &&Version<'_>| promoted(scene, rule, zone, version).is_ok();
        if let Some(version) = target.filter(|_| may_be_promoted).filter(meets) {
            return Some((version, true));
        }
        if let Some(version) = overtaken(scene, rule, zone, &others) {
            return Some((version, true));
        }
    }
    if let Some(version) = alive.iter().copied().find(|version| scene.was_promoted(&version.set().name)) {
        // One that broke after its promotion, before its predecessor was removed, gives way to it.
        let before =
            alive.iter().copied().filter(|other| other.number < version.number && other.has_ready_pod());
        let before = before.max_by_key(|other| other.number).filter(|_| !version.has_ready_pod());
        return Some((before.unwrap_or(version), true));
    }
    let oldest = others.into_iter().min_by_key(|version| version.number);
    oldest.or(target).map(|version| (version, false))
}

fn zone_moves<'s>(
    scene: &Scene<'s>,
    rule: Rule,
    (zone, name, earlier): (&'s Zone, &str, Option<&str>),
    moves: &mut Moves,
) {
    let is_other = |version: &&Version<'s>| *version.set().name != *name;
    let (leaving, others): (Vec<_>, Vec<_>) =
        scene.versions.of_zone(zone).filter(is_other).partition(|version| version.set().deleting);
    for other in &others {
        scene.adjust_other(zone, other, moves);
    }
    if let Some(running) = overtaken(scene, rule, zone, &others).filter(|_| scene.held(None).is_none()) {
        let older = others.iter().copied().filter(|other| other.number < running.number);
        scene.retire(older, moves);
    }
    let may_create = provide_claims(scene, zone, moves);
    let Some(target) = scene.versions.named(name) else {
        if !may_create {
            return;
        }
        let newest = others.iter().copied().max_by_key(|other| other.number);
        match scene.before_creation(zone, newest, earlier) {
            Some((wait, at)) => {
                moves.waits.push(wait);
                moves.wake(at);
            }
            None => scene.create(zone, moves),
        }
        return;
    };
    if target.set().deleting {
        moves.waits.push(Wait::Terminating { set: Arc::clone(&target.set().name) });
        return;
    }
    if !target.has(&scene.content.hash) {
        moves.waits.push(Wait::NameTaken { set: name.to_owned() });
        return;
    }
    if scene.has_failed() && !others.is_empty() {
        // After a revert the failed version may be the one that serves, beside one that was never promoted.
        let serves = serving(scene, zone).is_some_and(|(version, _)| version.set().name == target.set().name);
        // A failed version with a Ready pod is better than none with one.
        let is_last_ready = target.has_ready_pod() && !others.iter().any(|other| other.has_ready_pod());
        let stays = serves || is_last_ready;
        moves.waits.push(match scene.failed() {
            Wait::Failed { version, message, .. } if stays => {
                Wait::Failed { version, message, rolled_back: false }
            }
            wait => wait,
        });
        if scene.spec.on_failure == OnFailure::Rollback && scene.held(None).is_none() && !stays {
            scene.retire([target], moves);
        } else {
            scene.adjust(zone, target.member, Some(target.number), moves);
        }
        return;
    }
    if scene.may_have_drifted(target.set()) {
        let before = moves.waits.len();
        scene.change(zone, target.member, moves);
        if moves.waits.len() > before {
            return;
        }
    }
    let scaling = scene.adjust(zone, target.member, Some(target.number), moves);
    match promoted(scene, rule, zone, target) {
        Err(wait) => {
            moves.wake(target.soaked_at(rule.soak, scene.now));
            if let Wait::AwaitingApproval { value, .. } = &wait {
                moves.awaited_approval = Some(value.clone());
            }
            // A version that has been promoted and lost pods since is not rolled out once more.
            let is_current =
                others.is_empty() && scene.world.row.status.current_version == Some(scene.number);
            moves.waits.push(match wait {
                Wait::Starting { .. } if is_current => Wait::NotReady { down: target.health.summary() },
                _ if scene.spec.paused && !others.is_empty() => Wait::Paused { version: scene.number },
                wait => wait,
            });
        }
        Ok(()) if others.is_empty() => {
            if let Some(last) = leaving.first() {
                let set = Arc::clone(&last.set().name);
                moves.waits.push(Wait::Removing { version: scene.number, set });
            } else if let Some(wait) = scaling {
                moves.waits.push(wait);
            } else if !target.health.all_ready() {
                moves.wake(target.health.changes_at);
                moves.waits.push(Wait::NotReady { down: target.health.summary() });
            }
        }
        Ok(()) => {
            if let Some((wait, at)) = scene.held(None) {
                moves.waits.push(wait);
                moves.wake(at);
            } else {
                let set = others.first().map(|other| Arc::clone(&other.set().name)).unwrap_or_default();
                scene.retire(others.iter().copied(), moves);
                moves.waits.push(Wait::Removing { version: scene.number, set });
            }
        }
    }
}

/// Whether a set meets the rule, or what it waits for.
fn promoted(scene: &Scene<'_>, rule: Rule, zone: &Zone, version: &Version<'_>) -> Result<(), Wait> {
    let set = version.set();
    if set.target().is_none() {
        return Err(Wait::Unobserved { set: Arc::clone(&set.name) });
    }
    let needed = rule.needed(scene.replicas);
    let ready = version.ready_for(rule.soak, scene.now);
    // Pods that are no longer asked for may take long to leave.
    let is_scaled = set.replicas == scene.replicas
        || set.replicas > scene.replicas && !scene.policies().writes_replicas(set);
    if ready < needed || !is_scaled {
        let set = Arc::clone(&set.name);
        return Err(Wait::Starting { version: version.number, set, ready, needed });
    }
    if rule.promotion == Promotion::Manual && replaces(scene, zone, version) {
        let value = approval("promote", version.number, version.hash.as_deref().unwrap_or_default());
        if scene.world.row.approve.as_deref() != Some(&*value) {
            return Err(Wait::AwaitingApproval { version: version.number, value });
        }
    }
    Ok(())
}

/// Whether the promotion of a set removes other content: of its zone, or of places that are no longer asked for.
fn replaces(scene: &Scene<'_>, zone: &Zone, version: &Version<'_>) -> bool {
    let here = zone.name.as_ref().map(|_| zone.index);
    scene.versions.all.iter().any(|other| {
        let is_other = other.set().name != version.set().name && !other.set().deleting;
        let differs = other.hash != version.hash;
        is_other && (other.zone == here || differs && !scene.is_place(other.zone))
    })
}

/// The newest version that meets its rule although it is not the one that is asked for: those before it are no longer needed.
fn overtaken<'v, 's>(
    scene: &Scene<'_>,
    rule: Rule,
    zone: &Zone,
    others: &[&'v Version<'s>],
) -> Option<&'v Version<'s>> {
    if rule.promotion == Promotion::Manual {
        return None;
    }
    let older = others.iter().copied().filter(|other| other.is_versioned && other.number < scene.number);
    older.filter(|other| promoted(scene, rule, zone, other).is_ok()).max_by_key(|other| other.number)
}

/// The value of an approval.
pub(super) fn approval(what: &str, number: u32, hash: &str) -> String {
    format!("{what}-{number}-{}", hash.get(..8).unwrap_or(hash))
}
