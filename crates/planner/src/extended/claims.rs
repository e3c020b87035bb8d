//! Claims with stable names: those that all versions of an object use, `<claim>-volume-management-<name>[-z<index>]-<ordinal>`.
//!
//! They are created before the pods that mount them, and belong to nobody, so that data outlives versions, StatefulSets and the
//! object itself, unless the template's retention policy says otherwise. A pod template names them with a placeholder for the
//! ordinal, which admission replaces in each pod.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::extended::Group;
use sts_plus_api::keys;

use super::moves::{Moves, Scene};
use super::row::ExtendedRow;
use super::spec::{Retention, StableTemplate};
use super::wait::Wait;
use super::zones::Zone;
use crate::ordinal;
use crate::plan::{Action, Kind, Object, Precondition};
use crate::quantity::quantity;
use crate::selector::Labels;
use crate::statefulset::world::{ClaimRow, OwnerRef};

/// Claims that are created, changed or deleted in one pass.
const MAX_WRITES: usize = 50;

/// What is known of a claim with a stable name besides its owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StableClaim {
    pub labels: Labels,
    /// Whether its volume is gone.
    pub lost: bool,
    /// The storage that it asks for.
    pub requested: Option<Box<str>>,
}

/// The common part of the names of the claims of a place, between the infix and the ordinal.
pub fn prefix(name: &str, zone: Option<u32>) -> String {
    zone.map_or_else(|| name.to_owned(), |index| format!("{name}-z{index}"))
}

/// The name of a claim without its ordinal.
pub fn stem(template: &str, prefix: &str) -> String {
    format!("{template}{}{prefix}", keys::STABLE_CLAIM_INFIX)
}

/// The objects that may have a claim of this name, without its ordinal: by name, with and without a zone.
pub fn owners(stem: &str) -> impl Iterator<Item = &str> {
    let after = stem.match_indices(keys::STABLE_CLAIM_INFIX);
    let prefixes = after.filter_map(|(at, infix)| stem.get(at.saturating_add(infix.len())..));
    prefixes.flat_map(|prefix| std::iter::once(prefix).chain(without_zone(prefix)))
}

fn without_zone(prefix: &str) -> Option<&str> {
    let (name, index) = prefix.rsplit_once("-z")?;
    (!index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

/// Whether a claim of this name, without its ordinal, may be one of an object.
pub fn is_named_after(stem: &str, object: &str) -> bool {
    owners(stem).any(|name| name == object)
}

/// Whose a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Own,
    /// Of nobody: somebody has created it for this object, or cf-operator has.
    Unlabelled,
    Foreign,
}

fn holder(row: &ExtendedRow, claim: &ClaimRow) -> Holder {
    let none = Labels::new();
    let labels = claim.stable.as_ref().map_or(&none, |stable| &stable.labels);
    let is_controlled =
        claim.owners.iter().any(|owner| owner.controller == Some(true) && *owner.uid != *row.uid);
    let named = |group: Group| labels.get(&*group.key(keys::EXTENDED_NAME)).map(|name| &**name);
    let others = Group::ALL.into_iter().filter(|group| *group != row.group);
    match named(row.group) {
        _ if is_controlled || others.into_iter().any(|group| named(group).is_some()) => Holder::Foreign,
        Some(name) if *name == *row.name => Holder::Own,
        Some(_) => Holder::Foreign,
        None => Holder::Unlabelled,
    }
}

/// The claims of a place: which of its ordinals have all of theirs, and so can have a pod.
#[derive(Debug)]
pub(super) struct Stock {
    /// Per claim template the claims that a pod may mount, by ordinal.
    usable: Vec<BTreeSet<u32>>,
}

impl Stock {
    pub(super) fn has(&self, ordinal: u32) -> bool {
        self.usable.iter().all(|usable| usable.contains(&ordinal))
    }
}

/// Makes the claims of a place what they shall be; what that waits for is added to the moves.
pub(super) fn provide(scene: &Scene<'_>, zone: &Zone, wanted: &Range<u32>, moves: &mut Moves) -> Stock {
    let row = &scene.world.row;
    let prefix = prefix(&row.name, zone.name.as_ref().map(|_| zone.index));
    let mut stock = Stock { usable: Vec::new() };
    for template in &scene.spec.stable_claims {
        let stem = stem(&template.name, &prefix);
        let known = known(scene, &stem);
        let mut usable = BTreeSet::new();
        for (ordinal, claim) in &known {
            match judge(scene, claim) {
                Ok(()) => drop(usable.insert(*ordinal)),
                Err(wait) if wanted.contains(ordinal) => moves.waits.push(wait),
                Err(_) => {}
            }
            if wanted.contains(ordinal) {
                bring(scene, zone, (template, *ordinal, claim), moves);
            }
        }
        let missing = wanted.clone().filter(|ordinal| !known.contains_key(ordinal));
        for ordinal in missing.take(room(moves)) {
            let name = format!("{stem}-{ordinal}");
            let object = object(row, &name);
            let body = body(scene, zone, template, (&name, ordinal));
            moves.writes.push(Action::create(object, &row.uid, body, keys::MANAGER_EXTENDED));
        }
        stock.usable.push(usable);
    }
    stock
}

/// How many more claims may be written in this pass.
fn room(moves: &Moves) -> usize {
    let written = moves.writes.iter().filter(|write| write.object().kind == Kind::Claim);
    MAX_WRITES.saturating_sub(written.count())
}

fn object(row: &ExtendedRow, name: &str) -> Object {
    Object { kind: Kind::Claim, namespace: Arc::clone(&row.namespace), name: name.into() }
}

/// The claims that have a name, by their ordinal.
fn known<'s>(scene: &Scene<'s>, stem: &str) -> BTreeMap<u32, &'s Arc<ClaimRow>> {
    let claims = scene.world.claims.iter();
    claims.filter_map(|claim| Some((ordinal::of_pod(&claim.name, stem)?, claim))).collect()
}

/// Whether a pod may mount a claim.
fn judge(scene: &Scene<'_>, claim: &ClaimRow) -> Result<(), Wait> {
    let name = || Arc::from(&*claim.name);
    if holder(&scene.world.row, claim) == Holder::Foreign {
        return Err(Wait::ClaimTaken { claim: name() });
    }
    if claim.terminating {
        return Err(Wait::ClaimTerminating { claim: name() });
    }
    if claim.stable.as_ref().is_some_and(|stable| stable.lost) {
        return Err(Wait::ClaimLost { claim: name() });
    }
    Ok(())
}

fn labels(scene: &Scene<'_>, zone: &Zone, ordinal: u32) -> BTreeMap<String, String> {
    let group = scene.world.row.group;
    let mut labels = BTreeMap::from([
        (group.key(keys::EXTENDED_NAME), scene.world.row.name.to_string()),
        (group.key(keys::AZ_INDEX), zone.index.to_string()),
        (group.key(keys::CLAIM_ORDINAL), ordinal.to_string()),
        (keys::MANAGED_BY.to_owned(), keys::MANAGED_BY_STS_PLUS.to_owned()),
    ]);
    labels.extend(zone.name.as_ref().map(|name| (group.key(keys::AZ_NAME), name.to_string())));
    labels
}

fn body(scene: &Scene<'_>, zone: &Zone, template: &StableTemplate, (name, ordinal): (&str, u32)) -> Value {
    let row = &scene.world.row;
    let mut all = template.labels.clone();
    all.extend(labels(scene, zone, ordinal));
    let mut metadata = json!({ "name": name, "namespace": row.namespace, "labels": all });
    if let Some(metadata) = metadata.as_object_mut() {
        if !template.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(template.annotations));
        }
        if scene.spec.retention.when_deleted == Retention::Delete {
            metadata.insert("ownerReferences".to_owned(), json!([owner(row)]));
        }
    }
    json!({ "metadata": metadata, "spec": template.spec() })
}

/// The reference to the object with which a claim is deleted. It does not control the claim.
fn owner(row: &ExtendedRow) -> Value {
    json!({
        "apiVersion": row.group.api_version(),
        "kind": row.kind().definition().kind,
        "name": row.name,
        "uid": row.uid,
    })
}

/// Gives a claim the labels, the owner and the size that it shall have. Nothing of it is ever taken away but our own reference.
fn bring(
    scene: &Scene<'_>,
    zone: &Zone,
    (template, ordinal, claim): (&StableTemplate, u32, &ClaimRow),
    moves: &mut Moves,
) {
    let row = &scene.world.row;
    let is_doubtful = scene.world.unconfirmed.is_some();
    if is_doubtful || room(moves) == 0 || claim.terminating || holder(row, claim) == Holder::Foreign {
        return;
    }
    let Some(stable) = &claim.stable else { return };
    let mut body = json!({});
    let wanted = labels(scene, zone, ordinal);
    if wanted.iter().any(|(key, value)| stable.labels.get(&**key).map(|known| &**known) != Some(value)) {
        merge_into(&mut body, "metadata", "labels", json!(wanted));
    }
    let is_ours = |reference: &&OwnerRef| *reference.uid == *row.uid;
    let is_owned = claim.owners.iter().any(|reference| is_ours(&reference));
    let shall_be_owned = scene.spec.retention.when_deleted == Retention::Delete;
    if is_owned != shall_be_owned {
        let others = claim.owners.iter().filter(|reference| !is_ours(reference)).map(reference);
        let references: Vec<_> = others.chain(shall_be_owned.then(|| owner(row))).collect();
        merge_into(&mut body, "metadata", "ownerReferences", json!(references));
    }
    if grows(template, stable) {
        let storage = json!({ "requests": { "storage": template.storage() } });
        merge_into(&mut body, "spec", "resources", storage);
    }
    if body.as_object().is_some_and(|fields| !fields.is_empty()) {
        let precondition = Precondition::exactly(&claim.uid, &claim.resource_version);
        let written = (body, keys::MANAGER_EXTENDED);
        moves.writes.push(Action::merge(object(row, &claim.name), &row.uid, precondition, written));
    }
}

/// Whether the template asks for more than a claim does. A claim never shrinks.
fn grows(template: &StableTemplate, stable: &StableClaim) -> bool {
    let wanted = template.storage().and_then(|wanted| quantity(&json!(wanted)));
    let present = stable.requested.as_deref().and_then(|present| quantity(&json!(present)));
    matches!((wanted, present), (Some(wanted), Some(present)) if wanted > present)
}

fn merge_into(body: &mut Value, part: &str, field: &str, value: Value) {
    let Some(fields) = body.as_object_mut() else { return };
    let part = fields.entry(part).or_insert_with(|| json!({}));
    if let Some(part) = part.as_object_mut() {
        part.insert(field.to_owned(), value);
    }
}

fn reference(owner: &OwnerRef) -> Value {
    let mut reference =
        json!({ "apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid });
    if let Some(fields) = reference.as_object_mut() {
        fields.extend(owner.controller.map(|controller| ("controller".to_owned(), json!(controller))));
        let blocks = owner.block_owner_deletion;
        fields.extend(blocks.map(|blocks| ("blockOwnerDeletion".to_owned(), json!(blocks))));
    }
    reference
}

/// Deletes the claims of ordinals that are no longer asked for, where the retention policy says so: those that nobody uses.
pub(super) fn release(
    scene: &Scene<'_>,
    zone: &Zone,
    (wanted, is_used): (&Range<u32>, impl Fn(u32) -> bool),
    moves: &mut Moves,
) {
    let row = &scene.world.row;
    if scene.spec.retention.when_scaled != Retention::Delete || scene.world.unconfirmed.is_some() {
        return;
    }
    let prefix = prefix(&row.name, zone.name.as_ref().map(|_| zone.index));
    for template in &scene.spec.stable_claims {
        for (ordinal, claim) in known(scene, &stem(&template.name, &prefix)) {
            let is_surplus = ordinal >= wanted.end && !is_used(ordinal) && !claim.terminating;
            let is_own = holder(row, claim) == Holder::Own;
            if is_surplus && is_own && room(moves) > 0 {
                moves.writes.push(Action::delete_stable_claim(row, claim, object(row, &claim.name)));
            }
        }
    }
}

/// The claims of the object whose template is not there any more, by name: their data stays, and no new pod has it.
pub(super) fn left_over<'s>(scene: &Scene<'s>) -> Vec<&'s str> {
    let row = &scene.world.row;
    let is_asked_for = |claim: &ClaimRow| {
        let Some((stem, _)) = claim.name.rsplit_once('-') else { return true };
        scene.spec.stable_claims.iter().any(|template| {
            let rest = stem
                .strip_prefix(&*template.name)
                .and_then(|rest| rest.strip_prefix(keys::STABLE_CLAIM_INFIX));
            rest.is_some_and(|prefix| prefix == &*row.name || without_zone(prefix) == Some(&*row.name))
        })
    };
    let own = scene.world.claims.iter().filter(|claim| holder(row, claim) == Holder::Own);
    own.filter(|claim| !is_asked_for(claim) && !claim.terminating).map(|claim| &*claim.name).collect()
}

/// Whether the object has claims with stable names.
pub(super) fn has_any(scene: &Scene<'_>) -> bool {
    scene.world.claims.iter().any(|claim| holder(&scene.world.row, claim) == Holder::Own)
}
