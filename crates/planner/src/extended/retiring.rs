//! Sets that are removed for good. Where pods that leave are to be prepared, all pods of such a set leave first, one set after
//! the other.

use std::sync::Arc;

use super::children::Version;
use super::moves::{Moves, Scene};
use super::wait::Wait;
use super::zones::Zone;

impl<'s> Scene<'s> {
    /// Whether the pods of sets that are removed leave before.
    fn prepares(&self) -> bool {
        self.spec.rules.as_ref().is_some_and(|rules| rules.prepares)
    }

    /// Whether the pods of a set had begun to leave for good when the status was written.
    fn was_retiring(&self, set: &str) -> bool {
        let mut sets = self.world.row.status.versions.iter().flat_map(|version| &version.zones);
        sets.any(|recorded| recorded.retiring && recorded.stateful_set == *set)
    }

    /// Removes sets, each once it has no pods left where those are to be prepared. The waits of those that have are added.
    pub(super) fn retire<'v>(&self, versions: impl IntoIterator<Item = &'v Version<'s>>, moves: &mut Moves)
    where
        's: 'v,
    {
        for version in versions {
            let set = version.set();
            if !self.prepares() || set.deleting || self.policies().is_emptied(version.member) {
                self.delete([version], moves);
                continue;
            }
            if let Some(emptied) = &moves.emptied {
                if *emptied != set.name {
                    self.stay(version, moves);
                }
                continue;
            }
            moves.retiring.insert(Arc::clone(&set.name));
            moves.emptied = Some(Arc::clone(&set.name));
            let wait = self.policies().scale(set, 0, moves);
            moves.waits.extend(wait.or_else(|| Some(Wait::Changing { set: set.name.to_string() })));
        }
    }

    /// Lets no further pod of a set leave for now.
    pub(super) fn stay(&self, version: &Version<'_>, moves: &mut Moves) {
        let set = version.set();
        if self.prepares() && self.was_retiring(&set.name) {
            moves.retiring.insert(Arc::clone(&set.name));
            self.policies().scale(set, set.replicas.min(self.replicas), moves);
        }
    }

    /// As [`Scene::adjust`] for a set that is not the one of the present version.
    pub(super) fn adjust_other(&self, zone: &Zone, version: &Version<'_>, moves: &mut Moves) {
        let was_retiring = self.prepares() && self.was_retiring(&version.set().name);
        let replicas = if was_retiring { version.set().replicas.min(self.replicas) } else { self.replicas };
        if was_retiring {
            moves.retiring.insert(Arc::clone(&version.set().name));
        }
        self.adjust_to(zone, version.member, (Some(version.number), replicas), moves);
    }
}
