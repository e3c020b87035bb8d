//! What is said about each set: the reason for its state, since when, and its pods by revision.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use sts_plus_api::keys;
use sts_plus_api::rollout_status::RolloutStatus;

use super::zone::Zone;
use super::{OBSERVATION_GRACE, Turn, World};
use crate::amount::DEFAULT_MAX_UNAVAILABLE;
use crate::disruption::{Denial, Disturbance, MAX_MEMBERS};
use crate::health::Why;
use crate::plan::{Action, Note};
use crate::reason::{Budget, Reason, Refusal, sentence};
use crate::set::SetRow;

/// What is said about one set.
#[derive(Clone, Debug)]
pub struct Report {
    pub set: Arc<SetRow>,
    /// The revision its pods shall have.
    pub target: Option<Box<str>>,
    /// Why it is where it is.
    pub reason: Reason,
    /// Since when it has been there.
    pub since: Timestamp,
    /// Whether the state differs from the one written on the set.
    pub transition: Transition,
    /// Faults in what the user wrote.
    pub warnings: Vec<Warning>,
    /// Its pods by revision, the target first.
    pub pods: Vec<Tally>,
    /// What is down, in words; empty when nothing is.
    pub down: String,
    /// What the annotation should say.
    pub status: RolloutStatus,
    /// Whether the annotation says so already.
    pub is_written: bool,
}

/// How a state relates to the one that is written on the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It is the same.
    None,
    /// It is another one, or the set has none yet.
    Changed,
    /// It is another one, too young to be worth telling.
    Unsettled,
    /// Nothing was written yet and nothing is the matter: noted, but not announced.
    FirstSight,
}

/// Pods of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The revision; `None` for pods without the label.
    pub revision: Option<Arc<str>>,
    /// How many pods there are.
    pub pods: u32,
    /// How many of them serve.
    pub ready: u32,
}

/// A fault in what the user wrote on a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The annotation for the budget cannot be used.
    BadMaxUnavailable { value: Box<str> },
    /// Another set selects the same pods.
    SelectorOverlap {
        /// That set.
        other: Arc<str>,
    },
    /// The state, or the current revision, cannot be written on the set. The rollout does not depend on it.
    WriteRefused {
        /// What the server said.
        refusal: Refusal,
    },
    /// The state cannot be removed from a set that has left its group.
    ReleaseRefused {
        /// What the server said.
        refusal: Refusal,
    },
}

impl Warning {
    /// The kind of warning in one word: the reason of the event.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::BadMaxUnavailable { .. } => "InvalidMaxUnavailable",
            Self::SelectorOverlap { .. } => "SelectorOverlap",
            Self::WriteRefused { .. } | Self::ReleaseRefused { .. } => Reason::WRITE_REFUSED,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadMaxUnavailable { value } => write!(
                f,
                "The annotation {} is {:?}, which is neither a positive number nor a percentage from 1% to 100%: {} is used.",
                keys::MAX_UNAVAILABLE,
                shorten(value),
                DEFAULT_MAX_UNAVAILABLE
            ),
            Self::SelectorOverlap { other } => write!(
                f,
                "The selector also matches the pods of {other}. Pods count for the set that controls them."
            ),
            Self::WriteRefused { refusal } => {
                f.write_str(&sentence(format!(
                    "The state cannot be written on the set, and the rollout does not depend on it: {refusal}"
                )))
            }
            Self::ReleaseRefused { refusal } => f.write_str(&sentence(format!(
                "The set has left its rollout group, and the annotation {} cannot be removed from it: {refusal}",
                keys::ROLLOUT_STATUS
            ))),
        }
    }
}

/// A hostile annotation may be 256 KiB long; a message holds this many characters of it.
const QUOTED_CHARACTERS: usize = 64;

fn shorten(value: &str) -> String {
    match value.char_indices().nth(QUOTED_CHARACTERS) {
        Some((end, _)) => format!("{}...", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}

impl Report {
    pub(super) fn of(
        zone: &Zone<'_>,
        zones: &[Zone<'_>],
        (turn, deletions): (&Turn, &[Action]),
        world: &World,
        now: Timestamp,
    ) -> Self {
        let set = &zone.member.set;
        let reason = reason(zone, zones, (turn, deletions), world);
        let says_so = |status: &&RolloutStatus| {
            status.group == *world.group
                && status.state == reason.kind()
                && status.subject.as_deref() == reason.subject()
        };
        let same = zone.told.as_ref().filter(says_so);
        let is_written = zone.written.iter().any(|status| says_so(&status));
        let unobserved = match &reason {
            Reason::NotObserved { .. } => Some(&set.uid),
            Reason::OtherSetDisturbed { set, disturbance: Disturbance::Unobserved { .. } } => {
                zones.iter().find(|other| other.name() == set).map(|other| &other.member.set.uid)
            }
            _ => None,
        };
        let since = match (unobserved, same) {
            (_, Some(same)) => same.since,
            (Some(uid), None) => world.unobserved_since.get(uid).copied().unwrap_or(now),
            // Whole seconds, as Kubernetes writes times: this one is for people.
            _ => Timestamp::from_second(now.as_second()).unwrap_or(now),
        };
        let observed_soon =
            || since.saturating_add(OBSERVATION_GRACE).is_ok_and(|grace_ends| now < grace_ends);
        let transition = match (&reason, same, &zone.told) {
            (_, Some(_), _) => Transition::None,
            _ if unobserved.is_some() && observed_soon() => Transition::Unsettled,
            (Reason::UpToDate { .. }, None, None) => Transition::FirstSight,
            _ => Transition::Changed,
        };
        // A state keeps the words that it began with, so that what is due stays the same until it is written.
        let status = same.cloned().unwrap_or_else(|| RolloutStatus {
            group: world.group.to_string(),
            state: reason.kind().to_owned(),
            subject: reason.subject().map(str::to_owned),
            message: reason.to_string(),
            release: reason.release(),
            since,
        });
        Self {
            set: Arc::clone(set),
            target: zone.target.map(Into::into),
            since,
            transition,
            warnings: warnings(zone, world),
            pods: tally(zone),
            down: zone.health.summary(),
            reason,
            status,
            is_written,
        }
    }

    /// Reports the state, if it is another one than before.
    pub(super) fn note(&self) -> Option<Note> {
        let (severity, kind, message) = (self.reason.severity(), self.reason.kind(), self.reason.to_string());
        (self.transition == Transition::Changed).then(|| Note::of_set(&self.set, severity, kind, message))
    }

    /// Writes the state on the set, if that is due.
    pub(super) fn write(&self) -> Option<Action> {
        let due = self.transition != Transition::Unsettled && !self.is_written;
        let value = serde_json::to_string(&self.status).ok().filter(|_| due)?;
        Some(Action::annotate(&self.set, keys::ROLLOUT_STATUS, Some(&value), keys::MANAGER_ROLLOUT_GROUP))
    }
}

fn reason(
    zone: &Zone<'_>,
    zones: &[Zone<'_>],
    (turn, deletions): (&Turn, &[Action]),
    world: &World,
) -> Reason {
    if let Turn::Skipped(reason) = turn {
        return reason.clone();
    }
    if zone.member.set.deleting {
        return Reason::Deleting;
    }
    if zone.paused {
        return Reason::Paused;
    }
    let Some(target) = zone.target else {
        return Reason::NotObserved { generation: zone.member.set.generation };
    };
    let revision: Arc<str> = target.into();
    if zone.unfinished() {
        // Whosesoever turn it is: a dead pod is deleted outside of it as well.
        if zone.has_deletion(deletions)
            && let Some(blocked) = blocked(zone, world)
        {
            return blocked;
        }
        return match turn {
            Turn::Rolling { set, moves, denied } if set == zone.name() => {
                rolling(zone, revision, *moves, denied.as_ref())
            }
            Turn::HeldUpBy(set) if set == zone.name() => rolling(zone, revision, false, None),
            _ => waiting(zone, zones, turn),
        };
    }
    let group_has_work = zones.iter().any(Zone::unfinished);
    if group_has_work && !zone.health.all_ready() {
        return Reason::NotReady { down: zone.health.summary() };
    }
    Reason::UpToDate { revision }
}

/// Why a pod of the set that may be deleted now is not deleted.
fn blocked(zone: &Zone<'_>, world: &World) -> Option<Reason> {
    let unconfirmed = world.unconfirmed.as_ref().map(|why| Reason::ViewUnconfirmed { why: Arc::clone(why) });
    let refusal = world.memory.refused.get(&zone.member.set.uid).cloned();
    unconfirmed.or_else(|| refusal.map(|refusal| Reason::WriteRefused { refusal }))
}

/// What a denial is for a set of a rollout group.
fn denied_for(denial: &Denial) -> Reason {
    match denial {
        Denial::TooManySets { sets, .. } => Reason::TooManySets { sets: *sets, limit: MAX_MEMBERS },
        Denial::OtherSetNotReady { health, .. } => Reason::other_set_not_ready(health),
        Denial::OtherSetDisturbed { set, disturbance } => {
            Reason::OtherSetDisturbed { set: Arc::clone(&set.name), disturbance: disturbance.clone() }
        }
        Denial::OtherSetPermitted { set, .. } => Reason::WaitingForTurn { set: Arc::clone(&set.name) },
        Denial::BudgetSpent { health, max_unavailable, .. } => {
            Reason::BudgetSpent { down: health.summary(), budget: Budget::MaxUnavailable(*max_unavailable) }
        }
        Denial::Leaving { pod, .. } => Reason::PodLeaving { pod: pod.clone() },
        Denial::NotInDomain { set } => Reason::NotInDomain { set: Arc::clone(&set.name) },
    }
}

/// The state of the set whose turn it is.
fn rolling(zone: &Zone<'_>, revision: Arc<str>, moves: bool, denied: Option<&Denial>) -> Reason {
    if moves {
        return Reason::Rolling { revision };
    }
    if let Some(denial @ (Denial::OtherSetNotReady { .. } | Denial::OtherSetDisturbed { .. })) = denied {
        return denied_for(denial);
    }
    let down_pods = || zone.member.pods.iter().filter_map(|pod| Some((pod, zone.why_down(pod)?)));
    let of_target = |pod_revision: Option<&str>| pod_revision == Some(&*revision);
    // A crash loop runs for a moment at each restart; that alone is no news.
    let told_broken = zone
        .told
        .as_ref()
        .is_some_and(|told| told.state == Reason::POD_BROKEN && told.subject.as_deref() == Some(&*revision));
    let new_pod_broken = down_pods()
        .filter(|(pod, _)| of_target(pod.revision.as_deref()))
        .any(|(_, why)| matches!(why, Why::Broken(_)) || (told_broken && matches!(why, Why::NotReady)));
    if new_pod_broken {
        return Reason::PodBroken { revision, down: zone.health.summary() };
    }
    // An outdated pod that is down without being on its way out was not taken down by this rollout.
    let lost_otherwise = down_pods().any(|(pod, _)| !of_target(pod.revision.as_deref()) && !pod.terminating);
    match denied {
        Some(denial @ Denial::BudgetSpent { .. }) if lost_otherwise => denied_for(denial),
        _ => Reason::Rolling { revision },
    }
}

/// The state of a set with outdated pods whose turn it is not.
fn waiting(zone: &Zone<'_>, zones: &[Zone<'_>], turn: &Turn) -> Reason {
    let not_ready = |name: &Arc<str>| {
        let other = zones.iter().find(|other| other.name() == name && other.name() != zone.name());
        other.map(|other| Reason::other_set_not_ready(other.health))
    };
    let own = || Reason::NotReady { down: zone.health.summary() };
    let rolls = |name: &Arc<str>| {
        zones.iter().any(|other| other.name() == name && (other.unfinished() || other.target.is_none()))
    };
    match turn {
        Turn::HeldUpBy(set) if rolls(set) => Reason::WaitingForTurn { set: Arc::clone(set) },
        Turn::HeldUpBy(set) => not_ready(set).unwrap_or_else(own),
        Turn::Rolling { denied: Some(Denial::OtherSetNotReady { set, .. }), .. } => {
            not_ready(&set.name).unwrap_or_else(own)
        }
        Turn::Rolling { set, .. } => Reason::WaitingForTurn { set: Arc::clone(set) },
        Turn::Nobody | Turn::Skipped(_) => own(),
    }
}

fn warnings(zone: &Zone<'_>, world: &World) -> Vec<Warning> {
    let bad_budget = zone.bad_max_unavailable.map(|value| Warning::BadMaxUnavailable { value: value.into() });
    let overlaps = world
        .overlaps
        .iter()
        .filter(|overlap| overlap.set == *zone.name())
        .map(|overlap| Warning::SelectorOverlap { other: Arc::clone(&overlap.other) });
    let refusal = world.memory.uninformed.get(&zone.member.set.uid).cloned();
    let refused = refusal.map(|refusal| Warning::WriteRefused { refusal });
    bad_budget.into_iter().chain(overlaps).chain(refused).collect()
}

fn tally(zone: &Zone<'_>) -> Vec<Tally> {
    let mut by_revision: BTreeMap<Option<Arc<str>>, (u32, u32)> = BTreeMap::new();
    for pod in &zone.member.pods {
        let (pods, ready) = by_revision.entry(pod.revision.clone()).or_default();
        *pods += 1;
        *ready += u32::from(zone.why_down(pod).is_none());
    }
    let mut tallies: Vec<_> =
        by_revision.into_iter().map(|(revision, (pods, ready))| Tally { revision, pods, ready }).collect();
    tallies.sort_by_key(|tally| tally.revision.as_deref() != zone.target);
    tallies
}
