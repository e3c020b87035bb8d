//! Fields that somebody else writes although they are ours: how often they are restored, and when the next time is.

use jiff::{SignedDuration, Timestamp};
use sts_plus_api::phased_rollout::Contest;

/// Foreign writes that are undone at once: the first ones may be a person, or a tool that does not know us yet.
const CONTEST_FREE: i32 = 5;

/// The first wait before a foreign write is undone again, doubled with each.
const CONTEST_DELAY: SignedDuration = SignedDuration::from_secs(1);

/// The longest such wait: the workload is not held meanwhile, so that it must not be long.
const CONTEST_MAX_DELAY: SignedDuration = SignedDuration::from_secs(60);

/// A contest is over when nobody has written for so long.
const CONTEST_MEMORY: SignedDuration = SignedDuration::from_mins(10);

/// A contest that is not over. A time that is yet to come was written by a clock that ran ahead.
pub(crate) fn recent(contest: Option<&Contest>, now: Timestamp) -> Option<Contest> {
    contest.filter(|contest| contest.last_time <= now && forgotten_at(contest.last_time) > now).cloned()
}

/// When a contest is over whose last write was reverted at this time.
pub(crate) fn forgotten_at(last: Timestamp) -> Timestamp {
    later(last, CONTEST_MEMORY)
}

/// Until when a contested field is left alone.
pub(crate) fn rests_until(contest: &Contest, now: Timestamp) -> Option<Timestamp> {
    let beyond = u32::try_from(contest.times.checked_sub(CONTEST_FREE)?).ok()?;
    let delay = CONTEST_DELAY.checked_mul(2_i32.saturating_pow(beyond)).unwrap_or(CONTEST_MAX_DELAY);
    let delay = delay.min(CONTEST_MAX_DELAY);
    Some(later(contest.last_time, delay)).filter(|until| *until > now)
}

/// The contest after another foreign write was reverted.
pub(crate) fn again(contest: Option<&Contest>, manager: String, now: Timestamp) -> Contest {
    let times = contest.map_or(0, |contest| contest.times).saturating_add(1);
    Contest { manager, times, last_time: now }
}

fn later(time: Timestamp, wait: SignedDuration) -> Timestamp {
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
