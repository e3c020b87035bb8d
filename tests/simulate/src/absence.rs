//! Since when pods that sets of groups shall have do not serve: what has lasted for long must be known to whoever disrupts
//! another set of the group.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::faults::{Fault, Plan};
use crate::sight::Sight;
use crate::truth::{Pod, Set, Truth};

/// What has lasted for longer is known, or found out before anything is disrupted: a source may be silent for 90 s, and a
/// write takes its time.
pub const KNOWN_AFTER: Duration = Duration::from_mins(2);

/// The pods of groups that do not serve, each with its set and since when.
#[derive(Debug, Default)]
pub struct Absence {
    since: BTreeMap<String, (String, Duration)>,
    is_judged: bool,
    sight: Option<Sight>,
}

impl Absence {
    /// Nothing is absent yet. Where watches lag, or writes arrive long after they were decided, nobody can say what had to
    /// be known.
    pub fn new(plan: &Plan, sight: &Sight) -> Self {
        let arrives = !plan.has(Fault::LateWrite);
        let is_judged = arrives && !plan.has(Fault::LaggingWatch);
        Self { since: BTreeMap::new(), is_judged, sight: Some(sight.clone()).filter(|_| arrives) }
    }

    /// Whether what there is can be neither watched nor listed, and has not been for long.
    pub fn is_blind(&self) -> bool {
        self.sight.as_ref().is_some_and(Sight::is_lost)
    }

    /// Takes in what there is now.
    pub fn note(&mut self, now: Duration, truth: &Truth) {
        let mut still = BTreeMap::new();
        for (name, set) in truth.sets.iter().filter(|(_, set)| set.group.is_some() && !set.deleting) {
            for pod in (0..set.replicas).map(|ordinal| format!("{name}-{ordinal}")) {
                if !truth.pods.get(&pod).is_some_and(Pod::serves) {
                    let since = self.since.get(&pod).map_or(now, |(_, since)| *since);
                    still.insert(pod, (name.clone(), since));
                }
            }
        }
        self.since = still;
    }

    /// A pod of another set of the set's group that has long not served.
    pub fn long_elsewhere(&self, now: Duration, truth: &Truth, name: &str, set: &Set) -> Option<&str> {
        let is_neighbour = |other: &str| {
            other != name
                && set.group.is_some()
                && truth.sets.get(other).is_some_and(|other| other.group == set.group)
        };
        let long = self.since.iter().filter(|(_, (_, since))| self.is_judged && *since + KNOWN_AFTER < now);
        long.map(|(pod, (other, _))| (pod, other))
            .find(|(_, other)| is_neighbour(other))
            .map(|(pod, _)| pod.as_str())
    }
}
