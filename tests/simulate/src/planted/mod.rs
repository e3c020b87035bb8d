//! Faults that a run plants, to see whether the monitor finds them. A planner gets another world or gives another plan, a
//! controller gets another shell, or the wire lies; the operator itself has none of this.

pub mod extended;
pub mod groups;
pub mod rollouts;
pub mod scaling;
pub mod sets;
pub mod shell;
pub mod table;
pub mod wire;

use std::sync::Arc;

use sts_plus_operator::controllers::extended::ExtendedStatefulSets;
use sts_plus_operator::controllers::phased_rollout::PhasedRollouts;
use sts_plus_operator::controllers::rollout_group::RolloutGroups;
use sts_plus_operator::controllers::scaling::ScalingPolicies;
use sts_plus_operator::controllers::statefulset::StatefulSets;
use sts_plus_operator::controllers::{Controllers, Planner};
use sts_plus_operator::runtime::Registration;
use sts_plus_planner::health::Member;
use sts_plus_planner::set::Strategy;
use sts_plus_planner::{
    extended as ext, phased_rollout as rollout, rollout_group as group, scaling as scale, statefulset as set,
};

pub use table::PLANTED;

use crate::call::Call;

/// Keys worked on at once, as many as the operator does.
const WORKERS: usize = 8;
/// The same for sets.
const SET_WORKERS: usize = 64;

/// How a wire lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Deletions of pods lose their preconditions.
    NoPreconditions,
    /// Each ConfigMap has its version among its data.
    VersionAsData,
    /// Init containers that ended well have failed.
    FailedInit,
    /// A watch that is silent sends bookmarks.
    LivelySilence,
    /// A watch of what is out of sight sends bookmarks.
    LivelyBlindness,
    /// A watch from a version that is compacted begins with the newest one.
    CompactedUnseen,
    /// The first lists may be answered from an old state.
    StaleFirstLists,
    /// What is read again before a disruption may be answered from an old state.
    StaleConfirmations,
}

/// A planted fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Plans for ExtendedStatefulSets.
    pub extended: Option<Planner<ext::World, ext::Decision>>,
    /// Plans for rollout groups.
    pub group: Option<Planner<group::World, group::Decision>>,
    /// Plans for PhasedRollouts.
    pub rollout: Option<Planner<rollout::World, rollout::Decision>>,
    /// Plans for ScalingPolicies.
    pub scaling: Option<Planner<scale::World, scale::Decision>>,
    /// Plans for sets.
    pub set: Option<Planner<set::world::World, Result<set::Decision, set::Blocked>>>,
    /// How the wire lies.
    pub wire: Option<Lie>,
    /// All controllers, in another shell.
    pub shell: Option<fn() -> [Registration; 5]>,
}

impl Planted {
    /// The fault of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PLANTED.iter().find(|planted| planted.name == name)
    }

    /// These controllers, with what is planted in them.
    pub fn plant(&self, mut controllers: Controllers) -> Controllers {
        let has = |controllers: &Controllers, name: &str| {
            controllers.registrations().iter().any(|registration| registration.name() == name)
        };
        let mut exchange = |name: &'static str, registration: Option<Registration>| {
            if let Some(registration) = registration.filter(|_| has(&controllers, name)) {
                controllers = std::mem::take(&mut controllers).and(registration);
            }
        };
        let name = "extended-statefulset";
        let of = |planner| Registration::new(name, WORKERS, move |_| ExtendedStatefulSets { planner });
        exchange(name, self.extended.map(of));
        let name = "rollout-group";
        let of = |planner| Registration::new(name, WORKERS, move |_| RolloutGroups { planner });
        exchange(name, self.group.map(of));
        let name = "phased-rollout";
        let of = |planner| Registration::new(name, WORKERS, move |_| PhasedRollouts { planner });
        exchange(name, self.rollout.map(of));
        let name = "scaling";
        let of = |planner| {
            Registration::new(name, WORKERS, move |options| ScalingPolicies {
                planner,
                lock_image: options.image.clone(),
            })
        };
        exchange(name, self.scaling.map(of));
        let name = "statefulset";
        let of = |planner| {
            Registration::new(name, SET_WORKERS, move |options| {
                StatefulSets::new(options.features).planned_by(planner)
            })
        };
        exchange(name, self.set.map(of));
        for registration in self.shell.map(|all| all()).into_iter().flatten() {
            exchange(registration.name(), Some(registration));
        }
        controllers
    }

    /// Whether the wire lets a read that has to be consistent be answered from an old state.
    pub fn lets_be_stale(&self, call: &Call) -> bool {
        let lists = !call.watches() || call.parameter("sendInitialEvents").is_some();
        let is_consistent = call.parameter("resourceVersion").is_none_or(str::is_empty);
        // The operators follow all namespaces, and read one again.
        let lie = if call.namespace.is_empty() { Lie::StaleFirstLists } else { Lie::StaleConfirmations };
        lists && is_consistent && call.name.is_empty() && !call.writes() && self.lies(lie)
    }

    /// Whether the wire lies in this way.
    pub fn lies(&self, lie: Lie) -> bool {
        self.wire == Some(lie)
    }
}

/// Makes a set of a group one of which no pod goes down by its own partition, whatever its status says; its health stays.
fn neighbour_that_releases_nothing(member: &mut Member) {
    let set = Arc::make_mut(&mut member.set);
    if matches!(set.strategy, Strategy::RollingUpdate { .. }) {
        set.strategy = Strategy::RollingUpdate { partition: set.replicas };
    }
    set.observed_generation = set.generation;
    set.update_revision.get_or_insert_with(|| "unknown".into());
}
