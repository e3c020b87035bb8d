//! Which pods of a set are down, judged from its spec and its pods and never from its status: a status may
//! be stale, or speak of fewer pods than the spec asks for.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::ordinal;
use crate::pod::{Defect, PodRow};
use crate::set::SetRow;

/// How many pods a message names before it counts the rest; also bounds the work when a spec asks for two
/// billion pods that do not exist.
pub const NAMED_PODS: usize = 3;

/// A set with the pods that are really its own.
#[derive(Clone, Debug)]
pub struct Member {
    pub set: Arc<SetRow>,
    /// Its pods, in natural order.
    pub pods: Vec<Arc<PodRow>>,
}

impl Member {
    /// Keeps those pods that the set controls and selects: a copy made for debugging with the same labels,
    /// or a pod of another set, is not the set's.
    pub fn new(set: Arc<SetRow>, pods: impl IntoIterator<Item = Arc<PodRow>>) -> Self {
        let mut pods: Vec<_> = pods
            .into_iter()
            .filter(|pod| pod.namespace == set.namespace && pod.owner == set.uid)
            .filter(|pod| set.selector.matches(|key| pod.label(key)))
            .collect();
        pods.sort_by(|left, right| ordinal::natural(&left.name, &right.name));
        Self { set, pods }
    }

    /// The pod's ordinal, if it is one that the spec asks for.
    pub fn wanted_ordinal(&self, pod: &PodRow) -> Option<u32> {
        ordinal::of_pod(&pod.name, &self.set.name).filter(|ordinal| self.set.ordinals().contains(ordinal))
    }
}

/// A pod that does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// The pod's name.
    pub pod: Box<str>,
    /// Why it counts as down.
    pub why: Why,
}

/// Why a pod counts as down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The spec asks for it and it does not exist.
    Missing,
    /// It is on its way out, whatever its probe still says.
    Terminating,
    /// It is not Ready, and may become so by itself.
    NotReady,
    /// It is not Ready, and will not become so by itself.
    Broken(Defect),
    /// It is Ready, but not yet for as long as minReadySeconds asks.
    Settling {
        /// When it will have been Ready for long enough.
        until: Timestamp,
    },
    /// It serves, and is being prepared for its removal: it may stop to at any moment.
    Leaving,
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Missing => write!(f, "{} does not exist", self.pod),
            Why::Terminating => write!(f, "{} is terminating", self.pod),
            Why::NotReady => write!(f, "{} is not Ready", self.pod),
            Why::Broken(defect) => write!(f, "{} {defect}", self.pod),
            Why::Settling { until } => {
                write!(f, "{} is Ready but not yet for minReadySeconds (until {until})", self.pod)
            }
            Why::Leaving => write!(f, "{} is leaving", self.pod),
        }
    }
}

/// The health of a set at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The set's name.
    pub set: Arc<str>,
    /// The pods that are down, in natural order; of those that do not exist only the first few.
    pub down: Vec<Down>,
    /// How many pods are down, the unnamed ones included.
    pub count: u32,
    /// When a pod will have settled, so that the health changes without an event.
    pub changes_at: Option<Timestamp>,
}

impl Health {
    /// Judges a set at a moment.
    pub fn of(member: &Member, now: Timestamp) -> Self {
        let mut present = BTreeSet::new();
        let mut down = Vec::new();
        let leaving = member.set.leaving();
        for pod in &member.pods {
            let wanted = member.wanted_ordinal(pod);
            present.extend(wanted);
            let is_leaving = wanted.is_some_and(|ordinal| leaving.contains(&ordinal));
            let why = why_down(pod, member.set.min_ready, now).or(is_leaving.then_some(Why::Leaving));
            if let Some(why) = why {
                down.push(Down { pod: pod.name.clone(), why });
            }
        }
        let missing = u32::try_from(present.len()).map_or(0, |n| member.set.replicas.saturating_sub(n));
        let count = u32::try_from(down.len()).unwrap_or(u32::MAX).saturating_add(missing);
        let absent = member.set.ordinals().filter(|ordinal| !present.contains(ordinal)).take(NAMED_PODS);
        down.extend(
            absent.map(|ordinal| Down {
                pod: format!("{}-{ordinal}", member.set.name).into(),
                why: Why::Missing,
            }),
        );
        down.sort_by(|left, right| ordinal::natural(&left.pod, &right.pod));
        let changes_at = down.iter().filter_map(|down| match down.why {
            Why::Settling { until } => Some(until),
            _ => None,
        });
        Self { set: Arc::clone(&member.set.name), changes_at: changes_at.min(), down, count }
    }

    /// Whether every pod that the spec asks for serves, and no other pod of the set is on its way out.
    pub fn all_ready(&self) -> bool {
        self.count == 0
    }

    /// Counts pods that are only being prepared for their removal as those that serve.
    pub fn disregard_leaving(&mut self) {
        let before = self.down.len();
        self.down.retain(|down| down.why != Why::Leaving);
        let fewer = u32::try_from(before.saturating_sub(self.down.len())).unwrap_or(u32::MAX);
        self.count = self.count.saturating_sub(fewer);
    }

    /// Why a pod is down, if it is.
    pub fn why_down(&self, pod: &str) -> Option<&Why> {
        let found = self.down.binary_search_by(|down| ordinal::natural(&down.pod, pod)).ok()?;
        self.down.get(found).map(|down| &down.why)
    }

    /// The first few pods that are down, in words.
    pub fn summary(&self) -> String {
        let named: Vec<_> = self.down.iter().take(NAMED_PODS).map(ToString::to_string).collect();
        let rest = self.count.saturating_sub(u32::try_from(named.len()).unwrap_or(u32::MAX));
        match rest {
            0 => named.join(", "),
            rest => format!("{} and {rest} more", named.join(", ")),
        }
    }
}

fn why_down(pod: &PodRow, min_ready: SignedDuration, now: Timestamp) -> Option<Why> {
    if pod.terminating {
        return Some(Why::Terminating);
    }
    if !pod.ready() {
        return Some(pod.defect().map_or(Why::NotReady, Why::Broken));
    }
    // Without a wait the time is not looked at: the node's clock may run ahead of ours.
    if min_ready.is_zero() {
        return None;
    }
    let settled_at = pod.ready_since?.saturating_add(min_ready).ok()?;
    (settled_at > now).then_some(Why::Settling { until: settled_at })
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
