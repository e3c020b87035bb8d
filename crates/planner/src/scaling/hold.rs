//! Holding the replicas: whatever somebody else lowers without the hook of the pods is restored.

use serde_json::Value;
use sts_plus_api::keys;
use sts_plus_api::scaling_policy::{RecordPhase, Removal, ScalingPolicyStatus};

use super::moves::Moves;
use super::record::later;
use super::situation::{Ending, Scene};
use super::wait::Wait;
use crate::contest;
use crate::plan::{Action, Ask, object_of};
use crate::reason::Severity;

/// Removals that the status keeps.
const MAX_REMOVALS: usize = 20;

/// Within this time the same removal is not recorded again: its restoration may have met a conflict.
const SAME_REMOVAL: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// What is said where the other writer of the replicas cannot be told.
const UNKNOWN_MANAGER: &str = "somebody";

/// Whether the replicas are what was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Yes,
    /// Somebody has lowered them, and nothing else is done until they are restored.
    Lowered,
}

/// Accepts the replicas that the set has, or restores those that were held.
pub(super) fn hold(scene: &Scene<'_>, moves: &mut Moves) -> Held {
    let replicas = scene.replicas();
    let recent = contest::recent(moves.status.contest.as_ref(), scene.now);
    if let Some(contest) = &recent {
        moves.wake(contest::forgotten_at(contest.last_time));
    }
    moves.status.contest.clone_from(&recent);
    let held = scene.held().unwrap_or(replicas);
    let missing = || (replicas..held).map(|index| scene.ordinal(index));
    let is_drained = |ordinal: &u32| {
        let mut leaving = scene.world.row.status.leaving.iter();
        leaving.any(|record| record.ordinal == *ordinal && record.phase == RecordPhase::Drained)
    };
    let drained = scene.world.row.status.leaving.len();
    let may_be_ours = usize::try_from(held.saturating_sub(replicas)).is_ok_and(|missing| missing <= drained);
    if scene.ending == Ending::Release || may_be_ours && missing().all(|ordinal| is_drained(&ordinal)) {
        moves.status.held_replicas = Some(replicas);
        return Held::Yes;
    }
    if let Some((contest, until)) =
        recent.as_ref().and_then(|contest| Some((contest, contest::rests_until(contest, scene.now)?)))
    {
        moves.wake(until);
        moves.waits.push(Wait::Contested { manager: contest.manager.clone(), held, until });
        return Held::Lowered;
    }
    let set = object_of(scene.set());
    let found = scene.world.reads.get(&set).and_then(Option::as_ref);
    if found.is_none() && scene.world.hooked.is_empty() {
        moves.asks.push(Ask::Read(set));
    }
    let by = found.and_then(writer).unwrap_or_else(|| UNKNOWN_MANAGER.to_owned());
    let lost: Vec<u32> = missing().filter(|ordinal| !is_drained(ordinal)).take(MAX_REMOVALS).collect();
    let is_news = record(&mut moves.status, &lost, &by, scene.now);
    moves.status.contest = Some(contest::again(recent.as_ref(), by.clone(), scene.now));
    moves.wake(contest::forgotten_at(scene.now));
    let named: Vec<_> = lost.iter().take(3).map(|ordinal| scene.pod_name(*ordinal)).collect();
    let named = match lost.len().saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    };
    if is_news {
        let message = format!(
            "{by} has set replicas to {replicas}, which removes {named} without the hook. They are restored to {held}. Change spec.replicas of the ScalingPolicy instead."
        );
        moves.note(scene, Severity::Warning, "RemovedWithoutDrain", message);
    }
    moves.set_write = Some(Action::scale(scene.set(), held));
    moves.waits.push(Wait::Restoring { by, pods: named, held });
    Held::Lowered
}

/// Records pods that somebody removes; whether any of them is news.
fn record(status: &mut ScalingPolicyStatus, lost: &[u32], by: &str, now: jiff::Timestamp) -> bool {
    let known = std::mem::take(&mut status.removed_without_drain);
    let is_known = |ordinal: u32| {
        let is_it = |removal: &Removal| {
            removal.ordinal == ordinal && removal.time <= now && later(removal.time, SAME_REMOVAL) > now
        };
        known.iter().any(is_it)
    };
    let news: Vec<_> = lost.iter().filter(|ordinal| !is_known(**ordinal)).collect();
    let is_news = !news.is_empty();
    let news = news.into_iter().map(|ordinal| Removal { ordinal: *ordinal, time: now, by: by.to_owned() });
    let mut all: Vec<_> = known.iter().cloned().chain(news).collect();
    let surplus = all.len().saturating_sub(MAX_REMOVALS);
    all.drain(..surplus);
    status.removed_without_drain = all;
    is_news
}

/// Who else has written the replicas of a set, also through its scale subresource.
fn writer(set: &Value) -> Option<String> {
    let entries = set.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let is_foreign = |entry: &&Value| {
        let is_status = entry.get("subresource").is_some_and(|subresource| subresource == "status");
        text(entry, "manager").as_deref() != Some(keys::MANAGER_SCALING) && !is_status
    };
    let owns = |entry: &&Value| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some();
    let foreign = || entries.iter().filter(is_foreign);
    let latest = |entry: &&Value| text(entry, "time");
    let owner = foreign().filter(owns).max_by_key(latest);
    owner.or_else(|| foreign().max_by_key(latest)).and_then(|entry| text(entry, "manager"))
}
