//! The rest of the cluster, one small step at a time: a StatefulSet controller for `OnDelete`, kubelets, users
//! and accidents. A revision whose name ends in `-bad` makes pods that crash for ever, one in `-hangs` pods that run and
//! never get Ready.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::cluster::{Cluster, full};
use crate::pod::{Phase, PodRow, Waiting};
use crate::rollout_group::Decision;
use crate::set::{SetRow, Strategy};

/// Steps until a cluster of this size must have come to rest; far above what any run needs.
const STEPS_TO_REST: usize = 5_000;

/// Something that the StatefulSet controller or a kubelet would do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// The set's controller looks at the present spec.
    Observe(Arc<str>),
    /// The set's controller deletes a pod that the spec no longer asks for.
    Retire(Box<str>),
    /// The set's controller creates a pod from the present template.
    Create(Arc<str>, u32),
    /// The set's controller counts its pods again.
    Count(Arc<str>),
    /// A terminating pod is gone.
    Remove(Box<str>),
    /// A pod's containers start.
    Start(Box<str>),
    /// A pod becomes Ready, or breaks if its revision is bad.
    Finish(Box<str>),
}

/// Something that happens to a cluster; zones and pods are picked by number.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// One piece of [`Work`].
    Work(usize),
    /// A zone gets a new template, of this suffix.
    Edit { zone: usize, suffix: &'static str },
    /// A zone gets the template that it had before.
    Rollback { zone: usize },
    /// A zone is paused, or goes on.
    Pause { zone: usize, paused: bool },
    /// A zone gets another number of replicas.
    Scale { zone: usize, replicas: u32 },
    /// A zone gets another budget.
    Budget { zone: usize, value: &'static str },
    /// A zone leaves deletions to us, or not.
    Strategy { zone: usize, on_delete: bool },
    /// A pod stops being Ready for a while.
    Fail(usize),
    /// A pod crashes again and again for a while.
    Crash(usize),
    /// Somebody else deletes a pod.
    Evict(usize),
    /// Time passes.
    Wait(u8),
}

/// What the names of revisions end in whose pods never get Ready.
pub(super) const CRASHES: &str = "-bad";
pub(super) const HANGS: &str = "-hangs";

pub(super) fn bad(revision: &str) -> bool {
    revision.ends_with(CRASHES) || revision.ends_with(HANGS)
}

fn hangs(pod: &PodRow) -> bool {
    pod.revision.as_deref().is_some_and(|revision| revision.ends_with(HANGS))
}

fn bad_pod(pod: &PodRow) -> bool {
    pod.revision.as_deref().is_some_and(bad)
}

fn pick<T>(items: &mut [T], number: usize) -> Option<&mut T> {
    let position = number.checked_rem(items.len())?;
    items.get_mut(position)
}

impl Cluster {
    /// All that the controller and the kubelets could do now.
    pub(super) fn work(&self) -> Vec<Work> {
        let mut work = Vec::new();
        for set in &self.sets {
            if set.observed_generation < set.generation {
                work.push(Work::Observe(Arc::clone(&set.name)));
                continue;
            }
            let name_of = |ordinal: u32| format!("{}-{ordinal}", set.name);
            let names: Vec<_> = set.ordinals().map(name_of).collect();
            let own = || self.pods.iter().filter(|pod| pod.owner == set.uid);
            let surplus =
                own().filter(|pod| !pod.terminating && !names.iter().any(|name| **name == *pod.name));
            work.extend(surplus.map(|pod| Work::Retire(pod.name.clone())));
            let absent = set.ordinals().filter(|ordinal| own().all(|pod| *pod.name != name_of(*ordinal)));
            work.extend(absent.map(|ordinal| Work::Create(Arc::clone(&set.name), ordinal)));
            if set.counted != self.complete(set) {
                work.push(Work::Count(Arc::clone(&set.name)));
            }
        }
        for pod in &self.pods {
            let name = || pod.name.clone();
            match pod.phase {
                _ if pod.terminating => work.push(Work::Remove(name())),
                Phase::Pending => work.push(Work::Start(name())),
                _ if hangs(pod) && pod.running => {}
                _ if pod.ready_since.is_some() || (bad_pod(pod) && pod.defect().is_some()) => {}
                _ => work.push(Work::Finish(name())),
            }
        }
        work
    }

    /// Whether as many pods of the target revision are Ready as the spec asks for.
    fn complete(&self, set: &SetRow) -> bool {
        let own = self.pods.iter().filter(|pod| pod.owner == set.uid && pod.ready());
        let updated = own.filter(|pod| pod.revision.as_deref() == set.update_revision.as_deref());
        updated.count() as u64 == u64::from(set.replicas)
    }

    pub(super) fn perform(&mut self, work: Work) {
        self.writes += 1;
        let version: Box<str> = self.writes.to_string().into();
        let now = self.now;
        match work {
            Work::Observe(name) => {
                let target = self.templates[&name].last().cloned();
                let set = self.sets.iter_mut().find(|set| set.name == name).unwrap();
                set.observed_generation = set.generation;
                set.update_revision = target.map(Into::into);
                set.resource_version = version;
            }
            Work::Count(name) => {
                let number = self.sets.iter().position(|set| set.name == name).unwrap();
                let counted = self.complete(&self.sets[number]);
                (self.sets[number].counted, self.sets[number].resource_version) = (counted, version);
            }
            Work::Create(name, ordinal) => {
                let set = self.sets.iter().find(|set| set.name == name).unwrap().clone();
                let pod = self.pod_row(&set, ordinal);
                self.pods.push(pod);
            }
            Work::Remove(name) => self.pods.retain(|pod| pod.name != name),
            Work::Retire(name) => self.change(&name, |pod| pod.terminating = true),
            Work::Start(name) => {
                self.change(&name, |pod| (pod.phase, pod.running) = (Phase::Running, true));
            }
            Work::Finish(name) => self.change(&name, |pod| {
                if hangs(pod) {
                    (pod.waiting, pod.running) = (None, true);
                } else if bad_pod(pod) {
                    (pod.waiting, pod.running) = (Some(Waiting::CrashLoopBackOff), false);
                } else {
                    (pod.waiting, pod.running, pod.ready_since) = (None, true, Some(now));
                }
            }),
        }
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut PodRow)) {
        self.writes += 1;
        let pod = self.pods.iter_mut().find(|pod| *pod.name == *name).unwrap();
        change(pod);
        pod.resource_version = self.writes.to_string().into();
    }

    /// Gives a zone a new template.
    pub(super) fn edit(&mut self, zone: &str, revision: &str) {
        let name: Arc<str> = full(zone).into();
        let history = self.templates.get_mut(&name).expect("a zone of the fixture");
        history.push(revision.to_owned());
        self.set_mut(zone).generation += 1;
    }

    /// Lets one thing happen.
    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Work(number) => {
                let mut work = self.work();
                if let Some(work) = pick(&mut work, number) {
                    self.perform(work.clone());
                }
            }
            Step::Edit { zone, suffix } => {
                let revision = format!("r{}{suffix}", self.writes);
                self.template(zone, |_| revision);
            }
            Step::Rollback { zone } => self.template(zone, |history| {
                history.get(history.len().saturating_sub(2)).unwrap_or(&history[0]).clone()
            }),
            Step::Pause { zone, paused } => {
                self.with_set(zone, |set| set.steering.paused = paused.then(|| "true".into()));
            }
            Step::Scale { zone, replicas } => self.with_set(zone, |set| {
                set.generation += i64::from(set.replicas != replicas);
                set.replicas = replicas;
            }),
            Step::Budget { zone, value } => {
                self.with_set(zone, |set| set.steering.max_unavailable = Some(value.into()));
            }
            Step::Strategy { zone, on_delete } => self.with_set(zone, |set| {
                let other = Strategy::Other("RollingUpdate".into());
                set.strategy = if on_delete { Strategy::OnDelete } else { other };
                set.generation += 1;
            }),
            Step::Fail(number) => self.with_pod(number, |pod| pod.ready_since = None),
            Step::Crash(number) => self.with_pod(number, |pod| {
                if pod.phase == Phase::Running {
                    (pod.ready_since, pod.running) = (None, false);
                    pod.waiting = Some(Waiting::CrashLoopBackOff);
                }
            }),
            Step::Evict(number) => self.with_pod(number, |pod| pod.terminating = true),
            Step::Wait(seconds) => self.pass(SignedDuration::from_secs(seconds.into())),
        }
    }

    fn template(&mut self, zone: usize, next: impl FnOnce(&[String]) -> String) {
        let Some(set) = pick(&mut self.sets, zone) else { return };
        let history = self.templates.get_mut(&set.name).unwrap();
        let next = next(history);
        history.push(next);
        set.generation += 1;
    }

    fn with_set(&mut self, zone: usize, change: impl FnOnce(&mut SetRow)) {
        self.writes += 1;
        let version = self.writes.to_string();
        if let Some(set) = pick(&mut self.sets, zone) {
            change(set);
            set.resource_version = version.into();
        }
    }

    fn with_pod(&mut self, number: usize, change: impl FnOnce(&mut PodRow)) {
        let name = pick(&mut self.pods, number).map(|pod| pod.name.clone());
        if let Some(name) = name {
            self.change(&name, change);
        }
    }

    pub(super) fn pass(&mut self, time: SignedDuration) {
        self.now = self.now.saturating_add(time).unwrap();
    }

    /// The operator's part: notes what is unobserved, plans, and does it.
    #[track_caller]
    pub(super) fn operate(&mut self) -> Decision {
        for set in &self.sets {
            if set.target().is_some() {
                self.unobserved_since.remove(&set.uid);
            } else {
                self.unobserved_since.entry(Arc::clone(&set.uid)).or_insert(self.now);
            }
        }
        let plan = self.plan();
        self.apply_all(&plan);
        plan
    }

    /// Lets controller, kubelets and operator do all they can, and hands out each plan, until nothing happens.
    #[track_caller]
    pub(super) fn rest(&mut self, mut seen: impl FnMut(&Cluster, &Decision)) -> Decision {
        for round in 0..STEPS_TO_REST {
            let plan = self.operate();
            seen(self, &plan);
            let mut work = self.work();
            if let Some(work) = pick(&mut work, round) {
                self.perform(work.clone());
            } else if plan.plan.steps.is_empty() {
                let Some(wake_at) = plan.plan.wake_at else { return plan };
                self.now = Timestamp::max(self.now, wake_at);
            }
        }
        panic!("no rest after {STEPS_TO_REST} steps:\n{self}");
    }
}
