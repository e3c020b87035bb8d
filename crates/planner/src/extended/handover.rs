//! One set per zone and version, which share the ordinals of the zone. A new version takes them over one by one, from the
//! highest down, with the same claims; zones follow each other. [`ranges`] decides which set runs which ordinals, this
//! module what that means for the object.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use serde_json::json;
use sts_plus_api::extended::OnFailure;
use sts_plus_api::keys;

use super::children::{NameParts, Version, ordinals_of};
use super::claims;
use super::moves::{Moves, READ_AGAIN, Scene};
use super::ranges::{self, Next, Occupant, Pause, Place, Pool, State};
use super::render::set_name;
use super::spec::Strategy;
use super::wait::Wait;
use super::zones::Zone;
use crate::disruption::{Allowance, DomainBudget, Gatekeeper};
use crate::health::{Health, Why};
use crate::ordinal;
use crate::plan::{Action, Ask, PodsOf, Precondition, object_of};
use crate::reason::Severity;

/// What to do for an object whose versions share ordinals and claims.
pub(super) fn plan(scene: &Scene<'_>) -> Moves {
    let mut moves = Moves { done: true, ..Moves::default() };
    moves.waits.extend(scene.unknown.cloned());
    moves.done &= scene.unknown.is_none();
    super::helpers::remove(scene, &mut moves);
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    let mut earlier: Option<String> = None;
    for zone in &scene.layout.zones {
        let name = set_name(&scene.world.row, scene.spec, zone, scene.number);
        wanted.extend(scene.versions.of_zone(zone).map(|version| version.set().name.to_string()));
        wanted.insert(name.clone());
        let before = moves.waits.len();
        Zoned::of(scene, zone, &name, earlier.as_deref()).moves(&mut moves);
        if moves.waits.len() > before {
            moves.done = false;
            earlier.get_or_insert(name);
        }
    }
    super::helpers::replace_unmutated(scene, &mut moves);
    if scene.unknown.is_none() {
        scene.drain(&wanted, &mut moves);
    }
    moves
}

/// The version that most ordinals of a zone run.
pub(super) fn serving<'s>(scene: &Scene<'s>, zone: &Zone) -> Option<&'s Version<'s>> {
    let alive = scene.versions.of_zone(zone).filter(|version| !version.set().deleting);
    alive.max_by_key(|version| (version.set().replicas, version.number))
}

/// A zone with its sets.
struct Zoned<'z, 's> {
    scene: &'z Scene<'s>,
    zone: &'s Zone,
    /// The name of the set of the version that is asked for.
    name: &'z str,
    /// The set of a zone that comes first.
    earlier: Option<&'z str>,
    /// Its sets, the oldest version first, those that are being deleted included.
    sets: Vec<&'s Version<'s>>,
    wanted: Range<u32>,
}

impl<'z, 's> Zoned<'z, 's> {
    fn of(scene: &'z Scene<'s>, zone: &'s Zone, name: &'z str, earlier: Option<&'z str>) -> Self {
        let mut sets: Vec<_> = scene.versions.of_zone(zone).collect();
        sets.sort_by_key(|version| (version.number, Arc::clone(&version.set().name)));
        let first = scene.spec.first_ordinal;
        let wanted = first..first.saturating_add(scene.replicas);
        Self { scene, zone, name, earlier, sets, wanted }
    }

    fn moves(&self, moves: &mut Moves) {
        let scene = self.scene;
        let has_target = self.sets.iter().any(|version| *version.set().name == *self.name);
        if !has_target && let Some(set) = self.with_other_claims() {
            moves.waits.push(Wait::ClaimsStayBehind { set: Some(set) });
            return;
        }
        let before = moves.waits.len();
        let stock = claims::provide(scene, self.zone, &self.wanted, moves);
        let problem = moves.waits.len() > before;
        let Some(target) = self.target(moves) else { return };
        let Some(version) = self.sets.get(target) else { return };
        let (written, waits) = (moves.writes.len(), moves.waits.len());
        if *version.set().name == *self.name && scene.unknown.is_none() {
            if !version.has(&scene.content.hash) {
                moves.waits.push(Wait::NameTaken { set: self.name.to_owned() });
                return;
            }
            if scene.may_have_drifted(version.set()) {
                scene.change(self.zone, version.member, moves);
            }
        }
        for known in self.sets.iter().filter(|known| !known.set().deleting) {
            scene.adjust(self.zone, known.member, Some(known.number), moves);
        }
        if moves.waits.len() > waits {
            return;
        }
        if moves.writes.len() > written {
            // Each write carries the version that the one before changes.
            moves.waits.push(Wait::Changing { set: version.set().name.to_string() });
            return;
        }
        let pools: Vec<_> = self.sets.iter().map(|version| pool(version)).collect();
        let present = self.present();
        let question = self.question();
        let listed = scene.world.listed.get(&question).map(|pods| self.occupants(pods));
        let is_alone = self.sets.len() == 1;
        let held = self.held();
        let is_older = |pool: &(usize, &Pool)| pool.0 > target && !pool.1.range.is_empty();
        let place = Place {
            wanted: &self.wanted,
            pools: &pools,
            target,
            present: &present,
            listed: listed.as_ref(),
            has_claims: &|ordinal| stock.has(ordinal),
            may_give: held.is_none() || is_alone,
            max_unavailable: self.max_unavailable(),
            reverts: pools.iter().enumerate().any(|pool| is_older(&pool)),
        };
        let next = ranges::next(&place);
        let is_used = |ordinal: u32| {
            let mut occupied = present.range((ordinal, None)..).take_while(|(known, _)| *known == ordinal);
            pools.iter().any(|pool| pool.range.contains(&ordinal)) || occupied.next().is_some()
        };
        if scene.unknown.is_none() && pools.iter().all(|pool| pool.is_observed) {
            claims::release(scene, self.zone, (&self.wanted, is_used), moves);
        }
        if let Next::List { pool } | Next::Take { pool, .. } = next
            && self.appoint(pool, moves)
        {
            return;
        }
        let is_claimed_wait = matches!(next, Next::Wait(Pause::NoClaims(_))) && problem;
        match next {
            Next::Cut { pool, range } => self.cut(pool, &range, moves),
            Next::List { .. } => {
                moves.asks.push(Ask::Pods(question));
                // That a list fails is no event that anybody would be woken by.
                moves.wake(scene.now.checked_add(READ_AGAIN).ok());
                moves.waits.push(Wait::Changing { set: version.set().name.to_string() });
            }
            Next::Take { pool, range } => self.take(pool, target, &range, moves),
            Next::Give { pool, ordinal, range } => self.give((pool, ordinal, &range), version, moves),
            // The claims have said why.
            Next::Wait(_) if is_claimed_wait => {}
            Next::Wait(pause) => self.wait(version, (pause, held), moves),
            Next::Done => self.finish(version, held, moves),
        }
    }

    /// A set with claims that Kubernetes has created for it, where all versions are to have the same.
    fn with_other_claims(&self) -> Option<Arc<str>> {
        let mut alive = self.sets.iter().filter(|version| !version.set().deleting);
        let is_stable = !self.scene.spec.stable_claims.is_empty();
        alive
            .find(|version| is_stable && version.child.has_claims)
            .map(|version| Arc::clone(&version.set().name))
    }

    /// The set that shall run all ordinals, which is created where it is missing. While it must not be created, the newest one
    /// that is there keeps what it has.
    fn target(&self, moves: &mut Moves) -> Option<usize> {
        let scene = self.scene;
        if let Some(back) = self.rolled_back() {
            return Some(back);
        }
        if let Some(at) = self.sets.iter().position(|version| *version.set().name == *self.name) {
            let is_deleting = self.sets.get(at).is_some_and(|version| version.set().deleting);
            if is_deleting {
                moves.waits.push(Wait::Terminating { set: self.name.into() });
            }
            return (!is_deleting).then_some(at);
        }
        let alive = self.sets.iter().enumerate().filter(|(_, version)| !version.set().deleting);
        let newest = alive.max_by_key(|(_, version)| version.number);
        let before = newest.map(|(_, version)| *version);
        if scene.unknown.is_some() {
            return newest.map(|(at, _)| at);
        }
        if let Some((_, at)) = scene.before_creation(self.zone, before, self.earlier) {
            // What it waits for is said with what the sets wait for.
            moves.wake(at);
            if newest.is_none() {
                let wait = scene.before_creation(self.zone, before, self.earlier);
                moves.waits.extend(wait.map(|(wait, _)| wait));
            }
            return newest.map(|(at, _)| at);
        }
        let first_ordinal = Some(scene.spec.first_ordinal);
        // It has no pods before it is known that nobody else has them.
        scene.create_from(
            &super::render::Recipe { replicas: 0, first_ordinal, ..scene.recipe(self.zone) },
            moves,
        );
        None
    }

    /// The set that gets its ordinals back, where the version that is asked for has failed.
    fn rolled_back(&self) -> Option<usize> {
        let scene = self.scene;
        if !scene.has_failed() || scene.spec.on_failure != OnFailure::Rollback {
            return None;
        }
        let others = self.sets.iter().enumerate().filter(|(_, version)| {
            !version.set().deleting && *version.set().name != *self.name && version.number > 0
        });
        let current = scene.world.row.status.current_version;
        others.max_by_key(|(_, version)| (Some(version.number) == current, version.number)).map(|(at, _)| at)
    }

    /// Why no ordinal may change hands.
    fn held(&self) -> Option<Wait> {
        let scene = self.scene;
        if let Some(wait) = scene.unknown {
            return Some(wait.clone());
        }
        let has_failed = scene.has_failed() && self.rolled_back().is_none();
        if has_failed && self.sets.len() > 1 {
            return Some(scene.failed());
        }
        let newest = self.sets.iter().rev().find(|version| *version.set().name != *self.name);
        if let Some((wait, _)) = scene.held(newest.and_then(|version| version.hash.as_deref())) {
            return Some(wait);
        }
        if has_failed {
            return Some(scene.failed());
        }
        let set = self.earlier?.to_owned();
        Some(Wait::ZoneWaiting { zone: self.zone.name.clone().unwrap_or_default(), set })
    }

    fn max_unavailable(&self) -> u32 {
        match self.scene.spec.strategy {
            Strategy::Handover { max_unavailable } => max_unavailable.of(self.scene.replicas),
            Strategy::InPlace { .. } | Strategy::BlueGreen { .. } => 1,
        }
    }

    /// Every pod of the zone in the cache: those of its sets, and whoever else mounts its claims.
    fn present(&self) -> BTreeSet<Occupant> {
        let mut present = BTreeSet::new();
        for (at, version) in self.sets.iter().enumerate() {
            let pods = version.member.pods.iter();
            let ordinals = pods.filter_map(|pod| ordinal::of_pod(&pod.name, &version.set().name));
            present.extend(ordinals.map(|ordinal| (ordinal, Some(at))));
        }
        let row = &self.scene.world.row;
        let prefix = claims::prefix(&row.name, self.zone.name.as_ref().map(|_| self.zone.index));
        for pod in &self.scene.world.users {
            let set = self.sets.iter().position(|version| version.set().uid == pod.owner);
            for template in &self.scene.spec.stable_claims {
                let stem = claims::stem(&template.name, &prefix);
                let claims = pod.claims();
                let ordinals = claims.iter().filter_map(|claim| ordinal::of_pod(claim, &stem));
                present.extend(ordinals.map(|ordinal| (ordinal, set)));
            }
        }
        present
    }

    /// The list that shows every pod of the zone: by label, whatever set controls it and whether or not that still exists.
    fn question(&self) -> PodsOf {
        let row = &self.scene.world.row;
        let key = |suffix| row.group.key(suffix);
        let selector =
            format!("{}={},{}={}", key(keys::EXTENDED_NAME), row.name, key(keys::AZ_INDEX), self.zone.index);
        let sets = self.sets.iter().map(|version| {
            let set = version.set();
            format!("{}@{}", set.uid, set.generation)
        });
        let basis = sets.collect::<Vec<_>>().join(" ").into();
        PodsOf { namespace: Arc::clone(&row.namespace), selector: selector.into(), basis }
    }

    /// The pods of the zone among those that were listed.
    fn occupants(&self, pods: &BTreeSet<Box<str>>) -> BTreeSet<Occupant> {
        let index = self.zone.name.as_ref().map(|_| self.zone.index);
        let occupant = |pod: &str| {
            let (set, _) = pod.rsplit_once('-')?;
            let parts = NameParts::of(&self.scene.world.row.name, set)?;
            let ordinal = ordinal::of_pod(pod, set).filter(|_| parts.zone == index)?;
            Some((ordinal, self.sets.iter().position(|version| *version.set().name == *set)))
        };
        pods.iter().filter_map(|pod| occupant(pod)).collect()
    }

    fn cut(&self, pool: usize, range: &Range<u32>, moves: &mut Moves) {
        let Some(version) = self.sets.get(pool) else { return };
        let set = version.set();
        if let Some(why) = &self.scene.world.unconfirmed {
            moves.waits.push(Wait::ViewUnconfirmed { why: Arc::clone(why) });
            return;
        }
        self.announce(version, "Scaled", range, moves);
        moves.writes.push(Action::cut(&self.scene.world.row, set, range));
        moves.waits.push(Wait::Changing { set: set.name.to_string() });
    }

    /// Says on all sets which of them takes ordinals; whether that takes a write. Whatever was sent for another one before
    /// carries a version that is gone then.
    fn appoint(&self, pool: usize, moves: &mut Moves) -> bool {
        let Some(taker) = self.sets.get(pool).map(|version| &version.set().name) else { return false };
        let row = &self.scene.world.row;
        let is_known =
            |version: &&&Version<'_>| version.set().deleting || version.child.taker.as_ref() == Some(taker);
        let others: Vec<_> = self.sets.iter().filter(|version| !is_known(version)).collect();
        for version in &others {
            let set = version.set();
            let body = json!({ "metadata": { "annotations": { row.group.key(keys::TAKER): taker } } });
            let precondition = Precondition::exactly(&set.uid, &set.resource_version);
            let written = (body, keys::MANAGER_EXTENDED);
            moves.writes.push(Action::merge(object_of(set), &row.uid, precondition, written));
            moves.waits.push(Wait::Changing { set: set.name.to_string() });
        }
        !others.is_empty()
    }

    fn take(&self, pool: usize, target: usize, range: &Range<u32>, moves: &mut Moves) {
        let Some(version) = self.sets.get(pool) else { return };
        let set = version.set();
        let is_handover = pool == target && self.sets.len() > 1;
        self.announce(version, if is_handover { "HandedOver" } else { "Scaled" }, range, moves);
        moves.writes.push(Action::take_over(&self.scene.world.row, set, range));
        moves.waits.push(Wait::Changing { set: set.name.to_string() });
    }

    fn announce(&self, version: &Version<'_>, reason: &'static str, range: &Range<u32>, moves: &mut Moves) {
        let set = version.set();
        let ordinals = ordinals_of(range);
        let (name, number) = (&set.name, version.number);
        let message = if ordinals.is_empty() {
            format!("StatefulSet {name} of version {number} has no ordinals.")
        } else {
            format!("StatefulSet {name} of version {number} has the ordinals {ordinals}.")
        };
        moves.notes.push(self.scene.note(Severity::Normal, reason, message, object_of(set)));
    }

    /// Takes an ordinal from a set, with the permit for its pod.
    fn give(
        &self,
        (pool, ordinal, range): (usize, u32, &Range<u32>),
        target: &Version<'_>,
        moves: &mut Moves,
    ) {
        let Some(version) = self.sets.get(pool) else { return };
        let (row, set) = (&self.scene.world.row, version.set());
        let name = format!("{}-{ordinal}", set.name);
        let pod = version.member.pods.iter().find(|pod| *pod.name == *name);
        let write = match pod {
            None => Action::cut(row, set, range),
            Some(pod) => {
                let own = self.scene.versions.all.iter().map(|version| version.member);
                let domain = DomainBudget::of(own, Allowance::OnePod, self.scene.now);
                let place = self.sets.iter().map(|version| Arc::clone(&version.set().name)).collect();
                match Gatekeeper::new(&domain).ask_handover(&set.name, pod, &place) {
                    Ok(permit) => Action::give_up(&permit, row, set, range),
                    Err(denial) => {
                        let zone = self.zone.name.clone().unwrap_or_default();
                        let set = denial.about().name.to_string();
                        moves.waits_on.insert(denial.awaited());
                        moves.waits.push(Wait::ZoneWaiting { zone, set });
                        return;
                    }
                }
            }
        };
        let message =
            format!("StatefulSet {} gives up ordinal {ordinal} for version {}.", set.name, target.number);
        moves.notes.push(self.scene.note(Severity::Normal, "OrdinalGivenUp", message, object_of(set)));
        moves.writes.push(write);
        moves.waits.push(Wait::Changing { set: set.name.to_string() });
    }

    fn wait(&self, target: &Version<'_>, (pause, held): (Pause, Option<Wait>), moves: &mut Moves) {
        let scene = self.scene;
        let name = |pool: usize| self.sets.get(pool).map(|version| Arc::clone(&version.set().name));
        let wait = match pause {
            Pause::Unobserved(pool) => Wait::Unobserved { set: name(pool).unwrap_or_default() },
            Pause::Occupied(occupants) => {
                let pods = occupants.into_iter().map(|(ordinal, pool)| self.pod(ordinal, pool));
                Wait::VolumeInUse { pods: pods.collect() }
            }
            Pause::NoClaims(ordinal) => Wait::ClaimPending { ordinal },
            Pause::Starting => {
                moves.wake(target.health.changes_at);
                self.starting(target)
            }
            Pause::Unavailable { pool, ordinal } => {
                for version in &self.sets {
                    moves.wake(version.health.changes_at);
                }
                let others = self.sets.iter().filter(|version| version.health.count > 0);
                let down: Vec<_> = others.map(|version| version.health.summary()).collect();
                Wait::Blocked {
                    version: target.number,
                    pod: format!("{}-{ordinal}", name(pool).unwrap_or_default()),
                    down: down.join(", "),
                    max_unavailable: self.max_unavailable(),
                }
            }
            Pause::Held => match held {
                Some(Wait::ConfigPending { .. }) if scene.unknown.is_some() => return,
                Some(wait) => wait,
                None => self.starting(target),
            },
        };
        moves.waits.push(wait);
    }

    /// A pod by its ordinal and its set.
    fn pod(&self, ordinal: u32, pool: Option<usize>) -> Box<str> {
        if let Some(version) = pool.and_then(|pool| self.sets.get(pool)) {
            return format!("{}-{ordinal}", version.set().name).into();
        }
        let suffix = format!("-{ordinal}");
        let uses = |claims: &[String]| claims.iter().any(|claim| claim.ends_with(&suffix));
        let found = self.scene.world.users.iter().find(|pod| uses(&pod.claims()));
        found.map_or_else(|| format!("a pod of ordinal {ordinal}").into(), |pod| pod.name.clone())
    }

    fn starting(&self, target: &Version<'_>) -> Wait {
        let down = target.health.summary();
        let is_current = self.scene.world.row.status.current_version == Some(target.number);
        if is_current && self.sets.len() == 1 {
            return Wait::NotReady { down };
        }
        let ordinals = ordinals_of(&target.set().ordinals());
        Wait::HandingOver { version: target.number, ordinals, wanted: self.scene.replicas, down }
    }

    /// Removes the sets that have given up all their ordinals.
    fn finish(&self, target: &Version<'s>, held: Option<Wait>, moves: &mut Moves) {
        let scene = self.scene;
        let others: Vec<_> =
            self.sets.iter().copied().filter(|version| version.set().uid != target.set().uid).collect();
        let is_serving = *target.set().name == *self.name;
        if let Some(wait) = held.filter(|_| !others.is_empty() || !is_serving) {
            moves.waits.push(wait);
            return;
        }
        let is_empty = |version: &Version<'_>| version.set().replicas == 0 && version.member.pods.is_empty();
        let emptied = others.iter().copied().filter(|version| is_empty(version));
        scene.delete(emptied, moves);
        if !is_serving {
            moves.waits.push(scene.failed());
        } else if let Some(other) = others.first() {
            let set = Arc::clone(&other.set().name);
            moves.waits.push(Wait::Removing { version: target.number, set });
        } else if !target.health.all_ready() {
            moves.wake(target.health.changes_at);
            moves.waits.push(Wait::NotReady { down: target.health.summary() });
        }
    }
}

fn pool(version: &Version<'_>) -> Pool {
    let set = version.set();
    let health: &Health = &version.health;
    let pods = version.member.pods.iter().filter(|pod| !pod.terminating);
    let state = |pod: &str| match health.why_down(pod) {
        None => State::Available,
        Some(Why::Broken(_)) => State::Broken,
        Some(_) => State::Unavailable,
    };
    let pods = pods.filter_map(|pod| Some((version.member.wanted_ordinal(pod)?, state(&pod.name))));
    Pool {
        range: if set.deleting { set.first_ordinal..set.first_ordinal } else { set.ordinals() },
        is_observed: set.deleting || set.observed_generation >= set.generation,
        pods: pods.collect(),
    }
}
