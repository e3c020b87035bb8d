//! What a pass decides, as a value: the status as it shall be, and what has to be done and reported for it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use sts_plus_api::phased_rollout::Target;
use sts_plus_api::scaling_policy::ScalingPolicyStatus;

use super::live::{Live, LivePod};
use super::record::later;
use super::situation::Scene;
use super::wait::Wait;
use crate::disruption::Denial;
use crate::phased_rollout::whole_milliseconds;
use crate::plan::{Action, Ask, Awaited, Kind, Note, Object, object_of};
use crate::reason::Severity;

/// How soon a pod is read again that could not be read, or is still there.
pub(super) const READ_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);

/// Rounds up to whole milliseconds.
const ALMOST_A_MILLISECOND: jiff::SignedDuration = jiff::SignedDuration::from_nanos(999_999);

/// An object has not been read in this pass, and is asked for.
#[derive(Debug)]
pub(super) struct NotRead;

/// The decision of a pass, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// The status as it shall be, without its conditions.
    pub(super) status: ScalingPolicyStatus,
    /// The write to the set. There is one at most: a second one would insist on a version that is gone.
    pub(super) set_write: Option<Action>,
    /// The write to the ConfigMap of the lock.
    pub(super) lock_write: Option<Action>,
    /// Deletions of drained pods, and of claims. They come before the write to the set.
    pub(super) deletions: Vec<Action>,
    /// The ordinals of drained pods that do not come back: the replicas may be lowered past them.
    pub(super) settled: BTreeSet<u32>,
    /// The ordinals of pods that have just got leave to leave.
    pub(super) permitted: BTreeSet<u32>,
    /// Claims that are to grow.
    pub(super) claim_writes: Vec<Action>,
    /// The write to the record of a set that is created again.
    pub(super) record_write: Option<Action>,
    /// The removal of our finalizer.
    pub(super) departure: Option<Action>,
    pub(super) asks: Vec<Ask>,
    pub(super) notes: Vec<Note>,
    pub(super) waits: Vec<Wait>,
    pub(super) wake_at: Option<Timestamp>,
    pub(super) waits_on: Vec<Awaited>,
    pub(super) polls_at: BTreeMap<Box<str>, Timestamp>,
    /// How many pods were drained and are gone.
    pub(super) removed: usize,
}

impl Moves {
    /// Nothing to do but to report a wait.
    pub(super) fn waiting(status: ScalingPolicyStatus, wait: Wait) -> Self {
        Self { status, waits: vec![wait], ..Self::default() }
    }

    /// Nothing decided yet.
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let set = scene.set();
        let target = Some(Target { name: set.name.to_string(), uid: set.uid.to_string() });
        let lock = scene.lock_status();
        let status = ScalingPolicyStatus { target, lock, ..scene.world.row.status.clone() };
        let is_known = |uid: &str| {
            let records = status.leaving.iter().chain(&status.joining);
            records.into_iter().any(|record| record.pod_uid == uid)
        };
        let polls_at = scene.world.polls_at.iter().filter(|(uid, _)| is_known(uid));
        let polls_at = polls_at.map(|(uid, at)| (uid.clone(), *at)).collect();
        Self { status, polls_at, ..Self::default() }
    }

    pub(super) fn note(
        &mut self,
        scene: &Scene<'_>,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        self.notes.push(scene.world.note(severity, reason, message));
    }

    /// Looks again at this time, or before. A pass counts whole milliseconds: one that comes within the millisecond before
    /// would find nothing due, and ask for itself again and again.
    pub(super) fn wake(&mut self, at: Timestamp) {
        let at = whole_milliseconds(later(at, ALMOST_A_MILLISECOND));
        self.wake_at = Some(self.wake_at.map_or(at, |known| known.min(at)));
    }

    /// Plans again when what a disruption was denied for changes.
    pub(super) fn denied(&mut self, denial: &Denial) {
        self.waits_on.push(denial.awaited());
    }

    /// A pod as the API server has it in this pass.
    pub(super) fn read<'w>(&mut self, scene: &Scene<'w>, pod: &str) -> Live<'w> {
        let namespace = std::sync::Arc::clone(&scene.set().namespace);
        match self.look_up(scene, Object { kind: Kind::Pod, namespace, name: pod.into() }) {
            Err(NotRead) => Live::Unknown,
            Ok(found) => {
                found.and_then(|value| LivePod::of(value, scene.set())).map_or(Live::Gone, Live::Pod)
            }
        }
    }

    /// The set as the API server has it in this pass, if it is at the version of the row: what is decided from both is written
    /// at this version.
    pub(super) fn read_set<'w>(&mut self, scene: &Scene<'w>) -> Option<&'w Value> {
        let set = scene.set();
        let found = self.look_up(scene, object_of(set)).ok()??;
        let version = found.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        if version == Some(&*set.resource_version) {
            return Some(found);
        }
        // The row comes with a change of the cache.
        self.wake(later(scene.now, READ_AGAIN));
        None
    }

    /// An object as the API server has it in this pass; `None` where it is not there.
    pub(super) fn look_up<'w>(
        &mut self,
        scene: &Scene<'w>,
        object: Object,
    ) -> Result<Option<&'w Value>, NotRead> {
        if let Some(found) = scene.world.reads.get(&object) {
            return Ok(found.as_ref());
        }
        if scene.world.hooked.is_empty() {
            let ask = Ask::Read(object);
            if !self.asks.contains(&ask) {
                self.asks.push(ask);
            }
            self.wake(later(scene.now, READ_AGAIN));
        } else {
            // The outcomes of this pass are booked first.
            self.wake(scene.now);
        }
        Err(NotRead)
    }
}
