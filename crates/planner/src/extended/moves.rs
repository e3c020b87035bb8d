//! What a strategy wants done, in the order in which it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use sts_plus_api::extended::OnFailure;
use sts_plus_api::keys;

use super::World;
use super::children::{Version, Versions};
use super::content::{Content, differ_in_config};
use super::policies::Policies;
use super::render::{Recipe, is_part_of, owner_reference, rollout_group, set_name, template_zones};
use super::spec::{Fault, MAX_CHILD_NAME, Spec};
use super::wait::Wait;
use super::zones::{Layout, Zone};
use crate::health::Member;
use crate::plan::{Action, Ask, Awaited, Note, Object, Precondition, Subject, When, object_of};
use crate::reason::Severity;
use crate::set::SetRow;

/// How soon a set is read again that could not be read.
pub(super) const READ_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// All that a strategy looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'s> {
    pub(super) world: &'s World,
    pub(super) spec: &'s Spec,
    pub(super) layout: &'s Layout,
    pub(super) versions: &'s Versions<'s>,
    /// The content that is asked for; the last one known where it is not known now.
    pub(super) content: &'s Content,
    /// What keeps the content from being known.
    pub(super) unknown: Option<&'s Wait>,
    pub(super) number: u32,
    pub(super) replicas: u32,
    pub(super) now: Timestamp,
}

/// What is to be done, and the first wait of each zone.
#[derive(Debug, Default)]
pub(super) struct Moves {
    pub(super) writes: Vec<Action>,
    pub(super) asks: Vec<Ask>,
    pub(super) notes: Vec<Note>,
    pub(super) waits: Vec<Wait>,
    pub(super) wake_at: Option<Timestamp>,
    pub(super) waits_on: BTreeSet<Awaited>,
    /// Of each set that was read and is as it was written, its generation.
    pub(super) verified: BTreeMap<Arc<str>, i64>,
    /// Sets whose pods leave for good, whether or not one of them may leave now.
    pub(super) retiring: BTreeSet<Arc<str>>,
    /// The one of them whose pods may: one set is emptied at a time.
    pub(super) emptied: Option<Arc<str>>,
    /// Whether every zone has what is asked for.
    pub(super) done: bool,
    /// The value that would approve what waits for approval.
    pub(super) awaited_approval: Option<String>,
}

impl Moves {
    pub(super) fn wake(&mut self, at: Option<Timestamp>) {
        self.wake_at = [self.wake_at, at].into_iter().flatten().min();
    }
}

impl<'s> Scene<'s> {
    pub(super) fn policies(&self) -> Policies<'s> {
        Policies { world: self.world, rules: self.spec.rules.as_deref() }
    }

    pub(super) fn recipe(&self, zone: &'s Zone) -> Recipe<'s> {
        Recipe {
            row: &self.world.row,
            spec: self.spec,
            layout: self.layout,
            zone,
            number: self.number,
            content: self.content,
            replicas: self.replicas,
            first_ordinal: None,
        }
    }

    /// Whether this content has failed.
    pub(super) fn has_failed(&self) -> bool {
        let failed = self.world.row.status.failed_version.as_ref();
        failed.is_some_and(|failed| failed.hash == *self.content.hash)
    }

    /// The wait of an object whose content has failed.
    pub(super) fn failed(&self) -> Wait {
        let failed = self.world.row.status.failed_version.clone().unwrap_or_default();
        let rolled_back = self.spec.is_versioned() && self.spec.on_failure == OnFailure::Rollback;
        Wait::Failed { version: failed.number, message: failed.message, rolled_back }
    }

    /// Whether a set was the promoted one of its zone when the status was written.
    pub(super) fn was_promoted(&self, set: &str) -> bool {
        let versions = &self.world.row.status.versions;
        let mut sets = versions.iter().flat_map(|version| &version.zones);
        sets.any(|recorded| recorded.promoted && recorded.stateful_set == *set)
    }

    /// Whether a zone, or the place without one, is asked for.
    pub(super) fn is_place(&self, index: Option<u32>) -> bool {
        self.layout.zones.iter().any(|zone| zone.name.as_ref().map(|_| zone.index) == index)
    }

    /// Whether a set may be another than was written, so that it has to be read: what was written last is known from the status,
    /// also after a restart, or from this process, which has not recorded it yet.
    pub(super) fn may_have_drifted(&self, set: &SetRow) -> bool {
        let is_written = self.world.written.get(&set.uid).is_some_and(|written| set.generation <= *written);
        !is_written && self.recorded_generation(set) != Some(set.generation)
    }

    fn recorded_generation(&self, set: &SetRow) -> Option<i64> {
        let mut sets = self.world.row.status.versions.iter().flat_map(|version| &version.zones);
        let recorded = sets.find(|recorded| *recorded.stateful_set == *set.name && *recorded.uid == *set.uid);
        recorded?.written_generation
    }

    /// The generation to record: what nobody has looked at stays as it was recorded.
    pub(super) fn written_generation(&self, set: &SetRow, moves: &Moves) -> Option<i64> {
        let known = (!self.may_have_drifted(set)).then_some(set.generation);
        let verified = || moves.verified.get(&set.name).copied();
        known.or_else(verified).or_else(|| self.recorded_generation(set))
    }

    /// The hash of the content of a set.
    pub(super) fn hash_of(&self, set: &'s SetRow) -> Option<&str> {
        let known = self.versions.named(&set.name).and_then(|version| version.hash.as_deref());
        known.or_else(|| set.child.as_ref()?.hash.as_deref())
    }

    /// Why the set of a place is not created yet: it would replace `newest`, or it would be the first of its version.
    /// `earlier` is the set of a zone that comes first. A set that is merely missing is created at once.
    pub(super) fn before_creation(
        &self,
        zone: &Zone,
        newest: Option<&Version<'_>>,
        earlier: Option<&str>,
    ) -> Option<(Wait, Option<Timestamp>)> {
        let alive = || self.versions.all.iter().filter(|version| !version.set().deleting);
        let is_new = !alive().any(|version| version.has(&self.content.hash));
        let elsewhere = || alive().max_by_key(|version| version.number).filter(|_| is_new);
        let before = newest.or_else(elsewhere)?;
        if self.has_failed() {
            return Some((self.failed(), None));
        }
        self.held(before.hash.as_deref()).or_else(|| {
            let set = earlier.filter(|_| newest.is_some())?.to_owned();
            Some((Wait::ZoneWaiting { zone: zone.name.clone().unwrap_or_default(), set }, None))
        })
    }

    pub(super) fn note(
        &self,
        severity: Severity,
        reason: &'static str,
        message: String,
        object: Object,
    ) -> Note {
        Note {
            on: vec![Subject::from(&*self.world.row)],
            severity,
            reason,
            message,
            when: When::Written(object),
        }
    }

    fn object(&self, name: &str) -> Object {
        let namespace = Arc::clone(&self.world.row.namespace);
        Object { kind: crate::plan::Kind::StatefulSet, namespace, name: name.into() }
    }

    /// Why a change of the version has to wait, although everything is there to make it.
    pub(super) fn held(&self, before: Option<&str>) -> Option<(Wait, Option<Timestamp>)> {
        if let Some(why) = &self.world.unconfirmed {
            return Some((Wait::ViewUnconfirmed { why: Arc::clone(why) }, None));
        }
        if self.spec.paused {
            return Some((Wait::Paused { version: self.number }, None));
        }
        let settles = before.is_some_and(|before| differ_in_config(before, &self.content.hash));
        let at = self.world.config_settled_at.filter(|at| settles && *at > self.now)?;
        Some((Wait::ConfigSettling, Some(at)))
    }

    /// Creates a set, if its name is free.
    pub(super) fn create(&self, zone: &'s Zone, moves: &mut Moves) {
        self.create_from(&self.recipe(zone), moves);
    }

    /// The same with a number of pods and a first ordinal of its own.
    pub(super) fn create_from(&self, recipe: &Recipe<'_>, moves: &mut Moves) {
        let name = recipe.name();
        if name.len() > MAX_CHILD_NAME {
            moves.waits.push(Wait::Invalid(Fault::NameTooLong(name)));
            return;
        }
        if self.world.strangers.contains(&*name) {
            moves.waits.push(Wait::NameTaken { set: name });
            return;
        }
        let object = self.object(&name);
        if let Some(known) = self.world.children.iter().find(|member| *member.set.name == *name) {
            self.relabel(&known.set, moves);
            return;
        }
        let body = recipe.set(self.layout.annotation.as_deref());
        let message = format!("Created StatefulSet {name} of version {}.", self.number);
        moves.notes.push(self.note(Severity::Normal, "VersionCreated", message, object.clone()));
        moves.writes.push(Action::create(object, &self.world.row.uid, body, keys::MANAGER_EXTENDED));
        moves.waits.push(Wait::Changing { set: name });
    }

    /// Takes back the sets that an object of this name has left behind, before anything else is decided: their content and
    /// their numbers count.
    pub(super) fn adoptions(&self) -> Option<Moves> {
        let mut moves = Moves::default();
        let is_orphan = |set: &SetRow| set.child.as_ref().is_some_and(|child| child.owner.is_empty());
        for orphan in self.world.children.iter().filter(|member| is_orphan(&member.set)) {
            self.adopt(&orphan.set, &mut moves);
        }
        (!moves.waits.is_empty()).then_some(moves)
    }

    fn adopt(&self, set: &SetRow, moves: &mut Moves) {
        if set.deleting {
            moves.waits.push(Wait::Terminating { set: Arc::clone(&set.name) });
            return;
        }
        // No row has the owners that do not control it. They stay.
        let Some(live) = self.live(set, moves) else { return };
        let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let mut owners = owners.cloned().unwrap_or_default();
        if owners.iter().any(|owner| owner.get("controller") == Some(&Value::Bool(true))) {
            moves.waits.push(Wait::Changing { set: set.name.to_string() });
            return;
        }
        owners.retain(|owner| owner.get("uid").and_then(Value::as_str) != Some(&*self.world.row.uid));
        owners.push(owner_reference(&self.world.row));
        let message = format!("Adopted StatefulSet {}.", set.name);
        moves.notes.push(self.note(Severity::Normal, "Adopted", message, object_of(set)));
        let version = live.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        self.write_metadata(set, version, &json!({ "ownerReferences": owners }), moves);
    }

    /// A set as it was read; where it has not been, or is another one by now, it is asked for and waited for.
    fn live(&self, set: &SetRow, moves: &mut Moves) -> Option<&'s Value> {
        let object = object_of(set);
        let read = self.world.reads.get(&object);
        let is_same =
            |live: &&Value| live.pointer("/metadata/uid").and_then(Value::as_str) == Some(&*set.uid);
        let live = read.and_then(Option::as_ref).filter(is_same);
        if read.is_none() {
            moves.asks.push(Ask::Read(object));
            // That a read fails is no event that anybody would be woken by.
            moves.wake(self.now.checked_add(READ_AGAIN).ok());
        }
        if live.is_none() {
            moves.waits.push(Wait::Changing { set: set.name.to_string() });
        }
        live
    }

    /// Restores the label of a set that is needed: without it the set would not be known as one of this object.
    fn relabel(&self, set: &SetRow, moves: &mut Moves) {
        let child = set.child.as_ref();
        let is_unlabelled = child.is_some_and(|child| {
            child.owner == self.world.row.uid && child.label.as_deref() != Some(&*self.world.row.name)
        });
        if set.deleting {
            moves.waits.push(Wait::Terminating { set: Arc::clone(&set.name) });
        } else if is_unlabelled {
            let key = self.world.row.group.key(keys::EXTENDED_NAME);
            let message = format!("Restored the label {key} of StatefulSet {}.", set.name);
            moves.notes.push(self.note(Severity::Warning, "LabelRestored", message, object_of(set)));
            let labels = json!({ "labels": { key: self.world.row.name } });
            self.write_metadata(set, &set.resource_version, &labels, moves);
        } else {
            moves.waits.push(Wait::NameTaken { set: set.name.to_string() });
        }
    }

    fn write_metadata(&self, set: &SetRow, version: &str, metadata: &Value, moves: &mut Moves) {
        let precondition = Precondition::exactly(&set.uid, version);
        let written = (json!({ "metadata": metadata }), keys::MANAGER_EXTENDED);
        moves.writes.push(Action::merge(object_of(set), &self.world.row.uid, precondition, written));
        moves.waits.push(Wait::Changing { set: set.name.to_string() });
    }

    /// While the content is not known, sets are scaled, and nothing else is done to them.
    pub(super) fn hold(&self, wait: Wait) -> Moves {
        let mut moves = Moves { waits: vec![wait], ..Moves::default() };
        for zone in &self.layout.zones {
            let present = set_name(&self.world.row, self.spec, zone, self.number);
            for version in self.versions.of_zone(zone).filter(|version| !version.set().deleting) {
                if *version.set().name == *present {
                    let scaling = self.adjust(zone, version.member, Some(version.number), &mut moves);
                    moves.waits.extend(scaling);
                } else {
                    self.adjust_other(zone, version, &mut moves);
                }
            }
        }
        moves
    }

    /// Scales a set and brings its labels and annotations up to date, which restarts nobody. The number is that of the set's
    /// version; `None` where the set gets another one.
    pub(super) fn adjust(
        &self,
        zone: &Zone,
        member: &Member,
        number: Option<u32>,
        moves: &mut Moves,
    ) -> Option<Wait> {
        self.adjust_to(zone, member, (number, self.replicas), moves)
    }

    /// The same for a number of replicas of its own. What is returned is what the ScalingPolicy of the set waits for.
    pub(super) fn adjust_to(
        &self,
        zone: &Zone,
        member: &Member,
        (number, replicas): (Option<u32>, u32),
        moves: &mut Moves,
    ) -> Option<Wait> {
        let set = &member.set;
        let child = set.child.as_ref()?;
        let mut body = Map::new();
        // Those of versions that share the ordinals of a place change in writes of their own.
        let writes_replicas = self.policies().writes_replicas(set) && !self.spec.is_handover();
        let is_scaled_here = self.spec.is_handover();
        let wait = if writes_replicas || is_scaled_here {
            None
        } else {
            self.policies().scale(set, replicas, moves)
        };
        if writes_replicas && set.replicas != replicas {
            body.insert("spec".to_owned(), json!({ "replicas": replicas }));
            let message =
                format!("Scaled StatefulSet {} from {} to {replicas} replicas.", set.name, set.replicas);
            moves.notes.push(self.note(Severity::Normal, "Scaled", message, object_of(set)));
        }
        let key = |suffix| child.group.key(suffix);
        let (mut labels, mut annotations) = (Map::new(), Map::new());
        if let Some(hash) = self.hash_of(set).filter(|_| child.hash.is_none()) {
            annotations.insert(key(keys::CONTENT_HASH), json!(hash));
        }
        // Nobody replaces the pods of a set of a zone that is not in the rollout group.
        let group = self.rollout_group_of(set, zone);
        if group.is_some() && set.group.as_deref() != group.as_deref() {
            labels.insert(keys::ROLLOUT_GROUP.to_owned(), json!(group));
        }
        let index = zone.index.to_string();
        if child.zone_index.as_deref() != Some(&*index) {
            labels.insert(key(keys::AZ_INDEX), json!(index));
        }
        if child.zone_name != zone.name {
            labels.insert(key(keys::AZ_NAME), json!(zone.name));
        }
        if zone.name.is_some() && child.zones != self.layout.annotation {
            annotations.insert(key(keys::ZONES), json!(self.layout.annotation));
        }
        let staying = self.staying(set, zone);
        if child.staying != staying {
            let staying = staying.map(|staying| staying.to_string());
            annotations.insert(key(keys::STAYING), json!(staying));
        }
        if let Some(number) = number.map(|number| number.to_string())
            && child.version.as_deref() != Some(&*number)
        {
            annotations.insert(key(keys::VERSION), json!(number));
        }
        let changed = [("labels", labels), ("annotations", annotations)];
        let metadata: Map<_, _> = changed
            .into_iter()
            .filter(|(_, changed)| !changed.is_empty())
            .map(|(field, changed)| (field.to_owned(), Value::Object(changed)))
            .collect();
        if !metadata.is_empty() {
            body.insert("metadata".to_owned(), Value::Object(metadata));
        }
        if !body.is_empty() {
            let precondition = Precondition::exactly(&set.uid, &set.resource_version);
            let written = (Value::Object(body), keys::MANAGER_EXTENDED);
            moves.writes.push(Action::merge(object_of(set), &self.world.row.uid, precondition, written));
        }
        wait
    }

    /// How many pods of a set of a rollout group stay, where others leave: the group does not replace those.
    fn staying(&self, set: &SetRow, zone: &Zone) -> Option<u32> {
        let leaves = self.spec.rules.is_some() && self.rollout_group_of(set, zone).is_some();
        (leaves && set.replicas > self.replicas).then_some(self.replicas)
    }

    /// The rollout group that a set of this strategy belongs to: that of the zones that are changed in place.
    fn rollout_group_of(&self, set: &SetRow, zone: &Zone) -> Option<String> {
        let (row, spec) = (&self.world.row, self.spec);
        let is_zoned = !spec.is_versioned() && zone.name.is_some();
        let is_present = *set.name == *set_name(row, spec, zone, self.number);
        (is_zoned && is_present).then(|| rollout_group(row))
    }

    /// Gives a set the content of this version, for which it is read first.
    pub(super) fn change(&self, zone: &'s Zone, member: &Member, moves: &mut Moves) {
        let set = &member.set;
        let object = object_of(set);
        let Some(live) = self.live(set, moves) else { return };
        let child = set.child.as_ref();
        let is_same = self.hash_of(set).is_some_and(|hash| *hash == *self.content.hash);
        let zones =
            template_zones(child.and_then(|child| child.template_zones.as_ref()), is_same, self.layout);
        let mut recipe = self.recipe(zone);
        recipe.first_ordinal = self.spec.is_handover().then_some(set.first_ordinal);
        if !self.policies().writes_replicas(set) || self.spec.is_handover() {
            // They have another writer.
            let present = live.pointer("/spec/replicas").and_then(Value::as_u64);
            recipe.replicas = present.and_then(|present| u32::try_from(present).ok()).unwrap_or(set.replicas);
        }
        let mut body = match recipe.replacement(live, zones) {
            Ok(body) => body,
            Err(fields) => {
                moves.waits.push(Wait::Immutable { set: Arc::clone(&set.name), fields });
                return;
            }
        };
        if self.policies().own(&set.name).is_some() {
            super::lock::keep(live, &mut body);
        }
        let staying = self.staying(set, zone).map(|staying| json!(staying.to_string()));
        if let Some(staying) = staying
            && let Some(annotations) =
                body.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        {
            // With the template, so that the rollout group knows it when it sees that.
            annotations.insert(self.world.row.group.key(keys::STAYING), staying);
        }
        if is_same && is_as_written(&body, live) {
            let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
            moves.verified.extend(generation.map(|generation| (Arc::clone(&set.name), generation)));
            return;
        }
        let version = live.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let precondition = Precondition::exactly(&set.uid, version);
        let message = format!("Changed StatefulSet {} to version {}.", set.name, self.number);
        moves.notes.push(self.note(Severity::Normal, "VersionChanged", message, object.clone()));
        // Pods of a zone that is changed in place wait for their rollout group; those of any other set are replaced by its own
        // controller.
        let disrupts = zone.name.is_none() || self.spec.is_versioned();
        let written = (body, keys::MANAGER_EXTENDED);
        moves.writes.push(Action::replace(object, &self.world.row.uid, precondition, written, disrupts));
        moves.waits.push(Wait::Changing { set: set.name.to_string() });
    }

    /// Deletes sets of this object, and nothing else.
    pub(super) fn delete<'v>(&self, versions: impl IntoIterator<Item = &'v Version<'s>>, moves: &mut Moves)
    where
        's: 'v,
    {
        for version in versions {
            let set = version.set();
            if set.deleting {
                continue;
            }
            if let Some(deletion) = Action::delete_version(&self.world.row, set) {
                let message = format!("Removed StatefulSet {} of version {}.", set.name, version.number);
                moves.notes.push(self.note(Severity::Normal, "VersionRemoved", message, object_of(set)));
                moves.writes.push(deletion);
            }
        }
    }

    /// Removes sets of zones and strategies that are no longer asked for, once everything that is asked for serves. Those of a
    /// zone that was removed go earlier where they serve nobody: the other zones of their rollout group may wait for them. For
    /// the same reason one whose pods are not all Ready comes first.
    pub(super) fn drain(&self, wanted: &BTreeSet<String>, moves: &mut Moves) {
        let surplus: Vec<_> =
            self.versions.all.iter().filter(|version| !wanted.contains(&*version.set().name)).collect();
        for version in surplus.iter().filter(|version| !version.set().deleting) {
            if let Some(zone) = self.layout.zones.iter().find(|zone| is_at(version, zone)) {
                self.adjust_other(zone, version, moves);
            }
        }
        let is_idle = |version: &&&Version<'_>| {
            self.layout.annotation.is_some()
                && version.zone.is_some()
                && !self.is_place(version.zone)
                && !version.has_ready_pod()
        };
        let done = moves.done;
        let first = || surplus.iter().find(|version| !version.health.all_ready()).or_else(|| surplus.first());
        let Some(next) = surplus.iter().find(is_idle).or_else(|| first().filter(|_| done)) else {
            for version in &surplus {
                self.stay(version, moves);
            }
            return;
        };
        moves.done = false;
        if let Some((wait, at)) = self.held(None) {
            moves.waits.extend(done.then_some(wait));
            moves.wake(at);
            return;
        }
        let claims = self.spec.claims;
        self.retire([*next], moves);
        moves.waits.push(Wait::Draining { set: Arc::clone(&next.set().name), claims });
    }
}

fn is_at(version: &Version<'_>, zone: &Zone) -> bool {
    version.zone == zone.name.as_ref().map(|_| zone.index)
}

/// Whether a set is what would be written, but for what the server fills in.
fn is_as_written(body: &Value, live: &Value) -> bool {
    let part = |pointer: &str| {
        let (wanted, present) = (body.pointer(pointer), live.pointer(pointer));
        is_part_of(wanted.unwrap_or(&Value::Null), present.unwrap_or(&Value::Null))
    };
    ["/spec", "/metadata/labels", "/metadata/annotations"].into_iter().all(part)
}
