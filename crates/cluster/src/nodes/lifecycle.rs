//! What happens to a pod next: a pure decision from what the API server shows, what was done and when.
//!
//! ```text
//! unbound --bind--> Pending --start-delay, init containers--> Running --ready-delay, probes--> Ready
//!                      |                                         |                              |
//!              init-crash-loop,                     crash-loop, never-ready,              unready-after,
//!              image-pull                           exit-after, fail-after,               a closed gate,
//!                                                   a dead liveness probe                 a failing probe
//!
//! Ready --deletion, stop-delay or the end of its grace--> gone
//! ```
//!
//! Faults heal when they are taken back. A run that ends leads, as the restart policy has it, to the next one or to
//! the end of the pod:
//!
//! ```text
//! Running --ended--> Running again (the first time) or CrashLoopBackOff --back-off--> Running again
//!            \----> Succeeded or Failed
//! ```

use std::time::Duration;

use super::Placement;
use super::behaviour::{Delay, Fault};
use super::node::Nodes;
use super::pod::{Binding, CRASHED, Containers, Init, InitState, Phase, Pod, RestartPolicy, Stage};
use super::probes::{Health, Purpose};
use super::shell::Next;
use crate::clock::Moment;

/// Wait before the first restart of a crashing container; each further one takes twice as long. A tenth of a
/// kubelet's, so that a test sees restarts grow within seconds.
const CRASH_BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The longest wait before a restart, as a kubelet has it.
const CRASH_BACKOFF_MOST: Duration = Duration::from_mins(5);

/// A run that lasts this long makes the crashes before it forgotten, as a kubelet has it.
const BACKOFF_FORGOTTEN: Duration = Duration::from_mins(10);
/// Exit code of a container that its kubelet kills.
const KILLED: u8 = 137;

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
    /// The init container whose turn it is entered its state.
    init: Option<Moment>,
    deletion: Option<Moment>,
    /// Runs that ended since the last long one, and until when the next one waits.
    streak: u32,
    backoff: Option<Moment>,
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
    /// Who binds pods, and who says that a node is lost.
    pub(super) placement: Placement,
}

impl Progress {
    /// Takes note of what a pod shows by now.
    pub(super) fn see(&mut self, pod: &Pod, now: Moment) {
        if matches!(pod.binding, Binding::Bound(_)) {
            self.bound.get_or_insert(now);
        }
        if pod.stage.containers != Containers::Creating {
            self.containers.get_or_insert(now);
        }
        if pod.stage.containers_ready {
            self.containers_ready.get_or_insert(now);
        }
        if matches!(pod.stage.init, Init::At { .. }) {
            self.init.get_or_insert(now);
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
                if stage.init != pod.stage.init {
                    self.init = Some(now);
                }
                self.count_runs(pod, stage, now);
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

    /// How many consecutive runs have ended, none of them a long one.
    fn streak(&self, now: Moment) -> u32 {
        let began = self.containers.unwrap_or(now);
        if now.saturating_sub(began) < BACKOFF_FORGOTTEN { self.streak } else { 0 }
    }

    fn count_runs(&mut self, pod: &Pod, stage: &Stage, now: Moment) {
        let is_over = pod.stage.containers == Containers::Running
            && (stage.containers != Containers::Running || stage.restarts != pod.stage.restarts);
        // That fault keeps its own count.
        if is_over && pod.behaviour.fault != Some(Fault::CrashLoop) {
            let streak = self.streak(now);
            self.backoff =
                (stage.containers == Containers::CrashLoopBackOff).then(|| now + crash_backoff(streak));
            self.streak = streak.saturating_add(1);
        }
    }
}

/// What a pod does next.
pub(super) fn next(
    pod: &Pod,
    progress: &Progress,
    nodes: &Nodes,
    defaults: &Defaults,
    health: Health,
    now: Moment,
) -> Next<Write> {
    let is_left_to_cluster = defaults.placement == Placement::Clusters;
    let next = match &pod.binding {
        // A node that is lost writes nothing: the cluster finds out by itself.
        Binding::Bound(node) if nodes.lost.contains(node) && is_left_to_cluster => return Next::Rest,
        Binding::Bound(node) if nodes.lost.contains(node) => cut_off(pod),
        Binding::Bound(node) if nodes.has(node) => Life { pod, progress, defaults, health, now }.next(),
        Binding::Unbound(_) if is_left_to_cluster => return Next::Rest,
        Binding::Unbound(wants) if pod.deletion_grace.is_none() => match nodes.choose(wants, &pod.name) {
            Ok(node) => Next::Write(Write::Bind(node.name.clone())),
            Err(_) if is_marked_unschedulable(pod) => Next::Rest,
            Err(reason) => Next::Write(Write::Unschedulable(reason)),
        },
        Binding::Bound(_) | Binding::Unbound(_) | Binding::NotOurs => return Next::Rest,
    };
    match (&pod.behaviour.complaint, &next) {
        // Complaining is not part of the life: it waits until nothing else is to be done.
        (_, Next::Write(_)) => next,
        (Some(complaint), _) if progress.complained.as_ref() != Some(complaint) => {
            Next::Write(Write::Complain(complaint.clone()))
        }
        _ => next,
    }
}

fn is_marked_unschedulable(pod: &Pod) -> bool {
    pod.condition("PodScheduled")
        .is_some_and(|condition| condition.reason.as_deref() == Some("Unschedulable"))
}

/// A lost node does nothing; all that can be seen of its pods is that they are not Ready.
fn cut_off(pod: &Pod) -> Next<Write> {
    if pod.stage.ready { Next::Write(Write::NotReady) } else { Next::Rest }
}

/// A pod on a node that is alive.
struct Life<'a> {
    pod: &'a Pod,
    progress: &'a Progress,
    defaults: &'a Defaults,
    health: Health,
    now: Moment,
}

impl Life<'_> {
    fn next(&self) -> Next<Write> {
        if let Some(grace) = self.pod.deletion_grace {
            return self.stop(grace);
        }
        if matches!(self.pod.stage.phase, Phase::Succeeded | Phase::Failed) {
            return Next::Rest;
        }
        let started = self.pod.stage.containers != Containers::Creating;
        let start = self.since(self.progress.bound)
            + self.delay(self.pod.behaviour.start, self.defaults.start, "start");
        if !started && self.now < start {
            return Next::Wait(start);
        }
        let (stage, wake) = match (self.initializing(), self.pod.behaviour.fault) {
            (Some(initializing), _) => initializing,
            (None, Some(Fault::ImagePull)) => self.without_image(),
            (None, Some(Fault::CrashLoop)) if self.pod.policy == RestartPolicy::Never => self.ended(CRASHED),
            (None, Some(Fault::CrashLoop)) => self.crashing(),
            (None, _) => self.running(),
        };
        match wake {
            _ if stage != self.pod.stage => Next::Write(Write::Report(stage)),
            Some(wake) => Next::Wait(wake),
            None => Next::Rest,
        }
    }

    fn stop(&self, grace: i64) -> Next<Write> {
        let delay = self.delay(self.pod.behaviour.stop, self.defaults.stop, "stop");
        // Whatever has not stopped by the end of its grace is killed.
        let end = self.since(self.progress.deletion)
            + delay.min(Duration::from_secs(u64::try_from(grace).unwrap_or_default()));
        // Without grace left the pod has been removed already and only finalizers keep the object.
        if grace == 0 || self.pod.behaviour.fault == Some(Fault::StuckTerminating) {
            Next::Rest
        } else if self.now < end {
            Next::Wait(end)
        } else {
            Next::Write(Write::Remove)
        }
    }

    fn without_image(&self) -> (Stage, Option<Moment>) {
        let stage = Stage {
            init: Init::Done,
            containers: Containers::ImagePullBackOff,
            started: false,
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
            init: Init::Done,
            containers: Containers::CrashLoopBackOff,
            restarts,
            exit: CRASHED,
            started: false,
            containers_ready: false,
            ready: false,
        };
        (stage, wake)
    }

    /// Where the init containers are; nothing once all are done.
    fn initializing(&self) -> Option<(Stage, Option<Moment>)> {
        let shown = self.pod.stage.init;
        let (mut index, mut restarts, mut began) = match shown {
            Init::Done => return None,
            Init::Waiting => (0, 0, self.now),
            Init::At { index, state: InitState::Running, restarts } => {
                (index, restarts, self.since(self.progress.init))
            }
            Init::At { index, restarts, .. } => (index, restarts.saturating_add(1), self.now),
        };
        let at =
            |index, state, restarts| Stage { init: Init::At { index, state, restarts }, ..self.pod.stage };
        for container in self.pod.initializing().skip(index) {
            // The first one fails: the others never have a turn.
            if self.pod.behaviour.fault == Some(Fault::InitCrashLoop) && index == 0 {
                return Some(self.failing_init());
            }
            if self.pod.held && container.awaits.is_some() {
                return Some((at(index, InitState::Running, restarts), None));
            }
            let delay = self.pod.behaviour.init.unwrap_or_default();
            let delay = delay.draw(self.defaults.seed, &format!("{}/init/{}", self.pod.key, container.name));
            if self.now < began + delay {
                return Some((at(index, InitState::Running, restarts), Some(began + delay)));
            }
            let again = restarts.saturating_add(1);
            if again < self.pod.behaviour.init_runs.unwrap_or(1) {
                return Some((at(index, InitState::Running, again), Some(self.now + delay)));
            }
            (index, restarts, began) = (index + 1, 0, self.now);
        }
        None
    }

    fn failing_init(&self) -> (Stage, Option<Moment>) {
        let at = |state, restarts| Stage { init: Init::At { index: 0, state, restarts }, ..self.pod.stage };
        match self.pod.stage.init {
            _ if self.pod.policy == RestartPolicy::Never => {
                (Stage { phase: Phase::Failed, ..at(InitState::Failed, 0) }, None)
            }
            Init::At { state: InitState::CrashLoopBackOff, restarts, .. } => {
                let again = self.since(self.progress.init) + crash_backoff(restarts);
                if self.now < again {
                    (self.pod.stage, Some(again))
                } else {
                    (at(InitState::CrashLoopBackOff, restarts.saturating_add(1)), None)
                }
            }
            _ => (at(InitState::CrashLoopBackOff, 1), None),
        }
    }

    fn running(&self) -> (Stage, Option<Moment>) {
        let shown = self.pod.stage;
        if let (Containers::CrashLoopBackOff, Some(again)) = (shown.containers, self.progress.backoff)
            && self.now < again
        {
            return (shown, Some(again));
        }
        let is_running = shown.containers == Containers::Running;
        let since = if is_running { self.since(self.progress.containers) } else { self.now };
        let end = match self.pod.behaviour.fault {
            Some(Fault::EndAfter(delay, code)) => {
                let text = format!("{}/end/{}", self.pod.key, shown.restarts);
                Some((since + delay.draw(self.defaults.seed, &text), code))
            }
            _ => None,
        };
        match end {
            _ if is_running && self.health.dead => return self.ended(KILLED),
            Some((end, code)) if is_running && end <= self.now => return self.ended(code),
            _ => {}
        }
        let (is_ready, wake) = self.readiness(since);
        let containers_ready = is_ready && (self.pod.probes.is_empty() || is_running && self.health.ready);
        let stage = Stage {
            phase: Phase::Running,
            init: Init::Done,
            containers: Containers::Running,
            // Leaving a crash loop takes one restart, the one that succeeds.
            restarts: shown
                .restarts
                .saturating_add(u32::from(shown.containers == Containers::CrashLoopBackOff)),
            exit: shown.exit,
            started: self.is_started(is_running),
            containers_ready,
            ready: containers_ready && self.pod.closed_gate().is_none(),
        };
        let end = end.map(|(end, _)| end);
        (stage, wake.into_iter().chain(end).min())
    }

    /// Containers that have just begun have not answered any startup probe.
    fn is_started(&self, is_running: bool) -> bool {
        let is_asked = self.pod.probes.iter().any(|probe| probe.purpose == Purpose::Startup);
        !is_asked || is_running && self.health.started
    }

    /// Whether delays and faults let a run be ready that began then, and when that changes.
    fn readiness(&self, since: Moment) -> (bool, Option<Moment>) {
        let ready = since + self.delay(self.pod.behaviour.ready, self.defaults.ready, "ready");
        match self.pod.behaviour.fault {
            Some(Fault::NeverReady) => (false, None),
            _ if self.now < ready => (false, Some(ready)),
            Some(Fault::UnreadyAfter(delay)) => {
                let end = self.ready_under_fault()
                    + delay.draw(self.defaults.seed, &format!("{}/unready", self.pod.key));
                (self.now < end, (self.now < end).then_some(end))
            }
            _ => (true, None),
        }
    }

    /// What follows the end of a run.
    fn ended(&self, exit: u8) -> (Stage, Option<Moment>) {
        let shown = self.pod.stage;
        let over =
            Stage { exit, started: false, containers_ready: false, ready: false, init: Init::Done, ..shown };
        let begins_again = match self.pod.policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit != 0,
            RestartPolicy::Never => false,
        };
        let stage = if !begins_again {
            let phase = if exit == 0 { Phase::Succeeded } else { Phase::Failed };
            Stage { phase, containers: Containers::Ended, ..over }
        } else if self.progress.streak(self.now) == 0 {
            let started = self.is_started(false);
            Stage {
                containers: Containers::Running,
                restarts: shown.restarts.saturating_add(1),
                started,
                ..over
            }
        } else {
            Stage { containers: Containers::CrashLoopBackOff, ..over }
        };
        (stage, None)
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
