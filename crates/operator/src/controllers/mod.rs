//! The controllers: each says whom a change concerns, builds its world from the caches, and plans. [`crate::runtime`] does
//! everything else.

pub mod extended;
pub mod phased_rollout;
pub mod rollout_group;
pub mod scaling;
pub mod statefulset;
mod stretches;
#[cfg(test)]
pub(crate) mod test_server;
mod trouble;
mod unobserved;
mod unreported;

use extended::ExtendedStatefulSets;
use jiff::Timestamp;
use phased_rollout::PhasedRollouts;
use rollout_group::RolloutGroups;
use scaling::ScalingPolicies;
use statefulset::StatefulSets;

use crate::runtime::{Registration, Row, made};

/// Decides for a world at a moment.
pub type Planner<W, D> = fn(&W, Timestamp) -> D;

/// Keys worked on at once: passes mostly wait for the API server, and one slow domain must not hold up another.
pub(crate) const WORKERS: usize = 8;

/// The same for the statefulset controller, whose passes wait for several writes, one after the other, each of some milliseconds: fifty
/// sets that roll at once do not wait for each other. A worker without a key costs nothing.
const SET_WORKERS: usize = 64;

/// The controllers there are. The command line, the chart's documentation and the tests read this table.
pub const CONTROLLERS: &[Row] = &[
    Row {
        name: "rollout-group",
        is_default: true,
        workers: WORKERS,
        about: "Rolls the StatefulSets of a group one zone at a time",
        make: |_| made(RolloutGroups::default()),
    },
    Row {
        name: "phased-rollout",
        is_default: true,
        workers: WORKERS,
        about: "Rolls a StatefulSet step by step, each after the checks of its gate have passed",
        make: |_| made(PhasedRollouts::default()),
    },
    Row {
        name: "extended-statefulset",
        is_default: true,
        workers: WORKERS,
        about: "Runs ExtendedStatefulSets: versions, zones, the active pod, restarts when configuration changes",
        make: |_| made(ExtendedStatefulSets::default()),
    },
    Row {
        name: "scaling",
        is_default: true,
        workers: WORKERS,
        about: "Scales the StatefulSets of ScalingPolicies, and prepares each pod before it is removed",
        make: |options| {
            made(ScalingPolicies { lock_image: options.image.clone(), ..ScalingPolicies::default() })
        },
    },
    Row {
        name: "statefulset",
        // A cluster that controls sets itself must not have a second one do so.
        is_default: false,
        workers: SET_WORKERS,
        about: "Replaces the StatefulSet controller of Kubernetes, which must not run beside it",
        make: |options| made(StatefulSets::new(options.features)),
    },
];

/// The controllers to run: rows of [`CONTROLLERS`], and any others that whoever embeds the operator brings along.
#[derive(Clone, Debug)]
pub struct Controllers(Vec<Registration>);

impl Default for Controllers {
    /// Those that run where nobody chooses.
    fn default() -> Self {
        Self(CONTROLLERS.iter().filter(|row| row.is_default).map(Registration::from).collect())
    }
}

impl Controllers {
    /// Every row: for a cluster without a StatefulSet controller of its own.
    pub fn all() -> Self {
        Self(CONTROLLERS.iter().map(Registration::from).collect())
    }

    /// The rows with these names, in the order of the table; otherwise a name that no row has.
    pub fn named<'n>(names: &[&'n str]) -> Result<Self, &'n str> {
        let is_known = |name: &str| CONTROLLERS.iter().any(|row| row.name == name);
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            return Err(unknown);
        }
        let rows = CONTROLLERS.iter().filter(|row| names.contains(&row.name));
        Ok(Self(rows.map(Registration::from).collect()))
    }

    /// These, and one more in the place of one of the same name.
    #[must_use]
    pub fn and(mut self, registration: Registration) -> Self {
        match self.0.iter_mut().find(|known| known.name() == registration.name()) {
            Some(known) => *known = registration,
            None => self.0.push(registration),
        }
        self
    }

    /// What is to be run.
    pub fn registrations(&self) -> &[Registration] {
        &self.0
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
