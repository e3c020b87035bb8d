//! Which pods and revisions are the set's: adoption of what nobody controls, release of what does not match any more.

use std::sync::Arc;

use serde_json::{Value, json};
use sts_plus_api::keys;

use super::world::{OwnerRef, Presence, World};
use super::{Blocked, Purpose, Task, identity};
use crate::plan::{Action, Kind, Object, Precondition};
use crate::pod::PodRow;
use crate::set::SetRow;

/// What has to happen before the set's pods can be looked at.
pub(super) enum Claiming {
    /// Nothing: all is as it should be.
    Settled,
    /// The server is to be asked whether the set still lives.
    Ask,
    /// Owner references are to be written.
    Write(Vec<Task>),
}

/// Compares what the set controls with what it should control.
pub(super) fn claim(world: &World) -> Result<Claiming, Blocked> {
    if world.set.deleting {
        return Ok(Claiming::Settled);
    }
    let adopted_pods = world.orphans.iter().filter(|pod| !pod.terminating && is_member(&world.set, pod));
    let mut tasks: Vec<_> = adoptable(world).chain(adopted_pods.map(|pod| adopt_pod(world, pod))).collect();
    if !tasks.is_empty() {
        match world.memory.presence {
            None => return Ok(Claiming::Ask),
            Some(Presence::Alive) => {}
            Some(presence) => return Err(Blocked::NotAlive(presence)),
        }
    }
    let released = world.pods.iter().filter(|pod| !is_member(&world.set, pod));
    tasks.extend(released.map(|pod| release(world, pod)));
    Ok(if tasks.is_empty() { Claiming::Settled } else { Claiming::Write(tasks) })
}

/// The set's own pods.
pub(super) fn members(world: &World) -> impl Iterator<Item = &Arc<PodRow>> {
    world.pods.iter().filter(|pod| is_member(&world.set, pod))
}

/// Whether the selector matches the pod and its name is one of the set's.
pub(super) fn is_member(set: &SetRow, pod: &PodRow) -> bool {
    let digits = pod.name.strip_prefix(&*set.name).and_then(|rest| rest.strip_prefix('-'));
    let named = digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    named && set.selector.matches(|key| pod.label(key))
}

/// The set as the controlling owner of something.
pub(super) fn controller(set: &SetRow) -> OwnerRef {
    OwnerRef {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        name: (*set.name).into(),
        uid: (*set.uid).into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// An owner reference as the server writes it.
pub(super) fn reference(owner: &OwnerRef) -> Value {
    let mut fields = json!({
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    });
    if let Some(fields) = fields.as_object_mut() {
        let flags = [("controller", owner.controller), ("blockOwnerDeletion", owner.block_owner_deletion)];
        fields.extend(flags.into_iter().filter_map(|(name, flag)| Some((name.to_owned(), flag?.into()))));
    }
    fields
}

fn adoptable(world: &World) -> impl Iterator<Item = Task> {
    let orphans = world.revisions.iter().filter(|revision| revision.owner.is_none());
    orphans.map(|revision| {
        let precondition = (&*revision.uid, &*revision.resource_version);
        Task {
            action: adopt(world, (Kind::Revision, &revision.name), precondition),
            purpose: Purpose::AdoptRevision,
        }
    })
}

fn adopt_pod(world: &World, pod: &PodRow) -> Task {
    let precondition = (&*pod.uid, &*pod.resource_version);
    Task { action: adopt(world, (Kind::Pod, &pod.name), precondition), purpose: Purpose::AdoptPod }
}

/// At the version that was looked at: the labels that made it ours are part of it.
fn adopt(world: &World, (kind, name): (Kind, &str), (uid, version): (&str, &str)) -> Action {
    let body = json!({ "metadata": { "ownerReferences": [reference(&controller(&world.set))] } });
    let object = Object { kind, namespace: Arc::clone(&world.set.namespace), name: name.into() };
    let precondition = Precondition::exactly(uid, version);
    Action::strategic_merge(object, &world.set.uid, precondition, (body, keys::MANAGER_STATEFULSET))
}

fn release(world: &World, pod: &PodRow) -> Task {
    let owner = json!({ "$patch": "delete", "uid": world.set.uid });
    let body = json!({ "metadata": { "ownerReferences": [owner] } });
    let (object, precondition) = identity::at(pod);
    let action =
        Action::strategic_merge(object, &world.set.uid, precondition, (body, keys::MANAGER_STATEFULSET));
    Task { action, purpose: Purpose::ReleasePod }
}
