//! The zones of a workload and their indexes, which never change: names of sets, claims and labels are made from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use sts_plus_api::extended::ZoneStatus;

use super::World;
use super::children::NameParts;
use super::claims;
use super::spec::Spec;
use crate::set::SetRow;

/// How many zones are remembered, those that are no longer asked for included: a status is bounded, and a zone without a set
/// is forgotten first.
const MAX_KNOWN: usize = 64;

/// The greatest index of a zone, far more than zones come and go: a greater one was written by somebody else, and numbers that
/// follow it would come to an end.
const MAX_INDEX: u32 = 9_999;

/// A zone that pods run in, or the one place of a workload without zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name; `None` for a workload without zones.
    pub name: Option<Arc<str>>,
    pub index: u32,
}

/// The zones that are asked for, and what is remembered of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The zones that are asked for, in order.
    pub zones: Vec<Zone>,
    /// All that are known, for the status.
    pub known: Vec<ZoneStatus>,
    /// The names of those that are asked for, as the annotation has them.
    pub annotation: Option<Arc<str>>,
}

/// Gives each zone its index: the one it had, by the status or by the name of a set, and otherwise the next one. The label of a
/// set that has the index is for others: whoever edits it renames no zone.
pub fn layout(world: &World, spec: &Spec) -> Layout {
    let index_of = |set: &SetRow| NameParts::of(&world.row.name, &set.name)?.zone;
    let has_set = |index: u32| world.children.iter().any(|member| index_of(&member.set) == Some(index));
    let mut known: BTreeMap<u32, String> = BTreeMap::new();
    for zone in world.row.status.zones.iter().filter(|zone| zone.index <= MAX_INDEX) {
        known.insert(zone.index, zone.name.clone());
    }
    for member in &world.children {
        let name = member.set.child.as_ref().and_then(|child| child.zone_name.as_ref());
        let index = index_of(&member.set).filter(|index| *index <= MAX_INDEX);
        if let (Some(index), Some(name)) = (index, name) {
            known.entry(index).or_insert_with(|| name.to_string());
        }
    }
    let mut zones = Vec::new();
    for name in &spec.zones {
        let index = known.iter().find(|(_, known)| **known == **name).map(|(index, _)| *index);
        let next = || known.keys().next_back().map_or(0, |last| last.saturating_add(1));
        let free = || (0..=MAX_INDEX).find(|index| !known.contains_key(index) && !has_set(*index));
        let index = index.or_else(|| Some(next()).filter(|next| *next <= MAX_INDEX).or_else(free));
        let index = index.unwrap_or(MAX_INDEX);
        known.insert(index, name.to_string());
        zones.push(Zone { name: Some(Arc::clone(name)), index });
    }
    while known.len() > MAX_KNOWN {
        let unused = known
            .keys()
            .copied()
            .find(|index| !has_set(*index) && zones.iter().all(|zone| zone.index != *index));
        let Some(index) = unused else { break };
        known.remove(&index);
    }
    let name = &world.row.name;
    let known = known.into_iter().map(|(index, zone)| ZoneStatus {
        claim_prefix: claims::prefix(name, Some(index)),
        name: zone,
        index,
    });
    let known = known.collect();
    let annotation = (!zones.is_empty()).then(|| json!(spec.zones).to_string().into());
    if zones.is_empty() {
        zones.push(Zone { name: None, index: 0 });
    }
    Layout { zones, known, annotation }
}
