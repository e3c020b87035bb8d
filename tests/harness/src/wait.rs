//! Waiting for a condition, with a deadline that only bounds hanging.

use std::{fmt, future::Future, panic::Location, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};

/// Between two looks: short beside anything a cluster does, long beside a request to it.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The condition does not hold yet; carries what was seen instead.
///
/// Any error becomes one through `?`: what failed now may succeed at the next look.
#[derive(Debug)]
pub struct NotYet(String);

impl NotYet {
    /// What was seen instead of what is awaited.
    pub fn saw(seen: impl fmt::Debug) -> Self {
        Self(format!("{seen:?}"))
    }
}

impl<E: std::error::Error> From<E> for NotYet {
    fn from(error: E) -> Self {
        Self(format!("error: {error}"))
    }
}

/// The deadline passed first.
#[derive(Debug, thiserror::Error)]
#[error("waited {deadline:?} for {what}; last seen: {last_seen}")]
pub struct TimedOut {
    what: String,
    deadline: Duration,
    last_seen: String,
}

/// Looks until `look` succeeds.
///
/// # Panics
/// When the deadline passes; the message says what was awaited, where, and what was seen last.
#[track_caller]
pub fn until<T, F, L>(deadline: Duration, what: impl Into<String>, look: L) -> impl Future<Output = T>
where
    F: Future<Output = Result<T, NotYet>>,
    L: FnMut() -> F,
{
    let caller = Location::caller();
    let what = what.into();
    async move {
        match try_until(deadline, what, look).await {
            Ok(value) => value,
            #[expect(clippy::panic, reason = "a test waits here, and this is how it fails")]
            Err(timed_out) => panic!("{caller}: {timed_out}"),
        }
    }
}

/// Looks until `look` succeeds or the deadline passes.
pub async fn try_until<T, F, L>(
    deadline: Duration,
    what: impl Into<String>,
    mut look: L,
) -> Result<T, TimedOut>
where
    F: Future<Output = Result<T, NotYet>>,
    L: FnMut() -> F,
{
    let end = Instant::now() + deadline;
    let mut last_seen = "nothing, the first look did not end".to_owned();
    loop {
        match timeout_at(end, look()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(NotYet(seen))) if Instant::now() < end => last_seen = seen,
            Ok(Err(NotYet(last_seen))) => return Err(TimedOut { what: what.into(), deadline, last_seen }),
            Err(_) => return Err(TimedOut { what: what.into(), deadline, last_seen }),
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Looks until `look` has given the same twice, `quiet` apart.
pub async fn try_until_stable<T, F, L>(
    deadline: Duration,
    quiet: Duration,
    what: impl Into<String>,
    look: L,
) -> Result<T, TimedOut>
where
    T: PartialEq,
    F: Future<Output = Result<T, NotYet>>,
    L: Fn() -> F,
{
    try_until(deadline, what, || async {
        let before = look().await?;
        sleep(quiet).await;
        let after = look().await?;
        if before == after { Ok(after) } else { Err(NotYet::saw("it still changes")) }
    })
    .await
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
