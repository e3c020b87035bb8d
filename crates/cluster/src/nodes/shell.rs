//! The thin shell around a pure keeper: it feeds in what was seen, wakes on time, and makes the writes.
//!
//! Each key has one lane: one write at a time, the next decided when it is answered. A write whose echo has not
//! come back through the watch would be decided a second time; the lane recognises it and holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::Client;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::call::Call;
use super::watch::Key;
use crate::clock::{Clock, Moment};

/// Writes under way at once. Enough to keep a small API server busy, few enough for its connection limits.
const MAX_WRITES_IN_FLIGHT: usize = 64;
/// Events that may wait to be taken; beyond it the watch is read more slowly.
pub(super) const MAX_WAITING_EVENTS: usize = 1024;
/// How long an answered write may stay unseen before it is made again, for one that was undone unseen. Longer than
/// a watch lags behind on an overloaded machine, where more writes are the last thing to help.
const ECHO_DEADLINE: Duration = Duration::from_secs(30);
/// Wait after the first failed write of a key; each further failure doubles it.
const RETRY_FIRST: Duration = Duration::from_millis(20);
/// The longest wait between two attempts, short enough for a server that restarts within a test.
const RETRY_MOST: Duration = Duration::from_secs(5);
/// Consecutive failures after which a key is worth a warning; before that they are ordinary races.
const FAILURES_BEFORE_WARNING: u32 = 5;

/// What is to be done for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next<W> {
    /// Make this write, then ask again.
    Write(W),
    /// Ask again at this moment, or when something has been seen.
    Wait(Moment),
    /// Ask again when something has been seen.
    Rest,
    /// There is no such object any more.
    Forget,
}

/// What decides: rows in, decisions and calls out, no input or output of its own.
pub(super) trait Keeper {
    /// What it can be told.
    type Input;
    /// What it decides.
    type Write: Clone + PartialEq + Debug;

    /// Takes in what was seen and names the keys that it may change something for.
    fn take(&mut self, input: Self::Input, now: Moment) -> Vec<Key>;
    /// What to do for a key now.
    fn next(&self, key: &Key, now: Moment) -> Next<Self::Write>;
    /// The calls that make up a write, which is now made.
    fn perform(&mut self, key: &Key, write: &Self::Write, now: Moment) -> Vec<Call>;
    /// What has to be asked for a key now, beside all writes; the answers are taken in like anything seen.
    fn ask(&mut self, _key: &Key, _now: Moment) -> Vec<BoxFuture<'static, Self::Input>> {
        Vec::new()
    }
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("cannot build the request for {path}: {source}")]
    Build { path: String, source: http::Error },
    #[error("{method} {path}: {source}")]
    Refused { method: http::Method, path: String, source: kube::Error },
}

impl CallError {
    /// Whether there is nothing of that name.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, CallError::Refused { source: kube::Error::Api(status), .. } if status.reason == "NotFound")
    }

    /// How long the server asks to be left alone.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Refused { source: kube::Error::Api(status), .. } => {
                let seconds = status.details.as_ref()?.retry_after_seconds;
                (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
            }
            _ => None,
        }
    }
}

/// Makes calls one after the other; what exists already counts as created.
pub(super) async fn make(client: &Client, calls: &[Call]) -> Result<(), CallError> {
    for call in calls {
        let request =
            call.request().map_err(|source| CallError::Build { path: call.path.clone(), source })?;
        match client.request_text(request).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(source) => {
                return Err(CallError::Refused {
                    method: call.method.clone(),
                    path: call.path.clone(),
                    source,
                });
            }
        }
    }
    Ok(())
}

/// The wait before attempt `failures + 1`.
pub(super) fn retry_pause(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    RETRY_FIRST.saturating_mul(doubled).min(RETRY_MOST)
}

/// One key's writes.
struct Lane<W> {
    queued: bool,
    in_flight: bool,
    /// The last write that was answered, until the watch has shown it, with the moment up to which to believe in it.
    unseen: Option<(W, Moment)>,
    failures: u32,
    /// Not to be tried before this.
    retry_at: Moment,
    alarm: Option<Moment>,
}

impl<W> Default for Lane<W> {
    fn default() -> Self {
        Lane {
            queued: false,
            in_flight: false,
            unseen: None,
            failures: 0,
            retry_at: Moment::ZERO,
            alarm: None,
        }
    }
}

/// An answered write.
struct Answer<W> {
    key: Key,
    write: W,
    result: Result<(), CallError>,
}

/// Drives a keeper.
pub(super) struct Shell<K: Keeper> {
    keeper: K,
    client: Client,
    clock: Clock,
    lanes: BTreeMap<Key, Lane<K::Write>>,
    due: VecDeque<Key>,
    alarms: BTreeSet<(Moment, Key)>,
    writes: FuturesUnordered<BoxFuture<'static, Answer<K::Write>>>,
    questions: FuturesUnordered<BoxFuture<'static, K::Input>>,
}

impl<K> Shell<K>
where
    K: Keeper,
    K::Write: Send + 'static,
{
    pub(super) fn new(keeper: K, client: Client, clock: Clock) -> Self {
        Shell {
            keeper,
            client,
            clock,
            lanes: BTreeMap::new(),
            due: VecDeque::new(),
            alarms: BTreeSet::new(),
            writes: FuturesUnordered::new(),
            questions: FuturesUnordered::new(),
        }
    }

    /// Works until nobody tells it anything any more.
    pub(super) async fn run(mut self, mut inputs: mpsc::Receiver<K::Input>) {
        loop {
            while self.writes.len() < MAX_WRITES_IN_FLIGHT {
                let Some(key) = self.due.pop_front() else { break };
                self.decide(key);
            }
            let alarm = self.alarms.first().map(|(moment, _)| *moment);
            tokio::select! {
                biased;
                Some(answer) = self.writes.next() => self.answered(answer),
                input = inputs.recv() => match input {
                    Some(input) => self.take(input),
                    None => return,
                },
                Some(answer) = self.questions.next() => self.take(answer),
                () = tokio::time::sleep_until(self.clock.instant(alarm.unwrap_or_default())), if alarm.is_some() => {
                    self.ring();
                }
            }
        }
    }

    fn take(&mut self, input: K::Input) {
        for key in self.keeper.take(input, self.clock.now()) {
            self.queue(key);
        }
    }

    fn queue(&mut self, key: Key) {
        let lane = self.lanes.entry(key.clone()).or_default();
        if !lane.queued && !lane.in_flight {
            lane.queued = true;
            self.due.push_back(key);
        }
    }

    fn ring(&mut self) {
        let now = self.clock.now();
        while self.alarms.first().is_some_and(|(moment, _)| *moment <= now) {
            let Some((_, key)) = self.alarms.pop_first() else {
                return;
            };
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.alarm = None;
            }
            self.queue(key);
        }
    }

    fn decide(&mut self, key: Key) {
        let now = self.clock.now();
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        lane.queued = false;
        if let Some(alarm) = lane.alarm.take() {
            self.alarms.remove(&(alarm, key.clone()));
        }
        self.questions.extend(self.keeper.ask(&key, now));
        let next = self.keeper.next(&key, now);
        let wake = match (&next, &lane.unseen) {
            (Next::Forget, _) => {
                self.lanes.remove(&key);
                return;
            }
            (Next::Write(_), _) if now < lane.retry_at => Some(lane.retry_at),
            (Next::Write(write), Some((made, until))) if write == made && now < *until => Some(*until),
            (Next::Write(write), _) => {
                let write = write.clone();
                lane.unseen = None;
                lane.in_flight = true;
                self.start(key, write, now);
                return;
            }
            (Next::Wait(moment), _) => Some(*moment),
            (Next::Rest, _) => None,
        };
        if !matches!(next, Next::Write(_)) {
            lane.unseen = None;
        }
        if let Some(wake) = wake {
            lane.alarm = Some(wake);
            self.alarms.insert((wake, key));
        }
    }

    fn start(&mut self, key: Key, write: K::Write, now: Moment) {
        let calls = self.keeper.perform(&key, &write, now);
        let client = self.client.clone();
        self.writes.push(Box::pin(async move {
            let result = make(&client, &calls).await;
            Answer { key, write, result }
        }));
    }

    fn answered(&mut self, answer: Answer<K::Write>) {
        let Answer { key, write, result } = answer;
        let now = self.clock.now();
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.in_flight = false;
            match result {
                Ok(()) => {
                    lane.failures = 0;
                    lane.unseen = Some((write, now + ECHO_DEADLINE));
                }
                Err(error) => {
                    lane.failures = lane.failures.saturating_add(1);
                    let pause = retry_pause(lane.failures);
                    lane.retry_at = now + error.retry_after().map_or(pause, |asked| asked.max(pause));
                    if lane.failures >= FAILURES_BEFORE_WARNING {
                        warn!(%error, failures = lane.failures, "a write keeps failing");
                    } else {
                        debug!(%error, "a write failed");
                    }
                }
            }
        }
        self.queue(key);
    }
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
