//! What the status of a policy may say of the pods that leave.

use std::time::Duration;

use serde_json::Value;

use super::state::{Life, Policy, State, life_of_record, records};
use crate::truth::{BEHIND, Set, text};

/// Time is counted in whole seconds, and seen when it is written.
const SLACK: Duration = Duration::from_secs(5);
/// How long calls are taken back at most when a policy is deleted.
const RELEASES_FOR: Duration = Duration::from_mins(1);

/// A change of a status: what it was and is, and the set that it is about.
#[derive(Clone, Copy, Debug)]
pub struct Change<'c> {
    pub name: &'c str,
    pub before: &'c Value,
    pub after: &'c Value,
    /// The set as it is now.
    pub set: Option<&'c Set>,
    /// Whether the policy is on its way out.
    pub deleting: bool,
}

/// What is found in a change of a status.
#[derive(Debug, Default)]
pub struct Found {
    /// What is wrong.
    pub broken: Vec<String>,
    /// Those whom nobody has to call back any more.
    pub excused: Vec<Life>,
}

/// How the record of a pod has ended.
enum End {
    /// It has not, or the pod is called back, or gone.
    Well,
    /// The pod need not be called back.
    Excused,
    /// It was forgotten.
    Forgotten,
}

/// Looks at a change of a status; `policy` is as it was before.
pub fn of_change(state: &State, now: Duration, policy: &Policy, change: Change<'_>) -> Found {
    let Change { name, before, after, set, .. } = change;
    let mut found = Found::default();
    let broken = &mut found.broken;
    let is_same_set = |status: &Value| set.is_some_and(|set| status["target"]["uid"] == *set.uid);
    let is_under_way = |record: &&Value| record["phase"] != "Failed";
    let count = records(after, "leaving").filter(is_under_way).count() as u64;
    let most = policy.most.within(now, BEHIND).max().copied().unwrap_or(1);
    let find = |status: &'_ Value, ordinal: &Value| {
        records(status, "leaving").find(|record| record["ordinal"] == *ordinal).cloned()
    };
    let has_more = records(after, "leaving").any(|record| find(before, &record["ordinal"]).is_none());
    if has_more && count > most {
        broken.push(format!("leaving: {count} pods of {name} leave at once, and {most} may"));
    }
    for record in records(after, "leaving").filter(|record| record["deadlineExceeded"] == true) {
        let before = find(before, &record["ordinal"]);
        let was = before.as_ref().is_some_and(|before| before["deadlineExceeded"] == true);
        // With `Abort` the time in which the call is taken back begins with this very change.
        let begun = before.as_ref().and_then(|before| policy.begun(before)).or_else(|| policy.begun(record));
        let had = begun.map_or(Duration::ZERO, |begun| now.saturating_sub(begun));
        if !was && state.knows_time && had + SLACK < policy.deadline(now) {
            broken.push(format!(
                "deadline: {} has failed to leave by one of {} s after {} s",
                text(&record["podName"]),
                policy.deadline(now).as_secs(),
                had.as_secs()
            ));
        }
    }
    if !is_same_set(before) {
        // The pods of a set that is gone may belong to another one.
        found.excused.extend(records(before, "leaving").map(life_of_record));
        return found;
    }
    for record in records(before, "leaving") {
        let after = find(after, &record["ordinal"]);
        match of_end(state, now, policy, record, after.as_ref(), change.deleting) {
            End::Well => {}
            End::Excused => found.excused.push(life_of_record(record)),
            End::Forgotten => {
                let pod = text(&record["podName"]);
                broken.push(format!("cancel: {pod} was called, is to stay, and was not called back"));
            }
        }
    }
    let held = |status: &Value| status["heldReplicas"].as_u64();
    if let (Some(had), Some(has)) = (held(before), held(after))
        && is_same_set(after)
        && !change.deleting
    {
        let is_drained = |ordinal: u64| {
            find(before, &ordinal.into()).is_some_and(|record| record["phase"] == "Drained")
                || set.is_some_and(|set| state.lowered.contains(&(set.uid.clone(), ordinal)))
        };
        let lost: Vec<_> = (has..had).filter(|ordinal| !is_drained(*ordinal)).collect();
        if !lost.is_empty() {
            broken.push(format!(
                "foreign: {name} is held at {has} although somebody else has removed {lost:?} of {had} pods"
            ));
        }
    }
    found
}

/// How a record has ended that has ended, or is about another pod: one that was called and is to stay is called back.
fn of_end(
    state: &State,
    now: Duration,
    policy: &Policy,
    record: &Value,
    after: Option<&Value>,
    deleting: bool,
) -> End {
    let (pod, life) = (text(&record["podName"]), life_of_record(record));
    let was_cancelled = record["phase"] == "Cancelling";
    let goes_on = after.is_some_and(|after| {
        after["podUID"] == *life.uid
            && after["phase"] != "Failed"
            && (!was_cancelled || after["phase"] == "Cancelling")
    });
    let is_there = state.life(&pod, &life.uid) == Some(&life);
    let leaves = state.talk(&life).is_some_and(|talk| talk.leaves);
    if goes_on || !is_there || !leaves {
        return End::Well;
    }
    let has_changed = state.is_changed(&pod, &life.uid, now, state.behind);
    if has_changed || policy.may_have(now, |hook| hook["http"]["cancel"].is_null()) {
        return End::Excused;
    }
    let limit = if deleting { policy.deadline(now).min(RELEASES_FOR) } else { policy.deadline(now) };
    let had = policy.begun(record).map_or(Duration::ZERO, |begun| now.saturating_sub(begun));
    if was_cancelled && (!state.knows_time || had + SLACK >= limit) {
        return End::Excused;
    }
    End::Forgotten
}
