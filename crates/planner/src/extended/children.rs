//! The sets of an object, each with its version and zone as it carries them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::extended::{ChildStatus, VersionStatus};
use sts_plus_api::keys;

use super::World;
use super::content::Content;
use super::row::ExtendedRow;
use super::zones::Zone;
use crate::health::{Health, Member};
use crate::set::{Child, SetRow};

/// A set of an object.
#[derive(Clone, Debug)]
pub struct Version<'w> {
    /// The set with its pods.
    pub member: &'w Member,
    /// What is written on it.
    pub child: &'w Child,
    /// The number of its version.
    pub number: u32,
    /// The hash of its content.
    pub hash: Option<Arc<str>>,
    /// The index of its zone, by its name; `None` for a set without a zone.
    pub zone: Option<u32>,
    /// Whether its name has the number of a version: it was made by BlueGreen.
    pub is_versioned: bool,
    pub health: Health,
}

impl<'w> Version<'w> {
    pub fn set(&self) -> &'w Arc<SetRow> {
        &self.member.set
    }

    pub fn has_ready_pod(&self) -> bool {
        self.member.pods.iter().any(|pod| pod.ready())
    }

    /// Whether it has this content.
    pub fn has(&self, hash: &str) -> bool {
        self.hash.as_deref() == Some(hash)
    }

    /// How many of its wanted pods have been Ready for so long.
    pub fn ready_for(&self, soak: SignedDuration, now: Timestamp) -> u32 {
        let settled = |since: Timestamp| since.saturating_add(soak).is_ok_and(|at| at <= now);
        let ready = self.member.pods.iter().filter(|pod| {
            self.member.wanted_ordinal(pod).is_some()
                && self.health.why_down(&pod.name).is_none()
                && (soak.is_zero() || pod.ready_since.is_some_and(settled))
        });
        u32::try_from(ready.count()).unwrap_or(u32::MAX)
    }

    /// When the next of its pods will have been Ready for so long.
    pub fn soaked_at(&self, soak: SignedDuration, now: Timestamp) -> Option<Timestamp> {
        let pods = self.member.pods.iter().filter(|pod| !pod.terminating);
        let at = pods.filter_map(|pod| pod.ready_since?.saturating_add(soak).ok());
        at.filter(|at| *at > now).min()
    }
}

/// The sets of an object.
#[derive(Clone, Debug)]
pub struct Versions<'w> {
    /// Those with a number, in no order.
    pub all: Vec<Version<'w>>,
    /// The names of those without a number, neither in their name nor in their annotation.
    pub unnumbered: Vec<Arc<str>>,
    /// The names of those that the object controls and that have lost its label.
    pub unlabelled: Vec<Arc<str>>,
    /// The numbers and hashes of those that are not adopted yet.
    pub orphaned: Vec<(u32, Option<Arc<str>>)>,
    /// Those with which cf-operator has created claims. They run nothing that is wanted.
    pub helpers: Vec<&'w Member>,
}

/// What the name of a set says. Labels and annotations can be edited; a name cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameParts {
    pub(super) zone: Option<u32>,
    version: Option<u32>,
}

impl NameParts {
    /// `None` for a name that no strategy gives.
    pub(super) fn of(object: &str, set: &str) -> Option<Self> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| number.to_string() == text);
        let rest = set.strip_prefix(object)?;
        let (rest, version) = match rest.rsplit_once("-v") {
            Some((rest, text)) => (rest, Some(number(text)?)),
            None => (rest, None),
        };
        let zone = match rest.strip_prefix("-z") {
            Some(text) => Some(number(text)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(Self { zone, version })
    }
}

/// Whether a set is one with which cf-operator has created claims: the object controls it, it is named like the claims, and it
/// has no version.
fn is_helper(row: &ExtendedRow, set: &SetRow) -> bool {
    let Some(child) = set.child.as_deref() else { return false };
    let infix = keys::STABLE_CLAIM_INFIX.trim_matches('-');
    let place = set.name.strip_prefix(infix).and_then(|rest| rest.strip_prefix('-'));
    let is_named =
        place.and_then(|place| NameParts::of(&row.name, place)).is_some_and(|parts| parts.version.is_none());
    is_named && child.owner == row.uid && child.version.is_none()
}

/// Whether a set is one of an object: it is controlled by it, or an object of its name has left it behind. A set that carries
/// the label alone may be anybody's; one that was left behind has the name and the record of a version as well.
pub fn belongs(row: &ExtendedRow, set: &SetRow) -> bool {
    let Some(child) = set.child.as_deref().filter(|child| child.group == row.group) else { return false };
    if !child.owner.is_empty() {
        return child.owner == row.uid;
    }
    let annotated = child.version.as_deref().and_then(|text| text.parse().ok());
    let parts = NameParts::of(&row.name, &set.name);
    let is_as_recorded = |parts: NameParts| parts.version.is_none_or(|version| annotated == Some(version));
    child.label.as_deref() == Some(&*row.name)
        && child.hash.is_some()
        && annotated.is_some()
        && parts.is_some_and(is_as_recorded)
}

impl<'w> Versions<'w> {
    /// Reads the sets.
    pub fn of(world: &'w World, now: Timestamp) -> Self {
        let mut versions = Self {
            all: Vec::new(),
            unnumbered: Vec::new(),
            unlabelled: Vec::new(),
            orphaned: Vec::new(),
            helpers: Vec::new(),
        };
        for member in &world.children {
            let Some(child) = member.set.child.as_deref() else { continue };
            if is_helper(&world.row, &member.set) {
                versions.helpers.push(member);
                continue;
            }
            if !child.is_of(&world.row) {
                let is_controlled = child.group == world.row.group && child.owner == world.row.uid;
                versions.unlabelled.extend(is_controlled.then(|| Arc::clone(&member.set.name)));
                let number = child.version.as_deref().filter(|_| child.owner.is_empty());
                let number = number.and_then(|text| text.parse().ok());
                versions.orphaned.extend(number.map(|number| (number, child.hash.clone())));
                continue;
            }
            let parts = NameParts::of(&world.row.name, &member.set.name);
            let annotated = || child.version.as_deref().and_then(|text| text.parse::<u32>().ok());
            // A set of ours by its name that has lost an annotation is as the status remembers it.
            let recorded = || {
                let is_here = |version: &&VersionStatus| {
                    version.zones.iter().any(|set| *set.stateful_set == *member.set.name)
                };
                parts?;
                world.row.status.versions.iter().find(is_here)
            };
            let number = parts.and_then(|parts| parts.version).or_else(annotated);
            let number = number.or_else(|| recorded().map(|version| version.number));
            let Some(number) = number.filter(|number| *number > 0) else {
                versions.unnumbered.push(Arc::clone(&member.set.name));
                continue;
            };
            let labelled = || child.zone_name.as_ref().and(child.zone_index.as_deref())?.parse().ok();
            versions.all.push(Version {
                member,
                child,
                number,
                hash: child.hash.clone().or_else(|| {
                    let hash = recorded().map(|version| &*version.hash).filter(|hash| !hash.is_empty());
                    hash.map(Arc::from)
                }),
                zone: parts.map_or_else(labelled, |parts| parts.zone),
                is_versioned: parts.is_some_and(|parts| parts.version.is_some()),
                health: Health::of(member, now),
            });
        }
        versions.unnumbered.sort();
        versions
    }

    pub fn named(&self, name: &str) -> Option<&Version<'w>> {
        self.all.iter().find(|version| *version.set().name == *name)
    }

    /// Those of a zone.
    pub fn of_zone<'s>(&'s self, zone: &Zone) -> impl Iterator<Item = &'s Version<'w>> {
        let index = zone.name.as_ref().map(|_| zone.index);
        self.all.iter().filter(move |version| version.zone == index)
    }

    /// The number of the version with this content: the one that the status has, else that of a set, and otherwise one more
    /// than there ever was, since a number that was used for other content may still be in the names of pods.
    pub fn number_of(&self, world: &World, content: &Content) -> u32 {
        let status = &world.row.status;
        let all = || {
            let versions = self.all.iter().map(|version| (version.number, version.hash.as_deref()));
            versions.chain(self.orphaned.iter().map(|(number, hash)| (*number, hash.as_deref())))
        };
        let numbers = || all().filter(|(_, hash)| *hash == Some(&*content.hash)).map(|(number, _)| number);
        let of_status = || {
            let is_same = status.update_hash.as_deref() == Some(&*content.hash);
            let number = is_same.then_some(status.update_version).flatten()?;
            // Unless a set of this content has another number, or a set of this number another content.
            let is_free = numbers().next().is_none() && all().all(|(known, _)| known != number);
            (is_free || numbers().any(|known| known == number)).then_some(number)
        };
        let recorded = status.update_version.into_iter().chain(status.latest_version);
        let highest = all().map(|(number, _)| number).chain(recorded).max();
        of_status().or_else(|| numbers().max()).unwrap_or_else(|| highest.unwrap_or(0).saturating_add(1))
    }

    /// The versions as the status lists them.
    pub fn status(
        &self,
        (promoted, retiring): (&[Arc<str>], &BTreeSet<Arc<str>>),
        written_generation: impl Fn(&SetRow) -> Option<i64>,
    ) -> Vec<VersionStatus> {
        let mut listed: Vec<VersionStatus> = Vec::new();
        for version in &self.all {
            let hash = version.hash.as_deref().unwrap_or_default().to_owned();
            let found = listed.iter_mut().find(|known| known.number == version.number && known.hash == hash);
            let ready = version.ready_for(SignedDuration::ZERO, Timestamp::UNIX_EPOCH);
            let child = ChildStatus {
                index: version.zone.unwrap_or(0),
                stateful_set: version.set().name.to_string(),
                uid: version.set().uid.to_string(),
                written_generation: written_generation(version.set()),
                ordinals: ordinals(version.set()),
                ready_replicas: ready,
                promoted: promoted.contains(&version.set().name),
                retiring: retiring.contains(&version.set().name),
            };
            match found {
                Some(known) => {
                    known.running |= ready > 0;
                    known.zones.push(child);
                }
                None => listed.push(VersionStatus {
                    number: version.number,
                    hash,
                    running: ready > 0,
                    zones: vec![child],
                }),
            }
        }
        for version in &mut listed {
            version.zones.sort_by(|left, right| {
                left.index.cmp(&right.index).then_with(|| left.stateful_set.cmp(&right.stateful_set))
            });
        }
        listed.sort_by(|left, right| left.number.cmp(&right.number).then_with(|| left.hash.cmp(&right.hash)));
        listed
    }
}

fn ordinals(set: &SetRow) -> String {
    ordinals_of(&set.ordinals())
}

/// Ordinals as they are shown, such as `0-2`.
pub(super) fn ordinals_of(range: &Range<u32>) -> String {
    match (range.start, range.end.checked_sub(1)) {
        (_, None) => String::new(),
        (first, Some(last)) if last < first => String::new(),
        (first, Some(last)) if last == first => first.to_string(),
        (first, Some(last)) => format!("{first}-{last}"),
    }
}
