//! The rest of the cluster, one small step at a time: the StatefulSet controller and the kubelets of the forecast, users
//! and accidents. A revision whose name ends in `-bad` makes pods that crash for ever, one in `-hangs` pods that run and
//! never get Ready.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::cluster::{Cluster, full};
use crate::example;
pub(super) use crate::forecast::work::{CRASHES, HANGS};
use crate::forecast::work::{Work, fate_by_name};
use crate::pod::{Phase, PodRow, Waiting};
use crate::rollout_group::Decision;
use crate::set::{SetRow, Strategy};

/// Steps until a cluster of this size must have come to rest; far above what any run needs.
const STEPS_TO_REST: usize = 5_000;

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

pub(super) fn bad(revision: &str) -> bool {
    revision.ends_with(CRASHES) || revision.ends_with(HANGS)
}

fn pick<T>(items: &mut [T], number: usize) -> Option<&mut T> {
    let position = number.checked_rem(items.len())?;
    items.get_mut(position)
}

impl Cluster {
    /// All that the controllers and the kubelets could do now.
    pub(super) fn work(&self) -> Vec<Work> {
        let controlled = self.sets.iter().flat_map(|set| self.control_work(set, self.now));
        controlled.chain(self.pod_work(fate_by_name)).collect()
    }

    #[expect(clippy::needless_pass_by_value, reason = "work that is done is gone")]
    pub(super) fn perform(&mut self, work: Work) {
        let now = self.now;
        self.objects_mut().perform(&work, now);
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut PodRow)) {
        self.change_pod(example::NAMESPACE, name, change);
    }

    /// Gives a zone a new template.
    pub(super) fn edit(&mut self, zone: &str, revision: &str) {
        let name: Arc<str> = full(zone).into();
        let history = self.templates.get_mut(&name).expect("a zone of the fixture");
        history.push(revision.to_owned());
        let set = self.set_mut(zone);
        set.generation += 1;
        let uid = Arc::clone(&set.uid);
        self.objects_mut().templates.insert(uid, revision.to_owned());
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
        set.generation += 1;
        let (name, uid) = (Arc::clone(&set.name), Arc::clone(&set.uid));
        let history = self.templates.get_mut(&name).unwrap();
        let next = next(history);
        history.push(next.clone());
        self.objects_mut().templates.insert(uid, next);
    }

    fn with_set(&mut self, zone: usize, change: impl FnOnce(&mut SetRow)) {
        let version = self.next_version();
        if let Some(set) = pick(&mut self.sets, zone) {
            change(set);
            set.resource_version = version;
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
        for set in self.sets.clone() {
            if set.target().is_some() {
                self.unobserved_since.remove(&set.uid);
            } else {
                self.unobserved_since.entry(set.uid).or_insert(self.now);
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
