//! ExtendedStatefulSets: versions, zones, the active pod, Services.
//!
//! ```text
//!   spec ──> zones ──> content ──> number ──> in_place | blue_green | handover ──> services, active pod ──> status
//! ```
//!
//! A version is its content: the hash is stored on the sets, so a pass decides from what exists, however it came about.

pub mod active;
mod blue_green;
pub mod children;
pub mod claims;
pub mod content;
mod deletion;
mod fault;
mod handover;
mod helpers;
mod in_place;
mod lock;
mod moves;
pub mod policies;
pub mod probe;
mod promotion;
pub mod ranges;
pub mod references;
pub mod render;
mod report;
mod retiring;
mod role;
pub mod row;
pub mod services;
pub mod spec;
pub mod versioned;
pub mod wait;
pub mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sts_plus_api::extended::{ExtendedStatus, Group};
use sts_plus_api::keys;

use crate::health::Member;
use crate::plan::{Action, Kind, Object, Plan, PodsOf, Precondition, Step, When};
use crate::pod::PodRow;
use crate::reason::Refusal;
use crate::scaling::row::ScalingRow;
use crate::statefulset::world::ClaimRow;
use active::ProbeState;
use children::{Version, Versions};
use moves::{Moves, Scene};
use probe::Digest;
use report::Findings;
use row::ExtendedRow;
use services::ServiceRow;
use spec::{Spec, Strategy};
use wait::Wait;

pub use report::REPLICAS_RESTRICTED;

/// How long data must stay as it is before a version is made of it: people change several objects one after another.
pub const CONFIG_SETTLES: SignedDuration = SignedDuration::from_secs(1);

/// Pods whose labels and annotations are brought up to date in one pass.
const MAX_POD_PATCHES: usize = 50;

/// All that a decision may look at.
#[derive(Clone, Debug)]
pub struct World {
    /// The object.
    pub row: Arc<ExtendedRow>,
    /// Its sets with their pods, and those that an object of this name has left behind.
    pub children: Vec<Member>,
    /// The names of sets like those of its own that belong to others.
    pub strangers: BTreeSet<Arc<str>>,
    /// The pod that the status calls active, if it is there: its set may be gone.
    pub recorded_active: Option<Arc<PodRow>>,
    /// The ScalingPolicies that it controls, and those that have the name of one of its sets.
    pub policies: Vec<Arc<ScalingRow>>,
    /// The Services that it controls, and those that an object of this name has left behind.
    pub services: Vec<Arc<ServiceRow>>,
    /// What is known of the data that its template refers to.
    pub digests: BTreeMap<Object, Digest>,
    /// The claims that have a name as this object gives them.
    pub claims: Vec<Arc<ClaimRow>>,
    /// The pods that mount one of those, whoever controls them.
    pub users: Vec<Arc<PodRow>>,
    /// The names of the pods that were listed in this pass.
    pub listed: BTreeMap<PodsOf, BTreeSet<Box<str>>>,
    /// The objects that were read in this pass; `None` for one that is not there.
    pub reads: BTreeMap<Object, Option<Value>>,
    /// When the data that is known now will have stayed as it is for long enough.
    pub config_settled_at: Option<Timestamp>,
    /// Of each set that this process has written, by UID, the generation that its write has made.
    pub written: BTreeMap<Arc<str>, i64>,
    /// The last valid spec that is known of it.
    pub last_spec: Option<Arc<Spec>>,
    /// Why nothing may be disrupted.
    pub unconfirmed: Option<Arc<str>>,
    /// For how long the time of the version runs beyond what the status has.
    pub open: SignedDuration,
    /// The write that was refused last.
    pub refused: Option<Refusal>,
    /// The kind of which a write was refused, where its objects are left alone for now. Pods do not wait for that.
    pub held: Option<Kind>,
    /// What probes have shown of each pod, by UID.
    pub probes: BTreeMap<Box<str>, ProbeState>,
    /// The UIDs of the pods with a probe under way.
    pub probing: BTreeSet<Box<str>>,
}

/// What to do for an object.
#[derive(Debug)]
pub struct Decision {
    pub plan: Plan,
    /// The status that it writes.
    pub status: ExtendedStatus,
    /// What the object waits for.
    pub wait: Option<Wait>,
    /// The open stretch of the version's time, where it runs.
    pub open: Option<SignedDuration>,
    /// Whether the plan rests on a confirmed view because it adds time.
    pub adds_time: bool,
}

/// Decides for one object.
pub fn plan(world: &World, now: Timestamp) -> Decision {
    if world.row.deleting {
        return deletion::plan(world, now);
    }
    let spec = match &world.row.spec {
        Ok(spec) => Arc::clone(spec),
        Err(fault) => {
            let mut designation = role::designate_meanwhile(world, now);
            let active_pod = designation.active.take();
            let status = ExtendedStatus { active_pod, ..world.row.status.clone() };
            let findings = Findings { lacking: role::lacking(&designation), ..Findings::default() };
            let wait = Some(Wait::Invalid(fault.clone()));
            let mut decision = reported(world, status, wait, &findings, now);
            role::carry_out(world, &mut decision, designation);
            return decision;
        }
    };
    if let Some(write) = deletion::finalizer(&world.row, spec.deletion) {
        return with_finalizer(world, write, now);
    }
    let (replicas, restrictions) = spec.limits.clamp(spec.replicas);
    let restrictions = (!restrictions.is_empty()).then_some((spec.replicas, replicas, restrictions));
    let layout = zones::layout(world, &spec);
    let versions = Versions::of(world, now);
    let (content, unknown) = match content::content(world, &spec) {
        Ok(content) => (content, None),
        // Meanwhile everything that needs no new version goes on with what was known last.
        Err(wait) => (content::last(world), Some(wait)),
    };
    let number = match (&unknown, world.row.status.update_version) {
        (Some(_), Some(number)) => number,
        _ => versions.number_of(world, &content),
    };
    let unknown = unknown.as_ref();
    let scene = Scene {
        world,
        spec: &spec,
        layout: &layout,
        versions: &versions,
        content: &content,
        unknown,
        number,
        replicas,
        now,
    };
    let adoptions = || scene.adoptions();
    let mut moves = match (unknown, &spec.strategy) {
        (Some(_), Strategy::Handover { .. }) => handover::plan(&scene),
        (Some(wait), _) => scene.hold(wait.clone()),
        (None, Strategy::InPlace { .. }) => adoptions().unwrap_or_else(|| in_place::plan(&scene)),
        (None, Strategy::Handover { .. }) => adoptions().unwrap_or_else(|| handover::plan(&scene)),
        (None, Strategy::BlueGreen { .. }) => adoptions().unwrap_or_else(|| blue_green::plan(&scene)),
    };
    policies::clear(&scene, &mut moves);
    let findings = Findings { restrictions, warnings: report::warnings(&scene), lacking: None };
    decide(&scene, &mut moves, &findings)
}

/// The finalizer comes before everything that relies on it. A status is written only where that is refused.
fn with_finalizer(world: &World, write: Action, now: Timestamp) -> Decision {
    let status = world.row.status.clone();
    let mut decision = match &world.refused {
        Some(refusal) => {
            reported(world, status, Some(Wait::Refused(refusal.clone())), &Findings::default(), now)
        }
        None => Decision { plan: Plan::default(), status, wait: None, open: None, adds_time: false },
    };
    decision.plan.steps.push(Step::one(write));
    decision
}

fn decide(scene: &Scene<'_>, moves: &mut Moves, findings: &Findings) -> Decision {
    let (world, now) = (scene.world, scene.now);
    match world.held {
        // Services select the successor before its predecessor is removed. All else of sets does not wait for them.
        Some(Kind::Service) => {
            moves.writes.retain(|write| !write.is_deletion() || write.object().kind != Kind::StatefulSet);
        }
        Some(Kind::Claim) => moves.writes.retain(|write| write.object().kind != Kind::Claim),
        Some(_) => {
            let is_held =
                |write: &Action| matches!(write.object().kind, Kind::StatefulSet | Kind::ScalingPolicy);
            moves.writes.retain(|write| !is_held(write));
            // What is read of sets is for their writes.
            moves.asks.clear();
        }
        None => {}
    }
    let mut wait = most_urgent(&moves.waits).cloned();
    if let Some(refusal) = &world.refused {
        wait = Some(Wait::Refused(refusal.clone()));
    }
    let retries = world.row.status.progress.as_ref().map_or(0, |progress| progress.retries);
    let retry = format!("{}-{retries}", blue_green::approval("retry", scene.number, &scene.content.hash));
    let spent = report::spend(scene, wait.as_ref(), &retry);
    if let Some(failed) = &spent.failed
        && wait.as_ref().is_some_and(Wait::runs_the_deadline)
    {
        let (version, message) = (failed.number, failed.message.clone());
        wait = Some(Wait::Failed { version, message, rolled_back: false });
    }
    let served: Vec<_> = scene.layout.zones.iter().map(|zone| report::served(scene, zone)).collect();
    let mut status = report::status(scene, moves, &served);
    if spent.failed.is_some() {
        status.awaited_approval = Some(retry);
    }
    (status.progress, status.failed_version) = (spent.progress, spent.failed);
    let is_blue_green = scene.spec.is_blue_green();
    let mut labels = promotion::labels(scene, &served);
    if !labels.is_empty() {
        // Services select these labels before anything is removed.
        moves.writes.retain(|write| !write.is_deletion());
        labels.truncate(MAX_POD_PATCHES);
    }
    // A write that is put off is not reported.
    let writes = &moves.writes;
    let is_written = |object: &Object| writes.iter().any(|write| write.object() == object);
    moves.notes.retain(|note| !matches!(&note.when, When::Written(object) if !is_written(object)));
    let mut designation = role::designate(scene, moves, &served);
    status.active_pod = designation.active.take();
    let findings = Findings { lacking: role::lacking(&designation), ..findings.clone() };
    let mut decision = reported(world, status, wait, &findings, now);
    let selected = services::Selected {
        promoted: is_blue_green.then(|| promotion::versions(scene, &served)),
        update: scene.number,
        replicas: scene.replicas,
    };
    let are_services_due = world.held.is_none()
        && labels.is_empty()
        && (scene.unknown.is_none() || decision.status.update_version.is_some());
    let services = if are_services_due {
        services::writes(world, scene.spec, scene.layout, &selected)
    } else {
        Vec::new()
    };
    let plan = &mut decision.plan;
    plan.asks = content::asks(world, scene.spec);
    plan.asks.append(&mut moves.asks);
    plan.notes.append(&mut moves.notes);
    plan.wake_at = [moves.wake_at, spent.wake_at].into_iter().flatten().min();
    plan.waits_on = std::mem::take(&mut moves.waits_on).into_iter().collect();
    role::carry_out(world, &mut decision, designation);
    let plan = &mut decision.plan;
    let (changes, deletions) = steps(std::mem::take(&mut moves.writes));
    plan.steps.extend(changes);
    plan.steps.extend((!labels.is_empty()).then(|| Step::act(labels)));
    // Services select the successor before its predecessor is removed.
    plan.steps.extend((!services.is_empty()).then(|| Step::act(services)));
    let marks = pod_marks(scene, deletions.as_ref());
    plan.steps.extend(deletions);
    plan.steps.extend(marks);
    (decision.open, decision.adds_time) = (spent.open, spent.adds_time);
    decision
}

/// The writes to sets and pods, deletions apart: what is deleted is not changed before, and nothing is deleted twice.
fn steps(writes: Vec<Action>) -> (Vec<Step>, Option<Step>) {
    let (deletions, others): (Vec<_>, Vec<_>) = writes.into_iter().partition(Action::is_deletion);
    let mut deleted: Vec<Action> = Vec::new();
    for deletion in deletions {
        if deleted.iter().all(|known| known.object() != deletion.object()) {
            deleted.push(deletion);
        }
    }
    let kept =
        others.into_iter().filter(|write| deleted.iter().all(|known| known.object() != write.object()));
    let kept = kept.map(Step::one).collect();
    (kept, (!deleted.is_empty()).then(|| Step::act(deleted)))
}

/// The wait to report: what a person must act on, then what comes first.
fn most_urgent(waits: &[Wait]) -> Option<&Wait> {
    let rank = |wait: &&Wait| match wait {
        wait if wait.is_stalled() => 0,
        Wait::AwaitingApproval { .. } | Wait::ViewUnconfirmed { .. } | Wait::NotMutated { .. } => 1,
        Wait::ZoneWaiting { .. } => 4,
        wait if wait.is_serving() => 3,
        _ => 2,
    };
    waits.iter().min_by_key(rank)
}

/// A decision that reports, and does nothing else yet.
fn reported(
    world: &World,
    status: ExtendedStatus,
    wait: Option<Wait>,
    findings: &Findings,
    now: Timestamp,
) -> Decision {
    let before = &world.row.status;
    let (mut status, mut notes) = report::report(world, status, wait.as_ref(), findings, now);
    // What is only being read for a moment is no state worth a write.
    if matches!(wait, Some(Wait::ConfigPending { .. })) && before.observed_generation.is_some() {
        status.conditions.clone_from(&before.conditions);
        status.observed_generation = before.observed_generation;
        notes.clear();
    }
    let row = &world.row;
    let mut plan = Plan { notes, ..Plan::default() };
    if status != row.status {
        // First remembered, then done: a version, a zone's index and a failure are read from here again.
        let object =
            Object { kind: row.kind(), namespace: Arc::clone(&row.namespace), name: (*row.name).into() };
        let precondition = Precondition::exactly(&row.uid, &row.resource_version);
        let written = (serde_json::to_value(&status).unwrap_or_default(), keys::MANAGER_EXTENDED);
        plan.steps.push(Step::one(Action::replace_status(object, &row.uid, precondition, written)));
    }
    Decision { plan, status, wait, open: None, adds_time: false }
}

/// Brings what pods carry besides their template up to date, which restarts nobody: the list of zones, and the ordinal that
/// Services for fissile objects select.
fn pod_marks(scene: &Scene<'_>, deletions: Option<&Step>) -> Option<Step> {
    let is_removed = |object: &Object| {
        deletions.is_some_and(|step| step.writes.iter().any(|deletion| deletion.object() == object))
    };
    let group = scene.world.row.group;
    let zones = scene.layout.annotation.as_ref();
    let patch = |version: &Version<'_>, pod: &Arc<PodRow>| {
        let zones =
            zones.filter(|zones| version.child.zone_name.is_some() && pod.zones.as_ref() != Some(*zones));
        let ordinal = crate::ordinal::of_pod(&pod.name, &version.set().name);
        let ordinal = ordinal.filter(|_| group == Group::Fissile && !pod.numbered);
        let mut metadata = serde_json::Map::new();
        if let Some(zones) = zones {
            metadata.insert("annotations".to_owned(), json!({ group.key(keys::ZONES): zones }));
        }
        if let Some(ordinal) = ordinal {
            metadata.insert("labels".to_owned(), json!({ keys::POD_ORDINAL: ordinal.to_string() }));
        }
        (!metadata.is_empty()).then(|| patch_of(pod, &Value::Object(metadata)))
    };
    let versions = scene.versions.all.iter();
    let kept = versions.filter(|version| !is_removed(&crate::plan::object_of(version.set())));
    let pods = kept.flat_map(|version| {
        let pods = version.member.pods.iter().filter(|pod| !pod.terminating);
        pods.filter_map(move |pod| patch(version, pod))
    });
    let patches: Vec<_> = pods.take(MAX_POD_PATCHES).collect();
    (!patches.is_empty()).then(|| Step::inform(patches))
}

/// A change of the metadata of a pod, whatever else changes of it.
fn patch_of(pod: &PodRow, metadata: &Value) -> Action {
    let kind = Kind::Pod;
    let object = Object { kind, namespace: Arc::clone(&pod.namespace), name: pod.name.clone() };
    let precondition = Precondition { uid: pod.uid.clone(), resource_version: None };
    let body = json!({ "metadata": metadata });
    Action::merge(object, &pod.owner, precondition, (body, keys::MANAGER_EXTENDED))
}

#[cfg(test)]
mod tests;
