//! The rows that a view is made of.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sts_plus_planner::extended::row::ExtendedRow;
use sts_plus_planner::health::Member;
use sts_plus_planner::phased_rollout::row::RolloutRow;
use sts_plus_planner::pod::PodRow;
use sts_plus_planner::rollout_group::World;
use sts_plus_planner::scaling::row::ScalingRow;
use sts_plus_planner::set::SetRow;
use sts_plus_planner::statefulset::world::RevisionRow;

use crate::controllers::rollout_group::world;
use crate::shell::cache::Store;
use crate::shell::executor::Domain;

/// All rows that a view shows, as they are at one moment. Cheap: rows are shared, not copied.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(super) groups: Vec<(Domain, World)>,
    /// The sets in no group.
    pub(super) sets: Vec<Member>,
    pub(super) rollouts: Vec<Arc<RolloutRow>>,
    pub(super) extended: Vec<Arc<ExtendedRow>>,
    pub(super) scaling: Vec<Arc<ScalingRow>>,
    /// The latest revision of each set, by the UID of the set, as far as revisions are known.
    latest: HashMap<Arc<str>, Arc<RevisionRow>>,
}

impl Snapshot {
    /// Reads the rows.
    pub fn read(store: &Store) -> Self {
        let groups = store.groups().into_iter().map(|(namespace, group)| {
            let domain = Domain { namespace, group };
            // Since when a spec is unobserved only the running operator knows.
            let world = world(store, &domain, BTreeMap::new());
            (domain, world)
        });
        let mut snapshot = Self {
            groups: groups.collect(),
            sets: store.ungrouped(),
            rollouts: store.rollouts(),
            extended: store.all_extended(),
            scaling: store.all_scaling(),
            latest: HashMap::new(),
        };
        let latest: Vec<_> =
            snapshot.members().filter_map(|member| store.latest_revision(&member.set)).collect();
        for revision in latest {
            snapshot.learn(revision);
        }
        snapshot
    }

    /// Takes in a revision that was read beside the cache, and may be later than those in it.
    pub fn learn(&mut self, revision: Arc<RevisionRow>) {
        let Some(set) = revision.owner.clone() else { return };
        // The number of a revision grows when its template comes back, so the highest one is the latest.
        let is_later = self.latest.get(&set).is_none_or(|known| known.number < revision.number);
        if is_later {
            self.latest.insert(set, revision);
        }
    }

    /// All sets that a view shows.
    pub fn sets(&self) -> impl Iterator<Item = &SetRow> {
        self.members().map(|member| &*member.set)
    }

    /// All pods that a view shows.
    pub fn pods(&self) -> impl Iterator<Item = &PodRow> {
        self.members().flat_map(|member| member.pods.iter().map(|pod| &**pod))
    }

    /// All ExtendedStatefulSets that a view shows.
    pub fn extended(&self) -> impl Iterator<Item = &ExtendedRow> {
        self.extended.iter().map(|row| &**row)
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        self.groups.iter().flat_map(|(_, world)| &world.members).chain(&self.sets)
    }

    /// The latest revision of a set, where revisions are known.
    pub(super) fn latest_revision(&self, set: &SetRow) -> Option<&str> {
        self.latest.get(&set.uid).map(|revision| &*revision.name)
    }

    /// The PhasedRollouts by the namespace and name of the set that they name. Of several with the same target it is the one
    /// that manages it: the oldest that is not being deleted.
    pub(super) fn managing(&self) -> HashMap<(&str, &str), &RolloutRow> {
        let mut managing: HashMap<_, &RolloutRow> = HashMap::new();
        for rollout in &self.rollouts {
            let Some(target) = rollout.target() else { continue };
            let comes_first = |other: &RolloutRow| match (rollout.deleting, other.deleting) {
                (true, false) => false,
                (false, true) => true,
                _ => rollout.precedes(other),
            };
            let first = managing.entry((&*rollout.namespace, target)).or_insert(rollout);
            if comes_first(first) {
                *first = rollout;
            }
        }
        managing
    }
}
