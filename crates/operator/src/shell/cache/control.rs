//! What only the StatefulSet controller looks at: pods that nothing controls, claims and revisions, and which sets have
//! to be looked at when one of them changes.

use std::sync::Arc;

use sts_plus_planner::pod::PodRow;
use sts_plus_planner::set::SetRow;
use sts_plus_planner::statefulset::world::{ClaimRow, Features, Memory, RevisionRow, SetSpec, World};

use super::revisions::Revision;
use super::store::{Name, Store, Touched};
use super::tables::Rows;
use super::wire::{self, Extent, split_ordinal};

impl Store {
    /// A store that keeps what the StatefulSet controller needs, too.
    pub fn controlling() -> Self {
        Self::with(Extent::Controlling)
    }

    /// Everything that a decision about a set may look at; `None` where there is no such set, or it cannot be read.
    pub fn world_of_set(
        &self,
        namespace: &Arc<str>,
        name: &Arc<str>,
        memory: Memory,
        features: Features,
    ) -> Option<World> {
        let rows = self.rows();
        let key = (Arc::clone(namespace), Arc::clone(name));
        let set = Arc::clone(rows.sets.get(&key)?);
        let spec = Arc::clone(rows.sets.spec(&key)?);
        // Whoever may write pods elsewhere can write any UID into them.
        let here = |pod: &&Arc<PodRow>| pod.namespace == set.namespace;
        let pods = rows.pods.of(&set.uid).iter().filter(here).cloned().collect();
        let ownerless = rows.pods.ownerless(namespace);
        let orphans = ownerless.filter(|pod| set.selector.matches(|key| pod.label(key))).cloned().collect();
        let stems = spec.claim_templates.iter().map(|template| format!("{}-{name}", template.name));
        let claims = stems.map(|stem| rows.claims.of(namespace, &stem)).collect();
        let revisions = rows.revisions.of(namespace, &set.uid, &set.selector);
        Some(World { set, spec, pods, orphans, claims, revisions, memory, features })
    }

    /// All sets that can be read, by namespace and name.
    pub fn controlled(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let mut names: Vec<_> = self.rows().sets.specified().cloned().collect();
        names.sort();
        names
    }

    /// What only the controller of a set needs of it; `None` where there is no such set, or it cannot be read.
    pub fn set_spec(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Arc<SetSpec>> {
        self.rows().sets.spec(&(Arc::clone(namespace), Arc::clone(name))).cloned()
    }

    /// The revision with the highest number among those that a set controls.
    pub fn latest_revision(&self, set: &SetRow) -> Option<Arc<RevisionRow>> {
        let revisions = self.rows().revisions.of(&set.namespace, &set.uid, &set.selector);
        let own = revisions.into_iter().filter(|revision| revision.owner.as_ref() == Some(&set.uid));
        own.max_by_key(|revision| revision.number)
    }

    /// A revision as it was read from the server, whoever controls it; what is wrong where it cannot be read.
    pub fn read_revision(&self, json: &str) -> Result<RevisionRow, String> {
        wire::revision_row(json, &mut self.interner()).map_err(|undecodable| undecodable.error)
    }
}

impl Rows {
    /// The sets that may call a claim theirs by its name, and those that it names as its owners or the owners of those.
    pub(super) fn concerned_by_claim(&self, namespace: &Arc<str>, claim: &ClaimRow) -> Vec<Touched> {
        let set = |name: &str| self.sets.named(namespace, name);
        let stem = split_ordinal(&claim.name).map_or("", |(stem, _)| stem);
        let by_name = stem.match_indices('-').filter_map(|(dash, _)| {
            let (template, name) = (stem.get(..dash)?, stem.get(dash + 1..)?);
            let spec = self.sets.spec(&(Arc::clone(namespace), Arc::from(name)))?;
            spec.claim_templates.iter().any(|known| *known.name == *template).then(|| set(name))?
        });
        let by_owner = claim.owners.iter().filter_map(|owner| match &*owner.kind {
            "StatefulSet" => set(&owner.name).filter(|set| *set.uid == *owner.uid),
            "Pod" => {
                let pod = self.pods.named(namespace, &owner.name)?;
                self.sets.of_uid(namespace, &pod.owner)
            }
            _ => None,
        });
        let stable = claim.stable.as_ref().map(|_| Touched::claim(namespace, &claim.name));
        by_name.chain(by_owner).map(|set| Touched::surroundings(set)).chain(stable).collect()
    }

    /// The set that controls it, or those that may adopt it. One of a former set of the same name is in the way of the
    /// new one. A set that is on its way out is left alone: the garbage collector may be removing its revisions, and one
    /// that is woken by that would make them anew, as fast as both can, until its pods have gone.
    pub(super) fn concerned_by_revision(
        &self,
        (namespace, name): &Name,
        revision: &Revision,
    ) -> Vec<Touched> {
        let Some(owner) = &revision.row.owner else {
            return self.concerned(namespace, |set| revision.is_adoptable(&set.selector));
        };
        let by_name = || {
            let (set, _hash) = name.rsplit_once('-')?;
            self.sets.named(namespace, set)
        };
        let set = self.sets.of_uid(namespace, owner).or_else(by_name).filter(|set| !set.deleting);
        set.map(|set| Touched::surroundings(set)).into_iter().collect()
    }

    /// The sets of a namespace that may adopt a pod which nothing controls.
    pub(super) fn concerned_by_orphan(&self, pod: &PodRow) -> Vec<Touched> {
        self.concerned(&pod.namespace, |set| set.selector.matches(|key| pod.label(key)))
    }

    fn concerned(&self, namespace: &Arc<str>, by: impl Fn(&SetRow) -> bool) -> Vec<Touched> {
        let mut sets: Vec<_> = self.sets.all().filter(|set| set.namespace == *namespace && by(set)).collect();
        sets.sort_by(|one, other| one.name.cmp(&other.name));
        sets.into_iter().map(|set| Touched::surroundings(set)).collect()
    }
}

/// Whether a pod that nothing controls has become another one to those who may adopt it.
pub(super) fn is_news(before: Option<&PodRow>, pod: &PodRow) -> bool {
    match before.filter(|before| before.uid == pod.uid) {
        Some(before) => {
            before.owner != pod.owner
                || before.labels != pod.labels
                || before.revision != pod.revision
                || before.named != pod.named
        }
        // One that comes while it goes is as good as gone.
        None => !pod.terminating,
    }
}

pub(super) fn distinct(mut touched: Vec<Touched>) -> Vec<Touched> {
    let mut seen = std::collections::HashSet::new();
    touched.retain(|one| seen.insert(one.clone()));
    touched
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
