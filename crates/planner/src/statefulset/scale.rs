//! As many pods as the spec asks for: empty slots are filled, what has ended is replaced, what is condemned goes.

use std::sync::Arc;

use jiff::Timestamp;

use super::claims;
use super::history::{History, Revision};
use super::slots::{Slots, is_terminal};
use super::world::{Management, World};
use super::{Alignment, Blocked, Need, Task, identity};
use crate::plan::Note;
use crate::pod::{Phase, PodRow};
use crate::reason::Severity;
use crate::set::Strategy;

/// Pods that one pass creates at most: the next one goes on, and nobody asks for two billion pods in earnest.
const MAX_CREATIONS: usize = 2000;

/// The widest step of a slow start.
const MAX_WIDTH: usize = 500;

/// What a pass does, as it takes shape.
pub(super) struct SetPass<'w> {
    pub(super) world: &'w World,
    pub(super) now: Timestamp,
    pub(super) history: History<'w>,
    pub(super) slots: Slots<'w>,
    /// Steps: the writes of each may be under way together.
    pub(super) work: Vec<Vec<Task>>,
    pub(super) notes: Vec<Note>,
}

/// Whether the pass goes on to the next part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// It does.
    GoOn,
    /// Something has to happen first.
    Stop,
}

/// What a slot or a condemned pod asks for: what may go at once, and what only after that.
#[derive(Default)]
struct Item {
    first: Vec<Task>,
    then: Vec<Task>,
}

impl Item {
    fn now(first: Vec<Task>) -> Self {
        Self { first, then: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.then.is_empty()
    }
}

impl<'w> SetPass<'w> {
    /// Appends writes that may be under way together.
    pub(super) fn step(&mut self, tasks: Vec<Task>) {
        if !tasks.is_empty() {
            self.work.push(tasks);
        }
    }

    /// Brings the number of pods to what the spec asks for.
    pub(super) fn scale(&mut self) -> Result<Flow, Blocked> {
        match self.world.spec.management {
            Management::OrderedReady => self.scale_in_order(),
            Management::Parallel => self.scale_at_once(),
        }
    }

    fn scale_in_order(&mut self) -> Result<Flow, Blocked> {
        for ordinal in self.slots.range.clone() {
            let pod = self.slots.filled.get(&ordinal).copied();
            let item = match pod {
                None => self.fill(ordinal)?,
                Some(pod) => self.tend(ordinal, pod),
            };
            let healthy = pod.is_some_and(|pod| self.slots.judge().is_healthy(pod));
            self.step(item.first);
            self.step(item.then);
            if !healthy {
                return Ok(Flow::Stop);
            }
        }
        let owners = self.align_condemned();
        self.step(owners);
        let judge = self.slots.judge();
        // Every slot is healthy here, so the first pod that is not is a condemned one.
        let first_unavailable =
            self.slots.condemned.iter().rev().find(|(_, pod)| judge.is_unavailable(pod)).map(|(at, _)| *at);
        let Some((ordinal, pod)) = self.slots.condemned.first().copied() else { return Ok(Flow::GoOn) };
        if !pod.terminating && (judge.is_healthy(pod) || first_unavailable == Some(ordinal)) {
            self.step(vec![identity::delete(&self.world.set, pod)]);
        }
        Ok(Flow::Stop)
    }

    fn scale_at_once(&mut self) -> Result<Flow, Blocked> {
        let mut items = Vec::new();
        for ordinal in self.slots.range.clone() {
            if items.len() == MAX_CREATIONS {
                break;
            }
            let item = match self.slots.filled.get(&ordinal).copied() {
                None => self.fill(ordinal)?,
                Some(pod) => self.tend(ordinal, pod),
            };
            if !item.is_empty() {
                items.push(item);
            }
        }
        self.slow_start(items);
        let owners = self.align_condemned().into_iter().map(|task| Item::now(vec![task])).collect();
        self.slow_start(owners);
        let condemned = self.slots.condemned.iter().filter(|(_, pod)| !pod.terminating);
        let condemned =
            condemned.map(|(_, pod)| Item::now(vec![identity::delete(&self.world.set, pod)])).collect();
        self.slow_start(condemned);
        Ok(Flow::GoOn)
    }

    /// One item, then two, then four: a refusal that would meet all of them is found out early.
    fn slow_start(&mut self, items: Vec<Item>) {
        let mut items = items.into_iter();
        let mut width = 1;
        while items.len() > 0 {
            let (mut first, mut then) = (Vec::new(), Vec::new());
            for item in items.by_ref().take(width) {
                first.extend(item.first);
                then.extend(item.then);
            }
            self.step(first);
            self.step(then);
            width = (2 * width).min(MAX_WIDTH);
        }
    }

    /// A pod for an empty slot, after its claims.
    fn fill(&mut self, ordinal: u32) -> Result<Item, Blocked> {
        if claims::any_stale(self.world, ordinal) {
            return Ok(Item::default());
        }
        let first = claims::create_missing(self.world, ordinal, Need::NewPod);
        let leaving = claims::leaving(self.world, ordinal);
        if !leaving.is_empty() {
            let note = self.blocked_by_claims(ordinal, &leaving);
            self.notes.push(note);
            return Ok(Item::now(first));
        }
        let revision = self.revision_for(ordinal);
        Ok(Item { first, then: vec![identity::create(self.world, ordinal, revision)?] })
    }

    fn blocked_by_claims(&self, ordinal: u32, leaving: &[&str]) -> Note {
        let (set, pod) = (&self.world.set.name, identity::name(&self.world.set.name, ordinal));
        let errors: Vec<_> = leaving.iter().map(|claim| format!("pvc {claim} is being deleted")).collect();
        let error = super::events::combine(&errors);
        let message = format!("Create Pod {pod} in StatefulSet {set} failed error: {error}");
        Note::of_set(&self.world.set, Severity::Warning, "FailedCreate", message)
    }

    /// What a pod in its slot needs.
    fn tend(&mut self, ordinal: u32, pod: &Arc<PodRow>) -> Item {
        if is_terminal(pod) {
            return Item::now(if pod.terminating {
                Vec::new()
            } else {
                vec![identity::delete(&self.world.set, pod)]
            });
        }
        let (mut first, mut alignment) = (Vec::new(), Alignment::Repair);
        if pod.phase == Phase::Pending {
            first.extend(claims::create_missing(self.world, ordinal, Need::PendingPod));
            alignment = Alignment::Pending;
        }
        let orderly = self.world.spec.management == Management::OrderedReady;
        let waits = orderly && !self.slots.judge().is_healthy(pod);
        if !waits || alignment == Alignment::Pending {
            let (owners, notes) = claims::align(self.world, ordinal, pod, alignment);
            first.extend(owners);
            self.notes.extend(notes);
        }
        if waits {
            first.extend(self.replace_broken(ordinal, pod));
        } else if let Some(repair) = identity::repair(self.world, ordinal, pod) {
            if !identity::storage_matches(self.world, ordinal, pod) && alignment != Alignment::Pending {
                first.extend(claims::create_missing(self.world, ordinal, Need::Repair));
            }
            first.push(repair);
        }
        Item::now(first)
    }

    fn align_condemned(&mut self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for (ordinal, pod) in &self.slots.condemned {
            let (owners, notes) = claims::align(self.world, *ordinal, pod, Alignment::Condemned);
            tasks.extend(owners);
            self.notes.extend(notes);
        }
        tasks
    }

    /// The revision that a pod of this ordinal is built from.
    pub(super) fn revision_for(&self, ordinal: u32) -> &Revision<'w> {
        self.revision_after(ordinal, None)
    }

    /// The same after a pod is gone.
    fn revision_after(&self, ordinal: u32, gone: Option<&PodRow>) -> &Revision<'w> {
        let World { set, spec, .. } = self.world;
        if self.history.current == self.history.update {
            return &self.history.update;
        }
        let kept = match (&spec.rolling, &set.strategy) {
            (Some(rolling), _) => rolling.partition,
            // A parallel set with a budget replaces what is down first, wherever it is: if it came back as it was, it would
            // be replaced for ever.
            (None, _) if self.world.features.max_unavailable && spec.management == Management::Parallel => 0,
            // A deletion of ours shows in the pods before it shows in the status: what was deleted to be updated must not
            // come back as it was.
            (None, Strategy::RollingUpdate { .. }) => spec.counts.current.min(self.current_pods(gone)),
            (None, Strategy::OnDelete | Strategy::Other(_)) => 0,
        };
        let current = ordinal < set.first_ordinal.saturating_add(kept);
        if current { &self.history.current } else { &self.history.update }
    }

    /// How many pods in their slots are of the current revision and stay.
    fn current_pods(&self, gone: Option<&PodRow>) -> u32 {
        let current = &*self.history.current.name;
        let leaves = |pod: &PodRow| pod.terminating || gone.is_some_and(|gone| gone.uid == pod.uid);
        let stays = |pod: &&Arc<PodRow>| !leaves(pod) && pod.revision.as_deref() == Some(current);
        u32::try_from(self.slots.filled.values().copied().filter(stays).count()).unwrap_or(u32::MAX)
    }

    /// Where the user has asked for it, a pod that will not become Ready by itself goes if its successor would be of another
    /// revision: otherwise a corrected template never reaches it.
    pub(super) fn replace_broken(&mut self, ordinal: u32, pod: &PodRow) -> Option<Task> {
        let World { set, spec, .. } = self.world;
        let asked =
            spec.annotations.get(sts_plus_api::keys::REPLACE_BROKEN_PODS).is_some_and(|v| **v == *"true");
        let rolls = matches!(set.strategy, Strategy::RollingUpdate { .. });
        let defect = pod.defect().filter(|_| asked && rolls && !pod.terminating)?;
        let successor = &self.revision_after(ordinal, Some(pod)).name;
        if pod.revision.as_deref() == Some(&**successor) {
            return None;
        }
        let message = format!(
            "Pod {} {defect} and is replaced: it is outdated, and its successor is of revision {successor}",
            pod.name
        );
        self.notes.push(Note::of_set(set, Severity::Normal, "BrokenPodReplaced", message));
        Some(identity::delete(&self.world.set, pod))
    }
}
