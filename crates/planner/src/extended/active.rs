//! Which pod of an ExtendedStatefulSet is active: the only one of all its zones and versions with the label
//! `<group>/pod-designation: active`.
//!
//! Labels are removed before one is added, and one is added only where no other pod has it. A label is no fence: a
//! pod that has lost it may still do what an active pod does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::extended::{ActiveFallback, ActivePod, Group};
use sts_plus_api::keys;

use super::probe::{ProbeOutcome, ProbeRequest};
use super::spec::ActivePolicy;
use crate::plan::{Action, Ask, Kind, Object};
use crate::pod::{Phase, PodRow};

/// For how many periods, beside its timeout, the outcome of a probe counts: the next outcome may be late, but a pod
/// that has not been probed for longer may have changed.
const OUTCOME_COUNTS_FOR: i32 = 2;

/// What is known from the probes of one pod. It is not durable: losing it delays a failover by at most a threshold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeState {
    /// When the last probe was sent, and whether it passed.
    pub last: Option<(Timestamp, Result<(), Arc<str>>)>,
    /// How many have failed in succession.
    pub failures: u32,
}

impl ProbeState {
    /// Counts an outcome. They come in the order of their probes, as a pod has one at a time; their times may go back, as
    /// clocks are set.
    fn count(&mut self, outcome: &ProbeOutcome) {
        self.failures = if outcome.result.is_ok() { 0 } else { self.failures.saturating_add(1) };
        self.last = Some((outcome.at, outcome.result.clone()));
    }
}

/// Counts the outcomes of probes under a policy. Those of a check that was asked for before it are of no meaning.
pub fn count(
    probes: &mut BTreeMap<Box<str>, ProbeState>,
    policy: Option<&ActivePolicy>,
    outcomes: &[ProbeOutcome],
) {
    let is_asked_for = |outcome: &&ProbeOutcome| {
        policy
            .is_some_and(|policy| (&policy.container, &policy.check) == (&outcome.container, &outcome.check))
    };
    for outcome in outcomes.iter().filter(is_asked_for) {
        probes.entry(outcome.uid.clone()).or_default().count(outcome);
    }
}

/// What the decision looks at.
#[derive(Clone, Copy, Debug)]
pub struct ActiveWorld<'w> {
    pub group: Group,
    /// Its UID.
    pub owner: &'w str,
    /// How the active pod is found; `None` where none is wanted.
    pub policy: Option<&'w ActivePolicy>,
    /// The pods of all its StatefulSets, all zones and versions; the first suitable one becomes active.
    pub pods: &'w [Arc<PodRow>],
    /// What is known from probes, by the UID of the pod.
    pub probes: &'w BTreeMap<Box<str>, ProbeState>,
    /// The UIDs of the pods of which a probe is under way.
    pub probing: &'w BTreeSet<Box<str>>,
    /// The active pod as the status has it.
    pub recorded: Option<&'w ActivePod>,
    /// Whether the view is unconfirmed: no label is added, and none removed because of other pods.
    pub doubt: bool,
    pub now: Timestamp,
}

/// Who is active, and the writes and probes that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Designation {
    /// Removals of the label; all of them must have succeeded before the addition.
    pub removals: Vec<Action>,
    /// The addition of the label; the status is written before it.
    pub addition: Option<Action>,
    /// The active pod, for the status.
    pub active: Option<ActivePod>,
    /// The probes that are due.
    pub asks: Vec<Ask>,
    /// When the next probe is due.
    pub wake_at: Option<Timestamp>,
    /// Why the pod is active, or why none is.
    pub reason: ActiveReason,
}

/// Why a pod is active, or why none is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActiveReason {
    /// No pod is to be active.
    NoProbe,
    /// The active pod stays active.
    Stays {
        pod: Box<str>,
        /// How many probes of it failed in succession.
        failures: u32,
        /// How many must fail.
        threshold: u32,
    },
    /// The first Ready pod that passes becomes active.
    Passes { pod: Box<str> },
    /// No pod passes, and the first running one is active.
    Fallback { pod: Box<str> },
    /// No pod becomes active before the view is confirmed.
    Unconfirmed,
    /// No pod becomes active before each Ready one has been probed.
    Unprobed {
        /// The first Ready pod without an outcome.
        pod: Box<str>,
        /// How many there are.
        pods: usize,
    },
    /// No Ready pod passes.
    NonePasses {
        /// The first of them.
        pod: Box<str>,
        /// Why it does not pass.
        why: Arc<str>,
    },
    /// No pod is Ready.
    NoneReady,
    /// The spec is invalid, and no valid one is known.
    PolicyUnknown,
}

impl fmt::Display for ActiveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProbe => f.write_str("No pod is active: the spec has no activeProbe."),
            Self::Stays { pod, failures: 0, .. } => {
                write!(f, "Pod {pod} is active: it is Ready and its probe does not fail.")
            }
            Self::Stays { pod, failures, threshold } => write!(
                f,
                "Pod {pod} is active: it is Ready, and {failures} of {threshold} probes failed in succession."
            ),
            Self::Passes { pod } => write!(f, "Pod {pod} is active: it is the first Ready pod that passes."),
            Self::Fallback { pod } => {
                write!(f, "Pod {pod} is active although no pod passes: activeFallback is FirstRunning.")
            }
            Self::Unconfirmed => {
                f.write_str("No pod is active: the view is unconfirmed, and another pod may have the label.")
            }
            Self::Unprobed { pod, pods } => {
                write!(
                    f,
                    "No pod is active: waiting for the first probe of {pods} Ready pods, such as {pod}."
                )
            }
            Self::NonePasses { pod, why } => {
                write!(f, "No pod is active: no Ready pod passes. The probe of pod {pod} failed: {why}.")
            }
            Self::NoneReady => f.write_str("No pod is active: no pod is Ready."),
            Self::PolicyUnknown => f.write_str("No pod becomes active: the spec is invalid."),
        }
    }
}

/// Decides which pod is active.
pub fn designate(world: &ActiveWorld<'_>) -> Designation {
    let label = world.group.key(keys::POD_DESIGNATION);
    let value_of = |pod: &PodRow| pod.label(&label).map(str::to_owned);
    let is_active = |pod: &PodRow| value_of(pod).as_deref() == Some(keys::ACTIVE);
    let (chosen, reason) = match world.policy {
        None => (None, ActiveReason::NoProbe),
        Some(policy) => {
            let election = Election { world, policy };
            election.choose(election.incumbent(is_active))
        }
    };
    let (chosen, reason) = match chosen {
        Some(pod) if world.doubt && !is_active(pod) => (None, ActiveReason::Unconfirmed),
        _ => (chosen, reason),
    };

    let others = world.pods.iter().filter(|pod| chosen.is_none_or(|chosen| chosen.uid != pod.uid));
    let removals = others
        .filter(|pod| value_of(pod).is_some())
        .map(|pod| Action::revoke_designation(pod, world.owner, world.group))
        .collect();
    let addition = chosen.filter(|pod| !is_active(pod));
    let (asks, wake_at) = probes(world);
    Designation {
        removals,
        addition: addition.map(|pod| Action::designate(pod, world.owner, world.group)),
        active: chosen.map(|pod| recorded(world, pod)),
        asks,
        wake_at,
        reason,
    }
}

/// Decides while it is not known how the active pod is found: one that is not Ready gives up the label, and nobody gets it.
pub fn relieve(world: &ActiveWorld<'_>) -> Designation {
    let label = world.group.key(keys::POD_DESIGNATION);
    let labelled = || world.pods.iter().filter(|pod| pod.label(&label).is_some());
    let is_recorded = |pod: &PodRow| world.recorded.is_some_and(|recorded| *recorded.uid == *pod.uid);
    let stays = |pod: &&Arc<PodRow>| pod.ready() && pod.label(&label) == Some(keys::ACTIVE);
    let staying = labelled().filter(stays).min_by_key(|pod| !is_recorded(pod));
    let others = labelled().filter(|pod| staying.is_none_or(|staying| staying.uid != pod.uid));
    Designation {
        removals: others.map(|pod| Action::revoke_designation(pod, world.owner, world.group)).collect(),
        addition: None,
        active: staying.map(|pod| recorded(world, pod)),
        asks: Vec::new(),
        wake_at: None,
        reason: ActiveReason::PolicyUnknown,
    }
}

/// The active pod for the status: the time stays for as long as the pod does.
fn recorded(world: &ActiveWorld<'_>, pod: &PodRow) -> ActivePod {
    let since = world.recorded.filter(|recorded| *recorded.uid == *pod.uid).map(|recorded| recorded.since);
    ActivePod { name: pod.name.to_string(), uid: pod.uid.to_string(), since: since.unwrap_or(world.now) }
}

/// The probes that are due, and when the next one is.
fn probes(world: &ActiveWorld<'_>) -> (Vec<Ask>, Option<Timestamp>) {
    let Some(policy) = world.policy else { return (Vec::new(), None) };
    let (mut asks, mut wake_at) = (Vec::new(), None);
    // The outcome of a probe that is under way brings the next pass.
    for pod in world.pods.iter().filter(|pod| pod.ready() && !world.probing.contains(&pod.uid)) {
        let last = world.probes.get(&pod.uid).and_then(|state| state.last.as_ref()).map(|(at, _)| *at);
        // A clock that was set back must not end the probes: one from the future is as good as none.
        let last = last.filter(|at| *at <= world.now);
        match last.map(|at| later(at, policy.period)).filter(|due| *due > world.now) {
            Some(due) => wake_at = Some(wake_at.map_or(due, |at: Timestamp| at.min(due))),
            None => asks.push(Ask::Probe(Box::new(ProbeRequest {
                pod: Object {
                    kind: Kind::Pod,
                    namespace: Arc::clone(&pod.namespace),
                    name: pod.name.clone(),
                },
                uid: pod.uid.clone(),
                ip: pod.ip.clone(),
                container: Arc::clone(&policy.container),
                check: policy.check.clone(),
                timeout: policy.timeout,
            }))),
        }
    }
    (asks, wake_at)
}

/// A time that is later by a duration that a user gave, which may be any.
fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The choice of the active pod under a policy.
#[derive(Clone, Copy)]
struct Election<'e, 'w> {
    world: &'e ActiveWorld<'w>,
    policy: &'e ActivePolicy,
}

impl<'w> Election<'_, 'w> {
    /// The pod that was active so far. Of several it is the recorded one, else the first that can stay active.
    fn incumbent(&self, is_active: impl Fn(&PodRow) -> bool) -> Option<&'w PodRow> {
        let labelled = || self.pods().filter(|pod| is_active(pod));
        let recorded = |pod: &&PodRow| self.world.recorded.is_some_and(|recorded| *recorded.uid == *pod.uid);
        labelled()
            .find(recorded)
            .or_else(|| labelled().find(|pod| self.stays(pod)))
            .or_else(|| labelled().next())
    }

    fn choose(&self, incumbent: Option<&'w PodRow>) -> (Option<&'w PodRow>, ActiveReason) {
        if let Some(pod) = incumbent.filter(|pod| self.stays(pod)) {
            let (failures, threshold) = (self.failures(pod), self.policy.threshold);
            return (Some(pod), ActiveReason::Stays { pod: pod.name.clone(), failures, threshold });
        }
        if self.world.doubt {
            // Whether others pass is in doubt, so a Ready pod that would fall back to itself keeps the label.
            return match incumbent.filter(|pod| self.falls_back() && pod.ready()) {
                Some(pod) => (Some(pod), ActiveReason::Fallback { pod: pod.name.clone() }),
                None => (None, ActiveReason::Unconfirmed),
            };
        }
        let mut ready = self.pods().filter(|pod| pod.ready());
        if let Some(pod) = ready.find(|pod| matches!(self.outcome(pod), Some(Ok(())))) {
            return (Some(pod), ActiveReason::Passes { pod: pod.name.clone() });
        }
        self.fall_back(incumbent)
    }

    /// Nobody passes.
    fn fall_back(&self, incumbent: Option<&'w PodRow>) -> (Option<&'w PodRow>, ActiveReason) {
        let ready = || self.pods().filter(|pod| pod.ready());
        let chosen = if self.falls_back() {
            let runs = |pod: &&PodRow| pod.phase == Phase::Running && pod.running && !pod.terminating;
            let first_ready = || incumbent.filter(|pod| pod.ready()).or_else(|| ready().next());
            first_ready().or_else(|| incumbent.filter(runs)).or_else(|| self.pods().find(runs))
        } else {
            None
        };
        let mut unprobed = ready().filter(|pod| self.outcome(pod).is_none());
        let is_incumbent = |pod: &PodRow| incumbent.is_some_and(|incumbent| incumbent.uid == pod.uid);
        match (chosen, unprobed.next()) {
            (Some(pod), None) => (chosen, ActiveReason::Fallback { pod: pod.name.clone() }),
            (Some(pod), Some(_)) if is_incumbent(pod) => {
                (chosen, ActiveReason::Fallback { pod: pod.name.clone() })
            }
            (_, Some(first)) => {
                (None, ActiveReason::Unprobed { pod: first.name.clone(), pods: 1 + unprobed.count() })
            }
            (None, None) => {
                let failed = ready().find_map(|pod| Some((pod, self.outcome(pod)?.err()?)));
                let reason = failed.map_or(ActiveReason::NoneReady, |(pod, why)| ActiveReason::NonePasses {
                    pod: pod.name.clone(),
                    why,
                });
                (None, reason)
            }
        }
    }

    fn pods(&self) -> impl Iterator<Item = &'w PodRow> + use<'w> {
        self.world.pods.iter().map(|pod| &**pod)
    }

    fn falls_back(&self) -> bool {
        self.policy.fallback == ActiveFallback::FirstRunning
    }

    /// Whether an active pod stays active, whatever other pods do. One that has not been probed yet does: a restart of
    /// the operator moves nothing.
    fn stays(&self, pod: &PodRow) -> bool {
        pod.ready() && self.failures(pod) < self.policy.threshold
    }

    fn failures(&self, pod: &PodRow) -> u32 {
        self.world.probes.get(&pod.uid).map_or(0, |state| state.failures)
    }

    /// The outcome of the last probe of a pod, unless it is too old to count.
    fn outcome(&self, pod: &PodRow) -> Option<Result<(), Arc<str>>> {
        let (at, result) = self.world.probes.get(&pod.uid)?.last.as_ref()?;
        let timeout = SignedDuration::try_from(self.policy.timeout).unwrap_or(SignedDuration::MAX);
        let counts_for = self.policy.period.saturating_mul(OUTCOME_COUNTS_FOR).saturating_add(timeout);
        (later(*at, counts_for) >= self.world.now).then(|| result.clone())
    }
}

#[cfg(test)]
#[path = "tests/active.rs"]
mod tests;
