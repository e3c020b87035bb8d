//! The ExtendedStatefulSets of both groups, and what belongs to them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sts_plus_api::extended::Group;
use sts_plus_planner::extended::children::belongs;
use sts_plus_planner::extended::claims::owners;
use sts_plus_planner::extended::row::{ExtendedRow, kind_of};
use sts_plus_planner::health::Member;
use sts_plus_planner::pod::PodRow;
use sts_plus_planner::statefulset::world::ClaimRow;

use super::confirmed::Part;
use super::intern::Interner;
use super::object::Parsed;
use super::store::{Name, Store, Touched, is_older};
use super::tables::{Glance, Rows, Table};
use super::wire::{self, Extent};
use crate::shell::kinds::Kind;

/// How many indexes of zones are looked at for sets of others: more than an object has zones.
const MAX_ZONES: u32 = 16;

/// The rows of one group.
#[derive(Debug, Default)]
pub(super) struct Extended<const FISSILE: bool> {
    rows: HashMap<Name, Arc<ExtendedRow>>,
    names: HashMap<Arc<str>, Name>,
}

impl<const FISSILE: bool> Extended<FISSILE> {
    const GROUP: Group = if FISSILE { Group::Fissile } else { Group::StsPlus };

    fn insert(&mut self, row: ExtendedRow) -> Vec<Touched> {
        let name = (Arc::clone(&row.namespace), Arc::clone(&row.name));
        let known = |before: &Arc<ExtendedRow>| {
            (&row.uid, &row.resource_version) == (&before.uid, &before.resource_version)
                || is_older(&row.resource_version, &before.resource_version)
        };
        if self.rows.get(&name).is_some_and(known) {
            return Vec::new();
        }
        let touched = touched(&row);
        self.take_out(&name);
        self.names.insert(Arc::clone(&row.uid), name.clone());
        self.rows.insert(name, Arc::new(row));
        vec![touched]
    }

    fn take_out(&mut self, name: &Name) -> Option<Arc<ExtendedRow>> {
        let row = self.rows.remove(name)?;
        self.names.remove(&row.uid);
        Some(row)
    }

    fn of_uid(&self, uid: &str) -> Option<&Arc<ExtendedRow>> {
        self.rows.get(self.names.get(uid)?)
    }
}

impl Store {
    pub fn extended(&self, group: Group, namespace: &Arc<str>, name: &Arc<str>) -> Option<Arc<ExtendedRow>> {
        self.rows().extended(group, &(Arc::clone(namespace), Arc::clone(name))).cloned()
    }

    /// All of both groups, by group, namespace and name.
    pub fn all_extended(&self) -> Vec<Arc<ExtendedRow>> {
        let mut all: Vec<_> = {
            let rows = self.rows();
            rows.extended.rows.values().chain(rows.fissile.rows.values()).cloned().collect()
        };
        all.sort_by(|one, other| {
            (one.group, &one.namespace, &one.name).cmp(&(other.group, &other.namespace, &other.name))
        });
        all
    }

    /// The objects that something touched concerns: their own set, one that has a name like theirs, their Service, or a
    /// ScalingPolicy with the name of a set that they may have.
    pub fn extended_of(&self, touched: &Touched) -> Vec<(Group, Name)> {
        match touched {
            Touched::Extended { group, namespace, name } => {
                vec![(*group, (Arc::clone(namespace), Arc::clone(name)))]
            }
            Touched::Set { namespace, set, .. } => {
                let rows = self.rows();
                let row = rows.sets.get(&(Arc::clone(namespace), Arc::clone(set)));
                let owner = row.and_then(|row| row.child.as_ref()).map(|child| Arc::clone(&child.owner_name));
                let mut names: BTreeSet<Arc<str>> = owner.into_iter().collect();
                names.extend(bases(set).into_iter().map(Arc::from));
                let keys = names.into_iter().map(|name| (Arc::clone(namespace), name));
                let known = keys.flat_map(|name| Group::ALL.map(|group| (group, name.clone())));
                known.filter(|(group, name)| rows.extended(*group, name).is_some()).collect()
            }
            Touched::Scaling { namespace, name } => {
                let rows = self.rows();
                let names = bases(name).into_iter().map(|name| (Arc::clone(namespace), Arc::from(name)));
                let known = names.flat_map(|name: Name| Group::ALL.map(|group| (group, name.clone())));
                known.filter(|(group, name)| rows.extended(*group, name).is_some()).collect()
            }
            Touched::Object { kind: Kind::Claim, namespace, name, .. } => {
                let rows = self.rows();
                let stem = name.rsplit_once('-').map_or("", |(stem, _)| stem);
                let names: BTreeSet<Name> =
                    owners(stem).map(|name| (Arc::clone(namespace), Arc::from(name))).collect();
                let known = names.into_iter().flat_map(|name| Group::ALL.map(|group| (group, name.clone())));
                known.filter(|(group, name)| rows.extended(*group, name).is_some()).collect()
            }
            Touched::Object { kind: Kind::Service, owner: Some(owner), .. } => {
                let rows = self.rows();
                let row = rows.extended.of_uid(owner).or_else(|| rows.fissile.of_uid(owner));
                let row = row.or_else(|| rows.extended_at(owner));
                row.map(|row| (row.group, (Arc::clone(&row.namespace), Arc::clone(&row.name))))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// The sets that an object controls, or that one of its name has left behind, with their pods.
    pub fn children(&self, extended: &ExtendedRow) -> Vec<Member> {
        let found: Vec<_> = {
            let rows = self.rows();
            let children = rows.sets.children(&extended.namespace, &extended.name);
            let own = children.filter(|set| belongs(extended, set));
            own.map(|set| rows.with_pods(set)).collect()
        };
        found.into_iter().map(|(set, pods)| Member::new(set, pods)).collect()
    }

    /// The claims with names as this object gives them, and the pods that mount them.
    pub fn stable_claims(&self, extended: &ExtendedRow) -> (Vec<Arc<ClaimRow>>, Vec<Arc<PodRow>>) {
        let rows = self.rows();
        let claims = rows.claims.stable(&extended.namespace, &extended.name);
        (claims, rows.pods.users(&extended.namespace, &extended.name))
    }

    /// The pod that the status of an object calls active, whatever has become of its set.
    pub fn recorded_active(&self, extended: &ExtendedRow) -> Option<Arc<PodRow>> {
        let recorded = extended.status.active_pod.as_ref()?;
        let rows = self.rows();
        let pod = rows.pods.named(&extended.namespace, &recorded.name)?;
        (*pod.uid == *recorded.uid).then(|| Arc::clone(pod))
    }

    /// The names of sets that an object may want and that belong to others.
    pub fn strangers(&self, extended: &ExtendedRow) -> BTreeSet<Arc<str>> {
        let rows = self.rows();
        let (update, latest) = (extended.status.update_version, extended.status.latest_version);
        let next = update.max(latest).unwrap_or(0).saturating_add(1);
        let zones = (0..MAX_ZONES).map(|zone| format!("{}-z{zone}", extended.name));
        let bases = std::iter::once(extended.name.to_string()).chain(zones);
        let names = bases.flat_map(|base| {
            let versions = [update.unwrap_or(next), next].map(|version| format!("{base}-v{version}"));
            std::iter::once(base).chain(versions)
        });
        let sets = names.filter_map(|name| rows.sets.named(&extended.namespace, &name));
        let others = sets.filter(|set| !belongs(extended, set));
        others.map(|set| Arc::clone(&set.name)).collect()
    }
}

impl Rows {
    /// The object of a path.
    fn extended_at(&self, path: &str) -> Option<&Arc<ExtendedRow>> {
        let (group, name) = path.split_once('/')?;
        let (namespace, name) = name.split_once('/')?;
        let group = Group::ALL.into_iter().find(|known| known.name() == group)?;
        self.extended(group, &(namespace.into(), name.into()))
    }

    fn extended(&self, group: Group, name: &Name) -> Option<&Arc<ExtendedRow>> {
        match group {
            Group::StsPlus => self.extended.rows.get(name),
            Group::Fissile => self.fissile.rows.get(name),
        }
    }
}

/// The names of objects that may have a set of this name: itself, without a version, without a zone.
fn bases(set: &str) -> Vec<&str> {
    let strip = |name: &'_ str, mark: &str| -> Option<usize> {
        let (base, number) = name.rsplit_once(mark)?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(base.len())
    };
    let mut bases = vec![set];
    let without_version = strip(set, "-v").and_then(|end| set.get(..end));
    bases.extend(without_version);
    for name in [Some(set), without_version].into_iter().flatten() {
        bases.extend(strip(name, "-z").and_then(|end| name.get(..end)));
    }
    bases
}

impl<const FISSILE: bool> Table for Extended<FISSILE>
where
    Rows: Has<FISSILE>,
{
    type Read = Box<ExtendedRow>;

    fn decode(json: &str, _: Extent, interner: &mut Interner) -> Parsed<Self::Read> {
        Parsed::from(wire::extended(Self::GROUP, json, interner)).map(Box::new)
    }

    /// Of one that could not be read the last row stays.
    fn upsert(rows: &mut Rows, _: &Name, _: Option<&str>, read: Option<Self::Read>) -> Vec<Touched> {
        let Some(row) = read else { return Vec::new() };
        let is_covered = rows.is_covered(&part(&row), &row.resource_version);
        if is_covered { Vec::new() } else { rows.table().insert(*row) }
    }

    fn remove(rows: &mut Rows, name: &Name) -> Vec<Touched> {
        rows.table().take_out(name).iter().map(|row| touched(row)).collect()
    }

    fn parts(read: &Self::Read) -> Vec<Part> {
        vec![part(read)]
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn names(&self, wanted: &dyn Fn(&Name) -> bool) -> Vec<Name> {
        self.rows.keys().filter(|name| wanted(name)).cloned().collect()
    }

    fn seen(&self, name: &Name) -> Option<Glance<'_>> {
        let row = self.rows.get(name)?;
        Some(Glance { uid: &row.uid, resource_version: &row.resource_version, terminating: row.deleting })
    }
}

/// The table of a group among all rows.
pub(super) trait Has<const FISSILE: bool> {
    fn table(&mut self) -> &mut Extended<FISSILE>;
}

impl Has<false> for Rows {
    fn table(&mut self) -> &mut Extended<false> {
        &mut self.extended
    }
}

impl Has<true> for Rows {
    fn table(&mut self) -> &mut Extended<true> {
        &mut self.fissile
    }
}

fn part(row: &ExtendedRow) -> Part {
    Part::Namespace { kind: kind_of(row.group), namespace: Arc::clone(&row.namespace) }
}

fn touched(row: &ExtendedRow) -> Touched {
    Touched::Extended { group: row.group, namespace: Arc::clone(&row.namespace), name: Arc::clone(&row.name) }
}
