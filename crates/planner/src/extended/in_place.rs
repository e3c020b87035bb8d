//! One set per zone, changed in place. The StatefulSet controller replaces the pods of a set without a zone; those of zones are
//! replaced by the rollout group that their sets form.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;
use sts_plus_api::keys;

use super::claims;
use super::moves::{Moves, Scene};
use super::render::{int_or_string, set_name};
use super::spec::Claims;
use super::wait::Wait;
use super::zones::Zone;
use crate::disruption::{Allowance, DomainBudget, Gatekeeper};
use crate::health::{Health, Member, Why};
use crate::plan::{Action, Precondition, object_of};
use crate::pod::PodRow;
use crate::scaling::policy::MAX_REPLICAS;
use crate::scaling::pools::{self, Change, Move, Next, Pause, Pool, Rule, Slot};

/// What to do for an object that is changed in place.
pub(super) fn plan(scene: &Scene<'_>) -> Moves {
    let mut moves = Moves { done: true, ..Moves::default() };
    let mut wanted = BTreeSet::new();
    for zone in &scene.layout.zones {
        let name = set_name(&scene.world.row, scene.spec, zone, scene.number);
        let before = moves.waits.len();
        zone_moves(scene, zone, &name, &mut moves);
        moves.done &= moves.waits.len() == before;
        wanted.insert(name);
    }
    scene.drain(&wanted, &mut moves);
    moves
}

fn zone_moves<'s>(scene: &Scene<'s>, zone: &'s Zone, name: &str, moves: &mut Moves) {
    let is_own = |member: &&Member| {
        *member.set.name == *name
            && member.set.child.as_ref().is_some_and(|child| child.is_of(&scene.world.row))
    };
    let Some(member) = scene.world.children.iter().find(is_own) else {
        if scene.spec.claims != Claims::None && claims::has_any(scene) {
            moves.waits.push(Wait::ClaimsStayBehind { set: None });
            return;
        }
        let others = scene.versions.of_zone(zone).filter(|other| !other.set().deleting);
        match scene.before_creation(zone, others.max_by_key(|other| other.number), None) {
            Some((wait, at)) => {
                moves.waits.push(wait);
                moves.wake(at);
            }
            None => scene.create(zone, moves),
        }
        return;
    };
    let set = &member.set;
    if set.deleting {
        moves.waits.push(Wait::Terminating { set: Arc::clone(&set.name) });
        return;
    }
    let hash = scene.hash_of(set);
    let number = set.child.as_ref().and_then(|child| child.version.as_deref());
    let is_changed = hash != Some(&*scene.content.hash) || number != Some(&*scene.number.to_string());
    if let Some((wait, at)) = scene.held(hash).filter(|_| is_changed) {
        moves.waits.push(wait);
        let scaling = scene.adjust(zone, member, None, moves);
        moves.waits.extend(scaling);
        moves.wake(at);
        return;
    }
    let order = Order::of(scene, member, is_changed);
    if is_changed && order.is_shrinking() {
        let scaling = scene.policies().scale(set, scene.replicas, moves);
        if !may_overtake(scene, member, scaling.as_ref()) {
            let message = scaling.as_ref().map(ToString::to_string).unwrap_or_default().into();
            moves.waits.push(Wait::LeavingFirst { version: scene.number, message });
            return;
        }
        moves.waits.extend(scaling);
    }
    if is_changed || scene.may_have_drifted(set) {
        let before = moves.waits.len();
        scene.change(zone, member, moves);
        if moves.waits.len() > before {
            return;
        }
    }
    let replicas = if order.is_held { set.replicas } else { scene.replicas };
    let scaling = scene.adjust_to(zone, member, (None, replicas), moves);
    limit(scene, zone, member, moves);
    let is_scaling = scaling.is_some() || order.is_held;
    moves.waits.extend(scaling);
    if set.replicas != scene.replicas && !is_scaling {
        // Whether all that is asked for serves is known once it is scaled.
        moves.waits.push(Wait::Changing { set: set.name.to_string() });
        return;
    }
    rolled_out(scene, zone, member, moves);
}

/// What comes next for the pods of a set whose pods leave and join by a ScalingPolicy.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    due: Option<Move>,
    /// Whether no pod is created because one of the new version is broken.
    is_held: bool,
}

impl Order {
    fn of(scene: &Scene<'_>, member: &Member, is_changed: bool) -> Self {
        if scene.spec.rules.is_none() {
            return Self::default();
        }
        let (set, health) = (&member.set, Health::of(member, scene.now));
        let leaving = set.leaving();
        let pods: BTreeMap<u32, &Arc<PodRow>> =
            member.pods.iter().filter_map(|pod| Some((member.wanted_ordinal(pod)?, pod))).collect();
        let slot = |ordinal: u32| {
            let pod = pods.get(&ordinal);
            let is_new =
                |pod: &&Arc<PodRow>| set.target().is_some() && pod.revision.as_deref() == set.target();
            let change = match pod {
                Some(pod) if pod.terminating => Change::Terminating,
                _ if leaving.contains(&ordinal) => Change::Leaving,
                _ => Change::None,
            };
            Slot {
                is_new: !is_changed && pod.copied().as_ref().is_some_and(is_new),
                is_available: pod.is_some_and(|pod| health.why_down(&pod.name).is_none()),
                change,
            }
        };
        let most = usize::try_from(MAX_REPLICAS).unwrap_or(usize::MAX);
        let slots = set.ordinals().take(most).map(slot).collect();
        let pools = [Pool { is_observed: set.target().is_some(), slots }];
        let rule = Rule {
            wanted: usize::try_from(scene.replicas).unwrap_or(usize::MAX),
            max_unavailable: 1,
            max_surge: 0,
            parallelism: 1,
            roll_first: false,
        };
        let due = pools::due(&pools, &rule);
        let is_current = scene.world.row.status.current_version == Some(scene.number);
        let is_held = || match pools::next(&pools, &rule) {
            Next::Wait(Pause::NewUnavailable(place)) => {
                let ordinal = u32::try_from(place.index).map(|index| set.first_ordinal.saturating_add(index));
                let pod = ordinal.ok().and_then(|ordinal| pods.get(&ordinal));
                pod.is_some_and(|pod| matches!(health.why_down(&pod.name), Some(Why::Broken(_))))
            }
            _ => false,
        };
        let is_held = matches!(due, Some(Move::Create(_))) && !is_current && is_held();
        Self { due, is_held }
    }

    /// Whether pods that are too many leave first, or are called back.
    fn is_shrinking(self) -> bool {
        matches!(self.due, Some(Move::Drain(_) | Move::Cancel(_)))
    }
}

/// Whether a new version does not wait for the pods that leave: the old one is broken, or they do not leave until a person acts,
/// and then the new version may be what a person has done.
fn may_overtake(scene: &Scene<'_>, member: &Member, scaling: Option<&Wait>) -> bool {
    let health = Health::of(member, scene.now);
    let is_broken = |pod: &Arc<PodRow>| matches!(health.why_down(&pod.name), Some(Why::Broken(_)));
    scaling.is_some_and(Wait::is_stalled) || member.pods.iter().any(is_broken)
}

/// Tells whoever replaces the pods how many may be unavailable: the rollout group of zones by an annotation, the StatefulSet
/// controller by its own field, of which the annotation records the value.
fn limit(scene: &Scene<'_>, zone: &Zone, member: &Member, moves: &mut Moves) {
    let set = &member.set;
    let wanted = scene.spec.max_unavailable();
    if wanted.is_none() && scene.spec.annotates_max_unavailable {
        return;
    }
    if set.steering.max_unavailable.as_deref() == wanted {
        return;
    }
    let mut body = json!({ "metadata": { "annotations": { keys::MAX_UNAVAILABLE: wanted } } });
    if zone.name.is_none()
        && let Some(fields) = body.as_object_mut()
    {
        let rolling = json!({ "rollingUpdate": { "maxUnavailable": wanted.map(int_or_string) } });
        fields.insert("spec".to_owned(), json!({ "updateStrategy": rolling }));
    }
    let precondition = Precondition { uid: (*set.uid).into(), resource_version: None };
    let written = (body, keys::MANAGER_EXTENDED);
    moves.writes.push(Action::merge(object_of(set), &scene.world.row.uid, precondition, written));
}

/// Waits until all pods are of the version and Ready, and helps where the StatefulSet controller would wait for ever.
fn rolled_out(scene: &Scene<'_>, zone: &Zone, member: &Member, moves: &mut Moves) {
    let set = &member.set;
    let Some(update) = set.target() else {
        moves.waits.push(Wait::Unobserved { set: Arc::clone(&set.name) });
        return;
    };
    let mut health = Health::of(member, scene.now);
    // Those that leave are reported as such.
    health.disregard_leaving();
    let is_outdated = |pod: &Arc<PodRow>| {
        let ordinal = member.wanted_ordinal(pod);
        pod.revision.as_deref() != Some(update) && ordinal.is_none_or(|ordinal| !set.is_doomed(ordinal))
    };
    let is_outdated = member.pods.iter().any(is_outdated);
    moves.wake(health.changes_at);
    if is_outdated
        && health.all_ready()
        && let Some(wait) = held_by_others(zone, member)
    {
        moves.waits.push(wait);
    } else if is_outdated || !health.all_ready() {
        let down = if health.all_ready() { String::new() } else { health.summary() };
        let is_new = is_outdated || scene.world.row.status.current_version != Some(scene.number);
        moves.waits.push(if is_new {
            let elsewhere = elsewhere(scene, zone).filter(|_| is_outdated && !health.all_ready());
            Wait::Rolling { set: Arc::clone(&set.name), down, outdated: is_outdated, elsewhere }
        } else {
            Wait::NotReady { down }
        });
    }
    if is_outdated && zone.name.is_none() && set.steering.phased_rollout.is_none() {
        replace_stuck(scene, member, update, moves);
    }
}

/// What is not Ready of the first other zone with such pods.
fn elsewhere(scene: &Scene<'_>, zone: &Zone) -> Option<String> {
    let others = scene.layout.zones.iter().filter(|other| other.index != zone.index);
    let health = others.filter_map(|other| {
        let name = set_name(&scene.world.row, scene.spec, other, scene.number);
        let member = scene.world.children.iter().find(|member| *member.set.name == *name)?;
        Some(Health::of(member, scene.now))
    });
    health.into_iter().find(|health| !health.all_ready()).map(|health| health.summary())
}

/// Why outdated pods, all of them Ready, are not replaced: that is not the version's fault.
fn held_by_others(zone: &Zone, member: &Member) -> Option<Wait> {
    let set = &member.set;
    if zone.name.is_some() {
        let is_paused = set.steering.paused.as_deref() == Some("true");
        return is_paused.then(|| Wait::GroupPaused { set: Arc::clone(&set.name) });
    }
    let is_as_it_shall_be = |pod: &Arc<PodRow>| {
        let revision = member.wanted_ordinal(pod).and_then(|ordinal| set.revision_for(ordinal));
        revision.is_some() && revision == pod.revision.as_deref()
    };
    let rollout = set.steering.phased_rollout.as_deref().map(Into::into);
    member
        .pods
        .iter()
        .all(is_as_it_shall_be)
        .then(|| Wait::PartitionHeld { set: Arc::clone(&set.name), rollout })
}

/// Replaces outdated pods that are not Ready: the StatefulSet controller waits for them before it looks at a new revision.
fn replace_stuck(scene: &Scene<'_>, member: &Member, update: &str, moves: &mut Moves) {
    if scene.world.unconfirmed.is_some() || scene.spec.paused {
        return;
    }
    let domain = DomainBudget::of([member], Allowance::OnePod, scene.now);
    let mut gatekeeper = Gatekeeper::new(&domain);
    // A pod below a partition would come back as it is.
    let comes_back = |pod: &PodRow| {
        let ordinal = member.wanted_ordinal(pod);
        ordinal.is_some_and(|ordinal| member.set.revision_for(ordinal) != Some(update))
    };
    let is_stuck = |pod: &&Arc<PodRow>| {
        !pod.terminating && !pod.ready() && pod.revision.as_deref() != Some(update) && !comes_back(pod)
    };
    let stuck = member.pods.iter().rev().filter(is_stuck);
    for pod in stuck {
        match gatekeeper.ask(&member.set.name, pod) {
            Ok(permit) => moves.writes.push(Action::delete(&permit)),
            Err(denial) => {
                moves.waits_on.insert(denial.awaited());
            }
        }
    }
}
