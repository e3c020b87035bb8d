//! The rolling update: outdated pods go, from the highest ordinal down, as many at once as may be unavailable.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::scale::SetPass;
use super::world::Management;
use super::{Gauges, Task, identity};
use crate::amount::{Amount, DEFAULT_MAX_UNAVAILABLE};
use crate::pod::PodRow;
use crate::set::Strategy;

impl SetPass<'_> {
    /// Replaces outdated pods, where the strategy is to do so.
    pub(super) fn roll(&mut self) {
        if !matches!(self.world.set.strategy, Strategy::RollingUpdate { .. }) {
            return;
        }
        let mut tasks = self.broken();
        if tasks.is_empty() {
            tasks =
                if self.world.features.max_unavailable { self.roll_by_budget() } else { self.roll_next() };
        }
        // A pod that is repaired or deleted already changes by that: the next pass looks at it again.
        let written: BTreeSet<_> = self.work.iter().flatten().map(|task| task.action.object()).collect();
        tasks.retain(|task| !written.contains(task.action.object()));
        self.step(tasks);
    }

    /// What the metrics show while the budget counts.
    pub(super) fn gauges(&self) -> Option<Gauges> {
        let features = self.world.features;
        features
            .max_unavailable
            .then(|| Gauges { max_unavailable: self.budget(), unavailable: self.slots.unavailable() })
    }

    fn budget(&self) -> u32 {
        let amount = self.world.spec.rolling.and_then(|rolling| rolling.max_unavailable);
        let amount = amount.unwrap_or(Amount::Count(DEFAULT_MAX_UNAVAILABLE));
        amount.of(self.world.set.replicas)
    }

    /// The lowest ordinal that is rolled.
    fn lowest(&self) -> u32 {
        let partition = self.world.spec.rolling.map_or(0, |rolling| rolling.partition);
        self.slots.range.start.saturating_add(partition)
    }

    fn is_outdated(&self, pod: &PodRow) -> bool {
        pod.revision.as_deref() != Some(&*self.history.update.name) && !pod.terminating
    }

    /// Broken pods that are replaced where the user has asked for it; an orderly set comes here only when all its pods are
    /// healthy. Those of which nothing runs are replaced together, since nothing is lost with them. One of which a container
    /// runs counts as one that is not Ready, for it may still do its part, such as voting in a quorum: it is replaced alone.
    fn broken(&mut self) -> Vec<Task> {
        let pods = self.slots.filled.iter().rev().map(|(ordinal, pod)| (*ordinal, *pod));
        let (dead, running): (Vec<_>, Vec<_>) = pods.partition(|(_, pod)| pod.is_dead());
        let tasks: Vec<_> =
            dead.into_iter().filter_map(|(ordinal, pod)| self.replace_broken(ordinal, pod)).collect();
        if !tasks.is_empty() || self.is_replacing() {
            return tasks;
        }
        let next = running.into_iter().find_map(|(ordinal, pod)| self.replace_broken(ordinal, pod));
        next.into_iter().collect()
    }

    /// Whether a pod is missing, on its way out, or up to date and not available yet. Outdated pods that are down and that
    /// nobody has deleted do not count: they wait to be replaced themselves.
    fn is_replacing(&self) -> bool {
        let judge = self.slots.judge();
        let mut pods = self.slots.filled.values();
        self.slots.filled.len() < self.slots.range.len()
            || pods.any(|pod| judge.is_unavailable(pod) && !self.is_outdated(pod))
    }

    /// One pod at a time: the highest outdated one, if none above it is unavailable.
    fn roll_next(&self) -> Vec<Task> {
        for ordinal in (self.lowest()..self.slots.range.end).rev() {
            // A slot without a pod waits for it.
            let Some(pod) = self.slots.filled.get(&ordinal) else { break };
            if self.is_outdated(pod) {
                return vec![identity::delete(&self.world.set, pod)];
            }
            if self.slots.judge().is_unavailable(pod) {
                break;
            }
        }
        Vec::new()
    }

    /// As many as the budget allows. A parallel set first replaces outdated pods that are down anyway, which costs none.
    fn roll_by_budget(&self) -> Vec<Task> {
        let judge = self.slots.judge();
        let (budget, down) = (self.budget(), self.slots.unavailable());
        let outdated: Vec<&Arc<PodRow>> = self
            .slots
            .filled
            .range(self.lowest()..)
            .rev()
            .map(|(_, pod)| *pod)
            .filter(|pod| self.is_outdated(pod))
            .collect();
        let allowed = usize::try_from(budget.saturating_sub(down)).unwrap_or(usize::MAX);
        let parallel = self.world.spec.management == Management::Parallel;
        let (free, costly): (Vec<_>, Vec<_>) =
            outdated.into_iter().partition(|pod| parallel && judge.is_unavailable(pod));
        free.into_iter()
            .chain(costly.into_iter().take(allowed))
            .map(|pod| identity::delete(&self.world.set, pod))
            .collect()
    }
}
