//! The revisions of a set: which one is current, which one is the target, and which ones nobody needs any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sts_plus_api::keys;

use super::claiming::{controller, members, reference};
use super::world::{RevisionRow, World};
use super::{Blocked, Purpose, Task};
use crate::plan::{Action, Kind, Object, Precondition};
use crate::revision;
use crate::selector::Labels;

/// Names that are tried for a new revision: a second collision of a 32-bit hash within one set is not to be expected.
const MAX_COLLISIONS: u32 = 16;

/// Revisions that are deleted in one pass: an ordinary set has one too many after a rollout, and a lowered limit can wait.
const MAX_TRIMMED: usize = 100;

/// What a set's pods are, and shall be, built from.
pub(super) struct History<'w> {
    /// The revision that the status calls current.
    pub(super) current: Revision<'w>,
    /// The revision of the present template.
    pub(super) update: Revision<'w>,
    /// The count of collisions to write into the status.
    pub(super) collisions: u32,
    /// What makes the update revision the latest one.
    pub(super) task: Option<Task>,
    sorted: Vec<&'w Arc<RevisionRow>>,
}

/// A revision that may not be stored yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision<'w> {
    pub(super) name: Box<str>,
    pub(super) data: &'w str,
}

impl<'w> From<&'w Arc<RevisionRow>> for Revision<'w> {
    fn from(row: &'w Arc<RevisionRow>) -> Self {
        Self { name: row.name.clone(), data: &row.data }
    }
}

impl Revision<'_> {
    /// The template that it holds.
    pub(super) fn template(&self) -> Result<Map<String, Value>, Blocked> {
        revision::template(self.data).ok_or_else(|| Blocked::UnreadableRevision(self.name.clone()))
    }
}

impl<'w> History<'w> {
    /// Finds the current and the update revision.
    pub(super) fn of(world: &'w World) -> Result<Self, Blocked> {
        let mut sorted: Vec<_> = world.revisions.iter().collect();
        sorted.sort_by(|left, right| {
            let key = |row: &'w RevisionRow| (row.number, row.created, &row.name);
            key(left).cmp(&key(right))
        });
        let Update { revision: update, task, collisions } = update(world, &sorted)?;
        let named = world.set.current_revision.as_deref();
        let current = sorted.iter().find(|row| Some(&*row.name) == named);
        let current = current.map_or_else(|| update.clone(), |row| Revision::from(*row));
        Ok(Self { current, update, collisions, task, sorted })
    }

    /// Deletes the oldest revisions beyond the limit, of those that neither the set nor a pod needs.
    pub(super) fn trim(&self, world: &World) -> Vec<Task> {
        let Ok(limit) = usize::try_from(world.spec.history_limit) else { return Vec::new() };
        let pods = members(world).filter_map(|pod| pod.revision.as_deref());
        let live: BTreeSet<&str> = pods.chain([&*self.current.name, &*self.update.name]).collect();
        let unused: Vec<_> = self.sorted.iter().filter(|row| !live.contains(&*row.name)).collect();
        let beyond = unused.len().saturating_sub(limit).min(MAX_TRIMMED);
        unused
            .into_iter()
            .take(beyond)
            .map(|row| Task { action: delete(world, row), purpose: Purpose::TrimRevision })
            .collect()
    }
}

struct Update<'w> {
    revision: Revision<'w>,
    task: Option<Task>,
    collisions: u32,
}

fn update<'w>(world: &'w World, sorted: &[&'w Arc<RevisionRow>]) -> Result<Update<'w>, Blocked> {
    let collisions = world.spec.collisions.unwrap_or(0);
    let stored = |row: &'w Arc<RevisionRow>, task| Update { revision: Revision::from(row), task, collisions };
    let Some(last) = sorted.last().copied() else { return create(world, 1) };
    let next = last.number.saturating_add(1);
    let equal = sorted.iter().rev().copied().find(|row| row.data == world.spec.patch);
    match equal {
        Some(_) if last.data == world.spec.patch => Ok(stored(last, None)),
        Some(equal) => Ok(stored(equal, Some(renumber(world, equal, next)))),
        None if says_the_same(world, last) => Ok(stored(last, None)),
        None => create(world, next),
    }
}

/// Whether a revision of other bytes is that of the present template: written by an older server, or the template has not
/// been edited since this revision was made for it and what differs was added by the server.
fn says_the_same(world: &World, last: &RevisionRow) -> bool {
    let set = &world.set;
    let unedited =
        set.observed_generation == set.generation && set.update_revision.as_deref() == Some(&*last.name);
    let rewritten = || Some(revision::patch(&Value::Object(revision::template(&last.data)?)));
    unedited || rewritten().is_some_and(|data| *data == *world.spec.patch)
}

/// A new revision, under the first name that nothing else has.
fn create(world: &World, number: i64) -> Result<Update<'_>, Blocked> {
    let first = world.spec.collisions.unwrap_or(0);
    let data = &*world.spec.patch;
    for collisions in first..first.saturating_add(MAX_COLLISIONS) {
        let name: Box<str> = revision::name(&world.set.name, &revision::hash(data, collisions)).into();
        let own = world.revisions.iter().find(|row| row.name == name);
        let holder = own.or_else(|| world.memory.taken.get(&name));
        let revision = Revision { name, data };
        match holder {
            None => {
                let label = revision::hash(data, first);
                let task = Task {
                    action: body(world, &revision, &label, number)?,
                    purpose: Purpose::CreateRevision,
                };
                return Ok(Update { revision, task: Some(task), collisions });
            }
            Some(holder) if holder.data != world.spec.patch => {}
            Some(holder) if holder.owner.as_ref().is_none_or(|owner| *owner == world.set.uid) => {
                return Ok(Update { revision, task: None, collisions });
            }
            Some(_) => return Err(Blocked::NameOfFormerSet(revision.name)),
        }
    }
    Err(Blocked::Collisions(MAX_COLLISIONS))
}

fn body(world: &World, revision: &Revision<'_>, hash: &str, number: i64) -> Result<Action, Blocked> {
    let template = revision.template()?;
    let data: Value = serde_json::from_str(revision.data)
        .map_err(|_| Blocked::UnreadableRevision(revision.name.clone()))?;
    let metadata = template.get("metadata").and_then(|metadata| metadata.get("labels"));
    let mut labels = metadata.and_then(Value::as_object).cloned().unwrap_or_default();
    labels.insert(keys::REVISION_HASH.to_owned(), hash.into());
    let annotations: &Labels = &world.spec.annotations;
    let body = json!({
        "metadata": {
            "name": revision.name,
            "namespace": world.set.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [reference(&controller(&world.set))],
        },
        "data": data,
        "revision": number,
    });
    let namespace = Arc::clone(&world.set.namespace);
    let object = Object { kind: Kind::Revision, namespace, name: revision.name.clone() };
    Ok(Action::create(object, &world.set.uid, body, keys::MANAGER_STATEFULSET))
}

fn renumber(world: &World, row: &RevisionRow, number: i64) -> Task {
    let body = json!({ "revision": number });
    let (object, precondition) = at(world, row);
    let action = Action::merge(object, &world.set.uid, precondition, (body, keys::MANAGER_STATEFULSET));
    Task { action, purpose: Purpose::RenumberRevision }
}

fn delete(world: &World, row: &RevisionRow) -> Action {
    let (object, precondition) = at(world, row);
    Action::delete_as_owner(&world.set, object, precondition)
}

/// A revision, in the state in which it was looked at.
fn at(world: &World, row: &RevisionRow) -> (Object, Precondition) {
    let namespace = Arc::clone(&world.set.namespace);
    let object = Object { kind: Kind::Revision, namespace, name: row.name.clone() };
    (object, Precondition::exactly(&row.uid, &row.resource_version))
}
