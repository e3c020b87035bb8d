//! The rest of the cluster: the API server's preconditions, the StatefulSet controller with a partition, and kubelets.
//! A revision whose name ends in `-bad` makes pods that crash for ever, one in `-hangs` pods that run and never get Ready.

use std::sync::Arc;

use sts_plus_api::keys;

use super::cluster::{Cluster, partition_of};
use super::invariants;
use crate::health::Health;
use crate::ordinal;
use crate::phased_rollout::query::Outcome;
use crate::phased_rollout::row::RolloutRow;
use crate::phased_rollout::{Decision, World};
use crate::plan::{Action, Kind, Verb};
use crate::pod::{Phase, PodRow, Waiting};
use crate::set::{SetRow, Strategy};

/// Something that the StatefulSet controller or a kubelet would do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// The set's controller creates a pod of a revision.
    Create(Arc<str>, u32, String),
    /// The set's controller deletes a pod.
    Delete(Box<str>),
    /// The set's controller writes what it knows into the status.
    Report(Arc<str>),
    /// A terminating pod is gone.
    Remove(Box<str>),
    /// A pod's containers start.
    Start(Box<str>),
    /// A pod becomes Ready, or breaks if its revision is bad.
    Finish(Box<str>),
}

pub(super) fn bad(pod: &PodRow) -> bool {
    pod.revision.as_deref().is_some_and(|revision| revision.ends_with("-bad"))
}

/// Whether the pod runs and will never be Ready.
fn hangs(pod: &PodRow) -> bool {
    pod.running && pod.revision.as_deref().is_some_and(|revision| revision.ends_with("-hangs"))
}

/// The API server's part.
impl Cluster {
    /// Does what a plan asks for, in order, as far as `writes` go, or says what went wrong.
    pub(super) fn write(&mut self, world: &World, plan: &Decision, writes: usize) -> Result<(), String> {
        let actions = plan.plan.steps.iter().flat_map(|step| &step.writes);
        for action in actions.take(writes) {
            self.apply(world, action)?;
        }
        Ok(())
    }

    /// Does what a write asks for, or says why not.
    fn apply(&mut self, world: &World, action: &Action) -> Result<(), String> {
        let name = &*action.object().name;
        let stale = |uid: &str, seen: &str| {
            let wanted = action.precondition();
            *wanted.uid != *uid || wanted.resource_version.as_deref().is_some_and(|wanted| wanted != seen)
        };
        let refused = || format!("precondition failed: {action:?}");
        match action.object().kind {
            Kind::Pod => {
                let pod = self.pods.iter().find(|pod| &*pod.name == name).ok_or("no such pod")?;
                if stale(&pod.uid, &pod.resource_version) {
                    return Err(refused());
                }
                assert_eq!(*action.verb(), Verb::Delete, "the only thing that is done to pods");
                if pod.ready() {
                    invariants::may_go(self, name);
                    self.deleted.insert(name.into());
                }
                self.trace.push(format!("delete {name}"));
                self.pod(name, |pod| pod.terminating = true);
            }
            Kind::StatefulSet => {
                let number = self.sets.iter().position(|set| &*set.name == name).ok_or("no such set")?;
                if stale(&self.sets[number].uid, &self.sets[number].resource_version) {
                    return Err(refused());
                }
                self.write_set(world, number, action.verb());
            }
            Kind::PhasedRollout => {
                let rollout = self.rollouts.iter().find(|row| &*row.name == name).ok_or("no such rollout")?;
                if stale(&rollout.uid, &rollout.resource_version) {
                    return Err(refused());
                }
                if matches!(action.verb(), Verb::ReplaceStatus { .. }) {
                    self.remember(world);
                }
                let version = self.version();
                let rollout = self.rollout_mut(name);
                write_rollout(rollout, action.verb());
                rollout.resource_version = version;
                self.rollouts.retain(|row| !row.deleting || !row.finalizers.is_empty());
            }
            _ => return Err(format!("not written by a rollout: {action:?}")),
        }
        Ok(())
    }

    /// What a status was written from, apart from what it says.
    fn remember(&mut self, world: &World) {
        for outcome in &world.outcomes {
            let known = |(at, known): &(usize, Outcome)| (*at, known) == (self.questions, outcome);
            if !self.counted.iter().any(known) {
                self.counted.push((self.questions, outcome.clone()));
            }
        }
        let member = world.target.as_ref();
        if member.is_some_and(|member| !Health::of(member, self.now).all_ready()) {
            self.disturbed_at = self.questions;
        }
    }

    fn write_set(&mut self, world: &World, number: usize, verb: &Verb) {
        let version = self.version();
        match verb {
            Verb::Merge { body, manager: keys::MANAGER_PHASED_ROLLOUT } => {
                let value = body["metadata"]["annotations"][keys::PHASED_ROLLOUT].as_str();
                let set = &mut self.sets[number];
                (set.steering.phased_rollout, set.resource_version) = (value.map(Into::into), version);
            }
            Verb::Apply { body, manager: keys::MANAGER_PHASED_ROLLOUT, .. } => {
                let value = &body["spec"]["updateStrategy"]["rollingUpdate"]["partition"];
                let partition = value.as_u64().map_or(0, |value| u32::try_from(value).unwrap());
                let mark = body["metadata"]["annotations"][keys::PHASED_ROLLOUT].as_str().map(Into::into);
                let remarked = self.sets[number].steering.phased_rollout != mark;
                self.sets[number].steering.phased_rollout = mark;
                let before = partition_of(&self.sets[number]);
                if remarked && !value.is_null() && before == partition {
                    self.sets[number].resource_version = version;
                    return;
                }
                let lowers = !value.is_null() && partition < before && partition < self.sets[number].replicas;
                let step = if lowers { invariants::step_of(world, partition) } else { None };
                if let Some(step) = step {
                    invariants::proven(self, world);
                    assert!(self.spent.insert(step), "never two decrements in one gate:\n{self}");
                }
                self.trace.push(if value.is_null() {
                    "partition given up".to_owned()
                } else {
                    format!("partition {partition}")
                });
                let set = &mut self.sets[number];
                if before != partition {
                    set.strategy = Strategy::RollingUpdate { partition };
                    set.generation += 1;
                }
                if before != partition || remarked {
                    set.resource_version = version;
                }
            }
            other => panic!("not done to sets: {other:?}"),
        }
    }
}

fn write_rollout(rollout: &mut RolloutRow, verb: &Verb) {
    match verb {
        Verb::Merge { body, manager: keys::MANAGER_PHASED_ROLLOUT } => {
            let metadata = &body["metadata"];
            if let Some(finalizers) = metadata["finalizers"].as_array() {
                rollout.finalizers = finalizers.iter().map(|value| value.as_str().unwrap().into()).collect();
            }
        }
        Verb::ReplaceStatus { status, manager: keys::MANAGER_PHASED_ROLLOUT } => {
            rollout.status = serde_json::from_value(status.clone()).expect("a status that can be read");
        }
        other => panic!("not done to rollouts: {other:?}"),
    }
}

/// The StatefulSet controller and the kubelets.
impl Cluster {
    /// All that they could do now.
    pub(super) fn work(&self) -> Vec<Work> {
        let mut work = Vec::new();
        for pod in &self.pods {
            let name = || pod.name.clone();
            let stays = self.stuck.contains(&*pod.name) || (bad(pod) && pod.defect().is_some()) || hangs(pod);
            match pod.phase {
                _ if pod.terminating => work.push(Work::Remove(name())),
                Phase::Pending => work.push(Work::Start(name())),
                _ if pod.ready_since.is_some() || stays => {}
                _ => work.push(Work::Finish(name())),
            }
        }
        if self.native {
            for set in &self.sets {
                let reported = (set.observed_generation, set.update_revision.as_deref());
                let known = (set.generation, Some(&*self.templates[&set.uid]));
                if reported != known || self.promotes(set) {
                    work.push(Work::Report(Arc::clone(&set.name)));
                }
                work.extend(self.next_pod(set));
            }
        }
        work
    }

    /// What the controller does next to a pod of a set: it creates what is missing, deletes what is too many, then what
    /// is outdated from the highest ordinal down to the partition, and waits for each pod before the next.
    fn next_pod(&self, set: &SetRow) -> Option<Work> {
        let healthy = |pod: &PodRow| pod.ready() && self.available(set, pod);
        let find = |ordinal: u32| {
            let mut own = self.pods.iter().filter(|pod| pod.owner == set.uid);
            own.find(|pod| ordinal::of_pod(&pod.name, &set.name) == Some(ordinal))
        };
        let template = &self.templates[&set.uid];
        let current = set.current_revision.as_deref().unwrap_or(template);
        let partition = match set.strategy {
            Strategy::RollingUpdate { partition } => Some(partition),
            _ => None,
        };
        for ordinal in set.ordinals() {
            match find(ordinal) {
                None => {
                    let index = ordinal - set.first_ordinal;
                    let keeps = partition.is_some_and(|partition| index < partition);
                    let revision = if keeps { current } else { template };
                    return Some(Work::Create(Arc::clone(&set.name), ordinal, revision.to_owned()));
                }
                Some(pod) if self.ordered && !healthy(pod) => return None,
                Some(_) => {}
            }
        }
        let surplus = self.pods.iter().filter(|pod| {
            let ordinal = ordinal::of_pod(&pod.name, &set.name);
            pod.owner == set.uid && !ordinal.is_some_and(|ordinal| set.ordinals().contains(&ordinal))
        });
        if let Some(pod) = surplus.max_by(|left, right| ordinal::natural(&left.name, &right.name)) {
            return (!pod.terminating).then(|| Work::Delete(pod.name.clone()));
        }
        let partition = partition?;
        for ordinal in set.ordinals().rev().take_while(|ordinal| ordinal - set.first_ordinal >= partition) {
            let pod = find(ordinal)?;
            if pod.revision.as_deref() != Some(template) && !pod.terminating {
                return Some(Work::Delete(pod.name.clone()));
            }
            if !healthy(pod) {
                return None;
            }
        }
        None
    }

    fn available(&self, set: &SetRow, pod: &PodRow) -> bool {
        let settled = |since: jiff::Timestamp| since + set.min_ready <= self.now;
        set.min_ready.is_zero() || pod.ready_since.is_some_and(settled)
    }

    /// Whether the controller would call the update revision current.
    fn promotes(&self, set: &SetRow) -> bool {
        let template = self.templates[&set.uid].as_str();
        let own: Vec<_> = self.pods.iter().filter(|pod| pod.owner == set.uid).collect();
        let updated = own.iter().all(|pod| pod.ready() && pod.revision.as_deref() == Some(template));
        let complete = own.len() == usize::try_from(set.replicas).unwrap();
        let rolls = matches!(set.strategy, Strategy::RollingUpdate { .. });
        rolls && updated && complete && set.current_revision.as_deref() != Some(template)
    }

    pub(super) fn perform(&mut self, work: &Work) {
        let now = self.now;
        match work {
            Work::Report(name) => {
                let version = self.version();
                let number = self.sets.iter().position(|set| set.name == *name).unwrap();
                let promotes = self.promotes(&self.sets[number]);
                let template = self.templates[&self.sets[number].uid].as_str();
                let set = &mut self.sets[number];
                set.observed_generation = set.generation;
                set.update_revision = Some(template.into());
                if promotes || set.current_revision.is_none() {
                    set.current_revision = Some(template.into());
                }
                set.resource_version = version;
            }
            Work::Create(name, ordinal, revision) => {
                let set = self.sets.iter().find(|set| set.name == *name).unwrap().clone();
                let pod = self.pod_row(&set, *ordinal, revision);
                self.trace.push(format!("create {} {revision}", pod.name));
                self.pods.push(pod);
            }
            Work::Remove(name) => self.pods.retain(|pod| pod.name != *name),
            Work::Delete(name) => {
                self.trace.push(format!("roll {name}"));
                self.pod(name, |pod| pod.terminating = true);
            }
            Work::Start(name) => self.pod(name, |pod| (pod.phase, pod.running) = (Phase::Running, true)),
            Work::Finish(name) => {
                self.deleted.remove(name);
                self.pod(name, |pod| {
                    if bad(pod) {
                        (pod.waiting, pod.running) = (Some(Waiting::CrashLoopBackOff), false);
                    } else {
                        (pod.waiting, pod.running, pod.ready_since) = (None, true, Some(now));
                    }
                });
            }
        }
    }
}
