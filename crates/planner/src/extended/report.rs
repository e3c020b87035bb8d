//! What is reported of an object: its status, its conditions, its events.

use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_api::conditions::{self, Truth};
use sts_plus_api::extended::{ExtendedStatus, FailedVersion, OnFailure, Progress};
use sts_plus_api::keys;

use super::World;
use super::active::ActiveReason;
use super::blue_green;
use super::children::Version;
use super::claims;
use super::handover;
use super::moves::{Moves, Scene};
use super::policies;
use super::render::set_name;
use super::spec::Restriction;
use super::wait::Wait;
use super::zones::Zone;
use crate::conditions::Conditions;
use crate::plan::{Note, Subject, When};
use crate::reason::Severity;

/// The condition that the number of replicas was adjusted.
pub const REPLICAS_RESTRICTED: &str = "ReplicasRestricted";

/// The condition that no pod is active although one should be.
pub(super) const NO_ACTIVE_POD: &str = "NoActivePod";

/// How many claims a warning names.
const NAMED_CLAIMS: usize = 3;

/// What is reported besides the wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// The restrictions that have changed the number of replicas, and what was asked for.
    pub(super) restrictions: Option<(u32, u32, Vec<Restriction>)>,
    /// What is wrong and stops nothing.
    pub(super) warnings: Vec<String>,
    /// Why no pod is active, where one should be.
    pub(super) lacking: Option<ActiveReason>,
}

/// The version that serves a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served<'s> {
    pub(super) version: &'s Version<'s>,
    /// Whether it has been promoted. The first version serves before.
    pub(super) promoted: bool,
}

/// The version that serves a zone; `None` where it has no set.
pub(super) fn served<'s>(scene: &Scene<'s>, zone: &Zone) -> Option<Served<'s>> {
    if scene.spec.is_blue_green() {
        let (version, promoted) = blue_green::serving(scene, zone)?;
        return Some(Served { version, promoted });
    }
    if scene.spec.is_handover() {
        return handover::serving(scene, zone).map(|version| Served { version, promoted: false });
    }
    let version = scene.versions.of_zone(zone).find(|version| !version.is_versioned)?;
    Some(Served { version, promoted: false })
}

/// The version that is promoted in every zone: the last one that was, or the oldest, while they differ.
fn current_version(scene: &Scene<'_>, moves: &Moves, served: &[Option<Served<'_>>]) -> Option<u32> {
    if moves.done {
        return Some(scene.number);
    }
    let promoted: Option<Vec<u32>> = served
        .iter()
        .map(|served| served.as_ref().filter(|served| served.promoted).map(|served| served.version.number))
        .collect();
    if let Some([first, rest @ ..]) = promoted.as_deref()
        && rest.iter().all(|number| number == first)
    {
        return Some(*first);
    }
    let before = scene.world.row.status.current_version?;
    if !scene.spec.is_blue_green() {
        // A set that is changed in place has the number of its new version before its pods have that version.
        return Some(before);
    }
    let numbers = || scene.versions.all.iter().map(|version| version.number);
    if numbers().any(|number| number == before) { Some(before) } else { numbers().min().or(Some(before)) }
}

/// The status of an object.
pub(super) fn status(scene: &Scene<'_>, moves: &Moves, served: &[Option<Served<'_>>]) -> ExtendedStatus {
    let before = &scene.world.row.status;
    let promoted: Vec<_> = served
        .iter()
        .flatten()
        .filter(|served| served.promoted)
        .map(|served| Arc::clone(&served.version.set().name))
        .collect();
    let versions =
        scene.versions.status((&promoted, &moves.retiring), |set| scene.written_generation(set, moves));
    let first = scene.layout.zones.first();
    let counted = served.first().and_then(Option::as_ref).map(|served| served.version);
    let mut selector = format!(
        "{}={},{}={}",
        scene.world.row.group.key(keys::EXTENDED_NAME),
        scene.world.row.name,
        scene.world.row.group.key(keys::AZ_INDEX),
        first.map_or(0, |zone| zone.index),
    );
    if scene.spec.is_blue_green() {
        let number = counted.map_or(scene.number, |version| version.number);
        selector = format!("{selector},{}={number}", scene.world.row.group.key(keys::VERSION));
    }
    // Versions may share the ordinals of a zone.
    let shared = first.filter(|_| scene.spec.is_handover()).map(|zone| {
        scene.versions.of_zone(zone).map(|version| version.child.status_replicas).fold(0, u32::saturating_add)
    });
    let ready = versions.iter().flat_map(|version| &version.zones).map(|zone| zone.ready_replicas).sum();
    let (update_version, update_hash) = match scene.unknown {
        None => (Some(scene.number), Some(scene.content.hash.to_string())),
        Some(_) => (before.update_version, before.update_hash.clone()),
    };
    let numbers = scene.versions.all.iter().map(|version| version.number);
    ExtendedStatus {
        observed_generation: Some(scene.world.row.generation),
        replicas: Some(shared.unwrap_or_else(|| counted.map_or(0, |version| version.child.status_replicas))),
        selector: Some(selector),
        desired_replicas: Some(scene.replicas),
        ready_replicas: Some(ready),
        current_version: current_version(scene, moves, served),
        update_version,
        latest_version: numbers.chain(update_version).chain(before.latest_version).max(),
        update_hash,
        zones: scene.layout.known.clone(),
        versions,
        awaited_approval: moves.awaited_approval.clone(),
        leaving: policies::leaving(scene.world),
        ..before.clone()
    }
}

/// The time of a version: how much of it is used, and whether it has failed.
#[derive(Debug)]
pub(super) struct Spent {
    pub(super) progress: Option<Progress>,
    pub(super) failed: Option<FailedVersion>,
    /// The open stretch to go on from, where the time runs.
    pub(super) open: Option<jiff::SignedDuration>,
    /// Whether time was added to the status.
    pub(super) adds_time: bool,
    pub(super) wake_at: Option<Timestamp>,
}

/// The parts of a deadline in which its time is written.
const PARTS: i32 = 10;

/// Adds the open stretch to the time of the version where it is due.
pub(super) fn spend(scene: &Scene<'_>, wait: Option<&Wait>, retry: &str) -> Spent {
    let (world, limit) = (scene.world, scene.spec.deadline);
    let before = &world.row.status;
    if scene.unknown.is_some() {
        // Whatever is waited for is not the fault of a version.
        let (progress, failed) = (before.progress.clone(), before.failed_version.clone());
        return Spent { progress, failed, open: None, adds_time: false, wake_at: None };
    }
    let same = before.progress.clone().filter(|progress| progress.hash == *scene.content.hash);
    let mut progress =
        same.unwrap_or_else(|| Progress { hash: scene.content.hash.to_string(), ..Progress::default() });
    let mut failed = before.failed_version.clone().filter(|failed| failed.hash == *scene.content.hash);
    if failed.is_some() && world.row.approve.as_deref() == Some(retry) {
        failed = None;
        progress.elapsed_seconds = 0;
        progress.retries = progress.retries.saturating_add(1);
    }
    let second = jiff::SignedDuration::from_secs(1);
    let part = limit.checked_div(PARTS).unwrap_or(limit).max(second);
    let is_held = world.unconfirmed.is_some() || scene.spec.paused;
    let counts = failed.is_none() && wait.is_some_and(Wait::runs_the_deadline) && !is_held;
    let open = world.open.min(part);
    let left = limit.saturating_sub(jiff::SignedDuration::from_secs(progress.elapsed_seconds));
    let is_due = counts && open >= part.min(left);
    let added = if is_due { open.as_secs() } else { 0 };
    progress.elapsed_seconds = progress.elapsed_seconds.saturating_add(added);
    let open = open.saturating_sub(jiff::SignedDuration::from_secs(added));
    let left = limit.saturating_sub(jiff::SignedDuration::from_secs(progress.elapsed_seconds));
    let used_up = counts && left <= jiff::SignedDuration::ZERO;
    if used_up {
        let message = wait.map(ToString::to_string).unwrap_or_default();
        failed = Some(FailedVersion { number: scene.number, hash: progress.hash.clone(), message });
    }
    let is_over = wait.is_none();
    // One that serves everywhere after all has not failed.
    failed = failed.filter(|_| !is_over);
    let runs = counts && !used_up;
    let wake_at = runs.then(|| scene.now.saturating_add(part.min(left).saturating_sub(open)).ok()).flatten();
    Spent {
        progress: (!is_over).then_some(progress),
        failed,
        open: runs.then_some(open),
        adds_time: added > 0 || used_up,
        wake_at,
    }
}

/// Fills in the conditions, and the notes that go with a change of them.
pub(super) fn report(
    world: &World,
    mut status: ExtendedStatus,
    wait: Option<&Wait>,
    findings: &Findings,
    now: Timestamp,
) -> (ExtendedStatus, Vec<Note>) {
    let before = &world.row.status;
    status.observed_generation = Some(world.row.generation);
    let made = Conditions { known: &before.conditions, generation: world.row.generation, now };
    let known = |kind: &str| made.known(kind);
    let condition =
        |kind: &str, truth: bool, reason: &str, message: String| made.of(kind, truth, reason, message);
    let is_ready = wait.is_none_or(Wait::is_serving);
    let (reason, message) = match wait {
        None => ("AsRequested", "Every zone runs the present version and all its pods are Ready.".to_owned()),
        Some(wait) => (wait.reason(), wait.to_string()),
    };
    let is_stalled = wait.is_some_and(Wait::is_stalled);
    let mut conditions = vec![condition(conditions::READY, is_ready, reason, message.clone())];
    if wait.is_some() && !is_stalled && !is_ready {
        conditions.push(condition(conditions::RECONCILING, true, reason, message.clone()));
    }
    if is_stalled {
        conditions.push(condition(conditions::STALLED, true, reason, message.clone()));
    }
    let mut notes = Vec::new();
    let mut note = |severity, reason: &'static str, message: String| {
        let on = vec![Subject::from(&*world.row)];
        notes.push(Note { on, severity, reason, message, when: When::Done });
    };
    if let Some((asked, allowed, restrictions)) = &findings.restrictions {
        let names: Vec<_> = restrictions.iter().map(ToString::to_string).collect();
        let message = match restrictions.iter().find(|restriction| restriction.is_conflict()) {
            Some(conflict) => format!(
                "{asked} replicas are asked for and {allowed} are used: {conflict} cannot be met. Change spec.scaling."
            ),
            None => format!("{asked} replicas are asked for; {} allows {allowed}.", names.join(" and ")),
        };
        if known(REPLICAS_RESTRICTED).is_none_or(|known| known.message != message) {
            note(Severity::Warning, REPLICAS_RESTRICTED, message.clone());
        }
        conditions.push(condition(REPLICAS_RESTRICTED, true, "Adjusted", message));
    }
    if !findings.warnings.is_empty() {
        let message = findings.warnings.join(" ");
        if known(conditions::WARNING).is_none_or(|known| known.message != message) {
            note(Severity::Warning, conditions::WARNING, message.clone());
        }
        conditions.push(condition(conditions::WARNING, true, "Warning", message));
    }
    if let Some(lacking) = &findings.lacking {
        let message = lacking.to_string();
        // While the first pods start nobody has to be told.
        if known(NO_ACTIVE_POD).is_none() && before.current_version.is_some() {
            note(Severity::Warning, NO_ACTIVE_POD, message.clone());
        }
        conditions.push(condition(NO_ACTIVE_POD, true, "NoneChosen", message));
    }
    let was = known(conditions::READY);
    if let Some(wait) = wait.filter(|wait| wait.is_announced())
        && was.is_none_or(|was| was.reason != wait.reason())
    {
        note(wait.severity(), wait.reason(), message);
    } else if wait.is_none() && was.is_some_and(|was| was.status == Truth::False) {
        let version = status.update_version.unwrap_or_default();
        note(
            Severity::Normal,
            "Ready",
            format!("Version {version} runs in every zone and all its pods are Ready."),
        );
    }
    status.conditions = conditions;
    (status, notes)
}

/// Warnings about what is wrong and stops nothing.
pub(super) fn warnings(scene: &Scene<'_>) -> Vec<String> {
    let key = |suffix| scene.world.row.group.key(suffix);
    let listed = |names: &[Arc<str>]| names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
    let is_changed = |name: &Arc<str>| {
        let mut zones = scene.layout.zones.iter();
        !scene.spec.is_versioned()
            && zones.any(|zone| set_name(&scene.world.row, scene.spec, zone, scene.number) == **name)
    };
    let unnumbered: Vec<_> =
        scene.versions.unnumbered.iter().filter(|name| !is_changed(name)).map(Arc::clone).collect();
    let mut warnings = Vec::new();
    if !unnumbered.is_empty() {
        warnings.push(format!(
            "The annotation {} of StatefulSet {} is not a number; it is left alone.",
            key(keys::VERSION),
            listed(&unnumbered)
        ));
    }
    if !scene.versions.unlabelled.is_empty() {
        warnings.push(format!(
            "StatefulSet {} belongs to this object but does not have the label {}; it is left alone.",
            listed(&scene.versions.unlabelled),
            key(keys::EXTENDED_NAME)
        ));
    }
    let labels = scene.world.row.group.zone_node_labels();
    if let (true, true, [given, others @ ..]) =
        (scene.spec.spells_out_zone_label, !scene.spec.zones.is_empty(), labels)
    {
        warnings.push(format!(
            "zoneNodeLabel is {given}, which is deprecated and which nodes may lack; those with {} are used as well. \
             Leave zoneNodeLabel out, which means the same.",
            others.join(" or ")
        ));
    }
    if !scene.spec.is_versioned() && scene.spec.on_failure == OnFailure::Rollback {
        warnings.push(
            "onFailure Rollback has no effect with the strategy InPlace, which does not keep the version before."
                .to_owned(),
        );
    }
    let left = claims::left_over(scene);
    if !left.is_empty() && scene.spec.is_versioned() {
        let named: Vec<_> = left.iter().take(NAMED_CLAIMS).copied().collect();
        let more = match left.len().saturating_sub(named.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        warnings.push(format!(
            "The template no longer has claims that exist: {}{more}. They stay, and new pods do not mount them.",
            named.join(", ")
        ));
    }
    let helpers: Vec<_> = scene.versions.helpers.iter().map(|helper| Arc::clone(&helper.set.name)).collect();
    if !helpers.is_empty() && scene.spec.stable_claims.is_empty() {
        warnings.push(format!(
            "StatefulSet {} holds claims for cf-operator; it is left alone, because the strategy does not use them.",
            listed(&helpers)
        ));
    }
    warnings
}
