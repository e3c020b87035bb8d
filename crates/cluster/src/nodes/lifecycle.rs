//! What happens to a pod next: a pure decision from what the API server shows, what was done and when.
//!
//! ```text
//! unbound --bind--> Pending --start-delay--> Running --ready-delay--> Ready --deletion, stop-delay--> gone
//!                      |                        |                       |
//!                 image-pull               crash-loop,             unready-after,
//!                                          never-ready             a closed gate       (all of them heal)
//! ```

use std::time::Duration;

use super::behaviour::{Delay, Fault};
use super::node::Nodes;
use super::pod::{Containers, Phase, Place, Pod, Stage};
use super::shell::Step;
use crate::clock::Moment;

/// Wait before the first restart of a crashing container; each further one takes twice as long. A tenth of a
/// kubelet's, so that a test sees restarts grow within seconds.
const CRASH_BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The longest wait before a restart, as a kubelet has it.
const CRASH_BACKOFF_MOST: Duration = Duration::from_mins(5);

/// What is written of a pod. Holds no time: the same write decided again is recognised as the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Bind it to this node.
    Bind(String),
    /// Say why no node takes it.
    Unschedulable(String),
    /// Report a stage as its kubelet would.
    Report(Stage),
    /// Report as the control plane does for a node that it has lost.
    NotReady,
    /// Its containers have stopped: remove it.
    Remove,
    /// Tell its owner what of its annotations cannot be read.
    Complain(String),
}

/// When the hollow node last did what its delays count from. A stage that somebody else brought about, or
/// that is older than these hollow nodes, counts from when it was first seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    bound: Option<Moment>,
    /// The containers entered their state, or restarted.
    containers: Option<Moment>,
    containers_ready: Option<Moment>,
    deletion: Option<Moment>,
    fault: Option<(Option<Fault>, Moment)>,
    complained: Option<String>,
}

/// Delays where the pod names none, and what chance is drawn from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults {
    pub(super) start: Delay,
    pub(super) ready: Delay,
    pub(super) stop: Delay,
    pub(super) seed: u64,
}

impl Progress {
    /// Takes note of what a pod shows by now.
    pub(super) fn see(&mut self, pod: &Pod, now: Moment) {
        if matches!(pod.place, Place::Bound(_)) {
            self.bound.get_or_insert(now);
        }
        if pod.stage.containers != Containers::Creating {
            self.containers.get_or_insert(now);
        }
        if pod.stage.containers_ready {
            self.containers_ready.get_or_insert(now);
        }
        if pod.deletion_grace.is_some() {
            self.deletion.get_or_insert(now);
        }
        if self.fault.is_none_or(|(fault, _)| fault != pod.behaviour.fault) {
            self.fault = Some((pod.behaviour.fault, now));
        }
    }

    /// Takes note of a write that is about to be made, so that delays do not grow by the time it takes.
    pub(super) fn act(&mut self, pod: &Pod, write: &Write, now: Moment) {
        match write {
            Write::Bind(_) => self.bound = Some(now),
            Write::Report(stage) => {
                if (stage.containers, stage.restarts) != (pod.stage.containers, pod.stage.restarts) {
                    self.containers = Some(now);
                }
                if stage.containers_ready && !pod.stage.containers_ready {
                    self.containers_ready = Some(now);
                }
            }
            Write::Complain(complaint) => self.complained = Some(complaint.clone()),
            Write::Unschedulable(_) | Write::NotReady | Write::Remove => {}
        }
    }
}

/// The next step of a pod's life.
pub(super) fn next(
    pod: &Pod,
    progress: &Progress,
    nodes: &Nodes,
    defaults: &Defaults,
    now: Moment,
) -> Step<Write> {
    let step = match &pod.place {
        Place::Bound(node) if nodes.lost.contains(node) => cut_off(pod),
        Place::Bound(node) if nodes.has(node) => Life { pod, progress, defaults, now }.next(),
        Place::Unbound(wants) if pod.deletion_grace.is_none() => match nodes.choose(wants, &pod.name) {
            Ok(node) => Step::Write(Write::Bind(node.name.clone())),
            Err(_) if is_marked_unschedulable(pod) => Step::Rest,
            Err(reason) => Step::Write(Write::Unschedulable(reason)),
        },
        Place::Bound(_) | Place::Unbound(_) | Place::NotOurs => return Step::Rest,
    };
    match (&pod.behaviour.complaint, &step) {
        // Complaining is not part of the life: it waits until nothing else is to be done.
        (_, Step::Write(_)) => step,
        (Some(complaint), _) if progress.complained.as_ref() != Some(complaint) => {
            Step::Write(Write::Complain(complaint.clone()))
        }
        _ => step,
    }
}

fn is_marked_unschedulable(pod: &Pod) -> bool {
    pod.condition("PodScheduled")
        .is_some_and(|condition| condition.reason.as_deref() == Some("Unschedulable"))
}

/// A lost node does nothing; all that can be seen of its pods is that they are not Ready.
fn cut_off(pod: &Pod) -> Step<Write> {
    if pod.stage.ready { Step::Write(Write::NotReady) } else { Step::Rest }
}

/// A pod on a node that is alive.
struct Life<'a> {
    pod: &'a Pod,
    progress: &'a Progress,
    defaults: &'a Defaults,
    now: Moment,
}

impl Life<'_> {
    fn next(&self) -> Step<Write> {
        if let Some(grace) = self.pod.deletion_grace {
            return self.stop(grace);
        }
        if self.pod.stage.phase == Phase::Finished {
            return Step::Rest;
        }
        let started = self.pod.stage.containers != Containers::Creating;
        let start = self.since(self.progress.bound)
            + self.delay(self.pod.behaviour.start, self.defaults.start, "start");
        if !started && self.now < start {
            return Step::Wait(start);
        }
        let (stage, wake) = match self.pod.behaviour.fault {
            Some(Fault::ImagePull) => self.without_image(),
            Some(Fault::CrashLoop) => self.crashing(),
            _ => self.running(),
        };
        match wake {
            _ if stage != self.pod.stage => Step::Write(Write::Report(stage)),
            Some(wake) => Step::Wait(wake),
            None => Step::Rest,
        }
    }

    fn stop(&self, grace: i64) -> Step<Write> {
        let end = self.since(self.progress.deletion)
            + self.delay(self.pod.behaviour.stop, self.defaults.stop, "stop");
        // Without grace left the pod has been removed already and only finalizers keep the object.
        if grace == 0 || self.pod.behaviour.fault == Some(Fault::StuckTerminating) {
            Step::Rest
        } else if self.now < end {
            Step::Wait(end)
        } else {
            Step::Write(Write::Remove)
        }
    }

    fn without_image(&self) -> (Stage, Option<Moment>) {
        let stage = Stage {
            containers: Containers::ImagePullBackOff,
            containers_ready: false,
            ready: false,
            // A pod whose containers once ran stays Running.
            ..self.pod.stage
        };
        (stage, None)
    }

    fn crashing(&self) -> (Stage, Option<Moment>) {
        let shown = self.pod.stage;
        let again = self.since(self.progress.containers) + crash_backoff(shown.restarts);
        let (restarts, wake) = if shown.containers == Containers::CrashLoopBackOff && self.now < again {
            (shown.restarts, Some(again))
        } else {
            (shown.restarts.saturating_add(1), None)
        };
        let stage = Stage {
            phase: Phase::Running,
            containers: Containers::CrashLoopBackOff,
            restarts,
            containers_ready: false,
            ready: false,
        };
        (stage, wake)
    }

    fn running(&self) -> (Stage, Option<Moment>) {
        let shown = self.pod.stage;
        let since = if shown.containers == Containers::Running {
            self.since(self.progress.containers)
        } else {
            self.now
        };
        let ready = since + self.delay(self.pod.behaviour.ready, self.defaults.ready, "ready");
        let (containers_ready, wake) = match self.pod.behaviour.fault {
            Some(Fault::NeverReady) => (false, None),
            _ if self.now < ready => (false, Some(ready)),
            Some(Fault::UnreadyAfter(delay)) => {
                let end = self.ready_under_fault()
                    + delay.draw(self.defaults.seed, &format!("{}/unready", self.pod.key));
                (self.now < end, (self.now < end).then_some(end))
            }
            _ => (true, None),
        };
        let stage = Stage {
            phase: Phase::Running,
            containers: Containers::Running,
            // Leaving a crash loop takes one restart, the one that succeeds.
            restarts: shown
                .restarts
                .saturating_add(u32::from(shown.containers == Containers::CrashLoopBackOff)),
            containers_ready,
            ready: containers_ready && self.pod.closed_gate().is_none(),
        };
        (stage, wake)
    }

    /// When the containers were last both ready and under their present fault.
    fn ready_under_fault(&self) -> Moment {
        let fault = self.progress.fault.map(|(_, since)| since);
        self.since(self.progress.containers_ready).max(self.since(fault))
    }

    /// What has not been seen yet happens now.
    fn since(&self, moment: Option<Moment>) -> Moment {
        moment.unwrap_or(self.now)
    }

    fn delay(&self, chosen: Option<Delay>, default: Delay, step: &str) -> Duration {
        chosen.unwrap_or(default).draw(self.defaults.seed, &format!("{}/{step}", self.pod.key))
    }
}

fn crash_backoff(restarts: u32) -> Duration {
    let doubled = 1_u32.checked_shl(restarts.saturating_sub(1)).unwrap_or(u32::MAX);
    CRASH_BACKOFF_FIRST.saturating_mul(doubled).min(CRASH_BACKOFF_MOST)
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
