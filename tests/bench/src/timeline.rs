//! What one observer saw of pods, and what follows from it.

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;

use crate::stats::PodTime;

/// As much of a pod as is needed.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pod {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Pod {
    /// The version that the server has given this state.
    pub(crate) fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
    }
}

/// A turn in a pod's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Created,
    Ready,
    /// Its deletion was requested.
    Leaving,
    Gone,
}

/// A turn, when it was seen, on the observer's one clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) at: Duration,
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) turn: Turn,
}

/// Turns a stream of states into turns of life, each told once.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// By UID: whether the pod has been seen Ready, and leaving.
    known: HashMap<String, (bool, bool)>,
}

impl Tracker {
    /// A state of a pod that exists.
    pub(crate) fn seen(&mut self, pod: &Pod, at: Duration) -> Vec<Sight> {
        let mut turns = Vec::new();
        let (ready, leaving) = self.known.entry(pod.metadata.uid.clone()).or_insert_with(|| {
            turns.push(Turn::Created);
            (false, false)
        });
        if pod.is_ready() && !std::mem::replace(ready, true) {
            turns.push(Turn::Ready);
        }
        if pod.metadata.deletion_timestamp.is_some() && !std::mem::replace(leaving, true) {
            turns.push(Turn::Leaving);
        }
        turns.into_iter().map(|turn| sight(pod, at, turn)).collect()
    }

    /// A new state of a pod. One that was there before the watch is taken to have been Ready.
    pub(crate) fn changed(&mut self, pod: &Pod, at: Duration) -> Vec<Sight> {
        self.known.entry(pod.metadata.uid.clone()).or_insert((true, false));
        self.seen(pod, at)
    }

    /// A pod that is no more.
    pub(crate) fn gone(&mut self, pod: &Pod, at: Duration) -> Sight {
        self.known.remove(&pod.metadata.uid);
        sight(pod, at, Turn::Gone)
    }
}

fn sight(pod: &Pod, at: Duration, turn: Turn) -> Sight {
    Sight { at, namespace: pod.metadata.namespace.clone(), pod: pod.metadata.name.clone(), turn }
}

/// For each deletion but the first, the time since the last pod before it became Ready.
pub(crate) fn ready_to_deletion(sights: &[Sight]) -> Vec<Duration> {
    let mut ready = None;
    let mut gaps = Vec::new();
    for sight in sights {
        match sight.turn {
            Turn::Ready => ready = Some(sight.at),
            Turn::Leaving => gaps.extend(ready.map(|ready| sight.at.saturating_sub(ready))),
            Turn::Created | Turn::Gone => {}
        }
    }
    gaps
}

/// What rolling pods one at a time adds to each of them but the last: from gone to created again, and from Ready to
/// the deletion of the next. Nothing when they were not rolled one at a time.
pub(crate) fn added(sights: &[Sight]) -> Option<Vec<Duration>> {
    const TURNS: [Turn; 4] = [Turn::Leaving, Turn::Gone, Turn::Created, Turn::Ready];
    let rolled = sights.chunks(TURNS.len()).map(|turns| {
        let one = turns.iter().all(|sight| turns.first().is_some_and(|first| sight.pod == first.pod));
        let whole = turns.iter().map(|sight| sight.turn).eq(TURNS);
        match turns {
            [leaving, gone, created, ready] if one && whole => {
                Some((leaving.at, created.at.saturating_sub(gone.at), ready.at))
            }
            _ => None,
        }
    });
    let rolled = rolled.collect::<Option<Vec<_>>>()?;
    let nexts = rolled.iter().skip(1);
    let added = rolled
        .iter()
        .zip(nexts)
        .map(|((_, recreated, ready), (next, _, _))| *recreated + next.saturating_sub(*ready));
    Some(added.collect())
}

/// The own times of all pods that were seen to leave and to come back Ready.
pub(crate) fn pod_times(sights: &[Sight]) -> Vec<PodTime> {
    let mut times = Vec::new();
    for (index, leaving) in sights.iter().enumerate().filter(|(_, sight)| sight.turn == Turn::Leaving) {
        let later = sights.iter().skip(index).filter(|sight| sight.pod == leaving.pod);
        let mut later = later.filter(|sight| sight.namespace == leaving.namespace);
        let mut next = |turn| later.find(|sight| sight.turn == turn).map(|sight| sight.at);
        if let (Some(gone), Some(created), Some(ready)) =
            (next(Turn::Gone), next(Turn::Created), next(Turn::Ready))
        {
            times.push(PodTime {
                terminate: gone.saturating_sub(leaving.at),
                rise: ready.saturating_sub(created),
            });
        }
    }
    times
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
