//! The status of a set: counted anew in each pass, written when it has changed, and not more often than somebody could read it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use sts_plus_api::keys;

use super::scale::SetPass;
use super::slots::is_ready;
use super::world::{Counts, World};
use crate::plan::{Action, Precondition, object_of};
use crate::set::Strategy;

/// While a set is in motion its counts are written this often at most: each pod that is replaced changes them five times,
/// and whoever waits for the end is told at once.
pub(super) const STATUS_PACE: Duration = Duration::from_secs(2);

/// What the status shall say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) counts: Counts,
    pub(super) current_revision: Box<str>,
    pub(super) update_revision: Box<str>,
    collisions: u32,
}

impl Status {
    /// Counts the pods; a rolling update is complete when all of them are updated and Ready.
    pub(super) fn of(pass: &SetPass<'_>) -> Self {
        let SetPass { world, history, slots, .. } = pass;
        let judge = slots.judge();
        let mut counts = Counts::default();
        for pod in slots.pods() {
            let revision = pod.revision.as_deref().filter(|_| !pod.terminating);
            counts.replicas += 1;
            counts.ready += u32::from(is_ready(pod));
            counts.available += u32::from(is_ready(pod) && judge.is_available(pod));
            counts.current += u32::from(revision == Some(&*history.current.name));
            counts.updated += u32::from(revision == Some(&*history.update.name));
        }
        let mut status = Self {
            counts,
            current_revision: history.current.name.clone(),
            update_revision: history.update.name.clone(),
            collisions: history.collisions,
        };
        let rolls = matches!(world.set.strategy, Strategy::RollingUpdate { .. });
        if rolls && [counts.updated, counts.ready, counts.replicas] == [world.set.replicas; 3] {
            status.counts.current = counts.updated;
            status.current_revision = status.update_revision.clone();
        }
        status
    }

    /// Whether the stored status says something else.
    fn differs(&self, world: &World) -> bool {
        self.counts != world.spec.counts || self.is_news(world)
    }

    /// Whether it says something that others decide by.
    fn is_news(&self, world: &World) -> bool {
        let set = &world.set;
        set.generation > set.observed_generation
            || set.current_revision.as_deref() != Some(&*self.current_revision)
            || set.update_revision.as_deref() != Some(&*self.update_revision)
    }

    /// The write, if it is due, or the time when it will be.
    pub(super) fn write(&self, pass: &SetPass<'_>) -> (Option<Action>, Option<Timestamp>) {
        let SetPass { world, now, .. } = pass;
        if !self.differs(world) {
            return (None, None);
        }
        let due_in = world.memory.status_age.and_then(|age| STATUS_PACE.checked_sub(age));
        let at_rest = pass.work.is_empty() && pass.slots.settled();
        match due_in.filter(|due_in| !due_in.is_zero()) {
            Some(due_in) if !at_rest && !self.is_news(world) => (None, now.checked_add(due_in).ok()),
            _ => (Some(self.action(world)), None),
        }
    }

    fn action(&self, world: &World) -> Action {
        let Counts { replicas, ready, available, current, updated } = self.counts;
        let body = json!({ "status": {
            "observedGeneration": world.set.generation,
            "replicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": available,
            "currentReplicas": current,
            "updatedReplicas": updated,
            "currentRevision": self.current_revision,
            "updateRevision": self.update_revision,
            "collisionCount": self.collisions,
        } });
        let set = &world.set;
        let precondition = Precondition::exactly(&set.uid, &set.resource_version);
        Action::merge_status(object_of(set), &set.uid, precondition, (body, keys::MANAGER_STATEFULSET))
    }
}
