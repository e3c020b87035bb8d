//! What only the StatefulSet controller looks at: pods that nothing controls, claims and revisions, and which sets have
//! to be looked at when one of them changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use sts_plus_planner::pod::PodRow;
use sts_plus_planner::set::SetRow;
use sts_plus_planner::statefulset::world::{ClaimRow, Design, Features, Memory, RevisionRow, World};

use super::claims::Change;
use super::revisions::Revision;
use super::store::{Name, Rows, Store, Touched};
use super::wire::{self, Extent, ReadRevision, split_ordinal};

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
        let design = Arc::clone(rows.designs.get(&key)?);
        // Whoever may write pods elsewhere can write any UID into them.
        let here = |pod: &&Arc<PodRow>| pod.namespace == set.namespace;
        let pods = rows.pods_of.get(&set.uid).into_iter().flatten().filter(here).cloned().collect();
        let ownerless = rows.ownerless.get(namespace).into_iter().flat_map(BTreeMap::values);
        let orphans = ownerless.filter(|pod| set.selector.matches(|key| pod.label(key))).cloned().collect();
        let stems = design.claim_templates.iter().map(|template| format!("{}-{name}", template.name));
        let claims = stems.map(|stem| rows.claims.of(namespace, &stem)).collect();
        let revisions = rows.revisions.of(namespace, &set.uid, &set.selector);
        Some(World { set, design, pods, orphans, claims, revisions, memory, features })
    }

    /// All sets that can be read, by namespace and name.
    pub fn controlled(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let mut names: Vec<_> = self.rows().designs.keys().cloned().collect();
        names.sort();
        names
    }

    /// What only the controller of a set needs of it; `None` where there is no such set, or it cannot be read.
    pub fn design(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Arc<Design>> {
        self.rows().designs.get(&(Arc::clone(namespace), Arc::clone(name))).cloned()
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
    pub(super) fn upsert_claim(&mut self, (namespace, _): &Name, row: ClaimRow) -> Vec<Touched> {
        let row = Arc::new(row);
        match self.claims.upsert(namespace, &row) {
            Change::None => Vec::new(),
            Change::Matters { before } => {
                let rows = before.iter().chain([&row]).map(|row| &**row);
                distinct(rows.flat_map(|row| self.concerned_by_claim(namespace, row)).collect())
            }
        }
    }

    pub(super) fn remove_claim(&mut self, (namespace, name): &Name) -> Vec<Touched> {
        let removed = self.claims.remove(namespace, name);
        distinct(removed.map(|row| self.concerned_by_claim(namespace, &row)).unwrap_or_default())
    }

    /// The sets that may call a claim theirs by its name, and those that it names as its owners or the owners of those.
    fn concerned_by_claim(&self, namespace: &Arc<str>, claim: &ClaimRow) -> Vec<Touched> {
        let set = |name: &str| self.sets.get(&(Arc::clone(namespace), Arc::from(name)));
        let stem = split_ordinal(&claim.name).map_or("", |(stem, _)| stem);
        let by_name = stem.match_indices('-').filter_map(|(dash, _)| {
            let (template, name) = (stem.get(..dash)?, stem.get(dash + 1..)?);
            let design = self.designs.get(&(Arc::clone(namespace), Arc::from(name)))?;
            design.claim_templates.iter().any(|known| *known.name == *template).then(|| set(name))?
        });
        let by_owner = claim.owners.iter().filter_map(|owner| match &*owner.kind {
            "StatefulSet" => set(&owner.name).filter(|set| *set.uid == *owner.uid),
            "Pod" => {
                let pod = self.pods.get(&(Arc::clone(namespace), Arc::from(&*owner.name)))?;
                self.controller(namespace, &pod.owner)
            }
            _ => None,
        });
        by_name.chain(by_owner).map(|set| Touched::surroundings(set)).collect()
    }

    /// Takes a revision in; without a row, somebody else controls it now.
    pub(super) fn upsert_revision(&mut self, name: &Name, row: Option<ReadRevision>) -> Vec<Touched> {
        let Some(read) = row else { return self.remove_revision(name) };
        let Some((before, now)) = self.revisions.upsert(name, read) else { return Vec::new() };
        let both = before.iter().chain([&now]);
        distinct(both.flat_map(|revision| self.concerned_by_revision(name, revision)).collect())
    }

    pub(super) fn remove_revision(&mut self, name: &Name) -> Vec<Touched> {
        let removed = self.revisions.remove(name);
        removed.map(|revision| self.concerned_by_revision(name, &revision)).unwrap_or_default()
    }

    /// The set that controls it, or those that may adopt it. One of a former set of the same name is in the way of the
    /// new one. A set that is on its way out is left alone: the garbage collector may be removing its revisions, and one
    /// that is woken by that would make them anew, as fast as both can, until its pods have gone.
    fn concerned_by_revision(&self, (namespace, name): &Name, revision: &Revision) -> Vec<Touched> {
        let Some(owner) = &revision.row.owner else {
            return self.concerned(namespace, |set| revision.is_adoptable(&set.selector));
        };
        let by_name = || {
            let (set, _hash) = name.rsplit_once('-')?;
            self.sets.get(&(Arc::clone(namespace), Arc::from(set)))
        };
        let set = self.controller(namespace, owner).or_else(by_name).filter(|set| !set.deleting);
        set.map(|set| Touched::surroundings(set)).into_iter().collect()
    }

    /// The sets of a namespace that may adopt a pod which nothing controls.
    pub(super) fn concerned_by_orphan(&self, pod: &PodRow) -> Vec<Touched> {
        self.concerned(&pod.namespace, |set| set.selector.matches(|key| pod.label(key)))
    }

    fn concerned(&self, namespace: &Arc<str>, by: impl Fn(&SetRow) -> bool) -> Vec<Touched> {
        let mut sets: Vec<_> =
            self.sets.values().filter(|set| set.namespace == *namespace && by(set)).collect();
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

fn distinct(mut touched: Vec<Touched>) -> Vec<Touched> {
    let mut seen = std::collections::HashSet::new();
    touched.retain(|one| seen.insert(one.clone()));
    touched
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
