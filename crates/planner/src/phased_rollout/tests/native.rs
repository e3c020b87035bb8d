//! The rest of the cluster, which is that of the forecast: the API server's preconditions, the StatefulSet controller, and
//! kubelets. A revision whose name ends in `-bad` makes pods that crash for ever, one in `-hangs` pods that run and never get Ready.

use sts_plus_api::keys;

use super::cluster::{Cluster, partition_of};
use super::invariants;
use crate::forecast::kubelet::PodChange;
pub(super) use crate::forecast::work::Work;
use crate::forecast::work::fate_by_name;
use crate::health::Health;
use crate::phased_rollout::query::Outcome;
use crate::phased_rollout::{Decision, World};
use crate::plan::{Action, Kind, Verb};

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

    /// Does what a write asks for and holds it against the invariants, or says why not.
    fn apply(&mut self, world: &World, action: &Action) -> Result<(), String> {
        // The API server of the forecast takes more: what a rollout writes is this and nothing else.
        let ours = match (action.object().kind, action.verb()) {
            (Kind::Pod, Verb::Delete) => true,
            (Kind::StatefulSet, Verb::Merge { manager, .. } | Verb::Apply { manager, .. })
            | (Kind::PhasedRollout, Verb::Merge { manager, .. } | Verb::ReplaceStatus { manager, .. }) => {
                *manager == keys::MANAGER_PHASED_ROLLOUT
            }
            _ => false,
        };
        assert!(ours, "not written by a rollout: {action:?}");
        match action.object().kind {
            Kind::Pod => self.before_deletion(action),
            Kind::StatefulSet => self.before_partition(world, action),
            _ => {}
        }
        self.objects_mut().apply(action).map_err(|refused| format!("{refused}: {action:?}"))?;
        if matches!(action.verb(), Verb::ReplaceStatus { .. }) {
            self.remember(world);
        }
        Ok(())
    }

    fn before_deletion(&mut self, action: &Action) {
        let name = &action.object().name;
        if self.pods.iter().any(|pod| pod.name == *name && pod.ready()) {
            invariants::may_go(self, name);
            self.deleted.insert(name.clone());
        }
        self.trace.push(format!("delete {name}"));
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

    fn before_partition(&mut self, world: &World, action: &Action) {
        let Verb::Apply { body, .. } = action.verb() else { return };
        let set = self.sets.iter().find(|set| *set.name == *action.object().name);
        let Some((set, before)) = set.map(|set| (set, partition_of(set))) else { return };
        let value = &body["spec"]["updateStrategy"]["rollingUpdate"]["partition"];
        let partition = value.as_u64().map_or(0, |value| u32::try_from(value).unwrap());
        let mark = body["metadata"]["annotations"][keys::PHASED_ROLLOUT].as_str();
        let remarked = set.steering.phased_rollout.as_deref() != mark;
        if remarked && !value.is_null() && before == partition {
            return;
        }
        let lowers = !value.is_null() && partition < before && partition < set.replicas;
        let step = if lowers { invariants::step_of(world, partition) } else { None };
        if let Some(step) = step {
            invariants::proven(self, world);
            assert!(self.spent.insert(step), "never two decrements in one gate:\n{self}");
        }
        let released = value.is_null();
        let line = if released { "partition given up".to_owned() } else { format!("partition {partition}") };
        self.trace.push(line);
    }
}

/// The StatefulSet controller and the kubelets.
impl Cluster {
    /// All that they could do now.
    pub(super) fn work(&self) -> Vec<Work> {
        let mut work = self.pod_work(fate_by_name);
        let stuck = |work: &Work| matches!(work, Work::Change(pod, PodChange::Finish, _) if self.stuck.contains(&*pod.name));
        work.retain(|work| !stuck(work));
        if self.native {
            work.extend(self.sets.iter().flat_map(|set| self.control_work(set, self.now)));
        }
        work
    }

    pub(super) fn perform(&mut self, work: &Work) {
        let now = self.now;
        self.objects_mut().perform(work, now);
        match work {
            Work::Change(pod, PodChange::Finish, _) => drop(self.deleted.remove(&pod.name)),
            Work::Write(action) if work.writes_pod() => {
                let name = &action.object().name;
                let pod = self.pods.iter().find(|pod| pod.name == *name);
                let revision = pod.and_then(|pod| pod.revision.as_deref()).unwrap_or_default();
                let line = match action.verb() {
                    Verb::Delete => format!("roll {name}"),
                    _ => format!("create {name} {revision}"),
                };
                self.trace.push(line);
            }
            _ => {}
        }
    }
}
